"""How often the search finds the messages that answer a question, and how long it takes.

Each set is a folder with `rooms.jsonl` and `questions.jsonl`. Its rooms come in through the product's own import as
rooms of one community, are indexed and embedded by its own steps, and each question is asked by a member in its own
room, at the time it was asked; a question without evidence, or of a category that has no answer, is left out. `answer`
is never read. One JSON line a set.
"""

import argparse
import asyncio
import json
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from benchmarks.rig import commit, spread_ms
from core.domain.ids import CommunityId, RoomId
from core.domain.imports import AudienceKind, AudienceSpec, BadCode, ImportFormat
from core.domain.retrieval import MIX, Mix, Near, Query
from core.domain.vectors import EmbeddingModel, VectorRow
from core.providers.minilm import MiniLm
from core.retrieval import service
from core.retrieval.admission import Wish
from core.retrieval.importing import Importer
from core.retrieval.indexing import index_all
from core.store import embeddings, places
from core.store.embedded import EmbeddedPostgres, EmbeddedSettings
from core.store.engine import Database, Tx, migrate, normalise
from core.store.pgvector import PgVectorStore

ROOMS, QUESTIONS = "rooms.jsonl", "questions.jsonl"
UNANSWERED = frozenset({"adversarial", "abstention"})
"""Categories of questions that nothing answers."""
ASSISTANT = "assistant"
"""The author that is a bot's account."""
SHOWN = 20
DEEP = 50
RRF_K = 60
EMBED_BATCH = 256
GRID = tuple(Mix(dense=dense / 10) for dense in range(0, 9, 2))


class Malformed(Exception):
    """Data are absent or not in the format; the message names file and line."""


class Question(BaseModel):
    """One line of `questions.jsonl`."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    room: str
    question_id: str
    question: str
    asked_at: datetime | None
    category: str | None = None
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ways:
    """How to search: by words, by likeness, or both mixed; `fused`: both by rank, as a baseline."""

    lexical: bool = True
    dense: bool = True
    fused: bool = False
    spread: bool = False
    mix: Mix = MIX


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with what was found, best first, and the seconds that it took."""

    question: Question
    found: tuple[str, ...]
    took_s: float

    def recall(self, k: int) -> float:
        """Return which share of the evidence is among the first `k`."""
        evidence = set(self.question.evidence)
        return len(evidence.intersection(self.found[:k])) / len(evidence)


