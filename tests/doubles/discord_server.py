"""A double of Discord on loopback: gateway, REST and CDN behind real sockets, for the real client library.

    async with DiscordServer() as discord:
        guild = discord.add_guild("Workshop")
        room, ada = guild.add_channel("general"), guild.add_member("Ada")
        ... start a client with discord.token against discord.api_url and discord.gateway_url ...
        await discord.say(ada, room, f"{discord.bot.mention} hello")
        await discord.until(lambda: len(discord.messages(room)) == 2)

It is no proof of the platform, least of all of its arithmetic of permissions.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Self

from aiohttp import web

from bot.clock import SystemClock
from core.ports import Clock
from tests.doubles.discord_bodies import Bodies
from tests.doubles.discord_commands import CommandRoutes
from tests.doubles.discord_events import Events
from tests.doubles.discord_faults import Fault, FaultKind, Faults
from tests.doubles.discord_gateway import Gateway, Op, Session
from tests.doubles.discord_interactions import Interaction, Interactions
from tests.doubles.discord_log import GuildLog
from tests.doubles.discord_members import AuditEntry, MemberRoutes
from tests.doubles.discord_messages import MessageRoutes
from tests.doubles.discord_payloads import Cdn, Json, Payloads
from tests.doubles.discord_people import People
from tests.doubles.discord_rest import Call, Limits, Rest, Rules
from tests.doubles.discord_rooms import RoomRoutes, gateway_bot
from tests.doubles.discord_staff import Staff
from tests.doubles.discord_state import Guild, User
from tests.doubles.discord_words import MODERATOR_BOT
from tests.doubles.discord_world import World

TOKEN = "MTA.double.of-a-bot-token"


class DiscordServer(Rules, People, Staff):
    """One Discord: what a test may set comes from `Rules`, what people do from `People`, the rest is here.

    The library keeps its addresses in globals, so a process talks to one of these at a time.

    Attributes:
        token: What the bot has to identify with.
        world: Everything stored; its `clock` is the one given, so that a test can let time pass.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        Rules.__init__(self)
        self.token = TOKEN
        self.clock = clock or SystemClock()
        world = World(self.clock)
        self.cdn = Cdn(self.clock)
        self._faults = Faults()
        self._limits = Limits(self.clock)
        self._rest = Rest(self, self._faults, self._limits, TOKEN)
        payloads = Payloads(world, self.cdn)
        bodies = Bodies(world, self)
        self._gateway = Gateway(world, Events(world, payloads), self._faults, self, TOKEN)
        self._gateway.unimplemented = self._rest.note_unimplemented
        world.listener = self._gateway.hear
        messages = MessageRoutes(world, payloads, bodies, self)
        self._members = MemberRoutes(world, self)
        self.log = GuildLog(world)
        self._commands = CommandRoutes(world, self)
        self._interactions = Interactions(world, payloads, bodies, self)
        People.__init__(self, world, self._interactions, self._commands)
        app = web.Application(client_max_size=32 * 2**20)
        rooms = RoomRoutes(world, payloads, messages, self, self._gateway_bot)
        for area in (rooms, messages, self._members, self.log, self._commands, self._interactions):
            self._rest.mount(app, area.routes())
        app.router.add_get("/gateway/", self._gateway.serve)
        app.router.add_get("/attachments/{channel}/{attachment}/{filename}", self._file)
        app.router.add_route("*", "/{rest:.*}", self._rest.unknown)
        self._runner = web.AppRunner(app, shutdown_timeout=1, access_log=None)
        self._port = 0

    async def start(self) -> None:
        """Listen on a free port of 127.0.0.1."""
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self._port = self._runner.addresses[0][1]
        self.cdn.base = self.cdn_url
        self._gateway.url = self.gateway_url

    async def stop(self) -> None:
        """End every connection and stop listening."""
        await self.drop()
        await self._runner.cleanup()

    def check(self) -> None:
        """Fail if the double was asked for what it cannot do, or if a fault never bit."""
        assert not self.unimplemented, f"UNIMPLEMENTED: {self.unimplemented}"
        assert not self.unused_faults(), f"faults that never bit: {self.unused_faults()}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        await self.stop()
        if kind is None:
            self.check()

    @property
    def api_url(self) -> str:
        """The address before `/api/v10`."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def cdn_url(self) -> str:
        return self.api_url

    @property
    def gateway_url(self) -> str:
        return f"ws://127.0.0.1:{self._port}/gateway/"

    @property
    def bot(self) -> User:
        """The account of the bot; each guild knows it as the member `guild.me`."""
        return self.world.bot

    def add_guild(self, name: str, bot_permissions: int = MODERATOR_BOT, owner: str = "Owner") -> Guild:
        """Found a guild with an owner and the bot in it; the nth belongs to shard n modulo their number."""
        return self.world.add_guild(name, bot_permissions, owner)

    # What was asked of the double

    @property
    def calls(self) -> list[Call]:
        """Every request, in order."""
        return self._rest.calls

    @calls.setter
    def calls(self, notes: list[Call]) -> None:
        self._rest.calls = notes

    def called(self, method: str, path_part: str) -> list[Call]:
        """Return the requests of a method whose path contains a part."""
        return [call for call in self.calls if call.method == method and path_part in call.path]

    @property
    def unimplemented(self) -> list[str]:
        return self._rest.unimplemented

    @property
    def audit(self) -> list[AuditEntry]:
        """What the bot did to members, with its reasons."""
        return self._members.audit

    @property
    def commands(self) -> dict[int | None, list[Json]]:
        """The registered commands by guild id; None: the global ones."""
        return self._commands.commands

    @property
    def interactions(self) -> list[Interaction]:
        return self._interactions.all

    @property
    def invalid_answers(self) -> int:
        """How many 401, 403 and 429 were answered: Discord blocks an address that collects them."""
        return self._limits.invalid_answers

    async def until(
        self, condition: Callable[[], bool] | Callable[[], Awaitable[bool]], timeout_s: float = 10.0
    ) -> None:
        """Wait until a condition holds; fail if it does not in time."""
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            held = condition()
            if held if isinstance(held, bool) else await held:
                return
            if asyncio.get_running_loop().time() > deadline:
                raise AssertionError(f"still not so after {timeout_s} s; last calls: {self.calls[-3:]}")
            await asyncio.sleep(0.01)

    # Faults and limits

    def fault(
        self, kind: FaultKind | str, times: int = 1, match: str | None = None, *, skip: int = 0, **params: Any
    ) -> Fault:
        """Order a fault for the next `times` requests or events that match, after `skip` that pass; see `FaultKind`."""
        return self._faults.add(kind, times, match, skip, params)

    def unused_faults(self) -> Sequence[Fault]:
        return self._faults.unused()

    def limit(self, match: str, count: int, per_s: float) -> None:
        """Limit the routes that match, such as "POST /channels/*/messages", for each room; answers carry the bucket."""
        self._limits.add(match, count, per_s)

    def limit_globally(self, per_second: int) -> None:
        """Limit all requests together; Discord's own number is 50."""
        self._limits.per_second = per_second

    # The gateway

    @property
    def sessions(self) -> list[Session]:
        """The sessions that a RESUME would find, whether connected or not."""
        return self._gateway.sessions

    @property
    def connected(self) -> bool:
        """Whether any session is connected now."""
        return any(session.connected for session in self.sessions)

    @property
    def identifies(self) -> int:
        return self._gateway.identifies

    @property
    def resumes(self) -> int:
        return self._gateway.resumes

    @property
    def refused_connections(self) -> int:
        return self._gateway.refused_connections

    async def drop(self) -> None:
        """Cut every gateway connection without a close frame; sessions stay."""
        cut = set(self._gateway.each_connection())
        for connection in cut:
            connection.abort()
        await self.until(lambda: cut.isdisjoint(self._gateway.each_connection()))  # a client may be back at once

    async def close(self, code: int) -> None:
        """Close every gateway connection with a code; sessions stay."""
        for connection in self._gateway.each_connection():
            connection.close(code)

    async def reconnect(self) -> None:
        """Ask every client to reconnect and resume."""
        for connection in self._gateway.each_connection():
            connection.send(Op.RECONNECT)

    async def invalidate(self, resumable: bool) -> None:
        """Declare every session invalid; one that is not resumable is forgotten, with all that it missed."""
        if not resumable:
            self._gateway.forget()
        for connection in self._gateway.each_connection():
            connection.send(Op.INVALID_SESSION, resumable)

    def pause_gateway(self) -> None:
        """Refuse gateway connections from now on; those that are open stay."""
        self._gateway.paused = True

    def resume_gateway(self) -> None:
        self._gateway.paused = False

    async def push_raw(self, event: str, data: Any) -> None:
        """Say any event at all to every session: for malformed ones."""
        self._gateway.push_raw(event, data)

    def _gateway_bot(self) -> Json:
        gateway = self._gateway
        return gateway_bot(self.gateway_url, self, gateway.identifies, gateway.application_flags())

    async def _file(self, request: web.Request) -> web.StreamResponse:
        self.calls.append(Call("GET", request.path, None, request.headers.copy(), dict(request.query)))
        attachment = self.world.files.get(int(request.match_info["attachment"]))
        if attachment is None or not self.cdn.accepts(request.path, request.query):
            self.calls[-1].status = 404
            return web.Response(status=404, text="This content is no longer available.")
        self.calls[-1].status = 200
        return web.Response(body=attachment.data, headers={"Content-Type": attachment.content_type})
