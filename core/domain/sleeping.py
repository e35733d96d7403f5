"""The cycle of naps: when the mind falls asleep, wakes, and is woken. Pure."""

import re
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from itertools import islice
from typing import assert_never

from core.domain.errors import InputRejected
from core.domain.mind.bodies import Sleep
from core.domain.mind.values import EntryId
from core.domain.slots import EPOCH, days_of, instant_of

LONGEST_NAP = timedelta(hours=3)
PRESSURE_NAP = "nap:pressure:"
"""How the id of a nap begins that was not planned."""
PRESSURE_LENGTH = timedelta(minutes=30)
PRESSURE_BEFORE = timedelta(hours=2)
"""So long before a planned nap none is taken out of turn."""
PRESSURE_AFTER = timedelta(hours=4)
"""So long after a nap none is taken out of turn."""
WAKING = timedelta(minutes=10)
"""How long a mention keeps the mind awake."""
CLOCKS_DIFFER = timedelta(minutes=2)
"""A nap that starts further ahead was begun by a clock that was wrong."""
_DAY = timedelta(days=1)
_INSTANT = timedelta(microseconds=1)
_WINDOW = re.compile(r"(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)/(?P<length>\d{1,3}[mh])")
_NAPS = re.compile(r"(?P<every>\d{1,4}[mh])/(?P<length>\d{1,3}[mh])")
_UNIT = {"m": timedelta(minutes=1), "h": timedelta(hours=1)}
_FORM = "write local start and length as 03:30/90m, with commas between several, or 4h/1h for an hour every four"


@dataclass(frozen=True, slots=True)
class Windows:
    """Naps at local times of day, each with its length."""

    zone: str
    windows: tuple[tuple[time, timedelta], ...]

    @property
    def longest(self) -> timedelta:
        """The length of the longest nap."""
        return max(length for _, length in self.windows)

    def next_after(self, now: datetime) -> tuple[datetime, timedelta]:
        """Return start and length of the first nap that starts after `now`."""
        return min(each for each in self._around(now, 3) if each[0] > now)

    def last_begun(self, since: datetime, now: datetime) -> tuple[datetime, timedelta] | None:
        """Return start and length of the last nap that was planned to start from `since` to `now`."""
        return max((each for each in self._around(now - 2 * _DAY, 5) if since <= each[0] <= now), default=None)

    def _around(self, first: datetime, days: int) -> list[tuple[datetime, timedelta]]:
        return [
            (instant_of(day, at, self.zone), length)
            for day in islice(days_of(self.zone, first), days)
            for at, length in self.windows
        ]


@dataclass(frozen=True, slots=True)
class Naps:
    """Naps of one length, each so long after the waking from the one before."""

    length: timedelta
    every: timedelta

    @property
    def longest(self) -> timedelta:
        """The length of a nap."""
        return self.length

    def next_after(self, now: datetime) -> tuple[datetime, timedelta]:
        """Return start and length of the next nap, for a mind that wakes `now`."""
        return now + self.every, self.length


Schedule = Windows | Naps


def read_schedule(text: str, zone: str) -> Schedule:
    """Return the schedule that a setting spells.

    Raises:
        InputRejected: It spells none, a nap is longer than three hours, or two naps overlap.
    """
    if found := _NAPS.fullmatch(text.strip()):
        return _checked(Naps(_span(found["length"]), _span(found["every"])))
    windows = []
    for part in text.split(","):
        window = _WINDOW.fullmatch(part.strip())
        if window is None:
            raise InputRejected(f"sleep: {part.strip() or 'nothing'} is no time to sleep; {_FORM}")
        windows.append((time(int(window["hour"]), int(window["minute"])), _span(window["length"])))
    return _checked(Windows(zone, tuple(sorted(windows))))


def at(
    schedule: Schedule,
    prev: Sleep,
    now: datetime,
    *,
    pressed: bool = False,
    owed: bool = False,
    themes: tuple[str, ...] = (),
    napped_at: datetime | None = None,
) -> Sleep:
    """Return how the mind sleeps at `now`, from how it slept before.

    Args:
        schedule: When it is to sleep.
        prev: How it slept when this was asked last.
        now: The present.
        pressed: So many notes wait that a nap out of turn is worth it.
        owed: Notes wait, so a nap that was missed as a whole is slept now.
        themes: What it would dream of.
        napped_at: When a nap that had something to do began last.
    """
    planned = prev.next_nap_starts_at
    if prev.is_napping and prev.nap_started_at is not None and prev.nap_ends_at is not None:
        if now < prev.nap_started_at - CLOCKS_DIFFER:
            planned = None
        elif now < prev.nap_ends_at:
            over = prev.awake_until is not None and prev.awake_until <= now
            return prev.model_copy(update={"awake_until": None}) if over else prev
        else:
            planned = _after_nap(schedule, prev.nap_ends_at, now)
    upcoming = schedule.next_after(now)[0]
    if planned is None:
        return _awake(prev, upcoming)
    if planned <= now:
        return _begun(schedule, prev, planned, now, owed, themes)
    # The settings or the clock may have changed meanwhile.
    planned = min(planned, upcoming) if isinstance(schedule, Naps) else upcoming
    far = planned - now > PRESSURE_BEFORE
    if pressed and far and not prev.is_napping and _rested(schedule, napped_at, now):
        return _asleep(schedule, prev, f"{PRESSURE_NAP}{_minutes(now)}", now, now + PRESSURE_LENGTH, themes)
    return _awake(prev, planned)


