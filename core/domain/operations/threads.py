"""The operation on threads: a thought that ripens takes in more support."""

from typing import Any, ClassVar, Literal

from core.domain.mind.bodies import Thread, ThreadStatus
from core.domain.mind.codes import Rejected, RejectionCode
from core.domain.mind.entries import Entry, Key
from core.domain.mind.facts import Emitter, Facts, Needs
from core.domain.mind.values import (
    MOST_SUPPORT,
    Anchors,
    Id,
    Moment,
    Score,
    Strict,
    Supports,
    Tags,
    Target,
    Text120,
    Text128,
    Text2000,
    Text4000,
    Topics,
)
from core.domain.mind.view import View
from core.domain.operations.base import (
    Operation,
    Origin,
    ahead_or,
    anchors_or,
    cap_or,
    key,
    keys,
    origin,
    resting_on,
    retire,
    target_or,
    write,
)
from core.domain.operations.thoughts import joined_anchors, joined_tags, joined_topics, memories, once_or
from core.domain.operations.walls import meaning_wall

_TEXTS = ("target", "topic", "summary", "claim", "question", "tension", "action_implication", "repo")
_MEASURES = ("novelty_to_room", "novelty_to_self", "desire_to_speak", "status")


class ThreadPayload(Strict):
    """A thread, or what is to be added to one. The times must be valid; ours count."""

    thread_id: Id
    topic: Text120 | None = None
    target: Target | None = None
    summary: Text4000 | None = None
    claim: Text2000 | None = None
    question: Text2000 | None = None
    tension: Text2000 | None = None
    action_implication: Text2000 | None = None
    topics: Topics = ()
    repo: Text128 | None = None
    anchor_refs: Anchors = ()
    evidence_refs: Anchors = ()
    anchors_missing: bool = False
    tags: Tags = ()
    support_memory_ids: Supports = ()
    maturation: Score = 0.0
    novelty_to_room: Score | None = None
    novelty_to_self: Score | None = None
    desire_to_speak: Score | None = None
    status: ThreadStatus | None = None
    created_at: Moment | None = None
    updated_at: Moment | None = None


