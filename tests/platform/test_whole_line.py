"""A question on either platform, through everything, to its answer and its receipt."""

import re

import pytest

from core.domain.prompt import ModelRequest
from core.store.engine import Database
from tests.doubles.discord_server import DiscordServer
from tests.doubles.telegram_server import TelegramServer
from tests.fakes import ManualClock, ScriptedModel
from tests.flows.line import running_line, until
from tests.platform.whole_line import discord_settings, telegram_settings, whole_line


async def test_round_trip_discord(database: Database, fresh_dsn: str) -> None:
    model = ScriptedModel(lambda request: "At five, in the hall.")
    async with DiscordServer() as discord:
        guild = discord.add_guild("House")
        room, ada = guild.add_channel("hall"), guild.add_member("Ada")
        async with whole_line(fresh_dsn, discord_settings(discord), model) as line:
            await discord.until(lambda: discord.connected)
            asked = await discord.say(ada, room, f"<@{discord.bot.id}> when do we meet?")
            await discord.until(lambda: len(discord.messages(room)) == 2)
            await line.quiet()
            answer = discord.messages(room)[1]
            assert answer.content == "At five, in the hall."
            assert await line.value("select external_ids from voidbot.receipts") == [str(answer.id)]
            assert await line.value("select reply_to from voidbot.outbox") == str(asked.id)
            assert await line.value("select name from voidbot.communities") == "House"
            assert await line.value("select name from voidbot.rooms where state = 'active' limit 1") == "hall"
        assert "when do we meet?" in model.requests[0].messages[-1].text


@pytest.mark.field("F026")
async def test_proxied_message_is_one_turn(database: Database, fresh_dsn: str) -> None:
    model = ScriptedModel(lambda request: "At five, in the hall.")
    async with DiscordServer() as discord:
        guild = discord.add_guild("House")
        room, ada = guild.add_channel("hall"), guild.add_member("Ada")
        async with whole_line(fresh_dsn, discord_settings(discord), model) as line:

            async def is_archived() -> bool:
                async with line.database.transaction() as tx:
                    return await tx.execute("update voidbot.rooms set archive = 'on' where name = 'hall'") == 1

            async def reacted() -> bool:
                return bool(await line.value("select count(*) = 1 from voidbot.reactions where emoji = '👍'"))

            await until(is_archived)
            original = await discord.say(ada, room, f"r:<@{discord.bot.id}> when do we meet?")
            await discord.delete(original)
            copy = await discord.webhook_say(room, "Rook", f"<@{discord.bot.id}> when do we meet?")
            await discord.until(lambda: len(discord.messages(room)) == 2)
            await discord.react(ada, copy, "👍")
            await until(reacted)
            await line.quiet()
            assert await line.value("select array_agg(reply_to) from voidbot.outbox") == [str(copy.id)]
            kept = await line.value(
                "select array_agg(m.platform_ref || ' ' || n.name || ' ' || o.account_ref) from voidbot.messages m"
                " join voidbot.people o on o.id = m.proxy_of join voidbot.person_names n on n.person_id = m.author_id"
                " where m.text <> ''"
            )
            assert kept == [f"{copy.id} Rook {ada.id}"]
        assert len(model.requests) == 1 and len(discord.messages(room)) == 2


async def test_round_trip_telegram(database: Database, fresh_dsn: str) -> None:
    model = ScriptedModel(lambda request: "At **five**, in the hall.")
    async with TelegramServer() as telegram:
        group, ada = telegram.add_group("House", kind="supergroup"), telegram.add_user("Ada")
        await telegram.join(ada, group)
        async with whole_line(fresh_dsn, telegram_settings(telegram), model) as line:
            asked = await telegram.say(ada, group, f"@{telegram.bot_username} when do we meet?")
            await telegram.until(lambda: any(each.text.startswith("At five") for each in telegram.messages(group)))
            await line.quiet()
            answer = telegram.messages(group)[-1]
            assert answer.text == "At five, in the hall."
            assert await line.value("select external_ids from voidbot.receipts") == [str(answer.id)]
            assert await line.value("select reply_to from voidbot.outbox") == str(asked.id)
            assert await line.value("select name from voidbot.communities") == "House"


