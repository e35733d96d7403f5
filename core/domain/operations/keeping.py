"""Operations that keep the mind within bounds and promises: make room, void what lost its proof, erase, undo."""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from core.domain.ids import MessageId, PersonId
from core.domain.mind.bodies import (
    CAPS,
    TYPES,
    Durable,
    Kind,
    Note,
    Proposal,
    ProposalState,
    Scrubbed,
    Thread,
    Value,
)
from core.domain.mind.codes import Rejected, RejectionCode
from core.domain.mind.entries import Entry, Key, Retired
from core.domain.mind.facts import Emitter, Facts, Needs, message_of
from core.domain.mind.values import Id, Reason, RowId, Score, Text128
from core.domain.mind.view import View
from core.domain.operations.base import Operation, keys, retire
from core.domain.operations.voiding import erase, void

SCRUB_AFTER = timedelta(days=90)
"""How long a tombstone keeps its words at least."""
SUPPORTING = frozenset({"value", "note", "thread"})
"""Types of entries that a lasting memory can support."""
UNDO = "undo_operation"
NOT_UNDOABLE = frozenset(
    {
        "record_delivery_receipt",
        "mark_candidate_spoken",
        "record_reviewed_messages",
        "update_repo_activity_cursor",
        "void_source",
        "erase_person",
    }
)
"""Of these nothing is taken back, nor of what they rest on: what was said, how far was read, what was erased."""


class EvictAction(StrEnum):
    """What becomes of an entry that must make room."""

    RETIRE = "retire"
    SCRUB = "scrub"


