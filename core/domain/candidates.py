"""What waits to be said: what of it is given up, what wakes, and in which order the rest is judged. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from core.domain.ids import MessageId, RoomId
from core.domain.mind.entries import Entry
from core.domain.mind.speech import Candidate, CandidateKind, CandidateStatus
from core.domain.mind.values import EntryId

APPROVAL_LASTS = timedelta(hours=24)
"""How long a person has to say yes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What became of what candidates rest on.

    `answered`: when the newest live receipt for a message was recorded, which is later than it was sent. `gone`: rooms
    in which nothing can be said any more. `voided`: memories and pressures that were voided or erased. `deleted`:
    messages.
    """

    answered: Mapping[MessageId, datetime] = field(default_factory=dict)
    gone: frozenset[RoomId] = frozenset()
    voided: frozenset[EntryId] = frozenset()
    deleted: frozenset[MessageId] = frozenset()


class StaleReason(StrEnum):
    """Why a candidate is given up before it is judged. Stored values never change."""

    EXPIRED = "expired"
    APPROVAL_EXPIRED = "approval_expired"
    ALREADY_ANSWERED = "already_answered"
    ROOM_GONE = "room_gone"
    SOURCE_VOIDED = "source_voided"


def stale(candidate: Entry, standing: Standing, now: datetime) -> StaleReason | None:
    """Return why a candidate is given up; None for one that stands, and for one that is over or being sent."""
    body = candidate_of(candidate)
    if body is None or body.status is CandidateStatus.SENDING:
        return None
    if body.expires_at <= now:
        return StaleReason.EXPIRED
    if body.status is CandidateStatus.AWAITING_APPROVAL and candidate.updated_at + APPROVAL_LASTS <= now:
        return StaleReason.APPROVAL_EXPIRED
    reply = _reply(body)
    answered_at = None if reply is None else standing.answered.get(reply)
    # At the same instant the receipt is the later one: were it there before, the candidate would have been refused.
    if answered_at is not None and answered_at >= candidate.created_at:
        return StaleReason.ALREADY_ANSWERED
    if body.delivery_target is not None and body.delivery_target.channel_id in standing.gone:
        return StaleReason.ROOM_GONE
    sources = {*body.source_memory_ids, body.source_pressure_id}
    return StaleReason.SOURCE_VOIDED if sources & standing.voided or reply in standing.deleted else None


def wakes(candidate: Entry, now: datetime) -> bool:
    """Return whether a candidate that was put off is to be queued now.

    One without a place stays as it is: queued it could not be said, and yet would count as the answer to its pressure.
    """
    body = candidate_of(candidate)
    if body is None or body.status is not CandidateStatus.DEFERRED or body.delivery_target is None:
        return False
    return body.deferred_until is None or body.deferred_until <= now


def answers_obligation(candidate: Entry, obligations: frozenset[MessageId]) -> bool:
    """Return whether a candidate answers a message of a live obligation. `obligations`: messages of the live ones."""
    body = candidate_of(candidate)
    return body is not None and body.kind is CandidateKind.DIRECT_REPLY and _reply(body) in obligations


def in_turn(candidates: Iterable[Entry], obligations: frozenset[MessageId]) -> tuple[Entry, ...]:
    """Return the candidates that could be said now, in the order in which they are judged.

    Approved ones come first, then answers to obligations, then by priority; of equals the one that waits longer.
    `obligations`: messages of the live ones.
    """
    found = [
        (
            body.status is not CandidateStatus.APPROVED,
            not answers_obligation(entry, obligations),
            -body.priority,
            entry.updated_at,
            entry.id,
            entry,
        )
        for entry in candidates
        if (body := candidate_of(entry)) is not None
        and body.status in (CandidateStatus.QUEUED, CandidateStatus.APPROVED)
        and body.delivery_target is not None
    ]
    return tuple(each[-1] for each in sorted(found, key=lambda each: each[:-1]))


def candidate_of(entry: Entry) -> Candidate | None:
    """Return what a live candidate holds; None for any other entry."""
    return entry.body if entry.live and isinstance(entry.body, Candidate) else None


def _reply(body: Candidate) -> MessageId | None:
    where = body.delivery_target
    if where is None or where.reply_to_message_id is None:
        return None
    return MessageId(where.reply_to_message_id)
