"""Taking words out of the journal: what a row said of an entry whose words were voided, erased or scrubbed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from core.domain.ids import PersonId
from core.domain.mind.bodies import Kind
from core.domain.mind.citing import anchors_of, cites_of, ref_of
from core.domain.mind.codes import worded
from core.domain.mind.entries import WHOLE, Key, hash_of
from core.domain.mind.facts import Facts, quote_key
from core.domain.operations.base import Operation
from core.domain.operations.keeping import ErasePerson, VoidCause, VoidSource
from core.store import journal, mind_traces
from core.store.engine import Tx
from core.store.journal import JournalRow, Touched

REDACTED = "redacted"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loss:
    """What went. `keys`: entries that were changed for it; `kept`: quotes that still stand; `rows`: to go unread."""

    keys: frozenset[Key]
    gone: frozenset[str]
    kept: frozenset[str]
    edited: bool
    person: PersonId | None
    rows: frozenset[int]

    def takes(self, touched: Touched) -> bool:
        """Return whether an image of an entry that stands otherwise now rests on what went."""
        if touched.after["body"].get("scrubbed"):
            return False
        if self.person is not None and self.person in touched.after["people"]:
            return True
        body = touched.entry.body
        anchors = anchors_of(body)
        lost = {a.place for a in anchors if quote_key(a) not in self.kept}
        return bool(((cites_of(body) - {a.place for a in anchors}) | lost) & self.gone)


async def redact_before(tx: Tx, mind_id: str, row: JournalRow, operation: Operation, facts: Facts) -> None:
    """Redact the rows before `row` that carry words of the entries it took words from, and what names them.

    So too rows that were refused, undone or replaced: what rested on what went stands in no entry any more, yet in
    them. Images become empty bodies, their hashes and the differences of their rows are made anew: the sum of all
    differences stays what it was.
    """
    loss = _loss(row, operation, facts)
    resting = {each.seq: each for each in await _resting(tx, mind_id, row, operation, loss)}
    # What the mind runs by says nothing of anybody, and is touched by thousands of rows.
    also = {t.key for each in resting.values() for t in each.touched if t.key.kind is not Kind.RUNTIME} - loss.keys
    rows = {each.seq: each for each in await journal.list_touching(tx, mind_id, row.seq, loss.keys | also)}
    last = {touched.key: seq for seq, each in sorted(rows.items()) for touched in each.touched}
    rows |= resting
    redacted = {seq: _redacted(each, loss, seq in resting, last, row.seq) for seq, each in rows.items()}
    hashes = {(seq, touched.key): touched.after_hash for seq, each in redacted.items() for touched in each.touched}
    summed = [_summed(redacted[seq], each, hashes, rows) for seq, each in rows.items()]
    changed = [each for each in summed if each != rows[each.seq]]
    await journal.redact(tx, mind_id, [*changed, _summed(row, row, hashes, rows)])


def _loss(row: JournalRow, operation: Operation, facts: Facts) -> _Loss:
    refs = operation.refs if isinstance(operation, VoidSource | ErasePerson) else ()
    edited = isinstance(operation, VoidSource) and operation.cause is VoidCause.EDITED
    empty = [each for each in row.touched if each.after["body"].get("scrubbed")]
    return _Loss(
        keys=frozenset(each.key for each in row.touched),
        gone=frozenset(refs) | {ref_of(each.entry) for each in empty},
        kept=facts.surviving if edited else frozenset(),
        edited=edited,
        person=PersonId(operation.person_id) if isinstance(operation, ErasePerson) else None,
        rows=frozenset(operation.rows) if isinstance(operation, ErasePerson) else frozenset(),
    )


async def _resting(tx: Tx, mind_id: str, row: JournalRow, operation: Operation, loss: _Loss) -> list[JournalRow]:
    if not isinstance(operation, VoidSource | ErasePerson):
        return []
    empty = {journal.name_of(each.key) for each in row.touched if each.after["body"].get("scrubbed")}
    found = await mind_traces.list_resting(tx, mind_id, row.seq, loss.gone | empty)
    if loss.person is not None:
        found += await mind_traces.list_of_person(tx, mind_id, row.seq, loss.person)
        found += await journal.list_rows(tx, mind_id, loss.rows)
    return found


def _redacted(row: JournalRow, loss: _Loss, resting: bool, last: Mapping[Key, int], by: int) -> JournalRow:
    def image(each: Touched) -> Touched:
        # The last image of an entry that was not changed is the entry as it stands.
        old = last.get(each.key) != row.seq and (row.seq in loss.rows or loss.takes(each))
        return _wordless(each) if each.key in loss.keys or old else each

    touched = tuple(map(image, row.touched))
    carries = touched != row.touched or any(each.key in loss.keys for each in row.touched)
    if not carries and not (resting and not (loss.edited and row.accepted)):
        return row
    return replace(row, payload={"operation": row.op, "erased": True}, touched=touched, redacted_by=by)


def _wordless(touched: Touched) -> Touched:
    kind_type: str = touched.after["body"]["type"]
    image: dict[str, Any] = touched.after | {"body": {"type": kind_type, "scrubbed": True}, "people": []}
    if "retired" in image and worded(image["retired"]["reason"]):
        image["retired"] = image["retired"] | {"reason": REDACTED}
    return replace(touched, after=image, after_hash=hash_of(image))


def _summed(
    row: JournalRow, before: JournalRow, hashes: Mapping[tuple[int, Key], int], rows: Mapping[int, JournalRow]
) -> JournalRow:
    """Return the row with the difference that its new images and the new images before them make."""
    delta = row.delta
    for now, was in zip(row.touched, before.touched, strict=True):
        delta += now.after_hash - was.after_hash
        if was.prev_seq is not None and (was.prev_seq, was.key) in hashes:
            delta += _hash_in(rows[was.prev_seq].touched, was.key) - hashes[was.prev_seq, was.key]
    return replace(row, delta=delta % WHOLE)


def _hash_in(touched: Iterable[Touched], key: Key) -> int:
    return next(each.after_hash for each in touched if each.key == key)
