"""What a person types into a search: words, "exact phrases" and -words that may not occur. Pure."""

import re
import unicodedata
from dataclasses import dataclass

_PHRASE = re.compile(r"[\"“„«]([^\"”“»]{1,200})[\"”“»]")
_WITHOUT = re.compile(r"(?:\A|(?<=\s))-(\w{1,60})(?=\s|\Z)")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Wanted:
    """`text`: what is looked for. Each phrase must occur as it stands; none of the words in `without` may."""

    text: str
    phrases: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()


def read_wanted(typed: str) -> Wanted:
    """Return what `typed` asks for; what is no phrase and no -word is looked for as words."""
    phrases = tuple(filter(None, (plain(match[1]) for match in _PHRASE.finditer(typed))))
    outside = _PHRASE.sub(" ", typed)
    without = frozenset(word for match in _WITHOUT.finditer(outside) for word in plain(match[1]).split())
    spaced = _WITHOUT.sub(" ", typed) if without else typed
    return Wanted(" ".join(spaced.split()), phrases, without)


def admits(text: str, phrases: tuple[str, ...], without: frozenset[str]) -> bool:
    """Return whether a message's text holds all phrases, word by word, and none of the words."""
    if not phrases and not without:
        return True
    said = plain(text)
    return without.isdisjoint(said.split()) and all(f" {phrase} " in f" {said} " for phrase in phrases)


def plain(text: str) -> str:
    """Return the words of `text` with single blanks between them, without case."""
    return " ".join(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))
