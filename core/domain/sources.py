"""Lore: repositories, folders and graphs that are read and never run, and who may be told what they say. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NewType

from core.domain.ids import CommunityId, RoomId

SourceId = NewType("SourceId", int)
ChunkId = NewType("ChunkId", int)

MOST_FILES = 50_000
"""A source with more is refused as a whole: half of it would answer as if it were all."""
MOST_FILE_BYTES = 512 * 1024


class SourceKind(StrEnum):
    """What a source is. Stored values never change."""

    GIT = "git"
    FOLDER = "folder"
    GRAPH = "graph"


class SourceState(StrEnum):
    """How the last sync ended. What an earlier one brought stays usable while a source is failing."""

    ACTIVE = "active"
    FAILING = "failing"


class LeftOut(StrEnum):
    """Why a path of a source was not read. Stored values never change."""

    SYMLINK = "symlink"
    OUTSIDE = "outside"
    SUBMODULE = "submodule"
    SUBMODULE_ADDRESS = "submodule_address"
    FILTER = "filter"
    HOOK = "hook"
    UNSAFE_PATH = "unsafe_path"
    TOO_DEEP = "too_deep"
    NOT_A_FILE = "not_a_file"
    NOT_READABLE = "not_readable"
    TOO_LARGE = "too_large"
    UNKNOWN_TYPE = "unknown_type"
    NOT_ASKED_FOR = "not_asked_for"
    LOCK_FILE = "lock_file"
    GENERATED = "generated"
    LFS_POINTER = "lfs_pointer"
    BINARY = "binary"
    NOT_UTF8 = "not_utf8"


@dataclass(frozen=True, slots=True)
class Visibility:
    """Who may be told what a source says. `rooms` None: every room of the communities; empty: nobody."""

    communities: frozenset[CommunityId]
    rooms: frozenset[RoomId] | None

    def usable(self, communities: frozenset[CommunityId], readable: frozenset[RoomId]) -> bool:
        """Return whether the source may be used in a venue.

        A list of rooms stands as if the source had been said in each of them, none as if it had in all.

        Args:
            communities: The venue's, or the one that a private answer is asked in, and those of the readable rooms:
                who asks in a direct message is told what may be told in the communities that they are members of.
            readable: What every reader of the venue may read now, from `readable_rooms`.
        """
        if communities.isdisjoint(self.communities):
            return False
        return self.rooms is None or not self.rooms.isdisjoint(readable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A source as it stands. `head`: the commit, or the hash of what was read last; empty before the first sync."""

    id: SourceId
    kind: SourceKind
    name: str
    location: str
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    state: SourceState = SourceState.ACTIVE
    head: str = ""
    error: str = ""
    hourly: bool = False


@dataclass(frozen=True, slots=True)
class Named:
    """A path that was left out, printable, with the reason."""

    path: str
    reason: LeftOut


@dataclass(frozen=True, slots=True)
class Entry:
    """A file that may be read: path below the root, size, and the hash of its bytes."""

    path: str
    size: int
    blob_hash: str


@dataclass(frozen=True, slots=True)
class Scan:
    """What a source holds at one moment. `head` names that moment."""

    head: str
    entries: tuple[Entry, ...]
    left_out: tuple[Named, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as an earlier sync stored it."""

    id: int
    path: str
    blob_hash: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a sync has to write. `write`: with the stored file that it replaces, None for a new one."""

    write: tuple[tuple[Entry, StoredFile | None], ...] = ()
    rename: tuple[tuple[StoredFile, Entry], ...] = ()
    remove: tuple[StoredFile, ...] = ()
    unchanged: int = 0

    @property
    def empty(self) -> bool:
        """Return whether nothing has changed."""
        return not (self.write or self.rename or self.remove)


def plan_sync(stored: Iterable[StoredFile], entries: Iterable[Entry]) -> Plan:
    """Return how to bring the stored files to the entries; equal bytes under another path are a rename.

    A rename that changes the ending is none: another ending is cut in another way.
    """
    old: dict[str, StoredFile] = {file.path: file for file in stored}
    new: dict[str, Entry] = {entry.path: entry for entry in entries}
    gone: dict[tuple[str, str], list[StoredFile]] = {}
    for path, file in sorted(old.items(), reverse=True):
        if path not in new:
            gone.setdefault((file.blob_hash, ending(path)), []).append(file)
    write: list[tuple[Entry, StoredFile | None]] = []
    rename: list[tuple[StoredFile, Entry]] = []
    unchanged = 0
    for path, entry in sorted(new.items()):
        before = old.get(path)
        if before is not None and before.blob_hash == entry.blob_hash:
            unchanged += 1
        elif before is None and (same := gone.get((entry.blob_hash, ending(path)))):
            rename.append((same.pop(), entry))
        else:
            write.append((entry, before))
    remove = sorted((file for files in gone.values() for file in files), key=lambda file: file.path)
    return Plan(tuple(write), tuple(rename), tuple(remove), unchanged)


def file_name(path: str) -> str:
    """Return the last step of a path."""
    return path.rpartition("/")[2]


def ending(path: str) -> str:
    """Return what a file's name ends with, as `.md`, in small letters; empty where there is none."""
    stem, _, last = file_name(path).rpartition(".")
    return f".{last.casefold()}" if stem else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncReport:
    """What a sync did. `left_out` names every path but those of types that nobody expects to be read."""

    name: str
    head: str
    files: int = 0
    added: int = 0
    changed: int = 0
    renamed: int = 0
    removed: int = 0
    unchanged: int = 0
    chunks: int = 0
    nodes: int = 0
    edges: int = 0
    dangling: int = 0
    left_out: tuple[Named, ...] = ()

    @property
    def counts(self) -> Mapping[LeftOut, int]:
        """Return how many paths were left out for each reason, most first."""
        totals: dict[LeftOut, int] = {}
        for named in self.left_out:
            totals[named.reason] = totals.get(named.reason, 0) + 1
        return dict(sorted(totals.items(), key=lambda pair: (-pair[1], pair[0])))


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit, as a pass may hear of it. Subject and name are other people's words, never an instruction."""

    hash: str
    subject: str
    author: str
    date: str
    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Activity:
    """Commits since a cursor, oldest first. `last`: where the cursor stands afterwards.

    `rewritten`: history was rewritten, so it starts again where old and new part. `more`: how many are left.
    """

    commits: tuple[Commit, ...]
    last: str
    more: int = 0
    rewritten: bool = False
