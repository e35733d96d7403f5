"""How much the mind is drawn to speak: one step over the time since the last, computed from what it holds. Pure."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from core.domain.mind.bodies import (
    Mood,
    Pressure,
    PressureItem,
    PressureKind,
    PressureStatus,
    Sleep,
    Thread,
    ThreadStatus,
)
from core.domain.mind.speech import Candidate, CandidateStatus

STEP_S = 300.0
"""The length of a whole sub-step; a longer time is cut into these."""
LONGEST_GAP = timedelta(hours=24)
"""A longer time without a step counts as this long: what came before is held."""
HOURS_IF_NEVER = 24.0
"""How long ago the mind spoke if it never did."""

MOST_QUEUED, MOST_AGENCY, MOST_HELD, MOST_MOOD = 0.45, 0.50, 0.30, 0.15
_WAITS = frozenset({CandidateStatus.QUEUED, CandidateStatus.APPROVED, CandidateStatus.AWAITING_APPROVAL})
_ADVOCACY = frozenset({PressureKind.SELF_ADVOCACY_REQUEST, PressureKind.WORLD_ADVOCACY_REQUEST})
_PRESSES = frozenset({PressureStatus.ACTIVE, PressureStatus.READY_TO_ACT})
_RIPENS = frozenset({ThreadStatus.ACTIVE, ThreadStatus.READY_TO_SHARE})
_LOUD_MOODS = frozenset(
    {"anger", "annoyance", "irritation", "envy", "pride", "smugness", "playfulness", "anxiety", "command-force"}
)


@dataclass(frozen=True, slots=True)
class Waiting:
    """What of a candidate draws."""

    status: CandidateStatus
    priority: float
    must_eventually_share: bool
    deferred_until: datetime | None


@dataclass(frozen=True, slots=True)
class Pressing:
    """What of a pressure draws."""

    status: PressureStatus
    kind: PressureKind
    intensity: float


@dataclass(frozen=True, slots=True)
class Ripening:
    """What of a thread draws."""

    status: ThreadStatus
    desire_to_speak: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What draws and holds: taken as constant for the whole step, but for the time since speech and the nap."""

    spoke_at: datetime | None = None
    sleep: Sleep = field(default_factory=Sleep)
    candidates: tuple[Candidate | Waiting, ...] = ()
    items: tuple[PressureItem | Pressing, ...] = ()
    threads: tuple[Thread | Ripening, ...] = ()
    mood: Mood = field(default_factory=Mood)


@dataclass(frozen=True, slots=True)
class Charge:
    """How strongly each source draws: candidates, pressures, what threads hold, mood."""

    queued: float = 0.0
    agency: float = 0.0
    held: float = 0.0
    mood: float = 0.0


def step(prev: Pressure, inputs: Inputs, to: datetime) -> Pressure:
    """Return the pressure at `to`. One that was never stepped starts here; one stepped later stays as it is."""
    if prev.stepped_at is None:
        return prev.model_copy(update={"stepped_at": to})
    if to <= prev.stepped_at:
        return prev
    charge = charge_of(inputs, to)
    at = max(prev.stepped_at, to - LONGEST_GAP)
    now = prev
    while at < to:
        end = min(to, at + timedelta(seconds=STEP_S))
        hours = hours_silent(inputs.spoke_at, end)
        now = relax(now, charge, hours, is_asleep(inputs.sleep, end), (end - at).total_seconds())
        at = end
    return now.model_copy(update={"stepped_at": to})


def relax(prev: Pressure, charge: Charge, hours: float, asleep: bool, seconds: float) -> Pressure:
    """Return the pressure after one sub-step. `hours`: since the mind spoke, at the end of it."""
    n = seconds / STEP_S
    damping = _clamp(math.exp(-hours / 3.5))
    silence = _clamp(hours / 6.0)
    sleepy = 1.0 if asleep else 0.0
    drawn = charge.queued + charge.held + charge.agency + charge.mood
    need = _clamp(0.18 + 0.32 * silence + drawn - 0.38 * damping - 0.26 * sleepy)
    novelty = (0.72 * charge.held + 0.30 * charge.queued + 0.44 * charge.agency) / 0.40
    confession = (0.12 * silence + 0.10 * sleepy + 0.40 * charge.mood) / 0.32
    return prev.model_copy(
        update={
            "need_to_speak": _clamp(_toward(prev.need_to_speak, need, 0.58**n)),
            "novelty_pressure": _clamp(_toward(prev.novelty_pressure, novelty, 0.6**n)),
            "confession_pressure": _clamp(_toward(prev.confession_pressure, confession, 0.68**n)),
            "recent_speech_damping": damping,
        }
    )


def charge_of(inputs: Inputs, now: datetime) -> Charge:
    """Return how strongly each source draws at `now`, each with its limit."""
    desires = sorted((each.desire_to_speak or 0.0 for each in inputs.threads if each.status in _RIPENS), reverse=True)
    return Charge(
        queued=_sum((_weight(each, now) for each in inputs.candidates), MOST_QUEUED),
        agency=_sum(map(_urge, inputs.items), MOST_AGENCY),
        held=min(MOST_HELD, 0.12 * sum(desires[:4])),
        mood=_sum(
            (
                value * (0.06 if name in _LOUD_MOODS else 0.025)
                for name, value in sorted(inputs.mood.dimensions.items())
            ),
            MOST_MOOD,
        ),
    )


def hours_silent(spoke_at: datetime | None, at: datetime) -> float:
    """Return how many hours before `at` the mind spoke last; speech after `at` had not happened then."""
    if spoke_at is None or spoke_at > at:
        return HOURS_IF_NEVER
    return (at - spoke_at).total_seconds() / 3600.0


def is_asleep(sleep: Sleep, at: datetime) -> bool:
    """Return whether the mind naps at `at` and was not woken."""
    if not sleep.is_napping or sleep.nap_started_at is None or sleep.nap_ends_at is None:
        return False
    woken = sleep.awake_until is not None and at < sleep.awake_until
    return sleep.nap_started_at <= at < sleep.nap_ends_at and not woken


def _weight(candidate: Candidate | Waiting, now: datetime) -> float:
    deferred = candidate.status is CandidateStatus.DEFERRED and (candidate.deferred_until or now) > now
    if candidate.status not in _WAITS and not deferred:
        return 0.0
    return candidate.priority * (0.28 if candidate.must_eventually_share else 0.18)


def _urge(item: PressureItem | Pressing) -> float:
    if item.status not in _PRESSES:
        return 0.0
    ready = 1.25 if item.status is PressureStatus.READY_TO_ACT else 1.08
    return item.intensity * (0.30 if item.kind in _ADVOCACY else 0.14) * ready


def _sum(parts: Iterable[float], most: float) -> float:
    return min(most, sum(parts))


def _toward(value: float, target: float, left: float) -> float:
    return value + (1.0 - left) * (target - value)


def _clamp(value: float) -> float:
    return min(1.0, max(0.0, value))
