"""Why an operation on the mind is refused: stable codes, part of the interface, only ever added to."""

import re
from dataclasses import dataclass
from enum import StrEnum

_WORD = re.compile(r"[a-z_]{1,40}")


class RejectionCode(StrEnum):
    """Every code a refusal can carry, by group: form, reference, meaning, lifecycle, audience, order, undo, pass."""

    BAD_JSON = "bad_json"
    UNKNOWN_OPERATION = "unknown_operation"
    UNKNOWN_FIELD = "unknown_field"
    MISSING_FIELD = "missing_field"
    NULL_OPTIONAL = "null_optional"
    BAD_ENUM = "bad_enum"
    BAD_TYPE = "bad_type"
    BAD_ID = "bad_id"
    BAD_TIMESTAMP = "bad_timestamp"
    OUT_OF_RANGE = "out_of_range"
    TOO_LONG = "too_long"
    TOO_MANY = "too_many"
    TOO_LARGE = "too_large"
    CONTRADICTION = "contradiction"

    UNKNOWN_REFERENCE = "unknown_reference"
    FOREIGN_MIND = "foreign_mind"
    ID_TAKEN = "id_taken"
    NOT_LIVE = "not_live"
    ALREADY_ANSWERED = "already_answered"
    ANCHOR_NOT_IN_PACKET = "anchor_not_in_packet"
    QUOTE_NOT_FOUND = "quote_not_found"

    NO_CLAIM_OR_QUESTION = "no_claim_or_question"
    NO_TENSION = "no_tension"
    NO_ACTION_IMPLICATION = "no_action_implication"
    NO_ANCHOR = "no_anchor"
    SELF_ANCHORED = "self_anchored"
    UNTRUSTED_IDENTITY = "untrusted_identity"
    WEAK_REASON = "weak_reason"
    LOSS_UNEXPLAINED = "loss_unexplained"
    PROMPT_ECHO = "prompt_echo"
    REPEATS_RECENT_SPEECH = "repeats_recent_speech"

    CRYSTALLIZE_WRONG_KIND = "crystallize_wrong_kind"
    DELIVERY_TARGET_MISSING_CHANNEL = "delivery_target_missing_channel"
    PROPOSAL_MISMATCH = "proposal_mismatch"
    CASE_CLOSED = "case_closed"
    STILL_SUPPORTS = "still_supports"
    NOT_EVICTABLE = "not_evictable"
    CURSOR_REGRESSION = "cursor_regression"
    NOT_REPRODUCIBLE = "not_reproducible"
    LIMIT_REACHED = "limit_reached"
    BAD_TRANSITION = "bad_transition"

    VENUE_OUTSIDE_AUDIENCE = "venue_outside_audience"
    TARGET_NOT_READABLE = "target_not_readable"
    PERSON_ERASED = "person_erased"
    PERSON_OPTED_OUT = "person_opted_out"

    STALE_VERSION = "stale_version"
    DUPLICATE_OPERATION = "duplicate_operation"
    BATCH_REFUSED = "batch_refused"

    OPERATION_NOT_ALLOWED = "operation_not_allowed"
    MIND_PAUSED = "mind_paused"

    NOT_UNDOABLE = "not_undoable"
    UNDO_HAS_DEPENDENTS = "undo_has_dependents"
    UNDO_REDACTED = "undo_redacted"

    SELF_ORBIT = "self_orbit"
    SPEECH_PRESSURE_UNRESOLVED = "speech_pressure_unresolved"
    SHORT_TERM_LEFT_AFTER_SLEEP = "short_term_left_after_sleep"
    SLEEP_RETURNED_NOTHING_UNDER_PRESSURE = "sleep_returned_nothing_under_pressure"
    BULK_PRUNE = "bulk_prune"
    NOT_CONSERVED = "not_conserved"


@dataclass(frozen=True, slots=True)
class Rejected:
    """A refusal: its code, where in the operation, and what would be taken instead. Never holds people's words."""

    code: RejectionCode
    path: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Accepted:
    """An operation that stands. `effect`: one word for what it did; `entries`: the ids that it touched, in order."""

    effect: str
    entries: tuple[str, ...] = ()


Verdict = Accepted | Rejected


def worded(reason: str) -> bool:
    """Return whether the reason of a tombstone is in somebody's own words, and not one of code's."""
    return _WORD.fullmatch(reason) is None
