"""The contract of vector stores: pgvector, Qdrant in memory, and a real Qdrant where TEST_QDRANT_URL names one."""

import asyncio
import itertools
import math
import os
import random
import secrets
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from qdrant_client import AsyncQdrantClient

from core.domain.errors import Misconfigured, Unavailable
from core.domain.ids import CommunityId, MessageId, PersonId, RoomId
from core.domain.vectors import EmbeddingModel, UnitId, Vector, VectorRow, VectorScope, VectorsOf
from core.ports import VectorStore
from core.providers.qdrant_points import QdrantStore, client_of
from core.store.engine import Database
from core.store.pgvector import PgVectorStore
from tests.conftest import on_database, run_sql

pytestmark = [
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect"),
    pytest.mark.filterwarnings("ignore:Local mode performs exact"),
]

REAL_QDRANT = os.environ.get("TEST_QDRANT_URL")  # noqa: TID251  # the suite's own switch
STORES = ["pgvector", "qdrant in memory", *(["qdrant server"] if REAL_QDRANT else [])]
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
COMMUNITIES, ROOMS, AUTHORS = 3, 4, 5
UNITS = 1_200
DIMENSION = 16
KINDS = ("text", "link", "file")
# Units 1 to UNITS exist in the database, as the store in Postgres asks; which community each is in follows its number.
PLANT = f"""
insert into voidbot.communities (id, platform, chat_ref, mind_id) overriding system value
    select n, 'console', 'c' || n, 'm' from generate_series(1, {COMMUNITIES}) n;
insert into voidbot.rooms (id, community_id, platform, chat_ref, kind) overriding system value
    select c * 10 + r, c, 'console', 'r' || c * 10 + r, 'channel'
    from generate_series(1, {COMMUNITIES}) c, generate_series(0, {ROOMS - 1}) r;
insert into voidbot.people (id, platform, account_ref) overriding system value
    select n, 'console', 'p' || n from generate_series(1, {AUTHORS}) n;
insert into voidbot.messages (id, community_id, room_id, author_id, platform_ref, archived_seq, kind, text, sent_at)
    overriding system value
    select n, n % {COMMUNITIES} + 1, (n % {COMMUNITIES} + 1) * 10, 1, 'm' || n, n, 'text', '', '2026-03-01'
    from generate_series(1, {UNITS}) n;
insert into voidbot.units (id, community_id, room_id, message_id, sources, len, unit_hash, own_hash, tsv)
    overriding system value
    select id, community_id, room_id, id, array[room_id], 1, '', '', '' from voidbot.messages
"""


def direction(rng: random.Random, dimension: int = DIMENSION) -> Vector:
    numbers = [rng.gauss(0, 1) for _ in range(dimension)]
    length = math.hypot(*numbers)
    return tuple(number / length for number in numbers)


