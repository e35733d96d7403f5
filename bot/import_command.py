"""`voidbot import`: histories from export files. It asks and prints; the work is `core.retrieval.importing`'s.

Exit codes: 0 everything was read, 3 some records were bad, 2 refused before anything was written.
"""

import argparse
import asyncio
import getpass
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from bot.clock import SystemClock
from bot.settings import Settings
from bot.storage import open_key, reach
from core.domain.errors import InputRejected, Misconfigured
from core.domain.ids import CommunityId
from core.domain.imports import AudienceSpec, ImportFormat, Progress, parse_audience
from core.ports import Clock
from core.retrieval.admission import Plan, Wish
from core.retrieval.importing import ErasedUntil, Importer, Outcome
from core.store import erasures, places
from core.store.engine import Database, current_revision, head_revision

EXIT_BAD_RECORDS, EXIT_REFUSED = 3, 2
REPORT_EVERY_S = 5.0
BAR_CHARS = 24
_CLEAR = "\r\x1b[K"
_AUDIENCES = "room:ID, role:ID[,ID], people:ID[,ID], staff or community"

Report = Callable[[Progress], None]


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `import` to the command line."""
    parser = commands.add_parser("import", help="bring along a history: exports of Discord, Telegram, or JSON lines")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--community", required=True, metavar="C", help="its number, platform id, or name")
    parser.add_argument("--room", metavar="ID", help="the platform's id of the chat, for a file that does not say it")
    parser.add_argument("--audience", metavar="WHO", help=f"who may hear it where no room is known: {_AUDIENCES}")
    parser.add_argument("--format", choices=["auto", *(form.value for form in ImportFormat)], default="auto")
    parser.add_argument("--timezone", metavar="TZ", help="of local times in the file, such as Europe/Berlin")
    parser.add_argument("--dry-run", action="store_true", help="do all but write")
    parser.add_argument("--resume", action="store_true", help="go on with what was interrupted")
    parser.add_argument("--i-am-sure", action="store_true", help="everyone of the community may hear it")
    parser.add_argument("--json", action="store_true", help="one JSON object a file")
    parser.set_defaults(run=lambda options, settings: asyncio.run(_import(options, settings)))


async def _import(options: argparse.Namespace, settings: Settings) -> int:
    try:
        audience, zone = _audience(options.audience), _zone(options.timezone)
        async with reach(settings, _say) as (dsn, _):
            if await current_revision(dsn) != head_revision():
                raise Misconfigured("database: its schema is not this release's; run `voidbot db migrate`")
            database = await Database.open(dsn, size=2)
            try:
                importer = Importer(database, erased_until=await _erased_until(settings, database))
                return await _bring_in(options, database, importer, audience, zone)
            finally:
                await database.close()
    except InputRejected as exc:
        _say(f"import: {exc.message}")
        return EXIT_REFUSED


async def _erased_until(settings: Settings, database: Database) -> ErasedUntil:
    """Return who was erased, so that no file brings back what they said."""
    key = await open_key(settings, database)
    async with database.transaction(durable=False) as tx:
        erased = await erasures.list_erased(tx)
    return lambda platform, account: erased.get(key.person(platform, account))


async def _bring_in(
    options: argparse.Namespace,
    database: Database,
    importer: Importer,
    audience: AudienceSpec | None,
    zone: ZoneInfo | None,
) -> int:
    """Plan every file before the first one is written."""
    wish = Wish(
        community_id=await _community(database, options.community),
        audience=audience,
        room=options.room,
        sure=options.i_am_sure,
        resume=options.resume,
    )
    form = None if options.format == "auto" else ImportFormat(options.format)
    plans: list[Plan] = []
    for path in options.files:
        with _looking(path):
            plans.append(await importer.plan(path, form, zone, wish))
    bad = False
    for plan in plans:
        with _reporting(plan, SystemClock()) as report:
            outcome = await importer.load(plan, zone, actor=_actor(), dry_run=options.dry_run, report=report)
        bad = bad or bool(outcome.tally.bad)
        _tell(outcome, as_json=options.json, dry_run=options.dry_run)
    return EXIT_BAD_RECORDS if bad else 0


async def _community(database: Database, wanted: str) -> CommunityId:
    async with database.transaction(durable=False) as tx:
        found = await places.find_communities(tx, wanted)
    if len(found) != 1:
        what = "there is none like this" if not found else f"{len(found)} are called so; use platform:id"
        raise InputRejected(f"community {wanted}: {what}")
    return found[0]


def _audience(text: str | None) -> AudienceSpec | None:
    if text is None:
        return None
    spec = parse_audience(text)
    if spec is None:
        raise InputRejected(f"audience {text}: is none; it is {_AUDIENCES}")
    return spec


def _zone(name: str | None) -> ZoneInfo | None:
    try:
        return None if name is None else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise InputRejected(f"timezone {name}: there is none; it is a name such as Europe/Berlin") from exc


def _actor() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "operator"


@contextmanager
def _looking(path: Path) -> Iterator[None]:
    """Say on a terminal that a file is looked through: a large one takes its time."""
    if not sys.stderr.isatty():
        yield
        return
    sys.stderr.write(f"{path.name}: looking through it")
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write(_CLEAR)


@contextmanager
def _reporting(plan: Plan, clock: Clock) -> Iterator[Report]:
    """Yield what shows progress: a bar on a terminal, else a line now and then."""
    name, bar = plan.survey.path.name, sys.stderr.isatty()
    try:
        yield _Shown(name, clock, bar=bar)
    finally:
        if bar:
            sys.stderr.write(_CLEAR)


class _Shown:
    """Progress in words; `bar`: with a bar before them, in one place."""

    def __init__(self, name: str, clock: Clock, *, bar: bool) -> None:
        self._name = name
        self._clock = clock
        self._bar = bar
        self._began = self._last = clock.monotonic()

    def __call__(self, progress: Progress) -> None:
        now = self._clock.monotonic()
        share = min(progress.byte / max(progress.size_bytes, 1), 1.0)
        spent = max(now - self._began, 0.001)
        left = spent / share - spent if share else 0.0
        words = (
            f"{progress.byte / 1e6:,.1f} of {progress.size_bytes / 1e6:,.1f} MB,"
            f" {progress.read / spent:,.0f} msg/s, {left:,.0f} s left"
        )
        if self._bar:
            filled = round(share * BAR_CHARS)
            sys.stderr.write(f"{_CLEAR}{self._name} [{'#' * filled}{'.' * (BAR_CHARS - filled)}] {words}")
            sys.stderr.flush()
        elif now - self._last >= REPORT_EVERY_S:
            self._last = now
            _say(f"{self._name}: {words}")


def _tell(outcome: Outcome, *, as_json: bool, dry_run: bool) -> None:
    """Print what became of a file. Of bad records the place and what is wrong, never what people wrote."""
    tally = outcome.tally
    if as_json:
        bad = [{"line": each.line, "byte": each.byte, "code": each.code} for each in outcome.first_bad]
        _print(json.dumps({"file": outcome.path.name, "format": outcome.form, "dry_run": dry_run,
                           "resumed": outcome.resumed, **tally.stored(), "first_bad": bad, "rooms": outcome.rooms,
                           "digest": outcome.digest}))  # fmt: skip
        return
    parts = [f"read {tally.read}", f"written {tally.written}", f"edited {tally.edited}", f"unchanged {tally.unchanged}"]
    parts += _listed("skipped", tally.skipped) + _listed("bad", tally.bad)
    _print(f"{outcome.path.name}: {outcome.form}{', nothing written (dry run)' if dry_run else ''}: {', '.join(parts)}")
    for each in outcome.first_bad:
        _print(f"  line {each.line}, byte {each.byte}: {each.code}")
    if outcome.digest:
        _print(f"  digest {outcome.digest}")


def _listed(word: str, counts: Mapping[str, int]) -> list[str]:
    return [f"{word} {name} {number}" for name, number in sorted(counts.items())]


def _print(line: str) -> None:
    print(line)  # noqa: T201  # the command line's own voice


def _say(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201  # the command line's own voice
