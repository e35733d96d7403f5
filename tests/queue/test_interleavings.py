"""Q6: pitfalls 1, 2 and 11, stepped by a barrier; each goes wrong as soon as its rule is taken out."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg
import pytest

from core.store.engine import Database
from tests.queue.harness import job, put, until

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

BARRIER = 4711
# A session that has set `voidbot_test.stop` waits at the barrier for as long as the test keeps it closed.
STEP = f"""
create function voidbot_test.step(at text) returns boolean language plpgsql as $$
begin
  if current_setting('voidbot_test.stop', true) = at then
    perform pg_advisory_xact_lock_shared({BARRIER});
  end if;
  return true;
end $$;
"""
# Lock and head in one statement: what pitfall 1 warns of.
ONE_STATEMENT = """
create function voidbot_test.claim(to_worker uuid) returns table (job_id bigint) language plpgsql as $$
begin
  return query
  with head as materialized (
    select l.lane as of_lane, j.id from queue.lane l cross join lateral (
        select * from queue.job f where f.lane = l.lane order by f.place limit 1) j
      where l.state = 1 and voidbot_test.step('pick') for update of l skip locked
  )
  update queue.lane l set state = 2, worker = to_worker, job_id = head.id, attempt = l.attempt + 1
    from head where l.lane = head.of_lane returning head.id;
end $$;
"""
LOCK_OR_MAKE = """insert into queue.lane as l (lane, pool, community_id, state, rank)
      select lane, pool, community_id, 1, extract(epoch from due_at) - head_start from queue.job where id = wanted
      on conflict (lane) do update set cancel = l.cancel returning * into held;
    continue when not found;"""
LOCK_ONLY = """select * into held from queue.lane
      where lane = (select lane from queue.job where id = wanted) for update;"""


class Stage:
    """A database with its functions copied under the barrier, and sessions that stop at a step."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._open: list[Connection] = []
        self.control: Connection

    async def session(self, stop: str = "") -> Connection:
        connection = await asyncpg.connect(self._dsn)
        self._open.append(connection)
        await connection.execute("select set_config('voidbot_test.stop', $1, false)".replace("$1", f"'{stop}'"))
        return connection

    async def rewrite(self, function: str, *changes: tuple[str, str]) -> None:
        """Replace a function by a copy of itself with some of its text changed."""
        text: str = await self.control.fetchval("select pg_get_functiondef($1::regproc)", function)
        for old, new in changes:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        await self.control.execute(text)

    async def close_barrier(self) -> None:
        await self.control.execute(f"select pg_advisory_lock({BARRIER})")

    async def until_stopped(self) -> None:
        async def waits() -> bool:
            sql = "select exists (select from pg_locks where locktype = 'advisory' and objid = $1 and not granted)"
            return bool(await self.control.fetchval(sql, BARRIER))

        await until(waits)

    async def open_barrier(self) -> None:
        await self.control.execute(f"select pg_advisory_unlock({BARRIER})")

    async def close(self) -> None:
        for connection in self._open:
            connection.terminate()


@pytest.fixture
async def stage(fresh_dsn: str, database: Database) -> AsyncIterator[Stage]:
    opened = Stage(fresh_dsn)
    opened.control = await opened.session()
    await opened.control.execute(STEP)
    yield opened
    await opened.close()


async def register(connection: Connection) -> UUID:
    worker: UUID = await connection.fetchval("select queue.register('{}', null)")
    return worker


async def settle_ok(connection: Connection, worker: UUID, lane: str, job_id: int) -> list[Any]:
    sql = """select * from queue.settle($1, jsonb_build_array(jsonb_build_object(
      'lane', $2::text, 'job_id', $3::bigint, 'attempt', 1, 'outcome', 'ok', 'delay', 0)))"""
    return await connection.fetch(sql, worker, lane, job_id)


async def claim_while_another_finishes(stage: Stage, database: Database, claim: str) -> list[int]:
    """Two jobs in a lane; the second claimer looks, the first one runs and ends the head, the second goes on."""
    first, _ = await put(database, job(), job())
    quick, slow = await stage.session(), await stage.session(stop="pick")
    one, two = await register(quick), await register(slow)
    await stage.control.execute("select queue.promote()")
    await stage.close_barrier()
    async with asyncio.TaskGroup() as group:
        late = group.create_task(slow.fetch(claim, two))
        await stage.until_stopped()
        await quick.fetch("select * from queue.claim($1, 'chat', 1, 20)", one)
        await settle_ok(quick, one, "lane", first)
        await stage.open_barrier()
    return [row["job_id"] for row in late.result()]


