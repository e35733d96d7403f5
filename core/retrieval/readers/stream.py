"""JSON files of any size cut into the elements of their `messages` arrays; a broken element costs itself alone.

The window is held as Latin-1, one character a byte: the C scanner of `json` then tells where an element ends in
bytes. What is not ASCII is decoded again as UTF-8.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from core.domain.imports import EXCERPT_CHARS, BadCode, BadRecord, Place

ELEMENT_BYTES = 1024 * 1024
"""No element is longer; what seems to be is broken."""
_CHUNK_BYTES = 3 * ELEMENT_BYTES
_NEAR_BYTES = 64 * 1024
"""How far brackets are counted for what only may be an element."""
_HEAD_KEYS = 64
_HEAD_CHARS = 1000
_SPACE = re.compile(r"[ \t\r\n]*")
_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]', re.DOTALL)
_TOKEN = re.compile(r'("[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*")|([{}\[\]:,])|(-?[0-9][-+.eE0-9]*|true|false|null)')
_NEXT_KEY = re.compile(r'[{,][ \t\r\n]*"[^"\\\x00-\x1f]*"[ \t\r\n]*:|[{}\[\]]')
_ARRAY = re.compile(r'"messages"[ \t\r\n]*:[ \t\r\n]*\[')
_OBJECT = re.compile(r'\{[ \t\r\n]*"')
_CUT_ESCAPE = re.compile(r"\\?(?:u[0-9a-fA-F]{0,3}|x[0-9a-fA-F]?)?|[0-9a-fA-F]{1,3}")
_HEX_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\x([0-9a-fA-F]{2})")
_BOM = "\u00ef\u00bb\u00bf"
_scan = json.JSONDecoder(strict=False).raw_decode
_scan_slowly = json.JSONDecoder(strict=False, parse_int=lambda digits: int(digits) if len(digits) < 40 else digits)


@dataclass(frozen=True, slots=True)
class Opened:
    """A `messages` array begins; `head` holds what its object has said so far."""

    head: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Closed:
    """The object of a `messages` array has ended; `head` holds all that it said beside it."""

    number: int
    head: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Element:
    """One element of an array. `bad_utf8`: bytes had to be replaced."""

    value: dict[str, Any]
    line: int
    byte: int
    bad_utf8: bool


Piece = Opened | Closed | Element | BadRecord


@dataclass(slots=True)
class _Frame:
    members: dict[str, Any] | None
    key: str | None = None
    chat: int | None = None
    gave_up: bool = False


@dataclass(frozen=True, slots=True)
class Dialect:
    """What tells an element from what lies inside of one, and an object that should have had an array.

    `border`: where another chat's head may begin.
    """

    is_element: Callable[[dict[str, Any]], bool]
    is_head: Callable[[Mapping[str, Any]], bool]
    border: re.Pattern[str] = _ARRAY


class _Window:
    """A stretch of the file. `at` moves forward only; an element fits between it and the end, or the file ends."""

    def __init__(self, file: BinaryIO, place: Place) -> None:
        file.seek(place.byte)
        self._file = file
        self._base = place.byte
        self._line = place.line
        self._counted = 0
        self.text = ""
        self.at = 0
        self.ended = False
        self.fill()
        if place.byte == 0 and self.text.startswith(_BOM):
            self.at = len(_BOM)

    def fill(self) -> None:
        """Read on if less than an element's length is left."""
        if self.ended or len(self.text) - self.at >= ELEMENT_BYTES:
            return
        self.line(self.at)
        chunk = self._file.read(_CHUNK_BYTES)
        self.ended = len(chunk) < _CHUNK_BYTES
        self.text = self.text[self.at :] + chunk.decode("latin-1")
        self._base += self.at
        self._counted -= self.at
        self.at = 0

    def skip_space(self) -> bool:
        """Move to the next character that is no space; False at the end of the file."""
        while True:
            self.fill()
            match = _SPACE.match(self.text, self.at)
            self.at = self.at if match is None else match.end()
            if self.at < len(self.text):
                return True
            if self.ended:
                return False

    def byte(self, at: int) -> int:
        """Return the place in the file."""
        return self._base + at

    def line(self, at: int) -> int:
        """Return the line of a place that is not before the last one asked for."""
        if at > self._counted:
            self._line += self.text.count("\n", max(self._counted, 0), at)
            self._counted = at
        return self._line

    def bad(self, at: int, code: BadCode) -> BadRecord:
        """Return what to say of a place."""
        raw = self.text[at : at + 4 * EXCERPT_CHARS].encode("latin-1").decode("utf-8", "replace")
        return BadRecord(self.line(at), self.byte(at), code, excerpt(raw))


