"""What can happen in the Discord double's world, whoever does it: people through the server, the bot through REST."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from core.ports import Clock
from tests.doubles.discord_state import (
    Attachment,
    Channel,
    Guild,
    Member,
    Message,
    Register,
    Role,
    User,
)
from tests.doubles.discord_words import (
    EVERYONE,
    FOUNDED_MS,
    MODERATOR_BOT,
    ChannelKind,
    MessageFlag,
    MessageKind,
    Permission,
)

TIMEOUT_LIMIT = timedelta(days=28)


class World(Register):
    """The register with every operation on it, and the files at the CDN."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.files: dict[int, Attachment] = {}
        self.log: Callable[..., None] = lambda *_args, **_more: None

    def add_guild(self, name: str, bot_permissions: int = MODERATOR_BOT, owner: str = "Owner") -> Guild:
        """Found a guild with an owner and the bot, under its own managed role."""
        key = FOUNDED_MS + len(self.guilds) << 22
        everyone = Role(key, "@everyone", EVERYONE, 0)
        guild = Guild(key, name, self, everyone, roles={key: everyone})
        guild.owner = Member(self.add_user(owner), guild, [], self.clock.now())
        guild.members[guild.owner.id] = guild.owner
        guild.me = guild.add_member(self.bot, [guild.add_role("VoidBot", bot_permissions, managed=True)])
        self.guilds[key] = guild
        self.tell("GUILD_CREATE", guild, guild=guild)
        return guild

    def dm(self, user: User) -> Channel:
        """Return the direct channel between a user and the bot, made if need be."""
        for channel in self.channels.values():
            if channel.recipient is user:
                return channel
        channel = Channel(self.ids.next(), self, ChannelKind.DM, recipient=user)
        self.channels[channel.id] = channel
        return channel

    def attach(self, channel: Channel, filename: str, data: bytes, content_type: str) -> Attachment:
        """Store a file at the CDN."""
        made = Attachment(self.ids.next(), filename, data, content_type, channel.id)
        self.files[made.id] = made
        return made

    def post(
        self, channel: Channel, author: User, content: str, *, sent_at: datetime | None = None, **more: Any
    ) -> Message:
        """Store a message and announce it; a thread that slept wakes up."""
        message = Message(more.pop("id", None) or self.ids.next(sent_at), channel, author, content, **more)
        channel.messages[message.id] = message
        channel.last_message_id = max(channel.last_message_id or 0, message.id)
        if channel.is_thread and channel.archived and message.kind is not MessageKind.THREAD_STARTER:
            self.change_thread(channel, archived=False)
        self.tell("MESSAGE_CREATE", message, guild=channel.guild, channel=channel)
        return message

    def change(self, message: Message, *, edited: bool = True, **fields: Any) -> None:
        """Change a message; not `edited`: the platform did it, such as a link preview, so no time is noted."""
        for name, value in fields.items():
            setattr(message, name, value)
        if edited:
            message.edited_at = self.clock.now()
        self.tell("MESSAGE_UPDATE", message, guild=message.channel.guild, channel=message.channel)

    def remove(self, messages: Sequence[Message], *, bulk: bool = False) -> None:
        for message in messages:
            message.deleted = True
            message.channel.messages.pop(message.id, None)
        channel = messages[0].channel
        subject = list(messages) if bulk else messages[0]
        event = "MESSAGE_DELETE_BULK" if bulk else "MESSAGE_DELETE"
        self.tell(event, subject, guild=channel.guild, channel=channel)

    def start_thread(
        self, parent: Channel, name: str, owner: User, *, starter: Message | None = None, private: bool = False
    ) -> Channel:
        """Open a thread; one on a message has that message's id. Its first message is the caller's to post."""
        plain = ChannelKind.NEWS_THREAD if parent.kind is ChannelKind.NEWS else ChannelKind.THREAD
        kind = ChannelKind.PRIVATE_THREAD if private else plain
        key = starter.id if starter else self.ids.next()
        thread = Channel(key, self, kind, name, parent.guild, parent, owner_id=owner.id, changed_at=self.clock.now())
        thread.joined.add(owner.id)
        assert parent.guild is not None, "threads need a guild"
        parent.guild.threads[key] = self.channels[key] = thread
        self.tell("THREAD_CREATE", thread, guild=parent.guild, channel=thread)
        if starter is not None:
            flags = starter.flags | MessageFlag.HAS_THREAD
            self.change(starter, edited=False, thread=thread, flags=flags)
            self.post(thread, owner, "", kind=MessageKind.THREAD_STARTER, reply_to=starter)
        elif parent.kind is not ChannelKind.FORUM and not private:
            self.post(parent, owner, name, kind=MessageKind.THREAD_CREATED, thread=thread)
        return thread

    def change_thread(self, thread: Channel, **fields: Any) -> None:
        for name, value in fields.items():
            setattr(thread, name, value)
        thread.changed_at = self.clock.now()
        self.tell("THREAD_UPDATE", thread, guild=thread.guild, channel=thread)

    def mentions_in(
        self, channel: Channel, content: str, allowed: Mapping[str, Any] | None, author: User
    ) -> dict[str, Any]:
        """Return the three mention fields of a message: what its text names and `allowed_mentions` lets through."""
        if allowed is None:
            allowed = {"parse": ["users", "roles", "everyone"]}
        parse = set(allowed.get("parse") or ())
        people = [int(key) for key in re.findall(r"<@!?(\d+)>", content)]
        roles = [int(key) for key in re.findall(r"<@&(\d+)>", content)]
        if "users" not in parse:
            people = [key for key in people if str(key) in {str(one) for one in allowed.get("users") or ()}]
        if "roles" not in parse:
            roles = [key for key in roles if str(key) in {str(one) for one in allowed.get("roles") or ()}]
        shouted = "everyone" in parse and bool(re.search(r"@(everyone|here)\b", content))
        return {
            "mentions": [self.users[key] for key in dict.fromkeys(people) if key in self.users],
            "mention_roles": [key for key in dict.fromkeys(roles) if channel.guild and key in channel.guild.roles],
            "mention_everyone": shouted and bool(channel.allows(author) & Permission.MENTION_EVERYONE),
        }

    def time_out(self, member: Member, until: datetime | None) -> bool:
        """Silence a member; False if the end is more than 28 days away."""
        if until is not None and until > self.clock.now() + TIMEOUT_LIMIT:
            return False
        member.timeout_until = until
        self.tell("GUILD_MEMBER_UPDATE", member, guild=member.guild)
        return True

    def ban(self, guild: Guild, user: User, reason: str | None) -> None:
        """Ban an account, and put it out if it is in."""
        guild.bans[user.id] = reason
        self.tell("GUILD_BAN_ADD", user, guild=guild)
        if (member := guild.members.get(user.id)) is not None:
            self.leave(member)

    def unban(self, guild: Guild, user: User) -> None:
        del guild.bans[user.id]
        self.tell("GUILD_BAN_REMOVE", user, guild=guild)

    def leave(self, member: Member) -> None:
        del member.guild.members[member.id]
        self.tell("GUILD_MEMBER_REMOVE", member, guild=member.guild)

    def react(self, message: Message, user: User, emoji: str) -> None:
        users = message.reactions.setdefault(emoji, [])
        if user not in users:
            users.append(user)
            self._tell_reaction("MESSAGE_REACTION_ADD", message, user, emoji)

    def unreact(self, message: Message, user: User, emoji: str) -> None:
        users = message.reactions.get(emoji, [])
        if user in users:
            users.remove(user)
            if not users:
                del message.reactions[emoji]
            self._tell_reaction("MESSAGE_REACTION_REMOVE", message, user, emoji)

    def _tell_reaction(self, event: str, message: Message, user: User, emoji: str) -> None:
        channel = message.channel
        self.tell(event, (message, user, emoji), guild=channel.guild, channel=channel)

    def join_thread(self, thread: Channel, user: User) -> None:
        if user.id in thread.joined:
            return
        saw = bool(thread.allows(self.bot))
        thread.joined.add(user.id)
        if user is self.bot and not saw:
            self.tell("THREAD_CREATE", thread, guild=thread.guild, channel=thread)
        self.tell("THREAD_MEMBERS_UPDATE", (thread, [user.id]), guild=thread.guild, channel=thread)

    def delete_channel(self, channel: Channel) -> None:
        """Remove a channel with its threads; no message in it is deleted by an event of its own."""
        guild = channel.guild
        assert guild is not None, "direct channels cannot be deleted"
        event = "THREAD_DELETE" if channel.is_thread else "CHANNEL_DELETE"
        self.tell(event, channel, guild=guild, channel=channel)
        for gone in [channel, *(one for one in guild.threads.values() if one.parent is channel)]:
            for message in gone.messages.values():
                message.deleted = True
            guild.channels.pop(gone.id, None)
            guild.threads.pop(gone.id, None)
            self.channels.pop(gone.id, None)
