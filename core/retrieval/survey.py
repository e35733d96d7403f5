"""A first walk through an export file: what wrote it, whose chats it holds, and what it lacks. Nothing is written."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import file_digest
from pathlib import Path
from typing import BinaryIO, Protocol
from zoneinfo import ZoneInfo

from core.domain.imports import BadRecord, Chat, ImportFormat, ImportRecord, Moved, Place, Unsupported
from core.retrieval.readers.arrays import ArrayReader
from core.retrieval.readers.discord import DiscordTranslator
from core.retrieval.readers.jsonl import JsonLines
from core.retrieval.readers.telegram import TelegramTranslator, Topics

Item = Chat | ImportRecord | BadRecord | Unsupported

_HEAD_BYTES = 4 * 1024 * 1024
_LINES = 20
_ARRAY = re.compile(rb'"messages"\s*:\s*\[')
_DISCORD = re.compile(rb'"(?:guild|channel)"\s*:\s*\{')
_ACCOUNT = re.compile(rb'"(?:chats|left_chats|personal_information)"\s*:\s*\{')


class Reader(Protocol):
    """A walk through a file. `place`: where to go on after the last record."""

    place: Place

    @property
    def needs_zone(self) -> bool:
        """Whether a local time was met and nobody has said of which zone."""
        ...

    @property
    def moves(self) -> list[Moved]:
        """Who came and who went, as far as read."""
        ...

    def __iter__(self) -> Iterator[Item]:
        """Yield what is read, in the file's order."""
        ...


@dataclass(slots=True)
class Survey:
    """What is known of a file before anything of it is written. Chats are numbered in the file's order."""

    path: Path
    form: ImportFormat
    sha256: str
    size_bytes: int
    chats: dict[int, Chat] = field(default_factory=dict)
    people: dict[int, set[str]] = field(default_factory=dict)
    topics: dict[int, Topics] = field(default_factory=dict)
    rooms: dict[str, int] = field(default_factory=dict)
    moves: list[Moved] = field(default_factory=list)
    records: int = 0
    needs_zone: bool = False

    def read(self, file: BinaryIO, zone: ZoneInfo | None, place: Place = Place()) -> Reader:  # noqa: B008  # frozen
        """Return a reader of the file from `place` on; it knows the topics that were met before."""
        match self.form:
            case ImportFormat.DISCORD:
                return ArrayReader(file, DiscordTranslator(), place)
            case ImportFormat.TELEGRAM:
                return ArrayReader(file, TelegramTranslator(self.sha256[:16], zone, self.topics), place)
            case ImportFormat.JSONL:
                return JsonLines(file, place, self.rooms)


def recognise(file: BinaryIO) -> ImportFormat | None:
    """Return what wrote the file, by its content; None if it is nothing that can be read."""
    file.seek(0)
    head = file.read(_HEAD_BYTES)
    for line in head.split(b"\n", _LINES)[:_LINES]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and {"author", "ts"} <= value.keys():
            return ImportFormat.JSONL
    array = _ARRAY.search(head)
    before = head if array is None else head[: array.start()]
    if len(_DISCORD.findall(before)) == 2 and array is not None:
        return ImportFormat.DISCORD
    if array is not None or _ACCOUNT.search(before):
        return ImportFormat.TELEGRAM
    return None


def survey(path: Path, form: ImportFormat, zone: ZoneInfo | None) -> Survey:
    """Walk through the whole file once; blocking."""
    with path.open("rb") as file:
        found = Survey(path, form, file_digest(file, "sha256").hexdigest(), path.stat().st_size)
        reader = found.read(file, zone)
        for item in reader:
            match item:
                case Chat():
                    found.chats[item.number] = item
                case ImportRecord():
                    found.records += 1
                    if item.author is not None:
                        found.people.setdefault(item.chat, set()).add(item.author.ref)
                case BadRecord() | Unsupported():
                    pass
        found.needs_zone = reader.needs_zone
        found.moves = reader.moves
    return found


@dataclass(slots=True)
class Batch:
    """Records that go in together. `last`: the file has ended."""

    records: list[ImportRecord] = field(default_factory=list)
    bad: list[BadRecord] = field(default_factory=list)
    unsupported: int = 0
    place: Place = field(default_factory=Place)
    last: bool = False


def take(walk: Iterator[Item], reader: Reader, length: int) -> Batch:
    """Read the next batch; blocking."""
    batch = Batch()
    for item in walk:
        match item:
            case ImportRecord():
                batch.records.append(item)
            case BadRecord():
                batch.bad.append(item)
            case Unsupported():
                batch.unsupported += 1
            case Chat():
                pass
        if len(batch.records) == length:
            batch.place = reader.place
            return batch
    batch.place, batch.last = reader.place, True
    return batch
