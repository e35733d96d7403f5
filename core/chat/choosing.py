"""Choices below our own messages: a press becomes the command that it stands for, and what is over is taken off."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, assert_never

import structlog
from pydantic import BaseModel, ConfigDict

from core.chat.admission import Arrival
from core.domain.choices import Choice, ChoiceRef, read_ref
from core.domain.ids import OutboxId, RoomKey
from core.domain.jobs import KeyScope, NewJob, Ok, Outcome, Retry, Snooze, send_lane
from core.domain.messages import InboundMessage, MessageKind
from core.jobs.executor import JobContext
from core.ports import Ambiguous, Delivered, FrontEnd, RetryAfter, SendRefused, SendResult, Unsent
from core.prompt.stock import StockKey
from core.store import choices, jobs, places
from core.store.choices import Offer
from core.store.engine import Tx

log = structlog.get_logger()

TRIES = 3
"""How often a message is to be changed before it is left as it stands: a press still says what is over."""


async def offered(tx: Tx, outbox_id: OutboxId) -> tuple[Choice, ...]:
    """Return what can still be chosen below a message that is about to be sent."""
    offer = await choices.find(tx, outbox_id)
    return () if offer is None or offer.expired or offer.chosen is not None else offer.choices


async def read_press(tx: Tx, arrival: Arrival) -> InboundMessage | None:
    """Return a press as the command that the store has for it; None if it is nothing that was offered here.

    What the platform hands over says only which choice is meant, and is believed only where that was shown.
    """
    message = arrival.message
    ref = read_ref(message.text)
    offer = None if ref is None else await choices.find(tx, ref.outbox_id)
    known = offer is not None and (offer.room_id, offer.front_end) == (arrival.room.id, message.front_end)
    if known and offer is not None and message.reply_to is not None:
        known = await choices.is_shown_as(tx, offer.outbox_id, message.reply_to)
    if ref is None or offer is None or not known:
        log.warning("choice.unknown", front_end=message.front_end, room=arrival.room.id)
        return None
    return replace(
        message,
        kind=MessageKind.COMMAND,
        text=offer.command(ref.n),
        message_id=ref.pressed(message.event_id),
        quiet_window=False,
    )


async def settled(tx: Tx, ref: ChoiceRef) -> StockKey | None:
    """Return what a press is told that comes too late, None if it counts; the next press waits for this one."""
    await choices.hold(tx, ref)
    offer = await choices.find(tx, ref.outbox_id)
    if offer is None or offer.chosen is not None:
        return StockKey.CHOICE_DECIDED
    return StockKey.CHOICE_EXPIRED if offer.expired or not offer.command(ref.n) else None


async def decide(tx: Tx, ref: ChoiceRef) -> None:
    """Note that a choice was taken, and have all of them taken off the message."""
    offer = await choices.find(tx, ref.outbox_id)
    if offer is not None and await choices.decide(tx, ref):
        await jobs.enqueue(tx, [closing_job(offer)])


async def sweep(tx: Tx) -> int:
    """Have choices taken off that have run out; return how many messages that is."""
    expired = await choices.list_expired(tx)
    found = [offer for id_ in expired if (offer := await choices.find(tx, id_)) is not None]
    await jobs.enqueue(tx, [closing_job(offer) for offer in found])
    return len(found)


class ClosingWork(BaseModel):
    """Take the choices off one message: payload of `close_choices`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    v: Literal[1] = 1
    outbox_id: int


def closing_job(offer: Offer) -> NewJob:
    """Return the job that takes choices off; only processes with that front end's connection claim it."""
    return NewJob(
        kind="close_choices",
        pool=f"send/{offer.front_end}",
        lane=send_lane(offer.room_id),
        payload=ClosingWork(outbox_id=offer.outbox_id).model_dump(),
        community_id=offer.community_id,
        room_id=offer.room_id,
        key=f"choices:{offer.outbox_id}",
        scope=KeyScope.LIVE,
        max_attempts=TRIES,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """What taking choices off needs. `front_ends`: those whose connection this process owns."""

    front_ends: Mapping[str, FrontEnd]

    async def run(self, ctx: JobContext, work: ClosingWork) -> Outcome:
        """Take the choices off one message; where the platform refuses, they stand there and do nothing."""
        outbox_id = OutboxId(work.outbox_id)
        shown = await ctx.advance(lambda tx: _shown(tx, outbox_id), durable=False)
        if shown is not None:
            front_end, room, external_id = shown
            result = await self.front_ends[front_end].close_choices(room, external_id)
            again = again_of(result, ctx.attempt)
            if again is not None:
                return again
        await ctx.finish(lambda tx: choices.close(tx, outbox_id, over=True), durable=False)
        return Ok()


def again_of(result: SendResult, attempt: int) -> Outcome | None:
    """Return when a change of a message is to be tried again; None if it is made, or is given up."""
    match result:
        case RetryAfter(seconds):
            return Snooze(seconds)
        case Unsent(reason) | Ambiguous(reason) if attempt < TRIES:
            return Retry(None, reason)
        case Unsent() | Ambiguous() | SendRefused() | Delivered():
            return None
        case _:
            assert_never(result)


async def _shown(tx: Tx, outbox_id: OutboxId) -> tuple[str, RoomKey, str] | None:
    """Return front end, room and message that carry choices; None if there is nothing to take off."""
    offer = await choices.find(tx, outbox_id)
    if offer is None or not offer.choices or (offer.chosen is None and not offer.expired):
        return None
    external_id = await choices.shown_as(tx, outbox_id)
    if external_id is None:
        return None
    return offer.front_end, (await places.load_room(tx, offer.room_id)).key, external_id
