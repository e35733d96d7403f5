"""`voidbot index` and `voidbot reembed`: where the index stands, and making it anew. Workers do the work."""

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from bot.search_settings import MINILM
from bot.search_wiring import stored_name
from bot.settings import Settings
from bot.storage import reach
from core.domain.errors import InputRejected, Misconfigured
from core.domain.ids import CommunityId, RoomId
from core.domain.vectors import EmbeddingModel
from core.passes.reembedding import reembed_job
from core.providers.minilm import MODEL
from core.retrieval.vector_words import search_in_words
from core.store import embeddings, index_books, jobs, places
from core.store.embeddings import ModelFigures, ModelState
from core.store.engine import Database, Tx, current_revision, head_revision
from core.store.index_books import RoomIndex

LOOK_EVERY_S = 1.0
Handler = Callable[[argparse.Namespace, Settings, Database], Awaitable[int]]


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `index` and `reembed` to the command line."""
    acts = commands.add_parser("index", help="what search looks through: status, rebuild").add_subparsers(
        required=True, metavar="ACT"
    )
    status = acts.add_parser("status", help="what is indexed in each room, and how far the vectors are")
    _narrow(status)
    _offer(status, _status)
    rebuild = acts.add_parser("rebuild", help="make units and vectors anew; search goes on meanwhile")
    _narrow(rebuild)
    which = rebuild.add_mutually_exclusive_group()
    which.add_argument("--lexical", action="store_true", help="only what is found by words")
    which.add_argument("--dense", action="store_true", help="only the vectors")
    _add_wait(rebuild)
    _offer(rebuild, _rebuild)
    reembed = commands.add_parser("reembed", help="have another model make the vectors; the old one answers meanwhile")
    reembed.add_argument("--to", required=True, metavar="NAME", help="minilm, or the name of an [[embeddings]] entry")
    _add_wait(reembed)
    _offer(reembed, _reembed)


def _narrow(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--community", metavar="C", help="its number, platform id, or name; without it all")
    parser.add_argument("--room", metavar="R", help="its number, platform id, or name; without it all")


def _add_wait(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-wait", action="store_true", help="begin it and do not wait until it is done")


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


async def _chosen(tx: Tx, options: argparse.Namespace) -> tuple[CommunityId | None, RoomId | None]:
    """Return the community and the room that are named; None: all of them."""
    community: CommunityId | None = None
    if options.community is not None:
        communities = await places.find_communities(tx, options.community)
        if len(communities) != 1:
            what = (
                "there is none like this" if not communities else f"{len(communities)} are called so; use platform:id"
            )
            raise InputRejected(f"community {options.community}: {what}")
        community = communities[0]
    if options.room is None:
        return community, None
    known = await index_books.list_rooms(tx, community_id=community)
    found = [each for each in known if options.room in (str(each.room_id), each.room)]
    if len(found) != 1:
        what = "there is none with an index" if not found else f"it may be one of {[each.room_id for each in found]}"
        raise InputRejected(f"room {options.room}: {what}")
    return community, found[0].room_id


async def _status(options: argparse.Namespace, settings: Settings, database: Database) -> int:
    async with database.transaction(durable=False, long=True) as tx:
        community, room = await _chosen(tx, options)
        rooms = await index_books.list_rooms(tx, community_id=community, room_id=room)
        figures = await embeddings.list_figures(tx)
    if options.json:
        _print(json.dumps({"rooms": [asdict(each) for each in rooms], "models": [_model(each) for each in figures]}))
        return 0
    for each in rooms:
        waits = f", {each.waiting} wait" if each.waiting else ""
        _print(f"{each.community} #{each.room}  {each.messages} messages{waits}  {each.units} units")
    for line in search_in_words(figures, _names(settings)):
        _print(line)
    return 0


def _model(each: ModelFigures) -> Mapping[str, Any]:
    return {
        "name": each.model.name,
        "dimension": each.model.dimension,
        "state": each.state,
        "waiting": each.waiting,
        "oldest_s": round(each.oldest_s, 1),
        "trouble": each.trouble,
    }


def _names(settings: Settings) -> Sequence[str]:
    """Return the models that processes with these settings can ask."""
    return [] if settings.search.off else [MODEL.name, *(entry.name for entry in settings.search.entries)]


async def _rebuild(options: argparse.Namespace, settings: Settings, database: Database) -> int:
    async with database.transaction(durable=False, long=True) as tx:
        community, room = await _chosen(tx, options)
        rooms = await index_books.list_rooms(tx, community_id=community, room_id=room)
    messages = vectors = 0
    for each in rooms:
        async with database.transaction(long=True) as tx:
            if not options.dense:
                messages += await index_books.make_anew(tx, each.room_id)
            if not options.lexical:
                vectors += await embeddings.queue_anew(tx, each.room_id)
    begun = {"rooms": len(rooms), "messages": messages, "vectors": vectors}
    if not options.json:
        _say(f"index: {messages} messages and {vectors} vectors of {len(rooms)} rooms are being made anew")
    done = await _wait(options, settings, database, partial(_left, rooms))
    _print(json.dumps({**begun, "done": done}) if options.json else f"index: {'made anew' if done else 'begun'}")
    return 0


async def _left(rooms: Sequence[RoomIndex], tx: Tx) -> str:
    """Return what is not made yet of these rooms, in words; empty: nothing."""
    chosen = {each.room_id for each in rooms}
    messages = sum(each.waiting for each in await index_books.list_rooms(tx) if each.room_id in chosen)
    read = await embeddings.reading_model(tx)
    vectors = 0 if read is None else await embeddings.count_waiting(tx, read.name)
    return f"{messages} messages and {vectors} vectors wait" if messages or vectors else ""


async def _reembed(options: argparse.Namespace, settings: Settings, database: Database) -> int:
    model = _wanted(options.to, settings)
    async with database.transaction() as tx:
        stored = await embeddings.add_model(tx, model)
        await jobs.enqueue(tx, [reembed_job()])
    if not options.json and stored.state is not ModelState.READING:
        _say(f"reembed: {model.name} makes vectors; the model that is read goes on answering until they are complete")
    done = await _wait(options, settings, database, partial(_under_way, model))
    if options.json:
        _print(json.dumps({"name": model.name, "dimension": model.dimension, "read": done}))
    else:
        _print(f"reembed: {model.name} {'is read now' if done else 'is under way; `voidbot index status` shows it'}")
    return 0


def _wanted(name: str, settings: Settings) -> EmbeddingModel:
    search = settings.search
    known = {MINILM: MODEL} | {entry.name: EmbeddingModel(entry.name, entry.dimension) for entry in search.entries}
    if name not in known:
        raise InputRejected(
            f"reembed: no model is called {name}; there are {', '.join(known)}, see models.example.toml"
        )
    if search.named and stored_name(search.embeddings) != known[name].name:
        raise InputRejected(
            f"reembed: VOIDBOT_EMBEDDINGS names {search.embeddings}, and the next start would go back to it;"
            f" set VOIDBOT_EMBEDDINGS={name} first"
        )
    return known[name]


async def _under_way(model: EmbeddingModel, tx: Tx) -> str:
    """Return how far a model is that is not read yet, in words; empty: it is read, and nothing waits for it."""
    figures = {each.model.name: each for each in await embeddings.list_figures(tx)}
    own = figures.get(model.name)
    if own is None or own.state in (ModelState.RETIRED, ModelState.DROPPING):
        raise InputRejected(f"reembed: another model was chosen in the place of {model.name}")
    if own.state is ModelState.READING and not own.waiting:
        return ""
    return f"{own.state}, {own.waiting} units wait" + (f"; {own.trouble}" if own.trouble else "")


async def _wait(
    options: argparse.Namespace, settings: Settings, database: Database, left: Callable[[Tx], Awaitable[str]]
) -> bool:
    """Wait until nothing is left, telling how far it is; return False if nobody works on it or nobody wants to wait."""
    told = ""
    while True:
        async with database.transaction(durable=False, long=True) as tx:
            words = await left(tx)
            beat_s = await jobs.youngest_beat_s(tx)
        if not words:
            return True
        if beat_s is None or beat_s > settings.dead_after_s:
            _say("no worker is running: it is done as soon as `voidbot up` or `voidbot run worker` runs")
            return False
        if options.no_wait:
            return False
        if words != told:
            _say(words)
            told = words
        await asyncio.sleep(LOOK_EVERY_S)


def _print(line: str) -> None:
    print(line)  # noqa: T201  # the command line's own voice


def _say(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201  # the command line's own voice
