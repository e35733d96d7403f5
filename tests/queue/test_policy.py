"""The table from error to outcome, and the bounds of every jitter."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.errors import (
    BadOutput,
    BudgetRefused,
    ClaimLost,
    Conflict,
    InputRejected,
    Misconfigured,
    Refused,
    StaleState,
    TimedOut,
    TooLong,
    Unavailable,
)
from core.domain.jobs import Discard, Retry, Snooze, backoff, rank
from core.jobs.policy import describe, outcome_of

NOW = datetime(2030, 1, 1, tzinfo=UTC)
DRAWS = st.floats(0.0, 1.0, exclude_max=True)
SPENT = BudgetRefused("room", 10, 10, "answers", NOW + timedelta(hours=1))


@pytest.mark.parametrize("error", [InputRejected("x"), TooLong("x"), BadOutput("x"), Refused("x"), Misconfigured("x")])
def test_what_would_fail_again_is_discarded(error: Exception) -> None:
    assert isinstance(outcome_of(error, 1, NOW, 0.5), Discard)


def test_a_lost_claim_records_nothing() -> None:
    assert outcome_of(ClaimLost("x"), 1, NOW, 0.5) is None


@pytest.mark.parametrize("error", [StaleState("x"), Conflict("x")])
def test_a_conflict_is_retried_soon_and_five_times(error: Exception) -> None:
    assert outcome_of(error, 1, NOW, 0.5) == Retry(0.5, describe(error), at_most=5)


@pytest.mark.parametrize("error", [Unavailable("x"), TimedOut("x"), TimeoutError()])
def test_a_failure_that_may_pass_backs_off(error: Exception) -> None:
    assert outcome_of(error, 3, NOW, 0.5) == Retry(8.0, describe(error))


def test_the_other_side_says_when_to_come_back() -> None:
    error = Unavailable("x", retry_after_s=30.0)
    assert outcome_of(error, 1, NOW, 0.25) == Retry(30.25, describe(error))


def test_a_long_pause_does_not_use_up_attempts() -> None:
    assert outcome_of(Unavailable("x", retry_after_s=3600.0), 1, NOW, 0.5) == Snooze(3600.5)


def test_a_spent_budget_ends_chat_and_pauses_steps() -> None:
    assert isinstance(outcome_of(SPENT, 1, NOW, 0.5), Discard)
    assert outcome_of(SPENT, 1, NOW, 0.5, waits_for_budget=True) == Snooze(3630.0)


def test_a_bug_is_tried_three_times_and_its_words_are_not_kept() -> None:
    assert outcome_of(KeyError("somebody's text"), 1, NOW, 0.5) == Retry(5.0, "KeyError", at_most=3)


@given(attempt=st.integers(1, 10_000), draw=DRAWS)
def test_jitter_bounds(attempt: int, draw: float) -> None:
    assert 0.0 <= backoff(attempt, draw) <= 300.0
    for error, longest in ((StaleState("x"), 5.0), (Unavailable("x"), 300.0), (KeyError(), 60.0)):
        outcome = outcome_of(error, attempt, NOW, draw)
        assert isinstance(outcome, Retry)
        assert outcome.after_s is not None
        assert 0.0 <= outcome.after_s <= longest


@given(attempt=st.integers(1, 6))
def test_jitter_is_full(attempt: int) -> None:
    assert backoff(attempt, 0.0) == 0.0
    assert backoff(attempt, 0.999) > 0.9 * min(300.0, 2.0 * 2.0**attempt)


def test_a_pass_that_waited_ten_minutes_longer_beats_chat() -> None:
    assert rank(NOW - timedelta(seconds=601), 0.0) < rank(NOW, 600.0)
    assert rank(NOW - timedelta(seconds=599), 0.0) > rank(NOW, 600.0)
