"""Vectors of units: the model that made them, what is stored, and where one may look."""

import hashlib
import math
import re
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


def storage_key(model: EmbeddingModel) -> str:
    """Return a name for the model's vectors that every store takes: small letters, digits and `_`, at most 46.

    It does not hold the dimension; two models never share one, however alike their names are.
    """
    readable = re.sub(r"[^a-z0-9]+", "_", model.name.lower()).strip("_")[:36].rstrip("_")
    return f"{readable}_{hashlib.sha256(model.name.encode()).hexdigest()[:8]}".lstrip("_")


def normalised(vector: Vector, model: EmbeddingModel) -> Vector:
    """Return the vector at length one.

    Raises:
        ValueError: Another dimension than the model's, no direction, or a number that is not finite.
    """
    if len(vector) != model.dimension:
        raise ValueError(f"vector: has {len(vector)} numbers, {model.name} has {model.dimension}")
    length = math.hypot(*vector)
    if not math.isfinite(length):
        raise ValueError("vector: holds a number that is not finite")
    if length == 0:
        raise ValueError("vector: is all zeros, which has no direction")
    return vector if abs(length - 1) < 1e-4 else tuple(number / length for number in vector)
