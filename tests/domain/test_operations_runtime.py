"""The clockwork of the mind: sleep, pressure to speak, mood, runs of passes, and how it presents itself."""

from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from core.domain.mind.bodies import Note, Value
from core.domain.mind.codes import RejectionCode as Code
from core.domain.mind.facts import Emitter
from core.domain.mind.view import mood_of, pressure_of, profile_of, sleep_of
from core.domain.mood import drift
from core.domain.operations.profile import ConfigureProfile
from core.domain.operations.runtime import (
    RecordLastRun,
    UpdateMood,
    UpdateSleepCycle,
    UpdateSpeakingPressure,
    pressure_inputs,
)
from core.domain.pressure import step
from tests.domain import speeches
from tests.domain.minds import (
    ELSEWHERE,
    NOW,
    ROOM,
    anchor,
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
)
from tests.domain.speeches import make_mood, make_pressure, make_sleep, refusal, taken

PARENT, OPERATOR, DRIFT = make_facts(Emitter.PARENT), make_facts(), make_facts(Emitter.MOOD)
RUMINATION = make_facts(Emitter.RUMINATION)
LATE, EARLY = NOW + timedelta(minutes=3), NOW - timedelta(minutes=5)
HOUR = timedelta(hours=1)
NAP = {"is_napping": True, "nap_id": "nap:2", "nap_started_at": NOW, "nap_ends_at": NOW + HOUR}
NAPPING = make_sleep(**(NAP | {"nap_id": "nap:1", "nap_started_at": NOW - HOUR / 2, "nap_ends_at": NOW + HOUR}))


def slept(**more: Any) -> UpdateSleepCycle:
    return read(UpdateSleepCycle, sleep={n: v for n, v in (NAP | more).items() if v is not None})


def drawn(**more: Any) -> UpdateSpeakingPressure:
    return read(UpdateSpeakingPressure, pressure={"stepped_at": NOW} | more)


def nudged(**more: Any) -> UpdateMood:
    fields = {"deltas": {"irritation": 0.1}, "cause": anchor("message:100")} | more
    return read(UpdateMood, **fields)


def drifted(**more: Any) -> UpdateMood:
    fields: dict[str, Any] = {"dimensions": {"calm": 0.4}, "baselines": {"calm": 0.2}, "stepped_at": NOW}
    return read(UpdateMood, mood={n: v for n, v in (fields | more).items() if v is not None})


def ran(of: str = "rumination", run: int = 1, **more: Any) -> RecordLastRun:
    fields: dict[str, Any] = {"pass": of, "run_id": run, "slot": "2026-03-10T19", "ran_at": NOW}
    return read(RecordLastRun, last_run=fields | {"outcome": "done", "summary": "One note."} | more)


def configured(**more: Any) -> ConfigureProfile:
    return read(ConfigureProfile, **more)


def valued(id_: str = "value:new", **more: Any) -> dict[str, Any]:
    return {"value_id": id_, "label": "patience"} | more


