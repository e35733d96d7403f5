"""What undoing an operation would undo: the later ones that rest on it, and what each entry was before."""

from collections.abc import Iterable

from core.domain.mind.bodies import Scrubbed
from core.domain.mind.codes import Rejected, RejectionCode
from core.domain.mind.entries import Entry, Key
from core.domain.mind.facts import UndoFacts
from core.domain.operations.keeping import NOT_UNDOABLE, UNDO
from core.store import journal
from core.store.engine import Tx
from core.store.journal import JournalRow


async def undo_facts(tx: Tx, mind_id: str, seq: int) -> UndoFacts:
    """Return what undoing the row `seq` would undo, or why it cannot be."""
    row = await journal.find_row(tx, mind_id, seq)
    if row is None or not row.accepted:
        return UndoFacts(refused=Rejected(RejectionCode.UNKNOWN_REFERENCE, "seq", "is no accepted operation"))
    if row.undone_by is not None:
        return UndoFacts(refused=Rejected(RejectionCode.NOT_LIVE, "seq", f"was undone by {row.undone_by}"))
    rows = await _with_dependents(tx, mind_id, row)
    seqs = tuple(each.seq for each in rows)
    firm = [each for each in rows if each.op in NOT_UNDOABLE or each.effect == "scrubbed"]
    if firm:
        return UndoFacts(seqs=seqs, refused=Rejected(RejectionCode.NOT_UNDOABLE, "seq", f"{firm[0].op} stays"))
    if any(each.redacted_by is not None for each in rows):
        return UndoFacts(seqs=seqs, refused=Rejected(RejectionCode.UNDO_REDACTED, "seq", "an erasure took its words"))
    before = await _before(tx, mind_id, rows)
    if any(entry is not None and isinstance(entry.body, Scrubbed) for entry in before.values()):
        return UndoFacts(seqs=seqs, refused=Rejected(RejectionCode.UNDO_REDACTED, "seq", "an erasure took its words"))
    return UndoFacts(seqs=seqs, before=before)


async def marks_after(tx: Tx, mind_id: str, rows: Iterable[JournalRow], by: int) -> dict[int, int | None]:
    """Return by which row each row is undone once `by` has undone these; None: it stands.

    What an undo had undone stands again when the undo itself falls, and falls again when that is undone in its turn.
    """
    marks: dict[int, int | None] = {}
    # Newest first: an undo falls before what it had undone may fall for itself.
    open_ = [(row, by) for row in sorted(rows, key=lambda row: row.seq)]
    while open_:
        row, mark = open_.pop()
        marks[row.seq] = mark or None
        if row.op == UNDO:
            others = await journal.list_rows(tx, mind_id, journal.undone_by(row))
            open_ += [(each, 0 if mark else row.seq) for each in others]
    return marks


async def _with_dependents(tx: Tx, mind_id: str, row: JournalRow) -> list[JournalRow]:
    """Return the row and every later one that rests on it, newest first.

    An undo that undid only later rows cancels with them, and neither counts. One that goes along brings back what it
    had undone; of that goes along what rests on any of these rows.
    """
    found, back = {row.seq: row}, dict[int, JournalRow]()
    open_ = [row]
    while open_:
        one = open_.pop()
        keys = [each.key for each in one.touched]
        later = await journal.list_later(tx, mind_id, one.seq, keys)
        later += [each for each in back.values() if each.seq > one.seq and _rests_on(each, keys)]
        new = [each for each in later if each.seq not in found and not _cancels(each, row.seq)]
        found |= {each.seq: each for each in new}
        open_ += new
        if any(each.op == UNDO for each in new):
            marks = await marks_after(tx, mind_id, found.values(), -1)
            standing = [seq for seq, mark in marks.items() if mark is None and seq > row.seq]
            back = {each.seq: each for each in await journal.list_rows(tx, mind_id, standing)}
            open_ = list(found.values())
    return [found[seq] for seq in sorted(found, reverse=True)]


def _rests_on(row: JournalRow, keys: Iterable[Key]) -> bool:
    names = {journal.name_of(key) for key in keys}
    return not names.isdisjoint(row.cites) or not names.isdisjoint(journal.name_of(each.key) for each in row.touched)


def _cancels(row: JournalRow, seq: int) -> bool:
    return row.op == UNDO and min(journal.undone_by(row), default=0) > seq


async def _before(tx: Tx, mind_id: str, rows: Iterable[JournalRow]) -> dict[Key, Entry | None]:
    """Return what each entry that these rows touched was before the first of them."""
    earliest: dict[Key, int | None] = {}
    for row in rows:  # newest first: the last word is the earliest row's
        earliest |= {each.key: each.prev_seq for each in row.touched}
    wanted = {seq for seq in earliest.values() if seq is not None}
    images = {
        (row.seq, each.key): each.entry for row in await journal.list_rows(tx, mind_id, wanted) for each in row.touched
    }
    return {key: None if seq is None else images[seq, key] for key, seq in earliest.items()}
