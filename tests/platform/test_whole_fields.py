"""What users of such bots suffered on platforms, through the composition root and the real libraries."""

import pytest

from core.domain.rooms import ArchiveSwitch, RoomMode
from core.store import places
from core.store.engine import Database
from tests.doubles.discord_server import DiscordServer
from tests.doubles.telegram_server import TelegramServer
from tests.fakes import ScriptedModel
from tests.flows.line import until
from tests.platform.whole_line import Whole, discord_settings, telegram_settings, whole_line


async def switch_on(line: Whole) -> None:
    """Let every room keep what is said and hear all of it."""
    async with line.database.transaction() as tx:
        for row in await tx.fetch("select id from voidbot.rooms"):
            await places.save_mode(tx, row["id"], mode=RoomMode.LURK, archive=ArchiveSwitch.ON)


@pytest.mark.field("F014")
async def test_each_topic_has_a_conversation_of_its_own(database: Database, fresh_dsn: str) -> None:
    model = ScriptedModel(lambda request: "So it is.")
    async with TelegramServer(privacy_mode=False) as telegram:
        group, ada = telegram.add_group("House", kind="supergroup", forum=True), telegram.add_user("Ada")
        await telegram.join(ada, group)
        red, blue = [await telegram.create_topic(ada, group, name) for name in ("red", "blue")]
        async with whole_line(fresh_dsn, telegram_settings(telegram), model) as line:
            for topic in (red, blue):
                await telegram.say(ada, group, "hello there", topic=topic)
            await until(lambda: _count(line, "inbox", 2))
            await switch_on(line)
            await telegram.say(ada, group, "the key hangs behind the curtain", topic=red)
            await telegram.say(ada, group, "the key hangs under the stairs", topic=blue)
            await until(lambda: _count(line, "messages", 2))
            asked = f"@{telegram.bot_username} where is it?"
            await telegram.say(ada, group, asked, topic=red)
            await telegram.until(lambda: any(each.text == "So it is." for each in telegram.messages(group)))
            await line.quiet()
        answer = next(each for each in telegram.messages(group) if each.text == "So it is.")
        assert answer.topic is not None and answer.topic.name == "red"
        transcript = model.requests[0].messages[-1].text
        assert "behind the curtain" in transcript and "under the stairs" not in transcript


async def _count(line: Whole, what: str, number: int) -> bool:
    return bool(await line.value(f"select count(*) from voidbot.{what}") == number)


@pytest.mark.field("F015")
@pytest.mark.parametrize("caption_on", [0, 2, 5])
async def test_an_album_in_a_group_is_one_turn_wherever_its_caption_sits(
    database: Database, fresh_dsn: str, caption_on: int
) -> None:
    model = ScriptedModel(lambda request: "Six fine pictures.")
    async with TelegramServer(privacy_mode=False) as telegram:
        group, ada = telegram.add_group("House", kind="supergroup"), telegram.add_user("Ada")
        await telegram.join(ada, group)
        async with whole_line(fresh_dsn, telegram_settings(telegram), model) as line:
            caption = f"@{telegram.bot_username} what are these?"
            await telegram.send_album(ada, group, 6, caption=caption, caption_on=caption_on)
            await telegram.until(lambda: any("Six fine" in each.text for each in telegram.messages(group)))
            await line.quiet()
            assert await line.value("select count(*) from voidbot.turns") == 1
            assert await line.value("select count(*) from voidbot.outbox") == 1
        assert len(model.requests) == 1
        assert model.requests[0].messages[-1].text.count("[image") == 6


@pytest.mark.field("F027")
async def test_two_bots_that_greet_each_other_stop_at_once(database: Database, fresh_dsn: str) -> None:
    model = ScriptedModel(lambda request: "Good day.")
    async with DiscordServer() as discord:
        guild = discord.add_guild("House")
        room, ada, greeter = guild.add_channel("hall"), guild.add_member("Ada"), guild.add_member("Greeter", bot=True)
        async with whole_line(fresh_dsn, discord_settings(discord), model) as line:
            await discord.until(lambda: bool(discord.connected))
            for number in range(5):
                await discord.say(greeter, room, f"<@{discord.bot.id}> hello number {number}!")
            await until(lambda: _count(line, "decisions where reason = 'bot_ignored'", 5))
            await discord.say(ada, room, f"<@{discord.bot.id}> and what of me?")
            await discord.until(lambda: any(each.content == "Good day." for each in discord.messages(room)))
            await line.quiet()
            assert await line.value("select count(*) from voidbot.outbox") == 1
        assert len(model.requests) == 1 and "and what of me?" in model.requests[0].messages[-1].text
