"""What a command is, apart from any front end: its path, options, rights and answer."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from zoneinfo import ZoneInfo

from core.domain.archiving import ROOMS_ALONE, ArchivePolicy
from core.domain.ids import CommunityId, PersonId, RoomId, TurnId
from core.domain.jobs import NewJob
from core.domain.passes import PassPolicy
from core.domain.retrieval import Near, Query
from core.domain.rooms import Room
from core.domain.speech import ReceiptSource
from core.moderation.desk import ModerationDesk
from core.privacy.desk import Desk
from core.prompt.stock import StockCatalog
from core.providers.router import Router
from core.state.service import StateService
from core.store.access import ReadableRooms
from core.store.engine import Tx


class Access(StrEnum):
    """Who may use a command."""

    MEMBER = "member"
    MODERATOR = "moderator"
    ADMIN = "admin"
    OPERATOR = "operator"


class Visibility(StrEnum):
    """Who sees the answer."""

    ASKER = "asker"
    ROOM = "room"


class OptionType(StrEnum):
    """What an option holds. A `text` takes all words that are not written `name:value`."""

    WORD = "word"
    TEXT = "text"
    NUMBER = "number"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a command; `choices` empty means any value. `quotes`: a text keeps those around its phrases."""

    name: str
    type: OptionType
    summary: str
    required: bool = False
    choices: tuple[str, ...] = ()
    quotes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandCall:
    """One use of a command: who, where, and the options as typed. `message_ref` is the message replied to.

    `near`: what is like the query that the command's `look` has made.
    """

    path: str
    options: Mapping[str, str]
    person_id: PersonId
    room: Room
    community_id: CommunityId
    tz: ZoneInfo
    admin: bool
    operator: bool
    moderator: bool
    message_ref: str | None
    now: datetime
    turn_id: TurnId
    near: Near
    front_end: str = ""
    trace: str = ""

    @property
    def access(self) -> frozenset[Access]:
        """What this person may use."""
        held = {Access.MEMBER}
        if self.moderator or self.admin or self.operator:
            held.add(Access.MODERATOR)
        if self.admin or self.operator:
            held.add(Access.ADMIN)
        if self.operator:
            held.add(Access.OPERATOR)
        return frozenset(held)


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """What a command says.

    `sources`: the rooms its words came from, besides the one it was used in; `files`: what it tells of files, which is
    looked at again before it is sent. `refused`: nothing was done, which
    concerns the asker alone. `concerns_all`: said in the room even where the bot is silent. `job`: answers instead;
    the turn stays open for it.
    """

    text: str
    sources: frozenset[RoomId] = frozenset()
    refused: bool = False
    concerns_all: bool = False
    job: NewJob | None = None
    files: tuple[ReceiptSource, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What handlers may use beyond the transaction they are given.

    `table` is the list of all commands, `vectors` names the models that make vectors here, `passes` says what runs by
    itself.
    """

    stock: StockCatalog
    readable: ReadableRooms
    router: Router
    personas: Sequence[str]
    version: str
    table: "Sequence[CommandSpec]"
    privacy: Desk
    minds: StateService
    moderation: ModerationDesk
    vectors: Collection[str] = ()
    archiving: ArchivePolicy = ROOMS_ALONE
    passes: PassPolicy = field(default_factory=PassPolicy)


Handler = Callable[[Tx, CommandCall, Services], Awaitable[CommandAnswer]]
"""Runs inside the transaction that queues the answer: effects and answer are one."""

Look = Callable[[Tx, CommandCall, Services], Awaitable[Query | None]]
"""Runs in a transaction of its own before: returns what the likeness of is asked for meanwhile, None for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSpec:
    """One line of the table that every front end renders. `later`: its handler may leave the answer to a job."""

    path: str
    summary: str
    handler: Handler
    options: tuple[Option, ...] = ()
    access: Access = Access.MEMBER
    visibility: Visibility = Visibility.ASKER
    audited: bool = False
    look: Look | None = None
    later: bool = False
