"""The embedded Postgres while all goes well: a closed place, one owner, attached ones, dumps."""

import asyncio
import os
import signal
import stat
import subprocess
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from core.domain.errors import Unavailable
from core.store.embedded import EmbeddedPostgres, PgState
from core.store.embedded_dump import dump_before_migration
from core.store.embedded_place import find_binaries
from tests.store.supervised import (
    another_process,
    ask,
    ask_in_the_end,
    lives,
    marks,
    mode,
    open_folder,
    postmaster,
    said_by,
    started,
    until,
    watched,
)

AT = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


class Shared:
    """One server for the tests of this file, with what was there before it."""

    def __init__(self, postgres: EmbeddedPostgres, dsn: str, above: list[Path], before: list[object]) -> None:
        self.postgres = postgres
        self.dsn = dsn
        self.above = above
        self.before = before

    @property
    def place_root(self) -> Path:
        return self.postgres.place.root


@pytest.fixture(scope="module")
async def shared() -> AsyncIterator[Shared]:
    with open_folder() as folder:
        binaries = find_binaries(None)
        above = [folder, *folder.parents, binaries, *binaries.parents]
        before: list[object] = list(marks(above))
        async with started(folder / "home") as (postgres, dsn):
            yield Shared(postgres, dsn, above, before)


def as_role(dsn: str, role: str, password: str, database: str = "voidbot") -> str:
    return urlunsplit(urlsplit(dsn)._replace(netloc=f"{role}:{password}@", path=f"/{database}"))


def test_the_place_is_closed_to_every_other_user(shared: Shared) -> None:
    root, account = shared.place_root, shared.postgres.place.account
    socket = root / "run" / ".s.PGSQL.5432"
    assert {name: mode(root / name) for name in ("data", "run", "log", "secret", "owner.lock")} == {
        "data": 0o700,
        "run": 0o700,
        "log": 0o700,
        "secret": 0o600,
        "owner.lock": 0o600,
    }
    assert stat.S_ISSOCK(socket.lstat().st_mode) and mode(socket) == 0o700
    assert {(root / name).stat().st_uid for name in ("data", "run", "log")} == {account.uid}
    assert (root / "secret").stat().st_uid == os.geteuid()
    assert account.uid != 0


def test_folders_that_were_there_before_are_left_alone(shared: Shared) -> None:
    assert marks(shared.above) == shared.before


async def test_the_server_listens_on_its_socket_alone(shared: Shared) -> None:
    assert await ask(shared.dsn, "show listen_addresses") == ""


async def test_the_server_keeps_what_it_has_confirmed(shared: Shared) -> None:
    names = ("full_page_writes", "synchronous_commit", "data_checksums", "jit", "timezone", "max_connections")
    assert [await ask(shared.dsn, f"show {name}") for name in names] == ["on", "on", "on", "off", "UTC", "80"]


@pytest.mark.parametrize("role", ["voidbot", "postgres"])
async def test_a_wrong_password_is_refused_on_the_socket_too(shared: Shared, role: str) -> None:
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(as_role(shared.dsn, role, "guessed"))


async def test_the_address_does_not_give_away_the_administrator(shared: Shared) -> None:
    password = urlsplit(shared.dsn).password or ""
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(as_role(shared.dsn, "postgres", password))


async def test_voidbot_owns_its_database_and_is_no_superuser(shared: Shared) -> None:
    owner = "select datdba::regrole::text from pg_database where datname = 'voidbot'"
    assert await ask(shared.dsn, owner) == "voidbot"
    assert await ask(shared.dsn, "select rolsuper from pg_roles where rolname = current_user") is False


@pytest.mark.parametrize("template", ["voidbot", "template1"])
async def test_databases_that_voidbot_makes_have_the_extensions(shared: Shared, template: str) -> None:
    password = urlsplit(shared.dsn).password or ""
    asked_from = as_role(shared.dsn, "voidbot", password, "postgres")
    await ask(asked_from, f"create database from_{template} template {template}")
    copy = as_role(shared.dsn, "voidbot", password, f"from_{template}")
    assert await ask(copy, "select array_agg(extname::text order by extname) from pg_extension") == [
        "btree_gin",
        "pg_trgm",
        "plpgsql",
        "unaccent",
        "vector",
    ]


