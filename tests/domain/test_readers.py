"""Readers of export files: each shape, each way to be broken, and going on from any record."""

import io
import json
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from core.domain.ids import RoomKey
from core.domain.imports import (
    BadCode,
    BadRecord,
    Chat,
    ImportFormat,
    ImportRecord,
    Place,
    Unsupported,
    parse_audience,
)
from core.domain.rooms import RoomKind
from core.retrieval.readers.stream import ELEMENT_BYTES
from core.retrieval.survey import Survey, recognise
from tests.domain.export_samples import (
    discord_file,
    discord_message,
    jsonl_file,
    jsonl_line,
    later,
    telegram_chat,
    telegram_file,
    telegram_message,
    telegram_service,
)

BERLIN = ZoneInfo("Europe/Berlin")


@dataclass
class Read:
    """What a reader yielded."""

    chats: list[Chat] = field(default_factory=list)
    records: list[ImportRecord] = field(default_factory=list)
    bad: list[BadRecord] = field(default_factory=list)
    unsupported: int = 0
    places: list[Place] = field(default_factory=list)
    survey: Survey | None = None
    needs_zone: bool = False

    @property
    def refs(self) -> list[str]:
        return [record.ref for record in self.records]

    @property
    def codes(self) -> list[BadCode]:
        return [bad.code for bad in self.bad]


def read(data: bytes, zone: ZoneInfo | None = None, place: Place | None = None, known: Survey | None = None) -> Read:
    file = io.BytesIO(data)
    form = recognise(file)
    assert form is not None
    survey = known or Survey(Path("export.json"), form, "f" * 64, len(data))
    reader, found = survey.read(file, zone, place or Place()), Read(survey=survey)
    for item in reader:
        match item:
            case Chat():
                found.chats.append(item)
            case ImportRecord():
                found.records.append(item)
                found.places.append(reader.place)
            case BadRecord():
                found.bad.append(item)
            case Unsupported():
                found.unsupported += 1
    found.needs_zone = reader.needs_zone
    return found


def one(data: bytes) -> ImportRecord:
    (record,) = read(data).records
    return record


def test_a_format_is_told_by_content() -> None:
    samples = {
        ImportFormat.DISCORD: discord_file(discord_message(1)),
        ImportFormat.TELEGRAM: telegram_file(telegram_message(1)),
        ImportFormat.JSONL: b"\n{broken\n" + jsonl_file(jsonl_line(1)),
        None: b'["a", "b"]',
    }
    assert {form: recognise(io.BytesIO(data)) for form, data in samples.items()} == {form: form for form in samples}


# Discord


def test_types_that_are_words_are_words_and_the_rest_is_system() -> None:
    types = ["Default", "Reply", "20", 23, 0, "Call", "ThreadCreated", 7]
    kinds = [
        record.kind
        for record in read(discord_file(*(discord_message(n, "x", type=t) for n, t in enumerate(types)))).records
    ]
    assert kinds == ["text"] * 5 + ["system"] * 3


def test_a_reference_is_a_reply_or_a_forward() -> None:
    reply = one(discord_file(discord_message(2, "yes", type="Reply", reference={"messageId": 1, "channelId": "7001"})))
    passed_on = {"content": "glaze recipe", "attachments": []}
    forward = one(
        discord_file(discord_message(3, reference={"type": "Forward", "messageId": "9"}, forwardedMessage=passed_on))
    )
    assert (reply.kind, reply.reply_to, reply.reply_elsewhere) == ("reply", "1", False)
    assert (forward.kind, forward.reply_to, forward.text) == ("forward", None, "glaze recipe")


def test_files_stickers_and_edits_of_discord_are_told() -> None:
    files = [{"id": "1", "fileName": "bowl.png", "fileSizeBytes": 2_100_000, "url": "https://example.org/secret"}]
    edited = later(9).isoformat()
    record = one(
        discord_file(discord_message(1, "look", attachments=files, stickers=[{"name": "wave"}], timestampEdited=edited))
    )
    assert record.text == "look\n[image: bowl.png, 2.1 MB]\n[sticker: wave]"
    assert (record.edited_at, [file.kind for file in record.files]) == (later(9), ["image", "sticker"])


