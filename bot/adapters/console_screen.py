"""How the terminal's conversation looks: as plain lines, as one JSON object a line, or at an interactive prompt."""

import json
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from prompt_toolkit import PromptSession, print_formatted_text
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.patch_stdout import patch_stdout

from bot.adapters.console_lines import (
    DIRECT,
    EXPLAINED,
    Entry,
    Fault,
    FaultCode,
    InputId,
    Local,
    Speaker,
    direct_room,
    parse_json,
    parse_plain,
    printable,
)
from bot.adapters.console_streams import FdWriter, read_lines
from core.domain.ids import RoomKey
from core.domain.speech import SilenceReason
from core.ports import ShownMessage


@dataclass(frozen=True, slots=True)
class Place:
    """Who speaks where at present. `last` is the id of the last message sent from here."""

    speaker: Speaker
    room: str
    last: str = ""

    def may_see(self, message: ShownMessage) -> bool:
        """Return whether the message is for the present speaker's eyes."""
        room = message.room.chat_ref
        own = not room.startswith(DIRECT) or room == direct_room(self.speaker)
        return own and message.private_to in (None, self.speaker.ref)


@dataclass(slots=True, eq=False, kw_only=True)
class Asked:
    """A line that was handed in, and what became of it. `waits`: an answer was promised and is not over yet."""

    number: int
    input_id: InputId
    speaker: Speaker
    room: RoomKey
    message_id: str
    received_at: datetime
    turn_id: int | None = None
    waits: bool = False
    receipts: dict[int, int] = field(default_factory=dict)
    """Receipt id to the id of the first message that it explains."""


class Screen(Protocol):
    """Where lines come from and where everything is shown."""

    @property
    def one_at_a_time(self) -> bool:
        """Return whether a line waits for the answer to the one before it, as in a script that people write."""
        ...

    @property
    def interactive(self) -> bool:
        """Return whether a person types here, so that lines may be fragments of one message."""
        ...

    def entries(self, place: Callable[[], Place]) -> AsyncGenerator[Entry | Fault, None]:
        """Yield what is typed until the input ends."""
        ...

    async def decision(self, asked: Asked, reason: SilenceReason | None) -> None:
        """Show that an answer will come (None), or why there will be none."""
        ...

    async def message(self, asked: Asked | None, message: ShownMessage, edited: bool) -> None:
        """Show a message or its newer revision; `asked` None: nothing typed here caused it."""
        ...

    async def receipt(self, receipt_id: int, message_id: int, fields: Mapping[str, object]) -> None:
        """Show what proves a message."""
        ...

    async def fault(self, fault: Fault) -> None:
        """Show that a line was not taken."""
        ...

    async def over(self, asked: Asked) -> None:
        """Learn that nothing more will come for this line."""
        ...

    async def moved(self) -> None:
        """Learn that the speaker or the room has changed."""
        ...

    async def waiting(self, count: int) -> None:
        """Learn that the input has ended and this many answers are outstanding."""
        ...

    async def close(self) -> None:
        """Return once everything shown has left the process."""
        ...


_TOO_LONG = FaultCode.LINE_TOO_LONG