MOOD = (make_mood(stepped_at=EARLY),)
VALUES = tuple(make_value(f"value:{n}", sources=()) for n in range(23))
CASES: dict[str, speeches.Case] = {
    "sleep by a model": (slept(), (), RUMINATION, Code.OPERATION_NOT_ALLOWED, "operation"),
    "awake with a nap": (slept(is_napping=False), (), DRIFT, Code.CONTRADICTION, "sleep.isNapping"),
    "a nap without end": (slept(nap_ends_at=None), (), DRIFT, Code.MISSING_FIELD, "sleep.napId"),
    "a nap backwards": (slept(nap_ends_at=EARLY), (), DRIFT, Code.OUT_OF_RANGE, "sleep.napEndsAt"),
    "a nap too long": (slept(nap_ends_at=NOW + 4 * HOUR), (), DRIFT, Code.OUT_OF_RANGE, "sleep.napEndsAt"),
    "woken for long": (slept(awake_until=NOW + 2 * HOUR), (), DRIFT, Code.OUT_OF_RANGE, "sleep.awakeUntil"),
    "a nap of tomorrow": (slept(nap_started_at=LATE), (), DRIFT, Code.BAD_TIMESTAMP, "sleep.napStartedAt"),
    "an old nap's id": (slept(nap_id="nap:1"), (NAPPING,), DRIFT, Code.ID_TAKEN, "sleep.napId"),
    "the maintained nap's id": (
        slept(),
        (make_sleep(maintained_nap_id="nap:2"),),
        DRIFT,
        Code.ID_TAKEN,
        "sleep.napId",
    ),
    "a nap within a nap": (slept(), (NAPPING,), DRIFT, Code.OUT_OF_RANGE, "sleep.napStartedAt"),
    "pressure by hand": (drawn(), (), OPERATOR, Code.OPERATION_NOT_ALLOWED, "operation"),
    "pressure of no time": (
        read(UpdateSpeakingPressure, pressure={"need_to_speak": 0.4}),
        (),
        DRIFT,
        Code.MISSING_FIELD,
        "pressure.steppedAt",
    ),
    "pressure of yesterday": (
        drawn(stepped_at=EARLY),
        (make_pressure(stepped_at=NOW),),
        DRIFT,
        Code.CURSOR_REGRESSION,
        "pressure.steppedAt",
    ),
    "pressure of one's own making": (drawn(need_to_speak=0.4), (), DRIFT, Code.NOT_REPRODUCIBLE, "pressure"),
    "pressure of tomorrow": (drawn(stepped_at=LATE), (), DRIFT, Code.BAD_TIMESTAMP, "pressure.steppedAt"),
    "mood in chat": (nudged(), MOOD, make_facts(Emitter.CHAT), Code.OPERATION_NOT_ALLOWED, "operation"),
    "the whole mood by a model": (drifted(), MOOD, RUMINATION, Code.OPERATION_NOT_ALLOWED, "mood"),
    "no such cause": (nudged(cause=anchor("message:999")), MOOD, RUMINATION, Code.UNKNOWN_REFERENCE, "cause"),
    "a cause not shown": (nudged(cause=anchor("message:120")), MOOD, RUMINATION, Code.ANCHOR_NOT_IN_PACKET, "cause"),
    "no cause": (nudged(cause=None), MOOD, RUMINATION, Code.MISSING_FIELD, "cause"),
    "no such mood": (nudged(deltas={"glee": 0.1}), MOOD, RUMINATION, Code.UNKNOWN_REFERENCE, "deltas"),
    "too much mood for a run": (
        nudged(),
        MOOD,
        make_facts(Emitter.SLEEP, spent={"mood": 0.35}),
        Code.OUT_OF_RANGE,
        "deltas",
    ),
    "no mood": (read(UpdateMood), MOOD, DRIFT, Code.MISSING_FIELD, "deltas"),
    "deltas and the whole": (
        read(UpdateMood, deltas={"calm": 0.1}, mood={"stepped_at": NOW}),
        MOOD,
        DRIFT,
        Code.CONTRADICTION,
        "mood",
    ),
    "a mood without baseline": (drifted(baselines={}), MOOD, DRIFT, Code.CONTRADICTION, "mood.baselines"),
    "a mood of no time": (drifted(stepped_at=None), MOOD, DRIFT, Code.MISSING_FIELD, "mood.steppedAt"),
    "a mood of yesterday": (
        drifted(stepped_at=EARLY - HOUR),
        MOOD,
        DRIFT,
        Code.CURSOR_REGRESSION,
        "mood.steppedAt",
    ),
    "a mood of tomorrow": (drifted(stepped_at=LATE), MOOD, DRIFT, Code.BAD_TIMESTAMP, "mood.steppedAt"),
    "no run": (ran(run=9), (), PARENT, Code.UNKNOWN_REFERENCE, "lastRun.runId"),
    "a run of tomorrow": (ran(ran_at=LATE), (), PARENT, Code.BAD_TIMESTAMP, "lastRun.ranAt"),
    "a run by hand": (ran(), (), OPERATOR, Code.OPERATION_NOT_ALLOWED, "operation"),
    "profile by a model": (configured(public_name="Boss"), (), RUMINATION, Code.OPERATION_NOT_ALLOWED, "operation"),
    "nothing given": (configured(), (), OPERATOR, Code.MISSING_FIELD, "operation"),
    "a value that is over": (
        configured(values=[valued("value:care")]),
        (make_value(retired="stale"),),
        OPERATOR,
        Code.ID_TAKEN,
        "values.0",
    ),
    "a value under a note's id": (
        configured(values=[valued("note:one")]),
        (make_note(),),
        OPERATOR,
        Code.ID_TAKEN,
        "values.0",
    ),
    "one value twice": (configured(values=[valued(), valued()]), (), OPERATOR, Code.CONTRADICTION, "values"),
    "a value on no memory": (
        configured(values=[valued(support_memory_id="durable:routes")]),
        (),
        OPERATOR,
        Code.UNKNOWN_REFERENCE,
        "values.0.supportMemoryId",
    ),
    "a note on a memory that is over": (
        configured(notes=[{"note_id": "note:one", "support_memory_id": "durable:routes"}]),
        (make_note(), make_durable(retired="revised")),
        OPERATOR,
        Code.NOT_LIVE,
        "notes.0.supportMemoryId",
    ),
    "a value of 2099": (
        configured(values=[valued(created_at="2099-01-01T00:00:00Z")]),
        (),
        OPERATOR,
        Code.BAD_TIMESTAMP,
        "values.0.createdAt",
    ),
    "a value without label": (
        configured(values=[{"value_id": "value:new"}]),
        (),
        OPERATOR,
        Code.MISSING_FIELD,
        "values.0.label",
    ),
    "a note without reason": (
        configured(notes=[{"note_id": "note:new", "text": "I count."}]),
        (),
        OPERATOR,
        Code.MISSING_FIELD,
        "notes.0.reason",
    ),
    "two values where one has room": (
        configured(values=[valued("value:a"), valued("value:b")]),
        VALUES,
        OPERATOR,
        Code.LIMIT_REACHED,
        "values.1",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_refused_leaves_the_mind_as_it_was(case: str) -> None:
    operation, entries, facts, code, path = CASES[case]
    assert refusal(operation, entries, facts) == (code.value, path)


@pytest.mark.parametrize("deltas", [{}, {"calm": 0.3}, {f"m{n}": 0.0 for n in range(5)}])
def test_moods_move_by_few_small_steps(deltas: dict[str, float]) -> None:
    with pytest.raises(ValidationError):
        nudged(deltas=deltas)


def test_a_nap_begins_is_woken_from_and_ends() -> None:
    view = make_view()
    steps = (slept(), slept(awake_until=NOW + HOUR / 6), read(UpdateSleepCycle, sleep={"maintained_nap_id": "nap:2"}))
    assert [taken(each, view, facts)[0] for each, facts in zip(steps, (DRIFT, PARENT, DRIFT), strict=True)] == [
        "napping",
        "napping",
        "awake",
    ]
    assert taken(steps[2], view, DRIFT) == ("unchanged", ())
    assert sleep_of(view).maintained_nap_id == "nap:2"


def test_dreams_come_from_the_rooms_of_their_themes_only() -> None:
    notes = (
        make_short_term(topics=["stops"]),
        make_short_term("seam:audio", topics=["audio"], sources=(ELSEWHERE,)),
    )
    view = make_view(*notes)
    taken(slept(active_dream_themes=["audio"]), view, DRIFT)
    assert sources(view, "sleep") == {ELSEWHERE}
    taken(slept(active_dream_themes=["audio", "stops"], awake_until=NOW), view, DRIFT)
    assert sources(view, "sleep") == {ROOM, ELSEWHERE}
    taken(slept(), view, DRIFT)
    assert sources(view, "sleep") == frozenset()


def test_themes_keep_their_rooms_when_their_notes_are_gone() -> None:
    view = make_view(make_short_term(topics=["stops"]))
    taken(slept(active_dream_themes=["stops"]), view, DRIFT)
    later = make_view(*view.live("sleep"))
    taken(slept(active_dream_themes=["stops"], awake_until=NOW + HOUR), later, PARENT)
    assert sources(later, "sleep") == {ROOM}


def test_pressure_that_was_computed_from_what_the_mind_holds_stands() -> None:
    facts = make_facts(Emitter.MOOD, spoke_at=NOW - 2 * HOUR)
    held = (make_candidate(), make_pressure_item(intensity=0.8), make_thread(desire_to_speak=0.7), make_mood())
    view = make_view(make_pressure(stepped_at=EARLY), *held)
    computed = step(pressure_of(view), pressure_inputs(view, facts), NOW)
    operation = UpdateSpeakingPressure(pressure=computed)
    assert taken(operation, view, facts)[0] == "stepped" and pressure_of(view) == computed
    assert sources(view, "pressure") == frozenset()
    silent = (make_pressure(stepped_at=EARLY), *held)
    assert refusal(operation, silent, make_facts(Emitter.MOOD)) == ("not_reproducible", "pressure")
    assert operation.needs().live == {"candidate", "pressure_item", "thread"} and operation.needs().spoke


def test_a_nudged_mood_is_clamped_and_nobody_s_words() -> None:
    view = make_view(*MOOD)
    for _ in range(2):
        assert taken(nudged(deltas={"irritation": 0.15, "calm": -0.1}), view, RUMINATION)[0] == "nudged"
    assert mood_of(view).dimensions == {"irritation": 1.0, "calm": pytest.approx(0.3)}
    assert sources(view, "mood") == frozenset()
    assert nudged(deltas={"irritation": 0.15, "calm": -0.1}).spends(view) == {"mood": pytest.approx(0.25)}


def test_an_operator_needs_no_cause_and_has_no_limit_of_a_run() -> None:
    operation = nudged(deltas={"irritation": -0.2, "calm": 0.2}, cause=None)
    assert refusal(operation, MOOD, make_facts(spent={"mood": 0.4})) == ("", "nudged")


def test_a_mood_drifts_as_a_whole() -> None:
    view = make_view(*MOOD)
    whole = drift(mood_of(view), NOW)
    assert taken(UpdateMood(mood=whole), view, DRIFT)[0] == "drifted" and mood_of(view) == whole


def test_a_pass_has_one_last_run() -> None:
    view = make_view()
    assert taken(ran(), view, PARENT) == ("added", ("run:rumination",))
    assert taken(ran(summary="Nothing."), view, PARENT) == ("changed", ("run:rumination",))
    assert taken(ran("sleep"), view, PARENT) == ("added", ("run:sleep",))


def test_what_is_given_of_the_profile_replaces_what_was() -> None:
    view = make_view()
    first = configured(public_name="Nil", public_description="A void.", pronouns="it", traits={"dry": 0.5})
    assert taken(first, view, PARENT) == ("configured", ("profile",))
    taken(configured(public_description="", traits={"warm": 0.6}), view, PARENT)
    profile = profile_of(view)
    assert (profile.public_name, profile.public_description, profile.pronouns) == ("Nil", None, "it")
    assert profile.traits == {"warm": 0.6}


def test_values_and_notes_are_added_and_changed_field_by_field() -> None:
    view = make_view(make_value(), make_note(), make_durable(sources=(ELSEWHERE,)))
    operation = configured(
        values=[{"value_id": "value:care", "priority": 0.9}, valued(support_memory_id="durable:routes")],
        notes=[{"note_id": "note:one", "text": "I count less."}],
    )
    assert taken(operation, view, OPERATOR)[1] == ("value:care", "value:new", "note:one")
    care, new, note = view.find("value", "value:care"), view.find("value", "value:new"), view.find("note", "note:one")
    assert care is not None and isinstance(care.body, Value) and note is not None and isinstance(note.body, Note)
    assert (care.body.priority, care.body.label) == (0.9, "care for small things")
    assert (note.body.text, note.body.reason) == ("I count less.", "came up twice")
    assert new is not None and new.sources == {ELSEWHERE}


def test_an_operator_rewrites_only_what_was_seen() -> None:
    operation = configured(public_name="Nil", values=[valued()], notes=[])
    assert [each.id for each in operation.rewrites()] == ["profile", "value:new"]
    assert configured(values=[valued()]).rewrites()[0].id == "value:new"


def sources(view: Any, singleton: str) -> Any:
    entry = view.find(singleton, singleton)
    return entry.sources
