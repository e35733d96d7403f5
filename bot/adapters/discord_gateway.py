"""The connection to Discord: one that survives what it hears, counts its starts and is made anew when it ends."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import discord
import yarl

from bot.adapters.discord_payload import Payload, payload
from core.domain.errors import Misconfigured, Unavailable
from core.ports import Clock, PlatformMemory

STARTS_ALARM, STARTS_LIMIT = 200, 800
"""Starts a day: the platform takes the token away at 1,000."""
SPENT_S = 3600.0
"""How long to wait where the starts of a day are used up."""
IDENTIFY_EVERY_S = 5.0
AGAIN_S, AGAIN_LIMIT_S = 1.0, 60.0
BAD_TOKEN, PRIVILEGED = 4004, 4014
_LOG = logging.getLogger(__name__)

REFUSED_ALERT = (
    "discord: the token is refused; make a new one in the developer portal (the application, page Bot, Reset Token), "
    "put it into DISCORD_TOKEN and start again; until then nothing is heard or said there"
)
NO_TEXT_ALERT = (
    "discord: the Message Content intent is off: only mentions, replies to me, direct messages and commands reach me; "
    "to change that, switch it on in the developer portal (the application, page Bot, Privileged Gateway Intents) "
    "and start again"
)
NO_MEMBERS_ALERT = (
    "discord: the Server Members intent is off: I do not know who may read which room and will not speak of one room "
    "in another; to change that, switch it on in the developer portal (the application, page Bot, Privileged Gateway "
    "Intents) and start again"
)


@dataclass(frozen=True, slots=True)
class DiscordSettings:
    """How Discord is reached. Empty addresses are the platform's own; empty `guilds`: commands are everywhere.

    `shard_ids`: the shards of this process among `shard_count`; empty: all that the platform advises.
    `complete_after_s`: seconds after the last community until no more are waited for.
    `identify_every_s`: seconds between two starts of the connection; the platform wants five.
    """

    token: str = field(repr=False)
    api_url: str = ""
    gateway_url: str = ""
    cdn_url: str = ""
    shard_ids: Sequence[int] = ()
    shard_count: int | None = None
    guilds: Sequence[str] = ()
    complete_after_s: float = 1.0
    identify_every_s: float = IDENTIFY_EVERY_S

    def apply(self) -> None:
        """Point the library there: its addresses are its own globals, set before the first client is made."""
        if self.api_url:
            discord.http.Route.BASE = f"{self.api_url.rstrip('/')}/api/v10"
        if self.gateway_url:
            discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(self.gateway_url)
        if self.cdn_url:
            discord.asset.Asset.BASE = self.cdn_url.rstrip("/")


def all_intents() -> discord.Intents:
    """Return everything that is asked for at first."""
    intents = discord.Intents.none()
    intents.guilds = intents.members = intents.guild_messages = intents.dm_messages = True
    intents.guild_reactions = intents.dm_reactions = True
    intents.moderation = intents.auto_moderation_execution = True
    intents.message_content = True
    return intents


class Ear(Protocol):
    """Who hears what the connection brings; nothing here may wait."""

    def before(self, event: str, data: Payload, client: discord.Client) -> None:
        """Hear an event before the cache knows of it."""
        ...

    def after(self, event: str, data: Payload, client: discord.Client) -> None:
        """Hear an event that the cache knows of."""
        ...

    def community(self, guild: discord.Guild, client: discord.Client) -> None:
        """Hear that a community is there, with its members if we may know them."""
        ...

    def complete(self, shard_id: int, client: discord.Client) -> None:
        """Hear that all communities of a shard are there, after each new session."""
        ...


class Starts:
    """Counts IDENTIFY in the store, over all processes and restarts, and keeps them apart in time."""

    def __init__(self, memory: PlatformMemory, clock: Clock, alert: Callable[[str], None], every_s: float) -> None:
        self._memory, self._clock, self._alert, self._every_s = memory, clock, alert, every_s
        self._last = float("-inf")
        self._alarmed = False

    async def count(self, account: str) -> None:
        """Count one start and wait until it may be made.

        Raises:
            Misconfigured: There were too many in a day.
            Unavailable: The store is down: a start that nobody counts is not made.
        """
        starts = await self._memory.count_start(f"discord:{account}")
        if starts > STARTS_LIMIT:
            raise Misconfigured("discord: too many starts in a day", starts=starts)
        if starts >= STARTS_ALARM and not self._alarmed:
            self._alarmed = True
            self._alert(f"discord: {starts} starts of the connection in 24 hours; at {STARTS_LIMIT} I stop connecting")
        wait_s = self._last + self._every_s - self._clock.monotonic()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        self._last = self._clock.monotonic()


class Wire(discord.AutoShardedClient):
    """The library's client with one ear for raw events. A broken event is counted and costs nothing else."""

    def __init__(
        self, settings: DiscordSettings, intents: discord.Intents, ear: Ear, starts: Starts, clock: Clock
    ) -> None:
        super().__init__(
            intents=intents,
            shard_ids=list(settings.shard_ids) or None,  # type: ignore[arg-type]  # None: all of them
            shard_count=settings.shard_count,
            max_messages=None,
            enable_debug_events=True,
            guild_ready_timeout=settings.complete_after_s,
            chunk_guilds_at_startup=intents.members,
            allowed_mentions=discord.AllowedMentions.none(),
        )
        self.heard_at = clock.monotonic()
        self.was_ready = False
        self.broken: Counter[str] = Counter()
        self._clock, self._ear, self._starts = clock, ear, starts
        self._launched: set[int] = set()
        self._refusal: Exception | None = None
        parsers = self._connection.parsers
        for event, parse in list(parsers.items()):
            parsers[event] = self._guarded(event, parse)

    def _guarded(self, event: str, parse: Callable[[dict[str, object]], object]) -> Callable[[dict[str, object]], None]:
        """Return the library's parser between our two ears; what any of them raises ends there."""

        def heard(data: dict[str, object]) -> None:
            body = payload(data)
            steps: tuple[Callable[[], object], ...] = (
                lambda: self._ear.before(event, body, self),
                lambda: parse(data),
                lambda: self._ear.after(event, body, self),
            )
            for step in steps:
                try:
                    step()
                except Exception as exc:  # noqa: BLE001  # an event that breaks a promise must not end the connection
                    self.broken[event] += 1
                    _LOG.warning("discord: a broken event of type %s: %s", event, type(exc).__name__)

        return heard

    def dispatch(self, event: str, /, *args: object, **kwargs: object) -> None:
        """Note that something was heard; pass on what the library says of itself."""
        if event == "socket_raw_receive":
            self.heard_at = self._clock.monotonic()
        elif event != "socket_raw_send":
            super().dispatch(event, *args, **kwargs)

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """Count the start, and wait as long as the platform wants between two."""
        try:
            await self._starts.count(str(self.application_id or ""))
        except Exception as exc:
            self._refusal = exc
            raise

    async def launch_shard(self, gateway: yarl.URL, shard_id: int, *, initial: bool = False) -> None:
        """Start a shard once; the library would try for ever, one call inside the other."""
        if shard_id in self._launched:
            raise self._refusal or Unavailable("discord: the gateway can't be reached", shard=shard_id)
        self._launched.add(shard_id)
        await super().launch_shard(gateway, shard_id, initial=initial)

    async def on_guild_available(self, guild: discord.Guild) -> None:
        """Pass on a community that is there."""
        self._ear.community(guild, self)

    async def on_guild_join(self, guild: discord.Guild) -> None:
        """Pass on a community that is new."""
        self._ear.community(guild, self)

    async def on_shard_ready(self, shard_id: int) -> None:
        """Pass on that all communities of a shard are there."""
        self.was_ready = True
        self._ear.complete(shard_id, self)


