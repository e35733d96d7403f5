"""The `erase` job: one person's data, or one matter, taken out of everything that is kept, and the proof of it.

Each step may be repeated and is noted when it is done, so a job that is killed anywhere goes on where it was. No
transaction is open while a vector store is asked or a file is read.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Literal, assert_never

import structlog
from pydantic import BaseModel, ConfigDict

from core.domain.erasure import EraseStep, Reach
from core.domain.ids import MessageId, PersonId
from core.domain.jobs import JobState, NewJob, Ok, Outcome, Retry, Snooze
from core.domain.vectors import UnitId, VectorsOf
from core.jobs.executor import Fault, JobContext
from core.ports import Clock, VectorStore
from core.privacy import ledger, proving
from core.privacy.hand import Hand, Tell, Telling
from core.privacy.key import ErasureKey
from core.privacy.minding import erase_from_minds, take_back
from core.state.service import StateService
from core.store import erasure, erasures, exports, jobs, outbox, proof
from core.store.engine import Database, Tx
from core.store.eraser import Eraser
from core.store.erasures import Erasure

log = structlog.get_logger()

AGAIN_S = 0.5
WORK_WAITS = timedelta(seconds=60)
"""How long running work of the person may take to stop."""
TELL_WAITS = timedelta(seconds=60)
"""How long the summary may be on its way before the name goes without it."""
SEARCHED_JOBS = 500
_ENDED = frozenset({JobState.DONE, JobState.CANCELLED, JobState.DISCARDED, JobState.DEAD})


class EraseWork(BaseModel):
    """Payload of `erase`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    v: Literal[1] = 1
    ledger_id: int


