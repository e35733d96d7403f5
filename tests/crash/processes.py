"""Bots in processes of their own, under a test's control, and what is looked at when they are through."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from tests.crash.child import answer_to
from tests.crash.platform import Platform
from tests.flows.line import until

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
A_WHILE_S = 30.0
"""More than the lease of a dead process, less than a platform folds."""
LEFT = """
select (select count(*) from queue.job) + (select count(*) from queue.later)
     + (select count(*) from voidbot.turns where state in ('open', 'running'))
     + (select count(*) from voidbot.outbox where state in ('ready', 'sending'))
"""


class Forks:
    """Forks of the child program."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def spawn(self, dsn: str, platform: Platform, **order: Any) -> int:
        """Start one bot; return its pid."""
        return self.start(dsn=dsn, platform=platform.url, behaviour=platform.behaviour, **order)

    def start(self, **order: Any) -> int:
        """Start one bot by any order that the child program understands; return its pid."""
        pid: int = self._ask(**order)["pid"]
        return pid

    def code(self, pid: int) -> int | None:
        """Return how a fork ended, minus the signal that ended it; None while it lives."""
        code: int | None = self._ask(ended=pid)["code"]
        return code

    def end(self, pid: int) -> None:
        """Kill a fork, whatever it does."""
        if self.code(pid) is None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    async def killed(self, pid: int) -> None:
        """Wait until a fork has killed itself where it was told to."""
        await until(lambda: self.code(pid) is not None, PATIENCE_S)
        assert self.code(pid) == -signal.SIGKILL

    @contextmanager
    def living(self, dsn: str, platform: Platform, **order: Any) -> Iterator[int]:
        """Have one bot for the time of a block."""
        pid = self.spawn(dsn, platform, **order)
        try:
            yield pid
        finally:
            self.end(pid)

    def _ask(self, **order: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        said: dict[str, Any] = json.loads(self._process.stdout.readline())
        return said


@contextmanager
def fork_server(program: str = "tests.crash.child") -> Iterator[Forks]:
    process = subprocess.Popen(
        [sys.executable, "-m", program],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Forks(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


@dataclass(slots=True)
class World:
    """One database, one platform, and the bots that come and go."""

    forks: Forks
    dsn: str
    platform: Platform
    connection: "asyncpg.Connection[asyncpg.Record]"
    now_s: float = 0.0

    async def later(self, seconds: float = A_WHILE_S) -> None:
        """Let time pass, everywhere at once."""
        self.now_s += seconds
        self.platform.shift_s = self.now_s
        await self.connection.execute("update voidbot_test.clock set shift = shift + $1 * interval '1 s'", seconds)

    async def die_at(self, point: str, nth: int = 1, **order: Any) -> None:
        """Run a bot until it kills itself at a point."""
        await self.forks.killed(self.spawn(point=point, nth=nth, **order))

    def spawn(self, **order: Any) -> int:
        return self.forks.spawn(self.dsn, self.platform, skew_s=self.now_s, **order)

    async def finish(self, **order: Any) -> None:
        """Run a bot until nothing is left to do."""
        with self.forks.living(self.dsn, self.platform, skew_s=self.now_s, **order):
            await self.through()

    async def through(self) -> None:
        async def idle() -> bool:
            return not self.platform.pending and await self.connection.fetchval(LEFT) == 0

        await until(idle, PATIENCE_S)

    async def states(self) -> list[str]:
        """Return how each answer ended, in the order they were made."""
        return [row["state"] for row in await self.connection.fetch("select state from voidbot.outbox order by id")]

    async def value(self, sql: str, *args: object) -> Any:
        return await self.connection.fetchval(sql, *args)

    def answered_once(self, *tokens: str) -> bool:
        """Whether each question has exactly its own answer, once, and nothing else was said."""
        right = all(self.platform.answers(token) == [answer_to(token)] for token in tokens)
        return right and len(self.platform.messages) == len(tokens)


@asynccontextmanager
async def world(forks: Forks, dsn: str, platform: Platform) -> AsyncIterator[World]:
    async with platform:
        connection = await asyncpg.connect(dsn)
        try:
            yield World(forks, dsn, platform, connection)
        finally:
            await connection.close()
