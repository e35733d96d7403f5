"""The `retract` job: what the mind made of messages that were deleted or edited is taken back.

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
from core.domain.mind.facts import Actor, Emitter
from core.domain.operations.batch import Batch, BatchVerdict, Item, Mode
from core.domain.operations.keeping import VoidCause, VoidSource
from core.jobs.executor import JobContext
from core.state.service import StateService
from core.store import jobs, mind_facts, mind_traces, state
from core.store.engine import Tx

log = structlog.get_logger()

AT_ONCE = 500
"""Messages that one operation takes back."""


class RetractWork(BaseModel):
    """Messages that a mind rests on, deleted or edited."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    v: Literal[1] = 1
    mind_id: str
    messages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Retracting:
    """The `retract` job."""

    service: StateService

    async def run(self, ctx: JobContext, work: RetractWork) -> Outcome:
        """Void what rests on these messages, as they stand now."""
        verdict = await ctx.finish(partial(self._void, job_id=ctx.job.id, work=work))
        log.info("mind.retracted", mind=work.mind_id, messages=len(work.messages), operations=len(verdict.items))
        return Ok()

    async def _void(self, tx: Tx, job_id: int, work: RetractWork) -> BatchVerdict:
        found = await mind_facts.list_changed(tx, work.mind_id, work.messages)
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
    """Queue the jobs of minds that rest on one of these messages; return how many there were."""
    if not changed:
        return 0
    by_mind: dict[str, list[MessageId]] = {}
    for mind_id, message in await state.list_resting(tx, changed, mind_traces.WORDLESS):
        by_mind.setdefault(mind_id, []).append(message)
    new = [
        retract_job(mind_id, messages[at : at + AT_ONCE])
        for mind_id, messages in by_mind.items()
        for at in range(0, len(messages), AT_ONCE)
    ]
    if new:
        await jobs.enqueue(tx, new)
    return len(new)


def retract_job(mind_id: str, messages: Sequence[MessageId]) -> NewJob:
    """Return the job that takes back what a mind made of these messages."""
    return NewJob(
        kind="retract",
        pool="upkeep",
        lane=mind_lane(mind_id),
        payload=RetractWork(mind_id=mind_id, messages=tuple(messages)).model_dump(mode="json"),
        head_start_s=UPKEEP_HEAD_START_S,
    )
