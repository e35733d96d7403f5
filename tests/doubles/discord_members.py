"""The routes of the Discord double about members: reads, timeouts, roles, kicks, bans, and the reasons given."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import unquote

from tests.doubles.discord_payloads import Json, member_json, user_json
from tests.doubles.discord_rest import Ask, NotImplementedHere, Routes, Rules
from tests.doubles.discord_staff import timeout_change
from tests.doubles.discord_state import Guild, Member
from tests.doubles.discord_words import (
    Intent,
    Permission,
    invalid,
    missing_access,
    missing_permission,
    unknown,
)
from tests.doubles.discord_world import World


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """What the bot did to whom, with the reason that it gave."""

    action: str
    guild: Guild
    target_id: int
    reason: str | None


LOGGED = {"timeout": 24, "nick": 24, "roles": 25, "kick": 20, "ban": 22, "unban": 23}
"""Discord's own numbers for what its log says of these acts."""


class MemberRoutes:
    """Everything below `/guilds/{id}/members` and `/guilds/{id}/bans`."""

    def __init__(self, world: World, rules: Rules) -> None:
        self.audit: list[AuditEntry] = []
        self._world = world
        self._rules = rules

    def routes(self) -> Routes:
        members, bans = "/guilds/{guild_id}/members", "/guilds/{guild_id}/bans"
        return [
            ("GET", members, self.page),
            ("GET", members + "/{user_id}", self.read),
            ("PATCH", members + "/{user_id}", self.change),
            ("DELETE", members + "/{user_id}", self.kick),
            ("PUT", members + "/{user_id}/roles/{role_id}", self.add_role),
            ("DELETE", members + "/{user_id}/roles/{role_id}", self.remove_role),
            ("GET", bans + "/{user_id}", self.read_ban),
            ("PUT", bans + "/{user_id}", self.ban),
            ("DELETE", bans + "/{user_id}", self.unban),
        ]

    def _guild(self, ask: Ask) -> Guild:
        guild = self._world.guilds.get(ask.key("guild_id"))
        if guild is None:
            raise unknown("Guild", 10004)
        return guild

    def _member(self, ask: Ask) -> Member:
        member = self._guild(ask).members.get(ask.key("user_id"))
        if member is None:
            raise unknown("Member", 10007)
        return member

    def _check(self, guild: Guild, permission: Permission, target: Member | None = None) -> None:
        """Raise 50013 without the permission, or if the target does not stand below the bot."""
        above = target is not None and (target is guild.owner or target.top_position >= guild.me.top_position)
        if above or not guild.me.permissions() & permission:
            raise missing_permission()

    def _note(self, action: str, guild: Guild, target_id: int, ask: Ask) -> None:
        reason = None if ask.reason is None else unquote(ask.reason)
        self.audit.append(AuditEntry(action, guild, target_id, reason))
        member = guild.members.get(target_id)
        changes = [timeout_change(member.timeout_until)] if action == "timeout" and member else []
        self._world.log(guild, LOGGED[action], self._world.bot, target_id, reason=reason, changes=changes)

    def page(self, ask: Ask) -> list[Json]:
        """Return members by id, if the application was given the members intent."""
        if not self._rules.privileged_intents & Intent.GUILD_MEMBERS:
            raise missing_access()
        after, limit = int(ask.query.get("after") or 0), int(ask.query.get("limit") or 1)
        members = sorted(self._guild(ask).members.values(), key=lambda member: member.id)
        return [member_json(member) for member in members if member.id > after][:limit]

    def read(self, ask: Ask) -> Json:
        return member_json(self._member(ask))

    def change(self, ask: Ask) -> Json:
        """Time out, rename, or set the roles of a member."""
        member, body = self._member(ask), dict(ask.body)
        if "communication_disabled_until" in body:
            self._time_out(member, body.pop("communication_disabled_until"), ask)
        if "nick" in body:
            self._check(member.guild, Permission.MANAGE_NICKNAMES, member)
            member.nick = body.pop("nick")
            self._changed("nick", member, ask)
        if "roles" in body:
            self._set_roles(member, [int(key) for key in body.pop("roles")], ask)
        if body:
            raise NotImplementedHere
        return member_json(member)

    def _time_out(self, member: Member, until: str | None, ask: Ask) -> None:
        self._check(member.guild, Permission.MODERATE_MEMBERS, member)
        if member.permissions() & Permission.ADMINISTRATOR:
            raise missing_permission()
        if not self._world.time_out(member, None if until is None else datetime.fromisoformat(until)):
            raise invalid("communication_disabled_until", "BASE_TYPE_BAD_TIME", "Must be at most 28 days from now.")
        self._note("timeout", member.guild, member.id, ask)

    def _set_roles(self, member: Member, keys: list[int], ask: Ask) -> None:
        guild = member.guild
        self._check(guild, Permission.MANAGE_ROLES)
        wanted = [guild.roles[key] for key in keys if key in guild.roles]
        changed = set(wanted) ^ set(member.roles)
        if any(role.managed or role.position >= guild.me.top_position for role in changed):
            raise missing_permission()
        member.roles = wanted
        self._changed("roles", member, ask)

    def _changed(self, action: str, member: Member, ask: Ask) -> None:
        self._world.tell("GUILD_MEMBER_UPDATE", member, guild=member.guild)
        self._note(action, member.guild, member.id, ask)

    def add_role(self, ask: Ask) -> None:
        member = self._member(ask)
        self._set_roles(member, [*(role.id for role in member.roles), ask.key("role_id")], ask)

    def remove_role(self, ask: Ask) -> None:
        member = self._member(ask)
        self._set_roles(member, [role.id for role in member.roles if role.id != ask.key("role_id")], ask)

    def kick(self, ask: Ask) -> None:
        member = self._member(ask)
        self._check(member.guild, Permission.KICK_MEMBERS, member)
        self._world.leave(member)
        self._note("kick", member.guild, member.id, ask)

    def ban(self, ask: Ask) -> None:
        """Ban an account, whether it is a member or not."""
        guild, key = self._guild(ask), ask.key("user_id")
        member, user = guild.members.get(key), self._world.users.get(key)
        if user is None:
            raise unknown("User", 10013)
        self._check(guild, Permission.BAN_MEMBERS, member)
        self._world.ban(guild, user, None if ask.reason is None else unquote(ask.reason))
        said = {**ask.query, **(ask.body or {})}  # the documents say the body, the library uses the query
        self._delete_recent(guild, key, int(said.get("delete_message_seconds") or 0))
        self._note("ban", guild, key, ask)

    def _delete_recent(self, guild: Guild, author_id: int, seconds: int) -> None:
        now = self._world.clock.now()
        for channel in [*guild.channels.values(), *guild.threads.values()]:
            own = [one for one in channel.messages.values() if one.author.id == author_id]
            recent: list[Any] = [one for one in own if (now - one.created_at).total_seconds() < seconds]
            if recent:
                self._world.remove(recent, bulk=True)

    def read_ban(self, ask: Ask) -> Json:
        guild, key = self._guild(ask), ask.key("user_id")
        self._check(guild, Permission.BAN_MEMBERS)
        if key not in guild.bans:
            raise unknown("Ban", 10026)
        return {"reason": guild.bans[key], "user": user_json(self._world.users[key])}

    def unban(self, ask: Ask) -> None:
        guild, key = self._guild(ask), ask.key("user_id")
        self._check(guild, Permission.BAN_MEMBERS)
        if key not in guild.bans:
            raise unknown("Ban", 10026)
        self._world.unban(guild, self._world.users[key])
        self._note("unban", guild, key, ask)
