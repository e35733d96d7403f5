"""The embedded Postgres after something went wrong: killed owners, half-made data, odd places, other uids."""

import asyncio
import os
import pwd
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.store.embedded import EmbeddedPostgres, PgRefusal, PostgresRefused
from core.store.embedded_files import prepare_folders
from core.store.embedded_place import Account, Place, choose_account, find_binaries, make_folder, settle
from tests.store.supervised import (
    AS_ROOT,
    SETTINGS,
    another_process,
    ask,
    lives,
    marks,
    mode,
    open_folder,
    postmaster,
    said_by,
    started,
    until,
)


async def test_after_a_killed_owner_the_attached_leave_and_the_next_start_has_its_own_child() -> None:
    with open_folder() as folder:
        home = folder / "home"
        async with another_process(home) as owner:
            dsn = (await said_by(owner))["dsn"]
            await ask(dsn, "create table kept as select 5 as row")
            async with another_process(home) as attached:
                assert (await said_by(attached))["owner"] is False
                orphan = int((home / "pg" / "data" / "postmaster.pid").read_text().split()[0])
                owner.kill()
                assert (await said_by(attached))["state"] == "down"
                assert await attached.wait() == 0
        assert lives(orphan)
        said: list[str] = []
        async with started(home, say=said.append) as (postgres, dsn):
            assert postgres.owner
            assert not lives(orphan)
            assert await ask(dsn, "select row from kept") == 5
            assert any(str(orphan) in line for line in said)


async def test_a_first_start_that_is_killed_is_begun_anew() -> None:
    with open_folder() as folder:
        home = folder / "home"
        async with another_process(home) as killed:
            await until((home / "pg" / "data" / "PG_VERSION").exists)
            killed.kill()
        async with started(home) as (postgres, dsn):
            assert await ask(dsn, "select current_database()") == "voidbot"
            assert (postgres.place.root / "data.interrupted-1").is_dir()


def test_half_made_data_are_moved_aside_and_not_deleted() -> None:
    with open_folder() as folder:
        place = Place(folder, find_binaries(None), choose_account(None, lambda _: None))
        for note in ("first", "second"):
            make_folder(place.data, 0o700, place.account)
            (place.data / "PG_VERSION").write_text(note)
            assert prepare_folders(place) is True
        kept = [(folder / f"data.interrupted-{n}" / "PG_VERSION").read_text() for n in (1, 2)]
        assert kept == ["first", "second"]
        assert list(place.data.iterdir()) == []


@pytest.fixture(scope="module")
async def stopped() -> AsyncIterator[tuple[Path, Place, list[str]]]:
    """A home whose server has run and ended, and the lines of its pid file."""
    with open_folder() as folder:
        async with started(folder / "home") as (postgres, _):
            lines = (postgres.place.data / "postmaster.pid").read_text().splitlines()
        yield folder / "home", postgres.place, lines


