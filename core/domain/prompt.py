"""What is sent to a model and what comes back, and what a prompt is made from."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from enum import StrEnum
from typing import Literal, NewType

from core.domain.errors import BotError, TooLong
from core.domain.ids import MessageId, PersonId, RoomId
from core.domain.images import Image
from core.domain.rooms import RoomKind, RoomMode

JsonSchema = Mapping[str, object]
Handle = NewType("Handle", str)
"""What the model sees in place of an id: `m3` message, `p2` person, `k1` passage, `d1` lines of a file, `n1` entry of
the mind, `r1` room."""


class Tier(StrEnum):
    """How strong a model a call asks for; a missing tier falls to the next lower one."""

    DEEP = "deep"
    FAST = "fast"
    CHEAP = "cheap"


class Finish(StrEnum):
    """Why the model stopped."""

    STOP = "stop"
    LENGTH = "length"
    REFUSED = "refused"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a request; `system` is a field of its own. `images` stand before the text."""

    role: Literal["user", "assistant"]
    text: str
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool the model may call."""

    name: str
    description: str
    parameters: JsonSchema


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Everything one call sends. Constructed in `core/prompt/builder.py` alone.

    `image_tokens`: what its images may cost together, by the rate that the operator declared.
    """

    system: str
    messages: tuple[PromptMessage, ...]
    tools: tuple[ToolSpec, ...]
    output_schema: JsonSchema | None
    cache_breakpoints: tuple[int, ...]  # offsets in characters into `system`
    max_output_tokens: int
    sha256: str
    image_tokens: int = 0

    @property
    def images(self) -> tuple[Image, ...]:
        """All images of the request, in order."""
        return tuple(image for message in self.messages for image in message.images)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens one call used. `estimated`: the provider reported none, ours stand in."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    estimated: bool = False


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished answer of a model.

    `text` is everything the model said outside reasoning fields; `usd_micro` is 0 for unpriced models.
    """

    text: str
    usage: Usage
    model: str
    finish: Finish
    usd_micro: int = 0
    reasoning_dropped: bool = False


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a streamed answer; the last one carries the completion and no text."""

    text: str = ""
    completion: Completion | None = None


class PromptKind(StrEnum):
    """What a prompt is for; decides which sections it has."""

    REPLY = "reply"
    REPAIR = "repair"
    SUMMARIZE = "summarize"


@dataclass(frozen=True, slots=True)
class Role:
    """The body of an agent file: who the model is in this call. `sha256` is the file's."""

    name: str
    version: int
    tier: Tier
    tools: tuple[str, ...]
    operations: tuple[str, ...]
    skills: tuple[str, ...]
    body: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Skill:
    """A piece of know-how that roles name; `consumers` are the roles that may read it."""

    name: str
    version: int
    owner: str
    consumers: tuple[str, ...]
    body: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Persona:
    """A style pack: tone and nothing else. `languages` empty: any."""

    name: str
    version: int
    languages: tuple[str, ...]
    humour: int
    emoji: bool
    body: str
    sha256: str


class SourceKind(StrEnum):
    """What a handle stands for."""

    MESSAGE = "message"
    PERSON = "person"
    PASSAGE = "passage"
    FILE = "file"
    MEMORY = "memory"
    ROOM = "room"


@dataclass(frozen=True, slots=True)
class SourceId:
    """A thing a prompt rests on; `key` is its id in the store, as text."""

    kind: SourceKind
    key: str


class Trust(StrEnum):
    """Where words come from: code and the bot itself, people here, or outside (files, pages, hooks)."""

    OWN = "own"
    MEMBER = "member"
    OUTSIDE = "outside"


@dataclass(frozen=True, slots=True)
class Provenance:
    """What an item was made from. `audience`: the rooms it came from; empty means nobody's room."""

    source_ids: tuple[SourceId, ...] = ()
    audience: frozenset[RoomId] = frozenset()
    trust: Trust = Trust.MEMBER


class Standing(StrEnum):
    """What code knows about a speaker; written outside the quotes of the name, so no name can claim it."""

    MEMBER = "member"
    ADMIN = "admin"
    MODERATOR = "moderator"
    BOT = "bot"
    WEBHOOK = "webhook"
    CHANNEL = "channel"
    YOU = "you"


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who said something, by the name of that time. `person` None: no account stands behind it."""

    person: PersonId | None
    name: str
    standing: Standing = Standing.MEMBER


@dataclass(frozen=True, slots=True)
class Line:
    """One message in a talk. `notes` are code's words about attachments; `to` whom it answers."""

    message: MessageId
    speaker: Speaker
    sent_at: datetime
    text: str
    provenance: Provenance
    notes: tuple[str, ...] = ()
    to: PersonId | None = None
    flagged: bool = False


