"""What an operation has to know from outside the mind: read once, recorded with it, never text. Pure.

A check is a function of view, operation and facts alone, so a replay needs neither archive, model nor clock.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from core.domain.ids import MessageId, PersonId, RoomId
from core.domain.mind.codes import Rejected
from core.domain.mind.entries import Entry, Key
from core.domain.mind.values import Anchor, AnchorKind, Target, TargetKind, wire_time

REPEAT_DAYS = 90
"""For how long the same words are not said again."""
_ROW = re.compile(r"[1-9][0-9]{0,17}")
"""The number of a row in the one spelling that it has: what is named twice is to be found by one name."""


class Emitter(StrEnum):
    """Who proposes an operation. Stored values never change."""

    CHAT = "chat"
    RUMINATION = "rumination"
    SLEEP = "sleep"
    MOOD = "mood"
    UPKEEP = "upkeep"
    PARENT = "parent"
    OPERATOR = "operator"

    @property
    def model(self) -> bool:
        """Whether the words are a model's."""
        return self in (Emitter.CHAT, Emitter.RUMINATION, Emitter.SLEEP)


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts. `ref`: the role, the pass or the person behind it."""

    kind: Emitter
    ref: str = ""
    run_id: int | None = None
    job_id: int | None = None


@dataclass(frozen=True, slots=True)
class MessageFact:
    """A message that an operation names: where it stands, whose it is, which revision is the last.

    `own`: the bot said it. `alive`: it is not deleted. `seq`: its place in the order of the archive.
    """

    id: MessageId
    room_id: RoomId
    author_id: PersonId | None
    seq: int
    revision: int
    sent_at: datetime
    alive: bool = True
    own: bool = False


@dataclass(frozen=True, slots=True)
class OutboxFact:
    """A row of the outbox: where it goes, the hash of its words, its state, and the candidate it was made from."""

    room_id: RoomId
    content_hash: str
    state: str


@dataclass(frozen=True, slots=True)
class Packet:
    """What a model had read when it proposed: rooms, people, and the refs that it was shown."""

    rooms: frozenset[RoomId] = frozenset()
    people: frozenset[PersonId] = frozenset()
    refs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Similarity:
    """How alike the new thoughts of a batch are to what is there, by (new id, old id).

    `model` empty: there is no embedder, and texts are compared by their letters instead.
    """

    model: str = ""
    scores: Mapping[tuple[str, str], float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What must be read before an operation can be judged.

    `entries`: by key. `live`: types of which every live entry is wanted. `counted`: types whose cap is looked at.
    `anchors`: all that the payload names. `outbox`, `venues`: rows and rooms for speech. `revisions`: messages as they
    once stood. `drafts`: words that would be said, to be held against prompts and what was said before. `answered`:
    messages of which one must know whether anything was said to them. `spoke`: when it spoke last. `limits`: names of
    what a run may do only so much of. `recalled`: types of which one must know when each entry was last in a prompt.
    """

    entries: frozenset[Key] = frozenset()
    live: frozenset[str] = frozenset()
    counted: frozenset[str] = frozenset()
    messages: frozenset[MessageId] = frozenset()
    anchors: tuple[Anchor, ...] = ()
    targets: tuple[Target, ...] = ()
    citing: frozenset[str] = frozenset()
    of_people: frozenset[PersonId] = frozenset()
    undo: frozenset[int] = frozenset()
    outbox: frozenset[int] = frozenset()
    venues: frozenset[RoomId] = frozenset()
    repos: frozenset[str] = frozenset()
    runs: frozenset[int] = frozenset()
    revisions: frozenset[tuple[MessageId, int]] = frozenset()
    drafts: frozenset[str] = frozenset()
    answered: frozenset[MessageId] = frozenset()
    spoke: bool = False
    limits: frozenset[str] = frozenset()
    recalled: frozenset[str] = frozenset()

    def joined(self, other: "Needs") -> "Needs":
        """Return what both need."""
        return Needs(
            entries=self.entries | other.entries,
            live=self.live | other.live,
            counted=self.counted | other.counted,
            messages=self.messages | other.messages,
            anchors=(*self.anchors, *other.anchors),
            targets=(*self.targets, *other.targets),
            citing=self.citing | other.citing,
            of_people=self.of_people | other.of_people,
            undo=self.undo | other.undo,
            outbox=self.outbox | other.outbox,
            venues=self.venues | other.venues,
            repos=self.repos | other.repos,
            runs=self.runs | other.runs,
            revisions=self.revisions | other.revisions,
            drafts=self.drafts | other.drafts,
            answered=self.answered | other.answered,
            spoke=self.spoke or other.spoke,
            limits=self.limits | other.limits,
            recalled=self.recalled | other.recalled,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoFacts:
    """What undoing one row would undo: rows newest first, the row itself last, and what each entry was before them.

    `before`: None where they made the entry. `refused`: why they cannot be undone, if they cannot.
    """

    seqs: tuple[int, ...] = ()
    before: Mapping[Key, Entry | None] = field(default_factory=dict)
    refused: Rejected | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that is known from outside. `now`: once for the batch.

    `messages`: those named that exist in the mind's communities. `refs`: other anchors that exist, with the rooms
    that bound them. `lost_quotes`: `quote_key` of quotes that do not stand in their revision. `groups`: rooms with the
    same readers share a name; a room that is not in it is a group of its own. `people`, `rooms`, `repos`, `runs`: those
    named that exist; repositories in small letters. `readable`: for each room where something would be said, the rooms
    that all its readers may read. `recalled`: when an entry was last part of a prompt. `seq`: the row of the journal.
    `surviving`: `quote_key` of anchors on edited messages that still prove what they did.
    `revisions`: the place in the order of the archive of each of those that exist. `echoed`, `said`: `speech_hash` of
    drafts that read a prompt out, and of those that a live receipt of the last `REPEAT_DAYS` days shows as said.
    `answered`: messages to which a live receipt answers. `spoke_at`: the newest live receipt. `spent`: what the actor's
    run has already used of its limits.
    """

    now: datetime
    actor: Actor
    packet: Packet | None = None
    messages: Mapping[MessageId, MessageFact] = field(default_factory=dict)
    refs: Mapping[str, frozenset[RoomId]] = field(default_factory=dict)
    lost_quotes: frozenset[str] = frozenset()
    groups: Mapping[RoomId, str] = field(default_factory=dict)
    similarity: Similarity = Similarity()
    people: frozenset[PersonId] = frozenset()
    opted_out: frozenset[PersonId] = frozenset()
    erased: frozenset[PersonId] = frozenset()
    rooms: frozenset[RoomId] = frozenset()
    repos: frozenset[str] = frozenset()
    outbox: Mapping[int, OutboxFact] = field(default_factory=dict)
    readable: Mapping[RoomId, frozenset[RoomId]] = field(default_factory=dict)
    runs: frozenset[int] = frozenset()
    recalled: Mapping[str, datetime] = field(default_factory=dict)
    surviving: frozenset[str] = frozenset()
    undo: Mapping[int, UndoFacts] = field(default_factory=dict)
    paused: bool = False
    seq: int = 0
    revisions: Mapping[tuple[MessageId, int], int] = field(default_factory=dict)
    echoed: frozenset[str] = frozenset()
    said: frozenset[str] = frozenset()
    answered: frozenset[MessageId] = frozenset()
    spoke_at: datetime | None = None
    spent: Mapping[str, float] = field(default_factory=dict)

    def group(self, sources: Iterable[RoomId]) -> frozenset[str]:
        """Return the audience group of what was made from these rooms; empty for what was made from none."""
        return frozenset(self.groups.get(room, f"room:{room}") for room in sources)


def message_of(ref: str) -> MessageId | None:
    """Return the message that a ref names; None if it names something else."""
    kind, _, number = ref.partition(":")
    return MessageId(int(number)) if kind == AnchorKind.MESSAGE and _ROW.fullmatch(number) else None


def person_of(target: Target) -> PersonId | None:
    """Return the person that a thought is about; None if it is about something else."""
    fits = target.kind is TargetKind.PERSON and _ROW.fullmatch(target.id)
    return PersonId(int(target.id)) if fits else None


def speech_hash(text: str) -> str:
    """Return what stands for words that are said, in receipts, outbox and facts."""
    return hashlib.sha256(text.encode()).hexdigest()


def quote_key(anchor: Anchor) -> str:
    """Return what stands for an anchor's quote where no text may stand."""
    digest = hashlib.sha256((anchor.quote or "").encode()).hexdigest()[:16]
    return f"{anchor.ref}@{anchor.revision}:{digest}"


def facts_image(facts: Facts, needs: Needs, sources: Iterable[RoomId]) -> dict[str, Any]:
    """Return what of the facts concerns one operation, as the journal keeps it: ids, hashes, scores and times.

    `sources`: the rooms of every entry that the operation was judged beside.
    """
    named = {message_of(anchor.ref) for anchor in needs.anchors} | set(needs.messages)
    rooms = set(sources) | (facts.packet.rooms if facts.packet else set())
    rooms |= {fact.room_id for id_, fact in facts.messages.items() if id_ in named} | needs.venues
    about = {person for target in needs.targets if (person := person_of(target)) is not None}
    about |= {fact.author_id for id_, fact in facts.messages.items() if id_ in named and fact.author_id is not None}
    refs = {anchor.ref for anchor in needs.anchors}
    quotes = {quote_key(anchor) for anchor in needs.anchors if anchor.quote is not None}
    drafts = {speech_hash(draft) for draft in needs.drafts}
    ids = {key.id for key in needs.entries}
    image: dict[str, Any] = {
        "now": wire_time(facts.now),
        "messages": [
            [f.id, f.room_id, f.author_id, f.seq, f.revision, wire_time(f.sent_at), f.alive, f.own]
            for f in sorted((f for id_, f in facts.messages.items() if id_ in named), key=lambda f: f.id)
        ],
        "refs": {ref: sorted(where) for ref, where in sorted(facts.refs.items()) if ref in refs},
        "lostQuotes": sorted(facts.lost_quotes & quotes),
        "groups": {str(room): facts.groups[room] for room in sorted(rooms) if room in facts.groups},
        "similarity": {
            "model": facts.similarity.model,
            "scores": [
                [new, old, score] for (new, old), score in sorted(facts.similarity.scores.items()) if new in ids
            ],
        },
        "people": sorted(facts.people & about),
        "optedOut": sorted(facts.opted_out & about),
        "erased": sorted(facts.erased & about),
        "rooms": sorted(facts.rooms),
        "repos": sorted(facts.repos),
        "outbox": {str(id_): [f.room_id, f.content_hash, f.state] for id_, f in facts.outbox.items()},
        "readable": {str(venue): sorted(rooms) for venue, rooms in facts.readable.items()},
        "runs": sorted(facts.runs),
        "recalled": {id_: wire_time(at) for id_, at in sorted(facts.recalled.items()) if id_ in ids},
        "revisions": [[*each, facts.revisions[each]] for each in sorted(needs.revisions & facts.revisions.keys())],
        "echoed": sorted(facts.echoed & drafts),
        "said": sorted(facts.said & drafts),
        "answered": sorted(facts.answered & needs.answered),
        "spent": {name: facts.spent[name] for name in sorted(needs.limits & facts.spent.keys())},
    }
    image = {name: value for name, value in image.items() if value not in ([], {})}
    if needs.spoke and facts.spoke_at is not None:
        image["spokeAt"] = wire_time(facts.spoke_at)
    if facts.packet is not None:
        image["packet"] = {
            "rooms": sorted(facts.packet.rooms),
            "people": sorted(facts.packet.people),
            # Of a thought without anchors all is kept that its author had read: an erasure has to find it.
            "refs": sorted(facts.packet.refs & refs if refs else facts.packet.refs),
        }
    return image


def facts_of(image: Mapping[str, Any], actor: Actor, seq: int) -> Facts:
    """Return the facts that an image shows."""
    packet = image.get("packet")
    similarity = image.get("similarity", {})
    messages = [
        MessageFact(id_, room, author, seq_, revision, datetime.fromisoformat(sent), alive, own)
        for id_, room, author, seq_, revision, sent, alive, own in image.get("messages", ())
    ]
    return Facts(
        now=datetime.fromisoformat(image["now"]),
        actor=actor,
        packet=None
        if packet is None
        else Packet(frozenset(packet["rooms"]), frozenset(packet["people"]), frozenset(packet["refs"])),
        messages={fact.id: fact for fact in messages},
        refs={ref: frozenset(where) for ref, where in image.get("refs", {}).items()},
        lost_quotes=frozenset(image.get("lostQuotes", ())),
        groups={RoomId(int(room)): name for room, name in image.get("groups", {}).items()},
        similarity=Similarity(
            similarity.get("model", ""), {(new, old): score for new, old, score in similarity.get("scores", ())}
        ),
        people=frozenset(image.get("people", ())),
        opted_out=frozenset(image.get("optedOut", ())),
        erased=frozenset(image.get("erased", ())),
        rooms=frozenset(image.get("rooms", ())),
        repos=frozenset(image.get("repos", ())),
        outbox={int(id_): OutboxFact(*value) for id_, value in image.get("outbox", {}).items()},
        readable={RoomId(int(venue)): frozenset(rooms) for venue, rooms in image.get("readable", {}).items()},
        runs=frozenset(image.get("runs", ())),
        recalled={id_: datetime.fromisoformat(at) for id_, at in image.get("recalled", {}).items()},
        seq=seq,
        revisions={(MessageId(id_), revision): place for id_, revision, place in image.get("revisions", ())},
        echoed=frozenset(image.get("echoed", ())),
        said=frozenset(image.get("said", ())),
        answered=frozenset(image.get("answered", ())),
        spoke_at=datetime.fromisoformat(image["spokeAt"]) if "spokeAt" in image else None,
        spent=image.get("spent", {}),
    )


def at_row(facts: Facts, seq: int) -> Facts:
    """Return the facts as the row `seq` of the journal sees them."""
    return replace(facts, seq=seq)
