"""What thinking shows of a group: its talk, its notes, what it owes and what presses, as parts of a prompt."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from core.domain.candidates import candidate_of
from core.domain.ids import MessageId, RoomId
from core.domain.mind.bodies import Case, Thread
from core.domain.mind.citing import cites_of
from core.domain.mind.deriving import saturation, touches_of
from core.domain.mind.entries import Entry
from core.domain.mind.facts import message_of
from core.domain.mind.projecting import PASS_TOKENS, Cost, Material, Purpose, Ranked, ViewWanted, fit
from core.domain.mind.speech import Receipt
from core.domain.mind.values import EntryId
from core.domain.mind.wording import label_of, text_of
from core.domain.packets import PacketItem, PacketPart
from core.domain.prompt import Provenance, SourceId, SourceKind, Speaker, Standing, Trust
from core.prompt.context import provenance_of
from core.store import mind_views
from core.store.archive import OWN_KIND, ArchivedMessage
from core.store.engine import Tx

MESSAGE_CHARS = 600
"""How much of one message is shown."""
MOST_ROOMS = 8
"""For how many rooms it is looked what is remembered of the room itself."""
MOST_OWED, MOST_NOTES, MOST_THREADS, MOST_CANDIDATES, MOST_PRESSURES, MOST_SAID, MOST_REFUSED = 12, 12, 8, 8, 8, 12, 8
ABOUT_CHARS = 2_000
"""How much of what was said last decides which memories are to the point."""
_SELF = ("profile", "value", "pressure", "durable")
_OWED = "owed: it needs an answer"
_OWN_WORDS = Provenance(trust=Trust.OWN)


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the packet, and the entries that stand in it."""

    part: PacketPart
    entries: tuple[Entry, ...] = ()


async def self_part(
    tx: Tx, mind_id: str, room: RoomId, rooms: frozenset[RoomId], spoken: Iterable[RoomId], about: str, now: datetime,
    cost: Cost,
) -> Part:  # fmt: skip
    """Return who the mind is, what matters to it and what it remembers that is to the point of what was said.

    `rooms`: those of the group; `spoken`: those that somebody spoke in, the last one first.
    """
    about_rooms = dict.fromkeys((room, *spoken))
    view = ViewWanted(room=room, readable=rooms, purpose=Purpose.RUN, about=about[-ABOUT_CHARS:])
    wanted = mind_views.Wanted(
        types=_SELF, room=room, readable=rooms, private=False, public=True, speaker=None, about=view.about,
        targets=tuple(f"room:{each}" for each in islice(about_rooms, MOST_ROOMS)), topics=view.topics, near={},
        pool=view.pool,
    )  # fmt: skip
    found = await mind_views.find(tx, mind_id, wanted, now)
    material = Material(
        found={type_: [Ranked(each.entry, each.score) for each in every] for type_, every in found.items()},
        there={type_: every[0].there for type_, every in found.items()},
        sleep=await mind_views.find_sleep(tx, mind_id),
    )
    section = fit(material, view, now, PASS_TOKENS, cost)
    items = [
        PacketItem(
            text=each.text,
            provenance=each.provenance,
            label=each.label,
            source=SourceId(SourceKind.MEMORY, each.key) if each.key else None,
        )
        for each in (*section.self_view, *section.memories)
    ]
    return Part(_part("self", "thoughts", items, 2_500, 5), section.entries)


def notes_part(notes: Sequence[Entry], threads: Sequence[Entry], now: datetime) -> Part:
    """Return notes of the day and thoughts that ripen, newest first, with what was said of them too often."""
    shown = [*notes[:MOST_NOTES], *sorted(threads, key=_ripeness)[:MOST_THREADS]]
    by_id = {entry.id: entry for entry in notes}
    items = [_entry_item(entry, now, chewed=_chewed(entry, by_id)) for entry in shown]
    return Part(_part("notes", "notes", items, 1_800, 4), tuple(shown))


def owed_part(cases: Sequence[Entry], names: Mapping[RoomId, str], now: datetime) -> Part:
    """Return what the bot owes, oldest first; each is named by the message that it is owed for."""
    shown = sorted(cases, key=lambda entry: (entry.created_at, entry.id))[:MOST_OWED]
    items = [
        PacketItem(
            text=text_of(entry),
            provenance=_provenance(entry),
            label=label_of(entry, now),
            source=SourceId(SourceKind.MESSAGE, str(entry.body.source_message_id)),
            room=_named(entry.body.room_id, names),
        )
        for entry in shown
        if isinstance(entry.body, Case)
    ]
    return Part(_part("owed", "obligations", items, 900, 2), tuple(shown))


def pressures_part(pressures: Sequence[Entry], owed: Sequence[Entry], now: datetime) -> Part:
    """Return what presses: first what has to be answered, which says so, then the rest, the strongest first."""
    must = {entry.id for entry in owed}
    rest = [entry for entry in sorted(pressures, key=_intensity) if entry.id not in must]
    shown = [*owed, *rest][:MOST_PRESSURES]
    items = [_entry_item(entry, now, _OWED if entry.id in must else "") for entry in shown]
    return Part(_part("pressures", "pressures", items, 1_000, 3), tuple(shown))


