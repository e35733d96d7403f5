"""What is asked of the archive, and how well a message fits: shared words, likeness, who speaks, when. Pure."""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from core.domain.ids import CommunityId, MessageId, PersonId, RoomId
from core.domain.vectors import EmbeddingModel, VectorHit

FOUND_FROM = 0.3
"""Share of the question's weight that a message's own words must hold to be quoted (0 to 1).

A word that its neighbours' units hold too weighs less than one that nobody ever said, such as the bot's own name.
"""
LIKE_FROM = 0.5
"""Likeness from which a message is found that shares no word with the question (-1 to 1)."""
HALF_LIFE = timedelta(days=30)
RECENCY_FLOOR = 0.5
MOST_HITS = 50
SAID = frozenset({"text", "reply", "forward", "sticker", "media", "poll"})
"""Kinds of messages that were not said to the bot: a question is no answer to the next one."""
QUERY_CHARS = 2_000
"""A longer question is reduced to its rarest words."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """How the parts of a score are weighed; measured by `benchmarks/retrieval.py`, never set for one community.

    `dense`: how much likeness counts beside shared words, 0 to 1; `dense_exact`: the same where the question holds
    an identifier or a quoted phrase. `beside` and `beyond`: what is added of the likeness of the message next to it
    and of the one after that, on whichever side it is greater.
    `named`: what it is worth that the one person speaks whom the question names. `bot`: what is left of a bot's
    words, unless the question is about them.
    """

    dense: float = 0.55
    dense_exact: float = 0.2
    beside: float = 0.4
    beyond: float = 0.2
    named: float = 1.15
    bot: float = 0.5


MIX = Mix()


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What is looked for, for whom, and where.

    `readable`: the rooms whose words may be used, for the venue and the asker of this very request. `rooms`,
    `authors`, `since` (inside) and `until` (outside) narrow it and never widen it. `but_not`: the room and
    platform id of the question itself. `people_only`: no bot's words. `floor`: the least share of the
    question's weight, or the likeness, that a hit must have. `latest`: newer counts more. `spread`: hits that
    crowd into one spot or come from one author make room for others. `phrases` must stand in a hit as they are,
    `without` may not.
    """

    text: str
    community_id: CommunityId
    readable: frozenset[RoomId]
    now: datetime
    k: int
    rooms: frozenset[RoomId] | None = None
    authors: tuple[PersonId, ...] | None = None
    since: datetime | None = None
    until: datetime | None = None
    kinds: frozenset[str] | None = None
    but_not: tuple[RoomId, str] | None = None
    people_only: bool = False
    floor: float = FOUND_FROM
    latest: bool = False
    spread: bool = False
    phrases: tuple[str, ...] = ()
    without: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not 1 <= self.k <= MOST_HITS:
            raise ValueError(f"search: between 1 and {MOST_HITS} hits can be asked for, not {self.k}")

    @property
    def searched(self) -> frozenset[RoomId]:
        """The rooms that are looked through."""
        return self.readable if self.rooms is None else self.readable & self.rooms


