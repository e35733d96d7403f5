"""The state of the Discord double as JSON objects, and the CDN's signed links in them."""

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from core.ports import Clock
from tests.doubles.discord_state import Attachment, Channel, Guild, Member, Message, Role, User
from tests.doubles.discord_words import ChannelKind, Intent, MessageFlag, moment, stamp
from tests.doubles.discord_world import World

Json = dict[str, Any]


class Cdn:
    """Signs links to attachments and judges them: a link is good for `link_life` seconds."""

    def __init__(self, clock: Clock) -> None:
        self.base = ""
        self.link_life = 86_400.0
        self._clock = clock
        self._key = hashlib.sha256(clock.now().isoformat().encode()).digest()

    def url(self, attachment: Attachment) -> str:
        """Return a link that works from now until it expires."""
        path = f"/attachments/{attachment.channel_id}/{attachment.id}/{attachment.filename}"
        now = self._clock.now()
        begins, ends = (f"{int(at.timestamp() * 1000):x}" for at in (now, now + timedelta(seconds=self.link_life)))
        return f"{self.base}{path}?ex={ends}&is={begins}&hm={self._signature(path, ends)}&"

    def accepts(self, path: str, query: Mapping[str, str]) -> bool:
        ends = query.get("ex", "")
        if not hmac.compare_digest(query.get("hm", ""), self._signature(path, ends)):
            return False
        return self._clock.now() <= datetime.fromtimestamp(int(ends, 16) / 1000, UTC)

    def _signature(self, path: str, ends: str) -> str:
        return hmac.new(self._key, f"{path}?{ends}".encode(), hashlib.sha256).hexdigest()


def user_json(user: User) -> Json:
    return {
        "id": str(user.id),
        "username": user.name.lower().replace(" ", "_"),
        "global_name": None if user.bot else user.name,
        "discriminator": "0001" if user.bot else "0",
        "avatar": user.avatar,
        "bot": user.bot,
        "public_flags": 0,
    }


def member_json(member: Member, *, with_user: bool = True) -> Json:
    body: Json = {
        "roles": [str(role.id) for role in member.roles],
        "joined_at": stamp(member.joined_at),
        "nick": member.nick,
        "avatar": None,
        "premium_since": None,
        "deaf": False,
        "mute": False,
        "pending": False,
        "flags": 0,
        "communication_disabled_until": stamp(member.timeout_until),
    }
    return body | {"user": user_json(member.user)} if with_user else body


def role_json(role: Role) -> Json:
    return {
        "id": str(role.id),
        "name": role.name,
        "color": 0,
        "colors": {"primary_color": 0, "secondary_color": None, "tertiary_color": None},
        "hoist": False,
        "position": role.position,
        "permissions": str(int(role.permissions)),
        "managed": role.managed,
        "mentionable": False,
        "flags": 0,
    }


def emoji_json(emoji: str) -> Json:
    """Return an emoji of either kind: a character, or `name:id` of a guild's own."""
    name, _, key = emoji.partition(":")
    return {"id": key or None, "name": name}


def channel_json(channel: Channel) -> Json:
    if channel.is_thread:
        return thread_json(channel)
    last = None if channel.last_message_id is None else str(channel.last_message_id)
    body: Json = {"id": str(channel.id), "type": int(channel.kind), "last_message_id": last, "flags": 0}
    if channel.guild is None:
        return body | {"recipients": [user_json(channel.recipient)] if channel.recipient else []}
    overwrites = [
        {"id": str(one.target_id), "type": int(one.is_member), "allow": str(int(one.allow)), "deny": str(int(one.deny))}
        for one in channel.overwrites.values()
    ]
    body |= {
        "guild_id": str(channel.guild.id),
        "name": channel.name,
        "position": list(channel.guild.channels).index(channel.id) if channel.id in channel.guild.channels else 0,
        "permission_overwrites": overwrites,
        "nsfw": False,
        "parent_id": str(channel.parent.id) if channel.parent else None,
        "topic": None,
        "rate_limit_per_user": channel.slow_s,
    }
    match channel.kind:
        case ChannelKind.VOICE:
            body |= {"bitrate": 64_000, "user_limit": 0}
        case ChannelKind.FORUM:
            body |= {"available_tags": [], "default_reaction_emoji": None, "default_sort_order": None}
        case _:
            pass
    return body


