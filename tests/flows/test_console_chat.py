"""The terminal as a front end: real pipes, the real table, answers when the test gives them."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from bot.adapters.console_chat import ConsoleChat
from bot.adapters.console_lines import LINE_LIMIT_BYTES
from bot.adapters.console_screen import PlainScreen
from core.domain.errors import Conflict, InputRejected, Unavailable
from core.domain.ids import RoomKey
from core.domain.messages import MessageKind
from core.domain.speech import PublicText, SilenceReason
from core.ports import Delivered, OutgoingPart, SendRefused, Unsent
from core.store.engine import Database
from core.store.shown import StoredShownMessages
from tests.fakes import ManualClock
from tests.flows.console_core import Core, Terminal


@pytest.fixture
async def core(database: Database) -> Core:
    prepared = Core(database)
    await prepared.prepare()
    return prepared


@pytest.fixture
async def scripted(core: Core, clock: ManualClock) -> AsyncIterator[Terminal]:
    """A terminal that reads and writes JSON."""
    async with Terminal(core, clock, json_mode=True) as terminal:
        yield terminal


def part_for(room: str = "workshop", nonce: str = "n") -> OutgoingPart:
    return OutgoingPart(
        room=RoomKey("console", room),
        text=PublicText("hi"),
        nonce=nonce,
        reply_to=None,
        private_to=None,
        plain=False,
        outbox_id=1,
        n=0,
    )


async def test_a_json_line_gets_a_decision_a_message_and_a_receipt(scripted: Terminal, core: Core) -> None:
    [asked] = await scripted.take({"text": "@void when do we open?", "id": "q1"})
    message_id = await core.answer(scripted.chat, asked, "At nine.")
    decision, message, receipt = await scripted.objects(3)
    assert decision == {
        "kind": "decision",
        "input_id": "q1",
        "room": "workshop",
        "message_id": asked.message_id,
        "outcome": "reply",
        "reason": None,
    }
    latency_ms = message.pop("latency_ms")
    assert 0 <= latency_ms < 20_000
    assert message == {
        "kind": "message",
        "input_id": "q1",
        "room": "workshop",
        "message_id": message_id,
        "reply_to": asked.message_id,
        "text": "At nine.",
        "receipt_id": receipt["receipt_id"],
        "provider": "quotes",
        "private_to": None,
    }
    assert receipt["kind"] == "receipt"
    assert receipt["message_id"] == message_id
    assert receipt["provider"] == "quotes"
    assert await scripted.finish() == 0


async def test_bad_lines_are_errors_and_the_others_are_answered(scripted: Terminal, core: Core) -> None:
    scripted.type(
        "not json",
        {"text": "one", "id": 1},
        {"text": "two", "id": 2, "speed": "fast"},
        {"id": 3},
        {"text": "x" * 4001, "id": 4},
        {"text": "a", "as": "@all", "id": 5},
        {"text": "b", "as": "Bob", "room": "dm:ann", "id": 6},
        {"text": "seven", "id": 7},
    )
    for message in list(await core.took(2)):
        await core.answer(scripted.chat, message, f"answer to {message.text}")
    assert await scripted.finish() == 2
    objects = [json.loads(line) for line in await scripted.rest()]
    errors = [(o["line"], o["input_id"], o["code"]) for o in objects if o["kind"] == "error"]
    assert errors == [
        (1, None, "not_json"),
        (3, 2, "unknown_key"),
        (4, 3, "missing_text"),
        (5, 4, "too_long"),
        (6, 5, "bad_name"),
        (7, 6, "bad_room"),
    ]
    assert {(o["input_id"], o["text"]) for o in objects if o["kind"] == "message"} == {
        (1, "answer to one"),
        (7, "answer to seven"),
    }


async def test_a_line_over_a_megabyte_is_an_error_and_the_next_is_read(scripted: Terminal, core: Core) -> None:
    raw = b'{"text": "' + b"x" * LINE_LIMIT_BYTES + b'"}\n{"text": "after", "id": 2}\n'
    core.silence = SilenceReason.NOT_ADDRESSED
    await asyncio.to_thread(scripted.pour, raw)
    await core.took(1)
    assert await scripted.finish() == 2
    error, decision = [json.loads(line) for line in await scripted.rest()]
    assert (error["kind"], error["line"], error["code"]) == ("error", 1, "line_too_long")
    assert (decision["kind"], decision["input_id"]) == ("decision", 2)


async def test_the_next_line_is_read_before_the_first_is_answered(scripted: Terminal, core: Core) -> None:
    first, second = await scripted.take({"text": "one", "id": "a"}, {"text": "two", "id": "b"})
    await core.answer(scripted.chat, second, "second")
    await core.answer(scripted.chat, first, "first")
    assert await scripted.finish() == 0
    objects = [json.loads(line) for line in await scripted.rest()]
    assert [(o["input_id"], o["text"]) for o in objects if o["kind"] == "message"] == [("b", "second"), ("a", "first")]


async def test_a_growing_answer_is_a_message_and_then_edits(scripted: Terminal, core: Core) -> None:
    [asked] = await scripted.take({"text": "tell me", "id": 1})
    message_id, part = await core.say(scripted.chat, "One.", to=asked)
    await scripted.objects(2)
    longer = OutgoingPart(**{name: getattr(part, name) for name in part.__slots__} | {"text": PublicText("One. Two.")})
    assert await scripted.chat.edit(message_id, longer) == Delivered(message_id)
    edit = await scripted.object()
    assert (edit["kind"], edit["input_id"], edit["message_id"], edit["text"]) == ("edit", 1, message_id, "One. Two.")
    await core.end(asked)
    assert (await scripted.object())["kind"] == "receipt"
    assert await scripted.finish() == 0


async def test_a_refused_line_gets_its_reason_and_nothing_else(scripted: Terminal, core: Core) -> None:
    core.silence = SilenceReason.MODE_SILENT
    await scripted.take({"text": "void?", "id": 1})
    assert await scripted.finish() == 0
    [decision] = [json.loads(line) for line in await scripted.rest()]
    assert (decision["kind"], decision["outcome"], decision["reason"]) == ("decision", "no_speech", "mode_silent")


async def test_a_promised_answer_that_fails_to_come_is_a_second_decision(scripted: Terminal, core: Core) -> None:
    [asked] = await scripted.take({"text": "void?", "id": 1})
    await core.end(asked, SilenceReason.MODEL_DECLINED)
    assert await scripted.finish() == 0
    objects = [json.loads(line) for line in await scripted.rest()]
    assert [(o["outcome"], o["reason"]) for o in objects] == [("reply", None), ("no_speech", "model_declined")]


async def test_what_nobody_asked_for_has_no_input_id(scripted: Terminal, core: Core) -> None:
    core.silence = SilenceReason.NOT_ADDRESSED
    await scripted.take({"text": "hello all", "id": 1})
    await scripted.object()
    await core.say(scripted.chat, "A thought.")
    message, receipt = await scripted.objects(2)
    assert (message["input_id"], message["latency_ms"], message["text"]) == (None, None, "A thought.")
    assert receipt["message_id"] == message["message_id"]
    assert await scripted.finish() == 0


async def test_json_shows_private_answers_and_says_whose_they_are(scripted: Terminal, core: Core) -> None:
    [asked] = await scripted.take({"text": "/usage", "id": 1})
    scripted.type({"text": "/as Bob"})
    await core.say(scripted.chat, "12 of 100", to=asked, private_to="ann")
    await core.end(asked)
    assert await scripted.finish() == 0
    objects = [json.loads(line) for line in await scripted.rest()]
    assert [o["private_to"] for o in objects if o["kind"] == "message"] == ["ann"]


async def test_answers_that_do_not_come_in_time_are_errors_and_win(core: Core, clock: ManualClock) -> None:
    async with Terminal(core, clock, json_mode=True, wait_s=0.2) as terminal:
        await terminal.take({"text": "one", "id": 1})
        terminal.type("not json")
        assert await terminal.finish() == 3
        objects = [json.loads(line) for line in await terminal.rest()]
        assert [(o["kind"], o.get("code"), o.get("input_id")) for o in objects] == [
            ("decision", None, 1),
            ("error", "not_json", None),
            ("error", "timeout", 1),
        ]


async def test_a_store_that_is_down_is_an_error_and_the_next_line_goes_on(scripted: Terminal, core: Core) -> None:
    core.refusals = [Unavailable("database: not reachable")]
    core.silence = SilenceReason.NOT_ADDRESSED
    scripted.type({"text": "one", "id": 1})
    await scripted.take({"text": "two", "id": 2})
    assert await scripted.finish() == 2
    error, decision = [json.loads(line) for line in await scripted.rest()]
    assert (error["code"], error["input_id"]) == ("store_down", 1)
    assert decision["input_id"] == 2


async def test_a_lost_race_is_tried_again_with_the_same_event(scripted: Terminal, core: Core) -> None:
    core.refusals = [Conflict("database: another transaction won")]
    core.silence = SilenceReason.NOT_ADDRESSED
    await scripted.take({"text": "one"})
    assert await scripted.finish() == 0


async def test_a_bug_behind_one_line_ends_nothing(scripted: Terminal, core: Core) -> None:
    core.refusals = [RuntimeError("secret words")]
    core.silence = SilenceReason.NOT_ADDRESSED
    scripted.type({"text": "one", "id": 1})
    await scripted.take({"text": "two", "id": 2})
    assert await scripted.finish() == 2
    lines = await scripted.rest()
    assert json.loads(lines[0])["code"] == "internal"
    assert "secret words" not in "".join(lines)


async def test_events_name_earlier_lines_by_their_input_id(scripted: Terminal, core: Core) -> None:
    [first] = await scripted.take({"text": "helo", "id": "a"})
    _, edit, react, delete = [
        first,
        *await scripted.take(
            {"event": "edit", "reply_to": "a", "text": "hello"},
            {"event": "react", "reply_to": "a", "text": "👍"},
            {"event": "delete", "reply_to": "a"},
        ),
    ]
    assert [m.kind for m in (edit, react, delete)] == [MessageKind.EDIT, MessageKind.SERVICE, MessageKind.DELETE]
    assert edit.message_id == react.reply_to == delete.message_id == first.message_id
    for message in core.taken:
        await core.end(message, SilenceReason.SUPERSEDED)
    assert await scripted.finish() == 0


async def test_an_edit_that_leads_to_an_answer_owns_it(scripted: Terminal, core: Core) -> None:
    core.silence = SilenceReason.NOT_ADDRESSED
    await scripted.take({"text": "hello", "id": "a"})
    core.silence = None
    [edit] = await scripted.take({"event": "edit", "reply_to": "a", "text": "@void hello", "id": "b"})
    await core.answer(scripted.chat, edit, "Hello.")
    assert await scripted.finish() == 0
    objects = [json.loads(line) for line in await scripted.rest()]
    assert [o["input_id"] for o in objects if o["kind"] == "message"] == ["b"]


async def test_a_terminal_shows_nothing_from_before_its_start(core: Core, clock: ManualClock) -> None:
    chat = ConsoleChat(
        StoredShownMessages(core.database), clock, speaker=None, room="workshop", screen=PlainScreen(0, 1, 2)
    )
    await core.say(chat, "yesterday")
    async with Terminal(core, clock, json_mode=True) as terminal:
        core.silence = SilenceReason.NOT_ADDRESSED
        await terminal.take({"text": "hi"})
        await terminal.object()
        await core.say(terminal.chat, "today")
        assert (await terminal.object())["text"] == "today"
        assert await terminal.finish() == 0


async def test_sending_twice_with_one_nonce_shows_one_message(scripted: Terminal, clock: ManualClock) -> None:
    first, second = await scripted.chat.send(part_for()), await scripted.chat.send(part_for())
    assert isinstance(first, Delivered)
    assert first == second
    assert await scripted.chat.find_sent(part_for(), clock.now()) == first.external_id
    assert await scripted.chat.find_sent(part_for(nonce="other"), clock.now()) is None
    assert await scripted.finish() == 0


async def test_expected_failures_of_sending_are_values(scripted: Terminal, core: Core) -> None:
    assert await scripted.chat.send(part_for("cellar")) == SendRefused("room_gone")
    assert await scripted.chat.edit("4711", part_for()) == SendRefused("unknown_message")
    assert await scripted.finish() == 0
    await core.database.close()
    assert isinstance(await scripted.chat.send(part_for()), Unsent)


async def test_the_front_end_says_what_it_can_be_trusted_with(scripted: Terminal, clock: ManualClock) -> None:
    chat = scripted.chat
    assert (chat.name, chat.text_limit) == ("console", 4000)
    assert chat.nonce_window is not None
    assert clock.now() + chat.nonce_window > datetime(2030, 1, 1, tzinfo=UTC)
    text = "A sentence of words. " * 500
    parts = chat.split(text)
    assert "".join(parts) == text
    assert max(map(len, parts)) <= 4000
    assert await scripted.finish() == 0


@pytest.mark.parametrize(("speaker", "room"), [("@all", "workshop"), ("Ann", "two words"), ("Ann", "dm:bob")])
async def test_a_start_with_an_unusable_name_is_refused(
    database: Database, clock: ManualClock, speaker: str, room: str
) -> None:
    with pytest.raises(InputRejected):
        ConsoleChat(StoredShownMessages(database), clock, speaker=speaker, room=room, screen=PlainScreen(0, 1, 2))


async def test_many_lines_are_all_answered_with_their_own_ids(scripted: Terminal, core: Core) -> None:
    count = 60
    messages = await scripted.take(*({"text": f"question {n}", "id": n} for n in range(count)))
    await asyncio.gather(*(core.answer(scripted.chat, message, message.text) for message in messages))
    assert await scripted.finish() == 0
    objects = [json.loads(line) for line in await scripted.rest()]
    assert sorted((o["input_id"], o["text"]) for o in objects if o["kind"] == "message") == [
        (n, f"question {n}") for n in range(count)
    ]
    assert sum(o["kind"] == "receipt" for o in objects) == count
