"""Who is spoken to, by name or mention: pure, the same on every platform."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from core.domain.messages import Address

EDGE_WORDS = 5
"""A name counts among this many first and last words of a text; in the middle it is spoken about."""

EDGE_CHARS = 3000
"""How much of either end of a text is searched: what lies between is spoken to nobody, and hostile text stays cheap."""

# What opens a link or a quotation is read on to the next such mark at most, and code for so many characters:
# else a row of opening marks would be read to the end from each of them.
_NOT_SPOKEN = re.compile(
    r"""
      (?P<fence>^[ ]{0,3}(?P<ticks>`{3,}+|~{3,}+)[^\n]*+\n.*?(?:^[ ]{0,3}(?P=ticks)[^\n]*$|\Z))
    | (?P<code>(?<!`)(?P<tick>`++).{1,1000}?(?<!`)(?P=tick)(?!`))
    | (?P<quote>^[ ]{0,3}>[^\n]*$)
    | (?P<link>!?\[[^\[\]\n]*\]\([^)\[\n]*\))
    | (?P<bare><?(?:[a-z][a-z0-9+.-]{0,30}://|www\.)\S+)
    | (?P<said>"[^"\n]+"|“[^“”\n]+”|„[^„“”\n]+[“”]|«[^«»\n]+»)
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL | re.IGNORECASE,
)
_WORD = re.compile(r"@?\w+(?:[-'’./\\@]\w+)*")

_PHRASES: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "void": (
            "the void",
            "a void",
            "into void",
            "null and void",
            "void of",
            "void where prohibited",
            "void the warranty",
        )
    }
)


@dataclass(frozen=True, slots=True)
class Names:
    """The bot's names in lower case, and for each the phrases in which it is only a word."""

    names: Sequence[str] = ("void", "voidbot")
    phrases: Mapping[str, Sequence[str]] = field(default_factory=lambda: _PHRASES)


def spoken(text: str) -> str:
    """Return `text` without code, quotes and links, each replaced by a line break that no phrase spans."""
    return _NOT_SPOKEN.sub("\n", text)


def addressed_by_text(text: str, names: Names) -> frozenset[Address]:
    """Return how `text` speaks to the bot: `MENTION` for `@name` anywhere, `NAME` near its beginning or end.

    Source: names count in the first or last five words, because further inside a text they are mostly spoken about.
    """
    if len(text) > 2 * EDGE_CHARS:
        text = f"{text[:EDGE_CHARS]}\n{text[-EDGE_CHARS:]}"
    words = _WORD.findall(spoken(text).casefold())
    found: set[Address] = set()
    known = {name.casefold() for name in names.names}
    for at, word in enumerate(words):
        if word.startswith("@"):
            if word[1:] in known:
                found.add(Address.MENTION)
            continue
        at_an_edge = not EDGE_WORDS <= at < len(words) - EDGE_WORDS
        if word in known and at_an_edge and not _is_phrase(words, at, names.phrases.get(word, ())):
            found.add(Address.NAME)
    return frozenset(found)


def _is_phrase(words: Sequence[str], at: int, phrases: Sequence[str]) -> bool:
    """Return whether the name at `at` is part of a phrase that does not count."""
    for phrase in phrases:
        parts = phrase.casefold().split()
        for place, part in enumerate(parts):
            start = at - place
            if part == words[at] and start >= 0 and list(words[start : start + len(parts)]) == parts:
                return True
    return False
