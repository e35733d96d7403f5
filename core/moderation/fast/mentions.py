"""Mentions: many people called at once or within a minute, everyone, or one person again and again.

Parameters: `once`, `minute`, `minute_s`, `everyone` (whether calling all counts), `one_person`.
"""

from collections import Counter

from core.domain.moderation.rules import Detector, RuleKind
from core.domain.moderation.signals import Finding
from core.moderation.fast.look import Look

ONCE = 6
MINUTE, MINUTE_S = 12, 60
ONE_PERSON = 6


def find(look: Look) -> Finding | None:
    """Return the burst of mentions that a message is, or is part of."""
    marks, message = look.message.marks, look.message
    if look.rule.kind is RuleKind.HARASSMENT:
        return _at_one_person(look)
    if marks.calls_many and look.flag("everyone", True):
        return look.finding(Detector.MENTIONS, 1, 1, what="everyone")
    once = look.number("once", ONCE)
    if len(marks.mentions) >= once:
        return look.finding(Detector.MENTIONS, len(marks.mentions), once, what="in one message")
    if not marks.mentions:
        return None
    most, since = look.number("minute", MINUTE), message.at - look.seconds("minute_s", MINUTE_S)
    called = [each for each in look.recent.called if since < each.at <= message.at]
    people = frozenset[str]().union(*(each.accounts for each in called))
    if len(people) < most:
        return None
    return look.finding(Detector.MENTIONS, len(people), most, refs=[each.ref for each in called], what="in a minute")


def _at_one_person(look: Look) -> Finding | None:
    message = look.message
    most, since = look.number("one_person", ONE_PERSON), message.at - look.seconds("minute_s", MINUTE_S)
    lately = {each.ref: each for each in look.recent.called if since < each.at <= message.at}
    counts = Counter(account for each in lately.values() for account in each.accounts & message.marks.mentions)
    account, count = max(counts.items(), key=lambda held: held[1], default=("", 0))
    if count < most:
        return None
    refs = [each.ref for each in lately.values() if account in each.accounts]
    return look.finding(Detector.MENTIONS, count, most, refs=refs, what="one person")
