"""Operations on what the mind would like to say: candidates are queued, moved on, and given up."""

from datetime import datetime, timedelta
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from core.domain.ids import MessageId, RoomId
from core.domain.mind.codes import Rejected, RejectionCode
from core.domain.mind.entries import Entry, Key
from core.domain.mind.facts import Emitter, Facts, Needs, speech_hash
from core.domain.mind.speech import Candidate, CandidateKind, CandidateStatus, DeliveryMode, DeliveryTarget
from core.domain.mind.values import Anchor, AnchorKind, Id, Moment, Score, Target, Text1000, Text1800
from core.domain.mind.view import View
from core.domain.operations.base import (
    Operation,
    Origin,
    Stamped,
    anchors_or,
    cap_or,
    free_or,
    key,
    keys,
    live_or,
    memories_or,
    new_entry,
    origin,
    retire,
    target_or,
)
from core.domain.operations.walls import speech_wall

MOST_DEFERRED = timedelta(days=14)
WAITS_WITHOUT_VENUE = timedelta(hours=24)
"""For how long speech waits that has no place yet."""
LASTS = timedelta(hours=72)
LASTS_IF_MUST = timedelta(days=14)
MOST_ATTEMPTS = 3

_EDGES = frozenset(
    {
        (CandidateStatus.QUEUED, CandidateStatus.DEFERRED),
        (CandidateStatus.DEFERRED, CandidateStatus.QUEUED),
        (CandidateStatus.QUEUED, CandidateStatus.AWAITING_APPROVAL),
        (CandidateStatus.AWAITING_APPROVAL, CandidateStatus.APPROVED),
        (CandidateStatus.QUEUED, CandidateStatus.SENDING),
        (CandidateStatus.APPROVED, CandidateStatus.SENDING),
        (CandidateStatus.SENDING, CandidateStatus.QUEUED),
    }
)


class Intervention(Stamped):
    """Speech as it is proposed; what became of it is added by code."""

    intervention_id: Id
    kind: CandidateKind
    status: Literal[CandidateStatus.QUEUED, CandidateStatus.DEFERRED] = CandidateStatus.QUEUED
    target: Target | None = None
    summary: Text1000
    draft: Text1800
    delivery_target: DeliveryTarget | None = None
    source_pressure_id: Id | None = None
    source_memory_ids: Annotated[tuple[Id, ...], Field(max_length=24)] = ()
    priority: Score = 0.5
    must_eventually_share: bool = False
    deferred_until: Moment | None = None
    expires_at: Moment | None = None

    @property
    def venue(self) -> RoomId | None:
        """The room where it would be said; None if that is no room, or open."""
        where = self.delivery_target
        return None if where is None or where.channel_id is None else RoomId(where.channel_id)

    @property
    def answers(self) -> Anchor | None:
        """The message that it would answer."""
        reply = None if self.delivery_target is None else self.delivery_target.reply_to_message_id
        return None if reply is None else Anchor(ref=f"message:{reply}", kind=AnchorKind.MESSAGE)

    def waits_until(self, now: datetime) -> datetime | None:
        """Return until when it is deferred; None if it is queued."""
        if self.deferred_until is None and self.delivery_target is None:
            return now + WAITS_WITHOUT_VENUE
        return self.deferred_until


