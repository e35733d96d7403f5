"""Commands for operators at the shell: jobs, and the database. They print; the work is the store's."""

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from bot import backups
from bot.clock import SystemClock
from bot.settings import Settings
from bot.storage import bring_to_head, reach
from core.domain.errors import InputRejected, Misconfigured
from core.domain.ids import JobId
from core.domain.jobs import Cancelled, JobState, Requeued
from core.store import jobs, outbox
from core.store.engine import Database, current_revision, head_revision

Handler = Callable[[argparse.Namespace, Database], Awaitable[int]]
_SHOWN = ("id", "state", "kind", "lane", "attempt", "max_attempts", "created_at", "why")


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `jobs` and `db` to the command line."""
    words = commands.add_parser("jobs", help="look at jobs, run dead ones again, cancel").add_subparsers(
        required=True, metavar="ACT"
    )
    listing = words.add_parser("list", help="the newest jobs")
    listing.add_argument("--state", choices=[state.value for state in JobState])
    listing.add_argument("--limit", type=int, default=50)
    _offer(listing, _list)
    for name, summary, handler in (
        ("show", "one job, whole", _show),
        ("retry", "run a dead job again", _retry),
        ("cancel", "cancel a job; a running one is asked to stop", _cancel),
    ):
        parser = words.add_parser(name, help=summary)
        parser.add_argument("id", type=int)
        _offer(parser, handler)
    acts = commands.add_parser("db", help="the database: migrate, status, backup, restore").add_subparsers(
        required=True, metavar="ACT"
    )
    acts.add_parser("migrate", help="bring the schema to this release").set_defaults(run=_migrate)
    acts.add_parser("status", help="which schema the database has").set_defaults(run=_status)
    backups.add_commands(acts)


def _offer(parser: argparse.ArgumentParser, handler: Handler) -> None:
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(run=lambda options, settings: asyncio.run(_with_database(options, settings, handler)))


async def _with_database(options: argparse.Namespace, settings: Settings, handler: Handler) -> int:
    async with reach(settings, _say) as (dsn, _):
        if await current_revision(dsn) != head_revision():
            raise Misconfigured("database: its schema is not this release's; run `voidbot db migrate`")
        database = await Database.open(dsn, size=2)
        try:
            return await handler(options, database)
        finally:
            await database.close()


async def _list(options: argparse.Namespace, database: Database) -> int:
    state = None if options.state is None else JobState(options.state)
    async with database.transaction(durable=False) as tx:
        found = await jobs.list_jobs(tx, state=state, limit=options.limit)
    rows = [asdict(job) for job in found]
    if options.json:
        _print(json.dumps(rows, default=_plain))
        return 0
    for row in rows:
        _print("  ".join(_shown(row[name]) for name in _SHOWN))
    _print(f"{len(rows)} jobs")
    return 0


async def _show(options: argparse.Namespace, database: Database) -> int:
    async with database.transaction(durable=False) as tx:
        job = await jobs.show(tx, JobId(options.id))
    if job is None:
        raise InputRejected(f"job {options.id}: there is none; `voidbot jobs list` shows them")
    row = asdict(job)
    if options.json:
        _print(json.dumps(row, default=_plain))
    else:
        for name, value in row.items():
            _print(f"{name:>14}  {_shown(value)}")
    return 0


async def _retry(options: argparse.Namespace, database: Database) -> int:
    async with database.transaction() as tx:
        job = await jobs.show(tx, JobId(options.id))
        if job is not None and job.kind in ("reply", "command"):
            raise InputRejected(f"job {options.id}: who asked was told that it failed, and may ask again")
        if job is not None and job.kind == "send":
            await outbox.reopen(tx, job.id)
        answer = await jobs.requeue(tx, JobId(options.id), "operator at the shell")
    _report(options, answer)
    if answer is not Requeued.REQUEUED:
        what = "its key is taken by a newer one" if answer is Requeued.KEY_TAKEN else "it is not among the dead"
        raise InputRejected(f"job {options.id}: not run again, {what}")
    return 0


async def _cancel(options: argparse.Namespace, database: Database) -> int:
    answer = await jobs.cancel(database, JobId(options.id))
    _report(options, answer)
    if answer is Cancelled.UNKNOWN:
        raise InputRejected(f"job {options.id}: too late, or there is none")
    return 0


def _report(options: argparse.Namespace, answer: Cancelled | Requeued) -> None:
    _print(json.dumps({"id": options.id, "result": answer}) if options.json else f"job {options.id}: {answer}")


def _migrate(_: argparse.Namespace, settings: Settings) -> int:
    return asyncio.run(_bring_to_head(settings.model_copy(update={"migrate": "auto"})))


async def _bring_to_head(settings: Settings) -> int:
    async with reach(settings, _say) as (dsn, embedded):
        await bring_to_head(settings, dsn, embedded, SystemClock(), _say)
        _print(f"schema {await current_revision(dsn)}")
    return 0


def _status(_: argparse.Namespace, settings: Settings) -> int:
    return asyncio.run(_tell_status(settings))


async def _tell_status(settings: Settings) -> int:
    async with reach(settings, _say) as (dsn, embedded):
        _print(f"server: {'embedded' if embedded is not None else 'by DATABASE_URL'}")
        _print(f"schema: {await current_revision(dsn) or 'empty'}, this release needs {head_revision()}")
    return 0


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(type(value).__name__)


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return value.strftime("%Y-%m-%d %H:%M:%S") if isinstance(value, datetime) else str(value)


def _print(line: str) -> None:
    print(line)  # noqa: T201  # the command line's own voice


def _say(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201  # the command line's own voice
