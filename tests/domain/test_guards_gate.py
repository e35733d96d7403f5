"""The sentence gate: what a stream shows is a beginning of what the whole text gives."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.chat.guards import Blocked, Guard, GuardContext, Guarded, SentenceGate, guard, word_runs
from core.chat.promises import read_promises
from core.chat.sentences import Sentences, split_sentences
from core.chat.stripping import ReachBack, strip_reasoning

STOCK = Path(__file__).parents[2] / "prompts" / "stock" / "promises.md"
SYSTEM = "one two three four five six seven eight nine ten"
CONTEXT = GuardContext(
    system_runs=word_runs(SYSTEM),
    marker="abcdefghij23",
    own_messages=("The tea is ready. Come in.", "Yes."),
    promises=read_promises("prompts/stock/promises.md", STOCK.read_text(encoding="utf-8")),
    memory_line="(nothing was kept)",
)
PARTS = st.one_of(
    st.sampled_from(["Yes. ", "The tea is ready. ", "Come in. ", "It rains. ", "Why? ", "e.g. this ", "am 3. Mai "]),
    st.sampled_from(["<think>", "</think>", "<thinking>", "</thinking>", "[THINK]", "[/THINK]", "<|channel|>final"]),
    st.sampled_from(
        ["```py\n", "```\n", "\n", "\n\n", "`", "**", "[a](b. C) ", "日本。", "🎩", "\ud83c", "\udfa9", " "]
    ),
    st.sampled_from(
        ["I'll remember that. ", "one two three four. ", "five six seven eight. ", "HEARTBEAT_OK", "SILENT."]
    ),
    st.sampled_from(
        ["sk-", "a1" * 20, "abcdefghij23", "word " * 300 + ". ", "para\n\n" * 200, "<thi", "nk>", "\u200b"]
    ),
    st.text(max_size=8),
)
OUTPUT = st.lists(PARTS, max_size=40).map("".join)
REACH = st.sampled_from(list(ReachBack))


def run(pieces: list[str], reach_back: ReachBack = ReachBack.NEVER) -> tuple[SentenceGate, str]:
    gate = SentenceGate(CONTEXT, "what is <think>?", reach_back)
    return gate, "".join(sentence for piece in pieces for sentence in gate.feed(piece))


def cut(output: str, sizes: list[int]) -> list[str]:
    pieces: list[str] = []
    while output:
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(output[:size])
        output = output[size:]
    return pieces


@given(OUTPUT, st.lists(st.integers(1, 40), min_size=1, max_size=5), REACH)
@example("The tea is ready. Come in.", [1], ReachBack.NEVER)
@example("Secret thoughts. More.</think>Hello. Bye.", [3], ReachBack.ONCE)
@example("para\n\n" * 1200 + "end. More", [7], ReachBack.NEVER)
def test_any_pieces_show_a_beginning_of_the_final_text(output: str, sizes: list[int], reach_back: ReachBack) -> None:
    gate, shown = run(cut(output, sizes), reach_back)
    whole = guard(strip_reasoning(output, "what is <think>?", reach_back).text, CONTEXT)
    assert gate.finish() == whole
    assert shown == gate.shown
    match whole:
        case Guarded(text):
            assert text.startswith(shown)
        case Blocked(Guard.EMPTY | Guard.SENTINEL | Guard.REPEAT):
            assert shown == ""
        case Blocked(_):
            assert not shown or isinstance(guard(shown, CONTEXT), Guarded)


@given(OUTPUT, st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_sentences_do_not_depend_on_the_pieces(output: str, sizes: list[int]) -> None:
    sentences = Sentences()
    found = [sentence for piece in cut(output, sizes) for sentence in sentences.feed(piece)]
    assert found + sentences.finish() == split_sentences(output)
    assert "".join(split_sentences(output)) == output


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four", ["One. ", "Two! ", "Three? ", "Four"]),
        ("Dr. Who came at 3 p.m. on Monday.", ["Dr. Who came at 3 p.m. on Monday."]),
        ("Das ist z.B. Tee. Gut.", ["Das ist z.B. Tee. ", "Gut."]),
        ("Am 3. Mai kam J. Smith. Ja.", ["Am 3. Mai kam J. Smith. ", "Ja."]),
        ("1. Fix (v1.2.3)! - fast", ["1. Fix (v1.2.3)! - fast"]),
        ("**Bold. Still bold.** After. End", ["**Bold. Still bold.** ", "After. ", "End"]),
        ("A `code. More` here. End", ["A `code. More` here. ", "End"]),
        ("A [link. More](x. Y) here. End", ["A [link. More](x. Y) here. ", "End"]),
        ("Text\n```py\na. B\n\nc\n```\nEnd", ["Text\n", "```py\na. B\n\nc\n```\n", "End"]),
        ("Open **bold. More\n\nNext. End", ["Open **bold. More\n\n", "Next. ", "End"]),
        ("日本。本日。", ["日本。", "本日。"]),
        ('He said "No." Then left.', ['He said "No." ', "Then left."]),
    ],
)
def test_where_sentences_end(text: str, sentences: list[str]) -> None:
    assert split_sentences(text) == sentences


def test_a_sentence_shows_once_the_next_one_begins() -> None:
    gate, _ = run([])
    assert gate.feed("It rains. ") == []
    assert gate.feed("Take") == ["It rains."]
    assert gate.feed(" a coat. X") == [" Take a coat."]


def test_thinking_cut_in_half_never_shows() -> None:
    _, shown = run(list("Well. <thi") + list("nk>SECRET. Secret. </thi") + list("nk>It rains. So"))
    assert shown == "Well.\n\nIt rains."


def test_thinking_that_the_template_opened_is_held_back() -> None:
    gate, shown = run(list("SECRET. They ask.</think>\nIt rains. Take a coat"), ReachBack.ONCE)
    assert shown == "It rains."
    assert gate.finish() == Guarded("It rains. Take a coat")


def test_a_refused_sentence_ends_the_stream_before_it() -> None:
    gate, shown = run(["It rains. ", "The key is sk-" + "a1" * 20 + ". ", "Bye. End"])
    assert shown == "It rains."
    assert gate.refused is Guard.SECRET
    assert gate.finish() == Blocked(Guard.SECRET)


def test_a_line_of_the_prompt_over_two_sentences_is_not_completed() -> None:
    gate, shown = run(["One two three four. ", "Five six seven eight. ", "End"])
    assert shown == "One two three four."
    assert gate.refused is Guard.PROMPT_ECHO


@pytest.mark.parametrize("text", ["Yes.\n", "The tea is ready. Come in.\n", "HEARTBEAT_OK\n", "\u200b\n\n", "@ana\n"])
def test_what_is_refused_as_a_whole_shows_nothing(text: str) -> None:
    gate, shown = run(list(text))
    assert shown == ""
    assert isinstance(gate.finish(), Blocked)


@pytest.mark.parametrize("text", ['{"text": "Tea. Now. End"', '```json\n{"text": "Tea. Now. End', "~~~\n\n{\n  1. End"])
def test_what_may_become_a_draft_in_json_shows_nothing(text: str) -> None:
    _, shown = run(list(text))
    assert shown == ""


def test_code_that_cannot_become_a_draft_shows() -> None:
    _, shown = run(["```json\n", "[1]\n", "```\n", "That is a list. End"])
    assert shown.startswith("```json\n[1]")


def test_a_former_message_with_a_further_sentence_shows() -> None:
    _, shown = run(["The tea is ready. ", "Come in. ", "Sit down. End"])
    assert shown == "The tea is ready. Come in. Sit down."


def test_a_promise_is_replaced_before_it_shows() -> None:
    _, shown = run(list("Fine. I'll remember that. It rains. End"))
    assert shown == "Fine. (nothing was kept) It rains."


def test_much_text_in_small_pieces_is_read() -> None:
    gate, shown = run(["word. Next "] * 20_000)
    assert len(shown) <= 6000
    assert isinstance(gate.finish(), Guarded)


@pytest.mark.parametrize("shape", ["a\n", "`", "**a. B ", "[", "A. ", "```\n", " ", "word"], ids=ascii)
def test_garbage_of_one_shape_is_gated(shape: str) -> None:
    gate, _ = run([shape] * 10_000)
    gate.finish()
    split_sentences(shape * (300_000 // len(shape)))
