"""Putting an answer into the outbox: the row, the draft of its receipt and the job that sends it, together."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from core.chat.work import send_job
from core.domain.choices import Choice
from core.domain.ids import CommunityId, InboxId, OutboxId, PersonId, RoomId
from core.domain.rooms import Room
from core.domain.speech import Draft, Receipt
from core.store import choices as offers
from core.store import jobs, outbox
from core.store.engine import Tx
from core.store.inbox import TurnRow


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


def asked_of(turn: TurnRow, room: Room) -> Asked:
    """Return what every answer to this turn carries along."""
    return Asked(
        community_id=turn.community_id,
        room_id=turn.room_id,
        person_id=turn.person_id,
        front_end=turn.front_end,
        reply_to=turn.reply_to,
        language=room.language,
        trace=turn.trace,
        at=turn.asked_at,
        inbox_id=next(iter(turn.inbox_ids), None),
    )


async def queue_answer(tx: Tx, draft: Draft, asked: Asked, receipt: Receipt) -> OutboxId | None:
    """Queue an answer to be sent once; None if its key is taken, and then nothing was written."""
    outbox_id = await outbox.add(tx, draft, community_id=asked.community_id, trace=asked.trace, asked_at=asked.at)
    if outbox_id is None:
        return None
    await queue_send(tx, outbox_id, asked, receipt)
    return outbox_id


async def queue_send(tx: Tx, outbox_id: OutboxId, asked: Asked, receipt: Receipt) -> None:
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
    await outbox.add_receipt(tx, outbox_id, receipt, room_id=asked.room_id, person_id=asked.person_id, job_id=job_id)


async def queue_unasked(
    tx: Tx,
    draft: Draft,
    receipt: Receipt,
    *,
    community_id: CommunityId,
    trace: str,
    person_id: PersonId | None = None,
    choices: Sequence[Choice] = (),
    until: datetime | None = None,
) -> OutboxId | None:
    """Queue what nobody has asked for to be sent once; None if its key is taken, and then nothing was written.

    Args:
        tx: The transaction.
        draft: What is said, and where.
        receipt: What is known of it before it is sent.
        community_id: Of the room.
        trace: What it came from.
        person_id: Whom it concerns, if it is one person.
        choices: What can be pressed below it.
        until: Until when.
    """
    outbox_id = await outbox.add(tx, draft, community_id=community_id, trace=trace, asked_at=None)
    if outbox_id is None:
        return None
    if choices and until is not None:
        await offers.offer(tx, outbox_id, tuple(choices), until)
    job = send_job(
        outbox_id,
        front_end=draft.front_end,
        community_id=community_id,
        room_id=draft.room_id,
        person_id=person_id,
        trace=trace,
        asked=False,
    )
    (job_id,) = await jobs.enqueue(tx, [job])
    await outbox.add_receipt(tx, outbox_id, receipt, room_id=draft.room_id, person_id=person_id, job_id=job_id)
    return outbox_id
