"""What is kept of a person, in words for that person: facts with quotes, rooms, links, choices."""

from collections.abc import Sequence
from datetime import tzinfo

from core.domain.audience import usable
from core.domain.ids import RoomId
from core.domain.profile import SaidBy
from core.prompt.fences import shown_name
from core.store.facts import Fact
from core.store.links import Linked
from core.store.preview import Kept

QUOTE_CHARS = 160
_SAID = {
    SaidBy.SELF: "you said so",
    SaidBy.REPORTED: "others said so; used only once you confirm it",
    SaidBy.CORRECTED: "you set it by command",
}
CHOICES_IN_WORDS = {
    "archive-me": "what you write in rooms with archive is kept and may be quoted",
    "learn-me": "facts about you may be learned from what you say",
    "dm-memory": "direct messages may be kept where the operator has switched that on",
    "unprompted": "I may speak to you unasked",
}


def may_be_told(fact: Fact, readable: frozenset[RoomId]) -> bool:
    """Return whether the person may hear of the fact: what others said only where its rooms may all be read.

    Else it is as if there were none; an erasure reaches it all the same.
    """
    return fact.said_by is not SaidBy.REPORTED or fact.confirmed or usable(fact.sources, readable)


def facts_in_words(facts: Sequence[Fact], readable: frozenset[RoomId], tz: tzinfo) -> list[str]:
    """Return each fact with its quotes; a quote from a room that may not be read here is only counted."""
    lines = []
    for fact in facts:
        said = "confirmed by you" if fact.confirmed and fact.said_by is SaidBy.REPORTED else _SAID[fact.said_by]
        lines.append(f"{fact.id} · {fact.predicate}: {fact.value} ({said}, {fact.stated_at.astimezone(tz):%Y-%m-%d})")
        seen = [quote for quote in fact.quotes if quote.room_id in readable]
        for quote in seen:
            words = " ".join(quote.words.split())
            cut = words if len(words) <= QUOTE_CHARS else f"{words[:QUOTE_CHARS]}…"
            lines.append(f"    > {cut} — #{shown_name(quote.room_name)}, message {quote.message_id}")
        if hidden := len(fact.quotes) - len(seen):
            lines.append(f"    and {hidden} in rooms that you cannot read now")
    return lines


def rooms_in_words(kept: Sequence[Kept], readable: frozenset[RoomId], tz: tzinfo) -> list[str]:
    """Return how much each room keeps; rooms that may not be read here are summed up."""
    seen = [room for room in kept if room.room_id in readable]
    lines = [
        f"#{shown_name(room.room_name)}: {room.messages} messages,"
        f" {room.first.astimezone(tz):%Y-%m-%d} to {room.last.astimezone(tz):%Y-%m-%d}"
        for room in seen
    ]
    if hidden := sum(room.messages for room in kept if room not in seen):
        lines.append(f"elsewhere: {hidden} messages")
    return lines


def links_in_words(linked: Sequence[Linked], tz: tzinfo) -> list[str]:
    """Return the linked accounts."""
    return [f"{each.platform}:{each.account_ref}, since {each.since.astimezone(tz):%Y-%m-%d}" for each in linked]


def choices_in_words(choices: dict[str, bool]) -> list[str]:
    """Return each choice with what it is about."""
    return [f"{name}: {'on' if on else 'off'} — {CHOICES_IN_WORDS[name]}" for name, on in choices.items()]
