"""The journal of minds in Postgres: one row for each operation, accepted or refused, with the images it left."""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from core.domain.mind.bodies import Kind
from core.domain.mind.entries import Entry, Key, entry_of
from core.domain.mind.facts import Actor, Emitter
from core.domain.mind.values import EntryId
from core.store.engine import Row, Tx
from core.store.state import Mind, hash_bytes

ROWS = 1000
"""Rows that are read at once."""


@dataclass(frozen=True, slots=True)
class Touched:
    """What a row left of one entry. `prev_seq`: the row that touched it before; None: made here."""

    key: Key
    prev_seq: int | None
    after_hash: int
    after: dict[str, Any]

    @property
    def entry(self) -> Entry:
        """The entry as it was left."""
        return entry_of(self.after)


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalRow:
    """One operation as it was decided. `payload` and `facts` are as they were; `delta`: what it added to the hash."""

    seq: int
    op: str
    payload: dict[str, Any]
    facts: dict[str, Any]
    actor: Actor
    key: str
    payload_hash: bytes
    verdict: str
    code: str
    path: str
    effect: str
    touched: tuple[Touched, ...]
    cites: tuple[str, ...]
    delta: int
    at: datetime
    undone_by: int | None = None
    redacted_by: int | None = None

    @property
    def accepted(self) -> bool:
        """Whether it stands in the state."""
        return self.verdict == ACCEPTED


ACCEPTED = "accepted"
REJECTED = "rejected"
COLUMNS = """seq, op, payload, facts, actor_kind, actor_ref, run_id, job_id, idempotency_key, payload_hash, verdict,
  code, path, effect, touched, cites, delta, at, undone_by, redacted_by"""
_APPEND = """
insert into voidbot.state_operations (mind_id, seq, op, payload, facts, actor_kind, actor_ref, run_id, job_id,
  idempotency_key, payload_hash, verdict, code, path, effect, touched, touches, cites, delta, at, undone_by,
  redacted_by)
select $1, x.seq, x.op, x.payload, x.facts, x.actor_kind, x.actor_ref, x.run_id, x.job_id, x.key,
  decode(x.payload_hash, 'hex'), x.verdict, x.code, x.path, x.effect, x.touched, x.touches, x.cites,
  decode(x.delta, 'hex'), x.at, x.undone_by, x.redacted_by
from jsonb_to_recordset($2::jsonb) x(seq bigint, op text, payload jsonb, facts jsonb, actor_kind text, actor_ref text,
  run_id bigint, job_id bigint, key text, payload_hash text, verdict text, code text, path text, effect text,
  touched jsonb, touches text[], cites text[], delta text, at timestamptz, undone_by bigint, redacted_by bigint)"""
_DECIDED = f"""
select {COLUMNS} from voidbot.state_operations where mind_id = $1 and idempotency_key = any($2::text[])"""
_ONE = f"select {COLUMNS} from voidbot.state_operations where mind_id = $1 and seq = $2"
_SOME = f"select {COLUMNS} from voidbot.state_operations where mind_id = $1 and seq = any($2::bigint[]) order by seq"
_RANGE = f"""
select {COLUMNS} from voidbot.state_operations where mind_id = $1 and seq > $2 and seq <= $3 order by seq limit $4"""
_NEWEST = f"""
select {COLUMNS} from voidbot.state_operations where mind_id = $1 and seq < $2 order by seq desc limit $3"""
_OF_ENTRY = f"""
select {COLUMNS} from voidbot.state_operations
where mind_id = $1 and (touches @> array[$2::text] or cites @> array[$2::text]) order by seq"""
_LATER = f"""
select {COLUMNS} from voidbot.state_operations
where mind_id = $1 and seq > $2 and verdict = 'accepted' and undone_by is null
  and (touches && $3::text[] or cites && $3::text[]) order by seq"""
