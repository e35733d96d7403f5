"""Each reason not to start the embedded Postgres: its code, two lines, and nothing touched."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from core.store.embedded import EmbeddedPostgres, EmbeddedSettings, PgRefusal, PgState, PostgresRefused
from core.store.embedded_files import OwnerLock
from core.store.embedded_place import (
    CHILD_ENVIRONMENT,
    Place,
    check_space,
    choose_account,
    find_binaries,
    make_folder,
    socket_folder,
)
from tests.store.supervised import (
    AS_ROOT,
    SETTINGS,
    lives,
    marks,
    mode,
    open_folder,
    started,
    until,
)


@pytest.fixture
def place() -> Iterator[Place]:
    """A place as an earlier start has left it, without the server's files."""
    with open_folder() as folder:
        account = choose_account(None, lambda _: None)
        root = folder / "home" / "pg"
        for made in (root.parent, root):
            make_folder(made, 0o711)
        made_place = Place(root, find_binaries(None), account)
        make_folder(made_place.data, 0o700, account)
        make_folder(made_place.run, 0o700, account)
        (made_place.data / "PG_VERSION").write_text("18\n")
        made_place.ready.touch()
        yield made_place


async def refusal(home: Path, settings: EmbeddedSettings = SETTINGS) -> PostgresRefused:
    postgres = EmbeddedPostgres(home, settings)
    with pytest.raises(PostgresRefused) as caught:
        await postgres.ensure()
    assert (postgres.state, postgres.refusal, postgres.owner) == (PgState.REFUSED, caught.value, False)
    return caught.value


def home_of(place: Place) -> Path:
    return place.root.parent


async def test_without_binaries_the_text_names_both_ways_out() -> None:
    with open_folder() as folder:
        refused = await refusal(folder / "home", replace(SETTINGS, pg_bin=folder))
        assert refused.code is PgRefusal.NOBIN
        assert "PG_BIN" in refused.remedy and "DATABASE_URL" in refused.remedy
        assert len(str(refused).splitlines()) == 2
        assert not (folder / "home").exists()


async def test_binaries_that_do_not_run_here_are_no_binaries() -> None:
    with open_folder() as folder:
        for name in ("postgres", "initdb", "pg_ctl"):
            (folder / name).write_bytes(b"\x7fELF of another world")
            (folder / name).chmod(0o755)
        assert (await refusal(folder / "home", replace(SETTINGS, pg_bin=folder))).code is PgRefusal.NOBIN


async def test_data_of_another_major_version_are_not_touched(place: Place) -> None:
    (place.data / "PG_VERSION").write_text("17\n")
    before = sorted(place.data.iterdir()), marks([place.data])
    refused = await refusal(home_of(place))
    assert refused.code is PgRefusal.MAJOR
    assert "17" in refused.wrong and "18" in refused.wrong and "docs/operations.md" in refused.remedy
    assert (sorted(place.data.iterdir()), marks([place.data])) == before


async def test_a_data_folder_open_to_others_is_refused_and_not_repaired(place: Place) -> None:
    place.data.chmod(0o755)
    refused = await refusal(home_of(place))
    assert refused.code is PgRefusal.PERM
    assert refused.remedy == f"chmod 0700 {place.data}"
    assert mode(place.data) == 0o755


async def test_an_open_secret_is_refused(place: Place) -> None:
    place.secret.write_text("seen by all")
    place.secret.chmod(0o644)
    refused = await refusal(home_of(place))
    assert (refused.code, refused.remedy) == (PgRefusal.PERM, f"chmod 0600 {place.secret}")


async def test_data_whose_secret_is_gone_are_kept(place: Place) -> None:
    refused = await refusal(home_of(place))
    assert refused.code is PgRefusal.PERM
    assert str(place.secret) in refused.wrong
    assert place.ready.exists() and not place.secret.exists()


