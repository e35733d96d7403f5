"""The real clock."""

import time
from datetime import UTC, datetime

from core.ports import Clock


class SystemClock(Clock):
    """The machine's time. The one place outside tests that asks for it."""

    def now(self) -> datetime:
        """Return the present, aware, in UTC."""
        return datetime.now(UTC)  # noqa: TID251  # this is the Clock port

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()
