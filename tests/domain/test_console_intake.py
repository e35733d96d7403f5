"""Lines of the terminal as inbound messages: ids, addresses, edits, whose message is whose."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bot.adapters.addressing import Names
from bot.adapters.console_intake import REMEMBERED, TEXT_LIMIT_CHARS, Intake, forget_oldest
from bot.adapters.console_lines import LOCAL_PERSON, Entry, Event, FaultCode, Local, Speaker
from bot.adapters.console_screen import Asked, Place
from core.domain.ids import RoomKey
from core.domain.messages import Address, InboundMessage, MessageKind, Origin

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ANN = Place(Speaker("ann", "Ann"), "workshop")
BOB = Place(Speaker("bob", "Bob"), "workshop")
LOCAL = Place(LOCAL_PERSON, "workshop")


@pytest.fixture
def intake() -> Intake:
    return Intake(Names(), admin=False, interactive=False)


def line(text: str, **fields: str) -> Entry:
    return replace(Entry(number=1, text=text), **fields)  # type: ignore[arg-type]  # names of fields


def event(kind: Event, target: str | None, text: str = "") -> Entry:
    return Entry(number=2, text=text, reply_to=target, event=kind)


def inbound(intake: Intake, entry: Entry, place: Place = ANN) -> InboundMessage:
    message = intake.to_inbound(entry, place, NOW)
    assert isinstance(message, InboundMessage)
    return message


def handed_in(intake: Intake, entry: Entry, place: Place = ANN) -> InboundMessage:
    message = inbound(intake, entry, place)
    asked = Asked(
        number=1,
        input_id=entry.input_id,
        speaker=place.speaker,
        room=message.room,
        message_id=message.message_id,
        received_at=NOW,
    )
    intake.remember(asked, message)
    return message


def test_a_line_is_a_text_message_of_its_speaker(intake: Intake) -> None:
    message = inbound(intake, line("when do we open?"))
    assert message == InboundMessage(
        front_end="console",
        room=RoomKey("console", "workshop"),
        message_id=message.message_id,
        event_id=message.message_id,
        kind=MessageKind.TEXT,
        person_ref="ann",
        display_name="Ann",
        username="ann",
        origin=Origin.HUMAN,
        text="when do we open?",
        sent_at=NOW,
        received_at=NOW,
        quiet_window=False,
    )


def test_ids_differ_within_a_process_and_between_processes(intake: Intake) -> None:
    other = Intake(Names(), admin=False, interactive=False)
    ids = {inbound(each, line("hi")).message_id for each in (intake, intake, other, other)}
    assert len(ids) == 4


def test_only_the_local_person_is_operator(intake: Intake) -> None:
    assert [(m.admin, m.operator) for m in (inbound(intake, line("hi"), p) for p in (LOCAL, ANN))] == [
        (True, True),
        (False, False),
    ]


def test_an_interactive_terminal_asks_for_the_quiet_window() -> None:
    assert inbound(Intake(Names(), admin=False, interactive=True), line("hi")).quiet_window


@pytest.mark.parametrize(
    ("text", "room", "reply_to", "expected"),
    [
        ("hello all", "workshop", None, set()),
        ("void, hello", "workshop", None, {Address.NAME}),
        ("@void hello", "workshop", None, {Address.MENTION}),
        ("hello", "workshop", "41", {Address.REPLY}),
        ("hello", "workshop", "k3-1", set()),
        ("hello", "workshop", "\u0663", set()),
        ("hello", "workshop", "9" * 20, set()),
        ("hello", "dm:ann", None, {Address.DM}),
        ("/usage", "workshop", "41", {Address.COMMAND}),
        ("/usage void", "dm:ann", None, {Address.COMMAND, Address.DM}),
    ],
)
def test_a_line_says_how_it_speaks_to_the_bot(
    intake: Intake, text: str, room: str, reply_to: str | None, expected: set[Address]
) -> None:
    message = inbound(intake, Entry(number=1, text=text, reply_to=reply_to), replace(ANN, room=room))
    assert message.addressed_by == expected


def test_a_command_keeps_its_whole_text(intake: Intake) -> None:
    message = inbound(intake, line("/void mode workshop open"))
    assert (message.kind, message.text) == (MessageKind.COMMAND, "/void mode workshop open")


def test_a_text_over_the_limit_is_refused(intake: Intake) -> None:
    assert intake.to_inbound(line("x" * TEXT_LIMIT_CHARS), ANN, NOW) is not FaultCode.TOO_LONG
    assert intake.to_inbound(line("x" * (TEXT_LIMIT_CHARS + 1)), ANN, NOW) is FaultCode.TOO_LONG


def test_an_edit_raises_the_revision_of_its_message(intake: Intake) -> None:
    first = handed_in(intake, line("hello"))
    edits = [handed_in(intake, event(Event.EDIT, first.message_id, f"@void {n}")) for n in (1, 2)]
    assert [edit.revision for edit in edits] == [1, 2]
    assert {(edit.kind, edit.message_id) for edit in edits} == {(MessageKind.EDIT, first.message_id)}
    assert edits[0].addressed_by == {Address.MENTION}
    assert len({first.event_id, *(edit.event_id for edit in edits)}) == 3


def test_an_edit_belongs_to_the_room_of_its_message(intake: Intake) -> None:
    first = handed_in(intake, line("hello"), replace(ANN, room="office"))
    assert inbound(intake, event(Event.EDIT, first.message_id, "new"), ANN).room.chat_ref == "office"


def test_an_input_id_stands_for_the_message_it_became(intake: Intake) -> None:
    first = handed_in(intake, Entry(number=1, text="hello", input_id=7))
    assert inbound(intake, event(Event.DELETE, "7")).message_id == first.message_id
    assert inbound(intake, line("and?", reply_to="7")).reply_to == first.message_id


def test_nobody_edits_another_ones_message(intake: Intake) -> None:
    first = handed_in(intake, line("hello"))
    for place in (BOB, LOCAL):
        assert intake.to_inbound(event(Event.EDIT, first.message_id, "x"), place, NOW) is FaultCode.NOT_YOURS


def test_an_administrator_deletes_what_a_member_may_not(intake: Intake) -> None:
    first = handed_in(intake, line("hello"))
    assert intake.to_inbound(event(Event.DELETE, first.message_id), BOB, NOW) is FaultCode.NOT_YOURS
    gone = inbound(intake, event(Event.DELETE, first.message_id), LOCAL)
    assert (gone.kind, gone.message_id, gone.text) == (MessageKind.DELETE, first.message_id, "")


def test_a_reaction_is_a_service_event_about_its_target(intake: Intake) -> None:
    message = inbound(intake, event(Event.REACT, "41", "👍"))
    assert (message.kind, message.reply_to, message.text) == (MessageKind.SERVICE, "41", "👍")
    assert message.addressed_by == frozenset()


@pytest.mark.parametrize("kind", [Event.REACT, Event.DELETE])
def test_every_event_in_a_direct_room_says_that_it_is_one(intake: Intake, kind: Event) -> None:
    place = replace(LOCAL, room="dm:local")
    assert inbound(intake, event(kind, "41", "👍"), place).addressed_by == {Address.DM}


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        (event(Event.EDIT, "k9-9", "x"), FaultCode.UNKNOWN_MESSAGE),
        (event(Event.EDIT, None, "x"), FaultCode.MISSING_TARGET),
        (event(Event.EDIT, "k9-9"), FaultCode.MISSING_TEXT),
        (event(Event.REACT, "41"), FaultCode.MISSING_TEXT),
        (event(Event.DELETE, None), FaultCode.MISSING_TARGET),
        (event(Event.DELETE, "k9-9"), FaultCode.UNKNOWN_MESSAGE),
    ],
)
def test_an_event_without_what_it_needs_is_a_fault(intake: Intake, entry: Entry, code: FaultCode) -> None:
    assert intake.to_inbound(entry, ANN, NOW) is code


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ("ann", "workshop")),
        ({"speaker": "Bob"}, ("bob", "workshop")),
        ({"room": "office"}, ("ann", "office")),
        ({"speaker": "Bob", "room": "dm"}, ("bob", "dm:bob")),
    ],
)
def test_a_line_may_name_its_speaker_and_room(
    intake: Intake, fields: dict[str, str], expected: tuple[str, str]
) -> None:
    place = intake.place_of(line("hi", **fields), ANN)
    assert isinstance(place, Place)
    assert (place.speaker.ref, place.room) == expected


def test_nobody_speaks_in_another_ones_direct_room(intake: Intake) -> None:
    assert intake.place_of(line("hi", speaker="Bob", room="dm:ann"), ANN) is FaultCode.BAD_ROOM
    assert intake.moved(BOB, Local.ROOM, "dm:ann") is FaultCode.BAD_ROOM


def test_a_bad_name_is_a_fault(intake: Intake) -> None:
    assert intake.place_of(line("hi", speaker="@all"), ANN) is FaultCode.BAD_NAME
    assert intake.moved(ANN, Local.AS, "@all") is FaultCode.BAD_NAME


@pytest.mark.parametrize(
    ("word", "rest", "expected"),
    [
        (Local.AS, "Bob", ("bob", "workshop")),
        (Local.AS, "", ("local", "workshop")),
        (Local.ROOM, "office", ("ann", "office")),
        (Local.DM, "", ("ann", "dm:ann")),
        (Local.DM, "Bob", ("bob", "dm:bob")),
    ],
)
def test_slash_words_move_the_speaker(intake: Intake, word: Local, rest: str, expected: tuple[str, str]) -> None:
    place = intake.moved(ANN, word, rest)
    assert isinstance(place, Place)
    assert (place.speaker.ref, place.room) == expected


def test_only_so_much_is_remembered() -> None:
    memory = {str(n): n for n in range(REMEMBERED + 2)}
    forget_oldest(memory)
    assert len(memory) == REMEMBERED
    assert next(iter(memory)) == "2"
