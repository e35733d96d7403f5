"""What leaves for Telegram: parts, edits, typing, and what every fault of the platform becomes."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import httpx
import pytest
from telegram.error import (
    BadRequest,
    ChatMigrated,
    Forbidden,
    InvalidToken,
    NetworkError,
    TelegramError,
    TimedOut,
)
from telegram.error import RetryAfter as FloodWait

from bot.adapters.limiter import Limiter, Priority
from bot.adapters.telegram_errors import result_of, seconds_of
from bot.adapters.telegram_places import room_key
from bot.adapters.telegram_sending import FILE_NAME, GROUP_PACE, limiter_of
from bot.adapters.telegram_text import split
from core.ports import Ambiguous, Delivered, RetryAfter, SendRefused, SendResult, Unsent
from tests.doubles.telegram_faults import FLOOD_WAITS_S, FaultKind, Mutation
from tests.doubles.telegram_server import TelegramServer
from tests.doubles.telegram_state import Chat, User
from tests.fakes import ManualClock
from tests.platform.telegram_line import Line, listening, make_line, part


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer(clock=ManualClock()) as double:
        yield double


@pytest.fixture
async def line(telegram: TelegramServer) -> AsyncIterator[Line]:
    one = make_line(telegram)
    yield one
    await one.chat.close()


@pytest.fixture
def ann(telegram: TelegramServer) -> User:
    return telegram.add_user("Ann", "ann_gardener")


@pytest.fixture
def group(telegram: TelegramServer, ann: User) -> Chat:
    return telegram.add_group("Garden", kind="supergroup", owner=ann)


async def test_an_answer_is_a_reply_with_marks_and_without_a_preview(line: Line, ann: User, group: Chat) -> None:
    asked = await line.telegram.say(ann, group, "void, which?")
    result = await line.chat.send(part("**this** [one](https://x.example)", group, reply_to=asked))
    shown = line.telegram.messages(group)[-1]
    assert result == Delivered(str(shown.id))
    assert (shown.text, [(each.type, each.offset, each.length) for each in shown.entities]) == (
        "this one",
        [("bold", 0, 4), ("text_link", 5, 3)],
    )
    assert shown.reply_to is asked
    (call,) = line.telegram.called("sendMessage")
    assert call["link_preview_options"] == {"is_disabled": True}
    assert "parse_mode" not in call


async def test_an_answer_to_what_is_gone_arrives_without_a_target(line: Line, ann: User, group: Chat) -> None:
    asked = await line.telegram.say(ann, group, "void, which?")
    await line.telegram.delete(asked)
    assert isinstance(await line.chat.send(part("this one", group, reply_to=asked)), Delivered)
    assert line.telegram.messages(group)[-1].reply_to is None


@pytest.mark.field("F008")
async def test_emoji_text_fits_telegram(line: Line, group: Chat) -> None:
    text = "x" * 4089 + "🎩" * 4000
    parts = line.chat.split(text)
    for n, each in enumerate(parts, 1):
        assert isinstance(await line.chat.send(part(each, group, n=n)), Delivered)
    assert isinstance(await line.chat.send(part("🎩" * 2049, group, n=len(parts) + 1)), SendRefused)
    assert "".join(message.text for message in line.telegram.messages(group)) == text


@pytest.mark.field("F003")
@pytest.mark.parametrize("size", [6_500, 12_000])
async def test_prose_without_paragraphs_arrives_whole_and_in_order(line: Line, group: Chat, size: int) -> None:
    text = ("A sentence that goes on for a while. " * 400)[:size].strip()
    for n, each in enumerate(line.chat.split(text), 1):
        await line.chat.send(part(each, group, n=n))
    assert " ".join(message.text for message in line.telegram.messages(group)) == text


@pytest.mark.field("F004")
async def test_code_and_markup_that_grow_are_never_refused(line: Line, group: Chat) -> None:
    text = (
        "| a long head of a column | b |\n|---|---|\n" + "| 1 | 2 |\n" * 400 + "```py\n" + "x = '<&>'\n" * 800 + "```"
    )
    results = [await line.chat.send(part(each, group, n=n)) for n, each in enumerate(line.chat.split(text), 1)]
    assert all(isinstance(result, Delivered) for result in results)
    shown = "".join(message.text for message in line.telegram.messages(group))
    assert shown.count("x = '<&>'") == 800


@pytest.mark.field("F005")
async def test_unbalanced_marks_arrive_as_written(line: Line, group: Chat) -> None:
    text = "a lone _ and [ and ( and ` and * and ~~ and <b> & so on"
    assert isinstance(await line.chat.send(part(text, group)), Delivered)
    assert line.telegram.messages(group)[-1].text == text


@pytest.mark.field("F006")
async def test_no_edit_of_a_growing_answer_is_refused(line: Line, group: Chat) -> None:
    whole = "1. Fix (v1.2.3)! - fast **bold** and [a link](https://x.example)"
    sent = await line.chat.send(part(whole[:1], group))
    assert isinstance(sent, Delivered)
    for size in range(2, len(whole) + 1):
        assert await line.chat.edit(sent.external_id, part(whole[:size], group)) == sent
    assert line.telegram.messages(group)[-1].text == "1. Fix (v1.2.3)! - fast bold and a link"


async def test_unparsable_text_arrives_plain(line: Line, group: Chat) -> None:
    assert result_of(BadRequest("Can't parse entities: byte offset 3")) == SendRefused("bad_markup", form=True)
    await line.chat.send(part("**as** `written`", group, plain=True))
    shown = line.telegram.messages(group)[-1]
    assert (shown.text, shown.entities) == ("**as** `written`", ())


async def test_what_is_left_over_goes_as_a_file(line: Line, group: Chat) -> None:
    text = "Some words of a very long answer.\n" * 900
    parts = line.chat.split(text)
    for n, each in enumerate(parts, 1):
        assert isinstance(await line.chat.send(part(each, group, n=n)), Delivered)
    shown = line.telegram.messages(group)
    assert len(shown) == 6
    file = shown[-1].content["document"]
    assert file["file_name"] == FILE_NAME
    content = line.telegram.world.files[file["file_id"]].content.decode()
    assert "\n".join([*(each.text for each in shown[:5]), content]) == text.rstrip()
    assert await line.chat.edit(str(shown[-1].id), part("more", group, n=6)) == SendRefused("unknown_message")


async def test_answers_go_to_their_topic_and_general_has_no_thread_id(line: Line, ann: User) -> None:
    forum = line.telegram.add_group("House", kind="supergroup", forum=True, owner=ann)
    topic = await line.telegram.create_topic(ann, forum, "Cellar")
    assert isinstance(await line.chat.send(part("up", forum)), Delivered)
    assert isinstance(await line.chat.send(part("down", forum, topic=topic)), Delivered)
    assert [each.topic for each in line.telegram.messages(forum)[-2:]] == [None, topic]
    assert "message_thread_id" not in line.telegram.called("sendMessage")[0]


async def test_answer_stays_in_topic_after_restart(line: Line, ann: User) -> None:
    forum = line.telegram.add_group("House", kind="supergroup", forum=True, owner=ann)
    first, second = [await line.telegram.create_topic(ann, forum, name) for name in ("Cellar", "Attic")]
    asked = await line.telegram.say(ann, forum, "which?", topic=first)
    await line.telegram.say(ann, forum, "something else", topic=second)
    again = make_line(line.telegram)
    assert isinstance(await again.chat.send(part("this", forum, topic=first, reply_to=asked)), Delivered)
    await again.chat.close()
    assert line.telegram.messages(forum)[-1].topic is first


async def test_a_closed_topic_refuses_for_good(line: Line, ann: User) -> None:
    forum = line.telegram.add_group("House", kind="supergroup", forum=True, owner=ann)
    topic = await line.telegram.create_topic(ann, forum, "Cellar")
    await line.telegram.close_topic(ann, forum, topic)
    assert await line.chat.send(part("down", forum, topic=topic)) == SendRefused("topic_closed")


async def test_unmodified_edit_is_success(line: Line, group: Chat) -> None:
    sent = await line.chat.send(part("the same", group))
    assert isinstance(sent, Delivered)
    assert await line.chat.edit(sent.external_id, part("the same", group)) == sent


async def test_edits_of_what_is_gone_or_not_ours_are_refused(line: Line, ann: User, group: Chat) -> None:
    theirs = await line.telegram.say(ann, group, "mine")
    for external_id in ("999", str(theirs.id), "button:7"):
        assert await line.chat.edit(external_id, part("ours", group)) == SendRefused("unknown_message")


async def test_private_answer_needs_open_chat(line: Line, ann: User, group: Chat) -> None:
    asked = await line.telegram.say(ann, group, "/why")
    closed = await line.chat.send(part("a secret", group, private_to=ann, reply_to=asked))
    again = await line.chat.send(part("more of it", group, private_to=ann, n=2))
    assert closed == again == SendRefused("private_chat_closed")
    pointer = line.telegram.messages(group)[-1]
    assert pointer.text.endswith("https://t.me/void_double_bot?start=private")
    assert (pointer.reply_to, len(line.telegram.messages(group))) == (asked, 2)
    chat = await line.telegram.start_private(ann)
    sent = await line.chat.send(part("a secret", group, private_to=ann, reply_to=asked))
    assert isinstance(sent, Delivered)
    assert await line.chat.edit(sent.external_id, part("a better secret", group, private_to=ann)) == sent
    assert [each.text for each in line.telegram.messages(chat)] == ["a better secret"]
    assert not any("secret" in each.text for each in line.telegram.messages(group))


async def test_a_private_answer_to_a_shared_id_is_never_said_in_the_group(line: Line, group: Chat) -> None:
    asked = await line.telegram.anonymous_admin_say(group, "/why")
    asker, closed = str(group.id), SendRefused("private_chat_closed")  # an anonymous administrator has the group's id
    assert await line.chat.send(part("a secret", group, private_to=asker, reply_to=asked)) == closed
    assert await line.chat.send(part("more of the secret", group, private_to=asker, n=2)) == closed
    ours = await line.chat.send(part("thinking", group))
    assert isinstance(ours, Delivered)
    assert await line.chat.edit(ours.external_id, part("a secret", group, private_to=asker)) == closed
    _, pointer, last = line.telegram.messages(group)
    assert pointer.text.endswith("https://t.me/void_double_bot?start=private")
    assert (pointer.reply_to, last.text) == (asked, "thinking")


async def test_an_answer_in_the_private_chat_itself_is_an_ordinary_one(line: Line, ann: User) -> None:
    chat = await line.telegram.start_private(ann)
    asked = await line.telegram.say(ann, chat, "/why")
    await line.chat.send(part("because", chat, private_to=ann, reply_to=asked))
    assert line.telegram.messages(chat)[-1].reply_to is asked


@pytest.mark.parametrize("how", [FaultKind.STATUS_AFTER_COMMIT, FaultKind.CUT_AFTER_COMMIT])
async def test_lost_answer_is_unknown_once(line: Line, group: Chat, how: FaultKind) -> None:
    line.telegram.fault(how, match="sendMessage")
    result = await line.chat.send(part("once", group))
    assert isinstance(result, Ambiguous)
    assert len(line.telegram.messages(group)) == 1
    assert isinstance(await line.chat.find_sent(part("once", group), line.clock.now()), Ambiguous)
    assert line.chat.nonce_window is None


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_html_error_is_not_shown(line: Line, group: Chat, status: int, caplog: pytest.LogCaptureFixture) -> None:
    line.telegram.fault(FaultKind.STATUS_BEFORE, match="sendMessage", status=status)
    result = await line.chat.send(part("once", group))
    assert result == Ambiguous("telegram: no answer")
    assert "html" not in caplog.text.lower()


async def test_connect_error_is_retried(line: Line, group: Chat) -> None:
    async with line.telegram.unreachable():
        assert isinstance(await line.chat.send(part("once", group)), Unsent)
    assert isinstance(await line.chat.send(part("once", group)), Delivered)
    assert len(line.telegram.messages(group)) == 1


@pytest.mark.field("F038")
@pytest.mark.parametrize("seconds", FLOOD_WAITS_S)
@pytest.mark.parametrize("act", ["send", "edit"])
async def test_flood_wait_pauses_one_chat(line: Line, ann: User, group: Chat, seconds: int, act: str) -> None:
    other = line.telegram.add_group("Shed", owner=ann)
    sent = await line.chat.send(part("first", group))
    assert isinstance(sent, Delivered)
    line.telegram.fault(
        FaultKind.FLOOD, match="sendMessage" if act == "send" else "editMessageText", retry_after=seconds
    )

    async def again() -> SendResult:
        if act == "send":
            return await line.chat.send(part("second", group))
        return await line.chat.edit(sent.external_id, part("second", group))

    assert await again() == RetryAfter(seconds)
    held = await again()
    assert isinstance(held, RetryAfter)
    assert seconds - 5 < held.seconds <= seconds
    assert isinstance(await line.chat.send(part("elsewhere", other)), Delivered)
    await line.clock.advance(seconds)
    assert isinstance(await again(), Delivered)
    assert line.telegram.messages(group)[-1].text == "second"
    assert [f"{seconds} s" in each for each in line.alerts] == ([True] if seconds > 900 else [])


@pytest.mark.parametrize("who", ["kicked", "blocked", "muted"])
async def test_no_permission_is_a_refusal_for_good(line: Line, ann: User, group: Chat, who: str) -> None:
    room = group
    match who:
        case "kicked":
            await line.telegram.leave(line.telegram.bot, group, by=ann)
        case "blocked":
            room = await line.telegram.start_private(ann)
            await line.telegram.block(ann)
        case _:
            await line.telegram.restrict(line.telegram.bot, group, by=ann)
    code = {"muted": "no_permission"}.get(who, who)
    assert await line.chat.send(part("hello", room)) == SendRefused(code)


@pytest.mark.field("F011")
async def test_migration_from_error(line: Line, ann: User) -> None:
    small = line.telegram.add_group("Shed", owner=ann)
    large = await line.telegram.migrate(small, announce=())
    for text in ("one", "two"):
        assert isinstance(await line.chat.send(part(text, small)), Delivered)
    assert [each.text for each in line.telegram.messages(large)][-2:] == ["one", "two"]
    assert line.memory.told == [("moved", (room_key(small.id), room_key(large.id)))]


async def test_a_move_that_cannot_be_stored_sends_nothing(line: Line, ann: User) -> None:
    small = line.telegram.add_group("Shed", owner=ann)
    large = await line.telegram.migrate(small, announce=())
    line.memory.down = True
    assert isinstance(await line.chat.send(part("one", small)), Unsent)
    assert [each.text for each in line.telegram.messages(large)] == [""]


async def test_typing_is_shown_where_the_answer_will_be(line: Line, ann: User, group: Chat) -> None:
    forum = line.telegram.add_group("House", kind="supergroup", forum=True, owner=ann)
    topic = await line.telegram.create_topic(ann, forum, "Cellar")
    async with listening(line):
        await line.telegram.say(ann, forum, "@void_double_bot hello", topic=topic)
        await line.heard(1)
        await line.confirmed()
        for key in (room_key(group.id), room_key(forum.id), room_key(forum.id, str(topic.id))):
            await line.chat.show_typing(key)
    assert line.telegram.action(group) == "typing"
    assert line.telegram.action(forum) == "typing"
    assert line.telegram.action(forum, topic) == "typing"


async def test_typing_yields_to_text(telegram: TelegramServer, group: Chat) -> None:
    line = make_line(telegram, limiter=limiter_of(ManualClock()))
    for n in range(int(GROUP_PACE.burst) - 1):
        await line.chat.send(part(f"{n}", group))
    await line.chat.show_typing(room_key(group.id))
    await line.chat.close()
    assert telegram.called("sendChatAction") == []


async def test_typing_that_fails_is_nobodys_business(line: Line, group: Chat) -> None:
    line.telegram.fault(FaultKind.STATUS_BEFORE, match="sendChatAction", status=502)
    await line.chat.show_typing(room_key(group.id))
    line.telegram.fault(FaultKind.FLOOD, match="sendChatAction", retry_after=33)
    await line.chat.show_typing(room_key(group.id))
    assert isinstance(await line.chat.send(part("held", group)), RetryAfter)


async def test_a_group_hears_at_most_eighteen_a_minute_and_others_do_not_wait() -> None:
    clock = ManualClock()
    limiter: Limiter = limiter_of(clock)
    count = 0
    for _ in range(60):
        while limiter.wait_s("-100") <= 0:
            count += await limiter.turn("-100", Priority.FINAL)
        await clock.advance(1)
    assert count <= 18
    assert limiter.wait_s("-200") == limiter.wait_s("7") == 0


def caused(error: TelegramError, cause: Exception) -> TelegramError:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (FloodWait(33), RetryAfter(33)),
        (FloodWait(timedelta(seconds=149)), RetryAfter(149)),
        (Forbidden("Forbidden: bot was blocked by the user"), SendRefused("blocked")),
        (Forbidden("Forbidden: user is deactivated"), SendRefused("deactivated")),
        (Forbidden("Forbidden: something else"), SendRefused("forbidden")),
        (BadRequest("Chat not found"), SendRefused("room_gone")),
        (BadRequest("Message thread not found"), SendRefused("topic_gone")),
        (BadRequest("Message to be replied not found"), SendRefused("reply_gone", form=True)),
        (BadRequest("Not enough rights to send text messages to the chat"), SendRefused("no_permission")),
        (BadRequest("Message is too long"), SendRefused("too_long")),
        (BadRequest("Message text is empty"), SendRefused("empty")),
        (BadRequest("whatever it was"), SendRefused("bad_request")),
        (ChatMigrated(-1009), SendRefused("room_moved")),
        (InvalidToken("Unauthorized"), SendRefused("unauthorized")),
        (caused(NetworkError("x"), httpx.ConnectError("x")), Unsent("telegram: not reached")),
        (caused(TimedOut(), httpx.ConnectTimeout("x")), Unsent("telegram: not reached")),
        (caused(TimedOut(), httpx.PoolTimeout("x")), Unsent("telegram: not reached")),
        (caused(TimedOut(), httpx.ReadTimeout("x")), Ambiguous("telegram: no answer")),
        (caused(NetworkError("x"), httpx.RemoteProtocolError("x")), Ambiguous("telegram: no answer")),
        (caused(NetworkError("x"), httpx.WriteError("x")), Ambiguous("telegram: no answer")),
        (NetworkError("Bad Gateway (502)"), Ambiguous("telegram: no answer")),
        (TelegramError("Invalid server response"), Ambiguous("telegram: no answer")),
    ],
)
def test_every_error_has_one_meaning(error: TelegramError, result: SendResult) -> None:
    assert result_of(error) == result


def test_retry_after_types() -> None:
    assert seconds_of(FloodWait(33)) == seconds_of(FloodWait(timedelta(seconds=33))) == 33.0


async def test_the_double_that_counts_characters_takes_what_telegram_would_not(line: Line, group: Chat) -> None:
    line.telegram.mutations.add(Mutation.COUNT_CODE_POINTS)
    assert max(len(each.encode("utf-16-le")) // 2 for each in split("🎩" * 5000)) <= 4096
    assert isinstance(await line.chat.send(part("🎩" * 2100, group)), Delivered)
    line.telegram.mutations.clear()
    assert await line.chat.send(part("🎩" * 2100, group)) == SendRefused("too_long")


async def test_sends_to_many_chats_go_side_by_side(line: Line, telegram: TelegramServer, ann: User) -> None:
    groups = [telegram.add_group(f"G{n}", owner=ann) for n in range(20)]
    results = await asyncio.gather(*(line.chat.send(part("hello", each)) for each in groups))
    assert all(isinstance(result, Delivered) for result in results)
