"""The message routes of the Discord double: send, edit, read, delete, react, type."""

from datetime import timedelta
from typing import Any
from urllib.parse import unquote

from tests.doubles.discord_bodies import Bodies
from tests.doubles.discord_faults import Mutation
from tests.doubles.discord_payloads import Json, Payloads, user_json, without_content
from tests.doubles.discord_rest import Ask, Routes, Rules
from tests.doubles.discord_staff import MESSAGE_DELETE
from tests.doubles.discord_state import Channel, Message
from tests.doubles.discord_words import (
    ChannelKind,
    DiscordError,
    Intent,
    MessageKind,
    Permission,
    invalid,
    missing_access,
    missing_permission,
    moment,
    unknown,
)
from tests.doubles.discord_world import World

NONCE_LIMIT = 25
PAGE_LIMIT = 100
BULK_AGE = timedelta(days=14)
TEXTLESS = frozenset({ChannelKind.FORUM, ChannelKind.CATEGORY})


class Rooms:
    """Finds what a request speaks of, and refuses what the bot may not see or do."""

    def __init__(self, world: World) -> None:
        self._world = world

    def channel(self, ask: Ask) -> Channel:
        """Return the channel in the path: 10003 if there is none, 50001 if the bot cannot view it."""
        channel = self._world.channels.get(ask.key("channel_id"))
        if channel is None:
            raise unknown("Channel", 10003)
        if not channel.allows(self._world.bot):
            raise missing_access()
        return channel

    def message(self, ask: Ask) -> Message:
        message = self.channel(ask).messages.get(ask.key("message_id"))
        if message is None:
            raise unknown("Message", 10008)
        return message

    def need(self, channel: Channel, permission: Permission) -> None:
        """Raise 50013 unless the bot has a permission in a channel."""
        if not channel.allows(self._world.bot) & permission:
            raise missing_permission()


