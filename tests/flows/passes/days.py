"""Simulated days: the product's own clock and planner, its real queue and executor, and time that a test moves.

No worker runs: after each move of the time everything that is due is claimed and run, so days pass in seconds.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from bot.kinds import kinds_of, passes_of
from core.chat.lastwords import LastWords
from core.domain.ids import RoomKey
from core.domain.passes import Run
from core.jobs.executor import Executor, JobContext
from core.ports import Embedder
from core.providers.model_settings import ModelSettings
from core.store import passes
from core.store.engine import Database
from core.store.jobs import Settlement
from core.store.leases import Incarnation
from tests.fakes import ManualClock, RecordingFrontEnd, ScriptedModel
from tests.flows.line import Line, running_line

SLOTS = {"chat": 4, "upkeep": 2, "pass": 4, **dict.fromkeys(("send/console", "send/discord", "send/telegram"), 4)}


class Stopped(BaseException):
    """The process ends here."""


@dataclass
class Stops:
    """Where the process is to end: at the `at`-th point that is met. `met`: how many were."""

    at: int | None = None
    met: int = 0
    dead: bool = False
    points: list[str] = field(default_factory=list)

    def __call__(self, point: str) -> None:
        if self.dead:
            raise Stopped
        self.met += 1
        self.points.append(point)
        if self.met == self.at:
            self.dead = True
            raise Stopped


@dataclass
class Days:
    """A line whose time is moved by hand."""

    line: Line
    clock: ManualClock
    executor: Executor
    stops: "Stops"

    @property
    def database(self) -> Database:
        return self.line.database

    @property
    def now(self) -> datetime:
        return self.clock.now()

    async def plan(self) -> list[Run]:
        """Let the scheduler's tick come."""
        planner = passes_of(self.line.app.parts).planner
        async with self.database.transaction() as tx:
            return await planner.claim_due(tx, self.clock.now())

    async def work(self) -> int:
        """Run what is due until nothing is; return how many jobs that were."""
        store = await Incarnation.open(self.database, {}, None)
        count, ended = 0, list[Settlement]()
        try:
            while True:
                await store.tick_due()
                await store.tick_waiting()
                turnover = await store.cycle(ended, SLOTS)
                if not turnover.granted:
                    return count
                count += len(turnover.granted)
                contexts = [JobContext(claim, self.database, self.stops) for claim in turnover.granted]
                settled = await asyncio.gather(*(self.executor.run(each) for each in contexts))
                ended = [each for each in settled if each is not None]
        except Stopped:
            store.close()
            raise
        finally:
            if not self.stops.dead:
                await store.leave()
                store.close()

    async def take_over(self) -> None:
        """Let another process find out that this one is gone, and take back what it held."""
        self.stops.dead = False
        await self.clock.advance(60.0)
        store = await Incarnation.open(self.database, {}, None)
        await store.tick_lost(15.0)
        await store.leave()
        store.close()

    async def say(self, person: str, text: str, room: str = "lobby", *, on: str = "console") -> None:
        """Let somebody say something, and everything that follows from it at once."""
        message = self.line.message(person, text, room, front_end=on)
        await self.line.app.receiver.accept(replace(message, room=RoomKey(on, room)))
        await self.work()

    async def pass_(self, every: timedelta, until: datetime) -> None:
        """Let time pass: at each step the scheduler ticks and what is due is done."""
        while self.now < until:
            await self.clock.advance(min(every, until - self.now).total_seconds())
            await self.plan()
            await self.work()

    async def move_to(self, hour: int, minute: int = 0) -> None:
        """Move to the next time at which UTC's clock shows this, without anything being done meanwhile."""
        now = self.now
        there = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
        there += timedelta(days=1) if there <= now else timedelta(0)
        await self.clock.advance((there - now).total_seconds())

    async def runs(self, **which: Any) -> list[Run]:
        """Return the runs so far, oldest first."""
        async with self.database.transaction(durable=False) as tx:
            return sorted(await passes.list_runs(tx, limit=10_000, **which), key=lambda run: run.id)


@asynccontextmanager
async def days(
    dsn: str,
    database: Database,
    *,
    model: ScriptedModel | None = None,
    models: Sequence[ModelSettings] = (),
    embedders: Sequence[Embedder] | None = None,
    platforms: Sequence[str] = ("console",),
    **changes: Any,
) -> AsyncIterator[Days]:
    """Open a line without a worker; `database` is on the same clone, for the clock."""
    clock, stops = ManualClock(database), Stops()
    shown = [RecordingFrontEnd(each) for each in platforms]
    async with running_line(
        dsn, model=model, models=models, clock=clock, embedders=embedders, front_ends=shown, works=False, fault=stops,
        **changes,
    ) as line:  # fmt: skip
        parts = line.app.parts
        words, observe = LastWords(parts.notices), parts.metrics.observe
        executor = Executor(line.database, kinds_of(parts), clock, words, observe, stops)
        yield Days(line, clock, executor, stops)
