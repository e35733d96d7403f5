"""Our queue under test: `Worker`, `jobs.enqueue` and the notifier, as the product runs them."""

import asyncio
import itertools
import logging
from collections.abc import Sequence

import structlog
from pydantic import BaseModel

from benchmarks.queue_child import Child, Handler, Job, private_lane
from bot.clock import SystemClock
from core.domain.jobs import MOST_SLOTS, Claim, GaveUp, NewJob, Ok, Outcome
from core.jobs.executor import JobContext, Kind
from core.jobs.notifier import Notifier
from core.jobs.worker import Worker
from core.store import jobs
from core.store.engine import Database, Tx


class Payload(BaseModel, extra="forbid", frozen=True):
    """What a job is told; see `Handler`."""

    at: float | None = None
    sleep: float | None = None


class Ours:
    """VoidBot's queue. A job without a lane gets a private one, which is our worst case; fairness stays on."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._numbers = itertools.count()
        self._notifying: asyncio.Task[None] | None = None
        self._kind = Kind(name="bench", pool="bench", payload=Payload, run=self._run)

    async def open(self, dsn: str, connections: int, lanes: int) -> None:
        """Connect; commits of this process are told to workers as in the product."""
        del lanes  # a lane needs no announcement
        self._database = await Database.open(dsn, size=connections)
        notifier = Notifier(self._database)
        self._database.on_wake(notifier.wake)
        self._notifying = asyncio.ensure_future(notifier.run())

    async def enqueue(self, jobs_: Sequence[Job]) -> None:
        """Queue jobs in a transaction of their own."""
        new = [
            NewJob(
                kind="bench",
                pool="bench",
                lane=job.lane or private_lane(self._numbers),
                community_id=job.community,
                payload=job.payload,
            )
            for job in jobs_
        ]
        async with self._database.transaction() as tx:
            await jobs.enqueue(tx, new)

    async def work(self, slots: int) -> None:
        """Run jobs until cancelled; at most 96 at once."""
        if self._notifying is not None:
            self._notifying.cancel()  # the worker brings its own
        await Worker(
            self._database,
            {"bench": self._kind},
            {"bench": slots or MOST_SLOTS},
            SystemClock(),
            on_give_up=_say_nothing,
        ).run()

    async def _run(self, ctx: JobContext, payload: Payload) -> Outcome:
        await self._handler(payload.model_dump(exclude_none=True))
        return Ok()


async def _say_nothing(tx: Tx, claim: Claim, why: GaveUp) -> None:
    """Owe nobody a word."""


def main() -> None:
    """Serve the parent; logs at WARNING, as the peers' default is."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    handler = Handler()
    asyncio.run(Child(Ours(handler), handler).serve())


if __name__ == "__main__":
    main()
