"""Quiet hours as people write them."""

from datetime import datetime, time

import pytest

from core.domain.quiet import read_quiet_hours, written
from core.domain.rooms import QuietHours


@pytest.mark.parametrize(
    ("text", "meant"),
    [("22:00-07:00", (22, 7)), (" 9:00 - 17:00 ", (9, 17)), ("00:00–6:00", (0, 6)), ("22:00 to 07:00", (22, 7))],
)
def test_a_window_is_read_and_written_in_one_form(text: str, meant: tuple[int, int]) -> None:
    hours = read_quiet_hours(text)
    assert hours == QuietHours(time(meant[0]), time(meant[1]))
    assert read_quiet_hours(written(hours)) == hours


def test_a_window_over_midnight_holds_both_sides_and_not_its_end() -> None:
    hours = read_quiet_hours("22:00-07:00")
    assert [hours.covers(datetime(2026, 5, 1, hour)) for hour in (21, 22, 0, 6, 7)] == [False, True, True, True, False]


@pytest.mark.parametrize("text", ["", "22:00", "24:00-07:00", "22:60-07:00", "22-07", "22:00-07:00,", "22:00-22:00"])
def test_what_is_no_window_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be two local times"):
        read_quiet_hours(text)