def erase_job(ledger_id: int, *, trace: str) -> NewJob:
    """Return the job that does an erasure. It names no person: an erasure cancels the work of its person."""
    return NewJob(
        kind="erase",
        pool="upkeep",
        lane=f"erase:{ledger_id}",
        payload=EraseWork(ledger_id=ledger_id).model_dump(),
        due_in_s=1.0,  # after the answer that says that it has begun
        trace=trace,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureService:
    """What erasing needs.

    `home`: the folder of logs and exports. `tell` None: nobody is told. `vectors` None: there are none.
    `fault`: for crash tests.
    """

    database: Database
    clock: Clock
    key: ErasureKey
    home: Path
    tell: Tell | None
    minds: StateService
    vectors: VectorStore | None = None
    fault: Fault = lambda point: None

    async def run(self, ctx: JobContext, work: EraseWork) -> Outcome:
        """Do the steps that are left."""
        return await self.carry_on(Hand(self.database, ctx), work.ledger_id)

    async def carry_on(self, hand: Hand, ledger_id: int) -> Outcome:
        """Do the steps of one erasure that are left; `Snooze` where it has to wait."""
        while True:
            what = await hand.do(partial(erasures.load, ledger_id=ledger_id))
            if what is None or what.state == "done":
                return Ok()
            outcome = await self._step(hand, what)
            if outcome is not None:
                return outcome
            self.fault(f"erase.{what.step}.done")
            following = what.step.next
            if following is None:
                return Ok()
            await hand.do(partial(erasures.move, ledger_id=ledger_id, step=following))

    async def _step(self, hand: Hand, what: Erasure) -> Outcome | None:
        """Do one step; None: the next one may begin."""
        match what.step:
            case EraseStep.COLLECT:
                if what.scope.whole:
                    await proving.collect(hand, what, self.key)
            case EraseStep.WORK:
                return await self._stop_work(hand, what)
            case EraseStep.MIND:
                await erase_from_minds(hand, self.minds, what)
            case EraseStep.MESSAGES:
                await self._bury(hand, what)
            case EraseStep.SPEECH:
                await self._unsay(hand, what)
            case EraseStep.PROFILE:
                await self._forget(hand, what)
            case EraseStep.TELL:
                return await self._tell(hand, what)
            case EraseStep.NAMES:
                await self._unname(hand, what)
            case EraseStep.PROOF:
                return await self._prove(hand, what)
            case _:
                assert_never(what.step)
        return None

    # Work: nothing of the person's is answered or said any more

    async def _stop_work(self, hand: Hand, what: Erasure) -> Outcome | None:
        if what.person_id is None or what.scope.reach is Reach.FACTS:
            return None
        running = await self._cancel_jobs(hand, what)
        await self._run_hooks(hand, what, EraseStep.WORK)
        if running and self.clock.now() - what.asked_at < WORK_WAITS:
            return Snooze(AGAIN_S)
        return None

    async def _cancel_jobs(self, hand: Hand, what: Erasure) -> bool:
        """Cancel what is queued for the person; return whether something still runs."""
        found = await hand.do(partial(jobs.list_jobs, person_id=what.person_id, limit=SEARCHED_JOBS))
        rooms = what.scope.rooms
        mine = [
            job
            for job in found
            if job.state not in _ENDED and job.trace != what.trace and (rooms is None or job.room_id in rooms)
        ]
        for job in mine:
            await jobs.cancel(self.database, job.id)
        return any(job.state is JobState.RUNNING for job in mine)

    # Messages: tombstones without author, with everything that hangs on them

    async def _bury(self, hand: Hand, what: Erasure) -> None:
        if what.scope.reach is not Reach.FACTS:
            victims = partial(erasure.list_victims, scope=what.scope, person_id=what.person_id)
            await self._bury_all(hand, what, victims)

    async def _bury_all(self, hand: Hand, what: Erasure, choose: Callable[[Tx], Awaitable[list[MessageId]]]) -> None:
        while batch := await hand.do(choose):
            await self._bury_batch(hand, what, batch)

    async def _bury_batch(self, hand: Hand, what: Erasure, batch: list[MessageId]) -> None:
        async def bury(tx: Tx) -> None:
            await erasures.count(tx, what.ledger_id, await erasure.bury(tx, batch))

        await self._drop_vectors(hand, batch)
        await hand.do(bury)
        await take_back(hand, self.minds, batch, what.ledger_id)
        self.fault("erase.batch")

    async def _drop_vectors(self, hand: Hand, batch: list[MessageId]) -> None:
        if self.vectors is None:
            return
        units = await hand.do(partial(erasure.list_units, batch=batch))
        models = await hand.do(erasures.list_models) if units else []
        for model in models:
            for community_id, found in units.items():
                of = VectorsOf(community_id=community_id, units=frozenset(UnitId(unit) for unit in found))
                await self.vectors.delete(model, of)

    # Speech: what the bot said to the person, and what it made from the person's words

    async def _unsay(self, hand: Hand, what: Erasure) -> None:
        if what.scope.reach is not Reach.FACTS:
            own = partial(erasure.list_own_victims, scope=what.scope, person_id=what.person_id)
            await self._bury_all(hand, what, own)
            async for batch in self._buried(hand, what):  # what was buried by a run that was killed is not met above
                await take_back(hand, self.minds, batch, what.ledger_id)
            await self._run_hooks(hand, what, EraseStep.SPEECH)

    async def _buried(self, hand: Hand, what: Erasure) -> AsyncIterator[list[MessageId]]:
        after = 0
        while batch := await hand.do(partial(erasure.list_buried, since=what.asked_at, after=after)):
            after = batch[-1]
            yield batch

    # Profile: facts, links, plans, files

    async def _forget(self, hand: Hand, what: Erasure) -> None:
        timed = what.scope.since is not None or what.scope.before is not None
        if what.person_id is None or timed:
            return
        if what.scope.whole:
            names = await hand.do(partial(exports.list_files, person_id=what.person_id))
            await asyncio.to_thread(_remove, self.home / exports.FOLDER, names)
        await self._run_hooks(hand, what, EraseStep.PROFILE)

    # Tell: while there is still a name to deliver to

    async def _tell(self, hand: Hand, what: Erasure) -> Outcome | None:
        if self.tell is None or what.person_id is None or what.room_id is None:
            return None
        if what.told_at is None:
            await hand.do(partial(self._queue_summary, what=what))
            return Snooze(AGAIN_S)
        row = None if what.outbox_id is None else await hand.do(partial(outbox.load, outbox_id=what.outbox_id))
        under_way = row is not None and row.state in ("ready", "sending")
        return Snooze(AGAIN_S) if under_way and self.clock.now() - what.told_at < TELL_WAITS else None

    async def _queue_summary(self, tx: Tx, what: Erasure) -> None:
        if self.tell is None or what.person_id is None or what.room_id is None:
            return
        telling = Telling(
            person_id=what.person_id,
            room_id=what.room_id,
            front_end=what.front_end,
            text=self.summary(what),
            dedupe=f"erased:{what.ledger_id}",
            rule="command:forget-me",
            trace=f"erased-{what.ledger_id}",
        )
        await erasures.tell(tx, what.ledger_id, await self.tell(tx, telling))

    def summary(self, what: Erasure) -> str:
        """Return the signed result in words."""
        counted = ", ".join(f"{table} {n}" for table, n in sorted(what.counts.items())) or "nothing was there"
        lines = [f"Erased. Rows by table: {counted}."]
        if what.scope.whole:
            lines.append("Your name and account go next; then everything is searched for what may be left.")
        lines += [
            "Not in my reach: messages on the platform itself, backups until they are restored (then this erasure is"
            " done again), pages on disk until the server reuses them.",
            f"Erasure {what.ledger_id}, signature {self.signature(what)}",
        ]
        return "\n".join(lines)

    def signature(self, what: Erasure) -> str:
        """Return what proves that a result is ours: over the scope, the time and the counts."""
        told = [what.ledger_id, what.scope.as_json(), what.until_at.isoformat(), dict(what.counts)]
        return self.key.sign(json.dumps(told, sort_keys=True))[:32]

    # Names: the account itself, last

    async def _unname(self, hand: Hand, what: Erasure) -> None:
        entry = await hand.do(partial(erasures.load_entry, ledger_id=what.ledger_id))
        if entry is not None:
            await asyncio.to_thread(ledger.append, self.home / ledger.LOG, entry, self.key)
        if what.person_id is None or not what.scope.whole:
            return
        await self._sweep(hand, what)
        await self._drop_author(hand, what.person_id)
        await self._run_hooks(hand, what, EraseStep.NAMES)

    async def _sweep(self, hand: Hand, what: Erasure) -> None:
        """Do the same once more: an index job or an answer that was under way may have written beside us."""
        await self._run_hooks(hand, what, EraseStep.WORK)
        await self._bury(hand, what)
        async for batch in self._buried(hand, what):
            await self._bury_batch(hand, what, batch)
        await self._unsay(hand, what)

    async def _drop_author(self, hand: Hand, person_id: PersonId) -> None:
        if self.vectors is None:
            return
        homes = await hand.do(partial(erasures.list_homes, person_id=person_id))
        for model in await hand.do(erasures.list_models):
            for home in homes:
                await self.vectors.delete(model, VectorsOf(community_id=home, author_id=person_id))

    async def _run_hooks(self, hand: Hand, what: Erasure, step: EraseStep) -> None:
        """Run the hooks of a step, each until it touches nothing any more."""
        given = erasure.values(what.scope, what.person_id, what.trace)
        for hook in erasure.ERASERS:
            if hook.step is step and (what.scope.whole or not hook.whole):
                await self._run_hook(hand, what, hook, given)
                self.fault(f"erase.{hook.table}")

    async def _run_hook(self, hand: Hand, what: Erasure, hook: Eraser, given: Mapping[str, object]) -> None:
        async def once(tx: Tx) -> int:
            touched = await erasure.run_hook(tx, hook, given)
            await erasures.count(tx, what.ledger_id, {hook.table: touched})
            return touched

        while await hand.do(once):
            pass

    # Proof: every table and file read through

    async def _prove(self, hand: Hand, what: Erasure) -> Outcome | None:
        if not what.scope.whole:
            await hand.do(partial(self._end, what=what, state="done", places=[], digest=""))
            return None
        found = await proving.prove(hand, what, self.key, self.home)
        await proof.vacuum(self.database, sorted(what.counts))
        state = "failed" if found.left else "done"
        places = [str(place) for place in found.left or found.mentions]
        digest = found.digest(what.ledger_id)
        await hand.do(partial(self._end, what=what, state=state, places=places, digest=digest))
        log.info(
            "erasure.ended",
            erasure=what.ledger_id,
            state=state,
            tables=found.tables,
            files=found.files,
            bytes=found.bytes,
            mentions=len(found.mentions),
        )
        if not found.left:
            return None
        log.error("erasure.left", erasure=what.ledger_id, places=places[:20])
        return Retry(0.0, f"proof: something is left in {len(places)} places; see voidbot.erasures", at_most=0)

    async def _end(self, tx: Tx, what: Erasure, state: str, places: list[str], digest: str) -> None:
        await erasures.end(tx, what.ledger_id, state, places, digest)
        if state == "done":
            await erasures.drop_needles(tx, what.ledger_id)
        if what.person_id is not None:
            await erasures.block(tx, what.person_id, erasing=False)


def _remove(folder: Path, names: list[str]) -> None:
    for name in names:
        (folder / name).unlink(missing_ok=True)
