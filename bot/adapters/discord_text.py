"""Answers as Discord shows them: Markdown as it is, tables as fixed-width blocks, parts within the limit. Pure."""

import re
from collections.abc import Sequence

from bot.adapters.text import split

TEXT_LIMIT_CHARS = 2000
"""The longest text a person can write."""
PART_LIMIT_UNITS = 1990
"""The longest part we send, in UTF-16 units, which is the stricter way to count."""

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_ROW = re.compile(r"^ {0,3}\|?[^|\n]*\|[^\n]*$")
_RULE = re.compile(r"^ {0,3}\|?[ ]*:?-+:?[ ]*(?:\|[ ]*:?-+:?[ ]*)*\|?[ ]*$")
_WIDEST = 60
"""A cell is padded up to this width; wider ones make their line longer."""


def parts_of(text: str) -> list[str]:
    """Return an answer in the parts that are sent."""
    return split(with_tables(text), PART_LIMIT_UNITS, "utf16")


def with_tables(text: str) -> str:
    """Return a text in which each Markdown table is an aligned block of code; all else stays as it is."""
    if "|" not in text:
        return text
    lines = text.split("\n")
    out: list[str] = []
    fence, at = "", 0
    while at < len(lines):
        mark = _FENCE.match(lines[at])
        if mark is not None and (not fence or (mark[1][0] == fence[0] and len(mark[1]) >= len(fence))):
            fence = "" if fence else mark[1]
        end = at if fence or mark is not None else _table_end(lines, at)
        if end > at:
            out += ["```", *_aligned(lines[at:end]), "```"]
            at = end
        else:
            out.append(lines[at])
            at += 1
    return "\n".join(out)


def _table_end(lines: Sequence[str], at: int) -> int:
    """Return the line behind the table that begins here; `at` itself if none does."""
    if at + 1 >= len(lines) or not _ROW.match(lines[at]) or "|" not in lines[at + 1] or not _RULE.match(lines[at + 1]):
        return at
    end = at + 2
    while end < len(lines) and _ROW.match(lines[end]):
        end += 1
    # Marks of code inside would end the block early.
    return at if any("```" in line for line in lines[at:end]) else end


def _aligned(rows: Sequence[str]) -> list[str]:
    cells = [_cells(row) for row in rows]
    columns = max(map(len, cells))
    widths = [min(_WIDEST, max(len(row[n]) for row in cells if n < len(row))) for n in range(columns)]
    out = []
    for number, row in enumerate(cells):
        filled = [*row, *[""] * (columns - len(row))]
        if number == 1:
            filled = ["-" * width for width in widths]
        out.append(" | ".join(cell.ljust(width) for cell, width in zip(filled, widths, strict=True)).rstrip())
    return out


def _cells(row: str) -> list[str]:
    body = row.strip().removeprefix("|").removesuffix("|").replace("\\|", "\x00")
    return [cell.strip().replace("\x00", "|") for cell in body.split("|")]
