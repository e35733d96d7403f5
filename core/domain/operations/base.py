"""What every operation is: a strict payload that says what it needs, what it refuses, and what it does. Pure."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import ClassVar

from core.domain.ids import PersonId, RoomId
from core.domain.mind.bodies import CAPS, KIND_OF, Body
from core.domain.mind.codes import Rejected, RejectionCode
from core.domain.mind.entries import Entry, Key, Retired
from core.domain.mind.facts import Emitter, Facts, Needs, message_of, person_of, quote_key
from core.domain.mind.values import Anchor, EntryId, Moment, Strict, Target, TargetKind
from core.domain.mind.view import View

FUTURE_S = 120.0
"""How far ahead of our clock a time may be."""
Origin = tuple[frozenset[RoomId], frozenset[PersonId]]
"""The rooms and the people that something is made from."""


class Operation(Strict):
    """A proposal to change the mind. The class docstring is what models read of it.

    `refer` looks whether what it names is there and may be named; `check` at its meaning and at caps. `apply` is only
    called when both gave None, and puts what changes into the view. `union`: writes that lose nothing of what another
    wrote, and need no expected version.
    """

    emitters: ClassVar[frozenset[Emitter]]
    union: ClassVar[bool] = False
    undoable: ClassVar[bool] = True
    operation: str

    def needs(self) -> Needs:
        """Return what must be read first."""
        return Needs()

    def rewrites(self) -> tuple[Key, ...]:
        """Return the existing entries whose present version whoever proposes must have seen."""
        return ()

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return why something that it names cannot be named; None if all can."""
        return None

    def check(self, view: View, facts: Facts) -> Rejected | None:
        """Return why it cannot stand; None if it can."""
        return None

    def spends(self, view: View) -> dict[str, float]:
        """Return what it would use of its run's limits, by name; asked before it is applied."""
        return {}

    def apply(self, view: View, facts: Facts) -> str:
        """Put into the view what changes; return in one word what it did."""
        raise NotImplementedError


def key(type_: str, id_: str) -> Key:
    """Return the key of an entry of a type."""
    return Key(KIND_OF[type_], EntryId(id_))


def keys(type_: str, ids: Iterable[str]) -> frozenset[Key]:
    """Return the keys of entries of a type."""
    return frozenset(key(type_, each) for each in ids)


def live_or(view: View, type_: str, ids: Iterable[str], path: str) -> Rejected | None:
    """Refuse an id that stands for no live entry of the type: unknown, or known and over."""
    for id_ in ids:
        entry = view.find(type_, id_)
        if entry is None:
            return Rejected(RejectionCode.UNKNOWN_REFERENCE, path, f"{type_} is not there")
        if not entry.live:
            return Rejected(RejectionCode.NOT_LIVE, path, f"{type_} is over")
    return None


def memories_or(view: View, ids: Iterable[str], path: str) -> Rejected | None:
    """Refuse an id that stands for no live memory, whether note, lasting memory or thread."""
    for id_ in ids:
        entry = view.holder("durable", id_)
        if entry is None or entry.type == "proposal":
            return Rejected(RejectionCode.UNKNOWN_REFERENCE, path, "is no memory")
        if not entry.live:
            return Rejected(RejectionCode.NOT_LIVE, path, "memory is over")
    return None


def free_or(view: View, type_: str, id_: str, path: str) -> Rejected | None:
    """Refuse an id that was used before in the kind."""
    if view.holder(type_, id_) is not None:
        return Rejected(RejectionCode.ID_TAKEN, path, "is the id of another entry, or was")
    return None


def anchors_or(view: View, anchors: Iterable[Anchor], facts: Facts, path: str) -> Rejected | None:
    """Refuse an anchor that is not there, was not shown to the model that names it, or quotes what nobody said."""
    for anchor in anchors:
        if not _form_fits(anchor):
            return Rejected(RejectionCode.CONTRADICTION, path, "the ref's first word is its kind")
        if not _exists(view, anchor, facts):
            return Rejected(RejectionCode.UNKNOWN_REFERENCE, path, "names something that is not there")
        if facts.actor.kind.model and facts.packet is not None and anchor.ref not in facts.packet.refs:
            return Rejected(RejectionCode.ANCHOR_NOT_IN_PACKET, path, "was not shown")
        if anchor.quote is not None and _quote_lost(anchor, facts):
            return Rejected(RejectionCode.QUOTE_NOT_FOUND, path, "does not stand there word for word")
    return None


def target_or(target: Target, facts: Facts, path: str) -> Rejected | None:
    """Refuse a target that is no person, room or repository here, or a person who does not want to be one."""
    match target.kind:
        case TargetKind.PERSON:
            person = person_of(target)
            if person is None or person not in facts.people:
                return Rejected(RejectionCode.UNKNOWN_REFERENCE, path, "is nobody here")
            if person in facts.erased:
                return Rejected(RejectionCode.PERSON_ERASED, path, "was erased")
            if person in facts.opted_out:
                return Rejected(RejectionCode.PERSON_OPTED_OUT, path, "does not want to be remembered")
        case TargetKind.ROOM:
            if target.id not in map(str, facts.rooms):
                return Rejected(RejectionCode.UNKNOWN_REFERENCE, path, "is no room here")
        case TargetKind.REPO:
            if target.id.casefold() not in facts.repos:
                return Rejected(RejectionCode.UNKNOWN_REFERENCE, path, "is no repository here")
    return None


