"""Operations that put one lasting memory in the place of others, and that make one a part of the mind's identity."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from core.domain.ids import PersonId
from core.domain.mind.bodies import Durable, Note, Value
from core.domain.mind.codes import Rejected, RejectionCode
from core.domain.mind.entries import Key
from core.domain.mind.facts import Emitter, Facts, Needs, message_of
from core.domain.mind.values import (
    Id,
    LossNote,
    MemoryKind,
    Reason,
    Score,
    Strict,
    Text120,
    Text1000,
    Text4000,
    Thought,
)
from core.domain.mind.view import View
from core.domain.operations.base import Operation, Origin, cap_or, free_or, key, keys, live_or, write
from core.domain.operations.distillation import (
    DurablePayload,
    Sources,
    distilled,
    loss_or,
    made_of,
    meaning_or,
    sources_or,
    supersede,
)
from core.domain.operations.thoughts import memories, once_or

RIPE_AFTER = timedelta(hours=24)
"""How old a lasting memory is before it can become part of the identity."""
LEAST_WITNESSES = 2


class ReviseDurableMemory(Operation):
    """Put one lasting memory in the place of one or more: to correct, to join, or to confirm them.

    It gets a new id, and the old ones point to it. The same rules hold as for a distillation: keep what is concrete,
    or say in lossNote what was left out. It is refused for memories that are not live or have changed since you saw
    them.
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset({Emitter.SLEEP, Emitter.OPERATOR})
    operation: Literal["revise_durable_memory"] = "revise_durable_memory"
    source_memory_ids: Annotated[tuple[Id, ...], Field(min_length=1, max_length=16)]
    memory: DurablePayload
    reason: Reason
    loss_note: LossNote | None = None

    def needs(self) -> Needs:
        """Return the sources, what rests on them, the holder of the new id, and what the thought names."""
        ids = (self.memory.memory_id, *self.source_memory_ids)
        return Needs(
            entries=keys("durable", ids), live=frozenset({"value", "note"}), counted=frozenset({"durable"})
        ).joined(self.memory.named)

    def rewrites(self) -> tuple[Key, ...]:
        """Return the sources."""
        return tuple(key("durable", each) for each in self.source_memory_ids)

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether the sources are live lasting memories, the id free, and the thought names what is there."""
        return live_or(view, "durable", self.source_memory_ids, "sourceMemoryIds") or sources_or(
            view, facts, self.source_memory_ids, self.memory, "memory"
        )

    def check(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether it means something, owns up to what it loses, and fits."""
        made, sources = self._made(view, facts), memories(view, self.source_memory_ids)
        return (
            meaning_or(self.memory, made, facts, "memory")
            or loss_or(self.memory, made, sources, facts, self.reason)
            or self._cap_or(view, facts)
        )

    def apply(self, view: View, facts: Facts) -> str:
        """Let it stand in the place of its sources."""
        made, where = self._made(view, facts), self._origin(view, facts)
        supersede(view, facts, self.memory.memory_id, made, self.source_memory_ids, self.reason, where)
        _move_support(view, facts, self.source_memory_ids, self.memory.memory_id)
        return "revised"

    def _cap_or(self, view: View, facts: Facts) -> Rejected | None:
        rooms, _ = self._origin(view, facts)
        group = facts.group(rooms)
        if any(facts.group(entry.sources) == group for entry, _ in memories(view, self.source_memory_ids)):
            return None  # One goes for the one that comes.
        return cap_or(view, "durable", rooms, facts, "memory")

    def _restates_proof(self, facts: Facts) -> bool:
        return facts.actor.kind is Emitter.OPERATOR and bool(self.memory.proof)

    def _made(self, view: View, facts: Facts) -> Durable:
        made = distilled(view, self.source_memory_ids, self.memory, self.loss_note)
        bodies = [body for _, body in memories(view, self.source_memory_ids)]
        crystallized = all(isinstance(body, Durable) and body.crystallized for body in bodies)
        # What is part of the identity stays so where nothing is said anew; other words have to cross that wall again.
        same = made.kind is MemoryKind.IDENTITY_SEAM and any(_same_words(made, body) for body in bodies)
        stays = crystallized and (same or facts.actor.kind is Emitter.OPERATOR)
        update: dict[str, object] = {"crystallized": stays}
        if self._restates_proof(facts):
            update |= {"anchor_refs": self.memory.anchor_refs, "evidence_refs": self.memory.evidence_refs}
        return made.model_copy(update=update)

    def _origin(self, view: View, facts: Facts) -> Origin:
        # An operator who names the proof anew also says anew where the memory comes from; nobody else can narrow that.
        kept = [] if self._restates_proof(facts) else memories(view, self.source_memory_ids)
        return made_of(view, facts, self.memory, kept)


class ValuePayload(Strict):
    """A value that rests on the new identity."""

    value_id: Id
    label: Text120
    priority: Score = 0.5
    summary: Text1000 | None = None


class NotePayload(Strict):
    """A private note on the new identity."""

    note_id: Id
    text: Text4000


