"""How fast a history comes in, beside a bare COPY of the same rows into the same table; repeated, killed, resumed."""

import argparse
import asyncio
import json
import os
import resource
import signal
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.export_counts import ZONE, differences, export_files
from benchmarks.import_files import talk, write
from benchmarks.rig import load, say, temporary_home
from bot.clock import SystemClock
from bot.settings import PROJECT, Settings
from bot.storage import open_storage
from core.domain.ids import CommunityId
from core.domain.imports import AudienceKind, AudienceSpec, ImportFormat, Progress
from core.retrieval.admission import Wish
from core.retrieval.importing import BATCH, Importer
from core.retrieval.survey import recognise, survey
from core.store import places
from core.store.engine import Database

_COLUMNS = (
    *("community_id", "room_id", "author_id", "platform_ref", "sent_at", "archived_seq", "kind", "reply_to_ref"),
    *("text", "lang", "origin", "session", "forwarded_from", "index_state"),
)
_ROWS = f"select id, {', '.join(_COLUMNS)} from voidbot.messages where id > $1 and room_id <> $2 order by id limit $3"


def main() -> int:
    flags = argparse.ArgumentParser(description=__doc__, epilog="One JSON line a format; words to standard error.")
    flags.add_argument("--data", type=Path, help="a folder of sets with rooms.jsonl; else the talk is made up")
    flags.add_argument("--messages", type=int, default=100_000)
    flags.add_argument("--format", choices=[form.value for form in ImportFormat], action="append")
    flags.add_argument("--check-exports", action="store_true", help="only compare DATA/exports with what is expected")
    flags.add_argument("--database-url", help="an empty database; else a fresh embedded server")
    flags.add_argument("--seed", type=int, default=13)
    flags.add_argument("--child", nargs=2, metavar=("FILE", "COMMUNITY"), help=argparse.SUPPRESS)
    flags.add_argument("--resume", action="store_true", help=argparse.SUPPRESS)
    options = flags.parse_args()
    try:
        return asyncio.run(_child(options) if options.child else _run(options))
    except (ValueError, FileNotFoundError) as exc:
        say(f"import_speed: {exc}")
        return 2


async def _run(options: argparse.Namespace) -> int:
    async with _database(options.database_url) as database:
        if options.check_exports:
            await _check_exports(options.data, database)
            return 0
        with temporary_home() as folder:
            for form in map(ImportFormat, options.format or list(ImportFormat)):
                say(f"{form}: writing {options.messages} messages")
                file = folder / f"{form}.json"
                write(file, form, talk(options.data, options.messages, options.seed))
                _print(await _measure(database, file, form))
                file.unlink()
    return 0


@asynccontextmanager
async def _database(url: str | None) -> AsyncIterator[Database]:
    with temporary_home() as home:
        settings = Settings.model_validate({"home": home, "database_url": url, "sample": False, "migrate": "auto"})
        async with open_storage(settings, SystemClock(), say) as storage:
            yield storage.database


async def _measure(database: Database, file: Path, form: ImportFormat) -> dict[str, object]:
    """Kill an import midway and resume it; from an empty database once more, timed; the same once more."""
    community = await _empty(database)
    await _spawn(database, file, community, kill_at=0.5)
    resumed = await _spawn(database, file, community, resume=True)
    community = await _empty(database)
    before = load()
    timed = await _spawn(database, file, community)
    copied_per_s = await _copy(database, community)
    again = await _spawn(database, file, community)
    return {
        "set": form.value,
        "n": timed["read"],
        "per_s": round(timed["read"] / timed["seconds"]),
        "survey_s": round(timed["survey_s"], 2),
        "copy_share": round(timed["read"] / timed["seconds"] / copied_per_s, 3),
        "cpu_us": round(timed["cpu_s"] * 1e6 / timed["read"]),
        "rss_mb": timed["rss_mb"],
        "bad": sum(timed["bad"].values()),
        "repeat_written": again["written"] + again["edited"],
        "repeat_equal": again["digest"] == timed["digest"],
        "resume_equal": resumed["digest"] == timed["digest"] and resumed["resumed"],
        "megabytes": round(file.stat().st_size / 1e6, 1),
        "load": {"before": before, "after": load()},
        "cores": os.cpu_count(),
    }


async def _empty(database: Database) -> CommunityId:
    async with database.transaction(long=True) as tx:
        await tx.execute("truncate voidbot.communities, voidbot.people restart identity cascade")
        return await places.add_community(tx, "discord", "500", "Bench")


