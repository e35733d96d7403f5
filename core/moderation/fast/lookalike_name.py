"""Names that pass for one of the staff: near to a name that the rule lists, or calling themselves what staff are.

Staff themselves never come here. Parameters: `names` (of the staff, as shown).
"""

import re

from core.domain.moderation.rules import Detector
from core.domain.moderation.signals import Finding
from core.moderation.fast.fold import Folded, fold, unsign
from core.moderation.fast.look import Look
from core.moderation.fast.windows import within_one

_NOT_LETTERS = re.compile(r"[\W_]+")
_LONG = 5
_MOST_CHARS = 64


def find(look: Look) -> Finding | None:
    """Return that an author's name is near to a staff member's, or, as a hint, that it is what staff are called."""
    shown = look.message.display_name[:_MOST_CHARS]
    plain = _plain(shown)
    if not plain:
        return None
    for name in look.words("names"):
        own = _plain(name)
        if own and (plain == own or (len(own) >= _LONG and within_one(plain, own))):
            return look.finding(Detector.LOOKALIKE_NAME, 1, 1, what="near a name of the staff")
    folded = Folded(shown)
    phrases = (f" {each} " in folded.spaced for each in look.lists.staff.phrases)
    if not look.lists.staff.words.isdisjoint(folded.all_words) or any(phrases):
        return look.finding(Detector.LOOKALIKE_NAME, 1, 1, what="calls itself staff", hint=True)
    return None


def _plain(name: str) -> str:
    return _NOT_LETTERS.sub("", unsign(fold(name)))