class CrystallizeMemoryIntoIdentity(Operation):
    """Make what lasting memories show, again and again, a part of who you are.

    The memory has the kind identity_seam, and its own anchors name messages of at least two people. A value and a
    private note can go with it. It is refused if no source is a lasting memory at least a day old, if it rests only
    on what members told you to be, and if there are 24 values or notes already.
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset({Emitter.SLEEP, Emitter.OPERATOR})
    operation: Literal["crystallize_memory_into_identity"] = "crystallize_memory_into_identity"
    source_memory_ids: Sources
    memory: DurablePayload
    value: ValuePayload | None = None
    private_note: NotePayload | None = None
    reason: Reason

    def needs(self) -> Needs:
        """Return the sources, what rests on them, holders of the new ids, and what the thought names."""
        profile = keys("value", (each for each in (self._value_id, self._note_id) if each is not None))
        return Needs(
            entries=keys("durable", (self.memory.memory_id, *self.source_memory_ids)) | profile,
            live=frozenset({"value", "note"}),
            counted=frozenset({"value", "note", "durable"}),
        ).joined(self.memory.named)

    def rewrites(self) -> tuple[Key, ...]:
        """Return the sources, and the value if there is one already."""
        value = () if self.value is None else (key("value", self.value.value_id),)
        return (*(key("durable", each) for each in self.source_memory_ids), *value)

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether the sources are live, the ids free, and the thought names what is there."""
        refused = sources_or(view, facts, self.source_memory_ids, self.memory, "memory")
        if refused is None and self._value_id is not None:
            there = view.holder("value", self._value_id)
            if there is not None and not (there.live and there.type == "value"):
                refused = free_or(view, "value", self._value_id, "value.valueId")
        if refused is None and self._note_id is not None:
            refused = free_or(view, "note", self._note_id, "privateNote.noteId") or once_or(
                (self._note_id, self._value_id or ""), "privateNote.noteId"
            )
        return refused

    def check(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether it is an identity, ripe, of more than one person's making, and fits."""
        if self.memory.kind is not MemoryKind.IDENTITY_SEAM:
            return Rejected(RejectionCode.CRYSTALLIZE_WRONG_KIND, "memory.kind", "only an identity_seam can be")
        lasting = [entry for entry, body in memories(view, self.source_memory_ids) if isinstance(body, Durable)]
        if not lasting:
            return Rejected(RejectionCode.CRYSTALLIZE_WRONG_KIND, "sourceMemoryIds", "name a lasting memory")
        if all(entry.created_at > facts.now - RIPE_AFTER for entry in lasting):
            return Rejected(RejectionCode.BAD_TRANSITION, "sourceMemoryIds", "is younger than a day")
        made = distilled(view, self.source_memory_ids, self.memory, None)
        return (
            meaning_or(self.memory, made, facts, "memory")
            or self._witnesses_or(facts)
            or self._caps_or(view, facts, self._origin(view, facts))
        )

    def apply(self, view: View, facts: Facts) -> str:
        """Let the identity stand in the place of its sources, with its value and its note."""
        made, where = distilled(view, self.source_memory_ids, self.memory, None), self._origin(view, facts)
        made, id_ = made.model_copy(update={"crystallized": True}), self.memory.memory_id
        supersede(view, facts, id_, made, self.source_memory_ids, self.reason, where)
        _move_support(view, facts, self.source_memory_ids, id_)
        if self.value is not None:
            fields = {name: getattr(self.value, name) for name in ("label", "priority", "summary")}
            write(view, self.value.value_id, Value(support_memory_id=id_, **fields), facts, where)
        if self.private_note is not None:
            note = Note(text=self.private_note.text, reason=self.reason, support_memory_id=id_)
            write(view, self.private_note.note_id, note, facts, where)
        return "crystallized"

    def _witnesses_or(self, facts: Facts) -> Rejected | None:
        if facts.actor.kind is Emitter.OPERATOR:
            return None
        people: set[PersonId] = set()
        for anchor in self.memory.proof:
            message = message_of(anchor.ref)
            fact = None if message is None else facts.messages.get(message)
            if fact is not None and fact.author_id is not None and not fact.own:
                people.add(fact.author_id)
        if len(people) < LEAST_WITNESSES:
            return Rejected(RejectionCode.UNTRUSTED_IDENTITY, "memory.anchorRefs", "name messages of two people")
        return None

    def _caps_or(self, view: View, facts: Facts, where: Origin) -> Rejected | None:
        new_value = self._value_id is not None and view.find("value", self._value_id) is None
        return (
            cap_or(view, "durable", where[0], facts, "memory")
            or (cap_or(view, "value", where[0], facts, "value") if new_value else None)
            or (cap_or(view, "note", where[0], facts, "privateNote") if self._note_id is not None else None)
        )

    def _origin(self, view: View, facts: Facts) -> Origin:
        return made_of(view, facts, self.memory, memories(view, self.source_memory_ids))

    @property
    def _value_id(self) -> Id | None:
        return None if self.value is None else self.value.value_id

    @property
    def _note_id(self) -> Id | None:
        return None if self.private_note is None else self.private_note.note_id


def _move_support(view: View, facts: Facts, old: Sequence[Id], new: Id) -> None:
    """Let values and notes that rested on the old memories rest on the new one."""
    for entry in (*view.live("value"), *view.live("note")):
        if isinstance(entry.body, Value | Note) and entry.body.support_memory_id in old:
            view.put(entry.changed(facts.now, entry.body.model_copy(update={"support_memory_id": new})))


def _same_words(one: Thought, other: Thought) -> bool:
    return (one.summary, one.claim, one.question) == (other.summary, other.claim, other.question)