async def _spawn(
    database: Database, file: Path, community: CommunityId, *, kill_at: float | None = None, resume: bool = False
) -> dict[str, Any]:
    """Import in a process of its own; return its figures, none for one that was killed."""
    words = ["--child", str(file), str(community), "--database-url", database.dsn, *(["--resume"] if resume else [])]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.import_speed", *words, cwd=PROJECT, stdout=PIPE
    )
    if process.stdout is None:
        raise AssertionError("its output is piped")
    while line := await process.stdout.readline():
        told: dict[str, Any] = json.loads(line)
        if "digest" in told:
            await process.wait()
            return told
        if kill_at is not None and told["share"] >= kill_at:
            process.send_signal(signal.SIGKILL)
            await process.wait()
            return {}
    raise ValueError(f"{file.name}: an import ended without its figures")


async def _child(options: argparse.Namespace) -> int:
    database = await Database.open(options.database_url, size=2)
    path, community = Path(options.child[0]), CommunityId(int(options.child[1]))
    wish = Wish(community_id=community, audience=AudienceSpec(AudienceKind.COMMUNITY), sure=True, resume=options.resume)

    def report(progress: Progress) -> None:
        _print({"share": progress.byte / progress.size_bytes})

    try:
        began = time.perf_counter()
        importer = Importer(database)
        plan = await importer.plan(path, None, None, wish)
        surveyed = time.perf_counter()
        outcome = await importer.load(plan, None, actor="benchmark", report=report)
        seconds = time.perf_counter() - began
    finally:
        await database.close()
    used = resource.getrusage(resource.RUSAGE_SELF)
    rss_mb, cpu_s = used.ru_maxrss // 1024, used.ru_utime + used.ru_stime
    _print({**outcome.tally.stored(), "seconds": seconds, "survey_s": surveyed - began, "digest": outcome.digest,
            "resumed": outcome.resumed, "rss_mb": rss_mb, "cpu_s": cpu_s})  # fmt: skip
    return 0


async def _copy(database: Database, community: CommunityId) -> float:
    """Return how many of the same rows a second a bare COPY puts into the same table, with its indexes."""
    async with database.transaction(long=True) as tx:
        room = await tx.fetchval(
            "insert into voidbot.rooms (community_id, platform, chat_ref, kind) values ($1, 'bench', 'copy', 'channel')"
            " returning id",
            community,
        )
    copied, spent, last = 0, 0.0, 0
    while True:
        async with database.transaction(durable=False, long=True) as tx:
            rows = await tx.fetch(_ROWS, last, room, BATCH)
            if not rows:
                break
            last = rows[-1]["id"]
            records = [(row["community_id"], room, *(row[name] for name in _COLUMNS[2:])) for row in rows]
            began = time.perf_counter()
            await tx.copy("voidbot", "messages", _COLUMNS, records)
            spent += time.perf_counter() - began
            copied += len(rows)
    async with database.transaction(long=True) as tx:
        await tx.execute("delete from voidbot.rooms where id = $1", room)
    return copied / spent


async def _check_exports(data: Path | None, database: Database) -> None:
    """Compare every export file's counts with the expected ones, and import each twice."""
    files = list(export_files(data / "exports")) if data is not None else []
    if not files:
        raise ValueError(f"{data}: holds no exports with their expected counts")
    for path, expected in files:
        found = differences(path, expected)
        first, again = [await _import_export(path, database) for _ in range(2)]
        equal = first["digest"] == again["digest"] and again["written"] == 0
        _print({"set": "exports", "file": path.name, "differences": found, "written": first["written"],
                "bad": first["bad"], "repeat_equal": equal})  # fmt: skip


async def _import_export(path: Path, database: Database) -> dict[str, Any]:
    community = await _community_of(database)
    importer, room = Importer(database), f"file-{path.stem}"
    wish = Wish(community_id=community, room=room, audience=_someone(path), sure=True)
    plan = await importer.plan(path, None, ZONE, wish)
    outcome = await importer.load(plan, ZONE, actor="benchmark")
    return {**outcome.tally.stored(), "digest": outcome.digest}


async def _community_of(database: Database) -> CommunityId:
    async with database.transaction() as tx:
        return await places.add_community(tx, "bench", "exports", "Exports")


def _someone(path: Path) -> AudienceSpec:
    """Return one of the people in the file: what every file accepts."""
    with path.open("rb") as file:
        form = recognise(file)
    if form is None:
        raise ValueError(f"{path.name}: not recognised")
    people = next(iter(survey(path, form, ZONE).people.values()))
    return AudienceSpec(AudienceKind.PEOPLE, (min(people),))


def _print(line: dict[str, object]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main())
