"""Entries of the mind that every reader of a venue may read, ranked: the audience is part of the statement."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from core.domain.ids import PersonId, RoomId
from core.domain.mind.bodies import KIND_OF, Kind, Sleep
from core.domain.mind.entries import Entry
from core.domain.mind.values import EntryId
from core.store.engine import Tx
from core.store.state import held_of

FEW = 8
"""How many of each type but memories are looked at in full, the best by rank."""
CHOSEN = 24
"""How many of the newest of a type are weighed; of memories, and of what is asked for, twice the `pool`."""
SPARE = 2
"""How many more of each are fetched, in case something they rest on has just gone."""
MOST_TERMS = 24
"""How many words of a question are looked for, the longest."""
ABOUT_CHARS = 2_000
HALF_LIFE_S = 30 * 86_400
"""In which time the weight of recency halves."""
WEIGHTS = {"likeness": 0.55, "recency": 0.20, "target": 0.15, "anchored": 0.10}
"""What the rank of a thought is made of; each part is 0 to 1. Half the target's weight for a shared topic."""


@dataclass(frozen=True, slots=True)
class Found:
    """An entry that may be shown. `score`: how far a thought is to the point, 0 to 1; `there`: how many of its type."""

    entry: Entry
    score: float
    there: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked for, as in `ViewWanted`. `pool`: how many memories are looked at in full, the best by rank."""

    types: Iterable[str]
    room: RoomId
    readable: Iterable[RoomId]
    private: bool
    public: bool
    speaker: PersonId | None
    about: str
    targets: Iterable[str]
    topics: Iterable[str]
    near: Mapping[EntryId, float]
    pool: int


_COLUMNS = """e.kind, e.entry_id, e.version, e.body::text as body, e.sources, e.people, e.created_at, e.updated_at,
  e.retired_at, e.retired_reason, e.superseded_by, e.last_seq"""
# The one rule of what may be shown. A person who is not to be remembered hides all that their words are in; one of whom
# nothing is to be learnt hides what is about them.
_USABLE = """
    e.retired_at is null and e.sources <@ (select rooms from heard) and not e.people && (select people from hidden)
    and (e.about is null or e.about <> all((select targets from hidden)::text[]))
    and case e.type
        when 'case' then e.about = 'room:' || $3 and e.brief->>'status' in ('pending', 'watching')
        when 'receipt' then e.about = 'room:' || $3
        when 'thread' then e.brief->>'status' <> 'retired'
        when 'pressure_item' then e.brief->>'status' in ('active', 'cooling', 'ready_to_act') and not (
            $6::boolean and e.about like 'person:%' and e.about is distinct from 'person:' || $7::bigint)
        when 'candidate' then e.brief->>'status' not in ('spoken', 'retired')
        else true end
    and not ($6::boolean and coalesce((e.brief->'needsReview')::boolean, false))"""
# A room of which nobody knows who reads it may be told only what was made from no room; what hangs openly on another
# room is read by that room's readers. Looked at are the newest of each type, what is about the room, the speaker or a
# repository named, and what holds most of the words asked for: nothing else could come first. Until voiding has run,
# what rests on a message that is gone is left out, and what rests on that.
_FIND = f"""
with heard as materialized (
    select case when $4::boolean or exists (
        select from voidbot.rooms r
        join voidbot.communities c on c.id = r.community_id and c.access_state <> 'stale'
        join voidbot.room_access a on a.known and a.room_id = case
            when r.kind in ('thread_public', 'forum_post', 'topic') then r.parent_id else r.id end
        where r.id = $3) then $2::bigint[] else '{{}}'::bigint[] end as rooms),
hidden as materialized (
    select coalesce(array_agg(p.id) filter (where p.opted_out or p.erasing), '{{}}') as people,
           coalesce(array_agg('person:' || p.id), '{{}}') as targets
    from voidbot.people p where p.opted_out or p.erasing or not p.learn_me),
asked as materialized (
    select string_agg(quote_literal(t.lexeme), ' | ')::tsquery as words from (
        select lexeme from unnest(to_tsvector('english', $8::text)) order by length(lexeme) desc, lexeme
        limit {MOST_TERMS}) t),
chosen as materialized (
    select n.* from unnest($5::text[]) t(type) cross join lateral (
        select e.kind, e.entry_id from voidbot.state_entries e
        where e.mind_id = $1 and e.type = t.type and {_USABLE} order by e.updated_at desc, e.entry_id
        limit case t.type when 'durable' then 2 * $14::integer else {CHOSEN} end) n
    union
    select a.* from unnest($9::text[]) t(about) cross join lateral (
        select e.kind, e.entry_id from voidbot.state_entries e
        where e.mind_id = $1 and e.about = t.about and e.type = any($5::text[]) and {_USABLE}
        order by e.updated_at desc, e.entry_id limit 2 * $14::integer) a
    union
    select h.kind, h.entry_id from (
        select e.kind, e.entry_id from voidbot.state_entries e
        where e.mind_id = $1 and e.words @@ (select words from asked) and e.type = any($5::text[]) and {_USABLE}
        order by ts_rank('{{1,1,1,1}}', e.words, (select words from asked)) desc, e.updated_at desc, e.entry_id
        limit 2 * $14::integer) h
    union
    select e.kind, e.entry_id from unnest($11::text[]) n(id)
    join voidbot.state_entries e on e.mind_id = $1 and e.kind = '{Kind.MEMORY.value}' and e.entry_id = n.id
    where e.type = any($5::text[]) and {_USABLE}),
