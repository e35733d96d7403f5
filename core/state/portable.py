"""A mind as a file to take along: `*.voidstate.jsonl.gz`, out of one database and into an empty mind of another.

Lines of JSON: a header, the rows of the journal, the entries, and a last line with the hash of all before it. It goes
in as a whole or not at all. Ids of rooms and people are another database's: a mapping names ours; what it does not
name becomes an id below zero, which no venue can read.
"""

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Any

from core.domain.errors import InputRejected
from core.domain.ids import MessageId, PersonId, RoomId
from core.domain.mind.citing import cites_of
from core.domain.mind.entries import WHOLE, Entry, Key, canonical, hash_of, image_of
from core.domain.mind.facts import Actor, Emitter, MessageFact, facts_of, message_of
from core.domain.mind.values import wire_time
from core.domain.operations.batch import Batch, Item, Mode
from core.domain.operations.catalog import OPERATIONS
from core.domain.operations.keeping import ErasePerson, VoidCause, VoidSource
from core.state.replay import fold_rows
from core.state.service import StateService
from core.store import journal, mind_facts, state
from core.store.engine import Tx
from core.store.journal import JournalRow, Touched
from core.store.state import hash_bytes

FORMAT = 1
MOST_BYTES = 4 * 1024**3
"""What a file may hold when it is unpacked."""
MOST_VOIDED = 500
"""How many messages one operation voids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """Whose ids of another database are which of ours."""

    rooms: Mapping[int, RoomId] = field(default_factory=dict)
    people: Mapping[int, PersonId] = field(default_factory=dict)
    messages: Mapping[int, MessageId] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Brought:
    """What came in. `sealed`: rooms without a counterpart here; what was made from them is kept and shown nowhere."""

    rows: int
    entries: int
    sealed: int
    state_hash: int


def schema_hash() -> str:
    """Return the hash of every operation's schema: a file of other operations is read with care."""
    schemas = {name: operation.model_json_schema() for name, operation in sorted(OPERATIONS.items())}
    return hashlib.sha256(canonical(schemas)).hexdigest()


async def write(tx: Tx, mind_id: str, file: IO[bytes]) -> dict[str, Any]:
    """Write a mind into a file opened for bytes; return its header.

    Raises:
        InputRejected: There is no such mind.
    """
    mind = await state.find_mind(tx, mind_id)
    if mind is None:
        raise InputRejected(f"mind {mind_id}: there is none; `voidbot mind list` shows them")
    entries = [held.entry for held in await state.list_entries(tx, mind_id)]
    header = {
        "format": FORMAT,
        "schema": schema_hash(),
        "mind": mind_id,
        "rows": mind.last_seq,
        "entries": len(entries),
        "stateHash": hash_bytes(mind.state_hash).hex(),
        "at": wire_time(mind.now),
    }
    digest = hashlib.sha256()
    with gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as packed:

        def line(value: object) -> None:
            data = canonical(value) + b"\n"
            digest.update(data)
            packed.write(data)

        line(header)
        async for row in journal.walk(tx, mind_id, mind.last_seq):
            line({"row": journal.image_of(row)})
        for entry in entries:
            line({"entry": image_of(entry)})
        packed.write(canonical({"sha256": digest.hexdigest()}) + b"\n")
    return header


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """A file that holds together: its rows give its entries and its hash. `recorded`: messages as its rows saw them."""

    header: Mapping[str, Any]
    rows: tuple[JournalRow, ...]
    rooms: frozenset[RoomId]
    recorded: Mapping[MessageId, MessageFact]


async def unpack(file: IO[bytes]) -> Unpacked:
    """Read a file and fold its journal; nothing is written, and no transaction has to be open for it.

    Raises:
        InputRejected: The file is cut, changed, of another format, or does not add up.
    """
    header, rows, images = _read(file)
    replay, difference = await fold_rows(_each(rows))
    if difference is not None:
        other = "" if header["schema"] == schema_hash() else "; it was written by another release"
        raise InputRejected(f"file: row {difference.seq} {difference.what}; nothing was brought in{other}")
    if (replay.rows, hash_bytes(replay.hash).hex()) != (header["rows"], header["stateHash"]):
        raise InputRejected("file: its journal does not end where its header says; nothing was brought in")
    if [image_of(entry) for entry in replay.view.all()] != images:
        raise InputRejected("file: its entries are not what its journal gives; nothing was brought in")
    recorded: dict[MessageId, MessageFact] = {}
    for row in rows:
        recorded |= facts_of({"now": wire_time(row.at)} | row.facts, row.actor, row.seq).messages
    rooms = frozenset(room for row in rows for each in row.touched for room in each.entry.sources)
    return Unpacked(header=header, rows=tuple(rows), rooms=rooms, recorded=recorded)


