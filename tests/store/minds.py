"""A mind in the database: a community with two rooms, people, messages, and a service that writes."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pydantic import TypeAdapter

from core.domain.ids import CommunityId, MessageId, PersonId, RoomId, RoomKey
from core.domain.mind.codes import Accepted, Rejected
from core.domain.mind.facts import Actor, Emitter, Packet, Similarity
from core.domain.operations.batch import Batch, BatchVerdict, Item, Mode, Refused
from core.domain.operations.catalog import read_operation
from core.domain.rooms import ArchiveSwitch, RoomKind
from core.state.loading import Loader
from core.state.service import StateService
from core.store import access, archive, people, places, state
from core.store.engine import Database, Tx
from core.store.mind_facts import AudienceGroups
from tests.domain.minds import thought
from tests.fakes import ManualClock

_JSON = TypeAdapter(dict[str, Any])


@dataclass
class Home:
    """Where a mind lives: everyone reads `room`, Ana alone reads `closed`."""

    database: Database
    clock: ManualClock
    community: CommunityId
    room: RoomId
    closed: RoomId
    ana: PersonId
    bo: PersonId
    mind_id: str
    service: StateService
    messages: list[MessageId] = field(default_factory=list)
    hidden: list[MessageId] = field(default_factory=list)
    keys: int = 0

    def packet(self, *, closed: bool = False) -> Packet:
        """What a model has read: all messages of one room."""
        seen = self.hidden if closed else self.messages
        return Packet(
            rooms=frozenset({self.closed if closed else self.room}),
            people=frozenset({self.ana, self.bo}),
            refs=frozenset(f"message:{id_}" for id_ in seen),
        )

    def batch(
        self,
        *operations: dict[str, Any] | Refused,
        by: Emitter = Emitter.CHAT,
        mode: Mode = Mode.EACH,
        closed: bool = False,
        key: str | None = None,
        expect: dict[str, int] | None = None,
        similarity: Similarity | None = None,
    ) -> Batch:
        """A batch of operations as they stand on the wire."""
        self.keys += 1
        name = key or f"test{self.keys}"
        items = tuple(
            each
            if isinstance(each, Refused)
            else Item(read_operation(_JSON.dump_json(each)), f"{name}:{n}", expect or {})
            for n, each in enumerate(operations)
        )
        packet = self.packet(closed=closed) if by.model else None
        return Batch(
            mind_id=self.mind_id, actor=Actor(by, "test"), items=items, mode=mode, packet=packet,
            similarity=similarity or Similarity(),
        )  # fmt: skip

    async def apply(self, *operations: dict[str, Any] | Refused, **more: Any) -> BatchVerdict:
        """Apply a batch in a transaction of its own."""
        batch = self.batch(*operations, **more)
        async with self.database.transaction() as tx:
            return await self.service.apply(tx, batch)

    async def accept(self, *operations: dict[str, Any], **more: Any) -> list[int]:
        """Apply operations that must be accepted; return their rows."""
        verdict = await self.apply(*operations, **more)
        refused = [item.verdict for item in verdict.items if isinstance(item.verdict, Rejected)]
        assert refused == []
        return [item.seq for item in verdict.items]

    async def say(self, text: str, *, closed: bool = False, by: PersonId | None = None) -> MessageId:
        """Have something said in a room."""
        room = self.closed if closed else self.room
        known = self.hidden if closed else self.messages
        async with self.database.transaction() as tx:
            known.append(await _say(tx, self, room, f"{room}-{len(known)}", text, by or self.ana))
        return known[-1]

    async def mind(self) -> state.Mind:
        """The mind as it stands."""
        async with self.database.transaction() as tx:
            found = await state.find_mind(tx, self.mind_id)
        assert found is not None
        return found


async def make_home(database: Database, clock: ManualClock) -> Home:
    """A community with an open and a closed room, two people, and a few words in each."""
    async with database.transaction() as tx:
        community = await places.add_community(tx, "console", "console", "Here")
        rooms = [
            await places.add_room(
                tx, community, RoomKey("console", name), RoomKind.TERMINAL, name, archive=ArchiveSwitch.ON
            )
            for name in ("open", "closed")
        ]
        ana = (await people.ensure_person(tx, "console", "ana", community, "Ana")).id
        bo = (await people.ensure_person(tx, "console", "bo", community, "Bo")).id
        await access.save_access(tx, rooms[0], community, everyone=True)
        await access.save_access(tx, rooms[1], community, everyone=False, users=[ana])
        mind_id = (await places.load_place(tx, rooms[0])).community.mind_id
        home = Home(
            database, clock, community, rooms[0], rooms[1], ana, bo, mind_id,
            StateService(loader=Loader(groups=AudienceGroups())),
        )  # fmt: skip
        for n in range(6):
            home.messages.append(
                await _say(tx, home, home.room, f"o{n}", f"word {n} of the open room", (ana, bo)[n % 2])
            )
        for n in range(3):
            home.hidden.append(await _say(tx, home, home.closed, f"c{n}", f"secret {n} of the closed room", ana))
    return home


def note(home: Home, id_: str, *messages: int, **more: Any) -> dict[str, Any]:
    """The operation that records a note of the day about the room."""
    fields: dict[str, Any] = {
        "target": {"kind": "room", "id": str(home.room)},
        "anchor_refs": [{"ref": f"message:{home.messages[n]}", "kind": "message"} for n in messages or (0,)],
    }
    memory = {_camel(name): value for name, value in thought(**(fields | more)).items()}
    return {"operation": "record_short_term_memory", "memory": memory | {"memoryId": id_, "kind": "room_observation"}}


def accepted(verdict: BatchVerdict) -> list[str]:
    """The effects of what stands."""
    return [item.verdict.effect for item in verdict.items if isinstance(item.verdict, Accepted)]


def codes(verdict: BatchVerdict) -> list[str]:
    """The codes of what does not."""
    return [item.verdict.code.value for item in verdict.items if isinstance(item.verdict, Rejected)]


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


async def _say(tx: Tx, home: Home, room: RoomId, ref: str, text: str, by: PersonId) -> MessageId:
    message = archive.NewMessage(
        room_id=room, community_id=home.community, author_id=by, platform_ref=ref, kind="text", text=text,
        sent_at=home.clock.now() - timedelta(minutes=5),
    )  # fmt: skip
    added = await archive.add_message(tx, message)
    assert added is not None
    return added
