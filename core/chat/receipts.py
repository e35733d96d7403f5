"""Why something was said, or not: the receipt and the decision row in words, for the asker's eyes. No model call."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo

from core.chat.citations import Links
from core.domain.audience import usable
from core.domain.chunks import ChunkRef
from core.domain.ids import CommunityId, MessageId, OutboxId, PersonId, RoomId
from core.domain.prompt import SourceKind
from core.domain.speech import SilenceReason
from core.store import lore_search, outbox
from core.store.decisions import DecisionRow
from core.store.engine import Row, Tx

NO_LINKS: Links = {}
_MESSAGES = frozenset({"message", "passage"})
_HIDDEN = "a source you can't see"
_ID = re.compile(r"[0-9]{1,18}")
_GATES: Mapping[SilenceReason, str] = {
    SilenceReason.NOT_ADDRESSED: "it did not speak to me; mention me, reply to me or use /ask",
    SilenceReason.MODE_SILENT: "this room is set to silent; an administrator can change it with /void mode",
    SilenceReason.ROOM_GONE: "the room is closed",
    SilenceReason.OWN_MESSAGE: "it was my own message",
    SilenceReason.BOT_IGNORED: "it came from another bot",
    SilenceReason.WEBHOOK: "it came from a webhook or a channel",
    SilenceReason.QUIET_HOURS: "these are the room's quiet hours; commands still work",
    SilenceReason.PAUSED: "I am paused here",
    SilenceReason.RATE_LIMITED: "you asked faster than the limit; /usage shows it",
    SilenceReason.BUDGET_SPENT: "a budget is used up; /usage shows which and when it returns",
    SilenceReason.PERSON_OPTED_OUT: "you have asked me not to take part in your talk",
    SilenceReason.NO_PERMISSION: "you may not speak in that room",
    SilenceReason.TOO_OLD: "it was too old when I saw it",
    SilenceReason.TRIGGER_DELETED: "the message was deleted before I answered",
    SilenceReason.ADDRESS_REMOVED: "an edit took the address away before I answered",
    SilenceReason.GUARD_BLOCKED: "what I would have said rested on a room that not everyone here may read",
    SilenceReason.ROOM_OFF: "I am switched off in this room",
    SilenceReason.LOOP_LIMIT: "bots had talked with each other long enough; a person's word ends that pause",
    SilenceReason.DUPLICATE: "I had that message already",
    SilenceReason.OPEN_GATE: "nobody spoke to me and I had no good reason to join in; mention me to be answered",
    SilenceReason.MODEL_DECLINED: "I looked at it and had nothing worth saying",
    SilenceReason.EMPTY_OUTPUT: "what came of it was empty",
    SilenceReason.PROVIDER_DOWN: "my language model could not be reached; ask again later",
    SilenceReason.SUPERSEDED: "something newer took its place",
    SilenceReason.SOURCE_VOIDED: "what it rested on was taken back",
    SilenceReason.UNREADABLE: "it was a voice message alone, and I cannot listen to those",
}


@dataclass(frozen=True, slots=True)
class NamedFile:
    """How a file among the sources is named. `stands`: what was told is still there, word for word."""

    words: str
    stands: bool


Files = Mapping[str, NamedFile]
"""The files of a receipt that its reader may be told of, by their references."""
NO_FILES: Files = {}


@dataclass(frozen=True, slots=True)
class ReceiptView:
    """A receipt with what it rests on, before it is redacted."""

    row: Row
    sources: tuple[tuple[str, str, frozenset[RoomId]], ...]

    def messages(self) -> frozenset[MessageId]:
        """Return the messages among the sources."""
        return frozenset(
            MessageId(int(ref)) for kind, ref, _ in self.sources if kind in _MESSAGES and _ID.fullmatch(ref)
        )

    @property
    def private_to(self) -> PersonId | None:
        """Return whom a private answer was for."""
        return None if self.row["private_to"] is None else PersonId(self.row["private_to"])


async def name_files(tx: Tx, view: ReceiptView, readable: frozenset[RoomId], community_id: CommunityId) -> Files:
    """Return how the files among the sources are named, with their links, as far as the reader may be told of them."""
    refs = {ref: ChunkRef.read(ref) for kind, ref, _ in view.sources if kind == SourceKind.FILE}
    known = {text: ref for text, ref in refs.items() if ref is not None}
    if not known:
        return {}
    stand = await lore_search.read_chunks(tx, readable, community_id, {ref.chunk for ref in known.values()})
    names = await lore_search.name_sources(tx, readable, community_id, {ref.source for ref in known.values()})
    found: dict[str, NamedFile] = {}
    for text, ref in known.items():
        if ref.chunk in stand:
            lines = replace(stand[ref.chunk], line_start=ref.line_start, line_end=ref.line_end)
            found[text] = NamedFile(" ".join(filter(None, (lines.place, lines.link))), stands=True)
        elif ref.source in names:
            found[text] = NamedFile(f"{names[ref.source]}, version {ref.version} (changed since)", stands=False)
    return found


async def find(tx: Tx, room_id: RoomId, external_id: str | None, asker: PersonId) -> ReceiptView | None:
    """Return the receipt of one of our messages in the room; of the newest one that the asker saw if none is named."""
    return await _view(tx, await outbox.find_receipt(tx, room_id, external_id, asker))


async def load(tx: Tx, outbox_id: OutboxId) -> ReceiptView | None:
    """Return the receipt of one answer."""
    return await _view(tx, await outbox.load_receipt(tx, outbox_id))


async def _view(tx: Tx, row: Row | None) -> ReceiptView | None:
    if row is None:
        return None
    sources = await outbox.list_sources(tx, OutboxId(row["outbox_id"]))
    return ReceiptView(
        row, tuple((each["kind"], each["ref"], frozenset(map(RoomId, each["audience"]))) for each in sources)
    )


def fields(view: ReceiptView, readable: frozenset[RoomId]) -> dict[str, object]:
    """Return the receipt as data, redacted to what a reader of these rooms may see."""
    row = view.row
    return {
        "trigger": row["trigger"],
        "rule": row["rule"],
        "provider": row["provider"],
        "model": row["model"] or None,
        "generated_by": row["model"] or "none",
        "prompt_sha256": row["prompt_sha256"] or None,
        "role": row["role"] or None,
        "persona": row["persona"] or None,
        "input_tokens": row["input_tokens"],
        "output_tokens": row["output_tokens"],
        "usd": row["usd_micro"] / 1_000_000,
        "attempts": row["attempts"],
        "guards": row["guards"],
        "gates": row["gates"],
        "sections": row["sections"],
        "sources": [_shown(kind, ref, rooms, readable) for kind, ref, rooms in view.sources],
        "source_gone": row["source_gone"],
        "state": row["state"],
        "at": row["at"].isoformat(),
        "delivered_at": None if row["delivered_at"] is None else row["delivered_at"].isoformat(),
    }


def render(
    view: ReceiptView,
    readable: frozenset[RoomId],
    tz: tzinfo,
    links: Links = NO_LINKS,
    files: Files = NO_FILES,
) -> str:
    """Return the receipt in words, redacted to what a reader of these rooms may see.

    Args:
        view: The receipt.
        readable: What its reader may read now.
        tz: The community's zone.
        links: Those that open.
        files: The names of the files that the reader may be told of, from `name_files`.
    """
    row = view.row
    lines = [
        f"Receipt {row['outbox_id']} · {row['kind']} · {row['state']}",
        _cause(row) + (" (deleted since)" if row["source_gone"] else ""),
        f"Rule: {row['rule']}" + _gates(row["gates"]),
        f"Made by: {_maker(row)}",
        f"Cost: ${row['usd_micro'] / 1_000_000:.6f} · {row['input_tokens']} tokens read,"
        f" {row['output_tokens']} written · attempt {row['attempts']}",
    ]
    if row["prompt_sha256"]:
        lines.append(f"Prompt: sha256 {row['prompt_sha256']} · role {row['role']} · style {row['persona']}")
        kept = ", ".join(f"{part['name']} {part['tokens']}" for part in row["sections"] if part["tokens"])
        lines.append(f"Sections (tokens): {kept}")
    if view.sources:
        shown = [
            " ".join(
                filter(None, (_named(kind, ref, rooms, readable, files), _link(kind, ref, rooms, readable, links)))
            )
            for kind, ref, rooms in view.sources
        ]
        lines.append("Sources: " + ", ".join(shown))
    else:
        lines.append("Sources: none")
    if row["guards"]:
        lines.append("Guards that fired: " + ", ".join(row["guards"]))
    lines.append(f"Decided {_when(row['at'], tz)} · delivered {_when(row['delivered_at'], tz)}")
    return "\n".join(lines)


def render_decision(row: DecisionRow, tz: tzinfo) -> str:
    """Return a decision in words: the first gate that said no, and what would change it."""
    when = _when(row.at, tz)
    if row.reason is None:
        return f"That message ({when}) was accepted; /why explains the answer."
    return f"I said nothing to that message ({when}): {_GATES[row.reason]}."


def _cause(row: Row) -> str:
    kind, _, id_ = row["trigger"].partition(":")
    if kind != "candidate":
        return f"Asked by: {row['trigger']}"
    return f"Asked by: nobody; it came to mind (entry candidate/{id_}; /void mind explain says how)"


def _maker(row: Row) -> str:
    match row["provider"]:
        case "code":
            return "code, from a stock message or a command; no model was called"
        case "quotes":
            return "nobody: verbatim quotes; no model was called"
        case provider:
            return f"{row['model']} ({provider})"


def _gates(gates: Mapping[str, object]) -> str:
    return f" ({', '.join(f'{name} {value}' for name, value in gates.items())})" if gates else ""


def _shown(kind: str, ref: str, rooms: frozenset[RoomId], readable: frozenset[RoomId]) -> str:
    return f"{kind} {ref}" if usable(rooms, readable) else _HIDDEN


def _named(kind: str, ref: str, rooms: frozenset[RoomId], readable: frozenset[RoomId], files: Files) -> str:
    if kind != SourceKind.FILE:
        return _shown(kind, ref, rooms, readable)
    return _shown(kind, files[ref].words, rooms, readable) if ref in files else _HIDDEN


def _link(kind: str, ref: str, rooms: frozenset[RoomId], readable: frozenset[RoomId], links: Links) -> str | None:
    if kind not in _MESSAGES or not _ID.fullmatch(ref) or not usable(rooms, readable):
        return None
    return links.get(MessageId(int(ref)))


def _when(at: datetime | None, tz: tzinfo) -> str:
    return "not yet" if at is None else at.astimezone(tz).strftime("%Y-%m-%d %H:%M:%S %Z")
