"""Whether sleep kept what there was: entries appear, change and go only as accepted operations name them. Pure.

The operations check themselves one by one; this holds the mind before a batch against the mind after it, and knows of
each operation only what it may touch. So it finds what an operation does and does not say.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from core.domain.mind.bodies import Note, PressureStatus, Thread, ThreadStatus, Value
from core.domain.mind.codes import RejectionCode
from core.domain.mind.entries import Entry, Key, entry_hash
from core.domain.mind.speech import Candidate, CandidateStatus
from core.domain.mind.values import EntryId
from core.domain.operations.agency import RetireAgencyPressure, UpsertAgencyPressure
from core.domain.operations.base import Operation, key
from core.domain.operations.distillation import ApplyMemoryDistillation, ProposeMemoryDistillation
from core.domain.operations.identity import CrystallizeMemoryIntoIdentity, ReviseDurableMemory
from core.domain.operations.keeping import EvictAction, EvictEntries
from core.domain.operations.memories import PruneShortTermMemories, RetireDurableMemory
from core.domain.operations.speech import QueueCandidateIntervention, RetireCandidateIntervention
from core.domain.operations.threads import MergeIncubationSupport

MOST_PRUNED, LEAST_NOTES = 0.8, 5
"""Of five notes or more, which share may go without a trace before a person has to agree."""
_OVER = frozenset({PressureStatus.RESOLVED, PressureStatus.RETIRED})


@dataclass(frozen=True, slots=True)
class Breach:
    """One way in which a batch breaks the law, and the entries concerned, by id."""

    code: RejectionCode
    ids: tuple[EntryId, ...] = ()


def breaches(
    before: Iterable[Entry],
    after: Iterable[Entry],
    accepted: Sequence[Operation],
    given: frozenset[EntryId],
    *,
    must_consume: bool,
) -> tuple[Breach, ...]:
    """Return how a batch of sleep breaks the law of conservation; empty if it keeps it.

    `before`, `after`: the same part of the mind, tombstones too. `accepted`: what stands, in order, with the carrying
    out of each distillation that was proposed. `given`: the notes that the batch was to deal with. `must_consume`:
    none of them may be left.

    A breach `BULK_PRUNE` waits for a person; any other refuses the batch.
    """
    was, now = tuple(before), tuple(after)
    named = _Named(was)
    for operation in accepted:
        named.add(operation)
    found = (
        *_consumption(accepted, given, must_consume),
        *_differences(was, now, named),
        *_bulk(now, accepted, given),
    )
    return tuple(found)


def _consumption(accepted: Sequence[Operation], given: frozenset[EntryId], must: bool) -> Iterable[Breach]:
    if must and given and not accepted:
        yield Breach(RejectionCode.SLEEP_RETURNED_NOTHING_UNDER_PRESSURE, tuple(sorted(given)))
        return
    uses = Counter(id_ for operation in accepted for id_ in (_kept(operation) | _pruned(operation)))
    left = tuple(sorted(id_ for id_ in given if not uses[id_]))
    twice = tuple(sorted(id_ for id_ in given if uses[id_] > 1))
    if must and left:
        yield Breach(RejectionCode.SHORT_TERM_LEFT_AFTER_SLEEP, left)
    if twice:
        yield Breach(RejectionCode.CONTRADICTION, twice)


def _kept(operation: Operation) -> frozenset[EntryId]:
    """Return the notes that live on in what an operation makes. A proposal makes nothing yet."""
    match operation:
        case ApplyMemoryDistillation(source_memory_ids=ids) | CrystallizeMemoryIntoIdentity(source_memory_ids=ids):
            return frozenset(ids)
    return frozenset()


def _pruned(operation: Operation) -> frozenset[EntryId]:
    return frozenset(operation.source_memory_ids) if isinstance(operation, PruneShortTermMemories) else frozenset()


def _bulk(after: Iterable[Entry], accepted: Sequence[Operation], given: frozenset[EntryId]) -> Iterable[Breach]:
    pruned = frozenset[EntryId]().union(*map(_pruned, accepted))
    threads = (entry.body for entry in after if entry.live and isinstance(entry.body, Thread))
    supports = {id_ for thread in threads for id_ in thread.support_memory_ids}
    gone = pruned.difference(supports, *map(_kept, accepted))
    notes = given | pruned
    if len(notes) >= LEAST_NOTES and len(gone) / len(notes) > MOST_PRUNED:
        yield Breach(RejectionCode.BULK_PRUNE, tuple(sorted(gone)))


def _differences(before: Sequence[Entry], after: Sequence[Entry], named: "_Named") -> Iterable[Breach]:
    was, now = {entry.key: entry for entry in before}, {entry.key: entry for entry in after}
    concerned = was.keys() | now.keys() | named.made | named.gone
    wrong = sorted({each.id for each in concerned if not named.allows(each, was.get(each), now.get(each))})
    # Counted from the lists: an entry that stands in one twice has no difference to show.
    there, left = sum(entry.live for entry in before), sum(entry.live for entry in after)
    if wrong or left + len(named.gone) != there + len(named.made):
        yield Breach(RejectionCode.NOT_CONSERVED, tuple(wrong))


class _Named:
    """What a row of operations may make, change and end, by their own words and by what follows from each."""

    def __init__(self, before: Sequence[Entry]) -> None:
        self.made: set[Key] = set()
        self.changed: set[Key] = set()
        self.gone: set[Key] = set()
        self._before = before
        self._live = {entry.key for entry in before if entry.live}
        # From which pressure candidates were made that end with it.
        self._speech: dict[Key, EntryId] = {}
        for entry in before:
            body = entry.body if entry.live else None
            if isinstance(body, Candidate) and body.status is not CandidateStatus.SENDING:
                self._bind(entry.key, body.source_pressure_id, body.must_eventually_share)

    def allows(self, place: Key, was: Entry | None, now: Entry | None) -> bool:
        """Return whether an entry may have become what it is, and became what it had to."""
        if was is None and now is not None:
            return place in self.made and now.live is (place not in self.gone)
        if was is None or now is None or place in self.made:
            return False
        if place in self.gone:
            return was.live and not now.live
        if was.live is not now.live:
            return False
        return was is now or place in self.changed or entry_hash(was) == entry_hash(now)

    def add(self, operation: Operation) -> None:
        """Take in what one more operation names."""
        match operation:
            case ProposeMemoryDistillation(proposal_id=proposal):
                self._put(key("proposal", proposal))
            case ApplyMemoryDistillation(proposal_id=proposal, source_memory_ids=ids, memory=memory):
                self._supersede(ids, memory.memory_id)
                self._end(key("proposal", proposal))
            case ReviseDurableMemory(source_memory_ids=ids, memory=memory):
                self._supersede(ids, memory.memory_id)
                self._move_support(ids)
            case CrystallizeMemoryIntoIdentity(source_memory_ids=ids, memory=memory, value=value, private_note=note):
                self._supersede(ids, memory.memory_id)
                self._move_support(ids)
                if value is not None:
                    self._put(key("value", value.value_id))
                if note is not None:
                    self._put(key("note", note.note_id))
            case PruneShortTermMemories(source_memory_ids=ids):
                self._end(*(key("short_term", id_) for id_ in ids))
            case RetireDurableMemory(memory_id=id_):
                self._end(key("durable", id_))
            case MergeIncubationSupport(thread=thread):
                self._put(key("thread", thread.thread_id))
                if thread.status is ThreadStatus.RETIRED:
                    self._end(key("thread", thread.thread_id))
            case EvictEntries(entry_type=type_, entry_ids=ids, action=EvictAction.RETIRE):
                self._end(*(key(type_, id_) for id_ in ids))
            case EvictEntries(entry_type=type_, entry_ids=ids, action=EvictAction.SCRUB):
                self.changed.update(key(type_, id_) for id_ in ids)
            case _:
                self._add_other(operation)

    def _add_other(self, operation: Operation) -> None:
        match operation:
            case QueueCandidateIntervention(intervention=speech):
                place = key("candidate", speech.intervention_id)
                self._put(place)
                self._bind(place, speech.source_pressure_id, speech.must_eventually_share)
            case RetireCandidateIntervention(intervention_id=id_):
                self._end(key("candidate", id_))
            case UpsertAgencyPressure(pressure=pressure):
                self._put(key("pressure_item", pressure.pressure_id))
                if pressure.status in _OVER:
                    self._end_pressure(pressure.pressure_id)
            case RetireAgencyPressure(pressure_id=id_):
                self._end_pressure(id_)
            case _:
                self._put(*operation.rewrites())

    def _put(self, *every: Key) -> None:
        for each in every:
            (self.changed if each in self._live else self.made).add(each)
            self._live.add(each)

    def _end(self, *every: Key) -> None:
        self.gone.update(every)
        self._live.difference_update(every)

    def _supersede(self, ids: Iterable[EntryId], by: EntryId) -> None:
        self._end(*(key("durable", id_) for id_ in ids))
        self._put(key("durable", by))

    def _move_support(self, ids: Sequence[EntryId]) -> None:
        """Values and notes that rested on memories rest on what took their place."""
        for entry in self._before:
            if isinstance(entry.body, Value | Note) and entry.body.support_memory_id in ids:
                self.changed.add(entry.key)

    def _end_pressure(self, id_: EntryId) -> None:
        self._end(key("pressure_item", id_))
        self._end(*(place for place, pressure in self._speech.items() if pressure == id_ and place in self._live))

    def _bind(self, place: Key, pressure: EntryId | None, must: bool) -> None:
        if pressure is not None and not must:
            self._speech[place] = pressure
