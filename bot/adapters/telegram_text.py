"""Neutral Markdown as Telegram shows it: plain text with marked stretches in UTF-16 units, and its cuts; pure.

Whatever is no complete mark stays as it was written, so no text is ever refused for its markup and a text that
still grows shows half-open marks as they are.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import regex

from bot.adapters.telegram_marks import Chunks, Kind, add_inline
from bot.adapters.text import LEAST_LIMIT, length, normalise, pieces

FIRST_UNITS = 4090
"""Telegram takes 4,096 units of text after rendering."""
LATER_UNITS = 3900
"""Delivery may put a remark before every part but the first."""
MESSAGE_PARTS = 5
"""So many parts of an answer are messages; what is left over is one more part, sent as a file."""
ATOM_SHARE = 0.5
"""A marked stretch up to this share of a part is not cut."""
WIDE_TABLE = 2
"""A table is set in columns unless that makes it longer than this many times its source, and a little."""
WIDE_TABLE_ROOM = 200
"""Beside `WIDE_TABLE`: so many further units are always granted."""

_HEADING = re.compile(r"[ ]{0,3}#{1,6}[ \t]+(?P<words>[^\n]*?)(?:[ \t]+#+)?[ \t]*")
_RULE = re.compile(r"[ ]{0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})")
_ITEM = re.compile(r"(?P<indent>[ \t]*)(?P<mark>[-*+])[ \t]+(?P<box>\[[ xX]\][ \t]+)?(?=\S)")
_NUMBER = re.compile(r"[ \t]*\d{1,9}[.)][ \t]")
_QUOTE = re.compile(r"[ ]{0,3}>[ \t]?(?:[ ]{0,3}>[ \t]?)*")
_ROW_BAR = re.compile(r"(?<!\\)\|")
_TABLE_LINE = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
_HALF = re.compile("[\ud800-\udfff]")
_UNSEEN = regex.compile(r"[\s\p{Default_Ignorable_Code_Point}\p{C}\p{Z}\u2800]+")
_GRAPHEME = regex.compile(r"\X")
_BOXES = {"x": "☑", "X": "☑", " ": "☐"}


class LineKind(StrEnum):
    """What a line outside code is."""

    BLANK = "blank"
    HEADING = "heading"
    RULE = "rule"
    ITEM = "item"
    QUOTE = "quote"
    TABLE = "table"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Span:
    """A marked stretch of rendered text; `start` and `end` in UTF-16 units."""

    kind: Kind
    start: int
    end: int
    url: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class Rendered:
    """What a platform message shows."""

    text: str
    spans: tuple[Span, ...] = ()

    @property
    def units(self) -> int:
        """Return the length that counts."""
        return length(self.text, "utf16")


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the source: its bounds without the line break, and what it is."""

    start: int
    end: int
    kind: LineKind


def plain(text: str) -> Rendered:
    """Return `text` without any marks, as it is written; halves of characters are replaced."""
    return Rendered(_encodable(text).rstrip())


def render(text: str) -> Rendered:
    """Return `text` as it is shown. Never longer than what `split` allows for one of its parts."""
    shown = _chunks(_encodable(text)).rendered()
    words = shown.text.rstrip()
    if not _UNSEEN.sub("", words):
        return plain(text)  # marks around nothing
    end = length(words, "utf16")
    spans = (
        Span(each.kind, each.start, min(each.end, end), each.url, each.language)
        for each in shown.spans
        if each.start < min(each.end, end)
    )
    return Rendered(words, tuple(spans))


def split(text: str) -> list[str]:
    """Return `text` in parts that fit, written and rendered; joined they are the text but for fence lines.

    The part behind the first `MESSAGE_PARTS`, if there is one, is all that is left, however long. Nothing comes
    of a text in which nothing can be seen.
    """
    parts: list[str] = []
    rest = text
    while rest:
        if len(parts) == MESSAGE_PARTS:
            return [*parts, rest] if _UNSEEN.sub("", rest) else parts
        part, rest = _cut(rest, FIRST_UNITS if not parts else LATER_UNITS)
        if part:
            parts.append(part)
    return parts


