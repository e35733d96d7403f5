"""Looking for many texts at once in a stream of bytes. Pure.

A needle is found by its longest inner word: words are counted through once, whatever the number of needles. A
needle without an inner word is looked for by itself.
"""

import json
import re
from collections.abc import Iterable

TEXT_CHARS = 40
"""The shortest text that is looked for: shorter ones are said by many."""
TEXT_BYTES = 400
"""How much of a text is looked for; where all of it stands, its beginning stands."""
_WORD = re.compile(rb"[0-9A-Za-z_\x80-\xff]+")
_MOST_IN_A_WORD = 3


def forms(text: str) -> frozenset[bytes]:
    """Return how a text may stand in a dump or a file: as it is, as JSON, and as either in `COPY`'s text format.

    Empty if it is too short to look for.
    """
    if len(text) < TEXT_CHARS:
        return frozenset()
    plain = (text, json.dumps(text, ensure_ascii=False)[1:-1])
    return frozenset(_cut(form.encode()) for each in plain for form in (each, each.translate(_COPY)))


_COPY = str.maketrans({"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"})


def _cut(text: bytes) -> bytes:
    """Return the beginning of a text, cut between two characters."""
    return text if len(text) <= TEXT_BYTES else text[:TEXT_BYTES].decode(errors="ignore").encode()


class Needles:
    """Texts to look for, and ids that count only where they stand as a word of their own."""

    def __init__(self, texts: Iterable[bytes], ids: Iterable[bytes] = ()) -> None:
        self._all: list[bytes] = []
        self._by_word: dict[bytes, list[tuple[int, int]]] = {}
        self._alone: list[int] = []
        self._ids = {each: -1 for each in ids if each}
        for text in dict.fromkeys(texts):
            self._add(text)
        for each in self._ids:
            self._ids[each] = len(self._all)
            self._all.append(each)
        self._longest = max((len(each) for each in self._all), default=1)

    def _add(self, text: bytes) -> None:
        number = len(self._all)
        self._all.append(text)
        inner = [found for found in _WORD.finditer(text) if found.start() > 0 and found.end() < len(text)]
        if not inner:
            self._alone.append(number)
            return
        longest = max(inner, key=lambda found: len(found[0]))
        self._by_word.setdefault(longest[0], []).append((number, longest.start()))

    def __getitem__(self, number: int) -> bytes:
        """Return the needle of this number."""
        return self._all[number]

    def __len__(self) -> int:
        """Return how many needles there are."""
        return len(self._all)

    @property
    def overlap(self) -> int:
        """How many bytes of a piece must be looked at again together with the next one."""
        return self._longest + _MOST_IN_A_WORD

    def is_id(self, number: int) -> bool:
        """Return whether this needle is an id."""
        return self._all[number] in self._ids

    def find(self, data: bytes) -> set[int]:
        """Return the numbers of the needles that stand in `data`."""
        found = {number for number in self._alone if self._all[number] in data}
        for match in _WORD.finditer(data):
            word = match[0]
            if word in self._ids:
                found.add(self._ids[word])
            for number, offset in self._by_word.get(word, ()):
                if data.startswith(self._all[number], match.start() - offset):
                    found.add(number)
        for text, number in self._ids.items():
            if number not in found and _is_odd(text) and text in data:
                found.add(number)
        return found


def _is_odd(text: bytes) -> bool:
    """Return whether an id is no word, so that it can only be looked for as it is."""
    return _WORD.fullmatch(text) is None


class Stream:
    """What was found so far in a stream that comes in pieces."""

    def __init__(self, needles: Needles) -> None:
        self._needles, self._kept = needles, b""
        self.found: set[int] = set()
        self.bytes = 0

    def feed(self, piece: bytes) -> None:
        """Look at the next piece."""
        self.bytes += len(piece)
        data = self._kept + piece
        self.found |= self._needles.find(data)
        self._kept = data[-self._needles.overlap :]
