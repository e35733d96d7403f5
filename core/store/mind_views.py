"""Entries of the mind that every reader of a venue may read, ranked: the audience is part of the statement."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from core.domain.ids import PersonId, RoomId
from core.domain.mind.bodies import Kind
from core.domain.mind.entries import Entry
from core.domain.mind.values import EntryId

POOL = 64
"""How many memories are looked at in full, the best by rank."""
FEW = 16
"""How many of each other type are."""
MOST_TERMS = 24
"""How many words of a question are looked for, the longest."""
ABOUT_CHARS = 2_000
HALF_LIFE_DAYS = 30


@dataclass(frozen=True, slots=True)
class Found:
    """An entry that may be shown, with its rank within its type, and how many of the type may be shown."""

    entry: Entry
    rank: float
    there: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is asked for. `readable`: rooms that every reader of the venue may read; the rest as in `ViewWanted`."""

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


# A room of which nobody knows who reads it may be told only what was made from no room. What hangs openly on another
# room is read by that room's readers.
_HEARD = """
heard as materialized (
    select case when $4::boolean or exists (
        select from voidbot.rooms r
        join voidbot.communities c on c.id = r.community_id and c.access_state <> 'stale'
        join voidbot.room_access a on a.known and a.room_id = case
            when r.kind in ('thread_public', 'forum_post', 'topic') then r.parent_id else r.id end
        where r.id = $3) then $2::bigint[] else '{}'::bigint[] end as rooms)"""
# Few sets of rooms stand behind thousands of entries: each set is looked at once. A person who is not to be remembered
# hides all that their words are in; one of whom nothing is to be learnt hides what is about them.
_LIVE = f"""
with {_HEARD},
sets as materialized (
    select s.sources from (
        select distinct e.sources from voidbot.state_entries e
        where e.mind_id = $1 and e.retired_at is null and e.type = any($5::text[])) s
    where s.sources <@ (select rooms from heard)),
hidden as materialized (
    select coalesce(array_agg(p.id) filter (where p.opted_out or p.erasing), '{{}}') as people,
           coalesce(array_agg('person:' || p.id), '{{}}') as targets
    from voidbot.people p where p.opted_out or p.erasing or not p.learn_me),
asked as materialized (
    select string_agg(quote_literal(t.lexeme), ' | ')::tsquery as words from (
        select lexeme from unnest(to_tsvector('english', $8::text)) order by length(lexeme) desc, lexeme
        limit {MOST_TERMS}) t),
live as materialized (
    select e.kind, e.entry_id, e.type, e.updated_at, e.cites, e.body, e.sources, n.cos, e.about,
           case when e.type in ('durable', 'short_term', 'thread')
                then coalesce(ts_rank('{{1,1,1,1}}', e.words, (select words from asked)), 0) else 0 end as held
    from voidbot.state_entries e join sets using (sources)
    left join unnest($11::text[], $12::float8[]) n(id, cos) on n.id = e.entry_id and e.kind = '{Kind.MEMORY.value}'
    where e.mind_id = $1 and e.retired_at is null and e.type = any($5::text[])
      and not e.people && (select people from hidden)
      and (e.about is null or e.about <> all((select targets from hidden)::text[]))
      and not ($6::boolean and e.needs_review)
      and not ($6::boolean and e.type = 'pressure_item' and e.about like 'person:%'
               and e.about is distinct from 'person:' || $7::bigint)
      and case e.type
          when 'case' then e.body->>'status' in ('pending', 'watching') and (e.body->>'roomId')::bigint = $3
          when 'receipt' then (e.body->>'roomId')::bigint = $3
          when 'thread' then e.body->>'status' <> 'retired'
          when 'pressure_item' then e.body->>'status' in ('active', 'cooling', 'ready_to_act')
          when 'candidate' then e.body->>'status' not in ('spoken', 'retired')
          else true end)"""
