"""What is never stored because it follows from entries: how chewed over a topic is, how new, what covers it. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from core.domain.mind.bodies import ShortTerm, Thoughtful, Touch
from core.domain.mind.entries import Entry
from core.domain.mind.values import AnchorKind, Target

TOUCHES = 8
"""How many of the last touches count."""
LEAST_TOUCHES = 3
OVER_CHEWED = 0.75
NOVEL_DAYS = 30
"""For how many days back the caller holds a thought against what was said in a room."""
COVERED = (timedelta(days=7), timedelta(days=30), timedelta(days=90))


def touches_of(entries: Iterable[Entry]) -> tuple[Touch, ...]:
    """Return what each mention did to these notes of the day, oldest first; other entries have none."""
    found = [
        (revision.seq, revision.effect)
        for entry in entries
        if isinstance(entry.body, ShortTerm)
        for revision in entry.body.revisions
    ]
    return tuple(effect for _, effect in sorted(found))


def saturation(touches: Sequence[Touch]) -> float:
    """Return the share of the last 8 touches that said nothing new; 0 where there are fewer than 3. Oldest first."""
    last = touches[-TOUCHES:]
    repeated, deepened = last.count(Touch.REPEATED), last.count(Touch.DEEPENED)
    if len(last) < LEAST_TOUCHES or not repeated:
        return 0.0
    return repeated / (repeated + deepened)


def novelty(likeness: Iterable[float]) -> float:
    """Return how new a thought would be to a room, 0 to 1, by its likeness to what was said there; 1 if nothing was."""
    return 1.0 - min(1.0, max(0.0, *likeness, 0.0))


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a target's live entries rest on.

    `unused`: indexed sources that none of them names. `anchors`: how many by kind that are at most 7, 30 and 90 days
    old, and older.
    """

    unused: tuple[str, ...]
    anchors: Mapping[AnchorKind, tuple[int, int, int, int]]


def coverage(
    target: Target,
    entries: Iterable[Entry],
    indexed: Iterable[str],
    dated: Mapping[str, datetime],
    now: datetime,
) -> Coverage:
    """Return what covers a target. `indexed`: the places of its sources, `source:<repo>/<path>`.

    `dated`: when what an anchor names was said or written, by place; without it the entry's own time counts.
    """
    times: dict[tuple[AnchorKind, str], datetime] = {}
    for entry in entries:
        body = entry.body
        if not entry.live or not isinstance(body, Thoughtful) or body.target.key != target.key:
            continue
        for anchor in body.proof:
            key = (anchor.kind, anchor.place)
            at = dated.get(anchor.place, entry.created_at)
            times[key] = max(at, times.get(key, at))
    counts: dict[AnchorKind, list[int]] = {}
    for (kind, _), at in times.items():
        age = now - at
        band = next((n for n, most in enumerate(COVERED) if age <= most), len(COVERED))
        counts.setdefault(kind, [0] * (len(COVERED) + 1))[band] += 1
    named = {place for _, place in times}
    return Coverage(
        tuple(sorted(set(indexed) - named)),
        {kind: (n[0], n[1], n[2], n[3]) for kind, n in sorted(counts.items(), key=lambda each: each[0].value)},
    )
