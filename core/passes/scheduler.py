"""Ticks to slots: a library says when, the queue's keys say that each slot is taken once by whoever comes first."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from core.domain.errors import BotError
from core.domain.jobs import UPKEEP_HEAD_START_S, KeyScope, NewJob
from core.passes.embedding import queue_embedding
from core.passes.indexing import queue_indexing
from core.passes.planning import Clockwork, Planner
from core.passes.reembedding import queue_reembedding
from core.ports import Clock
from core.store import jobs
from core.store.engine import Database, Tx

log = structlog.get_logger()

UPKEEP_EVERY = timedelta(minutes=5)
PLAN_EVERY = timedelta(minutes=1)
INDEX_EVERY = timedelta(seconds=2)
"""How often rooms are looked for in which messages wait for the index."""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """Queues unattended work. Any number may run: a slot's key lets one of them through.

    `models`: the names of those that make vectors here; without one nothing is looked for. `planner`: the passes.
    """

    database: Database
    clock: Clock
    models: Collection[str] = ()
    planner: Planner | None = None
    clockwork: Clockwork = field(default_factory=Clockwork)

    async def run(self) -> None:
        """Tick until cancelled; the first tick comes at once."""
        ticks = AsyncIOScheduler(timezone="UTC")
        for call, every in ((self.tick, UPKEEP_EVERY), (self.look, INDEX_EVERY), (self.plan, PLAN_EVERY)):
            ticks.add_job(
                call,
                "interval",
                seconds=every.total_seconds(),
                coalesce=True,
                max_instances=1,
                misfire_grace_time=int(every.total_seconds()),
            )
        ticks.start()
        try:
            await self.tick()
            await self.plan()
            await asyncio.Event().wait()
        finally:
            ticks.shutdown(wait=False)

    async def tick(self) -> None:
        """Queue what is due; a store that is down is logged and asked again at the next tick."""
        slot = slot_of(self.clock.now(), UPKEEP_EVERY)
        await self._queue(lambda tx: jobs.enqueue(tx, [upkeep_job(slot)]))

    async def plan(self) -> None:
        """Begin the runs of passes that are due."""
        now, planner = self.clock.now(), self.planner
        if planner is None:
            return
        if not self.clockwork.believes(now, self.clock.monotonic()):
            log.warning("scheduler.clock_jumped")
            return
        await self._queue(lambda tx: planner.claim_due(tx, now))

    async def look(self) -> None:
        """Queue the indexing of what was said or changed since, and what waits for vectors."""
        await self._queue(self._queue_index)

    async def _queue_index(self, tx: Tx) -> None:
        await queue_indexing(tx)
        if self.models:
            await queue_reembedding(tx)
            await queue_embedding(tx, self.models)

    async def _queue(self, work: Callable[[Tx], Awaitable[object]]) -> None:
        try:
            async with self.database.transaction(durable=False) as tx:
                await work(tx)
        except BotError as exc:
            log.warning("scheduler.tick_failed", error=str(exc))


def slot_of(now: datetime, every: timedelta) -> datetime:
    """Return the start of the slot that holds `now`: slots of equal length, counted in UTC."""
    seconds = int(every.total_seconds())
    return now - timedelta(seconds=int(now.timestamp()) % seconds, microseconds=now.microsecond)


def upkeep_job(slot: datetime) -> NewJob:
    """Return the job of one slot of upkeep."""
    return NewJob(
        kind="upkeep",
        pool="upkeep",
        lane="upkeep",
        key=f"slot:upkeep/{slot:%Y-%m-%dT%H:%MZ}",
        scope=KeyScope.EVER,
        head_start_s=UPKEEP_HEAD_START_S,
        payload={"v": 1},
    )
