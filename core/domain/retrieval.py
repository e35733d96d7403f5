"""How well a message fits a question, from the words they share and how rare those are. Pure."""

import math
import re
import unicodedata
from collections.abc import Collection, Mapping

FOUND_FROM = 0.4
"""Share of the question's weight that a message must hold to be quoted (0 to 1)."""
ECHO_OVERLAP = 0.8
ECHO_WORDS = 4
_WORD = re.compile(r"\w+")
_ADDRESS = re.compile(r"\A\s*(?:@[\w-]+[,:]?\s+)+|(?:\s+@[\w-]+)+[.?!]*\s*\Z")


def unaddressed(text: str) -> str:
    """Return `text` without the mentions before and after it: they say who is asked, not what about."""
    return _ADDRESS.sub("", text)


def rarity(document_count: int, holders: int) -> float:
    """Return the weight of a word that `holders` of `document_count` messages hold; never negative."""
    return math.log(1 + (max(document_count, holders) - holders + 0.5) / (holders + 0.5))


def coverage(terms: Collection[str], held: Collection[str], weights: Mapping[str, float]) -> float:
    """Return which share of the question's weight a message holds; 0 to 1, 0 for a question without words."""
    whole = sum(weights[term] for term in terms)
    return sum(weights[term] for term in held) / whole if whole else 0.0


def is_echo(question: str, text: str) -> bool:
    """Return whether `text` only says the question again."""
    asked, said = _words(unaddressed(question)), _words(unaddressed(text))
    if asked == said:
        return True
    shared = len(asked & said)
    return min(len(asked), len(said)) >= ECHO_WORDS and shared >= ECHO_OVERLAP * max(len(asked), len(said))


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))
