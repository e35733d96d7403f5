"""Bots that live and die in processes of their own beside a double in the test's process, on one clock with it."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any

import asyncpg
import pytest
from _pytest.mark import ParameterSet

from tests.crash.processes import A_WHILE_S, LEFT, Forks
from tests.fakes import ManualClock

PATIENCE_S, LOOK_S = 30.0, 0.04
# Every point up to the durable draft; the platform has no part in them but the first and the fourth.
BEFORE_SENDING = [
    ("fetched", 1),
    ("A.written", 1),
    ("A.committed", 1),
    ("stored", 1),
    ("cycle.before", 1),
    ("hold.before", 1),  # after B: claimed, nothing done
    ("C.written", 1),
    ("C.committed", 1),
    ("model.called", 1),
    ("model.answered", 1),
    ("E.written", 1),
    ("settle.after", 1),
    ("E.committed", 1),
    ("hold.before", 3),  # after B of the send job
]
SENDING = [
    (point, 1) for point in ("F.written", "F.committed", "send.called", "send.arrived", "G.written", "G.committed")
]
GROWING = [
    ("early F.written", 1),
    ("early F.committed", 1),
    ("send.called", 1),
    ("send.arrived", 1),
    ("early G.committed", 1),
    ("edit.called", 1),
    ("edit.arrived", 1),
    ("model.answered", 1),
    ("E.written", 1),
    ("E.committed", 1),
    ("F.committed", 1),
    ("G.written", 1),
    ("G.committed", 1),
]
NOTHING_LEFT = f"select ({LEFT}) = 0"

AS_WITHOUT_GROWTH = {
    ("model.answered", 1), ("E.written", 1), ("E.committed", 1), ("F.committed", 1), ("G.written", 1),
    ("G.committed", 1), ("early F.written", 1), ("early G.committed", 1),
}  # fmt: skip
"""Here a growing answer is on the line of every other: before its first words, or after its last ones."""
BESIDE_THE_PLATFORM = {
    ("A.committed", 1), ("cycle.before", 1), ("hold.before", 1), ("C.written", 1), ("model.called", 1),
    ("E.written", 1), ("settle.after", 1), ("hold.before", 3),
}  # fmt: skip
"""Between these and their neighbours nothing differs from platform to platform: `tests/crash` has them each day."""
PAIRS = [(*first, *second) for first, second in product((*BEFORE_SENDING, *SENDING), repeat=2)]
"""Two kills, one after the other."""


@dataclass(slots=True)
class Lives:
    """One database and the bots that work on it, one after another. `settings`: the platform, as JSON."""

    bots: Forks
    dsn: str
    settings: Mapping[str, str]
    clock: ManualClock
    connection: "asyncpg.Connection[asyncpg.Record]"
    now_s: float = 0.0

    def start(self, **order: Any) -> int:
        """Start a bot; return its pid."""
        return self.bots.start(dsn=self.dsn, settings=dict(self.settings), skew_s=self.now_s, **order)

    @contextmanager
    def living(self, **order: Any) -> Iterator[int]:
        """Have a bot for the time of a block; it is killed at the end."""
        pid = self.start(**order)
        try:
            yield pid
        finally:
            self.bots.end(pid)

    async def killed(self, pid: int) -> None:
        """Wait until a bot has killed itself."""
        await seldom(lambda: self.bots.code(pid) is not None)
        assert self.bots.code(pid) == -signal.SIGKILL

    async def later(self, seconds: float = A_WHILE_S) -> None:
        """Let time pass, for the database, for the double and for whoever is started from now on."""
        self.now_s += seconds
        await self.clock.advance(seconds)
        await self.connection.execute("update voidbot_test.clock set shift = $1 * interval '1 s'", self.now_s)

    async def value(self, sql: str, *args: object) -> Any:
        return await self.connection.fetchval(sql, *args)

    async def states(self) -> list[str]:
        """Return how each answer ended, in the order they were made."""
        return [row["state"] for row in await self.connection.fetch("select state from voidbot.outbox order by id")]

    async def settled(self, answers: int = 1) -> None:
        """Wait until so many answers were made and nothing is left to do."""
        await seldom(lambda: self._idle(answers))

    async def _idle(self, answers: int) -> bool:
        made = await self.value("select count(*) from voidbot.outbox")
        return bool(made >= answers and await self.value(NOTHING_LEFT))

    async def die_again_at(self, point: str, nth: int = 1, **order: Any) -> None:
        """Let a bot live that kills itself at a point of what another has begun; it may settle all before."""
        with self.living(point=point, nth=nth, armed=True, **order) as pid:

            async def over() -> bool:
                return self.bots.code(pid) is not None or await self._idle(1)

            await seldom(over)
        await self.later()


def cases(points: Iterable[tuple[Any, ...]], long: Container[tuple[Any, ...]]) -> list[ParameterSet]:
    """Return the points as cases of a test, some of them for long runs only."""
    return [pytest.param(*each, marks=pytest.mark.long if each in long else ()) for each in points]


async def seldom(condition: Callable[[], bool] | Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition holds, looking less often than bots need the processor; fail if it does not in time."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while True:
        held = condition()
        if held if isinstance(held, bool) else await held:
            return
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"still not so after {PATIENCE_S} s: {condition}")
        await asyncio.sleep(LOOK_S)


@asynccontextmanager
async def lives(bots: Forks, dsn: str, settings: Mapping[str, str], clock: ManualClock) -> AsyncIterator[Lives]:
    connection = await asyncpg.connect(dsn)
    try:
        yield Lives(bots, dsn, settings, clock, connection)
    finally:
        await connection.close()
