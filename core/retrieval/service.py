"""Search over archived messages: the only way to their text for chat and commands.

The database decides visibility: the readable rooms are part of every statement that reads the rows. Likeness is
asked of a vector store before, outside any transaction (`near`); it returns ids, which count only as far as the
statements here find their rows.
"""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from core.domain.errors import BotError
from core.domain.ids import MessageId, RoomId
from core.domain.retrieval import (
    LIKE_FROM,
    MIX,
    QUERY_CHARS,
    Mix,
    Near,
    Query,
    Scores,
    collapse,
    is_echo,
    likeness_of,
    named_in,
    rarity,
    recency,
    speaker_factor,
    spread,
)
from core.domain.searchwords import admits
from core.domain.units import fold, identifiers, is_identifier
from core.domain.vectors import EmbeddingModel, Vector, VectorScope
from core.ports import Clock, Embedder, VectorStore
from core.store import archive, embeddings, people, places, unit_search
from core.store.archive import ArchivedMessage
from core.store.engine import Database, Tx
from core.store.unit_search import Candidate, Filter, Term

log = structlog.get_logger()

TERMS = 40
"""How many words of a question count, its rarest."""
POOL = 100
"""How many of the best by words, and how many by likeness, are weighed against each other."""
CANDIDATES = 2_500
"""How many units may hold the words that choose the candidates; commoner words only add to the score."""
NEAR_MS = 400
"""How long likeness may take; after that a search goes by words alone."""
NOTHING_NEAR = Near()
_PHRASE = re.compile(r"[\"“„«]([^\"”“»]{2,200})[\"”“»]")
_ABOUT_BOT = re.compile(r"\b(?:you|your|yours|the bot|void|voidbot|assistant)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Hit:
    """A message with its score. `alike`: how many near-equal messages it stands for, itself counted."""

    message: ArchivedMessage
    score: float
    scores: Scores
    alike: int = 1
    quote_from: int = 0
    quote_to: int | None = None

    @property
    def quote(self) -> str:
        """The part of the message that was found, verbatim."""
        return self.message.text[self.quote_from : self.quote_to]


Embedders = Mapping[str, Embedder]
"""The embedders that a process can ask, by the names of their models."""
READING_FOR_S = 10.0
"""How long a process may go on asking the model that was read before another took its place."""

EMBED_S = 5.0
"""How long thoughts that are to be compared may take to become vectors."""


class Likeness:
    """What is like a question, by the model whose vectors are read now."""

    def __init__(self, database: Database, clock: Clock, embedders: Embedders, store: VectorStore) -> None:
        self.embedders = embedders
        self.store = store
        self._database = database
        self._clock = clock
        self._reading: tuple[float, EmbeddingModel | None] = (float("-inf"), None)

    async def near(self, query: Query) -> Near:
        """Return what is like the question in its rooms; no transaction may be open.

        A model or store that fails or is slow leaves the search to words, and `note` says so.
        """
        if not query.searched or not query.text.strip():
            return Near()
        scope = VectorScope(
            community_id=query.community_id,
            rooms=query.searched,
            authors=frozenset(query.authors or ()),
            since=query.since,
            until=query.until,
            kinds=query.kinds or frozenset(),
        )
        try:
            async with asyncio.timeout(NEAR_MS / 1000):
                model = await self._read_model()
                embedder = None if model is None else self.embedders.get(model.name)
                if model is None or embedder is None:
                    return Near(note="dense_not_configured")
                (vector,) = await embedder.embed([query.text[:QUERY_CHARS]])
                hits = await self.store.search(model, vector, scope, POOL)
        except TimeoutError:
            return Near(note="dense_skipped")
        except BotError as exc:
            log.warning("search.dense_unavailable", error=str(exc))
            return Near(note="dense_unavailable")
        return Near(model, tuple(hits))

    async def model_name(self) -> str | None:
        """Return the name of the model that is read now; None if there is none. No transaction may be open."""
        model = await self._read_model()
        return None if model is None else model.name

    async def embed(self, texts: Sequence[str]) -> Sequence[Vector] | None:
        """Return the vectors of texts by the model that is read now; None if there is none, or it fails or is slow."""
        try:
            async with asyncio.timeout(EMBED_S):
                model = await self._read_model()
                embedder = None if model is None else self.embedders.get(model.name)
                return None if embedder is None else await embedder.embed(texts)
        except (TimeoutError, BotError) as exc:
            log.warning("likeness.unavailable", error=type(exc).__name__)
            return None

    async def _read_model(self) -> EmbeddingModel | None:
        at, model = self._reading
        now = self._clock.monotonic()
        if now - at > READING_FOR_S:
            async with self._database.transaction(durable=False) as tx:
                model = await embeddings.reading_model(tx)
            self._reading = (now, model)
        return model


async def search(tx: Tx, query: Query, near: Near = NOTHING_NEAR, mix: Mix = MIX) -> tuple[Hit, ...]:
    """Return the best messages of the readable rooms, best first; empty rather than anything.

    Args:
        tx: An open transaction: rows and readable rooms are of one moment.
        query: What is looked for, and where it may be.
        near: What `Likeness.near` found for the same query.
        mix: Other weights, for measuring.
    """
    if not query.searched:
        return ()
    candidates, whole = await _candidates(tx, query, near)
    if not candidates:
        return ()
    ranked = await _rank(tx, query, near, candidates, whole, mix)
    return await _read_best(tx, query, ranked)


@dataclass(frozen=True, slots=True)
class _Ranked:
    candidate: Candidate
    score: float
    scores: Scores


async def _candidates(tx: Tx, query: Query, near: Near) -> tuple[list[Candidate], float]:
    """Return what holds the question's words or is like it, and the weight of all its words."""
    readable = sorted(query.readable)
    languages = await places.languages_of(tx, readable)
    text = query.text
    if len(text) > QUERY_CHARS:
        text = text[: 10 * QUERY_CHARS]
    idents = identifiers(text)
    # A word's rarity is that of the rooms that are looked through: what is common in one is rare in another.
    found = await unit_search.read_terms(tx, sorted(query.searched), languages, fold(text), idents)
    terms = [Term(lexemes, rarity(found.units, df)) for lexemes, df in zip(found.lexemes, found.df, strict=True)]
    counted = sorted(zip(terms, found.df, strict=True), key=lambda pair: (pair[1], pair[0].lexemes))[:TERMS]
    if not counted and not near.hits:
        return [], 0.0
    narrowed = Filter(
        community_id=query.community_id,
        rooms=await places.list_searchable(tx, query.searched),
        readable=readable,
        languages=languages,
        authors=query.authors,
        since=query.since,
        until=query.until,
        kinds=None if query.kinds is None else sorted(query.kinds),
        people_only=query.people_only,
        but_not=None if query.but_not is None else await archive.id_of(tx, *query.but_not),
    )
    also = [int(hit.unit_id) for hit in near.hits]
    weighed = [term for term, _ in counted]
    chosen = await unit_search.search_units(
        tx, _choosing(counted, CANDIDATES), weighed, found.avg_len, narrowed, limit=POOL, also=also
    )
    return chosen, sum(term.weight for term in weighed)


def _choosing(counted: Sequence[tuple[Term, int]], cap: int) -> str:
    """Return the words that choose the candidates, as a tsquery: the rarest, as long as few enough units hold them."""
    chosen: list[str] = []
    total = 0
    for term, df in counted:
        total += df
        if chosen and total > cap:
            break
        chosen.append(f"({term.query()})")
    if len(chosen) == 1 and total > cap and len(counted) > 1:
        others = " | ".join(f"({term.query()})" for term, _ in counted[1:])
        return f"{chosen[0]} & ({others})"
    return " | ".join(chosen)


async def _rank(
    tx: Tx, query: Query, near: Near, candidates: Sequence[Candidate], whole: float, mix: Mix
) -> list[_Ranked]:
    likeness = {int(hit.unit_id): hit for hit in near.hits}
    exact = is_identifier(query.text) or bool(_PHRASE.search(query.text)) or bool(identifiers(query.text))
    share = (mix.dense_exact if exact else mix.dense) if near.hits else 0.0
    best = max((candidate.score for candidate in candidates), default=0.0) or 1.0
    authors = sorted({candidate.author_id for candidate in candidates if candidate.author_id is not None})
    speaker = named_in(query.text, await people.names_of(tx, authors))
    about_bot = bool(_ABOUT_BOT.search(query.text))
    # What a full list left out is at most as like as its last; taken for zero, words alone would never win.
    unlisted = max(0.0, near.hits[-1].score) if len(near.hits) >= POOL else 0.0
    dense: dict[tuple[RoomId, int], float] = {}
    for each in candidates:
        hit = likeness.get(each.unit_id)
        if hit is not None and hit.unit_hash == each.own_hash:
            dense[each.room_id, each.position] = max(hit.score, dense.get((each.room_id, each.position), 0.0))
    alike = [likeness_of((each.room_id, each.position), dense, unlisted, mix) for each in candidates]
    likest = max(alike, default=0.0) or 1.0
    ranked: list[_Ranked] = []
    for candidate, like in zip(candidates, alike, strict=True):
        factor = speaker_factor(candidate.author_id, candidate.by_bot, speaker, about_bot, mix)
        fresh = recency(query.now - candidate.sent_at, query.latest)
        held = candidate.share / whole if whole else 0.0
        own = dense.get((candidate.room_id, candidate.position), 0.0)
        scores = Scores(candidate.score, own, held, factor, fresh, near.model.name if near.model else "")
        score = ((1 - share) * candidate.score / best + share * like / likest) * factor * fresh
        ranked.append(_Ranked(candidate, score, scores))
    return sorted(ranked, key=lambda each: (-each.score, -each.candidate.sent_at.timestamp(), each.candidate.unit_id))


async def _read_best(tx: Tx, query: Query, ranked: Sequence[_Ranked]) -> tuple[Hit, ...]:
    """Read the best until `k` of them are neither echo nor copy of another."""
    good = _one_each([each for each in ranked if _fits(each, query)])
    if query.spread:
        places_ = [(each.candidate.room_id, each.candidate.position, each.candidate.author_id) for each in good]
        by_author = query.authors is None and query.rooms is None
        good = [good[index] for index in spread(places_, query.k, by_author=by_author)]
    hits: list[Hit] = []
    readable = sorted(query.readable)
    for first in range(0, len(good), 2 * query.k):
        batch = good[first : first + 2 * query.k]
        messages = await archive.read_messages(tx, readable, [each.candidate.message_id for each in batch])
        for each in batch:
            message = messages.get(each.candidate.message_id)
            if message is not None and _is_wanted(query, message.text):
                span = each.candidate.quote_from, each.candidate.quote_to
                hits.append(Hit(message, each.score, each.scores, 1, *span))
        hits = _without_copies(hits)
        if len(hits) >= query.k:
            break
    return tuple(hits[: query.k])


def _is_wanted(query: Query, text: str) -> bool:
    # Who looks for a phrase may well find a message that says nothing else.
    echo = not query.phrases and is_echo(query.text, text)
    return not echo and admits(text, query.phrases, query.without)


def _fits(each: _Ranked, query: Query) -> bool:
    if query.floor <= 0:
        return each.score > 0
    return each.scores.share >= query.floor or each.scores.dense >= LIKE_FROM


def _one_each(ranked: Sequence[_Ranked]) -> list[_Ranked]:
    """Keep the best part of each message."""
    seen: dict[MessageId, _Ranked] = {}
    for each in ranked:
        seen.setdefault(each.candidate.message_id, each)
    return list(seen.values())


def _without_copies(hits: Sequence[Hit]) -> list[Hit]:
    counts = collapse([(hit.message.id, hit.message.sent_at, hit.message.text) for hit in hits])
    return [replace(hit, alike=max(hit.alike, counts[hit.message.id])) for hit in hits if hit.message.id in counts]
