"""Messages as they come in. An `InboundMessage` is the only thing an adapter hands over."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from core.domain.ids import RoomKey
from core.domain.platforms import Surroundings


class MessageKind(StrEnum):
    """What an event is about."""

    TEXT = "text"
    COMMAND = "command"
    BUTTON = "button"
    EDIT = "edit"
    DELETE = "delete"
    REACTION = "reaction"
    SERVICE = "service"


class Origin(StrEnum):
    """Who or what wrote a message."""

    HUMAN = "human"
    BOT = "bot"
    WEBHOOK = "webhook"
    PROXIED = "proxied"
    CHANNEL = "channel"
    ANONYMOUS_ADMIN = "anonymous_admin"
    SELF = "self"


class Address(StrEnum):
    """A way in which a message speaks to the bot."""

    MENTION = "mention"
    REPLY = "reply"
    DM = "dm"
    COMMAND = "command"
    NAME = "name"


class ReactionChange(StrEnum):
    """What happened to the reactions on a message; `set`: these are all that the person has there now."""

    ADD = "add"
    REMOVE = "remove"
    SET = "set"
    CLEAR = "clear"


@dataclass(frozen=True, slots=True)
class Reaction:
    """A change of reactions. `emoji` empty with `clear`: all of them, of everybody."""

    change: ReactionChange
    emoji: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Link:
    """Where a link leads and what is shown of it; both are the same where nothing hides the address."""

    url: str
    shown: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What a message bears beside its words, as far as its platform says so.

    `mentions`: accounts that it calls, the author's own and ours left out, as `@name` where the platform gives no
    account; `calls_many`: everyone, or a whole role, whether or not the platform let it. `via`: the account of a bot
    by which it was written. `contact`: it hands over a contact card. `buttons`: it has something to press.
    `joined_at`, `account_made_at`: of its author.
    `pictured`: whether its author has a picture; None where that is not said.
    """

    mentions: frozenset[str] = frozenset()
    calls_many: bool = False
    links: tuple[Link, ...] = ()
    via: str = ""
    contact: bool = False
    buttons: bool = False
    joined_at: datetime | None = None
    account_made_at: datetime | None = None
    pictured: bool | None = None


NO_MARKS = Marks()

FETCHED_KINDS = frozenset({"image", "file"})
"""What may be fetched for a turn; of other kinds only the line is told."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file beside a message; `handle` is what the adapter needs to fetch it, never a raw address.

    `kind`: image, video, audio, voice, sticker, file. `note` is added in brackets: why it was not read.
    """

    kind: str
    name: str = ""
    mime: str = ""
    size_bytes: int = 0
    duration_s: float | None = None
    handle: str = ""
    note: str = ""

    def line(self) -> str:
        """Return what the archive and a model see in its place, on one line."""
        size = f"{self.size_bytes / 1_000_000:.1f} MB" if self.size_bytes >= 50_000 else ""
        length = f"{self.duration_s:.0f} s" if self.duration_s is not None else ""
        about = ", ".join(filter(None, (" ".join(self.name.split()), length, size, self.note)))
        return f"[{self.kind}: {about}]" if about else f"[{self.kind}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class InboundMessage:
    """One event of a platform in our words (page `docs/architecture.md`, step 1).

    `message_id` is unique in its room, `event_id` in its front end. `addressed_by` empty: not spoken to us.
    `revision` counts edits from 0. `live` is False when it came from catch-up or import. `quotes` are forwarded
    texts and polls, each already labelled; `text_hidden`: the platform withholds what was said.
    `surroundings` describe the room where the platform does; `answer_token` goes back with the answer.
    `edited_at`: the platform's time of an edit, None where it gives none. `more_refs`: messages that a deletion takes
    along with `message_id`. `reaction`: on the message that `reply_to` names. `webhook_ref`: the webhook that wrote.
    `passed_over`: it came in a gap of which newer questions are answered instead. `admin`, `moderator`: may administer
    the community, or look after its members and what they write, as the platform says.
    """

    front_end: str
    room: RoomKey
    message_id: str
    event_id: str
    kind: MessageKind
    person_ref: str
    display_name: str
    username: str
    origin: Origin
    text: str
    sent_at: datetime
    received_at: datetime
    reply_to: str | None = None
    attachments: tuple[Attachment, ...] = ()
    quotes: tuple[str, ...] = ()
    text_hidden: bool = False
    forwarded_from: str = ""
    edited_at: datetime | None = None
    more_refs: tuple[str, ...] = ()
    reaction: Reaction | None = None
    webhook_ref: str = ""
    passed_over: bool = False
    surroundings: Surroundings | None = None
    marks: Marks = NO_MARKS
    answer_token: str = field(default="", repr=False)
    album_id: str | None = None
    addressed_by: frozenset[Address] = frozenset()
    revision: int = 0
    live: bool = True
    quiet_window: bool = True
    admin: bool = False
    operator: bool = False
    moderator: bool = False

    @property
    def voice_alone(self) -> bool:
        """Whether nothing was said but by voice, which nobody here can hear."""
        kinds = {each.kind for each in self.attachments}
        return kinds == {"voice"} and not (self.text or self.quotes)

    def told(self) -> str:
        """Return everything that was said as one text: words, quoted blocks, a line for each attachment."""
        hidden = HIDDEN_TEXT if self.text_hidden and not self.text else ""
        lines = (self.text, hidden, *self.quotes, *(each.line() for each in self.attachments))
        return "\n".join(filter(None, lines))


HIDDEN_TEXT = "[text withheld by the platform]"

FRAGMENT_WINDOW = timedelta(milliseconds=350)
"""How long a turn waits for the rest of an ordinary text."""
LONG_FRAGMENT_WINDOW = timedelta(milliseconds=1500)
"""The same after a text within 5 % of the platform's limit: the client has probably cut it."""
ALBUM_WINDOW = timedelta(milliseconds=1200)
"""How long a turn waits for the next item of an album."""
FRAGMENT_LIMIT = timedelta(seconds=3)
FRAGMENT_COUNT = 10
NEAR_LIMIT_SHARE = 0.95


def quiet_window(message: InboundMessage, limit_chars: int) -> timedelta:
    """Return how long to wait for a further fragment after `message`."""
    if message.album_id is not None:
        return ALBUM_WINDOW
    return LONG_FRAGMENT_WINDOW if len(message.text) >= limit_chars * NEAR_LIMIT_SHARE else FRAGMENT_WINDOW
