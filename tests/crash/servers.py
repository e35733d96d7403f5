"""A server of a test's own that can be crashed, stopped and started again."""

import asyncio
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg

from core.store.embedded import EmbeddedPostgres, EmbeddedSettings
from core.store.engine import migrate
from tests.conftest import TEST_CLOCK, on_database, run_sql
from tests.crash.child import crash_server, state_of
from tests.crash.processes import PATIENCE_S
from tests.flows.line import until
from tests.store.supervised import postmaster


class Server:
    """One embedded server with a migrated template."""

    def __init__(self, postgres: EmbeddedPostgres, dsn: str) -> None:
        self._postgres = postgres
        self._dsn = dsn

    @property
    def postmaster(self) -> int:
        return postmaster(self._postgres.place)

    async def clone(self) -> str:
        """Return the address of a fresh database."""
        name = f"crash_{secrets.token_hex(6)}"
        await run_sql(self._dsn, f"create database {name} template migrated")
        return on_database(self._dsn, name)

    async def prepare(self) -> None:
        await run_sql(self._dsn, "create database migrated")
        await migrate(on_database(self._dsn, "migrated"))
        await run_sql(on_database(self._dsn, "migrated"), TEST_CLOCK)

    async def gone(self, pid: int) -> None:
        """Wait until a postmaster has ended."""
        await until(lambda: not Path(f"/proc/{pid}").exists() or state_of(pid) == "Z", PATIENCE_S)

    async def shut_down(self) -> None:
        """Stop it as an operator does: connections are broken, everything is on disk."""
        pid = self.postmaster
        os.kill(pid, signal.SIGINT)
        await self.gone(pid)

    async def start_again(self) -> None:
        """Start it at the same address."""
        await self._postgres.stop()
        assert on_database(await self._postgres.ensure(), "") == on_database(self._dsn, "")


@asynccontextmanager
async def own_server() -> AsyncIterator[Server]:
    home = Path(tempfile.mkdtemp(prefix="voidbot-crash-"))
    home.chmod(0o755)
    # The server is crashed here, never the machine: what the kernel holds survives, so no disk need turn. What no
    # commit waited for stays in the server's own memory, and the slow WAL writer leaves it there to be lost.
    off = dict.fromkeys(("fsync", "full_page_writes", "autovacuum"), "off")
    postgres = EmbeddedPostgres(home, EmbeddedSettings(extra={**off, "wal_writer_delay": "10s"}))
    try:
        server = Server(postgres, await postgres.ensure())
        await server.prepare()
        yield server
    finally:
        if postgres.owner:
            await asyncio.to_thread(
                crash_server, postmaster(postgres.place)
            )  # nobody reads what a checkpoint would save
        await postgres.stop()
        await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)


async def ask_in_the_end(dsn: str, sql: str, *args: object) -> Any:
    """Return one value from a server that may be down for a while."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                connection = await asyncpg.connect(dsn)
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await asyncio.sleep(0.05)
                continue
            try:
                return await connection.fetchval(sql, *args)
            finally:
                await connection.close()
