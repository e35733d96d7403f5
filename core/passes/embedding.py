"""The job that makes the vectors that wait for one model, and drops those of a model that nobody reads any more.

An endpoint or a store that is down keeps units waiting and is noted in words; search goes by words meanwhile.
"""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import structlog
from pydantic import BaseModel, ConfigDict

from core.domain.errors import BadOutput, BotError, InputRejected, OutsideRefused, Unavailable
from core.domain.jobs import UPKEEP_HEAD_START_S, KeyScope, NewJob, Ok, Outcome, Snooze, backoff
from core.domain.vectors import Vector, VectorRow, VectorsOf
from core.jobs.executor import JobContext, Observe
from core.passes.indexing import RUN_FOR
from core.ports import Clock, Embedder, VectorStore
from core.retrieval.service import Embedders
from core.store import embeddings, jobs
from core.store.embeddings import ModelState, StoredModel, WaitingUnit
from core.store.engine import Database, Tx

log = structlog.get_logger()

EMBED_BATCH = 64
BLANK = "."
"""What is embedded in the place of a text that a model will not take, so that its unit waits no longer."""
UNKNOWN_S = 60.0
"""How long a model waits that this process cannot ask; another one may."""


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
        """Embed what waits for one model, in batches that each settle; what is out of reach is tried again later."""
        stored = await ctx.advance(partial(embeddings.find_model, name=work.model), durable=False)
        if stored is None or not self.embedders:
            return Ok()
        try:
            if stored.state in (ModelState.DROPPING, ModelState.DROPPED):
                await self.store.drop(stored.model)
                await ctx.advance(partial(embeddings.end_model, name=work.model))
                return Ok()
            embedder = self.embedders.get(work.model)
            if embedder is None:
                log.warning("embed.model_not_configured", model=work.model)
                return Snooze(UNKNOWN_S)
            await self._embed(ctx, stored, embedder)
        except (Unavailable, OutsideRefused, InputRejected) as exc:
            return await put_off(ctx, work.model, exc)
        await ctx.advance(partial(embeddings.note_trouble, name=work.model, trouble=""), durable=False)
        return Ok()

    async def _embed(self, ctx: JobContext, stored: StoredModel, embedder: Embedder) -> None:
        model = stored.model
        if embedder.model != model:
            raise OutsideRefused(
                "embeddings: this model's name has vectors of another dimension; give the model another name",
                model=model.name,
            )
        started = self.clock.monotonic()
        await self.store.ensure(model)
        while not ctx.cancelled and self.clock.monotonic() - started < RUN_FOR.total_seconds():
            waiting = await ctx.advance(partial(embeddings.list_waiting, model=model, limit=EMBED_BATCH), durable=False)
            if not waiting:
                break
            there = [each for each in waiting if each.text is not None]
            vectors = await vectors_of(embedder, [each.text or "" for each in there])
            rows = [_row(each, vector) for each, vector in zip(there, vectors, strict=True)]
            if rows:
                await self.store.upsert(model, rows)
            await self._delete(stored, [each for each in waiting if each.text is None])
            await ctx.advance(partial(embeddings.settle, model=model, done=waiting), durable=False)
            self.observe("vectors_written_total", len(rows), {})

    async def _delete(self, stored: StoredModel, gone: list[WaitingUnit]) -> None:
        for community_id in sorted({each.community_id for each in gone}):
            ids = frozenset(each.unit_id for each in gone if each.community_id == community_id)
            await self.store.delete(stored.model, VectorsOf(community_id=community_id, units=ids))


async def vectors_of(embedder: Embedder, texts: Sequence[str]) -> Sequence[Vector]:
    """Return a vector for each text; one that the model will not take has the vector of no words.

    Raises:
        BotError: The model takes no text at all, or cannot be asked.
    """
    if not texts:
        return []
    try:
        return await embedder.embed(texts)
    except (BadOutput, OutsideRefused) as exc:
        (blank,) = await embedder.embed([BLANK])
        if len(texts) == 1:
            log.warning("embed.text_not_taken", model=embedder.model.name, error=exc.message)
            return [blank]
    return [vector for text in texts for vector in await vectors_of(embedder, [text])]


async def put_off(ctx: JobContext, name: str, why: BotError) -> Outcome:
    """Note what is in the way of a model's vectors, and try again later, each time after a longer pause."""
    log.warning("embed.put_off", model=name, error=str(why))
    await ctx.advance(partial(embeddings.note_trouble, name=name, trouble=why.message), durable=False)
    return Snooze(backoff(ctx.job.snoozed + 1, random.random()))  # noqa: S311  # jitter


def _row(waiting: WaitingUnit, vector: Vector) -> VectorRow:
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


async def queue_embedding(tx: Tx, models: Collection[str]) -> None:
    """Queue the job of each of these models for which units wait, and of those that are to be dropped."""
    found = await embeddings.models_with_work(tx, models)
    if found:
        await jobs.enqueue(tx, [embed_job(name) for name in found])


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
