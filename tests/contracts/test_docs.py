"""The documents say what is true: commands, files, words, settings, tests and links that they name exist."""

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from bot.cli import _parser
from bot.commands import COMMANDS
from bot.observability import METRICS
from bot.pass_settings import PassSettings
from bot.settings import Settings, variable_names
from core.store.embedded import PgRefusal
from scripts.house import ROOT, sources
from scripts.listing import PAGE, rewritten

DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
DECISIONS = sorted((DOCS / "decisions").glob("*.md"))
HEADINGS = ["Context", "Decision", "Consequences", "Alternatives", "Enforced by"]
MOST_CONTEXT_SENTENCES = 4
# What the front matter of the project promises to explain; a new word in code is added here first.
WORDS = {
    *("community", "room", "person", "message", "venue", "audience", "mind", "operation", "journal", "pass", "slot"),
    *("phase", "candidate", "receipt", "turn", "case", "obligation", "sanction", "investigation", "round", "stage"),
    *("unit", "purse", "lane", "job", "attempt", "claim", "lease", "worker", "outbox", "inbox"),
}

_FENCE = re.compile(r"(?ms)^```(\w*)\n(.*?)^```$")
_TICKED = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def shown(page: Path) -> Iterator[str]:
    """Yield what a page shows as typed: lines of its blocks and ticked words, comments and prompts left out."""
    for _, block in _FENCE.findall(text(page)):
        yield from (line.removeprefix("$ ").partition(" #")[0].strip() for line in block.splitlines())
    yield from _TICKED.findall(_FENCE.sub("", text(page)))


def typed(page: Path, program: str) -> Iterator[list[str]]:
    """Yield the arguments with which a page calls `program`, also behind a pipe, a path or a variable."""
    for line in shown(page):
        for piece in re.split(r"\||&&|;", line):
            found = re.match(
                rf"(?:[A-Z_]+=\S+ )*(?:\S*/)?{program}(?: (.*))?$", piece.strip().removesuffix("&").strip()
            )
            if found is not None:
                yield shlex.split((found[1] or "").replace("…", ""))


def parses(words: list[str]) -> bool:
    """Return whether the program takes these words; a subcommand named without its arguments counts as well."""
    if not words:
        return True
    try:
        _parser().parse_args([{"ROLE": "web", "FILE": "file"}.get(word, word) for word in words])
    except SystemExit:
        return _leads_somewhere(words)
    return True


def _leads_somewhere(words: list[str]) -> bool:
    parser: argparse.ArgumentParser | None = _parser()
    for word in words:
        acts = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)] if parser else []
        parser = acts[0].choices.get(word) if acts else None
        if parser is None:
            return False
    return True


def targets() -> set[str]:
    """Return the targets of make that have a help line."""
    return set(re.findall(r"(?m)^([a-z-]+):.*## ", text(ROOT / "Makefile")))


def names_of_tests() -> set[str]:
    """Return the name of every test function there is."""
    return {name for source in sources("tests") for name in re.findall(r"def (test_\w+)\(", source.text)}


def words_of(page: str) -> set[str]:
    """Return the first cells of a page's tables, without ticks."""
    return {cell.strip("` ") for cell in re.findall(r"(?m)^\| ([^|]+?) \|", page)}


def sections(page: Path) -> dict[str, str]:
    """Return the text under each heading of the second level."""
    parts = re.split(r"(?m)^## (.+)$", text(page))
    return dict(zip(parts[1::2], (part.strip() for part in parts[2::2]), strict=True))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_shown_are_commands_of_the_program(page: Path) -> None:
    assert [words for words in typed(page, "voidbot") if not parses(words)] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_targets_shown_are_targets_of_make(page: Path) -> None:
    asked = {words[0] for words in typed(page, "make") if words}
    assert asked - targets() == set()


def test_commands_are_seen() -> None:
    assert ["jobs", "list", "--state", "dead", "--limit", "20"] in list(typed(DOCS / "operations.md", "voidbot"))
    assert ["up"] in list(typed(ROOT / "README.md", "make"))
    assert ["chat", "--json"] in list(typed(ROOT / "README.md", "voidbot"))
    assert not parses(["nothing"]) and not parses(["jobs", "nothing"]) and not parses(["up", "--nothing"])
    assert parses(["jobs"]) and parses(["run", "web"]) and not parses(["run", "nothing"])


def test_every_command_is_shown_in_the_readme() -> None:
    table = [
        tuple(re.split(r" \| ", line.strip("| "))) for line in text(ROOT / "README.md").splitlines() if "| `/" in line
    ]
    rows = {row[0].strip("` "): row[1] for row in table}
    asked = {
        " ".join([f"/{spec.path}", *(each.name if each.required else f"[{each.name}]" for each in spec.options)]): (
            f"{spec.access}s" if spec.access != "admin" else "administrators"
        )
        for spec in COMMANDS
    }
    assert rows == asked


