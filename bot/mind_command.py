"""`voidbot mind`: what the bot's mind holds, why, since when, and the way back. For operators, who see all of it."""

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from bot import mind_acts
from bot.mind_acts import Chosen, row_image, show
from bot.settings import Settings
from bot.storage import reach
from core.domain.errors import InputRejected, Misconfigured
from core.domain.ids import RoomId
from core.domain.mind.bodies import TYPES
from core.domain.mind.entries import Entry, image_of
from core.domain.timeexpr import parse_time
from core.state import history, telling
from core.state.history import ALL, Change, Explained, Sight
from core.store import mind_books, mind_facts, state
from core.store.engine import Database, Tx, current_revision, head_revision
from core.store.mind_books import MindFigures

MOST = 1_000_000_000
_AGO = re.compile(r"(\d{1,4})\s*(m|h|d|w|minutes?|hours?|days?|weeks?)(?:\s+ago)?", re.IGNORECASE)
_SPAN = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
Handler = Callable[[argparse.Namespace, Chosen], Awaitable[int]]


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `mind` to the command line."""
    acts = commands.add_parser("mind", help="what the bot's mind holds, why, and the way back").add_subparsers(
        required=True, metavar="ACT", dest="act"
    )
    _offer(acts.add_parser("list", help="the minds there are"), None)
    shown = acts.add_parser("show", help="what it holds, or one entry in full")
    shown.add_argument("entry", nargs="?", metavar="ENTRY", help="its id, or type/id")
    shown.add_argument("--type", choices=sorted(TYPES), help="only entries of this type")
    shown.add_argument("--retired", action="store_true", help="those that are over, instead of the live ones")
    _limit(shown)
    _offer(shown, _show)
    ops = acts.add_parser("ops", help="what was proposed to it, newest first")
    ops.add_argument("--entry", metavar="ENTRY", help="what touched or named this entry")
    ops.add_argument("--refused", action="store_true", help="only what was refused")
    _limit(ops)
    _offer(ops, _ops)
    explain = acts.add_parser("explain", help="where an entry comes from, and what rests on it")
    explain.add_argument("entry", metavar="ENTRY", help="its id, or type/id")
    _offer(explain, _explain)
    undo = acts.add_parser("undo", help="undo an operation, after a preview")
    undo.add_argument("seq", type=int, metavar="SEQ", help="its number, as ops shows it")
    undo.add_argument("--reason", required=True, metavar="R", help="why; it is kept with the undo")
    undo.add_argument("--cascade", action="store_true", help="with all that rests on it")
    undo.add_argument("--dry-run", action="store_true", help="only show what it would do")
    _offer(undo, mind_acts.undo)
    for name in ("verify", "replay"):
        verify = acts.add_parser(name, help="fold its journal anew and compare; exit code 3 if something differs")
        verify.add_argument("--until", type=int, metavar="SEQ", help="only up to this operation")
        _offer(verify, mind_acts.verify)
    at = acts.add_parser("at", help="what it held at a time")
    at.add_argument("time", nargs="+", metavar="T", help="2026-05-07, 2026-05-07T18:00, 3h, 2 days ago, yesterday")
    _offer(at, _at)
    diff = acts.add_parser("diff", help="what came, changed and went between two times")
    diff.add_argument("--from", required=True, dest="since", metavar="T", help="as for `at`")
    diff.add_argument("--to", default="now", dest="until", metavar="T", help="as for `at`; now, unless said")
    diff.add_argument("--room", metavar="ROOM", help="only what everyone in this room may hear; its number or name")
    _offer(diff, _diff)
    export = acts.add_parser("export", help="write it into a file to take along")
    export.add_argument("file", metavar="FILE", help="a new file, such as mine.voidstate.jsonl.gz")
    _offer(export, mind_acts.export)
    bring = acts.add_parser("import", help="bring a file into a mind that is empty")
    bring.add_argument("file", metavar="FILE")
    bring.add_argument("--map", metavar="MAP", help="JSON that says whose ids of another database are which of ours")
    _offer(bring, mind_acts.bring)
    for name, does in (("pause", "let it take no proposals of models"), ("resume", "let it take them again")):
        _offer(acts.add_parser(name, help=does), mind_acts.pause)


def _limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=int, default=30, metavar="N", help="how many at most")


def _offer(parser: argparse.ArgumentParser, handler: Handler | None) -> None:
    parser.add_argument("--json", action="store_true", help="for programs")
    if handler is not None:
        parser.add_argument("--mind", metavar="ID", help="which one; needed only where there are several")
    parser.set_defaults(run=lambda options, settings: asyncio.run(_with_database(options, settings, handler)))


async def _with_database(options: argparse.Namespace, settings: Settings, handler: Handler | None) -> int:
    async with reach(settings, lambda line: print(line, file=sys.stderr)) as (dsn, _):  # noqa: T201  # for operators
        if await current_revision(dsn) != head_revision():
            raise Misconfigured("database: its schema is not this release's; run `voidbot db migrate`")
        database = await Database.open(dsn, size=2)
        try:
            async with database.transaction(durable=False) as tx:
                minds, now = await mind_books.list_minds(tx), await state.now(tx)
            if handler is None:
                return _list(options, minds, now)
            return await handler(options, Chosen(database=database, mind=_choose(options.mind, minds), now=now))
        finally:
            await database.close()


def _choose(wanted: str | None, minds: Sequence[MindFigures]) -> MindFigures:
    known = ", ".join(mind.id for mind in minds) or "none yet; a community brings its own"
    found = [mind for mind in minds if wanted in (None, mind.id)]
    if len(found) == 1:
        return found[0]
    if wanted is None:
        raise InputRejected(f"mind: name one by --mind; there are {known}" if minds else f"mind: there is {known}")
    raise InputRejected(f"mind {wanted}: there is none; there are {known}")


def _list(options: argparse.Namespace, minds: Sequence[MindFigures], now: datetime) -> int:
    when = telling.nearness(now)
    if options.json:
        show(json.dumps([
            {"id": each.id, "communities": each.communities, "operations": each.rows, "live": each.live,
             "retired": each.retired, "paused": each.paused, "at": None if each.at is None else each.at.isoformat()}
            for each in minds
        ]))  # fmt: skip
        return 0
    width = max((len(mind.id) for mind in minds), default=0)
    for mind in minds:
        last = "nothing was ever proposed to it" if mind.at is None else f"{mind.rows} operations, last {when(mind.at)}"
        paused = "  paused" if mind.paused else ""
        names = ", ".join(mind.communities)
        show(f"{mind.id:{width}}  {mind.live} entries, {mind.retired} over  {last}{paused}  {names}")
    return 0


async def _show(options: argparse.Namespace, chosen: Chosen) -> int:
    async with chosen.database.transaction(durable=False, long=True) as tx:
        if options.entry is not None:
            entries = [await _entry(tx, chosen, options.entry)]
        else:
            held = await mind_books.list_newest(
                tx, chosen.mind.id, _most(options), type_=options.type, retired=options.retired
            )
            entries = [each.entry for each in held]
    if options.json:
        images = [image_of(entry) for entry in entries]
        show(json.dumps(images if options.entry is None else images[0], ensure_ascii=False))
    elif options.entry is not None:
        _whole(entries[0], chosen)
    else:
        _table(entries, chosen)
    return 0


def _whole(entry: Entry, chosen: Chosen) -> None:
    show(f"{telling.name_of(entry)}  {telling.standing(entry, chosen.when)}")
    for line in telling.field_lines(entry):
        show(f"  {line}")


def _table(entries: Sequence[Entry], chosen: Chosen) -> None:
    width = max((len(telling.name_of(entry)) for entry in entries), default=0)
    for entry in entries:
        show(f"{telling.name_of(entry):{width}}  {chosen.when(entry.updated_at):16}  {telling.headline(entry)}")
    if not entries:
        show("there is nothing")


async def _ops(options: argparse.Namespace, chosen: Chosen) -> int:
    async with chosen.database.transaction(durable=False, long=True) as tx:
        key = None if options.entry is None else (await _entry(tx, chosen, options.entry)).key
        rows = await mind_books.list_operations(tx, chosen.mind.id, _most(options), refused=options.refused, key=key)
    if options.json:
        show(json.dumps([row_image(row) for row in rows], ensure_ascii=False))
        return 0
    width = max((len(row.op) for row in rows), default=0)
    for row in rows:
        entries = telling.touched_words(row)
        told = "  ".join(filter(None, [telling.verdict_words(row), entries, telling.actor_words(row)]))
        show(f"op {row.seq:<6} {chosen.when(row.at):16}  {row.op:{width}}  {told}")
    if not rows:
        show("there is nothing")
    return 0


def _most(options: argparse.Namespace) -> int:
    if options.limit < 1:
        raise InputRejected("limit: write a number from 1 on")
    return min(int(options.limit), MOST)


async def _entry(tx: Tx, chosen: Chosen, name: str) -> Entry:
    found = await history.find_entries(tx, chosen.mind.id, name)
    if len(found) > 1:
        raise InputRejected(f"entry {name}: it may be {' or '.join(map(telling.name_of, found))}")
    if not found:
        raise InputRejected(f"entry {name}: there is none; `voidbot mind show` lists them, with --retired what is over")
    return found[0]


async def _explain(options: argparse.Namespace, chosen: Chosen) -> int:
    async with chosen.database.transaction(durable=False, long=True) as tx:
        found = await history.explain(tx, chosen.mind.id, await _entry(tx, chosen, options.entry))
        rooms = {each.id: f"#{each.name}" for each in await mind_books.list_rooms(tx, chosen.mind.id)}
    if options.json:
        show(json.dumps({
            "entry": image_of(found.entry), "operations": [row_image(row) for row in found.rows],
            "messages": [
                {"id": m.id, "room": m.room_id, "author": m.author_id, "at": m.sent_at.isoformat(), "text": m.text}
                for m in found.messages
            ],
            "citedBy": [telling.name_of(each) for each in found.cited_by],
            "spoken": [telling.name_of(each) for each in found.spoken], "hidden": found.hidden,
        }, ensure_ascii=False))  # fmt: skip
        return 0
    _whole(found.entry, chosen)
    made = sorted(rooms.get(room, f"room {room}, which nobody can read") for room in found.entry.sources)
    show(f"made from: {', '.join(made) or 'no room'}")
    _because(found, chosen, rooms)
    return 0


def _because(found: Explained, chosen: Chosen, rooms: Mapping[RoomId, str]) -> None:
    """Say what an entry rests on, what was done to it, and what rests on it."""
    for message in found.messages:
        said = f"{message.author_name}, {rooms.get(message.room_id, '')} {chosen.when(message.sent_at)}"
        show(f"rests on message {message.id}  {said}: {telling.cut(message.text)}")
    if found.hidden["messages"]:
        show(f"rests on {found.hidden['messages']} messages that are gone or hidden")
    for row in found.rows:
        likeness = ", ".join(f"{old} {score:.2f}" for old, score in telling.scores_of(row, found.entry.id).items())
        more = [telling.reason_words(row), f"likeness {likeness}" if likeness else ""]
        told = "  ".join(filter(None, [telling.verdict_words(row), telling.actor_words(row), *more]))
        show(f"op {row.seq}  {chosen.when(row.at)}  {row.op}  {told}")
    if found.cited_by:
        show(f"on it rest: {', '.join(map(telling.name_of, found.cited_by))}")
    if found.spoken:
        show(f"said from it: {', '.join(map(telling.name_of, found.spoken))}")


async def _at(options: argparse.Namespace, chosen: Chosen) -> int:
    at = moment_of(" ".join(options.time), chosen.now, chosen.tz, end=True)
    async with chosen.database.transaction(durable=False, long=True) as tx:
        entries = await history.state_at(tx, chosen.mind.id, at)
    if options.json:
        show(json.dumps({"at": at.isoformat(), "entries": [image_of(each) for each in entries]}, ensure_ascii=False))
        return 0
    live = [entry for entry in entries if entry.live]
    show(f"{at.astimezone(chosen.tz):%Y-%m-%d %H:%M %Z}: {len(live)} entries, {len(entries) - len(live)} over")
    _table(live, chosen)
    return 0


async def _diff(options: argparse.Namespace, chosen: Chosen) -> int:
    since = moment_of(options.since, chosen.now, chosen.tz, end=False)
    until = moment_of(options.until, chosen.now, chosen.tz, end=True)
    if until <= since:
        raise InputRejected("diff: --to lies before --from")
    async with chosen.database.transaction(durable=False, long=True) as tx:
        sight = ALL if options.room is None else await _venue(tx, chosen, options.room)
        changes = await history.diff(tx, chosen.mind.id, since, until, sight)
        between = await mind_books.count_between(tx, chosen.mind.id, since, until)
    if options.json:
        told = [{"entry": _named(each), "what": each.what, "fields": each.fields} for each in changes]
        ops = {"first": between.first, "last": between.last}
        ends = {"from": since.isoformat(), "to": until.isoformat()}
        show(json.dumps({**ends, "operations": ops, "changes": told}, ensure_ascii=False))
        return 0
    first, last = (f"{each.astimezone(chosen.tz):%Y-%m-%d %H:%M}" for each in (since, until))
    done = f"op {between.first} to op {between.last}, {between.refused} of them refused"
    show(f"{first} to {last} {chosen.tz}: {'no operation' if between.first is None else done}")
    for change in changes:
        for line in telling.change_lines(change):
            show(line)
    if not changes:
        show("nothing is different")
    return 0


def _named(change: Change) -> str:
    return f"{change.type}/{change.key.id}"


async def _venue(tx: Tx, chosen: Chosen, wanted: str) -> Sight:
    """Return what everyone in a room may hear."""
    rooms = await mind_books.list_rooms(tx, chosen.mind.id)
    name = wanted.lstrip("#").casefold()
    found = [each for each in rooms if name in (str(each.id), each.name.casefold(), each.chat_ref.casefold())]
    if len(found) != 1:
        several = f"it may be one of {', '.join(str(each.id) for each in found)}"
        raise InputRejected(f"room {wanted}: {several if found else 'this mind has none of this number or name'}")
    readable = await mind_facts.list_readable_in(tx, chosen.mind.id, found[0].id)
    return Sight(readable, await mind_facts.list_withdrawn(tx, chosen.mind.id))


def moment_of(text: str, now: datetime, tz: ZoneInfo, *, end: bool) -> datetime:
    """Return the time that an operator names; of a stretch such as a day its beginning, or its end.

    Raises:
        InputRejected: It is no time, or one that lies ahead.
    """
    words = text.strip()
    if words.lower() == "now":
        return now
    if (ago := _AGO.fullmatch(words)) is not None:
        return now - int(ago[1]) * _SPAN[ago[2][0].lower()]
    try:
        at = datetime.fromisoformat(words)
        at = (at if at.tzinfo is not None else at.replace(tzinfo=tz)).astimezone(UTC)
        if end and _DAY.fullmatch(words):
            at += timedelta(days=1)
    except (ValueError, OverflowError):
        meant = parse_time(words, now, tz)
        found = None if meant is None else (meant.until or now) if end else meant.since
        if found is None:
            form = "2026-05-07, 2026-05-07T18:00, 3h, 2 days ago, yesterday"
            raise InputRejected(f"time {words!r}: write one such as {form}") from None
        return found
    if at > now and not end:
        raise InputRejected(f"time {words}: lies ahead")
    return min(at, now)
