"""What code says by itself: limits, failures, refusals. Each is said once, and only to whom it concerns."""

from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from core.chat.answers import Asked, queue_answer, queue_send
from core.chat.voice import Voice
from core.domain.budgets import Scope
from core.domain.errors import BudgetRefused
from core.domain.ids import OutboxId, PersonId
from core.domain.speech import Draft, Receipt, SpeechKind
from core.prompt.stock import StockKey
from core.store import outbox, rates
from core.store.engine import Tx
from core.store.outbox import OutboxRow

TOLD_EVERY_S = 600.0
"""A person hears of a limit once in ten minutes."""
_WIDE = {
    Scope.ROOM.value: StockKey.LIMIT_ROOM,
    Scope.COMMUNITY.value: StockKey.LIMIT_COMMUNITY,
    Scope.DEPLOYMENT.value: StockKey.LIMIT_DEPLOYMENT,
}


@dataclass(frozen=True, slots=True)
class Notices:
    """Queues stock messages as answers, with receipts of their own."""

    voice: Voice

    async def say(
        self, tx: Tx, asked: Asked, key: StockKey, dedupe: str, *, private: bool = False, **values: str
    ) -> OutboxId | None:
        """Queue one stock message in answer to what was asked; None if this was said before."""
        text = self.voice.say(asked.language, key, asked.room_id, **values)
        return await queue_answer(
            tx,
            _draft(asked, text, dedupe, asked.person_id if private else None),
            asked,
            Receipt(trigger=f"message:{asked.reply_to}", rule=f"notice:{key}", provider="code"),
        )

    async def wait(self, tx: Tx, asked: Asked, wait_s: float) -> None:
        """Tell a person, once in ten minutes, that they ask too fast."""
        if await rates.take(tx, f"person:{asked.person_id}:told", TOLD_EVERY_S, TOLD_EVERY_S) is None:
            dedupe = f"notice:{asked.inbox_id}:{StockKey.LIMIT_COOLDOWN}"
            wait = _seconds(wait_s)
            await self.say(tx, asked, StockKey.LIMIT_COOLDOWN, dedupe, private=True, wait=wait)

    async def spent(
        self, tx: Tx, asked: Asked, refused: BudgetRefused, timezone: str, *, private: bool = False
    ) -> None:
        """Say that a purse is used up: to its person once in ten minutes, to a room once per window.

        `private`: the room hears nothing; who asked is told instead.
        """
        reset = _when(refused.resets_at, timezone)
        key = _WIDE.get(refused.scope)
        if key is not None and not private:
            dedupe = f"notice:{asked.room_id}:{key}:{refused.resets_at.isoformat()}"
            await self.say(tx, asked, key, dedupe, reset=reset)
        elif await rates.take(tx, f"person:{asked.person_id}:told", TOLD_EVERY_S, TOLD_EVERY_S) is None:
            limit = {} if key is not None else {"limit": str(refused.limit)}
            key = key or StockKey.LIMIT_DAY
            await self.say(tx, asked, key, f"notice:{asked.inbox_id}:{key}", private=True, reset=reset, **limit)

    async def unheard(self, tx: Tx, asked: Asked) -> None:
        """Say, once in ten minutes in a room, that voice messages cannot be heard."""
        if await rates.take(tx, f"room:{asked.room_id}:unheard", TOLD_EVERY_S, TOLD_EVERY_S) is None:
            key = StockKey.ATTACHMENT_VOICE_UNREADABLE
            await self.say(tx, asked, key, f"notice:{asked.inbox_id}:{key}")

    async def cut_short(self, tx: Tx, asked: Asked, begun: OutboxRow, text: str) -> None:
        """End a streamed answer whose rest will not come, in the message that shows it."""
        shown = "".join(part.text for part in await outbox.list_parts(tx, begun.id))
        await outbox.set_body(tx, begun.id, f"{shown}\n\n{text}", sorted(begun.audience))
        receipt = Receipt(trigger=f"message:{asked.reply_to}", rule="addressed", provider="code", guards=("cut_short",))
        await queue_send(tx, begun.id, asked, receipt)


def _draft(asked: Asked, text: str, dedupe: str, private_to: PersonId | None) -> Draft:
    return Draft(
        kind=SpeechKind.NOTICE,
        room_id=asked.room_id,
        front_end=asked.front_end,
        reply_to=asked.reply_to,
        text=text,
        audience=frozenset({asked.room_id}),
        dedupe=dedupe,
        private_to=private_to,
    )


def _seconds(wait_s: float) -> str:
    return f"{max(1, round(wait_s))} s" if wait_s < 90 else f"{round(wait_s / 60)} min"


def _when(at: datetime, timezone: str) -> str:
    return at.astimezone(ZoneInfo(timezone)).strftime("%a %H:%M %Z")
