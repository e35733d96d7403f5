"""The databases that tests are given: each is as the template is, whatever was done to it before."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.databases import Clones, on_database, run_sql

COUNT = """
select 'select ' || string_agg(format('(select count(*) from %I.%I)', schemaname, tablename), ' + ')
  from pg_tables where schemaname in ('voidbot', 'queue', 'public')
"""
DRAWN = "select count(*) from pg_sequences where last_value is not null"
WRITTEN = "insert into voidbot.communities (platform, chat_ref, mind_id) values ('test', '1', 'mind')"


@pytest.fixture
async def used(server: str, template: str) -> AsyncIterator[Clones]:
    """Clones of this test's own."""
    opened = Clones(server, template)
    yield opened
    await opened.close()


async def ask(clones: Clones, name: str, sql: str) -> object:
    connection = await asyncpg.connect(on_database(clones.server, name))
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


async def traces(clones: Clones, name: str) -> tuple[object, object]:
    """Return how many rows there are, and how many sequences were drawn from."""
    return await ask(clones, name, str(await ask(clones, name, COUNT))), await ask(clones, name, DRAWN)


async def test_a_clone_that_was_written_to_is_given_again_as_the_template_is(used: Clones) -> None:
    name = await used.take()
    before = await traces(used, name)
    left_open = await asyncpg.connect(on_database(used.server, name))
    await left_open.execute("update voidbot_test.clock set shift = '1 day'")
    await left_open.execute(WRITTEN)
    assert await traces(used, name) != before
    await used.give_back(name)
    assert await used.take() == name
    assert await traces(used, name) == before
    assert await ask(used, name, "select shift = '0' from voidbot_test.clock")
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await left_open.fetchval("select 1")


@pytest.mark.parametrize(
    "change",
    [
        "create table voidbot.more (n integer)",
        "drop function queue.expire",
        "alter table voidbot.communities add column more integer",
        "alter database {name} set work_mem = '8MB'",
        "vacuum analyze voidbot.communities",
        "update public.alembic_version set version_num = '0'",
        "insert into voidbot.communities (platform, chat_ref, mind_id) "
        "select 'test', n, n from generate_series(1, 2000) n",
    ],
)
async def test_a_clone_that_no_sweep_makes_right_is_dropped(used: Clones, change: str) -> None:
    name = await used.take()
    await run_sql(on_database(used.server, name), change.format(name=name))
    await used.give_back(name)
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await ask(used, name, "select 1")
