"""The terminal: the smallest front end, and the one to copy."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from datetime import datetime, timedelta

from bot.adapters.addressing import Names
from bot.adapters.console_intake import PLATFORM, TEXT_LIMIT_CHARS, Intake, forget_oldest
from bot.adapters.console_lines import (
    EXPLAINED,
    Entry,
    Event,
    Fault,
    FaultCode,
    Local,
    local_word,
    room_of,
    speaker_of,
)
from bot.adapters.console_screen import Asked, Place, Screen
from bot.adapters.text import split
from core.domain.errors import BotError, Conflict, InputRejected, OutsideRefused, Unavailable
from core.domain.ids import RoomKey
from core.domain.messages import InboundMessage
from core.domain.speech import SilenceReason
from core.ports import (
    Accept,
    Accepted,
    Ambiguous,
    Clock,
    Delivered,
    FrontEnd,
    OutgoingPart,
    SendRefused,
    SendResult,
    ShownMessage,
    ShownMessages,
    Unsent,
)

FOR_EVER = timedelta(days=3650)
BUSY_S = 0.05
"""How long after a look at the table the next one comes while answers are outstanding."""
IDLE_S = 0.25
STREAM_EVERY_S = 0.15
OUTAGE_S = 1.0
EXIT_ANSWERED, EXIT_ERROR, EXIT_TIMEOUT = 0, 2, 3
_LOG = logging.getLogger(__name__)

Receipts = Callable[[int], Awaitable[Mapping[str, object]]]
"""Returns the fields of a receipt by its id; empty if there is none."""


class ConsoleChat(FrontEnd):
    """The terminal's front end: lines in, shown messages out.

    Args:
        shown: The table of what was shown.
        clock: The time of what comes in.
        speaker: Who types at first; None for the local person, who is operator.
        room: Where they are at first.
        wait_s: How long the end of the input waits for outstanding answers.
        screen: Where lines come from and where everything is shown.
        admin: Whether people named by `/as` are administrators.
        names: What the bot is called.
        receipts: How to look a receipt up; without it none is shown.
        wake: Set by whoever knows that something new may be shown.

    Raises:
        InputRejected: `speaker` or `room` cannot be one.
    """

    def __init__(
        self,
        shown: ShownMessages,
        clock: Clock,
        *,
        speaker: str | None,
        room: str,
        wait_s: float = 30,
        screen: Screen,
        admin: bool = False,
        names: Names | None = None,
        receipts: Receipts | None = None,
        wake: asyncio.Event | None = None,
    ) -> None:
        who = speaker_of(speaker or "", admin=admin)
        where = None if who is None else room_of(room, who)
        if who is None or where is None:
            raise InputRejected("console: no usable name of a speaker or a room")
        self._place = Place(who, where)
        self._shown, self._clock, self._screen, self._receipts = shown, clock, screen, receipts
        self._intake = Intake(names or Names(), admin=admin, interactive=screen.interactive)
        self._wait_s = wait_s
        self._wake = wake or asyncio.Event()
        self._waiting: list[Asked] = []
        self._all_over = asyncio.Event()
        self._seen: dict[int, int] = {}
        self._cursor = 0
        # Held while a line is handed in until its decision is shown: no answer can be shown before its decision.
        self._order = asyncio.Lock()
        self._faults, self._timed_out, self._ended = 0, False, False

    @property
    def name(self) -> str:
        """Return the key of this front end."""
        return PLATFORM

    @property
    def nonce_window(self) -> timedelta | None:
        """Return how long equal nonces fold into one message: for ever, by a unique column."""
        return FOR_EVER

    @property
    def stream_every_s(self) -> float | None:
        """Return the least seconds between two edits of a growing answer."""
        return STREAM_EVERY_S

    @property
    def text_limit(self) -> int:
        """Return the longest text a person can write here, in characters."""
        return TEXT_LIMIT_CHARS

    @property
    def exit_code(self) -> int:
        """Return 0 if every line was answered or decided, 2 after a fault, 3 after a timeout, which wins."""
        if self._timed_out:
            return EXIT_TIMEOUT
        return EXIT_ERROR if self._faults and not self._screen.interactive else EXIT_ANSWERED

    def split(self, text: str) -> Sequence[str]:
        """Return `text` in parts within the limit."""
        return split(text, TEXT_LIMIT_CHARS, "chars")

    async def send(self, part: OutgoingPart) -> SendResult:
        """Show one part; a second try finds what the first one showed."""
        return await self._act(self._shown.show(part), refused="room_gone")

    async def find_sent(self, part: OutgoingPart, since: datetime) -> str | Ambiguous | None:
        """Look the part up by its nonce."""
        try:
            found = await self._shown.find(part.nonce)
        except Unavailable as exc:
            return Ambiguous(exc.message)
        return None if found is None else str(found)

    async def edit(self, external_id: str, part: OutgoingPart) -> SendResult:
        """Replace the text of a message shown before."""
        return await self._act(self._replace(int(external_id), part), refused="unknown_message")

    async def close_choices(self, room: RoomKey, external_id: str) -> SendResult:
        """Leave the message as it is: its commands say themselves that they have run out."""
        return Delivered(external_id)

    async def _replace(self, message_id: int, part: OutgoingPart) -> int:
        await self._shown.edit(message_id, part.text.text)
        return message_id

    async def _act(self, work: Awaitable[int], *, refused: str) -> SendResult:
        try:
            message_id = await work
        except (Unavailable, Conflict) as exc:
            return Unsent(exc.message)  # Even if it was stored: the next try folds into it.
        except OutsideRefused:
            return SendRefused(refused)
        self._wake.set()
        return Delivered(str(message_id))

    async def show_typing(self, room: RoomKey) -> None:
        """Show nothing: the words come soon enough."""

    async def fetch(self, room: RoomKey, handle: str, limit_bytes: int) -> bytes:
        """Refuse: nothing but lines of text is written here."""
        raise OutsideRefused("console: has no files")

    def silent_s(self) -> float | None:
        """Return nothing: there is no connection to watch."""
        return None

    async def close(self) -> None:
        """Hold nothing that would have to be let go."""

    async def run(self, accept: Accept) -> None:
        """Take lines in until the input ends, then wait for the outstanding answers."""
        self._cursor = await self._shown.latest()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow())
            async with aclosing(self._screen.entries(lambda: self._place)) as entries:
                async for entry in entries:
                    if isinstance(entry, Fault):
                        await self._fault(entry)
                    elif not await self._take(entry, accept):
                        break
            await self._finish()
            await self._screen.close()
            # Asked to end, not cancelled: no look at the table is cut off in the middle of a transaction.
            self._ended = True
            self._wake.set()

    async def _take(self, entry: Entry, accept: Accept) -> bool:
        """Do what a line says; return False if it ends the input."""
        place = self._intake.place_of(entry, self._place)
        if isinstance(place, FaultCode):
            await self._refuse(entry, place)
            return True
        local = local_word(entry.text) if entry.event is None else None
        if local is None:
            await self._hand_in(entry, place, accept)
            if self._screen.one_at_a_time:
                await self._answered()
            return True
        word, rest = local
        match word:
            case Local.QUIT:
                return False
            case Local.AS | Local.ROOM | Local.DM:
                moved = self._intake.moved(self._place, word, rest)
                if isinstance(moved, FaultCode):
                    await self._refuse(entry, moved)
                    return True
                async with self._order:
                    self._place = moved
                    await self._screen.moved()
            case Local.EDIT | Local.DELETE | Local.REACT:
                target, _, text = rest.partition(" ")
                event = replace(entry, event=Event(word), reply_to=target or None, text=text.strip())
                await self._hand_in(event, place, accept)
        return True

    async def _answered(self) -> None:
        """Wait for what was asked, as somebody who reads would; a late answer does not hold up the next line."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._wait_s):
                while self._waiting:
                    await self._all_over.wait()

    async def _hand_in(self, entry: Entry, place: Place, accept: Accept) -> None:
        """Turn the line into an inbound message, hand it in, and show what was decided."""
        message = self._intake.to_inbound(entry, place, self._clock.now())
        if isinstance(message, FaultCode):
            await self._refuse(entry, message)
            return
        asked = Asked(
            number=entry.number,
            input_id=entry.input_id,
            speaker=place.speaker,
            room=message.room,
            message_id=message.message_id,
            received_at=message.received_at,
        )
        async with self._order:
            accepted = await self._accept(asked, message, accept)
            if accepted is None:
                return
            asked.turn_id, asked.waits = accepted.turn_id, accepted.outcome == "reply"
            if asked.waits:
                self._waiting.append(asked)
                self._all_over.clear()
            self._intake.remember(asked, message)
            if entry.event is None:
                self._place = replace(self._place, last=asked.message_id)
            await self._screen.decision(asked, accepted.reason)
            if not asked.waits:
                await self._screen.over(asked)
        self._wake.set()

    async def _accept(self, asked: Asked, message: InboundMessage, accept: Accept) -> Accepted | None:
        try:
            try:
                return await accept(message)
            except Conflict:
                return await accept(message)  # Someone else won a race; its event id makes a second try safe.
        except BotError as exc:
            code = FaultCode.STORE_DOWN if isinstance(exc, Unavailable | Conflict) else FaultCode.REFUSED
            fault = Fault(asked.number, asked.input_id, code, exc.message)
        except Exception:  # noqa: BLE001  # the front end's loop: one bad event must not end the conversation
            _LOG.exception("console: a line could not be handed in")
            fault = Fault(asked.number, asked.input_id, FaultCode.INTERNAL, EXPLAINED[FaultCode.INTERNAL])
        await self._fault(fault)
        return None

    async def _follow(self) -> None:
        """Show what is new until the end: soon while answers are outstanding, at leisure otherwise."""
        while not self._ended:
            pause_s = BUSY_S if self._waiting else IDLE_S
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self._look()
            except BotError:
                await asyncio.sleep(OUTAGE_S)  # The store is down; nothing is lost, the cursor stands.

    async def _look(self) -> None:
        """Show new messages, then close the turns that were over before these were read."""
        turns = sorted({asked.turn_id for asked in self._waiting if asked.turn_id is not None})
        ended = await self._shown.ended(turns) if turns else {}
        while messages := await self._shown.after(self._cursor):
            async with self._order:
                for message in messages:
                    await self._show(message)
                    self._cursor = message.seq
        async with self._order:
            for asked in [asked for asked in self._waiting if asked.turn_id in ended]:
                await self._end(asked, ended[asked.turn_id or 0])

    async def _show(self, message: ShownMessage) -> None:
        asked = self._intake.asked_by(message.reply_to)
        edited = message.id in self._seen
        if self._seen.get(message.id) == message.revision:
            return
        self._seen[message.id] = message.revision
        forget_oldest(self._seen)
        await self._screen.message(asked, message, edited)
        if message.receipt_id is not None and asked is not None and asked.waits:
            asked.receipts.setdefault(message.receipt_id, message.id)
        elif message.receipt_id is not None and not edited:
            await self._show_receipt(message.receipt_id, message.id)
        if asked is not None and asked.waits and asked.turn_id is None:
            await self._end(asked, None)

    async def _end(self, asked: Asked, reason: SilenceReason | None) -> None:
        asked.waits = False
        self._waiting.remove(asked)
        if reason is not None:
            await self._screen.decision(asked, reason)
        for receipt_id, message_id in asked.receipts.items():
            await self._show_receipt(receipt_id, message_id)
        await self._screen.over(asked)
        if not self._waiting:
            self._all_over.set()

    async def _show_receipt(self, receipt_id: int, message_id: int) -> None:
        with suppress(BotError):  # A receipt that can't be read now stays readable by `/why`.
            if self._receipts is not None and (fields := await self._receipts(receipt_id)):
                await self._screen.receipt(receipt_id, message_id, fields)

    async def _refuse(self, entry: Entry, code: FaultCode) -> None:
        await self._fault(Fault(entry.number, entry.input_id, code, EXPLAINED[code]))

    async def _fault(self, fault: Fault) -> None:
        self._faults += 1
        await self._screen.fault(fault)

    async def _finish(self) -> None:
        """Wait for the outstanding answers; those that do not come in time are faults."""
        if not self._waiting:
            return
        await self._screen.waiting(len(self._waiting))
        try:
            async with asyncio.timeout(self._wait_s):
                await self._all_over.wait()
        except TimeoutError:
            async with self._order:
                self._timed_out = bool(self._waiting)
                for asked in list(self._waiting):
                    code = FaultCode.TIMEOUT
                    await self._fault(Fault(asked.number, asked.input_id, code, EXPLAINED[code]))
                    await self._end(asked, None)
