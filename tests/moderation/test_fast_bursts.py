"""What is found by looking back: floods, copies, bursts of mentions and reactions, and many who join at once."""

from datetime import timedelta

import pytest

from core.domain.messages import Marks
from core.domain.moderation.rules import Detector, RuleKind
from core.domain.moderation.signals import Finding, Watched
from core.moderation.fast.windows import MOST_PEOPLE, Windows, within_one
from tests.moderation.watching import LANE, NOON, finding, rule, watched

SALE = "the cheapest phones of the town, ask me about them"


def calling(*accounts: str, everyone: bool = False) -> Marks:
    return Marks(mentions=frozenset(accounts), calls_many=everyone)


# Flood


def test_the_eighth_message_in_ten_seconds_of_one_room_is_a_flood() -> None:
    said = [watched("hi", at_s=n, ref=str(n)) for n in range(8)]
    assert finding(rule("flood"), *said[:7]) is None
    found = finding(rule("flood"), *said)
    assert found is not None
    assert (found.value, found.threshold, found.what, found.refs) == (8, 8, "room", tuple("0123456"))


def test_twenty_in_a_minute_over_all_rooms_are_a_flood() -> None:
    found = finding(rule("flood"), *(watched("hi", at_s=2.5 * n, room=n) for n in range(20)))
    assert found is not None and found.what == "community"


@pytest.mark.parametrize(
    "said",
    [
        [watched("hi", at_s=2 * n) for n in range(12)],
        [watched("hi", at_s=n, person=n) for n in range(12)],
        [watched("hi", at_s=n, ref="one", edited=n > 0, revision=n) for n in range(12)],
    ],
    ids=["slowly", "by many", "edits of one"],
)
def test_what_is_no_flood(said: list[Watched]) -> None:
    assert finding(rule("flood"), *said) is None


def test_a_rule_has_thresholds_of_its_own() -> None:
    assert finding(rule("flood", room=2, room_s=5), watched("a"), watched("b", at_s=4)) is not None
    assert finding(rule("flood", room="many"), watched("a"), watched("b", at_s=4)) is None


# Duplicates


def test_one_text_in_three_rooms_is_a_duplicate() -> None:
    said = [watched(SALE + "!" * n, at_s=10 * n, room=n) for n in range(3)]
    assert finding(rule("duplicate"), *said[:2]) is None
    found = finding(rule("duplicate"), *said)
    assert found is not None and (found.value, found.what, len(found.refs)) == (3, "rooms", 2)


def test_disguises_and_small_changes_make_no_other_text() -> None:
    said = [
        watched(SALE),
        watched(SALE.upper(), room=2),
        watched(SALE.replace("e", "е").replace("phones", "phone"), room=3),
    ]
    assert finding(rule("duplicate"), *said) is not None


def test_one_text_of_four_newcomers_is_a_duplicate() -> None:
    said = [watched(SALE, at_s=60 * n, person=n, first=True) for n in range(4)]
    found = finding(rule("duplicate"), *said)
    assert found is not None and (found.value, found.what) == (4, "new members")


def test_whoever_was_new_stays_so_for_a_day() -> None:
    hello = [watched(f"hello from number {n}", person=n, first=True) for n in range(4)]
    sale = [watched(SALE, at_s=3600 + n, person=n) for n in range(4)]
    assert finding(rule("duplicate"), *hello, *sale) is not None
    late = [watched(SALE, at_s=90_000 + n, person=n) for n in range(4)]
    assert finding(rule("duplicate"), *hello, *late) is None


@pytest.mark.parametrize(
    "said",
    [
        [watched("good morning", room=n) for n in range(5)],
        [watched(SALE, at_s=100 * n, room=n) for n in range(3)],
        [watched(SALE, person=n) for n in range(6)],
        [watched(SALE, ref="one", edited=n > 0) for n in range(6)],
        [watched(f"{word} is what I have been looking for, thanks", room=n) for n, word in enumerate("abc")][:2],
        [watched("we meet at the lake on Sunday at ten", room=1), watched("who brings the boat and the oars", room=2),
         watched("somebody has to ask the owner first", room=3)],
    ],
    ids=["too short", "too far apart", "of members", "edits of one", "twice", "different"],
)  # fmt: skip
def test_what_is_no_duplicate(said: list[Watched]) -> None:
    assert finding(rule("duplicate"), *said) is None


def test_a_message_that_is_edited_into_a_copy_counts_once() -> None:
    said = [watched(SALE, room=1, ref="a"), watched(SALE, room=2, ref="b"), watched("a harmless one", room=3, ref="c")]
    assert finding(rule("duplicate"), *said, watched(SALE, room=3, ref="c", edited=True, revision=1)) is not None
    assert finding(rule("duplicate"), *said, watched(SALE, room=2, ref="b", edited=True, revision=1)) is None