def candidates_part(candidates: Sequence[Entry], names: Mapping[RoomId, str], now: datetime) -> Part:
    """Return what waits to be said, with its words, by priority."""
    shown = sorted(candidates, key=_urgency)[:MOST_CANDIDATES]
    items = [_entry_item(entry, now, room=_named(_venue(entry), names)) for entry in shown]
    return Part(_part("candidates", "drafts", items, 1_000, 6), tuple(shown))


def said_part(receipts: Sequence[Entry], names: Mapping[RoomId, str], now: datetime) -> Part:
    """Return what was said last in these rooms, newest first. It has no handle: what was said proves no thought."""
    said = [(entry, entry.body) for entry in receipts if isinstance(entry.body, Receipt)]
    shown = sorted(said, key=lambda each: each[1].sent_at, reverse=True)[:MOST_SAID]
    items = [
        PacketItem(
            text=text_of(entry),
            provenance=_provenance(entry),
            label=label_of(entry, now),
            room=_named(body.room_id, names),
        )
        for entry, body in shown
    ]
    return Part(_part("said", "own messages", items, 700, 7), tuple(entry for entry, _ in shown))


def refused_part(refusals: Iterable[Mapping[str, str]]) -> Part:
    """Return what was refused of the run before: operation, code and place, no words of anybody's."""
    items = [
        PacketItem(text=f"{each['name'] or 'a piece'}: {each['code']} at {each['path'] or '-'}", provenance=_OWN_WORDS)
        for each in refusals
    ]
    return Part(_part("refused", "refusals", items[:MOST_REFUSED], 300, 8))


def recent_part(messages: Sequence[ArchivedMessage]) -> Part:
    """Return what was said, in the order given; what has no room is left out at the end, and read the next time."""
    items = [
        PacketItem(
            text=_cut(message.text),
            provenance=provenance_of(message),
            source=SourceId(SourceKind.MESSAGE, str(message.id)),
            speaker=Speaker(message.author_id, message.author_name, _standing(message)),
            room=(message.room_id, message.room_name),
            at=message.sent_at,
        )
        for message in messages
    ]
    part = PacketPart(
        name="recent", noun="newer messages", items=tuple(items), cap=3_000, rank=1, grows=True, prefix=True
    )
    return Part(part)


def messages_of(entries: Iterable[Entry]) -> frozenset[MessageId]:
    """Return the messages that entries rest on: whoever was shown these has read words of theirs."""
    refs = (ref for entry in entries for ref in cites_of(entry.body))
    return frozenset(id_ for ref in refs if (id_ := message_of(ref)) is not None)


def _part(name: str, noun: str, items: Iterable[PacketItem], cap: int, rank: int) -> PacketPart:
    return PacketPart(name=name, noun=noun, items=tuple(items), cap=cap, rank=rank)


def _entry_item(
    entry: Entry, now: datetime, more: str = "", *, chewed: float = 0.0, room: tuple[RoomId, str] | None = None
) -> PacketItem:
    label = label_of(entry, now, saturation=chewed)
    return PacketItem(
        text=text_of(entry, drafts=True),
        provenance=_provenance(entry),
        label=f"{label}, {more}" if more else label,
        source=SourceId(SourceKind.MEMORY, entry.id),
        room=room,
    )


def _provenance(entry: Entry) -> Provenance:
    trust = Trust.MEMBER if entry.sources else Trust.OWN
    return Provenance((SourceId(SourceKind.MEMORY, entry.id),), entry.sources, trust)


def _chewed(entry: Entry, notes: Mapping[EntryId, Entry]) -> float:
    if not isinstance(entry.body, Thread):
        return saturation(touches_of([entry]))
    return saturation(touches_of(notes[id_] for id_ in entry.body.support_memory_ids if id_ in notes))


def _ripeness(entry: Entry) -> tuple[float, str]:
    return (-entry.body.maturation if isinstance(entry.body, Thread) else 0.0, entry.id)


def _intensity(entry: Entry) -> tuple[float, str]:
    return (-getattr(entry.body, "intensity", 0.0), entry.id)


def _urgency(entry: Entry) -> tuple[float, str]:
    body = candidate_of(entry)
    return (0.0 if body is None else -body.priority, entry.id)


def _venue(entry: Entry) -> int | None:
    body = candidate_of(entry)
    return None if body is None or body.delivery_target is None else body.delivery_target.channel_id


def _named(room: int | None, names: Mapping[RoomId, str]) -> tuple[RoomId, str] | None:
    return None if room is None or RoomId(room) not in names else (RoomId(room), names[RoomId(room)])


def _cut(text: str) -> str:
    return text if len(text) <= MESSAGE_CHARS else text[: MESSAGE_CHARS - 1].rstrip() + "…"


def _standing(message: ArchivedMessage) -> Standing:
    if not message.is_bot:
        return Standing.MEMBER
    return Standing.YOU if message.kind == OWN_KIND else Standing.BOT
