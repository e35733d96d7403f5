"""The gateway of the Discord double: sessions over WebSockets with their sequence, replay, intents and shards."""

import asyncio
import json
import secrets
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from aiohttp import WSMsgType, web

from tests.doubles.discord_events import Events, intent_of, is_seen
from tests.doubles.discord_faults import FaultKind, Faults, Mutation, damaged
from tests.doubles.discord_payloads import Json, member_json, user_json
from tests.doubles.discord_rest import Rules
from tests.doubles.discord_state import Guild, Member
from tests.doubles.discord_words import KNOWN_INTENTS, PRIVILEGED, Intent
from tests.doubles.discord_world import World


class Op(IntEnum):
    """The op codes that the double speaks."""

    DISPATCH = 0
    HEARTBEAT = 1
    IDENTIFY = 2
    PRESENCE = 3
    RESUME = 6
    RECONNECT = 7
    REQUEST_MEMBERS = 8
    INVALID_SESSION = 9
    HELLO = 10
    ACK = 11


class Connection:
    """One socket: what is sent goes out in order, compressed as one stream if the client asked for it."""

    def __init__(self, socket: web.WebSocketResponse, request: web.Request) -> None:
        self._socket = socket
        self._request = request
        self._queue: asyncio.Queue[Json | int] = asyncio.Queue()
        self._stream = zlib.compressobj() if request.query.get("compress") == "zlib-stream" else None
        self.ended_here = False

    def send(self, op: Op, data: Any = None, seq: int | None = None, event: str | None = None) -> None:
        self._queue.put_nowait({"op": int(op), "d": data, "s": seq, "t": event})

    def close(self, code: int) -> None:
        """Close with a code, after what was sent before."""
        self.ended_here = True
        self._queue.put_nowait(code)

    def abort(self) -> None:
        """Cut the line without a close frame; what is on its way may be lost."""
        self.ended_here = True
        if self._request.transport is not None:
            self._request.transport.abort()

    async def write(self) -> None:
        """Send until closed."""
        while True:
            frame = await self._queue.get()
            if isinstance(frame, int):
                await self._socket.close(code=frame)
                return
            text = json.dumps(frame)
            try:
                if self._stream is None:
                    await self._socket.send_str(text)
                else:
                    packed = self._stream.compress(text.encode()) + self._stream.flush(zlib.Z_SYNC_FLUSH)
                    await self._socket.send_bytes(packed)
            except ConnectionError:
                return


@dataclass(slots=True, eq=False)
class Session:
    """What survives a lost connection: the sequence and everything that was said under it."""

    id: str
    shard: int
    shard_count: int
    intents: int
    connection: Connection | None
    log: list[tuple[str, Any]] = field(default_factory=list)
    beats: int = 0

    @property
    def seq(self) -> int:
        return len(self.log)

    @property
    def connected(self) -> bool:
        return self.connection is not None

    def covers(self, guild: Guild | None) -> bool:
        """Return whether a guild's events, or those of direct rooms, belong to this shard."""
        return self.shard == (0 if guild is None else (guild.id >> 22) % self.shard_count)

    def push(self, event: str, data: Any) -> None:
        """Say something under the next number, now if connected and in a replay otherwise."""
        self.log.append((event, data))
        if self.connection is not None:
            self.connection.send(Op.DISPATCH, data, self.seq, event)

    def replay(self, after: int) -> None:
        assert self.connection is not None, "a replay needs a connection"
        for seq, (event, data) in enumerate(self.log[after:], start=after + 1):
            self.connection.send(Op.DISPATCH, data, seq, event)


