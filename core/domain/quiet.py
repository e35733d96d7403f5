"""Quiet hours as people write them: `22:00-07:00`, in local time. Pure."""

import re
from datetime import time

from core.domain.rooms import QuietHours

_WINDOW = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)\s*(?:-|–|to)\s*([01]?\d|2[0-3]):([0-5]\d)")
FORM = "two local times such as 22:00-07:00"


def read_quiet_hours(text: str) -> QuietHours:
    """Return the window that was written; it may pass midnight.

    Raises:
        ValueError: It is none, or one without length.
    """
    found = _WINDOW.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"must be {FORM}")
    hours = QuietHours(time(int(found[1]), int(found[2])), time(int(found[3]), int(found[4])))
    if hours.start == hours.end:
        raise ValueError(f"begins when it ends; must be {FORM}")
    return hours


def written(hours: QuietHours) -> str:
    """Return the window as it is written."""
    return f"{hours.start:%H:%M}-{hours.end:%H:%M}"
