"""What was said and done in the last minutes: small rings by person and by likeness of text, for the whole process.

Pure, and bounded: whoever was heard longest ago is forgotten first. A start without them misses only what began before.
"""

import re
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from core.domain.ids import CommunityId, PersonId, RoomId
from core.domain.moderation.signals import Watched
from core.moderation.fast.fold import fold

RING = 64
"""How many messages, mentions and reactions of one person are remembered; no threshold can be higher."""
MOST_PEOPLE = 20_000
MOST_TEXTS = 12_000
ALIKE_KEPT = 12
"""How many messages of one likeness are remembered."""
NEWCOMER_FOR = timedelta(hours=24)
JOINS, JOINS_WITHIN = 10, timedelta(seconds=60)
NAMES, NAMES_WITHIN = 5, timedelta(seconds=300)
_NOT_LETTERS = re.compile(r"[\W\d_]+")
_NAME_LETTERS = 3


@dataclass(frozen=True, slots=True)
class Said:
    """One message as it is remembered. `sketch`: of its text, to compare it with others."""

    at: datetime
    person_id: PersonId
    room_id: RoomId
    ref: str
    newcomer: bool
    sketch: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Called:
    """The accounts that one message called."""

    at: datetime
    ref: str
    accounts: frozenset[str]


@dataclass(frozen=True, slots=True)
class Reacted:
    """A reaction that was added or taken away."""

    at: datetime
    ref: str
    symbol: str


@dataclass(frozen=True, slots=True)
class RaidFound:
    """Many who came at once. `why`: `joins` or `names`; `accounts`: as the platform calls them, oldest first."""

    why: str
    accounts: tuple[str, ...]
    names: tuple[str, ...]
    since: datetime


@dataclass(slots=True)
class Recent:
    """What one person did lately in one community."""

    said: deque[Said] = field(default_factory=lambda: deque(maxlen=RING))
    called: deque[Called] = field(default_factory=lambda: deque(maxlen=RING))
    reacted: deque[Reacted] = field(default_factory=lambda: deque(maxlen=RING))
    newcomer_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Joined:
    at: datetime
    account: str
    name: str
    stem: str


class Windows:
    """The rings of all communities."""

    def __init__(self) -> None:
        self._people: OrderedDict[tuple[CommunityId, PersonId], Recent] = OrderedDict()
        self._alike: OrderedDict[tuple[CommunityId, int], deque[Said]] = OrderedDict()
        self._joins: dict[CommunityId, deque[_Joined]] = {}

    def recent(self, community_id: CommunityId, person_id: PersonId) -> Recent:
        """Return what a person did lately, to read and to add to."""
        key = (community_id, person_id)
        held = self._people.get(key)
        if held is None:
            held = self._people[key] = Recent()
            if len(self._people) > MOST_PEOPLE:
                self._people.popitem(last=False)
        self._people.move_to_end(key)
        return held

    def note(self, message: Watched, sketch: frozenset[int], keys: Sequence[int], newcomer: bool) -> None:
        """Remember a message; an edit only for its text and for whom it calls, as it is nothing new that was said.

        Args:
            message: What was said.
            sketch: Of its text, empty if it is too short to be compared.
            keys: The parts of the sketch by which it is found.
            newcomer: Its author has only just come.
        """
        recent = self.recent(message.community_id, message.person_id)
        if newcomer:
            recent.newcomer_until = message.at + NEWCOMER_FOR
        said = Said(message.at, message.person_id, message.room_id, message.ref, self.is_newcomer(message, newcomer))
        # Sketches are most of what is held, and the ring of a person has no use for them.
        if not message.edited:
            recent.said.append(said)
        if message.marks.mentions:
            recent.called.append(Called(message.at, message.ref, message.marks.mentions))
        sketched = replace(said, sketch=sketch)
        for key in keys:
            self._remember(message.community_id, key, sketched)

    def is_newcomer(self, message: Watched, newcomer: bool) -> bool:
        """Return whether its author has come within a day, as the platform says or as was noted before."""
        until = self.recent(message.community_id, message.person_id).newcomer_until
        return newcomer or (until is not None and message.at <= until)

    def _remember(self, community_id: CommunityId, key: int, said: Said) -> None:
        ring = self._alike.setdefault((community_id, key), deque(maxlen=ALIKE_KEPT))
        ring.append(said)
        self._alike.move_to_end((community_id, key))
        if len(self._alike) > MOST_TEXTS:
            self._alike.popitem(last=False)

    def like(self, community_id: CommunityId, keys: Sequence[int]) -> Iterator[Said]:
        """Yield each remembered message that shares a part with a text; a message may come more than once."""
        for key in keys:
            yield from self._alike.get((community_id, key), ())

    def reacted(self, community_id: CommunityId, person_id: PersonId, ref: str, symbol: str, at: datetime) -> None:
        """Remember a reaction that was added to or taken from a message."""
        self.recent(community_id, person_id).reacted.append(Reacted(at, ref, symbol))

    def joined(self, community_id: CommunityId, account_ref: str, name: str, at: datetime) -> RaidFound | None:
        """Remember that an account joined; return the raid that it is part of, each time anew as long as it lasts."""
        ring = self._joins.setdefault(community_id, deque(maxlen=RING))
        stem = _NOT_LETTERS.sub("", fold(name))
        if all(each.account != account_ref for each in ring):
            ring.append(_Joined(at, account_ref, name, stem))
        lately = [each for each in ring if each.at > at - JOINS_WITHIN]
        if len(lately) >= JOINS:
            return _raid("joins", lately)
        alike = [each for each in ring if each.at > at - NAMES_WITHIN and _near(each.stem, stem)]
        return _raid("names", alike) if len(alike) >= NAMES else None


def _raid(why: str, joined: Sequence[_Joined]) -> RaidFound:
    accounts, names = tuple(each.account for each in joined), tuple(each.name for each in joined)
    return RaidFound(why, accounts, names, min(each.at for each in joined))


def _near(one: str, other: str) -> bool:
    return len(one) >= _NAME_LETTERS and (one == other or (len(one) > _NAME_LETTERS and within_one(one, other)))


def within_one(one: str, other: str) -> bool:
    """Return whether two words differ in one letter at most, or in two neighbours that changed places."""
    if abs(len(one) - len(other)) > 1:
        return False
    start = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    one, other = one[start:], other[start:]
    swapped = len(one) > 1 and len(other) > 1 and one[:2] == other[1::-1] and one[2:] == other[2:]
    return swapped or one[1:] == other[1:] or one == other[1:] or one[1:] == other
