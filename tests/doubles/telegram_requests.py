"""What requests at the Telegram double carry inside, checked as it comes in, and what methods keep between calls."""

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Json

from tests.doubles.telegram_entities import Entity
from tests.doubles.telegram_state import Message, Topic


class Given(BaseModel):
    """An object inside a request; what it does not name is not in the double."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class GivenEntity(Given):
    """A MessageEntity."""

    type: str
    offset: int
    length: int
    url: str | None = None
    user: dict[str, Any] | None = None
    language: str | None = None
    custom_emoji_id: str | None = None

    def entity(self) -> Entity:
        """Return the same, as the double keeps it."""
        extra = self.model_dump(exclude={"type", "offset", "length"}, exclude_none=True)
        return Entity(self.type, self.offset, self.length, extra)


class ReplyParameters(Given):
    """What a message is to answer."""

    message_id: int
    allow_sending_without_reply: bool = False
    quote: str | None = None
    quote_position: int | None = None


class Button(Given):
    """A button below a message: one that calls back or one that opens an address."""

    text: str
    callback_data: str | None = None
    url: str | None = None


class Keyboard(Given):
    """Rows of buttons below a message."""

    inline_keyboard: list[list[Button]]


class Reaction(Given):
    """One emoji of the common ones, or a custom one, which a bot may not set."""

    type: str
    emoji: str = ""
    custom_emoji_id: str = ""


Entities = Json[list[GivenEntity]] | None
Reply = Json[ReplyParameters] | None
Markup = Json[Keyboard] | None
Anything = Json[dict[str, Any]] | None


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a chat a message goes."""

    topic: Topic | None
    reply_to: Message | None
    quote: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Draft:
    """A text that is still being written, as its reader sees it."""

    id: int
    text: str
    at: int


@dataclass(slots=True)
class Press:
    """A button that someone pressed and that waits for an answer; `answer` is what the person saw."""

    at: int
    answer: str | None = None
