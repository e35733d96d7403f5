"""How sizes are estimated, bounded and cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.prompt import ModelRequest, PromptMessage, ToolSpec
from core.prompt.tokens import FAMILIES, Meter, canonical_json, estimate, hard_bound

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=300)
METER = Meter(FAMILIES["default"], bytes_per_token=7.5)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("house", 1),
        ("houses", 1),
        ("houseboat", 2),
        ("a house by the sea", 5),
        ("1234567", 3),
        ("...", 2),
        ("a\n\nb", 4),
        ("a b", 2),
        ("a" + " " * 9 + "b", 5),
        ("Größe", 3),
        ("привет", 4),
        ("नमस्ते", 6),
        ("你好世界", 5),
        ("안녕", 3),
        ("🎉🎉", 5),
        ("ⴰⴱ", 3),
    ],
)
def test_each_class_of_characters_has_its_rate(text: str, tokens: int) -> None:
    assert estimate(text) == tokens


def test_chinese_is_not_counted_like_english() -> None:
    text = "今天下午我们在图书馆见面" * 10
    assert estimate(text) > 4 * len(text) / 4


def test_a_small_vocabulary_costs_more_outside_english() -> None:
    assert estimate("привет, мир", FAMILIES["small"]) > estimate("привет, мир")
    assert estimate("hello, world", FAMILIES["small"]) == estimate("hello, world")


@given(ANY_TEXT, ANY_TEXT)
def test_a_longer_text_never_costs_less(text: str, more: str) -> None:
    assert METER.cost(text) <= METER.cost(text + more)
    assert METER.cost(text) <= METER.cost(more + text)


@given(ANY_TEXT, ANY_TEXT)
def test_lines_together_cost_no_more_than_apart(first: str, second: str) -> None:
    assert METER.cost(f"{first}\n<<{second}") <= METER.cost(f"{first}\n") + METER.cost(f"<<{second}")


@given(ANY_TEXT, st.integers(-3, 200))
def test_a_head_and_a_tail_are_the_longest_that_fit(text: str, budget: int) -> None:
    head, tail = METER.head(text, budget), METER.tail(text, budget)
    assert text.startswith(head)
    assert text.endswith(tail)
    for piece, longer in ((head, text[: len(head) + 1]), (tail, text[len(text) - len(tail) - 1 :])):
        assert METER.cost(piece) <= max(budget, 0)
        assert piece == text or METER.cost(longer) > budget


def test_a_cost_is_by_bytes_where_bytes_are_dearer() -> None:
    dear = Meter(FAMILIES["default"], bytes_per_token=2.0)
    assert dear.cost("a house by the sea") == 9


def request_of(text: str, tools: tuple[ToolSpec, ...] = ()) -> ModelRequest:
    return ModelRequest(text, (PromptMessage("user", text),), tools, None, (), 100, "")


@given(ANY_TEXT)
def test_the_hard_bound_is_never_below_the_bytes(text: str) -> None:
    size = len(text.encode("utf-8", errors="replace"))
    assert hard_bound(request_of(text)) >= 2 * size + 2 * 16 + 100


def test_tools_and_another_family_raise_the_hard_bound() -> None:
    tool = ToolSpec("search", "Finds messages.", {"type": "object"})
    plain, with_tool = hard_bound(request_of("hi")), hard_bound(request_of("hi", (tool,)))
    assert with_tool > plain + 64
    assert hard_bound(request_of("hi"), factor=2.0) == 2 * (plain - 100) + 100


def test_canonical_json_does_not_depend_on_the_order_of_keys() -> None:
    assert canonical_json({"b": 1, "a": "é"}) == canonical_json({"a": "é", "b": 1}) == '{"a":"é","b":1}'
