"""Duplicates: a same or near-same text by one person in several rooms, or by several people who have just come.

Parameters: `rooms`, `rooms_s`, `people`, `people_s`, `similarity`.
"""

from collections import Counter
from datetime import timedelta

from core.domain.moderation.rules import Detector
from core.domain.moderation.signals import Finding
from core.moderation.fast.look import Look
from core.moderation.fast.reading import similarity
from core.moderation.fast.windows import Said

ROOMS, ROOMS_S = 3, 120
PEOPLE, PEOPLE_S = 4, 300
SIMILARITY = 0.85
KEYS_SHARED = 2
LONGEST = timedelta(hours=1)
"""Nothing older is compared, whatever a rule says."""


def find(look: Look) -> Finding | None:
    """Return the copies that a message is one of."""
    if not look.reading.sketch:
        return None
    near = look.number("similarity", SIMILARITY)
    compared = look.reading.once("alike", lambda: _alike(look))
    alike = [each for each, how_near in compared if how_near >= near]
    return _in_rooms(look, alike) or _by_newcomers(look, alike)


def _alike(look: Look) -> list[tuple[Said, float]]:
    """Return each remembered message of the last minutes that may be near, with how near it is."""
    message, sketch = look.message, look.reading.sketch
    since = message.at - LONGEST
    held: dict[tuple[int, str], Said] = {}
    shared = Counter[tuple[int, str]]()
    for each in look.windows.like(message.community_id, look.reading.keys):
        if since < each.at:
            key = (each.room_id, each.ref)
            held[key] = each
            shared[key] += 1
    # Near texts share nearly all of their keys; one alone is often mere chance, and comparing is what costs.
    enough = min(KEYS_SHARED, len(look.reading.keys))
    return [(held[key], similarity(held[key].sketch, sketch)) for key, count in shared.items() if count >= enough]


def _in_rooms(look: Look, alike: list[Said]) -> Finding | None:
    most, since = look.number("rooms", ROOMS), look.message.at - look.seconds("rooms_s", ROOMS_S)
    own = [each for each in alike if each.person_id == look.message.person_id and each.at > since]
    rooms = {each.room_id for each in own}
    if len(rooms) < most:
        return None
    return look.finding(Detector.DUPLICATE, len(rooms), most, refs=[each.ref for each in own], what="rooms")


def _by_newcomers(look: Look, alike: list[Said]) -> Finding | None:
    most, since = look.number("people", PEOPLE), look.message.at - look.seconds("people_s", PEOPLE_S)
    if not look.windows.is_newcomer(look.message, newcomer=False):
        return None
    new = [each for each in alike if each.newcomer and each.at > since]
    people = {each.person_id for each in new}
    if len(people) < most:
        return None
    return look.finding(Detector.DUPLICATE, len(people), most, refs=[each.ref for each in new], what="new members")