class Gateway:
    """All sessions. `hear` is the listener of the world; the rest is asked for by tests through the server."""

    def __init__(self, world: World, events: Events, faults: Faults, rules: Rules, token: str) -> None:
        self.sessions: list[Session] = []
        self.identifies = 0
        self.resumes = 0
        self.refused_connections = 0
        self.paused = False
        self.url = ""
        self.unimplemented: Callable[[str], None] = lambda _what: None
        self._world = world
        self._events = events
        self._faults = faults
        self._rules = rules
        self._token = token
        self._connections: set[Connection] = set()
        self._held: list[tuple[Session, str, Any]] = []

    def hear(self, event: str, subject: Any, guild: Guild | None = None, channel: Any = None) -> None:
        """Tell every session that may know."""
        if guild is not None and guild.id not in self._world.guilds:
            return
        if not is_seen(event, guild, channel, self._world):
            return
        intent = intent_of(event, subject, guild, self._world)
        told = [one for one in self.sessions if one.covers(guild) and (intent is None or one.intents & intent)]
        if not told:
            return
        twice = self._faults.take(FaultKind.DUPLICATE_EVENT, event) is not None
        late = self._faults.take(FaultKind.LATE_EVENT, event)
        broken = self._faults.take(FaultKind.MALFORMED_EVENT, event)
        for session in told:
            data = self._events.data(event, subject, guild, session.intents)
            if broken is not None:
                data = damaged(data, broken.params.get("damage", "missing_author"))
            if late is not None:
                self._hold(session, event, data, late.params.get("seconds"))
                continue
            for _ in range(1 + twice):
                session.push(event, data)
            self._release(session.shard)

    def _hold(self, session: Session, event: str, data: Any, seconds: float | None) -> None:
        if seconds is None:
            self._held.append((session, event, data))
        else:
            asyncio.get_running_loop().call_later(seconds, session.push, event, data)

    def _release(self, shard: int) -> None:
        """Send what was held back for other shards than the one that was just told something."""
        ready = [held for held in self._held if held[0].shard != shard]
        self._held = [held for held in self._held if held[0].shard == shard]
        for session, event, data in ready:
            session.push(event, data)

    def push_raw(self, event: str, data: Any) -> None:
        """Say anything at all to every session."""
        for session in self.sessions:
            session.push(event, data)

    def each_connection(self) -> list[Connection]:
        return list(self._connections)

    def forget(self) -> None:
        """Make every session unknown, so that a RESUME is refused."""
        for session in self.sessions:
            session.connection = None
        self.sessions.clear()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Hold one connection from HELLO to its end."""
        if self.paused or self._faults.take(FaultKind.GATEWAY_DOWN) is not None:
            self.refused_connections += 1
            return web.Response(status=503)  # a cut would be retried silently by the client's HTTP library
        if request.query.get("compress", "zlib-stream") != "zlib-stream":
            self.unimplemented(f"gateway compress={request.query['compress']}")
        socket = web.WebSocketResponse(autoclose=True, timeout=1)
        await socket.prepare(request)
        connection = Connection(socket, request)
        self._connections.add(connection)
        connection.send(Op.HELLO, {"heartbeat_interval": self._rules.heartbeat_ms})
        try:
            async with asyncio.TaskGroup() as tasks:
                writer = tasks.create_task(connection.write())
                async for frame in socket:
                    if frame.type is WSMsgType.TEXT:
                        self._take(connection, frame.data)
                writer.cancel()
        finally:
            self._connections.discard(connection)
            self._detach(connection, left=not connection.ended_here and socket.close_code in (1000, 1001))
        return socket

    def _detach(self, connection: Connection, *, left: bool) -> None:
        """Let go of a connection; a client that said goodbye has no session any more."""
        for session in list(self.sessions):
            if session.connection is connection:
                session.connection = None
                if left:
                    self.sessions.remove(session)

    def _take(self, connection: Connection, text: str) -> None:
        """Act on a frame; one that breaks the double is noted and closes the line, as one that is no JSON does."""
        try:
            self._receive(connection, json.loads(text))
        except (ValueError, LookupError, TypeError) as error:
            self.unimplemented(f"gateway frame broke: {error!r}")
            connection.close(4002)

    def _session_of(self, connection: Connection) -> Session | None:
        return next((one for one in self.sessions if one.connection is connection), None)

    def _receive(self, connection: Connection, frame: Mapping[str, Any]) -> None:
        session = self._session_of(connection)
        match frame["op"]:
            case Op.HEARTBEAT:
                if session is not None:
                    session.beats += 1
                if self._faults.take(FaultKind.NO_HEARTBEAT_ACK) is None:
                    connection.send(Op.ACK)
            case Op.IDENTIFY:
                self._identify(connection, frame["d"])
            case Op.RESUME:
                self._resume(connection, frame["d"])
            case _ if session is None:
                connection.close(4003)
            case Op.REQUEST_MEMBERS:
                self._send_members(session, frame["d"])
            case Op.PRESENCE:
                pass  # nobody in the double looks at presences
            case unknown:
                self.unimplemented(f"gateway op {unknown}")

    def _identify(self, connection: Connection, ask: Mapping[str, Any]) -> None:
        self.identifies += 1
        shard, shard_count = ask.get("shard") or (0, 1)
        intents = ask.get("intents", 0)
        refusal = self._faults.take(FaultKind.REFUSE_IDENTIFY)
        code: int | None = None
        if refusal is not None:
            code = refusal.params.get("close_code")
        elif ask.get("token") != self._token or self.identifies > self._rules.identifies_per_day:
            code = 4004  # a token that identified too often is reset
        elif not 0 <= shard < shard_count:
            code = 4010
        elif intents & ~KNOWN_INTENTS:
            code = 4013
        elif intents & PRIVILEGED & ~self._rules.privileged_intents:
            code = 4014
        if code is not None:
            connection.close(code)
        elif refusal is not None:
            connection.send(Op.INVALID_SESSION, False)
        else:
            self._begin(Session(secrets.token_hex(16), shard, shard_count, intents, connection))

    def _begin(self, session: Session) -> None:
        self.sessions.append(session)
        guilds = [guild for guild in self._world.guilds.values() if session.covers(guild)]
        bot = self._world.bot
        ready = {
            "v": 10,
            "user": user_json(bot),
            "guilds": [{"id": str(guild.id), "unavailable": True} for guild in guilds],
            "session_id": session.id,
            "resume_gateway_url": self.url,
            "shard": [session.shard, session.shard_count],
            "application": {"id": str(bot.id), "flags": self.application_flags()},
        }
        session.push("READY", ready)
        for guild in guilds:
            if session.intents & Intent.GUILDS and not guild.unavailable:
                known = self._events.data("GUILD_CREATE", guild, guild, session.intents) | {"unavailable": False}
                session.push("GUILD_CREATE", known)

    def application_flags(self) -> int:
        """Return which privileged intents the application was given, as its flags say it."""
        flags = {Intent.GUILD_PRESENCES: 1 << 12, Intent.GUILD_MEMBERS: 1 << 14, Intent.MESSAGE_CONTENT: 1 << 18}
        return sum(flag for intent, flag in flags.items() if intent & self._rules.privileged_intents)

    def _resume(self, connection: Connection, ask: Mapping[str, Any]) -> None:
        session = next((one for one in self.sessions if one.id == ask.get("session_id")), None)
        refused = self._faults.take(FaultKind.REFUSE_RESUME) is not None
        after = ask.get("seq") or 0
        if ask.get("token") != self._token:
            connection.close(4004)
        elif session is None or refused or after > session.seq:
            if session is not None:
                self.sessions.remove(session)
            connection.send(Op.INVALID_SESSION, False)
        else:
            self.resumes += 1
            if session.connection is not None:
                session.connection.abort()  # a line that its client gave up before we noticed
            session.connection = connection
            if Mutation.RESUME_ONE_TOO_MANY in self._rules.mutations:
                after = max(0, after - 1)
            if Mutation.RESUME_REPLAYS_NOTHING not in self._rules.mutations:
                session.replay(after)
            session.push("RESUMED", {"_trace": []})

    def _send_members(self, session: Session, ask: Mapping[str, Any]) -> None:
        guild = self._world.guilds[int(ask["guild_id"])]
        query, limit, wanted = ask.get("query"), ask.get("limit") or 0, ask.get("user_ids")
        found: list[Member] = list(guild.members.values())
        missing: list[str] = []
        if wanted is not None:
            ids = [int(key) for key in (wanted if isinstance(wanted, list) else [wanted])][:100]
            missing = [str(key) for key in ids if key not in guild.members]
            found = [guild.members[key] for key in ids if key in guild.members]
        elif query:
            found = [one for one in found if (one.nick or one.user.name).lower().startswith(query.lower())]
            found = found[: min(limit or 100, 100)]
        elif not session.intents & Intent.GUILD_MEMBERS:
            self.unimplemented("gateway op 8 for all members without their intent")
            return
        elif limit:
            found = found[:limit]
        size = self._rules.members_per_chunk
        count = max(1, -(-len(found) // size))
        for index in range(count):
            part = found[index * size : (index + 1) * size]
            chunk: Json = {
                "guild_id": str(guild.id),
                "members": [member_json(member) for member in part],
                "chunk_index": index,
                "chunk_count": count,
                "not_found": missing,
            }
            session.push("GUILD_MEMBERS_CHUNK", chunk | ({"nonce": ask["nonce"]} if ask.get("nonce") else {}))
