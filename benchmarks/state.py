"""How fast the mind is, by figure, on 10,000 entries made from 500 rooms, half of them retired.

One JSON line a figure: `figure`, `p50_ms`, `p99_ms`, `per_s`. The server is the embedded one, with fsync, unless
DATABASE_URL is set.
"""

import argparse
import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from benchmarks import state_writes
from benchmarks.rig import given_database, say, spread_ms, temporary_home
from benchmarks.state_writes import Hand
from benchmarks.town import sentence
from core.domain.ids import CommunityId, MessageId, PersonId, RoomId, RoomKey
from core.domain.mind.bodies import Body, Case, CaseStatus, Durable, PressureItem, ShortTerm, Thread, Value
from core.domain.mind.bodies import PressureKind as Pressing
from core.domain.mind.entries import Entry, Retired, entry_hash
from core.domain.mind.projecting import CHAT_TOKENS, ViewWanted
from core.domain.mind.values import Anchor, AnchorKind, EntryId, MemoryKind, Target, TargetKind
from core.domain.rooms import ArchiveSwitch, RoomKind
from core.prompt.tokens import estimate
from core.state.projection import project
from core.state.service import open_minds
from core.store import access, archive, people, places, state
from core.store.embedded import EmbeddedPostgres, EmbeddedSettings
from core.store.engine import Database, Tx, migrate

