"""Q11: cancel, drain, slots, the dead and their return, retention, and what operators see."""

import asyncio
from datetime import timedelta

import pytest

from core.domain.ids import JobId
from core.domain.jobs import Cancelled, JobState, KeyScope, Ok, Outcome, Requeued, Retry
from core.jobs.executor import JobContext
from core.store import jobs
from core.store.engine import Database, Tx
from core.store.jobs import settlement_of
from tests.fakes import ManualClock
from tests.queue.harness import (
    Nothing,
    at_work,
    claim,
    fetch,
    incarnation,
    job,
    kind,
    put,
    state_of,
    until,
    until_state,
    value,
    worker,
)


async def forever(ctx: JobContext, _: Nothing) -> Outcome:
    await asyncio.Event().wait()
    return Ok()


async def test_cancel_stops_a_running_job(database: Database) -> None:
    async with at_work(worker(database, kind(forever))):
        [job_id] = await put(database, job())
        await until_state(database, job_id, "running")
        assert await jobs.cancel(database, job_id) is Cancelled.REQUESTED
        await until_state(database, job_id, "cancelled")
    assert await value(database, "select count(*) from queue.lane") == 0


async def test_a_running_job_may_stop_by_itself_when_asked(database: Database) -> None:
    async def run(ctx: JobContext, _: Nothing) -> Outcome:
        await ctx.stop_asked.wait()
        assert ctx.cancelled
        return Retry(0.0, "stopped early")

    async with at_work(worker(database, kind(run))):
        [job_id] = await put(database, job())
        await until_state(database, job_id, "running")
        await jobs.cancel(database, job_id)
        await until_state(database, job_id, "cancelled")


async def test_a_pending_job_is_cancelled_at_once_and_its_lane_goes_on(database: Database) -> None:
    first, second = await put(database, job(), job())
    assert await jobs.cancel(database, first) is Cancelled.CANCELLED
    async with incarnation(database) as opened:
        assert [granted.id for granted in await claim(opened)] == [second]


async def test_a_delayed_job_is_cancelled_and_its_key_is_free(database: Database) -> None:
    new = job(due_in_s=60.0, key="k", scope=KeyScope.LIVE)
    [job_id] = await put(database, new)
    assert await jobs.cancel(database, job_id) is Cancelled.CANCELLED
    await put(database, new)


async def test_cancelling_what_has_ended_changes_nothing(database: Database) -> None:
    async with at_work(worker(database)):
        [job_id] = await put(database, job())
        await until_state(database, job_id, "done")
    assert await jobs.cancel(database, job_id) is Cancelled.UNKNOWN
    assert await state_of(database, job_id) == "done"


async def test_a_job_past_hold_completes_in_spite_of_cancel(database: Database) -> None:
    answers: list[Cancelled] = []

    async def run(ctx: JobContext, _: Nothing) -> Outcome:
        async def work(tx: Tx) -> None:
            held.set()
            sql = "select exists (select from pg_locks where not granted)"

            async def waits() -> bool:
                return bool(await tx.fetchval(sql))

            await until(waits)

        await ctx.finish(work)
        return Ok()

    held = asyncio.Event()
    async with at_work(worker(database, kind(run))):
        [job_id] = await put(database, job())
        await held.wait()
        answers.append(await jobs.cancel(database, job_id))
        await until_state(database, job_id, "done")
    assert answers == [Cancelled.UNKNOWN]


async def test_drain_lets_running_jobs_end_and_claims_nothing_more(database: Database) -> None:
    started, release = asyncio.Event(), asyncio.Event()

    async def run(ctx: JobContext, _: Nothing) -> Outcome:
        started.set()
        await release.wait()
        return Ok()

    drained = worker(database, kind(run))
    first, second = await put(database, job(), job())
    async with asyncio.TaskGroup() as group:
        group.create_task(drained.run())
        await started.wait()
        drained.stop()
        [words] = drained.waiting_for()
        assert words.startswith("work in lane, attempt 1")
        release.set()
    assert await state_of(database, first) == "done"
    assert await state_of(database, second) == "ready"
    assert await value(database, "select count(*) from queue.worker") == 0


async def test_drain_gives_back_what_does_not_end_in_time_without_counting_it(database: Database) -> None:
    drained = worker(database, kind(forever), drain_s=0.1)
    [job_id] = await put(database, job(max_attempts=1))
    async with asyncio.TaskGroup() as group:
        group.create_task(drained.run())
        await until_state(database, job_id, "running")
        drained.stop()
    assert await state_of(database, job_id) == "ready"
    async with at_work(worker(database)):
        await until_state(database, job_id, "done")


async def test_stopping_at_once_leaves_jobs_to_be_rescued(database: Database) -> None:
    [job_id] = await put(database, job())
    stopped = asyncio.get_running_loop().create_task(worker(database, kind(forever)).run())
    await until_state(database, job_id, "running")
    stopped.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopped
    async with at_work(worker(database, dead_after_s=1.0)):
        await until_state(database, job_id, "done")


