"""The routes of the Discord double about the bot itself, guilds, channels and threads."""

from collections.abc import Callable
from typing import Any

from tests.doubles.discord_messages import MessageRoutes, Rooms
from tests.doubles.discord_payloads import (
    Json,
    Payloads,
    channel_json,
    guild_json,
    role_json,
    thread_json,
    thread_member_json,
    user_json,
)
from tests.doubles.discord_rest import Ask, NotImplementedHere, Routes, Rules
from tests.doubles.discord_state import Guild, Overwrite
from tests.doubles.discord_words import (
    ChannelKind,
    DiscordError,
    Permission,
    missing_access,
    missing_permission,
    unknown,
)
from tests.doubles.discord_world import World

THREAD_CHANGES = frozenset({"archived", "locked", "name"})


class RoomRoutes:
    """Reads of the bot, its guilds and channels; direct channels; threads."""

    def __init__(
        self, world: World, payloads: Payloads, messages: MessageRoutes, rules: Rules, gateway: Callable[[], Json]
    ) -> None:
        self._world = world
        self._payloads = payloads
        self._messages = messages
        self._rules = rules
        self._gateway = gateway
        self._rooms = Rooms(world)

    def routes(self) -> Routes:
        room, guild = "/channels/{channel_id}", "/guilds/{guild_id}"
        return [
            ("GET", "/users/@me", self.me),
            ("GET", "/users/@me/guilds", self.my_guilds),
            ("POST", "/users/@me/channels", self.open_dm),
            ("GET", "/users/{user_id}", self.user),
            ("GET", "/applications/@me", self.application),
            ("GET", "/oauth2/applications/@me", self.application),
            ("GET", "/gateway", lambda _ask: {"url": self._gateway()["url"]}),
            ("GET", "/gateway/bot", lambda _ask: self._gateway()),
            ("GET", guild, self.guild),
            ("PATCH", guild, self.change_guild),
            ("GET", guild + "/channels", self.channels),
            ("GET", guild + "/roles", self.roles),
            ("GET", guild + "/threads/active", self.active_threads),
            ("GET", room, self.channel),
            ("PATCH", room, self.change),
            ("PUT", room + "/permissions/{target_id}", self.set_overwrite),
            ("DELETE", room, self.close),
            ("POST", room + "/threads", self.start_thread),
            ("POST", room + "/messages/{message_id}/threads", self.start_thread_on_message),
            ("GET", room + "/threads/archived/public", self.archived_threads),
            ("PUT", room + "/thread-members/@me", self.join_thread),
            ("DELETE", room + "/thread-members/@me", self.leave_thread),
        ]

    def me(self, _ask: Ask) -> Json:
        return user_json(self._world.bot) | {"verified": True, "mfa_enabled": False, "locale": "en-US", "email": None}

    def my_guilds(self, ask: Ask) -> list[Json]:
        """Return the guilds that the bot is in, by id, with what it may do in each as a whole."""
        after, limit = int(ask.query.get("after", 0)), int(ask.query.get("limit", 200))
        found = [guild for key, guild in sorted(self._world.guilds.items()) if key > after][:limit]
        keys = ("id", "name", "icon", "banner", "features")
        return [
            {key: value for key, value in guild_json(guild).items() if key in keys}
            | {"owner": guild.owner is guild.me, "permissions": str(int(guild.me.permissions()))}
            for guild in found
        ]

    def user(self, ask: Ask) -> Json:
        if (user := self._world.users.get(ask.key("user_id"))) is None:
            raise unknown("User", 10013)
        return user_json(user)

    def application(self, _ask: Ask) -> Json:
        owner = {"id": "1", "username": "operator", "discriminator": "0", "avatar": None, "global_name": "Operator"}
        return {
            "id": str(self._world.bot.id),
            "name": self._world.bot.name,
            "description": "",
            "icon": None,
            "rpc_origins": [],
            "bot_public": True,
            "bot_require_code_grant": False,
            "verify_key": "0" * 64,
            "owner": owner,
            "team": None,
            "flags": self._gateway()["flags"],
            "approximate_guild_count": len(self._world.guilds),
        }

    def _guild(self, ask: Ask) -> Guild:
        if (guild := self._world.guilds.get(ask.key("guild_id"))) is None:
            raise unknown("Guild", 10004)
        return guild

    def guild(self, ask: Ask) -> Json:
        guild = self._guild(ask)
        counts = {"approximate_member_count": len(guild.members), "approximate_presence_count": 0}
        return guild_json(guild) | (counts if ask.query.get("with_counts") else {})

    def channels(self, ask: Ask) -> list[Json]:
        return [channel_json(channel) for channel in self._guild(ask).channels.values()]

    def roles(self, ask: Ask) -> list[Json]:
        return [role_json(role) for role in self._guild(ask).roles.values()]

    def active_threads(self, ask: Ask) -> Json:
        threads = [one for one in self._guild(ask).threads.values() if not one.archived and one.allows(self._world.bot)]
        members = [thread_member_json(one, self._world.bot.id) for one in threads if self._world.bot.id in one.joined]
        return {"threads": [thread_json(one) for one in threads], "members": members}

    def open_dm(self, ask: Ask) -> Json:
        if (user := self._world.users.get(int(ask.body["recipient_id"]))) is None:
            raise DiscordError(400, 50033, "Invalid Recipient(s)")
        return channel_json(self._world.dm(user))

    def change_guild(self, ask: Ask) -> Json:
        """Change how newcomers are checked, and nothing else here."""
        guild = self._guild(ask)
        if not guild.me.permissions() & Permission.MANAGE_GUILD:
            raise missing_permission()
        if set(ask.body) != {"verification_level"}:
            raise NotImplementedHere
        guild.verification_level = int(ask.body["verification_level"])
        self._world.tell("GUILD_UPDATE", guild, guild=guild)
        return guild_json(guild)

    def set_overwrite(self, ask: Ask) -> None:
        """Grant and take in a channel what the bot itself holds in the guild."""
        channel, target = self._rooms.channel(ask), ask.key("target_id")
        if channel.guild is None or channel.is_thread:
            raise NotImplementedHere
        self._rooms.need(channel, Permission.MANAGE_ROLES)
        old = channel.overwrites.get(target, Overwrite(target, False))
        allow, deny = int(ask.body.get("allow") or 0), int(ask.body.get("deny") or 0)
        if ((allow ^ old.allow) | (deny ^ old.deny)) & ~int(channel.guild.me.permissions()):
            raise missing_permission()
        channel.overwrites[target] = Overwrite(target, bool(ask.body["type"]), allow, deny)
        self._world.tell("CHANNEL_UPDATE", channel, guild=channel.guild, channel=channel)

    def channel(self, ask: Ask) -> Json:
        return channel_json(self._rooms.channel(ask))

    def change(self, ask: Ask) -> Json:
        """Change a thread, or how slow a channel is."""
        thread = self._rooms.channel(ask)
        if set(ask.body) == {"rate_limit_per_user"}:
            self._rooms.need(thread, Permission.MANAGE_THREADS if thread.is_thread else Permission.MANAGE_CHANNELS)
            thread.slow_s = int(ask.body["rate_limit_per_user"])
            event = "THREAD_UPDATE" if thread.is_thread else "CHANNEL_UPDATE"
            self._world.tell(event, thread, guild=thread.guild, channel=thread)
            return channel_json(thread)
        if not thread.is_thread or not set(ask.body) <= THREAD_CHANGES:
            raise NotImplementedHere
        if thread.owner_id != self._world.bot.id or "locked" in ask.body:
            self._rooms.need(thread, Permission.MANAGE_THREADS)
        self._world.change_thread(thread, **ask.body)
        return thread_json(thread)

    def close(self, ask: Ask) -> Json:
        channel = self._rooms.channel(ask)
        self._rooms.need(channel, Permission.MANAGE_THREADS if channel.is_thread else Permission.MANAGE_CHANNELS)
        body = channel_json(channel)
        self._world.delete_channel(channel)
        return body

    def start_thread(self, ask: Ask) -> Json:
        """Open a thread without a message, or a forum post with its first one inside."""
        parent = self._rooms.channel(ask)
        name = ask.body["name"]
        if parent.kind is ChannelKind.FORUM:
            self._rooms.need(parent, Permission.SEND_MESSAGES)
            message_ask = Ask(ask.params, ask.query, ask.body["message"], ask.uploads, None)
            thread = self._world.start_thread(parent, name, self._world.bot)
            message = self._messages.send(thread, message_ask, key=thread.id)
            return thread_json(thread) | {"message": self._payloads.message(message)}
        private = ask.body.get("type") == ChannelKind.PRIVATE_THREAD
        self._rooms.need(parent, Permission.CREATE_PRIVATE_THREADS if private else Permission.CREATE_PUBLIC_THREADS)
        return thread_json(self._world.start_thread(parent, name, self._world.bot, private=private))

    def start_thread_on_message(self, ask: Ask) -> Json:
        starter = self._rooms.message(ask)
        self._rooms.need(starter.channel, Permission.CREATE_PUBLIC_THREADS)
        if starter.thread is not None:
            raise DiscordError(400, 160004, "A thread has already been created for this message")
        return thread_json(
            self._world.start_thread(starter.channel, ask.body["name"], self._world.bot, starter=starter)
        )

    def archived_threads(self, ask: Ask) -> Json:
        parent = self._rooms.channel(ask)
        self._rooms.need(parent, Permission.READ_MESSAGE_HISTORY)
        assert parent.guild is not None, "direct channels have no threads"
        threads = [one for one in parent.guild.threads.values() if one.parent is parent and one.archived]
        threads = [one for one in threads if one.kind is not ChannelKind.PRIVATE_THREAD]
        threads.sort(key=lambda one: one.changed_at or one.messages[one.id].created_at, reverse=True)
        return {"threads": [thread_json(one) for one in threads], "members": [], "has_more": False}

    def join_thread(self, ask: Ask) -> None:
        thread = self._rooms.channel(ask)
        if thread.archived:
            raise DiscordError(400, 50083, "Thread is archived")
        self._world.join_thread(thread, self._world.bot)

    def leave_thread(self, ask: Ask) -> None:
        thread = self._rooms.channel(ask)
        if self._world.bot.id not in thread.joined:
            raise missing_access()
        thread.joined.discard(self._world.bot.id)


def gateway_bot(url: str, rules: Rules, identifies: int, flags: int) -> Json:
    """Return the body of GET /gateway/bot, and the application's flags beside it."""
    limit: dict[str, Any] = {
        "total": rules.identifies_per_day,
        "remaining": max(0, rules.identifies_per_day - identifies),
        "reset_after": 86_400_000,
        "max_concurrency": 1,
    }
    return {"url": url, "shards": rules.shards, "session_start_limit": limit, "flags": flags}