ROOMS, PEOPLE, ENTRIES, TIMES = 500, 400, 10_000, 300
QUICK_ROOMS, QUICK_ENTRIES, QUICK_TIMES = 20, 200, 5
MESSAGES_A_ROOM = 4
SEED = 3
NOW = datetime(2026, 3, 10, 19, 30, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Bench:
    """A mind in the database; everyone reads every second room."""

    database: Database
    mind_id: str
    rooms: tuple[RoomId, ...]
    people: tuple[PersonId, ...]
    messages: Mapping[RoomId, tuple[MessageId, ...]]
    times: int
    rng: random.Random


Figure = Callable[[Bench], Awaitable[list[float]]]


@asynccontextmanager
async def opened_database() -> AsyncIterator[Database]:
    """Yield an empty, migrated database."""
    with temporary_home() as home:
        async with given_database() as given:
            server = None if given else EmbeddedPostgres(home, EmbeddedSettings())
            address = given if given is not None else await server.ensure() if server is not None else ""
            try:
                await migrate(address)
                database = await Database.open(address, size=4)
                try:
                    yield database
                finally:
                    await database.close()
            finally:
                if server is not None:
                    await server.stop()


async def fill(database: Database, *, rooms: int, entries: int, times: int) -> Bench:
    """Make a community and a mind with so many entries; the same ones each time."""
    rng = random.Random(SEED)
    async with database.transaction(long=True) as tx:
        home = await places.add_community(tx, "bench", "bench", "Bench")
        mind_id = (await places.load_place(tx, await _room(tx, home, "first"))).community.mind_id
        who = [(await people.ensure_person(tx, "bench", f"p{n}", home, f"Person {n}")).id for n in range(PEOPLE)]
        made = [await _room(tx, home, f"r{n}") for n in range(rooms)]
        said: dict[RoomId, tuple[MessageId, ...]] = {}
        for n, room in enumerate(made):
            await access.save_access(tx, room, home, everyone=n % 2 == 0, users=rng.sample(who, 3))
            said[room] = tuple(
                [await _say(tx, home, room, who[n % PEOPLE], f"{n}:{k}", rng) for k in range(MESSAGES_A_ROOM)]
            )
        bench = Bench(database, mind_id, tuple(made), tuple(who), said, times, rng)
        mind = await state.lock_mind(tx, mind_id)
        every = [_entry(bench, n) for n in range(entries)]
        for at in range(0, entries, 500):
            await state.save(tx, mind, [(each, entry_hash(each), 1) for each in every[at : at + 500]])
    async with database.transaction(long=True) as tx:
        await tx.execute("analyze")
    return bench


async def projection(bench: Bench) -> list[float]:
    """Return the seconds of projections for a talk in an open room."""
    took: list[float] = []
    readable = frozenset(bench.rooms[::2])
    for _ in range(bench.times):
        room = bench.rng.choice(bench.rooms[::2])
        wanted = ViewWanted(
            room=room, readable=readable, speaker=bench.rng.choice(bench.people), about=sentence(bench.rng)
        )
        began = time.perf_counter()
        async with bench.database.transaction(durable=False) as tx:
            section = await project(tx, bench.mind_id, wanted, NOW, CHAT_TOKENS, estimate)
        took.append(time.perf_counter() - began)
        if not section.memories:
            raise AssertionError("a full mind has memories to show")
    return took


def _writer(bench: Bench) -> Hand:
    return Hand(bench.database, bench.mind_id, open_minds())


async def _apply(bench: Bench) -> list[float]:
    # Rooms that a few may read are groups of their own: there is room for one more note in each.
    return await state_writes.applied(_writer(bench), bench.rooms[1::2], bench.messages, bench.times)


async def _apply_clustered(bench: Bench) -> list[float]:
    return await state_writes.clustered(*await _quiet(bench, "clustered"), bench.times)


async def _ten_writers(bench: Bench) -> list[float]:
    return await state_writes.contended(*await _quiet(bench, "writers"), max(1, bench.times // 3))


async def _undo(bench: Bench) -> list[float]:
    return await state_writes.undone(*await _quiet(bench, "undo"), max(1, bench.times // 4), 0)


async def _undo_cascade(bench: Bench) -> list[float]:
    depth = state_writes.CASCADE
    return await state_writes.undone(*await _quiet(bench, "cascade"), max(1, bench.times // 30), depth)


async def _void(bench: Bench) -> list[float]:
    hand, room, _ = await _quiet(bench, "void")
    async with bench.database.transaction() as tx:
        home = await places.load_place(tx, room)
        who = bench.people[0]
        said = [await _say(tx, home.community.id, room, who, f"void:{n}", bench.rng) for n in range(20)]
    return await state_writes.voided(hand, room, said, max(1, bench.times // 20))


async def _replay(bench: Bench) -> list[float]:
    hand, _, _ = await _quiet(bench, "replay")
    return await state_writes.replayed(hand, bench.times * 10, bench.rng)


async def _quiet(bench: Bench, name: str) -> tuple[Hand, RoomId, MessageId]:
    """Return a hand on a mind of its own, with a room and a message in it."""
    hand = await state_writes.other_mind(bench.database, name)
    async with bench.database.transaction() as tx:
        home = CommunityId(await tx.fetchval("select id from voidbot.communities where mind_id = $1", hand.mind_id))
        room = await places.add_room(
            tx, home, RoomKey("bench", f"q:{name}"), RoomKind.CHANNEL, name, archive=ArchiveSwitch.ON
        )
        await access.save_access(tx, room, home, everyone=True)
        message = await _say(tx, home, room, bench.people[0], f"{name}:first", bench.rng)
    return hand, room, message


FIGURES: Mapping[str, Figure] = {
    "apply": _apply,
    "apply_clustered": _apply_clustered,
    "ten_writers": _ten_writers,
    "undo": _undo,
    "undo_cascade_20": _undo_cascade,
    "void_source_50": _void,
    "replay": _replay,
    "projection": projection,
}


async def measure(names: list[str], *, quick: bool) -> AsyncIterator[dict[str, object]]:
    """Yield the line of each figure."""
    async with opened_database() as database:
        say("filling a mind")
        sizes = (QUICK_ROOMS, QUICK_ENTRIES, QUICK_TIMES) if quick else (ROOMS, ENTRIES, TIMES)
        bench = await fill(database, rooms=sizes[0], entries=sizes[1], times=sizes[2])
        for name in names:
            say(f"measuring {name}")
            took = await FIGURES[name](bench)
            spread = spread_ms(took)
            # Ten writers wait for each other: what they do together is ten times what one does.
            at_once = state_writes.WRITERS if name == "ten_writers" else 1
            per_s = round(at_once * len(took) / sum(took), 1)
            yield {"figure": name, "p50_ms": spread["p50"], "p99_ms": spread["p99"], "per_s": per_s}


def _entry(bench: Bench, n: int) -> Entry:
    rng = bench.rng
    rooms = rng.sample(bench.rooms, rng.choice((1, 1, 1, 2, 3)))
    anchors = tuple(
        Anchor(ref=f"message:{rng.choice(bench.messages[room])}", kind=AnchorKind.MESSAGE, summary=sentence(rng))
        for room in rooms
    )
    at = NOW - timedelta(minutes=rng.randrange(1, 200_000))
    return Entry(
        id=EntryId(f"e{n}"),
        version=1,
        body=_body(bench, n, rooms[0], anchors, at),
        sources=frozenset(rooms),
        people=frozenset(rng.sample(bench.people, 5)),
        created_at=at,
        updated_at=at,
        retired=Retired(at, "over") if n % 2 else None,
    )


def _body(bench: Bench, n: int, room: RoomId, anchors: tuple[Anchor, ...], at: datetime) -> Body:
    rng = bench.rng
    thought: dict[str, Any] = {
        "target": Target(kind=TargetKind.ROOM, id=str(room)),
        "summary": " ".join(sentence(rng) for _ in range(3)),
        "claim": sentence(rng),
        "tension": sentence(rng),
        "action_implication": sentence(rng),
        "topics": (rng.choice(("routes", "audio", "maps", "fares")),),
        "anchor_refs": anchors,
    }
    match n % 20:
        case 0:
            return ShortTerm(kind=MemoryKind.ROOM_OBSERVATION, **thought)
        case 2:
            return Thread(topic=sentence(rng)[:100], maturation=rng.random(), **thought)
        case 4:
            return PressureItem(kind=Pressing.DISCOMFORT, intensity=rng.random(), **thought)
        case 6:
            return Value(label=sentence(rng)[:100], priority=rng.random())
        case 8:
            message = bench.messages[room][0]
            return Case(
                source_message_id=message, status=CaseStatus.PENDING, summary=sentence(rng), room_id=room,
                last_touched_at=at,
            )  # fmt: skip
    return Durable(kind=MemoryKind.PROJECT_SEAM, **thought)


async def _room(tx: Tx, home: CommunityId, ref: str) -> RoomId:
    return await places.add_room(tx, home, RoomKey("bench", ref), RoomKind.CHANNEL, ref, archive=ArchiveSwitch.ON)


async def _say(tx: Tx, home: CommunityId, room: RoomId, who: PersonId, ref: str, rng: random.Random) -> MessageId:
    new = archive.NewMessage(
        room_id=room, community_id=home, author_id=who, platform_ref=ref, kind="text", text=sentence(rng), sent_at=NOW
    )
    added = await archive.add_message(tx, new)
    if added is None:
        raise AssertionError("a new message is new")
    return added


async def _run(names: list[str], *, quick: bool) -> None:
    async for line in measure(names, quick=quick):
        print(json.dumps(line), flush=True)


def main() -> None:
    """Print a line for each figure that is asked for; all of them if none is."""
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--quick", action="store_true", help="a small mind: shows that it runs, no more")
    flags.add_argument("figure", nargs="*", choices=[*FIGURES, []], help="which figures; all of them by default")
    given = flags.parse_args()
    asyncio.run(_run(given.figure or list(FIGURES), quick=given.quick))


if __name__ == "__main__":
    main()
