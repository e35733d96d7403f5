"""The `retract` job: what the mind made, and its runs saved, of messages that were deleted or edited is taken back.

It is queued where the index takes in the change, which the transaction of the change has marked: nothing is lost.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import structlog
from pydantic import BaseModel, ConfigDict

from core.domain.ids import MessageId
from core.domain.jobs import UPKEEP_HEAD_START_S, NewJob, Ok, Outcome, mind_lane
from core.domain.mind.facts import Actor, Emitter, MessageFact
from core.domain.operations.batch import Batch, BatchVerdict, Item, Mode
from core.domain.operations.keeping import VoidCause, VoidSource
from core.jobs.executor import JobContext
from core.state.service import StateService
from core.store import jobs, mind_facts, mind_traces, pass_books, state
from core.store.engine import Tx

log = structlog.get_logger()

AT_ONCE = 500
"""Messages that one operation takes back."""
AGAIN_S = 600.0
"""After how long it is looked again whether a run is over that goes on with what it saved."""


class RetractWork(BaseModel):
    """Messages that a mind rests on, deleted or edited. `saved`: only what runs saved of them is left to take."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    v: Literal[1] = 1
    mind_id: str
    messages: tuple[int, ...]
    saved: bool = False


@dataclass(frozen=True, slots=True)
class Retracting:
    """The `retract` job."""

    service: StateService

    async def run(self, ctx: JobContext, work: RetractWork) -> Outcome:
        """Void what rests on these messages, as they stand now, and delete what runs saved of them."""
        operations = await ctx.finish(partial(self._take_back, job_id=ctx.job.id, work=work))
        log.info("mind.retracted", mind=work.mind_id, messages=len(work.messages), operations=operations)
        return Ok()

    async def _take_back(self, tx: Tx, job_id: int, work: RetractWork) -> int:
        found = await mind_facts.list_changed(tx, work.mind_id, work.messages)
        verdict = None if work.saved else await self._void(tx, job_id, work, found)
        same = {fact.id for fact in found if fact.alive and fact.revision == 0}
        changed = [MessageId(id_) for id_ in work.messages if id_ not in same]
        if (await pass_books.forget(tx, work.mind_id, changed)).waiting:
            await jobs.enqueue(tx, [retract_job(work.mind_id, changed, saved=True)])
        return 0 if verdict is None else len(verdict.items)

    async def _void(self, tx: Tx, job_id: int, work: RetractWork, found: Sequence[MessageFact]) -> BatchVerdict:
        causes = [
            (VoidCause.DELETED, [fact.id for fact in found if not fact.alive]),
            (VoidCause.EDITED, [fact.id for fact in found if fact.alive and fact.revision > 0]),
        ]
        items = tuple(
            Item(VoidSource(refs=tuple(f"message:{id_}" for id_ in ids), cause=cause), f"{job_id}:{cause.value}")
            for cause, ids in causes
            if ids
        )
        actor = Actor(Emitter.UPKEEP, "retract", job_id=job_id)
        return await self.service.apply(tx, Batch(mind_id=work.mind_id, actor=actor, items=items, mode=Mode.ALL))


async def queue_retractions(tx: Tx, changed: Sequence[MessageId]) -> int:
    """Queue the jobs of minds that rest on one of these messages, or whose runs saved it; return how many."""
    if not changed:
        return 0
    by_mind: dict[str, set[MessageId]] = {}
    resting = await state.list_resting(tx, changed, mind_traces.WORDLESS)
    for mind_id, message in resting + await pass_books.list_holding(tx, changed):
        by_mind.setdefault(mind_id, set()).add(message)
    new = [
        retract_job(mind_id, sorted(messages)[at : at + AT_ONCE])
        for mind_id, messages in by_mind.items()
        for at in range(0, len(messages), AT_ONCE)
    ]
    if new:
        await jobs.enqueue(tx, new)
    return len(new)


def retract_job(mind_id: str, messages: Sequence[MessageId], *, saved: bool = False) -> NewJob:
    """Return the job that takes back what a mind made of these messages. `saved`: later, what its runs saved alone."""
    return NewJob(
        kind="retract",
        pool="upkeep",
        lane=mind_lane(mind_id),
        payload=RetractWork(mind_id=mind_id, messages=tuple(messages), saved=saved).model_dump(mode="json"),
        due_in_s=AGAIN_S if saved else 0.0,
        head_start_s=UPKEEP_HEAD_START_S,
    )
