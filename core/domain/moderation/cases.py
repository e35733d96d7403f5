"""Cases: something the staff should look at, with its evidence, its decision, and what became of it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NewType, assert_never

from core.domain.ids import CommunityId, OutboxId, PersonId, RoomId
from core.domain.moderation.ladder import step_words
from core.domain.moderation.rules import Level, Step

CaseId = NewType("CaseId", int)
BURST = timedelta(minutes=10)
"""Breaches of one rule by one person so close together are one case and at most one strike."""
ASSIGNED_FOR = timedelta(hours=24)
"""A case that somebody took and did not decide for so long is open again."""


class CaseStatus(StrEnum):
    """Where a case stands. Stored values never change."""

    OPEN = "open"
    ASSIGNED = "assigned"
    DECIDED = "decided"
    CLOSED = "closed"

    @property
    def waits(self) -> bool:
        """Whether it can be decided."""
        return self in (CaseStatus.OPEN, CaseStatus.ASSIGNED)


class Lane(StrEnum):
    """What opened a case."""

    FAST = "fast"
    SLOW = "slow"
    REPORT = "report"
    STAFF = "staff"
    NATIVE = "native"
    RAID = "raid"


class Outcome(StrEnum):
    """What became of a decided case, as receipts tell. Only `APPLIED` says that something was done."""

    NONE = ""
    APPLIED = "applied"
    WOULD_HAVE_APPLIED = "would_have_applied"
    DISMISSED = "dismissed"
    FAILED = "failed"
    NATIVE = "handled_natively"
    REVERSED = "reversed"
    ERASED = "erased"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case. `level`, `dry_run`: as they were when it was opened. `step`: what acting by itself would do.

    `strikes`: how many count with this one. `about_staff`: shown to administrators alone. `version` counts changes:
    whoever decides names the one that they have seen. `decision`: None while it waits, and where it was dismissed.
    `hold_reason`: why a person has to decide, whatever the level.
    """

    id: CaseId
    community_id: CommunityId
    rule_id: str
    rule_version: int
    level: Level
    lane: Lane
    subject_id: PersonId | None
    severity: int
    status: CaseStatus
    version: int
    about_staff: bool
    dry_run: bool
    step: Step
    strikes: int
    assigned_to: PersonId | None
    created_at: datetime
    decision: Step | None
    decision_reason: str
    decided_by: PersonId | None
    decided_at: datetime | None
    outcome: Outcome
    closed_at: datetime | None
    card_id: OutboxId | None
    hold_reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One revision of a message in a case, as it was then. `text`: None once it is kept no longer, or never copied.

    `quote`: what of it breaches the rule; `note`: why, in the words of whoever found it. `files`: names and sizes.
    """

    room_id: RoomId
    ref: str
    revision: int
    author_id: PersonId
    sent_at: datetime
    text: str | None
    withheld: bool = False
    files: tuple[str, ...] = ()
    quote: str = ""
    note: str = ""


def outcome_words(case: Case, missing: Sequence[str] = ()) -> str:
    """Return what became of a case in words; nothing else may say that something was done.

    `missing`: the acts that were not done, each with why.
    """
    step = step_words(case.decision or case.step)
    match case.outcome:
        case Outcome.NONE:
            return _waiting_words(case)
        case Outcome.APPLIED:
            return f"done in part, of {step} not: {'; '.join(missing)}" if missing else f"done: {step}"
        case Outcome.WOULD_HAVE_APPLIED:
            return f"nothing was done; it would have been: {step}"
        case Outcome.DISMISSED:
            return "dismissed, nothing was done"
        case Outcome.FAILED:
            return f"not done: {step}" + (f" ({'; '.join(missing)})" if missing else "")
        case Outcome.NATIVE:
            return "nothing to do: the platform or somebody on it has dealt with it already"
        case Outcome.REVERSED:
            return f"taken back: {step}"
        case Outcome.ERASED:
            return "its words were erased"
        case _:
            assert_never(case.outcome)


def _waiting_words(case: Case) -> str:
    match case.status:
        case CaseStatus.OPEN:
            return "waits for a decision"
        case CaseStatus.ASSIGNED:
            return "taken, waits for a decision"
        case CaseStatus.DECIDED | CaseStatus.CLOSED:
            return "decided, on its way"
        case _:
            assert_never(case.status)
