"""Medians, percentiles and ratios of interleaved repetitions. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median


@dataclass(frozen=True, slots=True)
class Spread:
    """A median with the least and the greatest value behind it."""

    median: float
    least: float
    greatest: float

    @property
    def level(self) -> bool:
        """Return whether a ratio is inside the noise: its pairs fall on both sides of 1."""
        return self.least <= 1.0 <= self.greatest

    def as_row(self) -> list[float]:
        """Return [median, least, greatest], in four significant digits."""
        return [short(self.median), short(self.least), short(self.greatest)]


def spread(values: Sequence[float]) -> Spread:
    """Return the spread of at least one value."""
    return Spread(median(values), min(values), max(values))


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Return ours divided by theirs, pair by pair, as they were measured after each other."""
    return spread([a / b for a, b in zip(ours, theirs, strict=True)])


def percentile(values: Sequence[float], share: float) -> float:
    """Return the nearest-rank percentile of at least one value; `share` in (0, 1]."""
    ordered = sorted(values)
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def short(value: float) -> float:
    """Return four significant digits of a number."""
    return float(f"{value:.4g}")
