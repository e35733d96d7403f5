"""Many at once, and killed at every point: never above the limit, and the books agree."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.domain.budgets import CallResult, Draw, Scope, Unit, Window
from core.domain.errors import BudgetRefused
from core.store import budgets
from core.store.budgets import Settled, SettleOutcome
from core.store.engine import Database, Tx
from tests.fakes import ManualClock
from tests.store.budget_cases import World, new_world

OVER = """
select count(*) from voidbot.purse_windows w join voidbot.purses p on p.id = w.purse_id
 where w.spent + w.held > case w.subject when 'passes' then floor(p.limit_amount * 0.3) else p.limit_amount end
"""

WAITING = "select count(*) from pg_catalog.pg_locks where not granted"


@pytest.fixture
async def crowd(fresh_dsn: str) -> AsyncIterator[World]:
    """A world with 25 connections and ten people."""
    database = await Database.open(fresh_dsn, size=25)
    yield await new_world(database, ManualClock(database), people=10)
    await database.close()


async def watched_reserve(world: World, draw: Draw, job_id: int) -> int | None:
    """Reserve and count, in the same transaction, the windows above their limit; None if refused."""
    try:
        async with world.database.transaction() as tx:
            held = await budgets.reserve(tx, draw, job_id=job_id, attempt=1, timeout_s=90, now=world.clock.now())
            assert await tx.fetchval(OVER) == 0
    except BudgetRefused:
        return None
    return held.id


async def test_budget_race(crowd: World) -> None:
    await crowd.limit(Scope.PERSON, "", Unit.ANSWERS, 4)
    await crowd.limit(Scope.ROOM, "", Unit.TOKENS, 1_700, Window.HOUR)
    await crowd.limit(Scope.DEPLOYMENT, "", Unit.USD_MICRO, 30_500)
    draws = [crowd.draw(n % 10, n % 2) if n % 5 else crowd.unattended("sleep") for n in range(50)]
    ids = await asyncio.gather(*(watched_reserve(crowd, draw, n) for n, draw in enumerate(draws)))
    chat = [n for n, held in enumerate(ids) if held and n % 5]
    passes = [n for n, held in enumerate(ids) if held and not n % 5]
    assert len(passes) <= 9 and len(chat) + len(passes) == 30
    assert await crowd.state("deployment", Unit.USD_MICRO) == (30_000, 0)
    assert await crowd.wrong() == []


async def test_a_race_for_one_window_that_nobody_has_opened_grants_exactly_the_limit(crowd: World) -> None:
    await crowd.limit(Scope.PERSON, "", Unit.ANSWERS, 7)
    ids = await asyncio.gather(*(watched_reserve(crowd, crowd.draw(), n) for n in range(50)))
    assert len([held for held in ids if held]) == 7


async def test_refused_ones_in_a_race_leave_nothing_in_wider_purses(crowd: World) -> None:
    await crowd.limit(Scope.COMMUNITY, "", Unit.TOKENS, 1_000)
    await asyncio.gather(*(watched_reserve(crowd, crowd.draw(n % 10, n % 2), n) for n in range(50)))
    assert await crowd.state("community", Unit.ANSWERS) == (10, 0)
    assert await crowd.state("deployment", Unit.USD_MICRO) == (10_000, 0)


# Whole lives of calls beside each other

END = st.sampled_from(["ok", "failed", "free", "twice", "release", "late", "never"])
CALL = st.tuples(st.integers(0, 2), st.integers(0, 1), st.booleans(), st.integers(1, 400), END)


async def live(world: World, job_id: int, call: tuple[int, int, bool, int, str]) -> None:
    person, room, unattended, amount, end = call
    draw = world.unattended("sleep", usd_micro=amount) if unattended else world.draw(person, room, usd_micro=amount)
    held = await watched_reserve(world, draw, job_id)
    if held is None or end == "never":
        return
    if end == "release":
        async with world.database.transaction() as tx:
            await budgets.release(tx, held)
        return
    if end == "late":
        async with world.database.transaction() as tx:
            await tx.execute("update voidbot.reservations set expires_at = voidbot.now() where id = $1", held)
            await budgets.expire(tx)
    result = CallResult.OK if end in ("ok", "twice") else CallResult.FAILED
    cost = world.cost(result=result, tokens=0 if end == "free" else 60, usd_micro=0 if end == "free" else amount // 2)
    await asyncio.gather(*(world.settle(held, cost) for _ in range(2 if end == "twice" else 1)))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(CALL, min_size=2, max_size=12))
async def test_interleaved_calls_never_pass_a_limit_and_keep_the_books(
    crowd: World, calls: list[tuple[int, int, bool, int, str]]
) -> None:
    async with crowd.database.transaction() as tx:
        await tx.execute("truncate voidbot.purse_windows, voidbot.reservations, voidbot.usage")
    await crowd.limit(Scope.PERSON, "", Unit.ANSWERS, 3)
    await crowd.limit(Scope.ROOM, "", Unit.TOKENS, 500)
    await crowd.limit(Scope.DEPLOYMENT, "", Unit.USD_MICRO, 1_000)
    await asyncio.gather(*(live(crowd, n, call) for n, call in enumerate(calls)))
    assert await crowd.wrong() == []
    async with crowd.database.transaction() as tx:
        assert await tx.fetchval(OVER) == 0


# Two transactions, one behind the other


async def behind(
    world: World, first: Callable[[Tx], Awaitable[object]], second: Callable[[Tx], Awaitable[object]]
) -> object:
    """Run `second` so that it waits for a lock that `first` holds; return what it gave after `first` committed."""

    async def follow() -> object:
        async with world.database.transaction() as tx:
            return await second(tx)

    async def waits() -> None:
        async with world.database.transaction() as tx:
            while not await tx.fetchval(WAITING):
                await asyncio.sleep(0.005)

    async with asyncio.TaskGroup() as group:
        lead = await world.database.connect()
        try:
            await lead.execute("begin")
            await first(Tx(lead, [], lambda in_s: None))
            follower = group.create_task(follow())
            await asyncio.wait_for(waits(), 10)
            await lead.execute("commit")
        finally:
            await lead.close()
    return follower.result()


async def test_a_settlement_that_waits_for_the_expiry_corrects_it(crowd: World) -> None:
    held = await crowd.reserve(crowd.draw(), timeout_s=-100)
    await behind(crowd, budgets.expire, lambda tx: budgets.settle_usage(tx, held.id, crowd.cost()))
    assert (await crowd.state("community", Unit.TOKENS), await crowd.wrong()) == ((0, 60), [])


async def test_a_settlement_that_waits_for_another_finds_it_done(crowd: World) -> None:
    held = await crowd.reserve(crowd.draw())

    async def settle(tx: Tx) -> Settled:
        return await budgets.settle_usage(tx, held.id, crowd.cost())

    assert await behind(crowd, settle, settle) == Settled(SettleOutcome.ALREADY)
    assert await crowd.state("community", Unit.TOKENS) == (0, 60)


async def test_a_lost_call_settled_twice_at_once_is_booked_once(crowd: World) -> None:
    async def settle(tx: Tx) -> Settled:
        return await budgets.settle_usage(tx, 2**61, crowd.cost())

    assert await behind(crowd, settle, settle) == Settled(SettleOutcome.ALREADY)
    assert await crowd.state("community", Unit.TOKENS) == (0, 60)


async def test_a_reservation_that_waits_for_the_last_answer_is_refused_and_leaves_nothing(crowd: World) -> None:
    await crowd.limit(Scope.PERSON, "", Unit.ANSWERS, 1)

    async def reserve(tx: Tx) -> object:
        try:
            return await budgets.reserve(tx, crowd.draw(), job_id=1, attempt=1, timeout_s=90, now=crowd.clock.now())
        except BudgetRefused as refused:
            return refused.scope, refused.used, refused.limit

    assert await behind(crowd, reserve, reserve) == ("person", 1, 1)
    assert (await crowd.state("community", Unit.ANSWERS), await crowd.wrong()) == ((1, 0), [])


async def test_the_expiry_passes_by_a_reservation_that_is_being_settled(crowd: World) -> None:
    held = await crowd.reserve(crowd.draw(), timeout_s=-100)
    async with crowd.database.transaction() as tx:
        await tx.fetchval("select id from voidbot.reservations where id = $1 for update", held.id)
        other = await crowd.database.connect()
        try:
            assert await budgets.expire(Tx(other, [], lambda in_s: None)) == []
        finally:
            await other.close()


# Killed


async def test_killed_at_any_point_the_books_agree(database: Database, clock: ManualClock, fresh_dsn: str) -> None:
    world = await new_world(database, clock)
    ids = (world.person_ids[0], world.room_ids[0], world.community_id)
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.store.budget_child", fresh_dsn, *map(str, ids), clock.now().isoformat()),
        cwd=Path(__file__).parents[2],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert child.stdin is not None and child.stdout is not None
    points, answer = 0, "killed"
    try:
        while answer.startswith("killed"):
            child.stdin.write(b"\n")
            answer = (await child.stdout.readline()).decode().strip()
            assert await world.wrong() == []
            points += 1
    finally:
        child.stdin.close()
        await child.wait()
    assert (answer, points > 35) == ("finished", True)
    await clock.advance(300)
    async with database.transaction() as tx:
        await budgets.expire(tx)
    assert (await world.state("community", Unit.TOKENS))[0] == 0
    assert await world.wrong() == []
