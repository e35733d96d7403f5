"""Files that are programs, pass for something else, or are too large, by their name and the type that is given.

Parameters: `max_mb`, `allow` (suffixes that are welcome here), `any` (every file counts, for rooms without files).
"""

import re

from core.domain.messages import Attachment
from core.domain.moderation.rules import Detector
from core.domain.moderation.signals import Finding
from core.moderation.fast.fold import fold
from core.moderation.fast.look import Look
from core.moderation.list_forms import Attachments

_UNSEEN = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_WORD = re.compile(r"[^\W_]+")
_MB = 1_000_000


def find(look: Look) -> Finding | None:
    """Return the first file that is on the list."""
    allowed = frozenset(each.lower().lstrip(".") for each in look.words("allow"))
    largest = look.number("max_mb", look.lists.attachments.max_mb)
    for each in look.message.attachments:
        if look.flag("any", False):
            return look.finding(Detector.ATTACHMENTS, 1, 1, what=each.kind)
        if what := _what(each, look, allowed):
            return look.finding(Detector.ATTACHMENTS, 1, 1, what=what)
        if each.size_bytes > largest * _MB:
            return look.finding(Detector.ATTACHMENTS, each.size_bytes / _MB, largest, what="size")
    return None


def _what(each: Attachment, look: Look, allowed: frozenset[str]) -> str:
    """Return what is wrong with a file; empty if nothing is."""
    kinds: Attachments = look.lists.attachments
    turned = _UNSEEN.search(each.name)
    suffixes = [part.strip().lower() for part in _UNSEEN.sub("", each.name).split(".")[1:]]
    last = suffixes[-1] if suffixes else ""
    if last in allowed:
        return ""
    runs = kinds.executable | kinds.script
    # A program is one even where its name is turned round, which is why that is asked first.
    if turned and each.name:
        return "hidden name"
    if last in runs and len(suffixes) > 1 and suffixes[-2] in kinds.harmless:
        return "double suffix"
    if last in kinds.executable or each.mime.partition(";")[0].strip().lower() in kinds.mimes:
        return "program"
    if last in kinds.script:
        return "script"
    words = set(_WORD.findall(fold(f"{look.message.text[:1000]} {each.name}")))
    if last in kinds.archive and not words.isdisjoint(kinds.passwords):
        return "archive with a password"
    return ""
