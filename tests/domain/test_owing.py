"""What the mind owes its pressures, and what of a batch answers them."""

from datetime import timedelta
from typing import Any

import pytest

from core.domain.mind.values import EntryId
from core.domain.operations.agency import RetireAgencyPressure, UpsertAgencyPressure
from core.domain.operations.base import Operation
from core.domain.operations.speech import QueueCandidateIntervention, RetireCandidateIntervention
from core.domain.owing import covered, owed, unresolved
from tests.domain.minds import NOW, ROOM, make_candidate, make_pressure_item, read, thought

SOON, JUST_NOW = NOW + timedelta(seconds=1), NOW
PLACE = {"mode": "channel", "channelId": ROOM}
ELSE = {"kind": "lore", "id": "the kiln"}
ASK = make_pressure_item("ask", kind="world_advocacy_request", intensity=0.8)
SELF = make_pressure_item("self", kind="self_advocacy_request", status="ready_to_act", intensity=0.55)


def ids(*pressures: Any, candidates: tuple[Any, ...] = ()) -> tuple[str, ...]:
    return tuple(entry.id for entry in owed(pressures, candidates, NOW))


def queue(**more: Any) -> QueueCandidateIntervention:
    """Speech about nothing that presses, with a place, unless told otherwise."""
    fields = {
        "intervention_id": "speech:new",
        "kind": "world_advocacy",
        "target": ELSE,
        "summary": "Say which stops are cut.",
        "draft": "Shall I list the stops that are cut?",
        "delivery_target": PLACE,
    }
    given = {name: value for name, value in (fields | more).items() if value is not None}
    return read(QueueCandidateIntervention, intervention=given)


def put_off(**more: Any) -> QueueCandidateIntervention:
    return queue(status="deferred", deferred_until=SOON, source_pressure_id="ask", **more)


def upsert(status: str, id_: str = "ask") -> UpsertAgencyPressure:
    fields = thought(pressure_id=id_, kind="world_advocacy_request", status=status, intensity=0.8)
    return read(UpsertAgencyPressure, pressure=fields)


def left(*decided: Operation, new_messages: int = 3, posting: bool = True, deferred: int = 0) -> tuple[str, ...]:
    return unresolved((ASK,), decided, new_messages, posting, {EntryId("ask"): deferred})


def test_requests_that_press_are_owed_the_strongest_first_and_then_by_id() -> None:
    twin = make_pressure_item("again", kind="world_advocacy_request", intensity=0.8)
    assert ids(SELF, ASK, twin) == ("again", "ask", "self")


@pytest.mark.parametrize(
    "more",
    [{"intensity": 0.549}, {"kind": "active_tension"}, {"kind": "discomfort"}, {"status": "cooling"}, {"retired": "x"}],
    ids=str,
)
def test_what_is_weak_asks_for_nothing_or_is_over_is_not_owed(more: dict[str, Any]) -> None:
    fields: dict[str, Any] = {"kind": "self_advocacy_request", "intensity": 0.9}
    assert ids(make_pressure_item("other", **(fields | more))) == ()


def test_a_run_owes_eight_at_most() -> None:
    many = [make_pressure_item(f"p{n}", kind="world_advocacy_request", intensity=0.6 + n / 100) for n in range(10)]
    assert ids(*many) == tuple(f"p{n}" for n in range(9, 1, -1))


@pytest.mark.parametrize(
    ("more", "covers"),
    [
        ({"status": "queued"}, True),
        ({"status": "queued", "delivery_target": None}, True),
        ({"status": "awaiting_approval"}, True),
        ({"status": "approved"}, True),
        ({"status": "sending"}, True),
        ({"status": "deferred", "deferred_until": SOON}, True),
        ({"status": "deferred", "deferred_until": JUST_NOW}, False),
        ({"status": "deferred"}, False),
        ({"status": "spoken"}, False),
        ({"status": "spoken", "retired": "spoken"}, False),
        ({"status": "queued", "retired": "undone"}, False),
        ({"status": "queued", "source_pressure_id": "self"}, False),
    ],
    ids=str,
)
def test_only_speech_on_its_way_covers_a_pressure(more: dict[str, Any], covers: bool) -> None:
    candidate = make_candidate(**({"source_pressure_id": "ask", "target": ELSE} | more))
    assert covered(ASK, (candidate,), NOW) is covers
    assert ids(ASK, candidates=(candidate,)) == (() if covers else ("ask",))


def test_speech_about_the_same_thing_covers_a_pressure_whatever_its_spelling() -> None:
    assert covered(ASK, (make_candidate(target={"kind": "repo", "id": "Routes"}),), NOW)
    assert not covered(ASK, (make_candidate(target={"kind": "lore", "id": "routes"}),), NOW)
    assert not covered(ASK, (make_candidate(),), NOW)


@pytest.mark.parametrize(
    "operation",
    [
        queue(source_pressure_id="ask"),
        queue(target={"kind": "repo", "id": "ROUTES"}),
        read(RetireAgencyPressure, pressure_id="ask", reason="Ana decided it"),
        upsert("cooling"),
        upsert("resolved"),
        upsert("retired"),
    ],
    ids=["made from it", "same target", "retire", "cooling", "resolved", "retired"],
)
def test_speech_with_a_place_and_letting_go_answer_at_any_time(operation: Operation) -> None:
    assert left(operation, deferred=7) == ()


@pytest.mark.parametrize(
    "decided",
    [
        (),
        (queue(),),
        (queue(source_pressure_id="ask", delivery_target=None),),
        (put_off(),),
        (read(RetireAgencyPressure, pressure_id="other", reason="Ana decided it"),),
        (read(RetireCandidateIntervention, intervention_id="speech:old", reason="said"),),
        (upsert("active"), upsert("ready_to_act"), upsert("cooling", "other")),
    ],
    ids=["nothing", "other matter", "no place", "put off", "other pressure", "a candidate goes", "pressed on"],
)
def test_while_people_talk_nothing_else_answers(decided: tuple[Operation, ...]) -> None:
    assert left(*decided) == ("ask",)


@pytest.mark.parametrize("when", [{"new_messages": 0}, {"posting": False}], ids=["nobody speaks", "no posting"])
def test_speech_is_put_off_three_times_where_it_would_reach_nobody(when: dict[str, Any]) -> None:
    for operation in (put_off(), queue(source_pressure_id="ask", delivery_target=None)):
        assert left(operation, **when, deferred=2) == ()
        assert left(operation, **when, deferred=3) == ("ask",)
    assert left(queue(source_pressure_id="ask"), **when, deferred=3) == ()


def test_each_pressure_needs_an_answer_of_its_own_unless_one_is_about_both() -> None:
    both = unresolved((ASK, SELF), (queue(source_pressure_id="self"),), 1, True, {})
    assert both == ("ask",)
    shared = queue(target={"kind": "repo", "id": "routes"})
    assert unresolved((ASK, SELF), (shared,), 1, True, {}) == ()
