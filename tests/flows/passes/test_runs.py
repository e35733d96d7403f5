"""Runs of passes: a slot is claimed once, each phase is saved with the next one's job, a crash repeats one phase."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from core.domain.errors import Refused, Unavailable
from core.domain.ids import CommunityId
from core.domain.passes import (
    WHOLE_MIND,
    Advance,
    Finish,
    PassName,
    Phase,
    PhaseResult,
    Run,
    RunState,
    Skip,
    SkipReason,
    Wait,
    slot_key,
)
from core.jobs.executor import AnyKind, JobContext, Kind
from core.passes.runner import Called, Inside, Outside, PassSpec, PassWork, Runner, start
from core.store import passes
from core.store.engine import Database, Tx
from core.store.passes import NewRun
from tests.fakes import ManualClock
from tests.queue.harness import at_work, until, worker

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
Work = Callable[[Tx, Run], Awaitable[PhaseResult]]
Call = Callable[[JobContext, Run], Awaitable[Called]]


def slot(n: int = 0, *, mind: str = "console:home", group: str = WHOLE_MIND, skipped: str = "") -> NewRun:
    at = AT + timedelta(minutes=5 * n)
    label = f"{at:%Y-%m-%dT%H:%MZ}"
    return NewRun(
        mind_id=mind,
        name=PassName.MOOD,
        group=group,
        slot_key=slot_key(mind, PassName.MOOD, group, label),
        slot=at,
        label=label,
        skipped=skipped,
    )


async def done(_: Tx, __: Run) -> PhaseResult:
    return Advance({"read": 2})


def saved(result: PhaseResult) -> Call:
    async def call(_: JobContext, __: Run) -> Called:
        async def save(_: Tx, __: Run) -> PhaseResult:
            return result

        return Called(save, asked=True)

    return call


def spec(*phases: tuple[Phase, Work | Inside | Outside]) -> PassSpec:
    made = {phase: work if isinstance(work, Inside | Outside) else Inside(work) for phase, work in phases}
    return PassSpec(PassName.MOOD, made)


def kinds(database: Database, clock: ManualClock, what: PassSpec, **more: Any) -> AnyKind:
    measured: list[Mapping[str, str]] = []
    runner = Runner(
        specs={what.name: what}, clock=clock, observe=lambda name, value, labels: measured.append(labels), **more
    )
    return Kind(name="pass", pool="pass", payload=PassWork, run=runner.run)


async def claim(database: Database, *runs: NewRun) -> list[Run]:
    async with database.transaction() as tx:
        claimed = await passes.claim(tx, list(runs))
        await start(tx, claimed, dict.fromkeys((run.mind_id for run in runs), CommunityId(0)))
    return claimed


async def ended(database: Database, run_id: int) -> Run:
    """Wait until a run is over."""
    found: list[Run] = []

    async def over() -> bool:
        async with database.transaction(durable=False) as tx:
            run = await passes.find(tx, run_id)
        found[:] = [run] if run is not None and not run.state.active else []
        return bool(found)

    await until(over)
    return found[0]


async def gone_through(database: Database, run_id: int) -> list[tuple[str, int, str, str]]:
    async with database.transaction() as tx:
        return [(row.phase, row.attempt, row.outcome, row.code) for row in await passes.list_phases(tx, run_id)]


async def test_a_run_goes_through_its_phases_and_keeps_what_each_counted(database: Database) -> None:
    what = spec((Phase.GATE, done), (Phase.ASK, Outside(saved(Advance({"proposed": 3})))), (Phase.APPLY, done))
    (run,) = await claim(database, slot())
    async with at_work(worker(database, kinds(database, ManualClock(), what), pools={"pass": 2})):
        over = await ended(database, run.id)
    assert (over.state, over.asks, over.n) == (RunState.FINISHED, 1, 4)
    async with database.transaction() as tx:
        rows = await passes.list_phases(tx, run.id)
    assert [(row.phase, row.counts) for row in rows] == [
        ("gate", {"read": 2}),
        ("ask", {"proposed": 3}),
        ("apply", {"read": 2}),
    ]


async def test_four_schedulers_over_three_hundred_slots_start_each_run_once(database: Database) -> None:
    slots = [slot(n, mind=f"mind{n % 30}", group=f"g{n % 10}") for n in range(300)]

    async def schedule() -> int:
        count = 0
        for each in slots:
            count += len(await claim(database, each))
            await asyncio.sleep(0)
        return count

    started = await asyncio.gather(*(schedule() for _ in range(4)))
    async with database.transaction() as tx:
        rows = await passes.list_runs(tx, limit=1000)
        queued = await tx.fetchval("select count(*) from queue.job where kind = 'pass'")
    assert len(rows) == 300
    assert sum(started) == queued == sum(row.state is RunState.READY for row in rows) == 30
    assert {row.reason for row in rows if row.state is RunState.SKIPPED} == {SkipReason.STILL_RUNNING}


async def test_a_slot_that_was_missed_is_a_row_and_no_job(database: Database) -> None:
    assert await claim(database, slot(0, skipped=SkipReason.MISSED)) == []
    async with database.transaction() as tx:
        (row,) = await passes.list_runs(tx)
        known = await passes.load_slots(tx)
    assert (row.state, row.reason) == (RunState.SKIPPED, "missed")
    assert known["console:home", "mood", WHOLE_MIND].at == AT


@pytest.mark.parametrize("tries", [2, 4])
async def test_an_outage_is_waited_for_three_times_and_then_the_run_fails(
    database: Database, fresh_dsn: str, tries: int
) -> None:
    clock, calls = ManualClock(), 0

    async def call(ctx: JobContext, run: Run) -> Called:
        nonlocal calls
        calls += 1
        if calls < tries or tries == 4:
            raise Unavailable("model: down")
        return await saved(Finish())(ctx, run)

    (run,) = await claim(database, slot())
    async with at_work(
        worker(database, kinds(database, clock, spec((Phase.GATE, Outside(call)))), pools={"pass": 1}, clock=clock)
    ):
        await advance_through(database, run.id)
        over = await ended(database, run.id)
    assert calls == tries
    assert over.state is (RunState.FAILED if tries == 4 else RunState.FINISHED)
    assert [each[1] for each in await gone_through(database, run.id)] == list(range(1, tries + 1))


async def advance_through(database: Database, run_id: int) -> None:
    """Let each wait of a run pass at once: its next job is due now."""

    async def over() -> bool:
        async with database.transaction() as tx:
            await tx.execute("update queue.later set due_at = voidbot.now() where due_at > voidbot.now()")
            tx.wake_workers()
            run = await passes.find(tx, run_id)
        return run is None or not run.state.active

    await until(over)


async def test_what_a_model_refuses_for_good_fails_the_run_at_once(database: Database) -> None:
    async def call(_: JobContext, __: Run) -> Called:
        raise Refused("model: will not")

    (run,) = await claim(database, slot())
    async with at_work(
        worker(database, kinds(database, ManualClock(), spec((Phase.GATE, Outside(call)))), pools={"pass": 1})
    ):
        over = await ended(database, run.id)
    assert (over.state, over.reason) == (RunState.FAILED, "refused")


async def test_a_hung_call_ends_by_its_own_limit_and_the_next_slot_runs(database: Database) -> None:
    hung = asyncio.Event()

    async def call(ctx: JobContext, run: Run) -> Called:
        if run.slot == AT:
            hung.set()
            await asyncio.Event().wait()
        return await saved(Finish())(ctx, run)

    what = kinds(database, ManualClock(), spec((Phase.GATE, Outside(call))), phase_s=0.2)
    (run,) = await claim(database, slot(0))
    async with at_work(worker(database, what, pools={"pass": 1})):
        await hung.wait()
        await advance_through(database, run.id)
        assert (await ended(database, run.id)).reason == "timeout_error"
        (following,) = await claim(database, slot(1))
        assert (await ended(database, following.id)).state is RunState.FINISHED


async def test_a_skip_says_why_and_a_wait_begins_an_earlier_phase_again(database: Database) -> None:
    seen: list[Phase] = []

    async def once(_: Tx, run: Run) -> PhaseResult:
        seen.append(run.phase)
        return Wait(0.0, "breach", to=Phase.GATE) if len(seen) == 2 else Skip(SkipReason.QUIET)

    async def gate(_: Tx, run: Run) -> PhaseResult:
        seen.append(run.phase)
        return Advance()

    (run,) = await claim(database, slot())
    async with at_work(
        worker(
            database, kinds(database, ManualClock(), spec((Phase.GATE, gate), (Phase.APPLY, once))), pools={"pass": 1}
        )
    ):
        over = await ended(database, run.id)
    assert seen == [Phase.GATE, Phase.APPLY, Phase.GATE, Phase.APPLY]
    assert (over.state, over.reason) == (RunState.SKIPPED, "quiet")


STOPS = [(point, nth) for point in ("hold.after", "commit.before", "commit.after", "settle.after") for nth in (1, 2, 3)]


class Stopped(BaseException):
    """The process ends here."""


@pytest.mark.parametrize(("point", "nth"), [*STOPS, ("pass.called", 1)])
async def test_a_process_that_stops_anywhere_repeats_at_most_one_phase(
    database: Database, point: str, nth: int
) -> None:
    """The phases leave marks: each stands once, however often the process was stopped."""
    met = 0

    def fault(name: str) -> None:
        nonlocal met
        if name == point:
            met += 1
            if met == nth:
                raise Stopped

    def leaves(mark: str) -> Work:
        async def work(tx: Tx, _: Run) -> PhaseResult:
            await tx.execute("insert into voidbot.settings (scope, scope_id, name) values ('t', $1, $1)", mark)
            return Advance()

        return work

    async def call(_: JobContext, __: Run) -> Called:
        return Called(leaves("asked"))

    what = spec((Phase.GATE, leaves("gate")), (Phase.ASK, Outside(call)), (Phase.APPLY, leaves("applied")))
    (run,) = await claim(database, slot())
    first = worker(database, kinds(database, ManualClock(), what, fault=fault), pools={"pass": 1}, fault=fault)
    try:
        async with at_work(first):
            await ended(database, run.id)
    except* Stopped:
        pass
    second = worker(database, kinds(database, ManualClock(), what), pools={"pass": 1})
    async with at_work(second):
        async with database.transaction() as tx:
            await tx.execute("update voidbot_test.clock set shift = shift + interval '1 minute'")
        over = await ended(database, run.id)
    assert over.state is RunState.FINISHED
    async with database.transaction() as tx:
        marks = await tx.fetch("select name from voidbot.settings where scope = 't' order by name")
    assert [row["name"] for row in marks] == ["applied", "asked", "gate"]
    assert len(await gone_through(database, run.id)) == 3
