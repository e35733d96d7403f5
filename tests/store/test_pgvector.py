"""What only the store inside Postgres does: going with its unit, its index, and servers that lack pgvector."""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from core.domain.errors import Misconfigured, Unavailable
from core.domain.ids import CommunityId, PersonId, RoomId
from core.domain.vectors import EmbeddingModel, Vector, VectorScope
from core.store.engine import Database, migrate
from core.store.pgvector import PgVectorStore, extension_problem, name_of
from tests.conftest import on_database, run_sql
from tests.contracts.test_vector_stores import (
    DIMENSION,
    PLANT,
    UNITS,
    best,
    direction,
    everywhere,
    held,
    row,
    rows_of,
    within,
)

MODEL = EmbeddingModel("all-MiniLM-L6-v2", DIMENSION)


@pytest.fixture
async def store(database: Database) -> PgVectorStore:
    await run_sql(database.dsn, PLANT.replace(f"generate_series(1, {UNITS})", "generate_series(1, 600)"))
    made = PgVectorStore(database, exact_rows=50)
    await made.ensure(MODEL)
    return made


async def scans_of_the_index(database: Database) -> int:
    async with database.transaction() as tx:  # the one idle connection, which counts what it did before
        await tx.execute("select pg_stat_force_next_flush()")
    async with database.transaction() as tx:
        scans: int = await tx.fetchval(
            "select idx_scan from pg_catalog.pg_stat_user_indexes where indexrelname = $1", f"{name_of(MODEL)}_near_idx"
        )
        return scans


async def test_a_vector_goes_with_its_unit_or_not_at_all(database: Database, store: PgVectorStore) -> None:
    await store.upsert(MODEL, rows_of(6))
    with pytest.raises(ArithmeticError):
        async with database.transaction() as tx:
            await tx.execute("delete from voidbot.messages where id = 2")
            raise ArithmeticError
    assert await held(store, MODEL) == [1, 2, 3, 4, 5, 6]
    async with database.transaction() as tx:
        await tx.execute("delete from voidbot.messages where id = 2")
        await tx.execute("delete from voidbot.units where id = 3")
    assert await held(store, MODEL) == [1, 4, 5, 6]


async def test_a_unit_that_is_gone_takes_no_vector(database: Database, store: PgVectorStore) -> None:
    deleted = asyncio.Event()

    async def delete() -> None:
        async with database.transaction() as tx:
            await tx.execute("delete from voidbot.units where id = 2")
            deleted.set()
            while not await tx.fetchval("select exists (select 1 from pg_catalog.pg_locks where not granted)"):
                await asyncio.sleep(0.01)  # until the other waits for us

    async def write() -> None:
        await deleted.wait()
        await store.upsert(MODEL, rows_of(3))

    await asyncio.gather(delete(), write())
    assert await held(store, MODEL) == [1, 3]


async def test_the_index_is_built_once_there_is_enough_and_asked_only_where_much_is_in_reach(
    database: Database, store: PgVectorStore
) -> None:
    assert await store.build_index(MODEL) is False
    rows = rows_of(300)
    await store.upsert(MODEL, rows)
    assert await store.build_index(MODEL) is True
    assert await store.build_index(MODEL) is False
    mine, rng, found = within(rows, everywhere(1)), random.Random(3), 0
    for _ in range(20):
        asked = direction(rng)
        found += len(
            {hit.unit_id for hit in await store.search(MODEL, asked, everywhere(1), 10)} & set(best(mine, asked, 10))
        )
    assert found / 200 >= 0.95
    asked_index = await scans_of_the_index(database)
    assert asked_index == 20
    few = VectorScope(community_id=everywhere(1).community_id, rooms=frozenset(list(everywhere(1).rooms)[:1]))
    assert len(await store.search(MODEL, direction(rng), few, 10)) == 10
    assert await scans_of_the_index(database) == asked_index


async def test_what_a_filter_leaves_is_found_whole_beside_an_index(store: PgVectorStore) -> None:
    rows = [replace(each, author_id=PersonId(1)) for each in rows_of(600)]
    rare = [replace(each, author_id=PersonId(4)) for each in rows if each.unit_id in (30, 333, 597)]
    await store.upsert(MODEL, [*rows, *rare])
    await store.build_index(MODEL)
    scope = replace(everywhere(1), authors=frozenset({PersonId(4)}))
    hits = await store.search(MODEL, direction(random.Random(1)), scope, 10)
    assert {hit.unit_id for hit in hits} == {30, 333, 597}


