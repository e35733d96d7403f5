"""One queue in a process of its own: a JSON line says what to do, a JSON line says what came of it.

Imported by both sides, ours and the peers', so it knows neither the product nor any library.
"""

import asyncio
import itertools
import json
import os
import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Job:
    """One job to be queued. `lane` None: no order is wanted. `payload`: `at`, `sleep`, see `Handler`."""

    lane: str | None
    community: int
    payload: Mapping[str, float]


class Handler:
    """What every job does: note how long it waited to start, then sleep if it is told to."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def __call__(self, payload: Mapping[str, Any]) -> None:
        """Run one job. `at`: the monotonic second when its enqueueing began, the same clock in all processes."""
        if "at" in payload:
            self.waits.append(time.monotonic() - payload["at"])
        if "sleep" in payload:
            await asyncio.sleep(payload["sleep"])


class Queue(Protocol):
    """A queue under test, through its public interface."""

    async def open(self, dsn: str, connections: int, lanes: int) -> None:
        """Connect; `lanes` is how many keys jobs may have, 0 for none."""
        ...

    async def enqueue(self, jobs: Sequence[Job]) -> None:
        """Queue jobs in one transaction and wait for its commit."""
        ...

    async def work(self, slots: int) -> None:
        """Run jobs until cancelled; `slots` 0: as many at once as suits this queue best."""
        ...


class Child:
    """Carries out the parent's requests, one after the other; a worker runs beside them."""

    def __init__(self, queue: Queue, handler: Handler) -> None:
        self._queue = queue
        self._handler = handler
        self._numbers = itertools.count()
        self._work: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Answer until the parent closes our input."""
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            try:
                answer: object = await self._do(**json.loads(line))
            except Exception as exc:
                answer = {"error": f"{type(exc).__name__}: {exc}"}
            print(json.dumps(answer), flush=True)

    async def _do(self, act: str, **given: Any) -> object:
        match act:
            case "open":
                await self._queue.open(**given)
            case "fill":
                await self._fill(**given)
            case "produce":
                return await self._produce(**given)
            case "tick":
                await self._tick(**given)
            case "work":
                self._work = asyncio.ensure_future(self._queue.work(**given))
            case "waits":
                if self._work is not None and self._work.done():
                    await self._work
                return self._handler.waits
            case _:
                raise ValueError(f"unknown act {act}")
        return None

    def _jobs(self, count: int, lanes: int, communities: int, **payload: float) -> list[Job]:
        """Return jobs spread evenly over lanes, and lanes over communities from 1."""
        made = []
        for number in itertools.islice(self._numbers, count):
            place = number % lanes if lanes else number
            lane = f"chat:{place}" if lanes else None
            made.append(Job(lane, 1 + place % communities, payload))
        return made

    async def _fill(self, count: int, lanes: int = 0, communities: int = 1, sleep: float | None = None) -> None:
        payload = {} if sleep is None else {"sleep": sleep}
        for done in range(0, count, 1000):
            await self._queue.enqueue(self._jobs(min(1000, count - done), lanes, communities, **payload))

    async def _produce(self, clients: int, batch: int, seconds: float) -> float:
        """Enqueue as fast as it goes; return the jobs per second that were acknowledged."""
        start = time.monotonic()

        async def client() -> int:
            count = 0
            while time.monotonic() < start + seconds:
                await self._queue.enqueue(self._jobs(batch, 0, 20))
                count += batch
            return count

        counts = await asyncio.gather(*(client() for _ in range(clients)))
        return sum(counts) / (time.monotonic() - start)

    async def _tick(self, count: int, gap: float, community: int) -> None:
        """Enqueue one job at a time, `gap` seconds apart on average."""
        for _ in range(count):
            await asyncio.sleep(gap * random.uniform(0.5, 1.5))
            await self._queue.enqueue([Job(None, community, {"at": time.monotonic(), "sleep": 0.0})])


def private_lane(numbers: "itertools.count[int]") -> str:
    """Return a lane that no other job has, in any process."""
    return f"job:{os.getpid()}:{next(numbers)}"