@pytest.mark.parametrize(
    ("channel", "guild", "kind", "private"),
    [
        ({}, "500", RoomKind.CHANNEL, False),
        ({"type": 0}, "500", RoomKind.CHANNEL, False),
        ({"type": "GuildPublicThread"}, "500", RoomKind.THREAD_PUBLIC, False),
        ({"type": "GuildPrivateThread"}, "500", RoomKind.THREAD_PRIVATE, True),
        ({"type": "DirectGroupTextChat"}, "0", RoomKind.DM, True),
        ({}, "0", RoomKind.CHANNEL, True),
        ({"type": "NeverHeardOf"}, "500", RoomKind.CHANNEL, True),
        ({"type": None}, "500", RoomKind.CHANNEL, True),
    ],
)
def test_a_channel_is_private_unless_it_is_known_to_be_open(
    channel: dict[str, object], guild: str, kind: RoomKind, private: bool
) -> None:
    chat = read(discord_file(discord_message(1), channel=channel, guild=guild)).chats[-1]
    assert (chat.kind, chat.private) == (kind, private)


# Telegram


def test_text_of_parts_is_joined_and_a_link_keeps_its_address() -> None:
    parts = [
        "see ",
        {"type": "bold", "text": "this"},
        {"type": "text_link", "text": " page", "href": "https://example.org"},
    ]
    assert one(telegram_file(telegram_message(1, parts))).words == "see this[ page](https://example.org)"


def test_hex_escapes_are_mended_inside_strings_alone() -> None:
    data = telegram_file(telegram_message(1, "AB"), telegram_message(2, "CD")).replace(b"AB", rb"a\x1fb\\x41")
    records = read(data).records
    assert [record.words for record in records] == ["a\x1fb\\x41", "CD"]


def test_a_reply_to_a_topic_s_entry_is_the_topic_and_its_answers_stand_there_too() -> None:
    found = read(
        telegram_file(
            telegram_service(2, "topic_created", title="Glazes"),
            telegram_message(3, "first", reply_to_message_id=2),
            telegram_message(4, "answer", reply_to_message_id=3),
            telegram_service(5, "topic_edit", new_title="Glazing", reply_to_message_id=2),
            telegram_message(6, "elsewhere"),
            telegram_message(7, "far", reply_to_message_id=3, reply_to_peer_id="channel9"),
        )
    )
    assert [(r.topic, r.reply_to) for r in found.records] == [
        ("2", None), ("2", None), ("2", "3"), ("2", None), ("", None), ("", "3")]  # fmt: skip
    assert found.records[-1].reply_elsewhere
    assert found.survey is not None and found.survey.topics[0].titles == {"2": "Glazing"}


def test_senders_without_name_or_number_are_told_apart_as_far_as_possible() -> None:
    senders: list[dict[str, Any]] = [
        {"from": None, "from_id": "user9"},
        {"from": None, "from_id": None},
        {"from": "News", "from_id": "channel77"},
        {"from": "Bo", "from_id": 19},
    ]
    records = read(telegram_file(*(telegram_message(n, "x", **who) for n, who in enumerate(senders, 1)))).records
    told = [(record.author.ref, record.author.kind) for record in records if record.author is not None]
    assert told == [("9", "deleted"), (f"export:{'f' * 16}:deleted", "deleted"), ("-10077", "channel"), ("19", "user")]


def test_what_is_no_text_is_told_in_words() -> None:
    poll = {"question": "Lunch?", "answers": [{"text": "soup", "voters": 1}, {"text": "bread", "voters": 0}]}
    samples: dict[str, dict[str, Any]] = {
        "[poll: Lunch? | soup | bread]": {"poll": poll},
        "[sticker 👍]": {"file": "stickers/a.webp", "media_type": "sticker", "sticker_emoji": "👍"},
        "[image]": {"photo": "(File not included. Change data exporting settings to download.)"},
        "[file: report.pdf, 2.1 MB]": {"file": "files/report.pdf", "file_name": "report.pdf", "file_size": 2_100_000},
        "[location]": {"location_information": {"latitude": 1, "longitude": 2}},
        "[contact]": {"contact_information": {"phone_number": "not kept"}},
    }
    assert [one(telegram_file(telegram_message(1, **more))).text for more in samples.values()] == list(samples)