class MergeIncubationSupport(Operation):
    """Begin a thread that ripens over days, or add to one what has come up since.

    A new thread needs target, topic, summary, claim or question, tension, actionImplication and proof. For one that is
    there, name its threadId and what is new: supports and anchors are added to those it has, a text that you give
    takes the place of the old one. It is refused for supports that are not there, for a thread that is over, and if
    there are 64 threads.
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset({Emitter.RUMINATION, Emitter.SLEEP, Emitter.OPERATOR})
    union: ClassVar[bool] = True
    operation: Literal["merge_incubation_support"] = "merge_incubation_support"
    thread: ThreadPayload

    def needs(self) -> Needs:
        """Return the thread, its supports, and what it names."""
        return Needs(
            entries=keys("thread", (self.thread.thread_id, *self.thread.support_memory_ids)),
            counted=frozenset({"thread"}),
            anchors=(*self.thread.anchor_refs, *self.thread.evidence_refs),
            targets=() if self.thread.target is None else (self.thread.target,),
        )

    def rewrites(self) -> tuple[Key, ...]:
        """Return the thread."""
        return (key("thread", self.thread.thread_id),)

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether thread and supports can be named, and the thought names what is there."""
        new = self.thread
        return (
            ahead_or(facts, "thread.createdAt", new.created_at, new.updated_at)
            or self._thread_or(view, facts)
            or once_or(new.support_memory_ids, "thread.supportMemoryIds")
            or self._supports_or(view)
            or (None if new.target is None else target_or(new.target, facts, "thread.target"))
            or anchors_or(view, new.anchor_refs, facts, "thread.anchorRefs")
            or anchors_or(view, new.evidence_refs, facts, "thread.evidenceRefs")
        )

    def check(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether it means something, and whether there is room for one more if it is one more."""
        new, there = self.thread, view.find("thread", self.thread.thread_id)
        if there is None:
            for name in ("target", "topic", "summary"):
                if getattr(new, name) is None:
                    return Rejected(RejectionCode.MISSING_FIELD, f"thread.{name}", "a new thread needs it")
        if new.anchors_missing and (new.anchor_refs or new.evidence_refs):
            return Rejected(RejectionCode.CONTRADICTION, "thread.anchorsMissing", "anchors are given")
        if len(self._supports(there)) > MOST_SUPPORT:
            return Rejected(RejectionCode.TOO_MANY, "thread.supportMemoryIds", f"has more than {MOST_SUPPORT} in all")
        refused = meaning_wall(self._body(there), facts, "thread")
        if refused is not None or there is not None:
            return refused
        return cap_or(view, "thread", self._made_of(view, facts)[0], facts, "thread")

    def apply(self, view: View, facts: Facts) -> str:
        """Add to the thread, or begin it; one that is retired becomes a tombstone."""
        there = view.find("thread", self.thread.thread_id)
        effect = write(view, self.thread.thread_id, self._body(there), facts, self._made_of(view, facts))
        entry = view.find("thread", self.thread.thread_id)
        if entry is not None and self.thread.status is ThreadStatus.RETIRED:
            retire(view, entry, facts, "thread retired")
            return "retired"
        return effect

    def _thread_or(self, view: View, facts: Facts) -> Rejected | None:
        there = view.holder("thread", self.thread.thread_id)
        if there is None:
            return None
        # A model that hits upon the id of a thread which its readers may not know must not change that thread.
        foreign = facts.actor.kind.model and facts.group(there.sources) != facts.group(self._made_of(view, facts)[0])
        if there.type != "thread" or foreign:
            return Rejected(RejectionCode.ID_TAKEN, "thread.threadId", "is the id of another entry, or was")
        if not there.live:
            return Rejected(RejectionCode.NOT_LIVE, "thread.threadId", "thread is over")
        return None

    def _supports_or(self, view: View) -> Rejected | None:
        if len(memories(view, self.thread.support_memory_ids)) < len(self.thread.support_memory_ids):
            return Rejected(RejectionCode.UNKNOWN_REFERENCE, "thread.supportMemoryIds", "is no memory that is there")
        return None

    def _supports(self, there: Entry | None) -> tuple[Id, ...]:
        old = there.body.support_memory_ids if there is not None and isinstance(there.body, Thread) else ()
        return tuple(dict.fromkeys((*old, *self.thread.support_memory_ids)))

    def _body(self, there: Entry | None) -> Thread:
        new = self.thread
        old = there.body if there is not None and isinstance(there.body, Thread) else None
        fields: dict[str, Any] = {} if old is None else {name: getattr(old, name) for name in Thread.model_fields}
        given = {name: getattr(new, name) for name in (*_TEXTS, *_MEASURES)}
        fields |= {name: value for name, value in given.items() if value is not None}
        anchors = joined_anchors(new.anchor_refs, () if old is None else old.anchor_refs)
        evidence = joined_anchors(new.evidence_refs, () if old is None else old.evidence_refs)
        missing = new.anchors_missing or (old is not None and old.anchors_missing)
        fields |= {
            "anchor_refs": anchors,
            "evidence_refs": evidence,
            "anchors_missing": missing and not anchors and not evidence,
            "topics": joined_topics(new.topics, () if old is None else old.topics),
            "tags": joined_tags(new.tags, () if old is None else old.tags),
            "support_memory_ids": self._supports(there),
            "maturation": max(new.maturation, 0.0 if old is None else old.maturation),
            "needs_review": old is not None and old.needs_review and not (new.anchor_refs or new.evidence_refs),
        }
        return Thread(**fields)

    def _made_of(self, view: View, facts: Facts) -> Origin:
        anchors = (*self.thread.anchor_refs, *self.thread.evidence_refs)
        supports = [entry for entry, _ in memories(view, self.thread.support_memory_ids)]
        return origin(facts, anchors, (*supports, *resting_on(view, anchors)), self.thread.target)
