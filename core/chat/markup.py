"""Where code stands in Markdown, what is visible, and text that can be encoded; read the same in any pieces."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import regex

HEAD_CHARS = 200
"""How much of a line decides whether it opens or closes a fence; a longer line does neither."""
SPAN_CHARS = 500
"""The longest inline code; a span never leaves its line, so a lost backtick hides little."""
RUN_CHARS = 64
"""The longest run of backticks that opens inline code."""

_INDENT = r"[ \t>]{0,32}"
_OPENING = re.compile(rf"{_INDENT}(?P<run>`{{3,64}}(?=[^`]*\Z)|~{{3,64}}(?!~)).*", re.DOTALL)
_CLOSING = re.compile(rf"{_INDENT}(?P<run>`{{3,64}}|~{{3,64}})[ \t\r]*")
_MAY_TURN = re.compile(rf"{_INDENT}(?:`{{0,64}}[^`]*|~{{1,64}}.*)?", re.DOTALL)
_MARGIN = re.compile(rf"{_INDENT}")
_RUN = re.compile(r"`+")
# Draws nothing: zero-width and bidi characters, fillers, tags, controls, lone marks, the blank braille cell.
_INVISIBLE = regex.compile(r"[\s\p{Default_Ignorable_Code_Point}\p{C}\p{Z}\p{Mn}\p{Me}\u2800]+")


@dataclass(frozen=True, slots=True)
class CodeFence:
    """An open fence: its character and how many of them it takes to close it."""

    mark: str
    size: int


@dataclass(frozen=True, slots=True)
class LineHead:
    """What a line does: the fence that is open after it, and the index behind it if it opens or closes one."""

    fence: CodeFence | None
    end: int
    turns: bool


def mend_surrogates(text: str) -> str:
    """Return `text` with halves joined where they belong together and replaced where they do not."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def has_visible(text: str) -> bool:
    """Return whether anything of `text` would be seen."""
    return bool(_INVISIBLE.sub("", text))


def read_head(text: str, at: int, fence: CodeFence | None, final: bool) -> LineHead | None:
    """Return what the line that starts at `at` does, or None if more text is needed to tell.

    `final`: nothing comes after `text`.
    """
    newline = text.find("\n", at, at + HEAD_CHARS)
    line = text[at : at + HEAD_CHARS] if newline < 0 else text[at:newline]
    if newline < 0 and len(line) < HEAD_CHARS and not final:
        return None if _may_turn(line) else LineHead(fence, at, False)
    if len(line) == HEAD_CHARS:
        return LineHead(fence, at, False)
    after = _after_line(line, fence)
    if after == fence:
        return LineHead(fence, at, False)
    return LineHead(after, at + len(line) + (newline >= 0), True)


def is_fence(text: str) -> bool:
    """Return whether `text`, which begins a line, begins with a code fence."""
    head = read_head(text, 0, None, final=True)
    return head is not None and head.turns


def _may_turn(line: str) -> bool:
    margin = _MARGIN.match(line)
    start = margin.end() if margin else 0
    return start == len(line) or (line[start] in "`~" and _MAY_TURN.fullmatch(line) is not None)


def _after_line(line: str, fence: CodeFence | None) -> CodeFence | None:
    if fence is not None:
        closing = _CLOSING.fullmatch(line)
        ends = closing is not None and closing["run"][0] == fence.mark and len(closing["run"]) >= fence.size
        return None if ends else fence
    opening = _OPENING.fullmatch(line)
    return CodeFence(opening["run"][0], len(opening["run"])) if opening else None


def span_end(text: str, at: int, run: int) -> int | None:
    """Return the index behind the inline code that opens with `run` backticks at `at`; None if it does not close.

    To tell for certain, `text` must hold the whole line or `SPAN_CHARS` + `RUN_CHARS` more characters.
    """
    start = at + run
    newline = text.find("\n", start, start + SPAN_CHARS)
    limit = min(start + SPAN_CHARS, len(text)) if newline < 0 else newline
    found = text.find("`" * run, start, limit)
    while found >= 0:
        ends = _RUN.match(text, found)
        behind = ends.end() if ends else found + run
        if behind - found == run:
            return behind
        found = text.find("`" * run, behind, limit)
    return None


def code_ranges(text: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges of `text` that are code, fences with their lines included, in order."""
    at, fence, opened = 0, None, 0
    while at < len(text):
        head = read_head(text, at, fence, final=True)
        if head is not None and head.turns:
            if head.fence is None:
                yield opened, head.end
            elif fence is None:
                opened = at
            at, fence = head.end, head.fence
            continue
        newline = text.find("\n", at)
        behind = len(text) if newline < 0 else newline + 1
        if fence is None:
            yield from _spans(text, at, behind)
        at = behind
    if fence is not None:
        yield opened, len(text)


def _spans(text: str, at: int, behind: int) -> Iterator[tuple[int, int]]:
    while (run := _RUN.search(text, at, behind)) is not None:
        size = run.end() - run.start()
        end = span_end(text, run.start(), size) if size <= RUN_CHARS else None
        if end is not None:
            yield run.start(), end
        at = end or run.end()


def open_fence(text: str) -> CodeFence | None:
    """Return the fence that is open at the end of `text`."""
    at, fence = 0, None
    while at < len(text):
        head = read_head(text, at, fence, final=True)
        if head is not None and head.turns:
            at, fence = head.end, head.fence
            continue
        newline = text.find("\n", at)
        at = len(text) if newline < 0 else newline + 1
    return fence
