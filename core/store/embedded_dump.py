"""The dump of the database that precedes a migration."""

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


async def _dump(binaries: Path, dsn: str, file: Path) -> None:
    parts = urlsplit(dsn)
    # The password goes by the environment: arguments can be read by every user of the machine.
    environment = {**CHILD_ENVIRONMENT, "PGPASSWORD": unquote(parts.password or "")}
    place = parts.netloc.rpartition("@")[2]
    source = parts._replace(netloc=f"{parts.username}@{place}").geturl()
    for command in (
        # Extensions belong to the administrator, who has made them in every database before a restore.
        [str(binaries / "pg_dump"), "-Fc", "--exclude-extension=*", "-f", str(file), "-d", source],
        [str(binaries / "pg_restore"), "--list", str(file)],
    ):
        code, output = await run_to_end(command, environment, file.parent)
        if code:
            last = output.strip().rpartition("\n")[2]
            raise Unavailable(f"backup: {Path(command[0]).name} failed: {last}", exit_code=code)
