"""Times in words."""

from datetime import UTC, datetime, timedelta

import pytest

from core.domain.relative import part_of_day, relative, weekday

NOW = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("ago", "words"),
    [
        (timedelta(seconds=44), "just now"),
        (timedelta(seconds=45), "1 minute ago"),
        (timedelta(minutes=89), "89 minutes ago"),
        (timedelta(minutes=90), "2 hours ago"),
        (timedelta(hours=35), "35 hours ago"),
        (timedelta(hours=36), "2 days ago"),
        (timedelta(days=20), "20 days ago"),
        (timedelta(days=21), "3 weeks ago"),
        (timedelta(days=70), "2 months ago"),
        (timedelta(days=549), "2 years ago"),
        (timedelta(days=-2), "in 2 days"),
    ],
)
def test_a_distance_is_said_in_its_largest_fitting_unit(ago: timedelta, words: str) -> None:
    assert relative(NOW - ago, NOW) == words


def test_the_day_and_its_parts_have_names() -> None:
    parts = [part_of_day(NOW.replace(hour=hour)) for hour in (4, 5, 11, 12, 17, 18, 21, 22)]
    assert parts == ["night", "morning", "morning", "afternoon", "afternoon", "evening", "evening", "night"]
    assert weekday(NOW) == "Tuesday"
