"""The `pass` job: one phase of a run, saved with its end and the job of the next phase; all or none.

A phase either calls out and saves what it got, or works on what was saved, never both: a crash repeats one phase.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import structlog
from pydantic import BaseModel, ConfigDict

from core.domain.audience import community_of
from core.domain.errors import BadOutput, BotError, BudgetHeld, BudgetRefused, ClaimLost, OutsideRefused, Unavailable
from core.domain.ids import CommunityId
from core.domain.jobs import PASS_HEAD_START_S, KeyScope, NewJob, Ok, Outcome
from core.domain.passes import Fail, Outage, PassName, Phase, PhaseResult, Run, RunState, Skip, SkipReason, Wait, step
from core.jobs.executor import Fault, JobContext, Observe
from core.ports import Clock
from core.store import jobs, passes
from core.store.engine import Tx
from core.store.passes import NO_USE, PhaseUse

log = structlog.get_logger()

HELD_WAIT_S = 5.0
"""How long a run waits for calls under way to give back what they hold of a purse."""
POOL = "pass"


class PassWork(BaseModel):
    """One phase of one run."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    v: int = 1
    run_id: int
    n: int
    name: PassName
    phase: Phase


async def _nothing(_: Tx) -> None:
    """Settle nothing."""


@dataclass(frozen=True, slots=True)
class Called:
    """What came of a call: how it is saved, what it cost, and how that is settled, with what was saved or alone.

    `settle_apart` books it when nothing can be saved any more. `asked`: whether a model was asked.
    """

    save: Callable[[Tx, Run], Awaitable[PhaseResult]]
    use: PhaseUse = NO_USE
    asked: bool = False
    settle: Callable[[Tx], Awaitable[None]] = _nothing
    settle_apart: Callable[[], Awaitable[None]] | None = None


@dataclass(frozen=True, slots=True)
class Inside:
    """A phase that only works on what is stored: one transaction.

    `durable`: its commit waits for the disk. What is not paid for and goes out to nobody need not: if the server of the
    database dies, the run stands before this phase, and goes through it again.
    """

    work: Callable[[Tx, Run], Awaitable[PhaseResult]]
    durable: bool = True


@dataclass(frozen=True, slots=True)
class Outside:
    """A phase that calls out: nothing is open meanwhile. `durable`: as of `Inside`, of what is saved."""

    call: Callable[[JobContext, Run], Awaitable[Called]]
    durable: bool = True


