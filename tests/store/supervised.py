"""A process with a supervisor of its own, and what the tests of the supervisor share.

Run as `python -m tests.store.supervised HOME`: prints one JSON line when the server is there, and one more
if its owner has gone.
"""

import asyncio
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import asyncpg

from core.domain.errors import Unavailable
from core.store.embedded import EmbeddedPostgres, EmbeddedSettings
from core.store.embedded_place import Place

# Processes are killed here, never the machine: what the kernel holds survives.
QUICK = {"fsync": "off", "shared_buffers": "16MB"}
SETTINGS = EmbeddedSettings(extra=QUICK)
REPOSITORY = Path(__file__).parents[2]
AS_ROOT = os.geteuid() == 0


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that every user can reach, removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="voidbot-pg-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@asynccontextmanager
async def started(
    home: Path, settings: EmbeddedSettings = SETTINGS, say: Callable[[str], None] = lambda _: None
) -> AsyncIterator[tuple[EmbeddedPostgres, str]]:
    postgres = EmbeddedPostgres(home, settings, say)
    try:
        yield postgres, await postgres.ensure()
    finally:
        await postgres.stop()


@asynccontextmanager
async def watched(postgres: EmbeddedPostgres) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        watch = tasks.create_task(postgres.watch())
        try:
            yield
        finally:
            watch.cancel()


@asynccontextmanager
async def another_process(home: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, str(home), cwd=REPOSITORY, stdout=asyncio.subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def said_by(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    async with asyncio.timeout(60):
        line: dict[str, Any] = json.loads(await process.stdout.readline())
    return line


async def until(condition: Callable[[], bool], limit_s: float = 60) -> None:
    async with asyncio.timeout(limit_s):
        while not condition():
            await asyncio.sleep(0.02)


async def ask(dsn: str, statement: str) -> Any:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def ask_in_the_end(dsn: str, statement: str) -> Any:
    """The answer of a server that may be down for a while."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await ask(dsn, statement)
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await asyncio.sleep(0.05)


def postmaster(place: Place) -> int:
    return int((place.data / "postmaster.pid").read_text().split()[0])


def lives(pid: int) -> bool:
    """Whether it runs; a process that ended and that nobody reaped does not."""
    shown = subprocess.run(["ps", "-p", str(pid), "-o", "stat="], capture_output=True, text=True).stdout.strip()
    return bool(shown) and not shown.startswith("Z")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def marks(paths: list[Path]) -> list[tuple[int, int, int]]:
    """Mode and owner of each path."""
    return [(found.st_mode, found.st_uid, found.st_gid) for found in (path.lstat() for path in paths)]


async def main(home: Path) -> None:
    postgres = EmbeddedPostgres(home, SETTINGS)
    try:
        dsn = await postgres.ensure()
        print(json.dumps({"dsn": dsn, "owner": postgres.owner}), flush=True)
        await postgres.watch()
    except Unavailable as exc:
        print(json.dumps({"gone": exc.message, "state": postgres.state}), flush=True)
    finally:
        await postgres.stop()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
