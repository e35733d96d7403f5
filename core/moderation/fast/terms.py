"""Words of a list, or of the rule itself, however they are disguised.

Parameters: `words` (as lists write them), `lists` (languages of the shipped lists; all where neither is given), `hint`.
"""

import re
from functools import lru_cache

from core.domain.moderation.rules import Detector
from core.domain.moderation.signals import Finding
from core.moderation.fast.fold import Folded, fold
from core.moderation.fast.look import Look
from core.moderation.fast.phrases import Phrases, read_phrases
from core.moderation.list_forms import WordList, make_words

_STEM = 3
_LITERAL = re.compile(r"[^\W\d_]")


class Terms:
    """Word lists as they are looked up together."""

    def __init__(self, lists: tuple[WordList, ...]) -> None:
        self._words = frozenset[str]().union(*(each.words for each in lists))
        self._stems: dict[str, tuple[str, ...]] = {}
        for each in lists:
            for head, stems in each.stems.items():
                self._stems[head] = self._stems.get(head, ()) + stems
        self._heads = frozenset(self._stems)
        plain = [phrase for each in lists for phrase in each.phrases if all(map(_LITERAL.match, phrase.split()))]
        self._phrases: Phrases = read_phrases({"phrase": plain})
        self._exceptions = tuple(exception for each in lists for exception in each.exceptions)

    def find(self, folded: Folded) -> tuple[int, int] | None:
        """Return where the first word of the lists stands in the text as it was written; None if none does."""
        words = folded.all_words
        hits = [folded.span_of_reading(word) for word in self._words & words]
        if not self._heads.isdisjoint({word[:_STEM] for word in words}):
            hits += [
                folded.span_of_reading(word)
                for word in words
                if word.startswith(self._stems.get(word[:_STEM], ("\0",)))
            ]
        hits += [folded.span_of_words(*place) for _, place in self._phrases.find(folded)]
        return min((hit for hit in hits if not self._is_excepted(folded, hit)), default=None)

    def _is_excepted(self, folded: Folded, span: tuple[int, int]) -> bool:
        """Return whether a hit is part of an exception, or was a number all along."""
        start, end = span
        if not any(map(str.isalpha, folded.original[start:end])) and folded.original[start:end].isascii():
            return True
        for exception in self._exceptions:
            around = fold(folded.original[max(0, start - len(exception)) : end + len(exception)])
            if exception in around:
                return True
        return False


@lru_cache(maxsize=256)
def _ready(own: tuple[str, ...], shipped: tuple[WordList, ...]) -> Terms:
    """Return lists made ready to be looked up; a community's rules are asked for again with each message."""
    return Terms((*shipped, make_words(list(own))))


def find(look: Look) -> Finding | None:
    """Return the first word that is on a list of the rule."""
    own, languages = look.words("words"), look.words("lists")
    if not own and not languages:
        languages = tuple(look.lists.terms)
    shipped = tuple(look.lists.terms[language] for language in languages if language in look.lists.terms)
    span = _ready(own, shipped).find(look.reading.folded)
    if span is None:
        return None
    return look.finding(Detector.TERMS, 1, 1, span=span, what="listed word", hint=look.flag("hint", True))
