"""What varies, as protocols: front ends, models, the clock, and what front ends are given."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal, Protocol

from core.domain.choices import Choice
from core.domain.ids import RoomKey
from core.domain.messages import InboundMessage
from core.domain.platforms import CommunityReport, LastHeard
from core.domain.prompt import Completion, Delta, ModelRequest
from core.domain.speech import PublicText, SilenceReason
from core.domain.vectors import EmbeddingModel, UnitId, Vector, VectorHit, VectorRow, VectorScope, VectorsOf


class Clock(Protocol):
    """The only source of time in Python; its twin in SQL is `voidbot.now()`."""

    def now(self) -> datetime:
        """Return the present, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back, for measuring spans."""
        ...


class ModelProvider(Protocol):
    """One model behind an address.

    Raises:
        Unavailable, TimedOut, Refused, TooLong, BadOutput, Misconfigured: SDK errors, mapped.
    """

    @property
    def model(self) -> str:
        """Return the name that receipts show."""
        ...

    async def complete(self, request: ModelRequest) -> Completion:
        """Return the whole answer."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Yield the answer in pieces; the last one carries the completion."""
        ...


class Embedder(Protocol):
    """Texts to vectors, by one model.

    Raises:
        Unavailable, TimedOut, Misconfigured: As with models.
    """

    @property
    def model(self) -> EmbeddingModel:
        """Return the model's name and dimension, as stored beside each vector."""
        ...

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        """Return one vector of length one for each text, in order; a long text is cut to what the model reads."""
        ...


class VectorStore(Protocol):
    """Where vectors are kept and compared. It returns ids and scores alone: text and rights come from Postgres.

    Raises:
        Unavailable: The store did not answer; nothing is known of what it did.
        ValueError: A vector of another dimension, of zeros, or with a number that is not finite.
    """

    async def ensure(self, model: EmbeddingModel) -> None:
        """Make room for a model's vectors; does nothing where it is there.

        Raises:
            Misconfigured: The same name stands for another dimension.
        """
        ...

    async def upsert(self, model: EmbeddingModel, rows: Sequence[VectorRow]) -> None:
        """Store vectors; what a unit had before is replaced."""
        ...

    async def delete(self, model: EmbeddingModel, of: VectorsOf) -> int:
        """Delete vectors; return how many there were."""
        ...

    async def search(self, model: EmbeddingModel, vector: Vector, scope: VectorScope, k: int) -> Sequence[VectorHit]:
        """Return the `k` most alike within the scope, best first, equal ones by unit."""
        ...

    async def count(self, model: EmbeddingModel, scope: VectorScope) -> int:
        """Return how many vectors the scope holds."""
        ...

    async def scan(self, model: EmbeddingModel, after: UnitId | None, limit: int) -> Sequence[VectorRow]:
        """Return vectors in order of their units, those behind `after`."""
        ...

    async def drop(self, model: EmbeddingModel) -> None:
        """Remove everything of a model."""
        ...


@dataclass(frozen=True, slots=True)
class Delivered:
    """The platform took it; `external_id` is the message's id there."""

    external_id: str


