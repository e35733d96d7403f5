"""A crash of the database server after each transaction: what was durable is there, the rest is repeated."""

import pytest

from tests.crash.child import answer_to
from tests.crash.platform import Behaviour, Platform
from tests.crash.processes import LEFT, PATIENCE_S, Forks
from tests.crash.servers import Server, ask_in_the_end
from tests.flows.line import until

# The letter after which the server crashes, and what must be there as soon as it is up again.
LETTERS = [
    ("A.committed", "select count(*) = 1 from voidbot.turns"),
    ("hold.before", "select count(*) = 1 from voidbot.turns"),  # B
    ("C.committed", "select count(*) = 1 from voidbot.turns"),
    ("E.committed", "select count(*) = 1 from voidbot.outbox where body <> ''"),
    ("F.committed", "select count(*) = 1 from voidbot.outbox where body <> ''"),
    ("G.committed", "select count(*) = 1 from voidbot.outbox where body <> ''"),
    ("early F.committed", "select count(*) = 1 from voidbot.outbox_parts where state = 'sending'"),
]


async def crash_at(own: Server, forks: Forks, platform: Platform, point: str, kept: str) -> str:
    """Crash the server at a point of the line, start it again, let the same process finish; return the address."""
    dsn, postmaster = await own.clone(), own.postmaster
    order = {"act": "crash", "postmaster": postmaster, "streams": point.startswith("early")}
    with forks.living(dsn, platform, point=point, **order):
        await own.gone(postmaster)
        await own.start_again()
        assert await ask_in_the_end(dsn, kept)

        async def through() -> bool:
            return not platform.pending and await ask_in_the_end(dsn, LEFT) == 0

        await until(through, PATIENCE_S)
    return dsn


@pytest.mark.parametrize(("point", "kept"), LETTERS)
async def test_a_crashed_server_loses_and_doubles_nothing_where_repeats_fold(
    own: Server, forks: Forks, point: str, kept: str
) -> None:
    async with Platform(Behaviour.DISCORD) as platform:
        token = platform.ask()
        dsn = await crash_at(own, forks, platform, point, kept)
        assert platform.answers(token) == [answer_to(token)]
        assert len(platform.messages) == 1
        assert await ask_in_the_end(dsn, "select array_agg(state) = '{sent}' from voidbot.outbox")


@pytest.mark.parametrize("point", ["F.committed", "G.committed"])
async def test_a_crashed_server_sends_nothing_twice_where_nothing_folds(own: Server, forks: Forks, point: str) -> None:
    async with Platform(Behaviour.TELEGRAM) as platform:
        token = platform.ask()
        dsn = await crash_at(own, forks, platform, point, "select count(*) = 1 from voidbot.outbox_parts")
        assert len(platform.answers(token)) == platform.sends == 1
        assert await ask_in_the_end(dsn, "select state in ('sent', 'unknown') from voidbot.outbox")
