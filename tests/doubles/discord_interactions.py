"""Interactions of the Discord double: what a person starts, and the routes by which the bot answers it."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from tests.doubles.discord_bodies import Bodies
from tests.doubles.discord_payloads import Json, Payloads, channel_json, is_thinking, member_json, user_json
from tests.doubles.discord_rest import Ask, Routes, Rules
from tests.doubles.discord_state import Channel, Message, User
from tests.doubles.discord_words import DiscordError, MessageFlag, MessageKind, invalid, unknown
from tests.doubles.discord_world import World

CHOICES_LIMIT = 25


class InteractionKind(IntEnum):
    """How an interaction was started."""

    COMMAND = 2
    COMPONENT = 3
    AUTOCOMPLETE = 4
    MODAL = 5


class Callback(IntEnum):
    """How an interaction may be answered first."""

    MESSAGE = 4
    DEFER = 5
    DEFER_UPDATE = 6
    UPDATE = 7
    CHOICES = 8
    MODAL = 9


@dataclass(slots=True, eq=False)
class Interaction:
    """What a person started, and everything that the bot answered so far.

    `original` is the first answer, or the message that carries the pressed button. Private answers are only
    here: no channel stores them. `choices` are those of an autocompletion, `modal` is the form that was opened.
    """

    id: int
    token: str
    kind: InteractionKind
    user: User
    channel: Channel
    name: str
    began: float
    message: Message | None = None
    acked_at: float | None = None
    responses: list[Json] = field(default_factory=list)
    original: Message | None = None
    followups: list[Message] = field(default_factory=list)
    choices: list[Json] | None = None
    modal: Json | None = None

    @property
    def acked(self) -> bool:
        return self.acked_at is not None

    @property
    def ack_s(self) -> float | None:
        """How long the person waited for any first answer; None: still waiting."""
        return None if self.acked_at is None else self.acked_at - self.began

    @property
    def deferred(self) -> bool:
        """Whether the person still sees that the bot is thinking."""
        return self.original is not None and is_thinking(self.original)

    @property
    def text(self) -> str | None:
        """The first answer as it stands now; None: there is none, or it is not written yet."""
        return None if self.original is None or self.deferred or self.original.deleted else self.original.content


class Interactions:
    """Makes interactions and serves what answers them."""

    def __init__(self, world: World, payloads: Payloads, bodies: Bodies, rules: Rules) -> None:
        self.all: list[Interaction] = []
        self._world = world
        self._payloads = payloads
        self._bodies = bodies
        self._rules = rules

    def routes(self) -> Routes:
        hook = "/webhooks/{application_id}/{token}"
        message = hook + "/messages/{message_id}"
        return [
            ("POST", "/interactions/{interaction_id}/{token}/callback", self.callback),
            ("POST", hook, self.follow_up),
            ("GET", message, self.read),
            ("PATCH", message, self.edit),
            ("DELETE", message, self.delete),
        ]

    def start(
        self,
        kind: InteractionKind,
        user: User,
        channel: Channel,
        data: Mapping[str, Any],
        message: Message | None = None,
    ) -> Interaction:
        """Send an interaction to the bot and return its record."""
        name = str(data.get("name") or data.get("custom_id"))
        now = self._world.clock.monotonic()
        made = Interaction(
            self._world.ids.next(), secrets.token_urlsafe(24), kind, user, channel, name, now, message=message
        )
        self.all.append(made)
        self._world.tell("INTERACTION_CREATE", self._event(made, data), guild=channel.guild, channel=channel)
        return made

    def _event(self, made: Interaction, data: Mapping[str, Any]) -> Json:
        channel, guild = made.channel, made.channel.guild
        permissions = str(int(channel.allows(made.user)))
        event: Json = {
            "id": str(made.id),
            "application_id": str(self._world.bot.id),
            "type": int(made.kind),
            "token": made.token,
            "version": 1,
            "data": dict(data),
            "channel_id": str(channel.id),
            "channel": channel_json(channel) | {"permissions": permissions},
            "app_permissions": str(int(channel.allows(self._world.bot))),
            "locale": "en-US",
            "entitlements": [],
            "authorizing_integration_owners": {"0": str(guild.id) if guild else "0"},
            "context": 0 if guild else 1,
            "attachment_size_limit": 10 * 2**20,
        }
        if made.message is not None:
            event["message"] = self._payloads.message(made.message)
        if guild is None:
            return event | {"user": user_json(made.user)}
        member = member_json(guild.members[made.user.id]) | {"permissions": permissions}
        place = {"id": str(guild.id), "locale": "en-US", "features": []}
        return event | {"guild_id": str(guild.id), "guild": place, "guild_locale": "en-US", "member": member}

    def callback(self, ask: Ask) -> Json | None:
        """Take the first answer: 10062 once the deadline has passed, 40060 for a second one."""
        made = next((one for one in self.all if one.id == ask.key("interaction_id")), None)
        now = self._world.clock.monotonic()
        if made is None or made.token != ask.params["token"]:
            raise unknown("interaction", 10062)
        if made.acked:
            raise DiscordError(400, 40060, "Interaction has already been acknowledged.")
        if now - made.began > self._rules.ack_deadline:
            raise unknown("interaction", 10062)
        kind = Callback(ask.body["type"])
        self._apply(made, kind, ask)
        made.acked_at = now
        made.responses.append(ask.body)
        return self._callback_json(made, kind) if ask.query.get("with_response") in ("1", "true") else None

    def _apply(self, made: Interaction, kind: Callback, ask: Ask) -> None:
        data: Json = ask.body.get("data") or {}
        if (kind is Callback.CHOICES) != (made.kind is InteractionKind.AUTOCOMPLETE):
            raise invalid("type", "INTERACTION_CALLBACK_INVALID_TYPE", "This type does not answer this interaction")
        match kind:
            case Callback.MESSAGE:
                made.original = self._say(made, self._bodies.read(made.channel, data, ask.uploads))
            case Callback.DEFER:
                flags = int(data.get("flags") or 0) & MessageFlag.EPHEMERAL | MessageFlag.LOADING
                made.original = self._say(made, {"content": "", "flags": flags})
            case Callback.DEFER_UPDATE | Callback.UPDATE:
                if made.message is None:
                    raise invalid("type", "INTERACTION_CALLBACK_INVALID_TYPE", "There is no message to update")
                made.original = made.message
                if kind is Callback.UPDATE:
                    self._write(made.message, data, ask)
            case Callback.CHOICES:
                choices = list(data.get("choices") or [])
                if len(choices) > CHOICES_LIMIT:
                    raise invalid("data.choices", "BASE_TYPE_MAX_LENGTH", f"Must be {CHOICES_LIMIT} or fewer.")
                made.choices = choices
            case Callback.MODAL:
                if made.kind is InteractionKind.MODAL:
                    raise invalid("type", "INTERACTION_CALLBACK_INVALID_TYPE", "A form cannot open a form")
                made.modal = data

    def _callback_json(self, made: Interaction, kind: Callback) -> Json:
        body: Json = {"interaction": {"id": str(made.id), "type": int(made.kind)}}
        if kind in (Callback.MESSAGE, Callback.DEFER, Callback.UPDATE) and made.original is not None:
            body["interaction"] |= {
                "response_message_id": str(made.original.id),
                "response_message_loading": made.deferred,
                "response_message_ephemeral": made.original.ephemeral,
            }
            body["resource"] = {"type": int(kind), "message": self._payloads.message(made.original)}
        return body

    def _say(self, made: Interaction, fields: dict[str, Any]) -> Message:
        """Say something for an interaction: in its channel, or to its person alone."""
        bot, content = self._world.bot, fields.pop("content")
        kind = MessageKind.CHAT_COMMAND if made.kind is InteractionKind.COMMAND else MessageKind.DEFAULT
        source = {
            "id": str(made.id),
            "type": int(made.kind),
            "user": user_json(made.user),
            "name": made.name,
            "authorizing_integration_owners": {},
        }
        more = {"kind": kind, "webhook_id": bot.id, "application_id": bot.id, "interaction": source, **fields}
        if fields["flags"] & MessageFlag.EPHEMERAL:
            return Message(self._world.ids.next(), made.channel, bot, content, **more)
        return self._world.post(made.channel, bot, content, **more)

    def _write(self, message: Message, body: Json, ask: Ask) -> None:
        """Edit an answer; one that was being thought about is now written."""
        fields = self._bodies.read(message.channel, body, ask.uploads, old=message)
        fields["flags"] = (fields.get("flags", message.flags)) & ~MessageFlag.LOADING
        if message.id in message.channel.messages:
            self._world.change(message, **fields)
        else:
            for name, value in fields.items():
                setattr(message, name, value)

    def _made(self, ask: Ask) -> Interaction:
        """Return the interaction of a token: 50027 once it is too old."""
        made = next((one for one in self.all if one.token == ask.params["token"]), None)
        if made is None or not made.acked:
            raise unknown("Webhook", 10015)
        if self._world.clock.monotonic() - made.began > self._rules.token_life:
            raise DiscordError(401, 50027, "Invalid Webhook Token")
        return made

    def _answer(self, ask: Ask) -> Message:
        made, key = self._made(ask), ask.params["message_id"]
        own = made.followups if made.original is None else [made.original, *made.followups]
        found = made.original if key == "@original" else next((one for one in own if str(one.id) == key), None)
        if found is None or found.deleted:
            raise unknown("Message", 10008)
        return found

    def follow_up(self, ask: Ask) -> Json:
        """Say more; the first words after a deferral take the place of the waiting answer."""
        made = self._made(ask)
        if made.deferred and made.original is not None:
            self._write(made.original, ask.body, ask)
            return self._payloads.message(made.original)
        message = self._say(made, self._bodies.read(made.channel, ask.body, ask.uploads))
        made.followups.append(message)
        return self._payloads.message(message)

    def read(self, ask: Ask) -> Json:
        return self._payloads.message(self._answer(ask))

    def edit(self, ask: Ask) -> Json:
        message = self._answer(ask)
        self._write(message, ask.body, ask)
        return self._payloads.message(message)

    def delete(self, ask: Ask) -> None:
        message = self._answer(ask)
        if message.id in message.channel.messages:
            self._world.remove([message])
        message.deleted = True
