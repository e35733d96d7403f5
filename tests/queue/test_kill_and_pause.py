"""Q3 and Q7: workers that are killed, paused past their lease, or live in another time; and slots started once."""

import asyncio
import random
import signal

import pytest

from core.store.engine import Database
from tests.queue.harness import at_work, until, value, worker
from tests.queue.history import add_backlog, check, drained, install, recorded_kind
from tests.queue.processes import Children

DEAD_AFTER_S = 1.0


async def drain_and_check(database: Database) -> None:
    async with at_work(worker(database, recorded_kind(database), dead_after_s=DEAD_AFTER_S, poll_s=0.2)):
        await until(lambda: drained(database), within_s=90.0)
    await check(database)


async def torment(database: Database, dsn: str, forks: Children, seed: int, rounds: int) -> None:
    """Kill a worker, or stop one for less or more than its lease, and go on; always three of them."""
    draw = random.Random(seed)
    for _ in range(rounds):
        while len(forks.alive) < 3:
            await forks.spawn("work", dsn, dead_after_s=DEAD_AFTER_S)
        await add_backlog(database, lanes=5, each=2)
        victim = draw.choice(sorted(forks.alive))
        match draw.choice(["kill", "short pause", "long pause"]):
            case "kill":
                forks.signal(victim, signal.SIGKILL)
                await forks.ended(victim)
            case pause:
                forks.signal(victim, signal.SIGSTOP)
                await asyncio.sleep(DEAD_AFTER_S * (0.4 if pause == "short pause" else 1.5))
                forks.signal(victim, signal.SIGCONT)
    for pid in sorted(forks.alive):
        forks.signal(pid, signal.SIGKILL)
        await forks.ended(pid)


async def test_kill_and_pause(database: Database, fresh_dsn: str, forks: Children) -> None:
    await install(database)
    await torment(database, fresh_dsn, forks, seed=5, rounds=9)
    await drain_and_check(database)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
async def test_kill_and_pause_for_long(database: Database, fresh_dsn: str, forks: Children, seed: int) -> None:
    await install(database)
    await torment(database, fresh_dsn, forks, seed, rounds=120)
    await drain_and_check(database)


async def test_clock_skew(database: Database, fresh_dsn: str, forks: Children) -> None:
    await install(database)
    await add_backlog(database, lanes=6, each=6)
    for skew_s in (-600.0, 0.0, 600.0):
        await forks.spawn("work", fresh_dsn, skew_s=skew_s, dead_after_s=5.0)
    await until(lambda: drained(database), within_s=60.0)
    await check(database)
    # Nobody took anything away from a worker that lives in another time.
    lost = "select count(*) from voidbot_test.history where what = 'grant'"
    starts = "select count(*) from voidbot_test.history where what = 'start'"
    assert await value(database, lost) == await value(database, starts)


async def test_slots_once(database: Database, fresh_dsn: str, forks: Children) -> None:
    await install(database)
    pids = [await forks.spawn("enqueue", fresh_dsn, slots=300) for _ in range(4)]
    assert [await forks.ended(pid) for pid in pids] == [0] * 4
    assert await value(database, "select count(*) from queue.job") == 300
    assert await value(database, "select count(*) from queue.key where scope = 3") == 300
