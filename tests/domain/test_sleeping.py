"""Naps: planned, woken from, missed and made up for; never longer, never doubled, wherever the process stops."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.errors import InputRejected
from core.domain.mind.bodies import Sleep
from core.domain.mind.codes import Accepted
from core.domain.mind.facts import Emitter
from core.domain.operations.runtime import UpdateSleepCycle
from core.domain.sleeping import PRESSURE_NAP, Schedule, Windows, at, read_schedule, woken
from core.domain.slots import instant_of
from tests.domain.minds import applied, make_entry, make_facts, make_view

NIGHT = read_schedule("03:30/90m", "Europe/Berlin")
OFTEN = read_schedule("4h/1h", "UTC")
TWO = read_schedule("02:00/1h,03:00/1h", "UTC")
START = datetime(2026, 3, 10, 20, tzinfo=UTC)
BEFORE_SPRING, BEFORE_AUTUMN = datetime(2026, 3, 28, tzinfo=UTC), datetime(2026, 10, 24, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def through(schedule: Schedule, ticks: list[datetime], *, owed: bool = False) -> list[Sleep]:
    found, now = [], Sleep()
    for tick in ticks:
        now = at(schedule, now, tick, owed=owed)
        found.append(now)
    return found


def naps_of(slept: list[Sleep]) -> dict[str, tuple[datetime, datetime]]:
    return {
        each.nap_id: (each.nap_started_at, each.nap_ends_at)
        for each in slept
        if each.nap_id is not None and each.nap_started_at is not None and each.nap_ends_at is not None
    }


def planned_at(schedule: Windows, first: datetime, now: datetime) -> bool:
    """Whether a window is on that began since it was looked first, by the local clock alone."""
    days = [(now + n * 24 * HOUR).date() for n in (-2, -1, 0, 1)]
    starts = [(instant_of(day, start, schedule.zone), length) for day in days for start, length in schedule.windows]
    return any(first < start <= now < start + length for start, length in starts)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is no time to sleep"),
        ("25:00/90m", "is no time to sleep"),
        ("03:30/200m", "three hours"),
        ("03:30/90m,04:00/30m", "overlap"),
        ("23:30/90m,00:30/30m", "overlap"),
        ("4h/4h", "three hours"),
        ("0h/1h", "apart"),
    ],
)
def test_what_is_no_schedule_says_what_one_looks_like(text: str, words: str) -> None:
    with pytest.raises(InputRejected, match=words):
        read_schedule(text, "UTC")


def test_a_night_has_one_nap_that_begins_and_ends_as_planned() -> None:
    ticks = [START + n * 5 * MINUTE for n in range(24 * 12)]
    (nap,) = naps_of(through(NIGHT, ticks)).values()
    assert nap == (datetime(2026, 3, 11, 2, 30, tzinfo=UTC), datetime(2026, 3, 11, 4, 0, tzinfo=UTC))


def test_an_interval_counts_from_the_waking() -> None:
    naps = sorted(naps_of(through(OFTEN, [START + n * 5 * MINUTE for n in range(24 * 12)])).values())
    assert [start - START for start, _ in naps] == [4 * HOUR, 9 * HOUR, 14 * HOUR, 19 * HOUR]


@given(
    st.sampled_from([NIGHT, OFTEN, TWO, read_schedule("00:30/2h,12:00/30m", "Australia/Lord_Howe")]),
    st.sampled_from([START, BEFORE_SPRING, BEFORE_AUTUMN]),
    st.lists(st.integers(1, 900), min_size=2, max_size=60),
    st.booleans(),
)
def test_whenever_it_is_looked_every_nap_comes_and_none_drifts_overlaps_or_comes_twice(
    schedule: Schedule, start: datetime, gaps: list[int], owed: bool
) -> None:
    now, tick = Sleep(), start
    naps: dict[str, tuple[datetime, datetime]] = {}
    for gap in gaps:
        tick += gap * MINUTE
        after = at(schedule, now, tick, owed=owed)
        view = make_view(make_entry("sleep", now))
        verdict = applied(UpdateSleepCycle(sleep=after), view, make_facts(Emitter.MOOD, now=tick))
        assert isinstance(verdict, Accepted)
        assert after.next_nap_starts_at is not None
        assert after.next_nap_starts_at > tick
        if isinstance(schedule, Windows):
            planned = planned_at(schedule, start + gaps[0] * MINUTE, tick)
            assert after.is_napping >= planned
            assert owed or after.is_napping == planned
        if after.is_napping and after.nap_id is not None:
            if after.nap_id in naps:
                assert naps[after.nap_id] == naps_of([after])[after.nap_id]
            naps |= naps_of([after])
        now = after
    spans = sorted(naps.values())
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert all(end - start <= 3 * HOUR for start, end in spans)


@pytest.mark.parametrize(("owed", "naps"), [(True, 1), (False, 0)])
def test_a_nap_missed_as_a_whole_is_made_up_for_only_if_notes_wait(owed: bool, naps: int) -> None:
    ticks = [START, START + 15 * HOUR, START + 15 * HOUR + 5 * MINUTE]
    assert len(naps_of(through(NIGHT, ticks, owed=owed))) == naps


def test_the_rest_of_a_nap_is_slept_when_it_began_while_nobody_looked() -> None:
    (nap,) = naps_of(through(NIGHT, [START, datetime(2026, 3, 11, 3, 0, tzinfo=UTC)])).values()
    assert nap[1] == datetime(2026, 3, 11, 4, 0, tzinfo=UTC)


@pytest.mark.parametrize(("owed", "naps"), [(True, 2), (False, 1)])
def test_a_process_that_stopped_within_a_nap_knows_that_it_missed_the_next_one(owed: bool, naps: int) -> None:
    within = datetime(2026, 3, 11, 3, 0, tzinfo=UTC)
    assert len(naps_of(through(NIGHT, [START, within, within + 30 * HOUR], owed=owed))) == naps


def test_who_was_woken_as_a_nap_ended_stays_awake_though_the_next_one_begins() -> None:
    end = datetime(2026, 3, 11, 3, 0, tzinfo=UTC)
    (*_, napping) = through(TWO, [START, end - 30 * MINUTE])
    awake = woken(napping, end - MINUTE)
    assert awake is not None
    following = at(TWO, awake, end)
    assert (following.nap_ends_at, following.awake_until) == (end + HOUR, end + 9 * MINUTE)
    assert at(TWO, following, end + 10 * MINUTE).awake_until is None


@pytest.mark.parametrize("schedule", [NIGHT, OFTEN])
@pytest.mark.parametrize("napping", [True, False])
def test_a_clock_that_was_years_ahead_leaves_neither_a_nap_nor_a_wait_of_years(
    schedule: Schedule, napping: bool
) -> None:
    there = next(
        each
        for each in through(schedule, [START + 2 * 8766 * HOUR + n * 30 * MINUTE for n in range(48)])
        if each.is_napping is napping
    )
    after = at(schedule, there, START)
    assert not after.is_napping
    assert after.next_nap_starts_at is not None
    assert START < after.next_nap_starts_at <= START + 24 * HOUR


def test_windows_that_were_changed_while_nobody_looked_count_from_now_on() -> None:
    awake = at(NIGHT, Sleep(), START)
    after = at(read_schedule("21:00/30m", "Europe/Berlin"), awake, START + 13 * HOUR)
    assert (after.is_napping, after.next_nap_starts_at) == (False, START + 24 * HOUR)


def test_many_notes_are_slept_off_out_of_turn_but_not_shortly_before_or_after_a_nap() -> None:
    awake = at(NIGHT, Sleep(), START)
    pressed = at(NIGHT, awake, START, pressed=True)
    assert (pressed.nap_id or "").startswith(PRESSURE_NAP)
    assert (pressed.nap_ends_at or START) - START == 30 * MINUTE
    assert not at(NIGHT, awake, START + 5 * HOUR, pressed=True).is_napping
    assert not at(NIGHT, awake, START, pressed=True, napped_at=START - 5 * HOUR).is_napping
    assert at(NIGHT, awake, START, pressed=True, napped_at=START - 6 * HOUR).is_napping


def test_a_mention_wakes_for_ten_minutes_and_each_further_one_prolongs_it() -> None:
    (*_, napping) = through(NIGHT, [START, datetime(2026, 3, 11, 3, 0, tzinfo=UTC)])
    assert napping.nap_ends_at is not None
    first = woken(napping, napping.nap_ends_at - 30 * MINUTE)
    assert first is not None
    assert first.awake_until == napping.nap_ends_at - 20 * MINUTE
    last = woken(first, napping.nap_ends_at - MINUTE)
    assert last is not None
    assert last.awake_until == napping.nap_ends_at + 9 * MINUTE
    assert woken(last, napping.nap_ends_at) is None


def test_after_it_was_woken_the_same_nap_goes_on() -> None:
    (*_, napping) = through(NIGHT, [START, datetime(2026, 3, 11, 2, 40, tzinfo=UTC)])
    awake = woken(napping, datetime(2026, 3, 11, 2, 45, tzinfo=UTC))
    assert awake is not None
    again = at(NIGHT, awake, datetime(2026, 3, 11, 3, 0, tzinfo=UTC))
    assert (again.nap_id, again.awake_until) == (napping.nap_id, None)


def test_nobody_wakes_who_does_not_sleep() -> None:
    assert woken(at(NIGHT, Sleep(), START), START) is None
