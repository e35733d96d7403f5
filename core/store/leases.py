"""A worker's side of the queue: incarnations, cycles, heartbeats and ticks, on connections of their own."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self
from uuid import UUID

import asyncpg

from core.domain.errors import ClaimLost, Conflict, Unavailable
from core.domain.ids import JobId
from core.domain.jobs import FAIRNESS_PENALTY_S, Claim
from core.store.engine import Connection, Database, Row, database_errors
from core.store.jobs import Settlement

CHANNEL = "voidbot_queue"

_CYCLE = "select settled, (granted).* from queue.cycle($1, $2, $3, $4, $5)"
_REGISTER = "select queue.register($1, $2)"
_LEAVE = "delete from queue.worker where id = $1"
_BEAT = """
with alive as (update queue.worker set beat_at = voidbot.now() where id = $1 returning id)
select alive.id, l.job_id, l.attempt from alive
left join queue.lane l on l.worker = alive.id and l.state = 2 and l.cancel
"""
_LOST = "select lost, settled, (granted).* from queue.tick_lost($1, $2)"
_DEPTHS = """
select pool, (array['ready', 'running', 'waiting'])[state] as state, count(*) as lanes,
  coalesce(extract(epoch from voidbot.now()) - min(rank) filter (where state = 1), 0)::float8 as oldest_s
from queue.lane group by pool, state
"""
_WEAR = """
select (select n_dead_tup from pg_stat_user_tables where relid = 'queue.lane'::regclass)::float8 as lane_dead_tuples,
  (select coalesce(max(extract(epoch from voidbot.now() - xact_start)), 0) from pg_stat_activity
    where backend_xmin is not null and datname = current_database())::float8 as oldest_snapshot_seconds,
  (select count(*) from queue.done_rest)::float8 as done_rest_rows
