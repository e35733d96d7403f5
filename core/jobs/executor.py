"""One claimed job, from grant to verdict: find its kind, read its payload, run it, judge what it raised."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import Any, Generic, Protocol, TypeVar

import structlog
from pydantic import BaseModel, ValidationError

from core.domain.errors import BotError, ClaimLost, Conflict, Unavailable
from core.domain.jobs import (
    Cancel,
    Claim,
    Dead,
    Discard,
    GaveUp,
    KeyScope,
    NewJob,
    Ok,
    Outcome,
    Retry,
    Snooze,
    backoff,
)
from core.jobs.policy import outcome_of
from core.ports import Clock
from core.store import jobs
from core.store.engine import Database, Tx
from core.store.jobs import Settlement

log = structlog.get_logger()

T = TypeVar("T")
P = TypeVar("P", bound=BaseModel)

# A job that this release does not know waits for workers that do: a roll-out takes hours, not days.
UNKNOWN_SNOOZE_S = 60.0
UNKNOWN_FOR = timedelta(hours=24)
BURIAL_TRIES = 5

OnGiveUp = Callable[[Tx, Claim, GaveUp], Awaitable[None]]
"""Called in the transaction that ends a job for good without success: says the one line owed to its asker."""

Fault = Callable[[str], None]
"""Called with the name of a point before and after each act on the database; crash tests end the process there."""


class Observe(Protocol):
    """Takes one measured value."""

    def __call__(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Record `value` under `name`."""
        ...


class Stop(Enum):
    """Why a running job is asked to stop."""

    CANCEL = "cancel"
    DRAIN = "drain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind(Generic[P]):
    """One kind of job. `waits_for_budget`: a used-up purse makes it wait instead of ending it."""

    name: str
    pool: str
    payload: type[P]
    run: Callable[["JobContext", P], Awaitable[Outcome]]
    head_start_s: float = 0.0
    max_attempts: int = 5
    timeout_s: float = 300.0
    yields: bool = False
    waits_for_budget: bool = False

    def job(
        self,
        lane: str,
        payload: P,
        *,
        community_id: int = 0,
        room_id: int | None = None,
        person_id: int | None = None,
        key: str | None = None,
        scope: KeyScope | None = None,
        due_in_s: float = 0.0,
        pool: str | None = None,
        head_start_s: float | None = None,
        trace: str = "",
    ) -> NewJob:
        """Return a job of this kind to be queued. `pool` and `head_start_s` replace the kind's own."""
        return NewJob(
            kind=self.name,
            lane=lane,
            pool=self.pool if pool is None else pool,
            payload=payload.model_dump(mode="json"),
            community_id=community_id,
            room_id=room_id,
            person_id=person_id,
            key=key,
            scope=scope,
            due_in_s=due_in_s,
            head_start_s=self.head_start_s if head_start_s is None else head_start_s,
            max_attempts=self.max_attempts,
            yields=self.yields,
            trace=trace,
        )


AnyKind = Kind[Any]


class JobContext:
    """What a running job is given: its claim, and the only ways to write under it."""

    def __init__(self, job: Claim, database: Database, fault: Fault = lambda _: None) -> None:
        self.job = job
        self.stop_asked = asyncio.Event()
        self.stop: Stop | None = None
        self.finished = False
        self._database = database
        self._fault = fault

    @property
    def attempt(self) -> int:
        """Return which grant of the job this is, from 1."""
        return self.job.attempt

    @property
    def cancelled(self) -> bool:
        """Return whether the job is asked to stop; 2 s later its task is cancelled."""
        return self.stop_asked.is_set()

    async def hold(self, tx: Tx) -> None:
        """Lock the claim in a transaction of the job's own making.

        Raises:
            ClaimLost: The claim is over; write nothing.
        """
        self._fault("hold.before")
        await jobs.hold(tx, self.job)
        self._fault("hold.after")

    async def advance(self, work: Callable[[Tx], Awaitable[T]], *, durable: bool = True) -> T:
        """Commit effects under the claim; the job goes on.

        Raises:
            ClaimLost: The claim is over; nothing was written.
        """
        async with self._database.transaction(durable=durable) as tx:
            await self.hold(tx)
            value = await work(tx)
            self._fault("commit.before")
        self._fault("commit.after")
        return value

    async def finish(self, work: Callable[[Tx], Awaitable[T]], *, durable: bool = True) -> T:
        """Commit effects and the job's end: all or none. What `run` returns afterwards is only reported.

        Raises:
            ClaimLost: The claim is over; nothing was written.
        """

        async def all_of_it(tx: Tx) -> T:
            value = await work(tx)
            self._fault("settle.before")
            await jobs.settle(tx, self.job, Ok())
            self._fault("settle.after")
            return value

        value = await self.advance(all_of_it, durable=durable)
        self.finished = True
        return value

    def ask_to_stop(self, why: Stop) -> None:
        """Ask the job to stop, once."""
        if self.stop is None:
            self.stop = why
            self.stop_asked.set()


