"""Kill -9 while an answer grows before people's eyes: one message, with the whole text in the end."""

import pytest

from tests.crash.child import answer_to
from tests.crash.platform import Behaviour, Platform
from tests.crash.processes import Forks, world

POINTS = [
    ("early F.written", 1),
    ("early F.committed", 1),
    ("send.called", 1),
    ("send.arrived", 1),
    ("early G.committed", 1),
    ("edit.called", 1),
    ("edit.arrived", 1),
    ("model.answered", 1),
    ("E.written", 1),
    ("E.committed", 1),
    ("F.committed", 1),
    ("G.written", 1),
    ("G.committed", 1),
]
CANNOT_BE_KNOWN = [("early F.committed", 0), ("send.called", 0), ("send.arrived", 1)]
LONG = pytest.mark.long
# Where the platform has a part, `tests/platform` kills whole bots with the real front ends each day.
WITH_THE_PLATFORM = {"early F.committed", "send.called", "send.arrived", "edit.called", "edit.arrived"}


@pytest.mark.field("F035")
@pytest.mark.parametrize(
    ("point", "nth"), [pytest.param(*each, marks=LONG if each[0] in WITH_THE_PLATFORM else ()) for each in POINTS]
)
async def test_a_growing_answer_whose_process_was_killed_ends_whole(
    forks: Forks, fresh_dsn: str, point: str, nth: int
) -> None:
    async with world(forks, fresh_dsn, Platform(Behaviour.DISCORD)) as here:
        token = here.platform.ask()
        await here.die_at(point, nth, streams=True)
        await here.later()
        await here.finish(streams=True)
        assert await here.states() == ["sent"]
        assert here.answered_once(token)


@pytest.mark.parametrize(
    ("point", "behaviour"),
    [
        ("early F.committed", Behaviour.TERMINAL),
        ("send.arrived", Behaviour.DISCORD),
        pytest.param("early F.committed", Behaviour.DISCORD, marks=LONG),
        pytest.param("send.arrived", Behaviour.TERMINAL, marks=LONG),
    ],
)
async def test_first_words_become_the_whole_answer_also_where_the_next_process_does_not_stream(
    forks: Forks, fresh_dsn: str, point: str, behaviour: Behaviour
) -> None:
    async with world(forks, fresh_dsn, Platform(behaviour)) as here:
        token = here.platform.ask()
        await here.die_at(point, streams=True)
        await here.later()
        await here.finish(streams=False)
        assert await here.states() == ["sent"]
        assert here.answered_once(token)


async def test_first_words_that_are_too_old_to_fold_are_found_and_completed(forks: Forks, fresh_dsn: str) -> None:
    async with world(forks, fresh_dsn, Platform(Behaviour.DISCORD)) as here:
        token = here.platform.ask()
        await here.die_at("send.arrived", streams=True)
        await here.later(600)
        await here.finish(streams=True)
        assert await here.states() == ["sent"]
        assert here.answered_once(token)


@pytest.mark.field("F035")
@pytest.mark.parametrize(
    ("point", "arrived"), [pytest.param(*each, marks=() if each[1] else LONG) for each in CANNOT_BE_KNOWN]
)
async def test_first_words_in_doubt_are_never_sent_again_where_nothing_folds(
    forks: Forks, fresh_dsn: str, point: str, arrived: int
) -> None:
    async with world(forks, fresh_dsn, Platform(Behaviour.TELEGRAM)) as here:
        token = here.platform.ask()
        await here.die_at(point, streams=True)
        await here.later()
        await here.finish(streams=True)
        assert await here.states() == ["unknown"]
        assert len(here.platform.answers(token)) == arrived
        assert here.platform.sends == arrived


async def test_first_words_that_arrived_for_certain_are_edited_where_nothing_folds(
    forks: Forks, fresh_dsn: str
) -> None:
    async with world(forks, fresh_dsn, Platform(Behaviour.TELEGRAM)) as here:
        token = here.platform.ask()
        await here.die_at("early G.committed", streams=True)
        await here.later()
        await here.finish(streams=True)
        assert await here.states() == ["sent"]
        assert here.platform.answers(token) == [answer_to(token)]
