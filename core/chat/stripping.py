"""Takes a model's thinking out of its answer, at once or while it streams in.

Law: one scanner serves both ways, and it decides nothing before what it has seen decides it, so any split
of a text into pieces gives the same result. Where thinking was, a paragraph ends: no removal can join the
halves of a tag.
"""

import re
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from core.chat.markup import RUN_CHARS, SPAN_CHARS, CodeFence, mend_surrogates, read_head, span_end
from core.chat.tags import CHANNEL, TAG_CHARS, Tag, TagAct, may_be_tag, read_tag, tag_end


class ReachBack(StrEnum):
    """How far a closing tag without an opening one reaches back; all before it was thinking.

    Templates of some models write the opening tag into the prompt, so that only the closing one arrives.
    `always` needs the whole output. `once` holds the text back until the first thinking has ended. `never`
    drops the tag alone: for models that are known not to think in their text.
    """

    ALWAYS = "always"
    ONCE = "once"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Stripped:
    """A text without thinking, trimmed. `dropped`: something was removed."""

    text: str
    dropped: bool


def strip_reasoning(text: str, turn_text: str = "", reach_back: ReachBack = ReachBack.ALWAYS) -> Stripped:
    """Return `text` without thinking: tags with all between them, and all behind a tag that never closes.

    Tags inside code stay. So do tags that `turn_text` contains too, where the answer speaks of them in the
    middle of a line, as in "the <think> tag". Lone surrogates are replaced.
    """
    scanner = ReasoningFilter(turn_text, reach_back)
    kept = scanner.feed(mend_surrogates(text)) + scanner.finish()
    return Stripped(kept, scanner.dropped)


_TRIGGER = re.compile(r"[\n<\[◁`]")
_IN_THOUGHT = re.compile(r"[<\[◁`]")
_BLANK = re.compile(r"\s*")
_RUN = re.compile(r"`+")
# A tag that is spoken of has room or a quotation mark before it and no letter right behind it.
_BEFORE_MENTION = frozenset(" \t\"'“”„‘’«»‹›(:,*_-/`")
_AFTER_MENTION = re.compile(r"[ \t]{0,8}[^\s<\[◁\w]|[ \t]{1,8}\w")
_MENTION_CHARS = 10


