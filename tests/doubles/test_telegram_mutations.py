"""Proof that each rule of the Telegram double can be dropped, and that the real library then sees the difference."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup
from telegram.error import BadRequest, ChatMigrated, Conflict

from tests.doubles.telegram_faults import Mutation
from tests.doubles.telegram_library import Listener, bot_of, hear, outcome
from tests.doubles.telegram_server import TelegramServer
from tests.doubles.telegram_state import User

WAVE = "👋"


async def long_emoji_text_is_refused(telegram: TelegramServer, bot: Bot, ann: User) -> bool:
    return isinstance(await outcome(bot.send_message(telegram.add_group("G").id, WAVE * 2049)), BadRequest)


async def unconfirmed_updates_come_again(telegram: TelegramServer, bot: Bot, ann: User) -> bool:
    await telegram.say(ann, await telegram.start_private(ann), "one")
    return [len(await bot.get_updates(timeout=0)) for _ in range(2)] == [1, 1]


async def two_pollers_conflict(telegram: TelegramServer, bot: Bot, ann: User) -> bool:
    telegram.long_poll_max = 0.3
    async with bot_of(telegram) as rival, asyncio.TaskGroup() as tasks:
        both = [tasks.create_task(outcome(each.get_updates(timeout=9))) for each in (bot, rival)]
    return any(isinstance(each.result(), Conflict) for each in both)


async def groups_are_private(telegram: TelegramServer, bot: Bot, ann: User) -> bool:
    await telegram.say(ann, telegram.add_group("G"), "to all")
    return await hear(bot) == []


async def general_refuses_thread_one(telegram: TelegramServer, bot: Bot, ann: User) -> bool:
    forum = telegram.add_group("F", "supergroup", forum=True)
    return isinstance(await outcome(bot.send_message(forum.id, "x", message_thread_id=1)), BadRequest)


async def edits_are_of_own_messages(telegram: TelegramServer, bot: Bot, ann: User) -> bool:
    hers = await telegram.say(ann, telegram.add_group("G"), "mine")
    return isinstance(await outcome(bot.edit_message_text("ours", hers.chat.id, hers.id)), BadRequest)


async def unmodified_edits_are_refused(telegram: TelegramServer, bot: Bot, ann: User) -> bool:
    sent = await bot.send_message(telegram.add_group("G").id, "same")
    return isinstance(await outcome(bot.edit_message_text("same", sent.chat_id, sent.message_id)), BadRequest)


async def broken_markup_is_refused(telegram: TelegramServer, bot: Bot, ann: User) -> bool:
    return isinstance(await outcome(bot.send_message(telegram.add_group("G").id, "a < b", "HTML")), BadRequest)


async def large_files_stay(telegram: TelegramServer, bot: Bot, ann: User) -> bool:
    sent = await telegram.send_document(ann, telegram.add_group("G"), "film", size=30 * 2**20)
    return isinstance(await outcome(bot.get_file(sent.content["document"]["file_id"])), BadRequest)


async def button_data_is_short(telegram: TelegramServer, bot: Bot, ann: User) -> bool:
    markup = InlineKeyboardMarkup([[InlineKeyboardButton("x", callback_data="x" * 65)]])
    return isinstance(await outcome(bot.send_message(telegram.add_group("G").id, "x", reply_markup=markup)), BadRequest)


async def delivered(telegram: TelegramServer, bot: Bot, ann: User, *statuses: int) -> list[tuple[int, str | None]]:
    listener = Listener(*statuses)
    async with listener as url:
        await bot.set_webhook(url, secret_token="s3cret")
        await telegram.say(ann, await telegram.start_private(ann), "one")
        await telegram.until(lambda: not telegram.pending_updates)
        await bot.delete_webhook()
    return listener.seen


async def webhooks_carry_their_secret(telegram: TelegramServer, bot: Bot, ann: User) -> bool:
    return [secret for _, secret in await delivered(telegram, bot, ann)] == ["s3cret"]


async def failed_webhooks_are_repeated(telegram: TelegramServer, bot: Bot, ann: User) -> bool:
    return len(await delivered(telegram, bot, ann, 500)) == 2


async def deletions_are_silent(telegram: TelegramServer, bot: Bot, ann: User) -> bool:
    said = await telegram.say(ann, await telegram.start_private(ann), "one")
    await hear(bot)
    await telegram.delete(said)
    return await hear(bot) == []


async def moved_groups_are_closed(telegram: TelegramServer, bot: Bot, ann: User) -> bool:
    group = telegram.add_group("G")
    await telegram.migrate(group)
    return isinstance(await outcome(bot.send_message(group.id, "x")), ChatMigrated)


RULES: dict[Mutation, Callable[[TelegramServer, Bot, User], Awaitable[bool]]] = {
    Mutation.COUNT_CODE_POINTS: long_emoji_text_is_refused,
    Mutation.CONFIRM_ON_FETCH: unconfirmed_updates_come_again,
    Mutation.NO_409: two_pollers_conflict,
    Mutation.NO_PRIVACY: groups_are_private,
    Mutation.GENERAL_TAKES_THREAD_ONE: general_refuses_thread_one,
    Mutation.EDIT_ANYTHING: edits_are_of_own_messages,
    Mutation.UNMODIFIED_EDIT_PASSES: unmodified_edits_are_refused,
    Mutation.MARKUP_UNCHECKED: broken_markup_is_refused,
    Mutation.NO_DOWNLOAD_LIMIT: large_files_stay,
    Mutation.NO_CALLBACK_LIMIT: button_data_is_short,
    Mutation.NO_WEBHOOK_SECRET: webhooks_carry_their_secret,
    Mutation.WEBHOOK_TAKES_ANY_STATUS: failed_webhooks_are_repeated,
    Mutation.DELETIONS_ARE_TOLD: deletions_are_silent,
    Mutation.OLD_GROUP_STAYS_OPEN: moved_groups_are_closed,
}


@pytest.mark.parametrize("mutation", list(Mutation))
async def test_a_mutation_drops_its_rule_before_the_eyes_of_the_library(mutation: Mutation) -> None:
    async with TelegramServer() as telegram, bot_of(telegram) as bot:
        ann = telegram.add_user("Ann")
        assert await RULES[mutation](telegram, bot, ann) is True
        telegram.mutations.add(mutation)
        assert await RULES[mutation](telegram, bot, ann) is False
