"""From messages to units: one step makes what the search looks through of the messages that wait in a room.

A message waits in its `index_state` from the transaction that stored it; whoever changes words sets it again. A
neighbour's unit is made anew with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from core.domain.ids import MessageId, RoomId
from core.domain.units import NEIGHBOURS, Around, Spoken, Unit, build_units
from core.store import units
from core.store.engine import Tx
from core.store.units import WINDOW, RoomToIndex, Waiting

ROOMS_AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did. `changed`: messages that are new, edited or gone. `more`: others may wait still."""

    written: int = 0
    gone: int = 0
    more: bool = False
    changed: tuple[MessageId, ...] = ()


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
    """Count the room's words anew if it has grown much since."""
    if await units.stats_are_old(tx, room.room_id):
        await units.count_words(tx, room.room_id)


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
    return Step(written, gone, more=True, changed=tuple(each.spoken.id for each in ready if each.changed))


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
