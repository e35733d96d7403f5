"""Asking Telegram for updates: each is stored before it is confirmed, and a silent connection is made anew."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime, timedelta

from telegram import Bot, Update
from telegram.error import Conflict as PollConflict
from telegram.error import InvalidToken, TelegramError
from telegram.error import RetryAfter as FloodWait
from telegram.request import BaseRequest

from bot.adapters.telegram_errors import seconds_of
from core.domain.errors import Conflict, OutsideRefused, Unavailable
from core.ports import Clock, PlatformMemory

ALLOWED = (
    Update.MESSAGE, Update.EDITED_MESSAGE, Update.CHANNEL_POST, Update.EDITED_CHANNEL_POST, Update.CALLBACK_QUERY,
    Update.MESSAGE_REACTION, Update.MY_CHAT_MEMBER, Update.CHAT_MEMBER,
)  # fmt: skip
"""Always said in full: Telegram keeps what was said last, and leaves two of these out by itself."""
KEPT = timedelta(hours=24)
"""How long Telegram keeps updates that nobody fetches."""
NOTED_EVERY = timedelta(minutes=5)
_LOG = logging.getLogger(__name__)

Handle = Callable[[Update], Awaitable[None]]
"""Stores one update and does what follows from it.

Raises:
    Unavailable, Conflict: It is not stored and must come again.
"""


class TokenRevoked(OutsideRefused):
    """The platform does not know the token any more; no retry helps."""


class Alarm:
    """Says what is wrong once, and once that it is over."""

    def __init__(self, alert: Callable[[str], None]) -> None:
        self._alert = alert
        self._raised: set[str] = set()

    def raise_once(self, what: str, text: str) -> None:
        """Tell the operator unless that was done and is not over."""
        if what not in self._raised:
            self._raised.add(what)
            self._alert(text)

    def clear(self, what: str, text: str) -> None:
        """Tell the operator that it is over, if it had begun."""
        if what in self._raised:
            self._raised.remove(what)
            self._alert(text)


class Pulse:
    """When Telegram was last heard, in this process and before it."""

    def __init__(self, account: str, clock: Clock, memory: PlatformMemory, alarm: Alarm) -> None:
        self._name, self._clock, self._memory, self._alarm = f"telegram:{account}:heard", clock, memory, alarm
        self._heard: float | None = None
        self._noted: datetime | None = None

    def start(self) -> None:
        """Begin to count: silence is measured from now on."""
        self._heard = self._clock.monotonic()

    def stop(self) -> None:
        """End to count: somebody else listens."""
        self._heard = None

    def silent_s(self) -> float | None:
        """Return the seconds since Telegram was heard; None while we do not listen."""
        return None if self._heard is None else self._clock.monotonic() - self._heard

    async def beat(self) -> None:
        """Note that Telegram was heard; report a gap longer than it keeps updates."""
        self._heard, now = self._clock.monotonic(), self._clock.now()
        if self._noted is not None and now - self._noted < NOTED_EVERY:
            return
        with suppress(Unavailable, Conflict):  # the store is down; the note is made at a later beat
            before = self._noted or _moment(await self._memory.recall(self._name))
            if before is not None and now - before > KEPT:
                hours = (now - before).total_seconds() / 3600
                self._alarm.raise_once(
                    f"gap {before}",
                    f"telegram: nothing was fetched for {hours:.0f} h, since {before:%Y-%m-%d %H:%M} UTC; "
                    f"what was said more than {KEPT.total_seconds() / 3600:.0f} h ago is lost",
                )
            await self._memory.remember(self._name, now.isoformat())
            self._noted = now


def _moment(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None


class Poller:
    """Fetches updates in order, hands each one on, and confirms it only by the next question.

    Args:
        bot: Asks.
        request: Its connections for this one question.
        handle: Stores an update.
        pulse: Is told of every answer.
        alarm: Is told of what lasts.

    Attributes:
        poll_s: How long Telegram may keep one question open.
        hung_after_s: After how long an unanswered question is given up and the connection made anew.
        first_wait_s, longest_wait_s: The least and the longest pause after a fault; each is twice the last.
        conflict_wait_s: How long to stand back where somebody else polls with this token.
    """

    def __init__(self, bot: Bot, request: BaseRequest, handle: Handle, pulse: Pulse, alarm: Alarm) -> None:
        self._bot, self._request, self._handle, self._pulse, self._alarm = bot, request, handle, pulse, alarm
        self.poll_s = 25
        self.hung_after_s = 90.0
        self.first_wait_s, self.longest_wait_s = 1.0, 30.0
        self.conflict_wait_s = 30.0
        self._offset: int | None = None
        self._faults = 0

    async def run(self) -> None:
        """Poll until cancelled.

        Raises:
            TokenRevoked: The token is not good any more.
        """
        await self.persist(self._bot.delete_webhook)
        while True:
            updates = await self._ask()
            if updates is None:
                continue
            self._faults = 0
            await self._pulse.beat()
            self._alarm.clear("silent", "telegram: is heard again")
            self._alarm.clear("conflict", "telegram: nobody else polls with this token any more")
            for update in updates:
                await self._hand_on(update)
                self._offset = update.update_id + 1

    async def persist(self, call: Callable[[], Awaitable[object]]) -> None:
        """Do something until the platform has taken it.

        Raises:
            TokenRevoked: The token is not good any more.
        """
        while True:
            try:
                await call()
                return
            except TelegramError as exc:
                await self._after(exc)

    async def _ask(self) -> tuple[Update, ...] | None:
        """Return what waits for us; None after a fault that was waited out."""
        try:
            async with asyncio.timeout(self.hung_after_s):
                return await self._bot.get_updates(
                    offset=self._offset, limit=100, timeout=self.poll_s, allowed_updates=ALLOWED
                )
        except TimeoutError:
            self._alarm.raise_once("silent", f"telegram: a poll hung for {self.hung_after_s:.0f} s and was begun anew")
            await self._reconnect()
        except TelegramError as exc:
            await self._after(exc)
        return None

    async def _reconnect(self) -> None:
        """Drop all connections of the poller, whatever state they are in."""
        with suppress(TelegramError, TimeoutError):
            async with asyncio.timeout(self.first_wait_s):
                await self._request.shutdown()
        await self._request.initialize()

    async def _after(self, fault: TelegramError) -> None:
        """Wait as long as a fault asks for."""
        self._faults += 1
        match fault:
            case InvalidToken():
                raise TokenRevoked("telegram: the token was refused") from fault
            case FloodWait():
                await asyncio.sleep(seconds_of(fault))
            case PollConflict():
                self._alarm.raise_once("conflict", "telegram: something else polls with this token, or set a webhook")
                await asyncio.sleep(self.conflict_wait_s)
                with suppress(TelegramError):
                    await self._bot.delete_webhook()
            case _:
                if self._faults == 3:
                    self._alarm.raise_once("silent", "telegram: cannot be reached; tried again until it is")
                await asyncio.sleep(min(self.longest_wait_s, self.first_wait_s * 2 ** min(self._faults - 1, 16)))

    async def _hand_on(self, update: Update) -> None:
        """Hand an update on until it is stored: what comes after it must wait, and so must its confirmation."""
        wait_s = self.first_wait_s
        while True:
            try:
                await self._handle(update)
                self._alarm.clear("store", "telegram: what people say is stored again")
                return
            except (Unavailable, Conflict):
                self._alarm.raise_once("store", "telegram: what people say cannot be stored; it waits at the platform")
                await asyncio.sleep(wait_s)
                wait_s = min(self.longest_wait_s, 2 * wait_s)