def test_local_times_wait_for_their_zone() -> None:
    entry = telegram_message(1, "x")
    del entry["date_unixtime"]
    data = telegram_file(entry | {"date": "2021-07-01T14:00:00"})
    assert read(data).needs_zone
    (record,) = read(data, BERLIN).records
    assert record.sent_at.isoformat() == "2021-07-01T12:00:00+00:00"


def test_all_chats_of_an_account_are_read_each_under_its_own_head() -> None:
    skipped = {"about": "x", "contacts": {"list": [{"first_name": "Ana", "messages": "none"}]}}
    open_chat, own = (
        telegram_chat(telegram_message(1, "open")),
        telegram_chat(telegram_message(1, "own"), kind="personal_chat"),
    )
    data = json.dumps(skipped | {"chats": {"list": [open_chat]}, "left_chats": {"list": [own]}}).encode()
    found = read(data)
    assert [(record.chat, record.words) for record in found.records] == [(0, "open"), (1, "own")]
    assert {chat.number: (chat.private, chat.key) for chat in found.chats} == {
        0: (False, RoomKey("telegram", "-1004242")),
        1: (True, RoomKey("telegram", "4242", "export:4242")),
    }


def test_what_the_head_says_after_the_messages_counts_too() -> None:
    data = json.dumps({"messages": [telegram_message(1)], "type": "public_channel", "id": 5, "name": "N"}).encode()
    assert read(data).chats[-1].key == RoomKey("telegram", "-1005")


def test_an_entry_of_which_nothing_was_kept_is_counted_and_no_error() -> None:
    found = read(telegram_file({"id": 1, "type": "unsupported"}, telegram_message(2, "x")))
    assert (found.unsupported, found.codes, found.refs) == (1, [], ["2"])


# JSON lines


def test_a_line_gives_a_record_with_session_and_caption() -> None:
    record = one(jsonl_file(jsonl_line(1, "", session="s1", caption="a bowl", reply_to="m0", message_id=7)))
    assert (record.ref, record.session, record.reply_to, record.text) == ("7", "s1", "m0", "[image]")
    assert record.files[0].caption == "a bowl"


# Broken files


def test_records_without_id_get_the_same_one_each_time_and_equal_ones_different_ones() -> None:
    lines = [jsonl_line(n, "again", message_id=None, ts=later(0).isoformat()) for n in range(3)]
    first, second = read(jsonl_file(*lines)), read(jsonl_file(*lines))
    assert first.refs == second.refs and len(set(first.refs)) == 3


