"""Newcomers: how new an account is and what it begins with; it weighs only beside something else.

Parameters: `score`.
"""

from datetime import timedelta

from core.domain.moderation.rules import Detector
from core.domain.moderation.signals import Finding, Watched
from core.moderation.fast.look import Look
from core.moderation.fast.reading import Reading

SCORE = 3
_JOINED, _MADE = timedelta(hours=24), timedelta(days=7)


def weight(reading: Reading) -> int:
    """Return how much speaks for an account that came only to post this."""
    message = reading.message
    marks = message.marks
    brings = message.first and (message.forwarded or reading.hosts.any)
    return (
        2 * has_just_joined(message)
        + (marks.account_made_at is not None and message.at - marks.account_made_at < _MADE)
        + message.first
        + (marks.pictured is False)
        + 2 * brings
    )


def has_just_joined(message: Watched) -> bool:
    """Return whether its author joined within a day, where the platform says so."""
    joined = message.marks.joined_at
    return joined is not None and message.at - joined < _JOINED


def is_newcomer(message: Watched) -> bool:
    """Return whether its author is new to the community or to the platform, or was never heard before."""
    made = message.marks.account_made_at
    return message.first or has_just_joined(message) or (made is not None and message.at - made < _MADE)


def find(look: Look) -> Finding | None:
    """Return that a message is a newcomer's, if something else was found in it under the same rule."""
    score, least = weight(look.reading), look.number("score", SCORE)
    if not look.found or score < least:
        return None
    return look.finding(Detector.NEW_MEMBER, score, least, what="newcomer", hint=True)
