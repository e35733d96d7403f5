"""How the sections of a prompt share its room: pure numbers first, then cutting to them.

Costs are those of one `Meter`. The cost of a whole is never more than the sum of the costs of its parts,
so what fits by sums fits.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from math import ceil

from core.domain.prompt import Handle, PromptTooLarge, Provenance
from core.prompt.tokens import Meter

TABLE_TOKENS = 8_000
"""The estimated tokens for which the caps below are written; other sizes scale them."""
CAPS: Mapping[str, int] = {
    "topic": 80,
    "self": 400,
    "memories": 600,
    "person": 250,
    "passages": 1_300,
    "chain": 600,
    "transcript": 1_100,
    "read": 80,
    "turn": 1_200,
}
FIXED_CAPS: Mapping[str, int] = {
    "role": 950,
    "rules": 400,
    "persona": 400,
    "output": 450,
    "room": 40,
    "fence": 50,
    "left_out": 50,
    "now": 50,
    "repair": 0,
}
"""What is never cut. The catalog refuses a role, pack or output template over its size."""
FLOW = ("passages", "transcript", "memories", "chain", "turn")
"""Who gets what the others leave unused, in this order."""
DROP_ORDER = ("read", "person", "self", "topic", "memories", "chain", "passages", "transcript")
"""Which whole section goes when the least of each does not fit, in this order."""
TURN_LEAST_TOKENS = 300
LINE_LEAST_TOKENS = 24
PASSAGE_LEAST_TOKENS = 40
_HEAD_SHARE = 0.7
"""What is kept of a text cut in the middle: its beginning to its end as 700 to 300."""


class Cut(Enum):
    """How an item that is too large is made smaller."""

    NEVER = auto()
    MIDDLE = auto()
    SENTENCES = auto()


@dataclass(frozen=True, slots=True)
class Item:
    """One fenced piece of a section: a header by code, a body by people. `cost` is of both."""

    header: str
    body: str
    cost: int
    handles: frozenset[Handle]
    provenance: Provenance

    @property
    def text(self) -> str:
        """The item as it stands in the prompt."""
        return _joined(self.header, self.body)


@dataclass(frozen=True, slots=True)
class Part:
    """A section before its size is known.

    `order` lists the items from the one kept longest to the first to go; the first `floor` of them stay.
    While the section is too small, no item gets more than the `shares`-th part of it. `frame` is the cost
    of the section around its items.
    """

    name: str
    items: tuple[Item, ...]
    order: tuple[int, ...]
    frame: int
    cut: Cut = Cut.NEVER
    floor: int = 0
    shares: int = 1
    least_body: int = LINE_LEAST_TOKENS

    @property
    def need(self) -> int:
        """The cost of the whole section; nothing for a section without items."""
        return self.frame + sum(item.cost for item in self.items) if self.items else 0

    def least(self, meter: Meter) -> int:
        """Return the cost below which the section cannot keep its floor."""
        kept = [self.items[index] for index in self.order[: self.floor]]
        return self.frame + sum(self.least_of(item, meter) for item in kept) if kept else 0

    def least_of(self, item: Item, meter: Meter) -> int:
        """Return what the item costs when it is cut as far as it may be."""
        return min(item.cost, _around(item, meter) + self.least_body)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A section at its final size; `items` in the order of the prompt."""

    items: tuple[Item, ...]
    dropped: int
    trimmed: bool


def item_of(
    meter: Meter, header: str, body: str, handles: Iterable[Handle], provenance: Provenance, ceiling: int
) -> Item:
    """Return an item, measured no further than `ceiling`, above which its exact cost decides nothing."""
    text = _joined(header, body)
    at_least = ceil(len(text) / meter.bytes_per_token)  # a character is a byte or more
    cost = at_least if at_least > ceiling else meter.cost(text)
    return Item(header, body, cost, frozenset(handles), provenance)


def _joined(header: str, body: str) -> str:
    return f"{header}\n{body}\n" if body else f"{header}\n"


def scale_of(budget: int, room: int) -> float:
    """Return what to multiply the caps by for texts of `budget` tokens, of which `room` are not fixed.

    1 at the table's size and below it as long as the fixed texts leave room enough; above it the caps grow.
    """
    scaled = sum(CAPS.values())
    return min(max(1.0, (budget - TABLE_TOKENS + scaled) / scaled), room / scaled)