@dataclass(frozen=True, slots=True)
class PassSpec:
    """What a pass does in which phase, in their order."""

    name: PassName
    phases: Mapping[Phase, Inside | Outside]
    ended: Callable[[Tx, Run, RunState, str], Awaitable[None]] | None = None
    """Told in its last transaction that a run is over, and how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """What running needs. `phase_s`: what a phase may take; longer than its slowest call, shorter than its job."""

    specs: Mapping[PassName, PassSpec]
    clock: Clock
    observe: Observe
    phase_s: float = 240.0
    fault: Fault = field(default=lambda point: None)

    async def run(self, ctx: JobContext, work: PassWork) -> Outcome:
        """Go through one phase."""
        spec = self.specs.get(work.name)
        phase = None if spec is None else spec.phases.get(work.phase)
        began = self.clock.now()
        match phase:
            case Inside():
                await ctx.finish(lambda tx: self._inside(tx, ctx, work, phase, began), durable=phase.durable)
            case Outside():
                run = await ctx.advance(lambda tx: passes.take(tx, work.run_id, work.n), durable=False)
                if run is not None:
                    await self._outside(ctx, work, run, phase, began)
            case None:  # a release without this phase has taken over
                await ctx.finish(lambda tx: self._give_up(tx, ctx, work, began))
        return Ok()

    async def _inside(self, tx: Tx, ctx: JobContext, work: PassWork, phase: Inside, began: datetime) -> None:
        run = await passes.take(tx, work.run_id, work.n)
        if run is not None:
            result = await phase.work(tx, run)
            await self._conclude(tx, ctx, run, result, began)

    async def _give_up(self, tx: Tx, ctx: JobContext, work: PassWork, began: datetime) -> None:
        run = await passes.take(tx, work.run_id, work.n)
        if run is not None:
            await self._conclude(tx, ctx, run, Fail("phase_unknown"), began)

    async def _outside(self, ctx: JobContext, work: PassWork, run: Run, phase: Outside, began: datetime) -> None:
        called = await self._call(ctx, run, phase)
        self.fault("pass.called")

        async def end(tx: Tx) -> None:
            held = await passes.take(tx, work.run_id, work.n)
            if held is not None:
                result = await called.save(tx, held)
                await self._conclude(tx, ctx, held, result, began, use=called.use, asked=called.asked)
            await called.settle(tx)

        try:
            await ctx.finish(end, durable=phase.durable)
        except BaseException:  # it was paid for all the same
            if called.settle_apart is not None:
                await asyncio.shield(called.settle_apart())
            raise

    async def _call(self, ctx: JobContext, run: Run, phase: Outside) -> Called:
        """Call out; what went wrong outside becomes the phase's result."""
        try:
            async with asyncio.timeout(self.phase_s):
                return await phase.call(ctx, run)
        except ClaimLost:
            raise
        except BudgetHeld:
            result: PhaseResult = Wait(HELD_WAIT_S, "budget_held")
        except BudgetRefused:
            result = Skip(SkipReason.BUDGET)
        except (Unavailable, TimeoutError) as exc:
            result = Outage(_code(exc))
        except (BadOutput, OutsideRefused) as exc:
            result = Fail(_code(exc))
        except BotError as exc:
            log.error("pass.defect", **_about(run), code=_code(exc), exc_info=exc)
            result = Fail(_code(exc))
        outcome = result

        async def save(_: Tx, __: Run) -> PhaseResult:
            return outcome

        return Called(save)

    async def _conclude(
        self, tx: Tx, ctx: JobContext, run: Run, result: PhaseResult, began: datetime, *, use: PhaseUse = NO_USE,
        asked: bool = False,
    ) -> None:  # fmt: skip
        """Write down how the phase went; queue the next one, or let the run end."""
        spec = self.specs.get(run.name)
        after = step(run, () if spec is None else tuple(spec.phases), result)
        await passes.close(tx, run, after, result, use=use, asked=int(asked), started_at=began)
        if after.state.active:
            job = phase_job(run, ctx.job.community_id, run.n + 1, after.phase, after.due_in_s)
            await jobs.enqueue(tx, [job])
            return
        if spec is not None and spec.ended is not None:
            await spec.ended(tx, run, after.state, after.reason)
        labels = {"pass": run.name.value, "state": after.state.value, "reason": after.reason}
        tx.on_commit(lambda: self.observe("pass_runs_total", 1, labels))
        if after.state is RunState.FAILED:
            log.error("pass.failed", **_about(run), phase=run.phase.value, code=after.reason)


def phase_job(run: Run, community_id: int, n: int, phase: Phase, due_in_s: float = 0.0) -> NewJob:
    """Return the job of one phase. That of the first one is kept out for as long as slots are."""
    first = n == 1
    return NewJob(
        kind="pass",
        pool=POOL,
        lane=run.lane,
        payload=PassWork(run_id=run.id, n=n, name=run.name, phase=phase).model_dump(mode="json"),
        community_id=community_id,
        key=f"slot:{run.slot_key}" if first else None,
        scope=KeyScope.EVER if first else None,
        due_in_s=due_in_s,
        head_start_s=PASS_HEAD_START_S,
        trace=f"run:{run.id}",
    )


async def start(tx: Tx, runs: list[Run], homes: Mapping[str, CommunityId], due_in_s: float = 0.0) -> None:
    """Queue the first phase of runs that were just claimed.

    `homes`: the first community of each mind. What concerns a group is its own community's, and draws on its purse.
    """
    pairs = [(run, community_of(run.group) or homes[run.mind_id]) for run in runs]
    await jobs.enqueue(tx, [phase_job(run, home, run.n, run.phase, due_in_s) for run, home in pairs])


def _code(exc: Exception) -> str:
    """Return the name of an error as a code."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(exc).__name__).lower()


def _about(run: Run) -> dict[str, object]:
    return {"run": run.id, "name": run.name.value, "slot": run.slot_key}