async def test_pitfall_01_the_head_is_read_after_the_lane_is_locked(stage: Stage, database: Database) -> None:
    lock = "cross join lateral (\n      select 1 from queue.lane l where l.lane = w.lane and l.state + 0 = 1"
    await stage.rewrite("queue.pick", (lock, lock + " and voidbot_test.step('pick')"))
    granted = await claim_while_another_finishes(stage, database, "select * from queue.claim($1, 'chat', 1, 20)")
    ids = await stage.control.fetchval("select array_agg(id) from queue.job")
    assert granted == ids


async def test_pitfall_01_goes_wrong_in_one_statement(stage: Stage, database: Database) -> None:
    await stage.control.execute(ONE_STATEMENT)
    granted = await claim_while_another_finishes(stage, database, "select * from voidbot_test.claim($1)")
    assert granted == [await stage.control.fetchval("select id from queue.done")]


async def enqueue_while_the_lane_empties(stage: Stage, database: Database) -> int:
    """The completer has seen that its lane is empty; a job commits, a claimer promotes; the completer deletes."""
    await stage.rewrite(
        "queue.next_head",
        ("-- step next_head.decided", "perform voidbot_test.step('next_head.decided');"),
    )
    [first] = await put(database, job())
    completer, claimer = await stage.session(stop="next_head.decided"), await stage.session()
    worker = await register(claimer)
    await claimer.fetch("select * from queue.claim($1, 'chat', 1, 20)", worker)
    await stage.close_barrier()
    async with asyncio.TaskGroup() as group:
        group.create_task(settle_ok(completer, worker, "lane", first))
        await stage.until_stopped()
        await put(database, job())
        await claimer.fetch("select * from queue.claim($1, 'chat', 1, 20)", worker)
        await stage.open_barrier()
    return len(await claimer.fetch("select * from queue.claim($1, 'chat', 1, 20)", worker))


async def test_pitfall_02_a_signal_outlives_a_lane_that_is_being_deleted(stage: Stage, database: Database) -> None:
    assert await enqueue_while_the_lane_empties(stage, database) == 1


async def test_pitfall_02_goes_wrong_without_the_share_lock(stage: Stage, database: Database) -> None:
    await stage.rewrite("queue.promote", (" order by lane for share skip locked", ""))
    assert await enqueue_while_the_lane_empties(stage, database) == 0
    assert await stage.control.fetchval("select queue.reconcile()") == 1


async def cancel_while_granting(stage: Stage, database: Database) -> tuple[str, int]:
    """A claim has granted the job and not committed yet; somebody cancels the job."""
    [wanted] = await put(database, job())
    claimer, canceller = await stage.session(), await stage.session()
    worker = await register(claimer)
    granting = claimer.transaction()
    await granting.start()
    granted = await claimer.fetch("select * from queue.claim($1, 'chat', 1, 20)", worker)
    pid = canceller.get_server_pid()
    async with asyncio.TaskGroup() as group:
        cancel = group.create_task(canceller.fetchval("select queue.cancel($1)", wanted))

        async def blocked_or_done() -> bool:
            blocked = await stage.control.fetchval("select cardinality(pg_blocking_pids($1)) > 0", pid)
            return bool(blocked) or cancel.done()

        await until(blocked_or_done)
        await granting.commit()
    return cancel.result(), len(granted)


async def test_pitfall_11_a_job_that_is_being_granted_is_asked_to_stop(stage: Stage, database: Database) -> None:
    assert await cancel_while_granting(stage, database) == ("requested", 1)


async def test_pitfall_11_goes_wrong_without_making_the_missing_lane(stage: Stage, database: Database) -> None:
    await stage.rewrite("queue.cancel", (LOCK_OR_MAKE, LOCK_ONLY))
    assert await cancel_while_granting(stage, database) == ("cancelled", 1)


async def reap_while_granting(stage: Stage, database: Database) -> int:
    """A claim is not committed yet; a ticker that thinks every other worker dead looks at its lanes."""
    await put(database, job())
    claimer, ticker = await stage.session(), await stage.session()
    slow, other = await register(claimer), await register(ticker)
    granting = claimer.transaction()
    await granting.start()
    await claimer.fetch("select * from queue.claim($1, 'chat', 1, 20)", slow)
    await ticker.fetch("select * from queue.tick_lost($1, -1)", other)
    await granting.commit()
    sql = """select count(*) from queue.lane l where state = 2
      and not exists (select from queue.worker w where w.id = l.worker)"""
    orphans: int = await stage.control.fetchval(sql)
    return orphans


async def test_a_worker_is_not_declared_dead_while_it_is_granted_something(stage: Stage, database: Database) -> None:
    assert await reap_while_granting(stage, database) == 0


async def test_a_worker_would_be_declared_dead_without_the_lock_on_its_row(stage: Stage, database: Database) -> None:
    await stage.rewrite("queue.check_worker", (" for key share", ""))
    assert await reap_while_granting(stage, database) == 1