class JsonScreen(Screen):
    """One object a line in, one object a line out, in ASCII; for scripts."""

    interactive = False
    one_at_a_time = False

    def __init__(self, stdin_fd: int, stdout_fd: int) -> None:
        self._stdin_fd = stdin_fd
        self._out = FdWriter(stdout_fd)

    async def entries(self, place: Callable[[], Place]) -> AsyncGenerator[Entry | Fault, None]:
        """Yield an entry or a fault for each line that is not blank."""
        async with aclosing(read_lines(self._stdin_fd)) as lines:
            async for number, raw in lines:
                if raw is None:
                    yield Fault(number, None, _TOO_LONG, EXPLAINED[_TOO_LONG])
                elif (entry := parse_json(number, raw)) is not None:
                    yield entry

    async def decision(self, asked: Asked, reason: SilenceReason | None) -> None:
        """Write a `decision`; a second one follows if a promised answer fails to come."""
        self._write(
            "decision",
            input_id=asked.input_id,
            room=asked.room.chat_ref,
            message_id=asked.message_id,
            outcome="reply" if reason is None else "no_speech",
            reason=reason,
        )

    async def message(self, asked: Asked | None, message: ShownMessage, edited: bool) -> None:
        """Write a `message`, or an `edit` with the whole new text."""
        taken = None if asked is None else message.at - asked.received_at
        self._write(
            "edit" if edited else "message",
            input_id=None if asked is None else asked.input_id,
            room=message.room.chat_ref,
            message_id=str(message.id),
            reply_to=message.reply_to,
            text=message.text,
            receipt_id=message.receipt_id,
            provider=message.provider,
            latency_ms=None if taken is None else max(0, round(taken.total_seconds() * 1000)),
            private_to=message.private_to,
        )

    async def receipt(self, receipt_id: int, message_id: int, fields: Mapping[str, object]) -> None:
        """Write a `receipt`."""
        own = {"receipt_id": receipt_id, "message_id": str(message_id)}
        self._write("receipt", **(own | {key: fields[key] for key in fields if key not in (*own, "kind")}))

    async def fault(self, fault: Fault) -> None:
        """Write an `error`."""
        self._write("error", input_id=fault.input_id, line=fault.number, code=fault.code, text=fault.text)

    async def over(self, asked: Asked) -> None:
        """Write nothing: every object has been written when it was true."""

    async def moved(self) -> None:
        """Write nothing."""

    async def waiting(self, count: int) -> None:
        """Write nothing."""

    async def close(self) -> None:
        """Wait for the reader."""
        await self._out.drain()

    def _write(self, kind: str, /, **fields: object) -> None:
        # ASCII: whatever a text holds, neither a terminal nor a reader of lines can be misled by it.
        self._out.write(json.dumps({"kind": kind, **fields}, default=str) + "\n")


@dataclass(slots=True)
class _Slot:
    """What a plain line has got so far; printed when it is over and all before it are."""

    texts: dict[int, str] = field(default_factory=dict)
    note: str = ""
    over: bool = False


class PlainScreen(Screen):
    """Answers as text, in the order of the lines that asked; faults go to the other stream."""

    interactive = False
    one_at_a_time = True

    def __init__(self, stdin_fd: int, stdout_fd: int, stderr_fd: int) -> None:
        self._stdin_fd = stdin_fd
        self._out = FdWriter(stdout_fd)
        self._errors = FdWriter(stderr_fd)
        self._queue: deque[Asked] = deque()
        self._slots: dict[int, _Slot] = {}
        self._place: Callable[[], Place] | None = None

    async def entries(self, place: Callable[[], Place]) -> AsyncGenerator[Entry | Fault, None]:
        """Yield one entry for each line that is not blank."""
        self._place = place
        async with aclosing(read_lines(self._stdin_fd)) as lines:
            async for number, raw in lines:
                if raw is None:
                    yield Fault(number, None, _TOO_LONG, EXPLAINED[_TOO_LONG])
                elif (entry := parse_plain(number, raw)) is not None:
                    yield entry

    async def decision(self, asked: Asked, reason: SilenceReason | None) -> None:
        """Keep a place in the order; say why there is no answer."""
        slot = self._slots.get(asked.number)
        if slot is None:
            slot = self._slots[asked.number] = _Slot()
            self._queue.append(asked)
        slot.note = "" if reason is None else f"(no answer: {reason})"

    async def message(self, asked: Asked | None, message: ShownMessage, edited: bool) -> None:
        """Keep the newest text until the answer is over; what nobody asked for is printed at once, once."""
        slot = None if asked is None else self._slots.get(asked.number)
        if slot is not None and asked is not None:
            if message.private_to in (None, asked.speaker.ref):
                slot.texts[message.id] = message.text
        elif self._place is not None and not edited:
            place = self._place()
            if place.may_see(message) and message.room.chat_ref == place.room:
                self._print(message.text)

    async def receipt(self, receipt_id: int, message_id: int, fields: Mapping[str, object]) -> None:
        """Print nothing: `/why` shows it."""

    async def fault(self, fault: Fault) -> None:
        """Print the fault beside the answers."""
        self._errors.write(f"line {fault.number}: {fault.code}: {printable(fault.text)}\n")

    async def over(self, asked: Asked) -> None:
        """Print every answer whose turn has come."""
        slot = self._slots.get(asked.number)
        if slot is not None:
            slot.over = True
        while self._queue and self._slots[self._queue[0].number].over:
            done = self._slots.pop(self._queue.popleft().number)
            for text in [*done.texts.values(), done.note]:
                if text:
                    self._print(text)

    async def moved(self) -> None:
        """Print nothing."""

    async def waiting(self, count: int) -> None:
        """Print nothing."""

    async def close(self) -> None:
        """Wait for the readers."""
        await self._out.drain()
        await self._errors.drain()

    def _print(self, text: str) -> None:
        self._out.write(printable(text) + "\n")