async def test_dead_and_requeue(database: Database) -> None:
    async def run(ctx: JobContext, _: Nothing) -> Outcome:
        return Ok() if mended.is_set() else Retry(0.0, "broken")

    mended = asyncio.Event()
    async with at_work(worker(database, kind(run))):
        [job_id] = await put(database, job(max_attempts=3, key="k", scope=KeyScope.LIVE))
        await until_state(database, job_id, "dead")
        mended.set()
        async with database.transaction() as tx:
            assert await jobs.requeue(tx, job_id, "an operator") is Requeued.REQUEUED
        await until_state(database, job_id, "done")
    assert await value(database, "select actor from voidbot.audit where act = 'jobs.requeue'") == "an operator"


async def test_a_dead_job_whose_key_is_taken_stays_dead(database: Database) -> None:
    new = job(max_attempts=1, key="k", scope=KeyScope.LIVE)
    [job_id] = await put(database, new)
    async with incarnation(database) as opened:
        [granted] = await claim(opened)
        await opened.cycle([settlement_of(granted, Retry(0.0, "broken"))], {})
    await put(database, new)
    async with database.transaction() as tx:
        assert await jobs.requeue(tx, job_id, "an operator") is Requeued.KEY_TAKEN
        assert await jobs.requeue(tx, JobId(0), "an operator") is Requeued.UNKNOWN
    assert await state_of(database, job_id) == "dead"


async def test_a_strict_job_keeps_its_lane_while_it_waits_and_a_yielding_one_does_not(
    database: Database,
) -> None:
    strict, _, yielding, behind = await put(
        database, job("strict"), job("strict"), job("yields", yields=True), job("yields", yields=True)
    )
    async with incarnation(database) as opened:
        for granted in await claim(opened, slots=2):
            await opened.cycle([settlement_of(granted, Retry(60.0, "later"))], {})
        assert [granted.id for granted in await claim(opened, slots=2)] == [behind]
    assert await state_of(database, strict) == "waiting"
    assert await state_of(database, yielding) == "delayed"


async def test_delayed_and_waiting_jobs_come_when_their_time_has(database: Database, clock: ManualClock) -> None:
    delayed, retried = await put(database, job("a", due_in_s=3600.0), job("b"))
    async with incarnation(database) as opened:
        [granted] = await claim(opened)
        await opened.cycle([settlement_of(granted, Retry(1800.0, "later"))], {})
        assert (await opened.tick_due(), await opened.tick_waiting()) == (0, 0)
        await clock.advance(3601.0)
        assert (await opened.tick_due(), await opened.tick_waiting()) == (1, 1)
        assert {granted.id for granted in await claim(opened, slots=4)} == {delayed, retried}


async def test_operators_see_figures_and_every_job_in_words(database: Database) -> None:
    async with incarnation(database) as opened:
        await put(database, job("a"), job("b"), job("b", person_id=None, room_id=7), job("c", due_in_s=9.0))
        first, _ = await claim(opened, slots=2)
        await opened.cycle([settlement_of(first, Ok())], {})
        async with database.transaction() as tx:
            [figures] = await jobs.stats(tx)
            listed = await jobs.list_jobs(tx)
            [in_room] = await jobs.list_jobs(tx, room_id=7)
            running = await jobs.list_jobs(tx, state=JobState.RUNNING)
    assert (figures.ready, figures.running, figures.later, figures.dead) == (1, 1, 1, 0)
    assert sorted(each.state for each in listed) == ["delayed", "done", "queued", "running"]
    assert in_room.why == f"behind job {running[0].id}"


async def test_retention_drops_whole_days(database: Database, clock: ManualClock) -> None:
    async with at_work(worker(database)):
        [job_id] = await put(database, job(key="slot", scope=KeyScope.EVER))
        await until_state(database, job_id, "done")
    await clock.advance(timedelta(days=31).total_seconds())
    async with database.transaction() as tx:
        removed = await jobs.keep_house(tx)
    assert (removed["partitions"], removed["keys"], removed["done_rest"]) == (1, 0, 0)
    assert await state_of(database, job_id) is None
    await clock.advance(timedelta(days=401).total_seconds())
    async with database.transaction() as tx:
        assert (await jobs.keep_house(tx))["keys"] == 1


async def test_finished_jobs_fall_into_the_partition_of_their_day(database: Database, clock: ManualClock) -> None:
    async with incarnation(database) as opened:
        for days in (0, 1):
            await clock.advance(days * 86_400.0)
            await opened.beat()
            await put(database, job())
            [granted] = await claim(opened)
            await opened.cycle([settlement_of(granted, Ok())], {})
    rows = await fetch(database, "select tableoid::regclass::text as part from queue.done")
    assert len({row["part"] for row in rows} - {"queue.done_rest"}) == 2
