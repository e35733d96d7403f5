"""Operations on what presses the mind to act."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from core.domain.mind.bodies import PressureItem, PressureKind, PressureStatus
from core.domain.mind.codes import Rejected, RejectionCode
from core.domain.mind.entries import Entry, Key, Retired
from core.domain.mind.facts import Emitter, Facts, Needs
from core.domain.mind.speech import Candidate
from core.domain.mind.values import MOST_SUPPORT, Id, Moment, Score, Text1000, Thought
from core.domain.mind.view import View
from core.domain.operations.base import (
    Operation,
    Origin,
    Stamped,
    ahead_or,
    anchors_or,
    cap_or,
    key,
    keys,
    live_or,
    memories_or,
    new_entry,
    origin,
    resting_on,
    retire,
    target_or,
)
from core.domain.operations.speech import end_candidate
from core.domain.operations.walls import agency_wall

MOST_RISE = 0.3
"""By how much a run of a model may let one pressure grow."""
_SLACK = 1e-9
_OVER = frozenset({PressureStatus.RESOLVED, PressureStatus.RETIRED})


class PressureProposal(Stamped, Thought):
    """A pressure as it is proposed."""

    pressure_id: Id
    kind: PressureKind
    status: PressureStatus = PressureStatus.ACTIVE
    intensity: Score = 0.5
    source_memory_ids: Annotated[tuple[Id, ...], Field(max_length=MOST_SUPPORT)] = ()
    resolved_at: Moment | None = None


class UpsertAgencyPressure(Operation):
    """Say what presses the mind to act, or write a pressure anew; status `resolved` or `retired` ends it.

    Refused without a claim or question, without what it would have done, or without anything that it rests on, and if
    it grows by more than 0.3 in one run.
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset(
        {Emitter.RUMINATION, Emitter.SLEEP, Emitter.PARENT, Emitter.OPERATOR}
    )
    operation: Literal["upsert_agency_pressure"] = "upsert_agency_pressure"
    pressure: PressureProposal

    @property
    def _limit(self) -> str:
        return f"pressure:{self.pressure.pressure_id}"

    def needs(self) -> Needs:
        """Return the pressure, what it rests on, how many there are, and the candidates that end with it."""
        it = self.pressure
        return Needs(
            entries=keys("pressure_item", (it.pressure_id,)) | keys("durable", it.source_memory_ids),
            live=frozenset({"candidate"}) if it.status in _OVER else frozenset(),
            counted=frozenset({"pressure_item"}),
            anchors=it.proof,
            targets=(it.target,),
            limits=frozenset({self._limit}),
        )

    def rewrites(self) -> tuple[Key, ...]:
        """Return the pressure."""
        return (key("pressure_item", self.pressure.pressure_id),)

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether what it names is there."""
        it = self.pressure
        there = view.find("pressure_item", it.pressure_id)
        if there is not None and not there.live:
            return Rejected(RejectionCode.NOT_LIVE, "pressure.pressureId", "pressure is over")
        return (
            it.stamps_or(facts, "pressure")
            or target_or(it.target, facts, "pressure.target")
            or anchors_or(view, it.anchor_refs, facts, "pressure.anchorRefs")
            or anchors_or(view, it.evidence_refs, facts, "pressure.evidenceRefs")
            or memories_or(view, it.source_memory_ids, "pressure.sourceMemoryIds")
            or ahead_or(facts, "pressure.resolvedAt", it.resolved_at)
        )

    def check(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether it says enough, grows slowly, and has room."""
        it = self.pressure
        refusal = agency_wall(it, facts, "pressure", bool(it.source_memory_ids))
        if refusal is not None:
            return refusal
        if it.resolved_at is not None and it.status is not PressureStatus.RESOLVED:
            return Rejected(RejectionCode.CONTRADICTION, "pressure.resolvedAt", "is not resolved")
        if self._entry(view) is None:
            if it.status in _OVER:
                return Rejected(RejectionCode.CONTRADICTION, "pressure.status", "is new and over")
            return cap_or(view, "pressure_item", self._origin(view, facts)[0], facts, "pressure")
        if facts.actor.kind.model and self._rise(view) + facts.spent.get(self._limit, 0.0) > MOST_RISE + _SLACK:
            return Rejected(RejectionCode.OUT_OF_RANGE, "pressure.intensity", f"grows by more than {MOST_RISE}")
        return None

    def spends(self, view: View) -> dict[str, float]:
        """Return by how much it grows."""
        rise = self._rise(view)
        return {self._limit: rise} if rise > 0 else {}

    def apply(self, view: View, facts: Facts) -> str:
        """Let it press, or end it."""
        it = self.pressure
        entry = self._entry(view)
        rooms, people = made_of = self._origin(view, facts)
        if entry is None:
            view.put(new_entry(it.pressure_id, self._body(facts), facts, made_of))
            return "added"
        over = Retired(facts.now, it.status.value) if it.status in _OVER else None
        view.put(entry.changed(facts.now, self._body(facts), sources=rooms, people=people, retired=over))
        if over is None:
            return "changed"
        _end_speech(view, entry.id, it.status, facts)
        return it.status.value

    def _entry(self, view: View) -> Entry | None:
        return view.find("pressure_item", self.pressure.pressure_id)

    def _rise(self, view: View) -> float:
        there = view.body(self._entry(view), PressureItem)
        return 0.0 if there is None else max(0.0, self.pressure.intensity - there.intensity)

    def _origin(self, view: View, facts: Facts) -> Origin:
        it = self.pressure
        memories = (view.holder("durable", id_) for id_ in it.source_memory_ids)
        rests_on = (*(each for each in memories if each is not None), *resting_on(view, it.proof))
        return origin(facts, it.proof, rests_on, it.target)

    def _body(self, facts: Facts) -> PressureItem:
        it = self.pressure
        thought: dict[str, Any] = {name: getattr(it, name) for name in Thought.model_fields}
        given = it.resolved_at if it.resolved_at is not None and not facts.actor.kind.model else facts.now
        return PressureItem(
            **thought,
            kind=it.kind,
            status=it.status,
            intensity=it.intensity,
            source_memory_ids=it.source_memory_ids,
            resolved_at=given if it.status is PressureStatus.RESOLVED else None,
        )


