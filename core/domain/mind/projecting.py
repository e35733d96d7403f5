"""The private self as a prompt may show it: what is most to the point, in words, within a budget. Pure.

Everything given here may be shown: who may hear what is decided where it is read. Same input, same bytes.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from core.domain.ids import PersonId, RoomId
from core.domain.mind.bodies import Pressure, Profile, Scrubbed, Sleep, Thoughtful, Thread, Touch
from core.domain.mind.citing import ref_of
from core.domain.mind.deriving import saturation, touches_of
from core.domain.mind.entries import Entry
from core.domain.mind.facts import Packet
from core.domain.mind.values import EntryId
from core.domain.mind.wording import (
    identity_words,
    label_of,
    one_line_of,
    pressure_words,
    sleep_words,
    text_of,
)
from core.domain.prompt import Provenance, Recollection, SourceId, SourceKind, Trust

CHAT_TOKENS = 900
PASS_TOKENS = 2_500
ITEM_TOKENS = 12
"""What the line costs that opens an item, beside its label."""
UPTO: Mapping[str, float] = {"memory": 0.5, "line": 0.7, "short_term": 0.85, "thread": 0.93}
"""Up to which share of the budget a group is told, so that those after it are told as well; others: all of it."""
MOST_LINES = 8
"""How many more memories are told in one line each."""
MMR = 0.7
"""How much being to the point counts against being unlike what was chosen already."""
SAME_WORDS = 0.85
"""The share of common words from which two memories are one thought."""
MOST: Mapping[str, int] = {
    "value": 4,
    "case": 4,
    "short_term": 6,
    "thread": 4,
    "pressure_item": 4,
    "candidate": 3,
    "receipt": 3,
}
"""How many of a type are shown."""
_KEPT = {"value": 0.9, "case": 0.75, "thread": 0.6, "pressure_item": 0.5, "candidate": 0.4, "receipt": 0.3}
_WORD = re.compile(r"\w+")
_TOPIC_WORDS = 3
Cost = Callable[[str], int]


class Purpose(StrEnum):
    """What a projection is for; a pass sees as well what waits to be said."""

    CHAT = "chat"
    RUN = "pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewWanted:
    """For whom and about what the mind is shown.

    `readable`: rooms that every reader of the venue may read now. `private_to`: the one reader, if there is only one.
    `public`: what is made of it may be said in the room. `repos`: names of repositories that stand in `about`.
    `near`: how alike entries are to `about` by an embedder, -1 to 1; those without a score are compared by words.
    """

    room: RoomId
    readable: frozenset[RoomId]
    purpose: Purpose = Purpose.CHAT
    public: bool = True
    private_to: PersonId | None = None
    speaker: PersonId | None = None
    about: str = ""
    repos: frozenset[str] = frozenset()
    near: Mapping[EntryId, float] = field(default_factory=dict)

    @property
    def types(self) -> tuple[str, ...]:
        """The types of entries that can be shown; notes on oneself, cursors and proposals never are."""
        shown = ("profile", "value", "pressure", "case", "durable", "short_term", "thread", "pressure_item", "receipt")
        return (*shown, "candidate") if self.purpose is Purpose.RUN else shown

    @property
    def pool(self) -> int:
        """How many memories are worth a look: about twice what there is room for."""
        return 24 if self.purpose is Purpose.CHAT else 56

    @property
    def targets(self) -> tuple[str, ...]:
        """What a thought is to be about to be to the point, as `kind:id`."""
        who = () if self.speaker is None else (f"person:{self.speaker}",)
        return (*who, f"room:{self.room}", *sorted(f"repo:{name.casefold()}" for name in self.repos))

    @property
    def topics(self) -> tuple[str, ...]:
        """Every slug of up to three words that stands in `about`."""
        words = _WORD.findall(self.about.casefold())
        runs = (words[at : at + n] for n in range(1, _TOPIC_WORDS + 1) for at in range(len(words) - n + 1))
        return tuple(sorted({"-".join(run) for run in runs}))


@dataclass(frozen=True, slots=True)
class Ranked:
    """An entry with how much it is to the point; 0 to 1 for what is ranked."""

    entry: Entry
    score: float


@dataclass(frozen=True, slots=True)
class Material:
    """What may be shown, the best of each type first. `there`: how many there are of each, shown or not.

    `supports`: notes of the day that threads rest on.
    """

    found: Mapping[str, Sequence[Ranked]]
    there: Mapping[str, int] = field(default_factory=dict)
    sleep: Sleep | None = None
    supports: Mapping[str, Entry] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Counted:
    """How many items of a group are shown and how many were left out for space."""

    group: str
    kept: int
    left_out: int


@dataclass(frozen=True, slots=True)
class SelfStateSection:
    """The mind as a prompt shows it. `entries`: all that is shown, in order. `tokens`: about what it costs."""

    self_view: tuple[Recollection, ...]
    memories: tuple[Recollection, ...]
    entries: tuple[Entry, ...]
    trace: tuple[Counted, ...]
    tokens: int

    @property
    def versions(self) -> dict[str, int]:
        """The version of each entry that is shown, as `expect` wants them."""
        return {entry.id: entry.version for entry in self.entries}

    @property
    def packet(self) -> Packet:
        """What whoever reads it has read."""
        return Packet(
            rooms=frozenset(room for entry in self.entries for room in entry.sources),
            people=frozenset(person for entry in self.entries for person in entry.people),
            refs=frozenset(ref_of(entry) for entry in self.entries),
        )


def distinct(ranked: Iterable[Ranked]) -> Iterator[Ranked]:
    """Yield the best first, each held back by how like it is to those before; what only repeats one is left out."""
    candidates = [(each, frozenset(_WORD.findall(_point(each.entry).casefold()))) for each in ranked]
    alike = [0.0] * len(candidates)
    open_ = list(range(len(candidates)))
    while open_:
        best = max(open_, key=lambda n: (MMR * candidates[n][0].score - (1 - MMR) * alike[n], -n))
        open_.remove(best)
        chosen, words = candidates[best]
        yield chosen
        for n in open_:
            alike[n] = max(alike[n], _shared(words, candidates[n][1]))
        open_ = [n for n in open_ if alike[n] < SAME_WORDS]


class _Page:
    """Takes whole items as long as there is room."""

    def __init__(self, budget: int, cost: Cost) -> None:
        self.budget, self.spent = budget, 0
        self._cost = cost
        self.items: dict[bool, list[Recollection]] = {True: [], False: []}
        self.entries: list[Entry] = []
        self.counts: dict[str, int] = {}

    def put(self, group: str, item: Recollection, entry: Entry | None, *, always: bool = False) -> bool:
        """Take an item if it fits into its group's share of the budget; return whether it did."""
        cost = self._cost(f"{item.label}\n{item.text}\n") + ITEM_TOKENS
        if not always and self.spent + cost > self.budget * UPTO.get(group, 1.0):
            return False
        self.spent += cost
        self.items[group in ("memory", "line", "short_term")].append(item)
        self.entries += [] if entry is None else [entry]
        self.counts[group] = self.counts.get(group, 0) + 1
        return True