async def test_a_second_process_attaches_and_starts_no_server(shared: Shared) -> None:
    before = postmaster(shared.postgres.place)
    async with another_process(shared.place_root.parent) as second:
        assert await said_by(second) == {"dsn": shared.dsn, "owner": False}
    assert postmaster(shared.postgres.place) == before


async def test_an_attached_one_that_stops_leaves_the_server_running(shared: Shared) -> None:
    async with started(shared.place_root.parent) as (attached, _):
        assert not attached.owner
    assert attached.state is PgState.STOPPED
    assert await ask(shared.dsn, "select 1") == 1


async def test_a_killed_backend_costs_no_row_and_no_new_server(shared: Shared) -> None:
    server = postmaster(shared.postgres.place)
    await ask(shared.dsn, "create table backend_killed as select 7 as kept")
    victim = await asyncpg.connect(shared.dsn)
    async with watched(shared.postgres):
        os.kill(await victim.fetchval("select pg_backend_pid()"), signal.SIGKILL)
        assert await ask_in_the_end(shared.dsn, "select kept from backend_killed") == 7
        await until(lambda: shared.postgres.state is PgState.READY)
    victim.terminate()
    assert postmaster(shared.postgres.place) == server


async def test_a_killed_server_is_started_again_with_its_rows(shared: Shared) -> None:
    killed = postmaster(shared.postgres.place)
    await ask(shared.dsn, "create table server_killed as select 8 as kept")
    async with watched(shared.postgres):
        os.kill(killed, signal.SIGKILL)
        await until(lambda: not lives(killed))
        assert await ask_in_the_end(shared.dsn, "select kept from server_killed") == 8
        await until(lambda: shared.postgres.state is PgState.READY)
    assert postmaster(shared.postgres.place) != killed


async def test_a_dump_can_be_read_back_and_only_five_are_kept(shared: Shared) -> None:
    home = shared.place_root.parent
    made = [await dump_before_migration(shared.dsn, home, f"r{n}", AT + timedelta(seconds=n)) for n in range(6)]
    assert sorted(path.name for path in (home / "backups").iterdir()) == sorted(path.name for path in made[1:])
    assert made[-1].name == "20300102T030410Z-r5.dump"
    assert (mode(made[-1].parent), mode(made[-1])) == (0o700, 0o600)


async def test_voidbot_restores_its_dump_without_the_administrator(shared: Shared) -> None:
    await ask(shared.dsn, "create table dumped as select 'kept'::text as word, '[1,2]'::vector as place")
    dump = await dump_before_migration(shared.dsn, shared.place_root.parent, "restored", AT)
    await ask(shared.dsn, "create database restored")
    target = urlunsplit(urlsplit(shared.dsn)._replace(path="/restored"))
    restore = [str(find_binaries(None) / "pg_restore"), "-e", "-d", target, str(dump)]
    assert (await asyncio.to_thread(subprocess.run, restore)).returncode == 0
    assert await ask(target, "select word from dumped") == "kept"


async def test_a_dump_of_a_server_that_is_gone_stops_the_migration() -> None:
    with open_folder() as folder, pytest.raises(Unavailable):
        await dump_before_migration(f"postgresql://v:w@/v?host={folder}&port=5432", folder, "r1", AT)


async def test_a_stopped_server_starts_again_on_the_same_data() -> None:
    with open_folder() as folder:
        async with started(folder / 'home, it\'s "mine"') as (first, dsn):
            await ask(dsn, "create table stays as select 9 as kept")
            pid = postmaster(first.place)
        assert not lives(pid)
        async with started(folder / 'home, it\'s "mine"') as (_, dsn):
            assert await ask(dsn, "select kept from stays") == 9
