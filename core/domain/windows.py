"""Hours, days and months of a time zone, as instants in UTC."""

from bisect import bisect_left
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import assert_never
from zoneinfo import ZoneInfo

HOUR = timedelta(hours=1)


class Window(StrEnum):
    """How long a purse lasts before it is full again, in the scope's time zone."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


def window_span(window: Window, zone: str, at: datetime) -> tuple[datetime, datetime]:
    """Return the first instant of the window that holds `at` and of the next one, in UTC.

    Days and months begin when the local date changes for good: after a gap over midnight at its end, after a
    clock that falls back over midnight at the second one. An hour that comes twice is two windows. An unknown
    zone counts as UTC.
    """
    at = at.astimezone(UTC)
    local = at.astimezone(_zone(zone))
    match window:
        case Window.HOUR:
            into = timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
            return at - into, at - into + HOUR
        case Window.DAY:
            day = local.date()
            if day_start(day, zone) > at:
                day -= timedelta(days=1)
            return day_start(day, zone), day_start(day + timedelta(days=1), zone)
        case Window.MONTH:
            first = local.date().replace(day=1)
            if day_start(first, zone) > at:
                first = (first - timedelta(days=1)).replace(day=1)
            return day_start(first, zone), day_start((first + timedelta(days=31)).replace(day=1), zone)
    assert_never(window)


@lru_cache(maxsize=4096)
def day_start(day: date, zone: str) -> datetime:
    """Return the instant in UTC from which the local date is `day` or later for good."""
    local = datetime(day.year, day.month, day.day, tzinfo=_zone(zone))
    early, late = local.astimezone(UTC), local.replace(fold=1).astimezone(UTC)
    if early <= late:  # equal on ordinary days; else midnight comes twice
        back = (late - timedelta(microseconds=1)).astimezone(_zone(zone)).date() < day
        return late if back else early
    seconds = range(int((early - late).total_seconds()) + 1)  # midnight is in a gap: find the gap's end
    return late + timedelta(
        seconds=bisect_left(
            seconds, True, key=lambda s: (late + timedelta(seconds=s)).astimezone(_zone(zone)).date() >= day
        )
    )


@lru_cache(maxsize=1024)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return ZoneInfo("UTC")
