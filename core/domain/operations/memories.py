"""Operations on notes of the day, and on lasting memories that are to go."""

from typing import Annotated, Any, ClassVar, Literal, assert_never

from pydantic import Field

from core.domain.clustering import Append, Decision, Merge, Noted, Revise, cluster, measured
from core.domain.mind.bodies import MOST_REVISIONS, Revision, ShortTerm, Touch, Value
from core.domain.mind.codes import Rejected, RejectionCode
from core.domain.mind.entries import Entry, Key
from core.domain.mind.facts import Emitter, Facts, Needs
from core.domain.mind.values import Id, MemoryKind, Reason
from core.domain.mind.view import View
from core.domain.operations.base import (
    Operation,
    Origin,
    cap_or,
    key,
    keys,
    live_or,
    new_entry,
    origin,
    resting_on,
    retire,
)
from core.domain.operations.thoughts import Proposed, joined_anchors, joined_tags, joined_topics, once_or, thought_or
from core.domain.operations.walls import instruction_wall, meaning_wall, reason_wall


class ShortTermPayload(Proposed):
    """A note of the day as it is proposed."""

    memory_id: Id
    kind: MemoryKind


class RecordShortTermMemory(Operation):
    """Note down one thing that came up: what it is about, a claim or question, the tension in it, and what follows.

    Name the messages that prove it in anchorRefs, or set anchorsMissing. A note on a matter that is there already is
    merged into that one; with the id of a live note it restates that note. It is refused without claim or question,
    tension, actionImplication or proof, with proof that you were not shown, and if the room has 48 notes.
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset({Emitter.CHAT, Emitter.RUMINATION, Emitter.OPERATOR})
    operation: Literal["record_short_term_memory"] = "record_short_term_memory"
    memory: ShortTermPayload

    def needs(self) -> Needs:
        """Return the holder of its id, every live note to compare with, and what the thought names."""
        return Needs(
            entries=frozenset({self._key}), live=frozenset({"short_term"}), counted=frozenset({"short_term"})
        ).joined(self.memory.named)

    def rewrites(self) -> tuple[Key, ...]:
        """Return the note that it restates, if there is one."""
        return (self._key,)

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether the id is free or names a note that it may restate, and the thought names what is there."""
        there = view.holder("short_term", self.memory.memory_id)
        if there is not None and not self._restates(there, view, facts):
            return Rejected(RejectionCode.ID_TAKEN, "memory.memoryId", "is the id of another entry, or was")
        return thought_or(self.memory, view, facts, "memory")

    def check(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether it means something, and whether there is room for one more if it is one more."""
        walls = meaning_wall(self.memory, facts, "memory") or instruction_wall(
            self.memory, self.memory.kind, facts, "memory"
        )
        if walls is not None or not isinstance(self.decision(view, facts), Append):
            return walls
        return cap_or(view, "short_term", self._made_of(view, facts)[0], facts, "memory")

    def decision(self, view: View, facts: Facts) -> Decision:
        """Return whether it is appended, merged, or restates its own."""
        note = Noted(self.memory.memory_id, self.memory, facts.group(self._made_of(view, facts)[0]), facts.now)
        live = (
            Noted(entry.id, entry.body, facts.group(entry.sources), entry.updated_at)
            for entry in view.live("short_term")
            if isinstance(entry.body, ShortTerm)
        )
        return cluster(note, live, measured(facts.similarity))

    def apply(self, view: View, facts: Facts) -> str:
        """Append it, or put it into the note that it belongs to; a merge names its rule."""
        decision = self.decision(view, facts)
        match decision:
            case Append():
                body = ShortTerm(kind=self.memory.kind, **self.memory.thought)
                view.put(new_entry(self.memory.memory_id, body, facts, self._made_of(view, facts)))
                return "appended"
            case Merge(id_, rule, likeness):
                touch = self._put(view, facts, id_, same=likeness.same)
                return f"{touch.value}:{rule.value}"
            case Revise(id_):
                return self._put(view, facts, id_, restated=True).value
            case _:
                assert_never(decision)

    def _put(self, view: View, facts: Facts, id_: str, *, same: bool = False, restated: bool = False) -> Touch:
        entry = view.find("short_term", id_)
        if entry is None or not isinstance(entry.body, ShortTerm):
            raise LookupError(f"{id_}: is no note")
        known = {anchor.ref for anchor in entry.body.proof}
        repeated = same and all(anchor.ref in known for anchor in self.memory.proof)
        touch = Touch.REPLACED if restated else Touch.REPEATED if repeated else Touch.DEEPENED
        rooms, people = self._made_of(view, facts)
        view.put(
            entry.changed(facts.now, _touched(entry.body, self.memory, touch, facts), sources=rooms, people=people)
        )
        return touch

    def _restates(self, there: Entry, view: View, facts: Facts) -> bool:
        if not there.live or not isinstance(there.body, ShortTerm):
            return False
        same_readers = facts.group(there.sources) == facts.group(self._made_of(view, facts)[0])
        # A model that hits upon the id of a note which its readers may not know must not change that note.
        return there.body.target.kind is self.memory.target.kind and (same_readers or not facts.actor.kind.model)

    def _made_of(self, view: View, facts: Facts) -> Origin:
        return origin(facts, self.memory.proof, resting_on(view, self.memory.proof), self.memory.target)

    @property
    def _key(self) -> Key:
        return key("short_term", self.memory.memory_id)


class PruneShortTermMemories(Operation):
    """Let notes of the day go that are worth no lasting memory.

    The reason must say what makes these notes go. It is refused for notes that are not live, for one named twice, and
    for a reason that would fit any note, such as "no longer needed".
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset({Emitter.SLEEP, Emitter.OPERATOR})
    operation: Literal["prune_short_term_memories"] = "prune_short_term_memories"
    source_memory_ids: Annotated[tuple[Id, ...], Field(min_length=1, max_length=48)]
    reason: Reason

    def needs(self) -> Needs:
        """Return the notes."""
        return Needs(entries=keys("short_term", self.source_memory_ids))

    def rewrites(self) -> tuple[Key, ...]:
        """Return the notes."""
        return tuple(key("short_term", each) for each in self.source_memory_ids)

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether all are live notes, each named once."""
        return once_or(self.source_memory_ids, "sourceMemoryIds") or live_or(
            view, "short_term", self.source_memory_ids, "sourceMemoryIds"
        )

    def check(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether the reason says something."""
        return reason_wall(self.reason, "reason")

    def apply(self, view: View, facts: Facts) -> str:
        """Make tombstones of them."""
        for id_ in self.source_memory_ids:
            entry = view.find("short_term", id_)
            if entry is not None:
                retire(view, entry, facts, self.reason)
        return "pruned"


class RetireDurableMemory(Operation):
    """Let a lasting memory go that is no longer true or no longer matters.

    It is refused if the memory is not live, and while a live value rests on it; let the value go first.
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset({Emitter.SLEEP, Emitter.UPKEEP, Emitter.OPERATOR})
    operation: Literal["retire_durable_memory"] = "retire_durable_memory"
    memory_id: Id
    reason: Reason

    def needs(self) -> Needs:
        """Return the memory, and the values that could rest on it."""
        return Needs(entries=keys("durable", (self.memory_id,)), live=frozenset({"value"}))

    def rewrites(self) -> tuple[Key, ...]:
        """Return the memory."""
        return (key("durable", self.memory_id),)

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether it is live."""
        return live_or(view, "durable", (self.memory_id,), "memoryId")

    def check(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether no value rests on it."""
        for entry in view.live("value"):
            if isinstance(entry.body, Value) and entry.body.support_memory_id == self.memory_id:
                return Rejected(RejectionCode.STILL_SUPPORTS, "memoryId", "a value rests on it")
        return None

    def apply(self, view: View, facts: Facts) -> str:
        """Make a tombstone of it."""
        entry = view.find("durable", self.memory_id)
        if entry is not None:
            retire(view, entry, facts, self.reason)
        return "retired"


def _touched(old: ShortTerm, new: ShortTermPayload, touch: Touch, facts: Facts) -> ShortTerm:
    """Return the note after one more mention; what it said before is the last of its revisions."""
    before = Revision(
        at=facts.now,
        seq=facts.seq,
        summary=old.summary,
        claim=old.claim,
        question=old.question,
        tension=old.tension,
        action_implication=old.action_implication,
        anchor_refs=old.anchor_refs,
        effect=touch,
    )
    unproven = old.needs_review and (touch is Touch.REPEATED or not new.proof)
    kept: dict[str, Any] = {"revisions": (*old.revisions, before)[-MOST_REVISIONS:], "needs_review": unproven}
    if touch is Touch.REPLACED:
        return ShortTerm(kind=new.kind, support_count=old.support_count, **new.thought, **kept)
    kept |= {
        "support_count": old.support_count + 1,
        "topics": joined_topics(new.topics, old.topics),
        "tags": joined_tags(new.tags, old.tags),
        "anchor_refs": joined_anchors(new.anchor_refs, old.anchor_refs),
        "evidence_refs": joined_anchors(new.evidence_refs, old.evidence_refs),
        "anchors_missing": not (new.proof or old.proof),
        "repo": new.repo or old.repo,
    }
    if touch is Touch.REPEATED:
        return old.model_copy(update=kept)
    return ShortTerm(kind=new.kind, **(new.thought | kept))
