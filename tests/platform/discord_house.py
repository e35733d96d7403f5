"""A running Discord front end against the double: what it hands in is kept, and answers are sent by hand."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bot.adapters.addressing import Names
from bot.adapters.discord_chat import DiscordChat
from bot.adapters.discord_gateway import DiscordSettings
from core.domain.choices import Choice
from core.domain.errors import Unavailable
from core.domain.ids import RoomKey
from core.domain.messages import InboundMessage, MessageKind
from core.domain.platforms import CatchUpLimits
from core.domain.speech import PublicText
from core.ports import Accepted, CommandForm, CommandOption, OptionKind, OutgoingPart
from tests.doubles.discord_server import DiscordServer
from tests.doubles.discord_state import Channel, Guild, Member
from tests.fakes import ManualClock, RememberingEvents, RememberingPlatform

FORMS = (
    CommandForm(
        "ask",
        "ask me something",
        options=(
            CommandOption("private", OptionKind.FLAG, "only you see it", choices=("yes", "no")),
            CommandOption("question", OptionKind.TEXT, "what you want to know", required=True),
        ),
        private=False,
    ),
    CommandForm("help", "what you may use"),
    CommandForm("void status", "health and queues", restricted=True),
    CommandForm("void rooms", "rooms and switches", restricted=True),
)


@dataclass
class House:
    """One guild with one room and one member, a front end, and what it said and was told."""

    server: DiscordServer
    clock: ManualClock
    guild: Guild
    room: Channel
    ada: Member
    memory: RememberingPlatform = field(default_factory=RememberingPlatform)
    accepted: list[InboundMessage] = field(default_factory=list)
    alerts: list[str] = field(default_factory=list)
    guilds: Sequence[str] = ()
    shard_ids: Sequence[int] = ()
    shard_count: int | None = None
    limits: CatchUpLimits = field(default_factory=CatchUpLimits)
    forms: Sequence[CommandForm] = FORMS
    before_accept: Callable[[InboundMessage], None] = lambda _: None
    store_down: bool = False
    events: RememberingEvents = field(default_factory=RememberingEvents)

    async def accept(self, message: InboundMessage) -> Accepted:
        """Keep a message once, as the store would."""
        self.before_accept(message)
        if self.store_down:
            raise Unavailable("store: down")
        twice = any(one.event_id == message.event_id for one in self.accepted)
        if not twice:
            self.accepted.append(message)
            self.memory.hear(message)
        return Accepted("no_speech", None, 1, duplicate=twice)

    def chat(self) -> DiscordChat:
        settings = DiscordSettings(
            token=self.server.token,
            api_url=self.server.api_url,
            gateway_url=self.server.gateway_url,
            cdn_url=self.server.cdn_url,
            shard_ids=self.shard_ids,
            shard_count=self.shard_count,
            guilds=self.guilds,
            complete_after_s=0.1,
            identify_every_s=0.2,
        )
        return DiscordChat(
            settings, self.clock, self.memory,
            names=Names(), commands=self.forms, limits=self.limits, alert=self.alerts.append,
            events=self.events,
        )  # fmt: skip

    @asynccontextmanager
    async def running(self, *, ready: bool = True) -> AsyncIterator[DiscordChat]:
        """Run a front end until the block ends; with `ready` it has learned every community before."""
        chat = self.chat()
        already = len(self.memory.reports)
        logging.getLogger("discord").setLevel(logging.CRITICAL)
        async with asyncio.TaskGroup() as tasks:
            run = tasks.create_task(chat.run(self.accept))
            try:
                if ready:
                    await self.server.until(lambda: len(self.memory.reports) >= already + len(self.server.world.guilds))
                yield chat
            finally:
                run.cancel()
                await chat.close()

    def said(self, kind: MessageKind = MessageKind.TEXT) -> list[InboundMessage]:
        return [one for one in self.accepted if one.kind is kind]

    def texts(self) -> list[str]:
        return [one.text for one in self.said()]

    async def heard(self, text: str) -> InboundMessage:
        """Wait for a message with this text and return it."""
        await self.server.until(lambda: any(one.text == text for one in self.accepted))
        return next(one for one in reversed(self.accepted) if one.text == text)

    async def count(self, number: int) -> None:
        """Wait until so many events were handed in."""
        await self.server.until(lambda: len(self.accepted) >= number)

    def shown(self, room: Channel | None = None) -> list[str]:
        """Return what is stored in a room, oldest first."""
        return [one.content for one in self.server.messages(room or self.room)]


def part(
    room: Channel,
    text: str,
    *,
    n: int = 1,
    reply_to: object = None,
    private_to: object = None,
    token: str = "",
    late: bool = False,
    nonce: str = "",
    choices: tuple[Choice, ...] = (),
) -> OutgoingPart:
    """Return one part of an answer as delivery makes it."""
    return OutgoingPart(
        room=RoomKey("discord", str(room.id)),
        text=PublicText(text),
        nonce=nonce or f"n{n}{abs(hash(text)) % 10**16}",
        reply_to=None if reply_to is None else str(reply_to),
        private_to=None if private_to is None else str(private_to),
        plain=False,
        outbox_id=1,
        n=n,
        answer_token=token,
        late=late,
        choices=choices,
    )


@asynccontextmanager
async def open_house() -> AsyncIterator[House]:
    """Open a double with a community; at the end nothing unimplemented was asked and every fault has bitten."""
    clock = ManualClock()
    async with DiscordServer(clock) as server:
        guild = server.add_guild("Workshop")
        room, ada = guild.add_channel("general"), guild.add_member("Ada")
        house = House(server, clock, guild, room, ada)
        yield house