GOOD = [discord_message(n, f"words {n}") for n in (1, 2, 3)]
DAMAGE = {
    "a quote is gone": (b'"words 2"', b'words 2"', BadCode.JSON_SYNTAX),
    "a bracket is gone": (b'words 2",', b'words 2", "reactions": [', BadCode.JSON_SYNTAX),
    "it is no object": (None, None, BadCode.BAD_TYPE),
    "no time": (b'"timestamp": "2021-05-04T12:02', b'"time": "2021-05-04T12:02', BadCode.NO_TIME),
    "no such time": (b"2021-05-04T12:02:00.000", b"2021-15-04T12:02:00.000", BadCode.BAD_TIME),
    "a text that is none": (b'"words 2"', b"{}", BadCode.BAD_TYPE),
    "a text too long": (b"words 2", b"w" * 100_001, BadCode.TOO_LONG),
    "an element without end": (b"words 2", b"w" * (ELEMENT_BYTES + 10), BadCode.TOO_LONG),
    "nested without end": (b'"words 2"', b"[" * 5000, BadCode.JSON_SYNTAX),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_broken_element_costs_itself_alone(damage: str) -> None:
    old, new, code = DAMAGE[damage]
    if old is None or new is None:
        data = json.dumps(json.loads(discord_file(*GOOD)) | {"messages": [GOOD[0], 5, GOOD[2]]}).encode()
    else:
        data = discord_file(*GOOD).replace(old, new)
        assert data != discord_file(*GOOD)
    found = read(data)
    assert (found.refs, found.codes) == (["1", "3"], [code])


def test_a_missing_comma_costs_nothing_but_a_line_in_the_report() -> None:
    data = discord_file(*GOOD).replace(b'},\n    {\n      "id": "2"', b'}\n    {\n      "id": "2"')
    found = read(data)
    line = data[: data.index(b'{\n      "id": "2"')].count(b"\n") + 1
    assert (found.refs, found.codes, found.bad[0].line) == (["1", "2", "3"], [BadCode.JSON_SYNTAX], line)


CUT = {
    "discord": discord_file(*GOOD),
    "telegram": telegram_file(*(telegram_message(n, "x") for n in (1, 2, 3))),
    "jsonl": jsonl_file(*(jsonl_line(n) for n in (1, 2, 3))).rstrip(),
}


@pytest.mark.parametrize("form", CUT)
def test_a_tail_cut_off_anywhere_is_said_and_what_is_before_it_is_kept(form: str) -> None:
    data = CUT[form]
    whole = read(data).places
    for end in range(whole[1].byte + 2, whole[2].byte, 7):
        found = read(data[:end])
        assert (len(found.records), found.codes[-1:]) == (2, [BadCode.TRUNCATED_TAIL]), end


def test_huge_numbers_lone_surrogates_nul_and_bad_bytes_are_mended() -> None:
    texts = ["half \ud83d", "a\x00b", "BYTE"]
    data = discord_file(*(discord_message(n, text) for n, text in enumerate(texts)), discord_message(4, huge="HUGE"))
    found = read(data.replace(b"BYTE", b"b\xff").replace(b'"HUGE"', b"9" * 6000))
    assert [record.words for record in found.records] == ["half \ufffd", "ab", "b\ufffd", ""]
    assert [record.mended for record in found.records] == [
        (BadCode.LONE_SURROGATE,), (BadCode.NUL_BYTE,), (BadCode.BAD_UTF8,), ()]  # fmt: skip


def test_ids_are_text_whatever_they_were_and_nothing_else_is_an_id() -> None:
    ids = [7, "7a", True, 1.5, [], "x" * 201, -3]
    found = read(discord_file(*(discord_message(n, "x", id=value) for n, value in enumerate(ids))))
    assert (found.refs, found.codes) == (["7", "7a", "-3"], [BadCode.BAD_TYPE] * 4)


def test_an_excerpt_is_short_and_on_one_line() -> None:
    _, bad = read(jsonl_file(jsonl_line(1)) + b'{"text": "two\nlines' + b"x" * 500).bad
    assert len(bad.excerpt) <= 80 and "\n" not in bad.excerpt


def test_words_of_one_chat_never_come_under_another_one_s_head() -> None:
    """The end of the open chat and the last of its messages are gone: the private chat behind it stays private."""
    chats = [
        telegram_chat(telegram_message(1, "open"), telegram_message(2, "LAST")),
        telegram_chat(telegram_message(1, "own"), kind="personal_chat", chat=9),
    ]
    data = json.dumps({"chats": {"list": chats}}, indent=1).encode()
    at = data.index(b'"LAST"')
    for cut in range(3, 60, 4):
        broken = data[:at] + data[at + cut :]
        found = read(broken)
        heads = {chat.number: chat for chat in found.chats}
        owners = [heads[record.chat] for record in found.records if record.words == "own"]
        assert all(chat.private for chat in owners), cut


def account_file() -> bytes:
    entries = [
        telegram_service(1, "topic_created", title="T"),
        telegram_message(2, "x", reply_to_message_id=1),
        telegram_message(3, "y", reply_to_message_id=2),
    ]
    chats = [telegram_chat(*entries), telegram_chat(telegram_message(1, "z"), chat=9)]
    return json.dumps({"chats": {"list": chats}}).encode()


RESUMED = {
    "discord": discord_file(*(discord_message(n, "ä" * n) for n in range(6))),
    "telegram": account_file(),
    "jsonl": jsonl_file(*(jsonl_line(0, "same", message_id=None) for _ in range(4)), jsonl_line(5)),
}


@pytest.mark.parametrize("form", RESUMED)
def test_reading_goes_on_after_any_record_as_if_it_had_not_stopped(form: str) -> None:
    data = RESUMED[form]
    whole = read(data)
    for number, place in enumerate(whole.places):
        rest = read(data, place=place, known=whole.survey)
        assert [(r.ref, r.topic, r.chat, r.byte, r.line) for r in rest.records] == [
            (r.ref, r.topic, r.chat, r.byte, r.line) for r in whole.records[number + 1 :]]  # fmt: skip


def mutate(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data))
    match rng.randrange(5):
        case 0:
            return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        case 1:
            return data[:at] + data[at + rng.randrange(1, 40) :]
        case 2:
            return (
                data[:at]
                + rng.choice([b'"', b"{", b"}", b"[", b"]", b",", b"\\", b"\x00", b"\n", b"\\x1f"])
                + data[at:]
            )
        case 3:
            return data[:at] + data[max(0, at - rng.randrange(1, 60)) :]
        case _:
            return data[:at]