async def bring(tx: Tx, service: StateService, mind_id: str, held: Unpacked, mapped: Mapped | None = None) -> Brought:
    """Bring a mind in from a file into a mind to which nothing was ever proposed; all of it or nothing.

    `mapped` None: the file is of this very database, and its ids are ours. What was deleted, edited or erased since
    the file was written is taken back at once.

    Raises:
        InputRejected: The mind is not empty, the file is of another database, or the mapping names what is not here.
    """
    mind = await state.lock_mind(tx, mind_id)
    if mind.last_seq:
        raise InputRejected(f"mind {mind_id}: is not empty; a file goes into a new one only")
    await (_refuse_foreign(tx, mind_id, held) if mapped is None else _refuse_unknown(tx, mind_id, mapped))
    moving = Moving(mapped)
    total, final = 0, dict[Key, tuple[Touched, int]]()
    for at in range(0, len(held.rows), journal.ROWS):
        rows = [moving.row(row) for row in held.rows[at : at + journal.ROWS]]
        await journal.append(tx, mind, rows)
        final |= {each.key: (each, row.seq) for row in rows if row.accepted for each in row.touched}
        total = sum((row.delta for row in rows), total) % WHOLE
    await state.save(tx, mind, [(each.entry, each.after_hash, seq) for each, seq in final.values()])
    await state.close(tx, mind, len(held.rows), total)
    revisions = {moving.message(id_): fact.revision for id_, fact in held.recorded.items()}
    await _take_back(tx, service, mind_id, [each.entry for each, _ in final.values()], revisions)
    return Brought(len(held.rows), len(final), len(moving.sealed), total)


async def _refuse_foreign(tx: Tx, mind_id: str, held: Unpacked) -> None:
    """Refuse a file whose ids are not this database's: here they would name other rooms, with other readers."""
    if not held.rooms:
        return
    here = set(await state.list_rooms(tx, mind_id))
    there = {fact.id: fact for fact in await mind_facts.list_changed(tx, mind_id, sorted(held.recorded))}
    same = {id_ for id_, fact in there.items() if fact.sent_at == held.recorded[id_].sent_at}
    if not held.rooms <= here or not same or same != set(there):
        raise InputRejected(
            "file: its rooms and messages are not those of this database; give --map, or {} to seal all"
        )


async def _refuse_unknown(tx: Tx, mind_id: str, mapped: Mapped) -> None:
    rooms = set(mapped.rooms.values()) - set(await state.list_rooms(tx, mind_id))
    people = set(await mind_facts.list_nobody(tx, sorted(mapped.people.values())))
    for what, missing in (("rooms", rooms), ("people", people)):
        if missing:
            raise InputRejected(f"map: {what} {', '.join(map(str, sorted(missing)))} are not here, or not this mind's")


async def _take_back(
    tx: Tx, service: StateService, mind_id: str, entries: Sequence[Entry], revisions: Mapping[MessageId, int]
) -> None:
    """Void what rests on messages that are gone or say something else now; take out people who were erased."""
    cited = {id_ for entry in entries for ref in cites_of(entry.body) if (id_ := message_of(ref)) is not None}
    there = {fact.id: fact for fact in await mind_facts.list_changed(tx, mind_id, sorted(cited))}
    gone = {id_ for id_ in cited if id_ not in there or not there[id_].alive}
    edited = {id_ for id_ in cited - gone if there[id_].revision > revisions.get(id_, there[id_].revision)}
    items = _voids(gone, VoidCause.DELETED) + _voids(edited, VoidCause.EDITED)
    people = {person for entry in entries for person in entry.people}
    items += [
        Item(ErasePerson(person_id=person, plan_id="import"), f"in:person:{person}")
        for person in await mind_facts.list_erased(tx, sorted(people))
    ]
    if items:
        actor = Actor(Emitter.PARENT, "import")
        await service.apply(tx, Batch(mind_id=mind_id, actor=actor, items=tuple(items), mode=Mode.ALL))


def _voids(messages: Iterable[MessageId], cause: VoidCause) -> list[Item]:
    refs = [f"message:{id_}" for id_ in sorted(messages)]
    return [
        Item(VoidSource(refs=tuple(refs[at : at + MOST_VOIDED]), cause=cause), f"in:{cause.value}:{at}")
        for at in range(0, len(refs), MOST_VOIDED)
    ]


def _read(file: IO[bytes]) -> tuple[dict[str, Any], list[JournalRow], list[dict[str, Any]]]:
    try:
        lines = list(_lines(file))
        header, *body = [json.loads(line) for line in lines[:-1]]
        if header.get("format") != FORMAT:
            raise InputRejected(f"file: is of format {header.get('format')}; this release reads format {FORMAT}")
        digest = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
        if json.loads(lines[-1]) != {"sha256": digest}:
            raise InputRejected("file: is cut or was changed: its last line is not the hash of the rest")
        header = {name: header[name] for name in ("format", "schema", "mind", "rows", "entries", "stateHash", "at")}
        rows = [journal.row_of_image(each["row"]) for each in body if "row" in each]
        return header, rows, [each["entry"] for each in body if "entry" in each]
    except (OSError, EOFError, zlib.error, ValueError, LookupError, TypeError, AttributeError, RecursionError) as exc:
        raise InputRejected("file: is no `*.voidstate.jsonl.gz`, or is cut; export it again") from exc


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    size = 0
    with gzip.GzipFile(fileobj=file, mode="rb") as packed:
        for line in packed:
            size += len(line)
            if size > MOST_BYTES:
                raise InputRejected(f"file: holds more than {MOST_BYTES} bytes")
            yield line


