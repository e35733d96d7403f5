"""The table of commands: read alike everywhere, never raising, and no row of it open to who may not use it."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bot.commands import COMMANDS, question_of
from bot.commands.parse import BadOption, Parsed, Unknown, parse
from bot.commands.spec import Access, OptionType

WORDS = st.sampled_from(
    [word for spec in COMMANDS for word in spec.path.split()]
    + [f"{option.name}:" for spec in COMMANDS for option in spec.options]
    + ['"', "\\", '\\"', ":", "\n", "\t", " ", "\x00", "\u2028", "{{x}}", "yes", "no", "open", "/", "@void", "é", "🎩"]
)
LINES = st.one_of(st.text(max_size=200), st.lists(WORDS, max_size=20).map("".join), st.lists(WORDS).map(" ".join))


@given(LINES)
@example('/search person:"')
@example("/ask " + '"\\" ' * 500)
def test_any_line_is_read_without_an_error(line: str) -> None:
    for text in (line, f"/{line}", f"/void {line}", f"/search {line}"):
        parsed = parse(text, COMMANDS)
        match parsed:
            case Parsed(spec, options):
                assert set(options) <= {option.name for option in spec.options}
                for option in spec.options:
                    assert not option.required or options[option.name].strip()
                    assert not option.choices or options.get(option.name, option.choices[0]) in option.choices
            case BadOption(_, option, expected):
                assert option and expected
            case Unknown(word):
                assert word
        question_of(text)


@given(st.text(min_size=1).filter(lambda text: text.strip() != ""))
def test_a_quoted_value_comes_through_as_it_was_written(value: str) -> None:
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    parsed = parse(f'/search person:"{quoted}" lamp', COMMANDS)
    assert isinstance(parsed, Parsed)
    assert parsed.options == {"person": value, "query": "lamp"}


@pytest.mark.parametrize("gap", [" ", "   ", "\n", "\t", "\r\n", "\u00a0", " \n "])
def test_any_white_space_parts_a_command_from_its_options(gap: str) -> None:
    asked = parse(f"/ask{gap}where is the lamp?", COMMANDS)
    assert isinstance(asked, Parsed) and asked.options["question"] == "where is the lamp?"
    mode = parse(f"/void{gap}mode{gap}lurk{gap}archive:on", COMMANDS)
    assert isinstance(mode, Parsed) and mode.options == {"mode": "lurk", "archive": "on"}


@pytest.mark.parametrize(
    ("line", "path", "options"),
    [
        ("/WHY-SILENT", "why-silent", {}),
        ("/why_silent message:m3", "why-silent", {"message": "m3"}),
        ("/void budget room answers 5", "void budget", {"scope": "room", "unit": "answers", "amount": "5"}),
        ("/void budget scope:room amount:0 unit:usd", "void budget", {"scope": "room", "unit": "usd", "amount": "0"}),
        ("/ask private:yes what now", "ask", {"private": "yes", "question": "what now"}),
        ("/ask what private:yes now", "ask", {"private": "yes", "question": "what now"}),
        (
            '/search room:#lobby since:2d "blue lamp"',
            "search",
            {"room": "#lobby", "since": "2d", "query": '"blue lamp"'},
        ),
        ("/search see https://example.org/a:b", "search", {"query": "see https://example.org/a:b"}),
        ("/help void budget", "help", {"command": "void budget"}),
    ],
)
def test_options_are_read(line: str, path: str, options: dict[str, str]) -> None:
    parsed = parse(line, COMMANDS)
    assert isinstance(parsed, Parsed)
    assert (parsed.spec.path, dict(parsed.options)) == (path, options)


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("/search", "query"),
        ('/ask ""', "question"),
        ("/ask private:maybe hello", "private"),
        ("/void mode loud", "mode"),
        ("/void mode open archive:perhaps", "archive"),
        ("/void persona", "name"),
        ("/void budget planet answers 5", "scope"),
        ("/usage now", "now"),
        ("/void mode open on 90d keep CODE2345 extra", "extra"),
    ],
)
def test_a_bad_option_is_named(line: str, option: str) -> None:
    parsed = parse(line, COMMANDS)
    assert isinstance(parsed, BadOption)
    assert parsed.option == option


@pytest.mark.parametrize(
    ("line", "word"), [("/", "/"), ("/nope", "nope"), ("/void", "void"), ("/void nope", "void nope")]
)
def test_an_unknown_command_is_said_to_be_one(line: str, word: str) -> None:
    assert parse(line, COMMANDS) == Unknown(word)


@pytest.mark.parametrize("spec", COMMANDS, ids=lambda spec: spec.path)
def test_every_row_of_the_table_is_whole(spec: object) -> None:
    row = next(each for each in COMMANDS if each is spec)
    assert row.summary and row.path == row.path.lower() and "_" not in row.path
    assert [each.path for each in COMMANDS].count(row.path) == 1
    assert row.path.startswith("void ") == (row.access is not Access.MEMBER)
    names = [option.name for option in row.options]
    assert len(set(names)) == len(names) and all(option.summary for option in row.options)
    assert sum(option.type is OptionType.TEXT for option in row.options) <= 1
    assert [option for option in row.options if option.type is OptionType.TEXT] in ([], list(row.options[-1:]))


def test_only_an_ask_with_a_question_is_a_turn() -> None:
    assert question_of("/ask what is up") == ("what is up", False)
    assert question_of("/ask private:yes what is up") == ("what is up", True)
    assert question_of("/ask") is None
    assert question_of("/search what") is None
    assert question_of("just /ask") is None
