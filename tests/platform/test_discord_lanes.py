"""Lanes of work: what loses to other work is done again, in its order."""

import asyncio

import pytest

from bot.adapters.discord_lanes import Lanes
from core.domain.errors import BotError, Conflict, Refused, Unavailable


class Work:
    """Work that fails with each of some errors in turn and then leaves its name."""

    def __init__(self, name: str, done: list[str], *errors: BotError) -> None:
        self.name, self.done, self.errors = name, done, list(errors)

    async def __call__(self) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.done.append(self.name)


@pytest.mark.parametrize(
    ("error", "reason"), [(Conflict("database: lost"), "conflict"), (Unavailable("store: down"), "store_down")]
)
async def test_what_may_pass_is_done_again_before_what_follows(error: BotError, reason: str) -> None:
    done: list[str] = []
    async with asyncio.timeout(10), Lanes() as lanes:
        lanes.put("room", Work("first", done, error))
        lanes.put("room", Work("second", done))
    assert done == ["first", "second"] and lanes.counts == {reason: 1}


async def test_who_waits_for_work_waits_until_it_has_won() -> None:
    done: list[str] = []
    async with asyncio.timeout(10), Lanes() as lanes:
        await lanes.through("room", Work("it", done, Conflict("database: lost")))
        assert done == ["it"]


async def test_what_is_refused_is_counted_and_left() -> None:
    done: list[str] = []
    async with asyncio.timeout(10), Lanes() as lanes:
        await lanes.through("room", Work("it", done, Refused("room: closed")))
    assert not done and lanes.counts == {"refused": 1}
