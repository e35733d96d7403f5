"""Whether there is anything to think over in a group, asked before anything that may cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from core.domain.candidates import candidate_of, in_turn, wakes
from core.domain.mind.bodies import Case, Consumer
from core.domain.mind.entries import Entry
from core.domain.owing import owed
from core.domain.passes import Origin, Run, RunState, Skip, SkipReason
from core.domain.pressure import is_asleep
from core.passes.circle import load_circle
from core.passes.gate import Opened
from core.ports import Clock
from core.store import mind_lists, mind_views, reading
from core.store.engine import Tx
from core.store.mind_facts import AudienceGroups

EMPTY = "empty"
"""The reason with which a run ends whose model had nothing to propose."""
ASLEEP_AFTER = timedelta(days=7)
"""Where no person has said anything for so long nothing is thought over, whatever else there is."""
IDLE_AFTER = 3
"""So many runs in a row that came to nothing make the next ones rarer, until somebody says something."""
LONGEST_IDLE = timedelta(hours=24)
_ENOUGH = 16
_TYPES = ("case", "candidate", "pressure_item")


@dataclass(frozen=True, slots=True)
class Looking:
    """What looking needs. `every`: how often it is looked."""

    groups: AudienceGroups
    clock: Clock
    every: timedelta

    async def look(self, tx: Tx, run: Run, opened: Opened) -> Skip | None:
        """Return why a run has nothing to do; None if it has."""
        circle = await load_circle(tx, self.groups, run, opened.every)
        rooms = [] if circle is None else circle.of(opened.rooms)
        if circle is None or not rooms:
            return Skip(SkipReason.AUDIENCE_UNKNOWN if circle is None else SkipReason.NO_ROOMS)
        if not await reading.is_awake(tx, rooms, ASLEEP_AFTER):
            return Skip(SkipReason.ROOM_ASLEEP)
        if await reading.has_news(tx, run.mind_id, Consumer.RUMINATION, rooms):
            return None
        now = self.clock.now()
        own = await mind_lists.list_own(tx, run.mind_id, _TYPES, circle.rooms, beside=circle.readable)
        if not has_debts(own, now) and not await reading.is_waited_for(tx, rooms):
            if is_asleep(await mind_views.find_sleep(tx, run.mind_id), now):
                return Skip(SkipReason.NAPPING)
            if not owed(own["pressure_item"], own["candidate"], now):
                return Skip(SkipReason.NOTHING_NEW)
        return await self._idle(tx, run, now)

    async def _idle(self, tx: Tx, run: Run, now: datetime) -> Skip | None:
        if run.origin is Origin.MANUAL:
            return None
        count = 0
        ended = await reading.list_ended(tx, run, _ENOUGH)
        for each in ended:
            if each.state is not RunState.FINISHED or each.reason != EMPTY:
                break
            count += 1
        if count < IDLE_AFTER:
            return None
        wait = min(self.every * 2 ** (count - IDLE_AFTER + 1), max(LONGEST_IDLE, self.every))
        return Skip(SkipReason.IDLE) if now < ended[0].at + wait else None


def has_debts(own: Mapping[str, Sequence[Entry]], now: datetime) -> bool:
    """Return whether something is owed to the group, or could be said there now."""
    cases = any(isinstance(entry.body, Case) and entry.body.status.live for entry in own["case"])
    return cases or any(_deliverable(entry, now) for entry in own["candidate"])


def _deliverable(entry: Entry, now: datetime) -> bool:
    body = candidate_of(entry)
    if body is None or body.expires_at <= now:
        return False
    return bool(in_turn([entry], frozenset())) or wakes(entry, now)
