"""Phrases that cannot wait, by family: one strong phrase, or phrases of two families.

Parameters: `families`; without them all but self-harm, which is no offence and has a rule of its own.
"""

from core.domain.moderation.rules import Detector
from core.domain.moderation.signals import Finding
from core.moderation.fast.look import Look

SELF_HARM = "self-harm"
_STRONG = "strong"
ENOUGH = 2


def find(look: Look) -> Finding | None:
    """Return the strongest family that a message speaks of; self-harm alone is enough with two weak phrases."""
    wanted = frozenset(look.words("families")) or look.lists.families - {SELF_HARM}
    spans: dict[str, list[tuple[int, int]]] = {}
    for phrase, place in look.reading.once("urgent", lambda: tuple(look.lists.urgent.find(look.reading.folded))):
        family, _, weight = phrase.name.partition("/")
        if family not in wanted:
            continue
        span = look.reading.folded.span_of_words(*place)
        if weight == _STRONG:
            return look.finding(Detector.URGENT, ENOUGH, ENOUGH, span=span, what=family)
        spans.setdefault(family, []).append(span)
    count = len(spans) if len(wanted) > 1 else sum(map(len, spans.values()))
    if count < ENOUGH:
        return None
    family, held = next(iter(spans.items()))
    return look.finding(Detector.URGENT, count, ENOUGH, span=held[0], what=family)
