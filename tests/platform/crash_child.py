"""A process that forks whole bots on request, with the real front ends of the platforms, each told where to die."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from bot.adapters.telegram_chat import TelegramChat
from bot.adapters.telegram_requests import authorities
from bot.app import Role, open_app
from bot.platform_settings import PlatformSettings
from bot.platforms import platforms_of
from core.domain.ids import RoomKey
from core.domain.messages import InboundMessage
from core.domain.prompt import Completion, ModelRequest
from core.jobs.executor import Fault
from core.ports import Accept, Accepted, Ambiguous, FrontEnd, OutgoingPart, SendResult
from core.providers.model_settings import ModelSettings
from core.providers.models import ConnectedModel
from core.store.platforms import StoredPlatformMemory
from tests.crash.child import Thinker, answer_to, main, token_of
from tests.fakes import ManualClock
from tests.flows.line import SETTINGS, settings_for

LONG_LINES = 80


class Watched(FrontEnd):
    """A real front end, with a point to die at before and after each of its acts.

    Attributes:
        asked: Whether anything was heard that speaks to the bot; points count from then on.
    """

    def __init__(self, inner: FrontEnd, fault: Fault, every_s: float | None) -> None:
        self._inner, self._reach, self._every_s = inner, fault, every_s
        self.asked = False

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def nonce_window(self) -> timedelta | None:
        return self._inner.nonce_window

    @property
    def stream_every_s(self) -> float | None:
        """Return what the order says; none means that answers come whole."""
        return self._every_s

    @property
    def text_limit(self) -> int:
        return self._inner.text_limit

    def split(self, text: str) -> Sequence[str]:
        return self._inner.split(text)

    async def send(self, part: OutgoingPart) -> SendResult:
        self._reach("send.called")
        result = await self._inner.send(part)
        self._reach("send.arrived")
        return result

    async def edit(self, external_id: str, part: OutgoingPart) -> SendResult:
        self._reach("edit.called")
        result = await self._inner.edit(external_id, part)
        self._reach("edit.arrived")
        return result

    async def close_choices(self, room: RoomKey, external_id: str) -> SendResult:
        return await self._inner.close_choices(room, external_id)

    async def find_sent(self, part: OutgoingPart, since: datetime) -> str | Ambiguous | None:
        self._reach("find.called")
        return await self._inner.find_sent(part, since)

    async def show_typing(self, room: RoomKey) -> None:
        await self._inner.show_typing(room)

    async def fetch(self, room: RoomKey, handle: str, limit_bytes: int) -> bytes:
        return await self._inner.fetch(room, handle, limit_bytes)

    def silent_s(self) -> float | None:
        return self._inner.silent_s()

    async def close(self) -> None:
        await self._inner.close()

    async def run(self, accept: Accept) -> None:
        async def heard(message: InboundMessage) -> Accepted:
            if message.addressed_by:
                self.asked = True
                self._reach("fetched")
            accepted = await accept(message)
            self._reach("stored")
            return accepted

        await self._inner.run(heard)


class LongThinker(Thinker):
    """A model whose answers need more than one message."""

    async def complete(self, request: ModelRequest) -> Completion:
        completion = await super().complete(request)
        return Completion(long_answer_to(token_of(request)), completion.usage, completion.model, completion.finish)


def long_answer_to(token: str) -> str:
    """Return the one right answer to a question that is asked at length."""
    return answer_to(token) + "".join(
        f"\nThing number {n} that is to be said about it at length." for n in range(LONG_LINES)
    )


def hurry(front_end: FrontEnd) -> FrontEnd:
    """Shorten what only patience needs."""
    if isinstance(front_end, TelegramChat):
        poller = front_end.poller
        poller.poll_s, poller.first_wait_s, poller.longest_wait_s, poller.conflict_wait_s = 1, 0.02, 0.1, 0.02
    return front_end


async def live(order: dict[str, Any], fault: Callable[[str], None]) -> None:
    clock = ManualClock()
    await clock.advance(order.get("skew_s", 0.0))
    logging.getLogger("discord").setLevel(logging.CRITICAL)
    # Shorter than an operator may choose: a test waits for it.
    hurried = {"dead_after_s": 3.0, "platforms": PlatformSettings.model_validate(order["settings"])}
    settings = settings_for(order["dsn"], [SETTINGS]).model_copy(update=hurried)
    watched: list[Watched] = []

    def after_the_question(point: str) -> None:
        if order.get("armed") or any(each.asked for each in watched):
            fault(point)

    def connected(settings: ModelSettings, limits: object) -> ConnectedModel:
        return (LongThinker if order.get("long") else Thinker)(after_the_question)

    def front_ends(database: Any, clock: Any, readable: object) -> Sequence[FrontEnd]:
        made = platforms_of(settings, clock, StoredPlatformMemory(database))
        every_s = order.get("every_s")
        watched.extend(Watched(hurry(each), after_the_question, every_s) for each in made)
        return watched

    async with (
        open_app(
            settings,
            frozenset({Role.GATEWAY, Role.WORKER}),
            say=lambda line: None,
            front_ends=front_ends,
            clock=clock,
            connect_model=connected,
            fault=after_the_question,
        ) as app,
        asyncio.TaskGroup() as group,
    ):
        assert app.worker is not None
        group.create_task(app.worker.run())
        for front_end in app.front_ends.values():
            group.create_task(front_end.run(app.accept))


if __name__ == "__main__":
    # The libraries of the platforms are loaded only where they are used; a fork should find them loaded.
    import bot.adapters.discord_chat  # noqa: F401

    authorities()
    main(live)
