"""Messages and lines of files found for one question, in one list: chat leads, files join in."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from core.domain.chunks import telling_lines
from core.domain.ids import RoomId
from core.domain.retrieval import Near, Query
from core.domain.searchwords import admits
from core.retrieval.service import NOTHING_NEAR, Hit, search
from core.store.engine import Tx
from core.store.lore_search import ChunkHit, search_chunks

LORE_FROM = 0.54
"""Share of the question's weight that a stretch of a chunk must hold (0 to 1): one word of two is no answer."""
QUOTED_CHARS = 400
"""How much of a chunk is quoted to people; a model is given the whole of it."""
_OF = 8
_MOST_OF_EIGHT = 3


@dataclass(frozen=True, slots=True)
class LoreHit:
    """A chunk that was found. `told`: those of its lines that say most; `audience`: where it counts as said."""

    chunk: ChunkHit
    told: ChunkHit
    audience: frozenset[RoomId]


Found = Hit | LoreHit


async def search_all(tx: Tx, query: Query, here: RoomId, near: Near = NOTHING_NEAR) -> tuple[Found, ...]:
    """Return the best messages and lines of files for the venue, best first; empty rather than anything.

    Files are left out where the question is narrowed to rooms, people or a time: they are none of these.

    Args:
        tx: An open transaction.
        query: What is looked for, and where it may be.
        here: The room where the answer appears, or where a private one was asked for.
        near: What `Likeness.near` found for the same query.
    """
    hits = await search(tx, query, near)
    return blend(hits, await _files(tx, query, here), query.k)


async def _files(tx: Tx, query: Query, here: RoomId) -> tuple[LoreHit, ...]:
    narrowed = query.searched != query.readable or query.authors is not None
    if narrowed or query.since is not None or query.until is not None or not query.readable:
        return ()
    chunks = await search_chunks(tx, query.readable, query.community_id, query.text, query.k)
    return tuple(
        LoreHit(chunk, _told(chunk, query.text), chunk.audience(here))
        for chunk in chunks
        if chunk.share >= LORE_FROM and admits(chunk.text, query.phrases, query.without)
    )


def _told(chunk: ChunkHit, question: str) -> ChunkHit:
    if len(chunk.text) <= QUOTED_CHARS:
        return chunk
    start, end = telling_lines(chunk.text, question, QUOTED_CHARS)
    first = min(chunk.line_start + start, chunk.line_end)  # a very long line is a chunk of its own
    last = min(chunk.line_start + end - 1, chunk.line_end)
    return replace(chunk, text="\n".join(chunk.text.split("\n")[start:end]), line_start=first, line_end=last)


def blend(hits: Sequence[Hit], files: Sequence[LoreHit], k: int) -> tuple[Found, ...]:
    """Return the best `k` of both, each kind in its own order; of eight at most three files, unless nobody said a word.

    They are compared by one measure: the share of the question's weight that a text holds itself. For a message
    likeness counts as well, and it stands no lower than those that its own search ranks below it.
    """
    most = k if not hits else -(-_MOST_OF_EIGHT * k // _OF)
    ranked: list[tuple[float, int, int, Found]] = []
    least = 0.0
    for place, hit in reversed(list(enumerate(hits))):
        least = max(least, hit.scores.share, hit.scores.dense)
        ranked.append((-least, 0, place, hit))
    measure = 1.0
    for place, file in enumerate(files[:most]):
        measure = min(measure, file.chunk.share)
        ranked.append((-measure, 1, place, file))
    return tuple(each for *_, each in sorted(ranked, key=lambda entry: entry[:3])[:k])
