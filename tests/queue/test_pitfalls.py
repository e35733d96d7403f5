"""What goes wrong in queues like this one, one test for each rule against it. 1, 2 and 11: test_interleavings."""

import asyncio
import random
import re
from collections import Counter
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from core.domain.errors import ClaimLost, Conflict
from core.domain.jobs import Claim, GaveUp, KeyScope, NewJob, Ok, Outcome, Retry
from core.jobs.executor import JobContext
from core.jobs.notifier import Notifier
from core.store import jobs
from core.store.engine import Database, Tx
from core.store.jobs import settlement_of
from tests.fakes import ManualClock
from tests.queue.harness import (
    Nothing,
    at_work,
    claim,
    fetch,
    incarnation,
    job,
    kind,
    put,
    state_of,
    until,
    until_state,
    value,
    worker,
)

SECOND = timedelta(seconds=1)
QUEUE_SQL = Path(__file__).parents[2] / "migrations" / "sql" / "queue.sql"


async def test_pitfall_04_an_attempt_handed_out_twice_is_still_fenced(database: Database) -> None:
    await put(database, job())
    async with incarnation(database) as before, incarnation(database) as after:
        [lost] = await claim(before)
        async with database.transaction() as tx:  # what a crash of the server does to an unflushed claim
            await tx.execute("update queue.lane set state = 1, worker = null, job_id = null, attempt = 0")
        [again] = await claim(after)
        assert (again.id, again.attempt) == (lost.id, lost.attempt)
        assert (await before.cycle([settlement_of(lost, Ok())], {})).settled == {}
        assert (await after.cycle([settlement_of(again, Ok())], {})).settled == {again.id: "done"}


async def test_pitfall_05_a_pinned_head_stays_when_an_earlier_place_commits(database: Database, fresh_dsn: str) -> None:
    slow = await asyncpg.connect(fresh_dsn)
    await slow.execute("begin")
    await slow.execute("insert into queue.job (lane, pool, kind) values ('lane', 'chat', 'early')")
    await slow.execute("insert into queue.signal (lane) values ('lane')")
    [second] = await put(database, job())
    async with incarnation(database) as opened:
        [granted] = await claim(opened)
        assert granted.id == second
        await slow.execute("commit")
        await opened.cycle([settlement_of(granted, Retry(0.0, "again"))], {})
        [again] = await claim(opened)
    await slow.close()
    assert again.id == second


async def test_pitfall_06_every_planned_function_pins_its_plans(database: Database) -> None:
    rows = await fetch(
        database,
        "select proname, proconfig from pg_proc where pronamespace = 'queue'::regnamespace and proname = any($1)",
        ["enqueue", "promote", "pick", "grant_slots", "settle", "next_head", "cancel", "tick_due", "tick_lost"],
    )
    assert len(rows) == 9
    for row in rows:
        assert {"enable_seqscan=off", "enable_hashjoin=off", "enable_mergejoin=off"} <= set(row["proconfig"])


async def test_pitfall_07_notifications_are_debounced_and_never_in_sql(database: Database, fresh_dsn: str) -> None:
    assert "notify" not in re.sub(r"--.*", "", QUEUE_SQL.read_text()).lower()
    heard: list[str] = []
    listener = await asyncpg.connect(fresh_dsn)
    await listener.add_listener("voidbot_queue", lambda *_: heard.append("heard"))
    notifier = Notifier(database)
    task = asyncio.get_running_loop().create_task(notifier.run())

    async def something() -> bool:
        notifier.wake()
        return bool(heard)

    await until(something)
    before = len(heard)
    for _ in range(500):
        notifier.wake()

    async def more() -> bool:
        return len(heard) > before

    await until(more)
    task.cancel()
    await listener.close()
    assert len(heard) - before < 10


async def test_pitfall_08_a_heartbeat_without_a_row_ends_the_incarnation(database: Database) -> None:
    attempts: list[int] = []
    cancelled = asyncio.Event()

    async def run(ctx: JobContext, _: Nothing) -> Outcome:
        attempts.append(ctx.attempt)
        if ctx.attempt == 1:
            async with database.transaction() as tx:
                await tx.execute("delete from queue.worker")
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
        return Ok()

    async with at_work(worker(database, kind(run), dead_after_s=2.0)):
        [job_id] = await put(database, job())
        await until_state(database, job_id, "done")
    assert cancelled.is_set()
    assert attempts == [1, 2]


