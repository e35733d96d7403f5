"""What stands on both sides of a terminal under test: a core that answers on demand, and hands at its pipes."""

import asyncio
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from bot.adapters.console_chat import ConsoleChat
from bot.adapters.console_screen import JsonScreen, PlainScreen, Screen
from bot.adapters.console_streams import read_lines
from core.domain.ids import RoomKey
from core.domain.messages import InboundMessage
from core.domain.speech import PublicText, SilenceReason
from core.ports import Accepted, FrontEnd, OutgoingPart
from core.store.engine import Database
from core.store.shown import StoredShownMessages
from tests.fakes import ManualClock

ROOMS = ("workshop", "office", "dm:ann", "dm:local")


@dataclass(slots=True)
class Core:
    """Rows as the real intake and delivery would write them, on the real database."""

    database: Database
    taken: list[InboundMessage] = field(default_factory=list)
    refusals: list[Exception] = field(default_factory=list)
    silence: SilenceReason | None = None
    turns: dict[str, int] = field(default_factory=dict)
    parts: int = 0

    async def prepare(self) -> None:
        """Add one community, its rooms and one person."""
        async with self.database.transaction() as tx:
            await tx.execute(
                "insert into voidbot.communities (platform, chat_ref, mind_id) values ('console', 'console', 'one')"
            )
            for room in ROOMS:
                await tx.execute(
                    "insert into voidbot.rooms (community_id, platform, chat_ref, kind)"
                    " values (1, 'console', $1, 'terminal')",
                    room,
                )
            await tx.execute("insert into voidbot.people (platform, account_ref) values ('console', 'ann')")

    async def accept(self, message: InboundMessage) -> Accepted:
        """Take a message in and promise an answer, unless told otherwise."""
        if self.refusals:
            raise self.refusals.pop(0)
        if self.silence is not None:
            self.taken.append(message)
            return Accepted("no_speech", self.silence, 1)
        async with self.database.transaction() as tx:
            turn: int = await tx.fetchval(
                "insert into voidbot.turns (key, community_id, room_id, person_id, front_end, reply_to, trace)"
                " values ($1, 1, 1, 1, 'console', $2, $1) returning id",
                message.event_id,
                message.message_id,
            )
        self.turns[message.event_id] = turn
        self.taken.append(message)
        return Accepted("reply", None, 1, turn)

    async def took(self, count: int) -> list[InboundMessage]:
        """Wait until `count` messages were taken in."""
        async with asyncio.timeout(20):
            while len(self.taken) < count:
                await asyncio.sleep(0.01)
        return self.taken

    async def say(
        self,
        front_end: FrontEnd,
        text: str,
        *,
        to: InboundMessage | None = None,
        room: str = "workshop",
        private_to: str | None = None,
    ) -> tuple[str, OutgoingPart]:
        """Queue and show one message with its receipt; return its id and the part."""
        self.parts += 1
        number = self.parts
        async with self.database.transaction() as tx:
            outbox: int = await tx.fetchval(
                "insert into voidbot.outbox (front_end, community_id, room_id, kind, audience, dedupe, state, trace)"
                " values ('console', 1, 1, 'reply', '{1}', $1, 'sending', $2) returning id",
                f"part:{number}",
                to.event_id if to else "",
            )
            await tx.execute(
                "insert into voidbot.receipts (outbox_id, room_id, provider) values ($1, 1, 'quotes')", outbox
            )
        part = OutgoingPart(
            room=to.room if to else RoomKey("console", room),
            text=PublicText(text),
            nonce=f"nonce-{number}",
            reply_to=to.message_id if to else None,
            private_to=private_to,
            plain=False,
            outbox_id=outbox,
            n=0,
        )
        sent = await front_end.send(part)
        return getattr(sent, "external_id", ""), part

    async def end(self, message: InboundMessage, reason: SilenceReason | None = None) -> None:
        """Close what was queued for a message, and its turn."""
        async with self.database.transaction() as tx:
            await tx.execute(
                "update voidbot.outbox set state = 'sent', closed_at = voidbot.now() where trace = $1",
                message.event_id,
            )
            await tx.execute(
                "update voidbot.turns set reason = $2::text,"
                " state = case when $2::text is null then 'answered' else 'silent' end where id = $1",
                self.turns[message.event_id],
                reason,
            )

    async def answer(self, front_end: FrontEnd, message: InboundMessage, text: str) -> str:
        """Say one thing in answer and close the turn."""
        message_id, _ = await self.say(front_end, text, to=message)
        await self.end(message)
        return message_id

    async def receipt(self, receipt_id: int) -> Mapping[str, object]:
        """Return a receipt's fields as the composition root would."""
        async with self.database.transaction() as tx:
            row = await tx.fetchrow("select provider, at from voidbot.receipts where outbox_id = $1", receipt_id)
        return {} if row is None else dict(row)


class Terminal:
    """One running terminal with the test's hands at both ends of its pipes."""

    def __init__(self, core: Core, clock: ManualClock, **options: Any) -> None:
        self.core = core
        stdin, self._stdin = os.pipe()
        self._stdout, stdout = os.pipe()
        self._stderr, stderr = os.pipe()
        self._theirs = (stdin, stdout, stderr)
        json_mode = options.pop("json_mode")
        screen: Screen = JsonScreen(stdin, stdout) if json_mode else PlainScreen(stdin, stdout, stderr)
        given: dict[str, Any] = {"speaker": "Ann", "room": "workshop", "wait_s": 20, "receipts": core.receipt}
        shown = StoredShownMessages(core.database)
        self.chat = ConsoleChat(shown, clock, screen=screen, **(given | options))
        self._lines = read_lines(self._stdout)
        self._tasks = asyncio.TaskGroup()

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        self._run = self._tasks.create_task(self.chat.run(self.core.accept))
        return self

    async def __aexit__(self, *error: Any) -> None:
        self._run.cancel()
        await self._tasks.__aexit__(*error)
        for fd in (self._stdin, self._stdout, self._stderr, *self._theirs):
            with suppress(OSError):
                os.close(fd)

    def type(self, *lines: str | dict[str, Any] | bytes) -> None:
        for line in lines:
            raw = line if isinstance(line, bytes) else (line if isinstance(line, str) else json.dumps(line)).encode()
            os.write(self._stdin, raw + b"\n")

    def pour(self, raw: bytes) -> None:
        """Write more than a pipe holds; blocks until it is read."""
        while raw:
            raw = raw[os.write(self._stdin, raw[:4096]) :]

    async def take(self, *lines: str | dict[str, Any]) -> list[InboundMessage]:
        """Type lines and wait until every one was handed in."""
        before = len(self.core.taken)
        self.type(*lines)
        return (await self.core.took(before + len(lines)))[before:]

    async def line(self) -> str:
        async with asyncio.timeout(20):
            _, raw = await anext(self._lines)
        return (raw or b"").decode()

    async def object(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(await self.line())
        return loaded

    async def objects(self, count: int) -> list[dict[str, Any]]:
        return [await self.object() for _ in range(count)]

    async def finish(self) -> int:
        """End the input, wait for the end of the run, and return the exit code."""
        os.close(self._stdin)
        async with asyncio.timeout(30):
            await self._run
        for fd in self._theirs[1:]:
            os.close(fd)
        return self.chat.exit_code

    async def rest(self) -> list[str]:
        return [(raw or b"").decode() async for _, raw in self._lines]

    async def errors(self) -> list[str]:
        return [(raw or b"").decode() async for _, raw in read_lines(self._stderr)]