def test_an_account_that_does_not_exist_is_named() -> None:
    if not AS_ROOT:  # then no other account is needed
        assert choose_account("no-such-user", lambda _: None).uid == os.geteuid()
        return
    with pytest.raises(PostgresRefused) as caught:
        choose_account("no-such-user", lambda _: None)
    assert (caught.value.code, "no-such-user" in caught.value.wrong) == (PgRefusal.PERM, True)


@pytest.mark.parametrize("planted", ["link", "wide"])
def test_a_planted_socket_folder_is_refused(place: Place, planted: str) -> None:
    far = replace(place, root=place.root / ("x" * 100))
    far.root.mkdir()
    make_folder(far.run, 0o700, place.account)
    folder = socket_folder(far, SETTINGS)
    folder.rmdir()
    if planted == "link":
        folder.symlink_to(place.run)
    else:
        make_folder(folder, 0o755, place.account)
    try:
        with pytest.raises(PostgresRefused) as caught:
            socket_folder(far, SETTINGS)
    finally:
        folder.unlink() if planted == "link" else folder.rmdir()
    assert caught.value.code is PgRefusal.PERM


@pytest.mark.parametrize(("free", "fits"), [(119, False), (120, True)])
def test_a_full_disk_is_refused_with_both_figures(free: int, fits: bool) -> None:
    if fits:
        check_space(free, 120, Path("/backups"))
        return
    with pytest.raises(PostgresRefused) as caught:
        check_space(free, 120, Path("/backups"))
    assert caught.value.code is PgRefusal.DISK
    assert "119" in caught.value.wrong and "120" in caught.value.wrong


async def test_an_owner_whose_server_never_answers_is_named(place: Place) -> None:
    lock = OwnerLock()
    assert lock.take(place.root / "owner.lock")
    refused = await refusal(home_of(place), replace(SETTINGS, owner_wait_s=0.2))
    lock.release()
    assert refused.code is PgRefusal.LOCKED
    assert str(os.getpid()) in refused.wrong


@pytest.fixture(scope="module")
async def stopped() -> AsyncIterator[Place]:
    """The place of a server that has run and ended."""
    with open_folder() as folder:
        async with started(folder / "home") as (postgres, _):
            pass
        yield postgres.place


async def test_a_server_that_others_started_on_our_data_is_left_running(stopped: Place) -> None:
    make_folder(stopped.root / "elsewhere", 0o700, stopped.account)
    arguments = ["-D", str(stopped.data), "-c", f"unix_socket_directories={stopped.root / 'elsewhere'}"]
    foreign = subprocess.Popen(
        [str(stopped.bin / "postgres"), *arguments, "-c", "listen_addresses="],
        cwd=stopped.root,
        env=CHILD_ENVIRONMENT,
        stderr=subprocess.DEVNULL,
        **stopped.account.identity(),
    )
    await until((stopped.data / "postmaster.pid").exists)
    refused = await refusal(home_of(stopped))
    assert refused.code is PgRefusal.FOREIGN
    assert str(foreign.pid) in refused.wrong
    assert lives(foreign.pid)
    foreign.terminate()
    await asyncio.to_thread(foreign.wait)


async def test_a_secret_that_is_not_of_these_data_is_refused(stopped: Place) -> None:
    right = stopped.secret.read_text()
    stopped.secret.write_text("of another house\n")
    refused = await refusal(home_of(stopped))
    stopped.secret.write_text(right)
    assert refused.code is PgRefusal.FOREIGN
    assert right.strip() not in str(refused) and "another house" not in str(refused)


async def test_a_server_that_fails_five_times_is_given_up_with_its_last_lines() -> None:
    with open_folder() as folder:
        settings = replace(SETTINGS, extra={"no_such_setting": "1"}, pause_s=0.01)
        refused = await refusal(folder / "home", settings)
        assert refused.code is PgRefusal.START
        assert "no_such_setting" in refused.log_tail[-1]
        assert OwnerLock().take(folder / "home" / "pg" / "owner.lock")
