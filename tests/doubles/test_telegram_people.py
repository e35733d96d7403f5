"""What people do at the Telegram double, and what of it reaches the bot through the real library."""

from collections.abc import AsyncIterator

import pytest
from telegram import Bot, MessageOriginChannel, MessageOriginHiddenUser, MessageOriginUser, Update

from tests.doubles.telegram_entities import Entity
from tests.doubles.telegram_library import bot_of, hear
from tests.doubles.telegram_server import TelegramServer
from tests.doubles.telegram_state import User

US = "@void_double_bot"


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as double:
        yield double


@pytest.fixture
async def bot(telegram: TelegramServer) -> AsyncIterator[Bot]:
    async with bot_of(telegram) as client:
        await hear(client)
        yield client


@pytest.fixture
def ann(telegram: TelegramServer) -> User:
    return telegram.add_user("Ann", "ann_gardener")


def texts(updates: list[Update]) -> list[str | None]:
    return [update.effective_message.text if update.effective_message else None for update in updates]


async def test_privacy_mode_lets_through_what_is_meant_for_the_bot(
    telegram: TelegramServer, bot: Bot, ann: User
) -> None:
    group = telegram.add_group("Garden", "supergroup")
    other = telegram.add_user("Other", "other_bot", bot=True)
    ours = await bot.send_message(group.id, "I am here")
    stored = telegram.messages(group)[-1]
    await telegram.say(ann, group, "to all")
    await telegram.say(ann, group, f"hello {US}")
    await telegram.say(ann, group, "/why")
    await telegram.say(ann, group, "so you say", reply_to=stored)
    await telegram.say(ann, group, "/why@other_bot")
    await telegram.say(other, group, f"beep {US}")
    await telegram.say(ann, group, "/why for the one that spoke last")
    await telegram.say(ann, group, f"/why{US}")
    named = Entity("text_mention", 0, 4, {"user": telegram.bot.to_json()})
    await telegram.say(ann, group, "Void, hello", entities=[named])
    heard = await hear(bot)
    assert texts(heard) == [f"hello {US}", "/why", "so you say", f"/why{US}", "Void, hello"]
    answered = heard[2].effective_message
    assert answered is not None and answered.reply_to_message is not None
    assert answered.reply_to_message.message_id == ours.message_id


async def test_administrators_hear_all_and_privacy_counts_from_joining(
    telegram: TelegramServer, bot: Bot, ann: User
) -> None:
    group = telegram.add_group("Garden", "supergroup")
    telegram.privacy_mode = False
    await telegram.say(ann, group, "one")
    await telegram.promote(telegram.bot, group, by=ann)
    await telegram.say(ann, group, "two")
    await telegram.demote(telegram.bot, group, by=ann)
    await telegram.say(ann, group, "three")
    await telegram.leave(telegram.bot, group, by=ann)
    await telegram.join(telegram.bot, group, by=ann)
    await telegram.say(ann, group, "four")
    heard = await hear(bot)
    assert [text for text in texts(heard) if text] == ["two", "four"]
    mine = [update.my_chat_member.new_chat_member.status for update in heard if update.my_chat_member]
    assert mine == ["administrator", "member", "kicked", "member"]


async def test_messages_of_other_bots_do_not_arrive_unless_the_test_wants_it(
    telegram: TelegramServer, bot: Bot
) -> None:
    group, other = telegram.add_group("Garden"), telegram.add_user("Other", "other_bot", bot=True)
    await telegram.promote(telegram.bot, group)
    await hear(bot)
    await telegram.say(other, group, "beep")
    assert await hear(bot) == []
    telegram.bots_hear_bots = True
    await telegram.say(other, group, "beep")
    assert texts(await hear(bot)) == ["beep"]


async def test_edits_arrive_even_without_new_text_and_deletions_never(
    telegram: TelegramServer, bot: Bot, ann: User
) -> None:
    chat = await telegram.start_private(ann)
    first = await telegram.say(ann, chat, "one")
    await telegram.edit(first, "won")
    await telegram.edit(first)
    await telegram.delete(first)
    heard = await hear(bot)
    assert [(bool(update.edited_message), text) for update, text in zip(heard, texts(heard), strict=True)] == [
        (False, "one"),
        (True, "won"),
        (True, "won"),
    ]
    assert telegram.messages(chat) == []


