"""Ticks to slots: a library says when, the queue's keys say that each slot is taken once by whoever comes first."""

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from core.domain.errors import BotError
from core.domain.jobs import UPKEEP_HEAD_START_S, KeyScope, NewJob
from core.ports import Clock
from core.store import jobs
from core.store.engine import Database

log = structlog.get_logger()

UPKEEP_EVERY = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Scheduler:
    """Queues unattended work. Any number may run: a slot's key lets one of them through."""

    database: Database
    clock: Clock

    async def run(self) -> None:
        """Tick until cancelled; the first tick comes at once."""
        ticks = AsyncIOScheduler(timezone="UTC")
        ticks.add_job(
            self.tick,
            "interval",
            seconds=UPKEEP_EVERY.total_seconds(),
            coalesce=True,
            max_instances=1,
            misfire_grace_time=int(UPKEEP_EVERY.total_seconds()),
        )
        ticks.start()
        try:
            await self.tick()
            await asyncio.Event().wait()
        finally:
            ticks.shutdown(wait=False)

    async def tick(self) -> None:
        """Queue what is due; a store that is down is logged and asked again at the next tick."""
        slot = slot_of(self.clock.now(), UPKEEP_EVERY)
        try:
            async with self.database.transaction(durable=False) as tx:
                await jobs.enqueue(tx, [upkeep_job(slot)])
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
