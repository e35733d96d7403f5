"""The update queue of the Telegram double, and its faults, met through the real library."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from telegram import Bot
from telegram.error import BadRequest, Conflict, NetworkError, RetryAfter, TimedOut

from tests.doubles.telegram_faults import FLOOD_WAITS_S, FaultKind
from tests.doubles.telegram_library import Listener, bot_of, outcome, polling
from tests.doubles.telegram_server import TelegramServer
from tests.doubles.telegram_state import User


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer() as double:
        double.long_poll_max = 5
        yield double


@pytest.fixture
async def bot(telegram: TelegramServer) -> AsyncIterator[Bot]:
    async with bot_of(telegram) as client:
        yield client


@pytest.fixture
def ann(telegram: TelegramServer) -> User:
    return telegram.add_user("Ann")


async def test_an_application_that_polls_gets_every_update_once(telegram: TelegramServer, ann: User) -> None:
    chat = await telegram.start_private(ann)
    await telegram.say(ann, chat, "before")
    async with polling(telegram) as reached:
        await telegram.until(lambda: len(reached) == 1)
        await telegram.say(ann, chat, "during")
        await telegram.until(lambda: len(reached) == 2 and not telegram.pending_updates)
    assert [update.message.text for update in reached if update.message] == ["before", "during"]
    assert telegram.polls >= 2


async def test_updates_come_again_until_the_offset_passes_them(telegram: TelegramServer, bot: Bot, ann: User) -> None:
    chat = await telegram.start_private(ann)
    for text in ("one", "two", "three"):
        await telegram.say(ann, chat, text)
    first = await bot.get_updates(timeout=0, limit=2)
    assert [u.update_id for u in first] == [u.update_id for u in await bot.get_updates(timeout=0, limit=2)]
    (third,) = await bot.get_updates(offset=first[-1].update_id + 1, timeout=0)
    assert third.message is not None and third.message.text == "three"
    assert len(telegram.pending_updates) == 1
    assert await bot.get_updates(offset=third.update_id + 1, timeout=0) == ()
    for text in ("four", "five"):
        await telegram.say(ann, chat, text)
    (last,) = await bot.get_updates(offset=-1, timeout=0)
    assert last.message is not None and last.message.text == "five"


async def test_a_long_poll_wakes_with_the_first_update_and_ends_empty_at_its_limit(
    telegram: TelegramServer, bot: Bot, ann: User
) -> None:
    chat = await telegram.start_private(ann)
    async with asyncio.TaskGroup() as tasks:
        polled = tasks.create_task(bot.get_updates(timeout=30))
        await telegram.until(lambda: bool(telegram.called("getUpdates")))
        await telegram.say(ann, chat, "wake")
    assert len(polled.result()) == 1
    telegram.long_poll_max = 0.01
    assert await bot.get_updates(offset=polled.result()[0].update_id + 1, timeout=30) == ()
    assert telegram.polls == 2


async def test_a_second_poller_ends_the_first_with_a_conflict(telegram: TelegramServer, bot: Bot) -> None:
    async with bot_of(telegram) as rival, asyncio.TaskGroup() as tasks:
        first = tasks.create_task(outcome(bot.get_updates(timeout=30)))
        await telegram.until(lambda: len(telegram.called("getUpdates")) == 1)
        telegram.long_poll_max = 0.1
        second = tasks.create_task(outcome(rival.get_updates(timeout=30)))
    assert isinstance(first.result(), Conflict) and second.result() == ()


async def test_a_webhook_is_served_in_order_again_on_failure_and_with_its_secret(
    telegram: TelegramServer, bot: Bot, ann: User
) -> None:
    listener, chat = Listener(500, 403), await telegram.start_private(ann)
    async with listener as url:
        await bot.set_webhook(url, secret_token="s3cret", allowed_updates=["message"])
        with pytest.raises(Conflict, match="webhook is active"):
            await bot.get_updates(timeout=0)
        await telegram.say(ann, chat, "one")
        await telegram.say(ann, chat, "two")
        await telegram.until(lambda: not telegram.pending_updates)
        info = await bot.get_webhook_info()
        await bot.delete_webhook()
    one = listener.seen[0][0]
    assert listener.seen == [(one, "s3cret")] * 3 + [(one + 1, "s3cret")]
    assert (info.url, info.pending_update_count, info.allowed_updates) == (url, 0, ("message",))
    assert info.last_error_message == "Wrong response from the webhook: 403 Forbidden"
    assert await bot.get_updates(timeout=0) == ()


async def test_setting_a_webhook_ends_a_poll_and_a_dead_one_keeps_its_updates(
    telegram: TelegramServer, bot: Bot, ann: User
) -> None:
    async with Listener() as url:
        pass
    async with asyncio.TaskGroup() as tasks:
        polled = tasks.create_task(outcome(bot.get_updates(timeout=30)))
        await telegram.until(lambda: bool(telegram.called("getUpdates")))
        await bot.set_webhook(url)
    assert isinstance(polled.result(), Conflict)
    await telegram.say(ann, await telegram.start_private(ann), "anyone?")

    async def failed() -> bool:
        return (await bot.get_webhook_info()).last_error_message == "Connection refused"

    await telegram.until(failed)
    assert (await bot.get_webhook_info()).pending_update_count == 1
    await bot.delete_webhook(drop_pending_updates=True)
    assert not telegram.pending_updates


@pytest.mark.parametrize(
    ("kind", "stored"),
    [(FaultKind.STATUS_BEFORE, 0), (FaultKind.STATUS_AFTER_COMMIT, 1), (FaultKind.CUT_AFTER_COMMIT, 1)],
)
async def test_a_lost_answer_looks_alike_whether_or_not_it_was_sent(
    telegram: TelegramServer, bot: Bot, kind: FaultKind, stored: int
) -> None:
    group = telegram.add_group("Garden")
    telegram.fault(kind, match="sendMessage")
    with pytest.raises(NetworkError) as lost:
        await bot.send_message(group.id, "hello")
    assert not isinstance(lost.value, BadRequest)
    assert len(telegram.messages(group)) == stored
    await bot.send_message(group.id, "again")
    assert len(telegram.messages(group)) == stored + 1


async def test_a_status_from_500_on_has_a_body_of_html(telegram: TelegramServer, bot: Bot) -> None:
    telegram.fault(FaultKind.STATUS_BEFORE, status=503)
    with pytest.raises(NetworkError, match=r"Service Unavailable.*<html>"):
        await bot.get_me()


@pytest.mark.parametrize(("kind", "stored"), [(FaultKind.HANG, 0), (FaultKind.HANG_AFTER_COMMIT, 1)])
async def test_an_answer_that_never_comes_times_out(
    telegram: TelegramServer, bot: Bot, kind: FaultKind, stored: int
) -> None:
    group = telegram.add_group("Garden")
    telegram.fault(kind, match="sendMessage")
    with pytest.raises(TimedOut):
        await bot.send_message(group.id, "hello", read_timeout=0.2)
    assert len(telegram.messages(group)) == stored


async def test_a_hung_poll_is_not_a_completed_one(telegram: TelegramServer, bot: Bot) -> None:
    telegram.fault(FaultKind.HANG)
    with pytest.raises(TimedOut):
        await bot.get_updates(timeout=0, read_timeout=0.2)
    assert telegram.polls == 0
    assert await bot.get_updates(timeout=0) == () and telegram.polls == 1


@pytest.mark.parametrize("wait_s", FLOOD_WAITS_S)
async def test_a_flood_wait_names_its_seconds(telegram: TelegramServer, bot: Bot, wait_s: int) -> None:
    telegram.fault(FaultKind.FLOOD, match="sendMessage", retry_after=wait_s)
    group = telegram.add_group("Garden")
    with pytest.raises(RetryAfter, match=f"Retry in {wait_s} seconds"):
        await bot.send_message(group.id, "hello")
    assert telegram.messages(group) == []


async def test_an_unreachable_double_refuses_connections_and_comes_back_on_its_port(
    telegram: TelegramServer, bot: Bot, ann: User
) -> None:
    chat = await telegram.start_private(ann)
    async with polling(telegram) as reached:
        async with telegram.unreachable():
            with pytest.raises(NetworkError, match="ConnectError"):
                await bot.get_me()
            await telegram.say(ann, chat, "meanwhile")
        await telegram.until(lambda: len(reached) == 1)
    assert (await bot.get_me()).id == telegram.bot_id


async def test_a_forgotten_confirmation_brings_updates_again(telegram: TelegramServer, bot: Bot, ann: User) -> None:
    await telegram.say(ann, await telegram.start_private(ann), "one")
    telegram.fault(FaultKind.FORGOTTEN_CONFIRMATION)
    (update,) = await bot.get_updates(timeout=0)
    (again,) = await bot.get_updates(offset=update.update_id + 1, timeout=0)
    assert again.update_id == update.update_id
    assert await bot.get_updates(offset=update.update_id + 1, timeout=0) == ()


async def test_a_webhook_that_took_an_update_may_get_it_again(telegram: TelegramServer, bot: Bot, ann: User) -> None:
    listener, chat = Listener(), await telegram.start_private(ann)
    telegram.fault(FaultKind.REPEATED_WEBHOOK, match="message")
    async with listener as url:
        await bot.set_webhook(url)
        await telegram.say(ann, chat, "one")
        await telegram.until(lambda: not telegram.pending_updates)
        await bot.delete_webhook()
    assert len(listener.seen) == 2 and len(set(listener.seen)) == 1


async def test_a_malformed_update_may_pass_the_library_without_its_chat(
    telegram: TelegramServer, bot: Bot, ann: User
) -> None:
    telegram.fault(FaultKind.MALFORMED_UPDATE, match="message")
    await telegram.say(ann, await telegram.start_private(ann), "from nowhere")
    (update,) = await bot.get_updates(timeout=0)
    assert update.message is not None and update.effective_chat is None and update.effective_user is None


async def test_a_malformed_update_may_break_the_reading_of_its_whole_batch_for_ever(
    telegram: TelegramServer, bot: Bot, ann: User
) -> None:
    chat = await telegram.start_private(ann)
    telegram.fault(FaultKind.MALFORMED_UPDATE, body={})
    await telegram.say(ann, chat, "broken")
    await telegram.say(ann, chat, "sound")
    for _ in range(2):
        with pytest.raises(KeyError, match="date"):
            await bot.get_updates(timeout=0)
    assert len(telegram.pending_updates) == 2


async def test_a_fault_that_never_bites_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="never bit"):
        async with TelegramServer() as telegram:
            telegram.fault(FaultKind.FLOOD)


async def test_something_that_is_lacking_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="sendDice"):
        async with TelegramServer() as telegram, bot_of(telegram) as bot:
            with pytest.raises(NetworkError):
                await bot.send_dice(telegram.add_group("Garden").id)


async def test_an_unknown_mutation_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="no such mutations"):
        async with TelegramServer() as telegram:
            telegram.mutations.add("no_priwacy")
