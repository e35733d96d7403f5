"""Telegram's text: what Markdown becomes, and that every part fits, is whole and loses nothing."""

import re

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.adapters.telegram_marks import Kind
from bot.adapters.telegram_text import FIRST_UNITS, LATER_UNITS, MESSAGE_PARTS, Rendered, plain, render, split
from bot.adapters.text import length

HAT = "🎩"
FAMILY = "👩‍👩‍👧‍👦"


def marked(rendered: Rendered) -> list[tuple[str, str]]:
    """Return kind and words of every stretch, cut out by UTF-16 units as the platform does."""
    units = rendered.text.encode("utf-16-le")
    return [(str(s.kind), units[2 * s.start : 2 * s.end].decode("utf-16-le")) for s in rendered.spans]


@pytest.mark.parametrize(
    ("source", "text", "spans"),
    [
        ("**bold** and *thin*", "bold and thin", [("bold", "bold"), ("italic", "thin")]),
        ("__bold__ _thin_ ~~gone~~ ||hush||", "bold thin gone hush", None),
        ("***both***", "both", [("bold", "both"), ("italic", "both")]),
        ("**bold *both***", "bold both", [("bold", "bold both"), ("italic", "both")]),
        (f"{HAT} **x{HAT}**", f"{HAT} x{HAT}", [("bold", f"x{HAT}")]),
        ("a `x*y*z` b", "a x*y*z b", [("code", "x*y*z")]),
        ("**a `c` b**", "a c b", [("bold", "a "), ("code", "c"), ("bold", " b")]),
        ("[site](https://x.example/a_(b)_c)", "site", [("text_link", "site")]),
        ("[](https://x.example)", "https://x.example", []),
        ("<https://x.example/a_b_c>", "https://x.example/a_b_c", []),
        ("[no](javascript:alert)", "[no](javascript:alert)", []),
        (r"1\. \*as is\*", "1. *as is*", []),
        ("# Head *x*", "Head x", [("bold", "Head x"), ("italic", "x")]),
        ("- one\n  - two\n3. three", "• one\n  • two\n3. three", []),
        ("- [ ] open\n- [x] done", "☐ open\n☑ done", []),
        ("> said\n> **so**\nme", "said\nso\nme", [("blockquote", "said\nso"), ("bold", "so")]),
        ("a\n\n---\n\nb", "a\n\n———\n\nb", []),
        ("x\n```py\nif a:\n    b\n```\ny", "x\nif a:\n    b\ny", [("pre", "if a:\n    b")]),
    ],
)
def test_markdown_becomes_plain_text_with_marks(source: str, text: str, spans: list[tuple[str, str]] | None) -> None:
    rendered = render(source)
    assert rendered.text == text
    if spans is not None:
        assert marked(rendered) == spans


@pytest.mark.parametrize(
    "source",
    [
        "2 * 3 * 4 = 24", "snake_case_name and __init__x", "2*3*4", "a ** b", "unclosed **bold", "half [link](https",
        "lonely _ and [ and ( and `", "if (a||b||c)", "*.py and *.js", "¯\\(ツ)/¯", "C:\\temp", "~5 to ~7", "_ x _",
    ],
)  # fmt: skip
@pytest.mark.field("F005")
def test_what_is_no_complete_mark_stays_as_written(source: str) -> None:
    assert render(source) == Rendered(source)


def test_language_and_address_go_with_their_stretches() -> None:
    code, link = render("```python3\nx = 1\n```\n[a](https://x.example/?q=1)").spans
    assert (code.language, link.url) == ("python3", "https://x.example/?q=1")


@pytest.mark.field("F007")
def test_a_table_stands_in_columns_in_a_fixed_width_block() -> None:
    rendered = render("| name | **n** |\n|---|---:|\n| a\\|b | 1 |\n| 木 | 22 |\n\nafter")
    assert marked(rendered) == [("pre", "name  n\n────  ──\na|b   1\n木    22")]
    assert rendered.text.endswith("\n\nafter")


@pytest.mark.field("F007")
def test_only_marks_that_the_platform_knows_are_made() -> None:
    source = "# One\n## Two\n### Three\n- a\n  - b\n    - c\n\n| x |\n|---|\n| 1 |\n\n> q\n\n***\n\n<b>no</b>"
    rendered = render(source)
    assert {span.kind for span in rendered.spans} == {Kind.BOLD, Kind.PRE, Kind.QUOTE}
    assert "<b>no</b>" in rendered.text
    assert "#" not in rendered.text


def test_marks_around_nothing_are_shown_as_written() -> None:
    assert render("```\n```").text == "```\n```"


@pytest.mark.field("F006")
def test_a_growing_text_shows_half_open_marks_as_they_are() -> None:
    whole = "1. Fix (v1.2.3)! - fast **bold** [link](https://x.example)"
    for size in range(1, len(whole)):
        shown = render(whole[:size]).text
        assert shown in whole[:size] or "**" not in shown
    assert render(whole).text == "1. Fix (v1.2.3)! - fast bold link"
    assert render(whole[:31]).text == whole[:31]


def test_halves_of_characters_are_replaced_and_pairs_joined() -> None:
    assert render("a\ud83c b\ud83c\udfa9").text == f"a\ufffd b{HAT}"
    assert plain("\udfa9*x*").text == "\ufffd*x*"


