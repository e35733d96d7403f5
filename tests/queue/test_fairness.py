"""Q8: a quiet community is not drowned, waiting makes every class first in the end, pools take no other's slots."""

import asyncio

from core.domain.jobs import FAIRNESS_PENALTY_S, Claim, Ok, Outcome
from core.jobs.executor import JobContext
from core.store.engine import Database
from core.store.jobs import settlement_of
from core.store.leases import Incarnation
from tests.fakes import ManualClock
from tests.queue.harness import (
    Nothing,
    at_work,
    claim,
    incarnation,
    job,
    kind,
    put,
    until_state,
    worker,
)

ADDRESSED, LURKING, PASS = 600.0, 300.0, 0.0


async def work_off(opened: Incarnation, clock: ManualClock, grants: int, slots: int) -> list[Claim]:
    """Grant and settle in turns, `slots` at a time running, a second of work each; return the grants in order."""
    order: list[Claim] = []
    running: list[Claim] = []
    while len(order) < grants:
        turnover = await opened.cycle(
            [settlement_of(ended, Ok()) for ended in running[:5]],
            {"chat": slots - len(running) + len(running[:5])},
        )
        running = running[5:] + list(turnover.granted)
        order += turnover.granted
        await clock.advance(1.0)
        await opened.beat()
    return order


async def test_a_quiet_community_is_not_drowned_by_a_loud_one(database: Database, clock: ManualClock) -> None:
    loud = [job(f"loud:{n}", community_id=1, head_start_s=ADDRESSED) for n in range(10_000)]
    for start in range(0, len(loud), 2_000):
        await put(database, *loud[start : start + 2_000])
    quiet = [job(f"quiet:{n}", community_id=2 + n, head_start_s=ADDRESSED) for n in range(50)]
    ids = set(await put(database, *quiet))
    async with incarnation(database) as opened:
        order = await work_off(opened, clock, grants=100, slots=20)
    assert ids <= {granted.id for granted in order[:100]}


async def test_one_community_alone_gets_every_slot(database: Database) -> None:
    await put(database, *[job(f"lane:{n}", community_id=1) for n in range(40)])
    async with incarnation(database) as opened:
        assert len(await claim(opened, slots=32)) == 32


async def test_a_pass_starts_within_the_bound_under_a_stream_of_chat(database: Database, clock: ManualClock) -> None:
    slots, run_s = 4, 10.0
    [waiting] = await put(database, job("pass", community_id=0, head_start_s=PASS))
    bound_s = ADDRESSED + FAIRNESS_PENALTY_S * slots + run_s
    before: list[Claim] = []
    async with incarnation(database) as opened:
        running: list[Claim] = []
        while waiting not in {granted.id for granted in running}:
            # Chat arrives faster than it can be answered, so something fresh is always there.
            before += running
            chat = [job(f"chat:{len(before)}:{n}", community_id=1 + n, head_start_s=ADDRESSED) for n in range(6)]
            await put(database, *chat)
            running = list(
                (await opened.cycle([settlement_of(each, Ok()) for each in running], {"chat": slots})).granted
            )
            await clock.advance(run_s)
            await opened.beat()
    [passed] = [granted for granted in running if granted.id == waiting]
    ahead_s = [(granted.due_at - passed.due_at).total_seconds() for granted in before]
    assert max(ahead_s) <= bound_s
    assert max(ahead_s) > ADDRESSED / 2  # chat does come first for as long as its head start says


async def test_head_starts_order_what_was_queued_together(database: Database) -> None:
    slow, lurking, addressed = await put(
        database, job("a", head_start_s=PASS), job("b", head_start_s=LURKING), job("c", head_start_s=ADDRESSED)
    )
    async with incarnation(database) as opened:
        order = [(await claim(opened))[0].id for _ in range(3)]
    assert order == [addressed, lurking, slow]


async def test_full_pools_take_no_chat_slot(database: Database) -> None:
    release = asyncio.Event()

    async def busy(ctx: JobContext, _: Nothing) -> Outcome:
        await release.wait()
        return Ok()

    pools = {"chat": 1, "pass": 2, "upkeep": 2}
    kinds = [kind(busy, "pass", "pass"), kind(busy, "upkeep", "upkeep"), kind()]
    await put(database, *[job(f"{pool}:{n}", kind=pool, pool=pool) for pool in ("pass", "upkeep") for n in range(5)])
    async with at_work(worker(database, *kinds, pools=pools)):
        [chat] = await put(database, job("chat:1"))
        await until_state(database, chat, "done")
        release.set()
