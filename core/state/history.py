"""What became of the mind and why: an entry back to the messages that made it, the state at a time, what changed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from core.domain.ids import RoomId
from core.domain.mind.bodies import KIND_OF, Durable, ShortTerm
from core.domain.mind.citing import anchors_of, cites_of, ref_of
from core.domain.mind.entries import Entry, Key, entry_of, image_of
from core.domain.mind.facts import message_of
from core.domain.mind.values import EntryId
from core.store import archive, journal, state
from core.store.archive import ArchivedMessage
from core.store.engine import Tx
from core.store.journal import JournalRow

MOST_CITED = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """An entry with what made it what it is.

    `rows`: the operations that touched or named it, oldest first. `messages`: those it rests on that the asker may
    read; `hidden`: how many others. `cited_by`: entries that rest on it. `spoken`: receipts of what was said from it.
    """

    entry: Entry
    rows: tuple[JournalRow, ...]
    messages: tuple[ArchivedMessage, ...]
    hidden: int
    cited_by: tuple[str, ...]
    loss_note: str | None
    revisions: int


@dataclass(frozen=True, slots=True)
class Change:
    """What is different in one entry between two times. `fields`: before and after, by name; None: not there."""

    key: Key
    what: str
    fields: Mapping[str, tuple[Any, Any]]


async def find_entry(tx: Tx, mind_id: str, name: str, readable: frozenset[RoomId] | None = None) -> Entry | None:
    """Return the entry called `<id>` or `<type>/<id>`, a tombstone too.

    `readable`: only of rooms that the asker may read; None: of all.
    """
    type_, slash, id_ = name.rpartition("/")
    kinds = [KIND_OF[type_]] if slash and type_ in KIND_OF else sorted(set(KIND_OF.values()))
    held = await state.load_entries(tx, mind_id, [Key(kind, EntryId(id_)) for kind in kinds])
    found = [each.entry for each in held if readable is None or each.entry.sources <= readable]
    return next((entry for entry in found if not slash or entry.type == type_), None)


async def explain(tx: Tx, mind_id: str, entry: Entry, readable: frozenset[RoomId] | None) -> Explained:
    """Return how an entry came about, with messages as far as the asker may read them; None: all."""
    ids = {id_ for anchor in anchors_of(entry.body) if (id_ := message_of(anchor.ref)) is not None}
    ids |= {id_ for ref in cites_of(entry.body) if (id_ := message_of(ref)) is not None}
    rooms = await state.list_rooms(tx, mind_id) if readable is None else readable
    messages = await archive.read_messages(tx, sorted(rooms), sorted(ids))
    citing = await state.list_citing(tx, mind_id, [ref_of(entry)])
    usable = [each.entry for each in citing if readable is None or each.entry.sources <= readable]
    return Explained(
        entry=entry,
        rows=tuple(await journal.list_of_entry(tx, mind_id, entry.key)),
        messages=tuple(messages[id_] for id_ in sorted(messages)),
        hidden=len(ids) - len(messages),
        cited_by=tuple(f"{each.type}/{each.id}" for each in usable[:MOST_CITED]),
        loss_note=entry.body.loss_note if isinstance(entry.body, Durable) else None,
        revisions=len(entry.body.revisions) if isinstance(entry.body, ShortTerm) else 0,
    )


async def state_at(tx: Tx, mind_id: str, at: datetime, readable: frozenset[RoomId] | None = None) -> list[Entry]:
    """Return every entry as it was at a time, by key; of rooms that the asker may read."""
    entries = [entry_of(image) for image in await journal.list_images_at(tx, mind_id, at)]
    return [entry for entry in entries if readable is None or entry.sources <= readable]


async def diff(
    tx: Tx, mind_id: str, since: datetime, until: datetime, readable: frozenset[RoomId] | None = None
) -> list[Change]:
    """Return what entries came, changed and went between two times, by key."""
    before = {entry.key: entry for entry in await state_at(tx, mind_id, since, readable)}
    after = {entry.key: entry for entry in await state_at(tx, mind_id, until, readable)}
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
    if before is None:
        return Change(key, "added", fields)
    went = after is None or (before.live and not after.live)
    return Change(key, "retired" if went else "changed", fields)


def _fields(entry: Entry | None) -> dict[str, Any]:
    if entry is None:
        return {}
    image = image_of(entry)
    return {**image.pop("body"), **{name: image[name] for name in ("retired", "sources") if name in image}}