@dataclass(frozen=True, slots=True)
class Near:
    """What the vector store found for a question; empty where there is none, or it did not answer in time."""

    model: EmbeddingModel | None = None
    hits: tuple[VectorHit, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Scores:
    """Why a message was found: shared words, likeness, and the factors of speaker and time. For receipts."""

    lexical: float
    dense: float
    share: float
    speaker: float = 1.0
    recency: float = 1.0
    model: str = ""


def recency(age: timedelta, latest: bool) -> float:
    """Return what age leaves of a score: all of it, unless the newest is asked for."""
    if not latest:
        return 1.0
    lives: float = max(age, timedelta()) / HALF_LIFE
    return max(RECENCY_FLOOR, math.exp2(-lives))


def named_in(text: str, names: Mapping[PersonId, str]) -> PersonId | None:
    """Return the one person whom a text names; None if it is nobody, or if it may be several.

    A whole name counts whatever its case; a first name alone only as it is written, for many are words as well.
    """
    lower = text.casefold()
    found: set[PersonId] = set()
    for person, name in names.items():
        whole, first = name.strip(), name.split(" ")[0]
        if len(whole) < 2:
            continue
        if _stands_in(whole.casefold(), lower) or (first[:1].isupper() and len(first) > 1 and _stands_in(first, text)):
            found.add(person)
    return found.pop() if len(found) == 1 else None


def _stands_in(name: str, text: str) -> bool:
    """Return whether a name stands in a text as a word of its own."""
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        if not (at and text[at - 1].isalnum()) and not (end < len(text) and text[end].isalnum()):
            return True
        at = text.find(name, at + 1)
    return False


def speaker_factor(author: PersonId | None, by_bot: bool, named: PersonId | None, about_bot: bool, mix: Mix) -> float:
    """Return what it counts who speaks. `named`: the one person whom the question names, if it is one."""
    factor = mix.named if named is not None and author == named else 1.0
    return factor * (mix.bot if by_bot and not about_bot else 1.0)


SPREAD_APART = 40
"""How many messages of a room lie between two spots."""
SPREAD_TEN = 10
SPREAD_FREE = 7
"""How many of each ten hits come by score alone; the others come from a spot where nothing was found yet."""
SAME_FROM = 0.9
"""From which share of equal words two texts are the same."""


def likeness_of(at: tuple[RoomId, int], dense: Mapping[tuple[RoomId, int], float], least: float, mix: Mix) -> float:
    """Return the likeness of a message together with its neighbours': talk is about something for a while.

    Args:
        at: The message's room and place in it.
        dense: The likeness of each listed message by room and place.
        least: What one that is not listed has at most.
        mix: The weights.
    """
    room, place = at

    def of(step: int) -> float:
        return max(dense.get((room, place - step), least), dense.get((room, place + step), least))

    return dense.get(at, least) + mix.beside * of(1) + mix.beyond * of(2)


def spread(places: Sequence[tuple[RoomId, int, PersonId | None]], k: int, *, by_author: bool) -> list[int]:
    """Return the indices of hits in an order that leaves room for other spots and, with `by_author`, other people.

    Of the first ten, seven come by score; the last three each stand at least forty messages from all before them. At
    most half of `k` come from one author. What has to wait comes after, in its order.

    Args:
        places: Room, place in the room's order, and author of each hit, best first.
        k: How many are wanted.
        by_author: Whether authors are held back too.
    """
    taken: list[int] = []
    waiting: list[int] = []
    authors: Counter[PersonId | None] = Counter()
    for index, (room, position, author) in enumerate(places):
        crowded = SPREAD_FREE <= len(taken) < SPREAD_TEN and any(
            places[other][0] == room and abs(places[other][1] - position) < SPREAD_APART for other in taken
        )
        if crowded or (by_author and authors[author] >= max(1, k // 2)):
            waiting.append(index)
        else:
            taken.append(index)
            authors[author] += 1
    return taken + waiting


def collapse(texts: Sequence[tuple[MessageId, datetime, str]]) -> dict[MessageId, int]:
    """Return which of near-equal texts stay, the earliest of each kind, with how many it stands for.

    Args:
        texts: Id, time and text of each hit, best first.
    """
    kept: list[tuple[MessageId, datetime, frozenset[str], str]] = []
    counts: dict[MessageId, int] = {}
    for message_id, at, text in texts:
        words, plain = _words(text), " ".join(text.casefold().split())
        for n, (other, other_at, other_words, other_plain) in enumerate(kept):
            if plain == other_plain or _overlap(words, other_words) >= SAME_FROM:
                counts[other] += 1
                if at < other_at:
                    counts[message_id] = counts.pop(other)
                    kept[n] = (message_id, at, words, plain)
                break
        else:
            kept.append((message_id, at, words, plain))
            counts[message_id] = 1
    return counts


def _overlap(some: frozenset[str], other: frozenset[str]) -> float:
    if min(len(some), len(other)) < ECHO_WORDS:
        return 0.0
    return len(some & other) / max(len(some), len(other))


def is_echo(question: str, text: str) -> bool:
    """Return whether `text` only says the question again."""
    asked, said = _words(unaddressed(question)), _words(unaddressed(text))
    if asked == said:
        return True
    shared = len(asked & said)
    return min(len(asked), len(said)) >= ECHO_WORDS and shared >= ECHO_OVERLAP * max(len(asked), len(said))


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(unicodedata.normalize("NFKC", text).casefold()))
