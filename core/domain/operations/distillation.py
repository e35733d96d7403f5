"""Operations that make a lasting memory of notes of the day, and what every lasting memory keeps of its sources."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from core.domain.distilling import loss_wall, losses
from core.domain.mind.bodies import Durable, Proposal, ProposalState
from core.domain.mind.codes import Rejected, RejectionCode
from core.domain.mind.entries import Key, Retired
from core.domain.mind.facts import Emitter, Facts, Needs
from core.domain.mind.values import MOST_SUPPORT, Id, LossNote, MemoryKind
from core.domain.mind.view import View
from core.domain.operations.base import (
    Operation,
    Origin,
    cap_or,
    free_or,
    key,
    keys,
    live_or,
    new_entry,
    origin,
    resting_on,
    retire,
)
from core.domain.operations.thoughts import Proposed, Source, joined_anchors, memories, memories_or, once_or, thought_or
from core.domain.operations.walls import instruction_wall, meaning_wall

PROPOSAL_LASTS = timedelta(hours=24)

Sources = Annotated[tuple[Id, ...], Field(min_length=1, max_length=MOST_SUPPORT)]


class DurablePayload(Proposed):
    """A lasting memory as it is proposed."""

    memory_id: Id
    kind: MemoryKind


class ProposeMemoryDistillation(Operation):
    """Propose one lasting memory that says what several notes of the day say.

    Keep what is concrete in them: numbers, names, paths, quoted words. The anchors of the notes are added by
    themselves. If the target changes, or a note's claim and tension, most concrete words or much of the length are
    lost, say in lossNote what was left out and why, or it is refused. It is refused without claim or question,
    tension or actionImplication, and for notes that are not live or have changed since you saw them.
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset({Emitter.SLEEP})
    operation: Literal["propose_memory_distillation"] = "propose_memory_distillation"
    proposal_id: Id
    source_memory_ids: Sources
    candidate: DurablePayload
    loss_note: LossNote | None = None

    def needs(self) -> Needs:
        """Return the sources, the holders of both ids, and what the thought names."""
        ids = (self.proposal_id, self.candidate.memory_id, *self.source_memory_ids)
        return Needs(entries=keys("durable", ids)).joined(self.candidate.named)

    def rewrites(self) -> tuple[Key, ...]:
        """Return the sources: the proposal keeps the versions that its author saw."""
        return tuple(key("durable", each) for each in self.source_memory_ids)

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether the sources are live, the ids free, and the thought names what is there."""
        return (
            once_or((self.proposal_id, self.candidate.memory_id), "proposalId")
            or free_or(view, "proposal", self.proposal_id, "proposalId")
            or sources_or(view, facts, self.source_memory_ids, self.candidate, "candidate")
        )

    def check(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether it means something, and owns up to what it loses."""
        made = distilled(view, self.source_memory_ids, self.candidate, self.loss_note)
        sources = memories(view, self.source_memory_ids)
        return meaning_or(self.candidate, made, facts, "candidate") or loss_or(self.candidate, made, sources, facts)

    def apply(self, view: View, facts: Facts) -> str:
        """Store the proposal; nothing can be recalled from it."""
        sources = memories(view, self.source_memory_ids)
        body = Proposal(
            memory_id=self.candidate.memory_id,
            sources={entry.id: entry.version for entry, _ in sources},
            candidate=distilled(view, self.source_memory_ids, self.candidate, self.loss_note),
            loss_note=self.loss_note,
            proposed_at=facts.now,
            expires_at=facts.now + PROPOSAL_LASTS,
        )
        view.put(new_entry(self.proposal_id, body, facts, made_of(view, facts, self.candidate, sources)))
        return "proposed"


