"""Putting an answer into the outbox: the row, the draft of its receipt and the job that sends it, together."""

from dataclasses import dataclass
from datetime import datetime

from core.chat.work import send_job
from core.domain.ids import CommunityId, InboxId, OutboxId, PersonId, RoomId
from core.domain.speech import Draft, Receipt, ReceiptSource
from core.store import jobs, outbox
from core.store.engine import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Who asked, where, and by which message: what every answer to it carries along, fixed at intake."""

    community_id: CommunityId
    room_id: RoomId
    person_id: PersonId
    front_end: str
    reply_to: str
    language: str
    trace: str
    at: datetime
    inbox_id: InboxId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What a receipt says beyond the outbox row."""

    trigger: str
    rule: str
    provider: str
    model: str = ""
    usd_micro: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    prompt_sha256: str = ""
    role: str = ""
    persona: str = ""
    attempts: int = 1
    guards: tuple[str, ...] = ()
    gates: dict[str, object] | None = None
    sections: tuple[dict[str, object], ...] = ()
    sources: tuple[ReceiptSource, ...] = ()


async def queue_answer(tx: Tx, draft: Draft, asked: Asked, proof: Proof) -> OutboxId | None:
    """Queue an answer to be sent once; None if its key is taken, and then nothing was written."""
    outbox_id = await outbox.add(tx, draft, community_id=asked.community_id, trace=asked.trace, asked_at=asked.at)
    if outbox_id is None:
        return None
    await queue_send(tx, outbox_id, asked, proof)
    return outbox_id


async def queue_send(tx: Tx, outbox_id: OutboxId, asked: Asked, proof: Proof) -> None:
    """Queue the job that sends an answer, and write what is known of the answer before it is sent."""
    job = send_job(
        outbox_id,
        front_end=asked.front_end,
        community_id=asked.community_id,
        room_id=asked.room_id,
        person_id=asked.person_id,
        trace=asked.trace,
    )
    (job_id,) = await jobs.enqueue(tx, [job])
    receipt = Receipt(
        outbox_id=outbox_id,
        trigger=proof.trigger,
        rule=proof.rule,
        provider=proof.provider,
        model=proof.model,
        usd_micro=proof.usd_micro,
        input_tokens=proof.input_tokens,
        output_tokens=proof.output_tokens,
        prompt_sha256=proof.prompt_sha256,
        role=proof.role,
        persona=proof.persona,
        attempts=proof.attempts,
        guards=proof.guards,
        gates=proof.gates or {},
        sections=proof.sections,
        sources=proof.sources,
    )
    await outbox.add_receipt(tx, receipt, room_id=asked.room_id, person_id=asked.person_id, job_id=job_id)
