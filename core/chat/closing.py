"""The end of an answered turn (TX E): outbox, receipt, usage, turn and job end together, or nothing does."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from core.chat.answers import Asked, queue_answer, queue_send
from core.chat.asking import Answered, Settle
from core.domain.budgets import CallResult
from core.domain.errors import BotError, StaleState
from core.domain.prompt import Persona, Role
from core.domain.rooms import Community, Room
from core.domain.speech import Draft, Receipt, SpeechKind
from core.jobs.executor import Fault, JobContext
from core.store import budgets, inbox, outbox
from core.store.engine import Tx
from core.store.inbox import TurnRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """What was asked, where, and by which rule it is answered. `kind` decides which job makes a withdrawn one anew."""

    turn: TurnRow
    asked: Asked
    room: Room
    community: Community
    role: Role
    persona: Persona
    rule: str
    kind: SpeechKind = SpeechKind.REPLY


async def close_turn(
    ctx: JobContext,
    closing: Closing,
    answered: Answered,
    settle_apart: Callable[[Settle], Awaitable[None]],
    fault: Fault,
) -> None:
    """Queue the answer and end the turn with its job.

    Raises:
        ClaimLost: Another worker owns the turn; nothing was written but what the call cost.
        StaleState: A fragment or an edit came meanwhile; the same.
    """
    turn = closing.turn

    async def work(tx: Tx) -> None:
        if not await inbox.end_turn(tx, turn.id, None, expected_version=turn.version):
            raise StaleState("turn: changed while it was answered", turn=turn.id)
        receipt = _receipt(ctx, closing, answered)
        draft = Draft(
            kind=closing.kind,
            room_id=closing.room.id,
            front_end=turn.front_end,
            reply_to=turn.reply_to,
            text=answered.text,
            audience=frozenset({closing.room.id}).union(*(source.audience for source in answered.sources)),
            dedupe=f"reply:{turn.id}",
            private_to=turn.person_id if turn.private else None,
        )
        if await queue_answer(tx, draft, closing.asked, receipt) is None:
            # A stream has shown words already: the send job makes the final edit.
            begun = await outbox.find(tx, draft.dedupe)
            if begun is not None:
                await outbox.set_body(tx, begun.id, draft.text, sorted(draft.audience))
                await queue_send(tx, begun.id, closing.asked, receipt)
        if answered.settle is not None:
            await budgets.settle_usage(tx, answered.settle.reservation_id, answered.settle.usage)
        fault("E.written")

    try:
        await ctx.finish(work)
    except BotError:
        if answered.settle is not None:  # paid for, and nobody will hear it
            usage = replace(answered.settle.usage, result=CallResult.DISCARDED)
            await settle_apart(replace(answered.settle, usage=usage))
        raise


def _receipt(ctx: JobContext, closing: Closing, answered: Answered) -> Receipt:
    role, persona = closing.role, closing.persona
    usage = answered.settle.usage if answered.settle is not None else None
    return Receipt(
        trigger=f"message:{closing.turn.reply_to}",
        rule=closing.rule,
        provider=answered.provider,
        model=answered.model,
        usd_micro=usage.usd_micro if usage else 0,
        input_tokens=usage.input_tokens if usage else 0,
        output_tokens=usage.output_tokens if usage else 0,
        prompt_sha256=answered.prompt.sha256 if answered.prompt else "",
        role=f"{role.name}@{role.version}:{role.sha256[:12]}" if answered.prompt else "",
        persona=f"{persona.name}@{persona.version}:{persona.sha256[:12]}" if answered.prompt else "",
        attempts=ctx.job.attempt,
        guards=answered.guards,
        gates={"mode": closing.room.mode, "settings_version": closing.community.settings_version},
        sections=tuple(answered.sections()),
        sources=answered.sources,
    )
