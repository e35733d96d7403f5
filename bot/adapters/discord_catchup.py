"""What was said while nobody listened: read back room by room, oldest first, within caps, as not live."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

from bot.adapters.discord_payload import Payload, id_at, payload, ref
from bot.adapters.discord_rest import FAILURES, UNKNOWN_ROOM, Request, Rest, meaning
from core.domain.platforms import CatchUpLimits, LastHeard
from core.ports import Clock, RetryAfter, SendRefused

PAGE = 100
AT_ONCE = 2
"""How many rooms are read at the same time."""
TRIES = 6
"""How often a page is asked for that no refusal kept from us."""
AGAIN_S = 1.0
"""The wait before a page is asked for again; it doubles, and a longer one that the platform names is kept."""
LONGEST_WAIT_S = 600.0
"""A room that has to wait longer is given up."""
_LOG = logging.getLogger(__name__)

HandIn = Callable[[Payload], Awaitable[None]]


class CatchUp:
    """Reads gaps. `counts` says what was read and what was left out, by reason.

    `again_s`: the first wait after a failure.
    """

    def __init__(self, rest: Rest, limits: CatchUpLimits, clock: Clock, again_s: float = AGAIN_S) -> None:
        self._rest, self._limits, self._clock, self._again_s = rest, limits, clock, again_s
        self._few = asyncio.Semaphore(AT_ONCE)
        self._left = limits.start
        self.counts: Counter[str] = Counter()

    def start_over(self) -> None:
        """Start counting anew: a session has begun that does not continue the last one."""
        self._left = self._limits.start

    def reaches(self, message_id: int) -> bool:
        """Return whether a message is young enough to be read back."""
        return message_id >= id_at(self._clock.now() - self._limits.age)

    async def read(self, last: LastHeard, hand_in: HandIn, gone: Callable[[], Awaitable[None]]) -> None:
        """Hand in what was said in a room after the last message that is stored."""
        async with self._few:
            oldest = id_at(self._clock.now() - self._limits.age)
            known = int(last.message_ref) if last.message_ref.isdigit() else 0
            if last.message_ref and known < oldest:
                self.counts["beyond_age"] += 1  # there may be older ones; they are left
            after, left = max(known, oldest), self._limits.room
            while left > 0 and self._left > 0:
                page = await self._page(last, after, min(PAGE, left, self._left), gone)
                for message in sorted(page, key=lambda one: int(ref(one, "id") or 0)):
                    await hand_in(message)
                    self.counts["read"] += 1
                left, self._left = left - len(page), self._left - len(page)
                if not page:
                    return
                after = max(int(ref(one, "id") or 0) for one in page)
            self.counts["beyond_caps"] += 1

    async def _page(
        self, last: LastHeard, after: int, limit: int, gone: Callable[[], Awaitable[None]]
    ) -> Sequence[Payload]:
        """Return the next messages; none at the end, and none where they may not be read."""
        request = Request(
            "GET",
            "/channels/{channel_id}/messages",
            {"channel_id": last.room.chat_ref},
            query={"after": str(after), "limit": limit},
        )
        try:
            found = await self._ask(request)
        except FAILURES as exc:
            refused = isinstance(meaning(exc), SendRefused)
            self.counts["refused" if refused else "failed"] += 1
            if getattr(exc, "code", 0) == UNKNOWN_ROOM:
                await gone()
            else:
                _LOG.warning("discord: a room could not be read back: %s", type(exc).__name__)
            return ()
        return [payload(one) for one in found] if isinstance(found, list) else ()

    async def _ask(self, request: Request) -> object:
        """Ask until there is an answer or a refusal: a page that is given up is the end of its room's gap."""
        again_s = self._again_s
        for _ in range(TRIES - 1):
            try:
                return await self._rest.call(request)
            except FAILURES as exc:
                why = meaning(exc)
                wait_s = max(again_s, why.seconds) if isinstance(why, RetryAfter) else again_s
                if isinstance(why, SendRefused) or wait_s > LONGEST_WAIT_S:
                    raise
            self.counts["again"] += 1
            await asyncio.sleep(wait_s)
            again_s *= 2
        return await self._rest.call(request)
