"""The end of a run of sleep: proposals whose time is over go, the run is noted; and the nap, once all are over."""

from collections.abc import Sequence
from dataclasses import dataclass

from core.domain.mind.bodies import LastRun, Sleep
from core.domain.mind.codes import Rejected
from core.domain.mind.facts import Actor, Emitter
from core.domain.mind.values import EntryId
from core.domain.operations.base import Operation
from core.domain.operations.batch import Batch, Item
from core.domain.operations.keeping import EvictAction, EvictEntries
from core.domain.operations.runtime import RecordLastRun, UpdateSleepCycle
from core.domain.passes import Advance, PassName, PhaseResult, Run, RunState
from core.passes.dreaming import DEALT
from core.passes.heaps import load_heaps
from core.state.service import StateService
from core.store import passes, state
from core.store.engine import Tx
from core.store.mind_facts import AudienceGroups

MOST_RUNS = 500
"""Among how many of a mind's newest runs of sleep those of one nap are looked for; it has one for each group."""
MOST_EXPIRED = 50


@dataclass(frozen=True, slots=True)
class Bedtime:
    """What ending needs."""

    minds: StateService
    groups: AudienceGroups

    async def record(self, tx: Tx, run: Run) -> PhaseResult:
        """Note how the run went. What is refused of that stops nothing."""
        if not run.writes:
            return Advance()
        mind = await state.lock_mind(tx, run.mind_id)
        heaps = await load_heaps(tx, run.mind_id, self.groups, run.group)
        over = [entry.id for heap in heaps for entry in heap.over(mind.now)]
        dealt = await passes.get(tx, run.id, DEALT) or {"notes": []}
        last = LastRun(
            pass_=run.name.value,
            run_id=run.id,
            slot=run.slot_key.rpartition("/")[2],
            ran_at=mind.now,
            outcome=RunState.FINISHED.value,
            summary=f"{len(dealt['notes'])} notes dealt with in {run.asks} calls",
        )
        refused = await self._apply(tx, run, Emitter.UPKEEP, "expired", _expiry(over[:MOST_EXPIRED]))
        refused += await self._apply(tx, run, Emitter.PARENT, "record", (RecordLastRun(last_run=last),))
        return Advance({"expired": len(over), "refused": refused})

    async def ended(self, tx: Tx, run: Run, state_: RunState, _: str) -> None:
        """Mark the nap as made use of, once its last run is over and none of them has failed."""
        nap = run.slot_key.rpartition("/")[2]
        if not run.writes or state_ not in (RunState.FINISHED, RunState.SKIPPED) or not nap.startswith("nap:"):
            return
        others = [
            each
            for each in await passes.list_runs(tx, mind_id=run.mind_id, name=PassName.SLEEP, limit=MOST_RUNS)
            if each.id != run.id and each.slot_key.endswith(f"/{nap}")
        ]
        if any(each.state.active or each.state is RunState.FAILED for each in others):
            return
        await state.lock_mind(tx, run.mind_id)
        for held in await state.list_live(tx, run.mind_id, ("sleep",)):
            body = held.entry.body
            if isinstance(body, Sleep) and body.nap_id in (nap, None) and body.maintained_nap_id != nap:
                marked = UpdateSleepCycle(sleep=body.model_copy(update={"maintained_nap_id": nap}))
                await self._apply(tx, run, Emitter.PARENT, "maintained", (marked,))

    async def _apply(self, tx: Tx, run: Run, by: Emitter, what: str, operations: Sequence[Operation]) -> int:
        items = tuple(Item(each, f"run:{run.id}:{what}:{n}") for n, each in enumerate(operations))
        actor = Actor(by, run.name.value, run_id=run.id)
        verdict = await self.minds.apply(tx, Batch(mind_id=run.mind_id, actor=actor, items=items))
        return sum(isinstance(each.verdict, Rejected) for each in verdict.items)


def _expiry(ids: Sequence[EntryId]) -> tuple[Operation, ...]:
    if not ids:
        return ()
    reason = "nobody carried it out in time"
    return (EvictEntries(entry_type="proposal", entry_ids=tuple(ids), action=EvictAction.RETIRE, reason=reason),)
