"""Kill -9 at every point of the line on Discord: the next process loses no answer and gives none twice."""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest

from tests.crash.child import answer_to
from tests.crash.processes import Forks
from tests.doubles.discord_faults import FaultKind
from tests.doubles.discord_server import DiscordServer
from tests.doubles.discord_state import Channel, Member, Message
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
    seldom,
)

UNSTORED = frozenset({"fetched", "A.written"})
"""Here only the room's history knows of the question, so the room must be known."""
SEND = "POST /channels/*/messages"


@dataclass
class House:
    """A room on Discord with one person in it, and the bots that come and go."""

    discord: DiscordServer
    bots: Lives
    room: Channel
    ada: Member

    async def connected(self) -> None:
        """Wait until a bot listens."""
        await self.discord.until(lambda: self.discord.connected)

    async def _learned(self) -> bool:
        sql = "select exists (select from voidbot.rooms where chat_ref = $1)"
        return bool(await self.bots.value(sql, str(self.room.id)))

    async def away(self) -> None:
        await self.discord.until(lambda: not self.discord.connected)

    async def ask(self, about: str = "q1") -> Message:
        return await self.discord.say(self.ada, self.room, f"<@{self.discord.bot.id}> what is {about}?")

    async def ask_and_die_at(self, point: str, nth: int = 1, **order: Any) -> Message:
        """Let a bot be asked that kills itself at a point; return the question."""
        with self.bots.living(point=point, nth=nth, **order) as pid:
            await self.connected()
            if point in UNSTORED:
                await seldom(self._learned)
            asked = await self.ask()
            await self.bots.killed(pid)
        await self.away()
        return asked

    async def finish(self, **order: Any) -> None:
        """Let a bot live until everything asked is answered."""
        with self.bots.living(**order):
            await self.bots.settled()
        await self.away()

    def answers(self, asked: Message) -> list[str]:
        """Return what the bot said in reply to a message."""
        return [each.content for each in self.discord.messages(self.room) if each.reply_to is asked]

    async def up_to_date(self) -> bool:
        """Whether the bot has stored the newest message of the room."""
        sql = "select exists (select from voidbot.inbox where message_ref = $1)"
        return bool(await self.bots.value(sql, str(self.discord.messages(self.room)[-1].id)))

    def answered_once(self, asked: Message, answer: str = answer_to("q1")) -> bool:
        """Whether the question has its one whole answer, and nothing else was said."""
        return self.answers(asked) == self.discord.said_by_bot(self.room) == [answer]


@asynccontextmanager
async def house(bots: Forks, dsn: str) -> AsyncIterator[House]:
    clock = ManualClock()
    async with DiscordServer(clock) as discord:
        guild = discord.add_guild("Workshop")
        settings = {
            "discord_token": discord.token,
            "discord_api_url": discord.api_url,
            "discord_gateway_url": discord.gateway_url,
            "discord_cdn_url": discord.cdn_url,
        }
        async with lives(bots, dsn, settings, clock) as started:
            yield House(discord, started, guild.add_channel("general"), guild.add_member("Ada"))


@pytest.mark.field("F035")
@pytest.mark.parametrize(("point", "nth"), cases([*BEFORE_SENDING, *SENDING], BESIDE_THE_PLATFORM))
async def test_a_bot_killed_anywhere_on_the_line_answers_once(
    bots: Forks, fresh_dsn: str, point: str, nth: int
) -> None:
    async with house(bots, fresh_dsn) as here:
        asked = await here.ask_and_die_at(point, nth)
        await here.bots.later()
        await here.finish()
        assert await here.bots.states() == ["sent"]
        assert here.answered_once(asked)


@pytest.mark.field("F035")
@pytest.mark.parametrize(("point", "nth"), cases(GROWING, AS_WITHOUT_GROWTH))
async def test_a_growing_answer_whose_bot_was_killed_ends_whole_and_once(
    bots: Forks, fresh_dsn: str, point: str, nth: int
) -> None:
    async with house(bots, fresh_dsn) as here:
        asked = await here.ask_and_die_at(point, nth, every_s=0.0)
        await here.bots.later()
        await here.finish(every_s=0.0)
        assert await here.bots.states() == ["sent"]
        assert here.answered_once(asked)


