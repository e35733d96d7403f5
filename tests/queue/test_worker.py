"""A worker from enqueue to end, and every outcome a job can have."""

import asyncio

import pytest

from core.domain.errors import BadOutput, ClaimLost, Misconfigured, StaleState, Unavailable
from core.domain.jobs import Cancel, Claim, Discard, GaveUp, Ok, Outcome, Retry, Snooze
from core.jobs.executor import JobContext
from core.jobs.notifier import Notifier
from core.store import jobs
from core.store.engine import Database, Tx
from tests.queue.harness import (
    Nothing,
    at_work,
    fetch,
    job,
    kind,
    put,
    state_of,
    until_state,
    value,
    worker,
)


async def test_a_queued_job_runs_and_is_done_once(database: Database) -> None:
    async with at_work(worker(database)):
        [job_id] = await put(database, job())
        await until_state(database, job_id, "done")
    assert await value(database, "select count(*) from queue.done where id = $1", job_id) == 1


async def test_a_rolled_back_enqueue_leaves_nothing(database: Database) -> None:
    with pytest.raises(RuntimeError):
        async with database.transaction() as tx:
            await jobs.enqueue(tx, [job()])
            raise RuntimeError
    assert await value(database, "select count(*) from queue.job") == 0


async def test_jobs_of_a_lane_run_in_order_one_at_a_time(database: Database) -> None:
    events: list[tuple[str, int]] = []

    async def run(ctx: JobContext, _: Nothing) -> Outcome:
        events.append(("start", ctx.job.id))
        await asyncio.sleep(0)
        events.append(("end", ctx.job.id))
        return Ok()

    ids = await put(database, *[job() for _ in range(6)])
    async with at_work(worker(database, kind(run)), worker(database, kind(run))):
        await until_state(database, ids[-1], "done")
    assert events == [(step, job_id) for job_id in ids for step in ("start", "end")]


async def test_effects_and_completion_commit_together(database: Database) -> None:
    async def run(ctx: JobContext, _: Nothing) -> Outcome:
        async def work(tx: Tx) -> None:
            await tx.execute("insert into voidbot.rates values ($1, voidbot.now())", f"job:{ctx.job.id}")
            await jobs.enqueue(tx, [job("next", kind="follow")])

        await ctx.finish(work)
        return Ok()

    async with at_work(worker(database, kind(run), kind(name="follow"))):
        [job_id] = await put(database, job())
        await until_state(database, job_id, "done")
    assert await value(database, "select count(*) from voidbot.rates where key = $1", f"job:{job_id}") == 1


async def test_failed_effects_leave_nothing_and_the_job_is_tried_again(database: Database) -> None:
    async def run(ctx: JobContext, _: Nothing) -> Outcome:
        async def work(tx: Tx) -> None:
            await tx.execute("insert into voidbot.rates values ($1, voidbot.now())", f"try:{ctx.attempt}")
            if ctx.attempt == 1:
                raise StaleState("mind: changed meanwhile")

        await ctx.finish(work)
        return Ok()

    async with at_work(worker(database, kind(run))):
        [job_id] = await put(database, job())
        await until_state(database, job_id, "done")
    assert [row["key"] for row in await fetch(database, "select key from voidbot.rates")] == ["try:2"]


async def test_a_job_may_commit_a_part_and_go_on(database: Database) -> None:
    async def run(ctx: JobContext, _: Nothing) -> Outcome:
        async def mark(tx: Tx) -> int:
            await tx.execute("insert into voidbot.rates values ('part', voidbot.now())")
            return 7

        assert await ctx.advance(mark, durable=False) == 7
        assert await state_of(database, ctx.job.id) == "running"
        return Ok()

    async with at_work(worker(database, kind(run))):
        [job_id] = await put(database, job())
        await until_state(database, job_id, "done")
    assert await value(database, "select count(*) from voidbot.rates") == 1


async def test_a_worker_that_lost_its_claim_writes_nothing(database: Database) -> None:
    async def run(ctx: JobContext, _: Nothing) -> Outcome:
        async with database.transaction() as tx:
            await tx.execute("update queue.lane set attempt = attempt + 1 where job_id = $1", ctx.job.id)

        async def work(tx: Tx) -> None:
            await tx.execute("insert into voidbot.rates values ('late', voidbot.now())")

        with pytest.raises(ClaimLost):
            await ctx.finish(work)
        lost.set()
        raise ClaimLost("as the job would have let it pass")

    lost = asyncio.Event()
    async with at_work(worker(database, kind(run))):
        await put(database, job())
        await lost.wait()
    assert await value(database, "select count(*) from voidbot.rates") == 0


