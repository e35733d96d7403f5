"""The table from error class to outcome. The class of an error is the decision; nothing else is asked. Pure."""

from datetime import datetime

from core.domain.errors import (
    BudgetHeld,
    BudgetRefused,
    ClaimLost,
    Conflict,
    InputRejected,
    OutsideRefused,
    Unavailable,
)
from core.domain.jobs import Discard, Outcome, Retry, Snooze, backoff

LONGEST_RETRY_AFTER_S = 600.0
CONFLICT_TRIES = 5
BUG_TRIES = 3


def outcome_of(
    error: Exception, attempt: int, now: datetime, draw: float, *, waits_for_budget: bool = False
) -> Outcome | None:
    """Return what becomes of a job whose run raised `error`; None where nothing may be recorded.

    Args:
        error: What was raised.
        attempt: Which try this was, from 1.
        now: The present, aware.
        draw: A random number in [0, 1): all jitter.
        waits_for_budget: Whether jobs of this kind may wait until a purse is full again.
    """
    match error:
        case ClaimLost():
            return None
        case InputRejected() | OutsideRefused():
            return Discard(describe(error))
        case Conflict():
            after_s = backoff(attempt, draw, base_s=0.5, cap_s=5.0)
            return Retry(after_s, describe(error), at_most=CONFLICT_TRIES)
        case Unavailable(retry_after_s=None) | TimeoutError():
            return Retry(backoff(attempt, draw), describe(error))
        case Unavailable(retry_after_s=after_s) if after_s is not None:
            if after_s > LONGEST_RETRY_AFTER_S:
                return Snooze(after_s + draw)
            return Retry(after_s + draw, describe(error))
        case BudgetHeld():
            return Snooze(1.0 + draw * 2.0)
        case BudgetRefused():
            if not waits_for_budget:
                return Discard(describe(error))
            return Snooze(max(0.0, (error.resets_at - now).total_seconds()) + 60.0 * draw)
        case _:
            return Retry(backoff(attempt, draw, base_s=5.0, cap_s=60.0), type(error).__name__, at_most=BUG_TRIES)


def describe(error: Exception) -> str:
    """Return the words kept with a job: our own errors say what is wrong, foreign ones only their class."""
    expected = (InputRejected, OutsideRefused, Conflict, Unavailable, BudgetRefused)
    name = type(error).__name__
    return f"{name}: {error}" if isinstance(error, expected) else name
