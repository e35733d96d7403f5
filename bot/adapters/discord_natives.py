"""Who joins at Discord, and what its own AutoMod, other people and other programs do to members there."""

import hashlib
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial

import discord

from bot.adapters.discord_intake import PLATFORM
from bot.adapters.discord_payload import Payload, moment, number, part, parts, ref, text, time_of
from core.act_ports import NativeEvents
from core.domain.ids import RoomKey
from core.domain.moderation.acts import Joined, NativeAct, NativeKind
from core.ports import Clock

JOINED, BLOCKED, LOGGED = "GUILD_MEMBER_ADD", "AUTO_MODERATION_ACTION_EXECUTION", "GUILD_AUDIT_LOG_ENTRY_CREATE"
EVENTS = frozenset({JOINED, BLOCKED, LOGGED})
REMEMBERED = 1000
SAME_WITHIN = timedelta(seconds=10)
"""How far apart the log and the event say that AutoMod did one and the same thing."""
SAID_AGAIN_WITHIN_S = 60
"""The event of AutoMod has no id: the same words of the same member count once in so many seconds."""

_KICK, _BAN, _UNBAN, _MEMBER, _DELETE = 20, 22, 23, 24, 72
_AUTOMOD_BLOCK, _AUTOMOD_TIMEOUT = 143, 145
_BLOCK_MESSAGE, _TIMEOUT = 1, 3
_TIMED_OUT_UNTIL = "communication_disabled_until"
_KINDS = {
    _KICK: NativeKind.KICKED,
    _BAN: NativeKind.BANNED,
    _UNBAN: NativeKind.UNBANNED,
    _DELETE: NativeKind.DELETED,
    _AUTOMOD_BLOCK: NativeKind.BLOCKED,
    _AUTOMOD_TIMEOUT: NativeKind.TIMED_OUT,
}
_BY_ITSELF = frozenset({_AUTOMOD_BLOCK, _AUTOMOD_TIMEOUT})
_TRIGGERS = {1: "keyword", 3: "spam", 4: "keyword preset", 5: "mention spam", 6: "member profile"}


def joined_of(data: Payload, now: datetime) -> Joined | None:
    """Return who joined; None if the event does not say, or for a program: people of the staff let it in."""
    user = part(data, "user")
    account, community = ref(user, "id"), ref(data, "guild_id")
    if not account or not community or user.get("bot") is True:
        return None
    return Joined(
        platform=PLATFORM,
        community_ref=community,
        account_ref=account,
        name=text(data, "nick") or text(user, "global_name") or text(user, "username"),
        at=moment(data, "joined_at") or now,
        account_made_at=time_of(account),
        pictured=bool(text(user, "avatar") or text(data, "avatar")),
    )


def execution_of(data: Payload, now: datetime) -> NativeAct | None:
    """Return what AutoMod did; None for what does nothing to anyone, such as telling the staff."""
    action, account, community = part(data, "action"), ref(data, "user_id"), ref(data, "guild_id")
    kind = {_BLOCK_MESSAGE: NativeKind.BLOCKED, _TIMEOUT: NativeKind.TIMED_OUT}.get(number(action, "type"))
    if kind is None or not account or not community:
        return None
    channel, length_s = ref(data, "channel_id"), number(part(action, "metadata"), "duration_seconds")
    said = (community, account, channel, ref(data, "rule_id"), kind, ref(data, "message_id"), text(data, "content"))
    minute = str(int(now.timestamp()) // SAID_AGAIN_WITHIN_S)
    digest = hashlib.sha256("\0".join((*said, minute)).encode("utf-8", "replace")).hexdigest()
    trigger = _TRIGGERS.get(number(data, "rule_trigger_type"), "")
    return NativeAct(
        platform=PLATFORM,
        community_ref=community,
        event_ref=f"automod:{digest[:32]}",
        kind=kind,
        account_ref=account,
        at=now,
        room=RoomKey(PLATFORM, channel) if channel else None,
        message_ref=ref(data, "message_id"),
        text=text(data, "content"),
        rule_name=f"AutoMod: {trigger}" if trigger else "AutoMod",
        until=now + timedelta(seconds=length_s) if kind is NativeKind.TIMED_OUT and length_s else None,
    )


def entry_of(entry: Payload, community: str, *, ours: str, by_bot: bool) -> NativeAct | None:
    """Return what an entry of the log says was done to a member; None for what is ours or none of that.

    The platform counts deletions by one person of one author's messages up in one entry, and names no message.
    """
    action, key, by = number(entry, "action_type"), ref(entry, "id"), ref(entry, "user_id")
    by_itself = action in _BY_ITSELF
    account = ref(entry, "target_id") or (by if by_itself else "")
    at, kind, until = time_of(key), _KINDS.get(action), None
    if action == _MEMBER:
        change = next((one for one in parts(entry, "changes") if text(one, "key") == _TIMED_OUT_UNTIL), None)
        if change is not None:
            until = moment(change, "new_value")
            kind = NativeKind.TIMEOUT_LIFTED if until is None else NativeKind.TIMED_OUT
    if kind is None or at is None or not account or (by == ours and not by_itself):
        return None
    options = part(entry, "options")
    channel = ref(options, "channel_id")
    return NativeAct(
        platform=PLATFORM,
        community_ref=community,
        event_ref=key,
        kind=kind,
        account_ref=account,
        at=at,
        by_ref="" if by_itself else by,
        by_bot=by_bot and not by_itself,
        room=RoomKey(PLATFORM, channel) if channel else None,
        rule_name=text(options, "auto_moderation_rule_name"),
        until=until,
    )


class Natives:
    """Hands joins and acts of others on. `ours`: our account."""

    def __init__(self, events: NativeEvents | None, clock: Clock, ours: Callable[[], str]) -> None:
        self._events, self._clock, self._ours = events, clock, ours
        self._automod: deque[NativeAct] = deque(maxlen=REMEMBERED)

    def work(self, event: str, data: Payload, guild: discord.Guild) -> Callable[[], Awaitable[None]] | None:
        """Return what is to be done about an event; None for nothing."""
        if self._events is None or event not in EVENTS:
            return None
        if event == JOINED:
            joined = joined_of(data, self._clock.now())
            return None if joined is None else partial(self._events.joined, joined)
        act = self._executed(data) if event == BLOCKED else self._logged(data, guild)
        return None if act is None else partial(self._events.acted, act)

    def _executed(self, data: Payload) -> NativeAct | None:
        act = execution_of(data, self._clock.now())
        if act is not None:
            self._automod.append(act)
        return act

    def _logged(self, data: Payload, guild: discord.Guild) -> NativeAct | None:
        if number(data, "action_type") in _BY_ITSELF:
            return None  # told by an event of its own, which has the words
        by = guild.get_member(number(data, "user_id"))
        return entry_of(data, str(guild.id), ours=self._ours(), by_bot=by is not None and by.bot)

    def was_told(self, act: NativeAct) -> bool:
        """Return whether an entry of the log repeats what AutoMod was heard to do."""
        return not act.by_ref and any(
            (one.community_ref, one.account_ref, one.kind) == (act.community_ref, act.account_ref, act.kind)
            and abs(one.at - act.at) <= SAME_WITHIN
            for one in self._automod
        )
