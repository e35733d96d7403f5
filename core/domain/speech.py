"""What is said, whether it is said, and what proves it: gates, drafts, public text, receipts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from core.domain.ids import PersonId, RoomId
from core.domain.messages import Address, Origin
from core.domain.rooms import Room, RoomMode, RoomState


class SilenceReason(StrEnum):
    """Why nothing was said. Stored values never change."""

    NOT_ADDRESSED = "not_addressed"
    MODE_SILENT = "mode_silent"
    ROOM_OFF = "room_off"
    OWN_MESSAGE = "own_message"
    BOT_IGNORED = "bot_ignored"
    WEBHOOK = "webhook"
    LOOP_LIMIT = "loop_limit"
    DUPLICATE = "duplicate"
    TOO_OLD = "too_old"
    TRIGGER_DELETED = "trigger_deleted"
    ADDRESS_REMOVED = "address_removed"
    QUIET_HOURS = "quiet_hours"
    PAUSED = "paused"
    RATE_LIMITED = "rate_limited"
    BUDGET_SPENT = "budget_spent"
    OPEN_GATE = "open_gate"
    PERSON_OPTED_OUT = "person_opted_out"
    MODEL_DECLINED = "model_declined"
    EMPTY_OUTPUT = "empty_output"
    GUARD_BLOCKED = "guard_blocked"
    PROVIDER_DOWN = "provider_down"
    NO_PERMISSION = "no_permission"
    ROOM_GONE = "room_gone"
    SUPERSEDED = "superseded"
    SOURCE_VOIDED = "source_voided"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class NoSpeech:
    """Silence as a value."""

    reason: SilenceReason


@dataclass(frozen=True, slots=True)
class Speak:
    """The gates are open."""


Decision = Speak | NoSpeech


class SpeechKind(StrEnum):
    """What an outbox row is."""

    REPLY = "reply"
    SPEECH = "speech"
    NOTICE = "notice"
    COMMAND = "command"
    MODERATION = "moderation"
    REPORT = "report"
    CARD = "card"


class OutboxState(StrEnum):
    """Where an answer, or one part of it, stands."""

    READY = "ready"
    SENDING = "sending"
    SENT = "sent"
    UNKNOWN = "unknown"
    FAILED = "failed"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Draft:
    """Guarded text on its way to the outbox; not yet public."""

    kind: SpeechKind
    room_id: RoomId
    front_end: str
    reply_to: str | None
    text: str
    audience: frozenset[RoomId]
    dedupe: str
    private_to: PersonId | None = None


@dataclass(frozen=True, slots=True)
class PublicText:
    """The only thing an adapter can send. Constructed in `core/chat/deliver.py` alone."""

    text: str


@dataclass(frozen=True, slots=True)
class ReceiptSource:
    """One thing an answer rests on, with the rooms it came from."""

    kind: str
    ref: str
    audience: frozenset[RoomId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Proof and explanation of one answer; what `/why` shows. Money is in millionths of a dollar."""

    trigger: str
    rule: str
    provider: str
    model: str = ""
    usd_micro: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    prompt_sha256: str = ""
    role: str = ""
    persona: str = ""
    attempts: int = 1
    guards: tuple[str, ...] = ()
    gates: Mapping[str, object] = field(default_factory=dict)
    sections: tuple[Mapping[str, object], ...] = ()
    sources: tuple[ReceiptSource, ...] = ()


def should_reply(
    room: Room, addressed_by: frozenset[Address], origin: Origin, now_local: datetime, opted_out: bool = False
) -> Decision:
    """Decide by the gates that need no count: standing of the author, the room's state, mode and hours.

    Commands pass pauses, quiet hours and the silent mode: they are answered to the asker alone.
    """
    reason = _author_gate(origin) or _room_gate(room, addressed_by, now_local)
    if reason is None and opted_out and Address.COMMAND not in addressed_by:
        reason = SilenceReason.PERSON_OPTED_OUT
    return Speak() if reason is None else NoSpeech(reason)


def _author_gate(origin: Origin) -> SilenceReason | None:
    match origin:
        case Origin.SELF:
            return SilenceReason.OWN_MESSAGE
        case Origin.BOT:
            return SilenceReason.BOT_IGNORED
        case Origin.WEBHOOK | Origin.CHANNEL:
            return SilenceReason.WEBHOOK
        case Origin.HUMAN | Origin.PROXIED | Origin.ANONYMOUS_ADMIN:
            return None


def _room_gate(room: Room, addressed_by: frozenset[Address], now_local: datetime) -> SilenceReason | None:
    if room.state is not RoomState.ACTIVE:
        return SilenceReason.ROOM_GONE
    if not addressed_by:
        return SilenceReason.NOT_ADDRESSED
    if Address.COMMAND in addressed_by:
        return None
    if room.paused:
        return SilenceReason.PAUSED
    if room.mode is RoomMode.SILENT:
        return SilenceReason.MODE_SILENT
    if room.mode is RoomMode.MENTION and addressed_by == {Address.NAME}:
        return SilenceReason.NOT_ADDRESSED
    if room.quiet_hours is not None and room.quiet_hours.covers(now_local):
        return SilenceReason.QUIET_HOURS
    return None


def speech_key(mind_id: str, candidate_id: str, attempt: int) -> str:
    """Return the key under which the outbox holds one attempt at saying a candidate.

    Ids of candidates are a model's own words: two minds may well use the same one.
    """
    return f"{SpeechKind.SPEECH}:{candidate_id}#{attempt}@{mind_id}"


def card_key(mind_id: str, candidate_id: str, attempt: int) -> str:
    """Return the key under which the outbox holds the card that asks whether a candidate may be said."""
    return f"{SpeechKind.CARD}:{mind_id}:{candidate_id}:{attempt}"


def candidate_of_key(dedupe: str) -> str | None:
    """Return the candidate that something in the outbox was made from; None if it was made from none."""
    head, _, rest = dedupe.partition(":")
    candidate_id, mark, _ = rest.partition("#")
    return candidate_id if head == SpeechKind.SPEECH and mark else None