@dataclass(frozen=True, slots=True)
class RetryAfter:
    """The platform asks the whole chat to pause."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Unsent:
    """Certainly not sent; worth another try."""

    reason: str


@dataclass(frozen=True, slots=True)
class SendRefused:
    """Said no for good. `form`: another form (plain text, no reply target) may still pass."""

    code: str
    form: bool = False


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """It may have arrived."""

    reason: str


SendResult = Delivered | RetryAfter | Unsent | SendRefused | Ambiguous


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingPart:
    """One platform message of an answer. `nonce` is the same on every try.

    `answer_token` came with the interaction that is answered. `late`: the asker waited so long that the reply may call
    them. `final`: no further edit is coming, so it goes before those that are. `choices`: what can be pressed below it,
    carried as `ChoiceRef(outbox_id, n)`; never below what one person alone sees.
    """

    room: RoomKey
    text: PublicText
    nonce: str
    reply_to: str | None
    private_to: str | None
    plain: bool
    outbox_id: int
    n: int
    answer_token: str = field(default="", repr=False)
    late: bool = False
    final: bool = True
    choices: tuple[Choice, ...] = ()


class FrontEnd(Protocol):
    """A platform. Translates in, delivers out, and says what it can be trusted with."""

    @property
    def name(self) -> str:
        """Return the key of this front end: `console`, `discord`, `telegram`."""
        ...

    @property
    def nonce_window(self) -> timedelta | None:
        """Return how long equal nonces fold into one message; None: they never do."""
        ...

    @property
    def stream_every_s(self) -> float | None:
        """Return the least seconds between two edits of a growing answer; None: answers come whole."""
        ...

    @property
    def text_limit(self) -> int:
        """Return the longest text a person can write here, in characters."""
        ...

    def split(self, text: str) -> Sequence[str]:
        """Return `text` in parts within the platform's limit; pure."""
        ...

    async def send(self, part: OutgoingPart) -> SendResult:
        """Send one part. Expected failures are values, not exceptions."""
        ...

    async def find_sent(self, part: OutgoingPart, since: datetime) -> str | Ambiguous | None:
        """Return our own message in the room's history; None if it is not there, `Ambiguous` if that can't be read."""
        ...

    async def edit(self, external_id: str, part: OutgoingPart) -> SendResult:
        """Replace the text of a message sent before."""
        ...

    async def close_choices(self, room: RoomKey, external_id: str) -> SendResult:
        """Take the choices off a message sent before and leave its text."""
        ...

    async def show_typing(self, room: RoomKey) -> None:
        """Show for a few seconds that an answer is being made; does nothing where that is not possible."""
        ...

    async def fetch(self, room: RoomKey, handle: str, limit_bytes: int) -> bytes:
        """Return a file of a message in this room, from the platform's own hosts alone, within seconds.

        Raises:
            OutsideRefused: It is gone, larger than the limit, or nothing that this front end handed over.
            Unavailable: The platform did not answer in time. `why` among an error's attributes says it to people.
        """
        ...

    def silent_s(self) -> float | None:
        """Return the seconds since the platform was last heard; None where there is no connection to watch."""
        ...

    async def run(self, accept: "Accept") -> None:
        """Take events in until cancelled; each goes to `accept` before anything else is done with it."""
        ...

    async def close(self) -> None:
        """Let go of connections; nothing is sent afterwards."""
        ...


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of an inbound message: `turn_id` is set if an answer will come, `reason` if none will."""

    outcome: Literal["reply", "no_speech"]
    reason: SilenceReason | None
    room_id: int
    turn_id: int | None = None
    duplicate: bool = False


Accept = Callable[[InboundMessage], Awaitable[Accepted]]
"""Stores one message, decides and queues its work in one transaction."""


class PlatformMemory(Protocol):
    """What front ends must not forget over a restart, and what they know of rooms and readers.

    Raises:
        Unavailable: The store is down; nothing was stored.
    """

    async def learn(self, report: CommunityReport) -> None:
        """Bring communities, rooms, roles, members and access to what the platform says now."""
        ...

    async def doubt(self, platform: str, refs: Sequence[str] | None = None) -> None:
        """A connection begins anew: what is known of readers may be out of date until it is reported whole again.

        `refs`: of these communities; None: of all of the platform.
        """
        ...

    async def begin_gap(self, room: RoomKey, after: str) -> None:
        """The room is read back from this message on; until `end_gap` that is where it was heard."""
        ...

    async def end_gap(self, room: RoomKey) -> None:
        """The room was read back to its end."""
        ...

    async def forget_room(self, room: RoomKey) -> None:
        """The room is gone there: it stays here, closed, and what was to be said in it is withdrawn."""
        ...

    async def forget_community(self, platform: str, ref: str) -> None:
        """The bot was removed: every room of the community is closed until it is back."""
        ...

    async def leave(self, platform: str, community_ref: str, account_ref: str) -> None:
        """The member has left and loses every room of the community at once."""
        ...

    async def move(self, old: RoomKey, new: RoomKey) -> None:
        """The room has a new id: everything goes with it in one transaction, the old id stays an alias."""
        ...

    async def last_heard(self, platform: str) -> Sequence[LastHeard]:
        """Return the open rooms of the platform with the newest stored message of each."""
        ...

    async def last_kept(self, room: RoomKey, limit: int) -> Sequence[str]:
        """Return the ids of the newest archived messages of a room; what is known to be deleted is left out."""
        ...

    async def recall(self, name: str) -> str | None:
        """Return a small value kept under this name."""
        ...

    async def remember(self, name: str, value: str) -> None:
        """Keep a small value under this name: a fingerprint, a count."""
        ...

    async def count_start(self, account: str) -> int:
        """Count one more start of this account's connection; return how many there were in 24 hours."""
        ...

    def lead(self, key: str, waiting: Callable[[], None]) -> AbstractAsyncContextManager[None]:
        """Hold the one right to something among all processes; `waiting` is called once if another has it.

        Leaving the block, and any death of the process, gives it up. A lost connection raises `Unavailable` inside.
        """
        ...


class OptionKind(StrEnum):
    """What an option of a command holds."""

    WORD = "word"
    TEXT = "text"
    NUMBER = "number"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class CommandOption:
    """One option as a front end renders it; `choices` empty means any value."""

    name: str
    kind: OptionKind
    summary: str
    required: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandForm:
    """One command as a front end renders it. `path` may be two words; `restricted`: hidden from plain members."""

    path: str
    summary: str
    options: tuple[CommandOption, ...] = ()
    restricted: bool = False
    private: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMessage:
    """A message as the terminal or the local web room shows it."""

    id: int
    seq: int
    room: RoomKey
    text: str
    reply_to: str | None
    private_to: str | None
    receipt_id: int | None
    provider: str | None
    revision: int
    at: datetime


class ShownMessages(Protocol):
    """The terminal's own small table: what was shown, so that sending twice shows once."""

    async def show(self, part: OutgoingPart) -> int:
        """Add one message unless its nonce is there; return its id in both cases."""
        ...

    async def find(self, nonce: str) -> int | None:
        """Return the id of the message with this nonce."""
        ...

    async def edit(self, message_id: int, text: str) -> None:
        """Replace the text and raise the revision."""
        ...

    async def after(self, cursor: int, limit: int = 200) -> Sequence[ShownMessage]:
        """Return what was shown or edited after `cursor`, oldest first."""
        ...

    async def latest(self) -> int:
        """Return the newest cursor."""
        ...

    async def ended(self, turn_ids: Sequence[int]) -> Mapping[int, SilenceReason | None]:
        """Return which turns are over: with None if everything they gave was shown, else why they were silent."""
        ...
