"""How long a search takes in a large community: a million messages, 2,000 rooms of which the asker reads 300.

The messages are made by a seeded generator: words by Zipf's law, rooms of unequal size. They are
indexed by the product's own steps; vectors are synthetic, clustered and seeded, for as many units as are asked for.
A question takes some words of one message that the asker may read, and adds one. One JSON line for each way of
searching and number of askers at once; `recall_at_10` compares the vector index with an exact scan.
"""

import argparse
import asyncio
import json
import platform
import random
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

import numpy as np

from benchmarks.retrieval import opened
from benchmarks.rig import commit, load, spread_ms
from core.domain.ids import CommunityId, MessageId, PersonId, RoomId
from core.domain.retrieval import Near, Query
from core.domain.vectors import EmbeddingModel, UnitId, Vector, VectorRow, VectorScope
from core.retrieval import service
from core.retrieval.indexing import index_step
from core.store import places, units
from core.store.engine import Database
from core.store.pgvector import PgVectorStore

MODEL = EmbeddingModel("synthetic", 384)
ROOMS, READABLE, WORDS, PEOPLE = 2_000, 300, 60_000, 5_000
CLUSTERS, NOISE = 500, 0.6
START = datetime(2024, 1, 1, tzinfo=UTC)
BATCH = 20_000
LETTERS = "bcdfghklmnprstvwz"
VOWELS = "aeiou"


@dataclass(frozen=True, slots=True)
class Town:
    """The loaded community."""

    community_id: CommunityId
    readable: frozenset[RoomId]
    questions: tuple[str, ...]


class Generator:
    """Words, messages and questions from one seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.words = sorted({self._word() for _ in range(WORDS)})
        self.dice.shuffle(self.words)
        self.weights = list(accumulate(1 / (rank + 3) ** 1.05 for rank in range(len(self.words))))
        self.rooms = list(accumulate(1 / (rank + 10) ** 0.8 for rank in range(ROOMS)))

    def _word(self) -> str:
        syllables = self.dice.choice((2, 2, 3, 3, 4))
        return "".join(self.dice.choice(LETTERS) + self.dice.choice(VOWELS) for _ in range(syllables))

    def text(self) -> str:
        """Return one message."""
        length = min(60, 3 + int(self.dice.expovariate(1 / 9)))
        return " ".join(self.dice.choices(self.words, cum_weights=self.weights, k=length))

    def room(self) -> int:
        """Return the number of a room, a busy one more often."""
        return self.dice.choices(range(ROOMS), cum_weights=self.rooms, k=1)[0]

    def question(self, text: str) -> str:
        """Return some words of a message and a common one."""
        words = text.split()
        return " ".join([*self.dice.sample(words, min(4, len(words))), self.text().split()[0]])


async def fill(database: Database, count: int, seed: int, questions: int) -> Town:
    """Make the community, its messages and their units."""
    maker = Generator(seed)
    async with database.transaction(long=True) as tx:
        community = await places.add_community(tx, "import", f"scale-{seed}", "Scale")
        rooms = [RoomId(row["id"]) for row in await tx.fetch(
            "insert into voidbot.rooms (community_id, platform, chat_ref, kind, name, archive)"
            " select $1, 'import', 'scale-' || n, 'channel', 'room ' || n, 'on' from generate_series(1, $2::int) n"
            " returning id", community, ROOMS)]  # fmt: skip
        people = [PersonId(row["id"]) for row in await tx.fetch(
            "insert into voidbot.people (platform, account_ref) select 'import', 'scale-' || n"
            " from generate_series(1, $1::int) n returning id", PEOPLE)]  # fmt: skip
    readable = frozenset(maker.dice.sample(rooms, READABLE))
    asked: list[str] = []
    places_in = dict.fromkeys(rooms, 0)
    for first in range(0, count, BATCH):
        rows = []
        for number in range(first, min(first + BATCH, count)):
            room = rooms[maker.room()]
            places_in[room] += 1
            text = maker.text()
            at = START + timedelta(seconds=30 * number)
            rows.append((room, maker.dice.choice(people), f"s{number}", at, places_in[room], text))
            if room in readable and len(asked) < questions and maker.dice.random() < 0.02:
                asked.append(maker.question(text))
        async with database.transaction(durable=False, long=True) as tx:
            await tx.execute(
                "insert into voidbot.messages (community_id, room_id, author_id, platform_ref, sent_at, archived_seq,"
                " text, origin, index_state) select $1, u.*, 'import', 'queued' from unnest($2::bigint[], $3::bigint[],"
                " $4::text[], $5::timestamptz[], $6::bigint[], $7::text[]) u",
                community, *([row[place] for row in rows] for place in range(6)),
            )  # fmt: skip
        _say(f"stored {min(first + BATCH, count):,}")
    async with database.transaction(long=True) as tx:
        await tx.execute(
            "update voidbot.rooms r set last_archived_seq = u.seq from unnest($1::bigint[], $2::bigint[]) u(id, seq)"
            " where r.id = u.id", list(places_in), list(places_in.values()),
        )  # fmt: skip
    await _index(database, community)
    return Town(community, readable, tuple(asked))


async def _index(database: Database, community: CommunityId) -> None:
    began, made = time.perf_counter(), 0
    while True:
        async with database.transaction(durable=False, long=True) as tx:
            waiting = await units.rooms_waiting(tx, 200)
        if not waiting:
            break
        for room in waiting:
            more = True
            while more:
                async with database.transaction(durable=False, long=True) as tx:
                    step = await index_step(tx, room)
                made, more = made + step.written, step.more
        _say(f"indexed {made:,} units, {made / (time.perf_counter() - began):,.0f} a second")
    async with database.transaction(long=True) as tx:
        for counted in await places.list_rooms(tx, community):
            await units.count_words(tx, counted.id)
    connection = await database.connect()
    try:
        await connection.execute("analyze voidbot.units", timeout=600)
        await connection.execute("analyze voidbot.messages", timeout=600)
    finally:
        await connection.close()


def _vectors(count: int, seed: int) -> Iterator[Vector]:
    dice = np.random.default_rng(seed)
    centres = dice.standard_normal((CLUSTERS, MODEL.dimension))
    for first in range(0, count, 5_000):
        size = min(5_000, count - first)
        made = centres[dice.integers(0, CLUSTERS, size)] + NOISE * dice.standard_normal((size, MODEL.dimension))
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        yield from (tuple(map(float, vector)) for vector in made)


async def embed(database: Database, store: PgVectorStore, count: int, seed: int) -> None:
    """Give the first `count` units synthetic vectors and build the index."""
    await store.ensure(MODEL)
    vectors = _vectors(count, seed)
    done, last = 0, 0
    async for rows in _units(database, count):
        await store.upsert(MODEL, [_row(row, next(vectors)) for row in rows])
        done, last = done + len(rows), int(rows[-1]["id"])
        _say(f"vectors {done:,} (to unit {last})")
    _say("building the index")
    await store.build_index(MODEL)


async def _units(database: Database, count: int) -> AsyncIterator[Sequence[dict[str, Any]]]:
    last = 0
    while count > 0:
        async with database.transaction(durable=False) as tx:
            rows = [dict(row) for row in await tx.fetch(
                "select id, community_id, room_id, message_id, author_id, sent_at, kind, own_hash from voidbot.units"
                " where id > $1 order by id limit $2", last, min(1_000, count))]  # fmt: skip
        if not rows:
            return
        last, count = int(rows[-1]["id"]), count - len(rows)
        yield rows


def _row(row: dict[str, Any], vector: Vector) -> VectorRow:
    return VectorRow(
        unit_id=UnitId(row["id"]), community_id=CommunityId(row["community_id"]),
        room_id=RoomId(row["room_id"]), message_id=MessageId(row["message_id"]),
        author_id=PersonId(row["author_id"]), sent_at=row["sent_at"], kind=row["kind"],
        unit_hash=row["own_hash"], vector=vector,
    )  # fmt: skip


async def ask(database: Database, town: Town, text: str, store: PgVectorStore | None, vector: Vector) -> float:
    """Search once; return the seconds. Embedding the question is not in it: that is the embedder's figure."""
    query = Query(text=text, community_id=town.community_id, readable=town.readable, now=START + timedelta(days=900),
                  k=10, floor=0.0)  # fmt: skip
    began = time.perf_counter()
    near = Near()
    if store is not None:
        scope = VectorScope(community_id=town.community_id, rooms=town.readable)
        near = Near(MODEL, tuple(await store.search(MODEL, vector, scope, service.POOL)))
    async with database.transaction(durable=False) as tx:
        await service.search(tx, query, near)
    return time.perf_counter() - began


