"""The methods of the Telegram double, called through the real library: what they store and what they refuse."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from telegram import (
    Bot,
    BotCommand,
    BotCommandScopeAllGroupChats,
    ChatMemberRestricted,
    ChatPermissions,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    MessageEntity,
    ReplyKeyboardMarkup,
    ReplyParameters,
)
from telegram.error import BadRequest, ChatMigrated, Forbidden, InvalidToken, NetworkError

from tests.doubles.telegram_library import bot_of, hear
from tests.doubles.telegram_server import TelegramServer
from tests.fakes import ManualClock

WAVE = "👋"  # one symbol, two UTF-16 units
GENERAL = 1


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer(clock=ManualClock()) as double:
        yield double


@pytest.fixture
async def bot(telegram: TelegramServer) -> AsyncIterator[Bot]:
    async with bot_of(telegram) as client:
        yield client


def button(data: str) -> InlineKeyboardMarkup:
    return InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data=data)]])


async def test_the_bot_knows_itself_and_what_privacy_mode_lets_it_read(telegram: TelegramServer, bot: Bot) -> None:
    me = await bot.get_me()
    assert (me.id, me.username, me.is_bot) == (telegram.bot_id, telegram.bot_username, True)
    assert me.can_read_all_group_messages is False
    telegram.privacy_mode = False
    assert (await bot.get_me()).can_read_all_group_messages is True


async def test_a_text_is_counted_in_utf16_units_after_parsing(telegram: TelegramServer, bot: Bot) -> None:
    group = telegram.add_group("Garden")
    await bot.send_message(group.id, "<b>" + "&lt;" * 4096 + "</b>", parse_mode="HTML")
    await bot.send_message(group.id, WAVE * 2048)
    with pytest.raises(BadRequest, match="Message is too long"):
        await bot.send_message(group.id, WAVE * 2048 + "x")
    assert [len(message.text) for message in telegram.messages(group)] == [4096, 2048]


async def test_html_becomes_entities_with_offsets_in_utf16(telegram: TelegramServer, bot: Bot) -> None:
    group = telegram.add_group("Garden")
    source = f'{WAVE} <b>bold <i>both</i></b> <a href="https://x.example/?a=1&amp;b=2">there</a> '
    source += '<pre><code class="language-py">x &lt; 1</code></pre>'
    sent = await bot.send_message(group.id, source, parse_mode="HTML")
    assert sent.text == f"{WAVE} bold both there x < 1"
    found = [(e.type, e.offset, e.length) for e in sent.entities]
    assert found == [("bold", 3, 9), ("italic", 8, 4), ("text_link", 13, 5), ("pre", 19, 5)]
    assert (sent.entities[2].url, sent.entities[3].language) == ("https://x.example/?a=1&b=2", "py")


@pytest.mark.parametrize(
    "source", ["<x>no</x>", "<b>open", "a < b", "<b><i>crossed</b></i>", "</b>", "<span>plain</span>"]
)
async def test_markup_that_telegram_does_not_know_refuses_the_text(
    telegram: TelegramServer, bot: Bot, source: str
) -> None:
    with pytest.raises(BadRequest, match="Can't parse entities"):
        await bot.send_message(telegram.add_group("Garden").id, source, parse_mode="HTML")


async def test_markdown_refuses_what_is_reserved_and_not_escaped(telegram: TelegramServer, bot: Bot) -> None:
    group = telegram.add_group("Garden")
    sent = await bot.send_message(
        group.id, r"*a _b_* __c__ ||d|| [e](https://e.example) `f.` 1\.5", parse_mode="MarkdownV2"
    )
    assert sent.text == "a b c d e f. 1.5"
    kinds = [e.type for e in sent.entities]
    assert kinds == ["bold", "italic", "underline", "spoiler", "text_link", "code"]
    for source in ("1.5", "*open", "a-b", "[e]"):
        with pytest.raises(BadRequest, match=r"Can't (parse|find)|reserved"):
            await bot.send_message(group.id, source, parse_mode="MarkdownV2")


async def test_given_entities_must_lie_in_the_text_and_between_symbols(telegram: TelegramServer, bot: Bot) -> None:
    group = telegram.add_group("Garden")
    await bot.send_message(group.id, f"{WAVE}ab", entities=[MessageEntity("bold", 2, 2)])
    for offset, length in ((2, 3), (1, 2)):
        with pytest.raises(BadRequest, match=r"(?i)utf-16"):
            await bot.send_message(group.id, f"{WAVE}ab", entities=[MessageEntity("bold", offset, length)])


@pytest.mark.parametrize("text", [" ", "\n\n", "\u200b", "\u2060\ufeff"])
async def test_a_text_that_nobody_could_see_is_empty(telegram: TelegramServer, bot: Bot, text: str) -> None:
    with pytest.raises(BadRequest, match="Message text is empty"):
        await bot.send_message(telegram.add_group("Garden").id, text)


async def test_what_the_server_marks_by_itself(telegram: TelegramServer, bot: Bot) -> None:
    sent = await bot.send_message(telegram.add_group("Garden").id, "/ask@void_double_bot @ann_gardener a/b #moss  ")
    assert [(e.type, sent.parse_entity(e)) for e in sent.entities] == [
        ("bot_command", "/ask@void_double_bot"),
        ("mention", "@ann_gardener"),
        ("hashtag", "#moss"),
    ]
    assert sent.text is not None and sent.text.endswith("#moss")


async def test_an_answer_needs_its_target_unless_told_otherwise(telegram: TelegramServer, bot: Bot) -> None:
    group, ann = telegram.add_group("Garden"), telegram.add_user("Ann")
    asked = await telegram.say(ann, group, "which moss?")
    sent = await bot.send_message(group.id, "this one", reply_parameters=ReplyParameters(asked.id, quote="moss"))
    assert sent.reply_to_message is not None and sent.reply_to_message.message_id == asked.id
    assert sent.quote is not None and (sent.quote.text, sent.quote.position) == ("moss", 6)
    with pytest.raises(BadRequest, match=r"QUOTE_TEXT_INVALID|Quote_text_invalid"):
        await bot.send_message(group.id, "no", reply_parameters=ReplyParameters(asked.id, quote="fern"))
    await telegram.delete(asked)
    with pytest.raises(BadRequest, match="Message to be replied not found"):
        await bot.send_message(group.id, "gone", reply_to_message_id=asked.id)
    alone = await bot.send_message(group.id, "alone", reply_to_message_id=asked.id, allow_sending_without_reply=True)
    assert alone.reply_to_message is None


async def test_topics_exist_only_in_forums_and_general_is_not_one_of_them(telegram: TelegramServer, bot: Bot) -> None:
    forum, plain = telegram.add_group("Forum", "supergroup", forum=True), telegram.add_group("Plain", "supergroup")
    ann = telegram.add_user("Ann")
    topic = await telegram.create_topic(ann, forum, "Moss")
    sent = await bot.send_message(forum.id, "here", message_thread_id=topic.id)
    assert (sent.message_thread_id, sent.is_topic_message) == (topic.id, True)
    general = await bot.send_message(forum.id, "to all")
    assert (general.message_thread_id, general.is_topic_message) == (None, None)
    for chat, thread in ((forum, GENERAL), (forum, 99), (plain, topic.id)):
        with pytest.raises(BadRequest, match="Message thread not found"):
            await bot.send_message(chat.id, "nowhere", message_thread_id=thread)
    asked = await telegram.say(ann, forum, "in here?", topic=topic)
    assert (await bot.send_message(forum.id, "yes", reply_to_message_id=asked.id)).message_thread_id == topic.id
    await telegram.close_topic(ann, forum, topic)
    with pytest.raises(BadRequest, match=r"(?i)topic_closed"):
        await bot.send_message(forum.id, "late", message_thread_id=topic.id)
    with pytest.raises(BadRequest, match=r"(?i)topic_closed"):
        await bot.send_message(forum.id, "later", reply_to_message_id=asked.id)


async def test_an_edit_is_of_ones_own_message_and_changes_it(telegram: TelegramServer, bot: Bot) -> None:
    group, ann = telegram.add_group("Garden"), telegram.add_user("Ann")
    hers = await telegram.say(ann, group, "mine")
    sent = await bot.send_message(group.id, "one", reply_markup=button("a"))
    await bot.edit_message_text("two", group.id, sent.message_id)
    stored = telegram.messages(group)[-1]
    assert (stored.text, stored.buttons) == ("two", [])
    with pytest.raises(BadRequest, match="Message is not modified"):
        await bot.edit_message_text("two", group.id, sent.message_id)
    with pytest.raises(BadRequest, match="Message can't be edited"):
        await bot.edit_message_text("yours", group.id, hers.id)
    with pytest.raises(BadRequest, match="Message to edit not found"):
        await bot.edit_message_text("what", group.id, 4242)
    with pytest.raises(BadRequest, match=r"(?i)message_too_long"):
        await bot.edit_message_text(WAVE * 2049, group.id, sent.message_id)


async def test_deleting_others_messages_takes_a_right(telegram: TelegramServer, bot: Bot) -> None:
    group, ann = telegram.add_group("Garden", "supergroup"), telegram.add_user("Ann")
    hers = await telegram.say(ann, group, "mine")
    ours = await bot.send_message(group.id, "ours")
    assert await bot.delete_message(group.id, ours.message_id)
    with pytest.raises(BadRequest, match="Message can't be deleted"):
        await bot.delete_message(group.id, hers.id)
    await telegram.promote(telegram.bot, group, can_delete_messages=True)
    assert await bot.delete_message(group.id, hers.id)
    with pytest.raises(BadRequest, match="Message to delete not found"):
        await bot.delete_message(group.id, hers.id)
    assert telegram.messages(group) == []


async def test_files_go_up_and_come_down_but_not_over_20_mb(telegram: TelegramServer, bot: Bot) -> None:
    group, ann = telegram.add_group("Garden"), telegram.add_user("Ann")
    sent = await bot.send_document(
        group.id, b"moss,fern", filename="plants.csv", caption="<i>all</i>", parse_mode="HTML"
    )
    assert sent.document is not None and (sent.document.file_name, sent.caption) == ("plants.csv", "all")
    file = await bot.get_file(sent.document.file_id)
    assert bytes(await file.download_as_bytearray()) == b"moss,fern"
    assert (await bot.send_photo(group.id, b"\x89PNG")).photo
    large = await telegram.send_document(ann, group, "film.mp4", size=20 * 1024 * 1024 + 1)
    with pytest.raises(BadRequest, match="File is too big"):
        await bot.get_file(large.content["document"]["file_id"])
    with pytest.raises(BadRequest, match="caption is too long"):
        await bot.send_document(group.id, b"x", caption=WAVE * 513)


async def test_typing_shows_for_a_while_and_in_general_under_its_id_alone(telegram: TelegramServer, bot: Bot) -> None:
    forum = telegram.add_group("Forum", "supergroup", forum=True)
    await bot.send_chat_action(forum.id, "typing")
    assert telegram.action(forum) is None
    await bot.send_chat_action(forum.id, "typing", message_thread_id=GENERAL)
    assert telegram.action(forum) == "typing"
    telegram.message_methods.action_life_s = 0
    assert telegram.action(forum) is None
    with pytest.raises(BadRequest, match="thread not found"):
        await bot.send_chat_action(forum.id, "typing", message_thread_id=77)
    with pytest.raises(BadRequest, match=r"(?i)wrong parameter action"):
        await bot.send_chat_action(forum.id, "dreaming")


async def test_a_bot_reacts_with_one_emoji_that_exists(telegram: TelegramServer, bot: Bot) -> None:
    group, ann = telegram.add_group("Garden"), telegram.add_user("Ann")
    hers = await telegram.say(ann, group, "look")
    await bot.set_message_reaction(group.id, hers.id, "👍")
    assert hers.reactions[telegram.bot_id] == ("👍",)
    for reaction in (["👍", "🔥"], "moss"):
        with pytest.raises(BadRequest, match=r"(?i)reaction_invalid"):
            await bot.set_message_reaction(group.id, hers.id, reaction)
    with pytest.raises(BadRequest, match="not found"):
        await bot.set_message_reaction(group.id, 4242, "👍")


async def test_a_pressed_button_is_answered_in_time(telegram: TelegramServer, bot: Bot) -> None:
    group, ann = telegram.add_group("Garden"), telegram.add_user("Ann")
    await bot.send_message(group.id, "sure?", reply_markup=button("x" * 64))
    with pytest.raises(BadRequest, match=r"(?i)button_data_invalid"):
        await bot.send_message(group.id, "sure?", reply_markup=button("é" * 33))
    query = await telegram.click(ann, telegram.messages(group)[-1], "x" * 64)
    (update,) = await hear(bot)
    assert update.callback_query is not None and update.callback_query.data == "x" * 64
    assert update.callback_query.from_user.id == ann.id
    await bot.answer_callback_query(query, "done")
    assert telegram.answer_to(query) == "done"
    telegram.message_methods.callback_life_s = -1
    with pytest.raises(BadRequest, match="Query is too old"):
        await bot.answer_callback_query(query)


async def test_drafts_are_private_and_do_not_last(telegram: TelegramServer, bot: Bot) -> None:
    ann, group = telegram.add_user("Ann"), telegram.add_group("Garden")
    chat = await telegram.start_private(ann)
    await bot.send_message_draft(chat.id, 7, "thin")
    await bot.send_message_draft(chat.id, 7, "thinking")
    assert telegram.draft(chat) == "thinking"
    telegram.message_methods.draft_life_s = 0
    assert telegram.draft(chat) is None
    telegram.message_methods.draft_life_s = 30
    await bot.send_message(chat.id, "thought")
    assert telegram.draft(chat) is None
    with pytest.raises(BadRequest, match="non-zero"):
        await bot.send_message_draft(chat.id, 0, "x")
    with pytest.raises(BadRequest, match=r"(?i)peer_invalid"):
        await bot.send_message_draft(group.id, 7, "x")


async def test_standing_is_asked_one_by_one(telegram: TelegramServer, bot: Bot) -> None:
    ann, ben, eve = telegram.add_user("Ann"), telegram.add_user("Ben"), telegram.add_user("Eve")
    group = telegram.add_group("Garden", "supergroup", owner=ann)
    await telegram.promote(ben, group, can_pin_messages=True)
    full = await bot.get_chat(group.id)
    assert (full.title, full.type) == ("Garden", "supergroup")
    assert [(await bot.get_chat_member(group.id, user.id)).status for user in (ann, ben, eve)] == [
        "creator",
        "administrator",
        "left",
    ]
    assert {admin.user.id for admin in await bot.get_chat_administrators(group.id)} == {ann.id, ben.id}
    assert await bot.get_chat_member_count(group.id) == 3
    with pytest.raises(BadRequest, match=r"(?i)invalid user_id"):
        await bot.get_chat_member(group.id, 999)


async def test_sanctions_need_a_right_a_supergroup_and_someone_below(telegram: TelegramServer, bot: Bot) -> None:
    ann, eve = telegram.add_user("Ann"), telegram.add_user("Eve")
    group = telegram.add_group("Garden", "supergroup", owner=ann)
    await telegram.join(eve, group)
    silence = ChatPermissions.no_permissions()
    with pytest.raises(BadRequest, match="Not enough rights"):
        await bot.restrict_chat_member(group.id, eve.id, silence)
    await telegram.promote(telegram.bot, group, can_restrict_members=True)
    until = telegram.world.clock.now() + timedelta(hours=1)
    await bot.restrict_chat_member(group.id, eve.id, silence, until_date=until)
    assert isinstance(await bot.get_chat_member(group.id, eve.id), ChatMemberRestricted)
    with pytest.raises(PermissionError):
        await telegram.say(eve, group, "hush")
    await bot.ban_chat_member(group.id, eve.id)
    assert (await bot.get_chat_member(group.id, eve.id)).status == "kicked"
    await bot.unban_chat_member(group.id, eve.id, only_if_banned=True)
    assert (await bot.get_chat_member(group.id, eve.id)).status == "left"
    with pytest.raises(BadRequest, match="Can't remove chat owner"):
        await bot.ban_chat_member(group.id, ann.id)
    basic = telegram.add_group("Basic")
    await telegram.promote(telegram.bot, basic)
    with pytest.raises(BadRequest, match="only for supergroups"):
        await bot.restrict_chat_member(basic.id, eve.id, silence)


async def test_commands_are_kept_by_scope_and_named_in_lower_case(telegram: TelegramServer, bot: Bot) -> None:
    await bot.set_my_commands([BotCommand("why", "why it said so")])
    await bot.set_my_commands([BotCommand("room_memory", "x")], scope=BotCommandScopeAllGroupChats())
    assert [c.command for c in await bot.get_my_commands()] == ["why"]
    assert [c.command for c in await bot.get_my_commands(scope=BotCommandScopeAllGroupChats())] == ["room_memory"]
    for name in ("Why", "room-memory", "x" * 33):
        with pytest.raises(BadRequest, match=r"(?i)command_invalid"):
            await bot.set_my_commands([BotCommand(name, "x")])


async def test_a_chat_that_is_closed_to_the_bot_says_why(telegram: TelegramServer, bot: Bot) -> None:
    ann, other = telegram.add_user("Ann"), telegram.add_user("Other", bot=True)
    group = telegram.add_group("Garden", "supergroup")
    with pytest.raises(Forbidden, match="initiate conversation"):
        await bot.send_message(ann.id, "hello")
    with pytest.raises(Forbidden, match="to bots"):
        await bot.send_message(other.id, "hello")
    await telegram.block(ann)
    with pytest.raises(Forbidden, match="blocked by the user"):
        await bot.send_message(ann.id, "hello")
    with pytest.raises(BadRequest, match="Chat not found"):
        await bot.send_message(-5, "hello")
    await telegram.restrict(telegram.bot, group)
    with pytest.raises(BadRequest, match="Not enough rights to send text messages"):
        await bot.send_message(group.id, "hello")
    await telegram.leave(telegram.bot, group, by=ann)
    with pytest.raises(Forbidden, match="kicked from the supergroup chat"):
        await bot.send_message(group.id, "hello")


async def test_a_group_that_moved_names_its_new_id(telegram: TelegramServer, bot: Bot) -> None:
    group = telegram.add_group("Garden")
    moved = await telegram.migrate(group)
    with pytest.raises(ChatMigrated) as refused:
        await bot.send_message(group.id, "anyone?")
    assert refused.value.new_chat_id == moved.id
    await bot.send_message(moved.id, "here")
    told = [update.effective_message for update in await hear(bot)]
    assert [(m and m.migrate_to_chat_id, m and m.migrate_from_chat_id) for m in told] == [
        (moved.id, None),
        (None, group.id),
    ]


async def test_a_wrong_token_is_unauthorized(telegram: TelegramServer) -> None:
    with pytest.raises(InvalidToken):
        await Bot("1:wrong", base_url=f"{telegram.api_url}/bot").get_me()


async def test_what_the_double_lacks_answers_501_and_is_written_down(telegram: TelegramServer, bot: Bot) -> None:
    group = telegram.add_group("Garden")
    with pytest.raises(NetworkError, match="Not Implemented"):
        await bot.send_dice(group.id)
    with pytest.raises(NetworkError, match="Not Implemented"):
        await bot.send_message(group.id, "x", message_effect_id="5")
    with pytest.raises(NetworkError, match="Not Implemented"):
        await bot.send_message(group.id, "x", reply_markup=ReplyKeyboardMarkup([["a"]]))
    assert [call.method.split()[0] for call in telegram.calls[-3:]] == ["UNIMPLEMENTED"] * 3
    assert len(telegram.unimplemented) == 3 and telegram.messages(group) == []
    telegram.unimplemented.clear()
