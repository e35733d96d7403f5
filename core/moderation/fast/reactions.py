"""Reactions: many added and taken away by one person, or one symbol on many messages.

Parameters: `count`, `within_s`, `same`, `same_s`.
"""

from core.domain.moderation.rules import Detector
from core.domain.moderation.signals import Finding
from core.moderation.fast.look import Look

COUNT, WITHIN_S = 15, 60
SAME, SAME_S = 10, 60


def find(look: Look) -> Finding | None:
    """Return the burst that a person's last reaction is part of."""
    at, done = look.message.at, look.recent.reacted
    most, since = look.number("count", COUNT), at - look.seconds("within_s", WITHIN_S)
    lately = [each for each in done if since < each.at <= at]
    if len(lately) >= most:
        return look.finding(Detector.REACTIONS, len(lately), most, refs=[each.ref for each in lately], what="many")
    if not done:
        return None
    most, since = look.number("same", SAME), at - look.seconds("same_s", SAME_S)
    symbol = done[-1].symbol
    refs = [each.ref for each in done if since < each.at <= at and each.symbol == symbol]
    if len(set(refs)) < most:
        return None
    return look.finding(Detector.REACTIONS, len(set(refs)), most, refs=refs, what="one symbol")
