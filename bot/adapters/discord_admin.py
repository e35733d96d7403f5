"""Acts on members and rooms at Discord: what stands there is asked, what is to be done is done, by REST alone."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import discord

from bot.adapters.discord_intake import PLATFORM
from bot.adapters.discord_natives import Natives, entry_of
from bot.adapters.discord_payload import Payload, id_at, number, parts, payload, ref
from bot.adapters.discord_rest import FAILURES, NOT_BANNED, Request, Rest, is_banned, meaning, reason_within
from bot.adapters.discord_rights import (
    BAN_MEMBERS,
    READ_HISTORY,
    VIEW_AUDIT_LOG,
    Scene,
    standing_of,
    with_writing,
    writing_in,
)
from bot.adapters.limiter import Limiter, Pace, Priority
from core.act_ports import ActResult, ModerationPort
from core.domain.errors import Unavailable
from core.domain.ids import RoomKey
from core.domain.moderation import refusals
from core.domain.moderation.acts import REASON_CHARS, Act, ActKind, Done, NativeAct, RoomSettings, Standing
from core.ports import Clock, RetryAfter, SendRefused, Unsent

LONGEST_TIMEOUT = timedelta(days=28)
MARGIN = timedelta(minutes=1)
"""How much before the platform's longest term we end ours, so that its clock may be ahead of ours."""
SLOWEST_S = 21_600
LOG_KEPT = timedelta(days=45)
PAGE, PAGES = 100, 50
"""What is read of a log at once; what is left is read the next time, for it is read from its oldest end."""
PACE = Pace(rate=2.0, burst=10.0)
PATIENCE_S = 2.0
ACTS = "acts:"
"""What stands before a community among the limiter's budgets."""
_STRICTEST = 4
_ASKED_IN_VAIN = frozenset({400, 403, 404})
_LOG = logging.getLogger(__name__)

_SERVER = "/guilds/{guild_id}"
_MEMBER = "/guilds/{guild_id}/members/{user_id}"
_BAN = "/guilds/{guild_id}/bans/{user_id}"
_AUDIT = "/guilds/{guild_id}/audit-logs"
_CHANNEL = "/channels/{channel_id}"
_MESSAGE = "/channels/{channel_id}/messages/{message_id}"
_EVERYONE = "/channels/{channel_id}/permissions/{target}"

# Refusals that say that it is so already.
_ALREADY: Mapping[ActKind, frozenset[str]] = {
    ActKind.DELETE: frozenset({"unknown_message", refusals.ROOM_GONE}),
    ActKind.LIFT_TIMEOUT: frozenset({refusals.NOT_THERE}),
    ActKind.KICK: frozenset({refusals.NOT_THERE}),
    ActKind.UNBAN: frozenset({NOT_BANNED}),
}


def pace_of(chat: str) -> Pace | None:
    """Return the pace of acts for a community's budget, None for everything else."""
    return PACE if chat.startswith(ACTS) else None


