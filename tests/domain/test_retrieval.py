"""How well words fit a question: pure numbers, echoes, and who is spoken to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.ids import PersonId
from core.domain.retrieval import is_echo, named_in, rarity, unaddressed

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
