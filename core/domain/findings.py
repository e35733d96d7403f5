"""What an examination of the surroundings found: one line for each check, with what to do; pure."""

from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum

SKEW_WARNING_S, SKEW_WRONG_S = 5.0, 60.0
"""From which distance two clocks are worth a word, and from which times said to people are wrong."""
SHOWN_CHARS = 80


class Verdict(StrEnum):
    """How it stands: as it should, works but probably not as meant, or does not work."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check. `what`: what was found, in one line; `remedy`: the exact thing to do, empty if there is nothing."""

    check: str
    verdict: Verdict
    what: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Examined:
    """What a platform said: the findings, and the name under which people see the bot there; empty if not known."""

    findings: tuple[Finding, ...]
    name: str = ""


def ok(check: str, what: str) -> Finding:
    """Return that all is well."""
    return Finding(check, Verdict.OK, what)


def warning(check: str, what: str, remedy: str) -> Finding:
    """Return that it works, but probably not as meant."""
    return Finding(check, Verdict.WARNING, what, remedy)


def wrong(check: str, what: str, remedy: str) -> Finding:
    """Return that it does not work."""
    return Finding(check, Verdict.WRONG, what, remedy)


def one_line(text: str) -> str:
    """Return a foreign name so that it can neither break a line nor fill it."""
    shown = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return shown if len(shown) <= SHOWN_CHARS else f"{shown[: SHOWN_CHARS - 1]}…"


def http_date(header: str) -> datetime | None:
    """Return the time of a Date header; None if it holds none."""
    try:
        at = parsedate_to_datetime(header)
    except ValueError:
        return None
    return None if at.tzinfo is None else at


def clock(there: str, before: datetime, told: datetime, after: datetime, *, grain_s: float = 0.0) -> Finding:
    """Return how our clock stands to another one.

    Args:
        there: Whose clock the other one is.
        before: Our time when we asked.
        told: The time that was told.
        after: Our time when we knew.
        grain_s: How coarse the told time is: it may be up to so many seconds later.
    """
    ahead_s = (before - told).total_seconds() - grain_s
    behind_s = (told - after).total_seconds()
    off_s = max(ahead_s, behind_s, 0.0)
    check = f"clock.{there}"
    if off_s < SKEW_WARNING_S:
        return ok(check, f"this machine and {there} agree within {SKEW_WARNING_S:.0f} s")
    which = "ahead of" if ahead_s > behind_s else "behind"
    what = f"this machine's clock is {off_s:.0f} s {which} that of {there}"
    remedy = "let the clock be set from the network, on this machine: timedatectl set-ntp true"
    return wrong(check, what, remedy) if off_s >= SKEW_WRONG_S else warning(check, what, remedy)
