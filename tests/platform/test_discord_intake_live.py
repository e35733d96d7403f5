"""What people do at Discord arrives as inbound messages, through the real library and real sockets."""

from collections.abc import AsyncIterator

import pytest

from bot.adapters.discord_intake import STARTER_GONE
from core.domain.ids import RoomKey
from core.domain.messages import Address, MessageKind, Origin
from core.domain.rooms import RoomKind
from tests.doubles.discord_words import Intent, Permission
from tests.platform.discord_house import House, open_house, part


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with open_house() as opened:
        yield opened


async def test_a_mention_is_handed_in_with_readable_names(house: House) -> None:
    async with house.running():
        await house.server.say(house.ada, house.room, f"{house.server.bot.mention} where is {house.room.mention}?")
        message = await house.heard("@voidbot where is #general?")
    assert message.addressed_by == {Address.MENTION}
    assert (message.person_ref, message.display_name, message.origin) == (str(house.ada.id), "Ada", Origin.HUMAN)
    assert message.surroundings is not None
    about = message.surroundings
    assert (about.community_ref, about.community_name) == (str(house.guild.id), "Workshop")
    assert (about.kind, about.name) == (RoomKind.CHANNEL, "general")
    assert not message.admin and message.live and not message.text_hidden


@pytest.mark.field("F039")
async def test_own_messages_come_back_as_our_own_and_speak_to_nobody(house: House) -> None:
    async with house.running() as chat:
        await chat.send(part(house.room, "void says hello to @voidbot"))
        echo = await house.heard("void says hello to @voidbot")
    assert echo.origin is Origin.SELF
    assert not echo.addressed_by


async def test_a_reply_to_the_bot_needs_no_ping(house: House) -> None:
    async with house.running() as chat:
        await chat.send(part(house.room, "hello"))
        ours = house.server.messages(house.room)[0]
        await house.server.say(house.ada, house.room, "and then?", reply_to=ours, ping=False)
        message = await house.heard("and then?")
    assert message.addressed_by == {Address.REPLY}
    assert message.reply_to == str(ours.id)


async def test_a_role_that_only_the_bot_holds_is_the_bot(house: House) -> None:
    own, shared = house.guild.add_role("oracle"), house.guild.add_role("helpers")
    await house.server.set_roles(house.guild.me, [*house.guild.me.roles, own, shared])
    await house.server.set_roles(house.ada, [shared])
    async with house.running():
        await house.server.say(house.ada, house.room, f"{own.mention} one")
        await house.server.say(house.ada, house.room, f"{shared.mention} two")
        await house.server.say(house.ada, house.room, "@everyone three")
        messages = [await house.heard(text) for text in ("@oracle one", "@helpers two", "@everyone three")]
    assert [one.addressed_by for one in messages] == [{Address.MENTION}, frozenset(), frozenset()]


async def test_bots_and_webhooks_are_told_apart_from_people(house: House) -> None:
    other = house.guild.add_member("Other", bot=True)
    async with house.running():
        await house.server.say(other, house.room, f"{house.server.bot.mention} hi from a bot")
        await house.server.webhook_say(house.room, "Feed", f"{house.server.bot.mention} hi from a feed")
        bot, feed = [await house.heard(f"@voidbot hi from a {who}") for who in ("bot", "feed")]
    assert bot.origin is Origin.BOT
    assert bot.addressed_by == {Address.MENTION}
    assert (feed.origin, feed.username) == (Origin.WEBHOOK, "Feed")
    assert not feed.addressed_by


async def test_direct_messages_are_a_community_of_their_own(house: House) -> None:
    async with house.running():
        await house.server.say(house.ada, house.server.dm(house.ada), "just us")
        message = await house.heard("just us")
    about = message.surroundings
    assert about is not None and message.addressed_by == {Address.DM}
    assert (about.community_ref, about.kind, about.name) == (f"dm:{house.ada.id}", RoomKind.DM, "Ada")
    assert not message.admin


