"""Thoughts as operations carry them: with times that are read and then ignored, and how two become one. Pure."""

from collections.abc import Iterable
from typing import Any

from core.domain.mind.bodies import Durable, ShortTerm
from core.domain.mind.codes import Rejected, RejectionCode
from core.domain.mind.entries import Entry
from core.domain.mind.facts import Facts, Needs
from core.domain.mind.values import MOST_REFS, MOST_TAGS, MOST_TOPICS, Anchor, Moment, Thought
from core.domain.mind.view import View
from core.domain.operations.base import ahead_or, anchors_or, target_or

Source = tuple[Entry, ShortTerm | Durable]
"""A memory and its body."""


class Proposed(Thought):
    """A thought as it is proposed. The times must be valid; ours count."""

    created_at: Moment | None = None
    updated_at: Moment | None = None

    @property
    def thought(self) -> dict[str, Any]:
        """The fields of the thought alone, as they are."""
        return {name: getattr(self, name) for name in Thought.model_fields}

    @property
    def named(self) -> Needs:
        """What the thought names outside the mind, and memories that prove it."""
        return Needs(anchors=self.proof, targets=(self.target,))


def thought_or(proposed: Proposed, view: View, facts: Facts, path: str) -> Rejected | None:
    """Refuse times ahead of the clock, a target that cannot be one, and proof that is none."""
    return (
        ahead_or(facts, f"{path}.createdAt", proposed.created_at, proposed.updated_at)
        or target_or(proposed.target, facts, f"{path}.target")
        or anchors_or(view, proposed.anchor_refs, facts, f"{path}.anchorRefs")
        or anchors_or(view, proposed.evidence_refs, facts, f"{path}.evidenceRefs")
    )


def once_or(ids: Iterable[str], path: str) -> Rejected | None:
    """Refuse a list that names an entry twice."""
    every = list(ids)
    if len(set(every)) < len(every):
        return Rejected(RejectionCode.CONTRADICTION, path, "names one twice")
    return None


def memories_or(view: View, ids: Iterable[str], path: str) -> Rejected | None:
    """Refuse an id that is no live note of the day and no live lasting memory."""
    for id_ in ids:
        entry = view.holder("durable", id_)
        if entry is None or entry.type not in ("short_term", "durable"):
            return Rejected(RejectionCode.UNKNOWN_REFERENCE, path, "is no memory that is there")
        if not entry.live:
            return Rejected(RejectionCode.NOT_LIVE, path, "memory is over")
    return None


def memories(view: View, ids: Iterable[str]) -> list[Source]:
    """Return the memories with these ids and their bodies, in order."""
    found = (view.holder("durable", id_) for id_ in ids)
    return [(entry, entry.body) for entry in found if entry is not None and isinstance(entry.body, ShortTerm | Durable)]


def joined_anchors(first: Iterable[Anchor], second: Iterable[Anchor]) -> tuple[Anchor, ...]:
    """Return all anchors once by ref, as `first` has them where both do, cut where the list is full."""
    every: dict[str, Anchor] = {}
    for anchor in (*first, *second):
        every.setdefault(anchor.ref, anchor)
    return tuple(every.values())[:MOST_REFS]


def joined_topics(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    """Return all topics once, `first` before `second`, cut where the list is full."""
    return tuple(dict.fromkeys((*first, *second)))[:MOST_TOPICS]


def joined_tags(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    """Return all tags once, `first` before `second`, cut where the list is full."""
    return tuple(dict.fromkeys((*first, *second)))[:MOST_TAGS]
