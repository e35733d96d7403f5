"""Writing that hides what it says: scripts mixed in a word, invisible and direction characters, stacked marks.

Parameters: `words`, `marks`.
"""

import re

from core.domain.moderation.rules import Detector
from core.domain.moderation.signals import Finding
from core.moderation.fast.fold import CAP
from core.moderation.fast.look import Look

WORDS = 2
MARKS = 5
_LATIN = "A-Za-z\u00c0-\u024f"
_OTHER = "\u0370-\u03ff\u0400-\u052f"
_UNSEEN = "\u00ad\u200b-\u200d\u2060-\u2064\ufeff\u180e"
# A word of a shared letter alone is none: the other one has to stand beside it.
_MIXED = re.compile(rf"[{_LATIN}](?=[{_OTHER}])|[{_OTHER}](?=[{_LATIN}])")
_HIDDEN = re.compile(rf"[{_LATIN}{_OTHER}][{_UNSEEN}]+(?=[{_LATIN}{_OTHER}])")
_ONE, _OTHER_ONE, _NOT_SEEN = re.compile(f"[{_LATIN}]"), re.compile(f"[{_OTHER}]"), re.compile(f"[{_UNSEEN}]")
_TURNED = re.compile("[\u202d\u202e]")
_TAGS = re.compile("[\U000e0020-\U000e007f]{2,}")
_FLAG = "\U0001f3f4"
_WORD = re.compile(r"\S+")
_MARK = "[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
_STACKS = {MARKS: re.compile(_MARK + "{5,}")}


def find(look: Look) -> Finding | None:
    """Return where a text hides what it says."""
    text = look.message.text[:CAP]
    if text.isascii():
        return None
    most = int(look.number("marks", MARKS))
    stacks = _STACKS.get(most) or re.compile(f"{_MARK}{{{max(2, most)},}}")
    if stacked := stacks.search(text):
        length = stacked.end() - stacked.start()
        return look.finding(
            Detector.SCRIPTS, length, most, span=(max(0, stacked.start() - 1), stacked.end()), what="marks"
        )
    least = look.number("words", WORDS)
    if (tags := _tagged(text)) or (tags := _TURNED.search(text)):
        return look.finding(Detector.SCRIPTS, least, least, span=tags.span(), what="unseen")
    if not ((_ONE.search(text) and _OTHER_ONE.search(text) and _MIXED.search(text)) or _unseen(text)):
        return None
    hidden = [match for match in _WORD.finditer(text) if _MIXED.search(match[0]) or _HIDDEN.search(match[0])]
    if len(hidden) < least:
        return None
    return look.finding(Detector.SCRIPTS, len(hidden), least, span=hidden[0].span(), what="mixed words")


def _unseen(text: str) -> bool:
    return _NOT_SEEN.search(text) is not None and _HIDDEN.search(text) is not None


def _tagged(text: str) -> re.Match[str] | None:
    """Return letters of the kind that flags are made with, where there is no flag."""
    return next((match for match in _TAGS.finditer(text) if text[match.start() - 1 : match.start()] != _FLAG), None)