class Bench:
    """One set, loaded."""

    def __init__(self, database: Database, name: str, embedder: MiniLm | None) -> None:
        self.database = database
        self.name = name
        self.embedder = embedder
        self.store = PgVectorStore(database)
        self.rooms: dict[str, RoomId] = {}
        self.last: dict[RoomId, datetime] = {}
        self.community_id = CommunityId(0)
        self.vectors: dict[str, tuple[float, ...]] = {}

    async def load(self, file: Path) -> None:
        """Import the rooms, index and embed them."""
        async with self.database.transaction(long=True) as tx:
            self.community_id = await places.add_community(tx, "import", self.name, self.name)
        wish = Wish(community_id=self.community_id, audience=AudienceSpec(AudienceKind.COMMUNITY), sure=True)
        importer = Importer(self.database)
        plan = await importer.plan(file, ImportFormat.JSONL, None, wish)
        outcome = await importer.load(plan, None, actor="benchmark")
        # What the product takes nothing of, for its length, is not found; anything else is a fault of the data.
        if broken := [each for each in outcome.first_bad if each.code is not BadCode.TOO_LONG]:
            raise Malformed(f"{file}:{broken[0].line}: {broken[0].code}")
        async with self.database.transaction(long=True) as tx:
            await tx.execute("update voidbot.people set is_bot = true where account_ref like $1", f"%{ASSISTANT}")
            rows = await tx.fetch(
                "select r.name, r.id, max(m.sent_at) as last from voidbot.rooms r join voidbot.messages m"
                " on m.room_id = r.id where r.community_id = $1 group by r.name, r.id", self.community_id,
            )  # fmt: skip
            await index_all(tx)
        self.rooms = {row["name"]: RoomId(row["id"]) for row in rows}
        self.last = {RoomId(row["id"]): row["last"] for row in rows}
        if self.embedder is not None:
            await self._embed(self.embedder)

    async def _embed(self, embedder: MiniLm) -> None:
        model = embedder.model
        await self.store.ensure(model)
        async with self.database.transaction(long=True) as tx:
            await embeddings.add_model(tx, model)
            while await embeddings.queue_backlog(tx, model.name):
                pass
        while True:
            async with self.database.transaction(long=True) as tx:
                waiting = await embeddings.list_waiting(tx, model, EMBED_BATCH)
            if not waiting:
                break
            vectors = await embedder.embed([each.text or "" for each in waiting])
            await self.store.upsert(model, [_row(each, vector) for each, vector in zip(waiting, vectors, strict=True)])
            async with self.database.transaction() as tx:
                await embeddings.settle(tx, model, waiting)

    async def ask(self, question: Question, ways: Ways) -> Asked:
        """Ask one question in its room; the time holds the embedding of the question and every statement."""
        room = self.rooms[question.room]
        query = Query(
            text=question.question,
            community_id=self.community_id,
            readable=frozenset(self.rooms.values()),
            rooms=frozenset({room}),
            now=question.asked_at or self.last[room],
            k=DEEP if ways.fused else SHOWN,
            floor=0.0,
            spread=ways.spread,
        )
        began = time.perf_counter()
        near = await self._near(query) if ways.dense else Near()
        async with self.database.transaction(durable=False) as tx:
            if ways.fused:
                found = await self._fused(tx, query, near)
            elif not ways.lexical:
                found = await _refs(tx, near)
            else:
                found = [hit.message.platform_ref for hit in await service.search(tx, query, near, ways.mix)]
        return Asked(question, tuple(found[:SHOWN]), time.perf_counter() - began)

    async def _near(self, query: Query) -> Near:
        if self.embedder is None:
            return Near()
        likeness = service.Likeness(self.database, _Clock(), {self.embedder.model.name: self.embedder}, self.store)
        return await likeness.near(query)

    async def _fused(self, tx: Tx, query: Query, near: Near) -> list[str]:
        by_words = [hit.message.platform_ref for hit in await service.search(tx, query)]
        ranks: dict[str, float] = {}
        for found in (by_words, (await _refs(tx, near))[:DEEP]):
            for place, ref in enumerate(found, 1):
                ranks[ref] = ranks.get(ref, 0.0) + 1 / (RRF_K + place)
        return sorted(ranks, key=lambda ref: (-ranks[ref], ref))


class _Clock:
    def now(self) -> datetime:
        raise AssertionError("a benchmark's questions have their own time")

    def monotonic(self) -> float:
        return time.monotonic()


def _row(waiting: embeddings.WaitingUnit, vector: tuple[float, ...]) -> VectorRow:
    if waiting.room_id is None or waiting.sent_at is None:
        raise AssertionError("nothing is deleted in a benchmark")
    return VectorRow(
        unit_id=waiting.unit_id, community_id=waiting.community_id, room_id=waiting.room_id,
        message_id=waiting.message_id, author_id=waiting.author_id, sent_at=waiting.sent_at, kind=waiting.kind,
        unit_hash=waiting.own_hash, vector=vector,
    )  # fmt: skip


async def _refs(tx: Tx, near: Near) -> list[str]:
    rows = await tx.fetch(
        "select m.platform_ref from unnest($1::bigint[]) with ordinality u(id, n) join voidbot.units t on t.id = u.id"
        " join voidbot.messages m on m.id = t.message_id order by u.n", [hit.unit_id for hit in near.hits],
    )  # fmt: skip
    return list(dict.fromkeys(row["platform_ref"] for row in rows))


def figures(name: str, asked: Sequence[Asked], config: Mapping[str, object]) -> dict[str, object]:
    """Return the line of a set."""
    count = len(asked)

    def mean(values: Iterator[float]) -> float:
        return round(sum(values) / count, 3)

    hops = [each for each in asked if each.question.category == "multi-hop"]
    took = spread_ms([each.took_s for each in asked])
    return {
        "set": name,
        "n": count,
        "r_at_5": mean(each.recall(5) for each in asked),
        "r_at_10": mean(each.recall(10) for each in asked),
        "r_at_20": mean(each.recall(20) for each in asked),
        "all_at_20_multi_hop": round(sum(each.recall(20) == 1 for each in hops) / len(hops), 3) if hops else None,
        "hit_at_10": mean(float(each.recall(10) > 0) for each in asked),
        "p_at_10": mean(len(set(each.question.evidence).intersection(each.found[:10])) / 10 for each in asked),
        "query_ms_p50": took["p50"],
        "query_ms_p99": took["p99"],
        "config": dict(config),
    }


