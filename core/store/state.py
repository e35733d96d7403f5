"""The mind in Postgres: its lock and its entries, written by `core.state` alone, in its caller's transaction."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from core.domain.ids import MessageId, PersonId, RoomId
from core.domain.mind.bodies import Kind, Profile, Scrubbed, read_body
from core.domain.mind.citing import cites_of
from core.domain.mind.entries import Entry, Key, Retired, image_of
from core.domain.mind.values import EntryId
from core.store.engine import Row, Tx

HASH_BYTES = 32
_WILD, _ESCAPED = re.compile(r"([\\%_])"), r"\\\1"


@dataclass(frozen=True, slots=True)
class Mind:
    """A mind as it stands at `now`: how many operations it has seen, and the sum of its entries' hashes."""

    id: str
    version: int
    last_seq: int
    state_hash: int
    paused: bool
    now: datetime


@dataclass(frozen=True, slots=True)
class Held:
    """An entry as stored, with the row of the journal that touched it last."""

    entry: Entry
    last_seq: int


_COLUMNS = """e.kind, e.entry_id, e.version, e.body::text as body, e.sources, e.people, e.created_at, e.updated_at,
  e.retired_at, e.retired_reason, e.superseded_by, e.last_seq"""
_MIND = "select id, version, last_seq, state_hash, paused, voidbot.now() as now from voidbot.minds where id = $1"
_MINDS = """
select id, version, last_seq, state_hash, paused, voidbot.now() as now from voidbot.minds
where last_seq > 0 or paused order by id"""
_NAMED_OTHERWISE = f"""
select m.id from voidbot.minds m
left join voidbot.state_entries e on e.mind_id = m.id and e.kind = '{Kind.PROFILE.value}' and e.entry_id = 'profile'
where (m.last_seq > 0 or m.paused) and lower(coalesce(e.body->>'publicName', $2)) <> lower($1) order by m.id"""
_LOCK = _MIND + " for update"
_CREATE = "insert into voidbot.minds (id) values ($1) on conflict (id) do nothing"
# By type one after the other: for any of several the planner, who does not know which, reads the whole table.
_ENTRIES = f"""
select {_COLUMNS} from voidbot.state_entries e
join unnest($2::text[], $3::text[]) k(kind, entry_id) on e.kind = k.kind and e.entry_id = k.entry_id
where e.mind_id = $1
union all
select {_COLUMNS} from unnest($4::text[]) t(name) cross join lateral (
  select * from voidbot.state_entries l where l.mind_id = $1 and l.type = t.name and l.retired_at is null
    and ($5::bigint[] is null or t.name <> 'short_term' or l.sources && $5 or l.sources = '{{}}') offset 0) e"""
_COUNTS = """
select t.name as type, e.sources, e.live from unnest($2::text[]) t(name) cross join lateral (
  select l.sources, count(*) as live from voidbot.state_entries l
  where l.mind_id = $1 and l.type = t.name and l.retired_at is null group by l.sources) e"""
_ALL = f"select {_COLUMNS} from voidbot.state_entries e where e.mind_id = $1 order by e.kind, e.entry_id"
_LIVE = f"""
select {_COLUMNS} from unnest($2::text[]) t(name) cross join lateral (
  select * from voidbot.state_entries l where l.mind_id = $1 and l.type = t.name and l.retired_at is null offset 0) e
order by e.kind, e.entry_id"""
_CITING = f"""
select {_COLUMNS} from voidbot.state_entries e where e.mind_id = $1 and e.cites && $2::text[]
order by e.kind, e.entry_id"""
_OF_PERSON = f"""
select {_COLUMNS} from voidbot.state_entries e where e.mind_id = $1 and e.people @> array[$2::bigint]
order by e.kind, e.entry_id"""
_RESTING = """
select distinct e.mind_id, c.id as message from voidbot.state_entries e
cross join unnest(e.cites) cited(ref) join unnest($1::bigint[]) c(id) on cited.ref = 'message:' || c.id
where e.cites && (select array_agg('message:' || g.id) from unnest($1::bigint[]) g(id))
union
select o.mind_id, c.id from voidbot.state_operations o
cross join unnest(o.cites) cited(ref) join unnest($1::bigint[]) c(id) on cited.ref = 'message:' || c.id
where o.cites && (select array_agg('message:' || g.id) from unnest($1::bigint[]) g(id)) and o.redacted_by is null
  and o.op <> all($2::text[]) order by 1, 2"""
_MINDS_OF = """
select c.mind_id from voidbot.memberships s join voidbot.communities c on c.id = s.community_id where s.person_id = $1
union
select mind_id from voidbot.state_entries where people @> array[$1::bigint] union
select mind_id from voidbot.state_operations where verdict = 'rejected' and redacted_by is null
  and facts @> jsonb_build_object('packet', jsonb_build_object('people', jsonb_build_array($1::bigint))) order by 1"""