def row(n: int, vector: Vector) -> VectorRow:
    community = n % COMMUNITIES + 1
    return VectorRow(
        unit_id=UnitId(n),
        community_id=CommunityId(community),
        room_id=RoomId(community * 10 + n // 3 % ROOMS),
        message_id=None if n % 11 == 0 else MessageId(n),
        author_id=None if n % 7 == 0 else PersonId(n % AUTHORS + 1),
        sent_at=START + timedelta(minutes=n, microseconds=n),
        kind=KINDS[n % len(KINDS)],
        unit_hash=f"hash {n}",
        vector=vector,
    )


def rows_of(count: int, seed: int = 1) -> list[VectorRow]:
    rng = random.Random(seed)
    return [row(n, direction(rng)) for n in range(1, count + 1)]


def everywhere(community: int) -> VectorScope:
    return VectorScope(community_id=CommunityId(community), rooms=rooms_of(community))


def rooms_of(community: int) -> frozenset[RoomId]:
    return frozenset(RoomId(community * 10 + n) for n in range(ROOMS))


def within(rows: Iterable[VectorRow], scope: VectorScope) -> list[VectorRow]:
    return [
        each
        for each in rows
        if each.community_id == scope.community_id
        and each.room_id in scope.rooms
        and (not scope.authors or each.author_id in scope.authors)
        and (scope.since is None or each.sent_at >= scope.since)
        and (scope.until is None or each.sent_at < scope.until)
        and (not scope.kinds or each.kind in scope.kinds)
    ]


def likeness(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def best(rows: Iterable[VectorRow], asked: Vector, k: int) -> list[UnitId]:
    return [each.unit_id for each in sorted(rows, key=lambda each: (-likeness(each.vector, asked), each.unit_id))][:k]


async def held(store: VectorStore, model: EmbeddingModel) -> list[UnitId]:
    return [each.unit_id for each in await store.scan(model, None, UNITS)]


async def no_more(store: VectorStore, model: EmbeddingModel) -> None:
    for community in range(1, COMMUNITIES + 1):
        await store.delete(model, VectorsOf(community_id=CommunityId(community)))


@pytest.fixture(scope="module")
async def planted(server: str, template: str) -> AsyncIterator[Database]:
    """One database for the file; every test has a model, and so a table, of its own."""
    name = f"test_{secrets.token_hex(6)}"
    await run_sql(server, f"create database {name} template {template}")
    await run_sql(on_database(server, name), PLANT)
    opened = await Database.open(on_database(server, name), size=8)
    yield opened
    await opened.close()
    await run_sql(server, f"drop database {name} with (force)")


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, planted: Database) -> AsyncIterator[VectorStore]:
    if request.param == "pgvector":
        yield PgVectorStore(planted)
        return
    client = (
        AsyncQdrantClient(":memory:") if request.param == "qdrant in memory" else client_of(REAL_QDRANT or "", None, 5)
    )
    qdrant = QdrantStore(client, guard=lambda: None)
    yield qdrant
    await qdrant.close()


@pytest.fixture
async def model(store: VectorStore) -> AsyncIterator[EmbeddingModel]:
    """A model that the store has room for."""
    made = EmbeddingModel(f"test/{secrets.token_hex(4)}:v1", DIMENSION)
    await store.ensure(made)
    yield made
    await store.drop(made)


async def test_storing_twice_stores_once(store: VectorStore, model: EmbeddingModel) -> None:
    rows = rows_of(60)
    await store.upsert(model, rows)
    await store.upsert(model, [*rows[:30], *rows])
    assert await held(store, model) == [each.unit_id for each in rows]
    assert [await store.count(model, everywhere(c)) for c in (1, 2, 3)] == [20, 20, 20]


async def test_a_new_vector_replaces_the_old_one_with_all_it_is_filtered_by(
    store: VectorStore, model: EmbeddingModel
) -> None:
    old = row(3, direction(random.Random(1)))
    new = replace(
        old,
        room_id=RoomId(11),
        author_id=PersonId(5),
        kind="новое 🦊",
        unit_hash="naïve'\"\\",
        sent_at=START + timedelta(days=3),
        vector=direction(random.Random(2)),
    )
    await store.upsert(model, [old])
    await store.upsert(model, [new])
    (found,) = await store.scan(model, None, 10)
    assert replace(found, vector=()) == replace(new, vector=())
    assert likeness(found.vector, new.vector) == pytest.approx(1, abs=1e-3)
    scope = VectorScope(community_id=new.community_id, rooms=frozenset({RoomId(11)}), kinds=frozenset({"новое 🦊"}))
    (hit,) = await store.search(model, new.vector, scope, 5)
    assert (hit.unit_id, hit.unit_hash) == (3, new.unit_hash)
    assert hit.score == pytest.approx(1, abs=1e-3)


DELETIONS = [
    VectorsOf(community_id=CommunityId(2), units=frozenset({UnitId(1), UnitId(4), UnitId(5), UnitId(9_999)})),
    VectorsOf(community_id=CommunityId(2), units=frozenset()),
    VectorsOf(community_id=CommunityId(2), message_id=MessageId(4)),
    VectorsOf(community_id=CommunityId(3), room_id=RoomId(31)),
    VectorsOf(community_id=CommunityId(1), author_id=PersonId(2)),
    VectorsOf(community_id=CommunityId(1), room_id=RoomId(11), author_id=PersonId(2)),
    VectorsOf(community_id=CommunityId(2)),
]


def is_of(each: VectorRow, of: VectorsOf) -> bool:
    return (
        each.community_id == of.community_id
        and (of.units is None or each.unit_id in of.units)
        and (of.message_id is None or each.message_id == of.message_id)
        and (of.room_id is None or each.room_id == of.room_id)
        and (of.author_id is None or each.author_id == of.author_id)
    )


async def test_deleting_takes_what_it_names_and_nothing_else(store: VectorStore, model: EmbeddingModel) -> None:
    rows = rows_of(60)
    for of in DELETIONS:
        await store.upsert(model, rows)
        gone = [each.unit_id for each in rows if is_of(each, of)]
        assert await store.delete(model, of) == len(gone)
        assert await held(store, model) == [each.unit_id for each in rows if each.unit_id not in gone]
        assert await store.delete(model, of) == 0


async def test_every_filter_is_true_to_a_plain_list(store: VectorStore, model: EmbeddingModel) -> None:
    rows = rows_of(60)
    await store.upsert(model, rows)
    edge = rows[30].sent_at
    options = itertools.product(
        (frozenset({RoomId(10)}), frozenset({RoomId(11), RoomId(13), RoomId(20)}), rooms_of(1)),
        (frozenset[PersonId](), frozenset({PersonId(2), PersonId(3)})),
        (None, edge),
        (None, edge, edge + timedelta(minutes=20)),
        (frozenset[str](), frozenset({"text"}), frozenset({"link", "file"})),
    )
    wrong = []
    for rooms, authors, since, until, kinds in options:
        scope = VectorScope(
            community_id=CommunityId(1), rooms=rooms, authors=authors, since=since, until=until, kinds=kinds
        )
        expected = {each.unit_id for each in within(rows, scope)}
        found = {hit.unit_id for hit in await store.search(model, rows[0].vector, scope, len(rows))}
        if found != expected or await store.count(model, scope) != len(expected):
            wrong.append(scope)
    assert wrong == []


async def strangers(store: VectorStore, model: EmbeddingModel, count: int, queries: int) -> int:
    rows = rows_of(count)
    await store.upsert(model, rows)
    home = {each.unit_id: each.community_id for each in rows}
    rng, found = random.Random(5), 0
    for _ in range(queries):
        community = rng.randint(1, COMMUNITIES)
        # Rooms of others too, as a caller's mistake would have it.
        scope = replace(everywhere(community), rooms=rooms_of(1) | rooms_of(2) | rooms_of(3))
        hits = await store.search(model, rng.choice(rows).vector, scope, 10)
        assert len(hits) == 10
        found += sum(home[hit.unit_id] != community for hit in hits)
    return found


async def test_no_search_finds_another_community_s(store: VectorStore, model: EmbeddingModel) -> None:
    assert await strangers(store, model, 60, 200) == 0


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_no_search_of_many_finds_another_community_s(store: VectorStore, model: EmbeddingModel) -> None:
    assert await strangers(store, model, 300, 10_000) == 0


async def recall(store: VectorStore, model: EmbeddingModel, count: int, queries: int) -> float:
    rows = rows_of(count)
    await store.upsert(model, rows)
    mine, rng, found = within(rows, everywhere(1)), random.Random(6), 0
    for _ in range(queries):
        asked = direction(rng)
        hits = await store.search(model, asked, everywhere(1), 10)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        found += len({hit.unit_id for hit in hits} & set(best(mine, asked, 10)))
    return found / (10 * queries)


async def test_the_most_alike_are_found(store: VectorStore, model: EmbeddingModel) -> None:
    # Half precision swaps neighbours that differ by less than a thousandth; anything worse shows.
    assert await recall(store, model, 400, 30) >= 0.98


@pytest.mark.long
async def test_the_most_alike_of_more_are_found(store: VectorStore, model: EmbeddingModel) -> None:
    assert await recall(store, model, 1_000, 200) >= 0.98


async def test_equal_ones_come_in_order_of_units(store: VectorStore, model: EmbeddingModel) -> None:
    same = direction(random.Random(7))
    await store.upsert(model, [row(n, same) for n in (39, 3, 27, 9, 15, 33, 21)])
    assert [hit.unit_id for hit in await store.search(model, same, everywhere(1), 3)] == [3, 9, 15]


BAD = {
    "zeros": (0.0,) * DIMENSION,
    "not a number": (math.nan, *(0.5,) * (DIMENSION - 1)),
    "infinite": (math.inf, *(0.5,) * (DIMENSION - 1)),
    "another dimension": (0.5,) * (DIMENSION + 1),
}


@pytest.mark.parametrize("bad", BAD)
async def test_what_is_no_direction_is_refused(store: VectorStore, model: EmbeddingModel, bad: str) -> None:
    with pytest.raises(ValueError, match="vector"):
        await store.upsert(model, [*rows_of(2), row(3, BAD[bad])])
    with pytest.raises(ValueError, match="vector"):
        await store.search(model, BAD[bad], everywhere(1), 5)
    assert await held(store, model) == []


async def test_a_vector_of_any_length_is_a_direction(store: VectorStore, model: EmbeddingModel) -> None:
    rows = rows_of(6)
    await store.upsert(model, [replace(each, vector=tuple(1e-9 * x for x in each.vector)) for each in rows])
    (first, *_) = await store.search(model, tuple(1e9 * x for x in rows[2].vector), everywhere(1), 2)
    assert first.unit_id == 3
    assert first.score == pytest.approx(1, abs=1e-3)


async def test_without_rooms_nothing_is_found_and_nothing_asked(store: VectorStore) -> None:
    unknown = EmbeddingModel("nobody/made-this", DIMENSION)  # asking for it would be an error
    scope = VectorScope(community_id=CommunityId(1), rooms=frozenset())
    assert list(await store.search(unknown, rows_of(1)[0].vector, scope, 5)) == []
    assert await store.count(unknown, scope) == 0


async def test_models_live_side_by_side(store: VectorStore) -> None:
    base = secrets.token_hex(4)
    small, large = EmbeddingModel(f"{base} Модель", DIMENSION), EmbeddingModel(f"{base}/модель", 24)
    rows, rng = rows_of(12), random.Random(8)
    wide = [replace(each, vector=direction(rng, 24)) for each in rows[:6]]
    for each in (small, large):
        await store.ensure(each)
    await store.upsert(small, rows)
    await store.upsert(large, wide)
    assert (len(await held(store, small)), len(await held(store, large))) == (12, 6)
    assert (await store.search(large, wide[2].vector, everywhere(1), 1))[0].unit_id == 3
    await store.drop(large)
    await store.drop(large)
    assert len(await held(store, small)) == 12
    await store.drop(small)


async def test_one_name_has_one_dimension(store: VectorStore, model: EmbeddingModel) -> None:
    await store.upsert(model, rows_of(3))
    await store.ensure(model)
    with pytest.raises(Misconfigured, match="another dimension") as refused:
        await store.ensure(EmbeddingModel(model.name, 1_024))
    assert refused.value.attributes["asked"] == 1_024
    assert len(await held(store, model)) == 3


async def test_writers_and_deleters_at_once_end_in_what_came_last(store: VectorStore, model: EmbeddingModel) -> None:
    rows = rows_of(60)
    everyone = frozenset(each.unit_id for each in rows)

    async def write(seed: int) -> None:
        await store.upsert(model, random.Random(seed).sample(rows, len(rows)))

    async def delete(community: int) -> None:
        await store.delete(model, VectorsOf(community_id=CommunityId(community), units=everyone))

    await asyncio.gather(*(write(n) if n % 2 else delete(n % COMMUNITIES + 1) for n in range(12)))
    await store.upsert(model, rows)
    assert await held(store, model) == sorted(everyone)
    await no_more(store, model)
    assert await held(store, model) == []


async def test_a_scan_goes_on_where_it_stopped(store: VectorStore, model: EmbeddingModel) -> None:
    rows = rows_of(40)
    await store.upsert(model, rows[::-1])
    seen: list[UnitId] = []
    while page := await store.scan(model, seen[-1] if seen else None, 7):
        assert len(page) <= 7
        seen += [each.unit_id for each in page]
        await store.delete(model, VectorsOf(community_id=page[0].community_id, units=frozenset({page[0].unit_id})))
    assert seen == [each.unit_id for each in rows]


# A store that is down


async def test_postgres_that_is_away_is_unavailable(planted: Database) -> None:
    closed = await Database.open(planted.dsn, size=1)
    await closed.close()
    store = PgVectorStore(closed)
    with pytest.raises(Unavailable):
        await store.search(EmbeddingModel("m", DIMENSION), rows_of(1)[0].vector, everywhere(1), 5)


async def test_a_model_without_a_table_is_unavailable(planted: Database) -> None:
    store, model = PgVectorStore(planted), EmbeddingModel("never made", DIMENSION)
    with pytest.raises(Unavailable, match="none of this model"):
        await store.upsert(model, rows_of(1))
    with pytest.raises(Unavailable, match="none of this model"):
        await store.search(model, rows_of(1)[0].vector, everywhere(1), 5)
