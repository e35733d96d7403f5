"""What sleep tends of an audience group, in heaps: all entries of one heap have the same readers.

An entry belongs to the group of which a room is among its sources while all readers of that room may read the others.
So a note from a closed room that also rests on an open one belongs to the closed room, in a heap apart from the notes
of that room alone: nothing in a packet makes what comes of it less readable than it was.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from core.domain.ids import RoomId
from core.domain.mind.bodies import Proposal, Thoughtful
from core.domain.mind.entries import Entry
from core.store import mind_lists, state
from core.store.engine import Tx
from core.store.mind_facts import AudienceGroups

TYPES = ("short_term", "thread", "pressure_item", "candidate", "value", "proposal")
"""Of these all is tended, of lasting memories what is in doubt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heap:
    """Entries with the same readers. `rooms`: all that they were made from; `values`: also those made from no room.

    `audience`: the groups that these rooms belong to. `review`: lasting memories that have lost some of their proof.
    """

    rooms: frozenset[RoomId]
    audience: frozenset[str]
    notes: tuple[Entry, ...] = ()
    threads: tuple[Entry, ...] = ()
    review: tuple[Entry, ...] = ()
    pressures: tuple[Entry, ...] = ()
    candidates: tuple[Entry, ...] = ()
    values: tuple[Entry, ...] = ()
    proposals: tuple[Entry, ...] = ()

    @property
    def doubted(self) -> tuple[Entry, ...]:
        """Everything but notes that has lost some of its proof."""
        return (*self.review, *(each for each in (*self.threads, *self.pressures) if _doubted(each)))

    @property
    def pressure(self) -> int:
        """How much there is to tend."""
        return len(self.notes) + len(self.review) + len(self.threads) + len(self.pressures) + len(self.candidates)

    def over(self, now: datetime) -> tuple[Entry, ...]:
        """Return the proposals that nobody can carry out any more."""
        return tuple(each for each in self.proposals if isinstance(each.body, Proposal) and each.body.expires_at <= now)


async def load_heaps(tx: Tx, mind_id: str, audience: AudienceGroups, group: str) -> list[Heap]:
    """Return what belongs to a group now, that of its rooms alone first; nothing if it is no group any more."""
    groups = await audience.load(tx, mind_id)
    made_of = {sources for _, sources, _ in await state.count_live(tx, mind_id, (*TYPES, "durable"))}
    named: dict[frozenset[str], frozenset[RoomId]] = {}
    for sources, owner in (await owners(tx, mind_id, audience, made_of, only=group)).items():
        if owner == group:
            name = audience_of(sources, groups)
            named[name] = named.get(name, frozenset()) | sources
    heaps = []
    for name in sorted(named, key=lambda each: (len(each), sorted(each))):
        found = await mind_lists.list_own(tx, mind_id, TYPES, named[name])
        found |= await mind_lists.list_own(tx, mind_id, ("durable",), named[name], doubted=True)
        own_of = {type_: [e for e in every if audience_of(e.sources, groups) == name] for type_, every in found.items()}
        heaps.append(_heap(named[name], name, own_of, found["value"]))
    return heaps


async def owners(
    tx: Tx, mind_id: str, audience: AudienceGroups, made_of: Iterable[frozenset[RoomId]], only: str | None = None
) -> dict[frozenset[RoomId], str]:
    """Return the group to which what was made of each set of rooms belongs; absent: to none.

    `only`: the group that is asked about; others may be absent.
    """
    groups = await audience.load(tx, mind_id)
    found: dict[frozenset[RoomId], str] = {}
    readable: dict[str, frozenset[RoomId]] = {}
    for sources in made_of:
        names = sorted({groups[room] for room in sources if room in groups})
        if len(names) == 1 and all(room in groups for room in sources):
            found[sources] = names[0]
            continue
        for name in names if only is None else {only}.intersection(names):
            if name not in readable:
                room = min(room for room, each in groups.items() if each == name)
                readable[name] = await audience.list_readable(tx, mind_id, [room])
            if sources <= readable[name]:
                found[sources] = name
    return found


def audience_of(sources: Iterable[RoomId], groups: Mapping[RoomId, str]) -> frozenset[str]:
    """Return the groups that an entry was made in, as caps count it."""
    return frozenset(groups.get(room, f"room:{room}") for room in sources)


def _heap(
    rooms: frozenset[RoomId], audience: frozenset[str], own: Mapping[str, list[Entry]], values: Iterable[Entry]
) -> Heap:
    return Heap(
        rooms=rooms,
        audience=audience,
        notes=tuple(own["short_term"]),
        threads=tuple(own["thread"]),
        review=tuple(own["durable"]),
        pressures=tuple(own["pressure_item"]),
        candidates=tuple(own["candidate"]),
        values=(*own["value"], *(each for each in values if not each.sources)),
        proposals=tuple(own["proposal"]),
    )


def _doubted(entry: Entry) -> bool:
    return isinstance(entry.body, Thoughtful) and entry.body.needs_review
