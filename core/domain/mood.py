"""Mood: named numbers that are nudged by what happens and drift back to their baselines. Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from core.domain.mind.bodies import Mood

LONGEST_GAP = timedelta(hours=24)
"""A longer time without a step counts as this long: what came before is held."""
BASELINE = 0.2
_HOUR_S = 3600.0


def drift(mood: Mood, to: datetime) -> Mood:
    """Return the mood at `to`: every dimension nearer to its baseline by the half-life.

    A mood that was never stepped starts here; one that was stepped later stays as it is.
    """
    if mood.stepped_at is None:
        return mood.model_copy(update={"stepped_at": to})
    if to <= mood.stepped_at:
        return mood
    hours = min(to - mood.stepped_at, LONGEST_GAP).total_seconds() / _HOUR_S
    left = 2.0 ** (-hours / mood.half_life_hours)
    drifted = {
        name: _nearer(value, mood.baselines.get(name, BASELINE), left) for name, value in mood.dimensions.items()
    }
    return mood.model_copy(update={"dimensions": drifted, "stepped_at": to})


def nudge(mood: Mood, deltas: Mapping[str, float]) -> Mood:
    """Return the mood with deltas added, each kept within 0 to 1."""
    nudged = dict(mood.dimensions)
    for name, delta in deltas.items():
        value = nudged.get(name, mood.baselines.get(name, BASELINE)) + delta
        nudged[name] = min(1.0, max(0.0, value))
    return mood.model_copy(update={"dimensions": nudged})


def _nearer(value: float, baseline: float, left: float) -> float:
    return min(1.0, max(0.0, baseline + (value - baseline) * left))
