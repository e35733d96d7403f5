"""Which messages of a talk tell most of it: shared rare words, replies, answered questions; spread out. Pure."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from core.domain.ids import PersonId
from core.domain.units import fold

SPREAD_FIRST = 60
"""How many of the most telling are spread over time and people; the rest follows by its score alone."""
_READ_CHARS = 1_000
_WORD = re.compile(r"\w{3,40}")
_QUESTION = re.compile(r"[?？]\s*\Z|[?？]\s")
_REPLIES = 0.35
_ANSWER = 0.3
_CROWDED = 0.6
"""What one more message of the same stretch, or of the same person, has left of its score."""
_STRETCHES = 12
_SHORT_WORDS = 4


@dataclass(frozen=True, slots=True)
class Said:
    """A message as it is weighed. `reply_to` is the `ref` of the message that it answers."""

    ref: str
    author: PersonId
    text: str
    reply_to: str | None = None


def by_weight(talk: Sequence[Said]) -> list[int]:
    """Return the indices of a talk's messages, the most telling first; the same talk gives the same order.

    A message tells much if its words are those that others take up, but not everybody uses; if it was replied to;
    and if it asks what is answered, or answers what was asked. Of the first ones, those that say what stands there
    already, or crowd one stretch or one person, come later.

    Args:
        talk: In the order of time.
    """
    words = [frozenset(_WORD.findall(fold(message.text[:_READ_CHARS]))) for message in talk]
    scores = _scores(talk, words)
    left = dict(enumerate(scores))
    order: list[int] = []
    stretches: Counter[int] = Counter()
    authors: Counter[PersonId] = Counter()
    alike = [0.0] * len(talk)
    while left and len(order) < SPREAD_FIRST:
        best = max(
            left,
            key=lambda n: (
                left[n] * _CROWDED ** (stretches[_stretch(n, talk)] + authors[talk[n].author]) * (1 - alike[n]),
                -n,
            ),
        )
        del left[best]
        order.append(best)
        stretches[_stretch(best, talk)] += 1
        authors[talk[best].author] += 1
        for n in left:
            alike[n] = max(alike[n], _overlap(words[n], words[best]))
    return order + sorted(left, key=lambda n: (-left[n], n))


def choose(talk: Sequence[Said], count: int) -> list[int]:
    """Return the indices of the `count` most telling messages in the order of time."""
    return sorted(by_weight(talk)[:count])


def _scores(talk: Sequence[Said], words: Sequence[frozenset[str]]) -> list[float]:
    holders = Counter(word for each in set(words) for word in each)  # a greeting said thrice is taken up by nobody
    weights = {word: (1 - 1 / held) * math.log(1 + len(talk) / held) for word, held in holders.items()}
    places = {message.ref: n for n, message in enumerate(talk)}
    answered = [places.get(message.reply_to) if message.reply_to else None for message in talk]
    replies = Counter(n for n in answered if n is not None)
    scores = []
    for n, message in enumerate(talk):
        score = 0.05 + math.fsum(weights[word] for word in words[n]) / math.sqrt(len(words[n]) + 8)
        score *= min(1.0, (1 + len(words[n])) / _SHORT_WORDS)
        asked = answered[n]
        bonus = 1 + _REPLIES * math.log1p(replies[n])
        if replies[n] and _QUESTION.search(message.text):
            bonus += _ANSWER
        if asked is not None and _QUESTION.search(talk[asked].text):
            bonus += _ANSWER
        scores.append(score * bonus)
    return scores


def _stretch(n: int, talk: Sequence[Said]) -> int:
    return n * _STRETCHES // len(talk)


def _overlap(some: frozenset[str], other: frozenset[str]) -> float:
    return len(some & other) / min(len(some), len(other)) if some and other else 0.0
