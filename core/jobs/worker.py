"""The worker: listen, cycle, execute, beat, tick. It lives in incarnations and loses nothing when one ends.

An incarnation is one random id from registration to its end. Whatever is in doubt - a lost answer, a missed
heartbeat, an answer that came too late - ends it: every task is cancelled, unsent results are dropped, and a
fresh id is registered. What the old one held is taken back and the fence refuses what it still sends.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

import structlog

from core.domain.errors import ClaimLost, Conflict, Unavailable
from core.domain.jobs import MOST_SLOTS, Claim, Dead
from core.jobs.executor import AnyKind, Executor, Fault, JobContext, Observe, OnGiveUp, Stop, about
from core.jobs.notifier import DEBOUNCE_S, Notifier
from core.ports import Clock
from core.store.engine import Database
from core.store.jobs import Settlement
from core.store.leases import Incarnation

log = structlog.get_logger()

CANCEL_GRACE_S = 2.0
MOST_WORKERS = 20
RECONCILE_EVERY_S = 30.0
CONFLICT_TRIES = 20


class IncarnationOver(Exception):
    """This incarnation ends; the message is the reason as logs show it."""


@dataclass(slots=True)
class Running:
    """One slot in use."""

    context: JobContext
    task: "asyncio.Task[None]"
    since: float
    asked_at: float | None = None
    cancelled_at: float | None = None

    def cancel(self, at: float) -> None:
        """Cancel the task, and again for as long as it does not end."""
        if self.cancelled_at is None or at - self.cancelled_at >= CANCEL_GRACE_S:
            self.cancelled_at = at
            self.task.cancel()


class Worker:
    """Runs the jobs of some pools, each with its own slots.

    Args:
        database: Where the queue is.
        kinds: Every kind this process knows, by name.
        pools: Slots of each pool this process serves; at most 96.
        clock: Time.
        on_give_up: Called in the transaction that ends a job without success.
        dead_after_s: Seconds without a heartbeat after which a worker's jobs are taken back.
        drain_s: Seconds that running jobs get to end when the process stops.
        poll_s: Seconds after which the queue is looked at without being woken.
        rest_s: The longest rest after an incarnation that ended; the shortest is a tenth of it.
        info: Shown to operators with the worker: host, process, roles.
        observe: Takes measured values.
        fault: For crash tests.
    """

    def __init__(
        self,
        database: Database,
        kinds: Mapping[str, AnyKind],
        pools: Mapping[str, int],
        clock: Clock,
        *,
        on_give_up: OnGiveUp,
        dead_after_s: float = 15.0,
        drain_s: float = 20.0,
        poll_s: float = 1.0,
        rest_s: float = 2.0,
        info: Mapping[str, object] | None = None,
        observe: Observe = lambda name, value, labels: None,
        fault: Fault = lambda point: None,
    ) -> None:
        if any(not 0 < slots <= MOST_SLOTS for slots in pools.values()):
            raise ValueError(f"worker: a pool has 1 to {MOST_SLOTS} slots")
        self.notifier = Notifier(database, self._awake, self._note_due)
        database.on_wake(self.notifier.wake)
        self._executor = Executor(database, kinds, clock, on_give_up, observe, fault)
        self._database = database
        self._pools = dict(pools)
        self._clock = clock
        self._dead_after_s = dead_after_s
        self._drain_s = drain_s
        self._poll_s, self._rest_s = poll_s, rest_s
        self._pulse_s = min(1.0, dead_after_s / 5)
        self._info = dict(info or {})
        self._observe = observe
        self._fault = fault
        self._wake = asyncio.Event()
        self._due = asyncio.Event()
        self._stopping = asyncio.Event()
        self._running: dict[JobContext, Running] = {}
        self._ended: list[tuple[JobContext, Settlement]] = []
        self._last_beat = 0.0
        self._ticked_at: float | None = None

    def stop(self) -> None:
        """Drain: claim nothing more, let running jobs end, give back the rest; then `run` returns.

        Cancelling `run` instead stops at once, and just as safely: the leases end by themselves.
        """
        self._stopping.set()
        self._awake()

    def waiting_for(self) -> list[str]:
        """Return what runs now, in words, for whoever waits for the drain."""
        now = self._clock.monotonic()
        return [
            f"{slot.context.job.kind} in {slot.context.job.lane}, attempt {slot.context.attempt}, "
            f"for {now - slot.since:.0f} s"
            for slot in self._running.values()
        ]

    def tick_age_s(self) -> float | None:
        """Return the seconds since this process last ticked; None before the first time. Health: below 10."""
        return None if self._ticked_at is None else self._clock.monotonic() - self._ticked_at

    async def run(self) -> None:
        """Work until `stop`; an ended incarnation is followed by the next after a rest."""
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(self.notifier.run())
            predecessor: UUID | None = None
            while not self._stopping.is_set():
                predecessor = await self._live(predecessor)
                if not self._stopping.is_set():
                    await asyncio.sleep(random.uniform(self._rest_s / 10, self._rest_s))  # noqa: S311  # jitter
            listening.cancel()

    def _awake(self) -> None:
        self._wake.set()

    def _note_due(self) -> None:
        self._due.set()

    async def _live(self, predecessor: UUID | None) -> UUID | None:
        """Live one incarnation; return the id that the next one replaces."""
        self._running, self._ended = {}, []
        self._fault("register.before")
        try:
            store = await Incarnation.open(self._database, self._info, predecessor)
        except (Unavailable, Conflict) as exc:
            log.warning("worker.not_registered", reason=exc.message)
            return predecessor
        self._fault("register.after")
        self._last_beat = self._clock.monotonic()
        log.info("worker.started", worker=str(store.worker), pools=self._pools)
        reason = "drained"
        try:
            async with asyncio.TaskGroup() as group:
                pulse = group.create_task(self._pulse(store))
                await self._work(store, group)
                pulse.cancel()
            await store.leave()
        except* (IncarnationOver, ClaimLost, Unavailable, Conflict) as errors:
            reason = _first(errors)
            self._observe("lease_lost_total", len(self._running), {})
        finally:
            store.close()
            log.info("worker.ended", worker=str(store.worker), reason=reason)
        return store.worker

    async def _work(self, store: Incarnation, group: asyncio.TaskGroup) -> None:
        """Cycle until drained: settle what ended, claim into what is free."""
        deadline: float | None = None
        self._awake()
        while True:
            await self._sleep_until_woken()
            if self._stopping.is_set() and deadline is None:
                deadline = self._clock.monotonic() + self._drain_s
                log.info("worker.draining", waits_for=self.waiting_for())
            ended, self._ended = self._ended, []
            free = {} if deadline is not None else self._free(ended)
            if ended or free:
                await self._cycle(store, group, ended, free)
            if deadline is not None:
                if not self._running:
                    log.info("worker.drained")
                    return
                if self._clock.monotonic() >= deadline:
                    for slot in self._running.values():
                        slot.context.ask_to_stop(Stop.DRAIN)
                        slot.cancel(self._clock.monotonic())

    async def _sleep_until_woken(self) -> None:
        try:
            async with asyncio.timeout(self._poll_s):
                await self._wake.wait()
        except TimeoutError:
            pass
        self._wake.clear()

    def _free(self, ended: list[tuple[JobContext, Settlement]]) -> dict[str, int]:
        # A slot whose result is in this cycle is free in it: the same statement settles first, then claims.
        busy = Counter(context.job.pool for context in self._running)
        busy.subtract(context.job.pool for context, _ in ended)
        return {pool: slots - busy[pool] for pool, slots in self._pools.items() if slots > busy[pool]}

    async def _cycle(
        self,
        store: Incarnation,
        group: asyncio.TaskGroup,
        ended: list[tuple[JobContext, Settlement]],
        free: Mapping[str, int],
    ) -> None:
        for tries in range(CONFLICT_TRIES):
            asked_at = self._clock.monotonic()
            self._fault("cycle.before")
            try:
                turnover = await store.cycle([settlement for _, settlement in ended], free)
                break
            except Conflict as exc:
                # Rolled back: nothing happened, so the same results may be sent again.
                if isinstance(exc, ClaimLost) or tries == CONFLICT_TRIES - 1:
                    raise
                await asyncio.sleep(random.uniform(0.0, 0.05))  # noqa: S311  # jitter
        self._fault("cycle.after")
        took_s = self._clock.monotonic() - asked_at
        if took_s > self._dead_after_s / 2:
            # We may have been paused between the commit and reading it: others may run these jobs by now.
            raise IncarnationOver("a claim's answer came late")
        self._observe("cycle_seconds", took_s, {})
        for context, settlement in ended:
            if settlement.delay_s > 0:
                self.notifier.wake(settlement.delay_s)
            del self._running[context]
            self._report(settlement, turnover.settled.get(settlement.claim.id))
        for claim in turnover.granted:
            self._start(claim, group)

    def _report(self, result: Settlement, state: str | None) -> None:
        claim = result.claim
        if state is None:
            log.info("job.late", **about(claim))
            self._observe("job_late_total", 1, {"kind": claim.kind})
        elif state == "waiting":
            log.info("job.retry", **about(claim), outcome=result.outcome, delay_s=result.delay_s, reason=result.error)
        else:
            log.debug(f"job.{state}", **about(claim))

    def _start(self, claim: Claim, group: asyncio.TaskGroup) -> None:
        log.debug("job.claimed", **about(claim))
        waited_s = (claim.granted_at - claim.due_at).total_seconds()
        self._observe("queue_wait_seconds", waited_s, {"pool": claim.pool, "kind": claim.kind})
        context = JobContext(claim, self._database, self._fault)
        task = group.create_task(self._execute(context))
        self._running[context] = Running(context, task, self._clock.monotonic())

    async def _execute(self, context: JobContext) -> None:
        settlement: Settlement | None = None
        try:
            settlement = await self._executor.run(context)
        finally:
            if settlement is None:
                self._running.pop(context, None)
            else:
                self._ended.append((context, settlement))
            self._awake()

    async def _pulse(self, store: Incarnation) -> None:
        """Beat and tick, on one connection: once a second, or five times in `dead_after_s` if that is shorter."""
        reconcile_at = self._clock.monotonic()
        async with asyncio.TaskGroup() as burials:
            beat_at = self._clock.monotonic()  # at once: what a dead process left behind has waited long enough
            while True:
                if await self._due_before(beat_at):
                    await self._tick_what_is_due(store)
                    continue
                beat_at = self._clock.monotonic() + self._pulse_s
                await self._beat(store)
                for claim in await self._tick(store):
                    burials.create_task(self._executor.bury(claim, Dead("worker_lost"), Dead("worker_lost")))
                if self._clock.monotonic() >= reconcile_at:
                    reconcile_at = self._clock.monotonic() + RECONCILE_EVERY_S
                    await self._inspect(store)

    async def _beat(self, store: Incarnation) -> None:
        at = self._clock.monotonic()
        patience_s = self._dead_after_s / 2 - (at - self._last_beat)
        if patience_s <= 0:
            raise IncarnationOver("no heartbeat for too long")
        self._fault("beat.before")
        try:
            async with asyncio.timeout(patience_s):
                to_stop = await store.beat()
        except TimeoutError as exc:
            raise IncarnationOver("no heartbeat for too long") from exc
        self._fault("beat.after")
        self._last_beat = at
        for slot in self._running.values():
            if (slot.context.job.id, slot.context.attempt) in to_stop:
                slot.context.ask_to_stop(Stop.CANCEL)
                slot.asked_at = slot.asked_at or at
                if at - slot.asked_at >= CANCEL_GRACE_S:
                    slot.cancel(at)

    async def _due_before(self, beat_at: float) -> bool:
        """Return whether delayed work becomes due before the next heartbeat; in short order it is told once."""
        try:
            async with asyncio.timeout(max(0.0, beat_at - self._clock.monotonic())):
                await self._due.wait()
                await asyncio.sleep(DEBOUNCE_S)
        except TimeoutError:
            return False
        self._due.clear()
        return True

    async def _tick_what_is_due(self, store: Incarnation) -> None:
        if await store.tick_due() + await store.tick_waiting():
            self.notifier.wake()

    async def _tick(self, store: Incarnation) -> tuple[Claim, ...]:
        self._fault("tick.before")
        moved = await store.tick_due()
        self._fault("tick.due")
        moved += await store.tick_waiting()
        self._fault("tick.waiting")
        rescue = await store.tick_lost(self._dead_after_s)
        self._fault("tick.after")
        self._ticked_at = self._clock.monotonic()
        if rescue.lost:
            log.warning("job.rescued", lanes=rescue.lost)
            self._observe("lease_lost_total", rescue.lost, {})
        if moved or rescue.lost:
            self.notifier.wake()
        return rescue.spent

    async def _inspect(self, store: Incarnation) -> None:
        found = await store.reconcile()
        self._observe("reconcile_found_total", found, {})
        if found:
            log.error("queue.reconciled", lanes=found)
            self.notifier.wake()
        for pool, state, lanes, oldest_s in await store.depths():
            self._observe("queue_depth", lanes, {"pool": pool, "state": state})
            if state == "ready":
                self._observe("queue_oldest_seconds", oldest_s, {"pool": pool})
        for name, value in (await store.wear()).items():
            self._observe(name, value, {})
        workers = await store.count_workers()
        if workers > MOST_WORKERS:
            # Each claim share-locks lanes; many claimers at once fill the cache of shared locks.
            log.warning("worker.too_many", workers=workers, most=MOST_WORKERS)


def _first(errors: BaseExceptionGroup[BaseException]) -> str:
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)
