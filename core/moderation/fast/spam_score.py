"""The spam score of a text, where there is a model. Parameters: `threshold`, `hint`."""

from core.domain.moderation.rules import Detector
from core.domain.moderation.signals import Finding
from core.moderation.fast.look import Look

THRESHOLD = 0.9


def find(look: Look) -> Finding | None:
    """Return the score, if it is high enough."""
    least = look.number("threshold", THRESHOLD)
    if look.score is None or look.score < least:
        return None
    return look.finding(Detector.SPAM_SCORE, round(look.score, 4), least, what="spam", hint=look.flag("hint", False))
