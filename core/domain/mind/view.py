"""What operations see of the mind while they are applied: entries in memory, with a way back for each operation."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from core.domain.ids import RoomId
from core.domain.mind.bodies import KIND_OF, Mood, Pressure, Profile, Sleep, WholeBody
from core.domain.mind.entries import Entry, Key
from core.domain.mind.values import EntryId

BodyT = TypeVar("BodyT", bound=WholeBody)


class View:
    """The entries that a batch reads, or all of a mind.

    `counts`: for types whose entries are not all here, how many live ones each set of source rooms has; of the others
    what is here is counted. Nothing outside changes; whoever made the view writes what `changes` gives.
    """

    def __init__(
        self, entries: Iterable[Entry] = (), counts: Sequence[tuple[str, frozenset[RoomId], int]] = ()
    ) -> None:
        self._entries: dict[Key, Entry] = {}
        self._live: dict[str, dict[EntryId, Entry]] = defaultdict(dict)
        self._counts: Counter[tuple[str, frozenset[RoomId]]] = Counter()
        self._undo: list[tuple[Key, Entry | None]] = []
        for entry in entries:
            self._set(entry)
        given = {name for name, _, _ in counts}
        for counted in [each for each in self._counts if each[0] in given]:
            del self._counts[counted]
        self._counts.update({(name, sources): count for name, sources, count in counts})

    def find(self, type_: str, id_: str) -> Entry | None:
        """Return the entry of this type and id, a tombstone too; None if there is none."""
        entry = self._entries.get(Key(KIND_OF[type_], EntryId(id_)))
        return entry if entry is not None and entry.type == type_ else None

    def holder(self, type_: str, id_: str) -> Entry | None:
        """Return the entry that holds the id within the type's kind, whatever its own type is."""
        return self._entries.get(Key(KIND_OF[type_], EntryId(id_)))

    def at(self, key: Key) -> Entry | None:
        """Return the entry with this key; None if there is none."""
        return self._entries.get(key)

    def body(self, entry: Entry | None, shape: type[BodyT]) -> BodyT | None:
        """Return the body of a live entry; None if there is none, or of another shape."""
        if entry is None or not entry.live or not isinstance(entry.body, shape):
            return None
        return entry.body

    def live(self, type_: str) -> Iterator[Entry]:
        """Yield the live entries of a type that are here, by id."""
        yield from sorted(self._live[type_].values(), key=lambda entry: entry.id)

    def all(self) -> Iterator[Entry]:
        """Yield every entry that is here, by key."""
        yield from (self._entries[key] for key in sorted(self._entries))

    def count(self, type_: str) -> Iterator[tuple[frozenset[RoomId], int]]:
        """Yield how many live entries of a type each set of source rooms has."""
        yield from ((sources, count) for (name, sources), count in self._counts.items() if name == type_ and count)

    def put(self, entry: Entry) -> None:
        """Let `entry` stand; the operation that does so can be taken back by `back`."""
        self._undo.append((entry.key, self._entries.get(entry.key)))
        self._set(entry)

    def mark(self) -> int:
        """Return the point to which `back` can return."""
        return len(self._undo)

    def back(self, mark: int) -> None:
        """Take back everything since `mark`."""
        while len(self._undo) > mark:
            key, before = self._undo.pop()
            if before is None:
                self._drop(self._entries.pop(key))
            else:
                self._set(before)

    def changes(self, mark: int) -> list[tuple[Entry | None, Entry]]:
        """Return each entry that was changed since `mark` as it was and as it is, in order of first change."""
        before: dict[Key, Entry | None] = {}
        for key, was in self._undo[mark:]:
            before.setdefault(key, was)
        return [(was, self._entries[key]) for key, was in before.items() if was != self._entries[key]]

    def settle(self) -> None:
        """Forget how to go back."""
        self._undo.clear()

    def _set(self, entry: Entry) -> None:
        old = self._entries.get(entry.key)
        if old is not None:
            self._drop(old)
        self._entries[entry.key] = entry
        if entry.live:
            self._live[entry.type][entry.id] = entry
            self._counts[entry.type, entry.sources] += 1

    def _drop(self, entry: Entry) -> None:
        if entry.live:
            self._live[entry.type].pop(entry.id, None)
            self._counts[entry.type, entry.sources] -= 1


def sleep_of(view: View) -> Sleep:
    """Return how the mind sleeps; the default if nothing was ever written."""
    return view.body(view.find("sleep", "sleep"), Sleep) or Sleep()


def pressure_of(view: View) -> Pressure:
    """Return how much the mind is drawn to speak; the default if nothing was ever written."""
    return view.body(view.find("pressure", "pressure"), Pressure) or Pressure()


def mood_of(view: View) -> Mood:
    """Return the mood; the default if nothing was ever written."""
    return view.body(view.find("mood", "mood"), Mood) or Mood()


def profile_of(view: View) -> Profile:
    """Return how the mind presents itself; the default if nothing was ever written."""
    return view.body(view.find("profile", "profile"), Profile) or Profile()
