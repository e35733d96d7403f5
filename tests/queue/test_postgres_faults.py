"""Q4: the server restarts, crashes, or loses single connections; on a server of its own that waits for its disk."""

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from core.domain.errors import BotError, ClaimLost
from core.domain.jobs import Ok
from core.store import jobs
from core.store.embedded import EmbeddedPostgres, EmbeddedSettings
from core.store.engine import Database, Tx, migrate
from core.store.leases import Incarnation
from tests.conftest import TEST_CLOCK, run_sql
from tests.queue.harness import at_work, claim, incarnation, job, put, state_of, until, value, worker
from tests.queue.history import add_backlog, check, drained, install, recorded_kind


@dataclass(frozen=True)
class Server:
    """A supervised server and ways to hurt it."""

    embedded: EmbeddedPostgres
    dsn: str

    def _pid(self) -> int:
        return int((self.embedded.place.data / "postmaster.pid").read_text().split()[0])

    async def restart(self, how: signal.Signals) -> None:
        """End the server, SIGINT: fast, SIGQUIT: as a crash; return when another one answers."""
        before = self._pid()
        os.kill(before, how)

        async def back() -> bool:
            try:
                if self._pid() == before:
                    return False
                await run_sql(self.dsn, "select 1")
            except (OSError, ValueError, IndexError, asyncpg.PostgresError):
                return False
            return True

        await until(back, within_s=60.0)


@pytest.fixture(scope="module")
async def own_server() -> AsyncIterator[Server]:
    home = Path(tempfile.mkdtemp(prefix="voidbot-queue-"))
    home.chmod(0o755)
    embedded = EmbeddedPostgres(home, EmbeddedSettings(extra={"autovacuum": "off"}, pause_s=0.01))
    dsn = await embedded.ensure()
    await migrate(dsn)
    await run_sql(dsn, TEST_CLOCK)
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(embedded.watch())
        yield Server(embedded, dsn)
        await embedded.stop()
        watching.cancel()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
async def crashing(own_server: Server) -> AsyncIterator[Database]:
    """A Database on the server that will crash, emptied."""
    database = await Database.open(own_server.dsn, size=8)
    tables = ", ".join(f"queue.{name}" for name in ["job", "later", "signal", "lane", "worker", "key", "done", "dead"])
    await run_sql(
        own_server.dsn,
        f"truncate {tables}",
        "drop trigger if exists log_lane on queue.lane",
        "drop schema voidbot_test cascade",
        TEST_CLOCK,
    )
    yield database
    await database.close()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
async def test_the_backlog_drains_through_a_restart(
    crashing: Database, own_server: Server, how: signal.Signals
) -> None:
    await install(crashing)
    await add_backlog(crashing, lanes=6, each=8)
    workers = [worker(crashing, recorded_kind(crashing), dead_after_s=2.0, poll_s=0.1) for _ in range(2)]
    async with at_work(*workers):

        async def begun() -> bool:
            return bool(await value(crashing, "select count(*) > 5 from queue.done"))

        await until(begun)
        await own_server.restart(how)
        await until(lambda: _quietly(crashing), within_s=60.0)
    await check(crashing)


async def _quietly(database: Database) -> bool:
    try:
        return await drained(database)
    except BotError:  # the pool still finds out which of its connections are gone
        return False


@pytest.mark.parametrize("role", ["queue.cycle", "queue.worker set beat_at", "voidbot_queue", "queue.enqueue"])
async def test_the_backlog_drains_when_one_connection_is_killed(
    crashing: Database, own_server: Server, role: str
) -> None:
    await install(crashing)
    await add_backlog(crashing, lanes=4, each=4)
    admin = await asyncpg.connect(own_server.dsn)

    async def killed() -> bool:
        sql = """select coalesce(bool_or(pg_terminate_backend(pid)), false) from pg_stat_activity
          where pid <> pg_backend_pid() and query ilike '%' || $1 || '%'"""
        return bool(await admin.fetchval(sql, role))

    async with at_work(worker(crashing, recorded_kind(crashing), dead_after_s=2.0, poll_s=0.1)):
        async with asyncio.TaskGroup() as group:
            adding = group.create_task(_keep_adding(crashing))
            await until(killed)
            adding.cancel()
        await until(lambda: _quietly(crashing), within_s=60.0)
    await admin.close()
    await check(crashing)


async def _keep_adding(database: Database) -> None:
    """Add work again and again, so that there is something of every kind of statement to be killed."""
    while True:
        with suppress(BotError):
            await add_backlog(database, lanes=3, each=1)
        await asyncio.sleep(0.02)


async def test_what_was_acknowledged_survives_a_crash_of_the_server(crashing: Database, own_server: Server) -> None:
    first, second = await put(crashing, job("a"), job("b"))
    async with incarnation(crashing) as opened:
        [granted] = await claim(opened)

        async def work(tx: Tx) -> None:
            await jobs.hold(tx, granted)
            await jobs.enqueue(tx, [job("follows")])
            await jobs.settle(tx, granted, Ok())

        async with crashing.transaction(durable=True) as tx:
            await work(tx)
    await own_server.restart(signal.SIGQUIT)
    await until(lambda: _answers(crashing))
    assert await state_of(crashing, first) == "done"
    assert await state_of(crashing, second) is not None
    assert await value(crashing, "select count(*) from queue.job where lane = 'follows'") == 1


async def _answers(database: Database) -> bool:
    try:
        return bool(await value(database, "select true"))
    except BotError:
        return False


async def test_pitfall_04_a_grant_that_the_crash_may_have_lost_is_refused(
    crashing: Database, own_server: Server
) -> None:
    await put(crashing, job())
    async with incarnation(crashing) as opened:
        [granted] = await claim(opened)
        await own_server.restart(signal.SIGQUIT)
        await until(lambda: _answers(crashing))
        heir = await Incarnation.open(crashing, {}, predecessor=opened.worker)
        await heir.tick_lost(60.0)
        [again] = await claim(heir)
        with pytest.raises(ClaimLost):
            async with crashing.transaction() as tx:
                await jobs.hold(tx, granted)
        async with crashing.transaction() as tx:
            await jobs.hold(tx, again)
        heir.close()


@pytest.mark.long
async def test_the_backlog_drains_through_a_partition(crashing: Database, own_server: Server) -> None:
    await install(crashing)
    await add_backlog(crashing, lanes=6, each=20)
    pid = own_server._pid()
    async with at_work(worker(crashing, recorded_kind(crashing), dead_after_s=5.0)):
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(30.0)
        os.kill(pid, signal.SIGCONT)
        await until(lambda: _quietly(crashing), within_s=120.0)
    await check(crashing)
