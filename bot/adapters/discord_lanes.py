"""Work in lanes: in order within a room, rooms beside each other, and nothing is lost while the store is down."""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from core.domain.errors import BotError, Conflict, Unavailable

AGAIN_S = 0.2
"""The first wait before work is tried again that found the store down or lost to other work; it doubles."""
AGAIN_LIMIT_S = 5.0
WAITING_LIMIT = 50_000
"""How much work may wait in all; what comes on top is dropped and counted."""
_LOG = logging.getLogger(__name__)

_PASSING = (Unavailable, Conflict)
"""What may be gone the next time: no store, or other work that won and had ours rolled back."""

Work = Callable[[], Awaitable[object]]


class Lanes:
    """Runs work in order within each lane. `counts`: what was dropped or failed, by reason."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._lanes: dict[str, deque[Work]] = {}
        self._waiting = 0
        self._tasks = asyncio.TaskGroup()
        self._closed = False

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        await self._tasks.__aexit__(kind, error, trace)

    def put(self, lane: str, work: Work) -> bool:
        """Add work to the end of a lane; False if it is dropped: there is too much, or we stop."""
        if self._closed or self._waiting >= WAITING_LIMIT:
            self.counts["dropped"] += 1
            return False
        self._waiting += 1
        queue = self._lanes.get(lane)
        if queue is None:
            queue = self._lanes[lane] = deque()
            self._tasks.create_task(self._run(lane, queue))
        queue.append(work)
        return True

    async def through(self, lane: str, work: Work) -> None:
        """Add work to the end of a lane and wait until it is done; what is dropped is not waited for."""
        done = asyncio.Event()

        async def told() -> None:
            try:
                await work()
            except _PASSING:
                raise  # it is done again
            except BaseException:
                done.set()
                raise
            done.set()

        if self.put(lane, told):
            await done.wait()

    def aside(self, work: Work) -> None:
        """Do work at once, beside all lanes; what it raises is logged and left."""
        if not self._closed:
            self._tasks.create_task(self._do(work))

    async def _run(self, lane: str, queue: deque[Work]) -> None:
        while queue:
            await self._do(queue.popleft())
            self._waiting -= 1
        del self._lanes[lane]

    async def _do(self, work: Work) -> None:
        """Do one thing until it neither finds the store down nor loses; whatever else fails is logged and left."""
        again_s = AGAIN_S
        while True:
            try:
                await work()
                return
            except _PASSING as exc:
                self.counts["conflict" if isinstance(exc, Conflict) else "store_down"] += 1
                await asyncio.sleep(again_s)
                again_s = min(AGAIN_LIMIT_S, again_s * 2)
            except BotError as exc:
                self.counts["refused"] += 1
                _LOG.warning("discord: an event was refused: %s", exc.message)
                return
            except Exception:  # noqa: BLE001  # one bad event must not end the conversation
                self.counts["failed"] += 1
                _LOG.exception("discord: an event could not be handled")
                return