def cap_or(
    view: View, type_: str, sources: frozenset[RoomId], facts: Facts, path: str, more: int = 1
) -> Rejected | None:
    """Refuse one more live entry, or several, where the audience group has as many as it may."""
    group = facts.group(sources)
    there = sum(count for each, count in view.count(type_) if facts.group(each) == group)
    if there + more > CAPS[type_]:
        return Rejected(RejectionCode.LIMIT_REACHED, path, f"{CAPS[type_]} are all there may be")
    return None


def origin(
    facts: Facts, anchors: Iterable[Anchor] = (), entries: Iterable[Entry] = (), target: Target | None = None
) -> Origin:
    """Return the rooms and people that something is made from: all that its author had read.

    A model has read its whole packet; code and operators name what they rest on.
    """
    rooms: set[RoomId] = set()
    people: set[PersonId] = set()
    if facts.actor.kind.model and facts.packet is not None:
        rooms |= facts.packet.rooms
        people |= facts.packet.people
    for anchor in anchors:
        message = message_of(anchor.ref)
        if message is not None and message in facts.messages:
            fact = facts.messages[message]
            rooms.add(fact.room_id)
            people |= {fact.author_id} if fact.author_id is not None else set()
        rooms |= facts.refs.get(anchor.ref, frozenset())
    for entry in entries:
        rooms |= entry.sources
        people |= entry.people
    person = None if target is None else person_of(target)
    return frozenset(rooms), frozenset(people | ({person} if person is not None else set()))


def resting_on(view: View, anchors: Iterable[Anchor]) -> list[Entry]:
    """Return the entries that anchors name: own memories and receipts."""
    found = (_entry_of(view, anchor) for anchor in anchors)
    return [entry for entry in found if entry is not None]


def new_entry(id_: str, body: Body, facts: Facts, made_of: Origin) -> Entry:
    """Return the first version of an entry."""
    return Entry(
        id=EntryId(id_),
        version=1,
        body=body,
        sources=made_of[0],
        people=made_of[1],
        created_at=facts.now,
        updated_at=facts.now,
    )


def retire(
    view: View, entry: Entry, facts: Facts, reason: str, superseded_by: str | None = None, body: Body | None = None
) -> None:
    """Make a tombstone of an entry; its body stays, or is this last one."""
    by = None if superseded_by is None else EntryId(superseded_by)
    view.put(entry.changed(facts.now, body, retired=Retired(facts.now, reason, by)))


def write(view: View, id_: str, body: Body, facts: Facts, made_of: Origin) -> str:
    """Put an entry with this body: a new one, or the next version of the one that is there."""
    there = view.find(body.type, id_)
    if there is None:
        view.put(new_entry(id_, body, facts, made_of))
        return "added"
    view.put(there.changed(facts.now, body, sources=made_of[0], people=made_of[1]))
    return "changed"


class Stamped(Strict):
    """Times that a proposal may carry. They must be times, and count for nothing: the clock here does."""

    created_at: Moment | None = None
    updated_at: Moment | None = None

    def stamps_or(self, facts: Facts, path: str) -> Rejected | None:
        """Refuse one that is ahead of the clock."""
        return ahead_or(facts, f"{path}.createdAt", self.created_at) or ahead_or(
            facts, f"{path}.updatedAt", self.updated_at
        )


def ahead_or(facts: Facts, path: str, *moments: datetime | None) -> Rejected | None:
    """Refuse a time that is further ahead of the clock than clocks differ."""
    latest = facts.now + timedelta(seconds=FUTURE_S)
    if any(moment is not None and moment > latest for moment in moments):
        return Rejected(RejectionCode.BAD_TIMESTAMP, path, "is in the future")
    return None


def _form_fits(anchor: Anchor) -> bool:
    kind, colon, rest = anchor.ref.partition(":")
    return bool(colon and rest) and kind == anchor.kind.value


def _entry_of(view: View, anchor: Anchor) -> Entry | None:
    kind, _, id_ = anchor.ref.partition(":")
    match kind:
        case "memory":
            return view.holder("durable", id_) or view.holder("pressure_item", id_)
        case "receipt":
            return view.holder("receipt", id_)
    return None


def _exists(view: View, anchor: Anchor, facts: Facts) -> bool:
    message = message_of(anchor.ref)
    if message is not None:
        fact = facts.messages.get(message)
        if fact is None or not fact.alive:
            return False
        return anchor.revision is None or 0 <= anchor.revision <= fact.revision
    if anchor.ref.partition(":")[0] in ("memory", "receipt"):
        return _entry_of(view, anchor) is not None
    return anchor.ref in facts.refs


def _quote_lost(anchor: Anchor, facts: Facts) -> bool:
    from_message = message_of(anchor.ref) is not None
    return not from_message or quote_key(anchor) in facts.lost_quotes