def test_every_target_is_in_the_readme() -> None:
    assert [name for name in sorted(targets() - {"help"}) if f"`{name}`" not in text(ROOT / "README.md")] == []


def test_every_file_is_in_the_architecture_page_with_its_first_line() -> None:
    page, files = text(PAGE), sources("bot", "core")
    # If this fails: python -m scripts.listing
    assert page == rewritten(page, files)
    assert [source.name for source in files if f"| [`{source.name}`](" not in page] == []


def test_every_word_is_in_the_glossary() -> None:
    assert WORDS - words_of(text(DOCS / "glossary.md")) == set()


SETTINGS = pytest.mark.parametrize(("heading", "section"), [("Settings", Settings), ("Unattended work", PassSettings)])


@SETTINGS
def test_every_setting_is_in_the_page_for_operators(heading: str, section: type[BaseModel]) -> None:
    rows = words_of(sections(DOCS / "operations.md")[heading]) - {"variable", "---"}
    assert rows == set(variable_names(section))


@SETTINGS
def test_defaults_of_settings_are_those_of_the_code(heading: str, section: type[BaseModel]) -> None:
    rows = re.findall(r"(?m)^\| `([A-Z_]+)` \| (none|`[^`]*`) \|", sections(DOCS / "operations.md")[heading])
    fields = {field.alias: field.default for field in section.model_fields.values() if field.alias}
    shown_as = {name: _plain(value) for name, value in fields.items()}
    assert {name: default.strip("`") for name, default in rows} == shown_as


def _plain(value: object) -> str:
    match value:
        case None | () | "":
            return "none"
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)


def test_every_refusal_of_the_embedded_server_is_explained() -> None:
    rows = words_of(sections(DOCS / "operations.md")["When the embedded server does not start"])
    assert {str(code) for code in PgRefusal} <= rows


def test_metrics_that_are_named_exist() -> None:
    asked = {name for page in PAGES for name in re.findall(r"\bvoidbot_([a-z]+_[a-z_]+)\b", text(page))}
    assert asked and asked - {metric.name for metric in METRICS} == set()


def test_decisions_are_numbered_without_gaps_and_complete() -> None:
    assert [page.name[:4] for page in DECISIONS] == [f"{n:04d}" for n in range(1, len(DECISIONS) + 1)]
    for page in DECISIONS:
        assert re.fullmatch(r"\d{4}(-[a-z0-9]+)+\.md", page.name), page.name
        assert text(page).startswith(f"# {page.name[:4]} "), page.name
        assert re.search(
            r"(?m)^Status: (accepted|superseded by \d{4}) · Date: \d{4}-\d\d-\d\d · Area: \w+$", text(page)
        )
        assert list(sections(page)) == HEADINGS and all(sections(page).values()), page.name


@pytest.mark.parametrize("page", DECISIONS, ids=named)
def test_a_decision_is_one_sentence_with_its_cost(page: Path) -> None:
    found = sections(page)
    quoted = found["Decision"]
    assert quoted.startswith("> ") and "\n" not in quoted and len(re.findall(r"[.!?](?= |$)", quoted)) == 1
    assert len(re.findall(r"[.!?](?=\s|$)", found["Context"])) <= MOST_CONTEXT_SENTENCES
    assert "\n- Cost: " in found["Consequences"]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_cited_tests_exist(page: Path) -> None:
    assert set(re.findall(r"\btest_\w+\b(?!\.py)", text(page))) - names_of_tests() == set()


@pytest.mark.parametrize("page", DECISIONS, ids=named)
def test_a_decision_names_what_enforces_it(page: Path) -> None:
    assert re.search(r"`(test_\w+|make \w+)`", sections(page)["Enforced by"])


def test_every_decision_is_listed_for_contributors() -> None:
    listed = re.findall(r"(?m)^- \[(\d{4})\]\(docs/decisions/([\w-]+\.md)\) (.+)$", text(ROOT / "CONTRIBUTING.md"))
    assert listed == [(page.name[:4], page.name, text(page).splitlines()[0][7:]) for page in DECISIONS]


def test_decisions_that_code_names_exist() -> None:
    numbers = {n for each in sources("bot", "core", "tests") for n in re.findall(r"\bADR (\d{4})\b", each.text)}
    assert numbers <= {page.name[:4] for page in DECISIONS}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    links = [link.partition("#")[0] for link in _LINK.findall(_FENCE.sub("", text(page))) if "://" not in link]
    assert [link for link in links if link and not (page.parent / link).exists()] == []


def test_documents_speak_of_the_product_alone() -> None:
    foreign = re.compile(r"(?i)/wor[k]/|/tmp/(?!voidbot)|\b(TODO|FIXME)\b")
    assert [named(page) for page in PAGES if foreign.search(text(page))] == []
