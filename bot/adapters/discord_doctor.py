"""What an operator can get wrong at Discord, found out by REST alone: no connection is made that could end another."""

import asyncio
from collections.abc import Sequence
from datetime import datetime

import aiohttp
import discord

from bot.adapters.discord_gateway import DiscordSettings
from bot.adapters.discord_rest import FAILURES
from core.domain.findings import Examined, Finding, clock, http_date, ok, one_line, warning, wrong
from core.ports import Clock

SERVERS_LOOKED_INTO = 50
"""Of more servers than these only their number is told: each takes three requests."""
NAMED = 3
"""How many rooms a line names before it only counts."""
WITHIN_S = 120.0
_GRAIN_S = 1.0
_PORTAL = "in the developer portal (the application, page Bot"
# The platform's names for what the invite link asks for and each room should allow.
NEEDED = {
    "view_channel": "View Channels",
    "send_messages": "Send Messages",
    "send_messages_in_threads": "Send Messages in Threads",
    "read_message_history": "Read Message History",
    "embed_links": "Embed Links",
    "attach_files": "Attach Files",
    "use_application_commands": "Use Application Commands",
}
PERMISSIONS = discord.Permissions(**dict.fromkeys(NEEDED, True))
TOKEN_REMEDY = f"make a new token {_PORTAL}, Reset Token), put it into DISCORD_TOKEN and start again"
REACH_REMEDY = "let this machine reach the platform over https, or mend DISCORD_API_URL; then ask again"


class Times:
    """The times that answers carry in their headers, each with ours when we asked and when we knew."""

    def __init__(self, ours: Clock) -> None:
        self._ours = ours
        self._asked = ours.now()
        self.last: tuple[datetime, datetime, datetime] | None = None

    def trace(self) -> aiohttp.TraceConfig:
        """Return what has the library's connections tell us."""
        made = aiohttp.TraceConfig()
        made.on_request_start.append(self._begun)
        made.on_request_end.append(self._ended)
        return made

    async def _begun(self, *_: object) -> None:
        self._asked = self._ours.now()

    async def _ended(self, _session: object, _context: object, done: aiohttp.TraceRequestEndParams) -> None:
        told = http_date(done.response.headers.get("Date", ""))
        if told is not None:
            self.last = (self._asked, told, self._ours.now())


async def examine(settings: DiscordSettings, ours: Clock) -> Examined:
    """Log in by REST, look, and leave."""
    settings.apply()
    times = Times(ours)
    client = discord.Client(intents=discord.Intents.none(), max_ratelimit_timeout=30, http_trace=times.trace())
    found: list[Finding] = []
    name = ""
    try:
        async with asyncio.timeout(WITHIN_S):
            await client.login(settings.token)
            name = "" if client.user is None else one_line(client.user.display_name)
            found.append(ok("discord.token", f"good, the bot is {name}"))
            found += _application(client)
            found += await _servers(client, settings.guilds)
    except discord.LoginFailure:
        found.append(wrong("discord.token", "the platform refuses it", TOKEN_REMEDY))
    except FAILURES as exc:
        found.append(_failed(exc))
    finally:
        await client.close()
    if times.last is not None:
        found.append(clock("discord", *times.last, grain_s=_GRAIN_S))
    return Examined(tuple(found), name)


def _failed(exc: Exception) -> Finding:
    check = "discord.reached"
    match exc:
        case discord.RateLimited() | discord.HTTPException(status=429):
            return warning(check, "the platform asks for a pause", "ask again in some minutes")
        case discord.HTTPException():
            return wrong(check, f"the platform answered {exc.status} (code {exc.code})", "ask again in some minutes")
        case _:
            return wrong(check, f"no answer ({type(exc).__name__})", REACH_REMEDY)


def _application(client: discord.Client) -> list[Finding]:
    """Return how the application is set up: its privileged intents, and where commands go."""
    flags, found = client.application_flags, []
    switch = f"switch it on {_PORTAL}, Privileged Gateway Intents) and start again"
    if flags.gateway_message_content or flags.gateway_message_content_limited:
        found.append(ok("discord.message_content", "the intent is granted"))
    else:
        what = "the Message Content intent is off: only mentions, replies, direct messages and commands are heard"
        found.append(warning("discord.message_content", what, switch))
    if flags.gateway_guild_members or flags.gateway_guild_members_limited:
        found.append(ok("discord.members", "the intent is granted"))
    else:
        what = "the Server Members intent is off: nobody's rooms are known, so no room is spoken of in another"
        found.append(warning("discord.members", what, switch))
    application = client.application
    if application is not None and application.interactions_endpoint_url:
        what = "an Interactions Endpoint URL is set: commands go there and never reach the bot"
        remedy = "empty it in the developer portal (the application, page General Information)"
        found.append(wrong("discord.commands", what, remedy))
    return found


