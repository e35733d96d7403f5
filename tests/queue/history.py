"""Q1: everything that happens to jobs, as rows, and the checker that reads them back."""

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise

from pydantic import BaseModel, ConfigDict

from core.domain.ids import JobId
from core.domain.jobs import Discard, NewJob, Ok, Outcome, Retry, Snooze
from core.jobs.executor import AnyKind, JobContext, Kind
from core.store import jobs
from core.store.engine import Database, Tx

# Grants and releases are written by a trigger in the transaction that makes them: the row lock of the lane
# gives them an order that no clock is asked for.
INSTALL = """
create table voidbot_test.history (seq bigint generated always as identity, what text not null, lane text not null,
  job_id bigint not null, attempt integer not null, worker uuid,
  xid xid8 not null default pg_current_xact_id(), seen text);
create table voidbot_test.effects (seq bigint generated always as identity, job_id bigint not null,
  lane text not null, attempt integer not null);
create function voidbot_test.log_lane() returns trigger language plpgsql as $$
begin
  if tg_op <> 'INSERT' and old.state = 2 and (tg_op = 'DELETE' or new.state <> 2 or new.worker <> old.worker) then
    insert into voidbot_test.history (what, lane, job_id, attempt, worker)
      values ('release', old.lane, old.job_id, old.attempt, old.worker);
  end if;
  if tg_op <> 'DELETE' and new.state = 2 and (tg_op = 'INSERT' or old.state <> 2 or new.worker <> old.worker) then
    insert into voidbot_test.history (what, lane, job_id, attempt, worker)
      values (case when tg_op = 'UPDATE' and old.state = 2 then 'adopt' else 'grant' end, new.lane, new.job_id,
        new.attempt, new.worker);
  end if;
  return null;
end $$;
create trigger log_lane after insert or update or delete on queue.lane
  for each row execute function voidbot_test.log_lane();
"""
_LOG = "insert into voidbot_test.history (what, lane, job_id, attempt, worker) values ($1, $2, $3, $4, $5)"
_ENQUEUED = "insert into voidbot_test.history (what, lane, job_id, attempt, seen) values ('enqueue', $1, $2, 0, $3)"
_EFFECT = "insert into voidbot_test.effects (job_id, lane, attempt) values ($1, $2, $3)"
# Two transactions that enqueue in one lane at the same time may commit in either order; every other order holds.
_OVERTAKEN = """
select one.job_id, two.job_id as before from voidbot_test.history one
join voidbot_test.history two on two.lane = one.lane and two.what = 'enqueue' and two.job_id <> one.job_id
  and case when one.xid = two.xid then one.job_id < two.job_id  -- a snapshot does not list its own transaction
    else pg_visible_in_snapshot(one.xid, two.seen::pg_snapshot) end
join voidbot_test.effects first on first.job_id = one.job_id
join voidbot_test.effects second on second.job_id = two.job_id
where one.what = 'enqueue' and first.seq > second.seq
"""


