"""Kill -9 anywhere on the line on Telegram: nothing is lost or said twice; what cannot be known is `unknown`."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.crash.child import answer_to
from tests.crash.processes import Forks
from tests.doubles.telegram_faults import FaultKind
from tests.doubles.telegram_server import TelegramServer
from tests.doubles.telegram_state import Chat, Message, Topic, User
from tests.fakes import ManualClock
from tests.platform.crash_child import long_answer_to
from tests.platform.lives import (
    AS_WITHOUT_GROWTH,
    BEFORE_SENDING,
    BESIDE_THE_PLATFORM,
    GROWING,
    PAIRS,
    SENDING,
    Lives,
    cases,
    lives,
)

ARRIVED = {"send.arrived": 1, "G.written": 1, "F.committed": 0, "send.called": 0, "early F.committed": 0}
"""How many messages stand where a bot was killed without a proof."""
UNKNOWN = [(point, 1) for point in ("F.committed", "send.called", "send.arrived", "G.written")]
GROWING_UNKNOWN = [(point, 1) for point in ("early F.committed", "send.called", "send.arrived")]
KNOWN = cases([each for each in (*BEFORE_SENDING, *SENDING) if each not in UNKNOWN], BESIDE_THE_PLATFORM)
GROWING_KNOWN = cases([each for each in GROWING if each not in GROWING_UNKNOWN], AS_WITHOUT_GROWTH)
EVERY_S = 3.5
"""The pace of a group lets the first words and the last edit pass at once, and no edit between them."""


@dataclass
class House:
    """A group on Telegram with one person in it, and the bots that come and go."""

    telegram: TelegramServer
    bots: Lives
    group: Chat
    ada: User

    async def ask(self, about: str = "q1", topic: Topic | None = None) -> Message:
        text = f"@{self.telegram.bot_username} what is {about}?"
        return await self.telegram.say(self.ada, self.group, text, topic=topic)

    async def ask_and_die_at(self, point: str, nth: int = 1, **order: Any) -> Message:
        """Let a bot be asked that kills itself at a point; return the question."""
        asked = await self.ask()
        with self.bots.living(point=point, nth=nth, **order) as pid:
            await self.bots.killed(pid)
        return asked

    async def finish(self, answers: int = 1, **order: Any) -> None:
        """Let a bot live until everything asked is answered and every update confirmed."""
        with self.bots.living(**order):
            await self.bots.settled(answers)
            await self.telegram.until(lambda: not self.telegram.pending_updates)

    def said(self, chat: Chat | None = None) -> list[Message]:
        """Return what the bot has in a chat."""
        return [each for each in self.telegram.messages(chat or self.group) if each.sender == self.telegram.bot]

    def answers(self, asked: Message) -> list[str]:
        """Return what the bot said in reply to a message."""
        return [each.text for each in self.said(asked.chat) if each.reply_to is asked]

    def answered_once(self, asked: Message) -> bool:
        """Whether the question has its one whole answer, and nothing else was said."""
        return self.answers(asked) == [each.text for each in self.said()] == [answer_to("q1")]

    def sends(self) -> int:
        return len(self.telegram.called("sendMessage"))


@asynccontextmanager
async def house(bots: Forks, dsn: str, *, forum: bool = False) -> AsyncIterator[House]:
    clock = ManualClock()
    async with TelegramServer(clock=clock) as telegram:
        settings = {"telegram_token": telegram.token, "telegram_api_url": telegram.api_url}
        group = telegram.add_group("House", kind="supergroup", forum=forum)
        async with lives(bots, dsn, settings, clock) as started:
            yield House(telegram, started, group, telegram.add_user("Ada"))


@pytest.mark.field("F035")
@pytest.mark.parametrize(("point", "nth"), KNOWN)
async def test_a_bot_killed_where_it_can_be_known_answers_once(
    bots: Forks, fresh_dsn: str, point: str, nth: int
) -> None:
    async with house(bots, fresh_dsn) as here:
        asked = await here.ask_and_die_at(point, nth)
        await here.bots.later()
        await here.finish()
        assert await here.bots.states() == ["sent"]
        assert here.answered_once(asked)
        assert here.sends() == 1


@pytest.mark.field("F035")
@pytest.mark.parametrize(
    ("point", "every_s"),
    [*((point, None) for point, _ in UNKNOWN), *((point, EVERY_S) for point, _ in GROWING_UNKNOWN)],
)
async def test_what_cannot_be_known_is_unknown_and_never_said_again(
    bots: Forks, fresh_dsn: str, point: str, every_s: float | None
) -> None:
    async with house(bots, fresh_dsn) as here:
        asked = await here.ask_and_die_at(point, every_s=every_s)
        await here.bots.later()
        await here.finish(every_s=every_s)
        assert await here.bots.states() == ["unknown"]
        assert len(here.answers(asked)) == len(here.said()) == here.sends() == ARRIVED[point]


@pytest.mark.field("F035")
@pytest.mark.parametrize(("point", "nth"), GROWING_KNOWN)
async def test_a_growing_answer_whose_bot_was_killed_ends_whole_and_once(
    bots: Forks, fresh_dsn: str, point: str, nth: int
) -> None:
    async with house(bots, fresh_dsn) as here:
        asked = await here.ask_and_die_at(point, nth, every_s=EVERY_S)
        await here.bots.later()
        await here.finish(every_s=EVERY_S)
        assert await here.bots.states() == ["sent"]
        assert here.answered_once(asked)
        assert here.sends() == 1


@pytest.mark.field("F035")
async def test_an_answer_that_stands_when_its_bot_is_killed_before_it_knows_is_not_said_again(
    bots: Forks, fresh_dsn: str
) -> None:
    async with house(bots, fresh_dsn) as here:
        here.telegram.fault(FaultKind.HANG_AFTER_COMMIT, match="sendMessage")
        asked = await here.ask()
        with here.bots.living() as pid:
            await here.telegram.until(lambda: bool(here.answers(asked)))
            os.kill(pid, signal.SIGKILL)
        await here.bots.later()
        await here.finish()
        assert await here.bots.states() == ["unknown"]
        assert here.answered_once(asked)
        assert here.sends() == 1


@pytest.mark.field("F035")
@pytest.mark.parametrize(
    ("fault", "arrived"),
    [(FaultKind.STATUS_AFTER_COMMIT, 1), (FaultKind.CUT_AFTER_COMMIT, 1), (FaultKind.STATUS_BEFORE, 0)],
)
@pytest.mark.parametrize(
    "point",
    ["G.written", *(pytest.param(point, marks=pytest.mark.long) for point in ("send.arrived", "G.committed"))],
)
async def test_a_lost_answer_of_the_platform_stays_unknown_over_a_kill(
    bots: Forks, fresh_dsn: str, point: str, fault: FaultKind, arrived: int
) -> None:
    async with house(bots, fresh_dsn) as here:
        here.telegram.fault(fault, match="sendMessage")
        asked = await here.ask_and_die_at(point)
        await here.bots.later()
        await here.finish()
        assert await here.bots.states() == ["unknown"]
        assert len(here.answers(asked)) == arrived
        assert here.sends() == 1


@pytest.mark.parametrize(
    ("point", "nth"), cases([("send.called", 2), ("send.arrived", 2), ("G.committed", 1)], [("G.committed", 1)])
)
async def test_parts_that_arrived_are_never_repeated(bots: Forks, fresh_dsn: str, point: str, nth: int) -> None:
    async with house(bots, fresh_dsn) as here:
        await here.ask_and_die_at(point, nth, long=True)
        await here.bots.later()
        await here.finish(long=True)
        assert await here.bots.states() == ["unknown"]
        texts = ["".join(each.text.split()) for each in here.said()]
        assert len(texts) == (2 if point == "send.arrived" else 1)
        assert "".join(long_answer_to("q1").split()).startswith("".join(texts))


@pytest.mark.field("F035")
@pytest.mark.parametrize("nth", [1, 2])
async def test_kill_after_fetch_loses_nothing(bots: Forks, fresh_dsn: str, nth: int) -> None:
    async with house(bots, fresh_dsn) as here:
        ben = here.telegram.add_user("Ben")
        private = await here.telegram.start_private(ben)
        first = await here.ask("q1")
        second = await here.telegram.say(ben, private, "what is q2?")
        with here.bots.living(point="fetched", nth=nth) as pid:
            await here.bots.killed(pid)
        await here.bots.later()
        await here.finish(answers=2)
        assert await here.bots.states() == ["sent", "sent"]
        assert here.answers(first) == [each.text for each in here.said()] == [answer_to("q1")]
        assert here.answers(second) == [each.text for each in here.said(private)] == [answer_to("q2")]


@pytest.mark.field("F013")
@pytest.mark.parametrize("point", ["model.called", "E.committed"])
async def test_answer_stays_in_topic_after_restart(bots: Forks, fresh_dsn: str, point: str) -> None:
    async with house(bots, fresh_dsn, forum=True) as here:
        one, other = [await here.telegram.create_topic(here.ada, here.group, name) for name in ("one", "other")]
        first = await here.ask("q1", one)
        with here.bots.living(point=point) as pid:
            await here.bots.killed(pid)
        second = await here.ask("q2", other)
        await here.bots.later()
        await here.finish(answers=2)
        assert here.answers(first) == [answer_to("q1")]
        assert here.answers(second) == [answer_to("q2")]
        assert {each.text: each.topic for each in here.said()} == {answer_to("q1"): one, answer_to("q2"): other}


@pytest.mark.long
@pytest.mark.parametrize(("point", "nth", "again", "again_nth"), PAIRS)
async def test_two_kills_in_a_row_lose_and_double_nothing(
    bots: Forks, fresh_dsn: str, point: str, nth: int, again: str, again_nth: int
) -> None:
    async with house(bots, fresh_dsn) as here:
        asked = await here.ask_and_die_at(point, nth)
        await here.bots.later()
        await here.bots.die_again_at(again, again_nth)
        await here.finish()
        (state,) = await here.bots.states()
        if {point, again} & {each for each, _ in UNKNOWN}:
            assert state in ("sent", "unknown")
            assert here.sends() <= 1
        else:
            assert state == "sent"
        assert here.answered_once(asked) or (state == "unknown" and here.said() == [])
