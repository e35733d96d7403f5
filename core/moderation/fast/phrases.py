"""Phrases of a list, found in folded text without trying each: only those whose rarest word is there. Pure.

How one is written: words with spaces; `a|b` either; `a*` any ending; `a?` may be missing; `~` up to three words.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from core.moderation.fast.fold import Folded, fold_word

_GAP = r"(?:\S+ ){0,3}"
_HEAD = 4
_ELEMENT = re.compile(r"^[^\W\d_][^\W_]*\*?(?:\|[^\W\d_][^\W_]*\*?)*\??$")
MOST_WORDS = 12


@dataclass(frozen=True, slots=True)
class Phrase:
    """One phrase: as it was written, what it is a sign of, and how it is looked for."""

    written: str
    name: str
    pattern: re.Pattern[str]
    keys: tuple[str, ...]


def read_phrase(written: str, name: str) -> Phrase:
    """Return a phrase as it is looked for.

    Raises:
        ValueError: It is not written as phrases are.
    """
    elements = written.split()
    if not 1 <= len(elements) <= MOST_WORDS:
        raise ValueError(f"a phrase has 1 to {MOST_WORDS} words")
    pattern, anchors = " ", []
    for element in elements:
        if element == "~":
            pattern += _GAP
            continue
        if not _ELEMENT.match(element):
            raise ValueError("a phrase consists of words, of ~, and of | * ? as parts of words")
        optional = element.endswith("?")
        choices = element.rstrip("?").split("|")
        either = "|".join(re.escape(fold_word(each)) + (r"\S*" if each.endswith("*") else "") for each in choices)
        pattern += f"(?:(?:{either}) )?" if optional else f"(?:{either}) "
        # A short stem cannot be found by the head of the word that it begins.
        if not optional and not any(each.endswith("*") and len(fold_word(each)) < _HEAD for each in choices):
            anchors.append(tuple(fold_word(each)[:_HEAD] for each in choices))
    if not anchors:
        raise ValueError("one word of a phrase at least has to be there, with four letters before any *")
    keys = max(anchors, key=lambda each: (min(map(len, each)), -len(each)))
    return Phrase(written, name, re.compile(pattern), keys)


class Phrases:
    """Many phrases, by the head of the word that is rarest in each."""

    def __init__(self, phrases: Iterable[Phrase]) -> None:
        self._by_key: dict[str, list[Phrase]] = defaultdict(list)
        self.count = 0
        for phrase in phrases:
            self.count += 1
            for key in phrase.keys:
                self._by_key[key].append(phrase)
        self._keys = frozenset(self._by_key)

    def find(self, folded: Folded) -> Iterator[tuple[Phrase, tuple[int, int]]]:
        """Yield each phrase that is there, with its place in the folded words."""
        met: set[int] = set()
        for key in sorted(self._keys & folded.heads):
            for phrase in self._by_key[key]:
                if id(phrase) not in met and (match := phrase.pattern.search(folded.spaced)):
                    met.add(id(phrase))
                    yield phrase, match.span()


def read_phrases(families: Mapping[str, Iterable[str]]) -> Phrases:
    """Return the phrases of families by their names.

    Raises:
        ValueError: One is not written as phrases are; says which.
    """
    made = []
    for name, written in families.items():
        for each in written:
            try:
                made.append(read_phrase(each, name))
            except ValueError as exc:
                raise ValueError(f"{name}: {each[:60]!r}: {exc}") from exc
    return Phrases(made)
