"""`voidbot pass`: how unattended work stands, what each run did, a run by hand, and pauses. For operators."""

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from bot.pass_showing import SHOWN_ARTIFACTS, show, show_run, show_runs, show_status
from bot.settings import Settings
from bot.storage import reach
from core.domain.errors import InputRejected, Misconfigured
from core.domain.passes import PassName, Run, RunMode, RunState
from core.passes import steering
from core.passes.steering import Groups
from core.passes.telling import ANSWER, run_words
from core.store import audit, jobs, passes, state
from core.store.engine import Database, Tx, current_revision, head_revision
from core.store.passes import MindPlace

EXIT_FAILED = 1
EXIT_NOT_OVER = 3
LOOK_EVERY_S = 0.2
MOST = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What a command works with. `now`: when it was typed."""

    settings: Settings
    database: Database
    minds: Sequence[MindPlace]
    now: datetime


Handler = Callable[[argparse.Namespace, Desk], Awaitable[int]]


def add_command(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `pass` to the command line."""
    acts = commands.add_parser("pass", help="unattended work: how it stands, run it now, pause it").add_subparsers(
        required=True, metavar="ACT", dest="act"
    )
    listing = acts.add_parser("list", help="each pass with its last run, what holds it back, when it is due; settings")
    listing.add_argument("--runs", action="store_true", help="the newest runs instead, with what came of them")
    listing.add_argument("--pass", dest="name", choices=steering.NAMES, help="with --runs: of this pass")
    listing.add_argument("--group", metavar="G", help="with --runs: of this audience group; its key, or a room of it")
    listing.add_argument("--limit", type=int, default=20, metavar="N", help="with --runs: how many at most")
    _offer(listing, _list)
    shown = acts.add_parser("show", help="one run: its phases, what they cost, what was decided")
    shown.add_argument("id", type=int, metavar="RUN", help="its number, as list --runs shows it")
    shown.add_argument("--answer", action="store_true", help="with the model's answer, which may hold people's words")
    _offer(shown, _show, mind=False)
    run = acts.add_parser("run", help="run a pass now; a process with a worker does it")
    run.add_argument("name", choices=steering.NAMES, metavar="NAME", help=f"one of {', '.join(steering.NAMES)}")
    run.add_argument("--group", metavar="G", help="for this audience group; its key, or a room of it")
    how = run.add_mutually_exclusive_group()
    how.add_argument("--dry-run", action="store_true", help="write nothing but the run itself")
    how.add_argument("--no-post", action="store_true", help="say nothing")
    run.add_argument("--wait", type=float, default=60.0, metavar="S", help="seconds to wait for its end; 0: do not")
    _offer(run, _run)
    for name, does in (("pause", "hold a pass back, or all of them"), ("resume", "let it go on")):
        act = acts.add_parser(name, help=does)
        act.add_argument("name", choices=(*steering.NAMES, steering.ALL), metavar="NAME", help="a pass, or all")
        if name == "pause":
            act.add_argument(
                "--for", dest="span", metavar="T", help="for so long: 30m, 2h, 3d, 1w; without it for good"
            )
            act.add_argument("--reason", default="", metavar="R", help="why; it is shown wherever the pause is")
        _offer(act, _pause if name == "pause" else _resume)


def _offer(parser: argparse.ArgumentParser, handler: Handler, *, mind: bool = True) -> None:
    parser.add_argument("--json", action="store_true", help="for programs")
    if mind:
        parser.add_argument("--mind", metavar="ID", help="which one; needed only where there are several")
    parser.set_defaults(run=lambda options, settings: asyncio.run(_with_database(options, settings, handler)))


async def _with_database(options: argparse.Namespace, settings: Settings, handler: Handler) -> int:
    async with reach(settings, _say) as (dsn, _):
        if await current_revision(dsn) != head_revision():
            raise Misconfigured("database: its schema is not this release's; run `voidbot db migrate`")
        database = await Database.open(dsn, size=2)
        try:
            async with database.transaction(durable=False) as tx:
                minds, now = await passes.list_minds(tx), await state.now(tx)
            return await handler(options, Desk(settings=settings, database=database, minds=minds, now=now))
        finally:
            await database.close()


