"""Listening to Telegram: nothing confirmed before it is stored, one listener, and no silence that goes unnoticed."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from telegram import Update

from bot.adapters.addressing import Names
from bot.adapters.telegram_chat import PRIVACY_MODE, TelegramChat, TelegramSettings
from bot.adapters.telegram_polling import ALLOWED
from core.domain.errors import InputRejected
from core.ports import CommandForm
from tests.doubles.telegram_faults import FaultKind, Mutation
from tests.doubles.telegram_server import TelegramServer
from tests.doubles.telegram_state import Chat, User
from tests.fakes import ManualClock, RememberingPlatform
from tests.platform.telegram_line import COMMANDS, listening, make_line


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer(privacy_mode=False, clock=ManualClock()) as double:
        yield double


@pytest.fixture
def ann(telegram: TelegramServer) -> User:
    return telegram.add_user("Ann")


@pytest.fixture
def group(telegram: TelegramServer, ann: User) -> Chat:
    return telegram.add_group("Garden", kind="supergroup", owner=ann)


async def test_an_update_is_confirmed_only_after_it_is_stored(telegram: TelegramServer, ann: User, group: Chat) -> None:
    line = make_line(telegram)
    line.inbox.held = asyncio.Event()
    async with listening(line):
        await telegram.say(ann, group, "one")
        await telegram.until(lambda: line.inbox.offered == 1)
        assert len(telegram.pending_updates) == 1
        line.inbox.held.set()
        await line.confirmed()
    assert line.inbox.texts == ["one"]


async def test_kill_after_fetch_loses_nothing(telegram: TelegramServer, ann: User, group: Chat) -> None:
    killed, after = make_line(telegram), make_line(telegram)
    killed.inbox.held = asyncio.Event()
    async with listening(killed):
        for n in range(5):
            await telegram.say(ann, group, f"{n}")
        await telegram.until(lambda: killed.inbox.offered == 1)
    assert killed.inbox.taken == []
    async with listening(after):
        await after.heard(5)
    assert after.inbox.texts == ["0", "1", "2", "3", "4"]


async def test_the_proof_of_the_kill_needs_updates_that_come_again(
    telegram: TelegramServer, ann: User, group: Chat
) -> None:
    telegram.mutations.add(Mutation.CONFIRM_ON_FETCH)
    killed = make_line(telegram)
    killed.inbox.held = asyncio.Event()
    async with listening(killed):
        await telegram.say(ann, group, "lost")
        await telegram.until(lambda: killed.inbox.offered == 1)
    assert not telegram.pending_updates


async def test_redelivered_update_is_one_turn(telegram: TelegramServer, ann: User, group: Chat) -> None:
    telegram.fault(FaultKind.FORGOTTEN_CONFIRMATION, times=2)
    line = make_line(telegram)
    async with listening(line):
        await telegram.say(ann, group, "once")
        await telegram.until(lambda: line.inbox.offered == 3)
        await line.confirmed()
    assert line.inbox.texts == ["once"]


async def test_store_down_keeps_polling(telegram: TelegramServer, ann: User, group: Chat) -> None:
    line = make_line(telegram)
    line.inbox.down = True
    async with listening(line):
        await telegram.say(ann, group, "one")
        await telegram.say(ann, group, "two")
        await telegram.until(lambda: line.inbox.offered >= 3)
        assert len(telegram.pending_updates) == 2
        line.inbox.down = False
        await line.heard(2)
        await line.confirmed()
    assert line.inbox.texts == ["one", "two"]
    assert [("cannot be stored" in each, "stored again" in each) for each in line.alerts] == [
        (True, False),
        (False, True),
    ]


async def test_rooms_that_cannot_be_reported_are_reported_later(
    telegram: TelegramServer, ann: User, group: Chat
) -> None:
    line = make_line(telegram)
    async with listening(line):
        await telegram.until(lambda: telegram.polls > 0)
        line.memory.down = True
        await telegram.say(ann, group, "one")
        await line.heard(1)
        line.memory.down = False
        await telegram.until(lambda: bool(line.memory.reports))
    assert line.inbox.texts == ["one"]


@pytest.mark.parametrize(("broken", "texts"), [(1, ["one", "two"]), (3, ["two"])])
async def test_a_bug_of_ours_stops_neither_the_loop_nor_the_next_message(
    telegram: TelegramServer, ann: User, group: Chat, broken: int, texts: list[str]
) -> None:
    line = make_line(telegram)
    line.inbox.broken = broken
    async with listening(line):
        await telegram.say(ann, group, "one")
        await telegram.say(ann, group, "two")
        await line.confirmed()
    assert line.inbox.texts == texts
    assert any("passed over" in each for each in line.alerts) == (broken == 3)


@pytest.mark.field("F016")
async def test_second_poller_steps_down(telegram: TelegramServer, ann: User, group: Chat) -> None:
    memory = RememberingPlatform()
    first, second = make_line(telegram, memory=memory), make_line(telegram, memory=memory)
    async with listening(second):
        async with listening(first):
            await telegram.until(lambda: telegram.polls > 0 and bool(first.alerts or second.alerts))
            await telegram.say(ann, group, "one")
            await telegram.until(lambda: bool(first.inbox.taken or second.inbox.taken))
            waits, leads = (first, second) if first.alerts else (second, first)
            assert (waits.inbox.offered, waits.chat.silent_s()) == (0, None)
            assert leads.chat.silent_s() is not None
            assert waits.alerts == ["telegram: another process listens with this token; this one waits"]
        await telegram.say(ann, group, "two")
        await telegram.until(lambda: "two" in second.inbox.texts)
    assert len(telegram.called("getUpdates")) > 0
    assert not any("something else polls" in each for each in (*first.alerts, *second.alerts))


async def test_a_poller_of_another_house_is_told_of_once(telegram: TelegramServer, ann: User, group: Chat) -> None:
    line, other = make_line(telegram), make_line(telegram)
    line.chat.poller.conflict_wait_s = other.chat.poller.conflict_wait_s = 0.3
    async with listening(line):
        await telegram.until(lambda: telegram.polls > 0)
        async with listening(other):
            await telegram.until(lambda: bool(line.alerts))
            await asyncio.gather(*(telegram.say(ann, group, f"{n}") for n in range(4)))
            await telegram.until(lambda: not telegram.pending_updates)
        await telegram.until(lambda: len(line.alerts) == 2)
    assert sorted({*line.inbox.texts, *other.inbox.texts}) == ["0", "1", "2", "3"]
    assert "polls with this token" in line.alerts[0]
    assert "any more" in line.alerts[1]


async def test_a_webhook_left_behind_is_taken_away(telegram: TelegramServer, ann: User, group: Chat) -> None:
    telegram.room_methods.setWebhook("http://127.0.0.1:9/hook")
    line = make_line(telegram)
    async with listening(line):
        await telegram.say(ann, group, "one")
        await line.heard(1)
        telegram.room_methods.setWebhook("http://127.0.0.1:9/hook")
        await telegram.say(ann, group, "two")
        await line.heard(2)
    assert any("set a webhook" in each for each in line.alerts)


async def test_allowed_updates_are_explicit(telegram: TelegramServer) -> None:
    line = make_line(telegram)
    line.chat.poller.poll_s = 0
    async with listening(line):
        await telegram.until(lambda: telegram.polls > 1)
    asked = telegram.called("getUpdates")
    assert asked
    assert all(each["allowed_updates"] == list(ALLOWED) for each in asked)
    assert {Update.MESSAGE_REACTION, Update.CHAT_MEMBER} <= set(ALLOWED)


@pytest.mark.field("F017")
async def test_hung_poll_is_restarted(telegram: TelegramServer, ann: User, group: Chat) -> None:
    line = make_line(telegram)
    line.chat.poller.hung_after_s = 0.5
    line.chat.poller.poll_s = 0
    telegram.fault(FaultKind.HANG, times=2)
    async with listening(line):
        await telegram.say(ann, group, "one")
        await line.heard(1)
        await telegram.until(lambda: len(line.alerts) == 2)
    assert ["hung" in line.alerts[0], "heard again" in line.alerts[1]] == [True, True]


@pytest.mark.field("F017")
async def test_refused_connections_are_tried_again_and_what_was_said_is_read(
    telegram: TelegramServer, ann: User, group: Chat
) -> None:
    line = make_line(telegram)
    async with listening(line):
        await telegram.until(lambda: telegram.polls > 0)
        async with telegram.unreachable():
            await telegram.until(lambda: bool(line.alerts))
            await telegram.say(ann, group, "meanwhile")
            await line.clock.advance(300)
            silent = line.chat.silent_s()
            assert silent is not None
            assert silent >= 300
        await line.heard(1)
        await telegram.until(lambda: (line.chat.silent_s() or 999) < 10)
    assert line.inbox.texts == ["meanwhile"]
    assert ["cannot be reached" in line.alerts[0], "heard again" in line.alerts[1]] == [True, True]


@pytest.mark.field("F017")
async def test_nonsense_for_an_answer_is_waited_out(telegram: TelegramServer, ann: User, group: Chat) -> None:
    telegram.fault(FaultKind.STATUS_BEFORE, times=2, match="getUpdates", status=502)
    telegram.fault(FaultKind.STATUS_BEFORE, times=1, match="getMe", status=503)
    telegram.fault(FaultKind.FLOOD, times=1, match="getUpdates", retry_after=1)
    line = make_line(telegram)
    async with listening(line):
        await telegram.say(ann, group, "one")
        await line.heard(1)


async def test_the_platform_may_be_down_at_the_start(telegram: TelegramServer, ann: User, group: Chat) -> None:
    line = make_line(telegram)
    async with telegram.unreachable(), asyncio.TaskGroup() as tasks:
        task = tasks.create_task(line.chat.run(line.inbox.accept))
        await telegram.until(lambda: bool(line.alerts))
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    async with listening(line):
        await telegram.say(ann, group, "one")
        await line.heard(1)


@pytest.mark.field("F017")
async def test_long_outage_is_reported(telegram: TelegramServer) -> None:
    memory = RememberingPlatform()
    before = make_line(telegram, memory=memory)
    before.chat.poller.poll_s = 0
    async with listening(before):
        await telegram.until(lambda: any(name.endswith(":heard") for name in memory.values))
    after = make_line(telegram, memory=memory)
    after.chat.poller.poll_s = 0
    await after.clock.advance(31 * 3600)
    async with listening(after):
        await telegram.until(lambda: bool(after.alerts))
    assert "nothing was fetched for 31 h" in after.alerts[0]


async def test_a_short_outage_is_no_gap(telegram: TelegramServer) -> None:
    memory = RememberingPlatform()
    for hours in (0, 20):
        line = make_line(telegram, memory=memory)
        line.chat.poller.poll_s = 0
        await line.clock.advance(hours * 3600)
        polls = telegram.polls
        async with listening(line):
            await telegram.until(lambda polls=polls: telegram.polls > polls)  # type: ignore[misc]  # bound at once
        assert line.alerts == []


async def test_a_revoked_token_ends_listening_with_an_alert(telegram: TelegramServer, group: Chat) -> None:
    stranger = f"{telegram.bot_id}:{secrets.token_urlsafe(26)}"
    line = make_line(telegram, token=stranger)
    async with asyncio.timeout(10):
        await line.chat.run(line.inbox.accept)
    await line.chat.close()
    assert line.alerts == ["telegram: the token was refused; nothing is heard or said any more"]
    assert not any(stranger in each for each in line.alerts)


def test_what_is_no_token_is_refused_without_being_repeated() -> None:
    with pytest.raises(InputRejected) as refused:
        TelegramChat(
            TelegramSettings(token="not a token"),
            ManualClock(),
            RememberingPlatform(),
            names=Names(),
            commands=(),
            alert=print,
        )
    assert "not a token" not in str(refused.value)


async def test_privacy_mode_is_told_once() -> None:
    async with TelegramServer(privacy_mode=True) as telegram:
        line = make_line(telegram)
        line.chat.poller.poll_s = 0
        telegram.fault(FaultKind.STATUS_BEFORE, match="getMe", status=502)
        async with listening(line):
            await telegram.until(lambda: telegram.polls > 1)
    assert line.alerts == [PRIVACY_MODE]


async def test_under_privacy_mode_talk_of_others_does_not_arrive() -> None:
    async with TelegramServer(privacy_mode=True) as telegram:
        ann = telegram.add_user("Ann")
        group = telegram.add_group("Garden", owner=ann)
        async with listening(make_line(telegram)) as line:
            await telegram.say(ann, group, "void, are you there?")
            await telegram.say(ann, group, "@void_double_bot hello")
            await line.heard(1)
    assert line.inbox.texts == ["@void_double_bot hello"]


async def test_commands_are_offered_once_and_again_when_the_table_changes(telegram: TelegramServer) -> None:
    memory = RememberingPlatform()
    more = (*COMMANDS, CommandForm("usage", "shows limits"))
    for commands in (COMMANDS, COMMANDS, more):
        polls = telegram.polls
        line = make_line(telegram, memory=memory, commands=commands)
        line.chat.poller.poll_s = 0
        async with listening(line):
            await telegram.until(lambda polls=polls: telegram.polls > polls)  # type: ignore[misc]  # bound at once
    assert len(telegram.called("setMyCommands")) == 4
    offered = telegram.room_methods.commands
    everyone = [each["command"] for each in offered[("default", "")]]
    admins = [each["command"] for each in offered[("all_chat_administrators", "")]]
    assert everyone == ["ask", "help", "why_silent", "usage"]
    assert admins == ["ask", "help", "why_silent", "void_mode", "usage"]


async def test_commands_that_are_refused_stop_nothing_and_are_offered_next_time(
    telegram: TelegramServer, ann: User, group: Chat
) -> None:
    memory = RememberingPlatform()
    telegram.fault(FaultKind.FLOOD, match="setMyCommands")
    for text in ("one", "two"):
        async with listening(make_line(telegram, memory=memory)) as line:
            await telegram.say(ann, group, text)
            await line.heard(1)
    assert len(telegram.called("setMyCommands")) == 3
