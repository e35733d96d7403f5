"""Who may call a model now: the pause after failures, and the places, chat first."""

import asyncio
from datetime import timedelta

import pytest

from core.domain.errors import TimedOut, Unavailable
from core.providers.router import Breaker, Turnstile
from tests.fakes import ManualClock


class Advancing(ManualClock):
    """A clock that the test moves without a database."""

    def move(self, seconds: float) -> None:
        self._shift += timedelta(seconds=seconds)


async def test_rare_failures_do_not_pause() -> None:
    clock = Advancing()
    breaker = Breaker(clock)
    for _ in range(20):
        with pytest.raises(TimedOut), breaker.watch():
            raise TimedOut("model: no answer in time")
        clock.move(16)
    with breaker.watch():
        pass


async def test_a_cancelled_probe_leaves_the_next_call_to_probe() -> None:
    clock = Advancing()
    breaker = Breaker(clock)
    for _ in range(5):
        with pytest.raises(Unavailable), breaker.watch():
            raise Unavailable("model: provider failed")
    clock.move(31)
    with pytest.raises(asyncio.CancelledError), breaker.watch():
        raise asyncio.CancelledError
    with breaker.watch():
        pass
    with breaker.watch():
        pass


async def test_a_second_call_does_not_probe_beside_the_first() -> None:
    clock = Advancing()
    breaker = Breaker(clock)
    for _ in range(5):
        with pytest.raises(Unavailable), breaker.watch():
            raise Unavailable("model: provider failed")
    clock.move(31)
    with breaker.watch(), pytest.raises(Unavailable), breaker.watch():
        pass


async def test_who_waits_is_let_in_chat_first_then_by_arrival() -> None:
    turnstile = Turnstile(1)
    order: list[str] = []

    async def pass_through(name: str, chat: bool) -> None:
        async with turnstile.place(chat):
            order.append(name)

    async with asyncio.TaskGroup() as tasks, turnstile.place(False):
        for name, chat in (("pass 1", False), ("chat 1", True), ("pass 2", False), ("chat 2", True)):
            tasks.create_task(pass_through(name, chat))
        await asyncio.sleep(0)
    assert order == ["chat 1", "chat 2", "pass 1", "pass 2"]


async def test_a_cancelled_waiter_loses_no_place() -> None:
    turnstile = Turnstile(1)

    async def pass_through() -> None:
        async with turnstile.place(True):
            pass

    async with turnstile.place(True):
        waiting = [asyncio.ensure_future(pass_through()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
    waiting[1].cancel()  # called and cancelled in the same breath
    done = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(each) for each in done] == [asyncio.CancelledError, asyncio.CancelledError, type(None)]
    async with asyncio.timeout(5):
        await pass_through()