@pytest.mark.field("F025")
async def test_a_thread_brings_the_message_it_began_with(house: House) -> None:
    async with house.running():
        starter = await house.server.say(house.ada, house.room, "who wants tea?")
        thread = await house.server.create_thread(house.ada, house.room, "tea", starter=starter)
        await house.server.say(house.ada, thread, "me")
        await house.heard("me")
    inside = [one for one in house.said() if one.room.chat_ref == str(thread.id)]
    assert [(one.text, one.person_ref) for one in inside] == [("who wants tea?", str(house.ada.id)),
                                                              ("me", str(house.ada.id))]  # fmt: skip
    about = inside[1].surroundings
    assert about is not None and about.parent is not None
    assert (about.kind, about.name, about.parent.chat_ref) == (RoomKind.THREAD_PUBLIC, "tea", str(house.room.id))
    assert not inside[0].addressed_by


@pytest.mark.field("F025")
async def test_a_thread_whose_first_message_is_gone_says_so(house: House) -> None:
    starter = await house.server.say(house.ada, house.room, "soon gone")
    async with house.running():
        await house.server.delete(starter)
        thread = await house.server.create_thread(house.ada, house.room, "orphan", starter=starter)
        await house.server.until(lambda: any(one.room.chat_ref == str(thread.id) for one in house.said()))
    assert any(one.quotes == (STARTER_GONE,) for one in house.said())


@pytest.mark.field("F025")
async def test_forum_post_has_its_starter(house: House) -> None:
    forum = house.guild.add_channel("ideas", "forum")
    async with house.running():
        post = await house.server.create_thread(house.ada, forum, "An idea", text="what if we did?")
        message = await house.heard("what if we did?")
    about = message.surroundings
    assert about is not None and about.parent is not None
    assert (message.room.chat_ref, about.kind, about.name) == (str(post.id), RoomKind.FORUM_POST, "An idea")
    assert about.parent.chat_ref == str(forum.id)


@pytest.mark.field("F023")
async def test_long_paste_is_read(house: House) -> None:
    text = f"{house.server.bot.mention} " + "a long story. " * 400
    async with house.running():
        await house.server.say(house.ada, house.room, text)
        await house.count(1)
    (message,) = house.accepted
    assert message.text.endswith("a long story. ") and len(message.text) > 5_000
    assert message.addressed_by == {Address.MENTION}
    assert [one.line() for one in message.attachments] == ["[file: message.txt, read as text]"]


@pytest.mark.field("F023")
@pytest.mark.parametrize("size", [256 * 1024, 256 * 1024 + 1])
async def test_a_paste_over_the_limit_is_a_note(house: House, size: int) -> None:
    async with house.running():
        await house.server.say(house.ada, house.room, "", attachments=[("message.txt", b"x" * size)])
        await house.count(1)
    (message,) = house.accepted
    assert len(message.text) == (size if size <= 256 * 1024 else 0)
    assert ("over the 256 KB limit" in message.attachments[0].note) is (size > 256 * 1024)


async def test_expired_file_link(house: House) -> None:
    house.server.cdn.link_life = -1.0
    async with house.running():
        await house.server.say(house.ada, house.room, "", attachments=[("message.txt", b"late")])
        await house.count(1)
    (message,) = house.accepted
    assert (message.text, message.attachments[0].note) == ("", "not read: status 404")


@pytest.mark.field("F024")
async def test_forward_is_not_empty(house: House) -> None:
    elsewhere = house.guild.add_channel("elsewhere")
    said = await house.server.say(house.ada, elsewhere, "the news")
    async with house.running():
        await house.server.forward(house.ada, said, house.room)
        await house.count(1)
    assert house.accepted[0].told() == "[forwarded]\nthe news\n[end of forwarded]"


async def test_preview_update_is_not_an_edit(house: House) -> None:
    async with house.running() as chat:
        said = await house.server.say(house.ada, house.room, "see https://example.org")
        await house.server.preview(said, "https://example.org")
        await house.server.edit(said, "look")
        await house.heard("look")
        assert chat.counts["events.not_edited"] == 1
    assert [one.kind for one in house.accepted] == [MessageKind.TEXT, MessageKind.EDIT]