class ApplyMemoryDistillation(Operation):
    """Carry out a distillation that was proposed: the lasting memory stands, and its notes go.

    It is refused if the proposal is over or older than 24 hours, if sources or text differ from it, and if a note has
    changed since.
    """

    emitters: ClassVar[frozenset[Emitter]] = frozenset({Emitter.SLEEP, Emitter.PARENT, Emitter.OPERATOR})
    operation: Literal["apply_memory_distillation"] = "apply_memory_distillation"
    proposal_id: Id
    source_memory_ids: Sources
    memory: DurablePayload
    loss_note: LossNote | None = None

    def needs(self) -> Needs:
        """Return the proposal, its sources, the holder of the new id, and what the thought names."""
        ids = (self.proposal_id, self.memory.memory_id, *self.source_memory_ids)
        return Needs(entries=keys("durable", ids), counted=frozenset({"durable"})).joined(self.memory.named)

    def rewrites(self) -> tuple[Key, ...]:
        """Return the sources."""
        return tuple(key("durable", each) for each in self.source_memory_ids)

    def refer(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether the proposal and its sources are live, unchanged, and the id is free."""
        return self._proposal_or(view, facts) or sources_or(view, facts, self.source_memory_ids, self.memory, "memory")

    def check(self, view: View, facts: Facts) -> Rejected | None:
        """Return whether it is what was proposed, and whether there is room for it."""
        proposal = view.body(view.find("proposal", self.proposal_id), Proposal)
        made = distilled(view, self.source_memory_ids, self.memory, self.loss_note)
        if proposal is None or set(self.source_memory_ids) != set(proposal.sources):
            return Rejected(RejectionCode.PROPOSAL_MISMATCH, "sourceMemoryIds", "are not those that were proposed")
        sources = memories(view, self.source_memory_ids)
        if any(proposal.sources[entry.id] != entry.version for entry, _ in sources):
            return Rejected(RejectionCode.STALE_VERSION, "sourceMemoryIds", "have changed since the proposal")
        if self.memory.memory_id != proposal.memory_id or made != proposal.candidate:
            return Rejected(RejectionCode.PROPOSAL_MISMATCH, "memory", "is not what was proposed")
        rooms, _ = made_of(view, facts, self.memory, sources)
        return meaning_or(self.memory, made, facts, "memory") or cap_or(view, "durable", rooms, facts, "memory")

    def apply(self, view: View, facts: Facts) -> str:
        """Let the memory stand in the place of its sources, and the proposal be done."""
        made = distilled(view, self.source_memory_ids, self.memory, self.loss_note)
        where = made_of(view, facts, self.memory, memories(view, self.source_memory_ids))
        supersede(view, facts, self.memory.memory_id, made, self.source_memory_ids, "distilled", where)
        entry = view.find("proposal", self.proposal_id)
        if entry is not None and isinstance(entry.body, Proposal):
            done = entry.body.model_copy(update={"state": ProposalState.APPLIED})
            over = Retired(facts.now, "applied", self.memory.memory_id)
            view.put(entry.changed(facts.now, done, retired=over))
        return "distilled"

    def _proposal_or(self, view: View, facts: Facts) -> Rejected | None:
        refused = live_or(view, "proposal", (self.proposal_id,), "proposalId")
        if refused is not None:
            return refused
        proposal = view.body(view.find("proposal", self.proposal_id), Proposal)
        if proposal is None or proposal.state is not ProposalState.PROPOSED or proposal.expires_at <= facts.now:
            return Rejected(RejectionCode.NOT_LIVE, "proposalId", "proposal is over")
        return None


def sources_or(view: View, facts: Facts, ids: Sequence[Id], memory: DurablePayload, path: str) -> Rejected | None:
    """Refuse sources that are not live or named twice, an id that is taken, and a thought that names what is not."""
    return (
        once_or(ids, "sourceMemoryIds")
        or memories_or(view, ids, "sourceMemoryIds")
        or free_or(view, "durable", memory.memory_id, f"{path}.memoryId")
        or thought_or(memory, view, facts, path)
    )


def distilled(view: View, ids: Sequence[Id], memory: DurablePayload, loss_note: str | None) -> Durable:
    """Return the memory with the proof of all its sources, that of the newest first, whatever its author left out."""
    newest = sorted(memories(view, ids), key=lambda each: (each[0].updated_at, each[0].id), reverse=True)
    given = {anchor.ref: anchor for anchor in memory.proof}
    anchors = [given.get(anchor.ref, anchor) for _, body in newest for anchor in body.anchor_refs]
    evidence = [given.get(anchor.ref, anchor) for _, body in newest for anchor in body.evidence_refs]
    proof = {
        "anchor_refs": joined_anchors(anchors, memory.anchor_refs),
        "evidence_refs": joined_anchors(evidence, memory.evidence_refs),
    }
    missing = memory.anchors_missing and not any(proof.values())
    fields = memory.thought | proof | {"anchors_missing": missing}
    return Durable(kind=memory.kind, source_memory_ids=tuple(ids), loss_note=loss_note, **fields)


def made_of(view: View, facts: Facts, memory: DurablePayload, sources: Sequence[Source]) -> Origin:
    """Return the rooms and people of a memory: those of its sources, and of what it names itself."""
    entries = [*(entry for entry, _ in sources), *resting_on(view, memory.proof)]
    return origin(facts, memory.proof, entries, memory.target)


def meaning_or(memory: DurablePayload, made: Durable, facts: Facts, path: str) -> Rejected | None:
    """Refuse a memory that means nothing, or takes an order for a trait. `made`: with the proof of its sources."""
    if memory.anchors_missing and memory.proof:
        return Rejected(RejectionCode.CONTRADICTION, f"{path}.anchorsMissing", "anchors are given")
    return meaning_wall(made, facts, path) or instruction_wall(made, made.kind, facts, path)


def loss_or(
    memory: DurablePayload, made: Durable, sources: Sequence[Source], facts: Facts, reason: str | None = None
) -> Rejected | None:
    """Refuse a memory that loses something of its sources and does not say so."""
    lost = losses(memory.memory_id, made, {entry.id: body for entry, body in sources}, facts.similarity)
    return loss_wall(lost, made, made.loss_note, reason, "lossNote")


def supersede(view: View, facts: Facts, id_: Id, made: Durable, ids: Sequence[Id], reason: str, where: Origin) -> None:
    """Put the memory in the place of its sources, which become tombstones that point to it."""
    view.put(new_entry(id_, made, facts, where))
    for entry, _ in memories(view, ids):
        retire(view, entry, facts, reason, superseded_by=id_)
