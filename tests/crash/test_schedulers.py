"""Schedulers that race: each slot begins one run, however many processes plan it at the same moment."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from core.domain.archiving import ROOMS_ALONE
from core.domain.passes import PassName, PassPolicy
from core.passes.planning import MOOD_EVERY, Planner
from core.passes.scheduler import Scheduler
from core.store import places
from core.store.engine import Database
from tests.crash.mind_child import TICKED
from tests.crash.processes import PATIENCE_S, Forks
from tests.fakes import ManualClock
from tests.flows.line import until

MINDS, TICKS, PROCESSES = 10, 30, 4
MOOD_ALONE = {"rumination": "off", "sleep": "off"}
OVER = "update voidbot.pass_runs set state = 'finished' where state = 'ready' and pass = 'mood'"
BEGUN = """
select (select count(*) from voidbot.pass_runs where pass = 'mood') as rows,
  (select count(distinct (mind_id, slot)) from voidbot.pass_runs where pass = 'mood' and state = 'finished') as runs,
  (select count(*) from queue.job where kind = 'pass' and payload ->> 'name' = 'mood')
    + (select count(*) from queue.later where kind = 'pass' and payload ->> 'name' = 'mood') as jobs
"""


async def settle(database: Database) -> None:
    """Make communities, each with a mind of its own."""
    async with database.transaction() as tx:
        for n in range(MINDS):
            await places.add_community(tx, "console", f"home{n}", f"Home {n}")


async def begun(connection: "asyncpg.Connection[asyncpg.Record]") -> Sequence[int]:
    """Return how many rows there are, how many slots have begun a run, and how many jobs were queued for them."""
    row = await connection.fetchrow(BEGUN)
    assert row is not None
    return tuple(row)


async def test_two_schedulers_begin_each_slot_once(fresh_dsn: str) -> None:
    first, second = await Database.open(fresh_dsn, size=2), await Database.open(fresh_dsn, size=2)
    connection = await asyncpg.connect(fresh_dsn)
    try:
        await settle(first)
        clock = ManualClock(first)
        policy = PassPolicy(on=frozenset({PassName.MOOD}))
        schedulers = [
            Scheduler(each, clock, planner=Planner(policy=policy, archive=ROOMS_ALONE)) for each in (first, second)
        ]
        await clock.advance(next_tick(clock.now()).total_seconds())
        for _ in range(4):
            await asyncio.gather(*(each.plan() for each in schedulers))
            await connection.execute(OVER)
            await clock.advance(MOOD_EVERY.total_seconds())
        assert await begun(connection) == (4 * MINDS,) * 3
    finally:
        await connection.close()
        await first.close()
        await second.close()


@pytest.mark.long
async def test_four_scheduler_processes_begin_three_hundred_slots_three_hundred_times(
    minded: Forks, fresh_dsn: str, database: Database
) -> None:
    await settle(database)
    connection = await asyncpg.connect(fresh_dsn)
    ticked: list[str] = []
    await connection.add_listener(TICKED, lambda *args: ticked.append(str(args)))
    pids = [minded.start(dsn=fresh_dsn, plans=True, passes=MOOD_ALONE) for _ in range(PROCESSES)]
    try:
        await until(lambda: planning(connection), PATIENCE_S)
        base = datetime.now(UTC) + next_tick(datetime.now(UTC))  # noqa: TID251  # the processes' clocks are real
        for n in range(1, TICKS + 1):
            await connection.execute("update voidbot_test.clock set shift = $1 - now()", base + n * MOOD_EVERY)
            await until(lambda n=n: len(ticked) == n * PROCESSES, PATIENCE_S)
            await connection.execute(OVER)
        assert await begun(connection) == (MINDS * TICKS,) * 3
    finally:
        for pid in pids:
            minded.end(pid)
        await connection.close()


async def planning(connection: "asyncpg.Connection[asyncpg.Record]") -> bool:
    """Whether every process looks at the clock."""
    seen = await connection.fetchval(
        "select count(*) from pg_stat_activity where datname = current_database() and query = $1"
        " and pid <> pg_backend_pid()",
        "select shift from voidbot_test.clock",
    )
    return bool(seen == PROCESSES)


def next_tick(now: datetime) -> timedelta:
    """Return how long it is to half a minute after the next slot begins, so that none begins by itself meanwhile."""
    every = int(MOOD_EVERY.total_seconds())
    return timedelta(seconds=every - int(now.timestamp()) % every + 30)
