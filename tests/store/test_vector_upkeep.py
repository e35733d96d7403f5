"""The nightly comparison of a vector store with Postgres: what differs is queued, what waits is left alone."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest
from qdrant_client import AsyncQdrantClient

from core.domain.ids import CommunityId, RoomId
from core.domain.vectors import EmbeddingModel, UnitId, VectorRow, VectorsOf
from core.providers.qdrant_points import QdrantStore
from core.retrieval.vector_upkeep import PARTS, Compared, reconcile
from core.store.engine import Database
from tests.conftest import run_sql
from tests.contracts.test_vector_stores import DIMENSION, PLANT, UNITS, rows_of

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")

MODEL = EmbeddingModel("all-MiniLM-L6-v2", DIMENSION)
COUNT = 60


def as_planted(rows: Sequence[VectorRow]) -> list[VectorRow]:
    return [replace(each, room_id=RoomId(each.community_id * 10), unit_hash="") for each in rows]


@pytest.fixture
async def store(database: Database) -> AsyncIterator[QdrantStore]:
    """One that knows nothing of units, with a vector for each."""
    await run_sql(
        database.dsn,
        PLANT.replace(f"generate_series(1, {UNITS})", f"generate_series(1, {COUNT})"),
        f"insert into voidbot.embedding_models (name, dimension) values ('{MODEL.name}', {DIMENSION})",
    )
    client = AsyncQdrantClient(":memory:")
    made = QdrantStore(client, guard=lambda: None)
    await made.ensure(MODEL)
    await made.upsert(MODEL, as_planted(rows_of(COUNT)))
    yield made
    await made.close()


async def compared(database: Database, store: QdrantStore, part: int = 0) -> Compared:
    return await reconcile(database, store, MODEL, part=part, at_once=7)


async def queued(database: Database) -> list[tuple[int, int]]:
    async with database.transaction() as tx:
        rows = await tx.fetch("select unit_id, community_id from voidbot.embed_queue order by unit_id")
        return [(row["unit_id"], row["community_id"]) for row in rows]


async def lose(store: QdrantStore, unit: int) -> None:
    of = VectorsOf(community_id=CommunityId(unit % 3 + 1), units=frozenset({UnitId(unit)}))
    assert await store.delete(MODEL, of) == 1


async def test_ten_nights_compare_every_unit_once_and_find_nothing_wrong(
    database: Database, store: QdrantStore
) -> None:
    nights = [await compared(database, store, night) for night in range(PARTS)]
    assert sum(night.scanned for night in nights) == COUNT
    assert {replace(night, scanned=0) for night in nights} == {Compared()}
    assert await queued(database) == []


async def test_a_room_whose_count_differs_has_everything_compared(database: Database, store: QdrantStore) -> None:
    await lose(store, 40)
    await lose(store, 44)
    assert await compared(database, store) == Compared(rooms=2, whole=True, scanned=COUNT - 2, missing=2)
    assert await queued(database) == [(40, 2), (44, 3)]


async def test_a_vector_of_an_earlier_text_is_found_in_its_night(database: Database, store: QdrantStore) -> None:
    await run_sql(database.dsn, "update voidbot.units set own_hash = 'later' where id = 20")
    nights = [await compared(database, store, night) for night in range(PARTS)]
    assert [night.stale for night in nights] == [0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    assert await queued(database) == [(20, 3)]


async def test_a_vector_without_a_unit_is_queued_to_be_deleted(database: Database, store: QdrantStore) -> None:
    far = as_planted([replace(rows_of(1)[0], unit_id=UnitId(9_001))])
    await store.upsert(MODEL, far)
    await run_sql(database.dsn, "delete from voidbot.units where id = 30")
    found = await compared(database, store)
    assert (found.rooms, found.stray, found.missing) == (2, 2, 0)
    assert await queued(database) == [(30, 1), (9_001, 2)]


async def test_what_waits_already_is_no_difference(database: Database, store: QdrantStore) -> None:
    await run_sql(
        database.dsn,
        "delete from voidbot.units where id = 30",
        "update voidbot.units set own_hash = 'later' where id = 2",
        f"insert into voidbot.embed_queue (model, unit_id, community_id)"
        f" values ('{MODEL.name}', 40, 2), ('{MODEL.name}', 30, 1), ('{MODEL.name}', 2, 3)",
    )
    await lose(store, 40)
    nights = [await compared(database, store, night) for night in range(PARTS)]
    assert {replace(night, scanned=0) for night in nights} == {Compared()}
