"""The jobs that keep the index: units of what was said or changed, vectors of units.

The scheduler looks for rooms and models for which something waits and queues their job; each works in steps that
commit, and leaves what is left after a while to the next, so that no import keeps other rooms from theirs.
"""

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Literal

import structlog
from pydantic import BaseModel, ConfigDict

from core.domain.ids import RoomId
from core.domain.jobs import UPKEEP_HEAD_START_S, KeyScope, NewJob, Ok, Outcome, index_lane
from core.domain.vectors import VectorRow, VectorsOf
from core.jobs.executor import JobContext, Observe
from core.ports import Clock, VectorStore
from core.retrieval.indexing import ROOMS_AT_ONCE, Step, count_words_if_due, index_step
from core.retrieval.service import Embedders
from core.store import embeddings, jobs, units
from core.store.embeddings import WaitingUnit
from core.store.engine import Database, Tx
from core.store.units import RoomToIndex

log = structlog.get_logger()

EMBED_BATCH = 64
RUN_FOR = timedelta(seconds=20)
"""How long one run goes on."""


class IndexWork(BaseModel):
    """The room whose messages wait."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    v: Literal[1] = 1
    room_id: int


@dataclass(frozen=True, slots=True)
class Indexing:
    """The `index` job."""

    database: Database
    clock: Clock
    observe: Observe

    async def run(self, ctx: JobContext, work: IndexWork) -> Outcome:
        """Make the units of what waits in one room, in steps that each commit."""
        async with self.database.transaction(durable=False) as tx:
            room = await units.find_room(tx, RoomId(work.room_id))
        if room is None:
            return Ok()
        started = self.clock.monotonic()
        step = Step(more=True)
        while step.more and not ctx.cancelled and self.clock.monotonic() - started < RUN_FOR.total_seconds():
            step = await ctx.advance(partial(index_step, room=room), durable=False)
            self.observe("units_written_total", step.written, {})
        if not step.more:
            async with self.database.transaction(durable=False, long=True) as tx:
                await ctx.hold(tx)
                await count_words_if_due(tx, room)
        return Ok()


async def queue_indexing(tx: Tx) -> int:
    """Queue the job of each room in which messages wait; return how many rooms there were."""
    rooms = await units.rooms_waiting(tx, ROOMS_AT_ONCE)
    if rooms:
        await jobs.enqueue(tx, [index_job(room) for room in rooms])
    return len(rooms)


def index_job(room: RoomToIndex) -> NewJob:
    """Return the job that indexes what waits in a room; one at a time."""
    return NewJob(
        kind="index",
        pool="upkeep",
        lane=index_lane(room.room_id),
        payload=IndexWork(room_id=room.room_id).model_dump(mode="json"),
        community_id=room.community_id,
        room_id=room.room_id,
        key=f"index:{room.room_id}",
        scope=KeyScope.LIVE,
        head_start_s=UPKEEP_HEAD_START_S,
    )


class EmbedWork(BaseModel):
    """The model whose vectors are missing."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    v: Literal[1] = 1
    model: str


@dataclass(frozen=True, slots=True)
class Embedding:
    """The `embed` job. `embedders`: those that this process can ask, by the name of their model."""

    database: Database
    clock: Clock
    embedders: Embedders
    store: VectorStore
    observe: Observe

    async def run(self, ctx: JobContext, work: EmbedWork) -> Outcome:
        """Embed what waits for one model, in batches that each settle; nothing waits for a model out of reach."""
        embedder = self.embedders.get(work.model)
        if embedder is None:
            log.warning("embed.model_not_configured", model=work.model)
            return Ok()
        started = self.clock.monotonic()
        await self.store.ensure(embedder.model)
        while not ctx.cancelled and self.clock.monotonic() - started < RUN_FOR.total_seconds():
            async with self.database.transaction(durable=False) as tx:
                waiting = await embeddings.list_waiting(tx, embedder.model, EMBED_BATCH)
            if not waiting:
                break
            there = [each for each in waiting if each.text is not None]
            vectors = await embedder.embed([each.text or "" for each in there]) if there else []
            rows = [_row(each, vector) for each, vector in zip(there, vectors, strict=True)]
            if rows:
                await self.store.upsert(embedder.model, rows)
            await self._delete(work.model, [each for each in waiting if each.text is None])
            await ctx.advance(partial(embeddings.settle, model=embedder.model, done=waiting), durable=False)
            self.observe("vectors_written_total", len(rows), {})
        return Ok()

    async def _delete(self, name: str, gone: list[WaitingUnit]) -> None:
        model = self.embedders[name].model
        for community_id in sorted({each.community_id for each in gone}):
            ids = frozenset(each.unit_id for each in gone if each.community_id == community_id)
            await self.store.delete(model, VectorsOf(community_id=community_id, units=ids))


def _row(waiting: WaitingUnit, vector: tuple[float, ...]) -> VectorRow:
    if waiting.room_id is None or waiting.sent_at is None:
        raise AssertionError("a unit that is there has a room and a time")
    return VectorRow(
        unit_id=waiting.unit_id,
        community_id=waiting.community_id,
        room_id=waiting.room_id,
        message_id=waiting.message_id,
        author_id=waiting.author_id,
        sent_at=waiting.sent_at,
        kind=waiting.kind,
        unit_hash=waiting.own_hash,
        vector=vector,
    )


async def queue_embedding(tx: Tx) -> None:
    """Queue the job of each model for which units wait."""
    models = await embeddings.models_waiting(tx)
    if models:
        await jobs.enqueue(tx, [embed_job(name) for name in models])


def embed_job(name: str) -> NewJob:
    """Return the job that embeds what waits for a model; one at a time."""
    return NewJob(
        kind="embed",
        pool="upkeep",
        lane=f"embed:{name}",
        payload=EmbedWork(model=name).model_dump(mode="json"),
        key=f"embed:{name}",
        scope=KeyScope.LIVE,
        head_start_s=UPKEEP_HEAD_START_S,
    )
