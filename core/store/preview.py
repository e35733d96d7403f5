"""What is kept of a person, counted: what `/me` shows and an erasure would take. Reads alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from core.domain.erasure import EraseScope
from core.domain.ids import MessageId, PersonId, RoomId
from core.store.engine import Tx

_ERASES = """
with mine as (
    select x.id from voidbot.messages x
    where (x.author_id = $1 or x.proxy_of = $1) and ($5::bigint[] is null or x.id = any($5))
      and ($2::bigint[] is null or x.room_id = any($2)) and ($3::timestamptz is null or x.sent_at >= $3)
      and ($4::timestamptz is null or x.sent_at < $4))
select (select count(*) from mine) as messages,
       (select count(*) from voidbot.units u where u.message_id in (select id from mine)) as search_entries,
       (select count(*) from voidbot.attachments a where a.message_id in (select id from mine)) as attachments,
       (select count(*) from voidbot.inbox x where x.person_id = $1 and x.text <> '' and $5::bigint[] is null
          and ($2::bigint[] is null or x.room_id = any($2)) and ($3::timestamptz is null or x.sent_at >= $3)
          and ($4::timestamptz is null or x.sent_at < $4)) as questions,
       (select count(*) from voidbot.receipts x where x.person_id = $1 and $5::bigint[] is null
          and ($2::bigint[] is null or x.room_id = any($2)) and ($3::timestamptz is null or x.at >= $3)
          and ($4::timestamptz is null or x.at < $4)) as answers"""
_BESIDE = """
select (select count(*) from voidbot.profile_facts where person_id = $1) as facts,
       (select count(*) from voidbot.person_names where person_id = $1) as names,
       (select count(*) from voidbot.reactions where person_id = $1) as reactions,
       (select count(*) from voidbot.person_links where (one_id = $1 or other_id = $1) and ended_at is null) as links,
       (select count(*) from voidbot.exports where person_id = $1) as files,
       (select count(*) from queue.jobs where person_id = $1
          and state not in ('done', 'cancelled', 'discarded', 'dead')) as waiting_work"""
_MATTER = """
select x.id from voidbot.messages x where x.room_id = any($1::bigint[]) and x.delete_reason <> 'erased'
  and ($2::timestamptz is null or x.sent_at < $2) and ($3::text = '' or position(lower($3) in lower(x.text)) > 0)
order by x.id limit $4"""
_COUNT_MATTER = """
select count(*) from voidbot.messages x where x.room_id = any($1::bigint[]) and x.delete_reason <> 'erased'
  and ($2::timestamptz is null or x.sent_at < $2)"""
_BY_ROOM = """
select r.id, r.name, count(*) as messages, min(m.sent_at) as first, max(m.sent_at) as last from voidbot.messages m
join voidbot.rooms r on r.id = m.room_id
where m.author_id = any($1::bigint[]) and m.deleted_at is null group by r.id, r.name order by r.name, r.id"""
_ROOM = """
select count(m.id) as messages, min(m.sent_at) as first, coalesce(r.retention_days, p.retention_days) as days,
       coalesce((select n.name from voidbot.person_names n where n.person_id::text = r.archive_set_by
                 and n.kind = 'display' and n.valid_to is null), '') as set_by, r.archive_set_at, r.searchable
from voidbot.rooms r left join voidbot.rooms p on p.id = r.parent_id
left join voidbot.messages m on m.room_id = r.id and m.deleted_at is null
where r.id = $1 group by r.id, p.id"""


async def count_person(tx: Tx, scope: EraseScope, person_id: PersonId) -> dict[str, int]:
    """Return how many rows of each sort an erasure of this scope would reach now."""
    limits = (person_id, scope.rooms, scope.since, scope.before, scope.messages)
    row = await tx.fetchrow(_ERASES, *limits)
    beside = await tx.fetchrow(_BESIDE, person_id) if scope.whole else None
    return {**dict(row or {}), **dict(beside or {})}


async def list_matter(
    tx: Tx, rooms: Sequence[RoomId], before: datetime | None, topic: str, limit: int
) -> list[MessageId]:
    """Return the messages of a matter: those in the rooms, before then, whose text holds the topic as written."""
    return [MessageId(row["id"]) for row in await tx.fetch(_MATTER, rooms, before, topic, limit)]


async def count_matter(tx: Tx, rooms: Sequence[RoomId], before: datetime | None) -> int:
    """Return how many messages stand in the rooms, before then."""
    return int(await tx.fetchval(_COUNT_MATTER, rooms, before))


@dataclass(frozen=True, slots=True)
class Kept:
    """How much of a person one room keeps."""

    room_id: RoomId
    room_name: str
    messages: int
    first: datetime
    last: datetime


async def count_rooms(tx: Tx, people: Sequence[PersonId]) -> list[Kept]:
    """Return how much of these accounts each room keeps."""
    rows = await tx.fetch(_BY_ROOM, people)
    return [Kept(RoomId(row["id"]), row["name"], row["messages"], row["first"], row["last"]) for row in rows]


@dataclass(frozen=True, slots=True)
class RoomMemory:
    """What is kept of a room. `set_by` empty: nobody who is known. `retention_days` None: for ever."""

    messages: int
    first: datetime | None
    retention_days: int | None
    set_by: str
    set_at: datetime | None
    searchable: bool


async def count_room(tx: Tx, room_id: RoomId) -> RoomMemory:
    """Return what is kept of a room."""
    row = await tx.fetchrow(_ROOM, room_id)
    if row is None:
        raise LookupError(f"no room {room_id}")
    return RoomMemory(*row.values())
