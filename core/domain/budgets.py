"""What a call may cost: purses, their windows, who is limited how far, and the pace of asking."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from core.domain.errors import InputRejected
from core.domain.windows import Window as Window
from core.domain.windows import window_span

PASSES = "passes"
"""The name of unattended work's share of the deployment's purse."""
PASSES_SHARE = 0.3
MAX_AMOUNT = 2**53
"""Larger limits are refused when set; also what a float can hold exactly when a factor is applied."""
EXPIRY_GRACE_S = 60.0
"""How long after its call's timeout an unsettled reservation counts as spent."""


class Scope(StrEnum):
    """Whose purse it is, narrow to wide; purses are locked and refused in this order."""

    PERSON = "person"
    ROOM = "room"
    PASS_CLASS = "pass_class"  # noqa: S105  # no password
    COMMUNITY = "community"
    DEPLOYMENT = "deployment"


SCOPES = tuple(Scope)


class Unit(StrEnum):
    """What is counted. Money is in millionths of a US dollar; each reservation is one call."""

    USD_MICRO = "usd_micro"
    TOKENS = "tokens"
    ANSWERS = "answers"
    CALLS = "calls"
    SECONDS = "seconds"


class LimitRole(StrEnum):
    """How far a person's own limits reach."""

    DEFAULT = "default"
    BOOSTED = "boosted"
    UNLIMITED = "unlimited"


class CallResult(StrEnum):
    """How a call ended. `DISCARDED`: it answered, too late or for nobody."""

    OK = "ok"
    EMPTY = "empty"
    FAILED = "failed"
    CANCELLED = "cancelled"
    DISCARDED = "discarded"


@dataclass(frozen=True, slots=True)
class PersonLimits:
    """What a person's role does to the person's own purses and pace; rooms and wider stay as they are."""

    role: LimitRole = LimitRole.DEFAULT
    factor: float = 10.0

    def __post_init__(self) -> None:
        if self.role is LimitRole.BOOSTED and not (math.isfinite(self.factor) and 1 < self.factor <= 10_000):
            raise InputRejected("limits: the factor must be above 1 and at most 10000", factor=self.factor)

    def limit(self, limit: int | None) -> int | None:
        """Return a person's limit as this role has it; None means no limit."""
        match self.role:
            case LimitRole.UNLIMITED:
                return None
            case LimitRole.BOOSTED:
                return None if limit is None else math.floor(limit * self.factor)
            case LimitRole.DEFAULT:
                return limit
        assert_never(self.role)

    def pace(self, pace: "Pace") -> "Pace | None":
        """Return a person's pace as this role has it; None means no wait at all."""
        match self.role:
            case LimitRole.UNLIMITED:
                return None
            case LimitRole.BOOSTED:
                return Pace(max(pace.cost_s / self.factor, 1.0), pace.burst_s)
            case LimitRole.DEFAULT:
                return pace
        assert_never(self.role)


DEFAULT_LIMITS = PersonLimits()
NO_LIMITS = PersonLimits(LimitRole.UNLIMITED)


def parse_limits(text: str) -> PersonLimits:
    """Return the limits that a stored or typed word means: `default`, `boosted`, `boosted:20`, `unlimited`.

    Raises:
        InputRejected: It is none of these, or the factor is 1 or less.
    """
    word, colon, factor = text.partition(":")
    try:
        role = LimitRole(word)
        if colon and role is not LimitRole.BOOSTED:
            raise ValueError(word)
        return PersonLimits(role, float(factor)) if colon else PersonLimits(role)
    except ValueError:
        raise InputRejected("limits: must be default, boosted, boosted:<factor> or unlimited") from None


@dataclass(frozen=True, slots=True)
class Pace:
    """A rate limit: one per `cost_s`, at most `burst_s / cost_s` at once."""

    cost_s: float
    burst_s: float


PERSON_ASKS = Pace(10.0, 30.0)
ROOM_ASKS = Pace(20.0, 600.0)


