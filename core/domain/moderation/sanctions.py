"""The ledger of what was done to members, and the look at the present that comes before each act. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NewType

from core.domain.ids import CommunityId
from core.domain.moderation.acts import ON_MEMBERS, ActKind, Standing
from core.domain.moderation.cases import CaseId
from core.domain.moderation.rules import Category

SanctionId = NewType("SanctionId", int)
ActId = NewType("ActId", int)
APPEALED_WITHIN = timedelta(days=30)


class SanctionKind(StrEnum):
    """What was done. Stored values never change."""

    NOTE = "note"
    WARN = "warn"
    DELETE = "delete"
    TIMEOUT = "timeout"
    SLOW = "slow"
    KICK = "kick"
    BAN = "ban"
    STRIKE = "strike"


class SanctionOrigin(StrEnum):
    """Where it came from."""

    FAST = "fast"
    SLOW = "slow"
    STAFF = "staff"
    PLATFORM_NATIVE = "platform_native"
    EXTERNAL_BOT = "external_bot"
    IMPORT = "import"


class ActState(StrEnum):
    """Where an act stands; all but the first two are ends. `UNKNOWN`: it may have been done, and nothing can tell."""

    READY = "ready"
    DOING = "doing"
    DONE = "done"
    WOULD = "would"
    REFUSED = "refused"
    FAILED = "failed"
    UNKNOWN = "unknown"

    @property
    def stands(self) -> bool:
        """Whether what hangs on it counts: it is done, or may still be."""
        return self in (ActState.READY, ActState.DOING, ActState.DONE, ActState.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sanction:
    """One row of the ledger. `subject`: a hash that no name can be read from. `effect`: where its act stands.

    `effect` None: nothing is done on the platform for it. `reversed_at`: None if it holds.
    """

    id: SanctionId
    community_id: CommunityId
    subject: str
    kind: SanctionKind
    rule_id: str
    rule_version: int
    category: Category
    case_id: CaseId | None
    proposer: str
    approver: str
    created_at: datetime
    expires_at: datetime | None
    dry_run: bool
    origin: SanctionOrigin
    effect: ActState | None = None
    reversed_at: datetime | None = None

    def counts(self, now: datetime) -> bool:
        """Whether it is a strike that counts."""
        holds = self.expires_at is None or self.expires_at > now
        done = self.effect is None or self.effect.stands
        return self.kind is SanctionKind.STRIKE and holds and done and self.reversed_at is None and not self.dry_run


def strikes(ledger: Iterable[Sanction], now: datetime) -> int:
    """Return how many strikes count: rows, never a number that is stored."""
    return sum(each.counts(now) for each in ledger)


class ActRefusal(StrEnum):
    """Why an act is not done, as of the moment before it. Stored values never change."""

    PROTECTED = "protected"
    STAFF = "staff"
    ABOVE_US = "above_us"
    NO_RIGHT = "no_right"
    REVERSED = "reversed"
    REDECIDED = "redecided"
    EDITED_HARMLESS = "edited_harmless"
    ERASED = "erased"
    BRAKE = "brake"


class AlreadySo(StrEnum):
    """Why nothing has to be done: it is as it should be."""

    LEFT = "left"
    MESSAGE_GONE = "message_gone"
    HOLDS = "holds"


def look(kind: ActKind, standing: Standing, until: datetime | None) -> ActRefusal | AlreadySo | None:
    """Return what speaks against an act as its target stands now; None if nothing does.

    Taking an act back is refused only where it cannot be done.
    """
    lifting = kind in (ActKind.LIFT_TIMEOUT, ActKind.UNBAN)
    if kind in ON_MEMBERS and not lifting and (refusal := _rank(standing)) is not None:
        return refusal
    if kind is ActKind.DELETE and standing.protected:
        return ActRefusal.PROTECTED
    if (so := _already(kind, standing, until)) is not None:
        return so
    return None if kind in standing.allowed else ActRefusal.NO_RIGHT


def _rank(standing: Standing) -> ActRefusal | None:
    if standing.protected:
        return ActRefusal.PROTECTED
    if standing.staff:
        return ActRefusal.STAFF
    return ActRefusal.ABOVE_US if standing.above_us else None


def _already(kind: ActKind, standing: Standing, until: datetime | None) -> AlreadySo | None:
    timed_out = standing.timed_out_until
    match kind:
        case ActKind.DELETE:
            return AlreadySo.MESSAGE_GONE if standing.message_there is False else None
        case ActKind.TIMEOUT:
            if not standing.there:
                return AlreadySo.LEFT
            return AlreadySo.HOLDS if timed_out is not None and until is not None and timed_out >= until else None
        case ActKind.KICK:
            return None if standing.there else AlreadySo.LEFT
        case ActKind.BAN:
            return AlreadySo.HOLDS if standing.banned else None
        case ActKind.UNBAN:
            return None if standing.banned else AlreadySo.HOLDS
        case ActKind.LIFT_TIMEOUT:
            return None if timed_out is not None else AlreadySo.HOLDS
        case ActKind.SLOW | ActKind.HOLD_JOINS | ActKind.READ_ONLY:
            return None
