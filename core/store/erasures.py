"""Erasures under way, what is known of those that are over, and who wants nothing kept. No names and no texts.

Only this module writes these tables; the needles are sealed with a key that is not in the database.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from core.domain.erasure import EraseScope, EraseStep, scope_of
from core.domain.ids import CommunityId, OutboxId, PersonId, RoomId
from core.domain.vectors import EmbeddingModel
from core.store.engine import Row, Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One erasure as it is remembered. `key_hash` empty: it was of a matter, not of a person."""

    id: int
    key_id: str
    key_hash: str
    scope: EraseScope
    until_at: datetime
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """One erasure under way. `room_id` None: nobody is told."""

    ledger_id: int
    person_id: PersonId | None
    community_id: CommunityId
    room_id: RoomId | None
    front_end: str
    trace: str
    scope: EraseScope
    step: EraseStep
    state: str
    counts: Mapping[str, int]
    outbox_id: OutboxId | None
    asked_at: datetime
    until_at: datetime
    told_at: datetime | None


_BEGIN = """
with entry as (
    insert into voidbot.erasure_ledger (key_id, key_hash, scope, until_at) values ($1, $2, $3, voidbot.now())
    returning id, until_at)
insert into voidbot.erasures (ledger_id, person_id, community_id, room_id, front_end, trace, scope, step, until_at)
select id, $4, $5, $6, $7, $8, $3, 'collect', until_at from entry returning ledger_id"""


async def write_down(
    tx: Tx,
    scope: EraseScope,
    *,
    key_id: str,
    key_hash: str,
    person_id: PersonId | None,
    community_id: CommunityId,
    room_id: RoomId | None,
    front_end: str,
    trace: str,
) -> int:
    """Write an erasure down before anything of it is done; return its number in the ledger.

    From the commit on nothing of a person who is erased whole is taken in (`block`).
    """
    number: int = await tx.fetchval(
        _BEGIN, key_id, key_hash, scope.as_json(), person_id, community_id, room_id, front_end, trace
    )
    return number


async def load(tx: Tx, ledger_id: int) -> Erasure | None:
    """Return an erasure; None if there is none of this number."""
    row = await tx.fetchrow("select * from voidbot.erasures where ledger_id = $1", ledger_id)
    return None if row is None else _erasure_of(row)


def _erasure_of(row: Row) -> Erasure:
    return Erasure(
        ledger_id=row["ledger_id"],
        person_id=None if row["person_id"] is None else PersonId(row["person_id"]),
        community_id=CommunityId(row["community_id"]),
        room_id=None if row["room_id"] is None else RoomId(row["room_id"]),
        front_end=row["front_end"],
        trace=row["trace"],
        scope=scope_of(row["scope"]),
        step=EraseStep(row["step"]),
        state=row["state"],
        counts=row["counts"],
        outbox_id=None if row["outbox_id"] is None else OutboxId(row["outbox_id"]),
        asked_at=row["asked_at"],
        until_at=row["until_at"],
        told_at=row["told_at"],
    )


async def find_running(tx: Tx, person_id: PersonId) -> Erasure | None:
    """Return the person's erasure that is under way."""
    row = await tx.fetchrow("select * from voidbot.erasures where person_id = $1 and state = 'running'", person_id)
    return None if row is None else _erasure_of(row)


async def move(tx: Tx, ledger_id: int, step: EraseStep) -> None:
    """Note that the steps before this one are done."""
    await tx.execute("update voidbot.erasures set step = $2 where ledger_id = $1", ledger_id, step)


_COUNT = """
update voidbot.erasures e set counts = coalesce((
    select jsonb_object_agg(key, n) from (
        select key, sum(value::bigint) as n from (
            select * from jsonb_each_text(e.counts) union all select * from jsonb_each_text($2)) both_
        group by key) summed), '{}')
where ledger_id = $1"""


async def count(tx: Tx, ledger_id: int, touched: Mapping[str, int]) -> None:
    """Add the rows that a statement touched, by table."""
    if any(touched.values()):
        await tx.execute(_COUNT, ledger_id, {table: n for table, n in touched.items() if n})


async def tell(tx: Tx, ledger_id: int, outbox_id: OutboxId | None) -> None:
    """Note which answer tells the person."""
    await tx.execute(
        "update voidbot.erasures set told_at = voidbot.now(), outbox_id = $2 where ledger_id = $1", ledger_id, outbox_id
    )