class DiscordAdmin(ModerationPort):
    """Acts at Discord.

    Whether we may is asked first: refused requests count towards the platform's own ban of our address.

    Args:
        rest: Where requests go.
        limiter: Its budget for each community, by `pace_of`.
        clock: The time of terms.
        natives: What was told of AutoMod already.
    """

    def __init__(self, rest: Rest, limiter: Limiter, clock: Clock, natives: Natives) -> None:
        self._rest, self._limiter, self._clock, self._natives = rest, limiter, clock, natives

    @property
    def name(self) -> str:
        """Return the key of the front end."""
        return PLATFORM

    @property
    def can(self) -> frozenset[ActKind]:
        """Return all there is."""
        return frozenset(ActKind)

    @property
    def ban_removes_words(self) -> bool:
        """Return False: a ban of ours takes no message along."""
        return False

    async def look(self, act: Act) -> Standing:
        """Ask for the community, us, the member and the room, then for what these let us ask."""
        scene = await self._scene(act.community_ref, act.room)
        if scene is None:
            return Standing(there=False)
        member_ids = {"guild_id": act.community_ref, "user_id": act.account_ref}
        is_account = act.account_ref.isdigit() and not act.by_channel
        may_see_bans = is_account and bool(scene.ours & BAN_MEMBERS)
        may_read = bool(act.message_ref) and bool(scene.ours_here & READ_HISTORY)
        message_ids = {"channel_id": act.room.chat_ref, "message_id": act.message_ref}
        member, ban, message = await asyncio.gather(
            self._get(Request("GET", _MEMBER, member_ids)) if is_account else _nothing(),
            self._get(Request("GET", _BAN, member_ids)) if may_see_bans else _nothing(),
            self._get(Request("GET", _MESSAGE, message_ids)) if may_read else _nothing(),
        )
        return standing_of(
            scene, member, banned=ban is not None, message_there=message is not None if may_read else None
        )

    async def do(self, act: Act) -> ActResult:
        """Do one act, once its community's budget has room for it."""
        try:
            request = await self._request(act)
        except Unavailable as exc:
            return RetryAfter(exc.retry_after_s) if exc.retry_after_s is not None else Unsent(exc.message)
        if not isinstance(request, Request):
            return request
        budget = f"{ACTS}{act.community_ref}"
        wait_s = self._limiter.wait_s(budget)
        if wait_s > PATIENCE_S:
            return RetryAfter(wait_s)
        await self._limiter.turn(budget, Priority.FINAL)
        try:
            await self._rest.call(request)
        except FAILURES as exc:
            result = meaning(exc)
            self._heed(budget, exc, result)
            if isinstance(result, SendRefused) and result.code in _ALREADY.get(act.kind, ()):
                return Done(changed=False)
            return result  # type: ignore[return-value]  # a failure is never a delivery
        return Done()

    async def settings(self, room: RoomKey, community_ref: str) -> RoomSettings:
        """Return what raid acts would change; of a room that we cannot see what is usual."""
        guild, channel = await asyncio.gather(
            self._get(Request("GET", _SERVER, {"guild_id": community_ref})),
            self._get(Request("GET", _CHANNEL, {"channel_id": room.chat_ref})),
        )
        return RoomSettings(
            slow_s=number(channel or {}, "rate_limit_per_user"),
            verification=number(guild or {}, "verification_level"),
            writing=writing_in(channel or {}, community_ref),
        )

    async def open_direct(self, account_ref: str) -> RoomKey | None:
        """Return the direct room with a member. That they accept messages shows only when one is sent."""
        if not account_ref.isdigit():
            return None
        request = Request("POST", "/users/@me/channels", {}, {"recipient_id": account_ref})
        opened = await self._get(request)
        key = "" if opened is None else ref(opened, "id")
        return RoomKey(PLATFORM, key) if key else None

    async def native_since(self, community_ref: str, since: datetime) -> Sequence[NativeAct]:
        """Return what others did, from the community's log, which goes back 45 days."""
        scene = await self._scene(community_ref, None)
        if scene is None or not scene.ours & VIEW_AUDIT_LOG:
            return ()
        after, found = id_at(max(since, self._clock.now() - LOG_KEPT)), list[NativeAct]()
        for _ in range(PAGES):
            query = {"after": str(after), "limit": PAGE}
            page = await self._get(Request("GET", _AUDIT, {"guild_id": community_ref}, query=query))
            if page is None:
                break
            bots = {ref(one, "id") for one in parts(page, "users") if one.get("bot") is True}
            entries = sorted(parts(page, "audit_log_entries"), key=lambda one: number(one, "id"))
            for entry in entries:
                by_bot = ref(entry, "user_id") in bots
                act = entry_of(entry, community_ref, ours=self._rest.account, by_bot=by_bot)
                if act is not None and act.at > since and not self._natives.was_told(act):
                    found.append(act)
            if len(entries) < PAGE:
                break
            after = number(entries[-1], "id")
        else:
            _LOG.warning("discord: a community's log is longer than is read at once; the rest is read the next time")
        return found

    async def _scene(self, community_ref: str, room: RoomKey | None) -> Scene | None:
        """Return where an act would happen; None where we are not."""
        ids = {"guild_id": community_ref, "user_id": self._rest.account}
        wants_room = room is not None and room.chat_ref.isdigit()
        if not community_ref.isdigit():
            return None
        guild, us, found = await asyncio.gather(
            self._get(Request("GET", _SERVER, {"guild_id": community_ref})),
            self._get(Request("GET", _MEMBER, ids)),
            self._get(Request("GET", _CHANNEL, {"channel_id": room.chat_ref})) if room and wants_room else _nothing(),
        )
        if guild is None or us is None:
            return None
        # A room of another community gives no right in this one.
        here: Payload = found if found is not None and ref(found, "guild_id") == community_ref else {}
        scene = Scene(guild=guild, us=us, now=self._clock.now(), room=here, parent=here)
        if not scene.is_thread:
            return scene
        parent = await self._get(Request("GET", _CHANNEL, {"channel_id": ref(here, "parent_id")}))
        return Scene(guild=guild, us=us, now=scene.now, room=here, parent=parent or {})

    async def _request(self, act: Act) -> Request | Done | SendRefused:
        """Return what an act asks for, or what becomes of it without asking."""
        member = {"guild_id": act.community_ref, "user_id": act.account_ref}
        room = {"channel_id": act.room.chat_ref}
        reason = reason_within(act.reason, REASON_CHARS)
        if act.by_channel:
            return SendRefused(refusals.UNSUPPORTED)
        match act.kind:
            case ActKind.DELETE:
                return Request("DELETE", _MESSAGE, room | {"message_id": act.message_ref}, reason=reason)
            case ActKind.TIMEOUT:
                return self._timeout(act, member, reason)
            case ActKind.LIFT_TIMEOUT:
                return Request("PATCH", _MEMBER, member, {"communication_disabled_until": None}, reason=reason)
            case ActKind.KICK:
                return Request("DELETE", _MEMBER, member, reason=reason)
            case ActKind.BAN:
                return Request("PUT", _BAN, member, {"delete_message_seconds": 0}, reason=reason)
            case ActKind.UNBAN:
                return Request("DELETE", _BAN, member, reason=reason)
            case ActKind.SLOW:
                slow_s = max(0, min(SLOWEST_S, act.setting))
                return Request("PATCH", _CHANNEL, room, {"rate_limit_per_user": slow_s}, reason=reason)
            case ActKind.HOLD_JOINS:
                level = {"verification_level": max(0, min(_STRICTEST, act.setting))}
                return Request("PATCH", _SERVER, {"guild_id": act.community_ref}, level, reason=reason)
            case ActKind.READ_ONLY:
                return await self._writing(act, reason)

    def _timeout(self, act: Act, member: Mapping[str, str], reason: str) -> Request | SendRefused:
        now = self._clock.now()
        longest = now + LONGEST_TIMEOUT - MARGIN
        until = longest if act.until is None else min(act.until, longest)
        if until <= now:
            return SendRefused(refusals.TERM_OVER)
        return Request("PATCH", _MEMBER, member, {"communication_disabled_until": until.isoformat()}, reason=reason)

    async def _writing(self, act: Act, reason: str) -> Request | Done | SendRefused:
        room = {"channel_id": act.room.chat_ref}
        channel = await self._get(Request("GET", _CHANNEL, room))
        if channel is None:
            return SendRefused(refusals.ROOM_GONE)
        if writing_in(channel, act.community_ref) == act.setting:
            return Done(changed=False)
        change = with_writing(channel, act.community_ref, act.setting)
        return Request("PUT", _EVERYONE, room | {"target": act.community_ref}, change, reason=reason)

    async def _get(self, request: Request) -> Payload | None:
        """Return what stands there; None for what does not, or is not for us.

        Raises:
            Unavailable: That could not be learned.
        """
        try:
            return payload(await self._rest.call(request))
        except FAILURES as exc:
            if isinstance(exc, discord.HTTPException) and exc.status in _ASKED_IN_VAIN:
                return None
            result = meaning(exc)
            self._heed(f"{ACTS}{request.ids.get('guild_id', '')}", exc, result)
            wait_s = result.seconds if isinstance(result, RetryAfter) else None
            raise Unavailable(f"discord: could not be asked: {type(exc).__name__}", wait_s) from exc

    def _heed(self, budget: str, error: Exception, result: object) -> None:
        """Pause as the platform asks: one community's acts, or everything where our address is shut out."""
        if not isinstance(result, RetryAfter):
            return
        if is_banned(error):
            self._limiter.pause_all(result.seconds)
        else:
            self._limiter.pause(budget, result.seconds)


async def _nothing() -> None:
    """Ask nothing."""
