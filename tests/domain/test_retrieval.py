"""How well words fit a question: pure numbers, echoes, and who is spoken to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.retrieval import is_echo, rarity, unaddressed

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
