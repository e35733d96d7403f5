"""Entries about speech: proof that something was said, and what the mind would like to say."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from core.domain.mind.values import (
    Count,
    Id,
    Moment,
    RowId,
    Score,
    Strict,
    Target,
    Text128,
    Text280,
    Text512,
    Text1000,
    Text1800,
)


class Cause(StrEnum):
    """Why something was said."""

    REPLY = "reply"
    CANDIDATE = "candidate"
    NOTICE = "notice"
    INVESTIGATION = "investigation"


class Transport(StrEnum):
    """Where it was said."""

    DISCORD = "discord"
    TELEGRAM = "telegram"
    CONSOLE = "console"


class Outcome(StrEnum):
    """Whether it is known to have arrived."""

    SENT = "sent"
    UNKNOWN = "unknown"


class Receipt(Strict):
    """That something was said. `delivery_ref`: trigger, prompt hash, model, cost and rule, as the outbox keeps them."""

    type: Literal["receipt"] = "receipt"
    outbox_id: int
    intervention_id: Id | None = None
    cause: Cause
    room_id: int
    reply_to_message_id: int | None = None
    transport: Transport
    sent_message_ids: Annotated[tuple[Text128, ...], Field(max_length=32)] = ()
    content_length: Count
    chunk_count: Annotated[int, Field(ge=1)]
    preview: Text280
    content_hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    sent_at: Moment
    outcome: Outcome
    delivery_ref: Text512


class CandidateKind(StrEnum):
    """What sort of speech it would be."""

    DIRECT_REPLY = "direct_reply"
    IDENTITY_CRYSTALLIZATION = "identity_crystallization"
    MODERATION_NOTE = "moderation_note"
    RIPE_THOUGHT_SHARE = "ripe_thought_share"
    SELF_ADVOCACY = "self_advocacy"
    WORLD_ADVOCACY = "world_advocacy"


class CandidateStatus(StrEnum):
    """Where speech that the mind would like to make stands; the last two are the end."""

    QUEUED = "queued"
    DEFERRED = "deferred"
    AWAITING_APPROVAL = "awaiting_approval"
    APPROVED = "approved"
    SENDING = "sending"
    SPOKEN = "spoken"
    RETIRED = "retired"


class DeliveryMode(StrEnum):
    """To whom it would be said."""

    CHANNEL = "channel"
    OWNER_DM = "owner_dm"


class DeliveryTarget(Strict):
    """Where it would be said. A channel names its room."""

    mode: DeliveryMode = DeliveryMode.CHANNEL
    channel_id: RowId | None = None
    reply_to_message_id: RowId | None = None


class Candidate(Strict):
    """Speech that the mind would like to make."""

    type: Literal["candidate"] = "candidate"
    kind: CandidateKind
    status: CandidateStatus = CandidateStatus.QUEUED
    target: Target | None = None
    summary: Text1000
    draft: Text1800
    delivery_target: DeliveryTarget | None = None
    source_pressure_id: Id | None = None
    source_memory_ids: Annotated[tuple[Id, ...], Field(max_length=24)] = ()
    priority: Score = 0.5
    must_eventually_share: bool = False
    deferred_until: Moment | None = None
    expires_at: Moment
    attempts: Count = 0
    receipt_id: Id | None = None
    spoken_at: Moment | None = None
