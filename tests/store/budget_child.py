"""A process that spends and is killed: it forks once for each point, and the fork kills itself there.

Reads a line from stdin before each point and answers `killed <point>`, or `finished` once no point is left.
"""

import asyncio
import os
import signal
import sys
from datetime import datetime

from core.domain.budgets import CallResult, Draw, UsageRow
from core.store import budgets
from core.store.engine import Database, Row, Tx


class Fuse:
    """Counts points; SIGKILL at the chosen one."""

    def __init__(self, point: int) -> None:
        self.left = point

    def __call__(self) -> None:
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1


class FusedTx(Tx):
    """A transaction with a point before and after each statement."""

    __slots__ = ("_fuse", "_real")

    def __init__(self, real: Tx, fuse: Fuse) -> None:
        self._real = real
        self._fuse = fuse

    async def fetch(self, sql: str, *args: object) -> list[Row]:
        self._fuse()
        rows = await self._real.fetch(sql, *args)
        self._fuse()
        return rows

    async def fetchrow(self, sql: str, *args: object) -> Row | None:
        rows = await self.fetch(sql, *args)
        return rows[0] if rows else None

    async def fetchval(self, sql: str, *args: object) -> object:
        row = await self.fetchrow(sql, *args)
        return None if row is None else row[0]


async def spend(dsn: str, ids: tuple[int, int, int], now: datetime, point: int) -> None:
    """Reserve four calls and end each in another way: settled, released, failed, expired and settled late."""
    person_id, room_id, community_id = ids
    draw = Draw(person_id=person_id, room_id=room_id, community_id=community_id, tokens=100, usd_micro=1000, answers=1)
    fuse = Fuse(point)
    database = await Database.open(dsn, size=1)

    async def reserve(job_id: int, timeout_s: float) -> int:
        async with database.transaction() as tx:
            held = await budgets.reserve(
                FusedTx(tx, fuse), draw, job_id=job_id, attempt=1, timeout_s=timeout_s, now=now
            )
        fuse()
        return held.id

    async def settle(reservation_id: int, result: CallResult) -> None:
        usage = UsageRow(job_id=1, attempt=1, purpose="reply", input_tokens=60, usd_micro=600, result=result)
        async with database.transaction() as tx:
            await budgets.settle_usage(FusedTx(tx, fuse), reservation_id, usage)
        fuse()

    await settle(await reserve(1, 90), CallResult.OK)
    released = await reserve(2, 90)
    async with database.transaction() as tx:
        await budgets.release(FusedTx(tx, fuse), released)
    fuse()
    await settle(await reserve(3, 90), CallResult.FAILED)
    late = await reserve(4, -1000)
    async with database.transaction() as tx:
        await budgets.expire(FusedTx(tx, fuse))
    fuse()
    await settle(late, CallResult.DISCARDED)
    await settle(point + 1, CallResult.OK)  # one that a crash of the server took
    await database.close()


def main() -> None:
    dsn, *numbers, at = sys.argv[1:]
    person_id, room_id, community_id = map(int, numbers)
    point = 0
    while sys.stdin.readline():
        child = os.fork()
        if child == 0:
            asyncio.run(spend(dsn, (person_id, room_id, community_id), datetime.fromisoformat(at), point))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print(f"killed {point}" if killed else "finished" if status == 0 else f"failed {status}", flush=True)
        point += 1


if __name__ == "__main__":
    main()