def excerpt(text: str) -> str:
    """Return the beginning of `text` as one short line that Postgres can hold."""
    plain = "".join(char if char.isprintable() else " " for char in text[:EXCERPT_CHARS])
    return plain.encode("utf-8", "replace").decode("utf-8")[:EXCERPT_CHARS]


@dataclass(slots=True)
class Splitter:
    """Walks through one file. `place` is where to go on after the last element."""

    file: BinaryIO
    dialect: Dialect
    start: Place = field(default_factory=Place)
    place: Place = field(default_factory=Place)
    _chats: int = 0
    _quiet: bool = False

    def __iter__(self) -> Iterator[Piece]:
        """Yield the pieces in the order of the file."""
        window = _Window(self.file, self.start)
        stack: list[_Frame] = []
        self.place = self.start
        if self.start.chat is not None:
            self._chats = self.start.chat + 1
            stack.append(_Frame({}, chat=self.start.chat))
            yield from self._elements(window, self.start.chat, first=False)
        yield from self._outside(window, stack)

    def _outside(self, window: _Window, stack: list[_Frame]) -> Iterator[Piece]:
        """Walk through what stands around the arrays, leniently: brackets, keys and short values."""
        while window.skip_space():
            match = _TOKEN.match(window.text, window.at)
            if match is None:
                if not self._quiet:
                    yield window.bad(window.at, BadCode.JSON_SYNTAX)
                    self._quiet = True
                found = _NEXT_KEY.search(window.text, window.at + 1)
                window.at = found.start() if found is not None else len(window.text)
                continue
            window.at = match.end()
            mark = match.group(2)
            top = stack[-1] if stack else None
            if mark is None:
                _learn(top, match.group())
            elif mark == "," and top is not None:
                top.key = None
            elif mark == "[" and top is not None and top.key == "messages" and top.members is not None:
                yield from self._array(window, top)
            elif mark in "{[":
                stack.append(_Frame({} if mark == "{" else None))
            elif mark in "}]" and stack:
                yield from self._leave(stack, window)
        if any(frame.chat is not None for frame in stack) and not self._quiet:
            yield window.bad(window.at, BadCode.TRUNCATED_TAIL)

    def _array(self, window: _Window, top: _Frame) -> Iterator[Piece]:
        top.key, top.chat = None, self._chats
        self._chats += 1
        self._quiet = False
        yield Opened(dict(top.members or {}))
        yield from self._elements(window, self._chats - 1, first=True)
        if self._quiet:  # what follows is the rest of a broken element: it says nothing of the chat
            top.chat, top.members, top.gave_up = None, {}, True

    def _leave(self, stack: list[_Frame], window: _Window) -> Iterator[Piece]:
        left = stack.pop()
        if left.chat is not None:
            yield Closed(left.chat, left.members or {})
        elif left.members is not None and not left.gave_up and not self._quiet and self._is_lost(left.members):
            yield window.bad(window.at - 1, BadCode.JSON_SYNTAX)
            self._quiet = self.dialect.is_element(left.members)  # one line for all that follow
        top = stack[-1] if stack else None
        if top is not None and top.members is not None and top.key is not None:
            if left.members is not None and left.chat is None and len(top.members) < _HEAD_KEYS:
                top.members[top.key] = left.members
            top.key = None

    def _is_lost(self, members: dict[str, Any]) -> bool:
        """Return whether an object outside of any array should have been in one, or have had one."""
        return self.dialect.is_head(members) or self.dialect.is_element(members)

    def _elements(self, window: _Window, chat: int, *, first: bool) -> Iterator[Piece]:
        """Yield the elements up to the array's end; give up where none can be told from what follows."""
        wants_value = first
        while True:
            if not window.skip_space():
                if not self._quiet:
                    yield window.bad(window.at, BadCode.TRUNCATED_TAIL)
                self._quiet = True
                return
            at, mark = window.at, window.text[window.at]
            if mark == "]":
                window.at += 1
                return
            if mark == "," and not wants_value:
                window.at, wants_value = at + 1, True
                continue
            found = _decode(window.text, at) if wants_value else None
            if found is None:
                yield window.bad(at, _what_broke(window, at))
                if not self._resynchronise(window):
                    self._quiet = True
                    return
                wants_value = True
                continue
            value, end, bad_utf8 = found
            window.at, wants_value = end, False
            line = window.line(at)
            self.place = Place(window.byte(end), window.line(end), chat)
            if isinstance(value, dict):
                yield Element(value, line, window.byte(at), bad_utf8)
            else:
                yield window.bad(at, BadCode.BAD_TYPE)

    def _resynchronise(self, window: _Window) -> bool:
        """Move to the next whole element of this array; False if another chat or the end of the file comes first."""
        at = window.at if window.text[window.at] == "{" and window.at and _follows(window) else window.at + 1
        while True:
            border = self.dialect.border.search(window.text, window.at)
            limit = len(window.text) if border is None else border.start()
            while (at := window.text.find("{", at, limit)) >= 0:
                found = _decode(window.text, at, _NEAR_BYTES) if _is_start(window.text, at) else None
                if found is not None and isinstance(found[0], dict) and self.dialect.is_element(found[0]):
                    window.at = at
                    return True
                at += 1
            if border is not None or window.ended:
                return False
            # What is left at the end may be the beginning of an element or of a border.
            keep = max(window.at + 1, len(window.text) - ELEMENT_BYTES + 1)
            window.at = at = keep
            window.fill()


