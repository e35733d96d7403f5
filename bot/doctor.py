"""`voidbot doctor`: what an operator can get wrong, one line for each check, with the exact thing to do."""

import argparse
import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from bot.adapters.addressing import Names, addressed_by_text
from bot.clock import SystemClock
from bot.model_list import Model
from bot.observability import configure_logs
from bot.platforms import examine_platforms
from bot.settings import Environment, Settings, SettingsError
from bot.storage import reach
from core.domain.errors import BotError, InputRejected, Misconfigured, Refused
from core.domain.findings import Examined, Finding, Verdict, clock, ok, one_line, warning, wrong
from core.domain.prompt import Tier
from core.ports import Clock
from core.prompt.builder import build_probe
from core.prompt.tokens import estimate
from core.providers.model_settings import LIMITS
from core.providers.models import connect
from core.store import server_facts
from core.store.embedded_place import FIRST_START_BYTES, PostgresRefused
from core.store.engine import Database, current_revision, head_revision

LITTLE_BYTES = 4 * FIRST_START_BYTES
"""Below it a dump and a week of logs may fill the disk."""
SHORT_NAME_CHARS = 3
_MIB = 1024**2


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `doctor` to the command line."""
    parser = commands.add_parser("doctor", help="look for what is set up wrongly, and say what to do")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--models", action="store_true", help="ask each model for a few tokens")
    parser.set_defaults(alone=lambda options: asyncio.run(_tell(options)))


async def _tell(options: argparse.Namespace) -> int:
    """Print the findings as they come; return 1 if something does not work."""
    bad = False
    async for finding in _examine(options.models):
        bad = bad or finding.verdict is Verdict.WRONG
        if options.json:
            line = json.dumps(asdict(finding), ensure_ascii=False)
        else:
            remedy = f"; to do: {finding.remedy}" if finding.remedy else ""
            line = f"{finding.verdict:<8} {finding.check}: {finding.what}{remedy}"
        print(line, flush=True)  # noqa: T201  # the command line's own voice
    return 1 if bad else 0


async def _examine(asks_models: bool) -> AsyncIterator[Finding]:
    try:
        settings = Environment.read().settings()
    except SettingsError as exc:
        for line in exc.lines:
            what, _, remedy = line.partition("; ")
            yield wrong("settings", what, remedy or "mend this setting")
        return
    logs = configure_logs(level="error", form=settings.log_format, secrets=settings.secrets())
    try:
        ours = SystemClock()
        yield ok("settings", "all can be read")
        for note in settings.notes():
            what, _, remedy = note.partition("; ")
            yield warning("settings", what, remedy)
        yield _home(settings.home)
        for finding in await examine_database(settings, ours):
            yield finding
        for finding in await examine_models(settings.models, ours, asks=asks_models):
            yield finding
        platforms = await examine_platforms(settings, ours)
        for examined in platforms.values():
            for finding in examined.findings:
                yield finding
        if not platforms:
            yield ok("platforms", "no token is set, so there is the terminal alone")
        for finding in examine_names(settings.names, platforms):
            yield finding
    finally:
        logs.close()


def _home(home: Path) -> Finding:
    try:
        there = next(each for each in (home, *home.parents) if each.exists())
        free_bytes = shutil.disk_usage(there).free
    except OSError:
        return wrong("disk", f"{home} cannot be reached", "set VOIDBOT_HOME to a folder that this account may write")
    return examine_space(home, free_bytes)


def examine_space(home: Path, free_bytes: int) -> Finding:
    """Return whether the disk of the home folder has room for what is kept there."""
    shown = f"{free_bytes // _MIB} MB are free on the disk of {home}"
    remedy = "free space there, or set VOIDBOT_HOME to a folder on another disk"
    if free_bytes < FIRST_START_BYTES:
        return wrong("disk", shown, remedy)
    return warning("disk", shown, remedy) if free_bytes < LITTLE_BYTES else ok("disk", shown)


async def examine_database(settings: Settings, ours: Clock) -> list[Finding]:
    """Return how the database is: the server, its schema, its clock. An embedded one that never ran is not made."""
    if settings.database_url is None and not (settings.home / "pg").exists():
        return [ok("database", "embedded; the first start makes it")]
    try:
        async with reach(settings, lambda line: None) as (dsn, embedded):
            return await _looked_into(dsn, ours, embedded=embedded is not None)
    except PostgresRefused as exc:
        return [wrong("database", f"{exc.code}: {exc.wrong}", exc.remedy)]
    except Misconfigured as exc:
        lines = exc.message.splitlines()
        return [_refused(line) for line in lines[1:] or lines]
    except BotError as exc:
        remedy = "start the server, or mend host and port in DATABASE_URL"
        return [wrong("database", exc.message.removeprefix("database: "), remedy)]


def _refused(line: str) -> Finding:
    what, _, remedy = line.removeprefix("database: ").partition("; ")
    return wrong("database", what, remedy or "mend DATABASE_URL: postgresql://user:password@host/database")


async def _looked_into(dsn: str, ours: Clock, *, embedded: bool) -> list[Finding]:
    current, head = await current_revision(dsn), head_revision()
    database = await Database.open(dsn, size=1)
    try:
        async with database.transaction(durable=False) as tx:
            facts = await server_facts.load_facts(tx)
        where = "embedded" if embedded else "by DATABASE_URL, each connection with a session of its own (no pooler)"
        found = [ok("database", f"Postgres {facts.version} {where}; {facts.extensions}")]
        found.append(_schema(current, head, embedded=embedded))
        if current == head:
            before = ours.now()
            async with database.transaction(durable=False) as tx:
                told = await server_facts.present(tx)
            found.append(clock("database", before, told, ours.now()))
        return found
    finally:
        await database.close()


def _schema(current: str | None, head: str, *, embedded: bool) -> Finding:
    if current == head:
        return ok("database.schema", f"it is {head}, as this release needs")
    what = f"it is {current or 'empty'}, this release needs {head}"
    if embedded:
        return ok("database.schema", f"{what}; the next start brings it there")
    return wrong("database.schema", what, "voidbot db migrate")


async def examine_models(models: Sequence[Model], ours: Clock, *, asks: bool) -> list[Finding]:
    """Return what is known of each model; `asks`: with a request of a few tokens, which no purse counts."""
    if not models:
        what = "none is set, answers are quotes"
        return [warning("models", what, "set VOIDBOT_MODEL with OPENAI_BASE_URL or a key, or VOIDBOT_MODELS")]
    if not asks:
        names = ", ".join(one_line(model.settings.name) for model in models)
        return [ok("models", f"{names}; not asked, `voidbot doctor --models` asks")]
    return [await _asked(model, ours) for model in models]


async def _asked(model: Model, ours: Clock) -> Finding:
    check = f"model.{one_line(model.settings.name)}"
    provider = connect(model.settings, LIMITS[Tier.CHEAP], clock=ours, guard=lambda: None, estimate=estimate)
    began = ours.monotonic()
    try:
        await provider.complete(build_probe())
    except InputRejected:
        pass  # it answered, only with nothing to say in so few tokens
    except Misconfigured as exc:
        remedy = (
            "mend its key, name and address: OPENAI_API_KEY, ANTHROPIC_API_KEY, VOIDBOT_MODEL, or its entry in the file"
        )
        return wrong(check, exc.message.removeprefix("model: "), remedy)
    except Refused as exc:
        return wrong(check, exc.message.removeprefix("model: "), "look at the account and the limits at its provider")
    except BotError as exc:
        remedy = "start its server, or mend OPENAI_BASE_URL or its base_url in the file; then ask again"
        return wrong(check, exc.message.removeprefix("model: "), remedy)
    finally:
        await provider.aclose()
    return ok(check, f"answers, in {ours.monotonic() - began:.1f} s")


def examine_names(names: Sequence[str], platforms: Mapping[str, Examined]) -> Iterator[Finding]:
    """Yield which names can never be heard, and which account is called otherwise than its names."""
    found = []
    for name in names:
        if not addressed_by_text(name, Names((name.lower(),))):
            what = f"{one_line(name)} is never heard: a name is one word, without @ or quotes"
            found.append(wrong("names", what, "mend it in VOIDBOT_NAMES"))
        elif len(name) < SHORT_NAME_CHARS:
            what = f"{name} is so short that it will be taken for other words"
            found.append(warning("names", what, "take a longer one in VOIDBOT_NAMES"))
    known = {name.casefold() for name in names}
    for platform, examined in platforms.items():
        shown = examined.name
        if shown and known.isdisjoint({shown.casefold(), *shown.casefold().split()}):
            what = (
                f"people of {platform} see {shown}, and {', '.join(map(one_line, names))} are the names it answers to"
            )
            remedy = f"add a word of it to VOIDBOT_NAMES, or rename the bot at {platform}"
            found.append(warning("names", what, remedy))
    yield from found or [ok("names", f"{', '.join(names)}")]
