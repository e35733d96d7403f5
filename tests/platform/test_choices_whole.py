"""A card on either platform, through everything: pressed without rights, made up, over a restart, twice, too late."""

from core.domain.choices import Choice, ChoiceRef
from core.domain.ids import RoomId
from core.store.engine import Database
from tests.doubles.discord_interactions import Interaction
from tests.doubles.discord_server import DiscordServer
from tests.doubles.telegram_server import TelegramServer
from tests.flows.line import until
from tests.flows.offering import put_up, run_out
from tests.platform.whole_line import Whole, discord_settings, telegram_settings, whole_line

ACTS = tuple(Choice(name, f"/void persona name:{name}") for name in ("dry", "plain"))
"""Something that an administrator may do, and that is written down each time."""


async def room_of(line: Whole, chat: int) -> RoomId:
    """Return a room once it is known."""
    find = "select id from voidbot.rooms where chat_ref = $1"

    async def known() -> bool:
        return await line.value(find, str(chat)) is not None

    await until(known)
    return RoomId(await line.value(find, str(chat)))


async def changes(line: Whole) -> object:
    return await line.value("select count(*) from voidbot.audit where act = 'void persona'")


async def told(discord: DiscordServer, pressed: Interaction) -> str:
    """Return what the presser alone was told."""
    await discord.until(lambda: bool(pressed.text))
    assert pressed.original is not None and pressed.original.ephemeral
    return str(pressed.text)


async def test_a_card_on_discord_is_decided_once_by_who_may(database: Database, fresh_dsn: str) -> None:
    async with DiscordServer() as discord:
        guild = discord.add_guild("House")
        room, bob, owner = guild.add_channel("staff"), guild.add_member("Bob"), guild.owner
        async with whole_line(fresh_dsn, discord_settings(discord)) as line:
            yes = await put_up(line.database, await room_of(line, room.id), "a", *ACTS)
            await discord.until(lambda: len(discord.messages(room)) == 1)
            (card,) = discord.messages(room)
            assert "administrators" in await told(discord, await discord.click(bob, card, yes.text()))
            made_up = await discord.click(owner, card, ChoiceRef(yes.outbox_id + 1, 1).text(), stale=True)
            await discord.until(lambda: made_up.original is not None and made_up.original.deleted)
            assert await changes(line) == 0 and card.components
        async with whole_line(fresh_dsn, discord_settings(discord)) as line:
            await discord.until(lambda: discord.connected)
            assert await told(discord, await discord.click(owner, card, yes.text())) == "Done."
            await discord.until(lambda: card.components == [])
            no = ChoiceRef(yes.outbox_id, 2).text()
            late = await discord.click(owner, card, no, stale=True)
            assert await told(discord, late) == "That is decided already."
            other = await put_up(line.database, await room_of(line, room.id), "b", *ACTS)
            await discord.until(lambda: len(discord.messages(room)) == 2)
            await run_out(line.database, other)
            too_late = await discord.click(owner, discord.messages(room)[1], other.text())
            assert "has run out" in await told(discord, too_late)
            assert await changes(line) == 1
            assert await line.value("select persona from voidbot.rooms where chat_ref = $1", str(room.id)) == "dry"
        assert [each.content for each in discord.messages(room)] == ["May I, a?", "May I, b?"]


async def test_a_card_on_telegram_is_decided_once_by_who_may(database: Database, fresh_dsn: str) -> None:
    async with TelegramServer() as telegram:
        ann, ben = telegram.add_user("Ann"), telegram.add_user("Ben")
        group = telegram.add_group("House", kind="supergroup", owner=ann)

        async def shown(query: str) -> str:
            """Return what the presser was shown."""
            await telegram.until(lambda: bool(telegram.answer_to(query)))
            return str(telegram.answer_to(query))

        async with whole_line(fresh_dsn, telegram_settings(telegram)) as line:
            await telegram.join(ben, group)
            yes = await put_up(line.database, await room_of(line, group.id), "a", *ACTS)
            await telegram.until(lambda: telegram.messages(group)[-1].text == "May I, a?")
            card = telegram.messages(group)[-1]
            assert "administrators" in await shown(await telegram.click(ben, card, yes.text()))
            made_up = await telegram.click(ann, card, ChoiceRef(yes.outbox_id + 1, 1).text(), forged=True)
            await telegram.until(lambda: telegram.answer_to(made_up) == "")
            assert await changes(line) == 0 and card.buttons
        async with whole_line(fresh_dsn, telegram_settings(telegram)) as line:
            assert await shown(await telegram.click(ann, card, yes.text())) == "Done."
            await telegram.until(lambda: card.buttons == [])
            no = ChoiceRef(yes.outbox_id, 2).text()
            assert await shown(await telegram.click(ann, card, no, forged=True)) == "That is decided already."
            other = await put_up(line.database, await room_of(line, group.id), "b", *ACTS)
            await telegram.until(lambda: telegram.messages(group)[-1].text == "May I, b?")
            await run_out(line.database, other)
            assert "has run out" in await shown(await telegram.click(ann, telegram.messages(group)[-1], other.text()))
            assert await changes(line) == 1
        assert telegram.messages(group)[-1].text == "May I, b?"
