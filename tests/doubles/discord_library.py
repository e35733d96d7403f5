"""Runs the real discord.py against the double, for the double's own tests."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import discord
import yarl
from discord import app_commands

from tests.doubles.discord_server import DiscordServer
from tests.doubles.discord_state import Channel, Guild, Member
from tests.fakes import ManualClock

ALL_INTENTS = discord.Intents.all()


def point_library_at(server: DiscordServer) -> None:
    """Point the library's globals at a double; they stay so, and the next call replaces them."""
    discord.http.Route.BASE = f"{server.api_url}/api/v10"
    discord.gateway.DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(server.gateway_url)
    discord.asset.Asset.BASE = server.cdn_url


class Listener(discord.Client):
    """A client that writes down every event with its arguments and waits for nothing between sessions.

    `ended_by` is what its run raised, once it ended.
    """

    def __init__(self, intents: discord.Intents = ALL_INTENTS, **options: Any) -> None:
        super().__init__(intents=intents, guild_ready_timeout=0.05, **options)
        self.heard: list[tuple[str, Sequence[Any]]] = []
        self.ended_by: Exception | None = None
        self.tree = app_commands.CommandTree(self)

    def dispatch(self, event: str, /, *args: Any, **kwargs: Any) -> None:
        self.heard.append((event, args))
        super().dispatch(event, *args, **kwargs)

    async def before_identify_hook(self, shard_id: int | None, *, initial: bool = False) -> None:
        """Identify at once; the library would wait 5 s."""

    async def run_with(self, token: str) -> None:
        """Log in and run to the end, whatever it is."""
        try:
            await self.start(token)
        except Exception as error:
            self.ended_by = error

    def events(self, name: str) -> list[Any]:
        """Return the first argument of each event of a name; None for one without."""
        return [args[0] if args else None for heard, args in self.heard if heard == name]

    def texts(self) -> list[str]:
        return [message.content for message in self.events("message")]


class ShardedListener(Listener, discord.AutoShardedClient):
    """The same over several shards."""


ListenerT = TypeVar("ListenerT", bound=Listener)


@asynccontextmanager
async def running(server: DiscordServer, client: ListenerT) -> AsyncIterator[ListenerT]:
    """Run a client until the block ends; inside, it is ready or has ended."""
    point_library_at(server)
    logging.getLogger("discord").setLevel(logging.CRITICAL)
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(client.run_with(server.token))
        try:
            await server.until(lambda: run.done() or client.is_ready())
            yield client
        finally:
            await client.close()
            run.cancel()


@dataclass(frozen=True, slots=True)
class Place:
    """A small community at a double: one guild, one room, one member; time can be moved."""

    server: DiscordServer
    clock: ManualClock
    guild: Guild
    room: Channel
    ada: Member

    def texts(self) -> list[str]:
        """Return what is stored in the room, oldest first."""
        return [message.content for message in self.server.messages(self.room)]

    async def seen(self, client: Listener, channel: Channel | None = None) -> Any:
        """Return a channel as the library knows it."""
        found = client.get_channel((channel or self.room).id)
        assert found is not None
        return found


@asynccontextmanager
async def open_place() -> AsyncIterator[Place]:
    """Open a double with people in it; at the end nothing unimplemented was asked and every fault has bitten."""
    clock = ManualClock()
    async with DiscordServer(clock) as server:
        guild = server.add_guild("Workshop")
        yield Place(server, clock, guild, guild.add_channel("general"), guild.add_member("Ada"))