def thread_json(thread: Channel) -> Json:
    assert thread.guild is not None and thread.parent is not None, "a thread has a guild and a parent"
    last = None if thread.last_message_id is None else str(thread.last_message_id)
    body: Json = {
        "id": str(thread.id),
        "type": int(thread.kind),
        "guild_id": str(thread.guild.id),
        "parent_id": str(thread.parent.id),
        "owner_id": str(thread.owner_id),
        "name": thread.name,
        "last_message_id": last,
        "rate_limit_per_user": thread.slow_s,
        "message_count": len(thread.messages),
        "member_count": len(thread.joined),
        "total_message_sent": len(thread.messages),
        "flags": 0,
        "applied_tags": [],
        "thread_metadata": {
            "archived": thread.archived,
            "auto_archive_duration": 1440,
            "archive_timestamp": stamp(thread.changed_at),
            "locked": thread.locked,
            "create_timestamp": stamp(moment(thread.id)),
        },
    }
    if thread.world.bot.id in thread.joined:
        body["member"] = thread_member_json(thread, thread.world.bot.id)
    return body


def thread_member_json(thread: Channel, user_id: int) -> Json:
    return {"id": str(thread.id), "user_id": str(user_id), "join_timestamp": stamp(thread.changed_at), "flags": 0}


def guild_json(guild: Guild) -> Json:
    """Return a guild without what only GUILD_CREATE carries."""
    return {
        "id": str(guild.id),
        "name": guild.name,
        "owner_id": str(guild.owner.id),
        "icon": None,
        "splash": None,
        "banner": None,
        "description": None,
        "region": "double",
        "afk_channel_id": None,
        "afk_timeout": 300,
        "system_channel_id": None,
        "system_channel_flags": 0,
        "rules_channel_id": None,
        "public_updates_channel_id": None,
        "verification_level": guild.verification_level,
        "default_message_notifications": 1,
        "explicit_content_filter": 0,
        "mfa_level": 0,
        "nsfw_level": 0,
        "premium_tier": 0,
        "preferred_locale": "en-US",
        "features": ["COMMUNITY"],
        "emojis": [],
        "stickers": [],
        "roles": [role_json(role) for role in guild.roles.values()],
    }


def guild_create_json(guild: Guild, intents: int, large: int = 250) -> Json:
    """Return what a session is told of a guild; all members only with presences, and if they are not too many.

    One that comes back is marked as available; one that the bot just joined is not marked at all.
    """
    everyone = bool(intents & Intent.GUILD_PRESENCES) and len(guild.members) <= large
    threads = [one for one in guild.threads.values() if not one.archived and one.allows(guild.world.bot)]
    mark = {"unavailable": False} if guild.returning else {}
    return (
        guild_json(guild)
        | mark
        | {
            "joined_at": stamp(guild.me.joined_at),
            "large": len(guild.members) > large,
            "member_count": len(guild.members),
            "members": [member_json(one) for one in (guild.members.values() if everyone else [guild.me])],
            "channels": [channel_json(channel) for channel in guild.channels.values()],
            "threads": [thread_json(thread) for thread in threads],
            "voice_states": [],
            "presences": [],
            "stage_instances": [],
            "guild_scheduled_events": [],
            "soundboard_sounds": [],
        }
    )