@pytest.mark.field("F008")
@pytest.mark.parametrize("letters", range(4086, 4094))
@pytest.mark.parametrize("symbol", [HAT, FAMILY, "e\u0301", "🇩🇪"])
def test_a_symbol_on_the_cut_stays_whole(letters: int, symbol: str) -> None:
    text = "x" * letters + symbol * 40
    parts = split(text)
    assert "".join(parts) == text
    assert [regex.findall(r"\X", part)[-1] in ("x", symbol) for part in parts] == [True] * len(parts)
    assert all(render(part).units <= FIRST_UNITS for part in parts)


@pytest.mark.field("F004")
def test_markup_that_grows_is_measured_after_rendering() -> None:
    row = "|a|b|\n"
    text = (
        "|a very long head of a column that makes every row as long|b|\n|-|-|\n"
        + row * 900
        + "```py\n"
        + "x = 1\n" * 900
    )
    parts = split(text)
    assert len(parts) > 2
    assert all(render(part).units <= FIRST_UNITS for part in parts[:MESSAGE_PARTS])
    assert sum(part.count("|a|b|") for part in parts) == 900
    assert sum(part.count("x = 1") for part in parts) == 900


def test_a_cut_never_stands_inside_a_mark() -> None:
    text = "".join(f"word {n} **bold words {n}** and [a link](https://x.example/{n}) then.\n" for n in range(200))
    parts = split(text)
    assert len(parts) > 1
    assert "".join(parts) == text
    assert sum(len(render(part).spans) for part in parts) == 400


def test_a_cut_in_code_closes_the_fence_and_opens_it_again() -> None:
    parts = split("```py\n" + "print('line')\n" * 600 + "```")
    assert all(part.startswith("```py\n") and part.endswith("```") for part in parts)
    assert [[span.language for span in render(part).spans] for part in parts] == [["py"]] * len(parts)
    assert sum(part.count("print('line')\n") for part in parts) == 600


def test_what_is_left_over_after_five_messages_is_one_more_part() -> None:
    text = "A sentence of some words. " * 1500
    parts = split(text)
    assert len(parts) == MESSAGE_PARTS + 1
    assert "".join(parts) == text
    assert length(parts[-1], "utf16") > FIRST_UNITS
    assert len(split(text[: FIRST_UNITS + 3 * LATER_UNITS])) <= MESSAGE_PARTS


@pytest.mark.parametrize("text", ["", " \n ", "\u200b\u2060", "\n" * 9000])
def test_nothing_to_see_is_no_part(text: str) -> None:
    assert split(text) == []


MARKDOWN = st.lists(
    st.sampled_from(
        ["*", "**", "_", "__", "***", "~~", "||", "`", "``", "[", "](https://x.example/a)", "[a](https://b.example)",
         "\n", "\n\n", "> ", "- ", "# ", "1. ", "|", "|-|-|\n", "\n|a|b|\n", " ", "\\", "word", "木", HAT, FAMILY,
         "https://x.example/_a_", "\ud83c", "\udfa9", "e\u0301", "\u0600", "\u200b", "x" * 700, "y z " * 300]
    ),
    max_size=60,
).map("".join)  # fmt: skip
FENCED = st.lists(
    st.sampled_from(
        ["```py\n", "```\n", "~~~\n", "\n", "code\n" * 200, "**b** ", HAT * 50, "````\n", "    ", "z" * 999]
    ),
    max_size=40,
).map("".join)
WILD = st.text(st.characters(codec=None), max_size=400).map(lambda text: text * 25)


def without_fences(text: str) -> str:
    """Return the text without fence marks and white space, the only things that a cut may change."""
    return re.sub(r"[`~]{3,}(py)?|\s+", "", text)


@settings(max_examples=25, deadline=None)
@given(MARKDOWN | FENCED | WILD)
def test_every_part_fits_is_encodable_and_marks_lie_inside_of_it(text: str) -> None:
    for n, part in enumerate(split(text)[:MESSAGE_PARTS]):
        rendered = render(part)
        limit = LATER_UNITS if n else FIRST_UNITS
        assert max(rendered.units, plain(part).units) <= limit
        encoded = rendered.text.encode("utf-16-le")
        edges = {0} | {length(rendered.text[:at], "utf16") for at in range(1, len(rendered.text) + 1)}
        for span in rendered.spans:
            assert 0 <= span.start < span.end <= len(encoded) // 2
            assert {span.start, span.end} <= edges


@settings(max_examples=50, deadline=None)
@given(MARKDOWN | WILD)
def test_the_parts_joined_are_the_text(text: str) -> None:
    joined = "".join(split(text))
    assert without_fences(joined) == without_fences(text) or not joined


@settings(max_examples=50, deadline=None)
@given(FENCED)
def test_a_fenced_text_loses_nothing_but_fence_lines(text: str) -> None:
    assert without_fences("".join(split(text))) == without_fences(text)


@settings(max_examples=50, deadline=None)
@given(MARKDOWN | WILD)
def test_stretches_contain_each_other_or_keep_apart(text: str) -> None:
    spans = render(text[:4000]).spans
    for at, one in enumerate(spans):
        for other in spans[at + 1 :]:
            apart = other.start >= one.end
            assert apart or other.end <= one.end
