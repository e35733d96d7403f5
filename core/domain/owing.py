"""What the mind owes a pressure that asks for something: that it is said, put off within bounds, or let go. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from core.domain.candidates import candidate_of
from core.domain.mind.bodies import PressureItem, PressureKind, PressureStatus
from core.domain.mind.entries import Entry
from core.domain.mind.speech import Candidate, CandidateStatus
from core.domain.mind.values import EntryId
from core.domain.operations.agency import RetireAgencyPressure, UpsertAgencyPressure
from core.domain.operations.base import Operation
from core.domain.operations.speech import Intervention, QueueCandidateIntervention

LEAST_INTENSITY = 0.55
"""From which intensity on a pressure that asks for something has to be answered."""
MOST_OWED = 8
"""How many pressures one run has to answer."""
MOST_DEFERRALS = 3
"""How often speech about one pressure is put off; then it is said, or the pressure let go."""

_OWING = frozenset({PressureKind.SELF_ADVOCACY_REQUEST, PressureKind.WORLD_ADVOCACY_REQUEST})
_PRESSES = frozenset({PressureStatus.ACTIVE, PressureStatus.READY_TO_ACT})
_LET_GO = frozenset({PressureStatus.COOLING, PressureStatus.RESOLVED, PressureStatus.RETIRED})
_ON_ITS_WAY = frozenset(
    {CandidateStatus.QUEUED, CandidateStatus.AWAITING_APPROVAL, CandidateStatus.APPROVED, CandidateStatus.SENDING}
)


def owed(pressures: Iterable[Entry], candidates: Iterable[Entry], now: datetime) -> tuple[Entry, ...]:
    """Return the pressures that a run has to answer, the strongest first: they ask for something and nothing waits."""
    waiting = tuple(candidates)
    found = [
        (-body.intensity, entry.id, entry)
        for entry in pressures
        if (body := _pressing(entry)) is not None and not covered(entry, waiting, now)
    ]
    return tuple(entry for _, _, entry in sorted(found, key=lambda each: each[:2])[:MOST_OWED])


def matches(speech: Candidate | Intervention, pressure: Entry) -> bool:
    """Return whether speech is about a pressure: made from it, or about the same thing."""
    if not isinstance(pressure.body, PressureItem):
        return False
    same = speech.target is not None and speech.target.key == pressure.body.target.key
    return same or speech.source_pressure_id == pressure.id


def covered(pressure: Entry, candidates: Iterable[Entry], now: datetime) -> bool:
    """Return whether speech about a pressure is on its way or put off. What was said, or put off too long, is not."""
    return any(
        (body := candidate_of(entry)) is not None and matches(body, pressure) and _waits(body, now)
        for entry in candidates
    )


def unresolved(
    pressures: Iterable[Entry],
    decided: Iterable[Operation],
    new_messages: int,
    posting: bool,
    deferrals: Mapping[EntryId, int],
) -> tuple[EntryId, ...]:
    """Return which of the pressures that were owed a batch leaves unanswered, in their order; any refuses the batch.

    Speech with a place always answers one. Put off, it does only while nobody speaks or nothing can be posted, and
    three times in all. `decided`: accepted operations. `new_messages`: of people in the window. `deferrals`: how often
    speech about a pressure was put off since it was last said or the pressure changed its kind; absent means never.
    """
    operations = tuple(decided)
    may_defer = new_messages == 0 or not posting

    def resolved(pressure: Entry) -> bool:
        deferrable = may_defer and deferrals.get(pressure.id, 0) < MOST_DEFERRALS
        return any(_resolves(operation, pressure, deferrable) for operation in operations)

    return tuple(pressure.id for pressure in pressures if not resolved(pressure))


def _resolves(operation: Operation, pressure: Entry, deferrable: bool) -> bool:
    match operation:
        case QueueCandidateIntervention(intervention=speech):
            said = speech.status is CandidateStatus.QUEUED and speech.delivery_target is not None
            return matches(speech, pressure) and (said or deferrable)
        case RetireAgencyPressure(pressure_id=id_):
            return id_ == pressure.id
        case UpsertAgencyPressure(pressure=again):
            return again.pressure_id == pressure.id and again.status in _LET_GO
    return False


def _pressing(entry: Entry) -> PressureItem | None:
    body = entry.body if entry.live and isinstance(entry.body, PressureItem) else None
    presses = body is not None and body.status in _PRESSES and body.kind in _OWING
    return body if body is not None and presses and body.intensity >= LEAST_INTENSITY else None


def _waits(body: Candidate, now: datetime) -> bool:
    put_off = body.status is CandidateStatus.DEFERRED and body.deferred_until is not None and body.deferred_until > now
    return put_off or body.status in _ON_ITS_WAY