async def test_reactions_and_members_are_told_to_administrators_that_ask(
    telegram: TelegramServer, bot: Bot, ann: User
) -> None:
    group, ben = telegram.add_group("Garden", "supergroup"), telegram.add_user("Ben")
    message = await telegram.say(ann, group, "look")
    await telegram.react(ann, message, "👍")
    await telegram.promote(telegram.bot, group)
    await hear(bot)
    await telegram.react(ann, message, "🔥")
    await telegram.join(ben, group)
    reaction, member, service = await hear(bot)
    assert reaction.message_reaction is not None
    assert [r.to_dict()["emoji"] for r in reaction.message_reaction.old_reaction] == ["👍"]
    assert [r.to_dict()["emoji"] for r in reaction.message_reaction.new_reaction] == ["🔥"]
    assert member.chat_member is not None and member.chat_member.new_chat_member.user.id == ben.id
    assert service.message is not None and [u.id for u in service.message.new_chat_members or ()] == [ben.id]
    await bot.get_updates(timeout=0, allowed_updates=[], offset=service.update_id + 1)
    await telegram.react(ann, message)
    await telegram.leave(ben, group)
    (left,) = await bot.get_updates(timeout=0)
    assert left.message is not None and left.message.left_chat_member is not None


async def test_every_kind_of_message_is_read_by_the_library(telegram: TelegramServer, bot: Bot, ann: User) -> None:
    chat = await telegram.start_private(ann)
    await telegram.send_photo(ann, chat, "my moss")
    await telegram.send_sticker(ann, chat)
    await telegram.send_voice(ann, chat, duration_s=5)
    await telegram.send_document(ann, chat, "list.txt", b"fern")
    await telegram.send_poll(ann, chat, "Which?", "moss", "fern")
    photo, sticker, voice, document, poll = (update.message for update in await hear(bot))
    assert photo is not None and photo.photo and photo.caption == "my moss"
    assert sticker is not None and sticker.sticker is not None and sticker.sticker.emoji == "👍"
    assert voice is not None and voice.voice is not None
    assert document is not None and document.document is not None
    file = await document.document.get_file()
    assert bytes(await file.download_as_bytearray()) == b"fern"
    assert poll is not None and poll.poll is not None and [o.text for o in poll.poll.options] == ["moss", "fern"]


@pytest.mark.parametrize("caption_on", [0, 2, None])
async def test_an_album_is_several_updates_with_the_caption_on_any(
    telegram: TelegramServer, bot: Bot, ann: User, caption_on: int | None
) -> None:
    chat = await telegram.start_private(ann)
    await telegram.send_album(ann, chat, 3, caption_on=caption_on, caption="look")
    items = [update.message for update in await hear(bot)]
    assert len({item.media_group_id for item in items if item}) == 1
    assert [item.caption if item else "" for item in items] == ["look" if at == caption_on else None for at in range(3)]


async def test_forwards_and_quotes_say_where_they_come_from(telegram: TelegramServer, bot: Bot, ann: User) -> None:
    ben, channel = telegram.add_user("Ben"), telegram.add_channel("News")
    post = await telegram.channel_post(channel, "it rains")
    chat = await telegram.start_private(ann)
    said = await telegram.say(ben, telegram.add_group("Garden"), "moss is green")
    await telegram.forward(ann, said, chat)
    await telegram.forward(ann, said, chat, hidden=True)
    await telegram.forward(ann, post, chat)
    await telegram.quote_reply(ann, telegram.messages(chat)[0], "green", "is it?")
    posted, by_ben, by_someone, by_channel, quoting = await hear(bot)
    assert posted.channel_post is not None and posted.channel_post.text == "it rains"
    origins = [update.message.forward_origin for update in (by_ben, by_someone, by_channel) if update.message]
    assert [type(origin) for origin in origins] == [MessageOriginUser, MessageOriginHiddenUser, MessageOriginChannel]
    assert quoting.message is not None and quoting.message.quote is not None
    assert (quoting.message.quote.text, quoting.message.quote.position) == ("green", 8)


async def test_shared_accounts_speak_for_admins_channels_and_telegram_itself(
    telegram: TelegramServer, bot: Bot, ann: User
) -> None:
    group = telegram.add_group("Garden", "supergroup", owner=ann)
    channel = telegram.add_channel("News", linked_group=group)
    await telegram.promote(telegram.bot, group)
    await hear(bot)
    await telegram.anonymous_admin_say(group, "order!")
    await telegram.channel_post(channel, "it rains")
    await telegram.say_as_channel(channel, group, "indeed")
    anonymous, post, forwarded, as_channel = (update.effective_message for update in await hear(bot))
    assert anonymous is not None and anonymous.from_user is not None and anonymous.sender_chat is not None
    assert (anonymous.from_user.id, anonymous.sender_chat.id) == (1087968824, group.id)
    assert post is not None and post.from_user is None and post.chat.id == channel.id
    assert forwarded is not None and forwarded.from_user is not None and forwarded.is_automatic_forward
    assert (forwarded.from_user.id, forwarded.chat.id) == (777000, group.id)
    assert as_channel is not None and as_channel.from_user is not None and as_channel.sender_chat is not None
    assert (as_channel.from_user.id, as_channel.sender_chat.id) == (136817688, channel.id)


