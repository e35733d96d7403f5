"""Times in words, as models see them; exact times stay in code."""

from datetime import datetime

_MINUTE = 60.0
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_STEPS = (
    (90 * _MINUTE, _MINUTE, "minute"),
    (36 * _HOUR, _HOUR, "hour"),
    (21 * _DAY, _DAY, "day"),
    (70 * _DAY, 7 * _DAY, "week"),
    (18 * 30.44 * _DAY, 30.44 * _DAY, "month"),
)
_YEAR = 365.25 * _DAY
_JUST_NOW_S = 45


def relative(at: datetime, now: datetime) -> str:
    """Return how far `at` lies from `now`: "just now", "5 minutes ago", "in 2 days"; halves round up."""
    distance = (now - at).total_seconds()
    if abs(distance) < _JUST_NOW_S:
        return "just now"
    unit, word = next(((unit, word) for end, unit, word in _STEPS if abs(distance) < end), (_YEAR, "year"))
    count = max(1, int(abs(distance) / unit + 0.5))
    amount = f"{count} {word}{'' if count == 1 else 's'}"
    return f"{amount} ago" if distance > 0 else f"in {amount}"


def part_of_day(local: datetime) -> str:
    """Return the part of the day in a word."""
    match local.hour:
        case 5 | 6 | 7 | 8 | 9 | 10 | 11:
            return "morning"
        case 12 | 13 | 14 | 15 | 16 | 17:
            return "afternoon"
        case 18 | 19 | 20 | 21:
            return "evening"
        case _:
            return "night"


_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def weekday(local: datetime) -> str:
    """Return the English name of the day, whatever the locale of the machine."""
    return _WEEKDAYS[local.weekday()]