class InteractiveScreen(Screen):
    """A prompt with history and completion; answers appear above it as they grow."""

    interactive = True
    one_at_a_time = False

    def __init__(self, commands: Iterable[str] = ()) -> None:
        self._completer = SlashCompleter([*Local, *commands])
        self._place: Callable[[], Place] | None = None
        self._texts: dict[int, str] = {}
        self._held: dict[int, tuple[Asked | None, ShownMessage]] = {}

    async def entries(self, place: Callable[[], Place]) -> AsyncGenerator[Entry | Fault, None]:
        """Yield one entry for each line typed; Ctrl-C and Ctrl-D end the input."""
        self._place = place
        # The history lives as long as the process: a file would keep words that an erasure can't reach.
        session: PromptSession[str] = PromptSession(completer=self._completer, complete_while_typing=False)
        number = 0
        with patch_stdout():
            while True:
                try:
                    typed = await session.prompt_async(
                        lambda: f"{place().speaker.name}@{place().room}> ",
                        bottom_toolbar=lambda: _toolbar(place()),
                        handle_sigint=False,
                        set_exception_handler=False,
                    )
                except (EOFError, KeyboardInterrupt):
                    return
                number += 1
                if (entry := parse_plain(number, typed.encode("utf-8", "replace"))) is not None:
                    yield entry

    async def decision(self, asked: Asked, reason: SilenceReason | None) -> None:
        """Say why there is no answer, unless the person spoke to others."""
        if reason not in (None, SilenceReason.NOT_ADDRESSED):
            _print(f"(no answer: {reason})")

    async def message(self, asked: Asked | None, message: ShownMessage, edited: bool) -> None:
        """Print what is new of a message; what is for other eyes waits until that person speaks."""
        if self._place is None:
            return
        place = self._place()
        if not place.may_see(message):
            self._held[message.id] = (asked, message)
        elif asked is not None or message.room.chat_ref == place.room:
            self._print_new(place, message)

    async def receipt(self, receipt_id: int, message_id: int, fields: Mapping[str, object]) -> None:
        """Print nothing: `/why` shows it."""

    async def fault(self, fault: Fault) -> None:
        """Print the fault."""
        _print(f"({fault.code}: {printable(fault.text)})")

    async def over(self, asked: Asked) -> None:
        """Print nothing."""

    async def moved(self) -> None:
        """Print what was held for the person who speaks now."""
        held, self._held = self._held, {}
        for asked, message in held.values():
            await self.message(asked, message, False)

    async def waiting(self, count: int) -> None:
        """Say what keeps the terminal open."""
        _print(f"(waiting for {count} answers; Ctrl-C leaves now)")

    async def close(self) -> None:
        """Have nothing to wait for: the prompt's library writes at once."""

    def _print_new(self, place: Place, message: ShownMessage) -> None:
        text, before = printable(message.text), self._texts.get(message.id, "")
        self._texts[message.id] = text
        grown = text.startswith(before)
        where = "" if message.room.chat_ref == place.room else f" in {message.room.chat_ref}"
        head = f"void #{message.id}{where}{'' if grown else ' (edited)'}: " if not before or not grown else "  "
        # Further lines are indented, so that no text can pass for another line of the conversation.
        new = (text[len(before) :] if grown else text).strip("\n")
        if new.strip():
            _print(head + new.lstrip().replace("\n", "\n  "))


def _toolbar(place: Place) -> str:
    last = f" · last message {place.last}" if place.last else ""
    return f" {place.speaker.name} in {place.room}{last} · /as /room /dm /edit /delete /react /quit "


def _print(text: str) -> None:
    print_formatted_text(text)


class SlashCompleter(Completer):
    """Completes the slash words at the beginning of a line; names may hold spaces (`void mode`)."""

    def __init__(self, names: Iterable[str]) -> None:
        self._lines = sorted({f"/{name.removeprefix('/')}" for name in names})

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield the slash words that begin as the line does."""
        typed = document.text_before_cursor
        if typed.startswith("/"):
            for line in self._lines:
                if line.startswith(typed):
                    yield Completion(line, start_position=-len(typed))