class EvictEntries(Operation):
    """Make room where a list is full, end proposals whose time is over, or take the words of old tombstones.

    Only the entries that matter least may go, and only where there are as many as there may be.
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset({Emitter.UPKEEP, Emitter.SLEEP, Emitter.OPERATOR})
    operation: Literal["evict_entries"] = "evict_entries"
    entry_type: Annotated[str, Field(pattern=f"^({'|'.join(TYPES)})$")]
    entry_ids: Annotated[tuple[Id, ...], Field(min_length=1, max_length=50)]
    action: EvictAction
    reason: Reason
    scores: dict[Id, Score] = Field(default_factory=dict)

    def needs(self) -> Needs:
        """Return the entries, and for making room all of their type."""
        named = keys(self.entry_type, self.entry_ids)
        if self.action is EvictAction.SCRUB or self._timed:
            return Needs(entries=named)
        own = frozenset({self.entry_type})
        supporting = SUPPORTING if self.entry_type == "durable" else frozenset[str]()
        return Needs(entries=named, live=own | supporting, counted=own, recalled=own)

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether they are there, and live or tombstones as the action wants."""
        for id_ in self.entry_ids:
            entry = view.find(self.entry_type, id_)
            if entry is None:
                return Rejected(RejectionCode.UNKNOWN_REFERENCE, "entryIds", "is not there")
            if entry.live != (self.action is EvictAction.RETIRE):
                return Rejected(RejectionCode.NOT_LIVE, "entryIds", f"cannot be made {self.action.value}")
        return None

    def check(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether they are the ones that may go."""
        entries = [entry for id_ in self.entry_ids if (entry := view.find(self.entry_type, id_)) is not None]
        if self.action is EvictAction.SCRUB:
            young = [e for e in entries if e.retired is None or facts.now - e.retired.at < SCRUB_AFTER]
            return Rejected(RejectionCode.NOT_EVICTABLE, "entryIds", "is not old enough") if young else None
        if self._timed:
            waiting = [e for e in entries if isinstance(e.body, Proposal) and e.body.expires_at > facts.now]
            return Rejected(RejectionCode.NOT_EVICTABLE, "entryIds", "is not over yet") if waiting else None
        if self.entry_type not in CAPS:
            return Rejected(RejectionCode.NOT_EVICTABLE, "entryType", "has no limit")
        if any(map(crystallized, entries)):
            return Rejected(RejectionCode.NOT_EVICTABLE, "entryIds", "is part of the identity")
        return self._least(view, facts, entries)

    def apply(self, view: View, facts: Facts) -> str:
        """Make tombstones, or take the words of tombstones."""
        for id_ in self.entry_ids:
            entry = view.find(self.entry_type, id_)
            if entry is None:
                continue
            if self.action is EvictAction.SCRUB:
                view.put(entry.changed(facts.now, Scrubbed(type=entry.type)))
            elif isinstance(entry.body, Proposal):
                over = entry.body.model_copy(update={"state": ProposalState.EXPIRED})
                retire(view, entry, facts, "expired", body=over)
            else:
                retire(view, entry, facts, "evicted")
        if self.action is EvictAction.SCRUB:
            return "scrubbed"
        return "expired" if self._timed else "evicted"

    @property
    def _timed(self) -> bool:
        """Whether the entries end by their own time, however many there are."""
        return self.action is EvictAction.RETIRE and self.entry_type == "proposal"

    def _least(self, view: View, facts: Facts, entries: list[Entry]) -> Rejected | None:
        """Refuse where the group is not full, or one stays that matters less than one that goes."""
        groups = {facts.group(entry.sources) for entry in entries}
        by_group: dict[frozenset[str], list[Entry]] = {group: [] for group in groups}
        for other in view.live(self.entry_type):
            by_group.get(facts.group(other.sources), []).append(other)
        for there in by_group.values():
            if len(there) < CAPS[self.entry_type]:
                return Rejected(RejectionCode.NOT_EVICTABLE, "entryIds", "there is room")
            going = {entry.id: retention(entry, view, facts) for entry in there if entry.id in self.entry_ids}
            staying = (other for other in there if other.id not in going and not crystallized(other))
            if any(retention(other, view, facts) < max(going.values()) - 1e-9 for other in staying):
                return Rejected(RejectionCode.NOT_EVICTABLE, "entryIds", "another one matters less")
        return None


class VoidCause(StrEnum):
    """Why something no longer proves anything."""

    DELETED = "deleted"
    EDITED = "edited"
    MOVED = "moved"
    RETRACTED = "retracted"


class VoidSource(Operation):
    """Take back what rested on messages that are gone or say something else now."""

    emitters: ClassVar[frozenset[Emitter]] = frozenset({Emitter.UPKEEP, Emitter.PARENT})
    operation: Literal["void_source"] = "void_source"
    refs: Annotated[tuple[Text128, ...], Field(min_length=1, max_length=500)]
    cause: VoidCause

    def needs(self) -> Needs:
        """Return everything that rests on them, and the messages."""
        return Needs(citing=frozenset(self.refs), messages=frozenset(_messages(self.refs)))

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether the archive shows the cause."""
        for id_ in _messages(self.refs):
            fact = facts.messages.get(id_)
            decided = self.cause in (VoidCause.EDITED, VoidCause.RETRACTED)
            shown = decided or fact is None or not fact.alive
            if not shown:
                return Rejected(RejectionCode.UNKNOWN_REFERENCE, "refs", f"is not {self.cause.value}")
        return None

    def apply(self, view: View, facts: Facts) -> str:
        """Drop the anchors; void what has none left, and what rests on that."""
        return void(view, facts, frozenset(self.refs), edited=self.cause is VoidCause.EDITED)


class ErasePerson(Operation):
    """Take a person, and all that rested on their words, out of the mind. Asked for by the person.

    `entryIds` and `rows`: where a name of theirs stands, in entries and in the journal.
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset({Emitter.PARENT, Emitter.OPERATOR})
    operation: Literal["erase_person"] = "erase_person"
    person_id: RowId
    plan_id: Text128
    refs: Annotated[tuple[Text128, ...], Field(max_length=100_000)] = ()
    entry_ids: Annotated[tuple[Id, ...], Field(max_length=100_000)] = ()
    rows: Annotated[tuple[RowId, ...], Field(max_length=100_000)] = ()

    def needs(self) -> Needs:
        """Return everything in which the person, their words or their names are."""
        named = frozenset(Key(kind, id_) for kind in Kind for id_ in self.entry_ids)
        return Needs(entries=named, citing=frozenset(self.refs), of_people=frozenset({PersonId(self.person_id)}))

    def apply(self, view: View, facts: Facts) -> str:
        """Void what rested on their words or was about them; take the person out of the rest."""
        return erase(view, facts, PersonId(self.person_id), frozenset(self.refs), frozenset(self.entry_ids))


class UndoOperation(Operation):
    """Undo an accepted operation, alone or with all that rests on it."""

    emitters: ClassVar[frozenset[Emitter]] = frozenset({Emitter.OPERATOR})
    operation: Literal["undo_operation"] = "undo_operation"
    seq: RowId
    reason: Reason
    cascade: Annotated[tuple[RowId, ...], Field(max_length=10_000)] = ()

    def needs(self) -> Needs:
        """Return the row, and with it all that rests on it."""
        return Needs(undo=frozenset({self.seq}))

    def check(self, view: View, facts: Facts) -> Rejected | None:
        """Return why it cannot be undone: firm, erased, or rested upon by more than was named."""
        undo = facts.undo[self.seq]
        if undo.refused is not None:
            return undo.refused
        dependents = undo.seqs[:-1]
        if tuple(sorted(self.cascade)) == tuple(sorted(dependents)):
            return None
        if self.cascade:
            return Rejected(RejectionCode.STALE_VERSION, "cascade", f"now rest on it: {_list(dependents)}")
        return Rejected(RejectionCode.UNDO_HAS_DEPENDENTS, "seq", f"rest on it: {_list(dependents)}")

    def apply(self, view: View, facts: Facts) -> str:
        """Let each entry be as it was before; what they made becomes a tombstone."""
        for key, before in sorted(facts.undo[self.seq].before.items()):
            now = view.at(key)
            if now is None:
                continue
            if before is None:
                view.put(now.changed(facts.now, retired=Retired(facts.now, "undone")))
            else:
                view.put(before.as_version(now.version + 1))
        return "undone"


def retention(entry: Entry, view: View, facts: Facts) -> float:
    """Return how much an entry is worth keeping, 0 to 1: young, recalled, proven, rested upon."""
    recalled = facts.recalled.get(entry.id, entry.created_at)
    proof = len(entry.body.proof) if isinstance(entry.body, Durable | Thread) else 0
    return (
        0.4 * 2 ** (-_days(facts.now, entry.updated_at) / 180)
        + 0.3 * 2 ** (-_days(facts.now, recalled) / 90)
        + 0.2 * min(1.0, proof / 3)
        + 0.1 * _supports(entry, view)
    )


def _days(now: datetime, then: datetime) -> float:
    return max(0.0, (now - then).total_seconds() / 86400)


def _supports(entry: Entry, view: View) -> bool:
    for type_ in sorted(SUPPORTING):
        for other in view.live(type_):
            if isinstance(other.body, Value | Note) and other.body.support_memory_id == entry.id:
                return True
            if isinstance(other.body, Thread) and entry.id in other.body.support_memory_ids:
                return True
    return False


def crystallized(entry: Entry) -> bool:
    """Return whether a lasting memory is part of the identity, which is not evicted."""
    return isinstance(entry.body, Durable) and entry.body.crystallized


def _messages(refs: tuple[str, ...]) -> list[MessageId]:
    return [id_ for ref in refs if (id_ := message_of(ref)) is not None]


def _list(seqs: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, sorted(seqs)[:20]))
    return shown if len(seqs) <= 20 else f"{shown} and {len(seqs) - 20} more"
