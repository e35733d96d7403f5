"""Which messages tell most, and which sentences stand on their sources."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.chat.grounding import ground
from core.domain.extract import Said, by_weight, choose
from core.domain.ids import PersonId
from core.domain.prompt import Handle
from core.domain.searchwords import Wanted, admits, read_wanted

CHATTER = ("ok", "haha", "good morning everyone", "yes", "see you", "thanks a lot", "🎉🎉", "brb")


def talk() -> list[Said]:
    """Chatter with one question and its answer about a pump that others take up."""
    said = [Said(f"c{n}", PersonId(n % 3), CHATTER[n % len(CHATTER)]) for n in range(24)]
    said[9] = Said("q", PersonId(7), "Which seal does the garden pump need, the old one leaks?")
    said[10] = Said("a", PersonId(8), "The garden pump needs a 40 mm rubber seal, order it today.", "q")
    said[15] = Said("b", PersonId(9), "I ordered the rubber seal for the pump.", "a")
    return said


def test_what_others_take_up_and_answer_is_chosen_before_chatter() -> None:
    assert choose(talk(), 3) == [9, 10, 15]


def test_one_loud_person_does_not_crowd_out_the_others() -> None:
    loud = [Said(f"l{n}", PersonId(1), f"The tent poles of row {n} must be painted green tomorrow.") for n in range(20)]
    quiet = Said("z", PersonId(2), "Nobody has the tent poles yet, the green paint is missing.")
    assert len(loud) in choose([*loud, quiet], 3)


@given(
    st.lists(st.builds(Said, st.text(max_size=3), st.integers(0, 3).map(PersonId), st.text(max_size=40)), max_size=9)
)
def test_any_talk_is_ordered_whole_and_always_alike(said: list[Said]) -> None:
    order = by_weight(said)
    assert sorted(order) == list(range(len(said))) and by_weight(list(said)) == order


PASSAGES = {Handle("k1"): "We meet on Friday, at five.", Handle("k2"): "Bo brings Dr. Who's projector."}


@pytest.mark.parametrize(
    ("text", "kept", "dropped"),
    [
        ("They meet on Friday [k1].", "They meet on Friday [k1].", 0),
        ("They meet on Friday. [k1] Bo is nice.", "They meet on Friday. [k1]", 1),
        ("1. They meet [k1, k2]\n2. They danced", "1. They meet [k1, k2]", 1),
        ("Dr. Who lends a projector [k2]!", "Dr. Who lends a projector [k2]!", 0),
        ('"Friday, at five" they meet [k1].', '"Friday, at five" they meet [k1].', 0),
        ("“We meet on Monday” was said [k1].", "", 1),
        ('"We meet on Friday" was said [k2].', "", 1),
        ("## Plans\n\nNothing is known.\n\n## People\nBo comes [k2].", "## Plans\n## People\nBo comes [k2].", 1),
        ("They met [k9]. They met [m1]. They met [a1].", "", 3),
        ("", "", 0),
    ],
)
def test_a_sentence_stays_if_it_cites_a_passage_and_misquotes_none(text: str, kept: str, dropped: int) -> None:
    grounded = ground(text, PASSAGES)
    assert (grounded.text, grounded.dropped) == (kept, dropped)


def test_phrases_and_forbidden_words_are_read_and_held_to() -> None:
    assert read_wanted('lamp "Blue  Bench" -Desk x-ray -') == Wanted(
        'lamp "Blue Bench" x-ray -', ("blue bench",), frozenset({"desk"})
    )
    assert admits("On the blue bench!", ("blue bench",), frozenset({"desk"}))
    assert not admits("On the bluebench", ("blue bench",), frozenset())
    assert not admits("Blue bench, by the DESK.", ("blue bench",), frozenset({"desk"}))
