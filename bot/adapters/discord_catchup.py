"""What was said while nobody listened: read back room by room, oldest first, within caps, as not live."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from bot.adapters.discord_payload import Payload, id_at, payload, ref, text
from bot.adapters.discord_rest import FAILURES, UNKNOWN_ROOM, Request, Rest, meaning
from core.domain.ids import RoomKey
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

COMPARED = 200
"""How many of a room's newest messages are compared with what stands there."""

HandIn = Callable[[Payload], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What became of messages that we keep: ids of those that are gone, and those that were edited at some time."""

    missing: tuple[str, ...] = ()
    edited: tuple[Payload, ...] = ()


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
                query = {"after": str(after), "limit": min(PAGE, left, self._left)}
                page = await self._page(last.room, query, gone) or ()
                for message in sorted(page, key=lambda one: int(ref(one, "id") or 0)):
                    await hand_in(message)
                    self.counts["read"] += 1
                left, self._left = left - len(page), self._left - len(page)
                if not page:
                    return
                after = max(int(ref(one, "id") or 0) for one in page)
            self.counts["beyond_caps"] += 1

    async def compare(self, room: RoomKey, kept: Sequence[str], gone: Callable[[], Awaitable[None]]) -> Comparison:
        """Look which of the messages that we keep stand in the room still; nothing is known where it can't be read."""
        ids = sorted((int(ref_) for ref_ in kept if ref_.isdigit()), reverse=True)
        read: dict[int, Payload] = {}
        if not ids:
            return Comparison()
        async with self._few:
            before, whole = ids[0] + 1, False
            while len(read) < COMPARED and not whole:
                page = await self._page(room, {"before": str(before), "limit": PAGE}, gone)
                if not page:  # an empty one may as well be a room that shows us nothing of its past
                    whole = page is not None and bool(read)
                    break
                read |= {int(ref(one, "id") or 0): one for one in page}
                before, whole = min(read), len(page) < PAGE
        if not read:
            return Comparison()
        oldest = 0 if whole else min(read)
        missing = [str(one) for one in ids if one >= oldest and one not in read]
        edited = [read[one] for one in ids if one in read and text(read[one], "edited_timestamp")]
        self.counts["missed_deletions"] += len(missing)
        return Comparison(tuple(missing), tuple(edited))

    async def _page(
        self, room: RoomKey, query: Mapping[str, object], gone: Callable[[], Awaitable[None]]
    ) -> Sequence[Payload] | None:
        """Return messages; none at the end, None where they may not or could not be read."""
        request = Request("GET", "/channels/{channel_id}/messages", {"channel_id": room.chat_ref}, query=query)
        try:
            found = await self._ask(request)
        except FAILURES as exc:
            refused = isinstance(meaning(exc), SendRefused)
            self.counts["refused" if refused else "failed"] += 1
            if getattr(exc, "code", 0) == UNKNOWN_ROOM:
                await gone()
            else:
                _LOG.warning("discord: a room could not be read back: %s", type(exc).__name__)
            return None
        return [payload(one) for one in found] if isinstance(found, list) else None

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
