"""What becomes of an answer: held against what was owed, then laid before the mind, or asked for once more."""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from core.domain import owing
from core.domain.ids import MessageId, RoomId
from core.domain.mind.bodies import PressureItem, PressureStatus
from core.domain.mind.codes import Rejected, RejectionCode
from core.domain.mind.entries import Entry, Key
from core.domain.mind.facts import Actor, Emitter, Similarity
from core.domain.mind.values import EntryId, Thought
from core.domain.operations.agency import PressureProposal, UpsertAgencyPressure
from core.domain.operations.batch import Batch, Item, Refused
from core.domain.orbiting import LAST
from core.domain.passes import MOST_ASKS, Advance, Fail, Phase, PhaseResult, Run, RunState, Skip, SkipReason
from core.domain.prompt import Role
from core.passes.asking import REPAIR, VERDICTS, Answer, notes_of
from core.passes.circle import load_circle
from core.passes.paging import Paging, Place
from core.passes.screening import Piece, accepted, counted, orbit_of, outward, speakable, told, within_limits
from core.ports import Clock
from core.state.service import StateService
from core.store import mind_lists, passes, reading, state
from core.store.engine import Tx
from core.store.mind_facts import AudienceGroups

log = structlog.get_logger()

STUBBORN_AFTER = 3
"""So many failed runs in a row that leave one pressure unanswered make code let it cool."""
_TYPES = {"short_term": LAST, "candidate": 64, "pressure_item": 64}


@dataclass(frozen=True, slots=True, kw_only=True)
class Deciding:
    """What deciding needs. `own_repo`: the name of the bot's own repository among its sources; empty: it has none."""

    minds: StateService
    groups: AudienceGroups
    paging: Paging
    clock: Clock
    own_repo: str = ""

    async def decide(self, tx: Tx, run: Run, role: Role, answer: Answer, similarity: Similarity) -> PhaseResult:
        """Let what stands of an answer stand; ask again, once, if it cannot be used."""
        if answer.unusable:
            again = await self._again(tx, run, answer.unusable)
            if again is None:
                await self.paging.failed(tx, run, read_of(answer))
            return again or Fail(answer.unusable[0].verdict.code.value)
        await state.lock_mind(tx, run.mind_id)
        circle = await load_circle(tx, self.groups, run)
        if circle is None:
            return Skip(SkipReason.AUDIENCE_UNKNOWN)
        own = await mind_lists.list_own(tx, run.mind_id, _TYPES, circle.rooms, beside=circle.readable)
        owed = self._owed(answer, own["pressure_item"], own["candidate"])
        items = await self._screened(tx, run, role, answer, owed, own["short_term"])
        actor = Actor(Emitter.RUMINATION, f"{role.name}@{role.version}", run_id=run.id)
        batch = Batch(mind_id=run.mind_id, actor=actor, items=items, packet=answer.packet, similarity=similarity)
        verdict, _ = await self.minds.preview(tx, batch)
        deferrals = await mind_lists.count_deferrals(tx, run.mind_id, [entry.id for entry in owed]) if owed else {}
        news = sum(1 for place in answer.extra["window"][: answer.kept.get("recent", 0)] if place[3])
        left = owing.unresolved(owed, accepted(items, verdict), news, answer.extra["posting"], deferrals)
        rows = told(items, verdict)
        if left:
            return await self._unanswered(tx, run, left, rows, own["pressure_item"])
        if run.writes:
            rows = told(items, await self.minds.apply(tx, batch))
        await passes.put(tx, run.id, VERDICTS, {"items": rows, "shown": read_of(answer)})
        return Advance(counted(rows), None if run.writes else Phase.RECORD)

    def _owed(self, answer: Answer, pressures: Sequence[Entry], candidates: Sequence[Entry]) -> list[Entry]:
        """Return the pressures that were shown as owed and still are."""
        shown = frozenset(answer.extra["owed"])
        return [entry for entry in owing.owed(pressures, candidates, self.clock.now()) if entry.id in shown]

    async def _screened(
        self, tx: Tx, run: Run, role: Role, answer: Answer, owed: Sequence[Entry], notes: Sequence[Entry]
    ) -> tuple[Piece, ...]:
        items = speakable(within_limits(answer.items), role)
        keys: set[Key] = set()
        for item in items:
            keys |= item.operation.needs().entries if isinstance(item, Item) else frozenset()
        named = await state.load_entries(tx, run.mind_id, keys)
        heard = [MessageId(place[1]) for place in answer.extra["window"] if place[3]]
        return outward(items, orbit_of(self.own_repo, heard, [each.entry for each in named], owed, notes))

    async def _again(self, tx: Tx, run: Run, refused: tuple[Refused, ...]) -> Advance | None:
        """Return that it is asked once more, with what was wrong; None if it was."""
        if run.asks >= MOST_ASKS:
            return None
        await passes.put(tx, run.id, REPAIR, notes_of(refused))
        return Advance({"refused": len(refused)}, Phase.ASK)

    async def _unanswered(
        self, tx: Tx, run: Run, left: Sequence[EntryId], rows: list[dict[str, str]], pressures: Sequence[Entry]
    ) -> PhaseResult:
        code = RejectionCode.SPEECH_PRESSURE_UNRESOLVED
        message = "queue what is owed with a place to say it, or let the pressure go with a reason"
        again = await self._again(tx, run, (Refused(Rejected(code, "answer", message), ""),))
        if again is not None:
            return again
        await passes.put(tx, run.id, VERDICTS, {"items": rows, "unresolved": list(left)})
        stubborn = await self._stubborn(tx, run, left)
        log.warning("pass.may_not_speak", run=run.id, name=run.name.value, pressures=list(left), cooled=len(stubborn))
        if run.writes:
            await self._cool(tx, run, [entry for entry in pressures if entry.id in stubborn])
        return Fail(code.value)

    async def _stubborn(self, tx: Tx, run: Run, left: Sequence[EntryId]) -> set[EntryId]:
        """Return which of these the runs before failed over as well, as often as is borne."""
        stubborn = set(left)
        before = await reading.list_ended(tx, run, STUBBORN_AFTER - 1)
        for each in before:
            verdicts = await passes.get(tx, each.id, VERDICTS) if each.state is RunState.FAILED else None
            stubborn &= set((verdicts or {}).get("unresolved", ()))
        return stubborn if len(before) == STUBBORN_AFTER - 1 else set()

    async def _cool(self, tx: Tx, run: Run, pressures: Sequence[Entry]) -> None:
        """Let pressures cool that no model answers, so that they do not hold up what a room has said."""
        items = tuple(
            Item(UpsertAgencyPressure(pressure=_cooling(entry.id, entry.body)), f"run:{run.id}:cool:{n}")
            for n, entry in enumerate(pressures)
            if isinstance(entry.body, PressureItem)
        )
        if items:
            actor = Actor(Emitter.PARENT, "speech_pressure_unresolved", run_id=run.id)
            await self.minds.apply(tx, Batch(mind_id=run.mind_id, actor=actor, items=items))


def read_of(answer: Answer) -> list[Place]:
    """Return what of the window stood in the prompt."""
    shown = answer.extra["window"][: answer.kept.get("recent", 0)]
    return [(RoomId(room), id_, revision) for room, id_, revision, _ in shown]


def _cooling(id_: EntryId, body: PressureItem) -> PressureProposal:
    thought = {name: getattr(body, name) for name in Thought.model_fields}
    return PressureProposal(
        **thought,
        pressure_id=id_,
        kind=body.kind,
        status=PressureStatus.COOLING,
        intensity=body.intensity,
        source_memory_ids=body.source_memory_ids,
    )