async def measure(options: argparse.Namespace) -> None:
    async with opened(options.database_url) as database:
        town = await fill(database, options.messages, options.seed, options.questions)
        store = PgVectorStore(database)
        ways: list[tuple[str, PgVectorStore | None, int]] = [("lexical", None, 1), ("lexical", None, 4)]
        recall: float | None = None
        asked = list(_vectors(len(town.questions), options.seed + 1))
        if options.vectors:
            await embed(database, store, min(options.vectors, options.messages), options.seed)
            ways += [("hybrid", store, 1), ("hybrid", store, 4)]
            recall = await _recall(database, town, asked[:50])
        for mode, used, askers in ways:
            queue = list(zip(town.questions, asked, strict=True))
            for text, vector in queue[:20]:
                await ask(database, town, text, used, vector)
            waiting = iter(queue)
            took: list[float] = []

            async def one(waiting: Iterator[tuple[str, Vector]], used: PgVectorStore | None, took: list[float]) -> None:
                for text, vector in waiting:
                    took.append(await ask(database, town, text, used, vector))

            await asyncio.gather(*(one(waiting, used, took) for _ in range(askers)))
            shown = spread_ms(took)
            print(json.dumps({
                "set": "scale", "n": options.messages, "rooms": ROOMS, "readable": READABLE, "mode": mode,
                "askers": askers, "query_ms_p50": shown["p50"], "query_ms_p99": shown["p99"],
                "recall_at_10": recall if mode == "hybrid" else None,
                "config": {"questions": len(took), "vectors": options.vectors, "seed": options.seed, "load": load(),
                           "commit": commit(), "python": platform.python_version()},
            }), flush=True)  # fmt: skip


async def _recall(database: Database, town: Town, asked: Sequence[Vector]) -> float:
    scope = VectorScope(community_id=town.community_id, rooms=town.readable)
    exact, quick = PgVectorStore(database, exact_rows=10**9), PgVectorStore(database)
    shares = []
    for vector in asked:
        best = {hit.unit_id for hit in await exact.search(MODEL, vector, scope, 10)}
        found = {hit.unit_id for hit in await quick.search(MODEL, vector, scope, 10)}
        shares.append(len(best & found) / max(len(best), 1))
    return round(sum(shares) / len(shares), 3)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    flags = argparse.ArgumentParser(description=__doc__, epilog="One JSON line a way to standard output.")
    flags.add_argument("--messages", type=int, default=1_000_000)
    flags.add_argument("--vectors", type=int, default=300_000, help="how many units have vectors; 0: by words alone")
    flags.add_argument("--questions", type=int, default=400)
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--database-url", help="an empty database; a fresh embedded one without")
    asyncio.run(measure(flags.parse_args(arguments)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