@pytest.mark.parametrize(
    ("outcome", "state", "told"),
    [
        (Ok(), "done", False),
        (Cancel("not wanted"), "cancelled", True),
        (Discard("hopeless"), "discarded", True),
        (Retry(0.0, "again"), "dead", True),
        (BadOutput("model: no sense"), "discarded", True),
        (Misconfigured("key: wrong"), "discarded", True),
        (Unavailable("model: down", retry_after_s=0.0), "dead", True),
        (ZeroDivisionError(), "dead", True),
    ],
)
async def test_each_outcome_ends_where_it_should(
    database: Database, outcome: Outcome | Exception, state: str, told: bool
) -> None:
    async def run(ctx: JobContext, _: Nothing) -> Outcome:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def words(tx: Tx, claim: Claim, why: GaveUp) -> None:
        await tx.execute("insert into voidbot.rates values ($1, voidbot.now())", f"told:{claim.id}")

    async with at_work(worker(database, kind(run), on_give_up=words)):
        [job_id] = await put(database, job(max_attempts=1))
        await until_state(database, job_id, state)
    assert await value(database, "select count(*) from voidbot.rates") == int(told)


async def test_a_snooze_does_not_count_as_an_attempt(database: Database) -> None:
    naps: list[int] = []

    async def run(ctx: JobContext, _: Nothing) -> Outcome:
        naps.append(ctx.attempt)
        return Snooze(0.0) if len(naps) < 4 else Ok()

    async with at_work(worker(database, kind(run))):
        [job_id] = await put(database, job(max_attempts=1))
        await until_state(database, job_id, "done")
    assert naps == [1, 2, 3, 4]


async def test_last_words_that_fail_do_not_keep_the_lane(database: Database) -> None:
    async def run(ctx: JobContext, _: Nothing) -> Outcome:
        return Discard("hopeless")

    async def words(tx: Tx, claim: Claim, why: GaveUp) -> None:
        raise KeyError("a bug in the product")

    async with at_work(worker(database, kind(run), on_give_up=words)):
        [job_id] = await put(database, job())
        await until_state(database, job_id, "discarded")


async def test_a_kind_out_of_time_is_tried_again(database: Database) -> None:
    async def run(ctx: JobContext, _: Nothing) -> Outcome:
        await asyncio.Event().wait()
        return Ok()

    async with at_work(worker(database, kind(run, timeout_s=0.05))):
        [job_id] = await put(database, job(max_attempts=1))
        await until_state(database, job_id, "dead")


async def test_an_unknown_kind_waits_for_a_worker_that_knows_it(database: Database) -> None:
    async with at_work(worker(database)):
        [job_id] = await put(database, job(kind="from the next release"))
        await until_state(database, job_id, "waiting")


async def test_a_commit_here_wakes_a_worker_long_before_it_polls(database: Database) -> None:
    async with at_work(worker(database, poll_s=3600.0)):
        for _ in range(3):
            [job_id] = await put(database, job())
            await until_state(database, job_id, "done")


async def test_a_commit_in_another_process_wakes_a_worker(database: Database, fresh_dsn: str) -> None:
    elsewhere = await Database.open(fresh_dsn, size=2)
    notifier = Notifier(elsewhere)
    elsewhere.on_wake(notifier.wake)
    async with asyncio.TaskGroup() as group:
        sending = group.create_task(notifier.run())
        async with at_work(worker(database, poll_s=3600.0)):
            [warm] = await put(database, job())  # the worker listens for sure once this is done
            await until_state(database, warm, "done")
            [job_id] = await put(elsewhere, job())
            await until_state(database, job_id, "done")
        sending.cancel()
    await elsewhere.close()


@pytest.mark.parametrize("again", [False, True])
async def test_work_that_is_due_soon_starts_when_it_is_due(database: Database, again: bool) -> None:
    """Of many delayed jobs some start although no tick has looked for them: they are announced.

    `again`: the delay is a job's own, before its second try.
    """
    points: list[str] = []

    async def run(ctx: JobContext, _: Nothing) -> Outcome:
        if again and ctx.attempt == 1:
            points.append("waits")
            return Snooze(0.05)
        points.append("started")
        return Ok()

    async with at_work(worker(database, kind(run), fault=points.append)):
        for number in range(10):
            points.append("waits")
            [job_id] = await put(database, job(f"lane {number}", due_in_s=0.0 if again else 0.05))
            await until_state(database, job_id, "done")
    spans = " ".join(point for point in points if point in ("waits", "tick.before", "started"))
    assert "waits started" in spans