class MessageRoutes:
    """Everything below `/channels/{id}/messages`, and typing."""

    def __init__(self, world: World, payloads: Payloads, bodies: Bodies, rules: Rules) -> None:
        self._world = world
        self._payloads = payloads
        self._bodies = bodies
        self._rules = rules
        self._rooms = Rooms(world)
        self._nonces: dict[tuple[int, str], tuple[float, Message]] = {}

    def routes(self) -> Routes:
        room = "/channels/{channel_id}"
        one = room + "/messages/{message_id}"
        emoji = one + "/reactions/{emoji}"
        return [
            ("POST", room + "/messages", self.create),
            ("GET", room + "/messages", self.page),
            ("POST", room + "/messages/bulk-delete", self.bulk_delete),
            ("GET", one, self.read),
            ("PATCH", one, self.edit),
            ("DELETE", one, self.delete),
            ("POST", room + "/typing", self.type),
            ("PUT", emoji + "/@me", self.react),
            ("DELETE", emoji + "/@me", self.unreact),
            ("DELETE", emoji + "/{user_id}", self.unreact),
            ("GET", emoji, self.reactors),
        ]

    def create(self, ask: Ask) -> Json:
        channel = self._rooms.channel(ask)
        self._check_may_send(channel)
        nonce = self._nonce(ask)
        if (folded := self._folded(channel, ask, nonce)) is not None:
            return self._payloads.message(folded)
        message = self.send(channel, ask, nonce)
        if nonce is not None:
            self._nonces[channel.id, nonce] = (self._world.clock.monotonic(), message)
        return self._payloads.message(message)

    def send(self, channel: Channel, ask: Ask, nonce: str | None = None, key: int | None = None) -> Message:
        """Store what the bot says; `key` gives a forum post's first message the id of its thread."""
        fields = self._bodies.read(channel, ask.body, ask.uploads)
        if reference := ask.body.get("message_reference"):
            fields |= self._reply(channel, ask.body, reference, fields["mentions"])
        return self._world.post(channel, self._world.bot, fields.pop("content"), nonce=nonce, id=key, **fields)

    def _check_may_send(self, channel: Channel) -> None:
        if channel.kind in TEXTLESS:
            raise DiscordError(400, 50008, "Cannot send messages in a non-text channel")
        if channel.recipient is not None and not channel.recipient.accepts_dms:
            raise DiscordError(403, 50007, "Cannot send messages to this user")
        send = Permission.SEND_MESSAGES_IN_THREADS if channel.is_thread else Permission.SEND_MESSAGES
        self._rooms.need(channel, send)
        if channel.locked and not channel.allows(self._world.bot) & Permission.MANAGE_THREADS:
            raise DiscordError(400, 50083, "Thread is archived")

    def _nonce(self, ask: Ask) -> str | None:
        nonce = ask.body.get("nonce")
        if nonce is not None and len(str(nonce)) > NONCE_LIMIT:
            raise invalid("nonce", "NONCE_TYPE_TOO_LONG", f"Must be {NONCE_LIMIT} or fewer in length.")
        return None if nonce is None else str(nonce)

    def _folded(self, channel: Channel, ask: Ask, nonce: str | None) -> Message | None:
        """Return the message that a repeated nonce already made, while it is remembered."""
        if nonce is None or not ask.body.get("enforce_nonce") or Mutation.NO_NONCE_FOLD in self._rules.mutations:
            return None
        at, message = self._nonces.get((channel.id, nonce), (0.0, None))
        return message if self._world.clock.monotonic() - at <= self._rules.nonce_window else None

    def _reply(self, channel: Channel, body: Json, reference: Json, mentions: list[Any]) -> dict[str, Any]:
        if not channel.allows(self._world.bot) & Permission.READ_MESSAGE_HISTORY:
            raise DiscordError(400, 160002, "Cannot reply without permission to read message history")
        target = channel.messages.get(int(reference["message_id"]))
        if target is None:
            if reference.get("fail_if_not_exists", True):
                raise invalid("message_reference", "REPLIES_UNKNOWN_MESSAGE", "Unknown message")
            return {}
        pinged = (body.get("allowed_mentions") or {"replied_user": True}).get("replied_user", False)
        more = [target.author] if pinged and target.author not in mentions else []
        return {"kind": MessageKind.REPLY, "reply_to": target, "mentions": [*mentions, *more]}

    def page(self, ask: Ask) -> list[Json]:
        """Return up to 100 messages, newest first; none without the permission to read history."""
        channel = self._rooms.channel(ask)
        limit = int(ask.query.get("limit", 50))
        if not 1 <= limit <= PAGE_LIMIT:
            raise invalid("limit", "NUMBER_TYPE_MAX", f"int value should be between 1 and {PAGE_LIMIT}.")
        if not channel.allows(self._world.bot) & Permission.READ_MESSAGE_HISTORY:
            return []
        stored = channel.history()
        if "after" in ask.query:
            stored = [one for one in stored if one.id > int(ask.query["after"])][:limit]
        elif "around" in ask.query:
            middle = int(ask.query["around"])
            older = [one for one in stored if one.id < middle][-(limit // 2) :]
            newer = [one for one in stored if one.id >= middle][: limit - limit // 2]
            stored = older + newer
        else:
            if "before" in ask.query:
                stored = [one for one in stored if one.id < int(ask.query["before"])]
            stored = stored[-limit:]
        return [self._shown(message) for message in reversed(stored)]

    def _shown(self, message: Message) -> Json:
        """Return a message as this application may read it."""
        body = self._payloads.message(message)
        guild = message.channel.guild
        if guild is None or self._rules.privileged_intents & Intent.MESSAGE_CONTENT:
            return body
        shown = without_content(body | {"guild_id": str(guild.id)}, self._world.bot.id)
        return {name: value for name, value in shown.items() if name != "guild_id"}

    def read(self, ask: Ask) -> Json:
        message = self._rooms.message(ask)
        self._rooms.need(message.channel, Permission.READ_MESSAGE_HISTORY)
        return self._shown(message)

    def edit(self, ask: Ask) -> Json:
        message = self._rooms.message(ask)
        if message.author is not self._world.bot:
            raise DiscordError(403, 50005, "Cannot edit a message authored by another user")
        fields = self._bodies.read(message.channel, ask.body, ask.uploads, old=message)
        self._world.change(message, **fields)
        return self._payloads.message(message)

    def delete(self, ask: Ask) -> None:
        message = self._rooms.message(ask)
        if message.author is not self._world.bot:
            if message.channel.guild is None:
                raise DiscordError(403, 50003, "Cannot execute action on a DM channel")
            self._rooms.need(message.channel, Permission.MANAGE_MESSAGES)
            options = {"channel_id": str(message.channel.id), "count": "1"}
            reason = None if ask.reason is None else unquote(ask.reason)
            about = {"reason": reason, "options": options}
            self._world.log(message.channel.guild, MESSAGE_DELETE, self._world.bot, message.author.id, **about)
        self._world.remove([message])

    def bulk_delete(self, ask: Ask) -> None:
        channel = self._rooms.channel(ask)
        self._rooms.need(channel, Permission.MANAGE_MESSAGES)
        keys = [int(key) for key in ask.body["messages"]]
        if not 2 <= len(keys) <= PAGE_LIMIT:
            raise DiscordError(400, 50016, "Provided too few or too many messages to delete")
        if any(self._world.clock.now() - moment(key) > BULK_AGE for key in keys):
            raise DiscordError(400, 50034, "You can only bulk delete messages that are under 14 days old.")
        found = [channel.messages[key] for key in keys if key in channel.messages]
        if found:
            self._world.remove(found, bulk=True)

    def type(self, ask: Ask) -> None:
        channel = self._rooms.channel(ask)
        self._check_may_send(channel)
        self._world.tell("TYPING_START", (channel, self._world.bot), guild=channel.guild, channel=channel)

    def react(self, ask: Ask) -> None:
        message = self._rooms.message(ask)
        self._rooms.need(message.channel, Permission.READ_MESSAGE_HISTORY)
        if ask.params["emoji"] not in message.reactions:
            self._rooms.need(message.channel, Permission.ADD_REACTIONS)
        self._world.react(message, self._world.bot, ask.params["emoji"])

    def unreact(self, ask: Ask) -> None:
        message = self._rooms.message(ask)
        user = self._world.users.get(int(ask.params.get("user_id", self._world.bot.id)))
        if user is not self._world.bot:
            self._rooms.need(message.channel, Permission.MANAGE_MESSAGES)
        if user is not None:
            self._world.unreact(message, user, ask.params["emoji"])

    def reactors(self, ask: Ask) -> list[Json]:
        message = self._rooms.message(ask)
        after, limit = int(ask.query.get("after", 0)), int(ask.query.get("limit", 25))
        users = sorted(message.reactions.get(ask.params["emoji"], []), key=lambda user: user.id)
        return [user_json(user) for user in users if user.id > after][:limit]