class Payloads:
    """The objects that need links or the viewer: messages."""

    def __init__(self, world: World, cdn: Cdn) -> None:
        self._world = world
        self._cdn = cdn

    def attachment(self, attachment: Attachment) -> Json:
        url = self._cdn.url(attachment)
        return {
            "id": str(attachment.id),
            "filename": attachment.filename,
            "size": len(attachment.data),
            "content_type": attachment.content_type,
            "url": url,
            "proxy_url": url,
        }

    def message(self, message: Message, *, nested: bool = False) -> Json:
        """Return a message; its reply target is one level deep, and null once deleted."""
        body: Json = {
            "id": str(message.id),
            "channel_id": str(message.channel.id),
            "author": self._author(message),
            "timestamp": stamp(message.created_at),
            "tts": False,
            "pinned": False,
            "mention_everyone": message.mention_everyone,
            "mentions": [self._mention(message, user) for user in message.mentions],
            "mention_roles": [str(key) for key in message.mention_roles],
            **self._content(message),
        }
        optional = {
            "nonce": message.nonce,
            "webhook_id": message.webhook_id and str(message.webhook_id),
            "application_id": message.application_id and str(message.application_id),
            "thread": message.thread and thread_json(message.thread),
            "reactions": [self._reaction(emoji, users) for emoji, users in message.reactions.items()] or None,
        }
        body |= {name: value for name, value in optional.items() if value is not None}
        if message.interaction is not None:
            body["interaction_metadata"] = message.interaction
        if message.reply_to is not None and not nested:
            target = message.reply_to
            body["message_reference"] = self._reference(target, 0)
            body["referenced_message"] = None if target.deleted else self.message(target, nested=True)
        if message.snapshot is not None:
            body["message_reference"] = self._reference(message.snapshot, 1)
            body["message_snapshots"] = [{"message": self._content(message.snapshot) | self._bare(message.snapshot)}]
        return body

    def _content(self, message: Message) -> Json:
        return {
            "type": int(message.kind),
            "content": message.content,
            "embeds": message.embeds,
            "attachments": [self.attachment(one) for one in message.attachments],
            "components": message.components,
            "edited_timestamp": stamp(message.edited_at),
            "flags": int(message.flags),
        }

    def _bare(self, message: Message) -> Json:
        return {"timestamp": stamp(message.created_at), "mentions": [], "mention_roles": []}

    def _author(self, message: Message) -> Json:
        if message.webhook_id is None or message.author is self._world.bot:
            return user_json(message.author)
        return user_json(message.author) | {"username": message.author.name, "discriminator": "0000", "bot": True}

    def _mention(self, message: Message, user: User) -> Json:
        member = message.channel.guild and message.channel.guild.members.get(user.id)
        return user_json(user) | ({"member": member_json(member, with_user=False)} if member else {})

    def _reference(self, target: Message, kind: int) -> Json:
        where = {"type": kind, "message_id": str(target.id), "channel_id": str(target.channel.id)}
        return where | ({"guild_id": str(target.channel.guild.id)} if target.channel.guild else {})

    def _reaction(self, emoji: str, users: list[User]) -> Json:
        return {
            "emoji": emoji_json(emoji),
            "count": len(users),
            "count_details": {"burst": 0, "normal": len(users)},
            "me": self._world.bot in users,
            "me_burst": False,
            "burst_colors": [],
        }

    def event_message(self, message: Message) -> Json:
        """Return a message as the gateway brings it: with guild and member."""
        body = self.message(message)
        guild = message.channel.guild
        if guild is not None:
            body["guild_id"] = str(guild.id)
            if (member := guild.members.get(message.author.id)) and message.webhook_id is None:
                body["member"] = member_json(member, with_user=False)
        return body


def without_content(body: Json, bot_id: int) -> Json:
    """Return a message as an app without the content intent sees it: whole only in direct rooms, from or to the bot."""
    own = body["author"]["id"] == str(bot_id)
    meant = any(user["id"] == str(bot_id) for user in body["mentions"])
    if "guild_id" not in body or own or meant:
        return body
    blank = body | {"content": "", "embeds": [], "attachments": [], "components": []}
    blank.pop("message_snapshots", None)
    if blank.get("referenced_message"):
        within = {"guild_id": body["guild_id"]} | blank["referenced_message"]
        blank["referenced_message"] = without_content(within, bot_id)
    return blank


def is_thinking(message: Message) -> bool:
    return bool(message.flags & MessageFlag.LOADING)
