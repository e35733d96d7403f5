"""Where the files of each kind may be cut: Markdown and reStructuredText at headings, code at definitions. Pure."""

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from core.domain.chunks import HEADING_STEP, Block, Chunk, Cutter, chunk_lines, fits, paragraphs, split_lines
from core.domain.sources import ending


def chunk_file(path: str, text: str) -> tuple[Chunk, ...]:
    """Return the chunks of a file, in order: together they hold every line once. Empty for an empty file."""
    lines = split_lines(text)
    if not lines:
        return ()
    suffix = ending(path)
    return chunk_lines(lines, _CUTTERS.get(suffix, cut_code)(lines))


# Markdown and reStructuredText


@dataclass(frozen=True, slots=True)
class _Heading:
    """A heading that begins at line `at` and takes `lines` lines."""

    at: int
    lines: int
    level: int
    title: str


_FENCE = re.compile(r"\s*(?:[-*+>]\s+|\d+[.)]\s+)*(`{3,}|~{3,})(.*)")
_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*\Z")
_SETEXT = re.compile(r" {0,3}(=+|-{3,})[ \t]*\Z")
_NO_TITLE = re.compile(r"\s*(?:[-*+>|#]|\d+[.)]\s|\Z)|\s{4}")
FRONT_MATTER_LINES = 100


def cut_markdown(lines: Sequence[str]) -> list[Block]:
    """Return blocks that begin at headings and paragraphs; a fence is never cut if it fits into a chunk."""
    fences = _fences(lines)
    headings = []
    inside = [at for start, end in fences for at in range(start, end)]
    skipped = frozenset(inside)
    for at, raw in enumerate(lines):
        if at in skipped:
            continue
        line = raw.rstrip("\r")
        if marks := _ATX.match(line):
            headings.append(_Heading(at, 1, len(marks[1]), (marks[2] or "").strip()))
        elif (
            at + 1 < len(lines)
            and at + 1 not in skipped
            and (rule := _SETEXT.match(lines[at + 1].rstrip("\r")))
            and not _NO_TITLE.match(line)
            and (at == 0 or not lines[at - 1].strip())
        ):
            headings.append(_Heading(at, 2, 1 if rule[1][0] == "=" else 2, line.strip()))
    return _sections(lines, headings, fences)