def retry_after(tat: datetime | None, now: datetime, pace: Pace) -> float:
    """Return the seconds until the next one passes; 0 if it would pass now.

    Args:
        tat: When the limiter is idle again; None if it was never used.
        now: The present by the clock that wrote `tat`.
        pace: Its cost and burst.
    """
    ahead_s = 0.0 if tat is None else max((tat - now).total_seconds(), 0.0)
    return max(ahead_s + pace.cost_s - max(pace.burst_s, pace.cost_s), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Purse:
    """A limit of one scope. `scope_id` is empty for the default of a scope; `limit` None is no limit.

    `timezone` counts for the deployment only; everything narrower lives by its community's clock.
    """

    id: int
    scope: Scope
    scope_id: str
    unit: Unit
    window: Window
    limit: int | None
    soft: float = 0.8
    timezone: str = "UTC"


DEFAULT_PURSES: tuple[tuple[Scope, Unit, Window, int], ...] = (
    (Scope.PERSON, Unit.ANSWERS, Window.DAY, 100),
    (Scope.COMMUNITY, Unit.ANSWERS, Window.DAY, 2_000),
    (Scope.COMMUNITY, Unit.TOKENS, Window.DAY, 2_000_000),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """What one call takes at most, and from whose purses. Each call counts one of `calls` by itself.

    Unattended work has a `pass_class` and no person; it may use only `passes_share` of the deployment's purses.
    """

    person_id: int | None
    room_id: int | None
    community_id: int | None
    pass_class: str | None = None
    limits: PersonLimits = DEFAULT_LIMITS
    tokens: int = 0
    usd_micro: int = 0
    answers: int = 0
    seconds: int = 0
    passes_share: float = PASSES_SHARE

    def __post_init__(self) -> None:
        if min(self.tokens, self.usd_micro, self.answers, self.seconds) < 0:
            raise ValueError("a draw takes nothing negative")
        if not 0 <= self.passes_share <= 1:
            raise ValueError("the share of passes is between 0 and 1")

    def amount(self, unit: Unit) -> int:
        """Return how much of `unit` is held."""
        match unit:
            case Unit.USD_MICRO:
                return self.usd_micro
            case Unit.TOKENS:
                return self.tokens
            case Unit.ANSWERS:
                return self.answers
            case Unit.CALLS:
                return 1
            case Unit.SECONDS:
                return self.seconds
        assert_never(unit)

    def sources(self) -> tuple[tuple[Scope, str], ...]:
        """Return scope and scope id of every purse that could match: specific ones and defaults."""
        found: list[tuple[Scope, str]] = []
        for scope, subject in self._subjects().items():
            found += [(scope, ""), (scope, subject)]
        if self.pass_class is not None:
            found.append((Scope.PASS_CLASS, self.pass_class))
        return (*found, (Scope.DEPLOYMENT, ""))

    def _subjects(self) -> dict[Scope, str]:
        subjects: dict[Scope, str] = {}
        if self.person_id is not None and self.pass_class is None:
            subjects[Scope.PERSON] = str(self.person_id)
        if self.room_id is not None:
            subjects[Scope.ROOM] = str(self.room_id)
        if self.pass_class is not None:
            subjects[Scope.PASS_CLASS] = f"{self.pass_class}:{self.community_id or 0}"
        if self.community_id:
            subjects[Scope.COMMUNITY] = str(self.community_id)
        return subjects

    def wants(self, purses: Iterable[Purse], zone: str, at: datetime) -> tuple["Want", ...]:
        """Return what is drawn from which purse, in lock order: narrow to wide, then by id.

        Args:
            purses: Every purse of `sources()`; the most specific one of a scope, unit and window counts.
            zone: The community's time zone.
            at: The instant whose windows are charged.
        """
        chosen: dict[tuple[Scope, Unit, Window], Purse] = {}
        for purse in sorted(purses, key=lambda purse: len(purse.scope_id)):
            chosen[purse.scope, purse.unit, purse.window] = purse
        subjects = self._subjects()
        found: list[Want] = []
        for purse in chosen.values():
            amount = self.amount(purse.unit)
            if purse.scope is Scope.DEPLOYMENT:
                span = window_span(purse.window, purse.timezone, at)
                found.append(Want(purse, "total", *span, amount, purse.limit))
                if self.pass_class is not None:
                    share = None if purse.limit is None else math.floor(purse.limit * self.passes_share)
                    found.append(Want(purse, PASSES, *span, amount, share))
            else:
                limit = self.limits.limit(purse.limit) if purse.scope is Scope.PERSON else purse.limit
                span = window_span(purse.window, zone, at)
                found.append(Want(purse, subjects[purse.scope], *span, amount, limit))
        return tuple(sorted(found, key=Want.lock_order))


@dataclass(frozen=True, slots=True)
class Want:
    """An amount from one window of one purse. `subject` is whose window: one default purse has many."""

    purse: Purse
    subject: str
    starts_at: datetime
    ends_at: datetime
    amount: int
    limit: int | None

    def lock_order(self) -> tuple[int, int, str]:
        """Return the key by which every transaction locks windows, so that none waits in a circle."""
        return (SCOPES.index(self.purse.scope), self.purse.id, self.subject)

    @property
    def name(self) -> str:
        """Return the scope in a word; `passes` for unattended work's share of the deployment."""
        return PASSES if self.subject == PASSES else self.purse.scope.value

    def fits(self, used: int) -> bool:
        """Return whether the amount still fits. Nothing wanted always fits, also at a limit of 0."""
        return self.amount == 0 or self.limit is None or used + self.amount <= self.limit


def first_refused(wants: Sequence[Want], used: Sequence[int]) -> int | None:
    """Return the index of the narrowest want that does not fit beside what is `used`, held included."""
    return next((n for n, (want, taken) in enumerate(zip(wants, used, strict=True)) if not want.fits(taken)), None)


@dataclass(frozen=True, slots=True)
class Reservation:
    """Amounts held for one call until it is settled, released or expires."""

    id: int
    job_id: int
    attempt: int
    wants: tuple[Want, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """What one call really cost, as the ledger keeps it.

    `answers` counts only when the reservation was lost; otherwise the answer that was held is counted.
    Only `OK` keeps an answer: every other result gives it back, and a call that cost nothing gives back all.
    """

    job_id: int
    attempt: int
    purpose: str
    model: str = ""
    provider: str = ""
    tier: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    usd_micro: int = 0
    priced: bool = False
    estimated: bool = False
    result: CallResult = CallResult.OK
    seconds: int = 0
    answers: int = 0
    person_id: int | None = None
    room_id: int | None = None
    community_id: int | None = None
    pass_class: str | None = None

    def as_draw(self) -> Draw:
        """Return the draw that this cost would have been, for a call whose reservation is gone."""
        return Draw(
            person_id=self.person_id,
            room_id=self.room_id,
            community_id=self.community_id,
            pass_class=self.pass_class,
            limits=NO_LIMITS,
            tokens=self.input_tokens + self.output_tokens,
            usd_micro=self.usd_micro,
            answers=self.answers if self.result is CallResult.OK else 0,
            seconds=self.seconds,
        )


def check_limit(scope: Scope, scope_id: str, unit: Unit, window: Window, limit: int | None) -> None:
    """Check a limit that someone sets: 0 allows nothing, None allows everything.

    Raises:
        InputRejected: It is negative or absurd, or would take the deployment's dollars a day away.
    """
    if limit is not None and not 0 <= limit <= MAX_AMOUNT:
        raise InputRejected(f"limit: must be between 0 and {MAX_AMOUNT}, or none", limit=limit)
    if scope is Scope.DEPLOYMENT and scope_id:
        raise InputRejected("purse: the deployment is one and has no id", scope_id=scope_id)
    if (scope, unit, window) == (Scope.DEPLOYMENT, Unit.USD_MICRO, Window.DAY) and limit is None:
        raise InputRejected("limit: the deployment's dollars a day cannot be without limit")
