"""Mood drift: sleep, moods and the pressure to speak move with the time, by arithmetic; a nap begins maintenance."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from core.domain.mind.bodies import Mood, Pressure, Sleep
from core.domain.mind.codes import Rejected
from core.domain.mind.facts import Actor, Emitter, Needs
from core.domain.mood import drift
from core.domain.operations.base import Operation
from core.domain.operations.batch import Batch, Item, Mode
from core.domain.operations.runtime import UpdateMood, UpdateSleepCycle, UpdateSpeakingPressure
from core.domain.passes import Advance, Fail, Finish, Origin, PassName, Phase, PhaseResult, Run, Skip, slot_key
from core.domain.pressure import Inputs, step
from core.domain.sleeping import PRESSURE_NAP, Schedule, at
from core.passes.gate import Gate, Opened
from core.passes.heaps import audience_of, owners
from core.passes.planning import MOOD_EVERY
from core.passes.runner import Inside, PassSpec, start
from core.ports import Clock
from core.state.service import StateService
from core.store import mind_drift, mind_facts, passes, state
from core.store.engine import Tx
from core.store.mind_drift import NoteFact, Weighed
from core.store.mind_facts import AudienceGroups
from core.store.passes import MindPlace, NewRun

MOST_THEMES = 4
PRESSED_FROM = 36
"""So many notes of the day in one group are slept off without waiting for the next nap."""
STILL = 0.001
"""A step that moves no number by more than this is not written while the last one written is younger than `STILL_FOR`:
the journal of a mind to which nothing happens would grow by a hundred thousand rows a year (ADR 0033)."""
STILL_FOR = timedelta(hours=1)
_NUMBERS = ("need_to_speak", "confession_pressure", "novelty_pressure")

ScheduleFor = Callable[[str], Schedule]


@dataclass(frozen=True, slots=True)
class Pressed:
    """Whether so many notes wait that a nap out of turn is worth it. `napped_at`: the last nap with something to do."""

    is_so: bool = False
    napped_at: datetime | None = None


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
        return PassSpec(
            PassName.MOOD,
            {Phase.GATE: Inside(self._gate, durable=False), Phase.APPLY: Inside(self._apply, durable=False)},
        )

    async def _gate(self, tx: Tx, run: Run) -> PhaseResult:
        opened = await self.gate.open(tx, run, _always, every=MOOD_EVERY, grouped=False)
        return opened if isinstance(opened, Skip) else Advance()

    async def _apply(self, tx: Tx, run: Run) -> PhaseResult:
        place = await passes.find_place(tx, run.mind_id)
        if place is None:
            return Finish("no_community")
        mind = await state.lock_mind(tx, run.mind_id)
        actor = Actor(Emitter.MOOD, run.name.value, run_id=run.id)
        weighed = await mind_drift.load_weighed(tx, run.mind_id)
        spoke = (await mind_facts.read(tx, run.mind_id, Needs(spoke=True))).spoke_at
        pressed = await self._is_pressed(tx, run, weighed.notes)
        drifted = drifted_of(weighed, mind.now, self.schedule(place.zone), spoke, pressed)
        items = tuple(
            Item(each, f"run:{run.id}:{run.n}:{n}", weighed.versions) for n, each in enumerate(drifted.operations)
        )
        batch = Batch(mind_id=run.mind_id, actor=actor, items=items, mode=Mode.ALL)
        if not run.writes:
            verdict, _ = await self.minds.preview(tx, batch)
        elif items:
            verdict = await self.minds.apply(tx, batch)
        else:
            return Finish("still", {"maintained": await self._begin_sleep(tx, run, place, drifted.sleep, mind.now)})
        refused = [each.verdict for each in verdict.items if isinstance(each.verdict, Rejected)]
        if refused:
            return Fail(refused[0].code.value, {"proposed": len(items), "refused": len(refused)})
        begun = await self._begin_sleep(tx, run, place, drifted.sleep, mind.now)
        return Advance({"proposed": len(items), "accepted": len(verdict.accepted), "maintained": begun})

    async def _is_pressed(self, tx: Tx, run: Run, notes: Sequence[NoteFact]) -> Pressed:
        """Return whether so many notes wait that a nap out of turn is worth it, and when the last one was."""
        if len(notes) < PRESSED_FROM:
            return Pressed()
        groups = await self.groups.load(tx, run.mind_id)
        counted = Counter(audience_of(each.sources, groups) for each in notes)
        naps = await passes.list_runs(tx, mind_id=run.mind_id, name=PassName.SLEEP, limit=1)
        return Pressed(max(counted.values()) >= PRESSED_FROM, naps[0].slot if naps else None)

    async def _begin_sleep(self, tx: Tx, run: Run, place: MindPlace, sleep: Sleep, now: datetime) -> int:
        """Begin maintenance once for each nap and group that has something to tend; return how many runs."""
        nap = sleep.nap_id
        if not run.writes or not sleep.is_napping or nap is None or sleep.maintained_nap_id == nap:
            return 0
        tended = await mind_drift.list_tended(tx, run.mind_id, now)
        due = set((await owners(tx, run.mind_id, self.groups, tended)).values())
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
                for group in sorted(due)
            ],
        )
        await start(tx, runs, {run.mind_id: place.home})
        return len(runs)


def drifted_of(
    weighed: Weighed, now: datetime, schedule: Schedule, spoke_at: datetime | None, pressed: Pressed
) -> Drifted:
    """Return what the time since the last step makes of sleep, pressure and moods."""
    before, pressure, mood = weighed.sleep, weighed.pressure, weighed.mood
    sleep = at(
        schedule,
        before,
        now,
        pressed=pressed.is_so,
        themes=themes_of(weighed.notes),
        owed=bool(weighed.notes),
        napped_at=pressed.napped_at,
    )
    operations: list[Operation] = [UpdateSleepCycle(sleep=sleep)] if sleep != before else []
    inputs = Inputs(
        spoke_at=spoke_at,
        sleep=sleep,
        candidates=tuple(weighed.candidates),
        items=tuple(weighed.items),
        threads=tuple(weighed.threads),
        mood=mood,
    )
    stepped, drifting = step(pressure, inputs, now), drift(mood, now)
    if operations or not _still(pressure, stepped, mood, drifting):
        operations.append(UpdateSpeakingPressure(pressure=stepped))
        operations += [UpdateMood(mood=drifting)] if mood.dimensions else []
    return Drifted(tuple(operations), sleep)


def themes_of(notes: Iterable[NoteFact]) -> tuple[str, ...]:
    """Return the topics of the notes that came up most often."""
    counted: Counter[str] = Counter()
    for each in notes:
        counted.update(dict.fromkeys(each.topics, each.times))
    return tuple(sorted(counted, key=lambda topic: (-counted[topic], topic))[:MOST_THEMES])


def _still(before: Pressure, after: Pressure, mood: Mood, drifting: Mood) -> bool:
    """Return whether nothing moved that is worth a row, and the last row is young."""
    if before.stepped_at is None or after.stepped_at is None or after.stepped_at - before.stepped_at >= STILL_FOR:
        return False
    moved: list[float] = [abs(getattr(after, each) - getattr(before, each)) for each in _NUMBERS]
    moved += [abs(drifting.dimensions[each] - mood.dimensions[each]) for each in mood.dimensions]
    return max(moved) <= STILL


async def _always(_: Tx, __: Run, ___: Opened) -> Skip | None:
    return None
