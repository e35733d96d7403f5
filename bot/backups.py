"""`voidbot db backup` and `db restore`: dumps with their ledger, and erasures done again before anything serves."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from bot.clock import SystemClock
from bot.settings import Settings
from bot.storage import bring_to_head, key_file, reach
from core.domain.errors import InputRejected, Misconfigured
from core.privacy import ledger
from core.privacy.erasure import ErasureService
from core.privacy.key import ErasureKey, load_key
from core.privacy.ledger import Remembered
from core.privacy.replay import replay_erasures
from core.state.service import open_minds
from core.store import erasures, restore
from core.store.embedded_dump import check_dump, dump_before_migration, dump_to, restore_from
from core.store.engine import Database, current_revision, head_revision

BESIDE = ".erasures"
"""What is put behind a dump's name for the ledger beside it."""


def add_commands(acts: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `backup` and `restore` to `voidbot db`."""
    backup = acts.add_parser("backup", help="write a dump, into the home folder or to FILE")
    backup.add_argument("file", nargs="?", type=Path, metavar="FILE")
    backup.set_defaults(run=lambda options, settings: asyncio.run(write_backup(settings, options.file)))
    again = acts.add_parser("restore", help="replace the database by a dump; erasures are done again")
    again.add_argument("file", type=Path, metavar="FILE")
    again.add_argument(
        "--without-erasures",
        action="store_true",
        help="the erasure key is lost for good: go on, although this brings erased people back",
    )
    again.set_defaults(
        run=lambda options, settings: asyncio.run(
            restore_backup(settings, options.file, without_erasures=options.without_erasures)
        )
    )


async def write_backup(settings: Settings, file: Path | None) -> int:
    """Write a dump with its ledger beside it; None: into the home folder. Return the exit code.

    Raises:
        Misconfigured, Unavailable: It could not be written, in words for the operator.
    """
    async with reach(settings, _say) as (dsn, _):
        revision = await current_revision(dsn) or "empty"
        if file is None:
            file = await dump_before_migration(dsn, settings.home, revision, SystemClock().now(), settings.pg_bin)
        else:
            file = await asyncio.to_thread(file.absolute)
            await dump_to(dsn, file, settings.pg_bin)
        await _write_ledger(settings, dsn, file)
        _print(f"written: {file}")
    return 0


async def _write_ledger(settings: Settings, dsn: str, file: Path) -> None:
    """Put the ledger beside a dump: keyed hashes, ids and times."""
    known = await _ledger_of(dsn)
    if not known:
        return
    key = await asyncio.to_thread(load_key, key_file(settings), sorted({entry.key_id for entry in known}))
    lines = "".join(ledger.line_of(entry, key) + "\n" for entry in known)
    beside = file.with_name(file.name + BESIDE)
    await asyncio.to_thread(beside.touch, 0o600)
    await asyncio.to_thread(beside.write_text, lines, encoding="utf-8")


async def _ledger_of(dsn: str) -> list[Remembered]:
    """Return the ledger of a database that has this release's schema; nothing of any other."""
    if await current_revision(dsn) != head_revision():
        return []
    database = await Database.open(dsn, size=2)
    try:
        async with database.transaction(durable=False) as tx:
            return [ledger.remembered(entry) for entry in await erasures.list_entries(tx)]
    finally:
        await database.close()


async def restore_backup(settings: Settings, file: Path, *, without_erasures: bool) -> int:
    """Replace the database by a dump and erase again what it brings back; return the exit code.

    Raises:
        InputRejected, Misconfigured, Unavailable: What is wrong, in words for the operator. Once the dump is being
            put back nothing serves the database until this has run to its end.
    """
    file = await asyncio.to_thread(file.absolute)
    if not await asyncio.to_thread(file.is_file):
        raise InputRejected(f"restore: there is no file {file}")
    await check_dump(file, settings.pg_bin)
    async with reach(settings, _say) as (dsn, _):
        if others := await restore.count_others(dsn):
            raise Misconfigured(f"restore: {others} connections use the database; stop every VoidBot first")
        known = ledger.merged(await _ledger_of(dsn), _files(settings, file))
        key = await _key(settings, known, without=without_erasures)
        _files(settings, file, key)  # a line that somebody else has written stops here
        if await current_revision(dsn) is not None:
            copy = await dump_before_migration(dsn, settings.home, "replaced", SystemClock().now(), settings.pg_bin)
            _say(f"what is there was saved: {copy}")
        await restore.mark(dsn, restoring=True)
        await restore_from(dsn, file, settings.pg_bin)
        upgrading = settings.model_copy(update={"migrate": "auto"})
        await bring_to_head(upgrading, dsn, None, SystemClock(), _say)
        if key is None:
            await _give_up_ledger(settings, dsn)
        else:
            await _erase_again(settings, dsn, key, ledger.merged(known, await _ledger_of(dsn)))
        await restore.mark(dsn, restoring=False)
        _print(f"restored: {file}" if key else f"restored without erasures: {file}")
    return 0


def _files(settings: Settings, file: Path, key: ErasureKey | None = None) -> list[Remembered]:
    """Return what the logs outside the database remember; signatures are looked at where the key is given."""
    return [
        *ledger.read(settings.home / ledger.LOG, key),
        *ledger.read(file.with_name(file.name + BESIDE), key),
    ]


async def _key(settings: Settings, known: Sequence[Remembered], *, without: bool) -> ErasureKey | None:
    """Return the key; None if the operator has decided to go on without it.

    Raises:
        Misconfigured: It is missing, and nobody has decided.
    """
    if without:
        _say("the erasures are not done again: erased people come back")
        return None
    try:
        return await asyncio.to_thread(load_key, key_file(settings), sorted({entry.key_id for entry in known}))
    except Misconfigured as exc:
        raise Misconfigured(
            f"{exc.message}; nothing was restored. If the key is lost for good, decide: `voidbot db restore"
            " --without-erasures` brings the erased people back"
        ) from exc


async def _give_up_ledger(settings: Settings, dsn: str) -> None:
    """Put away a ledger that nobody can read any more, so that the next start makes a new key."""
    database = await Database.open(dsn, size=2)
    try:
        async with database.transaction() as tx:
            await erasures.drop_ledger(tx)
    finally:
        await database.close()
    log = settings.home / ledger.LOG
    if await asyncio.to_thread(log.exists):
        await asyncio.to_thread(log.rename, log.with_suffix(".lost"))


async def _erase_again(settings: Settings, dsn: str, key: ErasureKey, known: Sequence[Remembered]) -> None:
    database = await Database.open(dsn, size=4)
    try:
        service = ErasureService(
            database=database, clock=SystemClock(), key=key, home=settings.home, tell=None, minds=open_minds()
        )
        done = await replay_erasures(database, service, known, _say)
        _say(f"erasures done again: {done}")
    finally:
        await database.close()


def _print(line: str) -> None:
    print(line)  # noqa: T201  # the command line's own voice


def _say(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201  # the command line's own voice
