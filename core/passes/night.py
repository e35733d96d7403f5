"""What sleep is shown of one heap: its notes in full and by matter, what they touch on, what is in doubt."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from core.domain.clusters import Cluster
from core.domain.ids import PersonId, RoomId
from core.domain.mind.bodies import Revision, ShortTerm, Thread, Touch
from core.domain.mind.deriving import saturation, touches_of
from core.domain.mind.entries import Entry
from core.domain.mind.facts import message_of
from core.domain.mind.values import TargetKind, Thought
from core.domain.mind.wording import label_of, one_line, text_of
from core.domain.packets import PacketItem, PacketPart, PassContext
from core.domain.prompt import Provenance, SourceId, SourceKind, Trust
from core.passes.asking import Gathered
from core.passes.heaps import Heap, audience_of
from core.passes.packet import Part, candidates_part, messages_of, pressures_part, recent_part
from core.prompt.context import NONCE_BYTES
from core.store import mind_views, reading
from core.store.engine import Tx
from core.store.reading import Read

MOST_MEMORIES = 24
"""How many lasting memories about the same matters are shown."""
MOST_THREADS, MOST_REVIEW, MOST_VALUES = 16, 12, 8
MOST_PROOF, MOST_PROOF_EACH = 40, 3
"""How many messages are shown, and how many of them for one entry."""
BEFORE_CHARS, QUOTE_CHARS, MOST_QUOTES = 240, 200, 3
"""How much is shown of what a note said before, and of the words that prove it."""
_PROOF: Mapping[str, Any] = {"name": "proof", "noun": "messages", "cap": 1_500, "rank": 8, "grows": False}
_HANDLED = {TargetKind.PERSON: SourceKind.PERSON, TargetKind.ROOM: SourceKind.ROOM}
_OWN_WORDS = Provenance(trust=Trust.OWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """What one call deals with. `doubted`: what of the heap is to be looked at again; `must`: no note may be left."""

    heap: Heap
    clusters: Sequence[Cluster]
    doubted: Sequence[Entry]
    must: bool
    now: datetime
    zone: ZoneInfo

    @property
    def notes(self) -> tuple[Entry, ...]:
        """The notes in the order in which they are shown."""
        return tuple(entry for cluster in self.clusters for entry in cluster)

    @property
    def review(self) -> tuple[Entry, ...]:
        """The lasting memories to look at again; other entries in doubt stand among their own."""
        return tuple(entry for entry in self.doubted if entry.type == "durable")[:MOST_REVIEW]


async def related(tx: Tx, mind_id: str, night: Night, groups: Mapping[RoomId, str]) -> list[Entry]:
    """Return the lasting memories of the same readers that are closest to what the notes are about."""
    thoughts = [entry.body for entry in (night.notes or night.doubted) if isinstance(entry.body, Thought)]
    wanted = mind_views.Wanted(
        types=("durable",),
        room=min(night.heap.rooms),
        readable=night.heap.rooms,
        private=True,  # whoever reads the packet's rooms is the same everywhere in the heap
        public=True,
        speaker=None,
        about="\n".join(one_line(each.point) for each in thoughts),
        targets=tuple(sorted({":".join(each.target.key) for each in thoughts})),
        topics=tuple(sorted({topic for each in thoughts for topic in each.topics})),
        near={},
        pool=MOST_MEMORIES,
    )
    found = await mind_views.find(tx, mind_id, wanted, night.now)
    # What was made of other rooms, or of none, has other readers: joined to these notes it would lose some of them.
    entries = [each.entry for each in found.get("durable", ())]
    return [entry for entry in entries if audience_of(entry.sources, groups) == night.heap.audience]


async def proof_of(tx: Tx, night: Night, memories: Sequence[Entry]) -> list[Read]:
    """Return messages that notes and memories rest on, as they stand now: the newest of each first, few of each."""
    thoughts = [entry.body for entry in (*night.notes, *night.doubted, *memories) if isinstance(entry.body, Thought)]
    every = [[id_ for anchor in each.proof if (id_ := message_of(anchor.ref)) is not None] for each in thoughts]
    wanted = list(dict.fromkeys(id_ for ids in every for id_ in sorted(ids, reverse=True)[:MOST_PROOF_EACH]))
    found = await reading.read_now(tx, night.heap.rooms, wanted[:MOST_PROOF])
    return [found[id_] for id_ in wanted if id_ in found]


def gathered(night: Night, memories: Sequence[Entry], proof: Sequence[Read], names: Mapping[RoomId, str]) -> Gathered:
    """Return the packet of one call."""
    heap, now = night.heap, night.now
    own_values = [each for each in heap.values if each.sources]
    parts = [
        _load_part(heap),
        _notes_part(night),
        _part("review", "memories to look at again", night.review, now, rank=2, cap=1_500),
        _part("memories", "memories", memories, now, rank=3, cap=2_500),
        _part("threads", "threads", _ripest(heap.threads)[:MOST_THREADS], now, rank=4, cap=1_200),
        Part(replace(recent_part([each.message for each in proof]).part, **_PROOF)),
        _part("values", "values", heap.values[:MOST_VALUES], now, rank=6, cap=300),
        pressures_part(heap.pressures, (), now),
        candidates_part(heap.candidates, names, now),
    ]
    shown = [entry for part in parts for entry in part.entries]
    named = [entry for entry in shown if entry.type != "value" or entry in own_values]
    people: set[PersonId] = {person for entry in shown for person in entry.people}
    for each in proof:
        people |= {who for who in (each.message.author_id, each.proxy_of) if who is not None}
    return Gathered(
        context=PassContext(
            template="sleep",
            readable=heap.rooms,
            now=now,
            tz=night.zone,
            nonce=secrets.token_bytes(NONCE_BYTES),
            parts=tuple(part.part for part in parts),
            switches={"must": night.must and bool(night.clusters)},
        ),
        rooms=frozenset(room for entry in shown for room in entry.sources) or heap.rooms,
        people=frozenset(people),
        messages=messages_of(shown) | {each.message.id for each in proof},
        versions={entry.id: entry.version for entry in named},
        extra={
            "notes": [entry.id for entry in night.notes],
            "doubted": [entry.id for entry in shown if entry in night.doubted],
        },
    )


def _load_part(heap: Heap) -> Part:
    counts = {
        "notes of the day": len(heap.notes),
        "memories to look at again": len(heap.review),
        "threads": len(heap.threads),
        "pressures": len(heap.pressures),
        "drafts that wait": len(heap.candidates),
    }
    text = ", ".join(f"{noun}: {count}" for noun, count in counts.items() if count)
    item = PacketItem(text=text, provenance=_OWN_WORDS, label="counts of everything, shown here or not")
    return Part(PacketPart(name="load", noun="counts", items=(item,), cap=150, rank=5))


def _notes_part(night: Night) -> Part:
    items = [
        replace(_item(entry, night.now), label=_note_label(entry, night.now, n), text=_note_text(entry))
        for n, cluster in enumerate(night.clusters, start=1)
        for entry in cluster
    ]
    # Without gaps: so many were shown means that the first so many were.
    part = PacketPart(name="notes", noun="more notes", items=tuple(items), cap=9_000, rank=1, grows=True, prefix=True)
    return Part(part, night.notes)


def _note_label(entry: Entry, now: datetime, cluster: int) -> str:
    label = label_of(entry, now, saturation=saturation(touches_of([entry])))
    times = entry.body.support_count if isinstance(entry.body, ShortTerm) else 1
    more = f", came up {times} times" if times > 1 else ""
    return f"{label}, cluster {cluster}{more}"


def _note_text(entry: Entry) -> str:
    body = entry.body
    if not isinstance(body, ShortTerm):
        return _full_text(entry)
    before = [_before(each) for each in body.revisions if each.effect is not Touch.REPEATED]
    quotes = [f"In their words: “{_cut(each.quote, QUOTE_CHARS)}”" for each in body.proof if each.quote is not None]
    return "\n".join([_full_text(entry), *dict.fromkeys(before), *quotes[:MOST_QUOTES]])


def _full_text(entry: Entry) -> str:
    """Return an entry with what a memory that takes its place has to carry over: target, topics, repository."""
    body = entry.body
    if not isinstance(body, Thought):
        return text_of(entry)
    target = f"Target: {body.target.kind.value} {body.target.id}" if _about(entry) is None else ""
    topics = f"Topics: {', '.join(body.topics)}" if body.topics else ""
    repo = f"Repository: {body.repo}" if body.repo else ""
    return "\n".join(filter(None, (text_of(entry), target, topics, repo)))


def _about(entry: Entry) -> SourceId | None:
    """Return the person or room that an entry is about, which a prompt tells by a handle."""
    body = entry.body
    kind = _HANDLED.get(body.target.kind) if isinstance(body, Thought) else None
    return SourceId(kind, body.target.id) if kind is not None and isinstance(body, Thought) else None


def _before(revision: Revision) -> str:
    return f"Before that: {_cut(revision.claim or revision.question or revision.summary, BEFORE_CHARS)}"


def _part(name: str, noun: str, entries: Sequence[Entry], now: datetime, *, rank: int, cap: int) -> Part:
    items = tuple(_item(entry, now) for entry in entries)
    return Part(PacketPart(name=name, noun=noun, items=items, cap=cap, rank=rank, prefix=True), tuple(entries))


def _item(entry: Entry, now: datetime) -> PacketItem:
    provenance = Provenance(
        (SourceId(SourceKind.MEMORY, entry.id),), entry.sources, Trust.MEMBER if entry.sources else Trust.OWN
    )
    # What was made of no room has no name here: a model that has read these rooms would take it from all others.
    source = SourceId(SourceKind.MEMORY, entry.id) if entry.sources else None
    return PacketItem(
        text=_full_text(entry), provenance=provenance, label=label_of(entry, now), source=source, about=_about(entry)
    )


def _ripest(threads: Iterable[Entry]) -> list[Entry]:
    return sorted(threads, key=lambda each: (-each.body.maturation if isinstance(each.body, Thread) else 0.0, each.id))


def _cut(text: str, most: int) -> str:
    line = one_line(text)
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"
