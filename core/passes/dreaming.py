"""What becomes of an answer of sleep: it stands as a whole, is asked for again, or waits for a person to approve it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from core.domain.conserving import Breach
from core.domain.mind.codes import Rejected, RejectionCode
from core.domain.mind.facts import Actor, Emitter, Similarity
from core.domain.mind.values import EntryId
from core.domain.operations.base import keys
from core.domain.operations.batch import Batch, Mode
from core.domain.passes import Advance, Fail, Finish, Origin, Phase, PhaseResult, Run, RunState, Wait
from core.domain.prompt import Role
from core.passes.asking import REPAIR, VERDICTS, Answer, read_answer
from core.passes.screening import counted, refuse, speakable, told
from core.passes.weighing import CARRIED_OUT, Weighed, carried_out, weigh
from core.state.service import StateService
from core.store import passes, state
from core.store.engine import Tx

log = structlog.get_logger()

DEALT = "dealt"
"""The artifact of a run with the entries that were dealt with: notes, and what was in doubt; ids alone."""
RETRY_S = (600.0, 1800.0)
"""After how long an answer that may not stand is asked for again, the first time and the second."""
MOST_TRIES = 3
"""How often a model is asked in one nap and group while nothing of what it answers may stand."""
NAPS_FAILED = 3
"""After so many naps in a row that failed the operator is told what waits."""
MOST_NOTED = 4
"""Of how many refusals a model is told at once."""
LOOKED_AT = 20
"""Among how many earlier runs of a group those that failed are counted."""
_SAYS: Mapping[RejectionCode, str] = {
    RejectionCode.SLEEP_RETURNED_NOTHING_UNDER_PRESSURE: "an operation for every note of the day, not an empty list",
    RejectionCode.SHORT_TERM_LEFT_AFTER_SLEEP: "every note distilled or pruned; so many were left over",
    RejectionCode.CONTRADICTION: "each note in one place alone, as a source or pruned; so many were used twice",
    RejectionCode.NOT_CONSERVED: "nothing changed or gone but what an operation names; so many entries were",
    RejectionCode.BULK_PRUNE: "most notes kept in some distillation; so many would go without a trace",
}


@dataclass(frozen=True, slots=True)
class _Judged:
    """An answer before the mind: what it would come to, and the notes that it was to deal with."""

    answer: Answer
    batch: Batch
    weighed: Weighed
    given: frozenset[EntryId]

    @property
    def rows(self) -> list[dict[str, str]]:
        """What became of each piece."""
        return told(self.batch.items, self.weighed.verdict)

    def counts(self, **more: int) -> dict[str, int]:
        """What is counted of it."""
        return counted(self.rows) | {"shown": len(self.given)} | more


@dataclass(frozen=True, slots=True)
class Dreaming:
    """What deciding needs. `role`: who proposes."""

    minds: StateService
    role: Role

    async def decide(self, tx: Tx, run: Run, similarity: Similarity) -> PhaseResult:
        """Let a saved answer stand, and go on; else say what is to be done.

        `similarity`: how much of their notes its memories keep, as far as that was asked.
        """
        answer = await read_answer(tx, run, self.role)
        if answer is None:  # somebody whose words were in it was erased
            return await self._again(tx, run, RejectionCode.PERSON_ERASED.value, [], at_once=True)
        return await self.settle(tx, run, answer, similarity)

    async def settle(self, tx: Tx, run: Run, answer: Answer, similarity: Similarity) -> PhaseResult:
        """Let an answer stand that was read, or not."""
        if answer.unusable:
            wrong = [_note(each.key, each.verdict) for each in answer.unusable]
            return await self._again(tx, run, answer.unusable[0].verdict.code.value, wrong)
        if answer.extra["notes"] and not answer.kept.get("notes", 0):
            return Fail("notes_do_not_fit")
        judged = await self._judge(tx, run, answer, similarity)
        if judged.weighed.refused:
            return await self._refused(tx, run, judged)
        if judged.weighed.broken:
            return await self._broken(tx, run, judged, judged.weighed.broken)
        return await self._stand(tx, run, judged)

    async def approve(self, tx: Tx, run: Run, similarity: Similarity) -> PhaseResult:
        """Let an answer stand that was held back because it prunes too much: a person has looked at it.

        `Fail` says why it cannot any more: it is not kept, or what it names has changed.
        """
        answer = await read_answer(tx, run, self.role)
        if run.reason != RejectionCode.BULK_PRUNE or answer is None or answer.unusable:
            return Fail("nothing_to_approve")
        judged = await self._judge(tx, run, answer, similarity)
        if any(each.again for each in judged.weighed.verdict.items):
            return Fail("nothing_to_approve")  # it stands already
        codes = [verdict.code for _, verdict in judged.weighed.refused]
        codes += [each.code for each in judged.weighed.broken if each.code is not RejectionCode.BULK_PRUNE]
        return Fail(codes[0].value) if codes else await self._stand(tx, run, judged)

    async def _judge(self, tx: Tx, run: Run, answer: Answer, similarity: Similarity) -> _Judged:
        await state.lock_mind(tx, run.mind_id)
        shown = answer.extra["notes"][: answer.kept.get("notes", 0)]
        held = await state.load_entries(tx, run.mind_id, keys("short_term", shown)) if shown else []
        given = frozenset(each.entry.id for each in held if each.entry.live and each.entry.type == "short_term")
        batch = Batch(
            mind_id=run.mind_id,
            actor=Actor(Emitter.SLEEP, f"{self.role.name}@{self.role.version}", run_id=run.id),
            items=carried_out(speakable(answer.items, self.role)),
            mode=Mode.ALL,
            packet=answer.packet,
            similarity=similarity,
        )
        weighed = await weigh(self.minds, tx, batch, given, must=run.origin is not Origin.MANUAL)
        return _Judged(answer, batch, weighed, given)

    async def _stand(self, tx: Tx, run: Run, judged: _Judged) -> PhaseResult:
        """Apply what was weighed, and note what is done with."""
        if run.writes:
            verdict = await self.minds.apply(tx, judged.batch)
            if len(verdict.accepted) < len(judged.batch.items):
                raise AssertionError("what was weighed came out otherwise")
        extra, done = judged.answer.extra, await passes.get(tx, run.id, DEALT) or {"notes": [], "doubted": []}
        shown = extra["notes"][: judged.answer.kept.get("notes", 0)]
        dealt = {"notes": [*done["notes"], *shown], "doubted": [*done["doubted"], *extra["doubted"]]}
        await passes.put(tx, run.id, DEALT, dealt)
        await passes.put(tx, run.id, REPAIR, {"notes": []})
        await self._tell(tx, run, judged)
        return Advance(judged.counts(), Phase.ASK if run.writes else Phase.RECORD)

    async def _refused(self, tx: Tx, run: Run, judged: _Judged) -> PhaseResult:
        """Some pieces cannot stand, so none does: the journal says why."""
        if run.writes:
            await self.minds.apply(tx, judged.batch)
        await self._tell(tx, run, judged)
        refused = judged.weighed.refused
        notes = [_note(judged.batch.items[n].key, verdict) for n, verdict in refused[:MOST_NOTED]]
        stale = refused[0][1].code is RejectionCode.STALE_VERSION
        code = refused[0][1].code.value
        return await self._again(tx, run, code, notes, judged.counts(), at_once=stale)

    async def _broken(self, tx: Tx, run: Run, judged: _Judged, broken: Sequence[Breach]) -> PhaseResult:
        """The pieces could stand, but something would be lost."""
        code = broken[0].code
        await self._tell(tx, run, judged, broken)
        if all(each.code is RejectionCode.BULK_PRUNE for each in broken):
            pruned = sum(len(each.ids) for each in broken)
            log.warning("sleep.wants_approval", run=run.id, mind=run.mind_id, group=run.group, pruned=pruned)
            return Finish(code.value, judged.counts(refused=len(judged.batch.items)))
        if run.writes and judged.batch.items:
            refusal = Rejected(code, "", _SAYS[code])
            pieces = tuple(refuse(each, refusal) for each in judged.batch.items)
            await self.minds.apply(tx, replace(judged.batch, items=pieces))
        notes = [{"path": "answer", "expected": f"{_SAYS[each.code]}: {len(each.ids)}"} for each in broken]
        return await self._again(tx, run, code.value, notes, judged.counts(refused=len(judged.batch.items)))

    async def _again(
        self,
        tx: Tx,
        run: Run,
        code: str,
        notes: Sequence[Mapping[str, str]],
        counts: Mapping[str, int] | None = None,
        *,
        at_once: bool = False,
    ) -> PhaseResult:
        """Return that it is asked for again, with what was wrong; the third time that this nap is given up."""
        given = counts or {}
        if run.asks >= MOST_TRIES:
            await self._given_up(tx, run, code)
            return Fail(code, given)
        await passes.put(tx, run.id, REPAIR, {"notes": [dict(each) for each in notes]})
        if at_once:
            return Advance(given, Phase.ASK)
        return Wait(RETRY_S[min(max(run.asks, 1), len(RETRY_S)) - 1], code, Phase.ASK, given)

    async def _given_up(self, tx: Tx, run: Run, code: str) -> None:
        earlier = await passes.list_runs(
            tx, mind_id=run.mind_id, name=run.name, group=run.group, before=run.id, limit=LOOKED_AT
        )
        naps = 1
        for each in earlier:
            if each.state is RunState.FAILED:
                naps += 1
            elif each.state is not RunState.SKIPPED:
                break
        waiting = sum(count for _, _, count in await state.count_live(tx, run.mind_id, ("short_term",)))
        log.error("sleep.failed", run=run.id, mind=run.mind_id, group=run.group, code=code, asks=run.asks)
        if naps >= NAPS_FAILED:
            log.error("sleep.keeps_failing", mind=run.mind_id, group=run.group, naps=naps, notes_of_mind=waiting)

    async def _tell(self, tx: Tx, run: Run, judged: _Judged, broken: Sequence[Breach] = ()) -> None:
        """Keep what became of each piece, behind what became of those before."""
        before = await passes.get(tx, run.id, VERDICTS) or {"items": [], "broken": []}
        law = [{"code": each.code.value, "entries": len(each.ids)} for each in broken]
        body = {"items": [*before["items"], *judged.rows], "broken": [*before["broken"], *law]}
        await passes.put(tx, run.id, VERDICTS, body)


def _note(key: str, verdict: Rejected) -> dict[str, str]:
    """Return what a model is told of a refusal: which piece of its answer, and the code. `key`: of the piece."""
    piece = f"[{key.removesuffix(CARRIED_OUT).rpartition(':')[2]}]"
    path = verdict.path if verdict.path.startswith("[") else f"{piece}.{verdict.path}".rstrip(".")
    return {"path": path, "expected": f"{verdict.message} ({verdict.code.value})".strip()}
