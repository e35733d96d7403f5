"""A batch: operations proposed together, each with its key and the versions its author saw; and what became of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from core.domain.mind.codes import Rejected, Verdict
from core.domain.mind.facts import Actor, Packet, Similarity
from core.domain.operations.base import Operation

MOST_OPERATIONS = 64
MOST_BYTES = 256 * 1024
MOST_PAYLOAD_BYTES = 32 * 1024
MOST_KEY_CHARS = 200


class Mode(StrEnum):
    """What one refusal does to the others."""

    EACH = "each"
    """The others stand."""
    ALL = "all"
    """All are refused."""


@dataclass(frozen=True, slots=True)
class Item:
    """One proposed operation. `key`: unique for each mind; the same proposal again is not done again.

    `expect`: the version of each entry that its author saw.
    """

    operation: Operation
    key: str
    expect: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refused:
    """A piece that was no operation, or none of those allowed: `name` is what it called itself, if that is a name."""

    verdict: Rejected
    key: str
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Operations of one author on one mind, in order, with what was refused before it became one.

    `similarity`: how alike its new thoughts are to what is there, asked of an embedder before the transaction.
    `echoed`: `speech_hash` of drafts that read the author's prompt out.
    """

    mind_id: str
    actor: Actor
    items: tuple[Item | Refused, ...]
    mode: Mode = Mode.EACH
    packet: Packet | None = None
    similarity: Similarity = field(default_factory=Similarity)
    echoed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Recorded:
    """What became of one item: its row in the journal and its verdict. `again`: it had been decided before."""

    seq: int
    verdict: Verdict
    again: bool = False


@dataclass(frozen=True, slots=True)
class BatchVerdict:
    """What became of a batch, item by item."""

    items: tuple[Recorded, ...]

    @property
    def accepted(self) -> tuple[Recorded, ...]:
        """Those that stand."""
        return tuple(item for item in self.items if not isinstance(item.verdict, Rejected))