# Mentions


@pytest.mark.parametrize(
    ("marks", "what"),
    [(calling(*"abcdef"), "in one message"), (calling(everyone=True), "everyone"), (calling(*"abcde"), None)],
)
def test_mentions_of_one_message(marks: Marks, what: str | None) -> None:
    found = finding(rule("mentions"), watched("x", marks=marks))
    assert (found and found.what) == what


def test_mentions_add_up_over_a_minute() -> None:
    said = [watched("x", at_s=15 * n, marks=calling(f"{n}a", f"{n}b", f"{n}c", f"{n}d")) for n in range(3)]
    found = finding(rule("mentions"), *said)
    assert found is not None and (found.value, found.what) == (12, "in a minute")
    again = [watched("x", at_s=n, marks=calling("a", "b")) for n in range(20)]
    assert finding(rule("mentions"), *again) is None


def test_one_person_called_again_and_again_is_harassment_but_no_flood() -> None:
    said = [watched("x", at_s=5 * n, marks=calling("a")) for n in range(6)]
    assert finding(rule("mentions", RuleKind.HARASSMENT), *said[:5]) is None
    found = finding(rule("mentions", RuleKind.HARASSMENT), *said)
    assert found is not None and (found.value, found.what) == (6, "one person")
    assert finding(rule("mentions"), *said) is None
    edits = [watched("x", at_s=n, ref="one", marks=calling("a"), edited=n > 0) for n in range(9)]
    assert finding(rule("mentions", RuleKind.HARASSMENT), *edits) is None


# Reactions


def reacting(refs: list[str], symbols: list[str], apart_s: float = 1) -> Finding | None:
    windows, found = Windows(), []
    for n, (ref, symbol) in enumerate(zip(refs, symbols, strict=True)):
        found = LANE.read_reactions(watched(at_s=apart_s * n, ref=ref), (symbol,), windows, [rule("reactions")])
    assert all(signal.finding.detector is Detector.REACTIONS for signal in found)
    return found[0].finding if found else None


def test_many_reactions_and_one_symbol_on_many_messages_are_found() -> None:
    many = reacting(["a", "b", "c"] * 5, [str(n) for n in range(15)])
    assert many is not None and many.what == "many"
    same = reacting([str(n) for n in range(10)], ["👎"] * 10)
    assert same is not None and (same.value, same.what) == (10, "one symbol")


def test_ordinary_reactions_are_not() -> None:
    assert reacting(["a"] * 14, [str(n) for n in range(14)]) is None
    assert reacting([str(n) for n in range(20)], ["👍"] * 20, apart_s=10) is None
    assert LANE.read_reactions(watched(), (), Windows(), [rule("flood")]) == []


# Raids


def joining(names: list[str], apart_s: float) -> object:
    windows, found = Windows(), None
    for n, name in enumerate(names):
        found = windows.joined(watched().community_id, str(n), name, NOON + timedelta(seconds=apart_s * n))
    return found


def test_ten_who_join_within_a_minute_are_a_raid() -> None:
    names = ["anna", "bert", "cleo", "doris", "emil", "fritz", "gerda", "hans", "ida", "jonas"]
    found = joining(names, 5)
    assert found is not None and getattr(found, "why", "") == "joins"
    assert joining(names, 7) is None and joining(names[:9], 5) is None


def test_five_with_near_same_names_are_a_raid() -> None:
    found = joining(["Helper01", "other", "helper_02", "HELPER3", "he1per", "h\u0435lper"], 40)
    assert found is not None and getattr(found, "why", "") == "names"
    assert joining(["123", "456", "789", "012", "345", "678"], 40) is None


def test_one_who_joins_again_and_again_is_no_raid() -> None:
    windows = Windows()
    for n in range(12):
        assert windows.joined(watched().community_id, "one", "one", NOON + timedelta(seconds=n)) is None


def test_windows_forget_whoever_was_heard_longest_ago() -> None:
    windows = Windows()
    for n in range(MOST_PEOPLE + 5):
        windows.recent(watched().community_id, watched(person=n).person_id)
    assert len(windows._people) == MOST_PEOPLE


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [("steam", "steem", True), ("steam", "staem", True), ("steam", "stam", True), ("steam", "steams", True),
     ("steam", "steam", True), ("steam", "stone", False), ("steam", "st", False), ("abcd", "badc", False)],
)  # fmt: skip
def test_words_that_differ_in_one_letter(one: str, other: str, near: bool) -> None:
    assert within_one(one, other) is within_one(other, one) is near
