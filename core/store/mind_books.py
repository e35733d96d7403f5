"""What there is of minds, for the people who look after them: how much, whose, the newest entries. Read only."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from core.domain.ids import RoomId
from core.domain.mind.entries import Key
from core.store.engine import Tx
from core.store.journal import JournalRow, name_of, row_of
from core.store.state import Held, held_of

_COLUMNS = """e.kind, e.entry_id, e.version, e.body::text as body, e.sources, e.people, e.created_at, e.updated_at,
  e.retired_at, e.retired_reason, e.superseded_by, e.last_seq"""
_MINDS = """
select k.id, coalesce(m.last_seq, 0) as rows, coalesce(m.paused, false) as paused,
       coalesce(e.live, 0) as live, coalesce(e.retired, 0) as retired, o.at, c.names, c.timezone
from (select id from voidbot.minds union select mind_id from voidbot.communities) k(id)
left join voidbot.minds m on m.id = k.id
left join voidbot.state_operations o on o.mind_id = k.id and o.seq = m.last_seq
left join lateral (
    select count(*) filter (where s.retired_at is null) as live,
           count(*) filter (where s.retired_at is not null) as retired
    from voidbot.state_entries s where s.mind_id = k.id) e on true
left join lateral (
    select array_agg(p.name order by p.id) as names, (array_agg(p.timezone order by p.id))[1] as timezone
    from voidbot.communities p where p.mind_id = k.id) c on true
order by k.id"""
_NEWEST = f"""
select {_COLUMNS} from voidbot.state_entries e
where e.mind_id = $1 and (e.retired_at is not null) = $2 and ($3::text is null or e.type = $3)
  and ($4::bigint[] is null or e.sources <@ $4)
order by e.updated_at desc, e.kind, e.entry_id limit $5"""
_OPERATIONS = """
select o.* from voidbot.state_operations o where o.mind_id = $1 and (not $2 or o.verdict = 'rejected')
  and ($3::text is null or o.touches @> array[$3] or o.cites @> array[$3]) order by o.seq desc limit $4"""
_ROOMS = """
select r.id, r.name, r.chat_ref, c.name as community from voidbot.rooms r
join voidbot.communities c on c.id = r.community_id where c.mind_id = $1 order by r.id"""
_BETWEEN = """
select min(seq) as first, max(seq) as last, count(*) filter (where verdict = 'accepted') as accepted,
       count(*) filter (where verdict <> 'accepted') as refused
from voidbot.state_operations where mind_id = $1 and at > $2 and at <= $3"""


@dataclass(frozen=True, slots=True)
class MindFigures:
    """A mind in figures. `rows`: operations proposed to it; `at`: the last one, None if there was none."""

    id: str
    communities: tuple[str, ...]
    timezone: str
    rows: int
    live: int
    retired: int
    paused: bool
    at: datetime | None


@dataclass(frozen=True, slots=True)
class NamedRoom:
    """A room of a mind by its names."""

    id: RoomId
    name: str
    chat_ref: str
    community: str


@dataclass(frozen=True, slots=True)
class Between:
    """The operations between two times: the first and the last, None if there were none, and how they went."""

    first: int | None
    last: int | None
    accepted: int
    refused: int


async def list_minds(tx: Tx) -> list[MindFigures]:
    """Return every mind, those of communities to which nothing was ever proposed among them, by id."""
    return [
        MindFigures(
            row["id"], tuple(row["names"] or ()), row["timezone"] or "UTC",
            row["rows"], row["live"], row["retired"], row["paused"], row["at"],
        )
        for row in await tx.fetch(_MINDS)
    ]  # fmt: skip


async def list_newest(
    tx: Tx,
    mind_id: str,
    limit: int,
    *,
    type_: str | None = None,
    retired: bool = False,
    readable: Iterable[RoomId] | None = None,
) -> list[Held]:
    """Return the live entries, or the tombstones, that were changed last; `readable`: made of these rooms alone."""
    rooms = None if readable is None else sorted(readable)
    return [held_of(row) for row in await tx.fetch(_NEWEST, mind_id, retired, type_, rooms, limit)]


async def list_operations(
    tx: Tx, mind_id: str, limit: int, *, refused: bool = False, key: Key | None = None
) -> list[JournalRow]:
    """Return the newest rows of the journal; `refused`: those alone; `key`: that touched or named this entry."""
    name = None if key is None else name_of(key)
    return [row_of(row) for row in await tx.fetch(_OPERATIONS, mind_id, refused, name, limit)]


async def list_rooms(tx: Tx, mind_id: str) -> Sequence[NamedRoom]:
    """Return the rooms of a mind's communities."""
    rows = await tx.fetch(_ROOMS, mind_id)
    return [NamedRoom(RoomId(row["id"]), row["name"], row["chat_ref"], row["community"]) for row in rows]


async def count_between(tx: Tx, mind_id: str, since: datetime, until: datetime) -> Between:
    """Return how many operations there were after `since`, up to and with `until`."""
    row = await tx.fetchrow(_BETWEEN, mind_id, since, until)
    return Between(None, None, 0, 0) if row is None else Between(*row.values())
