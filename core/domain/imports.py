"""What an export file holds, in our words: chats, records, what is wrong with them, and who may hear them. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from core.domain.ids import RoomKey
from core.domain.rooms import RoomKind

EXCERPT_CHARS = 80
TEXT_CHARS = 100_000
"""Longer texts are no chat message of any platform, and more than a search index takes."""
REF_CHARS = 200
"""What an id may be long; platforms' own have at most 20 digits."""
NAME_CHARS = 256


class ImportFormat(StrEnum):
    """What wrote the file."""

    DISCORD = "discord"
    TELEGRAM = "telegram"
    JSONL = "jsonl"


class BadCode(StrEnum):
    """What is wrong with a record. The last three are mended, and the record is kept."""

    JSON_SYNTAX = "json_syntax"
    TRUNCATED_TAIL = "truncated_tail"
    BAD_TYPE = "bad_type"
    NO_TIME = "no_time"
    BAD_TIME = "bad_time"
    NO_AUTHOR = "no_author"
    TOO_LONG = "too_long"
    DUPLICATE_ID = "duplicate_id"
    LONE_SURROGATE = "lone_surrogate"
    NUL_BYTE = "nul_byte"
    BAD_UTF8 = "bad_utf8"


class SkipReason(StrEnum):
    """Why a sound record was not written."""

    EXCLUDED = "excluded"
    OPTED_OUT = "opted_out"
    ERASED = "erased"
    LIVE = "live"
    TOMBSTONE = "tombstone"
    MERGED = "merged"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A place in the file that gave no record, or one that had to be mended (`mended`)."""

    line: int
    byte: int
    code: BadCode
    excerpt: str = ""
    mended: bool = False


@dataclass(frozen=True, slots=True)
class Unsupported:
    """An entry of which the exporter kept nothing but its number."""

    line: int
    byte: int


@dataclass(frozen=True, slots=True)
class Account:
    """Who wrote a record. `kind`: user, channel, deleted."""

    ref: str
    name: str
    kind: str = "user"
    is_bot: bool = False


@dataclass(frozen=True, slots=True)
class ImportedFile:
    """A file beside a record; of the file itself only what the export tells."""

    kind: str
    name: str = ""
    mime: str = ""
    size_bytes: int = 0
    caption: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRecord:
    """One message or event. `chat`: its chat's number in the file; `topic`: the topic's ref, empty for none.

    `ref` is the platform's id, or made from the content where there is none (`ref_made`). `words` is what was
    written, `text` what the archive shows: words, polls, a line for each file. `reply_to` names a message of the
    same chat, `reply_elsewhere` says that it is another chat's.
    """

    line: int
    byte: int
    chat: int
    ref: str
    kind: str
    text: str
    sent_at: datetime
    author: Account | None
    words: str = ""
    topic: str = ""
    ref_made: bool = False
    reply_to: str | None = None
    reply_elsewhere: bool = False
    edited_at: datetime | None = None
    forwarded_from: str = ""
    session: str | None = None
    files: tuple[ImportedFile, ...] = ()
    mended: tuple[BadCode, ...] = ()


@dataclass(frozen=True, slots=True)
class Moved:
    """A join or a leave that the file tells of; `joined` False: they left."""

    chat: int
    account: Account
    joined: bool
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """A chat of the file. `key` None: the file does not say which.

    `private`: its readers are at most the people in it. `closed_copy`: its ids are not those that a bot sees, so
    that it stands beside the live room and is never mixed with it. `parent`: the room that a thread hangs on.
    `community_ref`: the server that it belongs to, empty where the file does not say.
    """

    number: int
    key: RoomKey | None
    kind: RoomKind
    name: str
    private: bool
    closed_copy: bool = False
    parent: RoomKey | None = None
    community_ref: str = ""
    old_key: RoomKey | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where to go on reading: after a record, inside the chat with this number (None: outside of any).

    `twins`: how often records without id of the last second were seen, by their hash.
    """

    byte: int = 0
    line: int = 1
    chat: int | None = None
    twins: Mapping[str, int] = field(default_factory=dict)


class AudienceKind(StrEnum):
    """Who may hear what is brought along."""

    ROOM = "room"
    ROLE = "role"
    PEOPLE = "people"
    STAFF = "staff"
    COMMUNITY = "community"


@dataclass(frozen=True, slots=True)
class AudienceSpec:
    """An audience as the operator typed it. `refs`: the platform's ids of the room, the roles or the people."""

    kind: AudienceKind
    refs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}:{','.join(self.refs)}" if self.refs else self.kind.value


def parse_audience(text: str) -> AudienceSpec | None:
    """Return the audience that `text` spells; None if it spells none."""
    word, colon, rest = text.strip().partition(":")
    if word not in set(AudienceKind):
        return None
    kind = AudienceKind(word)
    refs = tuple(dict.fromkeys(ref.strip() for ref in rest.split(",") if ref.strip()))
    if kind in (AudienceKind.STAFF, AudienceKind.COMMUNITY):
        return None if colon else AudienceSpec(kind)
    if not refs or (kind is AudienceKind.ROOM and len(refs) > 1):
        return None
    return AudienceSpec(kind, refs)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an import is."""

    byte: int
    size_bytes: int
    read: int
    written: int


@dataclass(slots=True)
class Tally:
    """What became of a file's records."""

    read: int = 0
    written: int = 0
    edited: int = 0
    unchanged: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    bad: Counter[str] = field(default_factory=Counter)

    def stored(self) -> dict[str, object]:
        """Return it as a run keeps it."""
        return {
            "read": self.read,
            "written": self.written,
            "edited": self.edited,
            "unchanged": self.unchanged,
            "skipped": dict(self.skipped),
            "bad": dict(self.bad),
        }

    @classmethod
    def load(cls, counts: Mapping[str, object]) -> "Tally":
        """Return what a run has kept."""
        numbers = {name: int(str(counts.get(name, 0))) for name in ("read", "written", "edited", "unchanged")}
        skipped, bad = (counts.get(name) for name in ("skipped", "bad"))
        return cls(
            **numbers,
            skipped=Counter(skipped if isinstance(skipped, dict) else {}),
            bad=Counter(bad if isinstance(bad, dict) else {}),
        )
