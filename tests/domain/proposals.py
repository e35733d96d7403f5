"""Operations on memories as models propose them, and the situations that they are proposed in."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from core.domain.mind.bodies import CAPS, Proposal, ProposalState
from core.domain.mind.codes import Accepted
from core.domain.mind.entries import Entry
from core.domain.mind.facts import Emitter
from core.domain.operations.distillation import ApplyMemoryDistillation, ProposeMemoryDistillation
from core.domain.operations.identity import CrystallizeMemoryIntoIdentity, ReviseDurableMemory
from core.domain.operations.memories import PruneShortTermMemories, RecordShortTermMemory, RetireDurableMemory
from core.domain.operations.threads import MergeIncubationSupport
from tests.domain.minds import (
    ELSEWHERE,
    NOW,
    ROOM,
    anchor,
    applied,
    make_durable,
    make_facts,
    make_short_term,
    make_thread,
    make_view,
    read,
    said,
    thought,
)

WHY = "the stops question was answered by Ana"
NOTE = "Left out: how Bo counts the stops, which no longer matters."
PROVEN = (*said(100, 101), anchor("evidence:trace-1"))
SLOGAN = {"summary": "Maps matter.", "claim": "All maps should be good.", "tension": "Or not."}
VALUE = {"valueId": "value:new", "label": "ask first"}
TEXT = {"noteId": "note:new", "text": "I asked."}
HERE = frozenset({ROOM})
IDENTITY: dict[str, Any] = {
    "kind": "identity_seam",
    "target": {"kind": "self", "id": "void"},
    "summary": "Void asks before it concludes.",
    "claim": "Ana and Bo both saw Void ask which stops to show before it drew the map.",
    "anchor_refs": PROVEN,
}


def memory(id_: str = "durable:new", kind: str = "project_seam", **more: Any) -> dict[str, Any]:
    """A memory as it is on the wire."""
    return {"memoryId": id_, "kind": kind, **thought(**more)}


def record(**more: Any) -> RecordShortTermMemory:
    """A note of the day, by default on a matter of its own."""
    own = {"id_": "seam:new", "kind": "room_observation", "target": {"kind": "room", "id": "7"}}
    text = {"summary": "The kiln in the shed wants new bricks.", "claim": "Two bricks cracked in the last firing."}
    return read(RecordShortTermMemory, memory=memory(**(own | text | more)))


def prune(*ids: str, reason: str = WHY) -> PruneShortTermMemories:
    """A pruning."""
    return read(PruneShortTermMemories, source_memory_ids=ids or ("seam:routes",), reason=reason)


def retire(id_: str = "durable:routes") -> RetireDurableMemory:
    """A retirement."""
    return read(RetireDurableMemory, memory_id=id_, reason=WHY)


def propose(*ids: str, note: str | None = None, proposal: str = "proposal:1", **more: Any) -> ProposeMemoryDistillation:
    """A proposal to distil."""
    sources = ids or ("seam:routes",)
    fields = {"proposal_id": proposal, "source_memory_ids": sources, "candidate": memory(**more), "loss_note": note}
    return read(ProposeMemoryDistillation, **fields)


def carry_out(*ids: str, note: str | None = None, **more: Any) -> ApplyMemoryDistillation:
    """The distillation of `propose`."""
    sources = ids or ("seam:routes",)
    fields = {"proposal_id": "proposal:1", "source_memory_ids": sources, "memory": memory(**more), "loss_note": note}
    return read(ApplyMemoryDistillation, **fields)


def revise(*ids: str, note: str | None = None, **more: Any) -> ReviseDurableMemory:
    """A revision."""
    sources = ids or ("durable:routes",)
    return read(
        ReviseDurableMemory, source_memory_ids=sources, memory=memory(**more), reason=WHY, loss_note=note
    )  # fmt: skip


def crystallize(
    *ids: str, value: Mapping[str, Any] | None = None, note: Mapping[str, Any] | None = None, **more: Any
) -> CrystallizeMemoryIntoIdentity:
    """A crystallisation."""
    fields = {"source_memory_ids": ids or ("durable:routes",), "memory": memory(**(IDENTITY | more)), "reason": WHY}
    return read(CrystallizeMemoryIntoIdentity, **fields, value=value, private_note=note)


def support(**more: Any) -> MergeIncubationSupport:
    """Support for a thread: a new one, unless the id says otherwise."""
    fields = {"thread_id": "thread:new", "topic": "stops", "support_memory_ids": ("seam:routes",)}
    return read(MergeIncubationSupport, thread=fields | thought(**more))


def more_for(**more: Any) -> MergeIncubationSupport:
    """An addition to the thread that is there, and nothing but it."""
    return read(MergeIncubationSupport, thread={"thread_id": "thread:routes"} | more)


def proposed(age: float = 1, *, versions: int = 1, state: str = "proposed") -> Entry:
    """The proposal of `propose` as it was stored `age` hours ago."""
    view = make_view(make_short_term())
    assert isinstance(applied(propose(), view, make_facts(Emitter.SLEEP)), Accepted)
    entry = view.find("proposal", "proposal:1")
    assert entry is not None and isinstance(entry.body, Proposal)
    expires, where = NOW + timedelta(hours=24 - age), {"seam:routes": versions}
    body = entry.body.model_copy(update={"sources": where, "state": ProposalState(state), "expires_at": expires})
    return entry.changed(NOW, body)


def there() -> tuple[Entry, ...]:
    """A note, a memory, a thread, and a tombstone of each."""
    return (
        make_short_term(),
        make_short_term("seam:over", retired="pruned"),
        make_durable(),
        make_durable("durable:over", retired="revised"),
        make_thread(),
        make_thread("thread:over", retired="thread retired"),
        make_short_term("seam:elsewhere", sources=(ELSEWHERE,)),
        make_thread("thread:elsewhere", sources=(ELSEWHERE,)),
    )


def full(type_: str, make: Any, **more: Any) -> tuple[Entry, ...]:
    """As many entries of a type as a room can have."""
    return tuple(make(f"{type_}:{n}", **more) for n in range(CAPS[type_]))
