"""The end of an answered turn (TX E): outbox, receipt, usage, turn and job end together, or nothing does."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

from core.chat.answered import Answered, Settle
from core.chat.answers import Asked, queue_answer, queue_send
from core.chat.proposing import apply_proposed, decided, final_text
from core.chat.voice import Voice
from core.domain.budgets import CallResult
from core.domain.errors import BotError, StaleState
from core.domain.prompt import Persona, Role
from core.domain.rooms import Community, Room
from core.domain.speech import Draft, Receipt, SpeechKind
from core.jobs.executor import Fault, JobContext
from core.state.service import StateService
from core.store import budgets, inbox, outbox
from core.store.engine import Tx
from core.store.inbox import TurnRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """What was asked, where, and by which rule it is answered. `kind` decides which job makes a withdrawn one anew.

    `minds`, `voice`: for replies that may propose something to the mind.
    """

    turn: TurnRow
    asked: Asked
    room: Room
    community: Community
    role: Role
    persona: Persona
    rule: str
    kind: SpeechKind = SpeechKind.REPLY
    minds: StateService | None = None
    voice: Voice | None = None


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
        # First of all: a mind is locked before any row of a turn, an outbox or a purse.
        text, gates = await _decide(tx, ctx, closing, answered)
        if not await inbox.end_turn(tx, turn.id, None, expected_version=turn.version):
            raise StaleState("turn: changed while it was answered", turn=turn.id)
        receipt = _receipt(ctx, closing, answered, gates)
        draft = Draft(
            kind=closing.kind,
            room_id=closing.room.id,
            front_end=turn.front_end,
            reply_to=turn.reply_to,
            text=text,
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


async def _decide(tx: Tx, ctx: JobContext, closing: Closing, answered: Answered) -> tuple[str, dict[str, object]]:
    """Return the reply's text and what its receipt says of it, once the mind has decided on what it proposes."""
    if answered.proposed is None or closing.minds is None or closing.voice is None:
        return answered.text, {}
    verdict = await apply_proposed(tx, closing.minds, closing.community.mind_id, ctx, closing.role, answered.proposed)
    return final_text(answered.text, answered.proposed, verdict, closing.voice, closing.room), decided(verdict)


def _receipt(ctx: JobContext, closing: Closing, answered: Answered, gates: Mapping[str, object]) -> Receipt:
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
        gates={"mode": closing.room.mode, "settings_version": closing.community.settings_version, **gates},
        sections=tuple(answered.sections()),
        sources=answered.sources,
    )