class QueueCandidateIntervention(Operation):
    """Propose something to say. Code decides later whether it is said.

    Without a delivery target it waits a day. Refused if the draft holds machine times, markup or instructions, was said
    before, answers what was answered, or would be said where not everybody may read what it was made from.
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset({Emitter.RUMINATION, Emitter.SLEEP, Emitter.OPERATOR})
    operation: Literal["queue_candidate_intervention"] = "queue_candidate_intervention"
    intervention: Intervention

    def needs(self) -> Needs:
        """Return the id, what it was made from, where it would be said, and how many there are."""
        it = self.intervention
        pressures = () if it.source_pressure_id is None else (it.source_pressure_id,)
        replies = () if it.answers is None else (it.answers,)
        return Needs(
            entries=frozenset({key("candidate", it.intervention_id)})
            | keys("pressure_item", pressures)
            | keys("durable", it.source_memory_ids),
            counted=frozenset({"candidate"}),
            anchors=replies,
            targets=() if it.target is None else (it.target,),
            venues=frozenset() if it.venue is None else frozenset({it.venue}),
            drafts=frozenset({it.draft}),
            answered=frozenset(self._replies()),
        )

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether what it names is there."""
        it = self.intervention
        pressures = () if it.source_pressure_id is None else (it.source_pressure_id,)
        return (
            it.stamps_or(facts, "intervention")
            or free_or(view, "candidate", it.intervention_id, "intervention.interventionId")
            or (None if it.target is None else target_or(it.target, facts, "intervention.target"))
            or live_or(view, "pressure_item", pressures, "intervention.sourcePressureId")
            or memories_or(view, it.source_memory_ids, "intervention.sourceMemoryIds")
            or self._place_or(view, facts)
        )

    def check(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether it may be said there, and whether there is room for it."""
        it = self.intervention
        if any(reply in facts.answered for reply in self._replies()):
            return Rejected(RejectionCode.ALREADY_ANSWERED, "intervention.deliveryTarget", "was answered")
        if speech_hash(it.draft) in facts.said:
            return Rejected(RejectionCode.REPEATS_RECENT_SPEECH, "intervention.draft", "was said lately")
        sources, _ = self._origin(view, facts)
        return (
            speech_wall(it.draft, facts, "intervention.draft")
            or self._audience_or(sources, facts)
            or self._times_or(facts)
            or cap_or(view, "candidate", sources, facts, "intervention")
        )

    def apply(self, view: View, facts: Facts) -> str:
        """Let it wait for its time."""
        it = self.intervention
        until = it.waits_until(facts.now)
        lasts = LASTS_IF_MUST if it.must_eventually_share else LASTS
        candidate = Candidate(
            kind=it.kind,
            status=CandidateStatus.QUEUED if until is None else CandidateStatus.DEFERRED,
            target=it.target,
            summary=it.summary,
            draft=it.draft,
            delivery_target=it.delivery_target,
            source_pressure_id=it.source_pressure_id,
            source_memory_ids=it.source_memory_ids,
            priority=it.priority,
            must_eventually_share=it.must_eventually_share,
            deferred_until=until,
            expires_at=(until or facts.now) + lasts if it.expires_at is None else it.expires_at,
        )
        view.put(new_entry(it.intervention_id, candidate, facts, self._origin(view, facts)))
        return candidate.status.value

    def _replies(self) -> tuple[MessageId, ...]:
        where = self.intervention.delivery_target
        return () if where is None or where.reply_to_message_id is None else (MessageId(where.reply_to_message_id),)

    def _origin(self, view: View, facts: Facts) -> Origin:
        it = self.intervention
        pressure = None if it.source_pressure_id is None else view.find("pressure_item", it.source_pressure_id)
        rests_on = (pressure, *(view.holder("durable", id_) for id_ in it.source_memory_ids))
        anchors = () if it.answers is None else (it.answers,)
        return origin(facts, anchors, (each for each in rests_on if each is not None), it.target)

    def _place_or(self, view: View, facts: Facts) -> Rejected | None:
        it = self.intervention
        path = "intervention.deliveryTarget"
        where = it.delivery_target
        if where is None:
            return None
        if where.mode is DeliveryMode.CHANNEL and where.channel_id is None:
            return Rejected(RejectionCode.DELIVERY_TARGET_MISSING_CHANNEL, f"{path}.channelId", "name the channel")
        if where.mode is DeliveryMode.OWNER_DM and where.channel_id is not None:
            return Rejected(RejectionCode.CONTRADICTION, f"{path}.channelId", "a direct message has no channel")
        if it.venue is not None and it.venue not in facts.rooms:
            return Rejected(RejectionCode.UNKNOWN_REFERENCE, f"{path}.channelId", "is no room here")
        if it.answers is None:
            return None
        refusal = anchors_or(view, (it.answers,), facts, f"{path}.replyToMessageId")
        if refusal is None and any(facts.messages[reply].room_id != it.venue for reply in self._replies()):
            return Rejected(RejectionCode.UNKNOWN_REFERENCE, f"{path}.replyToMessageId", "stands in another room")
        return refusal

    def _audience_or(self, sources: frozenset[RoomId], facts: Facts) -> Rejected | None:
        venue = self.intervention.venue
        path = "intervention.deliveryTarget.channelId"
        if venue is None:
            return None
        read = facts.packet.rooms if facts.packet is not None and facts.actor.kind.model else None
        if read is not None and not facts.group((venue,)) <= facts.group(read):
            return Rejected(RejectionCode.VENUE_OUTSIDE_AUDIENCE, path, "is read by others than what was shown")
        if not sources <= facts.readable.get(venue, frozenset()):
            return Rejected(
                RejectionCode.TARGET_NOT_READABLE, path, "has readers who may not read what it is made from"
            )
        return None

    def _times_or(self, facts: Facts) -> Rejected | None:
        it = self.intervention
        if it.status is CandidateStatus.DEFERRED and it.waits_until(facts.now) is None:
            return Rejected(RejectionCode.MISSING_FIELD, "intervention.deferredUntil", "say until when")
        if it.status is CandidateStatus.QUEUED and it.deferred_until is not None:
            return Rejected(RejectionCode.CONTRADICTION, "intervention.deferredUntil", "is queued and deferred")
        refusal = _deferral_or(it.deferred_until, facts, "intervention.deferredUntil")
        if refusal is not None or it.expires_at is None:
            return refusal
        start = it.waits_until(facts.now) or facts.now
        if not start < it.expires_at <= start + MOST_DEFERRED:
            return Rejected(RejectionCode.OUT_OF_RANGE, "intervention.expiresAt", "is not within 14 days of its turn")
        return None


class AdvanceCandidate(Operation):
    """Move a candidate on: put it off, ask for approval, approve it, send it, or queue it again after a failure.

    Refused where that is no next step. Only an operator approves. The third failed sending gives it up.
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset({Emitter.PARENT, Emitter.OPERATOR})
    operation: Literal["advance_candidate"] = "advance_candidate"
    intervention_id: Id
    to: CandidateStatus
    reason: Text1000
    deferred_until: Moment | None = None

    def needs(self) -> Needs:
        """Return the candidate."""
        return Needs(entries=keys("candidate", (self.intervention_id,)))

    def rewrites(self) -> tuple[Key, ...]:
        """Return the candidate."""
        return (key("candidate", self.intervention_id),)

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether it is open."""
        return live_or(view, "candidate", (self.intervention_id,), "interventionId")

    def check(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether it is a next step, by whom it may be taken, and until when it waits."""
        _, candidate = _open(view, self.intervention_id)
        if (candidate.status, self.to) not in _EDGES:
            return Rejected(RejectionCode.BAD_TRANSITION, "to", f"does not follow {candidate.status.value}")
        if self.to is CandidateStatus.APPROVED and facts.actor.kind is not Emitter.OPERATOR:
            return Rejected(RejectionCode.OPERATION_NOT_ALLOWED, "to", "an operator approves")
        if self.to is CandidateStatus.SENDING and candidate.delivery_target is None:
            return Rejected(RejectionCode.DELIVERY_TARGET_MISSING_CHANNEL, "to", "has no place to be said")
        if self.to is CandidateStatus.DEFERRED and self.deferred_until is None:
            return Rejected(RejectionCode.MISSING_FIELD, "deferredUntil", "say until when")
        if self.to is not CandidateStatus.DEFERRED and self.deferred_until is not None:
            return Rejected(RejectionCode.CONTRADICTION, "deferredUntil", "is not deferred")
        return _deferral_or(self.deferred_until, facts, "deferredUntil")

    def apply(self, view: View, facts: Facts) -> str:
        """Take the step."""
        entry, candidate = _open(view, self.intervention_id)
        failed = candidate.status is CandidateStatus.SENDING
        attempts = candidate.attempts + (1 if failed else 0)
        if attempts >= MOST_ATTEMPTS:
            given_up = {"status": CandidateStatus.RETIRED, "attempts": attempts}
            retire(view, entry, facts, "delivery_failed", body=candidate.model_copy(update=given_up))
            return CandidateStatus.RETIRED.value
        step = {"status": self.to, "attempts": attempts, "deferred_until": self.deferred_until}
        view.put(entry.changed(facts.now, candidate.model_copy(update=step)))
        return self.to.value


class RetireCandidateIntervention(Operation):
    """Give up something that would have been said, with the reason.

    Refused if it is over, or on its way out.
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset(
        {Emitter.RUMINATION, Emitter.SLEEP, Emitter.UPKEEP, Emitter.PARENT, Emitter.OPERATOR}
    )
    operation: Literal["retire_candidate_intervention"] = "retire_candidate_intervention"
    intervention_id: Id
    reason: Text1000

    def needs(self) -> Needs:
        """Return the candidate."""
        return Needs(entries=keys("candidate", (self.intervention_id,)))

    def rewrites(self) -> tuple[Key, ...]:
        """Return the candidate."""
        return (key("candidate", self.intervention_id),)

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether it is open and not being sent."""
        refusal = live_or(view, "candidate", (self.intervention_id,), "interventionId")
        if refusal is None and _open(view, self.intervention_id)[1].status is CandidateStatus.SENDING:
            return Rejected(RejectionCode.NOT_LIVE, "interventionId", "is being sent")
        return refusal

    def apply(self, view: View, facts: Facts) -> str:
        """Make a tombstone of it."""
        end_candidate(view, view.find("candidate", self.intervention_id), facts, self.reason)
        return "retired"


def end_candidate(view: View, entry: Entry | None, facts: Facts, reason: str) -> None:
    """Give up a candidate; nothing happens if it is over or being sent."""
    candidate = view.body(entry, Candidate)
    if entry is None or candidate is None or candidate.status is CandidateStatus.SENDING:
        return
    retire(view, entry, facts, reason, body=candidate.model_copy(update={"status": CandidateStatus.RETIRED}))


def _open(view: View, id_: str) -> tuple[Entry, Candidate]:
    entry = view.find("candidate", id_)
    candidate = view.body(entry, Candidate)
    if entry is None or candidate is None:
        raise LookupError("candidate is not open")
    return entry, candidate


def _deferral_or(until: datetime | None, facts: Facts, path: str) -> Rejected | None:
    if until is not None and not facts.now < until <= facts.now + MOST_DEFERRED:
        return Rejected(RejectionCode.OUT_OF_RANGE, path, "is not within the next 14 days")
    return None
