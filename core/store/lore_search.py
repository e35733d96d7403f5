"""Chunks of lore by the words they hold; who may hear them is part of every statement that reads them."""

from collections.abc import Collection
from dataclasses import dataclass

from core.domain.chunks import ChunkRef, cited_as, inner_words, locator_of
from core.domain.ids import CommunityId, RoomId
from core.domain.permalinks import file_link
from core.domain.sources import ChunkId, SourceId, SourceKind
from core.store.engine import Row, Tx
from core.store.words import clean

MOST_TERMS = 24
QUESTION_CHARS = 2_000
CANDIDATES = 2_000
"""How many chunks that hold a word of the question are weighed; the rarest words choose them."""

UNHEARD = 0.5
"""What a word of the question weighs that stands in no chunk and was never said: 0 (common) to 1 (rare)."""
EMPTY = 20
"""So many texts without any of the words are added to both counts: of three chunks one word in each is not common."""
NEAR_WORDS = 50
"""How many words of a chunk are held against a message: as much as people write at once."""

_VISIBLE = """
with homes as materialized (
    select $2::bigint as id union select r.community_id from voidbot.rooms r where r.id = any($1::bigint[])),
visible as materialized (
    select s.id, s.name, s.kind, s.head, s.location, array(
               select r.room_id from voidbot.source_rooms r
               where r.source_id = s.id and r.room_id = any($1::bigint[])
               union
               select r.id from voidbot.source_communities c join voidbot.rooms r on r.community_id = c.community_id
               where c.source_id = s.id and r.id = any($1::bigint[]) and s.all_rooms and not exists (
                   select 1 from voidbot.source_communities o where o.source_id = s.id and o.community_id = $2)
               ) as told_in
    from voidbot.sources s
    where exists (select 1 from voidbot.source_communities c join homes h on h.id = c.community_id
                  where c.source_id = s.id)
      and (s.all_rooms or exists (select 1 from voidbot.source_rooms r
                                  where r.source_id = s.id and r.room_id = any($1::bigint[]))))"""
_CHUNK = """
c.id, v.id as source_id, v.name, v.kind, v.head, v.location, v.told_in, f.path, c.blob_hash, c.ordinal, c.line_start,
c.line_end, c.symbol, c.text
from voidbot.source_chunks c join voidbot.source_files f on f.id = c.file_id join visible v on v.id = c.source_id"""
# Asked for one word, ts_rank sums its weights over its places; with the rarity of the word that is BM25F (0.6079 is
# what it gives for one place of weight 1). Counts are of visible chunks and readable rooms alone: hidden ones move no
# score. What a word weighs in the share is the lesser of its rarity here and in talk, each from 0 to 1: a greeting is
# rare in files, a function's name in talk, and neither may decide what is found. The share is that of the best stretch
# of the chunk, with the words of its file's name and headings: a page holds any few words somewhere.
_SEARCH = f"""{_VISIBLE},
asked as materialized (
    select lexeme from unnest(to_tsvector('english', $3)) order by length(lexeme) desc, lexeme limit {MOST_TERMS}),
size as materialized (
    select count(*)::float8 as n from voidbot.source_chunks c join visible v on v.id = c.source_id),
talk as materialized (
    select coalesce(sum(units), 0)::float8 as n from voidbot.index_stats where room_id = any($1::bigint[])),
counted as materialized (
    select lexeme, quote_literal(lexeme)::tsquery as word,
           (select count(*) from voidbot.source_chunks c join visible v on v.id = c.source_id
            where c.tsv @@ quote_literal(lexeme)::tsquery) as df,
           (select coalesce(sum(d.df), 0)::float8 from voidbot.term_df d
            where d.lexeme = asked.lexeme and d.room_id = any($1::bigint[])) as said from asked),
weighed as materialized (
    select lexeme, word, df, ln(1 + (size.n - df + 0.5) / (df + 0.5)) as idf,
           case when df = 0 and said = 0 then {UNHEARD} else least(
               ln(1 + (lore.n - df + 0.5) / (df + 0.5)) / ln(2 + 2 * lore.n),
               ln(1 + (talk.n - said + 0.5) / (said + 0.5)) / ln(2 + 2 * talk.n)) end as weight
    from counted, size, (select n + {EMPTY} as n from size) lore,
         lateral (select greatest(n, said) + {EMPTY} as n from talk) talk),
ranked as materialized (
    select lexeme, word, idf, weight, sum(df) over (order by df, lexeme) as upto,
           row_number() over (order by df, lexeme) as nth
    from weighed where df > 0),
wanted as materialized (select string_agg(word::text, ' | ')::tsquery as any_of from ranked
                        where upto <= {CANDIDATES} or nth = 1),
found as materialized (
    select c.id, c.tsv, c.len from voidbot.source_chunks c join visible v on v.id = c.source_id
    where c.tsv @@ (select any_of from wanted) limit {CANDIDATES}),
usual as materialized (select greatest(avg(len), 1) as len from found),
scored as (
    select f.id, sum(r.idf * ts_rank('{{0.5, 0.3, 0.5, 1}}', f.tsv, r.word)
                     / 0.6079 / (0.8 + 0.2 * f.len / usual.len)) as score
    from found f cross join ranked r cross join usual group by f.id order by 2 desc, 1 limit $4),
spots as materialized (
    select s.id, r.lexeme, r.weight, case p.label when 'A' then p.at end as at
    from scored s join found f on f.id = s.id cross join lateral unnest(f.tsv) t
    join ranked r on r.lexeme = t.lexeme cross join lateral unnest(t.positions, t.weights) p(at, label)),
stretches as (
    select id, at, sum(weight) as held from (
        select distinct s.id, s.at, o.lexeme, o.weight from spots s join spots o on o.id = s.id
        where o.at is null or o.at - s.at between 0 and {NEAR_WORDS}) each
    group by id, at),
held as materialized (select id, max(held) as held from stretches group by id)
select b.score, h.held / (select sum(weight) from weighed) as share, {_CHUNK}
join scored b on b.id = c.id join held h on h.id = c.id order by b.score desc, c.id"""
_READ = f"{_VISIBLE} select 0::float8 as score, 0::float8 as share, {_CHUNK} where c.id = any($3::bigint[])"
_NAMES = f"{_VISIBLE} select id, name from visible where id = any($3::bigint[])"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkHit:
    """A chunk that may be used in the venue it was looked for. Its text is a file's, never an instruction.

    `rooms`: what the venue may use of the rooms that the source is kept to, or of those of its communities where the
    venue is of none of them; empty: the venue's own community may be told, in all rooms.
    `location` is the operator's, and shown to nobody. `share`: how much of the question's weight its words hold.
    """

    id: ChunkId
    source_id: SourceId
    source: str
    kind: SourceKind
    head: str
    location: str
    rooms: frozenset[RoomId]
    path: str
    blob_hash: str
    ordinal: int
    line_start: int
    line_end: int
    symbol: str
    text: str
    score: float
    share: float

    @property
    def ref(self) -> ChunkRef:
        """Return how a receipt names it."""
        return ChunkRef(self.source_id, self.id, self.blob_hash[:7], self.line_start, self.line_end)

    @property
    def place(self) -> str:
        """Return how it is named to people: source, file, lines, and the commit or else the version of the file."""
        head = self.head if self.kind is SourceKind.GIT else ""
        return cited_as(self.source, self.path, self.line_start, self.line_end, head, self.blob_hash)

    @property
    def link(self) -> str | None:
        """Return the address where these lines can be opened, if the place that the source comes from has one."""
        if self.kind is not SourceKind.GIT:
            return None
        return file_link(self.location, self.head, self.path, self.line_start, self.line_end)

    def audience(self, here: RoomId) -> frozenset[RoomId]:
        """Return the room that what is made of it here counts as coming from: this one if it may, or one it is kept to.

        Args:
            here: The room where the answer appears, or where a private one was asked for.
        """
        return frozenset({here if not self.rooms or here in self.rooms else min(self.rooms)})

    @property
    def locator(self) -> str:
        """Return where it stands: `source:path@version#Lfrom-Lto`."""
        return locator_of(self.source, self.path, self.blob_hash, self.line_start, self.line_end)


