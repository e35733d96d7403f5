"""What a platform says of its communities: rooms, roles, members and who may read what."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from core.domain.ids import RoomKey
from core.domain.rooms import RoomKind


@dataclass(frozen=True, slots=True)
class Whoever:
    """Who may do something, in the platform's own ids: everyone of the community, holders of roles, people."""

    everyone: bool = False
    roles: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()


def both(one: Whoever, other: Whoever) -> Whoever:
    """Return who is certainly in both; of roles and people only those that both name."""
    if one.everyone:
        return other
    if other.everyone:
        return one
    return Whoever(False, one.roles & other.roles, one.accounts & other.accounts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The room an event came from, as the platform describes it; enough to make its row.

    `parent` is the room that a thread, post or topic hangs on.
    """

    community_ref: str
    kind: RoomKind
    community_name: str = ""
    name: str = ""
    topic: str = ""
    parent: RoomKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomReport:
    """One room now. `view`, `history`: who may see it and who may read back; None where the platform does not say."""

    key: RoomKey
    surroundings: Surroundings
    view: Whoever | None = None
    history: Whoever | None = None


@dataclass(frozen=True, slots=True)
class RoleReport:
    """One role now. `admin`: its holders may administer the community."""

    ref: str
    name: str
    admin: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberReport:
    """One member now. `roles` are the refs of the roles held."""

    ref: str
    name: str
    roles: frozenset[str] = frozenset()
    is_bot: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunityReport:
    """What a platform says of one community now.

    `rooms` are all that exist when `whole`; otherwise others stay as they are. `members_known`: `members` are all
    of them; otherwise who is not listed stays as they are.
    """

    platform: str
    ref: str
    name: str
    rooms: tuple[RoomReport, ...] = ()
    roles: tuple[RoleReport, ...] = ()
    members: tuple[MemberReport, ...] = ()
    whole: bool = False
    members_known: bool = False


@dataclass(frozen=True, slots=True)
class LastHeard:
    """A room with the message up to which it was heard; where there is none, no `message_ref` and no time."""

    room: RoomKey
    message_ref: str
    at: datetime | None
    kind: RoomKind = RoomKind.CHANNEL


@dataclass(frozen=True, slots=True, kw_only=True)
class CatchUpLimits:
    """How far back a gap is read: messages a room, messages a start, age."""

    room: int = 200
    start: int = 2000
    age: timedelta = timedelta(hours=6)
