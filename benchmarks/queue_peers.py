"""The peers under test, through their public interfaces; runs in their environment, not in ours.

Each gets what suits it best of what its documentation offers: see the constants.
"""

import asyncio
import json
import logging
import sys
from collections.abc import Sequence

import asyncpg
import procrastinate
import uvloop  # type: ignore[import-not-found]  # theirs alone
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job as PgJob
from pgqueuer.queries import Queries

from benchmarks.queue_child import Child, Handler, Job

# It fetches one job a statement; from 5 to 40 at once its throughput is level.
PROCRASTINATE_CONCURRENCY = 20
# Its default of 10 gives less than half of this; 200 is level with it.
PGQUEUER_BATCH = 100
# With a bound of jobs at once a batch may be half of it.
PGQUEUER_SHARE = 2


class Procrastinate:
    """Procrastinate with its psycopg connector; a lane is its `lock`."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    async def open(self, dsn: str, connections: int, lanes: int) -> None:
        """Connect, and make the schema where it is missing."""
        del lanes  # a lock needs no announcement
        connector = procrastinate.PsycopgConnector(conninfo=dsn, min_size=connections, max_size=connections)
        self._app = procrastinate.App(connector=connector)

        @self._app.task(name="bench")  # type: ignore[untyped-decorator]  # no types are seen outside its environment
        async def bench(**payload: float) -> None:
            await self._handler(payload)

        self._task = bench
        await self._app.open_async()
        if not await self._app.check_connection_async():
            await self._app.schema_manager.apply_schema_async()

    async def enqueue(self, jobs: Sequence[Job]) -> None:
        """Defer jobs: in bulk through its manager, because each has its own lock."""
        if len(jobs) == 1:
            job = jobs[0]
            await self._task.configure(lock=job.lane).defer_async(**job.payload)
            return
        made = [self._task.configure(lock=job.lane).make_new_job(**job.payload) for job in jobs]
        await self._app.job_manager.batch_defer_jobs_async(made)

    async def work(self, slots: int) -> None:
        """Run jobs until cancelled."""
        await self._app.run_worker_async(concurrency=slots or PROCRASTINATE_CONCURRENCY, install_signal_handlers=False)


class PgQueuer_:
    """PgQueuer with its asyncpg pool driver; a lane is an entrypoint of its own that runs one job at a time."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._lanes: list[str] = []

    async def open(self, dsn: str, connections: int, lanes: int) -> None:
        """Connect, and make the schema where it is missing."""
        self._lanes = [f"chat:{n}" for n in range(lanes)]
        self._pool = await asyncpg.create_pool(dsn, min_size=connections, max_size=connections + 1)
        self._queries = Queries(AsyncpgPoolDriver(self._pool))
        if not await self._queries.schema_is_installed():
            await self._queries.install()

    async def enqueue(self, jobs: Sequence[Job]) -> None:
        """Enqueue jobs by its list form."""
        names = [job.lane or "bench" for job in jobs]
        await self._queries.enqueue(names, [json.dumps(job.payload).encode() for job in jobs], [0] * len(jobs))

    async def work(self, slots: int) -> None:
        """Run jobs until cancelled."""
        manager = PgQueuer(AsyncpgPoolDriver(self._pool))

        async def run(job: PgJob) -> None:
            await self._handler(json.loads(job.payload or b"{}"))

        for name in self._lanes:
            manager.entrypoint(name, concurrency_limit=1)(run)
        manager.entrypoint("bench")(run)
        if slots:
            await manager.run(batch_size=slots // PGQUEUER_SHARE, max_concurrent_tasks=slots)
        else:
            await manager.run(batch_size=PGQUEUER_BATCH)


def main() -> None:
    """Serve the parent as the peer named by the argument; PgQueuer on uvloop, as its own command runs it."""
    logging.getLogger("procrastinate").setLevel(logging.ERROR)  # it wonders that we are the main module
    handler = Handler()
    if sys.argv[1] == "procrastinate":
        asyncio.run(Child(Procrastinate(handler), handler).serve())
    else:
        uvloop.run(Child(PgQueuer_(handler), handler).serve())


if __name__ == "__main__":
    main()
