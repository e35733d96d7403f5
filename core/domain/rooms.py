"""Communities and rooms: where messages appear and how the bot behaves there."""

from dataclasses import dataclass
from datetime import datetime, time
from enum import StrEnum

from core.domain.ids import CommunityId, RoomId, RoomKey


class RoomMode(StrEnum):
    """When the bot answers in a room."""

    SILENT = "silent"
    MENTION = "mention"
    LURK = "lurk"
    OPEN = "open"


class RoomKind(StrEnum):
    """What sort of place a room is."""

    CHANNEL = "channel"
    THREAD_PUBLIC = "thread_public"
    THREAD_PRIVATE = "thread_private"
    FORUM_POST = "forum_post"
    GROUP = "group"
    TOPIC = "topic"
    DM = "dm"
    TERMINAL = "terminal"


class RoomState(StrEnum):
    """Whether a room is there."""

    ACTIVE = "active"
    ARCHIVED = "archived"
    DELETED = "deleted"


class ArchiveSwitch(StrEnum):
    """An administrator's word on keeping a room's messages; `inherit` takes the parent's.

    `never` excludes the room with everything that hangs on it, whatever is said of that.
    """

    ON = "on"
    OFF = "off"
    INHERIT = "inherit"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class QuietHours:
    """A daily local window in which the bot does not speak; it may pass midnight."""

    start: time
    end: time

    def covers(self, local: datetime) -> bool:
        """Return whether the local time lies in the window; its end is outside."""
        at = local.time()
        if self.start <= self.end:
            return self.start <= at < self.end
        return at >= self.start or at < self.end


@dataclass(frozen=True, slots=True)
class Community:
    """A server, a group, or the local terminal's world."""

    id: CommunityId
    platform: str
    chat_ref: str
    name: str
    mind_id: str
    timezone: str
    language: str
    access_epoch: int
    settings_version: int


@dataclass(frozen=True, slots=True)
class Room:
    """A place where messages appear.

    `archive_above`: the switch of the room that it hangs on. `staff`: where its community's staff is asked and told.
    """

    id: RoomId
    community_id: CommunityId
    key: RoomKey
    kind: RoomKind
    name: str
    topic: str
    mode: RoomMode
    archive: ArchiveSwitch
    archive_above: ArchiveSwitch | None
    community_active: bool
    unattended: bool
    state: RoomState
    language: str
    persona: str
    quiet_hours: QuietHours | None
    paused: bool
    staff: bool = False
