"""Unattended work: which passes there are, the phases of a run, and what becomes of a run after each of them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import assert_never

from core.domain.rooms import QuietHours

OUTAGE_WAITS_S = (30.0, 120.0, 600.0)
"""How long a phase waits for something outside that is down, before its second, third and fourth try; then it fails."""
MOST_ASKS = 2
"""How often a model is asked in one phase: once more after an answer that cannot be used."""
WHOLE_MIND = "mind"
"""The group of a pass that concerns the whole mind."""


class PassName(StrEnum):
    """The passes. Stored values never change."""

    RUMINATION = "rumination"
    MOOD = "mood"
    SLEEP = "sleep"
    UPKEEP = "upkeep"


class Phase(StrEnum):
    """The phases of a run, in the order in which each pass uses some of them."""

    GATE = "gate"
    POLL = "poll"
    READ_STATE = "read_state"
    ASK = "ask"
    APPLY = "apply"
    SPEAK = "speak"
    RECORD = "record"


class Origin(StrEnum):
    """Why there is a run."""

    SCHEDULED = "scheduled"
    CATCH_UP = "catch_up"
    MANUAL = "manual"
    PRESSURE = "pressure"


class RunMode(StrEnum):
    """How far a run may go. `DRY_RUN`: nothing is written but the run; `NO_POST`: nothing is said."""

    NORMAL = "normal"
    DRY_RUN = "dry_run"
    NO_POST = "no_post"


class RunState(StrEnum):
    """Where a run stands; the last four are ends. `WAITING`: a phase is tried again later."""

    READY = "ready"
    RUNNING = "running"
    WAITING = "waiting"
    FINISHED = "finished"
    SKIPPED = "skipped"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def active(self) -> bool:
        """Whether it has not ended."""
        return self in (RunState.READY, RunState.RUNNING, RunState.WAITING)


class SkipReason(StrEnum):
    """Why a run ended before it did anything. Stored values never change."""

    OFF = "off"
    PAUSED = "paused"
    CONTROL_UNREADABLE = "control_unreadable"
    NO_ROOMS = "no_rooms"
    NOTHING_NEW = "nothing_new"
    IDLE = "idle"
    ROOM_ASLEEP = "room_asleep"
    NAPPING = "napping_without_room_debt"
    AUDIENCE_UNKNOWN = "audience_unknown"
    QUIET = "quiet"
    BUDGET = "budget"
    NO_MODEL = "no_model"
    NOT_DUE = "not_due"
    STILL_RUNNING = "still_running"
    MISSED = "missed"
    ZONE_CHANGED = "zone_changed"
    BACKING_OFF = "backing_off"


@dataclass(frozen=True, slots=True, kw_only=True)
class PassPolicy:
    """What the operator lets run by itself. `quiet`: when nothing is thought over, by the clock of the mind.

    `thinks_when_quiet`: it is thought over all the same, and nothing said. `rumination_every`: how often it is looked
    whether there is something to think over.
    """

    on: frozenset[PassName] = frozenset(PassName)
    quiet: QuietHours | None = None
    thinks_when_quiet: bool = False
    rumination_every: timedelta = timedelta(minutes=30)


Counts = Mapping[str, int]
"""What a phase did, by name: read, shown, proposed, accepted, refused, merged, delivered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One slot of a pass for one mind and audience group. `n`: which phase of the run it is at, from 1.

    `attempt`: which try of this phase, from 1. `asks`: how often a model was asked in the whole run.
    """

    id: int
    mind_id: str
    name: PassName
    group: str
    slot_key: str
    slot: datetime
    origin: Origin
    mode: RunMode
    state: RunState
    phase: Phase
    n: int
    attempt: int
    asks: int
    reason: str
    created_at: datetime
    finished_at: datetime | None = None

    @property
    def lane(self) -> str:
        """The lane of its jobs: runs of one pass and group go one at a time."""
        return f"pass:{self.mind_id}/{self.name}/{self.group}"

    @property
    def writes(self) -> bool:
        """Whether it may write more than itself."""
        return self.mode is not RunMode.DRY_RUN

    @property
    def speaks(self) -> bool:
        """Whether it may say something."""
        return self.mode is RunMode.NORMAL


@dataclass(frozen=True, slots=True)
class Advance:
    """The phase is done. `to`: another phase than the next one of the pass."""

    counts: Counts = field(default_factory=dict)
    to: Phase | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """The run is done. `reason`: one word for the list of runs, such as `empty`."""

    reason: str = ""
    counts: Counts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Skip:
    """The run ends before it does anything."""

    reason: SkipReason
    counts: Counts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wait:
    """A phase is gone through again after a while, because of what came of it. `to`: from an earlier one on."""

    after_s: float
    reason: str
    to: Phase | None = None
    counts: Counts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outage:
    """Something outside is down: the same phase is tried again, three times at most."""

    code: str


@dataclass(frozen=True, slots=True)
class Fail:
    """The run ends without success."""

    code: str
    counts: Counts = field(default_factory=dict)


PhaseResult = Advance | Finish | Skip | Wait | Outage | Fail


@dataclass(frozen=True, slots=True)
class Step:
    """What becomes of a run: its new state and phase, and after how long the next phase is due."""

    state: RunState
    phase: Phase
    attempt: int
    reason: str = ""
    due_in_s: float = 0.0


def step(run: Run, phases: tuple[Phase, ...], result: PhaseResult) -> Step:
    """Return what becomes of a run whose present phase ended like this."""
    match result:
        case Advance(_, None):
            following = phases[phases.index(run.phase) + 1 :]
            if not following:
                return Step(RunState.FINISHED, run.phase, run.attempt)
            return Step(RunState.RUNNING, following[0], 1)
        case Advance(_, to) if to is not None:
            return Step(RunState.RUNNING, to, 1)
        case Finish(reason):
            return Step(RunState.FINISHED, run.phase, run.attempt, reason)
        case Skip(reason):
            return Step(RunState.SKIPPED, run.phase, run.attempt, reason.value)
        case Wait(after_s, reason, to):
            return Step(RunState.WAITING, run.phase if to is None else to, 1, reason, after_s)
        case Outage(code):
            if run.attempt > len(OUTAGE_WAITS_S):
                return Step(RunState.FAILED, run.phase, run.attempt, code)
            return Step(RunState.WAITING, run.phase, run.attempt + 1, code, OUTAGE_WAITS_S[run.attempt - 1])
        case Fail(code):
            return Step(RunState.FAILED, run.phase, run.attempt, code)
        case Advance():
            raise AssertionError("an advance has a phase or none")
    assert_never(result)


def slot_key(mind_id: str, name: PassName, group: str, label: str) -> str:
    """Return the name of one slot, which is claimed once."""
    return f"{mind_id}/{name}/{group}/{label}"


def outcome_of(result: PhaseResult) -> str:
    """Return how a phase ended, in a word."""
    return type(result).__name__.lower()


def code_of(result: PhaseResult) -> str:
    """Return why a phase did not simply go on; empty if it did."""
    match result:
        case Advance():
            return ""
        case Skip(reason):
            return reason.value
        case Finish(reason) | Wait(_, reason):
            return reason
        case Outage(code) | Fail(code):
            return code
    assert_never(result)


def counts_of(result: PhaseResult) -> Counts:
    """Return what a phase counted."""
    return {} if isinstance(result, Outage) else result.counts