def woken(prev: Sleep, now: datetime) -> Sleep | None:
    """Return how the mind sleeps once somebody has spoken to it; None if nothing changes by that."""
    if not prev.is_napping or prev.nap_ends_at is None or now >= prev.nap_ends_at:
        return None
    until = min(now, prev.nap_ends_at) + WAKING
    if prev.awake_until is not None and prev.awake_until >= until:
        return None
    return prev.model_copy(update={"awake_until": until})


def _begun(
    schedule: Schedule, prev: Sleep, planned: datetime, now: datetime, owed: bool, themes: tuple[str, ...]
) -> Sleep:
    """Fall asleep for a nap whose time has come; one that was missed as a whole is slept only if notes wait."""
    following = schedule.next_after(now)[0]
    match schedule:
        case Naps(length):
            end = now + length
        case Windows():
            last = schedule.last_begun(planned, now)
            if last is None:  # the settings changed meanwhile
                return _awake(prev, following)
            planned, length = last
            end = planned + length
            if end <= now:
                if not owed:
                    return _awake(prev, following)
                end = min(now + length, following)
        case _:
            assert_never(schedule)
    nap = f"nap:{_minutes(planned)}"
    if nap == prev.maintained_nap_id:  # a clock that went back
        return _awake(prev, following)
    return _asleep(schedule, prev, nap, now, end, themes)


def _after_nap(schedule: Schedule, ended: datetime, now: datetime) -> datetime:
    """Return when the next nap begins: counted from the end of this one, however late that was noticed.

    A window that has begun by now has its turn; other naps wait until the mind has been awake for long enough.
    """
    start = _first_from(schedule, ended)
    return start if start > now or isinstance(schedule, Windows) else schedule.next_after(now)[0]


def _first_from(schedule: Schedule, ended: datetime) -> datetime:
    """Return the start of the first nap after one that ended; a window may begin where another ends."""
    return schedule.next_after(ended - _INSTANT if isinstance(schedule, Windows) else ended)[0]


def _rested(schedule: Schedule, napped_at: datetime | None, now: datetime) -> bool:
    return napped_at is None or now - napped_at >= schedule.longest + PRESSURE_AFTER


def _asleep(
    schedule: Schedule, prev: Sleep, nap: str, start: datetime, end: datetime, themes: tuple[str, ...]
) -> Sleep:
    # Who was woken shortly before one nap ended stays awake though the next one begins.
    woken_still = prev.awake_until is not None and prev.awake_until > start
    return Sleep(
        is_napping=True,
        nap_id=EntryId(nap),
        nap_started_at=start,
        nap_ends_at=end,
        next_nap_starts_at=_first_from(schedule, end),
        awake_until=prev.awake_until if woken_still else None,
        maintained_nap_id=prev.maintained_nap_id,
        active_dream_themes=themes,
    )


def _awake(prev: Sleep, following: datetime) -> Sleep:
    return Sleep(next_nap_starts_at=following, maintained_nap_id=prev.maintained_nap_id)


def _span(text: str) -> timedelta:
    return int(text[:-1]) * _UNIT[text[-1]]


def _minutes(start: datetime) -> int:
    return int((start - EPOCH).total_seconds()) // 60


def _checked(schedule: Schedule) -> Schedule:
    if not timedelta(0) < schedule.longest <= LONGEST_NAP:
        raise InputRejected("sleep: a nap lasts from a minute to three hours")
    if isinstance(schedule, Naps) and schedule.every <= timedelta(0):
        raise InputRejected(f"sleep: naps must be apart; {_FORM}")
    if isinstance(schedule, Windows):
        starts = [timedelta(hours=at.hour, minutes=at.minute) for at, _ in schedule.windows]
        ends = [start + length for start, (_, length) in zip(starts, schedule.windows, strict=True)]
        for end, start in zip(ends, [*starts[1:], starts[0] + _DAY], strict=True):
            if end > start:
                raise InputRejected(f"sleep: two naps overlap; {_FORM}")
    return schedule
