"""The visible beginning of an answer while its rest is still coming: one message, edited, never doubled.

Its outbox row and first part are committed before the platform is called (an early TX F, durable everywhere),
so a retry after a crash finds that message and edits it. The final edit belongs to the `send` job.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from core.chat.answers import Asked
from core.chat.basis import are_told, file_refs
from core.chat.deliver import public_text
from core.domain.ids import OutboxId
from core.domain.rooms import Room
from core.domain.speech import Draft, OutboxState, ReceiptSource, SpeechKind
from core.jobs.executor import Fault, JobContext
from core.ports import Ambiguous, Clock, Delivered, FrontEnd, OutgoingPart, RetryAfter, SendRefused, Unsent
from core.store import inbox, outbox
from core.store.access import ReadableRooms
from core.store.engine import Tx
from core.store.inbox import TurnRow
from core.store.outbox import PartRow


class Stage:
    """Shows words of one answer. `shown` is what people have seen; `open` says whether more may be shown."""

    def __init__(
        self,
        ctx: JobContext,
        front_end: FrontEnd | None,
        clock: Clock,
        readable: ReadableRooms,
        *,
        room: Room,
        asked: Asked,
        turn: TurnRow,
        private_to: str | None,
        fault: Fault = lambda point: None,
    ) -> None:
        self.shown = ""
        self.open = front_end is not None and front_end.stream_every_s is not None
        self._ctx, self._front_end, self._clock, self._readable = ctx, front_end, clock, readable
        self._room, self._asked, self._turn = room, asked, turn
        self._private_to, self._fault = private_to, fault
        self._part: OutgoingPart | None = None
        self._external_id: str | None = None
        self._shown_at = 0.0

    async def show(self, text: str, sources: Sequence[ReceiptSource]) -> None:
        """Show `text`, a guarded beginning of the answer, unless something was shown a moment ago."""
        front_end = self._front_end
        if not self.open or front_end is None or front_end.stream_every_s is None:
            return
        now = self._clock.monotonic()
        if self._external_id is not None and now - self._shown_at < front_end.stream_every_s:
            return
        first, *more = front_end.split(text)
        if more:  # the rest comes with the final text, in parts of its own
            self.open = False
        self._shown_at = now
        if self._external_id is None:
            await self._begin(front_end, first, sources)
        elif self._part is not None and first != self.shown:
            await self._edit(front_end, self._part, first)

    async def _begin(self, front_end: FrontEnd, text: str, sources: Sequence[ReceiptSource]) -> None:
        part = await self._ctx.advance(lambda tx: self._claim(tx, front_end, text, sources))
        self._fault("early F.committed")
        if part is None:
            self.open = False
            return
        self._part = part
        if self._external_id is not None:  # shown by an attempt that died
            await self._edit(front_end, part, text)
            return
        result = await front_end.send(part)
        outbox_id = OutboxId(part.outbox_id)
        match result:
            case Delivered(external_id):
                self.shown, self._external_id = text, external_id
                await self._ctx.advance(
                    lambda tx: outbox.set_part(tx, outbox_id, 1, OutboxState.SENT, external_id=external_id)
                )
                self._fault("early G.committed")
            case RetryAfter() | Unsent() | SendRefused():  # certainly not there
                self.open = False
                await self._ctx.advance(lambda tx: outbox.set_part(tx, outbox_id, 1, OutboxState.READY))
            case Ambiguous():
                self.open = False  # the part stays `sending`: the send job finds out what became of it
            case _:
                assert_never(result)

    async def _claim(
        self, tx: Tx, front_end: FrontEnd, text: str, sources: Sequence[ReceiptSource]
    ) -> OutgoingPart | None:
        """Look at turn and audience now, and write down that the first part is being sent; None: show nothing."""
        asked, turn = self._asked, await inbox.load_turn(tx, self._turn.id)
        if turn.state != "running" or turn.version != self._turn.version:
            return None  # deleted, or asked anew: TX E will not take this answer
        private_to = asked.person_id if turn.private else None
        rooms = frozenset({self._room.id}).union(*(source.audience for source in sources))
        where = (asked.community_id, self._room.id, private_to)
        if not await self._readable.allow(tx, *where, rooms):
            return None
        if not await are_told(tx, self._readable, *where, file_refs(sources)):
            return None
        dedupe = f"reply:{turn.id}"
        begun = await outbox.find(tx, dedupe)
        if begun is None:
            draft = Draft(
                kind=SpeechKind.REPLY,
                room_id=self._room.id,
                front_end=asked.front_end,
                reply_to=asked.reply_to,
                text=text,
                audience=rooms,
                dedupe=dedupe,
                private_to=private_to,
            )
            outbox_id = await outbox.add(
                tx, draft, community_id=asked.community_id, trace=asked.trace, asked_at=asked.at,
                state=OutboxState.SENDING,
            )  # fmt: skip
            if outbox_id is None:
                return None
            await outbox.set_parts(tx, outbox_id, [text])
            await inbox.mark_shown(tx, turn.id)
        else:
            outbox_id = begun.id
        part = (await outbox.list_parts(tx, outbox_id))[0]
        if begun is not None and self._in_doubt(front_end, part):
            return None  # perhaps shown by an attempt that died: the send job looks before it sends again
        self._external_id = part.external_id
        if part.external_id is None:
            await outbox.begin_part(tx, outbox_id, 1, self._ctx.attempt)
        self._fault("early F.written")
        return OutgoingPart(
            room=self._room.key,
            text=public_text(text),
            nonce=part.nonce,
            reply_to=asked.reply_to,
            private_to=self._private_to,
            plain=False,
            outbox_id=outbox_id,
            n=1,
            answer_token=turn.answer_token,
            final=False,
        )

    def _in_doubt(self, front_end: FrontEnd, part: PartRow) -> bool:
        if part.external_id is not None or part.state is OutboxState.READY:
            return False
        window, began = front_end.nonce_window, part.first_attempt_at
        return window is None or began is None or self._clock.now() - began > window

    async def _edit(self, front_end: FrontEnd, part: OutgoingPart, text: str) -> None:
        if self._external_id is None:
            return
        result = await front_end.edit(self._external_id, replace(part, text=public_text(text)))
        if isinstance(result, Delivered):
            self.shown = text
        else:
            self.open = False  # the final edit is tried by the send job, with its patience
