"""Figures of the mind's writer: operations applied, undone, voided, and folded anew."""

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from core.domain.ids import CommunityId, MessageId, RoomId
from core.domain.mind.codes import Accepted
from core.domain.mind.facts import Actor, Emitter, Similarity
from core.domain.operations.batch import Batch, BatchVerdict, Item
from core.domain.operations.catalog import read_operation
from core.state.replay import verify
from core.state.service import StateService, open_minds
from core.store import places, state
from core.store.engine import Database

WRITERS = 10
CITED = 50
CASCADE = 20
NOTES = 48
_JSON = TypeAdapter(dict[str, Any])


@dataclass(frozen=True, slots=True)
class Hand:
    """Who writes into one mind of a database."""

    database: Database
    mind_id: str
    service: StateService

    async def apply(
        self, operation: Mapping[str, Any], key: str, by: Emitter = Emitter.OPERATOR, likeness: Similarity | None = None
    ) -> BatchVerdict:
        """Apply one operation in a transaction of its own, commit included."""
        seen = dict.fromkeys(operation.get("sourceMemoryIds", ()), 1)
        item = Item(read_operation(_JSON.dump_json(dict(operation))), key, seen)
        batch = Batch(mind_id=self.mind_id, actor=Actor(by), items=(item,), similarity=likeness or Similarity())
        async with self.database.transaction() as tx:
            return await self.service.apply(tx, batch)

    async def must(self, operation: Mapping[str, Any], key: str, **more: Any) -> BatchVerdict:
        """Apply one operation that has to stand."""
        verdict = await self.apply(operation, key, **more)
        if not isinstance(verdict.items[0].verdict, Accepted):
            raise AssertionError(f"{key}: {verdict.items[0].verdict}")
        return verdict


def note(id_: str, room: RoomId, message: MessageId, text: str, *topics: str) -> dict[str, Any]:
    """Return the operation that notes something down."""
    return {
        "operation": "record_short_term_memory",
        "memory": {
            "memoryId": id_,
            "kind": "room_observation",
            "target": {"kind": "room", "id": str(room)},
            "summary": f"{text} {id_}",
            "claim": f"It is about {id_}.",
            "tension": "Nobody has decided.",
            "actionImplication": "Ask.",
            "topics": list(topics),
            "anchorRefs": [{"ref": f"message:{message}", "kind": "message"}],
        },
    }


def prune(id_: str) -> dict[str, Any]:
    """Return the operation that lets it go."""
    reason = "the poster has been hung up by now"
    return {"operation": "prune_short_term_memories", "sourceMemoryIds": [id_], "reason": reason}


async def other_mind(database: Database, name: str) -> Hand:
    """Return a hand on a new mind, of a community of its own."""
    async with database.transaction() as tx:
        community: CommunityId = await places.add_community(tx, "bench", name, name)
        mind_id: str = await tx.fetchval("select mind_id from voidbot.communities where id = $1", community)
    return Hand(database, mind_id, open_minds())


