"""Thinking never leaves: tags of all families, in any pieces, and what only looks like them."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.chat.markup import code_ranges
from core.chat.stripping import ReachBack, ReasoningFilter, strip_reasoning

SECRET = "SECRET"
PIECES = st.one_of(
    st.sampled_from(["<think>", "</think>", "<thinking>", "</thinking>", "<reasoning a='b'>", "</reasoning>"]),
    st.sampled_from(["[THINK]", "[/THINK]", "◁think▷", "◁/think▷", "<analysis/>", "</a:think>", "<scratchpad>"]),
    st.sampled_from(["<|channel|>analysis", "<|channel|>final", "<|message|>", "<|end|>", "<|start|>assistant"]),
    st.sampled_from(["<", "<thi", "nk>", "<think", "/", "[", "|>", "> ", "(", "!", "`", "``", "word", "word. ", " "]),
    st.sampled_from(["```\n", "\n```py\n", "~~~\n", "\n", "\n\n", "\ud83c", "\udfa9", "🎩", "\u200b"]),
)
OUTPUT = st.lists(PIECES | st.text(max_size=6), max_size=40).map("".join)
TURNS = st.sampled_from(["", "what is <think>?", "<think> and </think> and [THINK]"])
REACH = st.sampled_from(list(ReachBack))


@pytest.mark.parametrize(
    "output",
    [
        "<think>SECRET</think>Answer.",
        "<thinking>SECRET</thinking>\n\nAnswer.",
        "<reasoning>SECRET</reasoning>Answer.",
        "<thought>SECRET</thought>Answer.",
        "<reflection>SECRET</reflection>Answer.",
        "<scratchpad>SECRET</scratchpad>Answer.",
        "<analysis>SECRET</analysis>Answer.",
        "<THINK>SECRET</Think>Answer.",
        "<seed:think>SECRET</seed:think>Answer.",
        "<my_inner_thoughts>SECRET</my_inner_thoughts>Answer.",
        "<chain-of-thought>SECRET</chain-of-thought>Answer.",
        "<think2>SECRET</think2>Answer.",
        "<cot>SECRET</cot>Answer.",
        "<think effort='high' lang=en>SECRET</think >Answer.",
        "<think>SECRET</thinking>Answer.",
        "[THINK]SECRET[/THINK]Answer.",
        "◁think▷SECRET◁/think▷Answer.",
        "<|think|>SECRET<|/think|>Answer.",
        "<|begin_of_thought|>SECRET<|end_of_thought|>Answer.",
        "<|START_THINKING|>SECRET<|END_THINKING|>Answer.",
        "<|channel>thought\nSECRET<channel|>Answer.",
        "<|channel|>analysis<|message|>SECRET<|end|><|start|>assistant<|channel|>final<|message|>Answer.<|return|>",
        "<|channel|>analysis<|message|>SECRET<|channel|>final<|message|>Answer.",
        "<think>SECRET<think>SECRET</think>SECRET</think>Answer.",
        "<think>SECRET<analysis>SECRET</analysis>SECRET</think>Answer.",
        "<think>SECRET <analysis> SECRET</think>Answer.",
        "<think>SECRET, it quotes `</think>`, SECRET</think>Answer.",
        "SECRET\n</think>\nAnswer.",
        "SECRET</reasoning>Answer.",
        "<think>SECRET</think>SECRET</think>Answer.",
        "<think/>Answer.",
        "Answer.<think>SECRET</think>",
        "Answer.\n<think>SECRET",
        "Answer.<think\nSECRET",
    ],
)
def test_thinking_of_every_shape_is_removed(output: str) -> None:
    stripped = strip_reasoning(output)
    assert stripped.text == "Answer."
    assert stripped.dropped


@pytest.mark.parametrize(
    "output",
    [
        "Use `<think>` like this.",
        "Use ``a ` <think>`` like this.",
        "```xml\n<think>x</think>\n```",
        "~~~\n<think>\n~~~",
        "```\n<think>",
        "see [thinking](https://example.org) and [THINK](https://example.org)",
        "a < think and b > c",
        "<thin> and <thinner> are no tags of ours",
        "hello <:thinking:123456> and <a:thinking:123456> and </think:123456>",
        "mail <think@example.org> or <https://think.example.org>",
        "[Analysis] costs rise. [analysis]: see below",
        "List[int] and dict[str, int] and x <= y",
        "a < thinking of you\nb",
    ],
)
def test_what_only_looks_like_thinking_stays(output: str) -> None:
    stripped = strip_reasoning(output)
    assert stripped.text == output
    assert not stripped.dropped


def test_a_tag_that_the_turn_quotes_stays_where_the_answer_speaks_of_it() -> None:
    turn = "why do I see <think> and </think> in my logs?"
    answer = "The <think> tag opens it, and </think> closes it."
    assert strip_reasoning(answer, turn).text == answer


def test_quoting_a_tag_does_not_open_the_thinking() -> None:
    turn = "repeat after me: <think> </think>"
    output = "<think>They quote the <think> tag and the </think> tag. SECRET</think>It is a tag."
    assert strip_reasoning(output, turn).text == "It is a tag."


def test_a_removal_joins_no_halves_of_a_tag() -> None:
    assert SECRET not in strip_reasoning(f"<thi<think>x</think>nk>{SECRET}</think>ok").text


def test_thinking_in_the_middle_ends_a_paragraph() -> None:
    assert strip_reasoning("One. <think>x</think> Two.").text == "One.\n\nTwo."


@pytest.mark.parametrize(
    ("reach_back", "shown"), [(ReachBack.ALWAYS, "c"), (ReachBack.ONCE, "b\n\nc"), (ReachBack.NEVER, "a\n\nb\n\nc")]
)
def test_a_stray_closing_tag_reaches_back_as_told(reach_back: ReachBack, shown: str) -> None:
    assert strip_reasoning("a</think>b</think>c", reach_back=reach_back).text == shown


@given(OUTPUT, TURNS, REACH)
@example("a </think> <analysis>x</analysis>", "</think>", ReachBack.NEVER)
@example("` <think>\n\n</think> `<think>`", "", ReachBack.NEVER)
def test_stripping_twice_changes_nothing_more(output: str, turn: str, reach_back: ReachBack) -> None:
    once = strip_reasoning(output, turn, reach_back)
    assert strip_reasoning(once.text, turn, reach_back).text == once.text


@given(st.lists(PIECES | st.text(max_size=6), max_size=40), TURNS, REACH, st.integers(1, 7))
def test_any_pieces_give_the_same_text(parts: list[str], turn: str, reach_back: ReachBack, size: int) -> None:
    output = "".join(parts).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    scanner = ReasoningFilter(turn, reach_back)
    fed = "".join(scanner.feed(output[at : at + size]) for at in range(0, len(output), size)) + scanner.finish()
    assert fed == strip_reasoning(output, turn, reach_back).text


@given(st.text(), TURNS)
def test_stripping_never_raises(output: str, turn: str) -> None:
    strip_reasoning(output, turn)


@given(OUTPUT)
def test_outside_code_no_known_tag_is_left(output: str) -> None:
    kept = strip_reasoning(output).text
    at = 0
    for start, end in [*code_ranges(kept), (len(kept), len(kept))]:
        assert not any(tag in kept[at:start] for tag in ("<think>", "</think>", "[THINK]", "<scratchpad>"))
        at = end


GARBAGE = [
    "<",
    "<think>",
    "</think>",
    "<think",
    "`",
    "` ",
    "``a`",
    "[",
    "◁",
    "<|channel|>",
    "\n",
    " ",
    "```\n",
    "<a ",
    "~",
]


@pytest.mark.parametrize("shape", GARBAGE, ids=ascii)
def test_garbage_of_one_shape_is_read(shape: str) -> None:
    strip_reasoning(shape * (100_000 // len(shape)), "what is <think>?")


def test_a_million_characters_of_garbage_are_read() -> None:
    strip_reasoning("".join(shape * (1_000_000 // len(shape) // len(GARBAGE)) for shape in GARBAGE))


@pytest.mark.parametrize("shape", ["<", "` ", "<a ", "word "], ids=ascii)
def test_what_is_held_back_while_streaming_is_bounded(shape: str) -> None:
    scanner = ReasoningFilter("", ReachBack.NEVER)
    given = taken = 0
    for _ in range(20_000):
        given += len(shape)
        taken += len(scanner.feed(shape))
        assert given - taken < 1000