async def test_what_is_said_in_a_topic_carries_it_and_hangs_on_its_creation(
    telegram: TelegramServer, bot: Bot, ann: User
) -> None:
    forum = telegram.add_group("Forum", "supergroup", forum=True)
    await telegram.promote(telegram.bot, forum)
    await hear(bot)
    topic = await telegram.create_topic(ann, forum, "Moss")
    await telegram.say(ann, forum, "in it", topic=topic)
    await telegram.say(ann, forum, "in general")
    await telegram.send_album(ann, forum, 2, topic=topic)
    await telegram.close_topic(ann, forum, topic)
    with pytest.raises(PermissionError):
        await telegram.say(ann, forum, "late", topic=topic)
    created, inside, general, *album, closed = (update.message for update in await hear(bot))
    assert [item.message_thread_id for item in album if item] == [topic.id] * 2
    assert created is not None and created.forum_topic_created is not None
    assert inside is not None and (inside.message_thread_id, inside.is_topic_message) == (topic.id, True)
    assert inside.reply_to_message is not None and inside.reply_to_message.forum_topic_created is not None
    assert general is not None and (general.message_thread_id, general.reply_to_message) == (None, None)
    assert closed is not None and closed.forum_topic_closed is not None and closed.message_thread_id == topic.id


async def test_an_answer_outside_forums_may_carry_a_thread_id_that_is_no_topic(
    telegram: TelegramServer, bot: Bot, ann: User
) -> None:
    group = telegram.add_group("Garden", "supergroup")
    first = await telegram.say(ann, group, f"{US} one")
    await telegram.say(ann, group, f"{US} two", reply_to=first, bogus_thread_id=first.id)
    second = (await hear(bot))[1].message
    assert second is not None and (second.message_thread_id, second.is_topic_message) == (first.id, None)


async def test_private_chats_and_basic_groups_share_message_ids_and_supergroups_do_not(
    telegram: TelegramServer, bot: Bot, ann: User
) -> None:
    private, basic = await telegram.start_private(ann), telegram.add_group("Basic")
    great, greater = (telegram.add_group(title, "supergroup") for title in ("Great", "Greater"))
    ids = [(await bot.send_message(chat.id, "x")).message_id for chat in (private, basic, great, greater)]
    assert ids[1] == ids[0] + 1 and ids[2] == ids[3]
    assert private.id == ann.id and -1_000_000_000_000 < basic.id < 0 and great.id < -1_000_000_000_000


async def test_a_block_is_told_and_ends_what_is_heard(telegram: TelegramServer, bot: Bot, ann: User) -> None:
    chat = await telegram.start_private(ann)
    await telegram.block(ann)
    await telegram.block(ann, blocked=False)
    await telegram.say(ann, chat, "back")
    blocked, unblocked, said = await hear(bot)
    assert blocked.my_chat_member is not None and blocked.my_chat_member.new_chat_member.status == "kicked"
    assert unblocked.my_chat_member is not None and unblocked.my_chat_member.new_chat_member.status == "member"
    assert said.message is not None and said.message.text == "back"


async def test_a_button_below_a_message_that_is_gone_shows_almost_nothing_of_it(
    telegram: TelegramServer, bot: Bot, ann: User
) -> None:
    group = telegram.add_group("Garden")
    markup = {"inline_keyboard": [[{"text": "Yes", "callback_data": "yes"}]]}
    await bot.send_message(group.id, "sure?", api_kwargs={"reply_markup": markup})
    await telegram.click(ann, telegram.messages(group)[-1], "yes", inaccessible=True)
    (update,) = await hear(bot)
    assert update.callback_query is not None and update.callback_query.message is not None
    assert not update.callback_query.message.is_accessible
    with pytest.raises(LookupError, match="no button"):
        await telegram.click(ann, telegram.messages(group)[-1], "no")


async def test_people_are_held_to_what_their_clients_can_do(telegram: TelegramServer, ann: User) -> None:
    group = telegram.add_group("Garden")
    assert (await telegram.say(ann, group, "  moss \n")).text == "moss"
    with pytest.raises(ValueError, match="splits"):
        await telegram.say(ann, group, "👋" * 2049)
    with pytest.raises(ValueError, match="forum"):
        telegram.add_group("Garden", forum=True)
    with pytest.raises(PermissionError):
        await telegram.say(ann, await telegram.start_private(telegram.add_user("Ben")), "in another's chat")
