"""The mind folded anew from its journal: row by row to the same hashes, at any row, with no model and no clock."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from core.domain.mind.bodies import Scrubbed
from core.domain.mind.codes import Rejected
from core.domain.mind.entries import WHOLE, Key, entry_of, hash_of, image_of
from core.domain.mind.facts import facts_of
from core.domain.mind.view import View
from core.domain.operations.base import Operation
from core.domain.operations.catalog import read_operation
from core.domain.operations.fold import fold
from core.state.loading import keys_of_anchor
from core.store import journal, state
from core.store.engine import Tx
from core.store.journal import JournalRow
from core.store.state import Mind

SLICE = 500
"""Rows that are folded in one read."""
INSTALLED = frozenset({"undo_operation", "void_source", "erase_person", "evict_entries"})
"""What these did cannot be done again: later redactions took what they read or weighed. Their images stand in for it.

So do those of rows that were moved here from another database.
"""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first row where the journal and what follows from it part. Images of the entry, or None."""

    seq: int
    what: str
    stored: dict[str, Any] | None = None
    replayed: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A journal folded anew. `difference` None: it gives what is stored."""

    rows: int
    accepted: int
    refused: int
    state_hash: int
    difference: Difference | None


class Replay:
    """A mind that grows row by row."""

    def __init__(self) -> None:
        self.view = View()
        self.hash = 0
        self.hashes: dict[Key, int] = {}
        self.rows = self.accepted = self.refused = 0
        self.emptied = False

    def follow(self, row: JournalRow) -> Difference | None:
        """Fold the row that comes next; return where it parts from what it says, or that it is another one."""
        if row.seq != self.rows + 1:
            return Difference(row.seq, f"follows a gap: row {self.rows + 1} is missing")
        difference = self.take(row)
        self.view.settle()
        return difference

    def take(self, row: JournalRow) -> Difference | None:
        """Fold one row; return where it parts from what the row says."""
        try:
            return self._take(row)
        except (LookupError, TypeError, ValueError, AttributeError):
            # Damaged, or of a release that had another operation; pydantic's errors are among these.
            return Difference(row.seq, "cannot be read by this release")

    def _take(self, row: JournalRow) -> Difference | None:
        self.rows += 1
        if not row.accepted:
            self.refused += 1
            return None
        self.accepted += 1
        mark = self.view.mark()
        operation = self._repeatable(row)
        if operation is not None:
            facts = facts_of(row.facts, row.actor, row.seq)
            verdict, _ = fold(operation, self.view, facts, None)
            if isinstance(verdict, Rejected):
                return Difference(row.seq, f"is refused now: {verdict.code.value}")
            different = self._compare(row, mark)
            if different is not None:
                return different
        else:
            for touched in row.touched:
                if hash_of(touched.after) != touched.after_hash:
                    return Difference(row.seq, "has an image that is not of its hash", touched.after)
                self.view.put(entry_of(touched.after))
        return self._sum(row)

    def _repeatable(self, row: JournalRow) -> Operation | None:
        """Return the operation if it can be judged again; None where its images have to stand in for it."""
        firm = row.op in INSTALLED or row.effect == "scrubbed" or row.redacted_by is not None
        if firm or row.facts.get("moved"):
            return None
        operation = read_operation(json.dumps(row.payload))
        if not self.emptied:
            return operation
        # What an erasure has emptied cannot be judged again; what was decided beside it stands.
        needs = operation.needs()
        keys = set(needs.entries).union(*(keys_of_anchor(anchor) for anchor in needs.anchors))
        named = (self.view.at(key) for key in keys | {each.key for each in row.touched})
        emptied = any(entry is not None and isinstance(entry.body, Scrubbed) for entry in named)
        return None if emptied else operation

    def _compare(self, row: JournalRow, mark: int) -> Difference | None:
        changed = {after.key: after for _, after in self.view.changes(mark)}
        for touched in row.touched:
            after = changed.pop(touched.key, None)
            image = None if after is None else image_of(after)
            if image is None or image != touched.after or hash_of(image) != touched.after_hash:
                return Difference(row.seq, "gives another entry", touched.after, image)
        if changed:
            extra = next(iter(changed.values()))
            return Difference(row.seq, "touches more than it says", None, image_of(extra))
        return None

    def _sum(self, row: JournalRow) -> Difference | None:
        delta = 0
        for touched in row.touched:
            self.emptied = self.emptied or "scrubbed" in touched.after["body"]
            delta += touched.after_hash - self.hashes.get(touched.key, 0)
            self.hashes[touched.key] = touched.after_hash
        if delta % WHOLE != row.delta:
            return Difference(row.seq, "does not add up")
        self.hash = (self.hash + row.delta) % WHOLE
        return None

    def outcome(self, difference: Difference | None) -> Replayed:
        """Return how it went."""
        return Replayed(
            rows=self.rows,
            accepted=self.accepted,
            refused=self.refused,
            state_hash=self.hash,
            difference=difference,
        )


async def fold_rows(rows: AsyncIterator[JournalRow]) -> tuple[Replay, Difference | None]:
    """Fold rows in their order; stop at the first that parts from what it says."""
    replay = Replay()
    async for row in rows:
        difference = replay.follow(row)
        if difference is not None:
            return replay, difference
    return replay, None


async def verify(tx: Tx, mind_id: str, until: int | None = None) -> Replayed:
    """Fold a mind from nothing, and compare what comes with what is stored.

    While others write, the transaction has to see one moment: `state.see_one_moment`.
    """
    mind = await state.find_mind(tx, mind_id)
    if mind is None:
        return Replay().outcome(None)
    last = mind.last_seq if until is None else min(until, mind.last_seq)
    replay, difference = await fold_rows(journal.walk(tx, mind_id, last))
    if difference is None and last == mind.last_seq:
        difference = await _beside(tx, mind, replay)
    return replay.outcome(difference)


class SlicedReplay:
    """A mind folded from nothing in short reads, between which others write: nobody waits, and no snapshot is held.

    If words are taken out of the journal meanwhile, and what was read no longer fits, it begins anew. `rows`: read at
    once.
    """

    def __init__(self, mind_id: str, rows: int = SLICE) -> None:
        self._mind_id = mind_id
        self._rows = rows
        self._replay = Replay()
        self._began: int | None = None

    @property
    def folded(self) -> int:
        """How many rows are folded."""
        return self._replay.rows

    async def go_on(self, tx: Tx) -> Replayed | None:
        """Fold some rows more; return how it went once it is at the end, or where journal and mind part."""
        mind = await state.find_mind(tx, self._mind_id)
        if mind is None:
            return Replay().outcome(None)
        began = self._began = mind.last_seq if self._began is None else self._began
        rows = await journal.list_range(tx, mind.id, self._replay.rows, mind.last_seq, self._rows)
        difference = next((each for row in rows if (each := self._replay.follow(row)) is not None), None)
        if difference is None and self._replay.rows < mind.last_seq:
            return None if rows else self._replay.outcome(Difference(mind.last_seq, "is not there"))
        if difference is None:
            difference = await _beside(tx, mind, self._replay)
            now = await state.find_mind(tx, mind.id)
            if now is None or now.last_seq != mind.last_seq:
                return None  # it was written to while it was compared
        if difference is not None and await journal.is_redacted_after(tx, mind.id, began):
            self._replay, self._began = Replay(), None
            return None
        return self._replay.outcome(difference)


async def _beside(tx: Tx, mind: Mind, replay: Replay) -> Difference | None:
    if replay.hash != mind.state_hash:
        return Difference(mind.last_seq, "is not where the mind stands")
    return await _beside_entries(tx, mind.id, replay)


async def _beside_entries(tx: Tx, mind_id: str, replay: Replay) -> Difference | None:
    stored = {held.entry.key: held for held in await state.list_entries(tx, mind_id)}
    for key, held in stored.items():
        replayed = replay.view.at(key)
        if replayed != held.entry:
            image = None if replayed is None else image_of(replayed)
            return Difference(held.last_seq, "left another entry", image_of(held.entry), image)
    missing = [entry for entry in replay.view.all() if entry.key not in stored]
    return Difference(0, "left an entry that is not there", None, image_of(missing[0])) if missing else None
