"""Jobs: what is queued, what a worker holds, how a run ends, and the arithmetic of rank and back-off. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum, StrEnum
from uuid import UUID

from core.domain.ids import JobId

ADDRESSED_CHAT_HEAD_START_S = 600.0
LURKING_CHAT_HEAD_START_S = 300.0
INVESTIGATION_HEAD_START_S = 120.0
PASS_HEAD_START_S = 0.0
UPKEEP_HEAD_START_S = -600.0

FAIRNESS_PENALTY_S = 20.0
"""What each running job of a community costs its next one, in seconds of rank."""

MOST_SLOTS = 96
"""Slots of one pool in one process; a claim has been measured up to here."""


class KeyScope(IntEnum):
    """How long a job's key keeps equal jobs out. Stored values never change."""

    PENDING = 1  # until it is first granted
    LIVE = 2  # until it has ended
    EVER = 3  # 400 days: a slot runs once


class JobState(StrEnum):
    """Where a job stands. `queued` waits behind another job of its lane; the last four are ends."""

    DELAYED = "delayed"
    QUEUED = "queued"
    READY = "ready"
    RUNNING = "running"
    WAITING = "waiting"
    DONE = "done"
    CANCELLED = "cancelled"
    DISCARDED = "discarded"
    DEAD = "dead"


class Cancelled(StrEnum):
    """What became of a request to cancel. `unknown`: it had ended, or was never there."""

    CANCELLED = "cancelled"
    REQUESTED = "requested"
    UNKNOWN = "unknown"


class Requeued(StrEnum):
    """What became of a request to run a dead job again. `unknown`: it is not among the dead."""

    REQUEUED = "requeued"
    KEY_TAKEN = "key_taken"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """One unit of durable work to be queued. `payload` holds ids and numbers, never a person's text.

    Jobs of one lane run one at a time, in order. A job that `yields` frees its lane while it waits for another
    try; the others keep it.
    """

    kind: str
    lane: str
    pool: str
    payload: Mapping[str, object] = field(default_factory=dict)
    community_id: int = 0
    room_id: int | None = None
    person_id: int | None = None
    key: str | None = None
    scope: KeyScope | None = None
    due_in_s: float = 0.0
    head_start_s: float = 0.0
    max_attempts: int = 5
    yields: bool = False
    trace: str = ""

    def __post_init__(self) -> None:
        if (self.key is None) != (self.scope is None):
            raise ValueError("job: a key needs a scope, and a scope a key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A grant: this worker runs this attempt of this job. (`id`, `attempt`, `worker`) is the fence."""

    id: JobId
    lane: str
    attempt: int
    worker: UUID
    pool: str
    kind: str
    community_id: int
    room_id: int | None
    person_id: int | None
    trace: str
    payload: Mapping[str, object]
    max_attempts: int
    snoozed: int
    created_at: datetime
    due_at: datetime
    granted_at: datetime

    def spent(self, at_most: int | None = None) -> bool:
        """Return whether no attempt is left. Snoozes do not count; `at_most` lowers the job's own limit."""
        limit = self.max_attempts if at_most is None else min(self.max_attempts, at_most)
        return self.attempt - self.snoozed >= limit


@dataclass(frozen=True, slots=True)
class Ok:
    """Done; nothing else is to be committed."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Try again. `after_s` None backs off; `at_most` lowers the job's own limit of attempts."""

    after_s: float | None
    reason: str
    at_most: int | None = None


@dataclass(frozen=True, slots=True)
class Snooze:
    """Not now; the attempt does not count."""

    after_s: float


@dataclass(frozen=True, slots=True)
class Cancel:
    """No longer wanted."""

    reason: str


@dataclass(frozen=True, slots=True)
class Discard:
    """Would fail again; whoever asked is told."""

    reason: str


Outcome = Ok | Retry | Snooze | Cancel | Discard


@dataclass(frozen=True, slots=True)
class Dead:
    """No attempt is left. Never returned by a job: it is what its last retry turns into."""

    reason: str


GaveUp = Cancel | Discard | Dead | Exception
"""Why nothing more will be tried: the job's own word, or the error that ended it."""


def backoff(attempt: int, draw: float, *, base_s: float = 2.0, cap_s: float = 300.0) -> float:
    """Return the seconds before the try after `attempt`: full jitter.

    Args:
        attempt: How many tries there were, from 1.
        draw: A random number in [0, 1).
        base_s: What doubles with each attempt.
        cap_s: The longest span drawn from.
    """
    return draw * min(cap_s, base_s * 2.0 ** min(attempt, 60))


def rank(due_at: datetime, head_start_s: float) -> float:
    """Return the place in a pool's order, lower first; constant while a job waits, so that age wins."""
    return due_at.timestamp() - head_start_s


def chat_lane(room_id: int) -> str:
    """Return the lane of a room's answers."""
    return f"chat:{room_id}"


def send_lane(room_id: int) -> str:
    """Return the lane of what is sent to a room."""
    return f"send:{room_id}"


def mind_lane(mind_id: str) -> str:
    """Return the lane of what happens to a mind by itself."""
    return f"mind:{mind_id}"


def index_lane(room_id: int) -> str:
    """Return the lane of a room's indexing."""
    return f"index:{room_id}"
