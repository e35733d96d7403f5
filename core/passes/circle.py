"""The rooms that one run of thinking is about: those of its audience group that all readers of the group may read."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from core.domain.ids import RoomId
from core.domain.passes import Run
from core.domain.rooms import Room, RoomKind
from core.store import places
from core.store.engine import Tx
from core.store.mind_facts import AudienceGroups


@dataclass(frozen=True, slots=True)
class Circle:
    """The rooms of a group; talks with one person belong to none. `readable`: all that its readers may read now.

    What was made of other rooms as well is the group's own as long as all its readers may read them.
    """

    rooms: frozenset[RoomId]
    readable: frozenset[RoomId]
    names: Mapping[RoomId, str] = field(default_factory=dict)

    def of(self, rooms: Iterable[Room]) -> list[RoomId]:
        """Return those of these rooms that belong to it."""
        return sorted(room.id for room in rooms if room.id in self.rooms)


async def load_circle(tx: Tx, groups: AudienceGroups, run: Run, every: Sequence[Room] | None = None) -> Circle | None:
    """Return the rooms of a run's group as things stand now; None if nobody knows who reads them.

    `every`: all rooms of the group, where this transaction has read them.
    """
    if every is None:
        named = await groups.load(tx, run.mind_id)
        every = await places.load_rooms(tx, (id_ for id_, name in named.items() if name == run.group))
    names = {room.id: room.name for room in every if room.kind is not RoomKind.DM}
    readable = await groups.list_readable(tx, run.mind_id, names)
    rooms = readable & names.keys()
    return Circle(rooms, readable, names) if rooms else None
