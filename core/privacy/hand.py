"""How privacy's work writes and speaks: under its job's claim or alone, and to one person in private."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from core.domain.ids import OutboxId, PersonId, RoomId
from core.jobs.executor import JobContext
from core.store.engine import Database, Tx

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Hand:
    """How an erasure writes. `ctx` None: nobody else works, because a backup is being restored."""

    database: Database
    ctx: JobContext | None = None

    async def do(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run `work` in a transaction of its own.

        Raises:
            ClaimLost: Another worker has the job; nothing was written.
        """
        async with self.database.transaction(long=True) as tx:
            if self.ctx is not None:
                await self.ctx.hold(tx)
            return await work(tx)


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """One line for one person alone, in a room where they were."""

    person_id: PersonId
    room_id: RoomId
    front_end: str
    text: str
    dedupe: str
    rule: str
    trace: str


Tell = Callable[[Tx, Telling], Awaitable[OutboxId | None]]
"""Queues a private message; None if it was queued before."""