async def applied(
    hand: Hand, rooms: Sequence[RoomId], said: Mapping[RoomId, Sequence[MessageId]], times: int
) -> list[float]:
    """Return the seconds of one operation each: a note, and its end."""
    took: list[float] = []
    for n in range(max(1, times // 2)):
        room = rooms[n % len(rooms)]
        for operation in (note(f"apply:{n}", room, said[room][0], "One more thing"), prune(f"apply:{n}")):
            began = time.perf_counter()
            await hand.must(operation, f"apply:{n}:{operation['operation']}")
            took.append(time.perf_counter() - began)
    return took


async def clustered(hand: Hand, room: RoomId, message: MessageId, times: int) -> list[float]:
    """Return the seconds of notes beside 48 live ones, how alike they are given."""
    there = [f"there:{n}" for n in range(NOTES - 1)]
    for n, id_ in enumerate(there):
        await hand.must(note(id_, room, message, "word" * (n + 1), f"t{n}"), id_)
    took: list[float] = []
    for n in range(times):
        likeness = Similarity("bench", {(f"new:{n}", id_): 0.1 for id_ in there})
        began = time.perf_counter()
        await hand.must(note(f"new:{n}", room, message, "another matter"), f"new:{n}", likeness=likeness)
        took.append(time.perf_counter() - began)
        await hand.must(prune(f"new:{n}"), f"prune:{n}")
    return took


async def contended(hand: Hand, room: RoomId, message: MessageId, times: int) -> list[float]:
    """Return the seconds of each operation of ten writers on one mind; nothing may be lost."""
    took: list[float] = []

    async def write(writer: int) -> None:
        for n in range(times):
            value = {"valueId": f"w{writer}", "label": f"value {n}", "priority": 0.5}
            began = time.perf_counter()
            await hand.must({"operation": "configure_profile", "values": [value]}, f"w{writer}:{n}", by=Emitter.PARENT)
            took.append(time.perf_counter() - began)

    before = await _seq(hand)
    async with asyncio.TaskGroup() as group:
        for writer in range(WRITERS):
            group.create_task(write(writer))
    if await _seq(hand) != before + WRITERS * times:
        raise AssertionError("an operation was lost")
    return took


async def undone(hand: Hand, room: RoomId, message: MessageId, times: int, depth: int) -> list[float]:
    """Return the seconds of undoing an operation on which `depth` later ones rest."""
    took: list[float] = []
    for n in range(times):
        thread = {"threadId": f"undo{depth}:{n}", "topic": "what waits"}
        thought = note("x", room, message, f"undo {n}")["memory"]
        first = thread | {name: thought[name] for name in thought if name not in ("memoryId", "kind")}
        steps = [first] + [thread | {"maturation": 0.01 * (k + 1)} for k in range(depth)]
        rows = []
        for k, step in enumerate(steps):
            done = await hand.must({"operation": "merge_incubation_support", "thread": step}, f"u{depth}:{n}:{k}")
            rows.append(done.items[0].seq)
        wish = {"operation": "undo_operation", "seq": rows[0], "reason": "it should not have been"}
        began = time.perf_counter()
        await hand.must(wish | {"cascade": rows[1:]}, f"undo{depth}:{n}")
        took.append(time.perf_counter() - began)
    return took


async def voided(hand: Hand, room: RoomId, messages: Sequence[MessageId], times: int) -> list[float]:
    """Return the seconds of taking back messages that 50 entries each rest on."""
    took: list[float] = []
    for n, message in enumerate(messages[:times]):
        for k in range(CITED):
            pressure = note("x", room, message, f"void {n} {k}")["memory"]
            fields = {name: pressure[name] for name in pressure if name not in ("memoryId", "kind")}
            pressure = fields | {"pressureId": f"void:{n}:{k}", "kind": "discomfort", "intensity": 0.2}
            await hand.must({"operation": "upsert_agency_pressure", "pressure": pressure}, f"p{n}:{k}")
        async with hand.database.transaction() as tx:
            await tx.execute("update voidbot.messages set deleted_at = voidbot.now() where id = $1", message)
        wish = {"operation": "void_source", "refs": [f"message:{message}"], "cause": "deleted"}
        began = time.perf_counter()
        await hand.must(wish, f"void:{n}", by=Emitter.UPKEEP)
        took.append(time.perf_counter() - began)
    return took


async def replayed(hand: Hand, operations: int, rng: random.Random) -> list[float]:
    """Return the seconds for each row of a journal that is folded from nothing."""
    for n in range(operations):
        value = {"valueId": f"v{rng.randrange(20)}", "label": f"value {n}", "priority": rng.random()}
        await hand.must({"operation": "configure_profile", "values": [value]}, f"r{n}", by=Emitter.PARENT)
    rows = await _seq(hand)
    began = time.perf_counter()
    async with hand.database.transaction(long=True, durable=False) as tx:
        outcome = await verify(tx, hand.mind_id)
    took = time.perf_counter() - began
    if outcome.difference is not None or outcome.rows != rows:
        raise AssertionError(f"the journal does not replay: {outcome.difference}")
    return [took / rows] * rows


async def _seq(hand: Hand) -> int:
    async with hand.database.transaction(durable=False) as tx:
        mind = await state.find_mind(tx, hand.mind_id)
    return 0 if mind is None else mind.last_seq
