"""Taking back what was decided: rows of the ledger, acts on the platform, and what the mind made of the evidence.

What cannot be undone, messages that are gone and members who were removed, stays as it is, and is said so.
"""

from dataclasses import dataclass, replace

from core.domain.errors import InputRejected
from core.domain.ids import MessageId, PersonId
from core.domain.mind.codes import Rejected
from core.domain.mind.facts import Actor, Emitter
from core.domain.moderation.acts import REVERSED_BY, ActKind
from core.domain.moderation.cases import Case, CaseStatus, Outcome
from core.domain.moderation.sanctions import ActState, Sanction, SanctionId, SanctionKind
from core.domain.operations.batch import Batch, Item, Mode
from core.domain.operations.keeping import VoidCause, VoidSource
from core.moderation.sanctioning import plan
from core.moderation.work import News, inform_job
from core.state.service import StateService
from core.store import acts, archive, cases, jobs, ledger, mind_traces, people, state
from core.store.acts import PlannedAct
from core.store.engine import Tx

AT_ONCE = 500
"""Messages that one operation takes back."""


@dataclass(frozen=True, slots=True)
class Reversal:
    """What taking back needs."""

    minds: StateService

    async def reverse(
        self, tx: Tx, sanction_id: SanctionId, by: PersonId | None, reason: str, appeal_id: int | None = None
    ) -> Case | None:
        """Take a decision back with everything that came of it; return its case as it stands then.

        Raises:
            InputRejected: There is no such sanction, or it was taken back already.
        """
        sanction = await ledger.find(tx, sanction_id)
        if sanction is None:
            raise InputRejected(f"sanction: there is no sanction {sanction_id}")
        if sanction.case_id is not None:
            await self._retract(tx, sanction)
        rows = [sanction] if sanction.case_id is None else await ledger.list_of_case(tx, sanction.case_id)
        fresh = [row for row in rows if await ledger.reverse(tx, row.id, by, reason, appeal_id)]
        if not fresh:
            raise InputRejected(f"sanction: {sanction_id} was taken back already")
        await acts.cancel(tx, [row.id for row in fresh], "reversed")
        undoing = [await self._undo(tx, row) for row in fresh if row.kind is not SanctionKind.STRIKE]
        if not any(undoing):
            await self._inform(tx, sanction)
        return await self._close(tx, sanction, by)

    async def _undo(self, tx: Tx, row: Sanction) -> bool:
        """Plan what takes the acts of a row back; return whether there is anything."""
        found = False
        for act in await acts.list_of_sanction(tx, row.id):
            back = _undoing(act)
            found = (back is not None and await plan(tx, back)) or found
        return found

    async def _inform(self, tx: Tx, sanction: Sanction) -> None:
        person_id = await ledger.person_of(tx, sanction)
        if person_id is None:
            return
        platform, _ = await people.find_account(tx, person_id)
        job = inform_job(sanction.id, News.LIFTED, front_end=platform, community_id=sanction.community_id)
        await jobs.enqueue(tx, [job])

    async def _close(self, tx: Tx, sanction: Sanction, by: PersonId | None) -> Case | None:
        case = None if sanction.case_id is None else await cases.load(tx, sanction.case_id, lock=True)
        if case is None:
            return None
        await cases.add_event(tx, case.id, by, "taken_back", {})
        return await cases.change(
            tx,
            case,
            CaseStatus.CLOSED,
            decision=case.decision,
            reason=case.decision_reason,
            by=case.decided_by,
            outcome=Outcome.REVERSED,
        )

    async def _retract(self, tx: Tx, sanction: Sanction) -> None:
        """Have every mind void what rests on the evidence: what was decided of it does not hold."""
        if sanction.case_id is None:
            return
        evidence = await cases.list_evidence(tx, sanction.case_id)
        found = [await archive.id_of(tx, each.room_id, each.ref) for each in evidence]
        messages = sorted({id_ for id_ in found if id_ is not None})
        by_mind: dict[str, list[MessageId]] = {}
        for mind_id, message in await state.list_resting(tx, messages, mind_traces.WORDLESS) if messages else []:
            by_mind.setdefault(mind_id, []).append(message)
        for mind_id, resting in sorted(by_mind.items()):
            await self._void(tx, mind_id, resting, sanction.id)

    async def _void(self, tx: Tx, mind_id: str, messages: list[MessageId], sanction_id: SanctionId) -> None:
        refs = [f"message:{id_}" for id_ in sorted(set(messages))]
        items = tuple(
            Item(VoidSource(refs=tuple(some), cause=VoidCause.RETRACTED), f"reversed:{sanction_id}:{some[0]}")
            for some in (refs[n : n + AT_ONCE] for n in range(0, len(refs), AT_ONCE))
        )
        actor = Actor(Emitter.PARENT, "reversal")
        verdict = await self.minds.apply(tx, Batch(mind_id=mind_id, actor=actor, items=items, mode=Mode.ALL))
        refused = [each.verdict for each in verdict.items if isinstance(each.verdict, Rejected)]
        if refused:
            raise AssertionError(f"what was reversed is taken back: {refused[0].code.value}")


def _undoing(act: PlannedAct) -> PlannedAct | None:
    """Return what takes an act back that was done, or may have been; None if nothing does."""
    if act.state not in (ActState.DOING, ActState.DONE, ActState.UNKNOWN) or act.dedupe.startswith(("lift:", "undo:")):
        return None
    kind = ActKind.SLOW if act.kind is ActKind.SLOW else REVERSED_BY.get(act.kind)
    if kind is None:
        return None
    return replace(
        act, kind=kind, until=None, setting=0, automatic=False, dedupe=f"undo:{act.id}", state=ActState.READY
    )