class Task(BaseModel):
    """What a recorded job does: how it ends its first attempt, and how many follow it."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    v: int = 1
    first: str = "finish"
    follow: int = 0


async def install(database: Database) -> None:
    async with database.transaction() as tx:
        await tx.execute(INSTALL)


async def log(tx: Tx, what: str, ctx: JobContext) -> None:
    claim = ctx.job
    await tx.execute(_LOG, what, claim.lane, claim.id, claim.attempt, claim.worker)


def recorded_kind(database: Database, *, yields: bool = False) -> AnyKind:
    """The kind whose every step is written down. Its effect is one row that commits with its end."""

    async def run(ctx: JobContext, task: Task) -> Outcome:
        async with database.transaction(durable=False) as tx:
            await log(tx, "start", ctx)
        if ctx.attempt == 1 and task.first in ("retry", "snooze"):
            return Retry(0.0, "as told") if task.first == "retry" else Snooze(0.0)
        match task.first:
            case "plain":
                return Ok()
            case "discard":
                return Discard("as told")

        async def work(tx: Tx) -> None:
            await tx.execute(_EFFECT, ctx.job.id, ctx.job.lane, ctx.attempt)
            if task.follow:
                await add(tx, [recorded(ctx.job.lane, follow=task.follow - 1)])

        await ctx.finish(work, durable=False)
        async with database.transaction(durable=False) as tx:
            await log(tx, "acknowledged", ctx)
        return Ok()

    return Kind(name="recorded", pool="chat", payload=Task, run=run, max_attempts=100, yields=yields)


def recorded(lane: str, first: str = "finish", follow: int = 0, **more: object) -> NewJob:
    return NewJob(
        kind="recorded",
        lane=lane,
        pool="chat",
        payload={"v": 1, "first": first, "follow": follow},
        max_attempts=100,
        community_id=sum(map(ord, lane)) % 3,
        **more,  # type: ignore[arg-type]  # a test's shorthand
    )


async def add(tx: Tx, new: list[NewJob]) -> list[JobId | None]:
    """Enqueue, and write that down in the same transaction, with what it saw before."""
    seen = await tx.fetchval("select pg_current_snapshot()::text")
    ids = await jobs.enqueue(tx, new)
    for each, job_id in zip(new, ids, strict=True):
        if job_id is not None:
            await tx.execute(_ENQUEUED, each.lane, job_id, seen)
    return ids


async def add_backlog(database: Database, lanes: int, each: int) -> None:
    """Queue `each` jobs in each of some lanes, of every sort."""
    sorts = ("finish", "retry", "plain", "snooze")
    async with database.transaction() as tx:
        for nth in range(each):
            sort = sorts[nth % len(sorts)]
            await add(tx, [recorded(f"lane:{lane}", sort, follow=nth % 2) for lane in range(lanes)])


async def drained(database: Database) -> bool:
    async with database.transaction() as tx:
        empty = await tx.fetchval(
            "select not exists (select from queue.job) and not exists (select from queue.later) "
            "and not exists (select from queue.lane)"
        )
    return bool(empty)


@dataclass(frozen=True)
class Event:
    what: str
    lane: str
    job_id: int
    attempt: int
    worker: str


async def check(database: Database) -> None:
    """Read the whole history of a drained queue and assert what must hold of it."""
    async with database.transaction() as tx:
        events = [
            Event(row["what"], row["lane"], row["job_id"], row["attempt"], str(row["worker"]))
            for row in await tx.fetch("select * from voidbot_test.history order by seq")
        ]
        done = await tx.fetch("select id, lane, outcome, attempt from queue.done")
        effects = await tx.fetch("select job_id, attempt from voidbot_test.effects order by seq")
        overtaken = await tx.fetch(_OVERTAKEN)
        left = await tx.fetchval("select count(*) from queue.key where scope < 3")
        found = await tx.fetchval("select queue.reconcile()")
    assert (left, found) == (0, 0)
    _every_job_ends_once(events, [(row["id"], row["outcome"]) for row in done])
    _leases_of_a_lane_never_overlap(events)
    _grants_are_unique_and_count_up(events, {row["id"]: row["attempt"] for row in done})
    _effects_happen_once(events, [(row["job_id"], row["attempt"]) for row in effects])
    assert overtaken == []


def _every_job_ends_once(events: list[Event], done: list[tuple[int, str]]) -> None:
    queued = sorted(event.job_id for event in events if event.what == "enqueue")
    assert sorted(job_id for job_id, _ in done) == queued
    assert {outcome for _, outcome in done} <= {"done", "cancelled"}


def _leases_of_a_lane_never_overlap(events: list[Event]) -> None:
    leases: dict[str, list[str]] = defaultdict(list)
    for event in events:
        if event.what in ("grant", "adopt", "release"):
            leases[event.lane].append("release" if event.what == "release" else "grant")
    for steps in leases.values():
        assert steps[0] == "grant"
        assert all(one != two for one, two in pairwise(steps))


def _grants_are_unique_and_count_up(events: list[Event], last: dict[int, int]) -> None:
    grants: dict[int, list[int]] = defaultdict(list)
    for event in events:
        if event.what == "grant":
            grants[event.job_id].append(event.attempt)
    for job_id, attempts in grants.items():
        assert attempts == list(range(1, len(attempts) + 1)), job_id
        assert last[job_id] == attempts[-1]
    starts = [(event.job_id, event.attempt) for event in events if event.what == "start"]
    assert len(starts) == len(set(starts))


def _effects_happen_once(events: list[Event], effects: list[tuple[int, int]]) -> None:
    by_job = dict(effects)
    assert len(by_job) == len(effects)
    for event in events:
        if event.what == "acknowledged":
            assert by_job[event.job_id] == event.attempt
