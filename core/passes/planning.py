"""Which slots of which passes are due for which minds and groups, and their claim; any number may plan side by side."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from core.domain.archiving import ArchivePolicy, is_archived
from core.domain.ids import RoomId
from core.domain.passes import WHOLE_MIND, Origin, PassName, PassPolicy, Run, SkipReason, slot_key
from core.domain.rooms import Room, RoomKind, RoomState
from core.domain.slots import CatchUp, Interval, Slot, due
from core.passes.runner import start
from core.store import passes, places
from core.store.engine import Tx
from core.store.mind_facts import AudienceGroups
from core.store.passes import LastSlot, MindPlace, NewRun

MOST_GROUPS = 3
"""How many groups of a mind begin to think in one tick; the others follow in the next ones."""
APART_S = 30.0
"""How far apart the runs of one mind start that make up for missed time."""
JUMP = timedelta(hours=1)
"""A clock that goes ahead of the time that has passed by more than this is believed when it says so twice."""
MOOD_EVERY = timedelta(minutes=5)
UPKEEP_EVERY, UPKEEP_AT = timedelta(hours=1), timedelta(minutes=17)


@dataclass(frozen=True, slots=True)
class Plan:
    """When a pass is due, and what becomes of the slots that were missed. `grouped`: for each audience group."""

    name: PassName
    schedule: Interval
    catch_up: CatchUp
    grouped: bool


def plans_of(policy: PassPolicy) -> tuple[Plan, ...]:
    """Return the plans of the passes that are on. Sleep has none: the drift of the mood begins it with each nap."""
    every = (
        Plan(PassName.MOOD, Interval(MOOD_EVERY), CatchUp.INTEGRATE, False),
        Plan(PassName.RUMINATION, Interval(policy.rumination_every), CatchUp.LATEST, True),
        Plan(PassName.UPKEEP, Interval(UPKEEP_EVERY, UPKEEP_AT), CatchUp.LATEST, False),
    )
    return tuple(plan for plan in every if plan.name in policy.on)


@dataclass(slots=True)
class Clockwork:
    """Whether a tick's time can be believed: a clock that jumps ahead starts nothing until a second tick agrees."""

    _wall: datetime | None = None
    _steady: float = 0.0

    def believes(self, now: datetime, steady: float) -> bool:
        """Return whether the wall clock went on as the steady one did since the last tick."""
        wall, before = self._wall, self._steady
        self._wall, self._steady = now, steady
        return wall is None or (now - wall) - timedelta(seconds=steady - before) <= JUMP


@dataclass(frozen=True, slots=True, kw_only=True)
class Planner:
    """What planning needs; one for the process."""

    policy: PassPolicy
    archive: ArchivePolicy
    groups: AudienceGroups = field(default_factory=AudienceGroups)
    _through: dict[tuple[str, PassName], str] = field(default_factory=dict)
    """The newest slot of each mind and pass that this process has claimed, or seen claimed, for every group."""

    async def claim_due(self, tx: Tx, now: datetime) -> list[Run]:
        """Claim every slot that is due and queue its first phase; return the runs."""
        minds = await passes.list_minds(tx)
        known = await passes.load_slots(tx)
        found: list[NewRun] = []
        for mind in minds:
            for plan in plans_of(self.policy):
                found += await self._due(tx, mind, plan, known, now)
        runs = await passes.claim(tx, found)
        homes = {mind.mind_id: mind.home for mind in minds}
        late: Counter[str] = Counter()
        by_wait: dict[float, list[Run]] = {}
        for run in runs:
            caught_up = run.origin is Origin.CATCH_UP
            by_wait.setdefault(APART_S * late[run.mind_id] if caught_up else 0.0, []).append(run)
            late[run.mind_id] += int(caught_up)
        for wait_s, these in by_wait.items():
            await start(tx, these, homes, wait_s)
        return runs

    async def _due(
        self, tx: Tx, mind: MindPlace, plan: Plan, known: Mapping[tuple[str, str, str], LastSlot], now: datetime
    ) -> list[NewRun]:
        newest = plan.schedule.before(now)
        if self._through.get((mind.mind_id, plan.name)) == newest.label:
            return []
        groups = await self._groups(tx, mind.mind_id) if plan.grouped else {WHOLE_MIND: ()}
        rows: list[NewRun] = []
        waiting: dict[str, Slot] = {}
        late: set[str] = set()
        for group in sorted(groups):
            last = known.get((mind.mind_id, plan.name.value, group))
            what = due(plan.schedule, plan.catch_up, None if last is None else last.at, now)
            rows += [_row(mind, plan, group, slot, skipped=SkipReason.MISSED) for slot in what.missed]
            if what.missed and what.summarised:
                rows.append(_older(mind, plan, group, what.missed[0], what.summarised))
            if what.run is not None:
                waiting[group] = what.run
            late |= {group} if what.missed else set()
        if len(waiting) <= MOST_GROUPS:  # else the others follow in the next ticks
            tx.on_commit(partial(self._through.__setitem__, (mind.mind_id, plan.name), newest.label))
        chosen = await self._most_news(tx, mind.mind_id, groups, waiting) if len(waiting) > MOST_GROUPS else waiting
        for group in chosen:
            origin = Origin.CATCH_UP if group in late else Origin.SCHEDULED
            rows.append(_row(mind, plan, group, waiting[group], origin=origin))
        return rows

    async def _groups(self, tx: Tx, mind_id: str) -> dict[str, Sequence[RoomId]]:
        """Return the groups that something can be said in, each with its archived rooms; talks with one are none."""
        named = await self.groups.load(tx, mind_id)
        found: dict[str, list[RoomId]] = {}
        for room in await places.list_mind_rooms(tx, mind_id):
            if room.id in named and self._speaks_in(room):
                found.setdefault(named[room.id], []).append(room.id)
        return dict(found)

    def _speaks_in(self, room: Room) -> bool:
        there = room.state is not RoomState.DELETED and room.kind is not RoomKind.DM
        return there and is_archived(room, self.archive)

    async def _most_news(
        self, tx: Tx, mind_id: str, groups: Mapping[str, Sequence[RoomId]], waiting: Iterable[str]
    ) -> list[str]:
        news = await passes.count_news(tx, mind_id, [room for group in waiting for room in groups[group]])
        counted = {group: sum(news.get(room, 0) for room in groups[group]) for group in waiting}
        return sorted(counted, key=lambda group: (-counted[group], group))[:MOST_GROUPS]


def _older(mind: MindPlace, plan: Plan, group: str, oldest: Slot, count: int) -> NewRun:
    """Return the one row that tells how many more slots were missed before the oldest that is told by itself."""
    slot = Slot(oldest.at, f"{oldest.label}-{count}")
    return _row(mind, plan, group, slot, skipped=f"{SkipReason.MISSED}:{count}")


def _row(
    mind: MindPlace, plan: Plan, group: str, slot: Slot, *, origin: Origin = Origin.SCHEDULED, skipped: str = ""
) -> NewRun:
    key = slot_key(mind.mind_id, plan.name, group, slot.label)
    return NewRun(
        mind_id=mind.mind_id, name=plan.name, group=group, slot_key=key, slot=slot.at, label=slot.label,
        origin=origin, skipped=skipped,
    )  # fmt: skip