@dataclass(frozen=True, slots=True)
class Passage:
    """A hit of the search: rank is its place in the tuple. `key` is the unit's id.

    In a summary the place is that in time, and the lowest `weight` is left out first.
    """

    key: str
    speaker: Speaker
    sent_at: datetime
    room_name: str
    text: str
    provenance: Provenance
    weight: float = 0.0


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of a file of lore that the search found; its rank is its place among the passages.

    `key` is the reference that receipts keep, `place` and `link` are how it is cited to people.
    """

    key: str
    source: str
    path: str
    line_start: int
    line_end: int
    text: str
    place: str
    link: str | None
    provenance: Provenance
    weight: float = 0.0


@dataclass(frozen=True, slots=True)
class Fact:
    """Something a person said about themselves, with the message that shows it."""

    about: Speaker
    text: str
    anchor: MessageId
    noted_at: datetime
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class Recollection:
    """An entry of the mind in words; the lowest `weight` is trimmed first. Empty `key`: no handle."""

    key: str
    label: str
    text: str
    weight: float
    provenance: Provenance


@dataclass(frozen=True, slots=True)
class RoomCard:
    """Where the answer would appear. `name` and `topic` are people's words, the rest is code's."""

    room: RoomId
    kind: RoomKind
    mode: RoomMode
    language: str
    name: str
    topic: str


class LeftOutReason(StrEnum):
    """Why something is not in the prompt. Counts for `audience` go to the receipt, never to the model."""

    AUDIENCE = "audience"
    AGE = "age"
    SCORE = "score"
    SPACE = "space"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """How many items of a section were left out, and why."""

    section: str
    reason: LeftOutReason
    count: int


@dataclass(frozen=True, slots=True)
class RepairNote:
    """What was wrong with the model's last output: where, and what was expected; never the output itself."""

    path: str
    expected: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """All that a chat prompt may use; values only, made by `core/prompt/context.py`.

    `nonce` is 16 random bytes, `now` is aware UTC and the only clock, `tz` the community's zone.
    `readable`: rooms that every reader of the venue may read now. `transcript` and `chain` run from old
    to new and the chain's last line is the message replied to; `passages` stand best first. `images` are
    those of the turn.
    """

    turn: Line
    room: RoomCard
    readable: frozenset[RoomId]
    now: datetime
    tz: tzinfo
    nonce: bytes
    persona: Persona
    settings_version: int
    sensitive: bool = False
    rules: tuple[str, ...] = ()
    self_view: tuple[Recollection, ...] = ()
    memories: tuple[Recollection, ...] = ()
    person: tuple[Fact, ...] = ()
    passages: tuple[Passage | Excerpt, ...] = ()
    chain: tuple[Line, ...] = ()
    transcript: tuple[Line, ...] = ()
    read: str = ""
    left_out: tuple[LeftOut, ...] = ()
    images: tuple[Image, ...] = ()
    repair: RepairNote | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """What became of one section: its size, its share, and what it rests on. Goes to the receipt."""

    name: str
    tokens: int
    budget: int
    trimmed: bool
    items_kept: int
    items_dropped: int
    provenance: tuple[Provenance, ...]


@dataclass(frozen=True, slots=True)
class Prompt:
    """A finished request with its account.

    `handles` holds exactly the handles that stand in the prompt. `estimated_tokens` is the expected size
    of the input, `bound_tokens` what the call can cost at most, output included.
    """

    request: ModelRequest
    sections: tuple[Section, ...]
    handles: Mapping[Handle, SourceId]
    estimated_tokens: int
    bound_tokens: int

    @property
    def sha256(self) -> str:
        """The hash that the receipt keeps."""
        return self.request.sha256


class PromptTooLarge(TooLong):
    """What may not be left out, and 300 tokens of the turn, do not fit the window."""


class AudienceViolation(BotError):
    """An item may not be read by everyone in the venue: a bug of the code that gathered it."""


class MarkerInData(BotError):
    """The fence's secret marker stands in untrusted text, which chance cannot explain."""
