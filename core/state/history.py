"""What became of the mind and why: an entry back to the messages that made it, the state at a time, what changed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from core.domain.ids import PersonId, RoomId
from core.domain.mind.bodies import KIND_OF, Case, Cursor, Durable, ShortTerm, Thoughtful
from core.domain.mind.citing import anchors_of, cites_of, ref_of
from core.domain.mind.entries import Entry, Key, entry_of, image_of
from core.domain.mind.facts import message_of
from core.domain.mind.speech import Candidate, Receipt
from core.domain.mind.values import EntryId, TargetKind
from core.store import archive, journal, state
from core.store.archive import ArchivedMessage
from core.store.engine import Tx
from core.store.journal import JournalRow

MOST_CITED = 500


@dataclass(frozen=True, slots=True)
class Sight:
    """What whoever asks may see. `rooms`: those that they may read now; None: operators, who may look into all of it.

    `withdrawn`: people who do not want to be remembered; nothing of theirs is shown.
    """

    rooms: frozenset[RoomId] | None = None
    withdrawn: frozenset[PersonId] = frozenset()

    def shows(self, entry: Entry) -> bool:
        """Return whether an entry may be shown."""
        return self.rooms is None or (rooms_of(entry) <= self.rooms and not entry.people & self.withdrawn)

    def shows_row(self, row: JournalRow) -> bool:
        """Return whether an operation may be shown: what it touched, and all that its author had read."""
        if self.rooms is None:
            return True
        packet = row.facts.get("packet", {})
        read = {RoomId(each[1]) for each in row.facts.get("messages", ())}.union(packet.get("rooms", ()))
        return read <= self.rooms and all(self.shows(touched.entry) for touched in row.touched)


ALL = Sight()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """An entry with what made it what it is.

    `rows`: the operations that touched or named it, oldest first. `messages`: those it rests on. `cited_by`: entries
    that rest on it. `spoken`: receipts of what was said from it. Each as far as the asker may see it; `hidden`: how
    many others there are, by these names.
    """

    entry: Entry
    rows: tuple[JournalRow, ...]
    messages: tuple[ArchivedMessage, ...]
    cited_by: tuple[Entry, ...]
    spoken: tuple[Entry, ...]
    hidden: Mapping[str, int]
    loss_note: str | None
    revisions: int


@dataclass(frozen=True, slots=True)
class Change:
    """What is different in one entry between two times. `fields`: before and after, by name; None: not there."""

    key: Key
    type: str
    what: str
    fields: Mapping[str, tuple[Any, Any]]


def rooms_of(entry: Entry) -> frozenset[RoomId]:
    """Return the rooms that an entry was made from or names: who may not read one of them does not see it."""
    body, named = entry.body, set[int]()
    match body:
        case Case() | Cursor() | Receipt():
            named.add(body.room_id)
        case Candidate() if body.delivery_target is not None and body.delivery_target.channel_id is not None:
            named.add(body.delivery_target.channel_id)
        case _ if isinstance(body, Thoughtful) and body.target.kind is TargetKind.ROOM and body.target.id.isdecimal():
            named.add(int(body.target.id))
    return entry.sources.union(map(RoomId, named))


async def find_entries(tx: Tx, mind_id: str, name: str, sight: Sight = ALL) -> list[Entry]:
    """Return the entries called `<id>` or `<type>/<id>`, tombstones too; an id can be of several kinds."""
    type_, slash, id_ = name.rpartition("/")
    if not id_.isprintable() or (slash and type_ not in KIND_OF):
        return []
    kinds = [KIND_OF[type_]] if slash else sorted(set(KIND_OF.values()))
    held = await state.load_entries(tx, mind_id, [Key(kind, EntryId(id_)) for kind in kinds])
    found = sorted((each.entry for each in held), key=lambda entry: entry.key)
    return [entry for entry in found if sight.shows(entry) and (not slash or entry.type == type_)]


async def explain(tx: Tx, mind_id: str, entry: Entry, sight: Sight = ALL) -> Explained:
    """Return how an entry came about, as far as the asker may see it."""
    ids = {id_ for anchor in anchors_of(entry.body) if (id_ := message_of(anchor.ref)) is not None}
    ids |= {id_ for ref in cites_of(entry.body) if (id_ := message_of(ref)) is not None}
    rooms = await state.list_rooms(tx, mind_id) if sight.rooms is None else sight.rooms
    messages = await archive.read_messages(tx, sorted(rooms), sorted(ids))
    citing = [held.entry for held in await state.list_citing(tx, mind_id, [ref_of(entry)])]
    speech = [ref_of(each) for each in citing if each.type == "candidate"]
    receipts = [held.entry for held in await state.list_citing(tx, mind_id, speech)] if speech else citing
    said = [each for each in receipts if each.type == "receipt"]
    rows = await journal.list_of_entry(tx, mind_id, entry.key)
    shown = tuple(row for row in rows if sight.shows_row(row))
    cited_by = tuple(each for each in citing if sight.shows(each))
    spoken = tuple(each for each in said if sight.shows(each))
    hidden = {
        "operations": len(rows) - len(shown),
        "messages": len(ids) - len(messages),
        "entries": len(citing) - len(cited_by),
        "receipts": len(said) - len(spoken),
    }
    return Explained(
        entry=entry,
        rows=shown,
        messages=tuple(messages[id_] for id_ in sorted(messages)),
        cited_by=cited_by[:MOST_CITED],
        spoken=spoken,
        hidden=hidden,
        loss_note=entry.body.loss_note if isinstance(entry.body, Durable) else None,
        revisions=len(entry.body.revisions) if isinstance(entry.body, ShortTerm) else 0,
    )


async def state_at(tx: Tx, mind_id: str, at: datetime, sight: Sight = ALL) -> list[Entry]:
    """Return every entry as it was at a time, by key, as far as the asker may see it."""
    entries = [entry_of(image) for image in await journal.list_images_at(tx, mind_id, at)]
    return [entry for entry in entries if sight.shows(entry)]


async def diff(tx: Tx, mind_id: str, since: datetime, until: datetime, sight: Sight = ALL) -> list[Change]:
    """Return what entries came, changed and went between two times, by key."""
    before = {entry.key: entry for entry in await state_at(tx, mind_id, since, sight)}
    after = {entry.key: entry for entry in await state_at(tx, mind_id, until, sight)}
    changes = (_change(key, before.get(key), after.get(key)) for key in sorted(before.keys() | after.keys()))
    return [change for change in changes if change is not None]


def changes_of(pairs: Iterable[tuple[Entry | None, Entry]]) -> list[Change]:
    """Return what a preview would change, by key."""
    changes = (_change(after.key, before, after) for before, after in pairs)
    return sorted((change for change in changes if change is not None), key=lambda change: change.key)


def _change(key: Key, before: Entry | None, after: Entry | None) -> Change | None:
    if before == after:
        return None
    was, now = _fields(before), _fields(after)
    fields = {name: (was.get(name), now.get(name)) for name in sorted(was | now) if was.get(name) != now.get(name)}
    type_ = str(now.get("type") or was.get("type"))
    if before is None or (not before.live and after is not None and after.live):
        return Change(key, type_, "added" if before is None else "back", fields)
    went = after is None or (before.live and not after.live)
    return Change(key, type_, "retired" if went else "changed", fields)


def _fields(entry: Entry | None) -> dict[str, Any]:
    if entry is None:
        return {}
    image = image_of(entry)
    return {**image.pop("body"), **{name: image[name] for name in ("retired", "sources") if name in image}}
