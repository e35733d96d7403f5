"""Units by the words they hold: one statement finds, filters and weighs them; the audience is part of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from core.domain.ids import CommunityId, MessageId, PersonId, RoomId
from core.store.engine import Row, Tx
from core.store.units import UNSEARCHED, config_of, quoted

UNINDEXED = 200
"""How many of the newest messages that wait for their units a search reads."""


@dataclass(frozen=True, slots=True)
class Terms:
    """A question's words: for each the lexemes that stand for it, and how many units hold it."""

    lexemes: tuple[tuple[str, ...], ...]
    df: tuple[int, ...]
    units: int
    avg_len: float


_TERMS = """
with words as (
    select w.position, array_agg(distinct t.lexeme order by t.lexeme) as lexemes
    from unnest($2::text[]) c(config)
    cross join lateral unnest(to_tsvector(c.config::regconfig, $3)) t
    cross join lateral unnest(t.positions) w(position)
    group by w.position
    union all
    select 100000 + i.n, array[i.lexeme] from unnest($4::text[]) with ordinality i(lexeme, n)),
once as (select lexemes, min(position) as position from words group by lexemes)
select o.lexemes,
       (select coalesce(max(each.df), 0) from (
            select sum(d.df) as df from voidbot.term_df d
            where d.room_id = any($1::bigint[]) and d.lexeme = any(o.lexemes) group by d.lexeme) each) as df,
       s.units, s.avg_len
from once o cross join (
    select sum(units) as units, sum(units * avg_len) / nullif(sum(units), 0) as avg_len
    from voidbot.index_stats where room_id = any($1::bigint[])) s
order by o.position"""


