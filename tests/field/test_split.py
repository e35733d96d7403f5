"""Reports from the field about answers that were cut wrongly or refused for their length."""

import re

import pytest
import regex

from bot.adapters.text import length, pieces, split

DISCORD = 1990
TELEGRAM = 4090
MARK = re.compile(r"(?m)^```.*\n?|\n```$")


@pytest.mark.field("F001")
def test_every_part_of_a_long_code_answer_is_code() -> None:
    code = "".join(f"value_{n} = compute({n})  # step {n}\n" for n in range(300))
    parts = split(f"Here it is:\n\n```py\n{code}```\nDone.", DISCORD, "utf16")
    assert len(parts) > 5
    assert all(part.count("```") == 2 and length(part, "utf16") <= DISCORD for part in parts)
    assert all(part.startswith("```py\n") for part in parts[1:])
    assert "".join(MARK.sub("", part) for part in parts).replace("\n", "") == f"Here it is:{code}Done.".replace(
        "\n", ""
    )


@pytest.mark.field("F002")
@pytest.mark.parametrize("size", range(1980, 2011))
def test_closing_a_fence_never_exceeds_the_limit(size: int) -> None:
    head = "Look:\n```python\n"
    text = head + ("x = 1\n" * size)[: size - len(head)]
    parts = split(text, DISCORD, "utf16")
    assert all(length(part, "utf16") <= DISCORD for part in parts)
    assert all(part.count("```") == 2 for part in parts)


@pytest.mark.field("F003")
def test_prose_without_paragraphs_arrives_whole_and_in_order() -> None:
    text = "".join(f"Sentence number {n} is here. " for n in range(230))[:6500].strip()
    parts = split(text, DISCORD, "utf16")
    assert "".join(parts) == text
    assert all(part.rstrip().endswith(".") for part in parts[:-1])


@pytest.mark.field("F004")
def test_a_text_that_has_grown_is_measured_as_it_is_sent() -> None:
    rendered = ("• 🎩 item with a long name\n" * 20 + "```\n" + "a < b && c\n" * 20 + "```\n") * 17
    parts = split(rendered, TELEGRAM, "utf16")
    assert len(rendered) > 12_000
    assert all(len(part.encode("utf-16-le")) // 2 <= TELEGRAM for part in parts)
    assert "".join(piece.body for piece in pieces(rendered, TELEGRAM, "utf16")) == rendered


@pytest.mark.field("F008")
@pytest.mark.parametrize("emoji", ["🎩", "👩‍👩‍👧‍👦", "🇩🇪", "👍🏽"])
@pytest.mark.parametrize("shift", range(6))
def test_no_emoji_is_cut(emoji: str, shift: int) -> None:
    text = "x" * (TELEGRAM - shift) + emoji * 900
    parts = split(text, TELEGRAM, "utf16")
    assert all(length(part, "utf16") <= TELEGRAM for part in parts)
    assert [g for part in parts for g in regex.findall(r"\X", part)] == regex.findall(r"\X", text)
    assert "".join(parts).encode() == text.encode()
