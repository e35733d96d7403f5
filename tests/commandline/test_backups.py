"""Backups and erasures: what was erased stays erased, whichever backup is put back."""

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bot.backups import restore_backup, write_backup
from bot.clock import SystemClock
from bot.storage import open_key, open_storage
from core.domain.errors import Misconfigured
from core.store import restore
from core.store.engine import Database, migrate
from tests.conftest import on_database, run_sql
from tests.flows.line import settings_for
from tests.store.erasure_world import KEY, OTHERS, make_world


@pytest.fixture
async def plain_dsn(server: str) -> AsyncIterator[str]:
    """The address of a migrated database without anything of the suite's own."""
    name = f"plain_{secrets.token_hex(6)}"
    await run_sql(server, f"create database {name}")
    await migrate(on_database(server, name))
    yield on_database(server, name)
    await run_sql(server, f"drop database {name} with (force)")


@pytest.mark.field("F048")
async def test_restore_erases_again(plain_dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings, older = settings_for(plain_dsn, home=tmp_path), tmp_path / "older.dump"
    key = tmp_path / "erasure.key"
    key.write_text(KEY.secret.hex())
    database = await Database.open(plain_dsn, size=2)
    world = await make_world(database)
    await write_backup(settings, older)
    assert older.stat().st_mode & 0o777 == 0o600
    assert await world.erase(tmp_path) == "done"

    with pytest.raises(Misconfigured, match="stop every VoidBot first"):
        await restore_backup(settings, older, without_erasures=False)
    await database.close()
    key.rename(tmp_path / "away")
    with pytest.raises(Misconfigured, match=r"erasure\.key is missing.*nothing was restored.*--without-erasures"):
        await restore_backup(settings, older, without_erasures=False)
    (tmp_path / "away").rename(key)
    await restore_backup(settings, older, without_erasures=False)
    assert "erasures done again: 1" in capsys.readouterr().err

    world.database = database = await Database.open(plain_dsn, size=2)
    left = await world.words_left()
    assert set(left) == {"voidbot.messages"} and all(OTHERS in row for row in left["voidbot.messages"])
    assert await world.value("select count(*) from voidbot.erasure_ledger") == 1
    await database.close()


async def test_a_half_restored_database_is_not_served(plain_dsn: str, tmp_path: Path) -> None:
    await restore.mark(plain_dsn, restoring=True)
    with pytest.raises(Misconfigured, match="a restore is not finished"):
        async with open_storage(settings_for(plain_dsn, home=tmp_path), SystemClock(), lambda line: None):
            pass
    await restore.mark(plain_dsn, restoring=False)
    async with open_storage(settings_for(plain_dsn, home=tmp_path), SystemClock(), lambda line: None) as storage:
        made = await open_key(settings_for(plain_dsn, home=tmp_path), storage.database)
        assert (tmp_path / "erasure.key").stat().st_mode & 0o777 == 0o600
        assert await open_key(settings_for(plain_dsn, home=tmp_path), storage.database) == made
