"""What varies, as protocols: front ends, models, the clock, and what front ends are given."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol

from core.domain.ids import RoomKey
from core.domain.messages import InboundMessage
from core.domain.prompt import Completion, Delta, ModelRequest
from core.domain.speech import PublicText, SilenceReason


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
    """One platform message of an answer. `nonce` is the same on every try."""

    room: RoomKey
    text: PublicText
    nonce: str
    reply_to: str | None
    private_to: str | None
    plain: bool
    outbox_id: int
    n: int


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
        """Look for our own message in the room's history.

        Returns:
            Its id; None if it is certainly not there; `Ambiguous` where history can't be read.
        """
        ...

    async def edit(self, external_id: str, part: OutgoingPart) -> SendResult:
        """Replace the text of a message sent before."""
        ...

    async def run(self, accept: "Accept") -> None:
        """Take events in until cancelled; each goes to `accept` before anything else is done with it."""
        ...


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of an inbound message.

    `turn_id` is set when an answer will come (`outcome` is `reply`); `reason` when none will (`no_speech`).
    """

    outcome: Literal["reply", "no_speech"]
    reason: SilenceReason | None
    room_id: int
    turn_id: int | None = None
    duplicate: bool = False


Accept = Callable[[InboundMessage], Awaitable[Accepted]]
"""Stores one message, decides and queues its work in one transaction."""


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
