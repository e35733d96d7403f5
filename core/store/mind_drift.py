"""What the drift of the mood weighs: the numbers of live entries and none of their words. Read only."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from core.domain.ids import RoomId
from core.domain.mind.bodies import Mood, Pressure, PressureKind, PressureStatus, Sleep, ThreadStatus, read_body
from core.domain.mind.speech import CandidateStatus
from core.domain.pressure import Pressing, Ripening, Waiting
from core.store.engine import Tx

# A step every five minutes would read each entry in full; the whole bodies of the three that it writes are enough.
_WEIGHED = """
select t.type, e.entry_id, e.version, e.sources,
       case when t.type in ('sleep', 'pressure', 'mood') then e.body::text end as body,
       case when t.type not in ('sleep', 'pressure', 'mood') then e.brief end as brief
from unnest('{candidate,pressure_item,thread,short_term,sleep,pressure,mood}'::text[]) t(type) cross join lateral (
    select * from voidbot.state_entries l
    where l.mind_id = $1 and l.type = t.type and l.retired_at is null and not l.body ? 'scrubbed' offset 0) e"""
_TENDED = """
select distinct e.sources from unnest('{short_term,durable,thread,pressure_item,proposal}'::text[]) t(type)
cross join lateral (
    select l.sources from voidbot.state_entries l
    where l.mind_id = $1 and l.type = t.type and l.retired_at is null and case t.type
        when 'short_term' then true when 'proposal' then (l.brief->>'expiresAt')::timestamptz <= $2
        else coalesce((l.brief->'needsReview')::boolean, false) end offset 0) e"""


@dataclass(frozen=True, slots=True)
class NoteFact:
    """What counts of a note of the day: its rooms, what it is about, and how often it came up."""

    sources: frozenset[RoomId]
    topics: tuple[str, ...]
    times: int


@dataclass(slots=True)
class Weighed:
    """What draws a mind and holds it back."""

    sleep: Sleep = field(default_factory=Sleep)
    pressure: Pressure = field(default_factory=Pressure)
    mood: Mood = field(default_factory=Mood)
    candidates: list[Waiting] = field(default_factory=list)
    items: list[Pressing] = field(default_factory=list)
    threads: list[Ripening] = field(default_factory=list)
    notes: list[NoteFact] = field(default_factory=list)
    versions: dict[str, int] = field(default_factory=dict)
    """The versions of sleep, pressure and mood, as far as they were ever written."""


async def load_weighed(tx: Tx, mind_id: str) -> Weighed:
    """Return what a step of the drift weighs."""
    found = Weighed()
    for row in await tx.fetch(_WEIGHED, mind_id):
        if row["body"] is not None:
            found.versions[row["entry_id"]] = row["version"]
            match read_body(row["body"]):
                case Sleep() as sleep:
                    found.sleep = sleep
                case Pressure() as pressure:
                    found.pressure = pressure
                case Mood() as mood:
                    found.mood = mood
        else:
            _take(found, row["type"], row["brief"], frozenset(map(RoomId, row["sources"])))
    return found


async def list_tended(tx: Tx, mind_id: str, now: datetime) -> set[frozenset[RoomId]]:
    """Return of which sets of rooms there are entries that sleep has something to do with."""
    return {frozenset(map(RoomId, row["sources"])) for row in await tx.fetch(_TENDED, mind_id, now)}


def _take(found: Weighed, type_: str, brief: dict[str, Any], sources: frozenset[RoomId]) -> None:
    match type_:
        case "candidate":
            until = brief.get("deferredUntil")
            deferred = None if until is None else datetime.fromisoformat(until)
            status, must = CandidateStatus(brief["status"]), brief["mustEventuallyShare"]
            found.candidates.append(Waiting(status, brief["priority"], must, deferred))
        case "pressure_item":
            kind = PressureKind(brief["kind"])
            found.items.append(Pressing(PressureStatus(brief["status"]), kind, brief["intensity"]))
        case "thread":
            found.threads.append(Ripening(ThreadStatus(brief["status"]), brief.get("desireToSpeak")))
        case "short_term":
            found.notes.append(NoteFact(sources, tuple(brief.get("topics", ())), brief["supportCount"]))
