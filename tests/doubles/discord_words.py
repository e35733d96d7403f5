"""The fixed words of Discord: kinds, permission bits, intents, flags, errors, and ids that tell their time."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntEnum, IntFlag
from typing import Any

from core.ports import Clock

EPOCH = datetime(2015, 1, 1, tzinfo=UTC)
# Divisible by every number of shards up to 12: the nth guild of a double belongs to shard n modulo their number.
FOUNDED_MS = 27_720_000_000


class ChannelKind(IntEnum):
    """The types of channels that the double knows."""

    TEXT = 0
    DM = 1
    VOICE = 2
    CATEGORY = 4
    NEWS = 5
    NEWS_THREAD = 10
    THREAD = 11
    PRIVATE_THREAD = 12
    FORUM = 15


THREADS = frozenset({ChannelKind.NEWS_THREAD, ChannelKind.THREAD, ChannelKind.PRIVATE_THREAD})


class MessageKind(IntEnum):
    """The types of messages that the double writes."""

    DEFAULT = 0
    MEMBER_JOINED = 7
    THREAD_CREATED = 18
    REPLY = 19
    CHAT_COMMAND = 20
    THREAD_STARTER = 21
    CONTEXT_COMMAND = 23


class MessageFlag(IntFlag):
    """The flags of messages that the double sets."""

    SUPPRESS_EMBEDS = 1 << 2
    HAS_THREAD = 1 << 5
    EPHEMERAL = 1 << 6
    LOADING = 1 << 7
    SUPPRESS_NOTIFICATIONS = 1 << 12
    HAS_SNAPSHOT = 1 << 14


class Permission(IntFlag):
    """The permission bits that the double looks at."""

    KICK_MEMBERS = 1 << 1
    BAN_MEMBERS = 1 << 2
    ADMINISTRATOR = 1 << 3
    MANAGE_CHANNELS = 1 << 4
    MANAGE_GUILD = 1 << 5
    ADD_REACTIONS = 1 << 6
    VIEW_AUDIT_LOG = 1 << 7
    VIEW_CHANNEL = 1 << 10
    SEND_MESSAGES = 1 << 11
    MANAGE_MESSAGES = 1 << 13
    EMBED_LINKS = 1 << 14
    ATTACH_FILES = 1 << 15
    READ_MESSAGE_HISTORY = 1 << 16
    MENTION_EVERYONE = 1 << 17
    CONNECT = 1 << 20
    MANAGE_NICKNAMES = 1 << 27
    MANAGE_ROLES = 1 << 28
    USE_APPLICATION_COMMANDS = 1 << 31
    MANAGE_THREADS = 1 << 34
    CREATE_PUBLIC_THREADS = 1 << 35
    CREATE_PRIVATE_THREADS = 1 << 36
    SEND_MESSAGES_IN_THREADS = 1 << 38
    MODERATE_MEMBERS = 1 << 40


P = Permission
ALL_PERMISSIONS = Permission(sum(Permission))
# What everyone may do in a fresh guild.
EVERYONE = (
    P.ADD_REACTIONS | P.VIEW_CHANNEL | P.SEND_MESSAGES | P.EMBED_LINKS | P.ATTACH_FILES | P.READ_MESSAGE_HISTORY
    | P.CONNECT | P.USE_APPLICATION_COMMANDS | P.CREATE_PUBLIC_THREADS | P.SEND_MESSAGES_IN_THREADS
)  # fmt: skip
# What the bot's own role adds unless a test says otherwise.
MODERATOR_BOT = (
    P.KICK_MEMBERS | P.BAN_MEMBERS | P.MODERATE_MEMBERS | P.MANAGE_MESSAGES | P.MANAGE_ROLES | P.MANAGE_THREADS
)  # fmt: skip


class Intent(IntFlag):
    """What a session asks to be told of."""

    GUILDS = 1 << 0
    GUILD_MEMBERS = 1 << 1
    GUILD_MODERATION = 1 << 2
    GUILD_PRESENCES = 1 << 8
    GUILD_MESSAGES = 1 << 9
    GUILD_MESSAGE_REACTIONS = 1 << 10
    GUILD_MESSAGE_TYPING = 1 << 11
    DIRECT_MESSAGES = 1 << 12
    DIRECT_MESSAGE_REACTIONS = 1 << 13
    DIRECT_MESSAGE_TYPING = 1 << 14
    MESSAGE_CONTENT = 1 << 15
    AUTO_MODERATION_EXECUTION = 1 << 21


PRIVILEGED = Intent.GUILD_MEMBERS | Intent.GUILD_PRESENCES | Intent.MESSAGE_CONTENT
# Every bit that version 10 knows; any other is an invalid intent.
KNOWN_INTENTS = (1 << 17) - 1 | 1 << 20 | 1 << 21 | 1 << 24 | 1 << 25


@dataclass(slots=True)
class DiscordError(Exception):
    """A refusal with Discord's own code."""

    status: int
    code: int
    message: str
    errors: dict[str, Any] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        return {"message": self.message, "code": self.code} | ({"errors": self.errors} if self.errors else {})


def invalid(path: str, code: str, message: str) -> DiscordError:
    """Return 50035, Discord's answer to a field that breaks a rule; `path` may be dotted."""
    errors: dict[str, Any] = {"_errors": [{"code": code, "message": message}]}
    for part in reversed(path.split(".")):
        errors = {part: errors}
    return DiscordError(400, 50035, "Invalid Form Body", errors)


def unknown(what: str, code: int) -> DiscordError:
    return DiscordError(404, code, f"Unknown {what}")


def missing_access() -> DiscordError:
    return DiscordError(403, 50001, "Missing Access")


def missing_permission() -> DiscordError:
    return DiscordError(403, 50013, "Missing Permissions")


class Snowflakes:
    """Makes ids that never repeat, grow with time, and carry their moment in the upper 42 bits."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_ms = 0
        self._count = 0

    def next(self, at: datetime | None = None) -> int:
        """Return a new id of now, or of the moment `at`, which need not keep the order."""
        self._count += 1
        ms = int(((at or self._clock.now()) - EPOCH) / timedelta(milliseconds=1))
        if at is None:
            ms = self._last_ms = max(ms, self._last_ms)
        return ms << 22 | self._count & 0x3FFFFF


def moment(snowflake: int) -> datetime:
    """Return when the thing under an id was made."""
    return EPOCH + timedelta(milliseconds=snowflake >> 22)


def stamp(at: datetime | None) -> str | None:
    """Return a time as Discord writes it."""
    return None if at is None else at.isoformat(timespec="milliseconds")
