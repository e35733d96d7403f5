"""What a message may contain: reads the body of a send or an edit, and refuses what Discord refuses."""

import mimetypes
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.doubles.discord_faults import Mutation
from tests.doubles.discord_rest import Rules, Upload
from tests.doubles.discord_state import Attachment, Channel, Message, User
from tests.doubles.discord_words import DiscordError, MessageFlag, Permission, invalid, missing_permission
from tests.doubles.discord_world import World

CONTENT_LIMIT = 2_000
DESCRIPTION_LIMIT = 4_096
EMBEDS_LIMIT = 6_000
EMBEDS_COUNT = 10
ROWS_COUNT, IN_ROW_COUNT = 5, 5
LABEL_LIMIT, CUSTOM_ID_LIMIT = 80, 100
ROW = 1
INVISIBLE = re.compile(r"[\s\u200b-\u200f\u2060\u00ad\ufeff]*")
# What senders may set themselves.
SETTABLE = MessageFlag.SUPPRESS_EMBEDS | MessageFlag.SUPPRESS_NOTIFICATIONS | MessageFlag.EPHEMERAL


class Bodies:
    """Reads bodies of messages by the rules of the double."""

    def __init__(self, world: World, rules: Rules) -> None:
        self._world = world
        self._rules = rules

    def read(
        self,
        channel: Channel,
        body: Mapping[str, Any],
        uploads: Sequence[Upload] = (),
        *,
        author: User | None = None,
        old: Message | None = None,
    ) -> dict[str, Any]:
        """Return the fields of a new message, or those that an edit of `old` changes."""
        author = author or self._world.bot
        fields: dict[str, Any] = {}
        if "content" in body or old is None:
            fields["content"] = str(body.get("content") or "")
            self._check_content(channel, fields["content"])
            allowed = body.get("allowed_mentions")
            fields |= self._world.mentions_in(channel, fields["content"], allowed, author)
        if "embeds" in body or old is None:
            fields["embeds"] = list(body.get("embeds") or [])
            self._check_embeds(fields["embeds"])
            for embed in fields["embeds"]:
                embed.setdefault("type", "rich")
        if "components" in body or old is None:
            fields["components"] = list(body.get("components") or [])
            self._check_components(fields["components"])
        if uploads or "attachments" in body or old is None:
            fields["attachments"] = self._attachments(channel, body, uploads, old)
        flags = int(body.get("flags") or 0) & SETTABLE
        if flags or old is None:
            fields["flags"] = flags | (old.flags if old else 0)
        self._check_not_empty(fields, old)
        return fields

    def _check_content(self, channel: Channel, content: str) -> None:
        if len(content) > CONTENT_LIMIT and Mutation.NO_CONTENT_LIMIT not in self._rules.mutations:
            raise invalid("content", "BASE_TYPE_MAX_LENGTH", f"Must be {CONTENT_LIMIT} or fewer in length.")
        blocked = channel.guild.blocked_words if channel.guild else set()
        if any(word.lower() in content.lower() for word in blocked):
            raise DiscordError(400, 200000, "Message was blocked by automatic moderation")

    def _check_embeds(self, embeds: Sequence[Mapping[str, Any]]) -> None:
        if len(embeds) > EMBEDS_COUNT:
            raise invalid("embeds", "BASE_TYPE_MAX_LENGTH", f"Must be {EMBEDS_COUNT} or fewer in length.")
        total = 0
        for index, embed in enumerate(embeds):
            description = embed.get("description") or ""
            if len(description) > DESCRIPTION_LIMIT:
                problem = f"Must be {DESCRIPTION_LIMIT} or fewer in length."
                raise invalid(f"embeds.{index}.description", "BASE_TYPE_MAX_LENGTH", problem)
            texts = [embed.get("title"), description]
            texts += [(embed.get("footer") or {}).get("text"), (embed.get("author") or {}).get("name")]
            texts += [text for one in embed.get("fields") or () for text in (one.get("name"), one.get("value"))]
            total += sum(len(text or "") for text in texts)
        if total > EMBEDS_LIMIT:
            raise invalid("embeds", "MAX_EMBED_SIZE_EXCEEDED", f"Embed size exceeds maximum size of {EMBEDS_LIMIT}")

    def _check_components(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Refuse what is no row of buttons or menus, too many of them, and names that are too long or used twice."""
        if len(rows) > ROWS_COUNT:
            raise invalid("components", "BASE_TYPE_BAD_LENGTH", f"Must be between 1 and {ROWS_COUNT} in length.")
        inside = [
            (f"components.{at}.components", list(row.get("components") or ()))
            for at, row in enumerate(rows)
            if row.get("type") == ROW
        ]
        for where, held in inside:
            if not 1 <= len(held) <= IN_ROW_COUNT:
                raise invalid(where, "BASE_TYPE_BAD_LENGTH", f"Must be between 1 and {IN_ROW_COUNT} in length.")
            for at, one in enumerate(held):
                if len(one.get("label") or "") > LABEL_LIMIT:
                    raise invalid(f"{where}.{at}.label", "BASE_TYPE_MAX_LENGTH", f"Must be {LABEL_LIMIT} or fewer.")
                if len(one.get("custom_id") or "") > CUSTOM_ID_LIMIT:
                    problem = f"Must be {CUSTOM_ID_LIMIT} or fewer in length."
                    raise invalid(f"{where}.{at}.custom_id", "BASE_TYPE_MAX_LENGTH", problem)
        named = [one["custom_id"] for _, held in inside for one in held if one.get("custom_id")]
        if len(named) != len(set(named)):
            raise invalid("components", "COMPONENT_CUSTOM_ID_DUPLICATED", "Component custom id cannot be duplicated")

    def _attachments(
        self, channel: Channel, body: Mapping[str, Any], uploads: Sequence[Upload], old: Message | None
    ) -> list[Attachment]:
        """Return what stays of an old message's files, and the new ones."""
        if uploads and not channel.allows(self._world.bot) & Permission.ATTACH_FILES:
            raise missing_permission()
        kept = {str(one.id): one for one in old.attachments} if old else {}
        if "attachments" in body:
            kept = {key: one for key, one in kept.items() if key in {str(said["id"]) for said in body["attachments"]}}
        new = [self._world.attach(channel, one.filename, one.data, one.content_type) for one in uploads]
        return [*kept.values(), *new]

    def _check_not_empty(self, fields: Mapping[str, Any], old: Message | None) -> None:
        def now(name: str) -> Any:
            return fields.get(name, getattr(old, name, None))

        if INVISIBLE.fullmatch(now("content") or "") and not any(
            now(name) for name in ("embeds", "attachments", "components")
        ):
            raise DiscordError(400, 50006, "Cannot send an empty message")


def content_type_of(filename: str) -> str:
    """Return the type that Discord guesses from a name."""
    guess = mimetypes.guess_type(filename)[0] or "application/octet-stream"
    return f"{guess}; charset=utf-8" if guess.startswith("text/") else guess
