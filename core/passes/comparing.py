"""The job of each night that compares vectors with units and builds the index of a store that has grown."""

from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Literal

import structlog
from pydantic import BaseModel, ConfigDict

from core.domain.errors import OutsideRefused, Unavailable
from core.domain.jobs import UPKEEP_HEAD_START_S, KeyScope, NewJob, Ok, Outcome
from core.jobs.executor import JobContext
from core.passes.reembedding import BuildIndex
from core.ports import VectorStore
from core.retrieval.service import Embedders
from core.retrieval.vector_upkeep import PARTS, reconcile
from core.store import embeddings, jobs
from core.store.engine import Database, Tx

log = structlog.get_logger()


class CompareWork(BaseModel):
    """Which tenth of the units this night compares."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    v: Literal[1] = 1
    part: int


@dataclass(frozen=True, slots=True)
class Comparing:
    """The `compare_vectors` job."""

    database: Database
    embedders: Embedders
    store: VectorStore
    build_index: BuildIndex

    async def run(self, ctx: JobContext, work: CompareWork) -> Outcome:
        """Compare the model that is read and queue what differs; a store that is down waits for its next night."""
        model = await ctx.advance(embeddings.reading_model, durable=False)
        if model is None or model.name not in self.embedders:
            return Ok()
        try:
            await self.store.ensure(model)
            await reconcile(self.database, self.store, model, part=work.part)
            await self.build_index(model)
        except (Unavailable, OutsideRefused) as exc:
            log.warning("vectors.not_compared", model=model.name, error=str(exc))
            await ctx.advance(partial(embeddings.note_trouble, name=model.name, trouble=exc.message), durable=False)
        return Ok()


async def tend_vectors(tx: Tx) -> None:
    """Let go of models that gave way, and queue this night's comparison unless it is queued already."""
    await embeddings.let_go(tx)
    night: date = await tx.fetchval("select (voidbot.now() at time zone 'UTC' - interval '3 hours')::date")
    await jobs.enqueue(tx, [compare_job(night)])


def compare_job(night: date) -> NewJob:
    """Return the job of one night."""
    return NewJob(
        kind="compare_vectors",
        pool="upkeep",
        lane="compare_vectors",
        payload=CompareWork(part=night.toordinal() % PARTS).model_dump(mode="json"),
        key=f"slot:compare_vectors/{night:%Y-%m-%d}",
        scope=KeyScope.EVER,
        head_start_s=UPKEEP_HEAD_START_S,
    )
