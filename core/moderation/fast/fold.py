"""Text folded for matching: what looks like a word is read as that word, however it is disguised. Pure.

Small letters without accents, wide and fancy forms and look-alikes of other scripts as plain ones, nothing invisible;
then digits and signs that stand for letters, marks and spaces between letters, and stretched letters.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import cached_property

CAP = 4000
"""How many characters of a text are read for lists: a longer one costs no more than this."""
_LOOKS = str.maketrans(
    "авеёіїкмнорстухјѕԁԛԝһьєαβεηικνορτυχγωøđłıħŧᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘǫʀꜱᴛᴜᴠᴡʏᴢɑɡɩӏƒ",
    "abeeiikmhopctyxjsdqwhbeabenikvoptuxywodlihtabcdefghijklmnopqrstuvwyzagilf",
)
_UNSEEN = frozenset({"Mn", "Me", "Cf"})
_APOSTROPHES = "'’‘ʼ`′"
_SIGNS = {"0": "o", "3": "e", "4": "a", "5": "s", "7": "t", "8": "b", "9": "g", "@": "a", "$": "s", "€": "e", "!": "i"}
_AS_I = str.maketrans({**_SIGNS, "1": "i", "|": "i"})
_AS_L = str.maketrans({**_SIGNS, "1": "l", "|": "l"})
_SIGNED = frozenset("@$€!|")
_EDGES = '.,;:?!"()[]{}<>*_~-–—…#/\\«»„“”¿¡'
_WORD = re.compile(r"[^\W_]+")
_MARKS = re.compile(r"[\W_]+")
_STRETCHED = re.compile(r"(.)\1{2,}")
_CHUNK = re.compile(r"\S+")
_MOST_KEPT = 20_000
_LONGEST_RUN = 60
_MOST_VARIANTS = 200


class _Table(dict[int, str]):
    """What each character is read as; worked out when it is first met, and kept for as many as people write with."""

    def __missing__(self, code: int) -> str:
        read_as = _fold_character(chr(code))
        if len(self) < _MOST_KEPT:
            self[code] = read_as
        return read_as


def _fold_character(char: str) -> str:
    code = ord(char)
    for first, last in ((0x1F1E6, 0x1F1FF), (0x1F150, 0x1F169), (0x1F170, 0x1F189)):
        if first <= code <= last:
            return chr(ord("a") + code - first)
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", char).casefold())
    kept = "".join(each for each in apart if unicodedata.category(each) not in _UNSEEN and each not in _APOSTROPHES)
    return kept.translate(_LOOKS).replace("æ", "ae").replace("œ", "oe")


_TABLE = _Table()


def fold(text: str) -> str:
    """Return `text` as it is compared, word edges and signs kept."""
    return text.translate(_TABLE)


def fold_word(text: str) -> str:
    """Return a word or phrase of a list as it is looked up: its words, one space between them."""
    return " ".join(_WORD.findall(fold(text)))


def unsign(word: str, table: dict[int, str] = _AS_I) -> str:
    """Return a word with the letters that its digits and signs stand for; a number stays one."""
    return word.translate(table) if any(map(str.isalpha, word)) else word


class Folded:
    """One text, folded. `words`: in order, as phrases are looked for; `places`: the chunk of the text of each.

    `variants`: further readings of chunks, by what they are read as: first and last chunk.
    """

    def __init__(self, text: str) -> None:
        self.original = text[:CAP]
        self.text = fold(self.original)
        self.words: list[str] = []
        self.places: list[int] = []
        self.variants: dict[str, tuple[int, int]] = {}
        self._stretched = any(3 * char in self.text for char in set(self.text))
        self._read(self.text.split())

    def _read(self, chunks: Sequence[str]) -> None:
        """Take plain words as they are, many at once, and look closely at what lies between them."""
        known: dict[str, tuple[str, ...]] = {}
        run: list[str] = []
        done = 0
        for place in self._odd(chunks):
            chunk = chunks[place]
            if run and (place > done or len(chunk) > 1):
                self._join(run, done)
                run = []
            self.words += chunks[done:place]
            self.places += range(done, place)
            if len(chunk) == 1:
                run.append(chunk)
            if chunk not in known:
                known[chunk] = self._take_apart(chunk, place)
            self.words += known[chunk]
            self.places += [place] * len(known[chunk])
            done = place + 1
        self._join(run, done)
        self.words += chunks[done:]
        self.places += range(done, len(chunks))

    def _odd(self, chunks: Sequence[str]) -> list[int]:
        """Return the places of chunks that are no plain words: with signs, of one letter, or stretched."""
        odd = [place for place, chunk in enumerate(chunks) if not chunk.isalpha() or len(chunk) == 1]
        if self._stretched:
            odd = sorted({*odd, *(place for place, chunk in enumerate(chunks) if _STRETCHED.search(chunk))})
        return odd

    def _vary(self, word: str, first: int, last: int) -> None:
        if len(self.variants) < _MOST_VARIANTS:
            self.variants.setdefault(word, (first, last))

    def _take_apart(self, chunk: str, place: int) -> tuple[str, ...]:
        """Return the words of what stands between two spaces, and note what else it can be read as."""
        plain = chunk.strip(_EDGES)
        if plain.isalpha():
            words: tuple[str, ...] = (plain,)
        else:
            words = tuple(unsign(part) for part in _WORD.findall(plain))
            if len(words) > 2 and all(len(word) == 1 for word in words):
                words = ("".join(words),)
            self._read_signs(plain, place)
        if self._stretched:
            for word in words:
                if _STRETCHED.search(word):
                    self._vary(_STRETCHED.sub(r"\1", word), place, place)
                    self._vary(_STRETCHED.sub(r"\1\1", word), place, place)
        return words

    def _read_signs(self, plain: str, place: int) -> None:
        """Note a chunk as one word: signs as letters, or as mere marks between letters."""
        if len(plain) > _LONGEST_RUN or len(self.variants) >= _MOST_VARIANTS or not any(map(str.isalpha, plain)):
            return
        for table in (_AS_I, _AS_L) if "1" in plain or "|" in plain else (_AS_I,):
            self._vary(_MARKS.sub("", plain.translate(table)), place, place)
            if not _SIGNED.isdisjoint(plain):
                self._vary(_MARKS.sub("", plain).translate(table), place, place)

    def _join(self, run: Sequence[str], end: int) -> None:
        """Read letters that stand alone, one after another, as the words that they spell."""
        letters = unsign("".join(run[:_LONGEST_RUN]))
        first = end - len(run)
        if len(letters) < 3 or len(letters) != min(len(run), _LONGEST_RUN):
            return
        self._vary(letters, first, end - 1)
        self._vary(letters[1:], first + 1, end - 1)
        at = len(self.words)
        while at and self.places[at - 1] >= first:
            at -= 1
        del self.words[at:], self.places[at:]
        self.words.append(letters)
        self.places.append(first)

    @cached_property
    def spaced(self) -> str:
        """Return the words with one space before and after each."""
        return f" {' '.join(self.words)} "

    @cached_property
    def heads(self) -> frozenset[str]:
        """Return the first four letters of each word."""
        return frozenset([word[:4] for word in self.words])

    @cached_property
    def all_words(self) -> frozenset[str]:
        """Return the words and every further reading."""
        return frozenset(self.words).union(self.variants)

    def span_of(self, first: int, last: int) -> tuple[int, int]:
        """Return where chunks stand in the text as it was written."""
        spans = [match.span() for match in _CHUNK.finditer(self.text)]
        if not spans:
            return 0, len(self.original)
        start, end = spans[min(first, len(spans) - 1)][0], spans[min(last, len(spans) - 1)][1]
        return self._back(start), self._back(end - 1) + 1

    def span_of_words(self, start: int, end: int) -> tuple[int, int]:
        """Return where a part of `spaced` stands in the text as it was written."""
        first = max(0, self.spaced.count(" ", 0, start + 1) - 1)
        last = max(first, self.spaced.count(" ", 0, end - 1) - 1)
        return self.span_of(self.places[first], self.places[min(last, len(self.places) - 1)])

    def span_of_reading(self, word: str) -> tuple[int, int]:
        """Return where a word, or a further reading, stands in the text as it was written."""
        if word in self.variants:
            return self.span_of(*self.variants[word])
        place = self.places[self.words.index(word)]
        return self.span_of(place, place)

    def _back(self, at: int) -> int:
        """Return the character of the original that a folded one came from."""
        passed = 0
        for place, char in enumerate(self.original):
            passed += len(_TABLE[ord(char)])
            if passed > at:
                return place
        return max(0, len(self.original) - 1)