def _cut(text: str, limit: int) -> tuple[str, str]:
    """Return the first part of `text` and what is left; both empty if nothing can be seen."""
    source, _ = normalise(text)
    room = limit
    while True:
        found = pieces(text, room, "utf16")
        if not found:
            return "", ""
        first = found[0]
        start = source.find(first.body)
        part, end = first.text, start + len(first.body)
        if len(found) > 1 and not first.closing:
            end = _outside_marks(source, start, end, limit)
            part = first.opening + source[start:end]
        if room <= LEAST_LIMIT or render(part).units <= limit:
            break
        room = max(LEAST_LIMIT, room // 2)
    if len(found) == 1:
        return part, ""
    return part, (found[1].opening if first.closing else "") + source[end:]


def _outside_marks(source: str, start: int, end: int, limit: int) -> int:
    """Return `end`, or the beginning of the marked stretch that it would cut."""
    for first, last in _chunks(source).atoms():
        fits = length(source[first:last], "utf16") <= limit * ATOM_SHARE
        if start < first < end < last and fits and len(_GRAPHEME.findall(source[first - 1 : first + 1])) > 1:
            return first
    return end


def _encodable(text: str) -> str:
    """Return `text` with pairs of halves joined and single halves replaced."""
    if not _HALF.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _chunks(text: str) -> "_Page":
    """Return what `text` is made of, rendered, each with its place in the source."""
    source, fences = normalise(text)
    page = _Page(source)
    at = 0
    for fence in fences:
        page.add_prose(at, fence.start)
        page.add_code(fence.start, fence.body, fence.body_end, fence.end)
        at = fence.end
    page.add_prose(at, len(source))
    return page


class _Page:
    """Renders one source from front to back."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._chunks = Chunks(source)

    def rendered(self) -> Rendered:
        """Return text and marks, the latter in UTF-16 units and in order."""
        text, marks = self._chunks.joined()
        wide = [0]
        for char in text:
            wide.append(wide[-1] + (char > "\uffff"))
        spans = [Span(m.kind, m.start + wide[m.start], m.end + wide[m.end], m.url, m.language) for m in marks]
        return Rendered(text, tuple(sorted(spans, key=lambda span: (span.start, -span.end))))

    def atoms(self) -> Iterator[tuple[int, int]]:
        """Yield the source's stretches that should not be cut, outermost first."""
        return self._chunks.atoms()

    def add_code(self, start: int, body: int, body_end: int, end: int) -> None:
        """Add a fenced block; its language is what the fence names first."""
        words = self._source[start:body].strip().lstrip("`~").split()
        code = self._source[body:body_end].removesuffix("\n")
        if not code.strip():
            self._chunks.add(self._source[start:end], start, end)
            return
        first = self._chunks.add(code, start, end)
        self._chunks.mark(Kind.PRE, first, first + 1, language=words[0] if words else "")

    def add_prose(self, start: int, end: int) -> None:
        """Add everything between two fenced blocks, paragraph by paragraph."""
        lines = self._lines(start, end)
        at = 0
        while at < len(lines):
            size = self._block_size(lines, at)
            block = lines[at : at + size]
            match block[0].kind:
                case LineKind.TABLE:
                    self._add_table(block)
                case LineKind.QUOTE:
                    self._add_quote(block)
                case _:
                    self._add_lines(block)
            at += size
            if block[-1].end < end:
                self._chunks.add("\n", block[-1].end, block[-1].end + 1)

    def _lines(self, start: int, end: int) -> list[_Line]:
        lines: list[_Line] = []
        while start < end:
            newline = self._source.find("\n", start, end)
            stop = end if newline < 0 else newline
            lines.append(_Line(start, stop, self._kind(start, stop)))
            start = stop + 1
        return self._with_tables(lines)

    def _kind(self, start: int, end: int) -> LineKind:
        line = self._source[start:end]
        if not line.strip():
            return LineKind.BLANK
        if _HEADING.fullmatch(line):
            return LineKind.HEADING
        if _RULE.fullmatch(line):
            return LineKind.RULE
        if _ITEM.match(line) or _NUMBER.match(line):
            return LineKind.ITEM
        return LineKind.QUOTE if _QUOTE.match(line) else LineKind.TEXT

    def _with_tables(self, lines: list[_Line]) -> list[_Line]:
        """Return the lines with header, ruler and rows of tables marked as such."""
        at = 0
        while at + 1 < len(lines):
            head, ruler = (self._source[line.start : line.end] for line in lines[at : at + 2])
            rows = 0
            if (
                "|" in ruler
                and _TABLE_LINE.fullmatch(ruler)
                and _cells(head)
                and len(_cells(head)) == len(_cells(ruler))
            ):
                rows = 2
                while at + rows < len(lines) and self._is_row(lines[at + rows]):
                    rows += 1
                lines[at : at + rows] = [_Line(one.start, one.end, LineKind.TABLE) for one in lines[at : at + rows]]
            at += max(1, rows)
        return lines

    def _is_row(self, line: _Line) -> bool:
        return line.kind is not LineKind.BLANK and bool(_ROW_BAR.search(self._source, line.start, line.end))

    def _block_size(self, lines: Sequence[_Line], at: int) -> int:
        """Return how many lines from `at` belong together: a table, a quotation, a paragraph with its item mark."""
        kind, size = lines[at].kind, 1
        if kind in (LineKind.BLANK, LineKind.HEADING, LineKind.RULE):
            return size
        goes_on = LineKind.TEXT if kind is LineKind.ITEM else kind
        while at + size < len(lines) and lines[at + size].kind is goes_on:
            size += 1
        return size

    def _add_lines(self, block: Sequence[_Line]) -> None:
        """Add a paragraph, an item, a heading, a rule or a blank line."""
        first, start, end = block[0], block[0].start, block[-1].end
        match first.kind:
            case LineKind.HEADING if found := _HEADING.fullmatch(self._source, start, end):
                begun = self._chunks.add("", start, found.start("words"))
                add_inline(self._chunks, found.start("words"), found.end("words"))
                ended = self._chunks.add("", found.end("words"), end)
                self._chunks.mark(Kind.BOLD, begun, ended + 1)
            case LineKind.RULE:
                self._chunks.add("———", start, end)
            case LineKind.ITEM if found := _ITEM.match(self._source, start, end):
                mark = _BOXES[found["box"][1]] if found["box"] else "•"
                self._chunks.add(f"{found['indent']}{mark} ", start, found.end())
                add_inline(self._chunks, found.end(), end)
            case _:
                add_inline(self._chunks, start, end)

    def _add_quote(self, block: Sequence[_Line]) -> None:
        """Add quoted lines as one quotation; Telegram has no second level."""
        begun = self._chunks.add("", block[0].start, block[0].start)
        for line in block:
            if line is not block[0]:
                self._chunks.add("\n", line.start - 1, line.start)
            found = _QUOTE.match(self._source, line.start, line.end)
            words = found.end() if found else line.start
            self._chunks.add("", line.start, words)
            kind = self._kind(words, line.end)
            self._add_lines([_Line(words, line.end, LineKind.TEXT if kind is LineKind.QUOTE else kind)])
        ended = self._chunks.add("", block[-1].end, block[-1].end)
        self._chunks.mark(Kind.QUOTE, begun, ended + 1)

    def _add_table(self, block: Sequence[_Line]) -> None:
        """Add a table in columns of fixed width, or as written where that would be too long."""
        start, end = block[0].start, block[-1].end
        source = self._source[start:end]
        rows = [[_words(cell) for cell in _cells(self._source[line.start : line.end])] for line in block]
        text = _columns([rows[0], *rows[2:]])
        if length(text, "utf16") > WIDE_TABLE * length(source, "utf16") + WIDE_TABLE_ROOM or not text.strip():
            text = source
        at = self._chunks.add(text, start, end)
        self._chunks.mark(Kind.PRE, at, at + 1)


def _cells(line: str) -> list[str]:
    """Return the cells of a row; none if it has no bar."""
    if not _ROW_BAR.search(line):
        return []
    inner = line.strip()
    inner = inner[1:] if inner.startswith("|") else inner
    inner = inner[:-1] if inner.endswith("|") and not inner.endswith("\\|") else inner
    return [cell.strip().replace("\\|", "|") for cell in _ROW_BAR.split(inner)]


def _words(cell: str) -> str:
    """Return the text of a cell without marks: nothing is marked within code."""
    chunks = Chunks(cell)
    add_inline(chunks, 0, len(cell))
    return chunks.joined()[0]


def _columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as lines whose cells stand below each other; a line below the first one."""
    count = len(rows[0])
    table = [[*row[:count], *[""] * (count - len(row))] for row in rows]
    widths = [max(_width(row[at]) for row in table) for at in range(count)]
    lines = ["  ".join(cell + " " * (widths[at] - _width(cell)) for at, cell in enumerate(row)) for row in table]
    lines.insert(1, "  ".join("─" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


def _width(text: str) -> int:
    """Return how many columns a text takes in a font of fixed width."""
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )
