"""The audience in the database: the rooms that it knows, and what a search by words and by likeness finds in them."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from core.domain import audience
from core.domain.audience import Private, Venue, readable_rooms
from core.domain.ids import CommunityId, PersonId, RoomId
from core.domain.retrieval import Query
from core.retrieval.indexing import index_all
from core.retrieval.service import Hit, Likeness, search
from core.store import access, embeddings
from core.store.engine import Database, Tx
from core.store.pgvector import PgVectorStore
from tests.audience.stored import Stored, embed_all, store
from tests.audience.worlds import History, Oracle, live, told, venues
from tests.fakes import ManualClock, WordEmbedder

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
ASKED = 2
"""How many venues of each history are asked in."""


@pytest.mark.parametrize("count", [100, pytest.param(2000, marks=pytest.mark.long)])
async def test_a_search_finds_what_every_reader_of_the_venue_may_read_and_nothing_else(
    database: Database, clock: ManualClock, count: int
) -> None:
    rng = random.Random(17)
    embedder, vectors = WordEmbedder(dimension=64), PgVectorStore(database)
    async with database.transaction() as tx:
        await embeddings.add_model(tx, embedder.model)
    await vectors.ensure(embedder.model)
    worlds: list[tuple[History, Stored]] = []
    while len(worlds) < count:
        async with database.transaction(durable=False) as tx:
            for _ in range(20):
                history = live(rng)
                worlds.append((history, await store(tx, history, len(worlds), NOW)))
            while await index_all(tx):
                pass
    assert await embed_all(database, vectors, embedder) > count
    likeness = Likeness(database, clock, {embedder.model.name: embedder}, vectors)
    found = by_likeness = 0
    for history, stored in worlds:
        oracle = Oracle(history.truth)
        for venue in rng.sample(list(venues(history.truth, audience)), ASKED):
            asker = _asker(rng, history, venue)
            home = _home(rng, history, venue)
            async with database.transaction(durable=False) as tx:
                readable = await access.list_readable(tx, stored.homes[home], stored.venue(venue), _id(stored, asker))
                assert readable == _expected(history, stored, venue, asker, home)
                query = _query(stored, stored.homes[home], readable)
                hits = await search(tx, query)
            near = await likeness.near(query)
            async with database.transaction(durable=False) as tx:
                alike = await search(tx, query, near)
            assert {hit.message.text for hit in hits} == {hit.message.text for hit in alike} == _hoped(stored, readable)
            _no_leak(history, oracle, stored, venue, asker, hits)
            found, by_likeness = found + len(hits), by_likeness + len(near.hits)
    assert found > count and by_likeness > count


def _asker(rng: random.Random, history: History, venue: Venue) -> int | None:
    if isinstance(venue, Private):
        return int(venue.person_id)
    return rng.choice([None, *history.truth.held])


def _home(rng: random.Random, history: History, venue: Venue) -> int:
    if isinstance(venue, Private):
        return rng.choice(sorted(history.truth.members))
    return history.truth.rooms[int(venue.room_id)].home


def _id(stored: Stored, person: int | None) -> PersonId | None:
    return None if person is None else stored.people[person]


def _expected(history: History, stored: Stored, venue: Venue, asker: int | None, home: int) -> frozenset[RoomId]:
    """Return the rooms of the venue's mind that the pure rule allows."""
    world = told(history.truth, history.heard, audience)
    mind = history.truth.minds[home]
    pure = readable_rooms(venue, None if asker is None else PersonId(asker), world)
    return frozenset(
        stored.rooms[int(room)] for room in pure if history.truth.minds[history.truth.rooms[int(room)].home] == mind
    )


def _query(stored: Stored, home: CommunityId, readable: frozenset[RoomId]) -> Query:
    return Query(text=stored.word, community_id=home, readable=readable, now=NOW + timedelta(days=1), k=50, floor=0.0)


def _hoped(stored: Stored, readable: frozenset[RoomId]) -> set[str]:
    return {text for text, rooms in stored.said.items() if {stored.rooms[room] for room in rooms} <= readable}


def _no_leak(
    history: History, oracle: Oracle, stored: Stored, venue: Venue, asker: int | None, hits: tuple[Hit, ...]
) -> None:
    """Hold what was found against who really reads it; a room of which nothing is known may speak of itself."""
    for hit in hits:
        for room in stored.said[hit.message.text]:  # a text of another history is not in it
            itself = getattr(venue, "room_id", None) == room
            unsure = not history.heard.rooms[room].known or history.heard.rooms[room].home in history.truth.stale
            above = history.heard.rooms[room].parent
            unsure = unsure or (above is not None and not history.heard.rooms[above].known)
            allowed = oracle.allows(venue, room)
            if asker is not None:
                allowed = allowed and oracle.allows(Private(PersonId(asker)), room)
            assert allowed or (itself and unsure), (venue, asker, room)


class _Undo(Exception):
    """What was tried is taken back."""


async def test_what_may_not_be_read_decides_nothing_about_what_is_found(database: Database) -> None:
    rng = random.Random(23)
    differed = 0
    for n in range(25):
        history = live(rng)
        async with database.transaction(durable=False) as tx:
            stored = await store(tx, history, n, NOW)
            while await index_all(tx):
                pass
        venue = rng.choice(list(venues(history.truth, audience)))
        home = _home(rng, history, venue)
        try:
            async with database.transaction(durable=False) as tx:
                readable = await access.list_readable(tx, stored.homes[home], stored.venue(venue), None)
                query = _query(stored, stored.homes[home], readable)
                before = await _scores(tx, query)
                for table in ("messages", "units", "term_df", "index_stats"):
                    differed += await tx.execute(
                        f"delete from voidbot.{table} where room_id <> all($1::bigint[])", sorted(readable)
                    )
                assert await _scores(tx, query) == before
                raise _Undo
        except _Undo:
            pass
    assert differed > 100


async def _scores(tx: Tx, query: Query) -> list[tuple[str, float, float]]:
    return [(hit.message.text, hit.score, hit.scores.share) for hit in await search(tx, query)]