"""


@dataclass(frozen=True, slots=True)
class Turnover:
    """What one cycle gave: results taken over, with the state of their jobs, and new grants."""

    settled: Mapping[JobId, str]
    granted: tuple[Claim, ...]


@dataclass(frozen=True, slots=True)
class Rescue:
    """What the ticker took back from workers that are gone. `spent` are its own now, to be buried."""

    lost: int
    spent: tuple[Claim, ...]


@contextmanager
def queue_errors() -> Iterator[None]:
    """Map what a worker's connection can raise: `Conflict` was rolled back, `ClaimLost` ends the incarnation.

    Everything else is `Unavailable`: the answer was lost or the server is gone, and nobody knows which.
    """
    try:
        with database_errors():
            yield
    except (ClaimLost, Conflict, Unavailable):
        raise
    except asyncpg.PostgresError as exc:
        if exc.sqlstate == "QW001":
            raise ClaimLost("worker: this incarnation is over") from exc
        raise Unavailable("queue: a statement failed", sqlstate=exc.sqlstate) from exc
    except asyncpg.InterfaceError as exc:
        raise Unavailable("queue: connection lost") from exc


class Incarnation:
    """One life of a worker under one random id, on two connections of its own.

    `cycle` commits without waiting for the disk: a grant or a result that a crash of the server loses is
    repeated, and the fence refuses what still carries the old one. Registering waits.
    """

    def __init__(self, cycle: Connection, pulse: Connection, worker: UUID) -> None:
        self.worker = worker
        self._cycle = cycle
        self._pulse = pulse

    @classmethod
    async def open(cls, database: Database, info: Mapping[str, object], predecessor: UUID | None) -> Self:
        """Connect and register a new incarnation; the predecessor's grants are given up.

        Raises:
            Unavailable: The server does not answer.
        """
        opened: list[Connection] = []
        try:
            with queue_errors():
                opened.append(await database.connect())
                opened.append(await database.connect())
                await opened[0].execute("set synchronous_commit = off")
                worker: UUID = await opened[1].fetchval(_REGISTER, dict(info), predecessor)
        except BaseException:
            for connection in opened:
                connection.terminate()
            raise
        return cls(opened[0], opened[1], worker)

    def close(self) -> None:
        """Drop both connections at once: whatever they still do is fenced."""
        self._cycle.terminate()
        self._pulse.terminate()

    async def cycle(self, results: Sequence[Settlement], free: Mapping[str, int]) -> Turnover:
        """Settle `results`, then claim up to `free` jobs of each pool, in one commit.

        Raises:
            Conflict: Rolled back; try again with the same results.
            ClaimLost, Unavailable: The incarnation is over.
        """
        with queue_errors():
            rows = await self._cycle.fetch(
                _CYCLE,
                self.worker,
                [result.as_row() for result in results],
                list(free),
                list(free.values()),
                FAIRNESS_PENALTY_S,
            )
        return Turnover(
            {JobId(row["job_id"]): row["settled"] for row in rows if row["settled"] is not None},
            tuple(_claim(row, self.worker) for row in rows if row["settled"] is None),
        )

    async def beat(self) -> list[tuple[JobId, int]]:
        """Say that the incarnation lives; return which of its claims are asked to stop.

        Raises:
            ClaimLost: It was declared dead.
        """
        with queue_errors():
            rows = await self._pulse.fetch(_BEAT, self.worker)
        if not rows:
            raise ClaimLost("worker: this incarnation is over")
        return [(JobId(row["job_id"]), row["attempt"]) for row in rows if row["job_id"] is not None]

    async def tick_due(self) -> int:
        """Move delayed jobs whose time has come; return how many."""
        return await self._count("select queue.tick_due(1000)")

    async def tick_waiting(self) -> int:
        """Make waiting lanes ready whose time has come; return how many."""
        return await self._count("select queue.tick_waiting(1000)")

    async def tick_lost(self, dead_after_s: float) -> Rescue:
        """Take back the lanes of workers not heard of for `dead_after_s`."""
        with queue_errors():
            rows = await self._pulse.fetch(_LOST, self.worker, dead_after_s)
        spent = tuple(_claim(row, self.worker) for row in rows if row["job_id"] is not None)
        return Rescue(len(rows), spent)

    async def reconcile(self) -> int:
        """Signal jobs that nothing points to; return in how many lanes. Not 0 is a bug."""
        return await self._count("select queue.reconcile()")

    async def depths(self) -> list[tuple[str, str, int, float]]:
        """Return (pool, state, lanes, seconds the longest-waiting one is past its rank)."""
        with queue_errors():
            rows = await self._pulse.fetch(_DEPTHS)
        return [(row["pool"], row["state"], row["lanes"], row["oldest_s"]) for row in rows]

    async def wear(self) -> Mapping[str, float]:
        """Return what wears the hot tables, by metric: dead entries, the oldest snapshot, misplaced rows."""
        with queue_errors():
            row = await self._pulse.fetchrow(_WEAR)
        return {} if row is None else dict(row)

    async def count_workers(self) -> int:
        """Return how many incarnations are registered in this database."""
        return await self._count("select count(*) from queue.worker")

    async def leave(self) -> None:
        """End the incarnation; what it still holds is taken back by the next tick of any worker."""
        with queue_errors():
            await self._pulse.execute(_LEAVE, self.worker)

    async def _count(self, sql: str) -> int:
        with queue_errors():
            count: int = await self._pulse.fetchval(sql)
        return count


def _claim(row: Row, worker: UUID) -> Claim:
    return Claim(
        id=JobId(row["job_id"]),
        lane=row["lane"],
        attempt=row["attempt"],
        worker=worker,
        pool=row["pool"],
        kind=row["kind"],
        community_id=row["community_id"],
        room_id=row["room_id"],
        person_id=row["person_id"],
        trace=row["trace"],
        payload=row["payload"],
        max_attempts=row["max_attempts"],
        snoozed=row["snoozed"],
        created_at=row["created_at"],
        due_at=row["due_at"],
        granted_at=row["granted_at"],
    )