async def test_equal_ones_are_in_order_beside_an_index(store: PgVectorStore) -> None:
    same = direction(random.Random(7))
    await store.upsert(MODEL, [*rows_of(300), *(row(n, same) for n in (39, 3, 27, 9))])
    await store.build_index(MODEL)
    hits = await store.search(MODEL, same, everywhere(1), 4)
    assert [hit.unit_id for hit in hits] == [3, 9, 27, 39]


async def test_a_build_that_was_interrupted_is_done_anew(database: Database, store: PgVectorStore) -> None:
    await store.upsert(MODEL, rows_of(60))
    name = f"{name_of(MODEL)}_near_idx"

    async def interrupt() -> None:
        end = "select pg_terminate_backend(pid) from pg_catalog.pg_stat_progress_create_index where lockers_total > 0"
        async with asyncio.timeout(30):
            while True:
                async with database.transaction() as tx:
                    if await tx.fetchval(end):
                        return
                await asyncio.sleep(0.01)

    other = await database.connect()
    try:
        # A writer that does not end keeps the build waiting.
        await other.execute(f"begin; delete from voidbot.{name_of(MODEL)} where unit_id = 1")
        built, _ = await asyncio.gather(store.build_index(MODEL), interrupt(), return_exceptions=True)
    finally:
        await other.close()
    assert isinstance(built, Unavailable)
    async with database.transaction() as tx:
        assert (
            await tx.fetchval(
                "select indisvalid from pg_catalog.pg_index where indexrelid = $1::text::regclass", f"voidbot.{name}"
            )
            is False
        )
    assert await store.build_index(MODEL) is True


async def test_a_downgrade_takes_vectors_along(database: Database, store: PgVectorStore) -> None:
    await migrate(database.dsn, "base")
    async with database.transaction() as tx:
        assert await tx.fetchval("select to_regclass($1)", f"voidbot.{name_of(MODEL)}") is None


# Servers that lack it


@pytest.fixture
async def bare(server: str) -> AsyncIterator[Database]:
    """A database without pgvector."""
    name = f"bare_{secrets.token_hex(6)}"
    await run_sql(server, f"create database {name} template template0")
    opened = await Database.open(on_database(server, name), size=2)
    yield opened
    await opened.close()
    await run_sql(server, f"drop database {name} with (force)")


async def test_a_role_that_may_not_make_it_is_told_who_may(bare: Database) -> None:
    with pytest.raises(Misconfigured, match="administrator run in this database: create extension vector;"):
        await PgVectorStore(bare).ensure(MODEL)


@pytest.mark.parametrize(
    ("version", "on_server", "said"),
    [
        (None, False, "install pgvector 0.8 or newer there, or set QDRANT_URL"),
        (None, True, "create extension vector;"),
        ("0.7.4", True, "alter extension vector update;"),
    ],
)
def test_what_is_wrong_is_said_with_what_to_do(version: str | None, on_server: bool, said: str) -> None:
    assert said in (extension_problem(version, on_server) or "")


@pytest.mark.parametrize("version", ["0.8.0", "0.10.1", "1.0"])
def test_newer_ones_will_do(version: str) -> None:
    assert extension_problem(version, True) is None


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_the_index_of_many_finds_what_a_plain_comparison_finds(database: Database) -> None:
    model, count = EmbeddingModel("many", 384), 50_000
    await run_sql(database.dsn, PLANT.replace(f"generate_series(1, {UNITS})", f"generate_series(1, {count})"))
    store, rng = PgVectorStore(database), random.Random(1)
    await store.ensure(model)
    centres = [direction(rng, 384) for _ in range(500)]

    def near(centre: Vector) -> Vector:
        return tuple(a + b for a, b in zip(centre, direction(rng, 384), strict=True))

    for start in range(1, count + 1, 1_000):
        part = [row(n, near(rng.choice(centres))) for n in range(start, start + 1_000)]
        await store.upsert(model, [replace(each, community_id=CommunityId(1), room_id=RoomId(11)) for each in part])
    scope, asked = everywhere(1), [near(rng.choice(centres)) for _ in range(100)]
    plain = [{hit.unit_id for hit in await store.search(model, each, scope, 10)} for each in asked]
    assert await store.build_index(model) is True
    found = [{hit.unit_id for hit in await store.search(model, each, scope, 10)} for each in asked]
    assert sum(len(a & b) for a, b in zip(plain, found, strict=True)) / 1_000 >= 0.95
