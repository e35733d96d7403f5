"""`/void pass` and `/void room`: unattended work as an administrator steers it, and where it may speak and when."""

from collections.abc import Mapping, Sequence

from bot.commands.spec import CommandAnswer, CommandCall, Services
from core.domain.archiving import is_archived
from core.domain.audience import Private
from core.domain.errors import InputRejected
from core.domain.ids import RoomId
from core.domain.passes import PassName, Run, RunMode
from core.domain.quiet import read_quiet_hours, written
from core.domain.relative import relative
from core.domain.rooms import Room, RoomKind, RoomMode
from core.passes import steering, telling
from core.passes.steering import Groups, Standing
from core.prompt.fences import shown_name
from core.store import audit, mind_books, passes, places
from core.store.engine import Tx
from core.store.passes import MindPlace

ACTS = ("list", "show", "run", "pause", "resume")
MODES = {"dry-run": RunMode.DRY_RUN, "no-post": RunMode.NO_POST}
SHOWN_RUNS = 5
SETS = ("unattended", "quiet", "staff")


async def void_pass(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Show how unattended work stands, run a pass now, hold one back, or let it go on."""
    mind_id = (await places.load_community(tx, call.community_id)).mind_id
    mind = await passes.find_place(tx, mind_id)
    if mind is None:
        raise InputRejected("pass: this community is closed")
    groups = await steering.list_groups(tx, mind_id, services.archiving, services.minds.loader.groups)
    match call.options.get("act", "list"):
        case "show":
            return await _show(tx, call, services, mind, groups)
        case "run":
            return await _run(tx, call, mind, groups)
        case "pause" | "resume" as act:
            return await _hold(tx, call, mind, paused=act == "pause")
        case _:
            return await _list(tx, call, services, mind, groups)


async def _list(tx: Tx, call: CommandCall, services: Services, mind: MindPlace, groups: Groups) -> CommandAnswer:
    names = await _names(tx, call, services, groups)
    lines = [line for each in await steering.stand(tx, mind, services.passes, call.now) for line in _lines(each, call)]
    newest = await passes.list_runs(tx, mind_id=mind.mind_id, limit=SHOWN_RUNS)
    if newest:
        lines.append("The newest runs:")
        lines += [f"· {_run_line(run, call, names)}" for run in newest]
    lines.append("/void pass show NUMBER tells what a run did; /void room unattended says where it may speak unasked.")
    return CommandAnswer("\n".join(lines), _told(groups, names))


def _lines(each: Standing, call: CommandCall) -> list[str]:
    parts = ["on" if each.on else "off"]
    if each.last is not None:
        parts.append(f"run {each.last.id} {_when(each.last, call)}, {telling.run_words(each.last)}")
    if each.on and each.next_at is not None and not each.pauses:
        parts.append("next now" if each.next_at <= call.now else f"next {relative(each.next_at, call.now)}")
    parts += [steering.pause_words(pause, call.now) for pause in each.pauses]
    return [f"{each.name}: {' · '.join(parts)}"]


def _run_line(run: Run, call: CommandCall, names: Mapping[str, str]) -> str:
    where = telling.group_words(run.group, names)
    return f"run {run.id} · {run.name} · {where} · {_when(run, call)} · {telling.run_words(run)}"


def _when(run: Run, call: CommandCall) -> str:
    return relative(run.finished_at or run.created_at, call.now)


async def _show(tx: Tx, call: CommandCall, services: Services, mind: MindPlace, groups: Groups) -> CommandAnswer:
    number = call.options.get("name", "")
    if not number.isdecimal() or len(number) > 18:
        raise InputRejected("name: write the number of a run, as /void pass lists them")
    run = await passes.find(tx, int(number))
    if run is None or run.mind_id != mind.mind_id:
        raise InputRejected(f"name: there is no run {number}")
    names = await _names(tx, call, services, groups)
    lines = [_run_line(run, call, names)]
    lines += [telling.phase_words(row) for row in await passes.list_phases(tx, run.id)]
    verdicts = telling.verdict_counts(await passes.get(tx, run.id, telling.VERDICTS) or {})
    lines += [f"{count} × {words}" for words, count in sorted(verdicts.items())]
    decided = telling.judged(await passes.get(tx, run.id, telling.DECISION) or {})
    if decided:
        held = sum(bool(each.held_by) for each in decided)
        lines.append(f"{len(decided)} candidates were looked at, {held} held; /why-silent tells of this room's")
    return CommandAnswer("\n".join(lines), _told(groups, names))


async def _run(tx: Tx, call: CommandCall, mind: MindPlace, groups: Groups) -> CommandAnswer:
    name = steering.read_name(call.options.get("name", ""))
    mode = MODES[call.options["mode"]] if "mode" in call.options else RunMode.NORMAL
    if name not in steering.GROUPED:
        await _own(tx, call, mind)
    group = steering.choose_group(name, None, groups, call.room.id)
    begun = await steering.run_now(tx, mind, name, group, mode, call.now)
    if begun.run is None:
        other = "another run" if begun.instead is None else f"run {begun.instead.id}"
        raise InputRejected(f"name: {other} of {name} is not over yet")
    await _note(tx, call, {"run": begun.run.id, "name": name.value, "mode": mode.value})
    whom = "the rooms that are read by whoever reads here" if name in steering.GROUPED else "the whole mind"
    return CommandAnswer(
        f"Run {begun.run.id} of {name} has begun, for {whom}. /void pass show {begun.run.id} tells more."
    )


async def _hold(tx: Tx, call: CommandCall, mind: MindPlace, *, paused: bool) -> CommandAnswer:
    wanted = call.options.get("name", "")
    name = None if wanted == steering.ALL else steering.read_name(wanted)
    await _own(tx, call, mind)
    if not paused:
        was = await passes.resume(tx, mind.mind_id, name)
        left = await steering.still_held(tx, mind.mind_id, name, call.now)
        await _note(tx, call, {"resumed": wanted, "was_paused": was})
        return CommandAnswer(_sentence(steering.resumed_words(name, was, left)))
    until = call.now + steering.read_span(call.options["for"]) if "for" in call.options else None
    reason = call.options.get("reason", "")
    await passes.pause(tx, mind.mind_id, name, until, reason)
    await _note(tx, call, {"paused": wanted, "until": None if until is None else until.isoformat(), "reason": reason})
    return CommandAnswer(_sentence(steering.paused_words(name, until, call.now)))


async def _own(tx: Tx, call: CommandCall, mind: MindPlace) -> None:
    """Refuse what concerns other communities too, unless an operator wants it."""
    minds = {each.id: each.communities for each in await mind_books.list_minds(tx)}
    if len(minds[mind.mind_id]) > 1 and not call.operator:
        raise InputRejected("act: communities share this mind; an operator can do this, with `voidbot pass`")


async def _note(tx: Tx, call: CommandCall, details: Mapping[str, object]) -> None:
    await audit.add(tx, call.person_id, call.path, f"room:{call.room.id}", details)


async def _readable(tx: Tx, call: CommandCall, services: Services) -> frozenset[RoomId]:
    return await services.readable.load(tx, call.community_id, Private(call.person_id), call.person_id)


async def _names(tx: Tx, call: CommandCall, services: Services, groups: Groups) -> dict[str, str]:
    """Return how the groups are called that the asker may read all of."""
    readable = await _readable(tx, call, services) | {call.room.id}
    return {key: _rooms(rooms) for key, rooms in groups.items() if all(room.id in readable for room in rooms)}


def _told(groups: Groups, names: Mapping[str, str]) -> frozenset[RoomId]:
    """Return the rooms whose names may stand in an answer."""
    return frozenset(room.id for key in names for room in groups[key])


def _rooms(rooms: Sequence[Room]) -> str:
    return ", ".join(f"#{shown_name(room.name)}" for room in rooms)


async def room(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Set whether something may be said here unasked, the quiet hours, or whether the staff meets here; said here."""
    what, wanted = call.options.get("what"), call.options.get("set", "").strip()
    if call.room.kind is RoomKind.DM:
        raise InputRejected("room: a direct message has none of these; /privacy has yours")
    match what:
        case "unattended":
            if wanted not in ("on", "off"):
                raise InputRejected("set: on or off")
            await places.save_unattended(tx, call.room.id, wanted == "on")
            return CommandAnswer(_unattended_words(call.room, services, on=wanted == "on"), concerns_all=True)
        case "quiet":
            return await _quiet(tx, call, wanted)
        case "staff":
            return await _staff(tx, call, wanted)
    return CommandAnswer("\n".join(_room_lines(call.room, services)), refused=True)


async def _staff(tx: Tx, call: CommandCall, wanted: str) -> CommandAnswer:
    if wanted not in ("on", "off"):
        raise InputRejected("set: on or off")
    if wanted == "off":
        await places.save_staff(tx, call.room.id, False)
        return CommandAnswer("The staff is not asked or told anything here any more.", concerns_all=True)
    before = await places.find_staff(tx, call.community_id)
    await places.save_staff(tx, call.room.id, True)
    lines = [
        "This is the staff's room from now on: what I want to say unasked and may not without a yes is asked here.",
        "I show my words only if everybody who reads here may read what they come from.",
    ]
    if before is not None and before.id != call.room.id:
        lines.append("The room that was the staff's before is it no longer.")
    return CommandAnswer("\n".join(lines), concerns_all=True)


async def _quiet(tx: Tx, call: CommandCall, wanted: str) -> CommandAnswer:
    if wanted.lower() == "off":
        await places.save_quiet_hours(tx, call.room.id, None)
        return CommandAnswer("This room has no quiet hours any more.", concerns_all=True)
    try:
        hours = read_quiet_hours(wanted)
    except ValueError as exc:
        raise InputRejected(f"set: {exc}, or off") from exc
    await places.save_quiet_hours(tx, call.room.id, hours)
    text = f"Quiet hours of this room: {written(hours)} ({call.tz.key}). I say nothing then, but commands work."
    return CommandAnswer(text, concerns_all=True)


def _unattended_words(room: Room, services: Services, *, on: bool) -> str:
    if not on:
        return "I say nothing here any more unless I am asked."
    lines = ["I may say something here unasked now and then. /why tells why I did, /why-silent why I did not."]
    return "\n".join([*lines, *_hindrances(room, services)])


def _hindrances(room: Room, services: Services) -> list[str]:
    """Return what else keeps it from speaking unasked here."""
    found = []
    if room.mode is RoomMode.SILENT:
        found.append("The room is silent, though: /void mode mention or lurk lets me speak.")
    if not is_archived(room, services.archiving):
        found.append("Nothing is kept here, though, so I have nothing to think over: /void mode archive:on.")
    if PassName.RUMINATION not in services.passes.on:
        found.append("Whoever runs me has switched that off, though (VOIDBOT_RUMINATION).")
    return found


def _room_lines(room: Room, services: Services) -> list[str]:
    quiet = "none" if room.quiet_hours is None else written(room.quiet_hours)
    lines = [f"Unasked words: {'allowed' if room.unattended else 'not allowed'}. Quiet hours: {quiet}."]
    lines += ["This is the staff's room."] if room.staff else []
    lines += _hindrances(room, services) if room.unattended else []
    return [*lines, "/void room unattended on or off; /void room quiet 22:00-07:00 or off; /void room staff on or off."]


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}."
