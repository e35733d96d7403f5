"""The `receipt` job: what was said becomes known to the mind that said it, in a transaction of the mind's own.

Delivery queues it where it closes an answer. It holds the mind before anything else, which a delivery cannot: its own
rows are locked by then.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import structlog
from pydantic import BaseModel, ConfigDict

from core.domain.ids import OutboxId
from core.domain.jobs import KeyScope, NewJob, Ok, Outcome
from core.domain.mind.bodies import KIND_OF
from core.domain.mind.codes import Rejected
from core.domain.mind.entries import Key
from core.domain.mind.facts import Actor, Emitter
from core.domain.mind.speech import Candidate, CandidateStatus, Cause, Receipt, Transport
from core.domain.mind.speech import Outcome as Proof
from core.domain.mind.values import EntryId
from core.domain.operations.base import Operation
from core.domain.operations.batch import Batch, Item, Mode
from core.domain.operations.receipts import MarkCandidateSpoken, RecordDeliveryReceipt
from core.domain.operations.speech import AdvanceCandidate, RetireCandidateIntervention
from core.domain.rooms import RoomKind
from core.domain.speech import OutboxState, SpeechKind, candidate_of_key, speech_key
from core.jobs.executor import JobContext, Observe
from core.state.service import StateService
from core.store import archive, outbox, places, state
from core.store.engine import Tx
from core.store.outbox import OutboxRow, PartRow
from core.store.places import Place

log = structlog.get_logger()

POOL = "upkeep"
_TOLD = frozenset({SpeechKind.REPLY, SpeechKind.SPEECH})
"""What counts as speech of the mind: its answers, and what it said unasked. Commands are answered by code."""
_TRANSPORTS = frozenset(Transport)


class ReceiptWork(BaseModel):
    """Let the mind know of one answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    v: Literal[1] = 1
    outbox_id: int


def receipt_jobs(row: OutboxRow) -> list[NewJob]:
    """Return the job for an answer that is over, none if it was no speech of the mind."""
    if row.kind not in _TOLD:
        return []
    job = NewJob(
        kind="receipt",
        pool=POOL,
        lane=f"receipt:{row.community_id}",
        payload=ReceiptWork(outbox_id=row.id).model_dump(),
        community_id=row.community_id,
        room_id=row.room_id,
        key=f"receipt:{row.id}",
        scope=KeyScope.LIVE,
        trace=row.trace,
    )
    return [job]


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipting:
    """What telling the mind needs."""

    minds: StateService
    observe: Observe

    async def run(self, ctx: JobContext, work: ReceiptWork) -> Outcome:
        """Record one delivery: its receipt, and what it settles."""
        await ctx.finish(lambda tx: self._record(tx, ctx, OutboxId(work.outbox_id)), durable=False)
        return Ok()

    async def _record(self, tx: Tx, ctx: JobContext, outbox_id: OutboxId) -> None:
        row = await outbox.find_by_id(tx, outbox_id)
        if row is None:
            return
        place = await places.load_place(tx, row.room_id)
        mind = await state.lock_mind(tx, place.community.mind_id)
        named = candidate_of_key(row.dedupe)
        candidate = None if named is None else EntryId(named)
        parts = await outbox.list_parts(tx, row.id)
        if row.state in (OutboxState.SENT, OutboxState.UNKNOWN):
            receipt = await _receipt_of(tx, row, place, parts, candidate, mind.now)
            operations: list[Operation] = [] if receipt is None else [RecordDeliveryReceipt(receipt=receipt)]
            if operations and candidate is not None:
                spoken = EntryId(f"receipt:{row.id}")
                operations.append(MarkCandidateSpoken(intervention_id=candidate, receipt_id=spoken))
            await self._apply(tx, ctx, place, row, operations)
            if operations and candidate is not None:
                await self._check(tx, mind.id, row, candidate)
        elif candidate is not None and await self._was_last(tx, mind.id, row, candidate):
            await self._apply(tx, ctx, place, row, _given_back(candidate, parts), Mode.EACH)

    async def _was_last(self, tx: Tx, mind_id: str, row: OutboxRow, candidate: EntryId) -> bool:
        """Return whether a row that came to nothing was the newest attempt at saying this candidate."""
        if row.state not in (OutboxState.FAILED, OutboxState.DROPPED):
            return False
        for held in await state.load_entries(tx, mind_id, {Key(KIND_OF["candidate"], candidate)}):
            body = held.entry.body
            if isinstance(body, Candidate) and body.status is CandidateStatus.SENDING:
                return row.dedupe.startswith(speech_key(mind_id, candidate, body.attempts))
        return False

    async def _apply(
        self,
        tx: Tx,
        ctx: JobContext,
        place: Place,
        row: OutboxRow,
        operations: Sequence[Operation],
        mode: Mode = Mode.ALL,
    ) -> None:
        """Have it journaled. A refusal never touches the delivery, which is over."""
        if not operations:
            return
        batch = Batch(
            mind_id=place.community.mind_id,
            actor=Actor(Emitter.PARENT, "delivery", job_id=ctx.job.id),
            items=tuple(Item(each, f"{row.id}:receipt:{n}") for n, each in enumerate(operations)),
            mode=mode,
        )
        verdict = await self.minds.apply(tx, batch)
        refused = [each.verdict.code.value for each in verdict.items if isinstance(each.verdict, Rejected)]
        if refused:
            log.warning("receipt.refused", outbox=row.id, codes=refused)

    async def _check(self, tx: Tx, mind_id: str, row: OutboxRow, candidate: EntryId) -> None:
        """Look whether the candidate is spoken and its one receipt names it; all else is a defect."""
        held = [each.entry for each in await state.load_entries(tx, mind_id, {Key(KIND_OF["candidate"], candidate)})]
        citing = [each.entry.body for each in await state.list_citing(tx, mind_id, [f"candidate:{candidate}"])]
        body = held[0].body if held else None
        spoken = isinstance(body, Candidate) and (body.status, body.receipt_id) == (
            CandidateStatus.SPOKEN,
            f"receipt:{row.id}",
        )
        if not spoken or [each.outbox_id for each in citing if isinstance(each, Receipt)] != [row.id]:
            log.error("delivery_postcondition_failed", outbox=row.id, mind=mind_id)
            self.observe("delivery_postcondition_total", 1, {})