_END = """
with ended as (
    update voidbot.erasures set state = $2, places = $3, ended_at = voidbot.now() where ledger_id = $1 returning counts)
update voidbot.erasure_ledger set counts = ended.counts, proof_hash = $4 from ended where id = $1"""


async def end(tx: Tx, ledger_id: int, state: str, places: Sequence[str], proof_hash: str) -> None:
    """End an erasure: `done`, or `failed` with the places where something was found. The ledger gets the counts."""
    await tx.execute(_END, ledger_id, state, list(places), proof_hash)


async def block(tx: Tx, person_id: PersonId, *, erasing: bool = True) -> None:
    """Take in nothing of the person from now on, or again."""
    await tx.execute("update voidbot.people set erasing = $2 where id = $1", person_id, erasing)


async def add_needles(tx: Tx, ledger_id: int, sealed: Sequence[bytes]) -> None:
    """Keep sealed texts until the proof has looked for them."""
    await tx.executemany(
        "insert into voidbot.erasure_needles (ledger_id, sealed) values ($1, $2)",
        [(ledger_id, each) for each in sealed],
    )


async def list_needles(tx: Tx, ledger_id: int, after: int, limit: int) -> list[tuple[int, bytes]]:
    """Return sealed texts with their numbers, those behind `after`."""
    rows = await tx.fetch(
        "select id, sealed from voidbot.erasure_needles where ledger_id = $1 and id > $2 order by id limit $3",
        ledger_id,
        after,
        limit,
    )
    return [(row["id"], row["sealed"]) for row in rows]


async def drop_needles(tx: Tx, ledger_id: int) -> None:
    """Forget the sealed texts of an erasure."""
    await tx.execute("delete from voidbot.erasure_needles where ledger_id = $1", ledger_id)


_OLD = """
delete from voidbot.erasure_needles where ledger_id in (
    select ledger_id from voidbot.erasures
    where state <> 'running' and ended_at < voidbot.now() - interval '30 days')"""


async def sweep(tx: Tx) -> int:
    """Forget the sealed texts of proofs that failed a month ago."""
    return await tx.execute(_OLD)


_TEXTS = """
select id, text from voidbot.messages where (author_id = $1 or proxy_of = $1) and id > $2 and length(text) >= $3
order by id limit $4"""
_INBOX_TEXTS = """
select id, text from voidbot.inbox where person_id = $1 and id > $2 and length(text) >= $3 order by id limit $4"""


async def list_texts(tx: Tx, person_id: PersonId, after: int, shortest: int, limit: int) -> list[tuple[int, str]]:
    """Return the person's own archived texts with their message's id, those behind `after`."""
    rows = await tx.fetch(_TEXTS, person_id, after, shortest, limit)
    return [(row["id"], row["text"]) for row in rows]


async def list_questions(tx: Tx, person_id: PersonId, after: int, shortest: int, limit: int) -> list[tuple[int, str]]:
    """Return the person's texts that came in and were not emptied yet, those behind `after`."""
    rows = await tx.fetch(_INBOX_TEXTS, person_id, after, shortest, limit)
    return [(row["id"], row["text"]) for row in rows]


async def list_homes(tx: Tx, person_id: PersonId) -> list[CommunityId]:
    """Return the communities that the person was ever a member of."""
    rows = await tx.fetch("select distinct community_id from voidbot.memberships where person_id = $1", person_id)
    return [CommunityId(row["community_id"]) for row in rows]


async def list_models(tx: Tx) -> list[EmbeddingModel]:
    """Return the models whose vectors may stand in a vector store."""
    rows = await tx.fetch("select name, dimension from voidbot.embedding_models where state <> 'dropped' order by name")
    return [EmbeddingModel(row["name"], row["dimension"]) for row in rows]


# The ledger


def _entry_of(row: Row) -> LedgerEntry:
    return LedgerEntry(
        id=row["id"],
        key_id=row["key_id"],
        key_hash=row["key_hash"],
        scope=scope_of(row["scope"]),
        until_at=row["until_at"],
        at=row["at"],
    )


async def list_entries(tx: Tx) -> list[LedgerEntry]:
    """Return the whole ledger in its order."""
    return [_entry_of(row) for row in await tx.fetch("select * from voidbot.erasure_ledger order by until_at, id")]


async def load_entry(tx: Tx, ledger_id: int) -> LedgerEntry | None:
    """Return one entry of the ledger."""
    row = await tx.fetchrow("select * from voidbot.erasure_ledger where id = $1", ledger_id)
    return None if row is None else _entry_of(row)


