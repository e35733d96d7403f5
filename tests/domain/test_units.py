"""Units of the index: what a message brings along, where the talk breaks, and how words are made alike."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.ids import MessageId, PersonId, RoomId
from core.domain.units import (
    FAR_CHARS,
    NEAR_CHARS,
    PART_CHARS,
    Around,
    Spoken,
    Unit,
    build_units,
    fold,
    identifiers,
    is_identifier,
    parts_of,
)

START = datetime(2026, 5, 7, 9, 0, tzinfo=UTC)


def said(number: int, text: str, minutes: float | None = None, **changes: object) -> Spoken:
    at = START + timedelta(minutes=number if minutes is None else minutes)
    spoken = Spoken(
        id=MessageId(number), room_id=RoomId(1), author_id=PersonId(1), speaker="Ana", by_bot=False, sent_at=at,
        text=text, kind="text",
    )  # fmt: skip
    return replace(spoken, **changes)  # type: ignore[arg-type]  # a test's own changes


def one(message: Spoken, before: Sequence[Spoken] = (), after: Sequence[Spoken] = (), **more: object) -> Unit:
    around = replace(Around(before=before, after=after), **more)  # type: ignore[arg-type]  # a test's own changes
    (unit,) = build_units(message, around)
    return unit


def test_a_unit_holds_its_neighbours_nearest_first_and_the_day() -> None:
    talk = [said(n, f"word{n}") for n in range(1, 6)]
    unit = one(talk[2], before=[talk[1], talk[0]], after=[talk[3], talk[4]])
    assert unit.own == "ana: word3"
    assert unit.near == "ana: word2\nana: word4"
    assert unit.far == "ana: word1\nana: word5"
    assert unit.when == "7 may 2026, thursday"


@pytest.mark.parametrize(
    ("earlier", "heard"),
    [
        (said(1, "before", minutes=-30), True),
        (said(1, "before", minutes=-90), False),
        (said(1, "before", session="s1"), False),
        (said(1, "before", usable=False), False),
    ],
)
def test_neighbours_end_where_the_talk_breaks(earlier: Spoken, heard: bool) -> None:
    further = said(0, "further", minutes=-31)
    unit = one(said(2, "now"), before=[earlier, further])
    assert ("before" in unit.near) is heard
    if not heard:
        assert "further" not in unit.far


def test_equal_sessions_hold_together_over_any_silence() -> None:
    earlier = said(1, "before", minutes=-5000, session="s1")
    assert "before" in one(said(2, "now", session="s1"), before=[earlier]).near


def test_what_is_answered_is_near_and_counts_once() -> None:
    earlier = said(1, "the question")
    unit = one(said(5, "the answer"), before=[earlier], parent=earlier)
    assert unit.near.count("the question") == 1
    assert "the question" not in one(said(5, "the answer"), parent=replace(earlier, usable=False)).near


def test_long_neighbours_are_cut_and_long_messages_become_parts() -> None:
    essay = "\n\n".join(f"Paragraph {n}: " + "so it goes. " * 30 for n in range(12))
    unit = one(said(2, "now"), before=[said(1, essay), said(0, essay)])
    assert len(unit.near) <= NEAR_CHARS + 5 and len(unit.far) <= FAR_CHARS + 5
    parts = build_units(said(3, essay), Around())
    assert len(parts) > 1 and {part.part for part in parts} == set(range(len(parts)))
    assert "".join(essay[part.quote_from : part.quote_to] for part in parts) == essay


@given(st.text(max_size=6 * PART_CHARS))
def test_parts_cover_any_text_without_overlap(text: str) -> None:
    spans = list(parts_of(text))
    assert [start for start, _ in spans] == [0, *(end for _, end in spans[:-1])]
    assert spans[-1][1] == len(text)
    assert all(0 < end - start <= PART_CHARS for start, end in spans) or text == ""


def test_a_silent_or_unusable_message_has_no_unit() -> None:
    assert build_units(said(1, "  "), Around()) == []
    assert build_units(said(1, "words", usable=False), Around()) == []
    assert one(said(1, "", beside="report.pdf")).own == "ana:  report.pdf"


def test_words_from_other_rooms_stand_in_no_unit_that_is_read_more_widely() -> None:
    borrowed = said(1, "said elsewhere", sources=(RoomId(1), RoomId(7)))
    plain = one(said(2, "plain"), before=[borrowed, said(0, "older")], parent=borrowed)
    assert (plain.sources, plain.near, plain.far) == (None, "", "ana: older")
    assert one(borrowed, after=[said(2, "plain")]).near == "ana: plain"
    assert one(borrowed).sources == (RoomId(1), RoomId(7))


def test_only_what_is_shown_changes_a_hash() -> None:
    before = said(1, "before")
    unit = one(said(2, "now"), before=[before])
    assert one(said(2, "now"), before=[before]) == unit
    moved = one(said(2, "now"), before=[said(1, "other")])
    assert (moved.own_hash, moved.unit_hash != unit.unit_hash) == (unit.own_hash, True)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("it says ERR_CONN_RESET again", {"err_conn_reset", "err", "conn", "reset"}),
        ("see #4123.", {"#4123", "4123"}),
        ("call readFile() in core/store/units.py", {"readfile", "read", "file", "core/store/units.py", "units", "py"}),
        ("https://example.org/a/night-shift?x=1", {"https://example.org/a/night-shift", "example", "org", "night"}),
        ("v2.10.3 is out", {"v2.10.3"}),
    ],
)
def test_identifiers_are_found_whole_and_in_parts(text: str, found: set[str]) -> None:
    assert found <= set(identifiers(text))


@pytest.mark.parametrize("prose", ["We meet at the shed.", 'Well... yes; (mostly) "no"!', "Grüße aus Köln"])
def test_prose_has_no_identifiers(prose: str) -> None:
    assert identifiers(prose) == ()


def test_a_question_that_is_one_identifier_is_known_as_such() -> None:
    assert is_identifier("ERR_CONN_RESET") and is_identifier(" #12 ")
    assert not is_identifier("what is ERR_CONN_RESET") and not is_identifier("reset")


def test_folding_makes_alike_what_looks_alike() -> None:
    assert fold("ＦＵＬＬ wi\u200bdth \u202eright") == "full width right"
    assert fold("STRASSE") == fold("straße")
    assert fold("東京タワー").split() == ["東京", "京タ", "タワ", "ワー"]
    assert fold("a\x00b \ud800") == "a b ?"


@given(st.text())
def test_folding_and_finding_never_fail(text: str) -> None:
    fold(text).encode()
    assert all(piece == piece.casefold() for piece in identifiers(text))
    build_units(said(1, text), Around(before=[said(0, text)]))
