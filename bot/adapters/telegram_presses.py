"""Pressed buttons at Telegram: each is answered once, while clients wait, by words that its presser alone sees."""

import asyncio
from contextlib import suppress

from telegram import Bot
from telegram.error import TelegramError

from bot.adapters.telegram_errors import result_of
from core.ports import Ambiguous, Delivered, SendRefused, SendResult

ALERT_UNITS = 200
"""How much an answer to a press can say, in UTF-16 code units."""
ANSWERED_WITHIN_S = 8.0
"""For how long clients may show that something is going on; the platform forgets a press some seconds later."""
REMEMBERED = 1000


class Presses:
    """Answers presses. `patience_s`: after which a press is answered with nothing, and the words come as a message."""

    def __init__(self, bot: Bot) -> None:
        self._bot = bot
        self._waiting: dict[str, float] = {}
        self._answered: dict[str, None] = {}
        self._news = asyncio.Event()
        self.patience_s = ANSWERED_WITHIN_S

    async def run(self) -> None:
        """Answer with nothing, until cancelled, what has waited for too long."""
        now = asyncio.get_running_loop().time
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                query, began = next(iter(self._waiting.items()))
                left_s = began + self.patience_s - now()
                if left_s > 0:
                    await asyncio.sleep(left_s)
                else:
                    await self.end(query)

    def wait(self, query: str) -> None:
        """Let a press wait for its answer."""
        if query not in self._waiting and query not in self._answered:
            self._waiting[query] = asyncio.get_running_loop().time()
            self._news.set()

    async def end(self, query: str) -> None:
        """Answer a press with nothing, unless it was answered."""
        if self._answer(query):
            with suppress(TelegramError):
                await self._bot.answer_callback_query(query)

    async def tell(self, query: str, text: str) -> SendResult | None:
        """Show words to the presser alone; None if they have to go another way: too many, or too late."""
        if len(text.encode("utf-16-le")) // 2 > ALERT_UNITS:
            await self.end(query)
        if query in self._answered:
            return None
        try:
            await self._bot.answer_callback_query(query, text, show_alert=True)
        except TelegramError as exc:
            result = result_of(exc)
            if not isinstance(result, SendRefused):
                return result
            self._answer(query)  # the platform has forgotten it
            return None
        except (TypeError, ValueError, KeyError, AttributeError):
            return Ambiguous("telegram: an answer that cannot be read")
        self._answer(query)
        return Delivered(f"press:{query}")

    def _answer(self, query: str) -> bool:
        """Note that a press is answered; False if it was."""
        self._waiting.pop(query, None)
        if query in self._answered:
            return False
        self._answered[query] = None
        if len(self._answered) > REMEMBERED:
            del self._answered[next(iter(self._answered))]
        return True
