"""Whether a run may go on, before any model is called: switches, pauses, quiet, purses; each refusal has a reason."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

import structlog

from core.domain.archiving import ArchivePolicy, is_archived
from core.domain.budgets import Draw
from core.domain.passes import Origin, PassName, PassPolicy, Run, RunState, Skip, SkipReason
from core.domain.rooms import Room, RoomState
from core.ports import Clock
from core.store import budgets, passes, places, reading, state
from core.store.engine import Tx
from core.store.mind_facts import AudienceGroups
from core.store.passes import EVERY, MindPlace

log = structlog.get_logger()

FAILURES_BEFORE = 3
"""So many failed runs in a row make the next ones rarer."""
LONGEST_BACKING_OFF = timedelta(hours=6)
MOST_LOOKED_AT = 12


@dataclass(frozen=True, slots=True)
class Opened:
    """What the gate saw: where the group lives, its rooms that are archived now, and all of its rooms."""

    place: MindPlace
    rooms: tuple[Room, ...]
    every: tuple[Room, ...] = ()

    @property
    def zone(self) -> ZoneInfo:
        """The time zone of the group's community, of the whole mind that of its first one."""
        return ZoneInfo(self.place.zone)


Look = Callable[[Tx, Run, Opened], Awaitable[Skip | None]]
"""Whether there is something to do; asked after the pauses, before anything that may cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What looking needs; one for the process."""

    policy: PassPolicy
    archive: ArchivePolicy
    groups: AudienceGroups
    clock: Clock

    async def open(
        self, tx: Tx, run: Run, look: Look, *, every: timedelta, grouped: bool = True, quiet: bool = False,
        draw: Callable[[Opened], Draw | None] = lambda _: None,
    ) -> Opened | Skip:  # fmt: skip
        """Return what the gate saw, or why the run may not go on.

        Args:
            tx: The phase's transaction; nothing is reserved in it.
            run: The run.
            look: Whether there is something to do.
            every: How often the pass runs, for backing off after failures.
            grouped: It is about the rooms of its group.
            quiet: It may not run in quiet hours.
            draw: What a call would take at most; None: there is no call.
        """
        now = self.clock.now()
        opened = await self._see(tx, run, grouped=grouped)
        if isinstance(opened, Skip):
            return opened
        refusal = await self.held_back(tx, run, now) or await self._failing(tx, run, now, every)
        refusal = refusal or await look(tx, run, opened)
        if refusal is None and quiet:
            refusal = self.quiet(run, opened, now)
        wanted = None if refusal is not None else draw(opened)
        if wanted is not None and (spent := await budgets.look(tx, wanted, now)) is not None:
            log.warning("pass.out_of_budget", run=run.id, name=run.name.value, purse=spent.scope)
            refusal = Skip(SkipReason.BUDGET)
        return refusal or opened

    async def see(self, tx: Tx, run: Run) -> Opened | None:
        """Return the rooms of a run's group as things stand now; None if it is no group any more, or homeless."""
        place = await passes.find_place(tx, run.mind_id, run.group)
        named = await self.groups.load(tx, run.mind_id)
        every = await places.load_rooms(tx, (id_ for id_, name in named.items() if name == run.group))
        rooms = (room for room in every if room.state is not RoomState.DELETED and not room.paused)
        archived = tuple(room for room in rooms if is_archived(room, self.archive))
        return None if place is None or not every else Opened(place, archived, tuple(every))

    def quiet(self, run: Run, opened: Opened, now: datetime) -> Skip | None:
        """Return whether quiet hours keep a run from thinking; what a person has begun by hand may go on in them."""
        may = run.origin is Origin.MANUAL or self.policy.thinks_when_quiet
        return Skip(SkipReason.QUIET) if not may and self.is_quiet(opened, now) else None

    def is_quiet(self, opened: Opened, now: datetime) -> bool:
        """Return whether the mind's own quiet hours are on, or those of every room of the group."""
        local = now.astimezone(opened.zone)
        if self.policy.quiet is not None and self.policy.quiet.covers(local):
            return True
        hours = [room.quiet_hours for room in opened.rooms]
        return bool(hours) and all(each is not None and each.covers(local) for each in hours)

    async def _see(self, tx: Tx, run: Run, *, grouped: bool) -> Opened | Skip:
        if run.name not in self.policy.on:
            return Skip(SkipReason.OFF)
        if not grouped:
            place = await passes.find_place(tx, run.mind_id, run.group)
            return Skip(SkipReason.NO_ROOMS) if place is None else Opened(place, ())
        seen = await self.see(tx, run)
        if seen is None:
            return Skip(SkipReason.AUDIENCE_UNKNOWN)
        return seen if seen.rooms else Skip(SkipReason.NO_ROOMS)

    async def held_back(self, tx: Tx, run: Run, now: datetime) -> Skip | None:
        """Return whether the pass is paused. Data that cannot be understood counts as a pause."""
        mind = await state.find_mind(tx, run.mind_id)
        if mind is not None and mind.paused:
            return Skip(SkipReason.PAUSED)
        for control in await passes.list_controls(tx, run.mind_id):
            if control.name != EVERY and control.name not in set(PassName):
                return Skip(SkipReason.CONTROL_UNREADABLE)
            if control.holds(now) and control.name in (EVERY, run.name):
                return Skip(SkipReason.PAUSED)
        return None

    async def _failing(self, tx: Tx, run: Run, now: datetime, every: timedelta) -> Skip | None:
        """Return whether it failed so often that this slot is left out."""
        if run.origin is Origin.MANUAL:
            return None
        ended = await reading.list_ended(tx, run, MOST_LOOKED_AT)
        failed = list(takewhile(lambda each: each.state is RunState.FAILED, ended))
        if len(failed) < FAILURES_BEFORE:
            return None
        wait = min(every * 2 ** (len(failed) - FAILURES_BEFORE + 1), max(LONGEST_BACKING_OFF, every))
        return Skip(SkipReason.BACKING_OFF) if now < failed[0].at + wait else None
