"""Entries, operations and changes of the mind in short lines, for the people who look after it."""

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from core.domain.mind.bodies import Note, Profile, Scrubbed
from core.domain.mind.entries import Entry, image_of
from core.domain.mind.speech import Receipt
from core.domain.mind.wording import identity_words, one_line, one_line_of, text_of
from core.domain.relative import relative
from core.state.history import Change
from core.store.journal import JournalRow, Touched

LINE_CHARS = 160
VALUE_CHARS = 240
CHANGED_CHARS = 100
_OWN_FIELDS = frozenset({"type", "retired", "sources"})
When = Callable[[datetime], str]
"""How a time is told: near or far from now, or as a date."""


def name_of(entry: Entry) -> str:
    """Return by which name an entry is asked for."""
    return f"{entry.type}/{entry.id}"


def cut(text: str, most: int = LINE_CHARS) -> str:
    """Return `text` on one line, cut."""
    line = one_line(text)
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"


def headline(entry: Entry) -> str:
    """Return in one line what an entry says; nothing of what was said in rooms, which receipts of answers tell."""
    match entry.body:
        case Scrubbed():
            return "(its words were taken)"
        case Profile() as profile:
            return cut(identity_words(profile))
        case Note(text=text):
            return cut(text)
        case Receipt() as receipt:
            return f"{receipt.cause} in room {receipt.room_id}, {receipt.outcome}"
    return cut(one_line_of(entry) or text_of(entry)) or cut(_plain(_fields(entry)))


def standing(entry: Entry, when: When) -> str:
    """Return since when an entry is as it is, and why it is over if it is."""
    if entry.retired is None:
        return f"version {entry.version}, {when(entry.updated_at)}"
    replaced = f" by {entry.retired.superseded_by}" if entry.retired.superseded_by else ""
    return f"retired {when(entry.retired.at)}: {cut(entry.retired.reason)}{replaced}"


def field_lines(entry: Entry) -> Iterator[str]:
    """Yield each field of an entry in one line, without what a receipt says was said."""
    for name, value in _fields(entry).items():
        yield f"{name}: {cut(_plain(value), VALUE_CHARS)}"


def verdict_words(row: JournalRow) -> str:
    """Return what became of an operation."""
    if not row.accepted:
        return f"refused: {row.code}{f' at {row.path}' if row.path else ''}"
    undone = f", undone by op {row.undone_by}" if row.undone_by is not None else ""
    redacted = f", words erased by op {row.redacted_by}" if row.redacted_by is not None else ""
    return f"{row.effect}{undone}{redacted}"


def touched_words(row: JournalRow, most: int = 3) -> str:
    """Return the entries that an operation touched."""
    names = [touched_name(each) for each in row.touched]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def touched_name(touched: Touched) -> str:
    """Return by which name an entry that was touched is asked for."""
    return f"{touched.after['body']['type']}/{touched.key.id}"


def actor_words(row: JournalRow) -> str:
    """Return who acted."""
    who = f"{row.actor.kind} {row.actor.ref}".rstrip()
    run = f", run {row.actor.run_id}" if row.actor.run_id is not None else ""
    return f"{who}{run}{f', job {row.actor.job_id}' if row.actor.job_id is not None else ''}"


def reason_words(row: JournalRow) -> str:
    """Return the reason that an accepted operation gave; empty if it gave none."""
    reason = row.payload.get("reason")
    return cut(reason) if row.accepted and isinstance(reason, str) else ""


def scores_of(row: JournalRow, id_: str) -> dict[str, float]:
    """Return how alike a new thought was to others when it was put in, by the others' ids."""
    scores = row.facts.get("similarity", {}).get("scores", ())
    return {old: score for new, old, score in scores if new == id_}


def change_lines(change: Change) -> Iterator[str]:
    """Yield what is different in one entry: a line for it, and one for each field that changed."""
    yield f"{change.what}: {change.type}/{change.key.id}"
    if change.what == "changed":
        for name, (was, now) in change.fields.items():
            yield f"  {name}: {cut(_plain(was), CHANGED_CHARS)} → {cut(_plain(now), CHANGED_CHARS)}"


def nearness(now: datetime) -> When:
    """Return the way to tell times from now."""
    return lambda at: relative(at, now)


def _fields(entry: Entry) -> dict[str, Any]:
    hidden = _OWN_FIELDS | ({"preview"} if isinstance(entry.body, Receipt) else frozenset())
    return {name: value for name, value in image_of(entry)["body"].items() if name not in hidden}


def _plain(value: Any) -> str:
    if value is None:
        return "nothing"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
