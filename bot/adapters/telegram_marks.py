"""The marks inside a paragraph of neutral Markdown: code, links, emphasis, escapes; pure and linear in its length."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The marked stretches that Telegram knows, by its names."""

    BOLD = "bold"
    ITALIC = "italic"
    STRIKE = "strikethrough"
    SPOILER = "spoiler"
    CODE = "code"
    PRE = "pre"
    LINK = "text_link"
    QUOTE = "blockquote"


_WHOLE = frozenset({Kind.CODE, Kind.PRE})
"""Nothing may be marked inside of these, nor they inside of a style."""
_LOOSE = frozenset({Kind.BOLD, Kind.ITALIC, Kind.STRIKE, Kind.SPOILER})
_STYLES: dict[str, tuple[Kind, ...]] = {
    "***": (Kind.BOLD, Kind.ITALIC),
    "___": (Kind.BOLD, Kind.ITALIC),
    "**": (Kind.BOLD,),
    "__": (Kind.BOLD,),
    "*": (Kind.ITALIC,),
    "_": (Kind.ITALIC,),
    "~~": (Kind.STRIKE,),
    "||": (Kind.SPOILER,),
}
_ADDRESS = r"(?:https?://|tg://|mailto:)(?:[^\s()<>]|\([^\s()<>]{0,300}\)){1,2000}"
_TOKEN = re.compile(
    rf"""
      \\(?P<escaped>[\\`*_~|\[\]#+.!<>-])
    | (?P<ticks>`+)
    | !?\[(?P<label>(?:[^\[\]\\\n]|\\.|\[[^\[\]\n]{{0,200}}\]){{0,500}})\]
      \([ ]?<?(?P<url>{_ADDRESS})>?(?:[ ]+"[^"\n]{{0,300}}")?[ ]?\)
    | <(?P<auto>{_ADDRESS})>
    | (?P<bare>https?://[^\s<>]{{0,2000}}[^\s<>*_~|`)\].,;:!?'"])
    | (?P<run>\*+|_+|~+|\|+)
    """,
    re.VERBOSE,
)
_TICKS = re.compile(r"`+")


@dataclass(frozen=True, slots=True)
class Mark:
    """A marked stretch; `start` and `end` in characters of the rendered text."""

    kind: Kind
    start: int
    end: int
    url: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class _Marked:
    """A marked stretch by its chunks; `end` is behind the last."""

    kind: Kind
    start: int
    end: int
    url: str
    language: str


class Chunks:
    """Rendered text in small pieces that know where they stand in the source."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._texts: list[str] = []
        self._places: list[tuple[int, int]] = []
        self._marked: list[_Marked] = []

    def add(self, text: str, start: int, end: int) -> int:
        """Add what is shown for a stretch of the source; return the chunk's number."""
        self._texts.append(text)
        self._places.append((start, end))
        return len(self._texts) - 1

    def hide(self, chunk: int) -> None:
        """Show nothing in the place of a chunk: it was a mark."""
        self._texts[chunk] = ""

    def mark(self, kind: Kind, first: int, end: int, url: str = "", language: str = "") -> None:
        """Mark the chunks from `first` to before `end`."""
        self._marked.append(_Marked(kind, first, end, url, language))

    def joined(self) -> tuple[str, list[Mark]]:
        """Return the text and its marks; styles leave out code, as the platform wants it."""
        starts = [0]
        for text in self._texts:
            starts.append(starts[-1] + len(text))
        marks = [Mark(m.kind, starts[m.start], starts[m.end], m.url, m.language) for m in self._marked]
        whole = sorted((mark.start, mark.end) for mark in marks if mark.kind in _WHOLE)
        kept = [one for mark in marks for one in (_without(mark, whole) if mark.kind in _LOOSE else (mark,))]
        return "".join(self._texts), [mark for mark in kept if mark.start < mark.end]

    def atoms(self) -> Iterator[tuple[int, int]]:
        """Yield where the source should not be cut, outermost first. Quotations and fences go on in a next part."""
        found = ((self._places[m.start][0], self._places[m.end - 1][1]) for m in self._marked if self._holds(m))
        return iter(sorted(found, key=lambda place: (place[0], -place[1])))

    def _holds(self, marked: _Marked) -> bool:
        start, _ = self._places[marked.start]
        fenced = marked.kind is Kind.PRE and self.source[start : start + 32].lstrip().startswith(("```", "~~~"))
        return marked.kind is not Kind.QUOTE and not fenced


