"""Kill -9 at every point of the line: the next process loses no answer and gives none twice."""

import pytest

from tests.crash.platform import Behaviour, Platform
from tests.crash.processes import Forks, world

# Every point up to the durable draft; the platform has no part in them.
BEFORE_SENDING = [
    ("A.written", 1),
    ("A.committed", 1),
    ("ack.called", 1),
    ("cycle.before", 1),
    ("hold.before", 1),  # after B: claimed, nothing done
    ("C.written", 1),
    ("C.committed", 1),
    ("model.called", 1),
    ("model.answered", 1),
    ("E.written", 1),
    ("settle.after", 1),
    ("E.committed", 1),
    ("hold.before", 3),  # after B of the send job
]
SENDING = ["F.written", "F.committed", "send.called", "send.arrived", "G.written", "G.committed"]
# `tests/platform` kills whole bots with the real front ends at the same points each day: there the platforms differ.
# Here one of each kind is enough each day, and all of them in long runs.
LONG = pytest.mark.long
KNOWN = """
select count(*) = 1 and bool_and(e.body->>'outcome' = x.state) from voidbot.outbox x
left join voidbot.state_entries e on e.type = 'receipt' and e.entry_id = 'receipt:' || x.id"""
"""Whether the mind has one receipt of the one answer, as the outbox has it."""
CANNOT_BE_KNOWN = {"F.committed", "send.called", "send.arrived", "G.written"}
ARRIVED = {"send.arrived", "G.written", "G.committed"}


@pytest.mark.field("F035")
@pytest.mark.parametrize(("point", "nth"), BEFORE_SENDING)
async def test_a_process_killed_before_it_sends_loses_and_doubles_nothing(
    forks: Forks, fresh_dsn: str, point: str, nth: int
) -> None:
    async with world(forks, fresh_dsn, Platform(Behaviour.TELEGRAM)) as here:
        token = here.platform.ask()
        await here.die_at(point, nth)
        await here.later()
        await here.finish()
        assert await here.states() == ["sent"]
        assert here.answered_once(token)


@pytest.mark.field("F035")
@pytest.mark.parametrize("behaviour", [Behaviour.TERMINAL, pytest.param(Behaviour.DISCORD, marks=LONG)])
@pytest.mark.parametrize("point", SENDING)
async def test_a_process_killed_while_sending_is_repeated_where_repeats_fold(
    forks: Forks, fresh_dsn: str, point: str, behaviour: Behaviour
) -> None:
    async with world(forks, fresh_dsn, Platform(behaviour)) as here:
        token = here.platform.ask()
        await here.die_at(point)
        await here.later()
        await here.finish()
        assert await here.states() == ["sent"]
        assert await here.value(KNOWN)
        assert here.answered_once(token)


@pytest.mark.parametrize(
    "point", ["F.written", pytest.param("F.committed", marks=LONG), pytest.param("send.arrived", marks=LONG)]
)
async def test_history_decides_when_the_nonce_is_too_old_to_fold(forks: Forks, fresh_dsn: str, point: str) -> None:
    async with world(forks, fresh_dsn, Platform(Behaviour.DISCORD)) as here:
        token = here.platform.ask()
        await here.die_at(point)
        await here.later(600)
        await here.finish()
        assert await here.states() == ["sent"]
        assert here.answered_once(token)


@pytest.mark.field("F035")
@pytest.mark.parametrize(
    "point", [pytest.param(each, marks=() if each in ("F.written", "send.arrived") else LONG) for each in SENDING]
)
async def test_where_nothing_folds_only_the_ambiguous_points_are_unknown(
    forks: Forks, fresh_dsn: str, point: str
) -> None:
    async with world(forks, fresh_dsn, Platform(Behaviour.TELEGRAM)) as here:
        token = here.platform.ask()
        await here.die_at(point)
        await here.later()
        await here.finish()
        unknown = point in CANNOT_BE_KNOWN
        assert await here.states() == ["unknown" if unknown else "sent"]
        assert await here.value(KNOWN)
        assert len(here.platform.answers(token)) == (point in ARRIVED if unknown else 1)
        assert here.platform.sends <= 1


@pytest.mark.parametrize("behaviour", [Behaviour.DISCORD, Behaviour.TELEGRAM])
@pytest.mark.parametrize(
    "point", ["G.committed", pytest.param("send.called", marks=LONG), pytest.param("send.arrived", marks=LONG)]
)
async def test_parts_that_arrived_are_never_repeated(
    forks: Forks, fresh_dsn: str, point: str, behaviour: Behaviour
) -> None:
    async with world(forks, fresh_dsn, Platform(behaviour)) as here:
        here.platform.ask()
        await here.die_at(point, 1 if point == "G.committed" else 2, limit=30)
        await here.later()
        await here.finish(limit=30)
        texts = [message.text for message in here.platform.messages]
        if behaviour is Behaviour.TELEGRAM:
            assert await here.states() == ["unknown"]
            assert len(texts) == len(set(texts))
            assert "part 2" in texts[-1].lower()
        else:
            assert await here.states() == ["sent"]
            assert "".join(texts) == "About q1 there is this to say.\nIt has a second side too.\nThat was all."


async def test_a_room_paused_after_the_crash_gets_an_honest_end_and_nothing_more(forks: Forks, fresh_dsn: str) -> None:
    async with world(forks, fresh_dsn, Platform(Behaviour.DISCORD)) as here:
        here.platform.ask()
        await here.die_at("send.called", limit=60)
        await here.connection.execute("update voidbot.rooms set paused = true")
        await here.later()
        await here.finish(limit=60)
        (message,) = here.platform.messages
        assert message.text.startswith("(")
        assert await here.value("select array_agg(state order by n) = '{sent,dropped}' from voidbot.outbox_parts")


async def test_parts_left_over_when_a_room_is_paused_are_never_sent(forks: Forks, fresh_dsn: str) -> None:
    async with world(forks, fresh_dsn, Platform(Behaviour.DISCORD)) as here:
        here.platform.ask()
        await here.die_at("send.called", 2, limit=30)
        await here.connection.execute("update voidbot.rooms set paused = true")
        await here.later()
        await here.finish(limit=30)
        assert len(here.platform.messages) == 1
        parts = "select array_agg(state order by n) = '{sent,unknown,dropped}' from voidbot.outbox_parts"
        assert await here.value(parts)