async def test_a_private_command_on_discord_is_seen_by_its_asker_alone(database: Database, fresh_dsn: str) -> None:
    async with DiscordServer() as discord:
        guild = discord.add_guild("House")
        room, ada = guild.add_channel("hall"), guild.add_member("Ada")
        async with whole_line(fresh_dsn, discord_settings(discord)) as line:
            await discord.until(lambda: discord.connected and bool(discord.commands))
            used = await discord.slash(ada, room, "help", {})
            await discord.until(lambda: used.original is not None and "/ask" in used.original.content)
            await line.quiet()
            assert discord.messages(room) == []
            assert await line.value("select count(*) from voidbot.receipts where delivered_at is not null") == 1


async def test_an_ask_on_discord_is_answered_in_the_room(database: Database, fresh_dsn: str) -> None:
    model = ScriptedModel(lambda request: "Because of the rain.")
    async with DiscordServer() as discord:
        guild = discord.add_guild("House")
        room, ada = guild.add_channel("hall"), guild.add_member("Ada")
        async with whole_line(fresh_dsn, discord_settings(discord), model) as line:
            await discord.until(lambda: discord.connected and bool(discord.commands))
            used = await discord.slash(ada, room, "ask", {"question": "why so late?"})
            await discord.until(lambda: used.original is not None and "rain" in used.original.content)
            await line.quiet()
        assert "why so late?" in model.requests[0].messages[-1].text


async def test_a_private_command_in_a_telegram_group_goes_to_the_private_chat(
    database: Database, fresh_dsn: str
) -> None:
    async with TelegramServer() as telegram:
        group, ada = telegram.add_group("House", kind="supergroup"), telegram.add_user("Ada")
        await telegram.join(ada, group)
        private = await telegram.start_private(ada)
        async with whole_line(fresh_dsn, telegram_settings(telegram)) as line:
            await telegram.say(ada, group, f"/help@{telegram.bot_username}")
            await telegram.until(lambda: any("/ask" in each.text for each in telegram.messages(private)))
            await line.quiet()
            assert [each.text for each in telegram.messages(group) if each.text.startswith("/help")] != []
            assert not any("/ask" in each.text for each in telegram.messages(group))


async def test_what_is_said_on_telegram_s_albums_is_one_turn(database: Database, fresh_dsn: str) -> None:
    model = ScriptedModel(lambda request: "Six fine pictures.")
    async with TelegramServer() as telegram:
        ada = telegram.add_user("Ada")
        private = await telegram.start_private(ada)
        async with whole_line(fresh_dsn, telegram_settings(telegram), model) as line:
            await telegram.send_album(ada, private, 6, caption="what are these?", caption_on=3)
            await telegram.until(lambda: any("Six fine" in each.text for each in telegram.messages(private)))
            await line.quiet()
            assert await line.value("select count(*) from voidbot.turns") == 1
        asked = model.requests[0].messages[-1].text
        assert asked.count("[image") == 6 and "what are these?" in asked and len(model.requests) == 1


def without_marker(request: ModelRequest) -> str:
    """The user's text of a prompt with its random marker and its distances in time taken out."""
    text = request.messages[-1].text
    marker = re.search(r"<<end (\w+)>>", text)
    assert marker is not None
    return text.replace(marker[1], "MARKER")


@pytest.mark.parametrize("platform", ["discord", "telegram"])
async def test_the_same_question_builds_the_same_prompt_everywhere(
    database: Database, fresh_dsn: str, platform: str
) -> None:
    question, model, clock = "when do we meet?", ScriptedModel(), ManualClock(database)
    async with running_line(fresh_dsn, model=model, clock=clock) as here:
        await here.say("Ada", question, room="dm:ada", addressed_by=frozenset({"dm"}))
        await here.answers(1)
    if platform == "discord":
        async with DiscordServer() as discord:
            ada = discord.add_guild("House").add_member("Ada")
            async with whole_line(fresh_dsn, discord_settings(discord), model, clock):
                await discord.until(lambda: discord.connected)
                await discord.say(ada, discord.dm(ada), question)
                await until(lambda: len(model.requests) == 2)
    else:
        async with TelegramServer() as telegram:
            user = telegram.add_user("Ada")
            private = await telegram.start_private(user)
            async with whole_line(fresh_dsn, telegram_settings(telegram), model, clock):
                await telegram.say(user, private, question)
                await until(lambda: len(model.requests) == 2)
    one, other = model.requests
    assert one.system == other.system
    assert without_marker(one) == without_marker(other)
