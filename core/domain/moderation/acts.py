"""Acts on members and rooms, what a platform says of its members now, and what others did there. Pure."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from core.domain.ids import RoomKey

REASON_CHARS = 512
"""The longest reason that a platform's audit log takes, counted as it travels: encoded for a header."""


class ActKind(StrEnum):
    """What a platform can do for us. Each that lasts has one that takes it back. Stored values never change."""

    DELETE = "delete"
    TIMEOUT = "timeout"
    LIFT_TIMEOUT = "lift_timeout"
    KICK = "kick"
    BAN = "ban"
    UNBAN = "unban"
    SLOW = "slow"
    HOLD_JOINS = "hold_joins"
    READ_ONLY = "read_only"


REVERSED_BY = {ActKind.TIMEOUT: ActKind.LIFT_TIMEOUT, ActKind.BAN: ActKind.UNBAN}
"""What takes an act on a member back; what is not named cannot be taken back."""
ON_MEMBERS = frozenset({ActKind.TIMEOUT, ActKind.LIFT_TIMEOUT, ActKind.KICK, ActKind.BAN, ActKind.UNBAN})


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One act. `nonce`: the same on every try. `reason`: for the platform's own log; it quotes nobody.

    `account_ref`: the member, or with `by_channel` the channel in whose name something was written; empty for acts on
    rooms. `room`: where a message stands, or what is slowed; for acts on members a room of their community.
    `until`: when a timeout or ban ends; None: for good. `setting`: seconds between messages for `SLOW`; the level to
    set for `HOLD_JOINS`; for `READ_ONLY` 0 to let nobody write, else the `writing` that `RoomSettings` had, so that
    putting back is the same act.
    """

    kind: ActKind
    community_ref: str
    room: RoomKey
    nonce: str
    reason: str
    account_ref: str = ""
    by_channel: bool = False
    message_ref: str = ""
    until: datetime | None = None
    setting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A member as the platform says now, and what we may do there. `there`: is a member at present.

    `protected`: owner, or may administer, or is us. `staff`: may moderate. `above_us`: their rank is not below ours.
    `allowed`: what we have the right to do in this room and to this member. `message_there`: None where the platform
    does not tell. `timed_out_until`: None if they are not.
    """

    there: bool
    protected: bool = False
    staff: bool = False
    above_us: bool = False
    banned: bool = False
    timed_out_until: datetime | None = None
    message_there: bool | None = None
    allowed: frozenset[ActKind] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomSettings:
    """What raids change, as it stands. `verification`: the platform's own level, higher is stricter, 0 the least.

    `writing`: what plain members may write, in the platform's own number; 0: nothing, 1: what is usual.
    """

    slow_s: int = 0
    verification: int = 0
    writing: int = 1

    @property
    def read_only(self) -> bool:
        """Whether plain members cannot write."""
        return self.writing == 0


@dataclass(frozen=True, slots=True)
class Done:
    """The platform did it. `changed`: False where it was so already."""

    changed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """Somebody has joined a community, or with `asks` only asks to be let in."""

    platform: str
    community_ref: str
    account_ref: str
    name: str
    at: datetime
    account_made_at: datetime | None = None
    pictured: bool | None = None
    asks: bool = False


class NativeKind(StrEnum):
    """What a platform, or somebody else on it, did to a member or message."""

    BLOCKED = "blocked"
    DELETED = "deleted"
    TIMED_OUT = "timed_out"
    TIMEOUT_LIFTED = "timeout_lifted"
    KICKED = "kicked"
    BANNED = "banned"
    UNBANNED = "unbanned"


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeAct:
    """Something that was done without us, as the platform's own log has it. `event_ref`: unique on the platform.

    `by_ref`: who did it; empty where the platform did it by its own rules. `by_bot`: another program did. `text`: what
    was blocked, where we may see it. `until`: when what was done ends.
    """

    platform: str
    community_ref: str
    event_ref: str
    kind: NativeKind
    account_ref: str
    at: datetime
    by_ref: str = ""
    by_bot: bool = False
    room: RoomKey | None = None
    message_ref: str = ""
    text: str = ""
    rule_name: str = ""
    until: datetime | None = None