async def list_key_ids(tx: Tx) -> set[str]:
    """Return by which keys the ledger was written."""
    return {row["key_id"] for row in await tx.fetch("select distinct key_id from voidbot.erasure_ledger")}


async def drop_ledger(tx: Tx) -> None:
    """Forget every erasure: the key that could tell whom they meant is lost, and the operator has decided."""
    await tx.execute("delete from voidbot.erasure_ledger")


async def erased_until(tx: Tx, key_hash: str) -> datetime | None:
    """Return up to when the account was erased whole; None if it never was. What is older is never taken in again."""
    found: datetime | None = await tx.fetchval(
        "select max(until_at) from voidbot.erasure_ledger where key_hash = $1 and scope ->> 'reach' = 'person'",
        key_hash,
    )
    return found


async def list_erased(tx: Tx) -> dict[str, datetime]:
    """Return up to when each account is erased that was erased whole, by its hash."""
    rows = await tx.fetch(
        "select key_hash, max(until_at) as until_at from voidbot.erasure_ledger where scope ->> 'reach' = 'person'"
        " group by key_hash"
    )
    return {row["key_hash"]: row["until_at"] for row in rows}


async def is_blocked(tx: Tx, key_hash: str) -> bool:
    """Return whether the account is being erased at this moment."""
    return bool(
        await tx.fetchval(
            "select exists (select 1 from voidbot.erasures e join voidbot.erasure_ledger l on l.id = e.ledger_id"
            " where l.key_hash = $1 and e.state = 'running' and l.scope ->> 'reach' = 'person')",
            key_hash,
        )
    )


# Choices that outlive a row


async def opt_out(tx: Tx, key_hash: str, *, out: bool) -> None:
    """Remember by hash alone that an account wants nothing kept, or forget that."""
    if out:
        await tx.execute("insert into voidbot.opt_outs (key_hash) values ($1) on conflict do nothing", key_hash)
    else:
        await tx.execute("delete from voidbot.opt_outs where key_hash = $1", key_hash)


async def has_opted_out(tx: Tx, key_hash: str) -> bool:
    """Return whether an account that is not known here any more wants nothing kept."""
    return bool(await tx.fetchval("select exists (select 1 from voidbot.opt_outs where key_hash = $1)", key_hash))


async def add_entry(
    tx: Tx, key_id: str, key_hash: str, scope: EraseScope, until_at: datetime, at: datetime
) -> LedgerEntry:
    """Put an entry of a newer ledger into this one unless it is there; return it."""
    given = (key_id, key_hash, scope.as_json(), until_at, at)
    await tx.execute(
        "insert into voidbot.erasure_ledger (key_id, key_hash, scope, until_at, at)"
        " select $1, $2, $3, $4, $5 where not exists (select 1 from voidbot.erasure_ledger"
        " where key_hash = $2 and until_at = $4 and scope = $3)",
        *given,
    )
    row = await tx.fetchrow(
        "select * from voidbot.erasure_ledger where key_hash = $1 and until_at = $2 and scope = $3 order by id limit 1",
        key_hash,
        until_at,
        scope.as_json(),
    )
    if row is None:
        raise LookupError("erasures: the entry vanished within one transaction")
    return _entry_of(row)


_AGAIN = """
insert into voidbot.erasures (ledger_id, person_id, scope, step, until_at) values ($1, $2, $3, 'collect', $4)
on conflict (ledger_id) do update set person_id = excluded.person_id, scope = excluded.scope, step = 'collect',
  state = 'running', counts = '{}', places = '[]', room_id = null, told_at = null, ended_at = null,
  asked_at = voidbot.now()"""


async def again(tx: Tx, entry: LedgerEntry, person_id: PersonId | None, scope: EraseScope) -> None:
    """Let an erasure that is over begin anew: its person or its matter stands in a backup that was restored."""
    await tx.execute(_AGAIN, entry.id, person_id, scope.as_json(), entry.until_at)


@dataclass(frozen=True, slots=True)
class Account:
    """An account as an erasure looks for it."""

    person_id: PersonId
    platform: str
    account_ref: str
    first_seen: datetime


async def list_accounts(tx: Tx, after: int, limit: int) -> list[Account]:
    """Return accounts in order of their numbers, those behind `after`; erased ones are none any more."""
    rows = await tx.fetch(
        "select id, platform, account_ref, first_seen from voidbot.people where id > $1 and kind <> 'erased'"
        " order by id limit $2",
        after,
        limit,
    )
    return [Account(PersonId(row["id"]), row["platform"], row["account_ref"], row["first_seen"]) for row in rows]