def sets(folder: Path) -> list[Path]:
    """Return `folder` if it is a set, else the sets in it."""
    if (folder / QUESTIONS).is_file():
        return [folder]
    found = sorted(each.parent for each in folder.glob(f"*/{QUESTIONS}"))
    if not found:
        raise Malformed(f"{folder}: holds no set with {QUESTIONS}")
    return found


def questions(file: Path) -> list[Question]:
    """Return the questions that something answers."""
    found: list[Question] = []
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        raise Malformed(f"{file}: cannot be read") from exc
    for number, line in enumerate(lines, 1):
        try:
            found.append(Question.model_validate_json(line))
        except ValidationError as exc:
            raise Malformed(f"{file}:{number}: {exc.errors()[0]['type']}") from exc
    return [each for each in found if each.evidence and each.category not in UNANSWERED]


@asynccontextmanager
async def opened(url: str | None) -> AsyncIterator[Database]:
    """Yield a migrated database: the one named, else a fresh embedded one."""
    home = Path(tempfile.mkdtemp(prefix="voidbot-bench-"))
    home.chmod(0o755)
    embedded = None if url else EmbeddedPostgres(home, EmbeddedSettings())
    try:
        dsn = normalise(url) if url else await embedded.ensure() if embedded else ""
        await migrate(dsn)
        database = await Database.open(dsn)
        yield database
        await database.close()
    finally:
        if embedded is not None:
            await embedded.stop()
        shutil.rmtree(home, ignore_errors=True)


async def measure(options: argparse.Namespace) -> None:
    """Load each set and print its lines."""
    folders = sets(options.data)
    listed = {folder: questions(folder / QUESTIONS) for folder in folders}
    embedder = None if options.lexical_only else MiniLm(guard=lambda: None)
    ways = Ways(lexical=not options.dense_only, dense=not options.lexical_only, fused=options.rrf)
    async with opened(options.database_url) as database:
        for folder in folders:
            bench = Bench(database, folder.name, embedder)
            print(f"{folder.name}: loading", file=sys.stderr)
            await bench.load(folder / ROOMS)
            for mix in GRID if options.grid else (MIX,):
                way = replace(ways, mix=mix, spread=folder.name in options.spread.split(","))
                asked = [await bench.ask(each, way) for each in listed[folder]]
                print(json.dumps(figures(folder.name, asked, _config(way, bench.embedder))), flush=True)
                if options.per_question:
                    _save(options.per_question, folder.name, asked)


def _config(ways: Ways, embedder: MiniLm | None) -> dict[str, object]:
    model: EmbeddingModel | None = None if embedder is None else embedder.model
    return {
        "commit": commit(),
        "model": None if model is None else model.name,
        "python": platform.python_version(),
        **{name: value for name, value in asdict(ways).items() if name != "mix"},
        **asdict(ways.mix),
    }


def _save(file: Path, name: str, asked: Sequence[Asked]) -> None:
    with file.open("a", encoding="utf-8") as out:
        for each in asked:
            row: dict[str, Any] = {"set": name, "question_id": each.question.question_id, "r_at_10": each.recall(10)}
            out.write(json.dumps({**row, "found": each.found[:10]}) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    flags = argparse.ArgumentParser(description=__doc__, epilog="One JSON line a set to standard output.")
    flags.add_argument("--data", type=Path, required=True, metavar="FOLDER", help="one set or a folder of sets")
    flags.add_argument("--database-url", help="an empty database; a fresh embedded one without")
    flags.add_argument("--seed", help="taken as by the other benchmarks; nothing here is drawn")
    only = flags.add_mutually_exclusive_group()
    only.add_argument("--lexical-only", action="store_true", help="by words alone")
    only.add_argument("--dense-only", action="store_true", help="by likeness alone")
    only.add_argument("--rrf", action="store_true", help="both lists fused by rank: the baseline")
    flags.add_argument("--grid", action="store_true", help="a line for each of some weights")
    flags.add_argument("--spread", default="", metavar="SET,…", help="sets whose hits are spread out")
    flags.add_argument("--per-question", type=Path, metavar="OUT", help="append a line for each question")
    options = flags.parse_args(arguments)
    try:
        asyncio.run(measure(options))
    except Malformed as exc:
        print(exc, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