class RetireAgencyPressure(Operation):
    """Let a pressure go, with the reason; what would have been said because of it is given up too.

    Refused if it is not there, or is over. What must be shared stays queued.
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset({Emitter.RUMINATION, Emitter.SLEEP, Emitter.OPERATOR})
    operation: Literal["retire_agency_pressure"] = "retire_agency_pressure"
    pressure_id: Id
    reason: Text1000

    def needs(self) -> Needs:
        """Return the pressure, and all candidates."""
        return Needs(entries=keys("pressure_item", (self.pressure_id,)), live=frozenset({"candidate"}))

    def rewrites(self) -> tuple[Key, ...]:
        """Return the pressure."""
        return (key("pressure_item", self.pressure_id),)

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether it presses."""
        return live_or(view, "pressure_item", (self.pressure_id,), "pressureId")

    def apply(self, view: View, facts: Facts) -> str:
        """Make a tombstone of it, and of what would have been said."""
        entry = view.find("pressure_item", self.pressure_id)
        item = view.body(entry, PressureItem)
        if entry is None or item is None:
            raise LookupError("pressure is over")
        over = item.model_copy(update={"status": PressureStatus.RETIRED})
        retire(view, entry, facts, self.reason, body=over)
        _end_speech(view, entry.id, PressureStatus.RETIRED, facts)
        return "retired"


def _end_speech(view: View, pressure_id: str, status: PressureStatus, facts: Facts) -> None:
    for other in list(view.live("candidate")):
        candidate = view.body(other, Candidate)
        if candidate is None or candidate.source_pressure_id != pressure_id or candidate.must_eventually_share:
            continue
        end_candidate(view, other, facts, f"pressure_{status.value}")
