"""From messages to units: the `index` job of a room makes what the search looks through.

A message waits in its `index_state` from the transaction that stored it; whoever changes words sets it again. The
scheduler looks for rooms in which something waits and queues their job; a neighbour's unit is made anew with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Literal

from pydantic import BaseModel, ConfigDict

from core.domain.ids import RoomId
from core.domain.jobs import UPKEEP_HEAD_START_S, KeyScope, NewJob, Ok, Outcome, index_lane
from core.domain.units import NEIGHBOURS, Around, Spoken, Unit, build_units
from core.jobs.executor import JobContext, Observe
from core.ports import Clock
from core.store import jobs, units
from core.store.engine import Database, Tx
from core.store.units import WINDOW, RoomToIndex, Waiting

ROOMS_AT_ONCE = 50
RUN_FOR = timedelta(seconds=20)
"""How long one run goes on; what is left waits for the next, so that no import keeps other rooms from theirs."""


class IndexWork(BaseModel):
    """The room whose messages wait."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    v: Literal[1] = 1
    room_id: int


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did. `more`: others wait still."""

    written: int = 0
    gone: int = 0
    more: bool = False


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
            step = await ctx.advance(partial(index_step, room=room), durable=False)
            self.observe("units_written_total", step.written, {})
        if not step.more:
            async with self.database.transaction(durable=False, long=True) as tx:
                await ctx.hold(tx)
                await count_words_if_due(tx, room)
        return Ok()


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


async def index_all(tx: Tx) -> int:
    """Index everything that waits, in this transaction: for little, like the sample; return how many units it wrote."""
    written = 0
    for room in await units.rooms_waiting(tx, ROOMS_AT_ONCE):
        step = Step(more=True)
        while step.more:
            step = await index_step(tx, room)
            written += step.written
        await count_words_if_due(tx, room)
    return written


async def count_words_if_due(tx: Tx, room: RoomToIndex) -> None:
    """Count the community's words anew if it has grown much since."""
    if await units.stats_are_old(tx, room.community_id):
        await units.count_words(tx, room.community_id)


async def index_step(tx: Tx, room: RoomToIndex) -> Step:
    """Make the units of the room's first messages that wait, and of those around them."""
    window = await units.read_window(tx, room.room_id)
    if not window:
        return Step()
    # The last of a full window have neighbours that were not read; they begin the next one.
    whole = len(window) < WINDOW
    ready = window if whole else window[:-NEIGHBOURS]
    due = _due(ready)
    parents = await _parents(tx, room.room_id, window, due)
    made: list[Unit] = []
    for index in due:
        made.extend(build_units(window[index].spoken, _around(window, index, parents)))
    done = [window[index].spoken.id for index in due]
    written, gone = await units.write_units(tx, room, done, made)
    await units.queue_replies(tx, room.room_id, [each.ref.removeprefix("own:") for each in ready if each.changed])
    return Step(written, gone, more=True)


def _due(window: Sequence[Waiting]) -> list[int]:
    """Return which units to make: of what waits, and of the neighbours of what has changed."""
    due: set[int] = set()
    for index, each in enumerate(window):
        if each.changed:
            due.update(range(max(0, index - NEIGHBOURS), min(len(window), index + NEIGHBOURS + 1)))
        elif each.waits:
            due.add(index)
    return sorted(due)


async def _parents(tx: Tx, room_id: RoomId, window: Sequence[Waiting], due: Sequence[int]) -> dict[str, Spoken]:
    known = {each.ref.removeprefix("own:"): each.spoken for each in window}
    wanted = {reply for index in due if (reply := window[index].reply_to) is not None}
    missing = sorted(wanted - known.keys())
    return known | await units.read_parents(tx, room_id, missing)


def _around(window: Sequence[Waiting], index: int, parents: dict[str, Spoken]) -> Around:
    reply_to = window[index].reply_to
    return Around(
        before=[each.spoken for each in reversed(window[max(0, index - NEIGHBOURS) : index])],
        after=[each.spoken for each in window[index + 1 : index + 1 + NEIGHBOURS]],
        parent=None if reply_to is None else parents.get(reply_to),
    )
