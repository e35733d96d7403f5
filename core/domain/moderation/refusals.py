"""Why an act was not done, as codes that all platforms share, each with its words for people."""

from collections.abc import Mapping
from types import MappingProxyType

NO_RIGHT, PROTECTED, NOT_THERE, UNKNOWN_MEMBER = "no_permission", "protected", "not_there", "unknown_member"
TOO_OLD, TERM_OVER, UNSUPPORTED, BASIC_GROUP = "too_old", "term_over", "unsupported", "basic_group"
ROOM_GONE, TWO_FACTOR, UNAUTHORIZED = "room_gone", "two_factor", "unauthorized"
UNREACHABLE = "unreachable"

_WORDS: Mapping[str, str] = MappingProxyType(
    {
        NO_RIGHT: "the bot has not the right to do this here",
        PROTECTED: "the platform protects this account from the bot",
        NOT_THERE: "they are no member any more",
        UNKNOWN_MEMBER: "the platform knows no such account",
        TOO_OLD: "the platform lets the bot delete this message no longer",
        TERM_OVER: "the term was over before it began",
        UNSUPPORTED: "this platform cannot do it",
        BASIC_GROUP: "only a supergroup can do it, and this is a basic group",
        ROOM_GONE: "the room is gone, or the bot is not in it",
        TWO_FACTOR: "the server wants its moderators to sign in with two factors, and the bot's owner does not",
        UNAUTHORIZED: "the platform refuses the bot's token",
        UNREACHABLE: "the platform did not answer",
        "staff": "they are one of the staff",
        "above_us": "they do not rank below the bot",
        "no_right": "the bot has not the right to do this here",
        "reversed": "it was taken back meanwhile",
        "redecided": "it was decided otherwise meanwhile",
        "edited_harmless": "what was said says something else now",
        "erased": "they were erased",
        "brake": "enough was done without a person this hour",
        "left": "they have left",
    }
)


def refusal_in_words(code: str) -> str:
    """Return what a refusal means, ours or a platform's, for staff to read; a code nobody knows is shown as it is."""
    return _WORDS.get(code, f"the platform refused it ({code})")