@contextmanager
def stranger(account: Account, dead: bool) -> Iterator[int]:
    """A process of the server's account that has nothing to do with it; dead: one that nobody has reaped."""
    process = subprocess.Popen(["/bin/sh", "-c", "read line"], stdin=subprocess.PIPE, cwd="/", **account.identity())
    if dead:
        os.kill(process.pid, signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    yield process.pid
    process.communicate()


@pytest.mark.parametrize("dead", [True, False], ids=["zombie", "living"])
async def test_a_left_over_pid_file_that_names_a_stranger_does_not_block_the_start(
    stopped: tuple[Path, Place, list[str]], dead: bool
) -> None:
    home, place, lines = stopped
    pid_file = place.data / "postmaster.pid"
    with stranger(place.account, dead) as pid:
        pid_file.write_text("\n".join([str(pid), *lines[1:]]) + "\n")
        os.chown(pid_file, place.account.uid, place.account.gid)
        async with started(home) as (_, dsn):
            assert await ask(dsn, "select 1") == 1


async def test_a_pid_file_that_names_nobody_does_not_block_the_start(
    stopped: tuple[Path, Place, list[str]],
) -> None:
    home, place, lines = stopped
    with stranger(place.account, dead=False) as pid:
        pass  # ended and reaped
    (place.data / "postmaster.pid").write_text("\n".join([str(pid), *lines[1:]]) + "\n")
    os.chown(place.data / "postmaster.pid", place.account.uid, place.account.gid)
    async with started(home) as (_, dsn):
        assert await ask(dsn, "select 1") == 1


async def test_a_home_of_200_bytes_has_its_socket_elsewhere() -> None:
    with open_folder() as folder:
        home = folder / ("x" * (199 - len(str(folder)) - len("/home"))) / "home"
        async with started(home) as (postgres, dsn):
            far = Path((postgres.place.run / "where").read_text().strip())
            assert len(str(home)) == 200 and len(str(far)) < 80
            assert mode(far) == 0o700
            assert far.stat().st_uid == postgres.place.account.uid
            async with another_process(home) as second:
                assert await said_by(second) == {"dsn": dsn, "owner": False}
        assert not far.exists()


async def test_a_home_under_a_closed_parent_is_served_from_the_system_folder() -> None:
    with open_folder() as folder:
        parent = folder / "closed"
        parent.mkdir(0o700)
        before = marks([parent, folder, *folder.parents])
        said: list[str] = []
        roots: list[Path] = []
        settings = replace(SETTINGS, system_root=folder / "system")
        for home in ("home", "moved"):  # the data are found again even if the home moves
            said.clear()
            async with started(parent / home, settings, said.append) as (postgres, dsn):
                place = postgres.place
                await ask(dsn, "create table if not exists kept as select 6 as row")
                assert await ask(dsn, "select count(*) from kept") == 1
                assert (place.root.parent == folder / "system") is AS_ROOT
                assert place.bin.is_relative_to(place.root) is AS_ROOT
                assert any(str(place.root) in line for line in said) is AS_ROOT
                roots.append(place.root)
            if home == "home":
                (parent / "home").rename(parent / "moved")
        assert (roots[0] == roots[1]) is AS_ROOT
        assert marks([parent, folder, *folder.parents]) == before


async def test_data_that_became_unreachable_are_not_replaced_by_an_empty_place(
    stopped: tuple[Path, Place, list[str]],
) -> None:
    home, _, _ = stopped
    home.parent.chmod(0o700)
    postgres = EmbeddedPostgres(home, SETTINGS)
    try:
        await postgres.ensure()
    except PostgresRefused as exc:
        assert exc.code is PgRefusal.UNREADABLE
    finally:
        await postgres.stop()
        home.parent.chmod(0o755)
    assert (postgres.refusal is not None) is AS_ROOT


def as_plain_user(story: Callable[[], Coroutine[Any, Any, str]]) -> str:
    """Run `story` in a process that is not root; the return value or the error comes back as text."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if AS_ROOT:
                nobody = pwd.getpwnam("nobody")
                os.setgroups([])
                os.setgid(nobody.pw_gid)
                os.setuid(nobody.pw_uid)
            os.chdir("/")
            answer = asyncio.run(story())
        except BaseException as exc:
            answer = repr(exc)
        os.write(sending, answer.encode())
        os._exit(0)
    os.close(sending)
    with os.fdopen(receiving) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer


@pytest.fixture
def reachable_binaries() -> Iterator[Path]:
    """Binaries that every user may run, wherever the virtual environment is."""
    with open_folder() as folder:
        parent = folder / "closed"
        parent.mkdir(0o700)
        yield settle(parent / "home", replace(SETTINGS, system_root=folder / "system"), lambda _: None).bin


def test_a_plain_user_runs_the_server_under_its_own_uid(reachable_binaries: Path) -> None:
    with open_folder() as folder:
        folder.chmod(0o777)

        async def story() -> str:
            async with started(folder / "home", replace(SETTINGS, pg_bin=reachable_binaries)) as (postgres, dsn):
                place = postgres.place
                found = {path.lstat().st_uid for path in place.root.rglob("*")}
                pid = postmaster(place)
                same = found == {os.getuid()} and mode(place.root) == 0o700 and lives(pid)
                return f"{await ask(dsn, 'select 1')} {same} {os.getuid() != 0}"

        assert as_plain_user(story) == "1 True True"
