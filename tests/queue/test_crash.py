"""Q2: the process ends at every point before and after each act; the answer is lost at every one of them."""

import asyncio
import random
import signal

import pytest

from core.domain.errors import Unavailable
from core.domain.jobs import KeyScope
from core.store import jobs
from core.store.engine import Database
from tests.queue.child import CRASHED
from tests.queue.harness import at_work, put, until, value, worker
from tests.queue.history import add, add_backlog, check, drained, install, recorded, recorded_kind
from tests.queue.processes import Children, Proxy

WORKER_POINTS = [
    "register.before",
    "register.after",
    "cycle.before",
    "cycle.after",
    "beat.before",
    "beat.after",
    "tick.before",
    "tick.due",
    "tick.waiting",
    "tick.after",
    "hold.before",
    "hold.after",
    "settle.before",
    "settle.after",
    "commit.before",
    "commit.after",
]
# The point before each act on the database at which the proxy loses the answer.
ANSWERS = ["cycle.before", "beat.before", "tick.before", "tick.due", "tick.waiting", "hold.before", "commit.before"]


async def drain_and_check(database: Database) -> None:
    async with at_work(worker(database, recorded_kind(database), dead_after_s=1.0, poll_s=0.2)):
        await until(lambda: drained(database), within_s=60.0)
    await check(database)


async def test_crash_at_every_point(database: Database, fresh_dsn: str, forks: Children) -> None:
    await install(database)
    await add_backlog(database, lanes=6, each=8)
    for nth, point in enumerate(WORKER_POINTS):
        await add_backlog(database, lanes=4, each=2)
        hits = 1 if point.startswith("register") else 1 + nth % 2
        pid = await forks.spawn("work", fresh_dsn, fault=f"{point}:{hits}")
        assert await forks.ended(pid) == CRASHED, point
    await drain_and_check(database)


async def test_crash_of_whoever_enqueues_starts_every_slot_once(
    database: Database, fresh_dsn: str, forks: Children
) -> None:
    await install(database)
    for fault in ("enqueue.before:4", "enqueue.after:8", "enqueue.committed:12"):
        pid = await forks.spawn("enqueue", fresh_dsn, slots=20, fault=fault)
        assert await forks.ended(pid) == CRASHED
    assert await forks.ended(await forks.spawn("enqueue", fresh_dsn, slots=20)) == 0
    assert await value(database, "select count(*) from queue.job") == 20
    await drain_and_check(database)


async def test_crash_of_whoever_cancels_leaves_each_job_whole(
    database: Database, fresh_dsn: str, forks: Children
) -> None:
    await install(database)
    async with database.transaction() as tx:
        ids = await add(tx, [recorded(f"lane:{n % 3}", key=f"k{n}", scope=KeyScope.LIVE) for n in range(9)])
    for fault in ("cancel.before:2", "cancel.after:5"):
        pid = await forks.spawn("cancel", fresh_dsn, ids=ids[:6], fault=fault)
        assert await forks.ended(pid) == CRASHED
    await drain_and_check(database)
    assert await value(database, "select count(*) from queue.done where outcome = 'cancelled'") == 5


async def test_a_crash_at_the_last_words_says_them_once(database: Database, fresh_dsn: str, forks: Children) -> None:
    await install(database)
    for point in ("bury.before", "bury.after"):
        [job_id] = await put(database, recorded(f"lane:{point}", first="discard"))
        pid = await forks.spawn("work", fresh_dsn, fault=f"{point}:1")
        assert await forks.ended(pid) == CRASHED
        pid = await forks.spawn("work", fresh_dsn)
        await until(lambda: drained(database))
        forks.signal(pid, signal.SIGKILL)
        await forks.ended(pid)
        said = "select count(*) from voidbot_test.effects where job_id = $1"
        assert await value(database, said, job_id) == 1


@pytest.mark.parametrize("point", ANSWERS)
async def test_pitfall_03_a_lost_answer_ends_the_incarnation_and_nothing_else(
    database: Database, fresh_dsn: str, point: str
) -> None:
    await install(database)
    await add_backlog(database, lanes=3, each=4)
    proxy = Proxy(fresh_dsn)
    away = await Database.open(await proxy.start(), size=4)
    left = 3

    def lose(name: str) -> None:
        nonlocal left
        left -= name == point
        if name == point and left == 0:
            proxy.lose_next_answer()

    async with at_work(
        worker(away, recorded_kind(away), fault=lose, dead_after_s=1.0, poll_s=0.1),
    ):
        await until(lambda: drained(database), within_s=60.0)

        async def lost() -> bool:
            if not proxy.swallowed and await drained(database):
                await add_backlog(database, lanes=3, each=1)
            return proxy.swallowed > 0 and await drained(database)

        await until(lost, within_s=60.0)
    await away.close()
    await proxy.close()
    await check(database)


async def test_a_lost_answer_to_an_enqueue_or_a_cancel_may_be_asked_again(database: Database, fresh_dsn: str) -> None:
    proxy = Proxy(fresh_dsn)
    away = await Database.open(await proxy.start(), size=2)
    new = recorded("lane", key="once", scope=KeyScope.EVER)
    with pytest.raises(Unavailable):
        async with away.transaction() as tx:
            await jobs.enqueue(tx, [new])
            proxy.lose_next_answer()
    async with away.transaction() as tx:
        assert await jobs.enqueue(tx, [new]) == [None]
        job_id = await tx.fetchval("select id from queue.job")
        proxy_armed = proxy.swallowed
    async with asyncio.timeout(10):
        with pytest.raises(Unavailable):
            proxy.lose_next_answer()
            await jobs.cancel(away, job_id)
    await jobs.cancel(away, job_id)
    await away.close()
    await proxy.close()
    assert proxy.swallowed == proxy_armed + 1
    assert await value(database, "select array_agg(outcome) from queue.done") == ["cancelled"]


@pytest.mark.long
async def test_crash_two_hundred_times_under_load(database: Database, fresh_dsn: str, forks: Children) -> None:
    await install(database)
    draw = random.Random(2)
    for _ in range(100):
        for _ in range(2):
            point, hits = draw.choice(WORKER_POINTS[2:]), draw.randint(1, 5)
            await forks.spawn("work", fresh_dsn, fault=f"{point}:{hits}")
        while forks.alive:  # until each has had enough to do to come to its point
            await add_backlog(database, lanes=5, each=1)
            await asyncio.sleep(0.2)
    await drain_and_check(database)
