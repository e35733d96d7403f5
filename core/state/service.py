"""The single writer of self-state: a batch of operations becomes rows of the journal and entries, in one transaction.

The caller owns the transaction, and locks no product row and no purse before it. No model and no network is asked here.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from core.domain.mind.codes import Accepted, Rejected, RejectionCode, Verdict
from core.domain.mind.entries import WHOLE, Entry, Key, canonical, entry_hash, hash_of, image_of
from core.domain.mind.facts import Facts, facts_image
from core.domain.operations.base import Operation
from core.domain.operations.batch import Batch, BatchVerdict, Item, Mode, Recorded, Refused
from core.domain.operations.fold import Change, fold
from core.domain.operations.keeping import UndoOperation
from core.state.loading import Loaded, Loader, keys_of_anchor
from core.state.redaction import redact_before
from core.state.undoing import marks_after
from core.store import journal, state
from core.store.engine import Tx
from core.store.journal import ACCEPTED, REJECTED, JournalRow, Touched
from core.store.mind_facts import AudienceGroups
from core.store.state import Mind


@dataclass(frozen=True, slots=True)
class _Decided:
    """One item with its verdict, what it changed and the facts for its row. `item` None: it has a row already."""

    recorded: Recorded
    item: Item | Refused | None = None
    changes: tuple[Change, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    cites: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StateService:
    """What applying needs; one for the process."""

    loader: Loader

    async def apply(self, tx: Tx, batch: Batch) -> BatchVerdict:
        """Journal every operation of a batch, accepted or refused, and let what was accepted stand.

        Raises:
            TimedOut: Another writer holds the mind for too long; nothing was written.
        """
        mind = await state.lock_mind(tx, batch.mind_id)
        loaded, decided = await self._decide(tx, mind, batch)
        fresh = [each for each in decided if each.item is not None]
        if fresh:
            await _write(tx, mind, batch, loaded, fresh)
        return BatchVerdict(tuple(each.recorded for each in decided))

    async def preview(self, tx: Tx, batch: Batch) -> tuple[BatchVerdict, tuple[Change, ...]]:
        """Return what would become of a batch now, and what it would change; nothing is written, nobody waits."""
        mind = await state.find_mind(tx, batch.mind_id)
        if mind is None:
            mind = Mind(batch.mind_id, 0, 0, 0, False, await state.now(tx))
        _, decided = await self._decide(tx, mind, batch)
        changes = tuple(change for each in decided for change in each.changes)
        return BatchVerdict(tuple(each.recorded for each in decided)), changes

    async def _decide(self, tx: Tx, mind: Mind, batch: Batch) -> tuple[Loaded, list[_Decided]]:
        earlier = await journal.find_decided(tx, mind.id, [item.key for item in batch.items])
        fresh = [item for item in batch.items if isinstance(item, Item) and item.key not in earlier]
        loaded = await self.loader.load(tx, mind, batch, [item.operation for item in fresh])
        seen = {
            # What an erasure has redacted is known again by its key alone.
            key: (None if row.redacted_by is not None else row.payload_hash, Recorded(row.seq, verdict_of(row), True))
            for key, row in earlier.items()
        }
        decided: list[_Decided] = []
        spent = Counter(loaded.facts.spent)
        seq = mind.last_seq
        for item in batch.items:
            if item.key in seen:
                decided.append(_Decided(_again(item, *seen[item.key])))
                continue
            seq += 1
            one = _judge(item, loaded, replace(loaded.facts, seq=seq, spent=dict(spent)))
            spent.update(one.facts.get("spends", {}))
            decided.append(one)
            seen[item.key] = (payload_hash(item), replace(one.recorded, again=True))
        refused = any(isinstance(each.recorded.verdict, Rejected) for each in decided)
        if batch.mode is Mode.ALL and refused:
            loaded.view.back(0)
            decided = [_refused_with_others(each) for each in decided]
        return loaded, decided


def open_minds() -> StateService:
    """Return a service; one for the process."""
    return StateService(loader=Loader(groups=AudienceGroups()))


def payload_of(item: Item | Refused) -> dict[str, Any]:
    """Return what the journal keeps of a proposal: the operation as it stands on the wire; of no operation its name."""
    if isinstance(item, Refused):
        return {"operation": item.name} if item.name else {}
    return item.operation.model_dump(mode="json", exclude_none=True)


def payload_hash(item: Item | Refused) -> bytes:
    """Return the hash by which the same proposal is known again."""
    return hashlib.sha256(canonical(payload_of(item))).digest()


def verdict_of(row: JournalRow) -> Verdict:
    """Return the verdict that a row records."""
    if row.accepted:
        return Accepted(row.effect, tuple(each.key.id for each in row.touched))
    return Rejected(RejectionCode(row.code), row.path)


def _again(item: Item | Refused, hash_: bytes | None, recorded: Recorded) -> Recorded:
    if hash_ is None or hash_ == payload_hash(item):
        return recorded
    return Recorded(recorded.seq, Rejected(RejectionCode.DUPLICATE_OPERATION, "", "the key stands for another one"))


def _judge(item: Item | Refused, loaded: Loaded, facts: Facts) -> _Decided:
    if isinstance(item, Refused):
        return _Decided(Recorded(facts.seq, item.verdict), item)
    needs = item.operation.needs()
    spends = item.operation.spends(loaded.view) if needs.limits else {}
    verdict, changes = fold(item.operation, loaded.view, facts, item.expect)
    image = facts_image(facts, needs, loaded.rooms)
    if spends and isinstance(verdict, Accepted):
        image["spends"] = spends
    return _Decided(Recorded(facts.seq, verdict), item, tuple(changes), image, _cites(item.operation))


def _cites(operation: Operation) -> tuple[str, ...]:
    """Return what a payload names, as rows list it: entries by key, proof by its place."""
    needs = operation.needs()
    keys = set(needs.entries).union(*(keys_of_anchor(anchor) for anchor in needs.anchors))
    named = {journal.name_of(key) for key in keys} | {anchor.place for anchor in needs.anchors}
    return tuple(sorted(named | {f"message:{id_}" for id_ in needs.messages}))


def _refused_with_others(each: _Decided) -> _Decided:
    if isinstance(each.recorded.verdict, Rejected) or each.recorded.again:
        return each
    refusal = Rejected(RejectionCode.BATCH_REFUSED, "", "another operation of the batch was refused")
    return replace(each, recorded=replace(each.recorded, verdict=refusal), changes=())


async def _write(tx: Tx, mind: Mind, batch: Batch, loaded: Loaded, decided: Sequence[_Decided]) -> None:
    last: dict[Key, int | None] = dict(loaded.last_seqs)
    hashes: dict[Key, int] = {}
    final: dict[Key, tuple[Entry, int, int]] = {}
    rows: list[JournalRow] = []
    for each in decided:
        row = _row(batch, mind, each, last, hashes)
        for (_, after), touched in zip(each.changes, row.touched, strict=True):
            final[after.key] = (after, touched.after_hash, row.seq)
        rows.append(row)
    total = sum((row.delta for row in rows), mind.state_hash) % WHOLE
    await journal.append(tx, mind, rows)
    await state.save(tx, mind, list(final.values()))
    await state.close(tx, mind, rows[-1].seq, total)
    for each, row in zip(decided, rows, strict=True):
        if row.accepted and isinstance(each.item, Item):
            await _follow(tx, mind, each.item.operation, loaded, row)


async def _follow(tx: Tx, mind: Mind, operation: Operation, loaded: Loaded, row: JournalRow) -> None:
    """Mark in the journal what an undo has undone, and take from it the words that are to be nowhere."""
    if isinstance(operation, UndoOperation):
        undone = await journal.list_rows(tx, mind.id, loaded.facts.undo[operation.seq].seqs)
        marks = await marks_after(tx, mind.id, undone, row.seq)
        for mark in sorted(set(marks.values()), key=lambda mark: mark or 0):
            await journal.mark_undone(tx, mind.id, [seq for seq, each in marks.items() if each == mark], mark)
    elif row.effect in ("voided", "erased", "scrubbed"):
        await redact_before(tx, mind.id, row, operation, loaded.facts)


def _row(batch: Batch, mind: Mind, each: _Decided, last: dict[Key, int | None], hashes: dict[Key, int]) -> JournalRow:
    if each.item is None:
        raise AssertionError("what was decided before has a row")
    touched: list[Touched] = []
    delta = 0
    for before, after in each.changes:
        image = image_of(after)
        after_hash = hash_of(image)
        before_hash = 0 if before is None else hashes.get(after.key) or entry_hash(before)
        touched.append(Touched(after.key, last.get(after.key), after_hash, image))
        delta += after_hash - before_hash
        last[after.key], hashes[after.key] = each.recorded.seq, after_hash
    verdict = each.recorded.verdict
    accepted = verdict if isinstance(verdict, Accepted) else None
    rejected = verdict if isinstance(verdict, Rejected) else None
    return JournalRow(
        seq=each.recorded.seq,
        op=each.item.operation.operation if isinstance(each.item, Item) else each.item.name,
        payload=payload_of(each.item),
        facts=each.facts,
        actor=batch.actor,
        key=each.item.key,
        payload_hash=payload_hash(each.item),
        verdict=REJECTED if accepted is None else ACCEPTED,
        code="" if rejected is None else rejected.code.value,
        path="" if rejected is None else rejected.path,
        effect="" if accepted is None else accepted.effect,
        touched=tuple(touched),
        cites=each.cites,
        delta=delta % WHOLE,
        at=mind.now,
    )
