"""An undo before it is carried out, and carrying it out: what goes along, and what becomes of each entry."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from core.domain.errors import InputRejected
from core.domain.mind.codes import Rejected, RejectionCode
from core.domain.mind.entries import Entry
from core.domain.mind.facts import Actor
from core.domain.operations.batch import Batch, Item, Mode, Recorded
from core.domain.operations.keeping import UndoOperation
from core.state.history import Change, changes_of
from core.state.service import StateService
from core.state.undoing import undo_facts
from core.store import journal
from core.store.engine import Tx
from core.store.journal import JournalRow

_WAY_OUT = {
    RejectionCode.UNKNOWN_REFERENCE: "Only what was accepted can be undone",
    RejectionCode.NOT_LIVE: "Undo that undo to have it again",
    RejectionCode.NOT_UNDOABLE: "What was said, read or erased stays, and so does what it rests on",
    RejectionCode.UNDO_REDACTED: "The words that would come back are gone for good",
    RejectionCode.UNDO_HAS_DEPENDENTS: "They go with it, or first",
    RejectionCode.STALE_VERSION: "Something was done in between: look at a new preview",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoPlan:
    """What an undo would do. `rows`: all that it would undo, newest first; the one that is meant comes last.

    `refused`: why it cannot be done, whatever else is undone with it.
    """

    seq: int
    rows: tuple[JournalRow, ...]
    changes: tuple[Change, ...]
    touched: tuple[Entry, ...] = ()
    refused: Rejected | None = None

    @property
    def cascade(self) -> tuple[int, ...]:
        """The later operations that rest on it, newest first."""
        return tuple(row.seq for row in self.rows[:-1])


def way_out(code: RejectionCode) -> str:
    """Return what whoever wanted an undo should know when it is refused."""
    return _WAY_OUT.get(code, "Look at the operations around it")


def read_undo(seq: int, reason: str, cascade: Sequence[int] = ()) -> UndoOperation:
    """Return the operation that undoes a row and these later ones.

    Raises:
        InputRejected: The reason says too little, or there is no such number.
    """
    try:
        return UndoOperation(seq=seq, reason=reason, cascade=tuple(cascade))
    except ValidationError as exc:
        field = exc.errors()[0]["loc"][0]
        wanted = "write in at least 10 characters why" if field == "reason" else "is not the number of an operation"
        raise InputRejected(f"{field}: {wanted}") from exc


async def plan_undo(tx: Tx, service: StateService, mind_id: str, actor: Actor, seq: int, reason: str) -> UndoPlan:
    """Return what undoing a row would do now, with all that rests on it; nothing is written.

    Raises:
        InputRejected: The reason says too little.
    """
    read_undo(seq, reason)
    facts = await undo_facts(tx, mind_id, seq)
    rows = tuple(reversed(await journal.list_rows(tx, mind_id, facts.seqs)))
    if facts.refused is not None:
        return UndoPlan(seq=seq, rows=rows, changes=(), refused=facts.refused)
    operation = read_undo(seq, reason, facts.seqs[:-1])
    verdict, changes = await service.preview(tx, _batch(mind_id, actor, operation, "preview"))
    decided = verdict.items[0].verdict
    return UndoPlan(
        seq=seq,
        rows=rows,
        changes=tuple(changes_of(changes)),
        touched=tuple(entry for pair in changes for entry in pair if entry is not None),
        refused=decided if isinstance(decided, Rejected) else None,
    )


async def carry_out(
    tx: Tx, service: StateService, mind_id: str, actor: Actor, operation: UndoOperation, key: str
) -> Recorded:
    """Undo exactly what was previewed; the verdict is refused if something else rests on it by now."""
    return (await service.apply(tx, _batch(mind_id, actor, operation, key))).items[0]


def _batch(mind_id: str, actor: Actor, operation: UndoOperation, key: str) -> Batch:
    return Batch(mind_id=mind_id, actor=actor, items=(Item(operation, key),), mode=Mode.ALL)