@dataclass(slots=True)
class Executor:
    """Runs claims. `run` returns what the next cycle is to settle, None if nothing is left to settle."""

    database: Database
    kinds: Mapping[str, AnyKind]
    clock: Clock
    on_give_up: OnGiveUp
    observe: Observe
    fault: Fault = field(default=lambda _: None)

    async def run(self, ctx: JobContext) -> Settlement | None:
        """Run one claim to its end; a job that gives up is settled here, with the words owed to its asker.

        Raises:
            asyncio.CancelledError: The incarnation is over; nothing is recorded.
        """
        started = self.clock.monotonic()
        claim = ctx.job
        error: Exception | None = None
        outcome: Outcome | None
        try:
            outcome = await self._attempt(ctx)
        except asyncio.CancelledError:
            outcome = self._stopped(ctx)
        except Exception as exc:  # noqa: BLE001  # one of the two places: every error becomes an outcome here
            error = exc
            outcome = self._judge(ctx, exc)
        settlement = await self._conclude(ctx, outcome, error)
        word = "finished" if ctx.finished else ("late" if outcome is None else type(outcome).__name__.lower())
        self.observe("job_seconds", self.clock.monotonic() - started, {"kind": claim.kind, "outcome": word})
        return settlement

    async def _attempt(self, ctx: JobContext) -> Outcome:
        claim = ctx.job
        kind = self.kinds.get(claim.kind)
        if kind is None:
            return self._not_understood(claim, "unknown kind")
        try:
            payload = kind.payload.model_validate(dict(claim.payload))
        except ValidationError:
            return self._not_understood(claim, "unknown payload")
        async with asyncio.timeout(kind.timeout_s):
            outcome: Outcome = await kind.run(ctx, payload)
        return outcome

    def _not_understood(self, claim: Claim, what: str) -> Outcome:
        if self.clock.now() - claim.created_at < UNKNOWN_FOR:
            return Snooze(UNKNOWN_SNOOZE_S)
        return Retry(0.0, what, at_most=0)

    def _stopped(self, ctx: JobContext) -> Outcome:
        match ctx.stop:
            case Stop.CANCEL:
                return Cancel("by request")
            case Stop.DRAIN:
                return Snooze(0.0)
            case None:
                raise asyncio.CancelledError

    def _judge(self, ctx: JobContext, error: Exception) -> Outcome | None:
        claim = ctx.job
        kind = self.kinds.get(claim.kind)
        outcome = outcome_of(
            error,
            claim.attempt - claim.snoozed,
            self.clock.now(),
            random.random(),  # noqa: S311  # jitter
            waits_for_budget=kind is not None and kind.waits_for_budget,
        )
        if outcome is not None and not isinstance(error, BotError | TimeoutError):
            log.error("job.bug", **about(claim), exc_info=error)
        if isinstance(error, Unavailable) and isinstance(outcome, Snooze):
            log.warning("job.told_to_wait_long", **about(claim), after_s=outcome.after_s)
        return outcome

    async def _conclude(self, ctx: JobContext, outcome: Outcome | None, error: Exception | None) -> Settlement | None:
        claim = ctx.job
        if ctx.finished:
            return None
        match outcome:
            case None:
                log.info("job.late", **about(claim))
                self.observe("job_late_total", 1, {"kind": claim.kind})
                return None
            case Discard(reason):
                log.warning("job.discarded", **about(claim), reason=reason)
                await self.bury(claim, outcome, error or outcome)
                return None
            case Retry(_, reason, at_most) if claim.spent(at_most):
                dead = Dead(reason)
                await self.bury(claim, dead, error or dead)
                return None
            case Retry(None, reason):
                tries = claim.attempt - claim.snoozed
                outcome = Retry(backoff(tries, random.random()), reason)  # noqa: S311  # jitter
            case Cancel():
                await self.bury(claim, outcome, outcome)
                return None
            case Ok() | Retry() | Snooze():
                pass
        return jobs.settlement_of(claim, outcome)

    async def bury(self, claim: Claim, outcome: Cancel | Discard | Dead, why: GaveUp) -> None:
        """Settle a job that ends without success, in one transaction with the words owed to its asker.

        Tried until it is committed or the claim is lost. A hook that keeps failing does not keep the lane:
        after five tries the job ends without its words, and the log says so.
        """
        tries = 0
        while True:
            tries += 1
            try:
                async with self.database.transaction() as tx:
                    await jobs.hold(tx, claim)
                    if tries <= BURIAL_TRIES:
                        await self.on_give_up(tx, claim, why)
                    self.fault("bury.before")
                    await jobs.settle(tx, claim, outcome)
                self.fault("bury.after")
            except ClaimLost:
                log.info("job.late", **about(claim))
                return
            except (Unavailable, Conflict):
                tries = min(tries, BURIAL_TRIES - 1)  # the database's trouble is not the hook's
                await asyncio.sleep(backoff(1, random.random(), base_s=0.5))  # noqa: S311  # jitter
            except Exception as exc:  # the hook is the product's code; its bug ends here
                log.error("job.last_words_failed", **about(claim), exc_info=exc)
                if tries > BURIAL_TRIES:
                    raise
            else:
                break
        if isinstance(outcome, Dead):
            log.error("job.dead", **about(claim), reason=outcome.reason)
            self.observe("dead_total", 1, {"kind": claim.kind})


def about(claim: Claim) -> dict[str, object]:
    """Return the fields by which a log names a claim; never its payload."""
    return {
        "job": claim.id,
        "kind": claim.kind,
        "lane": claim.lane,
        "attempt": claim.attempt,
        "trace": claim.trace,
    }
