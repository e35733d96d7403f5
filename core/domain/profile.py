"""What may be known of a person: a closed list of facts, each with the messages that prove it. Pure.

No traits, no moods, no labels, no scores. What a person says of themselves replaces what they said before.
"""

import unicodedata
from dataclasses import dataclass
from enum import StrEnum

from core.domain.ids import MessageId, PersonId

VALUE_CHARS = 200
PRONOUN_CHARS = 40


class Predicate(StrEnum):
    """What a fact says. Stored values never change."""

    GOES_BY = "goes_by"
    PRONOUNS = "pronouns"
    WORKS_ON = "works_on"
    USES = "uses"
    LIKES = "likes"
    DISLIKES = "dislikes"
    LOCATED_IN = "located_in"
    TIMEZONE = "timezone"
    ASKED_TO_REMEMBER = "asked_to_remember"
    ROLE_IN_PROJECT = "role_in_project"


ONE_AT_A_TIME = frozenset({Predicate.GOES_BY, Predicate.PRONOUNS, Predicate.LOCATED_IN, Predicate.TIMEZONE})
"""Of these a person has one at a time; of the others, many."""


class SaidBy(StrEnum):
    """Whose word a fact is."""

    SELF = "self"
    REPORTED = "reported"
    CORRECTED = "corrected"
    """The person's own, by command: its proof is the command."""


class FactState(StrEnum):
    """What became of a fact. A refused one keeps its anchors, so that nothing is made from them again."""

    CURRENT = "current"
    REPLACED = "replaced"
    REFUSED = "refused"


class FactRefusal(StrEnum):
    """Why a fact was not taken."""

    NO_ANCHOR = "no_anchor"
    NOT_THEIR_WORDS = "not_their_words"
    BOT = "bot"
    NOT_WANTED = "not_wanted"
    CORRECTED_BEFORE = "corrected_before"
    BAD_VALUE = "bad_value"


@dataclass(frozen=True, slots=True)
class Anchor:
    """The words that prove a fact: of one revision of a message, from one character to another."""

    message_id: MessageId
    revision: int
    span_from: int
    span_to: int
    account_id: PersonId


def clean_value(predicate: Predicate, value: str) -> str | None:
    """Return a value as one line without control characters; None if nothing or too much is left."""
    kept = "".join(each if unicodedata.category(each)[0] != "C" else " " for each in value)
    line = " ".join(kept.split())
    most = PRONOUN_CHARS if predicate is Predicate.PRONOUNS else VALUE_CHARS
    return line if 0 < len(line) <= most else None
