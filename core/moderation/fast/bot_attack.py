"""Words that speak to a model's instructions instead of to people. A hint and nothing more: it only marks a message."""

from core.domain.moderation.rules import Detector
from core.domain.moderation.signals import Finding
from core.moderation.fast.fold import Folded
from core.moderation.fast.look import Look
from core.moderation.fast.phrases import Phrases


def find(look: Look) -> Finding | None:
    """Return the first such phrase of a message."""
    held = attack(look.reading.folded, look.lists.bot_attack)
    if held is None:
        return None
    what, span = held
    return look.finding(Detector.BOT_ATTACK, 1, 1, span=span, what=what, hint=True)


def attack(folded: Folded, phrases: Phrases) -> tuple[str, tuple[int, int]] | None:
    """Return the family of the first phrase and where it stands in the text as it was written."""
    for phrase, place in phrases.find(folded):
        return phrase.name.partition("/")[0], folded.span_of_words(*place)
    return None
