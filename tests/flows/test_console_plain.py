"""The terminal on plain lines: one line, one message, one answer as text."""

from collections.abc import AsyncIterator

import pytest

from core.domain.messages import Address, MessageKind
from core.domain.speech import PublicText, SilenceReason
from core.ports import OutgoingPart
from core.store.engine import Database
from tests.fakes import ManualClock
from tests.flows.console_core import Core, Terminal


@pytest.fixture
async def core(database: Database) -> Core:
    prepared = Core(database)
    await prepared.prepare()
    return prepared


@pytest.fixture
async def plain(core: Core, clock: ManualClock) -> AsyncIterator[Terminal]:
    """A terminal that reads and writes plain lines."""
    async with Terminal(core, clock, json_mode=False) as terminal:
        yield terminal


async def test_a_plain_line_waits_for_the_answer_to_the_one_before(
    plain: Terminal, core: Core, clock: ManualClock
) -> None:
    plain.type("one", "two")
    [first] = await core.took(1)
    assert not first.quiet_window
    answered_at = clock.now()
    await core.answer(plain.chat, first, "first\nwith two lines")
    second = (await core.took(2))[1]
    assert second.received_at > answered_at
    await core.answer(plain.chat, second, "second")
    assert await plain.finish() == 0
    assert await plain.rest() == ["first", "with two lines", "second"]


async def test_an_answer_that_does_not_come_holds_no_plain_line_up_for_ever(core: Core, clock: ManualClock) -> None:
    async with Terminal(core, clock, json_mode=False, wait_s=0.2) as terminal:
        terminal.type("one", "two")
        second = (await core.took(2))[1]
        await core.answer(terminal.chat, second, "second")
        assert await terminal.finish() == 3
        assert await terminal.rest() == ["second"]
        assert await terminal.errors() == ["line 1: timeout: line: no answer in time"]


async def test_plain_mode_prints_only_the_final_text(plain: Terminal, core: Core) -> None:
    [asked] = await plain.take("tell me")
    message_id, part = await core.say(plain.chat, "One.", to=asked)
    longer = OutgoingPart(**{name: getattr(part, name) for name in part.__slots__} | {"text": PublicText("One. Two.")})
    await plain.chat.edit(message_id, longer)
    await core.end(asked)
    assert await plain.finish() == 0
    assert await plain.rest() == ["One. Two."]


async def test_plain_mode_says_why_there_is_no_answer(plain: Terminal, core: Core) -> None:
    core.silence = SilenceReason.MODE_SILENT
    await plain.take("one")
    core.silence = None
    [second] = await plain.take("two")
    await core.end(second, SilenceReason.MODEL_DECLINED)
    assert await plain.finish() == 0
    assert await plain.rest() == ["(no answer: mode_silent)", "(no answer: model_declined)"]


async def test_plain_faults_go_to_the_other_stream(plain: Terminal, core: Core) -> None:
    core.silence = SilenceReason.NOT_ADDRESSED
    plain.type("/as @all", "", "/edit k9-9 new")
    await plain.take("hello")
    assert await plain.finish() == 2
    assert await plain.rest() == ["(no answer: not_addressed)"]
    assert await plain.errors() == [
        "line 1: bad_name: name: up to 32 letters, digits, spaces or .'-",
        "line 3: unknown_message: message: not sent from this terminal",
    ]


async def test_plain_output_holds_nothing_a_terminal_obeys(plain: Terminal, core: Core) -> None:
    [asked] = await plain.take("hello")
    await core.answer(plain.chat, asked, "\x1b[2Jclean\x07")
    assert await plain.finish() == 0
    assert await plain.rest() == ["clean"]


async def test_a_private_plain_answer_belongs_to_the_line_that_asked(plain: Terminal, core: Core) -> None:
    [asked] = await plain.take("/usage")
    plain.type("/as Bob")
    await core.say(plain.chat, "for ann", to=asked, private_to="ann")
    await core.say(plain.chat, "for carl", to=asked, private_to="carl")
    await core.say(plain.chat, "for bob alone", private_to="dan")
    await core.end(asked)
    assert await plain.finish() == 0
    assert await plain.rest() == ["for ann"]


async def test_plain_mode_shows_unasked_words_of_the_present_room(plain: Terminal, core: Core) -> None:
    await core.say(plain.chat, "elsewhere", room="office")
    await core.say(plain.chat, "A thought.")
    assert await plain.line() == "A thought."
    assert await plain.finish() == 0
    assert await plain.rest() == []


async def test_slash_words_play_the_platforms_part(plain: Terminal, core: Core) -> None:
    core.silence = SilenceReason.NOT_ADDRESSED
    said = await plain.take("one")
    plain.type("/room office")
    said += await plain.take("two")
    plain.type("/dm")
    said += await plain.take("three")
    plain.type("/as")
    said += await plain.take("four", "/void mode open")
    assert [(m.person_ref, m.room.chat_ref, m.operator) for m in said] == [
        ("ann", "workshop", False),
        ("ann", "office", False),
        ("ann", "dm:ann", False),
        ("local", "dm:local", True),
        ("local", "dm:local", True),
    ]
    assert said[2].addressed_by == {Address.DM}
    assert (said[4].kind, said[4].text) == (MessageKind.COMMAND, "/void mode open")
    assert await plain.finish() == 0


async def test_quit_ends_the_input(plain: Terminal, core: Core) -> None:
    core.silence = SilenceReason.NOT_ADDRESSED
    plain.type("one", "/quit", "two")
    await core.took(1)
    assert await plain.finish() == 0
    assert [message.text for message in core.taken] == ["one"]
