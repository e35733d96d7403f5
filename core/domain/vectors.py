"""Vectors of units: the model that made them, what is stored, and where one may look."""

from dataclasses import dataclass
from datetime import datetime
from typing import NewType

from core.domain.ids import CommunityId, MessageId, PersonId, RoomId

UnitId = NewType("UnitId", int)
Vector = tuple[float, ...]
"""A direction: finite numbers of length one, as an embedder returns them."""


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """Which model made a vector, and how many numbers it has. Vectors of two models are never compared."""

    name: str
    dimension: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorRow:
    """One unit's vector with what it is filtered by. `unit_hash`: of the text that was embedded."""

    unit_id: UnitId
    community_id: CommunityId
    room_id: RoomId
    message_id: MessageId | None
    author_id: PersonId | None
    sent_at: datetime
    kind: str
    unit_hash: str
    vector: Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorScope:
    """Where to look: within one community, and only in these rooms; no rooms, no hits.

    `authors` and `kinds` empty: any. `since` is inside, `until` outside.
    """

    community_id: CommunityId
    rooms: frozenset[RoomId]
    authors: frozenset[PersonId] = frozenset()
    since: datetime | None = None
    until: datetime | None = None
    kinds: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorsOf:
    """What to delete: of these units, or everything of a message, a room, a person or a community."""

    community_id: CommunityId
    units: frozenset[UnitId] | None = None
    message_id: MessageId | None = None
    room_id: RoomId | None = None
    author_id: PersonId | None = None


@dataclass(frozen=True, slots=True)
class VectorHit:
    """A unit with its likeness to the question, -1 to 1. `unit_hash`: of the text that the vector was made from."""

    unit_id: UnitId
    score: float
    unit_hash: str