def _chosen(options: argparse.Namespace, desk: Desk) -> MindPlace:
    found = [mind for mind in desk.minds if options.mind in (None, mind.mind_id)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(mind.mind_id for mind in desk.minds) or "none yet; a community brings its own"
    if options.mind is None:
        raise InputRejected(f"mind: name one by --mind; there are {known}" if desk.minds else f"mind: there is {known}")
    raise InputRejected(f"mind {options.mind}: there is none with a community; there are {known}")


async def _list(options: argparse.Namespace, desk: Desk) -> int:
    if not options.runs and (options.name is not None or options.group is not None):
        raise InputRejected("list: --pass and --group go with --runs")
    minds = desk.minds if options.mind is None else [_chosen(options, desk)]
    async with desk.database.transaction(durable=False, long=True) as tx:
        groups = {mind.mind_id: await _groups(tx, desk, mind) for mind in minds}
        if options.runs:
            runs = await _runs(tx, options, groups)
        else:
            policy = desk.settings.passes.policy
            standings = {mind.mind_id: await steering.stand(tx, mind, policy, desk.now) for mind in minds}
    if options.runs:
        show_runs(runs, groups, desk.now, as_json=options.json)
    else:
        show_status(standings, groups, desk.settings.passes, desk.now, as_json=options.json)
    return 0


async def _groups(tx: Tx, desk: Desk, mind: MindPlace) -> Groups:
    return await steering.list_groups(tx, mind.mind_id, desk.settings.archive.policy)


async def _runs(tx: Tx, options: argparse.Namespace, groups: Mapping[str, Groups]) -> list[Run]:
    """Return the newest runs of the minds that are meant, newest first."""
    if not 0 < options.limit <= MOST:
        raise InputRejected(f"limit: write a number from 1 to {MOST}")
    name = None if options.name is None else PassName(options.name)
    found: list[Run] = []
    for mind_id, known in groups.items():
        group = None if options.group is None else _named(options.group, known)
        found += await passes.list_runs(tx, mind_id=mind_id, name=name, group=group, limit=options.limit)
    return sorted(found, key=lambda run: -run.id)[: options.limit]


def _named(wanted: str, groups: Groups) -> str:
    """Return the group of a room, or what was written: runs of groups that are no more can be asked for too."""
    word = wanted.lstrip("#").casefold()
    found = [key for key, rooms in groups.items() for room in rooms if steering.is_called(room, word)]
    return found[0] if len(set(found)) == 1 else wanted


async def _show(options: argparse.Namespace, desk: Desk) -> int:
    async with desk.database.transaction(durable=False) as tx:
        await _show_one(tx, options, desk, options.id)
    return 0


async def _show_one(tx: Tx, options: argparse.Namespace, desk: Desk, run_id: int) -> Run:
    run = await passes.find(tx, run_id)
    if run is None:
        raise InputRejected(f"run {run_id}: there is none; `voidbot pass list --runs` shows the newest")
    groups = {mind.mind_id: await _groups(tx, desk, mind) for mind in desk.minds if mind.mind_id == run.mind_id}
    names = (*SHOWN_ARTIFACTS, ANSWER) if getattr(options, "answer", False) else SHOWN_ARTIFACTS
    kept = {name: body for name in names if (body := await passes.get(tx, run.id, name)) is not None}
    show_run(run, await passes.list_phases(tx, run.id), kept, groups, desk.now, as_json=options.json)
    return run


async def _run(options: argparse.Namespace, desk: Desk) -> int:
    mind, name = _chosen(options, desk), PassName(options.name)
    mode = RunMode.DRY_RUN if options.dry_run else RunMode.NO_POST if options.no_post else RunMode.NORMAL
    async with desk.database.transaction() as tx:
        group = steering.choose_group(name, options.group, await _groups(tx, desk, mind))
        begun = await steering.run_now(tx, mind, name, group, mode, desk.now)
        if begun.run is not None:
            details = {"run": begun.run.id, "group": group, "mode": mode.value}
            await audit.add(tx, None, f"pass run {name}", f"mind:{mind.mind_id}", details)
    if begun.run is None:
        other = "another one" if begun.instead is None else f"run {begun.instead.id}"
        raise InputRejected(f"pass {name}: {other} of this group is not over; `voidbot pass list --runs` shows it")
    if not options.json:
        _say(f"run {begun.run.id}: queued")
    await _wait(options, desk, begun.run.id)
    async with desk.database.transaction(durable=False) as tx:
        run = await _show_one(tx, options, desk, begun.run.id)
    if run.state.active:
        return EXIT_NOT_OVER
    return EXIT_FAILED if run.state in (RunState.FAILED, RunState.CANCELLED) else 0


async def _wait(options: argparse.Namespace, desk: Desk, run_id: int) -> None:
    """Wait until a run is over, telling how far it is; not if nobody works on it, or for longer than wanted."""
    waited, told = 0.0, ""
    while True:
        async with desk.database.transaction(durable=False) as tx:
            run, beat_s = await passes.find(tx, run_id), await jobs.youngest_beat_s(tx)
        if run is None or not run.state.active:
            return
        if beat_s is None or beat_s > desk.settings.dead_after_s:
            _say("no process is running: it is done as soon as `voidbot up` or `voidbot run worker` runs")
            return
        if waited >= options.wait:
            _say(f"run {run_id}: not over yet; `voidbot pass show {run_id}` shows how far it is")
            return
        if (words := run_words(run)) != told:
            _say(f"run {run_id}: {words}")
            told = words
        await asyncio.sleep(LOOK_EVERY_S)
        waited += LOOK_EVERY_S


async def _pause(options: argparse.Namespace, desk: Desk) -> int:
    mind, name = _chosen(options, desk), None if options.name == steering.ALL else PassName(options.name)
    until = None if options.span is None else desk.now + steering.read_span(options.span)
    async with desk.database.transaction() as tx:
        await passes.pause(tx, mind.mind_id, name, until, options.reason)
        details = {"until": None if until is None else until.isoformat(), "reason": options.reason}
        await audit.add(tx, None, f"pass pause {options.name}", f"mind:{mind.mind_id}", details)
    if options.json:
        show(json.dumps({"mind": mind.mind_id, "pass": options.name, "paused": True, "until": details["until"]}))
        return 0
    show(f"mind {mind.mind_id}: {steering.paused_words(name, until, desk.now)}")
    return 0


async def _resume(options: argparse.Namespace, desk: Desk) -> int:
    mind, name = _chosen(options, desk), None if options.name == steering.ALL else PassName(options.name)
    async with desk.database.transaction() as tx:
        was = await passes.resume(tx, mind.mind_id, name)
        left = await steering.still_held(tx, mind.mind_id, name, desk.now)
        await audit.add(tx, None, f"pass resume {options.name}", f"mind:{mind.mind_id}", {"was_paused": was})
    if options.json:
        held = [each.name or steering.ALL for each in left]
        told = {"mind": mind.mind_id, "pass": options.name, "paused": False, "was_paused": was, "held_by": held}
        show(json.dumps(told))
        return 0
    show(f"mind {mind.mind_id}: {steering.resumed_words(name, was, left)}")
    return 0


def _say(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201  # the command line's own voice