async def test_edit_and_delete_before_our_start(house: House) -> None:
    kept = await house.server.say(house.ada, house.room, "first words")
    lost = await house.server.say(house.ada, house.room, "regretted")
    async with house.running():
        await house.server.edit(kept, "second words")
        await house.server.delete(lost)
        await house.count(2)
    edit, delete = sorted(house.accepted, key=lambda one: one.kind is MessageKind.DELETE)
    assert (edit.kind, edit.message_id, edit.text) == (MessageKind.EDIT, str(kept.id), "second words")
    assert (delete.kind, delete.message_id, delete.text) == (MessageKind.DELETE, str(lost.id), "")


async def test_bulk_and_channel_delete(house: House) -> None:
    said = [await house.server.say(house.ada, house.room, text) for text in ("a", "b", "c")]
    async with house.running():
        await house.server.bulk_delete(said)
        await house.count(1)
        await house.server.delete_channel(house.room)
        await house.server.until(lambda: bool(house.memory.told))
    (gone,) = house.said(MessageKind.DELETE)
    assert {gone.message_id, *gone.more_refs} == {str(one.id) for one in said}
    assert house.memory.told == [("room gone", RoomKey("discord", str(house.room.id)))]


async def test_events_of_one_room_are_handed_in_in_their_order(house: House) -> None:
    async with house.running():
        for number in range(30):
            said = await house.server.say(house.ada, house.room, f"n{number}")
            await house.server.edit(said, f"n{number} more")
        await house.count(60)
    assert [one.text for one in house.accepted] == [f"n{n}{more}" for n in range(30) for more in ("", " more")]


async def test_event_is_stored_before_work(house: House) -> None:
    calls: list[int] = []
    house.before_accept = lambda _: calls.append(len(house.server.calls))
    async with house.running():
        before = len(house.server.calls)
        await house.server.say(house.ada, house.room, f"{house.server.bot.mention} hi")
        await house.count(1)
    assert calls == [before]


async def test_nothing_is_lost_while_the_store_is_down(house: House) -> None:
    async with house.running() as chat:
        house.store_down = True
        for number in range(3):
            await house.server.say(house.ada, house.room, f"n{number}")
        await house.server.until(lambda: chat.counts["lanes.store_down"] > 0)
        house.store_down = False
        await house.count(3)
    assert house.texts() == ["n0", "n1", "n2"]


async def test_administrators_are_known_by_permission_bits(house: House) -> None:
    keeper = house.guild.add_role("keeper", Permission.MANAGE_GUILD)
    bob = house.guild.add_member("Bob", [keeper])
    async with house.running():
        for who in (house.ada, bob, house.guild.owner):
            await house.server.say(who, house.room, f"I am {who.user.name}")
        found = [await house.heard(f"I am {name}") for name in ("Ada", "Bob", "Owner")]
    assert [one.admin for one in found] == [False, True, True]


@pytest.mark.parametrize("damage", ["missing_author", "unknown_type", "null_object"])
async def test_malformed_event_does_not_stop_the_bot(house: House, damage: str) -> None:
    async with house.running() as chat:
        house.server.fault("malformed_event", match="MESSAGE_CREATE", damage=damage)
        await house.server.say(house.ada, house.room, "broken")
        await house.server.push_raw("GUILD_ROLE_UPDATE", {"guild_id": None})
        await house.server.push_raw("MESSAGE_CREATE", None)
        await house.server.say(house.ada, house.room, "whole")
        await house.heard("whole")
        assert chat.counts["events.malformed"] + chat.counts["events.service"] >= 2
    assert house.texts() == ["whole"]
    assert house.server.identifies == 1


async def test_hidden_content_is_not_empty(house: House) -> None:
    house.server.privileged_intents = Intent.GUILD_MEMBERS
    async with house.running() as chat:
        await chat.send(part(house.room, "hello"))
        ours = house.server.messages(house.room)[0]
        await house.server.say(house.ada, house.room, "and then?", reply_to=ours, ping=False)
        await house.server.say(house.ada, house.room, f"{house.server.bot.mention} this I see")
        await house.heard("@voidbot this I see")
    hidden = next(one for one in house.accepted if one.addressed_by == {Address.REPLY})
    assert hidden.text_hidden and not hidden.text and hidden.told()
