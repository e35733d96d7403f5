"""What our readers find in an export file, in the words of its `.expected.json`."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from core.domain.imports import BadRecord, Chat, ImportFormat, ImportRecord, Unsupported
from core.domain.rooms import RoomKind
from core.retrieval.survey import Survey, recognise, survey

EXPECTED = ".expected.json"
COMPARED = (
    *("entries", "messages", "service", "unsupported", "distinct_ids", "without_id", "authors", "authors_unnamed"),
    *("reply_links", "to_message", "to_topic", "to_service", "to_other_chat", "to_missing", "topics", "attachments"),
    *("stickers", "polls", "forwards", "edited", "empty_text", "text_characters"),
)
ZONE = ZoneInfo("UTC")


def export_files(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the export files below a folder with what is expected of them; lists of strings are no exports."""
    for expected in sorted(folder.rglob(f"*{EXPECTED}")):
        told = json.loads(expected.read_text(encoding="utf-8"))
        if told["platform"] != "strings":
            yield expected.with_name(expected.name.removesuffix(EXPECTED)), told


@dataclass(slots=True)
class _Seen:
    kinds: dict[tuple[int, str], str] = field(default_factory=dict)
    made: int = 0
    authors: dict[str, str] = field(default_factory=dict)
    replies: list[ImportRecord] = field(default_factory=list)


def counts_of(path: Path) -> dict[str, int]:
    """Return the counts of the whole file."""
    with path.open("rb") as file:
        form = recognise(file)
        if form is None:
            raise ValueError(f"{path.name}: not recognised")
        found = survey(path, form, ZONE)
        counts, seen = Counter[str](), _Seen()
        for item in found.read(file, ZONE):
            match item:
                case ImportRecord():
                    _count(item, form, counts, seen)
                case Unsupported():
                    counts.update(("entries", "unsupported"))
                    seen.made += 1
                case BadRecord():
                    counts["entries"] += not item.mended
                case Chat():
                    pass
    _count_replies(counts, seen)
    counts["topics"] = _topics(found, form)
    counts["distinct_ids"] = len(seen.kinds)
    counts["without_id"] = seen.made
    counts["authors"] = len(seen.authors)
    counts["authors_unnamed"] = sum(not name for name in seen.authors.values())
    return {name: counts[name] for name in COMPARED}


def _count(record: ImportRecord, form: ImportFormat, counts: "Counter[str]", seen: _Seen) -> None:
    counts["entries"] += 1
    if record.ref_made:
        seen.made += 1
    else:
        topic_entry = record.kind == "system" and record.topic == record.ref
        seen.kinds.setdefault((record.chat, record.ref), "topic" if topic_entry else record.kind)
    if record.kind == "system":
        counts["service"] += 1
        return
    stickers = sum(file.kind == "sticker" for file in record.files)
    counts["messages"] += 1
    counts["stickers"] += stickers
    counts["attachments"] += len(record.files) - (stickers if form is ImportFormat.DISCORD else 0)
    counts["polls"] += record.kind == "poll"
    counts["forwards"] += record.kind == "forward"
    counts["edited"] += record.edited_at is not None
    counts["empty_text"] += not record.words
    counts["text_characters"] += len(record.words)
    if record.author is not None:
        seen.authors[record.author.ref] = record.author.name
    if record.reply_to is not None or record.topic:
        seen.replies.append(record)


def _count_replies(counts: "Counter[str]", seen: _Seen) -> None:
    for record in seen.replies:
        counts["reply_links"] += 1
        target = None if record.reply_to is None else seen.kinds.get((record.chat, record.reply_to))
        if record.reply_elsewhere:
            counts["to_other_chat"] += 1
        elif record.reply_to is None:
            counts["to_topic"] += 1
        elif target is None:
            counts["to_missing"] += 1
        else:
            counts["to_service" if target == "system" else "to_message"] += 1


def _topics(found: Survey, form: ImportFormat) -> int:
    if form is ImportFormat.DISCORD:
        threads = (RoomKind.THREAD_PUBLIC, RoomKind.THREAD_PRIVATE)
        return sum(chat.kind in threads for chat in found.chats.values())
    return sum(len(topics.titles) for topics in found.topics.values())


def differences(path: Path, expected: dict[str, Any]) -> list[str]:
    """Return where our counts are others than the expected ones."""
    ours = counts_of(path)
    return [
        f"{name}: {ours[name]}, expected {expected['total'][name]}"
        for name in COMPARED
        if ours[name] != expected["total"][name]
    ]
