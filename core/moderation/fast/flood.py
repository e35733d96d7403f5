"""Flood: many messages of one person, in one room or in the community. Parameters: `room`, `room_s`, `all`, `all_s`."""

from core.domain.moderation.rules import Detector
from core.domain.moderation.signals import Finding
from core.moderation.fast.look import Look

ROOM, ROOM_S = 8, 10
ALL, ALL_S = 20, 60


def find(look: Look) -> Finding | None:
    """Return the flood that a message is part of; an edit says nothing new."""
    message = look.message
    if message.edited:
        return None
    lately = [each for each in look.recent.said if each.at <= message.at]
    for what, most, within in (
        ("room", look.number("room", ROOM), look.seconds("room_s", ROOM_S)),
        ("community", look.number("all", ALL), look.seconds("all_s", ALL_S)),
    ):
        said = [
            each
            for each in lately
            if each.at > message.at - within and (what == "community" or each.room_id == message.room_id)
        ]
        if len(said) >= most:
            return look.finding(Detector.FLOOD, len(said), most, refs=[each.ref for each in said], what=what)
    return None
