"""Untrusted text in a prompt: cleaned, labelled by code, and fenced by a marker nobody could know.

Law: what people, files and pages wrote reaches a model only through `Fence`.
"""

import base64
import hashlib
import hmac
import unicodedata
from dataclasses import dataclass, field
from datetime import datetime

import regex

from core.domain.ids import PersonId
from core.domain.prompt import Handle, MarkerInData, SourceId, SourceKind, Speaker, Standing
from core.domain.relative import relative

NAME_GRAPHEMES = 32
NAME_CHARS = 64
FLAGGED_CHARS = 200
_MARKER_CHARS = 12

_SURROGATE = regex.compile(r"[\ud800-\udfff]")
_CONTROL = regex.compile(r"[^\P{Cc}\n\t]")
_TAGS = regex.compile(r"[\U000e0000-\U000e007f]")
_MARKS = regex.compile(r"(\p{M}{8})\p{M}+")
_BLANK_LINES = regex.compile(r"\n(?:[ \t]*\n){4,}")
# Characters that draw nothing: zero-width ones, bidi controls, fillers, variation selectors, tags; and the
# blank braille cell, which is a symbol by name only.
_INVISIBLE = regex.compile(r"[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Cs}\p{Co}\p{Cn}\u2800]")
_WHITE = regex.compile(r"[\s\p{Cc}\p{Z}]+")
_GRAPHEME = regex.compile(r"\X")


def clean_text(text: str) -> str:
    """Return `text` as a model may see it; the archive keeps the original."""
    if text.isascii() and text.isprintable():
        return text  # one plain line, as most are: there is nothing to take out
    text = _SURROGATE.sub("\ufffd", text.replace("\r\n", "\n").replace("\r", "\n"))
    text = _TAGS.sub("", _CONTROL.sub("", text))
    return str(_BLANK_LINES.sub("\n\n\n\n", _MARKS.sub(r"\1", text))).strip("\n")


def clean_name(name: str) -> str:
    """Return `name` on one line, without invisible characters, cut, its quotes escaped; may be empty."""
    if name.isascii() and name.isprintable():  # as most are: a character is a grapheme, and blanks are all its white
        return _quotable(" ".join(name.split())[:NAME_GRAPHEMES].strip())
    name = unicodedata.normalize("NFKC", _SURROGATE.sub("", name))
    name = _WHITE.sub(" ", _INVISIBLE.sub("", _WHITE.sub(" ", name))).strip()
    # What was removed may have kept letters apart that compose: normalise what is left once more.
    name = _MARKS.sub(r"\1", unicodedata.normalize("NFKC", name))
    name = "".join(_GRAPHEME.findall(name)[:NAME_GRAPHEMES])[:NAME_CHARS].strip()
    return _quotable(name)


def _quotable(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"')


def shown_name(name: str) -> str:
    """Return `name` as people and models are shown it: cleaned, and never nothing."""
    return clean_name(name) or "(no name)"


@dataclass(slots=True)
class Handles:
    """Gives each source a short name in the order of asking; the same source keeps its name."""

    _named: dict[SourceId, Handle] = field(default_factory=dict)
    _counts: dict[SourceKind, int] = field(default_factory=dict)

    def of(self, kind: SourceKind, key: object) -> Handle:
        """Return the handle of the source, a new one if it has none yet."""
        source = SourceId(kind, str(key))
        named = self._named.get(source)
        if named is None:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            named = self._named[source] = Handle(f"{_LETTERS[kind]}{self._counts[kind]}")
        return named

    def resolve(self, used: frozenset[Handle]) -> dict[Handle, SourceId]:
        """Return the sources behind the handles in `used`."""
        return {handle: source for source, handle in self._named.items() if handle in used}


_LETTERS = {
    SourceKind.MESSAGE: "m",
    SourceKind.PERSON: "p",
    SourceKind.PASSAGE: "k",
    SourceKind.FILE: "d",
    SourceKind.MEMORY: "n",
    SourceKind.ROOM: "r",
}


def marker_of(nonce: bytes) -> str:
    """Return the marker of one request: nobody who has not seen its nonce can write it."""
    digest = hmac.new(nonce, b"fence", hashlib.sha256).digest()
    return base64.b32encode(digest).decode("ascii")[:_MARKER_CHARS].lower()


@dataclass(frozen=True, slots=True)
class Fence:
    """Writes headers that only code can write. An item runs from its header to the next, or to the end."""

    marker: str
    now: datetime
    handles: Handles

    def speaker(self, speaker: Speaker) -> str:
        """Return handle, quoted name and standing of whoever spoke."""
        name = self.name(speaker.name)
        words = [] if speaker.person is None else [str(self.person(speaker.person))]
        words.append(name or "(no name)")
        if speaker.standing is not Standing.MEMBER:
            words.append(f"[{speaker.standing}]")
        return " ".join(words)

    def name(self, name: str) -> str:
        """Return a name, cleaned and in quotes; empty if nothing visible is left of it."""
        cleaned = self.guard(clean_name(name))
        return f'"{cleaned}"' if cleaned else ""

    def person(self, person: PersonId) -> Handle:
        """Return the handle of a person."""
        return self.handles.of(SourceKind.PERSON, person)

    def header(self, *labels: str, at: datetime | None = None) -> str:
        """Return the line that opens an item; `labels` are code's words and cleaned names."""
        words = [self.marker, *filter(None, labels)]
        if at is not None:
            words.append(relative(at, self.now))
        return f"<<data {' '.join(words)}>>"

    def end(self) -> str:
        """Return the line that closes what stands open."""
        return f"<<end {self.marker}>>"

    def guard(self, text: str) -> str:
        """Return `text` cleaned.

        Raises:
            MarkerInData: The marker stands in it, so somebody knows the nonce; nothing may be sent.
        """
        cleaned = clean_text(text)
        if self.marker in cleaned.casefold():
            raise MarkerInData("fence marker occurs in data")
        return cleaned
