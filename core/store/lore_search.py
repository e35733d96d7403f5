"""Chunks of lore by the words they hold; who may hear them is part of every statement that reads them."""

from collections.abc import Collection
from dataclasses import dataclass

from core.domain.chunks import inner_words, locator_of
from core.domain.ids import CommunityId, RoomId
from core.domain.sources import ChunkId
from core.store.engine import Row, Tx
from core.store.words import clean

MOST_TERMS = 24
QUESTION_CHARS = 2_000
CANDIDATES = 2_000
"""How many chunks that hold a word of the question are weighed; the rarest words choose them."""

_VISIBLE = """
visible as materialized (
    select s.id, s.name from voidbot.sources s
    join voidbot.source_communities c on c.source_id = s.id and c.community_id = $2
    where s.all_rooms or exists (select 1 from voidbot.source_rooms r
                                 where r.source_id = s.id and r.room_id = any($1::bigint[])))"""
_CHUNK = """
c.id, v.name, f.path, c.blob_hash, c.ordinal, c.line_start, c.line_end, c.symbol, c.text
from voidbot.source_chunks c join voidbot.source_files f on f.id = c.file_id join visible v on v.id = c.source_id"""
# Asked for one word, ts_rank sums its weights over its places; with the rarity of the word that is BM25F (0.6079 is
# what it gives for one place of weight 1). Counts are of visible chunks alone: hidden ones move no score.
_SEARCH = f"""
with {_VISIBLE},
asked as materialized (select lexeme from unnest(to_tsvector('english', $3)) limit {MOST_TERMS}),
size as materialized (select count(*) as n from voidbot.source_chunks c join visible v on v.id = c.source_id),
counted as materialized (
    select lexeme, quote_literal(lexeme)::tsquery as word,
           (select count(*) from voidbot.source_chunks c join visible v on v.id = c.source_id
            where c.tsv @@ quote_literal(lexeme)::tsquery) as df from asked),
ranked as materialized (
    select word, df, ln(1 + (size.n - df + 0.5) / (df + 0.5)) as idf,
           sum(df) over (order by df, lexeme) as upto, row_number() over (order by df, lexeme) as nth
    from counted, size where df > 0),
wanted as materialized (select string_agg(word::text, ' | ')::tsquery as any_of from ranked
                        where upto <= {CANDIDATES} or nth = 1),
found as materialized (
    select c.id, c.tsv, c.len from voidbot.source_chunks c join visible v on v.id = c.source_id
    where c.tsv @@ (select any_of from wanted) limit {CANDIDATES}),
usual as materialized (select greatest(avg(len), 1) as len from found),
scored as (
    select f.id, sum(r.idf * ts_rank('{{0.5, 0.3, 0.5, 1}}', f.tsv, r.word)
                     / 0.6079 / (0.8 + 0.2 * f.len / usual.len)) as score
    from found f cross join ranked r cross join usual group by f.id order by 2 desc, 1 limit $4)
select b.score, {_CHUNK} join scored b on b.id = c.id order by b.score desc, c.id"""
_READ = f"with {_VISIBLE} select 0::float8 as score, {_CHUNK} where c.id = any($3::bigint[])"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkHit:
    """A chunk that may be used in the venue it was looked for. Its text is a file's, never an instruction."""

    id: ChunkId
    source: str
    path: str
    blob_hash: str
    ordinal: int
    line_start: int
    line_end: int
    symbol: str
    text: str
    score: float

    @property
    def locator(self) -> str:
        """Return where it stands: `source:path@version#Lfrom-Lto`."""
        return locator_of(self.source, self.path, self.blob_hash, self.line_start, self.line_end)


def _hit_of(row: Row) -> ChunkHit:
    return ChunkHit(
        id=ChunkId(row["id"]),
        source=row["name"],
        path=row["path"],
        blob_hash=row["blob_hash"],
        ordinal=row["ordinal"],
        line_start=row["line_start"],
        line_end=row["line_end"],
        symbol=row["symbol"],
        text=row["text"],
        score=float(row["score"]),
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