def files() -> list[bytes]:
    text = 'a "quoted" {word}, [list] and \\ slash'
    discord = [discord_message(n, text, reference={"messageId": str(n - 1)}) for n in range(8)]
    telegram = [
        telegram_message(n, [text, {"type": "bold", "text": "ü"}], reply_to_message_id=n - 1) for n in range(1, 9)
    ]
    return [
        discord_file(*discord),
        json.dumps(json.loads(discord_file(*discord))).encode(),
        telegram_file(*telegram),
        json.dumps({"chats": {"list": [telegram_chat(*telegram), telegram_chat(*telegram, chat=9)]}}).encode(),
        jsonl_file(*(jsonl_line(n, text) for n in range(12))),
    ]


def check_mutations(count: int) -> None:
    rng, samples = random.Random(20261130), files()
    for number in range(count):
        whole = samples[number % len(samples)]
        data = mutate(rng, whole)
        if recognise(io.BytesIO(data)) is None:
            continue
        found, before = read(data), read(whole)
        lost = len(before.records) - len(found.records)
        cut = whole.startswith(data)
        # What is lost is said, but where two records became one, or lines end where the file does.
        assert lost <= 2 or found.bad or (cut and whole.startswith(b'{"room"')), number
        if not cut and data[: before.records[0].byte] == whole[: before.records[0].byte] and len(before.chats) <= 2:
            assert lost <= 3, number  # the damage is shorter than two records: the neighbours stand
        changed = [place.byte for place in before.places if data[: place.byte] != whole[: place.byte]]
        kept = sum(place.byte not in changed for place in before.places)
        same = [(r.ref, r.text) for r in before.records[:kept]]
        assert [(r.ref, r.text) for r in found.records[:kept]] == same, number  # what stood before it is untouched


def test_damaged_files_crash_nothing_and_cost_no_good_record_before_the_damage() -> None:
    check_mutations(100)


@pytest.mark.long
def test_a_thousand_damaged_files() -> None:
    check_mutations(1000)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("room:5", "room:5"), ("role:1, 2", "role:1,2"), ("people:a,a", "people:a"), ("staff", "staff"),
     ("community", "community"), ("staff:1", None), ("room:1,2", None), ("role:", None), ("everyone", None)],
)  # fmt: skip
def test_an_audience_is_spelled_in_five_ways(text: str, shown: str | None) -> None:
    spec = parse_audience(text)
    assert (None if spec is None else str(spec)) == shown
