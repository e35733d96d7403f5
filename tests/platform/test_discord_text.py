"""What is sent to Discord: parts within the limit, and tables that stay readable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.adapters.discord_text import PART_LIMIT_UNITS, parts_of, with_tables
from bot.adapters.text import length

_INVISIBLE = "\u2800\u115f\u1160\u17b4\u17b5\u3164\uffa0"
_SEEN = st.characters(categories=["L", "N", "P", "S"], exclude_characters=f"|`~{_INVISIBLE}")
_PIECE = st.text(_SEEN, max_size=20) | st.sampled_from([" ", "\n", "🎩", "👩‍🚀", "e\u0301", "x" * 700])
_SOME = st.lists(_PIECE, max_size=40).map("".join)


@given(st.lists(_SOME, max_size=30).map("\n\n".join))
def test_every_part_fits_and_nothing_is_lost(text: str) -> None:
    parts = parts_of(text)
    assert all(length(one, "utf16") <= PART_LIMIT_UNITS for one in parts)
    assert all(one.encode() for one in parts)
    assert "".join(parts).split() == text.split()


@given(st.text("|-: \nab`~", max_size=200))
def test_a_table_made_of_anything_keeps_every_word(text: str) -> None:
    made = with_tables(text)
    assert [char for char in made if char in "ab"] == [char for char in text if char in "ab"]


@pytest.mark.field("F001")
def test_a_long_program_is_code_in_every_part() -> None:
    program = "\n".join(f"def f{n}(): return '{n} ' * {n}" for n in range(300))
    parts = parts_of(f"```py\n{program}\n```")
    assert len(parts) > 1
    assert all(one.startswith("```py\n") and one.rstrip().endswith("```") for one in parts)
    assert "".join(one.removeprefix("```py\n").rstrip().removesuffix("```") for one in parts).split() == program.split()


@pytest.mark.field("F002")
@pytest.mark.parametrize("size", range(1_980, 2_011))
def test_closing_a_fence_pushes_no_part_over_the_limit(size: int) -> None:
    text = "```\n" + "x" * (size - 4)
    assert all(length(one, "utf16") <= 2_000 for one in parts_of(text))


def test_a_table_becomes_an_aligned_block() -> None:
    text = "Scores:\n\n| name | points |\n|---|---:|\n| Ada | 12 |\n| Bob \\| Co | 3 |\n\nDone."
    assert with_tables(text) == (
        "Scores:\n\n```\nname     | points\n-------- | ------\nAda      | 12\nBob | Co | 3\n```\n\nDone."
    )


def test_a_table_inside_code_stays_as_it_is() -> None:
    text = "```\n| a | b |\n|---|---|\n| 1 | 2 |\n```"
    assert with_tables(text) == text


def test_bars_without_a_rule_are_no_table() -> None:
    assert with_tables("a | b\nc | d") == "a | b\nc | d"