_CITED_OF = """
with cited as (
  select unnest(cites) as ref from voidbot.state_entries where mind_id = $1 union
  select unnest(cites) from voidbot.state_operations where mind_id = $1 and redacted_by is null)
select cited.ref from cited
join voidbot.messages m on m.id = case when cited.ref like 'message:%' then split_part(cited.ref, ':', 2)::bigint end
where cited.ref ~ '^message:[0-9]{1,18}$' and (m.author_id = $2 or m.proxy_of = $2)"""
_NAMING = """
select e.entry_id, e.body::text || coalesce(e.retired_reason, '') as body from voidbot.state_entries e
where e.mind_id = $1 and (e.body::text ilike any($2::text[]) or e.retired_reason ilike any($2::text[]))"""
_SAVE = """
insert into voidbot.state_entries (mind_id, kind, entry_id, type, version, body, sources, people, cites, created_at,
  updated_at, retired_at, retired_reason, superseded_by, entry_hash, last_seq)
select $1, x.kind, x.id, x.type, x.version, x.body, x.sources, x.people, x.cites, x."createdAt", x."updatedAt",
  x.retired_at, x.retired_reason, x.superseded_by, decode(x.hash, 'hex'), x.last_seq
from jsonb_to_recordset($2::jsonb) x(kind text, id text, type text, version integer, body jsonb, sources bigint[],
  people bigint[], cites text[], "createdAt" timestamptz, "updatedAt" timestamptz, retired_at timestamptz,
  retired_reason text, superseded_by text, hash text, last_seq bigint)
on conflict (mind_id, kind, entry_id) do update set type = excluded.type, version = excluded.version,
  body = excluded.body, sources = excluded.sources, people = excluded.people, cites = excluded.cites,
  created_at = excluded.created_at, updated_at = excluded.updated_at, retired_at = excluded.retired_at,
  retired_reason = excluded.retired_reason, superseded_by = excluded.superseded_by, entry_hash = excluded.entry_hash,
  last_seq = excluded.last_seq"""
_CLOSE = """
update voidbot.minds set version = version + 1, last_seq = $2, state_hash = decode($3, 'hex') where id = $1"""


async def see_one_moment(tx: Tx) -> None:
    """Let everything that this transaction reads be of one moment, whatever others write; its first statement."""
    await tx.execute("set transaction isolation level repeatable read")


async def find_mind(tx: Tx, mind_id: str) -> Mind | None:
    """Return the mind as it stands; None if nothing was ever proposed to it."""
    return _mind_of(await tx.fetchrow(_MIND, mind_id))


async def lock_mind(tx: Tx, mind_id: str) -> Mind:
    """Return the mind, held for this transaction alone; made if it is new.

    Raises:
        TimedOut: Another writer holds it for too long; the job is tried again.
    """
    mind = _mind_of(await tx.fetchrow(_LOCK, mind_id))
    if mind is None:
        await tx.execute(_CREATE, mind_id)
        mind = _mind_of(await tx.fetchrow(_LOCK, mind_id))
        if mind is None:
            raise AssertionError("a mind that was just made is there")
    return mind


async def now(tx: Tx) -> datetime:
    """Return the time of the transaction."""
    moment: datetime = await tx.fetchval("select voidbot.now()")
    return moment


async def set_paused(tx: Tx, mind_id: str, paused: bool) -> None:
    """Let a mind take no proposals of models and passes, or let it again."""
    await tx.execute(_CREATE, mind_id)
    await tx.execute("update voidbot.minds set paused = $2 where id = $1", mind_id, paused)


async def load_entries(
    tx: Tx, mind_id: str, keys: Iterable[Key], live: Iterable[str] = (), near: Iterable[RoomId] | None = None
) -> list[Held]:
    """Return the entries with these keys, tombstones too, and every live one of some types.

    `near`: of the notes of the day only those that were made from one of these rooms, or from none.
    """
    wanted = sorted(keys)
    rows = await tx.fetch(
        _ENTRIES,
        mind_id,
        [key.kind.value for key in wanted],
        [key.id for key in wanted],
        sorted(live),
        None if near is None else sorted(near),
    )
    once = {(row["kind"], row["entry_id"]): row for row in rows}
    return [held_of(row) for row in once.values()]


async def count_live(tx: Tx, mind_id: str, types: Iterable[str]) -> list[tuple[str, frozenset[RoomId], int]]:
    """Return how many live entries of some types each set of source rooms has."""
    rows = await tx.fetch(_COUNTS, mind_id, sorted(types))
    return [(row["type"], frozenset(map(RoomId, row["sources"])), row["live"]) for row in rows]


async def list_entries(tx: Tx, mind_id: str) -> list[Held]:
    """Return every entry of a mind, tombstones too, by key."""
    return [held_of(row) for row in await tx.fetch(_ALL, mind_id)]


async def list_live(tx: Tx, mind_id: str, types: Iterable[str]) -> list[Held]:
    """Return the live entries of some types, by key."""
    return [held_of(row) for row in await tx.fetch(_LIVE, mind_id, sorted(types))]


