"""One budget per chat for sends, edits and typing: urgent acts first, and no chat ever waits for another."""

import asyncio
import heapq
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import count

from core.ports import Clock

LOOK_S = 0.25
"""How long a waiting act sleeps at most before it looks at the clock again, which tests and sleeping laptops shift."""
REMEMBERED = 4096
"""How many chats are kept before those are dropped that have nothing to remember."""
_LEAST_SLEEP_S = 0.001


class Priority(IntEnum):
    """What goes first where acts of one chat wait; `TYPING` and below never wait, they are left out."""

    FINAL = 0
    COMMAND = 1
    FIRST = 2
    EDIT = 3
    TYPING = 4
    REACTION = 5


@dataclass(frozen=True, slots=True)
class Pace:
    """What one chat may do: `burst` acts at once, `rate` a second in the long run."""

    rate: float
    burst: float


@dataclass(slots=True)
class _Bucket:
    """Tokens that grow with time. `paused_until` and `stamp` are monotonic seconds."""

    pace: Pace
    tokens: float
    stamp: float
    paused_until: float = 0.0

    def wait_s(self, now: float, least: float) -> float:
        """Return the seconds until `least` tokens are there and no pause holds; 0 if that is so now."""
        self.tokens = min(self.pace.burst, self.tokens + max(0.0, now - self.stamp) * self.pace.rate)
        self.stamp = max(self.stamp, now)
        return max(0.0, self.paused_until - now, (least - self.tokens) / self.pace.rate)

    def idle(self, now: float) -> bool:
        return self.wait_s(now, self.pace.burst) <= 0


@dataclass(slots=True)
class _Chat:
    bucket: _Bucket
    waiting: list[tuple[int, int]] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Let everybody who waits look again."""
        self.changed.set()
        self.changed.clear()


class Limiter:
    """Token buckets, one for each chat and optionally one over all of them.

    Of a chat's burst one token is kept for `FINAL`, so that neither edits nor typing can make the last text late.

    Args:
        clock: The time that buckets fill by.
        chat_rate: Acts a second in one chat in the long run.
        chat_burst: Acts of one chat at once.
        overall_rate: Acts a second over all chats; None: no such limit.
        pace_of: Another pace for some chats; None for a chat means the usual one.
    """

    def __init__(
        self,
        clock: Clock,
        chat_rate: float,
        chat_burst: float,
        overall_rate: float | None = None,
        *,
        pace_of: Callable[[str], Pace | None] = lambda _: None,
    ) -> None:
        self._clock, self._pace, self._pace_of = clock, Pace(chat_rate, chat_burst), pace_of
        self._chats: dict[str, _Chat] = {}
        self._numbers = count()
        self._overall: _Bucket | None = None
        self._paused_until = 0.0
        if overall_rate is not None:
            burst = max(1.0, overall_rate)
            self._overall = _Bucket(Pace(overall_rate, burst), burst, clock.monotonic())

    async def turn(self, chat: str, priority: Priority) -> bool:
        """Wait until the act may be done, and count it as done.

        Returns:
            False if it should be left out: only for acts of low priority that would have had to wait.
        """
        there = self._chat(chat)
        if priority >= Priority.TYPING:
            return not there.waiting and self._take(there, priority)
        ticket = (int(priority), next(self._numbers))
        heapq.heappush(there.waiting, ticket)
        try:
            while there.waiting[0] != ticket or not self._take(there, priority):
                await self._sleep(there, priority)
        finally:
            there.waiting.remove(ticket)
            heapq.heapify(there.waiting)
            there.wake()
        return True

    def pause(self, chat: str, seconds: float) -> None:
        """Hold everything back in this chat for so many seconds from now; a longer pause stands."""
        there = self._chat(chat)
        there.bucket.paused_until = max(there.bucket.paused_until, self._clock.monotonic() + seconds)
        there.wake()

    def pause_all(self, seconds: float) -> None:
        """Hold everything back in every chat: the platform has asked the whole account to pause."""
        self._paused_until = max(self._paused_until, self._clock.monotonic() + seconds)

    def wait_s(self, chat: str) -> float:
        """Return the seconds until a final text could go in this chat; 0 if it could now."""
        there = self._chats.get(chat)
        return self._all_s() if there is None else self._wait_s(there, Priority.FINAL)

    def _all_s(self) -> float:
        """Return the seconds until what holds for all chats lets one more act pass."""
        now = self._clock.monotonic()
        overall = 0.0 if self._overall is None else self._overall.wait_s(now, 1.0)
        return max(overall, self._paused_until - now)

    def _wait_s(self, there: _Chat, priority: Priority) -> float:
        kept = 1.0 if priority is not Priority.FINAL and there.bucket.pace.burst >= 2 else 0.0
        return max(self._all_s(), there.bucket.wait_s(self._clock.monotonic(), 1.0 + kept))

    def _take(self, there: _Chat, priority: Priority) -> bool:
        if self._wait_s(there, priority) > 0:
            return False
        there.bucket.tokens -= 1
        if self._overall is not None:
            self._overall.tokens -= 1
        return True

    async def _sleep(self, there: _Chat, priority: Priority) -> None:
        """Sleep until the act may be possible, something changes in the chat, or it is time for a look."""
        seconds = min(LOOK_S, max(_LEAST_SLEEP_S, self._wait_s(there, priority)))
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await there.changed.wait()

    def _chat(self, name: str) -> _Chat:
        there = self._chats.get(name)
        if there is None:
            now = self._clock.monotonic()
            if len(self._chats) >= REMEMBERED:
                self._chats = {key: one for key, one in self._chats.items() if one.waiting or not one.bucket.idle(now)}
            pace = self._pace_of(name) or self._pace
            there = self._chats[name] = _Chat(_Bucket(pace, pace.burst, now))
        return there
