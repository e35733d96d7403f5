"""What `voidbot mind` does beside showing: undo, verify, export, import, pause. The command line itself is above it."""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, ValidationError

from core.domain.errors import InputRejected
from core.domain.ids import MessageId, PersonId, RoomId
from core.domain.mind.codes import Rejected, RejectionCode
from core.domain.mind.facts import Actor, Emitter
from core.domain.relative import relative
from core.state import portable, replay, reversal, telling
from core.state.portable import Mapped
from core.state.reversal import UndoPlan
from core.state.service import open_minds
from core.store import audit, state
from core.store.engine import Database, Tx
from core.store.journal import JournalRow
from core.store.mind_books import MindFigures
from core.store.plans import new_code

EXIT_REFUSED = 1
EXIT_DIFFERS = 3
_OPERATOR = Actor(Emitter.OPERATOR, "command line")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The mind that a command is about, and the time at which it was typed."""

    database: Database
    mind: MindFigures
    now: datetime

    @property
    def tz(self) -> ZoneInfo:
        """The time zone of the mind's first community."""
        return ZoneInfo(self.mind.timezone)

    def when(self, at: datetime) -> str:
        """Return a time as it lies from now."""
        return relative(at, self.now)


class _MapFile(BaseModel):
    """A mapping as it stands in a file: their ids, as JSON's names, to ours."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    rooms: Mapping[int, int] = {}
    people: Mapping[int, int] = {}
    messages: Mapping[int, int] = {}


async def undo(options: argparse.Namespace, chosen: Chosen) -> int:
    """Show what an undo would do, and do it unless it is only to be shown or something stands in its way."""
    service, mind_id = open_minds(), chosen.mind.id
    async with chosen.database.transaction(long=True) as tx:
        if not options.dry_run:
            await state.lock_mind(tx, mind_id)  # what is shown is what is done
        plan = await reversal.plan_undo(tx, service, mind_id, _OPERATOR, options.seq, options.reason)
        refused = plan.refused
        if refused is None and plan.cascade and not options.cascade:
            refused = Rejected(RejectionCode.UNDO_HAS_DEPENDENTS, "seq", "add --cascade to undo them as well")
        row = None
        if refused is None and not options.dry_run:
            operation = reversal.read_undo(options.seq, options.reason, plan.cascade)
            recorded = await reversal.carry_out(tx, service, mind_id, _OPERATOR, operation, f"op:cli:{new_code()}")
            row, refused = recorded.seq, recorded.verdict if isinstance(recorded.verdict, Rejected) else None
            await _note(tx, "mind undo", chosen, {"seq": options.seq, "row": row, "cascade": len(plan.cascade)})
    _tell_undo(options, plan, refused, row)
    return 0 if refused is None or (options.dry_run and plan.refused is None) else EXIT_REFUSED


def _tell_undo(options: argparse.Namespace, plan: UndoPlan, refused: Rejected | None, row: int | None) -> None:
    if options.json:
        told = {
            "seq": plan.seq, "cascade": list(plan.cascade), "row": row,
            "changes": [{"entry": f"{c.type}/{c.key.id}", "what": c.what, "fields": c.fields} for c in plan.changes],
            "refused": None if refused is None else {"code": refused.code.value, "message": refused.message},
        }  # fmt: skip
        show(json.dumps(told))
        return
    if plan.cascade:
        show(f"{len(plan.cascade)} later operations rest on it:")
        for each in plan.rows[:-1]:
            show(f"  op {each.seq}  {each.op}  {telling.touched_words(each)}")
    for change in plan.changes:
        for line in telling.change_lines(change):
            show(line)
    if refused is not None:
        show(f"not undone: {refused.code.value}, {refused.message}. {reversal.way_out(refused.code)}.")
    elif row is None:
        show("nothing was done: this is what it would do")
    else:
        undone = f" with {len(plan.cascade)} that rest on it" if plan.cascade else ""
        show(f"op {plan.seq} is undone{undone}; this is op {row}, which can be undone as well")


async def verify(options: argparse.Namespace, chosen: Chosen) -> int:
    """Fold the journal anew from nothing, and compare what comes with what is stored."""
    async with chosen.database.transaction(durable=False, long=True) as tx:
        await state.see_one_moment(tx)
        done = await replay.verify(tx, chosen.mind.id, options.until)
    difference = done.difference
    if options.json:
        told = asdict(done) | {"state_hash": f"{done.state_hash:064x}", "mind": chosen.mind.id}
        show(json.dumps(told))
    else:
        show(f"{done.rows} operations, {done.accepted} accepted, {done.refused} refused; hash {done.state_hash:064x}")
        show("the journal gives what is stored" if difference is None else f"op {difference.seq} {difference.what}")
        for name, image in () if difference is None else (
            ("stored", difference.stored), ("replayed", difference.replayed),
        ):  # fmt: skip
            show(f"{name + ':':9} {'nothing' if image is None else json.dumps(image, ensure_ascii=False)}")
    return 0 if difference is None else EXIT_DIFFERS


async def export(options: argparse.Namespace, chosen: Chosen) -> int:
    """Write the mind into a new file, which its owner alone may read."""
    file = Path(options.file)
    try:
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as exc:
        why = "is there already; name another" if isinstance(exc, FileExistsError) else "cannot be written"
        raise InputRejected(f"file {file}: {why}") from exc
    try:
        with os.fdopen(handle, "wb") as out:
            async with chosen.database.transaction(durable=False, long=True) as tx:
                await state.see_one_moment(tx)
                header = await portable.write(tx, chosen.mind.id, out)
    except BaseException:
        with suppress(OSError):
            await asyncio.to_thread(file.unlink)
        raise
    if options.json:
        show(json.dumps(header | {"file": str(file)}))
    else:
        show(f"{file}: {header['rows']} operations and {header['entries']} entries of mind {chosen.mind.id}")
        show("it holds what people said in private as well; keep it as you keep dumps")
    return 0


async def bring(options: argparse.Namespace, chosen: Chosen) -> int:
    """Bring a mind in from a file, into one to which nothing was ever proposed."""
    mapped = None if options.map is None else _read_map(Path(options.map))
    try:
        with Path(options.file).open("rb") as file:  # noqa: ASYNC230  # nothing else runs in this process
            held = await portable.unpack(file)
    except OSError as exc:
        raise InputRejected(f"file {options.file}: cannot be read") from exc
    async with chosen.database.transaction(long=True) as tx:
        brought = await portable.bring(tx, open_minds(), chosen.mind.id, held, mapped)
        await _note(tx, "mind import", chosen, {"rows": brought.rows, "sealed": brought.sealed})
        after = await state.find_mind(tx, chosen.mind.id)
    taken_back = 0 if after is None else after.last_seq - brought.rows
    if options.json:
        told = {"rows": brought.rows, "entries": brought.entries, "sealed": brought.sealed, "takenBack": taken_back}
        show(json.dumps(told | {"stateHash": f"{brought.state_hash:064x}", "mind": chosen.mind.id}))
        return 0
    show(f"mind {chosen.mind.id}: {brought.rows} operations and {brought.entries} entries came in")
    if brought.sealed:
        show(f"{brought.sealed} rooms have no counterpart here: what was made from them is kept and shown nowhere")
    if taken_back:
        show(
            "what was deleted, edited or erased since the file was written was taken back; `voidbot mind ops` shows it"
        )
    return 0


def _read_map(path: Path) -> Mapped:
    try:
        read = _MapFile.model_validate_json(path.read_bytes())
    except OSError as exc:
        raise InputRejected(f"map {path}: cannot be read") from exc
    except ValidationError as exc:
        form = '{"rooms": {"12": 7}, "people": {}, "messages": {}}'
        raise InputRejected(f"map {path}: is no JSON such as {form}") from exc
    return Mapped(
        rooms={theirs: RoomId(ours) for theirs, ours in read.rooms.items()},
        people={theirs: PersonId(ours) for theirs, ours in read.people.items()},
        messages={theirs: MessageId(ours) for theirs, ours in read.messages.items()},
    )


async def pause(options: argparse.Namespace, chosen: Chosen) -> int:
    """Let the mind take proposals of operators alone, or of everyone again."""
    paused = options.act == "pause"
    async with chosen.database.transaction() as tx:
        await state.set_paused(tx, chosen.mind.id, paused)
        await _note(tx, f"mind {options.act}", chosen, {})
    if options.json:
        show(json.dumps({"mind": chosen.mind.id, "paused": paused}))
    else:
        how = (
            "is paused: it takes what operators and its own bookkeeping propose" if paused else "takes proposals again"
        )
        show(f"mind {chosen.mind.id}: {how}")
    return 0


def row_image(row: JournalRow) -> dict[str, Any]:
    """Return an operation for programs."""
    return {
        "seq": row.seq, "op": row.op, "at": row.at.isoformat(), "verdict": row.verdict, "code": row.code or None,
        "path": row.path or None, "effect": row.effect or None,
        "entries": [telling.touched_name(each) for each in row.touched],
        "actor": row.actor.kind.value, "ref": row.actor.ref, "run": row.actor.run_id, "job": row.actor.job_id,
        "undoneBy": row.undone_by, "redactedBy": row.redacted_by, "payload": row.payload,
    }  # fmt: skip


async def _note(tx: Tx, act: str, chosen: Chosen, details: Mapping[str, object]) -> None:
    await audit.add(tx, None, act, f"mind:{chosen.mind.id}", details)


def show(line: str) -> None:
    """Print a line of a command's answer."""
    sys.stdout.write(f"{line}\n")
