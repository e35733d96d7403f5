"""How the pieces of a pass become sections of a prompt: each labelled by code, fenced, and cut at a whole piece."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.domain.packets import ChronologyLeak, PacketItem, PacketPart, PassContext
from core.domain.prompt import AudienceViolation, PromptTooLarge, SourceKind
from core.prompt.material import Workbench
from core.prompt.sections import Fitted, Item

_FRAME = frozenset({"fence", "now", "left_out", "repair"})
PASS_INPUTS: Mapping[str, frozenset[str]] = {
    "rumination": _FRAME
    | {"posting", "napping", "self", "owed", "recent", "notes", "candidates", "pressures", "said", "refused"},
    "sleep": _FRAME
    | {"must", "load", "notes", "threads", "memories", "review", "proof", "values", "pressures", "candidates"},
}
"""The templates that passes ask with, and what the builder gives to each; the catalog holds them to it."""
_ABSOLUTE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:|\b1[6-9]\d{8}(?:\d{3})?\b")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part with its items made, before its size is known. `frame`: what stands around the items."""

    part: PacketPart
    items: tuple[Item, ...]
    frame: int

    @property
    def need(self) -> int:
        """What the whole part costs; nothing if it has no items."""
        return self.frame + sum(item.cost for item in self.items) if self.items else 0


def check_readable(context: PassContext) -> None:
    """Refuse a context with anything in it that not every reader of the group may read.

    Raises:
        AudienceViolation: A bug of whoever gathered it.
    """
    for part in context.parts:
        if any(not item.provenance.audience <= context.readable for item in part.items):
            raise AudienceViolation("prompt item outside its audience", section=part.name)


def check_chronology(texts: Sequence[str]) -> None:
    """Refuse code's own words with an absolute time in them.

    Raises:
        ChronologyLeak: A bug of whoever wrote them.
    """
    for text in texts:
        if _ABSOLUTE.search(text):
            raise ChronologyLeak("prompt of a pass tells an absolute time")


def pieces_of(context: PassContext, bench: Workbench, frame: int) -> tuple[Piece, ...]:
    """Return the parts with their items labelled, fenced and measured."""
    check_chronology([item.label for part in context.parts for item in part.items])
    return tuple(
        Piece(part, tuple(_item(each, bench) for each in part.items), frame if part.items else 0)
        for part in context.parts
    )


def share_out(pieces: Sequence[Piece], room: int) -> dict[str, int]:
    """Return how many tokens each part gets: its need up to its cap, less where that is too much, more where it grows.

    Raises:
        PromptTooLarge: There is no room for anything.
    """
    if room <= 0:
        raise PromptTooLarge("prompt of a pass does not fit", room=room)
    shares = {each.part.name: min(each.need, each.part.cap) for each in pieces}
    over = sum(shares.values()) - room
    for each in sorted(pieces, key=lambda piece: -piece.part.rank):
        if over <= 0:
            break
        cut = min(over, shares[each.part.name])
        shares[each.part.name] -= cut
        over -= cut
    spare = room - sum(shares.values())
    for each in pieces:
        if each.part.grows:
            more = min(spare, each.need - shares[each.part.name])
            shares[each.part.name] += more
            spare -= more
    return shares


def fill(piece: Piece, share: int) -> Fitted:
    """Return the items that fit, whole ones only."""
    left = share - piece.frame
    kept: list[Item] = []
    for item in piece.items:
        if item.cost <= left:
            kept.append(item)
            left -= item.cost
        elif piece.part.prefix:
            break
    return Fitted(tuple(kept), dropped=len(piece.items) - len(kept), trimmed=len(kept) < len(piece.items))


def _item(item: PacketItem, bench: Workbench) -> Item:
    fence = bench.fence
    handle = None if item.source is None else fence.handles.of(item.source.kind, item.source.key)
    person = None if item.speaker is None or item.speaker.person is None else fence.person(item.speaker.person)
    speaker = "" if item.speaker is None else fence.speaker(item.speaker)
    place, where = None, ""
    if item.room is not None:
        place = fence.handles.of(SourceKind.ROOM, item.room[0])
        where = f"in {place} {fence.name(item.room[1])}".rstrip()
    about = None if item.about is None else fence.handles.of(item.about.kind, item.about.key)
    matter = "" if about is None else f"about {about}"
    header = fence.header(handle or "", speaker, where, matter, item.label, at=item.at)
    return bench.item(header, item.text, (handle, person, place, about), item.provenance)
