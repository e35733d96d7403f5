"""What the queue's tests share: a worker under test, kinds that record, and ways to wait."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from pydantic import BaseModel, ConfigDict

from core.domain.ids import JobId
from core.domain.jobs import Claim, GaveUp, NewJob, Ok, Outcome
from core.jobs.executor import AnyKind, JobContext, Kind
from core.jobs.worker import Worker
from core.store import jobs
from core.store.engine import Database, Row, Tx
from core.store.leases import Incarnation
from tests.fakes import ManualClock


class Nothing(BaseModel):
    """A payload without content."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    v: int = 1


Run = Callable[[JobContext, Nothing], Awaitable[Outcome]]


async def nothing_to_do(ctx: JobContext, payload: Nothing) -> Outcome:
    return Ok()


def kind(run: Run = nothing_to_do, name: str = "work", pool: str = "chat", **more: Any) -> AnyKind:
    return Kind(name=name, pool=pool, payload=Nothing, run=run, **more)


def job(lane: str = "lane", **more: Any) -> NewJob:
    return NewJob(**{"kind": "work", "lane": lane, "pool": "chat", **more})


async def no_words(tx: Tx, claim: Claim, why: GaveUp) -> None:
    """Nobody asked."""


def nothing_was_orphaned(name: str, value: float, labels: Mapping[str, str]) -> None:
    """Every worker under test fails as soon as a job is found that nothing points to."""
    assert name != "reconcile_found_total" or value == 0


def worker(database: Database, *kinds: AnyKind, pools: Mapping[str, int] | None = None, **more: Any) -> Worker:
    settings: dict[str, Any] = {
        "dead_after_s": 5.0,
        "drain_s": 5.0,
        "rest_s": 0.2,
        "on_give_up": no_words,
        "observe": nothing_was_orphaned,
        **more,
    }
    return Worker(
        database,
        {each.name: each for each in kinds or (kind(),)},
        pools or {"chat": 4},
        settings.pop("clock", None) or ManualClock(),
        **settings,
    )


@asynccontextmanager
async def at_work(*workers: Worker) -> AsyncIterator[None]:
    """Run workers for the time of a block, then drain them."""
    async with asyncio.TaskGroup() as group:
        for each in workers:
            group.create_task(each.run())
        try:
            yield
        finally:
            for each in workers:
                each.stop()


async def put(database: Database, *new: NewJob) -> list[JobId]:
    """Enqueue in one transaction; every key must be free."""
    async with database.transaction() as tx:
        ids = await jobs.enqueue(tx, new)
    assert None not in ids
    return [each for each in ids if each is not None]


async def fetch(database: Database, sql: str, *args: object) -> list[Row]:
    async with database.transaction() as tx:
        return await tx.fetch(sql, *args)


async def value(database: Database, sql: str, *args: object) -> Any:
    async with database.transaction() as tx:
        return await tx.fetchval(sql, *args)


async def state_of(database: Database, job_id: JobId) -> str | None:
    async with database.transaction() as tx:
        shown = await jobs.show(tx, job_id)
    return None if shown is None else shown.state.value


async def until(condition: Callable[[], Awaitable[bool]], within_s: float = 60.0) -> None:
    """Poll a condition until it holds; fail after the deadline."""
    async with asyncio.timeout(within_s):
        while not await condition():
            await asyncio.sleep(0.02)


async def until_state(database: Database, job_id: JobId, *states: str) -> None:
    async def reached() -> bool:
        return await state_of(database, job_id) in states

    await until(reached)


@asynccontextmanager
async def incarnation(database: Database) -> AsyncIterator[Incarnation]:
    """A registered incarnation that does only what the test says."""
    opened = await Incarnation.open(database, {"test": True}, None)
    try:
        yield opened
    finally:
        opened.close()


async def claim(opened: Incarnation, slots: int = 1, pool: str = "chat") -> list[Claim]:
    return list((await opened.cycle([], {pool: slots})).granted)