async def list_citing(tx: Tx, mind_id: str, refs: Iterable[str]) -> list[Held]:
    """Return the entries, tombstones too, that rest on one of these refs."""
    return [held_of(row) for row in await tx.fetch(_CITING, mind_id, sorted(refs))]


async def list_of_person(tx: Tx, mind_id: str, person_id: PersonId) -> list[Held]:
    """Return the entries, tombstones too, in which the person or their words are."""
    return [held_of(row) for row in await tx.fetch(_OF_PERSON, mind_id, person_id)]


async def list_rooms(tx: Tx, mind_id: str) -> list[RoomId]:
    """Return every room of a mind's communities, for operators, who may look into all of it."""
    rows = await tx.fetch(
        "select r.id from voidbot.rooms r join voidbot.communities c on c.id = r.community_id where c.mind_id = $1",
        mind_id,
    )
    return [RoomId(row["id"]) for row in rows]


async def list_minds(tx: Tx) -> list[Mind]:
    """Return every mind that something was ever proposed to, by id."""
    rows = await tx.fetch(_MINDS)
    return [mind for row in rows if (mind := _mind_of(row)) is not None]


async def list_named_otherwise(tx: Tx, name: str) -> list[str]:
    """Return the minds that something was ever proposed to and that bear another name, capital letters aside."""
    return [row["id"] for row in await tx.fetch(_NAMED_OTHERWISE, name, Profile().public_name)]


async def list_resting(tx: Tx, messages: Sequence[MessageId], wordless: Sequence[str]) -> list[tuple[str, MessageId]]:
    """Return which minds hold entries, or rows of the journal, that rest on which of these messages.

    `wordless`: operations whose rows say nothing of what they name.
    """
    return [(row["mind_id"], MessageId(row["message"])) for row in await tx.fetch(_RESTING, messages, wordless)]


async def list_minds_of(tx: Tx, person_id: PersonId) -> list[str]:
    """Return the minds of a person's communities, and those that the person or what a model read of theirs is in."""
    return [row["mind_id"] for row in await tx.fetch(_MINDS_OF, person_id)]


async def list_cited_of(tx: Tx, mind_id: str, person_id: PersonId) -> list[str]:
    """Return the refs of a person's messages that entries of a mind, or rows of its journal, rest on."""
    return [row["ref"] for row in await tx.fetch(_CITED_OF, mind_id, person_id)]


async def list_naming(tx: Tx, mind_id: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """Return id and words of each entry in which one of these names stands, whole or as part of a word."""
    escaped = [f"%{_WILD.sub(_ESCAPED, name)}%" for name in names]
    return [(row["entry_id"], row["body"]) for row in await tx.fetch(_NAMING, mind_id, escaped)] if names else []


async def save(tx: Tx, mind: Mind, entries: Sequence[tuple[Entry, int, int]]) -> None:
    """Let entries stand as they are; each comes with its hash and the row of the journal that touched it."""
    if entries:
        await tx.execute(_SAVE, mind.id, [_row_of(entry, hash_, seq) for entry, hash_, seq in entries])


async def close(tx: Tx, mind: Mind, last_seq: int, state_hash: int) -> None:
    """Let the mind stand at this row of its journal, with this hash."""
    await tx.execute(_CLOSE, mind.id, last_seq, hash_bytes(state_hash).hex())


def hash_bytes(value: int) -> bytes:
    """Return a hash as it is stored."""
    return value.to_bytes(HASH_BYTES)


def held_of(row: Row) -> Held:
    """Return a row of entries as a value."""
    text: str = row["body"]
    scrubbed = '"scrubbed"' in text and json.loads(text).get("scrubbed")
    retired_at: datetime | None = row["retired_at"]
    entry = Entry(
        id=EntryId(row["entry_id"]),
        version=row["version"],
        body=Scrubbed.model_validate_json(text) if scrubbed else read_body(text),
        sources=frozenset(map(RoomId, row["sources"])),
        people=frozenset(map(PersonId, row["people"])),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        retired=None if retired_at is None else Retired(retired_at, row["retired_reason"], row["superseded_by"]),
    )
    return Held(entry, row["last_seq"])


def _row_of(entry: Entry, hash_: int, seq: int) -> dict[str, Any]:
    image = image_of(entry)
    retired = image.pop("retired", {})
    return image | {
        "type": entry.type,
        "cites": sorted(cites_of(entry.body)),
        "retired_at": retired.get("at"),
        "retired_reason": retired.get("reason"),
        "superseded_by": retired.get("supersededBy"),
        "hash": hash_bytes(hash_).hex(),
        "last_seq": seq,
    }


def _mind_of(row: Row | None) -> Mind | None:
    if row is None:
        return None
    state_hash = int.from_bytes(row["state_hash"])
    return Mind(row["id"], row["version"], row["last_seq"], state_hash, row["paused"], row["now"])
