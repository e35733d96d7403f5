"""What a line of the terminal means, and what a terminal may be given to show."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.adapters.console_lines import (
    EXPLAINED,
    LOCAL_PERSON,
    Entry,
    Event,
    Fault,
    FaultCode,
    Local,
    Speaker,
    following,
    is_command,
    is_text,
    local_word,
    parse_json,
    parse_plain,
    printable,
    room_of,
    speaker_of,
)

ANN = Speaker("ann", "Ann")


def test_a_json_line_with_every_key_is_taken_apart() -> None:
    raw = b'{"as": "Ann", "room": "workshop", "text": " hello ", "reply_to": 41, "id": 7}'
    assert parse_json(3, raw) == Entry(
        number=3, text="hello", input_id=7, speaker="Ann", room="workshop", reply_to="41"
    )


def test_an_event_stands_for_the_text() -> None:
    raw = b'{"event": "delete", "reply_to": "m1", "id": "x"}'
    assert parse_json(1, raw) == Entry(number=1, text="", input_id="x", reply_to="m1", event=Event.DELETE)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"hello", FaultCode.NOT_JSON),
        (b'{"text": "a"', FaultCode.NOT_JSON),
        (b'{"text": "a"} {"text": "b"}', FaultCode.NOT_JSON),
        (b"[" * 100_000, FaultCode.NOT_JSON),
        (b'{"text": "a", "id": ' + b"9" * 5000 + b"}", FaultCode.NOT_JSON),
        (b'["text"]', FaultCode.NOT_AN_OBJECT),
        (b"null", FaultCode.NOT_AN_OBJECT),
        (b"\xff\xfe", FaultCode.NOT_UTF8),
        (b'{"text": "a", "speaker": "ann"}', FaultCode.UNKNOWN_KEY),
        (b'{"text": 1}', FaultCode.WRONG_TYPE),
        (b'{"text": NaN}', FaultCode.WRONG_TYPE),
        (b'{"text": "a", "as": true}', FaultCode.WRONG_TYPE),
        (b'{"text": "a", "room": []}', FaultCode.WRONG_TYPE),
        (b'{"text": "a", "id": true}', FaultCode.WRONG_TYPE),
        (b'{"text": "a", "id": 1.5}', FaultCode.WRONG_TYPE),
        (b'{"text": "a", "reply_to": {}}', FaultCode.WRONG_TYPE),
        (b'{"event": "dance", "reply_to": "m1"}', FaultCode.WRONG_TYPE),
        (b"{}", FaultCode.MISSING_TEXT),
        (b'{"text": null}', FaultCode.MISSING_TEXT),
        (b'{"text": " \\n "}', FaultCode.MISSING_TEXT),
        (b'{"event": "edit", "reply_to": "m1"}', FaultCode.MISSING_TEXT),
        (b'{"event": "delete"}', FaultCode.MISSING_TARGET),
        (b'{"text": "\\ud83d"}', FaultCode.BAD_TEXT),
        (b'{"text": "a\\u0000b"}', FaultCode.BAD_TEXT),
        (b'{"text": "a", "as": "\\u0000"}', FaultCode.BAD_TEXT),
        (b'{"text": "a", "id": "\\ud800"}', FaultCode.BAD_TEXT),
    ],
)
def test_a_bad_json_line_is_a_fault_with_its_number(raw: bytes, code: FaultCode) -> None:
    fault = parse_json(12, raw)
    assert isinstance(fault, Fault)
    assert (fault.number, fault.code) == (12, code)


def test_a_bad_line_still_names_its_id() -> None:
    fault = parse_json(1, b'{"id": "q1", "text": 5}')
    assert isinstance(fault, Fault)
    assert fault.input_id == "q1"


def test_a_fault_names_the_unknown_key_without_controls() -> None:
    fault = parse_json(1, b'{"te\\u001b[2Jxt": "a"}')
    assert isinstance(fault, Fault)
    assert fault.text == "line: unknown key: text"


@pytest.mark.parametrize("raw", [b"", b"  \t", b"\xef\xbb\xbf"])
def test_blank_lines_are_nothing(raw: bytes) -> None:
    assert parse_json(1, raw) is None
    assert parse_plain(1, raw) is None


def test_a_pair_of_escapes_is_one_sign() -> None:
    entry = parse_json(1, b'{"text": "\\ud83d\\ude80"}')
    assert isinstance(entry, Entry)
    assert entry.text == "🚀"


def test_what_is_no_text_in_a_plain_line_is_replaced() -> None:
    entry = parse_plain(2, b"\xef\xbb\xbf a\x00b\xff ")
    assert entry == Entry(number=2, text="a\ufffdb\ufffd")


@given(st.binary())
def test_any_bytes_are_an_entry_a_fault_or_nothing(raw: bytes) -> None:
    plain = parse_plain(1, raw)
    assert plain is None or is_text(plain.text)
    parse_json(1, raw)


@given(st.dictionaries(st.sampled_from(["as", "room", "text", "reply_to", "event", "id", "x"]), st.text() | st.none()))
def test_a_json_entry_holds_only_what_can_be_stored(line: dict[str, str | None]) -> None:
    entry = parse_json(1, json.dumps(line).encode())
    if isinstance(entry, Entry):
        assert all(is_text(part or "") for part in (entry.text, entry.speaker, entry.room, entry.reply_to))


def test_every_fault_is_explained() -> None:
    assert set(EXPLAINED) == set(FaultCode)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/as Ann", (Local.AS, "Ann")),
        ("/AS  Ann Calder ", (Local.AS, "Ann Calder")),
        ("/dm", (Local.DM, "")),
        ("/edit m1 two\nlines", (Local.EDIT, "m1 two\nlines")),
        ("/quit", (Local.QUIT, "")),
        ("/ask when?", None),
        ("/ass", None),
        ("as Ann", None),
        ("//as Ann", None),
    ],
)
def test_the_platforms_own_words_are_told_from_commands(text: str, expected: tuple[Local, str] | None) -> None:
    assert local_word(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/void mode open", True),
        ("/why-silent", True),
        ("/as Ann", False),
        ("/usr/bin/env is missing", False),
        ("/ hello", False),
        ("//usage", False),
        ("see /usage", False),
    ],
)
def test_a_command_is_a_slash_and_a_word(text: str, expected: bool) -> None:
    assert is_command(text) is expected


def test_the_local_person_needs_no_name_and_is_operator() -> None:
    assert speaker_of("", admin=False) == speaker_of("Local", admin=False) == LOCAL_PERSON
    assert LOCAL_PERSON.admin
    assert LOCAL_PERSON.operator


def test_a_named_speaker_is_a_member_unless_said_otherwise() -> None:
    assert speaker_of(" Ann  Calder", admin=False) == Speaker("ann-calder", "Ann Calder")
    assert speaker_of("Ann", admin=True) == Speaker("ann", "Ann", admin=True)


@pytest.mark.parametrize("name", ["@ann", "a:b", "dm:ann", "x" * 33, "\x1b[2J", "<ann>", "/as"])
def test_odd_names_are_refused(name: str) -> None:
    assert speaker_of(name, admin=False) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("workshop", "workshop"),
        ("#Workshop", "workshop"),
        ("dm", "dm:ann"),
        ("dm:ann", "dm:ann"),
        ("dm:bob", None),
        ("", None),
        ("two words", None),
        ("x" * 65, None),
    ],
)
def test_a_room_is_named_and_a_direct_room_is_ones_own(name: str, expected: str | None) -> None:
    assert room_of(name, ANN) == expected


def test_a_new_speaker_leaves_another_ones_direct_room_for_their_own() -> None:
    assert following("dm:bob", ANN) == "dm:ann"
    assert following("workshop", ANN) == "workshop"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("a\r\nb\rc\u2028d\x0be", "a\nb\nc\nd\ne"),
        ("\x1b[2J\x1b[1;1Hgone", "gone"),
        ("\x9b31mred", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]52;c;aGk=\x1b\\x", "x"),
        ("\x1bP1$r\x1b\\x", "x"),
        ("\x9d0;title\x9cx", "x"),
        ("\x1b]0;never closed", ""),
        ("\x1bcx\x1b(By", "xy"),
        ("\x1b[38;5;1", ""),
        ("\x07\x08\x00\x7f", ""),
        ("\u202eabc\u202c", "abc"),
        ("\ud800x", "x"),
        ("Grüße 👩‍🔧 नमस्ते", "Grüße 👩‍🔧 नमस्ते"),
    ],
)
def test_a_terminal_is_given_nothing_to_obey(text: str, expected: str) -> None:
    assert printable(text) == expected


@given(st.text() | st.text(alphabet="\x1b\x9b\x9d[]P;\\\x07m0Aa\n"))
def test_no_control_survives_in_any_text(text: str) -> None:
    shown = printable(text)
    assert not any((sign < " " and sign not in "\n\t") or "\x7f" <= sign <= "\x9f" for sign in shown)
    assert printable(shown) == shown


@given(st.text(alphabet=st.characters(categories=("L", "N", "P", "S", "Zs"))))
def test_ordinary_text_is_left_as_it_is(text: str) -> None:
    assert printable(text) == text
