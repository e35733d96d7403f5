"""What of the mind belongs to one audience group, in whole lists and not the best alone. Read only."""

from collections.abc import Iterable, Mapping

from core.domain.ids import RoomId
from core.domain.mind.bodies import KIND_OF, Kind
from core.domain.mind.entries import Entry
from core.domain.mind.speech import CandidateStatus
from core.domain.mind.values import EntryId
from core.store.engine import Tx
from core.store.state import held_of

MOST = 200
"""How many of a type are read where nothing else is said."""
_COLUMNS = """e.kind, e.entry_id, e.version, e.body::text as body, e.sources, e.people, e.created_at, e.updated_at,
  e.retired_at, e.retired_reason, e.superseded_by, e.last_seq"""
# The rule of what may be shown is that of `mind_views`, for many rooms at once. What was made from other rooms is some
# other group's matter, even where all readers of this one may know of it; what was made from both is this one's.
_OWN = f"""
with hidden as materialized (
    select coalesce(array_agg(p.id) filter (where p.opted_out or p.erasing), '{{}}') as people,
           coalesce(array_agg('person:' || p.id), '{{}}') as targets
    from voidbot.people p where p.opted_out or p.erasing or not p.learn_me)
select {_COLUMNS} from unnest($2::text[], $6::integer[]) t(type, most) cross join lateral (
    select * from voidbot.state_entries e
    where e.mind_id = $1 and e.type = t.type and e.retired_at is null
      and (e.sources <@ $3::bigint[] or $7::bigint[] <> '{{}}' and e.sources && $3 and e.sources <@ $7)
      and not e.people && (select people from hidden)
      and (e.about is null or e.about <> all((select targets from hidden)::text[]))
      and (e.type not in ('case', 'receipt') or e.about = any($4::text[]))
      and (not $5::boolean or (e.brief->'needsReview')::boolean)
    order by case e.type
        when 'case' then extract(epoch from e.created_at)::float8
        when 'candidate' then -(e.brief->>'priority')::float8
        when 'pressure_item' then -(e.brief->>'intensity')::float8
        when 'thread' then -(e.brief->>'maturation')::float8 end, e.updated_at desc, e.entry_id limit t.most) e
where not exists (
    select from unnest(e.cites) c(ref)
    left join voidbot.state_entries s on s.mind_id = $1 and s.kind in ('{Kind.MEMORY.value}', '{Kind.PRESSURE.value}')
         and s.entry_id = case when c.ref like 'memory:%' then substr(c.ref, 8) end
    cross join lateral unnest(array_append(s.cites, c.ref)) d(ref)
    left join voidbot.messages m
         on m.id = case when d.ref ~ '^message:[0-9]{{1,18}}$' then substr(d.ref, 9)::bigint end
    where d.ref like 'message:%' and (m.id is null or m.deleted_at is not null))
order by e.type, e.updated_at desc, e.entry_id"""
# Since a pressure was last spoken of, or became one of another kind.
_DEFERRALS = f"""
with pressing as materialized (
    select e.entry_id as id, e.about, e.body->>'kind' as kind from voidbot.state_entries e
    where e.mind_id = $1 and e.kind = '{KIND_OF["pressure_item"].value}' and e.entry_id = any($2::text[])),
speech as materialized (
    select p.id, e.entry_id as speech, e.body->>'status' as status, e.last_seq from pressing p
    join voidbot.state_entries e on e.mind_id = $1 and e.kind = '{KIND_OF["candidate"].value}'
     and (e.body->>'sourcePressureId' = p.id or e.about = p.about)),
said as materialized (
    select p.id, o.seq, o.payload->'pressure'->>'kind' as kind from pressing p
    join voidbot.state_operations o on o.mind_id = $1
     and o.touches @> array['{KIND_OF["pressure_item"].value}/' || p.id]
     and o.op = 'upsert_agency_pressure' and o.verdict = 'accepted'),
since as materialized (
    select p.id, greatest(
        coalesce((select max(s.last_seq) from speech s where s.id = p.id
                  and s.status = '{CandidateStatus.SPOKEN.value}'), 0),
        coalesce((select min(o.seq) from said o where o.id = p.id and o.kind = p.kind and o.seq > (
                  select max(b.seq) from said b where b.id = p.id and b.kind <> p.kind)), 0)) as seq
    from pressing p)
select s.id, count(*) as times from speech s join since using (id)
join voidbot.state_operations o on o.mind_id = $1 and o.seq > since.seq and o.effect = 'deferred'
 and o.op = 'queue_candidate_intervention' and o.touches @> array['{KIND_OF["candidate"].value}/' || s.speech]
group by s.id"""


async def list_own(
    tx: Tx,
    mind_id: str,
    types: Iterable[str] | Mapping[str, int],
    rooms: Iterable[RoomId],
    *,
    beside: Iterable[RoomId] = (),
    doubted: bool = False,
) -> dict[str, list[Entry]]:
    """Return the live entries of some types that were made in these rooms alone, or in none, by type, newest first.

    Where a type has more than are wanted, it is the oldest obligations, the candidates, pressures and threads with the
    greatest numbers, and the newest of all else. Obligations and receipts are those of the rooms. That all readers of
    one may read the others is the caller's care.

    Args:
        tx: The transaction.
        mind_id: The mind.
        types: The types, or how many of each are wanted.
        rooms: The rooms.
        beside: Others that an entry may have been made of together with one of these.
        doubted: Only those that have lost some of their proof.
    """
    own = sorted(rooms)
    more = set(beside).difference(own)
    most = dict(types) if isinstance(types, Mapping) else dict.fromkeys(types, MOST)
    wanted = sorted(most)
    rows = await tx.fetch(
        _OWN, mind_id, wanted, own, [f"room:{room}" for room in own], doubted, [most[type_] for type_ in wanted],
        sorted(more.union(own)) if more else [],
    )  # fmt: skip
    found: dict[str, list[Entry]] = {type_: [] for type_ in wanted}
    for row in rows:
        entry = held_of(row).entry
        found.setdefault(entry.type, []).append(entry)
    return found


async def count_deferrals(tx: Tx, mind_id: str, pressures: Iterable[EntryId]) -> dict[EntryId, int]:
    """Return how often speech about each of these pressures was put off since it was last said; absent: never."""
    return {EntryId(row["id"]): row["times"] for row in await tx.fetch(_DEFERRALS, mind_id, sorted(pressures))}
