"""Dumps of the database: made before a migration or when asked for, and put back."""

import asyncio
import shutil
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

import asyncpg

from core.domain.errors import Unavailable
from core.store.embedded_files import run_to_end
from core.store.embedded_place import (
    CHILD_ENVIRONMENT,
    check_space,
    file_errors_refused,
    find_binaries,
    make_folder,
)
from core.store.engine import database_errors

BACKUPS = 5


async def dump_before_migration(dsn: str, home: Path, revision: str, at: datetime, pg_bin: Path | None = None) -> Path:
    """Return the verified dump of the database at `dsn` in `<home>/backups`; the five newest are kept.

    Raises:
        PostgresRefused: Less than 1.2 times the database's size is free, or there is no `pg_dump`.
        Unavailable: The dump failed or cannot be read back; the migration must not run.
    """
    binaries = await asyncio.to_thread(find_binaries, pg_bin)
    folder = home / "backups"
    with file_errors_refused(folder):
        await asyncio.to_thread(make_folder, folder, 0o700)
        size = await _database_size(dsn)
        free = (await asyncio.to_thread(shutil.disk_usage, folder)).free
        check_space(free, -(-size * 6 // 5), folder)
    name = f"{at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{revision}.dump"
    half_made = folder / f".{name}.partial"
    try:
        await asyncio.to_thread(half_made.touch, 0o600)
        await _dump(binaries, dsn, half_made)
        await asyncio.to_thread(half_made.rename, folder / name)
    finally:
        await asyncio.to_thread(half_made.unlink, missing_ok=True)
    # The new one stays even if a clock that went back made it look the oldest.
    others = [path for path in sorted(folder.glob("[0-9]*T[0-9]*Z-*.dump")) if path.name != name]
    for old in others[: 1 - BACKUPS]:
        await asyncio.to_thread(old.unlink, missing_ok=True)
    return folder / name


async def _database_size(dsn: str) -> int:
    try:
        connection = await asyncpg.connect(dsn)
        try:
            return int(await connection.fetchval("select pg_database_size(current_database())"))
        finally:
            connection.terminate()
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as exc:
        raise Unavailable("backup: the server does not answer") from exc


def _address(dsn: str) -> tuple[str, dict[str, str]]:
    """Return the address without its password, which goes by the environment: arguments can be read by everybody."""
    parts = urlsplit(dsn)
    place = parts.netloc.rpartition("@")[2]
    source = parts._replace(netloc=f"{parts.username}@{place}").geturl()
    return source, {**CHILD_ENVIRONMENT, "PGPASSWORD": unquote(parts.password or "")}


async def _dump(binaries: Path, dsn: str, file: Path) -> None:
    source, environment = _address(dsn)
    for command in (
        # Extensions belong to the administrator, who has made them in every database before a restore.
        [str(binaries / "pg_dump"), "-Fc", "--exclude-extension=*", "-f", str(file), "-d", source],
        [str(binaries / "pg_restore"), "--list", str(file)],
    ):
        code, output = await run_to_end(command, environment, file.parent)
        if code:
            last = output.strip().rpartition("\n")[2]
            raise Unavailable(f"backup: {Path(command[0]).name} failed: {last}", exit_code=code)


async def dump_to(dsn: str, file: Path, pg_bin: Path | None = None) -> None:
    """Write a verified dump to `file`, readable by its owner alone; what stood there is replaced once it is whole.

    Raises:
        PostgresRefused: There is no `pg_dump`, or the folder cannot be written.
        Unavailable: The dump failed or cannot be read back.
    """
    binaries = await asyncio.to_thread(find_binaries, pg_bin)
    half_made = file.with_name(f".{file.name}.partial")
    try:
        with file_errors_refused(file.parent):
            await asyncio.to_thread(half_made.touch, 0o600)
        await _dump(binaries, dsn, half_made)
        await asyncio.to_thread(half_made.rename, file)
    finally:
        await asyncio.to_thread(half_made.unlink, missing_ok=True)


_EMPTY = ("drop schema if exists voidbot cascade", "drop schema if exists queue cascade",
          "drop table if exists public.alembic_version")  # fmt: skip


async def check_dump(file: Path, pg_bin: Path | None = None) -> None:
    """Refuse a file that is no dump.

    Raises:
        Unavailable: It cannot be read.
    """
    binaries = await asyncio.to_thread(find_binaries, pg_bin)
    code, output = await run_to_end([str(binaries / "pg_restore"), "--list", str(file)], CHILD_ENVIRONMENT, file.parent)
    if code:
        last = output.strip().rpartition("\n")[2]
        raise Unavailable(f"restore: {file} is no dump that can be read: {last}", exit_code=code)


async def restore_from(dsn: str, file: Path, pg_bin: Path | None = None) -> None:
    """Replace what the database holds of ours by a dump; extensions stay.

    Raises:
        Unavailable: It failed; what stands there is not whole.
    """
    binaries = await asyncio.to_thread(find_binaries, pg_bin)
    with database_errors():
        connection = await asyncpg.connect(dsn, timeout=5)
        try:
            for statement in _EMPTY:
                await connection.execute(statement)
        finally:
            await connection.close()
    source, environment = _address(dsn)
    command = [str(binaries / "pg_restore"), "--no-owner", "--exit-on-error", "-d", source, str(file)]
    code, output = await run_to_end(command, environment, file.parent)
    if code:
        raise Unavailable(f"restore: pg_restore failed: {output.strip().rpartition(chr(10))[2]}", exit_code=code)
