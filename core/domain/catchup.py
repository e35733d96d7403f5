"""Which questions of a gap are answered: the young ones, a few in a room, everybody's newest first."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from core.domain.messages import InboundMessage

ANSWERED_UNTIL = timedelta(minutes=15)
"""How old a message may be that came by catch-up and is still answered."""
ANSWERS_A_ROOM = 5


def answered_of(messages: Sequence[InboundMessage], now: datetime) -> frozenset[str]:
    """Return the ids of those messages of one room's gap, oldest first, that may be answered."""
    asked = [each for each in messages if each.addressed_by and now - each.sent_at <= ANSWERED_UNTIL]
    newest = {each.person_ref: each.message_id for each in asked}
    first = set(newest.values())
    asked.reverse()
    ordered = sorted(asked, key=lambda each: each.message_id not in first)
    return frozenset(each.message_id for each in ordered[:ANSWERS_A_ROOM])
