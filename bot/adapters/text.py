"""Cuts one text into the messages of a platform; pure.

Law: a cut loses nothing. White space at a cut stays at the end of the earlier part, so the bodies of all parts
joined are the text. Three things alone may differ, all of them named here: fence lines (an open fence is closed
and opened again; information after an opening mark is dropped beyond 32 characters, its indentation and what
white space trails a closing mark always), a fence that the text leaves open is closed, and a part in which
nothing can be seen is left out, because no platform takes it.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import regex

Unit = Literal["chars", "utf16"]
"""How a platform counts: code points, or code units of UTF-16 (an emoji is 2 or more)."""

LEAST_LIMIT = 128
"""The smallest limit a fence with its language fits into."""
LEAST_SHARE = 0.4
"""A part is at least this full, unless a link, a mention, a grapheme or a fence line would be cut."""
INFO_CHARS = 32
RUN_CHARS = 16
"""The longest fence mark that is closed and opened again; a longer one is plain text."""

_FENCE_LINE = re.compile(r"(?m)^[ \t]{0,32}(?P<run>`{3,16}|~{3,16})(?P<info>[^\n]*)(?P<newline>\n?)")
# What may not be cut: links, addresses, mentions, custom emoji, dates, short inline code.
_ATOM = re.compile(
    r"\[[^\[\]\n]{0,300}\]\((?:[^()\s]|\([^()\s]{0,200}\)){0,1000}(?:[ ]\"[^\"\n]{0,200}\")?\)"
    r"|https?://[^\s<>]{1,1800}"
    r"|<(?:[@#][!&]?[0-9]{1,20}|a?:\w{1,64}:[0-9]{1,20}|t:-?[0-9]{1,16}(?::[tTdDfFRsS])?|/[\w -]{1,100}:[0-9]{1,20}"
    r"|id:\w{1,40}|(?:https?|mailto|tg):[^\s<>]{1,1800})>"
    r"|(?<![\w@])@\w{1,64}"
    r"|(?<!`)`[^`\n]{1,100}`(?!`)"
)
_ROOM = re.compile(r"\s+")
_WIDE_STOP = re.compile(r"[。！？]+[」』）”’]*")
_SENTENCE_END = re.compile(r"[.!?…。！？][\"'”’»)\]*_~`]*\Z")
_GRAPHEME = regex.compile(r"\X")
_UNSEEN = regex.compile(r"[\s\p{Default_Ignorable_Code_Point}\p{C}\p{Z}\p{Mn}\p{Me}\u2800]+")
_HALVES = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_BEYOND_WINDOW = 64


@dataclass(frozen=True, slots=True)
class Piece:
    """One part: what was put before, a stretch of the text, what was put behind."""

    opening: str
    body: str
    closing: str

    @property
    def text(self) -> str:
        """Return what is sent."""
        return self.opening + self.body + self.closing


@dataclass(frozen=True, slots=True)
class _Fence:
    """Where a fence stands in the plain text; `end` is behind its closing mark, which may be missing."""

    start: int
    body: int
    body_end: int
    end: int
    run: str
    opening: str


def length(text: str, unit: Unit = "chars") -> int:
    """Return how long `text` is for a platform."""
    return len(text) if unit == "chars" else len(text) + sum(char > "\uffff" for char in text)


def split(text: str, limit: int, unit: Unit = "chars") -> list[str]:
    """Return `text` in parts of at most `limit` units; none if nothing of it can be seen.

    Cuts at a paragraph, else a line, a sentence, a blank, a grapheme; never inside a link, a mention or a custom
    emoji that fits into a part.

    Raises:
        ValueError: The limit is below `LEAST_LIMIT`.
    """
    return [piece.text for piece in pieces(text, limit, unit)]


def pieces(text: str, limit: int, unit: Unit = "chars") -> list[Piece]:
    """Return what `split` gives, with what was added kept apart."""
    if limit < LEAST_LIMIT:
        raise ValueError(f"limit {limit} is below {LEAST_LIMIT}")
    plain, fences = normalise(text)
    if length(text, unit) <= limit and not (fences and fences[-1].end == fences[-1].body_end):
        found = [Piece("", text, "")]
    else:
        found = list(_Cutter(plain, fences, limit, unit).pieces())
    return [piece for piece in found if piece.opening or _UNSEEN.sub("", piece.text)]


def normalise(text: str) -> tuple[str, list[_Fence]]:
    """Return `text` with its fence lines in their shortest form, and where the fences stand."""
    out: list[str] = []
    size, at = 0, 0
    fences: list[_Fence] = []
    opened: tuple[int, int, str, str] | None = None
    for match in _FENCE_LINE.finditer(text):
        run, info = match["run"], match["info"].strip()
        if opened is None:
            if (run[0] == "`" and "`" in info) or info.startswith(run[0]) or not match["newline"]:
                continue
            line = run + (info if len(info) <= INFO_CHARS else "") + "\n"
        elif info.strip(run[0]) or run[0] != opened[2][0] or len(run) < len(opened[2]):
            continue
        else:
            line = opened[2] + match["newline"]
        out += [text[at : match.start()], line]
        size += match.start() - at
        at = match.end()
        if opened is None:
            opened = (size, size + len(line), run, line)
        else:
            start, body, run, opening = opened
            fences.append(_Fence(start, body, size, size + len(run), run, opening))
            opened = None
        size += len(line)
    out.append(text[at:])
    size += len(text) - at
    if opened is not None:
        fences.append(_Fence(opened[0], opened[1], size, size, opened[2], opened[3]))
    return "".join(out), fences


class _Cutter:
    """Finds the cuts of one text, from front to back."""

    def __init__(self, text: str, fences: list[_Fence], limit: int, unit: Unit) -> None:
        self._text = text
        self._limit = limit
        self._fences = fences
        self._fence_starts = [fence.start for fence in fences]
        # Places of the characters that count twice.
        self._wide = [at for at, char in enumerate(text) if char > "\uffff"] if unit == "utf16" else []
        # What fits into no part may be cut anywhere.
        self._atoms = [m.span() for m in _ATOM.finditer(text) if length(m.group(), unit) <= limit]
        self._atom_starts = [start for start, _ in self._atoms]

    def pieces(self) -> Iterator[Piece]:
        """Yield the parts in order."""
        start = 0
        while start < len(self._text):
            inside = self._fence_around(start)
            opening = inside.opening if inside and start > inside.start else ""
            end = self._end(start, self._limit - self._units_of(opening))
            around = self._fence_around(end)
            closing = ""
            if around is not None and end > around.start:
                closing = around.run if self._text[end - 1] == "\n" else f"\n{around.run}"
            yield Piece(opening, self._text[start:end], closing)
            start = end

    @staticmethod
    def _units_of(opening: str) -> int:
        return length(opening, "utf16")

    def _fence_around(self, at: int) -> _Fence | None:
        """Return the fence in which, or right before which, `at` stands; its closing mark ends it."""
        index = bisect_right(self._fence_starts, at) - 1
        if index < 0:
            return None
        fence = self._fences[index]
        unclosed = fence.end == fence.body_end
        return fence if at < fence.end or (unclosed and at == fence.end) else None

    def _reach(self, start: int, units: int) -> int:
        """Return the last index to which `units` reach from `start`."""
        low, high = start, min(len(self._text), start + max(0, units))
        while low < high:
            middle = (low + high + 1) // 2
            wide = bisect_left(self._wide, middle) - bisect_left(self._wide, start)
            low, high = (middle, high) if middle - start + wide <= units else (low, middle - 1)
        return low

    def _end(self, start: int, room: int) -> int:
        """Return where the part that begins at `start` with `room` units ends."""
        reach = self._reach(start, room)
        around = self._fence_around(reach)
        if around is not None and reach > around.start:
            reach = max(self._reach(start, room - len(around.run) - 1), min(reach, around.start))
        if reach == len(self._text):
            return reach
        if reach <= start:
            return start + 1  # a limit no character fits into cannot be kept; LEAST_LIMIT rules it out
        least = min(self._reach(start, int(self._limit * LEAST_SHARE)), reach)
        window = min(len(self._text), reach + _BEYOND_WINDOW)
        graphemes = {match.end() for match in _GRAPHEME.finditer(self._text, start, window)}
        best: dict[int, int] = {}
        for rank, at in self._candidates(least, reach):
            moved = self._behind_fence(at)
            if moved in graphemes and moved > start and self._may_cut(moved):
                best[rank] = max(best.get(rank, 0), moved)
        return best[min(best)] if best else self._hard_end(start, reach, graphemes)

    def _candidates(self, least: int, reach: int) -> Iterator[tuple[int, int]]:
        """Yield (rank, place) of possible cuts: 0 paragraph, 1 line, 2 sentence, 3 blank."""
        for index in range(bisect_left(self._fence_starts, least), bisect_right(self._fence_starts, reach)):
            yield 0, self._fence_starts[index]
        for room in _ROOM.finditer(self._text, max(0, least - 1), reach):
            blank = room.group()
            if "\n" in blank:
                yield (0 if blank.count("\n") > 1 else 1), room.start() + blank.rindex("\n") + 1
            else:
                before = self._text[max(0, room.start() - 8) : room.start()]
                yield (2 if _SENTENCE_END.search(before) else 3), room.end()
        for stop in _WIDE_STOP.finditer(self._text, least, reach):
            yield 2, stop.end()

    def _behind_fence(self, at: int) -> int:
        """Return `at`, or the end of the closing mark that begins there: our own would be as long."""
        fence = self._fence_around(at)
        return fence.end if fence is not None and at == fence.body_end else at

    def _may_cut(self, at: int) -> bool:
        fence = self._fence_around(at)
        if fence is not None and (fence.start < at <= fence.body or fence.body_end < at < fence.end):
            return False
        return self._atom_around(at) is None

    def _atom_around(self, at: int) -> tuple[int, int] | None:
        index = bisect_left(self._atom_starts, at) - 1
        return self._atoms[index] if index >= 0 and at < self._atoms[index][1] else None

    def _hard_end(self, start: int, reach: int, graphemes: set[int]) -> int:
        """Return the last place at or before `reach` that cuts nothing, else one that cuts only what is too long."""
        whole = [at for at in graphemes if at <= reach]
        at = max(
            (place for place in whole if self._may_cut(place) and not _HALVES.match(self._text, place - 1)), default=0
        )
        if at:
            return self._behind_fence(at)
        fence = self._fence_around(reach)
        floor = fence.body if fence is not None and start <= fence.start < reach else start
        at = max((place for place in whole if place > floor), default=reach)
        # Two halves of one character, each a code point of its own, stay together.
        return at - 1 if start < at - 1 and _HALVES.match(self._text, at - 1) else at
