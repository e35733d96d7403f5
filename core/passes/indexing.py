"""The job that keeps the index: units of what was said or changed.

The scheduler looks for rooms for which something waits and queues their job; it works in steps that commit, and
leaves what is left after a while to the next, so that no import keeps other rooms from theirs.
"""

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Literal

from pydantic import BaseModel, ConfigDict

from core.domain.ids import RoomId
from core.domain.jobs import UPKEEP_HEAD_START_S, KeyScope, NewJob, Ok, Outcome, index_lane
from core.jobs.executor import JobContext, Observe
from core.passes.retracting import queue_retractions
from core.ports import Clock
from core.retrieval.indexing import ROOMS_AT_ONCE, Step, count_words_if_due, index_step
from core.store import jobs, units
from core.store.engine import Database, Tx
from core.store.units import RoomToIndex

RUN_FOR = timedelta(seconds=20)
"""How long one run goes on."""


class IndexWork(BaseModel):
    """The room whose messages wait."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    v: Literal[1] = 1
    room_id: int


@dataclass(frozen=True, slots=True)
class Indexing:
    """The `index` job."""

    database: Database
    clock: Clock
    observe: Observe

    async def run(self, ctx: JobContext, work: IndexWork) -> Outcome:
        """Make the units of what waits in one room, in steps that each commit."""
        async with self.database.transaction(durable=False) as tx:
            room = await units.find_room(tx, RoomId(work.room_id))
        if room is None:
            return Ok()
        started = self.clock.monotonic()
        step = Step(more=True)
        while step.more and not ctx.cancelled and self.clock.monotonic() - started < RUN_FOR.total_seconds():
            step = await ctx.advance(partial(_take_in, room=room), durable=False)
            self.observe("units_written_total", step.written, {})
        if not step.more:
            async with self.database.transaction(durable=False, long=True) as tx:
                await ctx.hold(tx)
                await count_words_if_due(tx, room)
        return Ok()


async def _take_in(tx: Tx, room: RoomToIndex) -> Step:
    """Index some messages, and have minds take back what they made of those that are gone or say something else."""
    step = await index_step(tx, room)
    await queue_retractions(tx, step.changed)
    return step


async def queue_indexing(tx: Tx) -> int:
    """Queue the job of each room in which messages wait; return how many rooms there were."""
    rooms = await units.rooms_waiting(tx, ROOMS_AT_ONCE)
    if rooms:
        await jobs.enqueue(tx, [index_job(room) for room in rooms])
    return len(rooms)


def index_job(room: RoomToIndex) -> NewJob:
    """Return the job that indexes what waits in a room; one at a time."""
    return NewJob(
        kind="index",
        pool="upkeep",
        lane=index_lane(room.room_id),
        payload=IndexWork(room_id=room.room_id).model_dump(mode="json"),
        community_id=room.community_id,
        room_id=room.room_id,
        key=f"index:{room.room_id}",
        scope=KeyScope.LIVE,
        head_start_s=UPKEEP_HEAD_START_S,
    )