def _fences(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Return front matter and fenced code as pairs of lines; a fence that is never closed ends with the file."""
    found: list[tuple[int, int]] = []
    at = 0
    if lines and lines[0].strip() == "---":
        closing = (i for i in range(1, min(len(lines), FRONT_MATTER_LINES)) if lines[i].strip() in ("---", "..."))
        if (end := next(closing, None)) is not None:
            found.append((0, end + 1))
            at = end + 1
    while at < len(lines):
        opening = _FENCE.match(lines[at])
        if opening is None or (opening[1][0] == "`" and "`" in opening[2]):
            at += 1
            continue
        end = at + 1
        while end < len(lines) and not _closes(lines[end], opening[1]):
            end += 1
        found.append((at, min(end + 1, len(lines))))
        at = end + 1
    return found


def _closes(line: str, mark: str) -> bool:
    shown = line.strip().lstrip("> \t")
    return len(shown) >= len(mark) and not shown.strip(mark[0])


def cut_restructured(lines: Sequence[str]) -> list[Block]:
    """Return blocks that begin at underlined titles and at paragraphs."""
    headings: list[_Heading] = []
    levels: dict[tuple[str, bool], int] = {}
    at = 0
    while at < len(lines):
        over = _rule(lines[at])
        title = at + (over is not None)
        under = _rule(lines[title + 1]) if title + 1 < len(lines) else None
        words = lines[title].strip() if title < len(lines) else ""
        if (
            under is not None
            and words
            and _rule(lines[title]) is None
            and (over is None or over == under)
            and (over is not None or not lines[title][0].isspace())
            and len(lines[title + 1].strip()) >= len(words)
            and (at == 0 or not lines[at - 1].strip())
        ):
            level = levels.setdefault((under, over is not None), len(levels) + 1)
            headings.append(_Heading(at, title + 2 - at, level, words))
            at = title + 2
        else:
            at += 1
    return _sections(lines, headings, ())


def _rule(line: str) -> str | None:
    """Return the sign of which a line of at least three consists."""
    shown = line.rstrip()
    same = len(shown) >= 3 and not shown[0].isalnum() and not shown[0].isspace() and shown == shown[0] * len(shown)
    return shown[0] if same else None


def _sections(lines: Sequence[str], headings: Sequence[_Heading], whole: Sequence[tuple[int, int]]) -> list[Block]:
    first = headings[0].at if headings else len(lines)
    blocks = paragraphs(lines, 0, first, "", whole) if first else []
    path: list[_Heading] = []
    for heading, following in zip(headings, [*headings[1:], None], strict=False):
        path = [each for each in path if each.level < heading.level] + [heading]
        symbol = HEADING_STEP.join(each.title for each in path if each.title)
        begin, end = heading.at + heading.lines, following.at if following is not None else len(lines)
        while begin < end and not lines[begin].strip():
            begin += 1
        blocks.append(Block(heading.at, begin, symbol, opens=True, leads=True))
        if begin < end:
            blocks += paragraphs(lines, begin, end, symbol, whole)
    return blocks


# Python

_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def cut_python(lines: Sequence[str]) -> list[Block]:
    """Return blocks at statements and definitions; what does not parse is cut like any other code."""
    if any("\r" in line.removesuffix("\r") for line in lines):
        return cut_code(lines)  # Python counts other lines there than editors do
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the file's author, who is not here
            body = ast.parse("\n".join(lines)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # all of them the parser's words for "no"
        return cut_code(lines)
    return _statements(lines, body, 0, len(lines), "") if body else cut_code(lines)


def _statements(lines: Sequence[str], body: Sequence[ast.stmt], start: int, end: int, scope: str) -> list[Block]:
    """Return blocks for statements in order; lines between them belong to the one before."""
    begins: list[tuple[int, ast.stmt]] = []
    used = start
    for statement in body:
        at = _first_line(lines, statement, used)
        if at >= used and (not begins or at > begins[-1][0]):  # else it shares a line with the one before
            begins.append((at, statement))
        used = max(used, statement.end_lineno or 0)
    if not begins:
        return [Block(start, end, scope)]
    blocks = [Block(start, begins[0][0], scope, leads=True)] if begins[0][0] > start else []
    for (at, statement), (after, _) in zip(begins, [*begins[1:], (end, None)], strict=False):
        blocks.append(_statement(lines, statement, at, after, scope))
    return blocks


def _statement(lines: Sequence[str], statement: ast.stmt, start: int, end: int, scope: str) -> Block:
    symbol = scope
    if isinstance(statement, _Scope):
        symbol = f"{scope}.{statement.name}" if scope else statement.name
    inner = () if fits(lines, start, end) else tuple(_inner(statement))
    parts = tuple(_statements(lines, inner, start, end, symbol)) if inner else ()
    return Block(start, end, symbol, parts=parts if len(parts) > 1 else ())


def _inner(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements right below this one, those of its branches included, in order of lines."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from child.body


def _first_line(lines: Sequence[str], statement: ast.stmt, used: int) -> int:
    """Return where a statement begins, its decorators and the comments right above it included."""
    numbers = [statement.lineno]
    if isinstance(statement, _Scope):
        numbers += [decorator.lineno for decorator in statement.decorator_list]
    at = min(numbers) - 1
    while at > used and lines[at - 1].lstrip().startswith("#"):
        at -= 1
    return at


# Any other text

_DEFINITION = re.compile(
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|sealed|async|unsafe|open|override|"
    r"inline|const|data|extern|pub(?:\([a-z: ]*\))?)\s+)*"
    r"(?:func|fn|fun|function\*?|def|defp|defmodule|class|struct|interface|trait|enum|type|impl|module|namespace|object|"
    r"record|protocol|extension|sub|proc|macro_rules!|macro|create\s+(?:or\s+replace\s+)?(?:table|function|view))\s+"
    r"(?:\([^()]{0,80}\)\s*|<[^<>]{0,80}>\s*)?([\w$.:]+)",
    re.IGNORECASE,
)
_ABOVE = ("//", "/*", " *", "*/", "*", "#", "--", "@", ";", "[")
"""What a line begins with that belongs to the definition below it: comments, attributes, decorators."""


def cut_code(lines: Sequence[str]) -> list[Block]:
    """Return blocks that begin at unindented lines behind a blank one, and at definitions."""
    starts = [0] + [at for at in range(1, len(lines)) if _begins(lines, at)]
    return [
        Block(start, end, _defined(lines, start, end))
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=False)
    ]


def _begins(lines: Sequence[str], at: int) -> bool:
    line, before = lines[at], lines[at - 1]
    if not line.strip() or line[0].isspace():
        return False
    if not before.strip():
        return True
    return _DEFINITION.match(line) is not None and not before.startswith(_ABOVE)


def _defined(lines: Sequence[str], start: int, end: int) -> str:
    for line in lines[start:end]:
        if line[:1].strip() and (found := _DEFINITION.match(line)):
            return found[1]
    return ""


_CUTTERS: dict[str, Cutter] = {
    ".md": cut_markdown,
    ".mdx": cut_markdown,
    ".markdown": cut_markdown,
    ".rst": cut_restructured,
    ".txt": lambda lines: paragraphs(lines, 0, len(lines)),
    ".py": cut_python,
    ".pyi": cut_python,
}
