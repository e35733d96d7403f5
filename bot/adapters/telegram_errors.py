"""What the library's errors mean for a message: certainly unsent, refused for good, or perhaps arrived. Pure."""

from datetime import timedelta

import httpx
from telegram.error import BadRequest, ChatMigrated, Forbidden, InvalidToken, TelegramError
from telegram.error import RetryAfter as FloodWait

from core.ports import Ambiguous, RetryAfter, SendRefused, SendResult, Unsent

NOT_MODIFIED = "message is not modified"
CLOSED_CHAT = frozenset({"blocked", "not_opened", "deactivated", "forbidden", "room_gone"})
"""Codes that say of a private chat that we cannot write there."""

_NEVER_LEFT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_FORBIDDEN = (
    ("blocked by the user", "blocked"),
    ("was kicked", "kicked"),
    ("not a member", "not_a_member"),
    ("can't initiate conversation", "not_opened"),
    ("deactivated", "deactivated"),
)
_REFUSED = (
    ("can't parse entities", "bad_markup", True),
    ("entity", "bad_markup", True),
    ("message to be replied not found", "reply_gone", True),
    ("replied message not found", "reply_gone", True),
    ("message to reply not found", "reply_gone", True),
    ("chat not found", "room_gone", False),
    ("group chat was deactivated", "room_gone", False),
    ("message thread not found", "topic_gone", False),
    ("topic_closed", "topic_closed", False),
    ("topic_deleted", "topic_gone", False),
    ("message to edit not found", "unknown_message", False),
    ("message can't be edited", "unknown_message", False),
    ("no text in the message to edit", "unknown_message", False),
    ("message_id_invalid", "unknown_message", False),
    ("rights", "no_permission", False),
    ("write_forbidden", "no_permission", False),
    ("_forbidden", "no_permission", False),
    ("too long", "too_long", False),
    ("too_long", "too_long", False),
    ("text is empty", "empty", False),
    ("must be non-empty", "empty", False),
)


def result_of(error: TelegramError) -> SendResult:
    """Return what became of a message whose call raised `error`. Nothing of the error's words is passed on."""
    match error:
        case FloodWait():
            return RetryAfter(seconds_of(error))
        case Forbidden():
            said = error.message.lower()
            return SendRefused(next((code for words, code in _FORBIDDEN if words in said), "forbidden"))
        case BadRequest():
            said = error.message.lower()
            found = next(((code, form) for words, code, form in _REFUSED if words in said), ("bad_request", False))
            return SendRefused(*found)
        case ChatMigrated():
            return SendRefused("room_moved")
        case InvalidToken():
            return SendRefused("unauthorized")
        case _ if isinstance(error.__cause__, _NEVER_LEFT):
            return Unsent("telegram: not reached")
        case _:
            return Ambiguous("telegram: no answer")


def seconds_of(error: FloodWait) -> float:
    """Return how long to wait, which the library says in seconds or as a span of time."""
    wait: int | timedelta = error.retry_after
    return wait.total_seconds() if isinstance(wait, timedelta) else float(wait)


def is_unmodified(error: TelegramError) -> bool:
    """Return whether an edit was refused because the message reads so already."""
    return isinstance(error, BadRequest) and NOT_MODIFIED in error.message.lower()
