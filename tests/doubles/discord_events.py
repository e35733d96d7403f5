"""What the gateway says of each change: which intent an event needs, and its data for one session."""

from typing import Any

from tests.doubles.discord_payloads import (
    Json,
    Payloads,
    channel_json,
    emoji_json,
    guild_create_json,
    guild_json,
    member_json,
    role_json,
    thread_json,
    thread_member_json,
    user_json,
    without_content,
)
from tests.doubles.discord_state import Channel, Guild, Member, Message, User
from tests.doubles.discord_words import Intent, Permission
from tests.doubles.discord_world import World


def intent_of(event: str, subject: Any, guild: Guild | None, world: World) -> Intent | None:
    """Return the intent that a session needs to be told; None: every session is."""
    direct = guild is None
    match event:
        case "INTERACTION_CREATE":
            return None
        case "MESSAGE_REACTION_ADD" | "MESSAGE_REACTION_REMOVE":
            return Intent.DIRECT_MESSAGE_REACTIONS if direct else Intent.GUILD_MESSAGE_REACTIONS
        case "TYPING_START":
            return Intent.DIRECT_MESSAGE_TYPING if direct else Intent.GUILD_MESSAGE_TYPING
        case "GUILD_MEMBER_UPDATE" if subject.user is world.bot:
            return None
        case "GUILD_MEMBER_ADD" | "GUILD_MEMBER_UPDATE" | "GUILD_MEMBER_REMOVE":
            return Intent.GUILD_MEMBERS
        case "GUILD_BAN_ADD" | "GUILD_BAN_REMOVE" | "GUILD_AUDIT_LOG_ENTRY_CREATE":
            return Intent.GUILD_MODERATION
        case "AUTO_MODERATION_ACTION_EXECUTION":
            return Intent.AUTO_MODERATION_EXECUTION
        case _ if event.startswith("MESSAGE_"):
            return Intent.DIRECT_MESSAGES if direct else Intent.GUILD_MESSAGES
        case _:
            return Intent.GUILDS


NEEDED = {
    "GUILD_AUDIT_LOG_ENTRY_CREATE": Permission.VIEW_AUDIT_LOG,
    "AUTO_MODERATION_ACTION_EXECUTION": Permission.MANAGE_GUILD,
}


def is_seen(event: str, guild: Guild | None, channel: Channel | None, world: World) -> bool:
    """Return whether the bot may know: what happens in a room that it cannot view, or needs a right, is not said."""
    if event in NEEDED:
        return guild is not None and bool(guild.me.permissions() & NEEDED[event])
    if channel is None or event.startswith(("CHANNEL_", "INTERACTION_")):
        return True
    return bool(channel.allows(world.bot))


class Events:
    """Renders events."""

    def __init__(self, world: World, payloads: Payloads) -> None:
        self._world = world
        self._payloads = payloads

    def data(self, event: str, subject: Any, guild: Guild | None, intents: int) -> Json:
        """Return the data of an event for a session with these intents."""
        match event:
            case "MESSAGE_CREATE" | "MESSAGE_UPDATE":
                body = self._payloads.event_message(subject)
                return body if intents & Intent.MESSAGE_CONTENT else without_content(body, self._world.bot.id)
            case "MESSAGE_DELETE":
                return {"id": str(subject.id)} | self._place(subject.channel)
            case "MESSAGE_DELETE_BULK":
                return {"ids": [str(one.id) for one in subject]} | self._place(subject[0].channel)
            case "MESSAGE_REACTION_ADD" | "MESSAGE_REACTION_REMOVE":
                return self._reaction(*subject, added=event.endswith("ADD"))
            case "TYPING_START":
                channel, user = subject
                seconds = int(self._world.clock.now().timestamp())
                return {"user_id": str(user.id), "timestamp": seconds} | self._place(channel)
            case "INTERACTION_CREATE":
                return dict(subject)
            case _ if guild is not None:
                return self._of_guild(event, subject, guild, intents)
            case _:
                raise AssertionError(f"nothing renders {event}")

    def _place(self, channel: Channel) -> Json:
        place = {"channel_id": str(channel.id)}
        return place | ({"guild_id": str(channel.guild.id)} if channel.guild else {})

    def _reaction(self, message: Message, user: User, emoji: str, *, added: bool) -> Json:
        body = {
            "user_id": str(user.id),
            "message_id": str(message.id),
            "emoji": emoji_json(emoji),
            "burst": False,
            "type": 0,
        } | self._place(message.channel)
        guild = message.channel.guild
        if added:
            body["message_author_id"] = str(message.author.id)
            if guild is not None and (member := guild.members.get(user.id)):
                body["member"] = member_json(member)
        return body

    def _of_guild(self, event: str, subject: Any, guild: Guild, intents: int) -> Json:
        key = {"guild_id": str(guild.id)}
        match event:
            case "GUILD_CREATE":
                return guild_create_json(guild, intents)
            case "GUILD_UPDATE":
                return guild_json(guild)
            case "GUILD_DELETE":
                return {"id": str(guild.id)} | ({"unavailable": True} if guild.unavailable else {})
            case "GUILD_ROLE_CREATE" | "GUILD_ROLE_UPDATE":
                return key | {"role": role_json(subject)}
            case "GUILD_ROLE_DELETE":
                return key | {"role_id": str(subject.id)}
            case "GUILD_MEMBER_ADD" | "GUILD_MEMBER_UPDATE":
                return key | member_json(subject)
            case "GUILD_AUDIT_LOG_ENTRY_CREATE" | "AUTO_MODERATION_ACTION_EXECUTION":
                entry: Json = subject.to_json()
                return key | entry
            case "GUILD_MEMBER_REMOVE" | "GUILD_BAN_ADD" | "GUILD_BAN_REMOVE":
                return key | {"user": user_json(subject.user if isinstance(subject, Member) else subject)}
            case "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "CHANNEL_DELETE":
                return channel_json(subject)
            case _:
                return key | self._of_thread(event, subject)

    def _of_thread(self, event: str, subject: Any) -> Json:
        match event:
            case "THREAD_CREATE":
                bot_id = self._world.bot.id
                added = bot_id in subject.joined and subject.owner_id != bot_id
                return thread_json(subject) | ({} if added else {"newly_created": True})
            case "THREAD_UPDATE":
                return thread_json(subject)
            case "THREAD_DELETE":
                return {"id": str(subject.id), "parent_id": str(subject.parent.id), "type": int(subject.kind)}
            case "THREAD_LIST_SYNC":
                threads = [one for one in subject.guild.threads.values() if one.parent is subject and not one.archived]
                return {
                    "channel_ids": [str(subject.id)],
                    "threads": [thread_json(one) for one in threads],
                    "members": [],
                }
            case "THREAD_MEMBERS_UPDATE":
                thread, added = subject
                members = [thread_member_json(thread, key) for key in added]
                return {"id": str(thread.id), "member_count": len(thread.joined), "added_members": members}
            case _:
                raise AssertionError(f"nothing renders {event}")
