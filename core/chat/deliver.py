"""The `send` job: audience now, public text, split, first part `sending` (TX F); the platform; receipt (TX G).

The only module that makes `PublicText`. A part that was begun under an older attempt is the ambiguous case:
the platform folds its nonce, or its history is looked at, or it is `unknown` and never resent by itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import assert_never
from zoneinfo import ZoneInfo

from core.chat import choosing
from core.chat.basis import are_told
from core.chat.notices import Notices
from core.chat.receipting import receipt_jobs
from core.chat.work import SendWork, turn_job
from core.domain.archiving import ROOMS_ALONE, ArchivePolicy, Keep, archive_decision
from core.domain.ids import OutboxId, TurnId
from core.domain.jobs import Discard, Ok, Outcome, Retry, Snooze
from core.domain.rooms import Room, RoomKind, RoomMode, RoomState
from core.domain.speech import OutboxState, PublicText, SilenceReason, SpeechKind
from core.jobs.executor import Fault, JobContext, Observe
from core.ports import Ambiguous, Clock, Delivered, FrontEnd, OutgoingPart, RetryAfter, SendRefused, SendResult, Unsent
from core.prompt.stock import StockKey
from core.store import archive, basis, inbox, jobs, outbox, passes, people, places, state
from core.store.access import ReadableRooms
from core.store.engine import Tx
from core.store.outbox import OutboxRow, PartRow
from core.store.places import Place

LATE_AFTER = timedelta(minutes=15)
"""A reply that comes later names the question it answers."""
CALLS_AFTER = timedelta(minutes=5)
"""A reply that comes later may call its asker by name."""
TOO_OLD_AFTER = timedelta(hours=6)
"""A reply that could not be sent for so long is dropped."""
UNASKED_TOO_OLD_AFTER = timedelta(minutes=15)
"""What nobody has asked for and could not be said for so long is dropped."""
LATE_QUOTE_CHARS = 80
OWN_REF = "bot:self"
"""Our account in the archive, in a form that no platform gives to a person."""
_REBUILT = frozenset({SilenceReason.GUARD_BLOCKED, SilenceReason.SOURCE_VOIDED})
"""An answer stopped for one of these is made once more, from what may still be used."""
AGAIN_AFTER_S = 0.5
"""Between two tries of a part whose fate is not known, where a further try is safe."""


def public_text(text: str) -> PublicText:
    """Return guarded text as the one type that an adapter can send."""
    return PublicText(text)


@dataclass(frozen=True, slots=True)
class _NoProof:
    """It may have arrived, and nothing can tell."""

    reason: str


@dataclass(frozen=True, slots=True)
class _Send:
    """One step towards the platform: this part, in this form."""

    row: OutboxRow
    part: PartRow
    outgoing: OutgoingPart
    edit_of: str | None
    asked_before: bool  # begun under an older attempt, result not known


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliverer:
    """What delivery needs. `front_ends`: those whose connection this process owns. `fault`: for crash tests.

    `policy`: what the operator lets be archived.
    """

    front_ends: Mapping[str, FrontEnd]
    clock: Clock
    readable: ReadableRooms
    notices: Notices
    policy: ArchivePolicy = ROOMS_ALONE
    observe: Observe = lambda name, value, labels: None
    fault: Fault = lambda point: None

    async def run(self, ctx: JobContext, work: SendWork) -> Outcome:
        """Send one answer, part by part, each part at most once."""
        outbox_id = OutboxId(work.outbox_id)
        step = await ctx.advance(lambda tx: self._begin(tx, ctx, outbox_id), durable=self._waits_for_disk(ctx))
        self.fault("F.committed")
        while isinstance(step, _Send):
            front_end = self.front_ends[step.row.front_end]
            began = self.clock.monotonic()
            result = await self._call(front_end, step)
            self._measure(front_end.name, result, self.clock.monotonic() - began)
            record = partial(self._record, ctx=ctx, send=step, result=result)
            step = await ctx.advance(record, durable=front_end.nonce_window is None)
            self.fault("G.committed")
        return step

    def _measure(self, platform: str, result: SendResult | _NoProof, seconds: float) -> None:
        self.observe("send_seconds", seconds, {"platform": platform})
        self.observe("outbox_total", 1, {"platform": platform, "state": type(result).__name__.lstrip("_").lower()})
        if isinstance(result, RetryAfter):
            self.observe("ratelimit_total", 1, {"platform": platform})

    def _waits_for_disk(self, ctx: JobContext) -> bool:
        front_end = self.front_ends[ctx.job.pool.partition("/")[2]]
        return front_end.nonce_window is None

    async def _begin(self, tx: Tx, ctx: JobContext, outbox_id: OutboxId) -> "_Send | Outcome":
        """TX F: look at everything again, make the parts the first time, mark the next one as being sent."""
        row = await outbox.load(tx, outbox_id)
        if row is None or row.state not in (OutboxState.READY, OutboxState.SENDING):
            return Ok()
        parts = await outbox.list_parts(tx, outbox_id)
        place = await places.load_place(tx, row.room_id)
        room = place.room
        reason = await self._refusal(tx, row, place)
        if reason is not None and not any(map(_begun, parts)):
            return await self._drop(tx, row, reason)
        if any(map(_through, parts)):
            kept, made = len(parts) if reason is None else 0, parts
        else:
            body = row.body
            if reason is not None:  # words were shown, or may have been; what rests on a closed room is taken back
                body = self.notices.voice.say(room.language, StockKey.REPLY_CUT_SHORT, room.id)
            texts = await self._split(tx, row, room, body)
            made = await outbox.set_parts(tx, outbox_id, texts)
            kept = len(texts)
        await self._withdraw(tx, outbox_id, parts[kept:])
        if parts:  # some were withdrawn, or were begun before
            made = await outbox.list_parts(tx, outbox_id)
        step = await self._next(tx, ctx, row, room, made)
        self.fault("F.written")
        return step

    async def _withdraw(self, tx: Tx, outbox_id: OutboxId, parts: Sequence[PartRow]) -> None:
        """Take back what is not to be said any more; what may have arrived is never tried again."""
        for part in parts:
            if not _begun(part):
                await outbox.set_part(tx, outbox_id, part.n, OutboxState.DROPPED)
            elif part.state is OutboxState.SENDING:
                await outbox.set_part(tx, outbox_id, part.n, OutboxState.UNKNOWN, error="withdrawn")

    async def _split(self, tx: Tx, row: OutboxRow, room: Room, text: str) -> Sequence[str]:
        late = row.asked_at is not None and self.clock.now() - row.asked_at > LATE_AFTER
        turn_id = _turn_of(row)
        if late and turn_id is not None and row.kind is SpeechKind.REPLY:
            turn = await inbox.load_turn(tx, turn_id)
            asked = " ".join(turn.text.split())
            question = asked if len(asked) <= LATE_QUOTE_CHARS else f"{asked[:LATE_QUOTE_CHARS]}…"
            head = self.notices.voice.say(room.language, StockKey.REPLY_LATE, room.id, question=question)
            text = f"{head}\n\n{text}"
        return self.front_ends[row.front_end].split(text)

    async def _refusal(self, tx: Tx, row: OutboxRow, place: Place) -> SilenceReason | None:
        """Return why an answer that nobody has seen may not be said any more."""
        room = place.room
        if room.state is not RoomState.ACTIVE:
            return SilenceReason.ROOM_GONE
        if self.clock.now() - (row.asked_at or row.created_at) > TOO_OLD_AFTER:
            return SilenceReason.TOO_OLD
        if row.kind in (SpeechKind.REPLY, SpeechKind.SPEECH) and row.private_to is None:
            if room.paused:
                return SilenceReason.PAUSED
            if room.mode is RoomMode.SILENT:
                return SilenceReason.MODE_SILENT
        if row.kind is SpeechKind.SPEECH and (reason := await self._unasked_refusal(tx, row, place)) is not None:
            return reason
        if not await self.readable.allow(
            tx, row.community_id, row.room_id, row.private_to, row.audience, epoch=place.mind_epoch
        ):
            return SilenceReason.GUARD_BLOCKED
        gone, files = await basis.look_at_basis(tx, row.id)
        told = not gone and await are_told(
            tx, self.readable, row.community_id, row.room_id, row.private_to, files, epoch=place.mind_epoch
        )
        return None if told else SilenceReason.SOURCE_VOIDED

    async def _unasked_refusal(self, tx: Tx, row: OutboxRow, place: Place) -> SilenceReason | None:
        """Return why nothing may be said unasked any more: nobody waits for it, so it is dropped sooner."""
        now, room, mind_id = self.clock.now(), place.room, place.community.mind_id
        if now - row.created_at > UNASKED_TOO_OLD_AFTER:
            return SilenceReason.TOO_OLD
        if room.kind is not RoomKind.DM and not room.unattended:
            return SilenceReason.ROOM_OFF
        local = now.astimezone(ZoneInfo(place.community.timezone))
        if room.quiet_hours is not None and room.quiet_hours.covers(local):
            return SilenceReason.QUIET_HOURS
        mind = await state.find_mind(tx, mind_id)
        held = [each for each in await passes.list_controls(tx, mind_id) if each.holds(now)]
        if (mind is not None and mind.paused) or any(each.name == passes.EVERY for each in held):
            return SilenceReason.PAUSED
        return None

    async def _drop(self, tx: Tx, row: OutboxRow, reason: SilenceReason) -> Outcome:
        """Withdraw an answer; one whose sources closed meanwhile is made once more without them."""
        await outbox.set_state(tx, row.id, OutboxState.DROPPED, reason)
        if row.kind is SpeechKind.SPEECH:
            await jobs.enqueue(tx, receipt_jobs(row))
        turn_id = _turn_of(row)
        if turn_id is not None:
            if reason in _REBUILT and await inbox.reopen_turn(tx, turn_id):
                turn = await inbox.load_turn(tx, turn_id)
                job = turn_job(
                    "command" if row.kind is SpeechKind.COMMAND else "reply",
                    turn_id,
                    community_id=turn.community_id,
                    room_id=turn.room_id,
                    person_id=turn.person_id,
                    trace=turn.trace,
                )
                (job_id,) = await jobs.enqueue(tx, [job])
                await inbox.set_job(tx, turn_id, job_id)
            else:
                await inbox.silence_turn(tx, turn_id, reason)
        return Ok()

    async def _next(
        self, tx: Tx, ctx: JobContext, row: OutboxRow, room: Room, parts: Sequence[PartRow]
    ) -> "_Send | Outcome":
        """Return the first part that is not through, marked `sending`; or close the answer."""
        doubt = 0
        for part in parts:
            if part.state is OutboxState.UNKNOWN:
                doubt = part.n
            if _through(part) or part.state is OutboxState.DROPPED:
                continue
            edit_of = part.external_id
            asked_before = part.state is OutboxState.SENDING and edit_of is None
            await outbox.begin_part(tx, row.id, part.n, ctx.job.attempt)
            outgoing = await self._outgoing(tx, row, room, part, doubt if doubt == part.n - 1 else 0)
            if part is parts[-1] and row.private_to is None:
                outgoing = replace(outgoing, choices=await choosing.offered(tx, row.id))
            return _Send(row, part, outgoing, edit_of, asked_before)
        return await self._close(tx, row, room, parts)

    async def _outgoing(self, tx: Tx, row: OutboxRow, room: Room, part: PartRow, doubt: int) -> OutgoingPart:
        private_to = None if row.private_to is None else await people.account_of(tx, row.private_to)
        text = part.text
        if doubt:
            note = self.notices.voice.say(room.language, StockKey.REPLY_PART_MISSING, room.id, part=str(doubt))
            text = f"{note}\n{text}"
        return OutgoingPart(
            room=room.key,
            text=public_text(text),
            nonce=part.nonce,
            reply_to=row.reply_to if part.n == 1 and not part.plain else None,
            private_to=private_to,
            plain=part.plain,
            outbox_id=row.id,
            n=part.n,
            answer_token=row.answer_token,
            late=row.asked_at is not None and self.clock.now() - row.asked_at > CALLS_AFTER,
        )

    async def _call(self, front_end: FrontEnd, send: _Send) -> SendResult | _NoProof:
        """Call the platform, no transaction open. Look before sending again what may have arrived."""
        if send.edit_of is not None:
            return await front_end.edit(send.edit_of, send.outgoing)
        now = self.clock.now()
        first = send.part.first_attempt_at
        began = first or send.row.created_at
        window = front_end.nonce_window
        folds = window is not None and now - began <= window
        # A part that looks untouched may have been begun in a transaction that a server crash has lost;
        # where that can be (asynchronous F) and the nonce no longer folds, history decides.
        doubtful = send.asked_before or (window is not None and not folds)
        if doubtful and not folds:
            found = await front_end.find_sent(send.outgoing, began)
            if isinstance(found, Ambiguous):
                return _NoProof(found.reason)
            if found is not None:
                return Delivered(found)
        return await front_end.send(send.outgoing)

    async def _record(self, tx: Tx, ctx: JobContext, send: _Send, result: SendResult | _NoProof) -> "_Send | Outcome":
        """TX G: write down what the platform said; go on with the next part in the same transaction."""
        row, n = send.row, send.part.n
        match result:
            case Delivered(external_id):
                # A platform folds a nonce whatever the text: what a stream has begun may show its first words still.
                final = not (send.asked_before and _streamed(row, send.part))
                await outbox.set_part(tx, row.id, n, OutboxState.SENT, external_id=external_id, final=final)
            case RetryAfter(seconds):
                await outbox.set_part(tx, row.id, n, OutboxState.READY, error="retry_after")
                return Snooze(seconds)
            case Unsent(reason):
                await outbox.set_part(tx, row.id, n, OutboxState.READY, error=reason)
                return Retry(None, reason)
            case SendRefused(code, form):
                if form and not send.part.plain:
                    await outbox.set_part(tx, row.id, n, OutboxState.READY, error=code, plain=True)
                else:
                    await outbox.set_part(tx, row.id, n, OutboxState.FAILED, error=code)
            case Ambiguous(reason) if self._may_ask_again(send):
                return Retry(AGAIN_AFTER_S, reason)
            case Ambiguous(reason) | _NoProof(reason):
                await outbox.set_part(tx, row.id, n, OutboxState.UNKNOWN, error=reason)
            case _:
                assert_never(result)
        room = await places.load_room(tx, row.room_id)
        step = await self._next(tx, ctx, row, room, await outbox.list_parts(tx, row.id))
        self.fault("G.written")
        return step

    def _may_ask_again(self, send: _Send) -> bool:
        """Return whether a further try is safe: it folds, it is looked for first, or it edits."""
        window = self.front_ends[send.row.front_end].nonce_window
        return window is not None or send.edit_of is not None

    async def _close(self, tx: Tx, row: OutboxRow, room: Room, parts: Sequence[PartRow]) -> Outcome:
        """Close the answer by the state of its parts; what arrived enters the room's history."""
        await jobs.enqueue(tx, receipt_jobs(row))
        states = {part.state for part in parts}
        if OutboxState.FAILED in states:
            await outbox.close(tx, row.id, OutboxState.FAILED, "refused by the platform")
            return Discard("refused by the platform")
        if OutboxState.UNKNOWN in states:
            await outbox.close(tx, row.id, OutboxState.UNKNOWN, "no proof that it arrived")
            return Ok()
        await outbox.close(tx, row.id, OutboxState.SENT)
        # A card shows words that are not said yet: they are nobody's answer, and no repetition.
        if row.private_to is None and row.kind is not SpeechKind.CARD and await self._keeps(tx, room):
            await self._remember(tx, row, room, parts, self.clock.now())
        return Ok()

    async def _keeps(self, tx: Tx, room: Room) -> bool:
        agrees = room.kind is not RoomKind.DM or await people.agrees_to_dm(tx, room.id)
        return isinstance(archive_decision(room, self.policy, agrees=agrees), Keep)

    async def _remember(self, tx: Tx, row: OutboxRow, room: Room, parts: Sequence[PartRow], now: datetime) -> None:
        """Archive our own words, with the rooms they were made from: they are no freer than those."""
        author = await people.ensure_person(tx, room.key.platform, OWN_REF, room.community_id, "VoidBot", is_bot=True)
        for part in parts:
            if part.external_id is None:
                continue
            await archive.add_message(
                tx,
                archive.NewMessage(
                    room_id=room.id,
                    community_id=room.community_id,
                    author_id=author.id,
                    platform_ref=f"own:{part.external_id}",
                    kind=archive.OWN_KIND,
                    text=part.text,
                    sent_at=now,
                    reply_to_ref=row.reply_to,
                    sources=sorted(row.audience | {room.id}),
                ),
            )


def _begun(part: PartRow) -> bool:
    """Return whether people may have seen it, in this form or in an earlier one."""
    return part.external_id is not None or part.state not in (OutboxState.READY, OutboxState.DROPPED)


def _through(part: PartRow) -> bool:
    return part.final or part.state in (OutboxState.UNKNOWN, OutboxState.FAILED)


def _streamed(row: OutboxRow, part: PartRow) -> bool:
    """Return whether a stream began the part: it does so in the transaction that makes the row."""
    return part.first_attempt_at is not None and part.first_attempt_at <= row.created_at


def _turn_of(row: OutboxRow) -> TurnId | None:
    head, _, tail = row.dedupe.partition(":")
    return TurnId(int(tail)) if head == "reply" and tail.isdigit() else None
