"""Mood drift: sleep, moods and the pressure to speak move with the time, by arithmetic; a nap begins maintenance."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from core.domain.ids import RoomId
from core.domain.mind.bodies import SINGLETONS, Mood, Pressure, Proposal, ShortTerm, Sleep, Thoughtful
from core.domain.mind.codes import Rejected
from core.domain.mind.entries import Entry
from core.domain.mind.facts import Actor, Emitter, Facts, Needs
from core.domain.mind.view import View, mood_of, pressure_of, sleep_of
from core.domain.mood import drift
from core.domain.operations.base import Operation
from core.domain.operations.batch import Batch, Item, Mode
from core.domain.operations.runtime import UpdateMood, UpdateSleepCycle, UpdateSpeakingPressure, pressure_inputs
from core.domain.passes import Advance, Fail, Finish, Origin, PassName, Phase, PhaseResult, Run, Skip, slot_key
from core.domain.pressure import step
from core.domain.sleeping import PRESSURE_NAP, Schedule, at
from core.passes.gate import Gate, Opened
from core.passes.planning import MOOD_EVERY
from core.passes.runner import Inside, PassSpec, start
from core.ports import Clock
from core.state.service import StateService
from core.store import mind_facts, passes, state
from core.store.engine import Tx
from core.store.mind_facts import AudienceGroups
from core.store.passes import MindPlace, NewRun

MOST_THEMES = 4
PRESSED_FROM = 36
"""So many notes of the day in one group are slept off without waiting for the next nap."""
STILL = 0.001
"""A step that moves no number by more than this is not written while the last one written is younger than `STILL_FOR`:
the journal of a mind to which nothing happens would grow by a hundred thousand rows a year (ADR 0033)."""
STILL_FOR = timedelta(hours=1)
_READ = ("candidate", "pressure_item", "thread", "short_term", "sleep", "pressure", "mood")
_TENDED = ("short_term", "durable", "thread", "pressure_item", "proposal")
_NUMBERS = ("need_to_speak", "confession_pressure", "novelty_pressure")

ScheduleFor = Callable[[str], Schedule]


@dataclass(frozen=True, slots=True)
class Drifted:
    """What a step gives: operations in their order, and how the mind sleeps after them."""

    operations: tuple[Operation, ...]
    sleep: Sleep


@dataclass(frozen=True, slots=True, kw_only=True)
class MoodDrift:
    """What drifting needs. `schedule`: when a mind naps, by the zone of its first community."""

    gate: Gate
    minds: StateService
    groups: AudienceGroups
    clock: Clock
    schedule: ScheduleFor

    def spec(self) -> PassSpec:
        """Return its phases."""
        return PassSpec(PassName.MOOD, {Phase.GATE: Inside(self._gate), Phase.APPLY: Inside(self._apply)})

    async def _gate(self, tx: Tx, run: Run) -> PhaseResult:
        opened = await self.gate.open(tx, run, _always, every=MOOD_EVERY, grouped=False)
        return opened if isinstance(opened, Skip) else Advance()

    async def _apply(self, tx: Tx, run: Run) -> PhaseResult:
        place = await passes.find_place(tx, run.mind_id)
        if place is None:
            return Finish("no_community")
        mind = await state.lock_mind(tx, run.mind_id)
        actor = Actor(Emitter.MOOD, run.name.value, run_id=run.id)
        entries = [held.entry for held in await state.list_live(tx, run.mind_id, _READ)]
        spoke = (await mind_facts.read(tx, run.mind_id, Needs(spoke=True))).spoke_at
        groups = await self.groups.load(tx, run.mind_id)
        facts = Facts(now=mind.now, actor=actor, spoke_at=spoke)
        naps = await passes.list_runs(tx, mind_id=run.mind_id, name=PassName.SLEEP, limit=1)
        napped_at = naps[0].slot if naps else None
        drifted = drifted_of(
            View(entries), facts, self.schedule(place.zone), notes_by_group(entries, groups), napped_at
        )
        shown: dict[str, int] = {entry.id: entry.version for entry in entries if entry.type in SINGLETONS}
        items = tuple(Item(each, f"run:{run.id}:{run.n}:{n}", shown) for n, each in enumerate(drifted.operations))
        batch = Batch(mind_id=run.mind_id, actor=actor, items=items, mode=Mode.ALL)
        if not run.writes:
            verdict, _ = await self.minds.preview(tx, batch)
        elif items:
            verdict = await self.minds.apply(tx, batch)
        else:
            return Finish("still", {"maintained": await self._begin_sleep(tx, run, place, drifted.sleep, groups)})
        refused = [each.verdict for each in verdict.items if isinstance(each.verdict, Rejected)]
        if refused:
            return Fail(refused[0].code.value, {"proposed": len(items), "refused": len(refused)})
        begun = await self._begin_sleep(tx, run, place, drifted.sleep, groups)
        return Advance({"proposed": len(items), "accepted": len(verdict.accepted), "maintained": begun})

    async def _begin_sleep(self, tx: Tx, run: Run, place: MindPlace, sleep: Sleep, groups: Mapping[RoomId, str]) -> int:
        """Begin maintenance once for each nap and group that has something to tend; return how many runs."""
        nap = sleep.nap_id
        if not run.writes or not sleep.is_napping or nap is None or sleep.maintained_nap_id == nap:
            return 0
        tended = [held.entry for held in await state.list_live(tx, run.mind_id, _TENDED)]
        due = sorted({group for entry in tended if needs_tending(entry, run.slot) for group in group_of(entry, groups)})
        origin = Origin.PRESSURE if nap.startswith(PRESSURE_NAP) else Origin.SCHEDULED
        runs = await passes.claim(
            tx,
            [
                NewRun(
                    mind_id=run.mind_id,
                    name=PassName.SLEEP,
                    group=group,
                    slot_key=slot_key(run.mind_id, PassName.SLEEP, group, nap),
                    slot=sleep.nap_started_at or run.slot,
                    label=nap,
                    origin=origin,
                )
                for group in due
            ],
        )
        await start(tx, runs, {run.mind_id: place.home})
        return len(runs)


def drifted_of(
    view: View, facts: Facts, schedule: Schedule, notes: Mapping[str, int], napped_at: datetime | None = None
) -> Drifted:
    """Return what the time since the last step makes of sleep, pressure and moods.

    `notes`: how many of the day each group has. `napped_at`: when a nap that had something to do began last.
    """
    before = sleep_of(view)
    sleep = at(
        schedule,
        before,
        facts.now,
        pressed=max(notes.values(), default=0) >= PRESSED_FROM,
        themes=themes_of(view.live("short_term")),
        owed=any(True for _ in view.live("short_term")),
        napped_at=napped_at,
    )
    operations: list[Operation] = [UpdateSleepCycle(sleep=sleep)] if sleep != before else []
    mood, pressure = mood_of(view), pressure_of(view)
    inputs = replace(pressure_inputs(view, facts), sleep=sleep)
    pressed, drifting = step(pressure, inputs, facts.now), drift(mood, facts.now)
    if operations or not _still(pressure, pressed, mood, drifting):
        operations.append(UpdateSpeakingPressure(pressure=pressed))
        operations += [UpdateMood(mood=drifting)] if mood.dimensions else []
    return Drifted(tuple(operations), sleep)


def themes_of(notes: Iterable[Entry]) -> tuple[str, ...]:
    """Return the topics of the notes that came up most often."""
    counted: Counter[str] = Counter()
    for entry in notes:
        if isinstance(entry.body, ShortTerm):
            counted.update(dict.fromkeys(entry.body.topics, entry.body.support_count))
    return tuple(sorted(counted, key=lambda topic: (-counted[topic], topic))[:MOST_THEMES])


def notes_by_group(entries: Iterable[Entry], groups: Mapping[RoomId, str]) -> dict[str, int]:
    """Return how many notes of the day each audience group has."""
    notes = [entry for entry in entries if isinstance(entry.body, ShortTerm)]
    return Counter(group for entry in notes for group in group_of(entry, groups))


def group_of(entry: Entry, groups: Mapping[RoomId, str]) -> tuple[str, ...]:
    """Return the group of an entry, none if its rooms are not of one group, or their readers are not known."""
    names = {groups.get(room) for room in entry.sources}
    return tuple(name for name in names if name is not None) if len(names) == 1 else ()


def needs_tending(entry: Entry, now: datetime) -> bool:
    """Return whether sleep has something to do with an entry."""
    body = entry.body
    if isinstance(body, Proposal):
        return body.expires_at <= now
    return isinstance(body, ShortTerm) or (isinstance(body, Thoughtful) and body.needs_review)


def _still(before: Pressure, after: Pressure, mood: Mood, drifting: Mood) -> bool:
    """Return whether nothing moved that is worth a row, and the last row is young."""
    if before.stepped_at is None or after.stepped_at is None or after.stepped_at - before.stepped_at >= STILL_FOR:
        return False
    moved: list[float] = [abs(getattr(after, each) - getattr(before, each)) for each in _NUMBERS]
    moved += [abs(drifting.dimensions[each] - mood.dimensions[each]) for each in mood.dimensions]
    return max(moved) <= STILL


async def _always(_: Tx, __: Run, ___: Opened) -> Skip | None:
    return None