def allot(parts: Iterable[Part], room: int, scale: float, meter: Meter) -> dict[str, int]:
    """Return the share of each section, in tokens; 0 for a section that goes.

    Each gets what it needs up to its scaled cap and at least its floor; what is left flows on.

    Raises:
        PromptTooLarge: Not even the turn, cut to its least, fits `room`.
    """
    by_name = {part.name: part for part in parts}
    shares = {name: max(min(part.need, int(CAPS[name] * scale)), part.least(meter)) for name, part in by_name.items()}
    for name in DROP_ORDER:
        if sum(shares.values()) <= room:
            break
        shares[name] = 0
    spare = room - sum(shares.values())
    if spare < 0:
        raise PromptTooLarge("prompt does not fit", room=room, turn=shares["turn"])
    for name in FLOW:
        if shares.get(name, 0) > 0:
            extra = min(spare, by_name[name].need - shares[name])
            shares[name] += extra
            spare -= extra
    return shares


def fit(part: Part, share: int, meter: Meter) -> Fitted:
    """Return the section cut to `share`: whole if it fits, else by its order, its cut and its floor."""
    if part.need <= share:
        return Fitted(part.items, dropped=0, trimmed=False)
    left = share - part.frame
    fair = left // part.shares
    kept: dict[int, Item] = {}
    owed = sum(part.least_of(part.items[index], meter) for index in part.order[: part.floor])
    for place, index in enumerate(part.order):
        item = part.items[index]
        limit = left
        if place < part.floor:
            owed -= part.least_of(item, meter)
            limit = left - owed
        if part.shares > 1:
            limit = min(limit, max(fair, part.least_of(item, meter)))
        fitting = item if item.cost <= limit else _cut(item, part, limit, meter)
        if fitting is None:
            if part.cut is Cut.NEVER:
                continue  # whole items only: a smaller one may still fit
            break
        kept[index] = fitting
        left -= fitting.cost
    items = tuple(kept[index] for index in sorted(kept))
    return Fitted(items, dropped=len(part.items) - len(items), trimmed=True)


def _cut(item: Item, part: Part, limit: int, meter: Meter) -> Item | None:
    """Return the item cut to `limit`, or None if too little of it would be left."""
    body_tokens = limit - _around(item, meter)
    if part.cut is Cut.NEVER or body_tokens < part.least_body:
        return None
    if part.cut is Cut.MIDDLE:
        body = cut_middle(item.body, body_tokens, meter)
    else:
        body = cut_sentences(item.body, body_tokens, meter)
    return Item(item.header, body, meter.cost(_joined(item.header, body)), item.handles, item.provenance)


def _around(item: Item, meter: Meter) -> int:
    """Return what a cut item costs beside its body: header, line breaks, and the note with a large count."""
    return meter.cost(item.header + "\n") + meter.cost(f"\n{_note(10**9)}\n\n")


def cut_middle(text: str, budget: int, meter: Meter) -> str:
    """Return the beginning and the end of `text` within `budget`, and a note of what is missing between."""
    head = meter.head(text, int(budget * _HEAD_SHARE))
    tail = meter.tail(text[len(head) :], budget - int(budget * _HEAD_SHARE))
    missing = len(text) - len(head) - len(tail)
    return f"{head}\n{_note(missing)}\n{tail}" if missing else text


_SENTENCE_END = re.compile(r"(?:[.!?…][\"'”’)\]]*(?=\s)|[。！？])|\n")


def cut_sentences(text: str, budget: int, meter: Meter) -> str:
    """Return whole sentences from the beginning of `text` within `budget`, and a note of what is missing.

    Where no sentence ends late enough, the text is cut where the budget ends.
    """
    head = meter.head(text, budget)
    ends = [match.end() for match in _SENTENCE_END.finditer(head)]
    if ends and meter.cost(head[: ends[-1]]) >= PASSAGE_LEAST_TOKENS:
        head = head[: ends[-1]]
    missing = len(text) - len(head)
    return f"{head.rstrip()}\n{_note(missing)}" if missing else text


def _note(missing: int) -> str:
    return f"[… {missing} characters left out …]"
