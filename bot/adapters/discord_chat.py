"""Discord as a front end: hears by the gateway, speaks by REST, each without waiting for the other."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

import discord

from bot.adapters.addressing import Names
from bot.adapters.discord_admin import DiscordAdmin, pace_of
from bot.adapters.discord_catchup import CatchUp
from bot.adapters.discord_commands import Commands
from bot.adapters.discord_files import Files
from bot.adapters.discord_gateway import AGAIN_LIMIT_S, AGAIN_S, REFUSED_ALERT, Connection, DiscordSettings, Starts
from bot.adapters.discord_hearing import Hearing
from bot.adapters.discord_intake import PLATFORM, Us
from bot.adapters.discord_lanes import Lanes
from bot.adapters.discord_natives import Natives
from bot.adapters.discord_rest import ANY_FAILURE, Rest
from bot.adapters.discord_rooms import Room, may_read_back
from bot.adapters.discord_sending import Sender
from bot.adapters.discord_text import TEXT_LIMIT_CHARS, parts_of
from bot.adapters.limiter import Limiter
from core.act_ports import ModerationPort, NativeEvents
from core.domain.errors import Unavailable
from core.domain.ids import RoomKey
from core.domain.platforms import CatchUpLimits
from core.ports import Accept, Ambiguous, Clock, CommandForm, FrontEnd, OutgoingPart, PlatformMemory, SendResult

NONCE_WINDOW = timedelta(seconds=120)
"""How long we trust that the platform remembers a nonce; it says no more than "the past few minutes"."""
STREAM_EVERY_S = 1.8
CHAT_RATE, CHAT_BURST = 1.0, 5.0
"""Start values; the library obeys the platform's own headers on top."""
_LOG = logging.getLogger(__name__)


def operator_line(text: str) -> None:
    """Write what an operator has to know."""
    _LOG.error("%s", text)