class Connection:
    """Makes connections, one after another, as long as the token is good."""

    def __init__(self, settings: DiscordSettings, ear: Ear, starts: Starts, clock: Clock, alert: Callable[[str], None]):
        self._settings, self._ear, self._starts = settings, ear, starts
        self._clock, self._alert = clock, alert
        self._intents = all_intents()
        self._began = clock.monotonic()
        self._degraded: set[str] = set()
        self.client: Wire | None = None
        self.broken: Counter[str] = Counter()

    @property
    def sees_text(self) -> bool:
        """Return whether the words of all messages are asked for, not only of those meant for us."""
        return self._intents.message_content

    def silent_s(self) -> float:
        """Return the seconds since anything was heard, or since the first attempt."""
        return self._clock.monotonic() - (self._began if self.client is None else self.client.heard_at)

    async def keep(self) -> None:
        """Stay connected; returns only where trying again is of no use."""
        again_s = AGAIN_S
        while True:
            client = Wire(self._settings, self._intents, self._ear, self._starts, self._clock)
            try:
                again = await self._once(client)
            finally:
                self.broken += client.broken
            if again is None:
                return
            again_s = AGAIN_S if client.was_ready else again_s
            await asyncio.sleep(max(again, again_s))
            again_s = min(AGAIN_LIMIT_S, again_s * 2)

    async def _once(self, client: Wire) -> float | None:
        """Run one connection to its end; return the least seconds until the next, None for none."""
        began, self.client = self._began if self.client is None else self.client.heard_at, client
        client.heard_at = began
        try:
            async with client:
                await client.login(self._settings.token)
                await client.connect()
        except discord.LoginFailure:
            self._alert(REFUSED_ALERT)
            return None
        except discord.PrivilegedIntentsRequired:
            self._do_without(client.application_flags)
        except discord.ConnectionClosed as exc:
            if exc.code == BAD_TOKEN:
                self._alert(REFUSED_ALERT)
                return None
            _LOG.warning("discord: the connection was closed with code %s", exc.code)
        except Misconfigured as exc:
            self._alert(f"{exc}; the next attempt is in an hour")
            return SPENT_S
        except Exception as exc:  # noqa: BLE001  # whatever ends it, the next connection is the remedy
            _LOG.warning("discord: the connection ended: %s", type(exc).__name__, exc_info=exc)
        return 0.0

    def _do_without(self, granted: discord.ApplicationFlags) -> None:
        """Ask for less: without what the application was not given, or without all that needs to be given."""
        text = granted.gateway_message_content or granted.gateway_message_content_limited
        members = granted.gateway_guild_members or granted.gateway_guild_members_limited
        if text and members:  # the application's own page may be newer than what the gateway knows
            text = members = False
        if not text and self._intents.message_content:
            self._intents.message_content = False
            self._alert(NO_TEXT_ALERT)
        if not members and self._intents.members:
            self._intents.members = False
            self._alert(NO_MEMBERS_ALERT)
