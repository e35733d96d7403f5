"""Whether a new note of the day says what a live one says: it is appended, merged into one, or revises its own. Pure.

The scales are fixed by the labelled pairs in `tests/data/cluster_pairs.jsonl`. All rules are symmetric, so two notes
come together in whichever order they arrive.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache

from core.domain.mind.facts import Similarity
from core.domain.mind.values import TargetKind, Thought

GRAM_CHARS = 4
BOOKKEEPING = (
    "anchor:",
    "evidence:",
    "cluster:",
    "repo:",
    "topic:",
    "normalized:",
    "retired:",
    "source_pressure:",
    "source_ref:",
    "safety:",
    "infringement:",
    "moderation:",
    "pass:",
)
"""Tags that begin so say nothing about the matter."""


@dataclass(frozen=True, slots=True)
class Scale:
    """What a score means, by how it was measured.

    Below `unrelated` and without a shared anchor nothing merges; from `related` on texts speak of the same matter; for
    notes on one topic of one thing, which are alike anyway, `joined` says so instead; from `near` on they are one
    thought in other words; from `same` on there is nothing new.
    """

    unrelated: float
    related: float
    joined: float
    near: float
    same: float


EMBEDDED = Scale(unrelated=0.20, related=0.40, joined=0.70, near=0.80, same=0.95)
"""For the cosine of two embeddings."""
LETTERS = Scale(unrelated=0.06, related=0.16, joined=0.15, near=0.50, same=0.85)
"""For the share of common 4-grams, where there is no embedder."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """How alike two texts are, and on which scale that is read."""

    score: float
    scale: Scale

    @property
    def unrelated(self) -> bool:
        """Whether they speak of different things."""
        return self.score < self.scale.unrelated

    @property
    def related(self) -> bool:
        """Whether they speak of the same matter."""
        return self.score >= self.scale.related

    @property
    def near(self) -> bool:
        """Whether they are one thought in other words."""
        return self.score >= self.scale.near

    @property
    def same(self) -> bool:
        """Whether one says nothing that the other does not."""
        return self.score >= self.scale.same

    @property
    def height(self) -> float:
        """The score as a share of `same`, so that two scales can be compared."""
        return self.score / self.scale.same


class Rule(StrEnum):
    """By which rule two notes are one, the surest first. Stored values never change."""

    TARGET_AND_TOPIC = "r1"
    TARGET_AND_TAGS = "r2"
    TOPIC_AND_REPO = "r3"
    TWO_TOPICS = "r4"
    TARGET_AND_WORDS = "r5"
    ANCHOR_AND_WORDS = "r6"


@dataclass(frozen=True, slots=True)
class Noted:
    """A note as it is compared. `group`: the audience group of its rooms. `touched_at`: when it last changed."""

    id: str
    thought: Thought
    group: frozenset[str]
    touched_at: datetime


@dataclass(frozen=True, slots=True)
class Append:
    """It is a matter of its own."""


@dataclass(frozen=True, slots=True)
class Merge:
    """It is the matter of the note `id`."""

    id: str
    rule: Rule
    likeness: Likeness


@dataclass(frozen=True, slots=True)
class Revise:
    """It restates the note of its own id."""

    id: str


Decision = Append | Merge | Revise
Measure = Callable[[Noted, Noted], Likeness]


def cluster(incoming: Noted, live: Iterable[Noted], measure: Measure) -> Decision:
    """Return what becomes of a note among the live ones.

    Of several that it could be merged into, the one by the surest rule, then the most alike, then the newest.
    """
    found: list[tuple[Rule, float, float, str, Likeness]] = []
    for other in live:
        if other.id == incoming.id:
            return Revise(other.id)
        likeness = measure(incoming, other)
        rule = _rule(incoming, other, likeness)
        if rule is not None:
            found.append((rule, -likeness.height, -other.touched_at.timestamp(), other.id, likeness))
    if not found:
        return Append()
    rule, _, _, id_, likeness = min(found, key=lambda each: each[:4])
    return Merge(id_, rule, likeness)


def measured(similarity: Similarity) -> Measure:
    """Return how notes are compared: by the scores that an embedder gave, by letters where it gave none.

    A pair can be without a score although there is an embedder: the older note was written after the scores were
    computed. Letters then decide on their own scale, for a missing score is no sign that two texts differ.
    """

    def measure(new: Noted, old: Noted) -> Likeness:
        return likeness_of(similarity, (new.id, old.id), new.thought.point, old.thought.point)

    return measure


def likeness_of(similarity: Similarity, pair: tuple[str, str], new: str, *old: str) -> Likeness:
    """Return how alike two texts are: the score of `pair`; without one, the letters of `new` in the best of `old`."""
    score = similarity.scores.get(pair) if similarity.model else None
    if score is not None:
        return Likeness(score, EMBEDDED)
    return Likeness(max((letters(new, each) for each in old), default=0.0), LETTERS)


def letters(one: str, other: str) -> float:
    """Return the share of common character 4-grams, 0 to 1, without regard to case and white space."""
    first, second = _grams(one), _grams(other)
    return len(first & second) / len(first | second) if first | second else 1.0


@lru_cache(maxsize=1024)
def _grams(text: str) -> frozenset[str]:
    plain = " ".join(text.casefold().split())
    return frozenset(plain[at : at + GRAM_CHARS] for at in range(max(1, len(plain) - GRAM_CHARS + 1)) if plain)


def _rule(one: Noted, other: Noted, likeness: Likeness) -> Rule | None:
    new, old = one.thought, other.thought
    topics, anchors = set(new.topics) & set(old.topics), _places(new) & _places(old)
    apart = bool(new.topics and old.topics) and not topics and not anchors and not likeness.same
    if one.group != other.group or apart or (likeness.unrelated and not anchors):
        return None
    same_target = new.target.key == old.target.key
    if same_target and topics and (anchors or _joined(new, old, likeness)):
        return Rule.TARGET_AND_TOPIC
    if same_target and len(_ordinary(new) & _ordinary(old)) >= 2 and likeness.related:
        return Rule.TARGET_AND_TAGS
    if likeness.related or anchors:
        if topics and not same_target and _repo(new) is not None and _repo(new) == _repo(old):
            return Rule.TOPIC_AND_REPO
        if len(topics) >= 2:
            return Rule.TWO_TOPICS
    if likeness.near and same_target:
        return Rule.TARGET_AND_WORDS
    return Rule.ANCHOR_AND_WORDS if likeness.near and anchors else None


def _joined(one: Thought, other: Thought, likeness: Likeness) -> bool:
    """Return whether two notes on one topic of one thing speak of the same matter.

    An embedder puts two faults of one part close together; whether they share words tells them apart.
    """
    if likeness.score >= likeness.scale.joined:
        return True
    return likeness.scale is EMBEDDED and likeness.related and letters(one.point, other.point) >= LETTERS.joined


def _places(thought: Thought) -> set[str]:
    return {anchor.place for anchor in thought.anchor_refs}


def _ordinary(thought: Thought) -> set[str]:
    return {tag for tag in thought.tags if not tag.startswith(BOOKKEEPING)}


def _repo(thought: Thought) -> str | None:
    about = thought.target.id if thought.target.kind is TargetKind.REPO else None
    repo = thought.repo or about
    return None if repo is None else repo.casefold()
