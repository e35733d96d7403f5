"""The queue's SQL, called in the caller's transaction, and for operators. A worker's own side: `leases.py`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never
from uuid import UUID

from core.domain.errors import ClaimLost
from core.domain.ids import JobId
from core.domain.jobs import (
    Cancel,
    Cancelled,
    Claim,
    Dead,
    Discard,
    JobState,
    NewJob,
    Ok,
    Outcome,
    Requeued,
    Retry,
    Snooze,
)
from core.store.engine import Database, Row, Tx

_ENQUEUE = "select nth, id from queue.enqueue($1)"
_HOLD = """
select 1 from queue.lane where lane = $1 and job_id = $2 and attempt = $3 and worker = $4 and state + 0 = 2 for update
"""
_SETTLE = "select job_id, outcome from queue.settle($1, $2)"
_SHOW = "select * from queue.jobs where id = $1 order by finished_at desc nulls first limit 1"
_LIST = """
select * from queue.jobs
where ($1::text is null or state = $1) and ($2::text is null or kind = $2) and ($3::text is null or lane = $3)
  and ($4::bigint is null or person_id = $4) and ($5::bigint is null or room_id = $5)
order by created_at desc, id desc limit $6
"""
_AUDIT = "insert into voidbot.audit (actor, act, details) values ($1, 'jobs.requeue', $2)"


@dataclass(frozen=True, slots=True)
class Settlement:
    """How a run ended, on its way to the queue. `outcome` is the word that the SQL knows."""

    claim: Claim
    outcome: str
    delay_s: float = 0.0
    error: str | None = None

    def as_row(self) -> dict[str, object]:
        """Return it as `queue.settle` reads it."""
        return {
            "lane": self.claim.lane,
            "job_id": self.claim.id,
            "attempt": self.claim.attempt,
            "outcome": self.outcome,
            "delay": self.delay_s,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInWords:
    """One job as operators see it. `why`: what it waits for, or the error that ended it."""

    id: JobId
    state: JobState
    kind: str
    lane: str
    pool: str
    place: int | None
    community_id: int
    room_id: int | None
    person_id: int | None
    trace: str
    created_at: datetime
    due_at: datetime
    attempt: int
    max_attempts: int | None
    next_try: datetime | None
    worker: UUID | None
    granted_at: datetime | None
    finished_at: datetime | None
    why: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolStats:
    """Figures of one kind in one pool; seconds, and shares of the last hour. None: nothing ended in it."""

    pool: str
    kind: str
    ready: int
    running: int
    waiting: int
    later: int
    dead: int
    oldest_wait: float
    finished_per_minute: float
    failed_per_minute: float
    wait_p50: float | None
    wait_p95: float | None
    run_p50: float | None
    run_p95: float | None


async def enqueue(tx: Tx, jobs: Sequence[NewJob]) -> list[JobId | None]:
    """Queue jobs in the caller's transaction; workers hear of them after its commit.

    Returns:
        An id for each, in order; None where the key is taken, so that nothing was queued.
    """
    if not jobs:
        return []
    ids: list[JobId | None] = [None] * len(jobs)
    for row in await tx.fetch(_ENQUEUE, [_as_row(job) for job in jobs]):
        ids[row["nth"] - 1] = JobId(row["id"])
    for in_s in {job.due_in_s for job in jobs}:
        tx.wake_workers(in_s)
    return ids


def _as_row(job: NewJob) -> dict[str, object]:
    return {
        "lane": job.lane,
        "pool": job.pool,
        "community_id": job.community_id,
        "kind": job.kind,
        "head_start": job.head_start_s,
        "due_in": job.due_in_s,
        "max_attempts": job.max_attempts,
        "yields": job.yields,
        "key": job.key,
        "scope": 0 if job.scope is None else int(job.scope),
        "room_id": job.room_id,
        "person_id": job.person_id,
        "trace": job.trace,
        "payload": dict(job.payload),
    }


async def hold(tx: Tx, claim: Claim) -> None:
    """Lock the claim's lane until the transaction ends; the first statement of whatever acts for a job.

    Raises:
        ClaimLost: The claim is over; write nothing.
    """
    if await tx.fetchval(_HOLD, claim.lane, claim.id, claim.attempt, claim.worker) is None:
        raise ClaimLost("job: the claim is over", job=claim.id, attempt=claim.attempt)


async def settle(tx: Tx, claim: Claim, outcome: Outcome | Dead) -> None:
    """End the claim together with its effects.

    Raises:
        ClaimLost: The claim is over; roll back.
    """
    settlement = settlement_of(claim, outcome)
    if await tx.fetchrow(_SETTLE, claim.worker, [settlement.as_row()]) is None:
        raise ClaimLost("job: the claim is over", job=claim.id, attempt=claim.attempt)


def settlement_of(claim: Claim, outcome: Outcome | Dead) -> Settlement:
    """Return the outcome in the queue's words; a `Retry` without a delay is due at once."""
    match outcome:
        case Ok():
            return Settlement(claim, "ok")
        case Retry(after_s, reason):
            return Settlement(claim, "retry", after_s or 0.0, _kept(reason))
        case Snooze(after_s):
            return Settlement(claim, "snooze", after_s)
        case Cancel(reason):
            return Settlement(claim, "cancel", 0.0, _kept(reason))
        case Discard(reason):
            return Settlement(claim, "discard", 0.0, _kept(reason))
        case Dead(reason):
            return Settlement(claim, "dead", 0.0, _kept(reason))
    assert_never(outcome)


