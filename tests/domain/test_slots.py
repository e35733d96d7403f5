"""Slots: equal lengths in UTC whatever the clocks do, local days each once, and what becomes of missed time."""

from datetime import UTC, date, datetime, time, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.slots import MOST_ROWS, CatchUp, Interval, days_of, due, instant_of

NOW = datetime(2026, 3, 1, 12, 1, tzinfo=UTC)
HALF = Interval(timedelta(minutes=30))
HOURLY = Interval(timedelta(hours=1), timedelta(minutes=17))
TIMES = [time(1, 30), time(2, 0), time(2, 30), time(3, 30), time(23, 59), time(0, 0)]
FEW = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Asuncion", "Africa/Cairo", "UTC"]


def test_a_slot_is_named_by_its_start_and_an_offset_moves_it() -> None:
    assert HALF.before(NOW).label == "2026-03-01T12:00Z"
    assert HOURLY.before(NOW).label == "2026-03-01T11:17Z"


def test_who_never_ran_has_missed_nothing() -> None:
    what = due(HALF, CatchUp.LATEST, None, NOW)
    assert what.run is not None
    assert (what.run.at, what.missed) == (NOW - timedelta(minutes=1), ())


def test_a_slot_that_was_taken_is_not_due_again_also_when_the_clock_goes_back() -> None:
    taken = HALF.before(NOW).at
    assert due(HALF, CatchUp.LATEST, taken, NOW).run is None
    assert due(HALF, CatchUp.LATEST, taken, NOW - timedelta(hours=3)).run is None


@pytest.mark.field("F054")
def test_a_slot_taken_by_a_clock_that_was_far_ahead_holds_nothing_up() -> None:
    assert due(HALF, CatchUp.LATEST, NOW + timedelta(days=365), NOW).run == HALF.before(NOW)


@pytest.mark.parametrize("policy", list(CatchUp))
def test_after_time_away_one_slot_runs_and_the_others_are_told(policy: CatchUp) -> None:
    last = datetime(2026, 3, 1, 8, 30, tzinfo=UTC)
    back = datetime(2026, 3, 1, 9, 40, tzinfo=UTC)
    what = due(HALF, policy, last, back)
    assert what.run is not None
    told = [what.run.label[11:16], *(slot.label[11:16] for slot in what.missed)]
    assert told == (["09:30"] if policy is CatchUp.INTEGRATE else ["09:30", "09:00"])
    assert len(told) + what.summarised == 2


def test_after_twelve_days_nothing_storms_and_every_slot_is_accounted_for() -> None:
    what = due(HALF, CatchUp.LATEST, NOW - timedelta(days=12), NOW)
    assert what.run is not None
    assert len(what.missed) == MOST_ROWS
    assert what.summarised == 12 * 48 - MOST_ROWS - 1


@given(st.integers(1, 5000), st.sampled_from([HALF, HOURLY]), st.sampled_from(list(CatchUp)))
def test_no_slot_is_lost_or_told_twice(minutes: int, schedule: Interval, policy: CatchUp) -> None:
    last = schedule.before(NOW - timedelta(minutes=minutes)).at
    what = due(schedule, policy, last, NOW)
    told = [*what.missed, *([what.run] if what.run else [])]
    assert len({slot.label for slot in told}) == len(told)
    assert len(told) + what.summarised == schedule.count(last, NOW)
    assert sorted(told, key=lambda slot: slot.at) == told


def by_counting(day: date, at: time, zone: str) -> datetime:
    """The same instant found by going through the minutes: the first whose local time is at or past the wanted one."""
    where, wanted = ZoneInfo(zone), datetime.combine(day, at)
    start = datetime.combine(day, time(), tzinfo=UTC) - timedelta(hours=26)
    minutes = (start + timedelta(minutes=n) for n in range(80 * 60))
    return next(each for each in minutes if each.astimezone(where).replace(tzinfo=None) >= wanted)


def check_a_year(zone: str, year: int, times: list[time]) -> None:
    first = datetime(year, 1, 1, tzinfo=ZoneInfo(zone))
    days = list(islice(days_of(zone, first.astimezone(UTC)), 366))
    assert len(set(days)) == 366
    for at in times:
        instants = [instant_of(day, at, zone) for day in days]
        assert all(one < other for one, other in pairwise(instants)), (zone, at)
        for day, instant in zip(days, instants, strict=True):
            odd = instant.astimezone(ZoneInfo(zone)).replace(tzinfo=None) != datetime.combine(day, at)
            changes = instant_of(day, time(0), zone) + timedelta(days=1) != instant_of(
                day + timedelta(days=1), time(0), zone
            )
            if odd or changes:
                assert instant == by_counting(day, at, zone), (zone, day, at)


@pytest.mark.field("F053")
@pytest.mark.parametrize("zone", FEW)
def test_each_local_day_of_a_year_comes_once(zone: str) -> None:
    check_a_year(zone, 2026, TIMES)


@pytest.mark.long
@pytest.mark.parametrize("year", [2024, 2026])
def test_each_local_day_of_a_year_comes_once_in_every_zone(year: int) -> None:
    for zone in sorted(available_timezones() - {"localtime"}):
        check_a_year(zone, year, TIMES)


def test_a_day_that_a_zone_skips_is_no_day() -> None:
    days = list(islice(days_of("Pacific/Apia", datetime(2011, 12, 29, 12, tzinfo=UTC)), 2))
    assert days == [date(2011, 12, 29), date(2011, 12, 31)]


@pytest.mark.parametrize(
    ("day", "at", "zone", "expected"),
    [
        (date(2026, 3, 29), time(2, 30), "Europe/Berlin", "2026-03-29T01:00"),  # in the gap: its end
        (date(2026, 10, 25), time(2, 30), "Europe/Berlin", "2026-10-25T00:30"),  # twice: the first
        (date(2026, 10, 4), time(2, 15), "Australia/Lord_Howe", "2026-10-03T15:30"),  # a gap of half an hour
    ],
)
def test_a_time_that_is_missing_or_doubled_has_one_instant(day: date, at: time, zone: str, expected: str) -> None:
    assert f"{instant_of(day, at, zone):%Y-%m-%dT%H:%M}" == expected