async def read_terms(
    tx: Tx, readable: Sequence[RoomId], languages: Sequence[str], text: str, idents: Sequence[str]
) -> Terms:
    """Return the question's words as the index folds them in these languages, stop words left out.

    They are counted in the readable rooms alone: how rare a word is elsewhere decides what is found as little as what
    was said there.
    """
    configs = sorted({config_of(language) for language in languages}) or ["simple"]
    rows = await tx.fetch(_TERMS, readable, configs, text, idents)
    if not rows:
        return Terms((), (), 0, 1.0)
    return Terms(
        tuple(tuple(row["lexemes"]) for row in rows),
        tuple(int(row["df"]) for row in rows),
        int(rows[0]["units"] or 0),
        float(rows[0]["avg_len"] or 1.0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What a search is narrowed to. Empty or None: not at all.

    `rooms`: the only rooms whose words may be used. `but_not`: the asking message.
    """

    community_id: CommunityId
    rooms: Sequence[RoomId]
    readable: Sequence[RoomId]
    languages: Sequence[str]
    authors: Sequence[PersonId] | None = None
    since: datetime | None = None
    until: datetime | None = None
    kinds: Sequence[str] | None = None
    people_only: bool = False
    but_not: MessageId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A unit that holds some of the question's words, or is like it."""

    unit_id: int
    message_id: MessageId
    room_id: RoomId
    author_id: PersonId | None
    by_bot: bool
    sent_at: datetime
    quote_from: int
    quote_to: int | None
    own_hash: str
    position: int
    score: float
    share: float


B = 0.2
"""How much longer units are held back, 0 to 1."""
WEIGHTS = "{.5,.3,.5,1}"
"""Of the fields when, far, near, own, in the order that `ts_rank` takes them."""
ONE_TERM = 0.6079
"""What `ts_rank` gives one occurrence of weight 1 of a single term."""

_NARROWED = """
    u.room_id = any($2::bigint[]) and (u.sources is null or u.sources <@ $3::bigint[])
    and ($4::bigint[] is null or u.author_id = any($4)) and ($5::timestamptz is null or u.sent_at >= $5)
    and ($6::timestamptz is null or u.sent_at < $6) and ($7::text[] is null or u.kind = any($7))
    and not ($8::boolean and u.by_bot) and ($9::bigint is null or u.message_id <> $9)"""
# What waits for its unit is read from the messages, so that what was said a second ago is found.
_LEXICAL = f"""
with terms as materialized (
    select t.q::tsquery as q, t.own::tsquery as own, t.idf
    from unnest($10::text[], $11::text[], $12::float8[]) t(q, own, idf)),
held as materialized (
    select u.id, u.message_id, u.room_id, u.author_id, u.by_bot, u.sent_at, u.quote_from, u.quote_to, u.own_hash,
           u.tsv, u.len, false as fresh
    from voidbot.units u where u.tsv @@ $1::tsquery and {_NARROWED}),
also as materialized (
    select u.id, u.message_id, u.room_id, u.author_id, u.by_bot, u.sent_at, u.quote_from, u.quote_to, u.own_hash,
           u.tsv, u.len, false as fresh
    from voidbot.units u where u.id = any($15::bigint[]) and not u.tsv @@ $1::tsquery and {_NARROWED}),
waiting as materialized (
    select u.*, true as fresh from (
        select -m.id as id, m.id as message_id, m.room_id, m.author_id, p.is_bot as by_bot, m.sent_at, 0 as quote_from,
               null::int as quote_to, '' as own_hash, f.tsv, length(f.tsv)::real as len, m.sources, m.kind
        from (select * from voidbot.messages q where q.index_state = 'queued' and q.room_id = any($2::bigint[])
              order by q.sent_at desc limit {UNINDEXED}) m
        join voidbot.people p on p.id = m.author_id and not p.opted_out join voidbot.rooms r on r.id = m.room_id
        left join unnest($16::text[], $17::text[]) l(language, config) on l.language = r.language
        cross join lateral (
            select setweight(to_tsvector(coalesce(l.config, 'simple')::regconfig, m.text), 'A') as tsv offset 0) f
        where m.deleted_at is null and r.searchable
          and not exists (select 1 from voidbot.people o where o.id = m.proxy_of and o.opted_out)
          and m.kind <> all(array{list(UNSEARCHED)!r}::text[])) u
    where u.tsv @@ $1::tsquery and {_NARROWED}),
all_ as (
    select * from held union all select * from also
    union all
    select w.id, w.message_id, w.room_id, w.author_id, w.by_bot, w.sent_at, w.quote_from, w.quote_to, w.own_hash, w.tsv,
           w.len, w.fresh from waiting w),
scored as (
    select c.*, s.score / (1 - {B} + {B} * c.len / greatest($13::float8, 1)) as score
    from all_ c cross join lateral (
        select coalesce(sum(t.idf * ts_rank('{WEIGHTS}', c.tsv, t.q)), 0) / {ONE_TERM} as score from terms t) s),
best as (
    (select * from scored order by score desc, id limit $14)
    union
    (select * from scored where id = any($15::bigint[])))
select b.id, b.message_id, b.room_id, b.author_id, b.by_bot, b.sent_at, b.quote_from, b.quote_to, b.own_hash,
       m.archived_seq as position, b.score,
       (select coalesce(sum(t.idf), 0) from terms t where b.tsv @@ t.own) as share
from best b join voidbot.messages m on m.id = b.message_id
where m.deleted_at is null and (b.fresh or m.index_state <> 'queued')
order by b.score desc, b.id"""


@dataclass(frozen=True, slots=True)
class Term:
    """One word of a question: its lexemes, and its weight: the rarer, the more."""

    lexemes: tuple[str, ...]
    weight: float

    def query(self, label: str = "") -> str:
        """Return it as a tsquery; `label` A: in a message's own words alone."""
        return " | ".join(quoted(lexeme) + (f":{label}" if label else "") for lexeme in self.lexemes)


async def search_units(
    tx: Tx,
    query: str,
    terms: Sequence[Term],
    avg_len: float,
    narrowed: Filter,
    *,
    limit: int,
    also: Sequence[int] = (),
) -> list[Candidate]:
    """Return the units that match `query`, best first, and those in `also` with their scores.

    Args:
        tx: An open transaction.
        query: Which words a unit must hold, as a tsquery.
        terms: The question's words; all of them score, whichever of them `query` asks for.
        avg_len: The mean length of the community's units.
        narrowed: The readable rooms and what else must hold; part of the statement.
        limit: How many at most, besides `also`.
        also: Units found another way, which are scored as well.
    """
    rows = await tx.fetch(
        _LEXICAL,
        query,
        narrowed.rooms,
        narrowed.readable,
        narrowed.authors,
        narrowed.since,
        narrowed.until,
        narrowed.kinds,
        narrowed.people_only,
        narrowed.but_not,
        [term.query() for term in terms],
        [term.query("A") for term in terms],
        [term.weight for term in terms],
        avg_len,
        limit,
        list(also),
        list(narrowed.languages),
        [config_of(language) for language in narrowed.languages],
    )
    return [_candidate(row) for row in rows]


def _candidate(row: Row) -> Candidate:
    return Candidate(
        unit_id=row["id"],
        message_id=MessageId(row["message_id"]),
        room_id=RoomId(row["room_id"]),
        author_id=None if row["author_id"] is None else PersonId(row["author_id"]),
        by_bot=row["by_bot"],
        sent_at=row["sent_at"],
        quote_from=row["quote_from"],
        quote_to=row["quote_to"],
        own_hash=row["own_hash"],
        position=int(row["position"]),
        score=float(row["score"]),
        share=float(row["share"]),
    )
