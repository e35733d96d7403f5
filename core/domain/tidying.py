"""What upkeep of a mind has to do now: what is over, what wakes, what makes room, which task is due. Pure."""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from core.domain.candidates import Standing, stale, wakes
from core.domain.mind.bodies import CAPS, Case, CaseStatus, Proposal
from core.domain.mind.entries import Entry
from core.domain.mind.facts import Facts
from core.domain.mind.speech import CandidateStatus
from core.domain.mind.values import EntryId
from core.domain.mind.view import View
from core.domain.operations.base import Operation
from core.domain.operations.keeping import EvictAction, EvictEntries, crystallized, retention
from core.domain.operations.obligations import CloseOpenCase
from core.domain.operations.receipts import RetireDeliveryReceipts
from core.domain.operations.speech import AdvanceCandidate, RetireCandidateIntervention

UNTOUCHED = timedelta(days=14)
"""How long an obligation is owed that nobody touches."""
RECEIPTS_COUNT = timedelta(days=90)
"""How long what was said counts for whether it may be said again."""
TOMBSTONES_SPEAK = timedelta(days=180)
"""How long a tombstone keeps its words."""
NIGHT_FROM = timedelta(hours=3)
"""From when on, on the mind's own clock, what is done once a day is done."""
MOST = 50
"""How many entries one task changes in one run."""
ROOM = 50
"""How many lasting memories fewer than there may be there are after room was made: sleep adds to them."""
EVICTED = ("durable", "note", "pressure_item", "thread", "value")
"""Types of which room is made. Notes of the day are slept off; what is owed or waits to be said has its own time."""


class Task(StrEnum):
    """What upkeep of a mind does. Stored values never change."""

    EXPIRY = "expiry"
    RECEIPTS = "receipts"
    MEMORY = "memory"
    RUNS = "runs"
    VERIFY = "verify"

    @property
    def done(self) -> str:
        """The name under which a run counts that nothing was left of it."""
        return f"{self.value}_done"


@dataclass(frozen=True, slots=True)
class Earlier:
    """What an earlier run of upkeep counted, and when."""

    at: datetime
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Planned:
    """An operation that upkeep proposes, with the entries that it is about."""

    operation: Operation
    entries: tuple[Entry, ...]


def due(earlier: Iterable[Earlier], now: datetime, zone: ZoneInfo) -> tuple[Task, ...]:
    """Return what is due: expiry always, the others once for each night in which nothing was left of them.

    A night that was missed is made up for at the first hour after it.
    """
    tonight = night_of(now, zone)
    counted = [each.counts for each in earlier if night_of(each.at, zone) == tonight]
    done = {task for task in Task for counts in counted if counts.get(task.done)}
    return tuple(task for task in Task if task is Task.EXPIRY or task not in done)


def night_of(at: datetime, zone: ZoneInfo) -> date:
    """Return the local day on whose night a moment counts."""
    return (at.astimezone(zone) - NIGHT_FROM).date()


def over(entries: Iterable[Entry], now: datetime) -> list[Planned]:
    """Return what ends candidates, proposals and obligations whose time is over."""
    found: list[Planned] = []
    for entry in entries:
        reason = stale(entry, Standing(), now)
        match entry.body:
            case Proposal(expires_at=until) if entry.live and until <= now:
                found.append(_evicting([entry], "its time was over before it was carried out"))
            case Case() as case if entry.live and entry.updated_at + UNTOUCHED <= now:
                closing = CloseOpenCase(source_message_id=case.source_message_id, status=CaseStatus.DROPPED)
                found.append(Planned(closing, (entry,)))
            case _ if reason is not None:
                giving_up = RetireCandidateIntervention(intervention_id=entry.id, reason=reason.value)
                found.append(Planned(giving_up, (entry,)))
    return found


def awake(entries: Iterable[Entry], now: datetime) -> list[Planned]:
    """Return what queues candidates that were put off until now."""
    return [
        Planned(
            AdvanceCandidate(intervention_id=entry.id, to=CandidateStatus.QUEUED, reason="its time has come"), (entry,)
        )
        for entry in entries
        if wakes(entry, now) and stale(entry, Standing(), now) is None
    ]


def retiring(receipts: Sequence[Entry]) -> list[Planned]:
    """Return what lets receipts count no more, one operation for all of them."""
    if not receipts:
        return []
    ids = tuple(entry.id for entry in receipts)
    return [Planned(RetireDeliveryReceipts(receipt_ids=ids, reason="older than 90 days"), tuple(receipts))]


def scrubbing(tombstones: Iterable[Entry]) -> list[Planned]:
    """Return what takes the words of old tombstones, one operation for each type."""
    by_type: dict[str, list[Entry]] = {}
    for entry in tombstones:
        by_type.setdefault(entry.type, []).append(entry)
    reason = "a tombstone of more than 180 days"
    return [_evicting(there, reason, EvictAction.SCRUB) for _, there in sorted(by_type.items())]


def crowded(counts: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """Return the types of which a group has too many. `counts`: how many live ones of a type each group has."""
    return tuple(sorted({type_ for type_, count in counts if _too_many(type_, count) > 0}))


def evictions(view: View, facts: Facts, type_: str, most: int) -> list[Planned]:
    """Return what makes room in each group that has too many of a type, those that matter least first."""
    by_group: dict[frozenset[str], list[Entry]] = {}
    for entry in view.live(type_):
        by_group.setdefault(facts.group(entry.sources), []).append(entry)
    found: list[Planned] = []
    for _, there in sorted(by_group.items(), key=lambda each: sorted(each[0])):
        extra = min(_too_many(type_, len(there)), most)
        if extra <= 0:
            continue
        worth = {entry.id: retention(entry, view, facts) for entry in there if not crystallized(entry)}
        least = set(heapq.nsmallest(extra, worth, key=lambda id_: (worth[id_], id_)))
        going = [entry for entry in there if entry.id in least]
        if going:
            most -= len(going)
            scores = {id_: round(min(1.0, worth[id_]), 6) for id_ in sorted(least)}
            found.append(_evicting(going, "there are more than there may be", scores=scores))
    return found


def _too_many(type_: str, count: int) -> int:
    extra = count - CAPS[type_]
    return extra + ROOM if type_ == "durable" and extra >= 0 else extra


def _evicting(
    entries: Sequence[Entry], reason: str, action: EvictAction = EvictAction.RETIRE, *,
    scores: Mapping[EntryId, float] | None = None,
) -> Planned:  # fmt: skip
    operation = EvictEntries(
        entry_type=entries[0].type,
        entry_ids=tuple(entry.id for entry in entries),
        action=action,
        reason=reason,
        scores=dict(scores or {}),
    )
    return Planned(operation, tuple(entries))