@pytest.mark.field("F035")
async def test_an_answer_that_stands_when_its_bot_is_killed_before_it_knows_is_not_said_again(
    bots: Forks, fresh_dsn: str
) -> None:
    async with house(bots, fresh_dsn) as here:
        here.discord.fault(FaultKind.DELAY, match=SEND, seconds=3)
        with here.bots.living() as pid:
            await here.connected()
            asked = await here.ask()
            await here.discord.until(lambda: bool(here.answers(asked)))
            os.kill(pid, signal.SIGKILL)
        await here.away()
        assert await here.bots.states() == ["sending"]
        await here.bots.later()
        await here.finish()
        assert await here.bots.states() == ["sent"]
        assert here.answered_once(asked)


@pytest.mark.field("F035")
@pytest.mark.parametrize("fault", [FaultKind.STATUS_AFTER, FaultKind.CUT_AFTER])
@pytest.mark.parametrize("point", [pytest.param("send.arrived", marks=pytest.mark.long), "G.written"])
async def test_an_answer_that_stands_when_its_sending_failed_and_its_bot_was_killed_is_not_said_again(
    bots: Forks, fresh_dsn: str, point: str, fault: FaultKind
) -> None:
    async with house(bots, fresh_dsn) as here:
        here.discord.fault(fault, match=SEND, status=502)
        asked = await here.ask_and_die_at(point)
        await here.bots.later()
        await here.finish()
        assert await here.bots.states() == ["sent"]
        assert here.answered_once(asked)


@pytest.mark.parametrize(
    ("point", "every_s"),
    cases(
        list(product(("F.written", "F.committed", "send.arrived"), (None, 0.0))),
        {("F.written", None), ("F.written", 0.0), ("F.committed", 0.0), ("send.arrived", None)},
    ),
)
async def test_history_decides_when_the_nonce_is_too_old_to_fold(
    bots: Forks, fresh_dsn: str, point: str, every_s: float | None
) -> None:
    async with house(bots, fresh_dsn) as here:
        asked = await here.ask_and_die_at(point, every_s=every_s)
        await here.bots.later(600)
        await here.finish(every_s=every_s)
        assert await here.bots.states() == ["sent"]
        assert here.answered_once(asked)


@pytest.mark.parametrize(
    ("point", "nth"), cases([("send.called", 2), ("send.arrived", 2), ("G.committed", 1)], [("G.committed", 1)])
)
async def test_parts_that_arrived_are_never_repeated(bots: Forks, fresh_dsn: str, point: str, nth: int) -> None:
    async with house(bots, fresh_dsn) as here:
        await here.ask_and_die_at(point, nth, long=True)
        await here.bots.later()
        await here.finish(long=True)
        assert await here.bots.states() == ["sent"]
        said = here.discord.said_by_bot(here.room)
        assert len(said) > 2
        assert "".join("".join(said).split()) == "".join(long_answer_to("q1").split())


@pytest.mark.field("F034")
async def test_restart_reads_the_gap(bots: Forks, fresh_dsn: str) -> None:
    async with house(bots, fresh_dsn) as here:
        with here.bots.living() as pid:
            await here.connected()
            first = await here.ask("q1")
            await here.bots.settled(1)
            os.kill(pid, signal.SIGKILL)
        await here.away()
        missed = await here.ask("q2")
        await here.bots.later(60)
        with here.bots.living():
            await here.bots.settled(2)
        await here.away()
        # A third one reads the history too and finds nothing in it that wants an answer.
        await here.discord.say(here.ada, here.room, "thank you")
        with here.bots.living():
            await seldom(here.up_to_date)
            await here.bots.settled(2)
        assert here.answers(first) == [answer_to("q1")]
        assert here.answers(missed) == [answer_to("q2")]
        assert len(here.discord.said_by_bot(here.room)) == 2


@pytest.mark.long
@pytest.mark.parametrize(("point", "nth", "again", "again_nth"), PAIRS)
async def test_two_kills_in_a_row_lose_and_double_nothing(
    bots: Forks, fresh_dsn: str, point: str, nth: int, again: str, again_nth: int
) -> None:
    async with house(bots, fresh_dsn) as here:
        asked = await here.ask_and_die_at(point, nth)
        await here.bots.later()
        await here.bots.die_again_at(again, again_nth)
        await here.away()
        await here.finish()
        assert await here.bots.states() == ["sent"]
        assert here.answered_once(asked)
