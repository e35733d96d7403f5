"""Cuts text into sentences that joined give it again, at once or while it streams in.

Law: a code fence is one sentence, and no sentence ends inside inline code, bold or a link; at the latest a
paragraph ends it.
"""

import re

from core.chat.markup import CodeFence, read_head

_STOP = re.compile(r"[\n.!?…。！？]")
_CLOSERS = re.compile(r"[.!?…\"'”’»)\]*_~`|]{0,8}")
_WIDE_CLOSERS = re.compile(r"[。！？」』）”’]{0,8}")
_ROOM = re.compile(r"[ \t]{1,32}")
_MARK = re.compile(r"(?P<run>`+)|(?P<pair>\*\*|__|\|\||~~)|(?P<link>\]\()|(?P<bracket>[\[\]])|(?P<close>\))")
_BLANK_LINE = re.compile(r"[ \t\r]{0,32}\n")
_BLANK_SO_FAR = re.compile(r"[ \t\r]{0,32}")
_WORD_BEFORE = re.compile(r"(?:^|[^\w.])(?P<word>\w[\w.]{0,11})\.$")
# A sentence goes on after these; single letters and numbers of up to two digits as well (J. Smith, am 3. Mai).
_ABBREVIATIONS = frozenset(
    {"abb", "abs", "allg", "approx", "bd", "bspw", "bzw", "ca", "cap", "cf", "chap", "dept", "dr", "eds", "evtl"}
    | {"fig", "ggf", "hr", "inc", "jr", "mme", "mr", "mrs", "ms", "nr", "p.ej", "p.ex", "pág", "pp", "prof", "resp"}
    | {"sog", "sr", "sra", "st", "usw", "vgl", "vol", "vs", "d.h", "e.g", "i.e", "m.e", "u.a", "z.b", "z.t"}
)
_GOES_ON = frozenset("-–—,;:)]}…/&+=|")


def split_sentences(text: str) -> list[str]:
    """Return the sentences of `text`, white space behind each included; joined they are `text`."""
    sentences = Sentences()
    return sentences.feed(text) + sentences.finish()


class Sentences:
    """Reads a text piece by piece; any split into pieces gives the same sentences."""

    def __init__(self) -> None:
        self._text = ""  # the present sentence from `_start` on
        self._start = 0
        self._at = 0  # decided up to here
        self._fence: CodeFence | None = None
        self._line_start = True
        self._marked = 0  # marks are counted up to here
        self._run = 0  # how many backticks opened the inline code at hand
        self._pairs: set[str] = set()
        self._brackets = 0
        self._in_link = False

    def feed(self, piece: str) -> list[str]:
        """Return the sentences that `piece` completes."""
        self._text = self._text[self._start :] + piece
        self._at -= self._start
        self._marked -= self._start
        self._start = 0
        return self._scan(final=False)

    def finish(self) -> list[str]:
        """Return the rest."""
        found = self._scan(final=True)
        self._cut(found, len(self._text))
        return found

    def _scan(self, final: bool) -> list[str]:
        found: list[str] = []
        while self._at < len(self._text) and self._step(found, final):
            pass
        return found

    def _cut(self, found: list[str], end: int) -> None:
        if end > self._start:
            found.append(self._text[self._start : end])
        self._start = self._at = self._marked = end
        self._run, self._brackets, self._in_link = 0, 0, False
        self._pairs.clear()

    def _step(self, found: list[str], final: bool) -> bool:
        """Decide the next stretch; False: more text is needed."""
        if self._line_start and not self._line(found, final):
            return False
        if self._line_start:
            return True
        if self._fence is not None:
            newline = self._text.find("\n", self._at)
            self._at = len(self._text) if newline < 0 else newline + 1
            self._line_start = newline >= 0
            return True
        stop = _STOP.search(self._text, self._at)
        if stop is None:
            self._at = len(self._text)
            return True
        self._at = stop.start()
        if stop.group() == "\n":
            self._at += 1
            self._line_start = True
            if self._balanced(self._at):
                self._cut(found, self._at)
            return True
        end = self._end_of_sentence(stop.group() in "。！？", final)
        if end is None:
            return False
        if end > self._at and self._balanced(end):
            self._cut(found, end)
        else:
            self._at += 1
        return True

    def _line(self, found: list[str], final: bool) -> bool:
        """Read what the line at hand begins with; afterwards `_line_start` says whether it is used up."""
        head = read_head(self._text, self._at, self._fence, final)
        if head is None:
            return False
        if head.turns:
            if self._fence is None:
                self._cut(found, self._at)
            self._at, self._fence = head.end, head.fence
            if head.fence is None:
                self._cut(found, head.end)
            return True
        if self._fence is None:
            if (blank := _BLANK_LINE.match(self._text, self._at)) is not None:
                self._cut(found, blank.end())  # a paragraph ends whatever mark was left open
                return True
            so_far = _BLANK_SO_FAR.match(self._text, self._at)
            if so_far is not None and so_far.end() == len(self._text) and not final and so_far.end() - self._at < 33:
                return False
        self._line_start = False
        return True

    def _end_of_sentence(self, wide: bool, final: bool) -> int | None:
        """Return the index behind the sentence that ends at `_at`; `_at` itself: it goes on; None: not yet known."""
        closers = (_WIDE_CLOSERS if wide else _CLOSERS).match(self._text, self._at + 1)
        behind = closers.end() if closers else self._at + 1
        if behind == len(self._text):
            return self._at if final else None
        if wide:
            return behind
        room = _ROOM.match(self._text, behind)
        if room is None:
            return self._at
        if room.end() == len(self._text):
            return self._at if final else None
        following = self._text[room.end()]
        if following.islower() or following in _GOES_ON or following == "\n":
            return self._at
        return self._at if self._abbreviates(behind) else room.end()

    def _abbreviates(self, behind: int) -> bool:
        if self._text[behind - 1] != ".":
            return False
        word = _WORD_BEFORE.search(self._text[max(self._start, behind - 16) : behind])
        if word is None:
            return False
        name = word["word"].casefold()
        return len(name) == 1 or name in _ABBREVIATIONS or (name.isdigit() and len(name) == 2)

    def _balanced(self, end: int) -> bool:
        """Return whether no inline code, bold or link is open at `end`."""
        for mark in _MARK.finditer(self._text, self._marked, end):
            if (run := mark["run"]) is not None:
                self._run = len(run) if not self._run else 0 if self._run == len(run) else self._run
            elif self._run:
                continue
            elif (pair := mark["pair"]) is not None:
                self._pairs ^= {pair}
            elif mark["link"] is not None:
                self._brackets, self._in_link = max(0, self._brackets - 1), True
            elif mark["close"] is not None:
                self._in_link = False
            elif mark["bracket"] is not None:
                self._brackets = max(0, self._brackets + (1 if mark["bracket"] == "[" else -1))
        self._marked = end
        return not (self._run or self._pairs or self._brackets or self._in_link)
