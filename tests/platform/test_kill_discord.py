"""Kill -9 at every point of the line on Discord: the next process loses no answer and gives none twice."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.crash.child import answer_to
from tests.crash.processes import Forks
from tests.doubles.discord_server import DiscordServer
from tests.doubles.discord_state import Channel, Member, Message
from tests.fakes import ManualClock
from tests.platform.lives import Lives, lives

BEFORE_SENDING = [
    ("fetched", 1),
    ("A.written", 1),
    ("A.committed", 1),
    ("stored", 1),
    ("cycle.before", 1),
    ("hold.before", 1),  # after B: claimed, nothing done
    ("C.written", 1),
    ("C.committed", 1),
    ("model.called", 1),
    ("model.answered", 1),
    ("E.written", 1),
    ("settle.after", 1),
    ("E.committed", 1),
    ("hold.before", 3),  # after B of the send job
]
SENDING = ["F.written", "F.committed", "send.called", "send.arrived", "G.written", "G.committed"]
GROWING = [
    ("early F.written", 1),
    ("early F.committed", 1),
    ("send.called", 1),
    ("send.arrived", 1),
    ("early G.committed", 1),
    ("edit.called", 1),
    ("edit.arrived", 1),
    ("model.answered", 1),
    ("E.written", 1),
    ("E.committed", 1),
    ("F.committed", 1),
    ("G.written", 1),
    ("G.committed", 1),
]
SEND, HISTORY = "POST /channels/*/messages", "/messages"


@dataclass
class House:
    """A room on Discord with one person in it, and the bots that come and go."""

    discord: DiscordServer
    bots: Lives
    room: Channel
    ada: Member

    async def connected(self) -> None:
        """Wait until a bot listens and has learned the room."""
        await self.discord.until(lambda: self.discord.connected)
        await self.discord.until(self._learned)

    async def _learned(self) -> bool:
        sql = "select exists (select from voidbot.rooms where chat_ref = $1)"
        return bool(await self.bots.value(sql, str(self.room.id)))

    async def away(self) -> None:
        await self.discord.until(lambda: not self.discord.connected)

    async def ask(self, about: str = "q1") -> Message:
        return await self.discord.say(self.ada, self.room, f"<@{self.discord.bot.id}> what is {about}?")

    async def said_before(self) -> None:
        """Let one bot hear something that needs no answer, so that the room is one that was heard in."""
        with self.bots.living():
            await self.connected()
            await self.discord.say(self.ada, self.room, "good morning")
            await self.discord.until(lambda: self.heard(1))
        await self.away()

    async def heard(self, number: int) -> bool:
        return bool(await self.bots.value("select count(*) >= $1 from voidbot.inbox", number))

    async def ask_and_die_at(self, point: str, nth: int = 1, **order: Any) -> Message:
        """Let a bot be asked that kills itself at a point; return the question."""
        with self.bots.living(point=point, nth=nth, **order) as pid:
            await self.connected()
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

    def sends(self) -> int:
        return len([call for call in self.discord.called("POST", HISTORY) if call.path.endswith(HISTORY)])


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
@pytest.mark.parametrize(("point", "nth"), BEFORE_SENDING + [(point, 1) for point in SENDING])
async def test_a_bot_killed_anywhere_on_the_line_answers_once(
    bots: Forks, fresh_dsn: str, point: str, nth: int
) -> None:
    async with house(bots, fresh_dsn) as here:
        asked = await here.ask_and_die_at(point, nth)
        await here.bots.later()
        await here.finish()
        assert await here.bots.states() == ["sent"]
        assert here.answers(asked) == here.discord.said_by_bot(here.room) == [answer_to("q1")]


@pytest.mark.field("F035")
@pytest.mark.parametrize(("point", "nth"), GROWING)
async def test_a_growing_answer_whose_bot_was_killed_ends_whole_and_once(
    bots: Forks, fresh_dsn: str, point: str, nth: int
) -> None:
    async with house(bots, fresh_dsn) as here:
        asked = await here.ask_and_die_at(point, nth, streams=True)
        await here.bots.later()
        await here.finish(streams=True)
        assert await here.bots.states() == ["sent"]
        assert here.answers(asked) == here.discord.said_by_bot(here.room) == [answer_to("q1")]
