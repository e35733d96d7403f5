"""When a job gives up: the one honest line owed to whoever asked, in the transaction that ends the job."""

from dataclasses import dataclass

from core.chat.answers import asked_of
from core.chat.notices import Notices
from core.chat.receipting import receipt_jobs
from core.chat.work import SendWork, SummaryWork, TurnWork
from core.domain.errors import BudgetRefused, OutsideRefused, TooLong, Unavailable
from core.domain.ids import OutboxId, TurnId
from core.domain.jobs import Claim, GaveUp
from core.domain.speech import OutboxState, SilenceReason
from core.prompt.stock import StockKey
from core.store import inbox, jobs, outbox, passes, places
from core.store.engine import Tx


@dataclass(frozen=True, slots=True)
class LastWords:
    """Given to the worker; knows what each kind of job owes."""

    notices: Notices

    async def __call__(self, tx: Tx, claim: Claim, why: GaveUp) -> None:
        """Say why nothing came, keyed like the answer itself, so that there is never both."""
        match claim.kind:
            case "reply" | "command":
                await self._turn(tx, claim, TurnWork.model_validate(dict(claim.payload)), why)
            case "summarize":
                await self._turn(tx, claim, SummaryWork.model_validate(dict(claim.payload)), why)
            case "send":
                await self._answer(tx, SendWork.model_validate(dict(claim.payload)))
            case "pass":
                await passes.give_up(tx, int(str(claim.payload["run_id"])), "job_dead")
            case _:
                pass  # nobody waits for it; the dead letter and the log tell the operator

    async def _turn(self, tx: Tx, claim: Claim, work: TurnWork, why: GaveUp) -> None:
        turn = await inbox.load_turn(tx, TurnId(work.turn_id))
        if turn.state not in ("open", "running"):
            return
        room = await places.load_room(tx, turn.room_id)
        community = await places.load_community(tx, turn.community_id)
        asked = asked_of(turn, room)
        if isinstance(why, BudgetRefused):
            await inbox.end_turn(tx, turn.id, SilenceReason.BUDGET_SPENT)
            await self.notices.spent(tx, asked, why, community.timezone, private=turn.private)
            return
        await inbox.end_turn(tx, turn.id, None)
        begun = await outbox.find(tx, f"reply:{turn.id}")
        if begun is not None:  # words were shown and the rest will not come: say so there
            text = self.notices.voice.say(room.language, StockKey.REPLY_CUT_SHORT, room.id)
            await self.notices.cut_short(tx, asked, begun, text)
            return
        key, values = _words(why, claim)
        await self.notices.say(tx, asked, key, f"reply:{turn.id}", private=turn.private, **values)

    async def _answer(self, tx: Tx, work: SendWork) -> None:
        """Close an answer that could not be sent; a part whose fate is not known stays `unknown`."""
        row = await outbox.load(tx, OutboxId(work.outbox_id))
        if row is None or row.state not in (OutboxState.READY, OutboxState.SENDING):
            return
        parts = await outbox.list_parts(tx, row.id)
        doubtful = any(part.state is OutboxState.SENDING for part in parts)
        state = OutboxState.UNKNOWN if doubtful else OutboxState.FAILED
        for part in parts:
            if part.state in (OutboxState.SENDING, OutboxState.READY):
                await outbox.set_part(tx, row.id, part.n, state, error="gave up")
        await outbox.close(tx, row.id, state, "gave up")
        await jobs.enqueue(tx, receipt_jobs(row))


def _words(why: GaveUp, claim: Claim) -> tuple[StockKey, dict[str, str]]:
    """Return what is said; the correlation id is all a person is told of the error."""
    match why:
        case TooLong():
            return StockKey.ERROR_TOO_LONG, {}
        case Unavailable() | OutsideRefused():
            return StockKey.ERROR_PROVIDER_DOWN, {"id": claim.trace}
        case _:
            return StockKey.ERROR_GENERIC, {"id": claim.trace}
