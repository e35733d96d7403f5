"""When a pass is due: slots of equal length in UTC, or times of day by a local clock; each is taken once. Pure."""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from core.domain.windows import day_start

MOST_ROWS = 48
"""So many missed slots are told one by one, the newest; older ones are told by their number."""
FAR_AHEAD = timedelta(days=1)
"""From how far ahead on a slot that was taken counts as the error of a clock."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Slot:
    """One scheduled instant. `label`: its name, unique within a schedule whatever the zone's clock does."""

    at: datetime
    label: str


@dataclass(frozen=True, slots=True)
class Interval:
    """Slots of equal length, counted in UTC from the epoch, `offset` later; changes of the clock do not touch them."""

    every: timedelta
    offset: timedelta = timedelta(0)

    def before(self, at: datetime) -> Slot:
        """Return the newest slot that starts at `at` or earlier."""
        return self._slot((at - EPOCH - self.offset) // self.every)

    def back(self, slot: Slot, n: int) -> Slot:
        """Return the slot `n` before this one."""
        return self._slot((slot.at - EPOCH - self.offset) // self.every - n)

    def count(self, after: datetime, until: datetime) -> int:
        """Return how many slots start after one instant, up to another."""
        first, last = ((each - EPOCH - self.offset) // self.every for each in (after, until))
        return max(0, last - first)

    def _slot(self, n: int) -> Slot:
        at = EPOCH + self.offset + n * self.every
        return Slot(at, f"{at:%Y-%m-%dT%H:%MZ}")


class CatchUp(StrEnum):
    """What the newest slot makes up for after time away: its own time, or with `INTEGRATE` that of all before it."""

    LATEST = "latest"
    INTEGRATE = "integrate"


@dataclass(frozen=True, slots=True)
class Due:
    """What is due: the slot to run, those that were missed, and how many more there were."""

    run: Slot | None = None
    missed: tuple[Slot, ...] = ()
    summarised: int = 0


def due(schedule: Interval, policy: CatchUp, last: datetime | None, now: datetime) -> Due:
    """Return what is due at `now`. `last`: the newest slot that was taken; None: there was none, so none was missed.

    A clock that went back a little starts nothing: what it would start was taken already. One that went back far was
    wrong before, and what it took lies ahead: without this, nothing would start until that time comes. That no slot is
    taken twice is for its name to see to.
    """
    newest = schedule.before(now)
    if last is None or last > now + FAR_AHEAD:
        return Due(newest)
    count = schedule.count(last, now)
    if count == 0:
        return Due()
    told = 0 if policy is CatchUp.INTEGRATE else min(count - 1, MOST_ROWS)
    missed = tuple(schedule.back(newest, n) for n in range(told, 0, -1))
    return Due(newest, missed, count - 1 - told)


def instant_of(day: date, at: time, zone: str) -> datetime:
    """Return when it is `at` on a local day, in UTC: the first time if it comes twice, the end of the gap if never."""
    where = ZoneInfo(zone)
    local = datetime.combine(day, at)
    early = local.replace(tzinfo=where, fold=0).astimezone(UTC)
    if early.astimezone(where).replace(tzinfo=None) == local:
        return early
    # In a gap the clock before it reads the instant too late, the clock after it too early: its end lies between.
    low = local.replace(tzinfo=where, fold=1).astimezone(UTC)
    offset = early.astimezone(where).utcoffset()
    seconds = range(int((early - low).total_seconds()) + 1)
    return low + timedelta(
        seconds=bisect_left(
            seconds, True, key=lambda s: (low + timedelta(seconds=s)).astimezone(where).utcoffset() == offset
        )
    )


def days_of(zone: str, since: datetime) -> Iterator[date]:
    """Yield the local days that there are, from the one that holds `since` on; a zone can skip one."""
    day = since.astimezone(ZoneInfo(zone)).date() - _DAY
    while True:
        if day_start(day, zone) < day_start(day + _DAY, zone) and day_start(day + _DAY, zone) > since:
            yield day
        day += _DAY
