"""Purses, windows, roles and pace, without a database."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.budgets import (
    DEFAULT_LIMITS,
    DEFAULT_PURSES,
    NO_LIMITS,
    PERSON_ASKS,
    ROOM_ASKS,
    SCOPES,
    CallResult,
    Draw,
    LimitRole,
    Pace,
    PersonLimits,
    Purse,
    Scope,
    Unit,
    UsageRow,
    Window,
    check_limit,
    first_refused,
    parse_limits,
    retry_after,
)
from core.domain.errors import InputRejected
from core.domain.windows import day_start, window_span

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
CHAT = Draw(person_id=1, room_id=2, community_id=3, tokens=500, usd_micro=40, answers=1)
SLEEP = Draw(person_id=None, room_id=None, community_id=3, pass_class="sleep", tokens=500, usd_micro=40)
BOOSTED = PersonLimits(LimitRole.BOOSTED)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def purse(scope: Scope, unit: Unit = Unit.ANSWERS, limit: int | None = 10, scope_id: str = "", n: int = 1) -> Purse:
    return Purse(id=n, scope=scope, scope_id=scope_id, unit=unit, window=Window.DAY, limit=limit)


# Windows


def test_a_day_begins_at_local_midnight() -> None:
    assert window_span(Window.DAY, "Asia/Kolkata", NOON) == (utc("2026-03-09T18:30"), utc("2026-03-10T18:30"))


def test_a_month_begins_on_its_first_local_day() -> None:
    assert window_span(Window.MONTH, "Asia/Tokyo", utc("2026-01-31T15:30")) == (
        utc("2026-01-31T15:00"),
        utc("2026-02-28T15:00"),
    )


def test_an_hour_begins_at_the_full_local_hour() -> None:
    assert window_span(Window.HOUR, "Asia/Kolkata", utc("2026-03-10T12:10")) == (
        utc("2026-03-10T11:30"),
        utc("2026-03-10T12:30"),
    )


@pytest.mark.parametrize(("at", "hours"), [("2026-03-29T12:00", 23), ("2026-10-25T12:00", 25)])
def test_a_day_with_a_clock_change_is_shorter_or_longer(at: str, hours: int) -> None:
    start, end = window_span(Window.DAY, "Europe/Berlin", utc(at))
    assert end - start == timedelta(hours=hours)


def test_an_hour_that_comes_twice_is_two_windows() -> None:
    first, _ = window_span(Window.HOUR, "Europe/Berlin", utc("2026-10-25T00:30"))
    second, _ = window_span(Window.HOUR, "Europe/Berlin", utc("2026-10-25T01:30"))
    assert second - first == timedelta(hours=1)


def test_a_midnight_that_does_not_exist_is_the_end_of_the_gap() -> None:
    # Beirut: 2026-03-29 begins at 01:00, when 00:00 is skipped.
    assert day_start(datetime(2026, 3, 29).date(), "Asia/Beirut") == utc("2026-03-28T22:00")


def test_a_midnight_that_comes_twice_counts_once() -> None:
    # Havana: at 01:00 on 2026-11-01 the clock goes back to 00:00.
    assert day_start(datetime(2026, 11, 1).date(), "America/Havana") == utc("2026-11-01T04:00")


def test_a_clock_that_falls_back_over_midnight_begins_the_day_once() -> None:
    # St. John's: at 00:01 on 2010-11-07 the clock goes back to 23:01 of the day before.
    shown_twice = [utc("2010-11-07T02:30:30"), utc("2010-11-07T03:00")]
    spans = {window_span(Window.DAY, "America/St_Johns", at) for at in shown_twice}
    assert spans == {(utc("2010-11-06T02:30"), utc("2010-11-07T03:30"))}


def test_a_day_that_a_country_skipped_is_empty() -> None:
    # Samoa went from 29 to 31 December 2011.
    assert window_span(Window.DAY, "Pacific/Apia", utc("2011-12-30T10:30")) == (
        utc("2011-12-30T10:00"),
        utc("2011-12-31T10:00"),
    )


@pytest.mark.parametrize("zone", ["Nowhere/Land", "", "../etc/passwd", "\0"])
def test_an_unknown_zone_counts_as_utc(zone: str) -> None:
    assert window_span(Window.DAY, zone, NOON) == window_span(Window.DAY, "UTC", NOON)


ZONES = ["UTC", "Europe/Berlin", "America/St_Johns", "America/Havana", "Asia/Beirut", "Australia/Lord_Howe",
         "Pacific/Apia", "Africa/Casablanca", "America/Sao_Paulo", "Asia/Kathmandu"]  # fmt: skip
INSTANTS = st.datetimes(datetime(1990, 1, 1), datetime(2035, 1, 1)).map(lambda at: at.replace(tzinfo=UTC))


@given(st.sampled_from(ZONES), st.sampled_from(Window), INSTANTS)
def test_a_window_holds_its_instant_and_its_neighbours_touch_it(zone: str, window: Window, at: datetime) -> None:
    start, end = window_span(window, zone, at)
    assert start <= at < end


@given(st.sampled_from(ZONES), st.sampled_from([Window.DAY, Window.MONTH]), INSTANTS)
def test_all_instants_of_a_window_agree_about_it(zone: str, window: Window, at: datetime) -> None:
    span = window_span(window, zone, at)
    before_end = window_span(window, zone, span[1] - timedelta(microseconds=1))
    assert (window_span(window, zone, span[0]), before_end) == (span, span)


@given(st.sampled_from(ZONES), INSTANTS)
def test_the_next_day_begins_where_this_one_ends(zone: str, at: datetime) -> None:
    _, end = window_span(Window.DAY, zone, at)
    assert window_span(Window.DAY, zone, end)[0] == end


@given(st.sampled_from(ZONES), INSTANTS, st.integers(0, 7200))
def test_two_instants_share_an_hour_only_if_less_than_an_hour_apart(zone: str, at: datetime, later_s: int) -> None:
    later = at + timedelta(seconds=later_s)
    same = window_span(Window.HOUR, zone, at)[0] == window_span(Window.HOUR, zone, later)[0]
    assert not same or later_s < 3600


@given(st.sampled_from(ZONES), INSTANTS)
def test_a_day_shows_its_own_local_date_when_it_begins(zone: str, at: datetime) -> None:
    start, _ = window_span(Window.DAY, zone, at)
    local = ZoneInfo(zone)
    assert start.astimezone(local).date() > (start - timedelta(seconds=1)).astimezone(local).date()


# Who is limited how far


def test_the_defaults_are_as_documented() -> None:
    assert DEFAULT_PURSES == (
        (Scope.PERSON, Unit.ANSWERS, Window.DAY, 100),
        (Scope.COMMUNITY, Unit.ANSWERS, Window.DAY, 2_000),
        (Scope.COMMUNITY, Unit.TOKENS, Window.DAY, 2_000_000),
    )


@pytest.mark.parametrize(
    ("limits", "limit"),
    [(DEFAULT_LIMITS, 100), (BOOSTED, 1_000), (PersonLimits(LimitRole.BOOSTED, 1.5), 150), (NO_LIMITS, None)],
)
def test_a_role_raises_a_persons_limit(limits: PersonLimits, limit: int | None) -> None:
    assert limits.limit(100) == limit


@pytest.mark.parametrize("limits", [DEFAULT_LIMITS, BOOSTED])
def test_nothing_allowed_stays_nothing_for_every_limited_role(limits: PersonLimits) -> None:
    assert limits.limit(0) == 0


@pytest.mark.parametrize(
    ("limits", "cost_s"),
    [(DEFAULT_LIMITS, 10.0), (PersonLimits(LimitRole.BOOSTED, 4), 2.5), (PersonLimits(LimitRole.BOOSTED, 50), 1.0)],
)
def test_a_role_shortens_the_wait_down_to_a_second(limits: PersonLimits, cost_s: float) -> None:
    pace = limits.pace(PERSON_ASKS)
    assert pace is not None and pace.cost_s == cost_s


def test_an_unlimited_person_never_waits() -> None:
    assert NO_LIMITS.pace(PERSON_ASKS) is None


@pytest.mark.parametrize(
    "text",
    ["boosted:1", "boosted:0.5", "boosted:-3", "boosted:nan", "boosted:inf", "boosted:x", "default:2", "", "vip"],
)
def test_a_factor_of_one_or_less_and_an_unknown_role_are_refused(text: str) -> None:
    with pytest.raises(InputRejected):
        parse_limits(text)


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("default", DEFAULT_LIMITS),
        ("boosted", BOOSTED),
        ("boosted:2.5", PersonLimits(LimitRole.BOOSTED, 2.5)),
        ("unlimited", NO_LIMITS),
    ],
)
def test_limits_are_read_as_written(text: str, limits: PersonLimits) -> None:
    assert parse_limits(text) == limits


# What is drawn


def test_wants_come_narrow_to_wide() -> None:
    purses = [purse(scope, Unit.TOKENS, n=9 - n) for n, scope in enumerate(SCOPES) if scope is not Scope.PASS_CLASS]
    names = [want.name for want in CHAT.wants(purses, "UTC", NOON)]
    assert names == ["person", "room", "community", "deployment"]


def test_an_override_stands_before_the_default_of_its_scope() -> None:
    purses = [purse(Scope.PERSON, limit=5, scope_id="1", n=2), purse(Scope.PERSON, limit=100, n=1)]
    assert [want.limit for want in CHAT.wants(purses, "UTC", NOON)] == [5]


def test_a_pass_class_in_one_community_stands_before_the_class() -> None:
    ids = ["sleep:3", "", "sleep"]
    purses = [purse(Scope.PASS_CLASS, Unit.TOKENS, len(i), i, n) for n, i in enumerate(ids)]
    assert [(want.limit, want.subject) for want in SLEEP.wants(purses, "UTC", NOON)] == [(7, "sleep:3")]


def test_one_default_purse_has_a_window_for_each_person() -> None:
    others = replace(CHAT, person_id=8).wants([purse(Scope.PERSON)], "UTC", NOON)
    mine = CHAT.wants([purse(Scope.PERSON)], "UTC", NOON)
    assert (mine[0].subject, others[0].subject) == ("1", "8")


def test_unattended_work_draws_on_no_person() -> None:
    assert Scope.PERSON not in dict(replace(SLEEP, person_id=1).sources())


def test_unattended_work_gets_its_share_of_the_deployment() -> None:
    wants = SLEEP.wants([purse(Scope.DEPLOYMENT, Unit.USD_MICRO, 1000)], "UTC", NOON)
    assert [(want.name, want.limit) for want in wants] == [("passes", 300), ("deployment", 1000)]


def test_a_persons_role_leaves_the_rooms_limit_alone() -> None:
    wants = replace(CHAT, limits=NO_LIMITS).wants([purse(Scope.PERSON), purse(Scope.ROOM, n=2)], "UTC", NOON)
    assert [want.limit for want in wants] == [None, 10]


def test_the_deployments_day_has_the_purses_own_zone() -> None:
    tokyo = replace(purse(Scope.DEPLOYMENT), timezone="Asia/Tokyo")
    (want,) = CHAT.wants([tokyo], "America/New_York", NOON)
    assert want.starts_at == utc("2026-03-09T15:00")


def test_the_first_refusal_is_the_narrowest() -> None:
    wants = CHAT.wants([purse(Scope.DEPLOYMENT, n=1), purse(Scope.ROOM, n=2), purse(Scope.COMMUNITY, n=3)], "UTC", NOON)
    assert first_refused(wants, [9, 10, 10]) == 1


@given(st.integers(0, 200), st.integers(0, 200), st.one_of(st.none(), st.integers(0, 200)))
def test_an_amount_fits_exactly_up_to_the_limit(used: int, amount: int, limit: int | None) -> None:
    (want,) = replace(CHAT, tokens=amount).wants([purse(Scope.ROOM, Unit.TOKENS, limit)], "UTC", NOON)
    assert want.fits(used) == (amount == 0 or limit is None or used + amount <= limit)


def test_an_unpaid_call_fits_a_purse_of_no_dollars() -> None:
    (want,) = replace(CHAT, usd_micro=0).wants([purse(Scope.DEPLOYMENT, Unit.USD_MICRO, 0)], "UTC", NOON)
    assert want.fits(0)


@pytest.mark.parametrize("amounts", [(-1, 0, 0, 0), (0, -1, 0, 0), (0, 0, -1, 0), (0, 0, 0, -1)])
def test_a_draw_takes_nothing_negative(amounts: tuple[int, int, int, int]) -> None:
    tokens, usd_micro, answers, seconds = amounts
    with pytest.raises(ValueError, match="negative"):
        replace(CHAT, tokens=tokens, usd_micro=usd_micro, answers=answers, seconds=seconds)


def test_a_failed_call_without_reservation_counts_no_answer() -> None:
    row = UsageRow(job_id=1, attempt=1, purpose="reply", answers=1, input_tokens=7, result=CallResult.FAILED)
    assert (row.as_draw().answers, row.as_draw().tokens) == (0, 7)


# Limits that someone sets


@pytest.mark.parametrize("limit", [-1, 2**60])
def test_negative_and_absurd_limits_are_refused(limit: int) -> None:
    with pytest.raises(InputRejected):
        check_limit(Scope.PERSON, "", Unit.ANSWERS, Window.DAY, limit)


def test_the_deployments_dollars_a_day_keep_a_limit() -> None:
    with pytest.raises(InputRejected):
        check_limit(Scope.DEPLOYMENT, "", Unit.USD_MICRO, Window.DAY, None)


def test_the_deployment_has_no_id() -> None:
    with pytest.raises(InputRejected):
        check_limit(Scope.DEPLOYMENT, "7", Unit.TOKENS, Window.DAY, 5)


@pytest.mark.parametrize("limit", [0, 1, None])
def test_nothing_something_and_no_limit_can_be_set(limit: int | None) -> None:
    check_limit(Scope.ROOM, "7", Unit.TOKENS, Window.HOUR, limit)


# Pace


def test_an_unused_limiter_passes_at_once() -> None:
    assert retry_after(None, NOON, PERSON_ASKS) == 0


@pytest.mark.parametrize(("ahead_s", "wait_s"), [(0, 0), (20, 0), (21, 1), (30, 10), (-5, 0)])
def test_the_wait_is_what_lies_beyond_the_burst(ahead_s: float, wait_s: float) -> None:
    assert retry_after(NOON + timedelta(seconds=ahead_s), NOON, PERSON_ASKS) == wait_s


@given(st.lists(st.floats(0, 120), max_size=60), st.sampled_from([PERSON_ASKS, ROOM_ASKS, Pace(5, 5)]))
def test_no_stretch_of_time_holds_more_than_burst_and_refill(gaps: list[float], pace: Pace) -> None:
    at, tat, granted = NOON, NOON, list[datetime]()
    for gap in gaps:
        at += timedelta(seconds=gap)
        if retry_after(tat, at, pace) == 0:
            granted.append(at)
            tat = max(tat, at) + timedelta(seconds=pace.cost_s)
    for n, first in enumerate(granted):
        for m, last in enumerate(granted[n:]):
            assert (m + 1) * pace.cost_s <= pace.burst_s + (last - first).total_seconds() + 1e-3