def _given_back(candidate: EntryId, parts: Sequence[PartRow]) -> list[Operation]:
    """Return what becomes of a candidate that was not said; what people have seen a part of is not said again."""
    advance = AdvanceCandidate(intervention_id=candidate, to=CandidateStatus.QUEUED, reason="delivery_failed")
    if not any(part.external_id is not None for part in parts):
        return [advance]
    return [advance, RetireCandidateIntervention(intervention_id=candidate, reason="delivery_failed")]


async def _receipt_of(
    tx: Tx, row: OutboxRow, place: Place, parts: Sequence[PartRow], candidate: str | None, now: datetime
) -> Receipt | None:
    """Return what the mind keeps; None for what one person alone has read in a room of many."""
    platform = place.room.key.platform
    if platform not in _TRANSPORTS or (row.private_to is not None and place.room.kind is not RoomKind.DM):
        return None
    reply = None if row.reply_to is None else await archive.id_of(tx, row.room_id, row.reply_to)
    said = [part for part in parts if part.external_id is not None or part.state is OutboxState.UNKNOWN]
    return Receipt.model_validate(
        {
            "outbox_id": row.id,
            "intervention_id": candidate,
            "cause": Cause.REPLY if candidate is None else Cause.CANDIDATE,
            "room_id": row.room_id,
            "reply_to_message_id": reply,
            "transport": Transport(platform),
            "sent_message_ids": tuple(part.external_id for part in said if part.external_id is not None)[:32],
            "content_length": sum(len(part.text) for part in said),
            "chunk_count": max(1, len(said)),
            # No words: they rest on rooms that may close, and on messages that may go. The archive has them, and knows.
            "preview": "",
            "content_hash": hashlib.sha256(row.body.encode()).hexdigest(),
            "sent_at": row.closed_at or now,
            "outcome": Proof.SENT if row.state is OutboxState.SENT else Proof.UNKNOWN,
            "delivery_ref": f"outbox:{row.id}",
        },
        by_name=True,
    )