def _follows(window: _Window) -> bool:
    """Return whether nothing but a separator is missing before this place."""
    return window.text[: window.at].rstrip()[-1:] in "}]"


def _is_start(text: str, at: int) -> bool:
    """Return whether an element could start here: it has a member, and is no member's value."""
    before = text[max(0, at - 200) : at].rstrip()
    return before[-1:] != ":" and _OBJECT.match(text, at) is not None


def _learn(top: _Frame | None, token: str) -> None:
    if top is None or top.members is None or len(token) > _HEAD_CHARS:
        return
    try:
        value = json.loads(token.encode("latin-1").decode("utf-8", "replace"), strict=False)
    except ValueError:
        return
    if top.key is None and isinstance(value, str):
        top.key = value
    elif top.key is not None and len(top.members) < _HEAD_KEYS:
        top.members[top.key] = value
        top.key = None


def _decode(text: str, at: int, reach: int = ELEMENT_BYTES) -> tuple[Any, int, bool] | None:
    """Return value, end and whether bytes were replaced; None if no whole value starts here."""
    try:
        value, end = _scan(text, at)
    except json.JSONDecodeError as exc:
        return _decode_mended(text, at, reach) if text.startswith("\\x", exc.pos) else None
    except ValueError:  # a number without end
        return _decode_mended(text, at, reach)
    except RecursionError:
        return None
    piece = text[at:end]
    if piece.isascii():
        return value, end, False
    return _decode_utf8(piece, end)


def _decode_utf8(piece: str, end: int) -> tuple[Any, int, bool] | None:
    raw = piece.encode("latin-1")
    try:
        return _scan(raw.decode("utf-8"), 0)[0], end, False
    except UnicodeDecodeError:
        whole = raw.decode("utf-8", "replace")
    try:
        return _scan(whole, 0)[0], end, True
    except (ValueError, RecursionError):
        return None


def _decode_mended(text: str, at: int, reach: int) -> tuple[Any, int, bool] | None:
    r"""Try once more with `\xNN` made `\u00NN` and endless numbers kept as text: exporters write both."""
    end = _balanced_end(text, at, reach) if text[at] in "{[" else None
    if end is None:
        return None
    raw = _HEX_ESCAPE.sub(r"\1\\u00\2", text[at:end]).encode("latin-1")
    try:
        whole, replaced = raw.decode("utf-8"), False
    except UnicodeDecodeError:
        whole, replaced = raw.decode("utf-8", "replace"), True
    try:
        value, length = _scan_slowly.raw_decode(whole)
    except (ValueError, RecursionError):
        return None
    return (value, end, replaced) if length == len(whole) else None


def _balanced_end(text: str, at: int, reach: int) -> int | None:
    """Return where the brackets that open here are closed; None if within `reach` they are not."""
    depth = 0
    for match in _BRACKETS.finditer(text, at, min(len(text), at + reach)):
        mark = text[match.start()]
        if mark in "{[":
            depth += 1
        elif mark in "}]":
            depth -= 1
            if depth == 0:
                return match.end()
    return None


def _what_broke(window: _Window, at: int) -> BadCode:
    """Return whether the file was cut here, an element has no end, or is written wrongly."""
    try:
        _scan(window.text, at)
    except json.JSONDecodeError as exc:
        reached, open_text = exc.pos, exc.msg.startswith("Unterminated string")
    except (ValueError, RecursionError):
        return BadCode.JSON_SYNTAX
    else:
        return BadCode.JSON_SYNTAX  # a separator is missing before it
    rest = window.text[reached:].strip()
    cut_word = any(word.startswith(rest) for word in ("true", "false", "null", "-"))
    at_end = open_text or cut_word or _CUT_ESCAPE.fullmatch(rest) is not None
    if not at_end:
        return BadCode.JSON_SYNTAX
    return BadCode.TRUNCATED_TAIL if window.ended else BadCode.TOO_LONG
