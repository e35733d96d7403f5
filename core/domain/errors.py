"""The whole error tree. The class of an error is the decision whether to try again.

    BotError
      InputRejected > TooLong, BadOutput       the same input fails again  -> discard, one line to the asker
      OutsideRefused > Refused, Misconfigured  said no for good            -> discard, tell the operator
      Conflict > StaleState                    someone else won            -> retry soon, from fresh data
                 ClaimLost                     another owns the job        -> stop, record nothing
      Unavailable(retry_after_s) > TimedOut    down or throttling          -> retry after it, else back off
      BudgetRefused(purse, resets_at)          a purse is used up          -> discard with a line, or snooze
        > BudgetHeld                           calls under way hold it     -> look again in 2 s, not counted

Anything else is a bug: retried up to three times, then dead, with a traceback in the log.
The table from class to outcome is `core/jobs/policy.py`. Messages never hold a secret or a person's text.
"""

from datetime import datetime


class BotError(Exception):
    """The root of all expected failures.

    Args:
        message: What is wrong, lower case, subject first.
        attributes: Values that belong to it; they are logged as fields.
    """

    def __init__(self, message: str, **attributes: object) -> None:
        super().__init__(message)
        self.message = message
        self.attributes = attributes

    def __str__(self) -> str:
        shown = ", ".join(f"{key}={value}" for key, value in self.attributes.items())
        return f"{self.message} ({shown})" if shown else self.message


class InputRejected(BotError):
    """The same input would fail again."""


class TooLong(InputRejected):
    """It does not fit a limit that stands."""


class BadOutput(InputRejected):
    """A model's output could not be used."""


class OutsideRefused(BotError):
    """The other side said no for good."""


class Refused(OutsideRefused):
    """A provider or platform refuses this request, whatever the form."""


class Misconfigured(OutsideRefused):
    """A setting, key or file is wrong; only the operator can mend it."""


class Conflict(BotError):
    """Someone else won; our work is void."""


class StaleState(Conflict):
    """What we read has changed; read again."""


class ClaimLost(Conflict):
    """Another worker owns the job; nothing was written and nothing is recorded."""


class Unavailable(BotError):
    """Down or throttling. `retry_after_s`: seconds the other side asked for, None if it did not say."""

    def __init__(self, message: str, retry_after_s: float | None = None, **attributes: object) -> None:
        super().__init__(message, **attributes)
        self.retry_after_s = retry_after_s


class TimedOut(Unavailable):
    """No answer within the limit; the other side may have done the work."""


class BudgetRefused(BotError):
    """A purse is used up. `scope` is its name in words; `resets_at` is aware UTC."""

    def __init__(self, scope: str, used: int, limit: int, unit: str, resets_at: datetime) -> None:
        super().__init__("budget used up", scope=scope, unit=unit, limit=limit)
        self.scope = scope
        self.used = used
        self.limit = limit
        self.unit = unit
        self.resets_at = resets_at


class BudgetHeld(BudgetRefused):
    """Calls under way hold what is left; most of it returns when they end. Try again soon."""