async def _each(rows: Iterable[JournalRow]) -> AsyncIterator[JournalRow]:
    for row in rows:
        yield row


_ROOMS = frozenset({"roomId", "channelId"})
_PEOPLE = frozenset({"authorId", "personId"})
_MESSAGES = frozenset({"sourceMessageId", "replyToMessageId", "lastReviewedMessageId", "quarantined"})
_NAMES = re.compile(r"((?:[a-z_.]+[:/])?)(cursor:[a-z]+:|case:|receipt:)(\d{1,18})")
"""Ids of entries that are made of another id, alone or in the name or ref of the entry."""


class Moving:
    """Gives rows our ids. What the mapping does not name is sealed: an id below zero, a ref that names nothing.

    How far a room was read and which row of the outbox said something is of the other database: always sealed.
    """

    def __init__(self, mapped: Mapped | None) -> None:
        self._mapped = mapped
        self.sealed: set[int] = set()
        self._hashes: dict[Key, int] = {}

    def row(self, row: JournalRow) -> JournalRow:
        """Return a row as it stands here; its images stand in for it, because its facts are of another place."""
        if self._mapped is None:
            return row
        touched = []
        delta = 0
        for each in row.touched:
            image = self._image(each.after)
            after_hash = hash_of(image)
            key = Key(each.key.kind, image["id"])
            delta += after_hash - self._hashes.get(key, 0)
            self._hashes[key] = after_hash
            touched.append(replace(each, key=key, after=image, after_hash=after_hash))
        return replace(
            row,
            payload=self._deep("", row.payload),
            facts={"now": row.facts.get("now", wire_time(row.at)), "moved": True},
            actor=Actor(row.actor.kind, row.actor.ref),
            key=f"moved:{row.seq}",  # the old one may come up here again, for a job of the same number
            cites=tuple(self._deep("", cite) for cite in row.cites),
            touched=tuple(touched),
            delta=delta % WHOLE,
        )

    def message(self, id_: MessageId) -> MessageId:
        """Return our id of a message."""
        return id_ if self._mapped is None else self._mapped.messages.get(id_, MessageId(-abs(id_)))

    def _image(self, image: dict[str, Any]) -> dict[str, Any]:
        mapped = self._mapped or Mapped()
        people = [mapped.people[person] for person in image["people"] if person in mapped.people]
        rooms = [self._room(room) for room in image["sources"]]
        body = self._deep("", image["body"])
        match body.get("type"):
            case "cursor" if "roomId" in body:
                body |= {"roomId": -abs(body["roomId"]), "lastReviewedMessageId": -abs(body["lastReviewedMessageId"])}
            case "receipt" if "outboxId" in body:
                body |= {"outboxId": -abs(body["outboxId"])}
        moved = image | {"id": self._text(image["id"]), "sources": sorted(rooms), "people": sorted(people)}
        if "supersededBy" in moved.get("retired", {}):
            moved["retired"] = moved["retired"] | {"supersededBy": self._text(moved["retired"]["supersededBy"])}
        return moved | {"body": body}

    def _room(self, room: int) -> int:
        mapped = self._mapped or Mapped()
        if room not in mapped.rooms:
            self.sealed.add(room)
        return mapped.rooms.get(room, RoomId(-abs(room)))

    def _text(self, text: str) -> str:
        """Return a text with our ids, if it is the ref of a message or the id of an entry that is made of one."""
        mapped = self._mapped or Mapped()
        if (id_ := message_of(text)) is not None:
            return f"message:{mapped.messages.get(id_, f'sealed-{id_}')}"
        found = _NAMES.fullmatch(text)
        if found is None:
            return text
        before, word, number = found.groups()
        ours = mapped.messages.get(int(number)) if word == "case:" else None
        return f"{before}{word}{f'sealed-{number}' if ours is None else ours}"

    def _deep(self, name: str, value: Any) -> Any:
        mapped = self._mapped or Mapped()
        match value:
            case dict() if value.get("kind") in ("person", "room") and "id" in value:
                known: Mapping[int, int] = mapped.people if value["kind"] == "person" else mapped.rooms
                number = int(value["id"]) if str(value["id"]).isdecimal() else 0
                return value | {"id": str(known.get(number, f"sealed-{value['id']}"))}
            case dict():
                return {key: self._deep(key, each) for key, each in value.items()}
            case list():
                return [self._deep(name, each) for each in value]
            case int() if name in _ROOMS:
                return self._room(value)
            case int() if name in _PEOPLE:
                return mapped.people.get(value, -abs(value))
            case int() if name in _MESSAGES:
                return mapped.messages.get(value, -abs(value))
            case str():
                return self._text(value)
        return value
