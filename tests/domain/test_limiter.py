"""The budget of a chat, on a clock that moves only when told."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from bot.adapters.limiter import REMEMBERED, Limiter, Pace, Priority
from core.ports import Clock


class StandingClock(Clock):
    """Time that stands still until a test moves it."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


async def settled() -> None:
    """Let every task run until it waits for something."""
    for _ in range(20):
        await asyncio.sleep(0)


async def taken(limiter: Limiter, chat: str, priority: Priority) -> int:
    """Take turns until one is left out; return how many there were."""
    times = 0
    while await limiter.turn(chat, priority):
        times += 1
    return times


async def test_a_burst_passes_at_once_and_typing_beyond_it_is_left_out(clock: StandingClock) -> None:
    limiter = Limiter(clock, 1.0, 5.0)
    assert await taken(limiter, "room", Priority.TYPING) == 4
    clock.seconds += 2.5
    assert await taken(limiter, "room", Priority.TYPING) == 2


async def test_the_last_token_is_kept_for_the_final_text(clock: StandingClock) -> None:
    limiter = Limiter(clock, 1.0, 3.0)
    await taken(limiter, "room", Priority.REACTION)
    assert limiter.wait_s("room") == 0
    assert await limiter.turn("room", Priority.FINAL)
    assert limiter.wait_s("room") == pytest.approx(1.0)


async def test_a_burst_of_one_keeps_nothing_back(clock: StandingClock) -> None:
    assert await Limiter(clock, 1.0, 1.0).turn("room", Priority.EDIT)


async def test_waiting_acts_go_by_priority_and_then_by_age(clock: StandingClock) -> None:
    limiter, order = Limiter(clock, 100.0, 2.0), list[str]()
    await limiter.turn("room", Priority.FINAL)
    await limiter.turn("room", Priority.FINAL)

    async def act(name: str, priority: Priority) -> None:
        await limiter.turn("room", priority)
        order.append(name)

    async with asyncio.TaskGroup() as tasks:
        for name, priority in (
            ("edit", Priority.EDIT),
            ("first", Priority.FIRST),
            ("older final", Priority.FINAL),
            ("command", Priority.COMMAND),
            ("younger final", Priority.FINAL),
        ):
            tasks.create_task(act(name, priority))
        await settled()
        assert not order
        while len(order) < 5:
            clock.seconds += 0.01
            await asyncio.sleep(0.002)
    assert order == ["older final", "younger final", "command", "first", "edit"]


async def test_typing_yields_to_text_that_waits(clock: StandingClock) -> None:
    limiter = Limiter(clock, 1.0, 2.0)
    await limiter.turn("room", Priority.FINAL)
    async with asyncio.TaskGroup() as tasks:
        edit = tasks.create_task(limiter.turn("room", Priority.EDIT))
        await settled()
        assert not await limiter.turn("room", Priority.TYPING)
        clock.seconds += 1
    assert edit.result()


async def test_a_paused_chat_holds_back_nobody_else(clock: StandingClock) -> None:
    limiter = Limiter(clock, 1.0, 5.0)
    limiter.pause("room", 13_938)
    limiter.pause("room", 5)
    assert limiter.wait_s("room") == pytest.approx(13_938)
    assert not await limiter.turn("room", Priority.TYPING)
    assert await limiter.turn("elsewhere", Priority.FINAL)


async def test_what_waits_goes_when_the_pause_is_over(clock: StandingClock) -> None:
    limiter = Limiter(clock, 1.0, 5.0)
    limiter.pause("room", 149)
    async with asyncio.TaskGroup() as tasks:
        final = tasks.create_task(limiter.turn("room", Priority.FINAL))
        await settled()
        assert not final.done()
        clock.seconds += 149
    assert final.result()


async def test_a_pause_of_the_account_holds_every_chat(clock: StandingClock) -> None:
    limiter = Limiter(clock, 1.0, 5.0)
    limiter.pause_all(30)
    assert limiter.wait_s("never heard of") == pytest.approx(30)
    assert not await limiter.turn("room", Priority.TYPING)
    clock.seconds += 30
    assert await limiter.turn("room", Priority.TYPING)


async def test_all_chats_together_stay_within_the_overall_rate(clock: StandingClock) -> None:
    limiter = Limiter(clock, 100.0, 5.0, 25.0)
    passed = [await limiter.turn(f"room {n}", Priority.TYPING) for n in range(40)]
    assert passed == [True] * 25 + [False] * 15


async def test_some_chats_have_a_pace_of_their_own(clock: StandingClock) -> None:
    limiter = Limiter(clock, 1.0, 5.0, pace_of=lambda chat: Pace(0.3, 2.0) if chat.startswith("-") else None)
    assert await taken(limiter, "-100", Priority.TYPING) == 1
    assert await taken(limiter, "100", Priority.TYPING) == 4


async def test_who_gives_up_waiting_lets_the_next_one_through(clock: StandingClock) -> None:
    limiter = Limiter(clock, 1.0, 1.0)
    await limiter.turn("room", Priority.FINAL)
    async with asyncio.TaskGroup() as tasks:
        gone = tasks.create_task(limiter.turn("room", Priority.FINAL))
        edit = tasks.create_task(limiter.turn("room", Priority.EDIT))
        await settled()
        gone.cancel()
        clock.seconds += 1
    assert gone.cancelled()
    assert edit.result()


async def test_quiet_chats_are_forgotten_and_paused_ones_are_not(clock: StandingClock) -> None:
    limiter = Limiter(clock, 1.0, 5.0)
    limiter.pause("paused", 10_000)
    for n in range(REMEMBERED * 2):
        clock.seconds += 1
        await limiter.turn(f"room {n}", Priority.FINAL)
    assert limiter.wait_s("paused") > 0
    assert len(limiter._chats) <= REMEMBERED
