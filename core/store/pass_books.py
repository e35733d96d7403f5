"""The books of unattended work: what runs counted, what the operator should hear of, and what is kept no longer."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from core.domain.ids import MessageId
from core.domain.passes import PassName, Phase
from core.domain.tidying import Earlier
from core.store.engine import Tx
from core.store.passes import KEEP_RUNS

KEEP_IDLE_RUNS = timedelta(days=14)
"""How long runs are kept that did nothing, and the many of the mood."""
LATELY = timedelta(days=1)
"""How long a failed run is news."""

_COUNTED = """
select p.finished_at, p.counts from voidbot.pass_runs r join voidbot.pass_phases p on p.run_id = r.id
where r.mind_id = $1 and r.pass = $2 and r.mode <> 'dry_run' and p.phase = $3 and p.outcome = 'advance'
order by r.id desc limit $4"""
_FAILED = """
select count(*) from voidbot.pass_runs
where mind_id = $1 and state = 'failed' and finished_at > voidbot.now() - $2::interval"""
_QUARANTINED = """
select coalesce(sum(jsonb_array_length(body->'quarantined')), 0)::bigint from voidbot.state_entries
where mind_id = $1 and type = 'cursor' and retired_at is null and body ? 'quarantined'"""
_DEAD = """
select count(*) from queue.dead d join voidbot.communities c on c.id = d.community_id where c.mind_id = $1"""
# Any number may do this side by side: what another one holds is left to it.
_EXPIRED = """
delete from voidbot.pass_artifacts where (run_id, name) in (
    select run_id, name from voidbot.pass_artifacts where expires_at <= voidbot.now()
    order by run_id, name limit $1 for update skip locked)"""
_OLD = """
delete from voidbot.pass_runs where id in (
    select id from voidbot.pass_runs where finished_at <= voidbot.now() - $1::interval
      and (finished_at <= voidbot.now() - $2::interval or state = 'skipped' or pass = 'mood')
    order by id limit $3 for update skip locked)"""
_HOLDING = """
select r.mind_id, m.id as message from voidbot.pass_artifacts a join voidbot.pass_runs r on r.id = a.run_id
cross join unnest(a.messages) m(id) where a.messages && $1::bigint[] and m.id = any($1::bigint[])
group by 1, 2 order by 1, 2"""
_FORGET = """
with found as (
    select a.run_id, a.name, r.state in ('ready', 'running', 'waiting') as active
    from voidbot.pass_artifacts a join voidbot.pass_runs r on r.id = a.run_id
    where a.messages && $2::bigint[] and r.mind_id = $1),
gone as (
    delete from voidbot.pass_artifacts a using found f
    where a.run_id = f.run_id and a.name = f.name and not f.active)
select count(*) filter (where not active) as gone, count(*) filter (where active) as waiting from found"""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What runs saved of some messages. `waiting`: of runs that are still on, which go on with it."""

    gone: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Health:
    """What an operator should hear of: runs that failed lately, messages set aside, jobs given up."""

    failed_runs: int
    quarantined: int
    dead_jobs: int


async def list_counts(tx: Tx, mind_id: str, name: PassName, phase: Phase, limit: int) -> list[Earlier]:
    """Return what earlier runs of a pass counted in a phase that went well, newest first; trials are left out."""
    rows = await tx.fetch(_COUNTED, mind_id, name.value, phase.value, limit)
    return [Earlier(row["finished_at"], row["counts"]) for row in rows]


async def find_health(tx: Tx, mind_id: str) -> Health:
    """Return how the unattended work of a mind is."""
    return Health(
        failed_runs=await tx.fetchval(_FAILED, mind_id, LATELY),
        quarantined=await tx.fetchval(_QUARANTINED, mind_id),
        dead_jobs=await tx.fetchval(_DEAD, mind_id),
    )


async def drop_saved(tx: Tx, limit: int = 1000) -> int:
    """Delete what runs saved once its time is over, whatever is paused; return how much."""
    return await tx.execute(_EXPIRED, limit)


async def prune(tx: Tx, limit: int) -> int:
    """Delete runs that are kept no longer, with their phases; return how many."""
    return await tx.execute(_OLD, KEEP_IDLE_RUNS, KEEP_RUNS, limit)


async def list_holding(tx: Tx, messages: Sequence[MessageId]) -> list[tuple[str, MessageId]]:
    """Return which minds' runs saved something with words of which of these messages."""
    return [(row["mind_id"], MessageId(row["message"])) for row in await tx.fetch(_HOLDING, list(messages))]


async def forget(tx: Tx, mind_id: str, messages: Sequence[int]) -> Forgotten:
    """Delete what a mind's runs saved with words of these messages, of runs that are over."""
    row = await tx.fetchrow(_FORGET, mind_id, list(messages))
    return Forgotten(0, 0) if row is None else Forgotten(row["gone"], row["waiting"])
