"""Taking words out of the journal: what a row said of an entry whose words were voided, erased or scrubbed."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from core.domain.mind.entries import WHOLE, Key, hash_of
from core.domain.operations.base import Operation
from core.domain.operations.keeping import ErasePerson, VoidSource
from core.store import journal
from core.store.engine import Tx
from core.store.journal import JournalRow, Touched


async def redact_before(tx: Tx, mind_id: str, row: JournalRow, operation: Operation) -> None:
    """Redact the rows before `row` that carry words of the entries it took words from, and what names them.

    Images become empty bodies, their hashes and the differences of their rows are made anew: the sum of all
    differences stays what it was.
    """
    keys = {each.key for each in row.touched}
    rows = {each.seq: each for each in await journal.list_touching(tx, mind_id, row.seq, keys)}
    if isinstance(operation, VoidSource):
        rows |= {each.seq: each for each in await journal.list_refused(tx, mind_id, row.seq, operation.refs)}
    if isinstance(operation, ErasePerson):
        refused = await journal.list_refused_of(tx, mind_id, row.seq, operation.person_id, operation.refs)
        rows |= {each.seq: each for each in refused}
    redacted = [_redacted(each, keys, row.seq) for each in rows.values()]
    hashes = {(each.seq, touched.key): touched.after_hash for each in redacted for touched in each.touched}
    summed = [_summed(each, rows.get(each.seq, each), hashes, rows) for each in redacted]
    last = _summed(row, row, hashes, rows)
    await journal.redact(tx, mind_id, [*summed, last])


def _redacted(row: JournalRow, keys: Iterable[Key], by: int) -> JournalRow:
    touched = tuple(_wordless(each) if each.key in keys else each for each in row.touched)
    return replace(row, payload={"operation": row.op, "erased": True}, touched=touched, redacted_by=by)


def _wordless(touched: Touched) -> Touched:
    kind_type: str = touched.after["body"]["type"]
    image: dict[str, Any] = touched.after | {"body": {"type": kind_type, "scrubbed": True}, "people": []}
    return replace(touched, after=image, after_hash=hash_of(image))


def _summed(
    row: JournalRow, before: JournalRow, hashes: Mapping[tuple[int, Key], int], rows: Mapping[int, JournalRow]
) -> JournalRow:
    """Return the row with the difference that its new images and the new images before them make."""
    delta = row.delta
    for now, was in zip(row.touched, before.touched, strict=True):
        delta += now.after_hash - was.after_hash
        if was.prev_seq is not None and (was.prev_seq, was.key) in hashes:
            old = next(each.after_hash for each in rows[was.prev_seq].touched if each.key == was.key)
            delta += old - hashes[was.prev_seq, was.key]
    return replace(row, delta=delta % WHOLE)
