"""An answer of sleep on the scales: what it would make of the mind, and whether that keeps what there was."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import mul

from core.chat.likening import Likening
from core.domain.conserving import Breach, breaches
from core.domain.distilling import compared, part_id, parts
from core.domain.mind.bodies import Durable
from core.domain.mind.codes import Rejected, RejectionCode
from core.domain.mind.entries import Entry, Key
from core.domain.mind.facts import Similarity
from core.domain.mind.values import EntryId, Thought
from core.domain.operations.base import keys
from core.domain.operations.batch import Batch, BatchVerdict, Item
from core.domain.operations.distillation import ApplyMemoryDistillation, DurablePayload, ProposeMemoryDistillation
from core.domain.operations.fold import Change
from core.domain.operations.identity import CrystallizeMemoryIntoIdentity, ReviseDurableMemory
from core.passes.screening import Piece, accepted
from core.state.service import StateService
from core.store import state
from core.store.engine import Tx

_BESIDE = ("short_term", "proposal", "thread", "pressure_item", "candidate", "value", "note", "mood")
"""Types of which everything live is held against what is left of it; lasting memories are, as far as they change."""
CARRIED_OUT = ":apply"
"""How the key ends of what code adds to a proposal."""
Made = tuple[DurablePayload, tuple[EntryId, ...]]
"""A lasting memory that is proposed, and what it is made of."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """What a batch would come to. `broken`: how it breaks the law of conservation, were it to stand.

    `added`: the places of what code has added to it.
    """

    verdict: BatchVerdict
    added: frozenset[int]
    broken: tuple[Breach, ...] = ()

    @property
    def refused(self) -> tuple[tuple[int, Rejected], ...]:
        """The pieces that are refused for themselves, by place: not with the others, nor with what they carry out."""
        verdicts = [each.verdict for each in self.verdict.items]
        return tuple(
            (n, verdict)
            for n, verdict in enumerate(verdicts)
            if isinstance(verdict, Rejected)
            and verdict.code is not RejectionCode.BATCH_REFUSED
            and not (n in self.added and isinstance(verdicts[n - 1], Rejected))
        )


def carried_out(items: Sequence[Piece]) -> tuple[Piece, ...]:
    """Return the pieces, each proposed distillation with its carrying out behind it: that is code's to propose."""
    found: list[Piece] = []
    for item in items:
        found.append(item)
        operation = item.operation if isinstance(item, Item) else None
        if isinstance(item, Item) and isinstance(operation, ProposeMemoryDistillation):
            carrying_out = ApplyMemoryDistillation(
                proposal_id=operation.proposal_id,
                source_memory_ids=operation.source_memory_ids,
                memory=operation.candidate,
                loss_note=operation.loss_note,
            )
            found.append(Item(carrying_out, f"{item.key}{CARRIED_OUT}", item.expect))
    return tuple(found)


async def weigh(minds: StateService, tx: Tx, batch: Batch, given: frozenset[EntryId], *, must: bool) -> Weighed:
    """Return what a batch would come to, without writing anything. The caller holds the mind.

    `given`: the notes that it was to deal with; `must`: all of them.
    """
    verdict, changes = await minds.preview(tx, batch)
    added = frozenset(n for n, item in enumerate(batch.items) if item.key.endswith(CARRIED_OUT))
    if len(verdict.accepted) < len(batch.items):
        return Weighed(verdict, added)
    before = {held.entry.key: held.entry for held in await state.list_live(tx, batch.mind_id, _BESIDE)}
    after = dict(before)
    for key, was, now in _outcomes(changes):
        if was is not None:
            before[key] = was
        after[key] = now
    stand = accepted(batch.items, verdict)
    return Weighed(verdict, added, breaches(before.values(), after.values(), stand, given, must_consume=must))


async def read_sources(tx: Tx, mind_id: str, items: Sequence[Piece]) -> dict[EntryId, Thought]:
    """Return the memories that the proposed ones are made of."""
    ids = {id_ for _, sources in _made(items) for id_ in sources}
    held = await state.load_entries(tx, mind_id, keys("durable", ids)) if ids else []
    return {each.entry.id: each.entry.body for each in held if isinstance(each.entry.body, Thought)}


async def compare(likening: Likening, items: Sequence[Piece], sources: dict[EntryId, Thought]) -> Similarity:
    """Return how much of its sources each proposed memory says, by an embedder; empty where there is none."""
    pairs: dict[tuple[str, str], tuple[str, str]] = {}
    for memory, ids in _made(items):
        text = compared(Durable(kind=memory.kind, **memory.thought))
        for id_ in ids:
            for part, said in parts(sources[id_]).items() if id_ in sources else ():
                pairs[memory.memory_id, part_id(id_, part)] = (text, said)
    if not pairs:
        return Similarity()
    found = await likening.vectors({text for pair in pairs.values() for text in pair})
    if found is None:
        return Similarity()
    model, vectors = found
    return Similarity(model, {name: sum(map(mul, vectors[a], vectors[b])) for name, (a, b) in pairs.items()})


def _made(items: Iterable[Piece]) -> list[Made]:
    found: list[Made] = []
    for item in items:
        match item.operation if isinstance(item, Item) else None:
            case ProposeMemoryDistillation(candidate=memory, source_memory_ids=ids):
                found.append((memory, ids))
            case (
                ReviseDurableMemory(memory=memory, source_memory_ids=ids)
                | CrystallizeMemoryIntoIdentity(memory=memory, source_memory_ids=ids)
            ):
                found.append((memory, ids))
    return found


def _outcomes(changes: Iterable[Change]) -> list[tuple[Key, Entry | None, Entry]]:
    """Return each changed entry as it was before all changes and as it is after them."""
    first: dict[Key, Entry | None] = {}
    last: dict[Key, Entry] = {}
    for was, now in changes:
        first.setdefault(now.key, was)
        last[now.key] = now
    return [(key, first[key], now) for key, now in last.items()]
