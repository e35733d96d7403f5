"""Discord's REST interface through the client library: requests as values, refusals by their meaning."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import aiohttp
import discord
from discord.http import Route

from core.domain.moderation import refusals
from core.ports import Ambiguous, RetryAfter, SendRefused, SendResult, Unsent

LONGEST_WAIT_S = 2.0
"""A limit that lasts longer is told to the caller; the library waits for shorter ones by itself."""
BANNED_WAIT_S = 60.0
"""How long to stay away after a refusal that is no ordinary limit."""
REQUEST_S = 45.0
"""How long one request may take with the library's own repetitions."""

EMPTY, UNKNOWN_ROOM, UNKNOWN_MESSAGE, NO_ACCESS, NO_PERMISSION = 50006, 10003, 10008, 50001, 50013
DM_CLOSED, BAD_FORM, NO_HISTORY_FOR_REPLY, THREAD_ARCHIVED = 50007, 50035, 160002, 50083
TOKEN_OVER, UNKNOWN_HOOK, UNKNOWN_INTERACTION, ACKED_BEFORE = 50027, 10015, 10062, 40060
AUTOMOD, AUTOMOD_TITLE, OLD_EDITS, NOT_OURS = 200000, 200001, 30046, 50005
UNKNOWN_SERVER, UNKNOWN_MEMBER, UNKNOWN_USER, UNKNOWN_BAN, TWO_FACTOR = 10004, 10007, 10013, 10026, 60003
NOT_BANNED = "not_banned"

_UNENCODED = "/ "
"""What the library leaves as it is in a header."""

_MEANINGS: Mapping[int, str] = {
    EMPTY: "empty",
    UNKNOWN_ROOM: "room_gone",
    UNKNOWN_MESSAGE: "unknown_message",
    NO_ACCESS: "no_permission",
    NO_PERMISSION: "no_permission",
    DM_CLOSED: "dm_closed",
    THREAD_ARCHIVED: "thread_archived",
    AUTOMOD: "automod",
    AUTOMOD_TITLE: "automod",
    OLD_EDITS: "edits_spent",
    NOT_OURS: "not_ours",
    TOKEN_OVER: "token_over",
    UNKNOWN_HOOK: "token_over",
    UNKNOWN_SERVER: refusals.ROOM_GONE,
    UNKNOWN_MEMBER: refusals.NOT_THERE,
    UNKNOWN_USER: refusals.UNKNOWN_MEMBER,
    UNKNOWN_BAN: NOT_BANNED,
    TWO_FACTOR: refusals.TWO_FACTOR,
}
UNREACHABLE = frozenset({"no_permission", "room_gone"})
"""Refusals that stand until the platform says that something has changed."""


@dataclass(frozen=True, slots=True)
class Request:
    """One call: a path with the library's names of its parts, so that limits are kept for each room or hook.

    `reason`: for the community's own log, as `reason_within` returns it.
    """

    method: str
    path: str
    ids: Mapping[str, str]
    body: Mapping[str, object] | Sequence[Mapping[str, object]] | None = None
    query: Mapping[str, object] | None = None
    file: tuple[str, bytes] | None = None
    reason: str = ""


class Rest:
    """Carries requests. It has a library client of its own, so that words go out while the gateway is away."""

    def __init__(self) -> None:
        self._client: discord.Client | None = None

    @property
    def account(self) -> str:
        """Return the id of our account; empty before `open`."""
        user = None if self._client is None else self._client.user
        return "" if user is None else str(user.id)

    async def open(self, token: str) -> None:
        """Log in.

        Raises:
            discord.LoginFailure: The token is refused.
        """
        client = discord.Client(intents=discord.Intents.none(), max_ratelimit_timeout=30)
        try:
            await client.login(token)
        except BaseException:
            await client.close()
            raise
        # The constructor takes no less than 30 s, which is longer than a delivery should be kept.
        client.http.max_ratelimit_timeout = LONGEST_WAIT_S
        self._client = client

    async def close(self) -> None:
        """Let go of the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def call(self, request: Request) -> object:
        """Do one request and return the answer's body.

        Raises:
            discord.HTTPException, discord.RateLimited, aiohttp.ClientError, OSError, TimeoutError: As the library does.
        """
        if self._client is None:
            raise NotOpen
        route = Route(request.method, request.path, **dict(request.ids))
        more: dict[str, object] = {}
        if request.query is not None:
            more["params"] = dict(request.query)
        if request.file is not None:
            name, data = request.file
            more["form"] = [
                {"name": "payload_json", "value": _json(request.body or {})},
                {"name": "files[0]", "value": data, "filename": name, "content_type": "text/markdown"},
            ]
        elif request.body is not None:
            more["json"] = request.body
        if request.reason:
            more["reason"] = request.reason
        async with asyncio.timeout(REQUEST_S):
            return await self._client.http.request(route, **more)  # type: ignore[arg-type]  # by name, as its methods do


def reason_within(reason: str, limit: int) -> str:
    """Return as much of a reason as a header takes when it travels: encoded, and never cut inside a character."""
    left, kept = limit, 0
    for sign in " ".join(reason.split()):
        left -= len(quote(sign, safe=_UNENCODED, errors="replace"))
        if left < 0:
            break
        kept += 1
    return " ".join(reason.split())[:kept].rstrip()


class NotOpen(Exception):
    """Nobody has logged in yet."""


def _json(body: object) -> str:
    return json.dumps(body)


FAILURES: tuple[type[Exception], ...] = (
    discord.HTTPException,
    discord.RateLimited,
    aiohttp.ClientError,
    OSError,
    TimeoutError,
    NotOpen,
)
ANY_FAILURE: tuple[type[Exception], ...] = (*FAILURES, discord.DiscordException)
"""What a call outside our own requests may raise besides: the library's own errors of every kind."""


def meaning(error: Exception, *, replied: bool = False) -> SendResult:
    """Return what a failure of the library means for a send or an edit.

    `replied`: the request named a message to reply to, which may be what was refused.
    """
    match error:
        case NotOpen():
            return Unsent("discord: not logged in yet")
        case discord.RateLimited():
            return RetryAfter(error.retry_after)
        case discord.DiscordServerError():
            # Whatever the status, a proxy may have lost the answer of a server that did the work.
            return Ambiguous(f"status {error.status}")
        case discord.HTTPException():
            return _refused(error, replied=replied)
        case aiohttp.ClientConnectorError():
            return Unsent("discord: no connection")
        case TimeoutError():
            return Ambiguous("no answer in time")
        case _:
            return Ambiguous(f"connection lost: {type(error).__name__}")


def is_banned(error: Exception) -> bool:
    """Return whether our address is shut out as a whole: a refusal that did not come from the platform's own limits."""
    if not isinstance(error, discord.HTTPException) or error.status != 429:
        return False
    return not error.response.headers.get("Via") or not error.response.headers.get("X-RateLimit-Scope")


def _refused(error: discord.HTTPException, *, replied: bool) -> SendResult:
    if error.status == 429:
        return RetryAfter(BANNED_WAIT_S)
    if replied and error.code in (BAD_FORM, NO_HISTORY_FOR_REPLY) and _is_about_reply(error):
        return SendRefused("unknown_reply_target", form=True)
    if error.code == BAD_FORM:
        return SendRefused("bad_form", form=True)
    return SendRefused(_MEANINGS.get(error.code, f"discord_{error.code or error.status}"))


def _is_about_reply(error: discord.HTTPException) -> bool:
    return error.code == NO_HISTORY_FOR_REPLY or "message_reference" in error.text
