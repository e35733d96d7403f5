"""What is measured: one function a group of figures, run once for each repetition of each system."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import asyncpg

from benchmarks.queue_claim import anti_join_ms, claim_ms, prepare
from benchmarks.queue_server import Broken, Child, Server, System, Trial
from benchmarks.queue_statistics import percentile

EVERYONE = tuple(System)
QUIET, NOISY = 2, 1
START_PATIENCE_S = 20.0
QUIET_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much one repetition is: seconds measured, seconds before that, and shares of jobs and of samples."""

    window_s: float
    warm_up_s: float
    held_s: float
    jobs: float
    samples: int


FULL = Size(window_s=5.0, warm_up_s=2.0, held_s=30.0, jobs=1.0, samples=100)
QUICK = Size(window_s=0.5, warm_up_s=0.5, held_s=1.5, jobs=0.1, samples=8)

Measured = Mapping[str, float]
Measure = Callable[[Trial, Size], Awaitable[Measured]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Figures that one repetition gives together.

    `fill`: what the template holds. `seconds`: of one repetition of one system beside its fixed cost, at full size.
    """

    measure: Measure
    seconds: float
    systems: tuple[System, ...] = EVERYONE
    fill: Mapping[str, int] | None = None


@asynccontextmanager
async def templates(
    server: Server, group: Group, size: Size, systems: Sequence[System]
) -> AsyncIterator[Mapping[System, str]]:
    """Yield the filled template of each system."""
    fill = dict(group.fill or {})
    for name in ("pending", "history"):
        if name in fill:
            fill[name] = round(fill[name] * size.jobs)
    async with AsyncExitStack() as stack:
        yield {system: await stack.enter_async_context(server.template(system, **fill)) for system in systems}


async def enqueueing(trial: Trial, size: Size) -> Measured:
    """Measure how fast jobs are taken: one connection after the other, 20 at once, 1,000 jobs a call."""
    child = await trial.start(connections=20)
    seconds = size.window_s * 0.6
    return {
        "enqueue_serial": await child.ask("produce", clients=1, batch=1, seconds=seconds),
        "enqueue_20": await child.ask("produce", clients=20, batch=1, seconds=seconds),
        "enqueue_bulk": await child.ask("produce", clients=1, batch=1000, seconds=seconds),
    }


def throughput(name: str, workers: int, lanes: int = 0) -> Measure:
    """Return a measure of jobs per second that do nothing."""

    async def measure(trial: Trial, size: Size) -> Measured:
        rates = await _rates(trial, workers, lanes, size.warm_up_s, size.window_s, slices=1)
        return {name: rates[0]}

    return measure


async def held_snapshot(trial: Trial, size: Size) -> Measured:
    """Measure what a snapshot that stays open does to throughput: the last tenth against the first."""
    holder = await asyncpg.connect(trial.dsn)
    async with holder.transaction(isolation="repeatable_read"):
        await holder.execute("select 1")
        rates = await _rates(trial, 2, 0, size.warm_up_s, size.held_s, slices=10)
    await holder.close()
    return {"held_last_by_first": rates[-1] / rates[0], "held_last": rates[-1]}


async def _rates(
    trial: Trial, workers: int, lanes: int, warm_up_s: float, window_s: float, *, slices: int
) -> list[float]:
    children = [await trial.start(lanes=lanes) for _ in range(workers)]
    began = await trial.now()
    for child in children:
        await child.ask("work", slots=0)
    for _ in range(round(START_PATIENCE_S / 0.1)):
        if await trial.finished(began, await trial.now()):
            break
        await asyncio.sleep(0.1)
    await asyncio.sleep(warm_up_s)
    marks: list[Any] = [await trial.now()]
    for _ in range(slices):
        await asyncio.sleep(window_s / slices)
        marks.append(await trial.now())
    await trial.stop()
    if await trial.pending() == 0:
        raise Broken("the backlog ran dry; the figure would mean nothing")
    # A queue that ended nothing is taken to have ended one, in its favour.
    spans = pairwise(marks)
    return [max(1, await trial.finished(since, until)) / (until - since).total_seconds() for since, until in spans]


async def picking_up(trial: Trial, size: Size) -> Measured:
    """Measure the time from before the enqueue call to the first line of the job, nothing else being queued."""
    worker = await trial.start()
    producer = await trial.start(connections=1)
    await worker.ask("work", slots=0)
    await asyncio.sleep(max(1.0, size.warm_up_s))
    await producer.ask("tick", count=5, gap=0.05, community=QUIET)
    warm = len(await _waits(worker, 5, 10))
    await producer.ask("tick", count=size.samples, gap=0.08, community=QUIET)
    waits = (await _waits(worker, warm + size.samples, 10))[warm:]
    if len(waits) < size.samples:
        raise Broken(f"of {size.samples} jobs {len(waits)} have started")
    return {"idle_p50_ms": percentile(waits, 0.5) * 1000, "idle_p99_ms": percentile(waits, 0.99) * 1000}


async def beside_a_noisy_community(trial: Trial, size: Size) -> Measured:
    """Measure how long a quiet community's jobs wait while another has dumped 5,000; 20 slots, 50 ms each."""
    worker = await trial.start()
    noisy, quiet = await trial.start(connections=1), await trial.start(connections=1)
    await worker.ask("work", slots=20)
    await asyncio.sleep(1.0)
    await noisy.ask("fill", count=round(5000 * size.jobs), communities=NOISY, sleep=0.05)
    samples = max(2, round(size.samples * size.jobs))
    await quiet.ask("tick", count=samples, gap=0.08, community=QUIET)
    waits = await _waits(worker, samples, QUIET_PATIENCE_S)
    # What has not started by now is taken to start now, in its queue's favour.
    waits += [QUIET_PATIENCE_S] * (samples - len(waits))
    return {"quiet_p99_ms": percentile(waits, 0.99) * 1000}


async def claiming(trial: Trial, size: Size) -> Measured:
    """Measure a claim of 50 with a lane 50,000 deep in use, and how many times longer an anti-join takes."""
    worker = await prepare(trial.connection, round(50_000 * size.jobs))
    ours, theirs = [], []
    for _ in range(10):
        ours.append(await claim_ms(trial.connection, worker))
        theirs.append(await anti_join_ms(trial.connection))
    return {"claim_ms": median(ours), "claim_anti_join_by_ours": median(theirs) / median(ours)}


async def _waits(worker: Child, count: int, patience_s: float) -> list[float]:
    """Return the waits of `count` jobs once all have started, of those that have when patience ends."""
    waits: list[float] = []
    for _ in range(round(patience_s / 0.1)):
        waits = await worker.ask("waits")
        if len(waits) >= count:
            break
        await asyncio.sleep(0.1)
    return waits


GROUPS: Mapping[str, Group] = {
    "enqueue": Group(measure=enqueueing, seconds=9),
    "noop_1": Group(measure=throughput("noop_1", 1), seconds=7, fill={"pending": 60_000}),
    "noop_2": Group(measure=throughput("noop_2", 2), seconds=7, fill={"pending": 80_000}),
    "cold_2": Group(measure=throughput("cold_2", 2), seconds=7, fill={"pending": 80_000, "seen": 0}),
    "loaded": Group(measure=throughput("loaded", 2), seconds=7, fill={"pending": 100_000, "history": 1_000_000}),
    "keyed_200": Group(measure=throughput("keyed_200", 2, 200), seconds=7, fill={"pending": 40_000, "lanes": 200}),
    "keyed_1000": Group(measure=throughput("keyed_1000", 2, 1000), seconds=7, fill={"pending": 100_000, "lanes": 1000}),
    "idle": Group(measure=picking_up, seconds=12),
    "quiet": Group(measure=beside_a_noisy_community, seconds=18),
    "claim": Group(measure=claiming, seconds=4, systems=(System.OURS,)),
    "held": Group(measure=held_snapshot, seconds=32, fill={"pending": 200_000}),
}
