"""The job that brings a new model to be read: its units are queued, its vectors compared, then reads move as a whole.

Where it stands is a state in Postgres, so a process that is killed anywhere leaves it to the next.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import structlog
from pydantic import BaseModel, ConfigDict

from core.domain.errors import InputRejected, OutsideRefused, Unavailable
from core.domain.jobs import UPKEEP_HEAD_START_S, KeyScope, NewJob, Ok, Outcome, Snooze
from core.domain.vectors import EmbeddingModel, VectorScope
from core.jobs.executor import JobContext
from core.passes.embedding import EMBED_BATCH, UNKNOWN_S, put_off, vectors_of
from core.ports import Embedder, VectorStore
from core.retrieval.service import Embedders
from core.retrieval.vector_upkeep import PARTS, reconcile
from core.store import embeddings, jobs, vector_books
from core.store.embeddings import ModelState, StoredModel, WaitingUnit
from core.store.engine import Database, Tx

log = structlog.get_logger()

SAMPLE = 200
"""How many units have to be found by their own text before a model is read."""
SAMPLE_HITS = 10
FOUND_SHARE = 0.98
"""How many of them at least: long texts that begin alike can have one vector between them."""
BEHIND_S = 1.0
"""How soon is looked again whether a model has caught up with what is being said."""

BuildIndex = Callable[[EmbeddingModel], Awaitable[bool]]
"""Builds what a store needs to search many vectors; returns whether it did."""


class ReembedWork(BaseModel):
    """Whatever model has a step to take."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    v: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class Reembedding:
    """The `reembed` job. `embedders`: those that this process can ask, by the name of their model."""

    database: Database
    embedders: Embedders
    store: VectorStore
    build_index: BuildIndex

    async def run(self, ctx: JobContext, _: ReembedWork) -> Outcome:
        """Take the steps that can be taken now; one that has to wait is looked at again soon."""
        while not ctx.cancelled and self.embedders:
            stored = await ctx.advance(embeddings.next_unsettled, durable=False)
            if stored is None:
                break
            if stored.queueing:
                await ctx.advance(partial(embeddings.queue_backlog, name=stored.model.name), durable=False)
                continue
            embedder = self.embedders.get(stored.model.name)
            if embedder is None or embedder.model != stored.model:
                return Snooze(UNKNOWN_S)
            try:
                done = await self._move_on(ctx, stored, embedder)
            except (Unavailable, OutsideRefused, InputRejected) as exc:
                return await put_off(ctx, stored.model.name, exc)
            if not done:
                return Snooze(BEHIND_S)
        return Ok()

    async def _move_on(self, ctx: JobContext, stored: StoredModel, embedder: Embedder) -> bool:
        """Take the model's next step; return False where it has to wait for vectors."""
        model = stored.model
        if stored.state is ModelState.VERIFIED:
            await self.build_index(model)
            switched = await ctx.advance(partial(embeddings.switch_reading, name=model.name))
            if switched:
                log.info("reembed.read_now", model=model.name)
            return switched
        if await ctx.advance(partial(embeddings.lags, name=model.name), durable=False):
            return False
        if not await self._agrees(model) or not await self._finds(ctx, model, embedder):
            return False
        await ctx.advance(partial(_verified, name=model.name))
        log.info("reembed.verified", model=model.name)
        return True

    async def _agrees(self, model: EmbeddingModel) -> bool:
        """Compare every vector with its unit; what differs is queued anew."""
        await self.store.ensure(model)
        found = [await reconcile(self.database, self.store, model, part=part) for part in range(PARTS)]
        return not any(each.missing or each.stale or each.stray for each in found)

    async def _finds(self, ctx: JobContext, model: EmbeddingModel, embedder: Embedder) -> bool:
        """Look for a sample of units by their own text; what is not found is queued anew where it is too many."""
        sample = await ctx.advance(partial(embeddings.sample_units, model=model, count=SAMPLE), durable=False)
        there = [each for each in sample if each.text is not None and each.room_id is not None]
        lost: list[WaitingUnit] = []
        for first in range(0, len(there), EMBED_BATCH):
            batch = there[first : first + EMBED_BATCH]
            vectors = await vectors_of(embedder, [each.text or "" for each in batch])
            for each, vector in zip(batch, vectors, strict=True):
                rooms = frozenset() if each.room_id is None else frozenset({each.room_id})
                scope = VectorScope(community_id=each.community_id, rooms=rooms)
                hits = await self.store.search(model, vector, scope, SAMPLE_HITS)
                if not any(hit.unit_id == each.unit_id or hit.unit_hash == each.own_hash for hit in hits):
                    lost.append(each)
        if len(lost) <= (1 - FOUND_SHARE) * len(there):
            return True
        log.warning("reembed.not_found", model=model.name, sampled=len(there), lost=len(lost))
        units = [(each.unit_id, each.community_id) for each in lost]
        await ctx.advance(partial(vector_books.queue, model=model, units=units), durable=False)
        return False


async def _verified(tx: Tx, name: str) -> None:
    stored = await embeddings.find_model(tx, name)
    if stored is not None and stored.state is ModelState.BACKFILLING and not stored.queueing:
        await embeddings.set_state(tx, name, ModelState.VERIFIED)


async def queue_reembedding(tx: Tx) -> None:
    """Queue the job if a model has a step to take; one at a time."""
    if await embeddings.next_unsettled(tx) is not None:
        await jobs.enqueue(tx, [reembed_job()])


def reembed_job() -> NewJob:
    """Return the job that brings a model to be read."""
    return NewJob(
        kind="reembed",
        pool="upkeep",
        lane="reembed",
        payload=ReembedWork().model_dump(mode="json"),
        key="reembed",
        scope=KeyScope.LIVE,
        head_start_s=UPKEEP_HEAD_START_S,
    )