def _kept(reason: str) -> str:
    # A reason that Postgres could not store would end the incarnation of whoever reports it.
    return reason.encode("utf-8", "replace").decode().replace("\0", "")[:500]


async def cancel(database: Database, job_id: JobId) -> Cancelled:
    """Cancel one job in a short transaction of its own: a pending one at once, a running one is asked to stop."""
    async with database.transaction() as tx:
        return Cancelled(await tx.fetchval("select queue.cancel($1)", job_id))


async def requeue(tx: Tx, job_id: JobId, by: str) -> Requeued:
    """Let a dead job start anew under its id, with an audit row that names `by`."""
    answer = Requeued(await tx.fetchval("select queue.requeue($1)", job_id))
    if answer is Requeued.REQUEUED:
        await tx.execute(_AUDIT, by, {"job": job_id})
        tx.wake_workers()
    return answer


async def show(tx: Tx, job_id: JobId) -> JobInWords | None:
    """Return one job in words; None if it is not known any more."""
    row = await tx.fetchrow(_SHOW, job_id)
    return None if row is None else _in_words(row)


async def list_jobs(
    tx: Tx,
    *,
    state: JobState | None = None,
    kind: str | None = None,
    lane: str | None = None,
    person_id: int | None = None,
    room_id: int | None = None,
    limit: int = 50,
) -> list[JobInWords]:
    """Return jobs in words, newest first; None does not restrict."""
    rows = await tx.fetch(_LIST, state, kind, lane, person_id, room_id, limit)
    return [_in_words(row) for row in rows]


def _in_words(row: Row) -> JobInWords:
    values = dict(row)
    values["state"] = JobState(values["state"])
    return JobInWords(**values)


async def stats(tx: Tx) -> list[PoolStats]:
    """Return the figures of every pool and kind that has jobs or ended some in the last hour."""
    return [PoolStats(**dict(row)) for row in await tx.fetch("select * from queue.stats()")]


_OLDEST_READY = """
select extract(epoch from voidbot.now() - min(head.due_at)) from queue.lane l
cross join lateral (select j.due_at from queue.job j where j.lane = l.lane order by j.place limit 1) head
where l.state = 1 and l.pool in (select jsonb_array_elements_text(info -> 'pools') from queue.worker)"""


async def oldest_ready_s(tx: Tx) -> float | None:
    """Return how long the oldest job that could run now has been due, in pools that a worker serves."""
    age = await tx.fetchval(_OLDEST_READY)
    return None if age is None else float(age)


async def youngest_beat_s(tx: Tx) -> float | None:
    """Return the seconds since any worker last gave a sign of life; None if there is none."""
    age = await tx.fetchval("select extract(epoch from voidbot.now() - max(beat_at)) from queue.worker")
    return None if age is None else float(age)


async def keep_house(tx: Tx, *, done_days: int = 30, dead_days: int = 90, slot_days: int = 400) -> Mapping[str, int]:
    """Make the partitions of the coming week, drop what is older than its time; return what was removed."""
    await tx.fetchval("select queue.add_partitions(7)")
    row = await tx.fetchrow("select * from queue.expire($1, $2, $3)", done_days, dead_days, slot_days)
    if row is None:
        raise AssertionError("queue.expire returns one row")
    rest = await tx.fetchval("select count(*) from queue.done_rest")
    return {**dict(row), "done_rest": rest}