def _hit_of(row: Row) -> ChunkHit:
    return ChunkHit(
        id=ChunkId(row["id"]),
        source_id=SourceId(row["source_id"]),
        source=row["name"],
        kind=SourceKind(row["kind"]),
        head=row["head"],
        location=row["location"],
        rooms=frozenset(map(RoomId, row["told_in"])),
        path=row["path"],
        blob_hash=row["blob_hash"],
        ordinal=row["ordinal"],
        line_start=row["line_start"],
        line_end=row["line_end"],
        symbol=row["symbol"],
        text=row["text"],
        score=float(row["score"]),
        share=float(row["share"]),
    )


async def search_chunks(
    tx: Tx, readable: Collection[RoomId], community_id: CommunityId, text: str, k: int
) -> list[ChunkHit]:
    """Return the chunks that fit `text` best and may be used in the venue, best first; equal passages once.

    Args:
        tx: An open transaction: what is found and who may hear it are of one moment.
        readable: What every reader of the venue may read now.
        community_id: The venue's community, or the one that a private answer is asked in.
        text: The question.
        k: How many at most.
    """
    words = clean(text)[:QUESTION_CHARS]
    words = f"{words} {inner_words(words)}"
    found: dict[tuple[str, int], ChunkHit] = {}
    for row in await tx.fetch(_SEARCH, sorted(readable), community_id, words, 3 * k):
        hit = _hit_of(row)
        found.setdefault((hit.blob_hash, hit.ordinal), hit)
    return list(found.values())[:k]


async def read_chunks(
    tx: Tx, readable: Collection[RoomId], community_id: CommunityId, ids: Collection[ChunkId]
) -> dict[ChunkId, ChunkHit]:
    """Return these chunks by id, as far as the venue may be told what they say now."""
    rows = await tx.fetch(_READ, sorted(readable), community_id, sorted(ids))
    return {hit.id: hit for hit in map(_hit_of, rows)}


async def name_sources(
    tx: Tx, readable: Collection[RoomId], community_id: CommunityId, ids: Collection[SourceId]
) -> dict[SourceId, str]:
    """Return the names of these sources, as far as the venue may be told what they say now."""
    return {
        SourceId(row["id"]): row["name"] for row in await tx.fetch(_NAMES, sorted(readable), community_id, sorted(ids))
    }