async def test_pitfall_09_a_job_that_kills_its_workers_is_buried(database: Database) -> None:
    told: list[tuple[str, GaveUp]] = []

    async def words(tx: Tx, ended: Claim, why: GaveUp) -> None:
        told.append((ended.lane, why))

    [job_id] = await put(database, job(max_attempts=2))
    for _ in range(2):
        async with incarnation(database) as killed:
            await claim(killed)
        async with database.transaction() as tx:
            await tx.execute("delete from queue.worker")
        if _ == 0:
            async with incarnation(database) as other:
                await other.tick_lost(60.0)
    async with at_work(worker(database, pools={"other": 1}, on_give_up=words)):
        await until_state(database, job_id, "dead")
    assert await value(database, "select error from queue.dead") == "worker_lost"
    assert [lane for lane, _ in told] == ["lane"]


async def test_pitfall_10_only_lanes_with_signals_are_share_locked(database: Database, fresh_dsn: str) -> None:
    await put(database, job("quiet"), job("busy"))
    claimer, other = await asyncpg.connect(fresh_dsn), await asyncpg.connect(fresh_dsn)
    await claimer.execute("select queue.promote()")
    await put(database, job("busy"))
    await claimer.execute("begin")
    await claimer.execute("select queue.promote()")
    lock = "select lane from queue.lane order by lane for update skip locked"
    assert [row["lane"] for row in await other.fetch(lock)] == ["quiet"]
    await claimer.close()
    await other.close()


@pytest.mark.parametrize(
    ("scope", "while_pending", "while_running", "afterwards"),
    [(KeyScope.PENDING, False, True, True), (KeyScope.LIVE, False, False, True), (KeyScope.EVER, False, False, False)],
)
async def test_pitfall_12_the_three_scopes_of_a_key(
    database: Database, scope: KeyScope, while_pending: bool, while_running: bool, afterwards: bool
) -> None:
    async def taken_in() -> bool:
        async with database.transaction() as tx:
            [job_id] = await jobs.enqueue(tx, [job("probe", key="k", scope=scope)])
            if job_id is not None:
                await tx.execute("delete from queue.job where id = $1", job_id)
                await tx.execute("delete from queue.key where job_id = $1", job_id)
        return job_id is not None

    await put(database, job(key="k", scope=scope))
    assert await taken_in() == while_pending
    async with incarnation(database) as opened:
        [granted] = await claim(opened)
        assert await taken_in() == while_running
        await opened.cycle([settlement_of(granted, Ok())], {})
    assert await taken_in() == afterwards


async def test_pitfall_12_a_key_without_scope_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a scope"):
        NewJob(kind="work", lane="lane", pool="chat", key="k")


async def test_pitfall_12_a_pending_job_waits_for_those_who_lean_on_it(database: Database) -> None:
    [job_id] = await put(database, job(key="k", scope=KeyScope.PENDING))
    async with incarnation(database) as opened:
        async with database.transaction() as tx:
            assert await jobs.enqueue(tx, [job(key="k", scope=KeyScope.PENDING)]) == [None]
            assert await claim(opened) == []
        [granted] = await claim(opened)
    assert granted.id == job_id


async def test_pitfall_13_lanes_are_narrow_and_eagerly_vacuumed(database: Database) -> None:
    options = await value(database, "select reloptions from pg_class where oid = 'queue.lane'::regclass")
    assert {"fillfactor=60", "autovacuum_vacuum_scale_factor=0", "autovacuum_vacuum_cost_delay=0"} <= set(options)


async def test_pitfall_14_a_forgotten_transaction_is_ended_and_old_snapshots_are_seen(
    database: Database, fresh_dsn: str
) -> None:
    assert await value(database, "show idle_in_transaction_session_timeout") == "15s"
    old = await asyncpg.connect(fresh_dsn)
    await old.execute("begin isolation level repeatable read")
    await old.execute("select 1 from queue.lane")
    async with incarnation(database) as opened:

        async def seen() -> bool:
            return (await opened.wear())["oldest_snapshot_seconds"] > 0

        await until(seen)
    await old.close()


async def test_pitfall_15_a_claim_that_is_read_too_late_is_dropped(database: Database) -> None:
    clock = ManualClock()
    paused: list[str] = []

    def pause(point: str) -> None:
        if point == "cycle.after" and not paused:
            paused.append(point)
            clock._shift += dead_after / 2 * SECOND * 1.1

    dead_after = 5.0
    starts: list[int] = []

    async def run(ctx: JobContext, _: Nothing) -> Outcome:
        starts.append(ctx.attempt)
        return Ok()

    [job_id] = await put(database, job())
    async with at_work(worker(database, kind(run), clock=clock, fault=pause, dead_after_s=dead_after)):
        await until_state(database, job_id, "done")
    assert (paused, starts) == (["cycle.after"], [2])


