"""Real Postgres for every test: one server a session, one migrated template, one clean clone a test."""

import os
import secrets
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from core.store.embedded import EmbeddedPostgres, EmbeddedSettings
from core.store.engine import Database, migrate, normalise
from tests.databases import Clones, on_database, run_sql
from tests.fakes import ManualClock

__all__ = ["TEST_CLOCK", "on_database", "run_sql"]

# No property is judged by the time it takes: machines that build are slow at times.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")

# The test schema replaces the one clock of SQL; `ManualClock.advance` moves it together with its own hand.
TEST_CLOCK = """
create schema voidbot_test;
create table voidbot_test.clock (shift interval not null);
insert into voidbot_test.clock values ('0');
create or replace function voidbot.now() returns timestamptz language sql stable parallel safe
    as 'select now() + shift from voidbot_test.clock';
"""


@pytest.fixture(autouse=True, scope="session")
def only_loopback() -> Iterator[None]:
    """Refuse sockets that would leave this machine."""
    real = socket.socket.connect

    def guarded(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in (
            "127.0.0.1",
            "::1",
            "localhost",
        ):
            raise AssertionError(f"a test tried to leave this machine: {address[0]}")
        real(self, address)

    socket.socket.connect = guarded  # type: ignore[assignment,method-assign]  # the guard is the point
    yield
    socket.socket.connect = real  # type: ignore[method-assign]  # restored


@pytest.fixture(scope="session")
async def server() -> AsyncIterator[str]:
    """The address of a server for this session: DATABASE_URL, else an embedded one of its own."""
    given = os.environ.get("DATABASE_URL")  # noqa: TID251  # the suite's own switch
    if given:
        yield normalise(given)
        return
    home = Path(tempfile.mkdtemp(prefix="voidbot-test-"))
    home.chmod(0o755)
    # Speed only: nothing here survives the session. Crash tests start servers of their own.
    # A clone that is being vacuumed cannot be dropped by a plain role.
    off = ("fsync", "synchronous_commit", "full_page_writes", "autovacuum")
    embedded = EmbeddedPostgres(home, EmbeddedSettings(extra=dict.fromkeys(off, "off")))
    try:
        yield await embedded.ensure()
    finally:
        await embedded.stop()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
async def template(server: str) -> AsyncIterator[str]:
    """The name of a migrated database with the test clock."""
    name = f"template_{secrets.token_hex(4)}"
    await run_sql(server, f"create database {name}")
    dsn = on_database(server, name)
    await migrate(dsn)
    await run_sql(dsn, TEST_CLOCK)
    yield name
    await run_sql(server, f"drop database {name} with (force)")


@pytest.fixture(scope="session")
async def clones(server: str, template: str) -> AsyncIterator[Clones]:
    """The clones of the template, swept between the tests."""
    opened = Clones(server, template)
    yield opened
    await opened.close()


@pytest.fixture
async def fresh_dsn(clones: Clones) -> AsyncIterator[str]:
    """The address of a clone that is as the template is, swept or dropped afterwards."""
    name = await clones.take()
    yield on_database(clones.server, name)
    await clones.give_back(name)


@pytest.fixture
async def database(fresh_dsn: str) -> AsyncIterator[Database]:
    """A Database on a fresh clone."""
    opened = await Database.open(fresh_dsn, size=8)
    yield opened
    await opened.close()


@pytest.fixture
def clock(database: Database) -> ManualClock:
    """The test's clock; `await clock.advance(seconds)` moves Python and SQL together."""
    return ManualClock(database)