class DiscordChat(FrontEnd):
    """The front end for Discord.

    Args:
        settings: How Discord is reached.
        clock: The time.
        memory: What must not be forgotten over a restart.
        names: What the bot is called.
        commands: The commands that people are offered.
        limits: How far back a gap is read.
        events: Who is told of joins and of what others do to members; None: nobody.
        alert: The operator's line.
    """

    def __init__(
        self,
        settings: DiscordSettings,
        clock: Clock,
        memory: PlatformMemory,
        *,
        names: Names,
        commands: Sequence[CommandForm],
        limits: CatchUpLimits,
        events: NativeEvents | None = None,
        alert: Callable[[str], None] = operator_line,
    ) -> None:
        settings.apply()
        self._settings, self._clock, self._memory, self._names = settings, clock, memory, names
        self._forms, self._alert = commands, alert
        self._rest = Rest()
        limiter = Limiter(clock, CHAT_RATE, CHAT_BURST, pace_of=pace_of)
        self._sender = Sender(self._rest, limiter, clock, self._readable)
        self._natives = Natives(events, clock, lambda: self._rest.account)
        self._admin = DiscordAdmin(self._rest, limiter, clock, self._natives)
        self._catch_up = CatchUp(self._rest, limits, clock)
        self._files = Files(settings.cdn_url)
        self._lanes = Lanes()
        self._hearing: Hearing | None = None
        self._connection: Connection | None = None

    @property
    def name(self) -> str:
        """Return the key of this front end."""
        return PLATFORM

    @property
    def nonce_window(self) -> timedelta | None:
        """Return how long equal nonces fold into one message."""
        return NONCE_WINDOW

    @property
    def stream_every_s(self) -> float | None:
        """Return the least seconds between two edits of a growing answer."""
        return STREAM_EVERY_S

    @property
    def text_limit(self) -> int:
        """Return the longest text a person can write here, in characters."""
        return TEXT_LIMIT_CHARS

    @property
    def acts(self) -> ModerationPort:
        """Return what acts on members and rooms."""
        return self._admin

    @property
    def counts(self) -> Mapping[str, int]:
        """Return what was ignored, skipped, refused or broken, by reason."""
        total: Counter[str] = Counter()
        for prefix, counter in (
            ("events", None if self._hearing is None else self._hearing.counts),
            ("lanes", self._lanes.counts),
            ("catch_up", self._catch_up.counts),
            ("broken", None if self._connection is None else self._connection.broken),
        ):
            total.update({f"{prefix}.{reason}": count for reason, count in (counter or {}).items()})
        return total

    def split(self, text: str) -> Sequence[str]:
        """Return `text` in parts within the platform's limit, tables as blocks of code."""
        return parts_of(text)

    async def send(self, part: OutgoingPart) -> SendResult:
        """Send one part."""
        return await self._sender.send(part)

    async def find_sent(self, part: OutgoingPart, since: datetime) -> str | Ambiguous | None:
        """Look for the part in its room's history."""
        return await self._sender.find_sent(part, since)

    async def edit(self, external_id: str, part: OutgoingPart) -> SendResult:
        """Replace the text of a message sent before."""
        return await self._sender.edit(external_id, part)

    async def close_choices(self, room: RoomKey, external_id: str) -> SendResult:
        """Take the buttons off a message sent before."""
        return await self._sender.close_choices(room, external_id)

    async def show_typing(self, room: RoomKey) -> None:
        """Show that an answer is being made, where the chat's budget has room for it."""
        await self._sender.show_typing(room)

    async def fetch(self, room: RoomKey, handle: str, limit_bytes: int) -> bytes:
        """Return a file of a message in this room, by a link that its message gives anew."""
        return await self._files.read_of_message(self._rest, room.chat_ref, handle, limit_bytes)

    def silent_s(self) -> float | None:
        """Return the seconds since the gateway was last heard; None before the start."""
        return None if self._connection is None else self._connection.silent_s()

    async def run(self, accept: Accept) -> None:
        """Listen until cancelled; ends by itself never, also where the token is refused."""
        starts = Starts(self._memory, self._clock, self._alert, self._settings.identify_every_s)
        async with self._lanes as lanes:
            hearing = self._hearing = Hearing(
                accept, self._memory, lanes, self._catch_up, self._files, self._sender, self._clock, self._forms,
                self._natives,
            )  # fmt: skip
            self._connection = Connection(self._settings, hearing, starts, self._clock, self._alert)
            if not self._settings.shard_ids:  # else others hold their part of what is known
                lanes.put("session", partial(self._memory.doubt, PLATFORM))
            if await self._log_in():
                lanes.aside(self._sync)
                hearing.meet(Us(bot_ref=self._rest.account, names=self._names), self._connection)
                await self._connection.keep()
            await asyncio.Event().wait()  # there is nothing more to try; the rest of the house goes on

    async def close(self) -> None:
        """Let go of the connections; what drains after `run` has still been sent through them."""
        await self._rest.close()

    async def _log_in(self) -> bool:
        """Log in, however long it takes; return whether the token is good."""
        again_s = AGAIN_S
        while True:
            try:
                await self._rest.open(self._settings.token)
            except discord.LoginFailure:
                self._alert(REFUSED_ALERT)
                return False
            except ANY_FAILURE as exc:  # the platform is away; it will come back
                _LOG.warning("discord: no login yet: %s", type(exc).__name__)
                await asyncio.sleep(again_s)
                again_s = min(AGAIN_LIMIT_S, again_s * 2)
            else:
                return True

    async def _sync(self) -> None:
        commands = Commands(self._forms, self._settings.guilds, self._rest, self._memory, self._alert)
        while True:
            try:
                again_s = await commands.sync()
            except Unavailable:
                again_s = AGAIN_S
            if again_s is None:
                return
            await asyncio.sleep(again_s)

    def _readable(self, chat: str) -> bool | None:
        """Return whether we may read a chat's history, as the cache says; None where it says nothing."""
        client = None if self._connection is None else self._connection.client
        room = None if client is None else client.get_channel(int(chat) if chat.isdigit() else 0)
        if isinstance(room, discord.DMChannel):
            return True
        return may_read_back(room) if isinstance(room, Room) else None