async def test_pitfall_16_the_choice_is_exact_however_many_slots(database: Database) -> None:
    slots, penalty_s = 96, 20.0
    draw = random.Random(16)
    # One community's lanes have all waited long, the others' a random time: the best are spread very unevenly.
    ranks = {f"old:{n}": (1, n / 100 - 4_000) for n in range(200)}
    ranks |= {f"lane:{n}": (2 + n % 9, draw.uniform(-4_000, 0)) for n in range(100)}
    async with database.transaction() as tx:
        await tx.executemany(
            "insert into queue.lane (lane, pool, community_id, state, rank) values ($1, 'chat', $2, 1, $3)",
            [(lane, community, rank) for lane, (community, rank) in ranks.items()],
        )
        chosen = await tx.fetchval("select queue.rank_lanes('chat', $1, $2)", slots, penalty_s)
    scores, taken = {}, Counter[int]()
    for lane, (community, rank) in sorted(ranks.items(), key=lambda item: item[1][1]):
        scores[lane] = rank + penalty_s * taken[community]
        taken[community] += 1
    assert chosen[:slots] == sorted(scores, key=scores.__getitem__)[:slots]


async def test_pitfall_16_no_pool_has_more_slots_than_were_measured(database: Database) -> None:
    with pytest.raises(ValueError, match="1 to 96 slots"):
        worker(database, pools={"chat": 97})


async def test_pitfall_17_a_deadlocked_cycle_is_sent_again_with_its_results(database: Database) -> None:
    async with database.transaction() as tx:
        await tx.execute("create sequence voidbot_test.cycles")
        await tx.execute(
            """create or replace function queue.check_worker(id_given uuid) returns void language plpgsql as $$
            begin
              if nextval('voidbot_test.cycles') between 2 and 6 then
                raise exception 'as a deadlock' using errcode = '40P01';
              end if;
            end $$"""
        )
    seen: list[int] = []

    async def run(ctx: JobContext, _: Nothing) -> Outcome:
        seen.append(ctx.attempt)
        return Ok()

    async with at_work(worker(database, kind(run), dead_after_s=600.0)):
        [job_id] = await put(database, job())
        await until_state(database, job_id, "done")
    assert seen == [1]


async def test_pitfall_17_a_claim_waits_for_no_lane(database: Database, fresh_dsn: str) -> None:
    await put(database, job("held"), job("free"))
    other = await asyncpg.connect(fresh_dsn)
    async with incarnation(database) as opened:
        await fetch(database, "select queue.promote()")
        await other.execute("begin")
        await other.execute("select 1 from queue.lane where lane = 'held' for update")
        await put(database, job("held"))
        assert [granted.lane for granted in await claim(opened, slots=2)] == ["free"]
    await other.close()


async def test_pitfall_18_one_ticker_at_a_time(database: Database, fresh_dsn: str) -> None:
    [job_id] = await put(database, job(due_in_s=0.001))
    other = await asyncpg.connect(fresh_dsn)
    await other.execute("begin")
    await other.execute("select pg_advisory_xact_lock(hashtext('voidbot.queue.due'))")
    async with incarnation(database) as opened:
        assert await opened.tick_due() == 0
        await other.execute("rollback")
        assert await opened.tick_due() == 1
    await other.close()
    assert await state_of(database, job_id) == "queued"


async def test_pitfall_19_keys_are_taken_in_sorted_order(database: Database, fresh_dsn: str) -> None:
    first, second = await asyncpg.connect(fresh_dsn), await asyncpg.connect(fresh_dsn)
    await first.execute("begin")
    await first.execute("insert into queue.key (key, scope, job_id) values ('a', 2, 0)")

    async def both() -> None:
        with pytest.raises(Conflict):
            async with database.transaction() as tx:
                await jobs.enqueue(tx, [job(key=key, scope=KeyScope.LIVE) for key in "ba"])
                raise Conflict("as if the caller gave up")

    async with asyncio.TaskGroup() as group:
        group.create_task(both())

        async def blocked() -> bool:
            sql = "select count(*) from pg_locks where not granted and locktype = 'transactionid'"
            return bool(await second.fetchval(sql))

        await until(blocked)
        # The other transaction waits for `a` and has not touched `b` yet.
        await second.execute("set lock_timeout = '1s'")
        await second.execute("insert into queue.key (key, scope, job_id) values ('b', 2, 0)")
        await first.execute("rollback")
    await first.close()
    await second.close()


async def test_an_incarnation_that_was_declared_dead_gets_nothing(database: Database) -> None:
    await put(database, job())
    async with incarnation(database) as opened:
        await opened.leave()
        with pytest.raises(ClaimLost):
            await claim(opened)
        with pytest.raises(ClaimLost):
            await opened.beat()