def _without(mark: Mark, holes: list[tuple[int, int]]) -> Iterator[Mark]:
    """Yield what of a style lies outside the holes, which are in order."""
    at = mark.start
    for start, end in holes:
        if end <= at or start >= mark.end:
            continue
        yield Mark(mark.kind, at, start)
        at = end
    yield Mark(mark.kind, at, mark.end)


def add_inline(chunks: Chunks, start: int, end: int, *, label: bool = False) -> None:
    """Add a paragraph of the source. `label`: it is the text of a link, in which there is neither code nor link."""
    _Paragraph(chunks, start, end, label=label).add()


class _Paragraph:
    """Reads one paragraph from front to back, with the marks that are open."""

    def __init__(self, chunks: Chunks, start: int, end: int, *, label: bool) -> None:
        self._chunks, self._source = chunks, chunks.source
        self._start, self._end, self._label = start, end, label
        self._open: list[tuple[str, int]] = []
        # The last run of each length of backticks: a longer search for its twin would find nothing.
        self._last_ticks = {len(run[0]): run.start() for run in _TICKS.finditer(self._source, start, end)}

    def add(self) -> None:
        at = self._start
        for token in _TOKEN.finditer(self._source, self._start, self._end):
            if token.start() < at:
                continue  # inside code
            self._text(at, token.start())
            at = self._token(token)
        self._text(at, self._end)

    def _text(self, start: int, end: int) -> None:
        if start < end:
            self._chunks.add(self._source[start:end], start, end)

    def _token(self, token: re.Match[str]) -> int:
        """Add one token; return where the next text begins."""
        start, end = token.span()
        match token.lastgroup:
            case "escaped":
                self._chunks.add(token["escaped"], start, end)
            case "ticks":
                return self._code(start, end)
            case "url" if not self._label:
                self._link(token)
            case "auto":
                self._chunks.add(token["auto"], start, end)
            case "run" if token["run"] in _STYLES:
                self._style(token["run"], start, end)
            case _:
                self._chunks.add(token[0], start, end)
        return end

    def _code(self, start: int, end: int) -> int:
        """Add code if its backticks end again, else the backticks."""
        size = end - start
        if self._last_ticks.get(size, 0) > start:
            for run in _TICKS.finditer(self._source, end, self._end):
                if len(run[0]) == size:
                    code = self._source[end : run.start()]
                    padded = len(code) > 2 and code.startswith(" ") and code.endswith(" ") and code.strip()
                    at = self._chunks.add(code[1:-1] if padded else code, start, run.end())
                    if not self._label:
                        self._chunks.mark(Kind.CODE, at, at + 1)
                    return run.end()
        self._chunks.add(self._source[start:end], start, end)
        return end

    def _link(self, token: re.Match[str]) -> None:
        """Add a link with its text, or with its address where it has none."""
        start, end = token.span()
        if not token["label"].strip():
            self._chunks.add(token["url"], start, end)
            return
        first = self._chunks.add("", start, token.start("label"))
        add_inline(self._chunks, token.start("label"), token.end("label"), label=True)
        last = self._chunks.add("", token.end("label"), end)
        self._chunks.mark(Kind.LINK, first, last + 1, url=token["url"])

    def _style(self, run: str, start: int, end: int) -> None:
        """Close what the run closes, else open what it may open; what nothing closes stays as it is written."""
        before = self._source[start - 1] if start > self._start else " "
        after = self._source[end] if end < self._end else " "
        bound = run[0] != "*" or len(run) == 1
        opens = not after.isspace() and not (bound and before.isalnum() and (run[0] != "*" or after.isalnum()))
        closes = not before.isspace() and not (bound and after.isalnum() and (run[0] != "*" or before.isalnum()))
        chunk = self._chunks.add(run, start, end)
        names = [name for name, _ in self._open]
        if closes and run in names:
            self._close(run, chunk)
        elif closes and len(run) == 3 and {run[:1], run[:2]} <= set(names):
            inner = next(name for name in reversed(names) if name in (run[:1], run[:2]))
            self._close(inner, chunk)
            self._close(run[: 3 - len(inner)], chunk)
        elif opens and run not in names:
            self._open.append((run, chunk))

    def _close(self, run: str, chunk: int) -> None:
        """Mark from the opening run to `chunk`; what was opened between them and not closed is no mark."""
        while self._open:
            name, first = self._open.pop()
            if name == run:
                self._chunks.hide(first)
                self._chunks.hide(chunk)
                for kind in _STYLES[run]:
                    self._chunks.mark(kind, first, chunk + 1)
                return
