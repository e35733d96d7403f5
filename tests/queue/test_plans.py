"""Q9: the hot statements keep their indexes, whatever statistics and an old snapshot say."""

import json
import re
from typing import Any

import asyncpg
import pytest

from core.domain.jobs import Ok
from core.store.engine import Database
from core.store.jobs import settlement_of
from tests.queue.harness import claim, fetch, incarnation, job, put, value

PINS = ("enable_seqscan", "enable_hashjoin", "enable_mergejoin")
# The hot look-ups as the functions make them, with values for their parameters; each must go through the index named.
STATEMENTS = {
    "job_head": ("select * from queue.job j where j.lane = $1 order by j.place limit 1", "'lane'"),
    "lane_ready": (
        """select l.lane, l.rank from queue.lane l
        where l.state = 1 and l.pool = $1 and l.community_id = $2 order by l.rank limit $3""",
        "'chat', 1, 32",
    ),
    "lane_running": (
        "select l.community_id, count(*) from queue.lane l where l.state = 2 and l.pool = $1 group by 1",
        "'chat'",
    ),
    "lane_waiting": (
        "select lane from queue.lane where state = 3 and wake_at <= voidbot.now() order by wake_at limit $1",
        "9",
    ),
    "later_due": (
        """select id from queue.later where due_at <= voidbot.now()
        order by due_at limit $1 for update skip locked""",
        "9",
    ),
    "signal_pkey": ("select id from queue.signal order by id desc limit 300 for update skip locked", ""),
    "lane_pkey": ("select 1 from queue.lane l where l.lane = $1 and l.state + 0 = 1 for update skip locked", "'lane'"),
    "job_pkey": ("select * from queue.job p where p.id = $1", "7"),
    "key_pkey": ("select k.job_id from queue.key k where k.key = any($1) and k.scope = 1", "'{key}'"),
    # Is there anything ready, and are there fewer lanes than slots?
    "lane_ready once": ("select exists (select from queue.lane where state = 1 and pool = $1)", "'chat'"),
    "lane_ready few": (
        "select lane from queue.lane where state = 1 and pool = $1 order by community_id limit $2 + 1",
        "'chat', 16",
    ),
}


async def indexes(connection: "asyncpg.Connection[asyncpg.Record]", statement: str, values: str, mode: str) -> set[str]:
    """Return the indexes that the plan of a statement uses, under the functions' settings."""
    async with connection.transaction():
        for pin in PINS:
            await connection.execute(f"set local {pin} = off")
        await connection.execute(f"set local plan_cache_mode = {mode}")
        await connection.execute(f"prepare hot as {statement}")
        plan = json.loads(
            await connection.fetchval(f"explain (format json) execute hot{f'({values})' if values else ''}")
        )
        await connection.execute("deallocate hot")
    found: set[str] = set()

    def walk(node: dict[str, Any]) -> None:
        if "Index Name" in node:
            found.add(node["Index Name"])
        assert node["Node Type"] != "Seq Scan" or node.get("Relation Name") == "clock", node
        for child in node.get("Plans", []):
            walk(child)

    walk(plan[0]["Plan"])
    return found


async def every_statement_keeps_its_index(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Check the plan for these very values, and the one for any values: our connections ask for the latter."""
    for name, (statement, values) in STATEMENTS.items():
        for mode in ("force_custom_plan", "force_generic_plan"):
            assert name.split()[0] in await indexes(connection, statement, values, mode), (name, mode)


async def churn(database: Database, jobs_of_each: int) -> None:
    """Run jobs through the queue, many of them in one lane, so that every hot table has dead entries."""
    async with incarnation(database) as opened:
        for _ in range(jobs_of_each):
            await put(database, *[job(f"lane:{n}", community_id=n) for n in range(20)], job("lane"))
            granted = await claim(opened, slots=32)
            await opened.cycle([settlement_of(each, Ok()) for each in granted], {})
            await opened.beat()


async def dead_entries(database: Database) -> int:
    await fetch(database, "select pg_stat_force_next_flush()")
    count: int = await value(
        database, "select n_dead_tup from pg_stat_user_tables where relid = 'queue.lane'::regclass"
    )
    return count


async def plans_hold(database: Database, dsn: str, rounds: int) -> None:
    holder, reader = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    await every_statement_keeps_its_index(reader)
    await holder.execute("begin isolation level repeatable read")
    await holder.execute("select 1 from queue.lane")
    await churn(database, rounds)
    await reader.execute("vacuum analyze queue.lane")
    held = await reader.fetchval("select pg_relation_size('queue.lane')")
    await every_statement_keeps_its_index(reader)
    await holder.close()
    await reader.execute("vacuum (analyze, truncate) queue.lane")
    assert await reader.fetchval("select pg_relation_size('queue.lane')") < held
    await reader.close()


async def test_plans_under_bloat(database: Database, fresh_dsn: str) -> None:
    await plans_hold(database, fresh_dsn, rounds=40)


@pytest.mark.long
async def test_plans_under_bloat_for_long(database: Database, fresh_dsn: str) -> None:
    connection = await asyncpg.connect(fresh_dsn)
    await connection.execute(
        """insert into queue.done (id, lane, pool, community_id, kind, outcome, attempt, trace, created_at, due_at)
        select n, 'old', 'chat', 0, 'work', 'done', 1, '', voidbot.now(), voidbot.now()
        from generate_series(1, 10000000) n"""
    )
    await connection.close()
    await plans_hold(database, fresh_dsn, rounds=4_000)


async def test_the_hot_statements_are_those_of_the_functions(database: Database) -> None:
    rows = await fetch(
        database,
        "select string_agg(prosrc, ' ') as text from pg_proc where pronamespace = 'queue'::regnamespace",
    )
    text = re.sub(r"\s+", " ", rows[0]["text"])
    for fragment in (
        "f where f.lane = l.lane and l.job_id is null order by f.place limit 1",
        "j where j.lane = n.lane order by j.place limit 1",
        "from queue.lane where state = 1 and pool = of_pool order by community_id limit slots + 1",
        "not exists (select from queue.lane where state = 1 and pool = pools[n])",
        "where state = 3 and wake_at <= voidbot.now() order by wake_at limit most",
        "where due_at <= voidbot.now() order by due_at limit most for update skip locked",
        "from queue.signal order by id desc limit 300 for update skip locked",
        "l where l.state = 2 and l.pool = of_pool group by 1",
        "l where l.lane = w.lane and l.state + 0 = 1 for update skip locked",
    ):
        assert fragment in text


async def test_a_day_of_finished_jobs_is_dropped_without_touching_the_others(
    database: Database, fresh_dsn: str
) -> None:
    parts = await fetch(
        database, "select inhrelid::regclass::text as part from pg_inherits where inhparent = 'queue.done'::regclass"
    )
    first, second = sorted(row["part"] for row in parts)[:2]
    busy, dropping = await asyncpg.connect(fresh_dsn), await asyncpg.connect(fresh_dsn)
    await busy.execute(f"begin; select 1 from {second}")
    await dropping.execute("set lock_timeout = '2s'")
    await dropping.execute(f"drop table {first}")
    await busy.close()
    await dropping.close()
