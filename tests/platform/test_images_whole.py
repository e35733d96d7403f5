"""A picture or a file on either platform, through everything, to the model that is asked."""

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from core.providers.model_settings import ModelSettings
from tests.doubles.discord_server import DiscordServer
from tests.doubles.images import jpeg, png
from tests.doubles.model_server import ModelServer, Say
from tests.doubles.telegram_server import TelegramServer
from tests.flows.line import until
from tests.platform.whole_line import Whole, discord_settings, telegram_settings, whole_line

YES = Say(["That is a cat."])


@asynccontextmanager
async def seeing(dsn: str, platform: dict[str, object], server: ModelServer) -> AsyncIterator[Whole]:
    """Run the whole line with one model over HTTP, which sees."""
    eyes = ModelSettings(name="eyes", base_url=server.url, vision=True)
    async with whole_line(dsn, platform, models=[eyes]) as line:
        yield line


def sent(server: ModelServer) -> tuple[str, list[bytes]]:
    """Return the words and the images of the only request."""
    (call,) = server.calls
    content = call.body["messages"][-1]["content"]
    if isinstance(content, str):
        return content, []
    return content[-1]["text"], [base64.b64decode(part["image_url"]["url"].partition(",")[2]) for part in content[:-1]]


async def asked_at_discord(
    dsn: str, name: str, data: bytes, before: Callable[[DiscordServer], None] = lambda server: None
) -> tuple[str, list[bytes]]:
    async with DiscordServer() as discord, ModelServer(YES) as server:
        guild = discord.add_guild("House")
        room, ada = guild.add_channel("hall"), guild.add_member("Ada")
        async with seeing(dsn, discord_settings(discord), server) as line:
            await discord.until(lambda: discord.connected)
            before(discord)
            await discord.say(ada, room, f"<@{discord.bot.id}> what is this?", attachments=[(name, data)])
            await discord.until(lambda: len(discord.messages(room)) == 2)
            await line.quiet()
            assert discord.messages(room)[1].content == "That is a cat."
        return sent(server)


async def test_a_picture_at_discord_is_seen(fresh_dsn: str) -> None:
    words, images = await asked_at_discord(fresh_dsn, "cat.png", png())
    assert images == [png()] and "[image: cat.png, image 1 here]" in words


async def test_a_link_at_discord_that_has_expired_is_a_note(fresh_dsn: str) -> None:
    def expire(discord: DiscordServer) -> None:
        discord.cdn.link_life = -1.0

    words, images = await asked_at_discord(fresh_dsn, "cat.png", png(), expire)
    assert images == [] and "[image: cat.png, not shown: status 404]" in words


@pytest.mark.field("F023")
async def test_a_text_file_at_discord_is_read(fresh_dsn: str) -> None:
    words, _ = await asked_at_discord(fresh_dsn, "pump.log", b"the pump: 7 bar")
    assert "what is this?\n[file: pump.log, read as text]\nthe pump: 7 bar\n[end of the file]" in words


async def test_a_picture_at_telegram_is_seen(fresh_dsn: str) -> None:
    async with TelegramServer() as telegram, ModelServer(YES) as server:
        group, ada = telegram.add_group("House", kind="supergroup"), telegram.add_user("Ada")
        async with seeing(fresh_dsn, telegram_settings(telegram), server) as line:
            await telegram.send_photo(ada, group, f"@{telegram.bot_username} what is this?", jpeg())
            await telegram.until(lambda: any("cat" in each.text for each in telegram.messages(group)))
            await line.quiet()
        assert sent(server)[1] == [jpeg()]


@pytest.mark.field("F019")
async def test_a_voice_in_a_private_chat_at_telegram_is_told_once(fresh_dsn: str) -> None:
    async with TelegramServer() as telegram, ModelServer(YES) as server:
        ada = telegram.add_user("Ada")
        async with seeing(fresh_dsn, telegram_settings(telegram), server) as line:
            chat = await telegram.start_private(ada)
            await line.quiet()
            for _ in range(2):
                await telegram.send_voice(ada, chat)

            async def both() -> bool:
                heard = await line.value("select count(*) from voidbot.decisions where reason = 'unreadable'")
                return bool(heard == 2)

            await until(both)
            await line.quiet()
            said = [each.text for each in telegram.messages(chat) if "oice messages" in each.text]
        assert len(said) == 1 and not server.calls
