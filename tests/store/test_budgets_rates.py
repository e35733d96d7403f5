"""Durable rate limits."""

import asyncio

import pytest

from core.store import rates
from core.store.engine import Database
from tests.fakes import ManualClock

KEY = "person:7:ask"


async def take(database: Database, key: str = KEY, cost_s: float = 10, burst_s: float = 30) -> float | None:
    async with database.transaction() as tx:
        return await rates.take(tx, key, cost_s, burst_s)


async def test_three_at_once_pass_and_the_fourth_waits(database: Database) -> None:
    waits = [await take(database) for _ in range(4)]
    assert waits[:3] == [None, None, None]
    assert waits[3] is not None and 9 < waits[3] <= 10


async def test_after_the_wait_one_more_passes(database: Database, clock: ManualClock) -> None:
    for _ in range(3):
        await take(database)
    wait_s = await take(database)
    assert wait_s is not None
    await clock.advance(wait_s)
    again = [await take(database) for _ in range(2)]
    assert again[0] is None and again[1] is not None


async def test_a_refusal_costs_nothing(database: Database) -> None:
    for _ in range(3):
        await take(database)
    first, last = [await take(database) for _ in range(20)][::19]
    assert first is not None and last is not None and last <= first


async def test_keys_do_not_know_each_other(database: Database) -> None:
    for _ in range(4):
        await take(database)
    assert await take(database, "person:8:ask") is None


async def test_a_turn_given_back_can_be_taken_again(database: Database) -> None:
    for _ in range(3):
        await take(database)
    async with database.transaction() as tx:
        await rates.give_back(tx, KEY, 10)
    assert [await take(database), await take(database) is None] == [None, False]


async def test_a_turn_of_a_transaction_that_fails_was_not_taken(database: Database) -> None:
    for _ in range(3):
        with pytest.raises(RuntimeError):
            async with database.transaction() as tx:
                await rates.take(tx, KEY, 10, 10)
                raise RuntimeError
    assert await take(database, KEY, 10, 10) is None


async def test_a_burst_below_the_cost_lets_one_through(database: Database) -> None:
    waits = [await take(database, KEY, 10, 1) for _ in range(2)]
    assert waits[0] is None and waits[1] is not None and 9 < waits[1] <= 10


@pytest.mark.parametrize("cost_s", [0, -1])
async def test_a_turn_without_cost_is_a_mistake(database: Database, cost_s: float) -> None:
    with pytest.raises(ValueError, match="cost"):
        await take(database, KEY, cost_s)


async def test_twenty_at_once_get_three_turns(database: Database) -> None:
    waits = await asyncio.gather(*(take(database) for _ in range(20)))
    assert waits.count(None) == 3
    assert all(wait is None or wait > 0 for wait in waits)


async def test_sweeping_keeps_limiters_that_are_busy(database: Database, clock: ManualClock) -> None:
    await take(database, "old")
    await clock.advance(60)
    for _ in range(3):
        await take(database)
    async with database.transaction() as tx:
        assert await rates.sweep(tx) == 1
    assert await take(database) is not None
