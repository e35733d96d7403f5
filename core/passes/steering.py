"""What people do to unattended work: see how it stands, run a pass now, hold it back, let it go on.

What is asked for is a run like any other: a slot that is claimed once, worked off by whichever process has a worker.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from core.domain.archiving import ArchivePolicy, is_archived
from core.domain.errors import InputRejected
from core.domain.ids import RoomId
from core.domain.mind.bodies import Sleep
from core.domain.passes import WHOLE_MIND, Origin, PassName, PassPolicy, Run, RunMode, RunState, slot_key
from core.domain.relative import relative
from core.domain.rooms import Room, RoomKind, RoomState
from core.passes.planning import plans_of
from core.passes.runner import start
from core.store import passes, places, state
from core.store.engine import Tx
from core.store.mind_facts import AudienceGroups
from core.store.passes import EVERY, Control, MindPlace, NewRun
from core.store.plans import new_code

GROUPED = frozenset({PassName.RUMINATION, PassName.SLEEP})
"""Passes that run for each audience group by itself."""
ALL = "all"
NAMES = tuple(name.value for name in PassName)
LOOKED_AT = 50
"""Among how many of the newest runs the last one that was skipped is looked for."""
LONGEST_PAUSE = timedelta(days=365)
_SPAN = re.compile(r"(\d{1,5})\s*(m|h|d|w)")
_UNIT = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}

Groups = Mapping[str, Sequence[Room]]
"""Audience groups with the rooms of each that something can be thought over in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a pass of a mind stands. `next_at`: None where nothing says when it is due."""

    name: PassName
    on: bool
    pauses: tuple[Control, ...]
    last: Run | None
    skipped: Run | None
    next_at: datetime | None


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that was asked for; `run` None: one of the same pass and group is under way, which is `instead`."""

    run: Run | None
    instead: Run | None = None


def read_name(text: str) -> PassName:
    """Return the pass that is named.

    Raises:
        InputRejected: There is none of this name.
    """
    if text not in NAMES:
        raise InputRejected(f"name: there is no pass {text}; there are {', '.join(NAMES)}")
    return PassName(text)


def read_span(text: str) -> timedelta:
    """Return for how long something is to be held back.

    Raises:
        InputRejected: It is no length of time, or longer than a year.
    """
    found = _SPAN.fullmatch(text.strip().lower())
    span = int(found[1]) * _UNIT[found[2]] if found is not None else timedelta()
    if not timedelta() < span <= LONGEST_PAUSE:
        raise InputRejected("for: write a time such as 30m, 2h, 3d or 1w, up to a year")
    return span


async def list_groups(
    tx: Tx, mind_id: str, archive: ArchivePolicy, groups: AudienceGroups | None = None
) -> dict[str, list[Room]]:
    """Return the audience groups of a mind that have a room to think over. `groups`: what remembers who reads what."""
    named = await (groups or AudienceGroups()).load(tx, mind_id)
    found: dict[str, list[Room]] = {}
    for room in await places.list_mind_rooms(tx, mind_id):
        open_ = room.state is not RoomState.DELETED and room.kind is not RoomKind.DM
        if room.id in named and open_ and is_archived(room, archive):
            found.setdefault(named[room.id], []).append(room)
    return found


def choose_group(name: PassName, wanted: str | None, groups: Groups, here: RoomId | None = None) -> str:
    """Return the group that a run is for. `wanted`: its key, or a room of it; `here`: the room that is meant else.

    Raises:
        InputRejected: The pass has no groups, or it is not clear which one is meant.
    """
    if name not in GROUPED:
        if wanted is not None:
            raise InputRejected(f"group: {name} concerns the whole mind and runs for no group")
        return WHOLE_MIND
    if wanted is None:
        found = [key for key, rooms in groups.items() if here is None or any(room.id == here for room in rooms)]
        if here is not None and not found:
            raise InputRejected("group: nothing is thought over in this room; it wants an archive and known readers")
    else:
        word = wanted.lstrip("#").casefold()
        found = [key for key, rooms in groups.items() if wanted == key or any(is_called(room, word) for room in rooms)]
    if len(found) == 1:
        return found[0]
    if not groups:
        raise InputRejected("group: no room has both an archive and known readers")
    known = "; ".join(f"{key} ({', '.join(f'#{room.name}' for room in rooms)})" for key, rooms in groups.items())
    raise InputRejected(f"group: name one by its key or a room of it; there are {known}")


