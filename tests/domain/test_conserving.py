"""The law of conservation: of what sleep held, nothing goes, changes or comes but by an operation that names it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.domain.conserving import Breach, breaches
from core.domain.mind.codes import Accepted
from core.domain.mind.codes import RejectionCode as Code
from core.domain.mind.entries import Entry, Retired
from core.domain.mind.facts import Emitter
from core.domain.mind.values import EntryId
from core.domain.operations.agency import RetireAgencyPressure, UpsertAgencyPressure
from core.domain.operations.base import Operation
from core.domain.operations.distillation import ApplyMemoryDistillation, ProposeMemoryDistillation
from core.domain.operations.keeping import EvictEntries
from core.domain.operations.runtime import UpdateMood
from core.domain.operations.speech import QueueCandidateIntervention, RetireCandidateIntervention
from tests.domain.minds import (
    NOW,
    ROOM,
    applied,
    make_candidate,
    make_durable,
    make_facts,
    make_note,
    make_pressure_item,
    make_short_term,
    make_thread,
    make_value,
    make_view,
    read,
    said,
    thought,
)
from tests.domain.proposals import (
    IDENTITY,
    TEXT,
    VALUE,
    WHY,
    crystallize,
    full,
    more_for,
    propose,
    prune,
    retire,
    support,
)
from tests.domain.proposals import revise as revision
from tests.domain.speeches import make_mood

NOTES = tuple(f"seam:{n}" for n in range(6))
GIVEN = frozenset(map(EntryId, NOTES))
MIND = (
    *(make_short_term(each) for each in NOTES),
    make_short_term("seam:other"),
    make_durable("d1"),
    make_durable("d2", kind="identity_seam", **{k: v for k, v in IDENTITY.items() if k != "kind"}),
    make_durable("d:old", retired="revised", age=timedelta(days=100)),
    make_value("value:one", supportMemoryId="d1"),
    make_note("note:one", supportMemoryId="d2"),
    make_thread("thread:routes"),
    make_pressure_item("p1"),
    make_pressure_item("p2"),
    make_candidate("c1", source_pressure_id="p1"),
    make_candidate("c2", source_pressure_id="p1", must_eventually_share=True),
    make_candidate("c3", source_pressure_id="p1", status="sending"),
    make_candidate("c4", source_pressure_id="p2"),
    make_mood(),
)


def carried_out(proposal: ProposeMemoryDistillation) -> ApplyMemoryDistillation:
    """What the parent adds to a proposal."""
    return ApplyMemoryDistillation(
        proposal_id=proposal.proposal_id,
        source_memory_ids=proposal.source_memory_ids,
        memory=proposal.candidate,
        loss_note=proposal.loss_note,
    )


def distil(name: str, *ids: str) -> tuple[Operation, Operation]:
    proposal = propose(*ids, proposal=f"proposal:{name}", id_=f"durable:{name}")
    return proposal, carried_out(proposal)


def press(id_: str, status: str) -> UpsertAgencyPressure:
    return read(UpsertAgencyPressure, pressure=thought(pressure_id=id_, kind="discomfort", status=status))


def queue(id_: str, pressure: str, must: bool = False) -> QueueCandidateIntervention:
    fields = {
        "intervention_id": id_,
        "kind": "ripe_thought_share",
        "summary": "Say which.",
        "draft": f"Shall I list {id_}?",
        "delivery_target": {"channelId": ROOM},
        "source_pressure_id": pressure,
        "must_eventually_share": must,
    }
    return read(QueueCandidateIntervention, intervention=fields)


def evict(type_: str, *ids: str, action: str) -> EvictEntries:
    return read(EvictEntries, entry_type=type_, entry_ids=ids, action=action, reason="nobody asked for it")


def slept(operations: Sequence[Operation], mind: Sequence[Entry] = MIND) -> tuple[list[Entry], list[Operation]]:
    """The mind after a batch, and what of it stood."""
    view, accepted = make_view(*mind), []
    for operation in operations:
        by = Emitter.PARENT if isinstance(operation, ApplyMemoryDistillation) else Emitter.SLEEP
        facts = make_facts(by, readable={ROOM: frozenset({ROOM})})
        if isinstance(applied(operation, view, facts), Accepted):
            accepted.append(operation)
    return list(view.all()), accepted


def broken(
    *operations: Operation,
    spoil: Callable[[list[Entry]], list[Entry]] = lambda after: after,
    must: bool = True,
    given: frozenset[EntryId] = GIVEN,
    mind: Sequence[Entry] = MIND,
) -> list[tuple[str, tuple[str, ...]]]:
    """The breaches of a batch of which all stood; `spoil`: what went wrong with the mind after it."""
    after, accepted = slept(operations, mind)
    assert len(accepted) == len(operations)
    found: tuple[Breach, ...] = breaches(mind, spoil(after), accepted, given, must_consume=must)
    return [(each.code.value, each.ids) for each in found]


def only(*ids: str) -> frozenset[EntryId]:
    return frozenset(map(EntryId, ids))


WHOLE: tuple[Operation, ...] = (
    *distil("a", *NOTES[:3]),
    *distil("b", NOTES[3]),
    more_for(maturation=0.4),
    prune(*NOTES[4:]),
)
"""All notes are dealt with: four distilled, two pruned."""


def test_a_batch_that_deals_with_every_note_once_keeps_the_law() -> None:
    assert broken(*WHOLE) == []


def test_notes_left_over_are_named_unless_they_may_be_left() -> None:
    some = distil("a", *NOTES[:3])
    assert broken(*some) == [("short_term_left_after_sleep", NOTES[3:])]
    assert broken(*some, must=False) == []


def test_a_proposal_that_is_not_carried_out_consumes_nothing() -> None:
    proposal, _ = distil("a", *NOTES)
    assert broken(proposal) == [("short_term_left_after_sleep", NOTES)]


def test_support_of_a_thread_and_eviction_alone_consume_nothing() -> None:
    notes = full("short_term", make_short_term)
    one = only(notes[0].id)
    mind = (*notes, make_thread())
    kept = read_support(notes[0].id)
    assert broken(kept, mind=mind, given=one) == [("short_term_left_after_sleep", tuple(one))]
    assert broken(kept, prune(notes[0].id), mind=mind, given=one) == []
    gone = evict("short_term", notes[0].id, action="retire")
    assert broken(gone, mind=mind, given=one) == [("short_term_left_after_sleep", tuple(one))]


def read_support(*ids: str) -> Operation:
    return more_for(support_memory_ids=ids)


def test_a_note_that_goes_into_an_identity_is_consumed() -> None:
    assert broken(crystallize("d2", NOTES[0]), given=only(NOTES[0])) == []


def test_a_note_that_two_operations_consume_is_a_contradiction() -> None:
    after, accepted = slept(WHOLE)
    found = breaches(MIND, after, (*accepted, prune(NOTES[0])), GIVEN, must_consume=False)
    assert found == (Breach(Code.CONTRADICTION, (EntryId(NOTES[0]),)),)


def test_an_empty_answer_under_pressure_is_one_of_its_own() -> None:
    assert broken() == [("sleep_returned_nothing_under_pressure", NOTES)]
    assert broken(must=False) == []
    assert broken(given=frozenset()) == []


@pytest.mark.parametrize(
    ("pruned", "held"),
    [(NOTES, True), (NOTES[:5], True), (NOTES[:4], False)],
    ids=["6 of 6", "5 of 6", "4 of 6"],
)
def test_notes_that_go_in_bulk_without_a_trace_wait_for_a_person(pruned: tuple[str, ...], held: bool) -> None:
    rest = tuple(each for each in NOTES if each not in pruned)
    distilled = distil("a", *rest) if rest else ()
    assert broken(*distilled, prune(*pruned)) == ([("bulk_prune", pruned)] if held else [])


def test_of_five_notes_four_may_go_and_of_four_all() -> None:
    assert broken(prune(*NOTES[:5]), given=only(*NOTES[:5])) == [("bulk_prune", NOTES[:5])]
    assert broken(prune(*NOTES[:4]), *distil("a", NOTES[4]), given=only(*NOTES[:5])) == []
    assert broken(prune(*NOTES[:4]), given=only(*NOTES[:4])) == []


def test_notes_that_support_a_live_thread_leave_a_trace() -> None:
    assert broken(read_support(*NOTES[:2]), prune(*NOTES)) == []
    ended = more_for(support_memory_ids=NOTES, status="retired")
    assert broken(ended, prune(*NOTES)) == [("bulk_prune", NOTES)]


def test_notes_that_were_not_given_count_as_well_when_they_go() -> None:
    assert broken(prune(*NOTES), given=frozenset()) == [("bulk_prune", NOTES)]


def spoilt(id_: str, change: Callable[[Entry], Entry | None]) -> Callable[[list[Entry]], list[Entry]]:
    def spoil(after: list[Entry]) -> list[Entry]:
        changed = [(change(entry) if entry.id == id_ else entry) for entry in after]
        return [entry for entry in changed if entry is not None]

    return spoil


def ended(entry: Entry) -> Entry:
    return entry.changed(NOW, retired=Retired(NOW, "lost"))


def other_words(entry: Entry) -> Entry:
    return replace(entry, body=make_short_term(summary="Other words.").body)


def revived(entry: Entry) -> Entry:
    return replace(entry, retired=None)


@pytest.mark.parametrize(
    ("id_", "change"),
    [
        ("d1", ended),
        ("seam:other", ended),
        ("seam:other", other_words),
        ("seam:other", lambda entry: replace(entry, people=frozenset())),
        ("seam:other", lambda entry: None),
        ("d:old", lambda entry: None),
        ("d:old", revived),
        ("d:old", other_words),
        (NOTES[0], revived),
        (NOTES[5], revived),
        (NOTES[0], lambda entry: None),
        ("durable:a", ended),
        ("durable:a", lambda entry: None),
        ("proposal:a", revived),
        ("thread:routes", ended),
        ("c1", ended),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_whatever_differs_without_being_named_is_found(id_: str, change: Callable[[Entry], Entry | None]) -> None:
    assert broken(*WHOLE, spoil=spoilt(id_, change)) == [("not_conserved", (id_,))]


def test_what_nobody_made_is_found_even_as_a_tombstone() -> None:
    for extra in (make_durable("d:extra"), make_durable("d:extra", retired="x")):
        assert broken(*WHOLE, spoil=lambda after, extra=extra: [*after, extra]) == [("not_conserved", ("d:extra",))]  # type: ignore[misc]


def test_an_entry_that_stands_twice_is_found_by_the_count() -> None:
    assert broken(*WHOLE, spoil=lambda after: [*after, next(e for e in after if e.id == "d1")]) == [
        ("not_conserved", ())
    ]


POOL: tuple[Operation, ...] = (
    *WHOLE,
    prune(*NOTES[:2]),
    prune("seam:other"),
    support(support_memory_ids=(NOTES[5],)),
    more_for(status="retired"),
    read_support(*NOTES[:2]),
    support(thread_id="thread:brief", status="retired", support_memory_ids=()),
    revision("d1", id_="d3"),
    revision("d3", id_="d4"),
    revision("d1", "d2", id_="d5"),
    retire("d2"),
    crystallize("d2", id_="d6", value=VALUE, note=TEXT),
    crystallize("d2", NOTES[0], id_="d7", value={"valueId": "value:one", "label": "ask first"}),
    press("p1", "cooling"),
    press("p1", "resolved"),
    press("p3", "active"),
    press("p3", "retired"),
    read(RetireAgencyPressure, pressure_id="p1", reason=WHY),
    read(RetireAgencyPressure, pressure_id="p3", reason=WHY),
    queue("c5", "p1"),
    queue("c6", "p1", must=True),
    queue("c7", "p3"),
    read(RetireCandidateIntervention, intervention_id="c1", reason=WHY),
    read(RetireCandidateIntervention, intervention_id="c5", reason=WHY),
    evict("durable", "d:old", action="scrub"),
    read(UpdateMood, deltas={"calm": 0.1}, cause=said(100)[0]),
)


def test_every_operation_of_the_pool_stands_in_some_batch() -> None:
    starts = ((), WHOLE, (press("p3", "active"), revision("d1", id_="d3"), queue("c5", "p1")))
    for operation in POOL:
        assert any(operation in slept([*start, operation])[1] for start in starts), operation


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(POOL), min_size=1, max_size=14, unique_by=id), st.data())
def test_real_operations_do_what_they_name_and_nothing_else(operations: list[Operation], data: Any) -> None:
    after, accepted = slept(operations)
    found = {each.code: each.ids for each in breaches(MIND, after, accepted, GIVEN, must_consume=bool(accepted))}
    assert Code.NOT_CONSERVED not in found
    assert Code.CONTRADICTION not in found
    if accepted:
        left = {entry.id for entry in after if entry.live and entry.id in GIVEN}
        assert set(found.get(Code.SHORT_TERM_LEFT_AFTER_SLEEP, ())) == left
    hit = data.draw(st.sampled_from(after))
    lost = [entry for entry in after if entry is not hit]
    assert Breach(Code.NOT_CONSERVED, (hit.id,)) in breaches(MIND, lost, accepted, GIVEN, must_consume=False)
