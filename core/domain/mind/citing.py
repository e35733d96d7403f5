"""What an entry rests on: the refs that its body names, in one list. Pure."""

from collections.abc import Iterator

from core.domain.mind.bodies import (
    Body,
    Case,
    Durable,
    Kind,
    Note,
    PressureItem,
    Proposal,
    Scrubbed,
    ShortTerm,
    Thoughtful,
    Thread,
    Value,
)
from core.domain.mind.entries import Entry
from core.domain.mind.speech import Candidate, Receipt
from core.domain.mind.values import Anchor

_WORDS = {
    Kind.MEMORY: "memory",
    Kind.PRESSURE: "memory",
    Kind.RECEIPTS: "receipt",
    Kind.CANDIDATES: "candidate",
    Kind.PROFILE: "profile",
    Kind.CURSOR: "cursor",
    Kind.RUNTIME: "runtime",
}
"""The first word of the ref by which other entries name one of a kind."""


def ref_of(entry: Entry) -> str:
    """Return the ref by which other entries name this one."""
    return f"{_WORDS[entry.kind]}:{entry.id}"


def cites_of(body: Body) -> frozenset[str]:
    """Return the refs that a body rests on: `message:<id>`, `source:<repo>/<path>`, `memory:<id>` and the like."""
    return frozenset(_cites(body))


def anchors_of(body: Body) -> tuple[Anchor, ...]:
    """Return the anchors of a body, those of what it said before among them."""
    if not isinstance(body, Thoughtful):
        return body.candidate.proof if isinstance(body, Proposal) else ()
    earlier = body.revisions if isinstance(body, ShortTerm) else ()
    return (*body.proof, *(anchor for revision in earlier for anchor in revision.anchor_refs))


def _cites(body: Body) -> Iterator[str]:
    if isinstance(body, Scrubbed):
        return
    yield from (anchor.place for anchor in anchors_of(body))
    match body:
        case Durable() | PressureItem():
            yield from (f"memory:{id_}" for id_ in body.source_memory_ids)
        case Thread():
            yield from (f"memory:{id_}" for id_ in body.support_memory_ids)
        case Proposal():
            yield from (f"memory:{id_}" for id_ in body.sources)
        case Value() | Note():
            if body.support_memory_id is not None:
                yield f"memory:{body.support_memory_id}"
        case Candidate():
            yield from (f"memory:{id_}" for id_ in body.source_memory_ids)
            if body.source_pressure_id is not None:
                yield f"memory:{body.source_pressure_id}"
            if body.receipt_id is not None:
                yield f"receipt:{body.receipt_id}"
        case Case():
            yield f"message:{body.source_message_id}"
        case Receipt():
            if body.intervention_id is not None:
                yield f"candidate:{body.intervention_id}"
