"""Telegram's front end, running against the double: what it takes in, what it remembers, what the operator hears."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from bot.adapters.addressing import Names
from bot.adapters.limiter import Limiter
from bot.adapters.telegram_chat import TelegramChat, TelegramSettings
from bot.adapters.telegram_places import room_key
from core.domain.choices import Choice
from core.domain.errors import Unavailable
from core.domain.messages import InboundMessage
from core.domain.speech import PublicText
from core.ports import Accepted, CommandForm, OutgoingPart
from tests.doubles.telegram_server import TelegramServer
from tests.doubles.telegram_state import Chat, Message, Topic, User
from tests.fakes import ManualClock, RememberingPlatform

COMMANDS = (
    CommandForm("ask", "asks"),
    CommandForm("help", "shows what there is"),
    CommandForm("why-silent", "says why there was no answer"),
    CommandForm("void mode", "sets when it answers", restricted=True),
)


@dataclass
class Inbox:
    """Takes messages as intake does: an event once. `down`: the store refuses; `broken`: a bug raises so often.

    `replies`: an answer will come.
    """

    taken: list[InboundMessage] = field(default_factory=list)
    offered: int = 0
    down: bool = False
    broken: int = 0
    held: asyncio.Event | None = None
    replies: bool = False

    async def accept(self, message: InboundMessage) -> Accepted:
        self.offered += 1
        if self.held is not None:
            await self.held.wait()
        if self.down:
            raise Unavailable("store: down")
        if self.broken:
            self.broken -= 1
            raise LookupError("a bug")
        duplicate = any(each.event_id == message.event_id for each in self.taken)
        if not duplicate:
            self.taken.append(message)
        return Accepted("reply" if self.replies else "no_speech", None, 1, duplicate=duplicate)

    @property
    def texts(self) -> list[str]:
        return [each.text for each in self.taken]

    @property
    def last(self) -> InboundMessage:
        return self.taken[-1]


@dataclass
class Line:
    """One front end with what is around it."""

    chat: TelegramChat
    telegram: TelegramServer
    clock: ManualClock
    inbox: Inbox = field(default_factory=Inbox)
    memory: RememberingPlatform = field(default_factory=RememberingPlatform)
    alerts: list[str] = field(default_factory=list)

    async def heard(self, count: int) -> Sequence[InboundMessage]:
        """Return all messages once so many are in."""
        await self.telegram.until(lambda: len(self.inbox.taken) >= count)
        return self.inbox.taken

    async def confirmed(self) -> None:
        """Wait until nothing waits at the platform."""
        await self.telegram.until(lambda: not self.telegram.pending_updates)


def make_line(
    telegram: TelegramServer,
    *,
    memory: RememberingPlatform | None = None,
    commands: Sequence[CommandForm] = COMMANDS,
    token: str = "",
    limiter: Limiter | None = None,
    **settings: Any,
) -> Line:
    """Return a front end that does not listen yet, patient enough for a test and no more."""
    clock, memory, alerts = ManualClock(), memory or RememberingPlatform(), list[str]()
    chat = TelegramChat(
        TelegramSettings(token=token or telegram.token, api_url=telegram.api_url, **settings),
        clock,
        memory,
        names=Names(),
        commands=commands,
        alert=alerts.append,
        limiter=limiter or Limiter(clock, 1000, 1000),
    )
    poller = chat.poller
    poller.poll_s, poller.first_wait_s, poller.longest_wait_s, poller.conflict_wait_s = 1, 0.02, 0.1, 0.02
    return Line(chat, telegram, clock, memory=memory, alerts=alerts)


@asynccontextmanager
async def listening(line: Line) -> AsyncIterator[Line]:
    """Let the front end listen inside the block."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(line.chat.run(line.inbox.accept))
        try:
            yield line
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await line.chat.close()


def part(
    text: str,
    room: Chat,
    *,
    topic: Topic | None = None,
    n: int = 1,
    reply_to: Message | None = None,
    private_to: User | str | None = None,
    plain: bool = False,
    token: str = "",
    choices: tuple[Choice, ...] = (),
) -> OutgoingPart:
    """Return one part of an answer."""
    return OutgoingPart(
        room=room_key(room.id, str(topic.id) if topic else ""),
        text=PublicText(text),
        nonce=f"nonce-{n}",
        reply_to=None if reply_to is None else str(reply_to.id),
        private_to=str(private_to.id) if isinstance(private_to, User) else private_to,
        plain=plain,
        outbox_id=1,
        n=n,
        answer_token=token,
        choices=choices,
    )
