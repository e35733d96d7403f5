"""Splitting: every part within the limit, nothing cut that belongs together, nothing lost."""

import re

import pytest
import regex
from hypothesis import example, given
from hypothesis import strategies as st

from bot.adapters.text import INFO_CHARS, LEAST_LIMIT, length, normalise, pieces, split

LIMITS = st.integers(LEAST_LIMIT, 400)
UNITS = st.sampled_from(["chars", "utf16"])
FRAGMENTS = st.one_of(
    st.sampled_from(["\n", "\n\n", "```", "```py\n", "```\n", "~~~\n", "````\n", "`code`", "   ", "\r\n"]),
    st.sampled_from([" ", "word ", "Sentence. ", "日本。", "x" * 70, "[a](https://x.org/y)", "<@12345>"]),
    st.sampled_from(["<:smile:123456>", "🎩", "👩‍👩‍👧‍👦", "🇩🇪", "e\u0301", "\ud83c", "\udfa9", "\u200b"]),
)
MARKDOWN = st.lists(FRAGMENTS | st.text(max_size=30), max_size=120).map("".join)
WILD = st.text(alphabet=st.characters(), max_size=800)
FENCE_LINE = re.compile(r"^[ \t]*(?:```|~~~).*$", re.MULTILINE)


def seen(text: str) -> str:
    return str(regex.sub(r"[\s\p{Default_Ignorable_Code_Point}\p{C}\p{Z}\p{M}\u2800]+", "", text))


@given(MARKDOWN | WILD, LIMITS, UNITS)
@example("```py\n" + "x" * 500, 128, "chars")
@example("`" * 2000, 128, "chars")
@example("a" * 127 + "🎩" * 100, 128, "utf16")
@example("\u0301" * 700, 128, "chars")
def test_every_part_is_within_the_limit_and_can_be_seen(text: str, limit: int, unit: str) -> None:
    for part in split(text, limit, unit):  # type: ignore[arg-type]  # drawn from the two units
        assert length(part, unit) <= limit  # type: ignore[arg-type]  # as above
        assert seen(part) or part.strip()


@given(MARKDOWN | WILD, LIMITS, UNITS)
def test_bodies_joined_are_the_text_apart_from_parts_nobody_can_see(text: str, limit: int, unit: str) -> None:
    joined = "".join(piece.body for piece in pieces(text, limit, unit))  # type: ignore[arg-type]  # as above
    assert joined in (text, normalise(text)[0]) or seen(joined) == seen(normalise(text)[0])


@given(
    st.lists(st.sampled_from(["word ", "long" * 9 + " ", "End. ", "\n", "\n\n", "🎩", "日本。"]), max_size=200).map(
        "".join
    ),
    LIMITS,
)
def test_without_fences_the_parts_joined_are_the_text(text: str, limit: int) -> None:
    assert "".join(split(text, limit)).strip() == text.strip()


@given(MARKDOWN | WILD)
def test_shortest_fence_lines_change_only_fence_lines(text: str) -> None:
    assert FENCE_LINE.sub("", normalise(text)[0]) == FENCE_LINE.sub("", text)


@given(MARKDOWN, LIMITS)
def test_no_part_leaves_a_fence_open(text: str, limit: int) -> None:
    for part in split(text, limit):
        fences = normalise(part)[1]
        assert all(fence.end > fence.body_end for fence in fences)


@given(
    st.lists(st.sampled_from(["e\u0301", "👩‍👩‍👧‍👦", "🇩🇪", "ก็", "\r\n", "x"]), max_size=400).map("".join), LIMITS, UNITS
)
def test_no_grapheme_is_cut(text: str, limit: int, unit: str) -> None:
    whole = regex.findall(r"\X", text)
    cut = [g for piece in pieces(text, limit, unit) for g in regex.findall(r"\X", piece.body)]  # type: ignore[arg-type]  # as above
    assert [g for g in cut if seen(g)] == [g for g in whole if seen(g)]


ATOMS = [
    "[a link](https://example.org/page)",
    "<@123456789012345678>",
    "<:smile:123456789>",
    "<#5>",
    "https://example.org/a?b=c",
]


@pytest.mark.parametrize("atom", ATOMS)
@pytest.mark.parametrize("pad", range(60, 128, 3))
def test_no_link_mention_or_emoji_is_cut(atom: str, pad: int) -> None:
    text = "x" * pad + f" {atom} " + "y" * 100
    assert sum(part.count(atom) for part in split(text, 128)) == 1


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("a" * 60 + "\n\n" + "b" * 20 + "\n" + "c" * 100, "a" * 60 + "\n\n"),
        ("a" * 60 + "\n" + "b" * 20 + ". " + "c" * 100, "a" * 60 + "\n"),
        ("a" * 60 + ". " + "b" * 20 + " " + "c" * 100, "a" * 60 + ". "),
        ("a" * 60 + " " + "c" * 100, "a" * 60 + " "),
        ("a" * 10 + "\n\n" + "b" * 60 + " " + "c" * 100, "a" * 10 + "\n\n" + "b" * 60 + " "),
        ("日" * 70 + "。" + "本" * 100, "日" * 70 + "。"),
    ],
    ids=["paragraph", "line", "sentence", "blank", "not_below_the_least_share", "wide_sentence"],
)
def test_the_best_cut_is_taken(text: str, first: str) -> None:
    assert split(text, 128)[0] == first


def test_a_text_that_fits_is_left_as_it_is() -> None:
    assert split("  ```py x\nhello\n   ```  \n", 128) == ["  ```py x\nhello\n   ```  \n"]


def test_a_fence_left_open_is_closed() -> None:
    assert split("see:\n```py\nx = 1", 128) == ["see:\n```py\nx = 1\n```"]


def test_long_information_behind_a_fence_mark_is_dropped() -> None:
    parts = split("```" + "i" * (INFO_CHARS + 1) + "\n" + "line\n" * 60 + "```", 128)
    assert {part.splitlines()[0] for part in parts} == {"```"}


def test_what_nobody_can_see_makes_no_part() -> None:
    assert split(" \n\u200b" * 500, 128) == []
    assert split("", 128) == []
    assert [part.strip() for part in split("a" + " " * 1000 + "b", 128)] == ["a", "b"]


def test_a_limit_below_the_least_one_is_refused() -> None:
    with pytest.raises(ValueError, match="below"):
        split("text", LEAST_LIMIT - 1)


GARBAGE = ["[", "[a](", "`", "```\n", "<", "@", "https://", "\u0301", " ", "\n", "🎩", "~~~a\n", "[](x", "**"]


@pytest.mark.parametrize("garbage", GARBAGE, ids=ascii)
def test_garbage_of_one_shape_is_split(garbage: str) -> None:
    text = garbage * (100_000 // len(garbage))
    assert all(length(part, "utf16") <= 4090 for part in split(text, 4090, "utf16"))


def test_a_million_characters_of_garbage_are_split() -> None:
    text = "".join(garbage * (1_000_000 // len(garbage) // len(GARBAGE)) for garbage in GARBAGE)
    assert all(length(part, "utf16") <= 4090 for part in split(text, 4090, "utf16"))
