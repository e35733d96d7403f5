"""How a pass reads rooms page by page: a page that fails is halved, one message that keeps failing is set aside."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import structlog

from core.domain.ids import MessageId, RoomId
from core.domain.mind.bodies import Consumer
from core.domain.mind.codes import Rejected
from core.domain.mind.facts import Actor, Emitter
from core.domain.operations.base import Operation
from core.domain.operations.batch import Batch, Item, Mode
from core.domain.operations.obligations import RecordReviewedMessages
from core.domain.passes import Run
from core.state.service import StateService
from core.store import passes, reading
from core.store.engine import Tx
from core.store.passes import WindowTry
from core.store.reading import Heard

log = structlog.get_logger()

MOST_FAILURES = 3
"""How often a single message is tried before it is set aside."""
Place = tuple[int, int, int]
"""A room, a message and its revision, as an artifact keeps them."""


@dataclass(frozen=True, slots=True)
class Paging:
    """Pages of one consumer. `minds`: where its cursors stand."""

    minds: StateService
    consumer: Consumer

    async def turn(self, tx: Tx, run: Run, rooms: Sequence[RoomId]) -> list[Heard]:
        """Return the next page. What failed before is read in smaller pieces; what cannot be read is set aside."""
        page = await reading.list_window(tx, run.mind_id, self.consumer, rooms)
        while page:
            first = page[0]
            tried = await passes.find_window(tx, self.consumer, first.room_id)
            if tried is None or tried.first_id != first.id:
                return page
            if tried.size > 1 or tried.attempts < MOST_FAILURES:
                return page[: tried.size]
            if not run.writes:
                return page[1:]
            await self._set_aside(tx, run, first)
            page = await reading.list_window(tx, run.mind_id, self.consumer, rooms)
        return page

    async def failed(self, tx: Tx, run: Run, page: Sequence[Place]) -> None:
        """Note that an answer to these messages could not be used: next time half of them are read."""
        if not page or not run.writes:
            return
        room, first = RoomId(page[0][0]), MessageId(page[0][1])
        before = await passes.find_window(tx, self.consumer, room)
        alone = 0
        if len(page) == 1:
            alone = 1 + (before.attempts if before is not None and before.first_id == first else 0)
        await passes.save_window(tx, self.consumer, room, WindowTry(first, alone, max(1, len(page) // 2)))

    async def passed(
        self, tx: Tx, run: Run, page: Sequence[Place], also: Iterable[Operation], what: str = "record"
    ) -> Rejected | None:
        """Move the cursors behind what was read, and apply `also`: all or none. Returns why nothing was.

        `what`: names this among the times that a run does so.

        What was deleted meanwhile with its row leaves no place; the cursor stands behind the last one that has.
        """
        there = await reading.list_there(tx, [MessageId(id_) for _, id_, _ in page])
        last: dict[int, Place] = {}
        read: Counter[int] = Counter(room for room, _, _ in page)
        for room, id_, revision in page:
            if (MessageId(id_), revision) in there:
                last[room] = (room, id_, revision)
        cursors = [
            RecordReviewedMessages(
                consumer=self.consumer,
                room_id=room,
                last_reviewed_message_id=id_,
                last_reviewed_timestamp=there[MessageId(id_), revision],
                last_reviewed_revision=revision,
                reviewed=read[room],
            )
            for room, id_, revision in last.values()
        ]
        refused = await self._apply(tx, run, what, [*cursors, *also])
        if refused is None and page:
            await passes.forget_windows(tx, self.consumer, {room for room, _, _ in page})
        return refused

    async def _set_aside(self, tx: Tx, run: Run, heard: Heard) -> None:
        log.error("pass.message_set_aside", run=run.id, name=run.name.value, room=heard.room_id, message=heard.id)
        past = RecordReviewedMessages(
            consumer=self.consumer,
            room_id=heard.room_id,
            last_reviewed_message_id=heard.id,
            last_reviewed_timestamp=heard.sent_at,
            last_reviewed_revision=heard.revision,
            quarantined=(heard.id,),
        )
        refused = await self._apply(tx, run, f"aside:{heard.id}", [past])
        if refused is not None:
            raise AssertionError(f"a message just read cannot be passed: {refused.code.value}")
        await passes.forget_windows(tx, self.consumer, [heard.room_id])

    async def _apply(self, tx: Tx, run: Run, what: str, operations: Sequence[Operation]) -> Rejected | None:
        items = tuple(Item(each, f"run:{run.id}:{what}:{n}") for n, each in enumerate(operations))
        actor = Actor(Emitter.PARENT, run.name.value, run_id=run.id)
        verdict = await self.minds.apply(tx, Batch(mind_id=run.mind_id, actor=actor, items=items, mode=Mode.ALL))
        return next((each.verdict for each in verdict.items if isinstance(each.verdict, Rejected)), None)
