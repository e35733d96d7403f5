"""`voidbot sources`: add, sync, list and remove what the bot may read besides people's words. The work is below it."""

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from bot.settings import Settings
from bot.storage import reach
from core.domain.errors import BotError, InputRejected, Misconfigured
from core.domain.ids import CommunityId, RoomId
from core.domain.sources import LeftOut, Source, SourceKind, SyncReport, Visibility
from core.retrieval.git import Git
from core.retrieval.repositories import check_address
from core.retrieval.sources import Sources
from core.store import places, sources
from core.store.engine import Database, Tx, current_revision, head_revision
from core.store.sources import ListedSource

EXIT_NOT_SYNCED = 1
NAMED_LINES = 40
NAME_CHARS = 60
_EXPECTED = frozenset({LeftOut.UNKNOWN_TYPE, LeftOut.NOT_ASKED_FOR, LeftOut.LOCK_FILE, LeftOut.GENERATED})
"""Why nobody is surprised that a file was left out: counted, not listed."""

T = TypeVar("T")
Handler = Callable[[argparse.Namespace, Settings, Database], Awaitable[int]]


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `sources` to the command line."""
    acts = commands.add_parser("sources", help="repositories, folders and graphs that may be quoted").add_subparsers(
        required=True, metavar="ACT"
    )
    add = acts.add_parser("add", help="name a source and who may be told what it says")
    add.add_argument("kind", choices=[kind.value for kind in SourceKind])
    add.add_argument("location", help="folder or file on this machine; of a repository also an https address")
    add.add_argument("--name", required=True, help="what it is cited as; letters, digits, - and _")
    add.add_argument(
        "--community", action="append", required=True, metavar="C", help="its number, platform id, or name; repeatable"
    )
    rooms = add.add_mutually_exclusive_group(required=True)
    rooms.add_argument("--all-rooms", action="store_true", help="every room of these communities may be told")
    rooms.add_argument(
        "--room", action="append", metavar="R", help="whoever may read this room may be told; repeatable"
    )
    add.add_argument("--include", action="append", default=[], metavar="PATTERN", help="only these paths")
    add.add_argument("--exclude", action="append", default=[], metavar="PATTERN", help="not these paths")
    add.add_argument("--hourly", action="store_true", help="sync it by itself every hour")
    _offer(add, _add)
    sync = acts.add_parser("sync", help="read what has changed, now and in this process")
    sync.add_argument("names", nargs="*", metavar="NAME", help="without one: all of them")
    _offer(sync, _sync)
    _offer(acts.add_parser("list", help="all sources, what they hold, and what went wrong"), _list)
    remove = acts.add_parser("remove", help="forget a source and everything that was read of it")
    remove.add_argument("name", metavar="NAME")
    _offer(remove, _remove)


def _offer(parser: argparse.ArgumentParser, handler: Handler) -> None:
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(run=lambda options, settings: asyncio.run(_with_database(options, settings, handler)))


async def _with_database(options: argparse.Namespace, settings: Settings, handler: Handler) -> int:
    async with reach(settings, _say) as (dsn, _):
        if await current_revision(dsn) != head_revision():
            raise Misconfigured("database: its schema is not this release's; run `voidbot db migrate`")
        database = await Database.open(dsn, size=2)
        try:
            return await handler(options, settings, database)
        finally:
            await database.close()


async def _add(options: argparse.Namespace, _: Settings, database: Database) -> int:
    kind, name = SourceKind(options.kind), options.name
    if not (0 < len(name) <= NAME_CHARS and name.replace("-", "a").replace("_", "a").isalnum()):
        raise InputRejected("source: its name is made of letters, digits, - and _")
    location = await asyncio.to_thread(_place, kind, options.location)
    async with database.transaction() as tx:
        communities = [await _community(tx, wanted) for wanted in options.community]
        rooms = None if options.all_rooms else frozenset([await _room(tx, communities, each) for each in options.room])
        await sources.add_source(
            tx,
            kind,
            name,
            location,
            Visibility(frozenset(communities), rooms),
            include=options.include,
            exclude=options.exclude,
            hourly=options.hourly,
        )
    if options.json:
        _print(json.dumps({"name": name, "kind": kind, "location": location}))
    else:
        _print(f"source {name}: added; read it with `voidbot sources sync {name}`")
    return 0


def _place(kind: SourceKind, location: str) -> str:
    """Return where a source lies; what is not there is said now and not at the first sync."""
    if kind is SourceKind.GIT and "://" in location:
        check_address(location)
        return location
    path = Path(location).expanduser().resolve()
    if kind is SourceKind.GRAPH and not path.is_file():
        raise InputRejected(f"source: {path} is no file on this machine")
    if kind is not SourceKind.GRAPH and not path.is_dir():
        raise InputRejected(f"source: {path} is no folder on this machine")
    return str(path)


async def _community(tx: Tx, wanted: str) -> CommunityId:
    found = await places.find_communities(tx, wanted)
    if len(found) != 1:
        what = "there is none like this" if not found else f"{len(found)} are called so; use platform:id"
        raise InputRejected(f"community {wanted}: {what}")
    return found[0]


async def _room(tx: Tx, communities: list[CommunityId], wanted: str) -> RoomId:
    rooms = [room for community in communities for room in await places.list_rooms(tx, community)]
    found = [room.id for room in rooms if wanted in (str(room.id), room.key.chat_ref, room.name)]
    if len(found) != 1:
        what = "there is none like this in these communities" if not found else f"it may be one of {sorted(found)}"
        raise InputRejected(f"room {wanted}: {what}")
    return found[0]


async def _sync(options: argparse.Namespace, settings: Settings, database: Database) -> int:
    reader = _reader(settings)
    failed = 0
    for source in await _chosen(database, options.names):
        try:
            report = await reader.sync(source, partial(_advance, database))
        except BotError as exc:
            failed += 1
            if options.json:
                _print(json.dumps({"name": source.name, "error": exc.message}))
            _say(f"source {source.name}: not synced; {exc.message}")
            continue
        _print(json.dumps(_as_object(report)) if options.json else _in_words(report))
    return EXIT_NOT_SYNCED if failed else 0


async def _advance(database: Database, work: Callable[[Tx], Awaitable[T]]) -> T:
    async with database.transaction(long=True) as tx:
        return await work(tx)


async def _chosen(database: Database, names: list[str]) -> list[Source]:
    async with database.transaction(durable=False) as tx:
        known = {listed.source.name: listed.source for listed in await sources.list_sources(tx)}
    if missing := [name for name in names if name not in known]:
        raise InputRejected(f"source {missing[0]}: there is none; `voidbot sources list` shows them")
    return [known[name] for name in names or known]


async def _list(options: argparse.Namespace, _: Settings, database: Database) -> int:
    async with database.transaction(durable=False) as tx:
        found = await sources.list_sources(tx)
    if options.json:
        _print(json.dumps([_listed_object(each) for each in found]))
        return 0
    for each in found:
        source, rooms = each.source, each.visibility.rooms
        told = "all rooms" if rooms is None else f"readers of {len(rooms)} rooms"
        when = "never synced" if each.synced_at is None else f"{each.synced_at:%Y-%m-%d %H:%M}"
        _print(
            f"{source.name}  {source.kind}  {each.files} files  {each.chunks} chunks  {told}  {when}  {source.location}"
        )
        if source.error:
            _print(f"    {source.state}: {source.error}")
    _print(f"{len(found)} sources")
    return 0


async def _remove(options: argparse.Namespace, settings: Settings, database: Database) -> int:
    (source,) = await _chosen(database, [options.name])
    await _advance(database, partial(_remove_rows, source))
    await _reader(settings).forget(source)
    _print(json.dumps({"removed": source.name}) if options.json else f"source {source.name}: removed")
    return 0


async def _remove_rows(source: Source, tx: Tx) -> None:
    await sources.remove_source(tx, source.id)


def _reader(settings: Settings) -> Sources:
    return Sources(Git(), settings.home / "sources")


def _as_object(report: SyncReport) -> Mapping[str, Any]:
    return {
        "name": report.name,
        "head": report.head,
        "files": report.files,
        "added": report.added,
        "changed": report.changed,
        "renamed": report.renamed,
        "removed": report.removed,
        "unchanged": report.unchanged,
        "chunks": report.chunks,
        "nodes": report.nodes,
        "edges": report.edges,
        "dangling": report.dangling,
        "left_out": [{"path": named.path, "reason": named.reason} for named in report.left_out],
    }


def _listed_object(each: ListedSource) -> Mapping[str, Any]:
    source, rooms = each.source, each.visibility.rooms
    return {
        "name": source.name,
        "kind": source.kind,
        "location": source.location,
        "state": source.state,
        "error": source.error,
        "head": source.head,
        "hourly": source.hourly,
        "files": each.files,
        "chunks": each.chunks,
        "communities": sorted(each.visibility.communities),
        "rooms": None if rooms is None else sorted(rooms),
        "synced_at": None if each.synced_at is None else each.synced_at.isoformat(),
    }


def _in_words(report: SyncReport) -> str:
    done = ("added", "changed", "renamed", "removed", "unchanged")
    counts = ", ".join(f"{getattr(report, name)} {name}" for name in done)
    lines = [f"source {report.name}: {counts}; at {report.head[:12]}"]
    if report.nodes:
        lines.append(f"    {report.nodes} nodes, {report.edges} edges, {report.dangling} edges to nowhere dropped")
    if report.counts:
        lines.append("    left out: " + ", ".join(f"{count} {reason}" for reason, count in report.counts.items()))
    odd = [named for named in report.left_out if named.reason not in _EXPECTED]
    lines += [f"    {named.reason}: {named.path}" for named in odd[:NAMED_LINES]]
    if len(odd) > NAMED_LINES:
        lines.append(f"    and {len(odd) - NAMED_LINES} more; --json names all of them")
    return "\n".join(lines)


def _print(line: str) -> None:
    print(line)  # noqa: T201  # the command line's own voice


def _say(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201  # the command line's own voice