def fit(material: Material, wanted: ViewWanted, now: datetime, budget: int, cost: Cost) -> SelfStateSection:
    """Return what fits into `budget` tokens, as `cost` counts them: whole items, in a fixed order.

    The line that says who the mind is stands there always. What was left out is counted in the trace.
    """
    page = _Page(budget, cost)
    _put_self(page, material, now)
    _put_some(page, material, "value", now)
    if material.sleep is not None:
        page.put("sleep", Recollection("", "wakefulness", sleep_words(material.sleep, now), 0.85, _OWN), None)
    _put_pressure(page, material)
    _put_some(page, material, "case", now)
    left_out = _put_memories(page, material, now)
    for type_ in ("short_term", "thread", "pressure_item", "candidate", "receipt"):
        _put_some(page, material, type_, now, drafts=not wanted.public)
    trace = [Counted("memory", page.counts.get("memory", 0) + page.counts.get("line", 0), left_out)]
    for type_ in MOST:
        kept = page.counts.get(type_, 0)
        there = material.there.get(type_, len(material.found.get(type_, ())))
        trace += [Counted(type_, kept, there - kept)] if there else []
    return SelfStateSection(
        tuple(page.items[False]), tuple(page.items[True]), tuple(page.entries), tuple(trace), page.spent
    )