def is_called(room: Room, word: str) -> bool:
    """Return whether a room is meant by a word in small letters: its number, name or platform's name."""
    return word in (str(room.id), room.name.casefold(), room.key.chat_ref.casefold())


async def run_now(tx: Tx, place: MindPlace, name: PassName, group: str, mode: RunMode, now: datetime) -> Begun:
    """Claim a run by hand and queue its first phase; a worker goes through it."""
    label = f"manual:{new_code()}"
    wanted = NewRun(
        mind_id=place.mind_id,
        name=name,
        group=group,
        slot_key=slot_key(place.mind_id, name, group, label),
        slot=now,
        label=label,
        origin=Origin.MANUAL,
        mode=mode,
    )
    runs = await passes.claim(tx, [wanted])
    await start(tx, runs, {place.mind_id: place.home})
    if runs:
        return Begun(runs[0])
    earlier = await passes.list_runs(tx, mind_id=place.mind_id, name=name, group=group, limit=LOOKED_AT)
    return Begun(None, next((run for run in earlier if run.state.active), None))


async def stand(tx: Tx, place: MindPlace, policy: PassPolicy, now: datetime) -> list[Standing]:
    """Return how each pass of a mind stands."""
    controls = await passes.list_controls(tx, place.mind_id)
    nap = await _next_nap(tx, place.mind_id)
    due = {plan.name: plan.schedule.before(now).at + plan.schedule.every for plan in plans_of(policy)}
    found = []
    for name in PassName:
        runs = await passes.list_runs(tx, mind_id=place.mind_id, name=name, limit=LOOKED_AT)
        found.append(
            Standing(
                name=name,
                on=name in policy.on,
                pauses=tuple(holding(controls, name, now)),
                last=next((run for run in runs if run.state is not RunState.SKIPPED), None),
                skipped=next((run for run in runs if run.state is RunState.SKIPPED), None),
                next_at=nap if name is PassName.SLEEP else due.get(name),
            )
        )
    return found


def holding(controls: Iterable[Control], name: PassName, now: datetime) -> Iterable[Control]:
    """Yield what holds a pass back now; what cannot be understood holds everything."""
    for each in controls:
        unreadable = each.name != EVERY and each.name not in NAMES
        live = each.paused and (each.until is None or each.until > now)
        if unreadable or (live and each.name in (EVERY, name)):
            yield each


async def still_held(tx: Tx, mind_id: str, name: PassName | None, now: datetime) -> list[Control]:
    """Return what holds a pass back, of all passes what holds any of them."""
    controls = await passes.list_controls(tx, mind_id)
    names = PassName if name is None else (name,)
    held = {each.name: each for one in names for each in holding(controls, one, now)}
    return list(held.values())


def pause_words(control: Control, now: datetime) -> str:
    """Return what a pause holds back, until when and why."""
    if control.name != EVERY and control.name not in NAMES:
        return f"a pause of {control.name!r}, which no release knows, holds everything"
    until = "" if control.until is None else f", goes on {relative(control.until, now)}"
    what = f"all passes paused{until}" if control.name == EVERY else f"paused{until}"
    return f"{what}: {control.reason}" if control.reason else what


def paused_words(name: PassName | None, until: datetime | None, now: datetime) -> str:
    """Return what was paused just now, and what goes on."""
    how = "until it is resumed" if until is None else f"and goes on {relative(until, now)}"
    if name is not None:
        return f"{name} is paused {how}"
    return (
        f"all passes are paused {how}; whoever addresses it is answered all the same."
        " A watch over safety would go on too, but this release has none"
    )


def resumed_words(name: PassName | None, was: bool, left: Sequence[Control]) -> str:
    """Return what goes on again, and what is still held."""
    if name is None:
        done = "the pause of all passes is lifted" if was else "there was no pause of all passes"
    else:
        done = f"{name} goes on" if was else f"{name} was not paused by itself"
    still = ", ".join(each.name or "all passes" for each in left)
    return f"{done}; still paused: {still}" if still else done


async def _next_nap(tx: Tx, mind_id: str) -> datetime | None:
    for held in await state.list_live(tx, mind_id, ["sleep"]):
        if isinstance(held.entry.body, Sleep):
            return held.entry.body.next_nap_starts_at
    return None
