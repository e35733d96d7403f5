"""Migrations: there and back, step by step, and the same schema as the declared tables."""

import asyncio
import secrets
from collections.abc import AsyncIterator

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine

from core.store.engine import current_revision, head_revision, migrate
from core.store.tables import METADATA
from tests.conftest import on_database, run_sql


@pytest.fixture
async def empty_dsn(server: str) -> AsyncIterator[str]:
    """The address of a database without any schema of ours."""
    name = f"empty_{secrets.token_hex(6)}"
    await run_sql(server, f"create database {name}")
    yield on_database(server, name)
    await run_sql(server, f"drop database {name} with (force)")


def _revisions() -> list[str]:
    config = Config()
    config.set_main_option("script_location", "migrations")
    script = ScriptDirectory.from_config(config)
    assert len(script.get_heads()) == 1
    return [revision.revision for revision in reversed(list(script.walk_revisions()))]


async def _objects(dsn: str) -> list[tuple[str, ...]]:
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://", 1))
    try:
        async with engine.connect() as connection:
            rows = await connection.exec_driver_sql(
                "select n.nspname || '.' || c.relname, c.relkind::text from pg_class c"
                " join pg_namespace n on n.oid = c.relnamespace where n.nspname in ('voidbot', 'queue')"
                " union all select n.nspname || '.' || p.proname || '/' || pronargs, 'f' from pg_proc p"
                " join pg_namespace n on n.oid = p.pronamespace where n.nspname in ('voidbot', 'queue') order by 1, 2"
            )
            return [tuple(map(str, row)) for row in rows.all()]
    finally:
        await engine.dispose()


async def test_each_step_goes_up_down_and_up_again(empty_dsn: str) -> None:
    revisions = _revisions()
    assert revisions[-1] == head_revision()
    before = None
    for revision in revisions:
        await migrate(empty_dsn, revision)
        up = await _objects(empty_dsn)
        await migrate(empty_dsn, "-1")
        assert await current_revision(empty_dsn) == before
        await migrate(empty_dsn, revision)
        assert await _objects(empty_dsn) == up
        before = revision


async def test_from_nothing_to_the_head_to_nothing_and_back(empty_dsn: str) -> None:
    assert await current_revision(empty_dsn) is None
    await migrate(empty_dsn)
    head = await _objects(empty_dsn)
    await migrate(empty_dsn, "base")
    assert await current_revision(empty_dsn) is None
    assert await _objects(empty_dsn) == []
    await migrate(empty_dsn)
    assert await _objects(empty_dsn) == head
    assert await current_revision(empty_dsn) == head_revision()


async def test_the_declared_tables_are_the_migrated_ones(empty_dsn: str) -> None:
    await migrate(empty_dsn)

    def compare(connection: Connection) -> list[object]:
        options = {
            "include_schemas": True,
            "compare_type": True,
            "compare_server_default": True,
            "include_name": lambda name, kind, _: kind != "schema" or name == "voidbot",
        }
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), METADATA))

    # Without the role's own schema in the path, which the comparison would take for the nameless one.
    engine = create_async_engine(
        empty_dsn.replace("postgresql://", "postgresql+asyncpg://", 1),
        connect_args={"server_settings": {"search_path": "public"}},
    )
    try:
        async with engine.connect() as connection:
            assert await connection.run_sync(compare) == []
    finally:
        await engine.dispose()


async def test_two_processes_that_start_together_migrate_once(empty_dsn: str) -> None:
    waited: list[bool] = []

    async def waiting() -> None:
        waited.append(True)

    await asyncio.gather(*(migrate(empty_dsn, waiting=waiting) for _ in range(3)))
    assert len(waited) == 2
    assert await current_revision(empty_dsn) == head_revision()