_TOUCHING = f"""
select {COLUMNS} from voidbot.state_operations
where mind_id = $1 and seq < $2 and touches && $3::text[] order by seq"""
_SPENT = """
select s.key as name, sum(s.value::float8) as spent from voidbot.state_operations o
cross join jsonb_each_text(o.facts->'spends') s
where o.mind_id = $1 and o.seq > $3 and o.run_id = $2 and o.verdict = 'accepted' group by s.key"""
_AT = """
select distinct on (t.touch) t.touch, o.touched from voidbot.state_operations o cross join unnest(o.touches) t(touch)
where o.mind_id = $1 and o.at <= $2 and o.verdict = 'accepted' order by t.touch, o.seq desc"""
_REDACTED = "select exists (select from voidbot.state_operations where mind_id = $1 and redacted_by > $2)"
_OPEN = "select set_config('voidbot.journal', $1, true)"
_UNDONE = "update voidbot.state_operations set undone_by = $3 where mind_id = $1 and seq = any($2::bigint[])"
_REDACT = """
update voidbot.state_operations o set payload = x.payload, touched = x.touched, delta = decode(x.delta, 'hex'),
  redacted_by = x.redacted_by
from jsonb_to_recordset($2::jsonb) x(seq bigint, payload jsonb, touched jsonb, delta text, redacted_by bigint)
where o.mind_id = $1 and o.seq = x.seq"""


def name_of(key: Key) -> str:
    """Return a key as rows list it."""
    return f"{key.kind.value}/{key.id}"


async def find_decided(tx: Tx, mind_id: str, keys: Iterable[str]) -> dict[str, JournalRow]:
    """Return the rows that were decided under these idempotency keys, by key."""
    return {row["idempotency_key"]: row_of(row) for row in await tx.fetch(_DECIDED, mind_id, sorted(keys))}


async def append(tx: Tx, mind: Mind, rows: Sequence[JournalRow]) -> None:
    """Add rows; their numbers follow the last one of the mind."""
    await tx.execute(_APPEND, mind.id, [image_of(row) for row in rows])


async def find_row(tx: Tx, mind_id: str, seq: int) -> JournalRow | None:
    """Return one row; None if the journal has none of that number."""
    row = await tx.fetchrow(_ONE, mind_id, seq)
    return None if row is None else row_of(row)


async def list_rows(tx: Tx, mind_id: str, seqs: Iterable[int]) -> list[JournalRow]:
    """Return some rows, oldest first."""
    return [row_of(row) for row in await tx.fetch(_SOME, mind_id, sorted(seqs))]


async def list_range(tx: Tx, mind_id: str, after: int, until: int, limit: int = ROWS) -> list[JournalRow]:
    """Return rows behind `after`, up to and with `until`, oldest first."""
    return [row_of(row) for row in await tx.fetch(_RANGE, mind_id, after, until, limit)]


async def list_newest(tx: Tx, mind_id: str, before: int, limit: int) -> list[JournalRow]:
    """Return rows before `before`, newest first."""
    return [row_of(row) for row in await tx.fetch(_NEWEST, mind_id, before, limit)]


async def list_of_entry(tx: Tx, mind_id: str, key: Key) -> list[JournalRow]:
    """Return the rows that touched or named an entry, oldest first."""
    return [row_of(row) for row in await tx.fetch(_OF_ENTRY, mind_id, name_of(key))]


async def list_later(tx: Tx, mind_id: str, after: int, keys: Iterable[Key]) -> list[JournalRow]:
    """Return the accepted rows behind `after`, not undone, that touched or named one of these entries."""
    return [row_of(row) for row in await tx.fetch(_LATER, mind_id, after, sorted(map(name_of, keys)))]


async def list_touching(tx: Tx, mind_id: str, before: int, keys: Iterable[Key]) -> list[JournalRow]:
    """Return the rows before `before` that touched one of these entries, oldest first."""
    return [row_of(row) for row in await tx.fetch(_TOUCHING, mind_id, before, sorted(map(name_of, keys)))]


def undone_by(row: JournalRow) -> tuple[int, ...]:
    """Return the rows that an undo has undone; none if an erasure has taken what it said."""
    return () if row.redacted_by is not None else (row.payload["seq"], *row.payload.get("cascade", ()))


async def sum_spent(tx: Tx, mind_id: str, run_id: int, after: int) -> dict[str, float]:
    """Return what a run has used of its limits in the rows behind `after`, by name."""
    return {row["name"]: row["spent"] for row in await tx.fetch(_SPENT, mind_id, run_id, after)}


