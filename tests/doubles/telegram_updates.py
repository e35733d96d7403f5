"""The bot's queue of updates at the Telegram double, and its two ways out: getUpdates and the webhook."""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any

import aiohttp

from core.ports import Clock
from tests.doubles.telegram_faults import Call, FaultKind, Faults, Mutation, Refused

ONLY_WHEN_ASKED = frozenset({"message_reaction", "chat_member"})
SECRET_HEADER = "X-Telegram-Bot-Api-Secret-Token"
WEBHOOK_TIMEOUT_S = 10.0
WEBHOOK_IS_ACTIVE = (
    "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"
)


@dataclass(slots=True)
class Webhook:
    """Where updates are pushed to, and how the last attempt failed."""

    url: str
    secret: str | None
    max_connections: int
    last_error_date: int | None = None
    last_error: str | None = None


class UpdateQueue:
    """Keeps updates until they are confirmed. One reader at a time: a poller or the webhook."""

    def __init__(self, faults: Faults, mutations: set[str], clock: Clock) -> None:
        self.pending: deque[dict[str, Any]] = deque()
        self.allowed: tuple[str, ...] | None = None
        self.webhook: Webhook | None = None
        self.polls = 0
        self.webhook_retry_s = 0.05
        self._faults = faults
        self._mutations = mutations
        self._clock = clock
        self._next_id = 500_000_001
        self._sleepers: list[asyncio.Future[None]] = []
        self._news = asyncio.Event()

    def put(self, kind: str, body: dict[str, Any]) -> None:
        """Store one update if the bot asked for its kind."""
        if not self._is_allowed(kind):
            return
        if fault := self._faults.take(frozenset({FaultKind.MALFORMED_UPDATE}), Call(kind, body)):
            bare = {key: value for key, value in body.items() if key not in {"chat", "from"}}
            body = fault.params.get("body", bare)
        self.pending.append({"update_id": self._next_id, kind: body})
        self._next_id += 1
        self._news.set()
        for sleeper in self._sleepers:
            if not sleeper.done():
                sleeper.set_result(None)

    def _is_allowed(self, kind: str) -> bool:
        return kind in self.allowed if self.allowed is not None else kind not in ONLY_WHEN_ASKED

    def _end_polls(self, by: str) -> None:
        """Let every poll under way end with 409."""
        if Mutation.NO_409 in self._mutations:
            return
        for sleeper in self._sleepers:
            if not sleeper.done():
                sleeper.set_exception(Refused(409, f"Conflict: terminated by {by}"))

    async def poll(self, offset: int, limit: int, timeout_s: float) -> list[dict[str, Any]]:
        """Return up to `limit` updates, waiting for the first; the offset confirms what is before it.

        Raises:
            Refused: 409, while a webhook is set, or when another poll begins during this one.
        """
        if self.webhook is not None and Mutation.NO_409 not in self._mutations:
            raise Refused(409, WEBHOOK_IS_ACTIVE)
        self._end_polls("other getUpdates request; make sure that only one bot instance is running")
        if self._confirms(offset) and self._faults.take(
            frozenset({FaultKind.FORGOTTEN_CONFIRMATION}), Call("getUpdates", {"offset": offset})
        ):
            offset = 0
        self._confirm(offset)
        if not self.pending and timeout_s > 0:
            await self._sleep(timeout_s)
        batch = list(self.pending)[:limit]
        if Mutation.CONFIRM_ON_FETCH in self._mutations:
            self._confirm(batch[-1]["update_id"] + 1 if batch else 0)
        self.polls += 1
        return batch

    async def _sleep(self, timeout_s: float) -> None:
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append(sleeper)
        try:
            async with asyncio.timeout(timeout_s):
                await sleeper
        except TimeoutError:
            return
        finally:
            self._sleepers.remove(sleeper)

    def _confirms(self, offset: int) -> bool:
        return bool(self.pending) and self.pending[0]["update_id"] < offset

    def _confirm(self, offset: int) -> None:
        if offset < 0:
            self.pending = deque(list(self.pending)[offset:])
        while self._confirms(offset):
            self.pending.popleft()

    def set_webhook(self, webhook: Webhook | None) -> None:
        """Push from now on, or with None wait to be asked again; a poll under way ends with 409."""
        self.webhook = webhook
        self._news.set()
        if webhook is not None:
            self._end_polls("setWebhook request")

    async def push(self) -> None:
        """Deliver to the webhook for ever, the oldest update first, one at a time, again until it is taken."""
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=WEBHOOK_TIMEOUT_S)) as client:
            while True:
                await self._news.wait()
                if self.webhook is None or not self.pending:
                    self._news.clear()
                    continue
                update, webhook = self.pending[0], self.webhook
                if not await self._deliver(client, webhook, update):
                    await asyncio.sleep(self.webhook_retry_s)
                elif not self._is_repeated(update) and self.pending and self.pending[0] is update:
                    self.pending.popleft()

    def _is_repeated(self, update: dict[str, Any]) -> bool:
        kind = next(key for key in update if key != "update_id")
        return self._faults.take(frozenset({FaultKind.REPEATED_WEBHOOK}), Call(kind, update)) is not None

    async def _deliver(self, client: aiohttp.ClientSession, webhook: Webhook, update: dict[str, Any]) -> bool:
        hidden = Mutation.NO_WEBHOOK_SECRET in self._mutations or webhook.secret is None
        headers = {} if hidden else {SECRET_HEADER: str(webhook.secret)}
        try:
            async with client.post(webhook.url, json=update, headers=headers) as answer:
                taken = answer.status // 100 == 2 or Mutation.WEBHOOK_TAKES_ANY_STATUS in self._mutations
                error = None if taken else f"Wrong response from the webhook: {answer.status} {answer.reason}"
        except (aiohttp.ClientError, TimeoutError) as broken:
            error = "Read timeout expired" if isinstance(broken, TimeoutError) else "Connection refused"
        if error is not None:
            webhook.last_error = error
            webhook.last_error_date = int(self._clock.now().timestamp())
        return error is None