def _put_self(page: _Page, material: Material, now: datetime) -> None:
    entry = _first(material, "profile")
    profile = entry.body if entry is not None and isinstance(entry.body, Profile) else Profile()
    provenance = _OWN if entry is None else _provenance(entry)
    page.put("profile", Recollection("", "who this is", identity_words(profile), 1.0, provenance), entry, always=True)


def _put_pressure(page: _Page, material: Material) -> None:
    entry = _first(material, "pressure")
    pressure = entry.body if entry is not None and isinstance(entry.body, Pressure) else Pressure()
    provenance = _OWN if entry is None else _provenance(entry)
    page.put("pressure", Recollection("", "urge to speak", pressure_words(pressure), 0.8, provenance), entry)


def _put_memories(page: _Page, material: Material, now: datetime) -> int:
    """Put memories in full while they fit, and some more in one line each; return how many were left out."""
    ranked = material.found.get("durable", ())
    kept = lines = 0
    full = True
    for each in distinct(ranked):
        if full:
            full = page.put("memory", _item(each, now, 0.5 + each.score / 2), each.entry)
            kept += full
        if not full:
            line = _item(each, now, each.score / 4, short=True)
            if lines == MOST_LINES or not page.put("line", line, each.entry):
                break
            lines += 1
    return max(material.there.get("durable", len(ranked)), len(ranked)) - kept - lines


def _put_some(page: _Page, material: Material, type_: str, now: datetime, *, drafts: bool = False) -> None:
    tried = 0
    for each in material.found.get(type_, ()):
        if tried == MOST[type_]:
            return
        chewed = saturation(_touches(each.entry, material))
        weight = 0.25 + each.score / 4 if type_ == "short_term" else _KEPT[type_] - tried / 100
        item = _item(each, now, weight, chewed=chewed, drafts=drafts)
        if item.text:
            tried += 1
            page.put(type_, item, each.entry)


def _touches(entry: Entry, material: Material) -> tuple[Touch, ...]:
    if isinstance(entry.body, Thread):
        supports = (material.supports.get(id_) for id_ in entry.body.support_memory_ids)
        return touches_of(each for each in supports if each is not None)
    return touches_of([entry])


def _item(
    each: Ranked, now: datetime, weight: float, *, short: bool = False, chewed: float = 0.0, drafts: bool = False
) -> Recollection:
    entry = each.entry
    # What was said is no proof of what is thought, so it has no name by which it could be given as one.
    key = "" if entry.type == "receipt" else entry.id
    text = one_line_of(entry) if short else text_of(entry, drafts=drafts)
    return Recollection(key, label_of(entry, now, saturation=chewed, short=short), text, weight, _provenance(entry))


def _provenance(entry: Entry) -> Provenance:
    trust = Trust.MEMBER if entry.sources else Trust.OWN
    return Provenance((SourceId(SourceKind.MEMORY, entry.id),), entry.sources, trust)


def _first(material: Material, type_: str) -> Entry | None:
    found = material.found.get(type_, ())
    return found[0].entry if found and not isinstance(found[0].entry.body, Scrubbed) else None


def _point(entry: Entry) -> str:
    return entry.body.point if isinstance(entry.body, Thoughtful) else ""


def _shared(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one or other else 1.0


_OWN = Provenance(trust=Trust.OWN)