live as materialized (
    select e.kind, e.entry_id, e.type, e.updated_at, e.cites, e.brief, e.about, n.cos,
           case when e.type in ('durable', 'short_term', 'thread') and e.words @@ (select words from asked)
                then ts_rank('{{1,1,1,1}}', e.words, (select words from asked)) end as held
    from chosen c join voidbot.state_entries e on e.mind_id = $1 and e.kind = c.kind and e.entry_id = c.entry_id
    left join unnest($11::text[], $12::float8[]) n(id, cos) on n.id = e.entry_id and e.kind = '{Kind.MEMORY.value}'),
counted as materialized (select type, count(*) as there from live group by type),
most as materialized (select max(held) as held from live),
scored as materialized (
    select l.kind, l.entry_id, l.type, l.updated_at, l.cites, l.brief,
           case when l.type in ('durable', 'short_term', 'thread') then
               {WEIGHTS["likeness"]} * case when l.cos is null then coalesce(l.held / (select held from most), 0)
                                            else greatest(l.cos, 0) end
               + {WEIGHTS["recency"]} * power(0.5, greatest(
                     extract(epoch from $13::timestamptz - l.updated_at)::float8, 0) / {HALF_LIFE_S})
               + {WEIGHTS["target"]} * case when l.about = any($9::text[]) then 1.0
                                            when l.brief->'topics' ?| $10::text[] then 0.5 else 0.0 end
               + {WEIGHTS["anchored"]} * case when (l.brief->'anchorsMissing')::boolean then 0.0 else 1.0 end
               else 0 end as score
    from live l),
ranked as materialized (
    select s.kind, s.entry_id, s.type, s.cites, s.score, row_number() over (
               partition by s.type order by case
                   when s.type in ('value', 'candidate') then (s.brief->>'priority')::float8
                   when s.type = 'pressure_item' then (s.brief->>'intensity')::float8
                   when s.type = 'thread' then (s.brief->>'maturation')::float8
                   else s.score end desc, s.score desc, s.updated_at desc, s.entry_id) as place
    from scored s)
select r.type as of, r.score, c.there, {_COLUMNS}
from ranked r join counted c using (type)
join voidbot.state_entries e on e.mind_id = $1 and e.kind = r.kind and e.entry_id = r.entry_id
where r.place <= case r.type when 'durable' then $14::integer else {FEW} end + {SPARE} and not exists (
    select from unnest(r.cites) c(ref)
    left join voidbot.state_entries s on s.mind_id = $1 and s.kind in ('{Kind.MEMORY.value}', '{Kind.PRESSURE.value}')
         and s.entry_id = case when c.ref like 'memory:%' then substr(c.ref, 8) end
    cross join lateral unnest(array_append(s.cites, c.ref)) d(ref)
    left join voidbot.messages m
         on m.id = case when d.ref ~ '^message:[0-9]{{1,18}}$' then substr(d.ref, 9)::bigint end
    where d.ref like 'message:%' and (m.id is null or m.deleted_at is not null))
order by r.type, r.place"""
_NOTES = f"""
select {_COLUMNS} from voidbot.state_entries e
where e.mind_id = $1 and e.kind = '{Kind.MEMORY.value}' and e.type = 'short_term' and e.retired_at is null
  and e.entry_id = any($2::text[]) and e.sources <@ $3::bigint[]"""
_SLEEP = """
select (body - 'activeDreamThemes')::text as body from voidbot.state_entries
where mind_id = $1 and kind = $2 and entry_id = 'sleep' and retired_at is null and not body ? 'scrubbed'"""


async def find(tx: Tx, mind_id: str, wanted: Wanted, now: datetime) -> dict[str, list[Found]]:
    """Return what may be shown, by type, the best first: at most `pool` memories and `FEW` of each other type."""
    near = sorted(wanted.near.items())
    rows = await tx.fetch(
        _FIND, mind_id, sorted(wanted.readable), wanted.room, wanted.private, sorted(wanted.types), wanted.public,
        wanted.speaker, wanted.about[:ABOUT_CHARS], sorted(wanted.targets), sorted(wanted.topics),
        [id_ for id_, _ in near], [cos for _, cos in near], now, wanted.pool,
    )  # fmt: skip
    found: dict[str, list[Found]] = {}
    for row in rows:
        held = found.setdefault(row["of"], [])
        if len(held) < (wanted.pool if row["of"] == "durable" else FEW):
            held.append(Found(held_of(row).entry, row["score"], row["there"]))
    return found


async def find_sleep(tx: Tx, mind_id: str) -> Sleep:
    """Return how the mind sleeps, without what it dreams of: that alone is made of rooms."""
    row = await tx.fetchrow(_SLEEP, mind_id, KIND_OF["sleep"].value)
    return Sleep() if row is None else Sleep.model_validate_json(row["body"])


async def find_notes(tx: Tx, mind_id: str, ids: Iterable[str], within: Iterable[RoomId]) -> list[Entry]:
    """Return those of these notes of the day that are live and made of no other rooms."""
    return [held_of(row).entry for row in await tx.fetch(_NOTES, mind_id, sorted(ids), sorted(within))]