async def _servers(client: discord.Client, wanted: Sequence[str]) -> list[Finding]:
    guilds = [guild async for guild in client.fetch_guilds(limit=None, with_counts=False)]
    invite = discord.utils.oauth_url(
        client.application_id or 0, permissions=PERMISSIONS, scopes=("bot", "applications.commands")
    )
    found: list[Finding] = []
    if not guilds:
        found.append(warning("discord.servers", "the bot is in no server", f"invite it: {invite}"))
    else:
        found.append(ok("discord.servers", f"the bot is in {len(guilds)}"))
    known = {str(guild.id) for guild in guilds}
    for missing in [each for each in wanted if each not in known]:
        what = f"DISCORD_GUILDS names {one_line(missing)}, and the bot is in no such server"
        found.append(wrong("discord.guilds", what, f"take it out of DISCORD_GUILDS, or invite the bot there: {invite}"))
    for guild in guilds[:SERVERS_LOOKED_INTO]:
        found += await _server(client, guild.id, invite)
    return found


async def _server(client: discord.Client, key: int, invite: str) -> list[Finding]:
    guild = await client.fetch_guild(key, with_counts=False)
    me = await guild.fetch_member(client.user.id if client.user is not None else 0)
    rooms = [room for room in await guild.fetch_channels() if not isinstance(room, discord.CategoryChannel)]
    place = f"in the server {one_line(guild.name)}"
    found = [_rights(place, guild, me, rooms, invite)]
    if not guild.default_role.permissions.use_application_commands:
        what = f"{place} members may not use commands"
        remedy = "Server Settings, Roles, @everyone: switch on Use Application Commands, or give it to a role they hold"
        found.append(warning("discord.commands", what, remedy))
    return found


def _rights(
    place: str, guild: discord.Guild, me: discord.Member, rooms: Sequence[discord.abc.GuildChannel], invite: str
) -> Finding:
    """Return what the bot lacks in a server: everywhere by its roles, or in single rooms by their own settings."""
    check = "discord.permissions"
    held = discord.Permissions.none()
    for role in guild.roles:
        if role.is_default() or role in me.roles:
            held |= role.permissions
    lacking = [] if held.administrator or guild.owner_id == me.id else _lacking(held)
    if lacking:
        remedy = f"Server Settings, Roles, the bot's role: switch that on; or use this link once more: {invite}"
        return warning(check, f"{place} the bot lacks {', '.join(lacking)}", remedy)
    may = {room: room.permissions_for(me) for room in rooms}
    seen = [room for room in rooms if may[room].view_channel]
    if not any(may[room].send_messages for room in seen):
        what = f"{place} the bot may write in no room"
        return wrong(
            check, what, "in a channel's settings, Permissions: add the bot's role, allow what the guide lists"
        )
    poor = {room: lacks for room in seen if (lacks := _lacking_in_room(may[room]))}
    if not poor:
        return ok(check, f"{place} the bot sees {len(seen)} of {len(rooms)} rooms and may there all it needs")
    names = sorted({name for lacks in poor.values() for name in lacks}, key=list(NEEDED.values()).index)
    shown = ", ".join(f"#{one_line(room.name)}" for room in list(poor)[:NAMED])
    more = f" and {len(poor) - NAMED} more" if len(poor) > NAMED else ""
    remedy = f"in the settings of these channels, Permissions: allow that to the bot's role ({', '.join(names)})"
    return warning(check, f"{place} the bot lacks {', '.join(names)} in {shown}{more}", remedy)


def _lacking(held: discord.Permissions) -> list[str]:
    return [label for name, label in NEEDED.items() if not getattr(held, name)]


def _lacking_in_room(held: discord.Permissions) -> list[str]:
    """Return the same for a room, where who may not write may not embed or attach either, whatever is set."""
    follow = () if held.send_messages else (NEEDED["embed_links"], NEEDED["attach_files"])
    return [label for label in _lacking(held) if label not in follow]