class ReasoningFilter:
    """Reads an output piece by piece; `feed` and `finish` return what is certain to stay, once and in order."""

    def __init__(self, turn_text: str, reach_back: ReachBack) -> None:
        self.dropped = False
        self._turn = turn_text.casefold()
        self._reach_back = reach_back
        self._text = ""  # not yet decided from `_at` on
        self._at = 0
        self._before = "\n"  # the character before `_at`, as the reader of the answer would see it
        self._kept: list[str] = []
        self._blank: list[str] = []  # white space that stays only if something follows
        self._wrote = False
        self._open: list[str] = []  # families of the tags that are open, outermost first
        self._open_count: Counter[str] = Counter()
        self._ended = False  # a thinking has ended
        self._fence: CodeFence | None = None
        self._line_start = True
        self._skip_blank = True

    def feed(self, piece: str) -> str:
        """Return what `piece` settles."""
        self._text = self._text[self._at :] + piece
        self._at = 0
        self._scan(final=False)
        return self._take() if self._settled() else ""

    def finish(self) -> str:
        """Return the rest; thinking that is still open is dropped."""
        self._scan(final=True)
        return self._take()

    def _settled(self) -> bool:
        return self._reach_back is ReachBack.NEVER or (self._reach_back is ReachBack.ONCE and self._ended)

    def _take(self) -> str:
        taken = "".join(self._kept)
        self._kept.clear()
        return taken

    def _scan(self, final: bool) -> None:
        while self._at < len(self._text):
            step = self._think_step if self._open else self._text_step
            if not step(final):
                return

    def _text_step(self, final: bool) -> bool:
        """Decide the next stretch outside thinking; False: more text is needed."""
        if self._skip_blank:
            blank = _BLANK.match(self._text, self._at)
            self._at = blank.end() if blank else self._at
            self._skip_blank = self._at == len(self._text)
            self._line_start, self._before = True, "\n"
            return not self._skip_blank
        if self._line_start:
            head = read_head(self._text, self._at, self._fence, final)
            if head is None:
                return False
            self._line_start = False
            if head.turns:
                self._fence = head.fence
                self._keep(head.end)
                return True
        if self._fence is not None:
            newline = self._text.find("\n", self._at)
            self._keep(len(self._text) if newline < 0 else newline + 1)
            return True
        trigger = _TRIGGER.search(self._text, self._at)
        if trigger is None or trigger.start() > self._at:
            self._keep(len(self._text) if trigger is None else trigger.start())
            return True
        return self._special(trigger.group(), final)

    def _special(self, char: str, final: bool) -> bool:
        if char == "\n":
            self._keep(self._at + 1)
            return True
        if char == "`":
            end = self._code_end(final)
            if end is not None:
                self._keep(end)
            return end is not None
        tag = self._tag(final)
        if tag is None:
            return False
        if tag.act is TagAct.LITERAL:
            self._keep(self._at + 1)
        else:
            self._obey(tag)
        return True

    def _think_step(self, final: bool) -> bool:
        """Decide the next stretch of thinking, of which nothing stays."""
        trigger = _IN_THOUGHT.search(self._text, self._at)
        if trigger is None or trigger.start() > self._at:
            self._pass(len(self._text) if trigger is None else trigger.start())
            return True
        if trigger.group() == "`":  # a closing tag that the thinking quotes does not end it
            end = self._code_end(final)
            if end is not None:
                self._pass(end)
            return end is not None
        tag = self._tag(final)
        if tag is None:
            return False
        if tag.act is TagAct.LITERAL:
            self._pass(self._at + 1)
        else:
            self._obey(tag)
        return True

    def _keep(self, end: int) -> None:
        piece = self._text[self._at : end]
        body = piece.rstrip()
        if body:
            self._kept.extend(self._blank)
            self._blank.clear()
            self._kept.append(body)
            self._wrote = True
        if len(body) < len(piece):
            self._blank.append(piece[len(body) :])
        self._line_start = self._line_start or piece.endswith("\n")
        self._pass(end)

    def _pass(self, end: int) -> None:
        if end > self._at:
            self._before = self._text[end - 1]
        self._at = end

    def _code_end(self, final: bool) -> int | None:
        """Return the index behind the inline code at hand, or behind its lone run; None: not yet known."""
        match = _RUN.match(self._text, self._at, self._at + RUN_CHARS + 1)
        run = match.end() - self._at if match else 1
        if run > RUN_CHARS:
            return self._at + run
        end = span_end(self._text, self._at, run)
        if end is not None and (final or end < len(self._text)):
            return end
        seen = len(self._text) - self._at
        newline = self._text.find("\n", self._at, self._at + run + SPAN_CHARS) >= 0
        if final or newline or seen > run + SPAN_CHARS + RUN_CHARS:
            return self._at + run
        return None

    def _tag(self, final: bool) -> Tag | None:
        """Return what the character at hand begins; None: not yet known."""
        if not may_be_tag(self._text, self._at):
            return Tag(TagAct.LITERAL, "", self._at + 1)
        end = tag_end(self._text, self._at)
        if end is None and not final and len(self._text) - self._at <= TAG_CHARS:
            return None
        tag = read_tag(self._text, self._at, end, final)
        if tag is None or tag.act not in (TagAct.OPEN, TagAct.CLOSE):
            return tag
        if self._before not in _BEFORE_MENTION or self._text[self._at : tag.end].casefold() not in self._turn:
            return tag
        following = self._text[tag.end : tag.end + _MENTION_CHARS]
        if len(following) < _MENTION_CHARS and "\n" not in following and not final:
            return None
        return Tag(TagAct.LITERAL, "", tag.end) if _AFTER_MENTION.match(following) else tag

    def _obey(self, tag: Tag) -> None:
        self.dropped = True
        match tag.act:
            case TagAct.OPEN:
                # A channel never holds another one: models often leave out what ends the one before.
                if tag.family != CHANNEL or not self._open_count[CHANNEL]:
                    self._open.append(tag.family)
                    self._open_count[tag.family] += 1
            case TagAct.CLOSE:
                self._close(tag.family)
            case _:  # a mark of the template that opens and closes nothing, unless its channel is open
                if tag.act is TagAct.END and self._open_count[tag.family]:
                    self._close(tag.family)
        self._pass(tag.end)
        self._end_paragraph()

    def _close(self, family: str) -> None:
        if not self._open:
            if self._reach_back is ReachBack.ALWAYS or not (self._ended or self._reach_back is ReachBack.NEVER):
                self._kept.clear()
                self._wrote = False
            self._ended = True
        elif self._open_count[family]:
            while (popped := self._open.pop()) != family:
                self._open_count[popped] -= 1
            self._open_count[family] -= 1
            self._ended = self._ended or not self._open

    def _end_paragraph(self) -> None:
        self._blank = ["\n\n"] if self._wrote else []
        self._skip_blank = not self._open
        self._fence = None
