"""How well words fit a question: pure numbers, echoes, and who is spoken to."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.ids import CommunityId, PersonId, RoomId
from core.domain.retrieval import Mix, Query, is_echo, likeness_of, named_in, rarity, recency, spread, unaddressed

COUNTS = st.integers(0, 10**6)


@given(COUNTS, COUNTS)
def test_a_rarer_word_never_weighs_less(documents: int, holders: int) -> None:
    assert rarity(documents, holders) >= 0
    assert rarity(max(documents, holders + 1), holders) >= rarity(max(documents, holders + 1), holders + 1)


@pytest.mark.parametrize(
    ("question", "text", "echo"),
    [
        ("where is the lamp?", "Where is the LAMP", True),
        ("@void where is the lamp?", "where is the lamp", True),
        ("where is the lamp?", "@void where is the lamp?", True),
        ("where is the blue lamp of Elif?", "so where is the blue lamp of Elif?", True),
        ("where is the lamp?", "the lamp is in the box", False),
        ("lamp?", "the lamp", False),
    ],
)
def test_an_echo_is_the_question_again(question: str, text: str, echo: bool) -> None:
    assert is_echo(question, text) is echo


@given(st.text(), st.text())
def test_echoing_is_mutual(one: str, other: str) -> None:
    assert is_echo(one, one)
    assert is_echo(one, other) == is_echo(other, one)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("@void what now?", "what now?"),
        ("@void, what now?", "what now?"),
        ("@void: what did @mara say", "what did @mara say"),
        ("what now @void?", "what now"),
        ("mail void@example.org", "mail void@example.org"),
        ("@void", "@void"),
        ("nothing", "nothing"),
    ],
)
def test_who_is_asked_is_not_what_is_asked_about(text: str, left: str) -> None:
    assert unaddressed(text) == left


@pytest.mark.parametrize(
    ("text", "who"),
    [
        ("what does Ana grow?", 1),
        ("what does ana grow?", 1),
        ("what did Project Manager say?", 2),
        ("what did the project manager say of analysis", 2),
        ("how is the project going?", None),
        ("what do Ana and the project manager think?", None),
        ("banana bread", None),
        ("did Mara call?", 3),
        ("did mara lind call?", 3),
        ("", None),
    ],
)
def test_the_one_person_named_is_known(text: str, who: int | None) -> None:
    names = {PersonId(1): "Ana", PersonId(2): "Project Manager", PersonId(3): "Mara Lind", PersonId(4): "x"}
    assert named_in(text, names) == who


def test_likeness_counts_with_its_neighbours() -> None:
    room, mix = RoomId(1), Mix(beside=0.5, beyond=0.25)
    dense = {(room, 5): 0.8, (room, 6): 0.4, (RoomId(2), 4): 1.0}
    assert likeness_of((room, 5), dense, 0.0, mix) == pytest.approx(0.8 + 0.5 * 0.4)
    assert likeness_of((room, 7), dense, 0.0, mix) == pytest.approx(0.5 * 0.4 + 0.25 * 0.8)
    assert likeness_of((room, 4), dense, 0.1, mix) == pytest.approx(0.1 + 0.5 * 0.8 + 0.25 * 0.4)
    assert likeness_of((room, 90), dense, 0.0, mix) == 0


def test_spread_hits_leave_room_for_other_spots_and_people() -> None:
    room, other = RoomId(1), RoomId(2)
    crowd = [(room, place, PersonId(place)) for place in range(12)]
    order = spread([*crowd, (room, 200, PersonId(50)), (other, 1, PersonId(51))], 20, by_author=False)
    assert order[:9] == [0, 1, 2, 3, 4, 5, 6, 12, 13]
    assert sorted(order) == list(range(14))
    talker = [(room, 100 * place, PersonId(1)) for place in range(5)]
    assert spread([*talker, (room, 900, PersonId(2))], 4, by_author=True)[:3] == [0, 1, 5]


def test_a_query_asks_for_a_bounded_number_of_hits() -> None:
    with pytest.raises(ValueError, match="between 1 and 50"):
        Query(text="x", community_id=CommunityId(1), readable=frozenset(), now=datetime(2026, 5, 1, tzinfo=UTC), k=51)


def test_only_the_newest_counts_more_where_the_newest_is_asked_for() -> None:
    assert recency(timedelta(days=400), latest=False) == 1
    assert recency(timedelta(days=30), latest=True) == pytest.approx(0.5)
    assert recency(timedelta(days=-1), latest=True) == 1
