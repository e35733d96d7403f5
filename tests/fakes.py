"""The only fakes: they implement ports, and mypy holds them to it."""

import time
from datetime import UTC, datetime, timedelta

from core.ports import Clock
from core.store.engine import Database


class ManualClock(Clock):
    """Real time plus a shift that tests set; the shift of SQL's clock moves with it."""

    def __init__(self, database: Database | None = None) -> None:
        self._database = database
        self._shift = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self._shift  # noqa: TID251  # this is the Clock port

    def monotonic(self) -> float:
        return time.monotonic() + self._shift.total_seconds()

    async def advance(self, seconds: float) -> None:
        self._shift += timedelta(seconds=seconds)
        if self._database is not None:
            async with self._database.transaction() as tx:
                await tx.execute("update voidbot_test.clock set shift = $1", self._shift)
