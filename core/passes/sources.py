"""Syncs of sources as jobs: one for each source and hour, in a lane of its own."""

from dataclasses import dataclass
from typing import Literal

import structlog
from pydantic import BaseModel, ConfigDict

from core.domain.jobs import UPKEEP_HEAD_START_S, KeyScope, NewJob, Ok, Outcome
from core.domain.sources import Source, SourceId
from core.jobs.executor import JobContext
from core.retrieval.sources import Sources
from core.store import jobs, sources
from core.store.engine import Tx

log = structlog.get_logger()


class SourceWork(BaseModel):
    """One sync of one source."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    v: Literal[1] = 1
    source_id: int


@dataclass(frozen=True, slots=True)
class SourceSync:
    """The `sync_source` job."""

    sources: Sources

    async def run(self, ctx: JobContext, work: SourceWork) -> Outcome:
        """Bring the source up to date; one that was removed meanwhile is done."""

        async def load(tx: Tx) -> Source | None:
            return await sources.load_source(tx, SourceId(work.source_id))

        source = await ctx.advance(load, durable=False)
        if source is None:
            return Ok()
        report = await self.sources.sync(source, ctx.advance)
        log.info(
            "source.synced",
            source=source.name,
            head=report.head[:12],
            added=report.added,
            changed=report.changed,
            renamed=report.renamed,
            removed=report.removed,
            unchanged=report.unchanged,
            left_out=len(report.left_out),
        )
        return Ok()


async def queue_hourly(tx: Tx) -> int:
    """Queue this hour's sync of each source that asks for it; return how many were not queued yet."""
    due = [sync_job(source_id, hour) for source_id, hour in await sources.list_hourly(tx)]
    return sum(job_id is not None for job_id in await jobs.enqueue(tx, due))


def sync_job(source_id: SourceId, slot: str) -> NewJob:
    """Return the job of one slot of a source."""
    return NewJob(
        kind="sync_source",
        pool="upkeep",
        lane=f"source:{source_id}",
        key=f"slot:source/{source_id}/{slot}",
        scope=KeyScope.EVER,
        head_start_s=UPKEEP_HEAD_START_S,
        payload=SourceWork(source_id=source_id).model_dump(mode="json"),
    )