async def walk(tx: Tx, mind_id: str, until: int) -> AsyncIterator[JournalRow]:
    """Yield every row up to and with `until`, oldest first, reading some at a time."""
    after = 0
    while rows := await list_range(tx, mind_id, after, until):
        for row in rows:
            yield row
        after = rows[-1].seq


async def is_redacted_after(tx: Tx, mind_id: str, seq: int) -> bool:
    """Return whether a row behind `seq` has taken words out of the journal."""
    return bool(await tx.fetchval(_REDACTED, mind_id, seq))


async def list_images_at(tx: Tx, mind_id: str, at: datetime) -> list[dict[str, Any]]:
    """Return the last image of every entry at a time, by key."""
    images = []
    for row in await tx.fetch(_AT, mind_id, at):
        kind, _, id_ = row["touch"].partition("/")
        images += [each["after"] for each in row["touched"] if (each["kind"], each["id"]) == (kind, id_)]
    return images


async def mark_undone(tx: Tx, mind_id: str, seqs: Iterable[int], by: int | None) -> None:
    """Note that rows were undone by a later one; None: they stand again."""
    await tx.execute(_OPEN, "open")
    await tx.execute(_UNDONE, mind_id, sorted(seqs), by)
    await tx.execute(_OPEN, "")


async def redact(tx: Tx, mind_id: str, rows: Sequence[JournalRow]) -> None:
    """Replace what rows say, after an erasure; their verdicts stay."""
    await tx.execute(_OPEN, "open")
    await tx.execute(_REDACT, mind_id, [image_of(row) for row in rows])
    await tx.execute(_OPEN, "")


def row_of(row: Row | dict[str, Any]) -> JournalRow:
    """Return a row of the table as a value."""
    return JournalRow(
        seq=row["seq"],
        op=row["op"],
        payload=row["payload"],
        facts=row["facts"],
        actor=Actor(Emitter(row["actor_kind"]), row["actor_ref"], row["run_id"], row["job_id"]),
        key=row["idempotency_key"],
        payload_hash=row["payload_hash"],
        verdict=row["verdict"],
        code=row["code"],
        path=row["path"],
        effect=row["effect"],
        touched=tuple(map(touched_of, row["touched"])),
        cites=tuple(row["cites"]),
        delta=int.from_bytes(row["delta"]),
        at=row["at"],
        undone_by=row["undone_by"],
        redacted_by=row["redacted_by"],
    )


def touched_of(value: dict[str, Any]) -> Touched:
    """Return what a row says of one entry."""
    key = Key(Kind(value["kind"]), EntryId(value["id"]))
    return Touched(key, value["prev_seq"], int(value["after_hash"], 16), value["after"])


def image_of(row: JournalRow) -> dict[str, Any]:
    """Return a row as JSON values: what the table is given, and what a file holds."""
    return {
        "seq": row.seq,
        "op": row.op,
        "payload": row.payload,
        "facts": row.facts,
        "actor_kind": row.actor.kind.value,
        "actor_ref": row.actor.ref,
        "run_id": row.actor.run_id,
        "job_id": row.actor.job_id,
        "key": row.key,
        "payload_hash": row.payload_hash.hex(),
        "verdict": row.verdict,
        "code": row.code,
        "path": row.path,
        "effect": row.effect,
        "touched": [
            {
                "kind": each.key.kind.value,
                "id": each.key.id,
                "prev_seq": each.prev_seq,
                "after_hash": hash_bytes(each.after_hash).hex(),
                "after": each.after,
            }
            for each in row.touched
        ],
        "touches": [name_of(each.key) for each in row.touched],
        "cites": list(row.cites),
        "delta": hash_bytes(row.delta).hex(),
        "at": row.at.isoformat(),
        "undone_by": row.undone_by,
        "redacted_by": row.redacted_by,
    }


def row_of_image(image: dict[str, Any]) -> JournalRow:
    """Return the row that an image shows.

    Raises:
        LookupError, TypeError, ValueError: It shows none.
    """
    return row_of(
        {
            **image,
            "idempotency_key": image["key"],
            "payload_hash": bytes.fromhex(image["payload_hash"]),
            "delta": bytes.fromhex(image["delta"]),
            "at": datetime.fromisoformat(image["at"]),
        }
    )
