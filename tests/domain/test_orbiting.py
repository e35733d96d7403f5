"""Thoughts of the mind about its own workings: which they are, and how few of them are taken in."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.ids import MessageId
from core.domain.mind.bodies import PressureItem, Thread
from core.domain.mind.values import EntryId
from core.domain.operations.agency import RetireAgencyPressure, UpsertAgencyPressure
from core.domain.operations.base import Operation
from core.domain.operations.memories import RecordShortTermMemory
from core.domain.operations.speech import QueueCandidateIntervention
from core.domain.operations.threads import MergeIncubationSupport
from core.domain.orbiting import Orbit, orbit_refusals, self_directed
from tests.domain.minds import (
    ROOM,
    anchor,
    make_pressure_item,
    make_receipt,
    make_thought,
    make_thread,
    read,
    said,
    thought,
)

MACHINERY = frozenset({"pass", "prompt", "fixture", "readiness", "memory", "cursor", "scheduler", "rumination"})
OURS = {"kind": "repo", "id": "voidbot"}
ROOMS = {"kind": "room", "id": "7"}
ORBIT = Orbit(
    own_repo="VoidBot", machinery=MACHINERY, window=frozenset({MessageId(100), MessageId(101)}), recent=[False] * 9
)
FRESH, OLD = said(100), said(102)
RESIDUE = "The readiness fixture of the rumination pass went through the prompt and left its cursor."


def note(*, id_: str = "seam:new", **more: Any) -> RecordShortTermMemory:
    fields = {"target": {"kind": "self", "id": "void"}, "anchor_refs": FRESH}
    return read(RecordShortTermMemory, memory={"memoryId": id_, "kind": "room_observation", **thought(**fields | more)})


def press(**more: Any) -> UpsertAgencyPressure:
    fields = {"pressure_id": "p", "kind": "self_advocacy_request", "target": OURS, "anchor_refs": FRESH}
    return read(UpsertAgencyPressure, pressure=thought(**fields | more))


def thread(**more: Any) -> MergeIncubationSupport:
    fields = {"thread_id": "t", "topic": "own work", "target": OURS, "anchor_refs": FRESH}
    return read(MergeIncubationSupport, thread=thought(**fields | more))


def speech(**more: Any) -> QueueCandidateIntervention:
    fields = {
        "intervention_id": "speech:new",
        "kind": "self_advocacy",
        "target": OURS,
        "summary": "Say what it lacks.",
        "draft": "I would like a longer memory.",
        "delivery_target": {"mode": "channel", "channelId": ROOM, "replyToMessageId": 100},
    }
    given = {name: value for name, value in (fields | more).items() if value is not None}
    return read(QueueCandidateIntervention, intervention=given)


def refused(*operations: Operation, **more: Any) -> list[int]:
    found = orbit_refusals(operations, replace(ORBIT, **more))
    assert all(verdict.code.value == "self_orbit" for verdict in found.values())
    return sorted(found)


@pytest.mark.parametrize(
    ("more", "itself"),
    [
        ({"target": {"kind": "self", "id": "void"}}, True),
        ({"target": {"kind": "system", "id": "clock"}}, True),
        ({"target": {"kind": "repo", "id": "VOIDBOT"}}, True),
        ({"target": {"kind": "repo", "id": "routes"}, "claim": RESIDUE}, False),
        ({"target": ROOMS, "claim": RESIDUE}, True),
        ({"target": ROOMS, "claim": None, "question": RESIDUE}, True),
        ({"target": ROOMS, "claim": "Run 12 of `core/passes/run.py` kept its “prompt fixture”."}, True),
        ({"target": ROOMS, "claim": "`core/passes/run.py` broke the map of @ana."}, False),
        ({"target": ROOMS, "claim": "The scheduler of the tram line skips two stops."}, False),
        ({"target": ROOMS, "claim": "Ana wrote a prompt for the poem contest from memory."}, False),
        ({"target": ROOMS, "claim": "The prompt loses memory often."}, False),
        ({"target": ROOMS, "claim": "The scheduler is on."}, False),
        ({"target": ROOMS, "claim": "The kiln wants 12 new bricks."}, False),
    ],
    ids=str,
)
def test_a_thought_is_self_directed_by_its_target_or_if_it_names_nothing_but_machinery(
    more: dict[str, Any], itself: bool
) -> None:
    assert self_directed(make_thought(**more), "VoidBot", MACHINERY) is itself


def test_no_repository_is_its_own_where_none_was_named() -> None:
    assert not self_directed(make_thought(target=OURS), "", MACHINERY)


@pytest.mark.parametrize("make", [note, press, thread], ids=["note", "pressure", "thread"])
@pytest.mark.parametrize(
    "proof",
    [
        OLD,
        said(130),
        (anchor(f"receipt:{make_receipt().id}"), anchor("memory:seam:routes")),
        (anchor("evidence:trace-1"), anchor("source:voidbot/core/passes/run.py")),
    ],
    ids=["earlier message", "own message", "receipt and memory", "output of a pass"],
)
def test_only_what_somebody_said_in_this_window_lets_one_through(make: Any, proof: Any) -> None:
    assert refused(make(anchor_refs=proof)) == [0]
    assert refused(make(anchor_refs=(*proof, *FRESH))) == []


def test_residue_of_a_readiness_test_is_refused() -> None:
    assert refused(note(target=ROOMS, claim=RESIDUE, anchor_refs=OLD)) == [0]


def test_speech_rests_on_what_it_answers_or_on_the_proof_of_its_sources() -> None:
    alone = speech(delivery_target=None)
    assert refused(speech()) == []
    assert refused(alone) == [0]
    made = speech(delivery_target=None, source_pressure_id="p")
    assert refused(made, there={EntryId("p"): make_thought(anchor_refs=FRESH)}) == []
    assert refused(made, there={EntryId("p"): make_thought(anchor_refs=OLD)}) == [0]
    assert refused(speech(target=None, draft=RESIDUE, delivery_target=None)) == [0]
    assert refused(speech(target=None, delivery_target=None)) == []


def test_speech_that_answers_an_owed_pressure_is_no_circling() -> None:
    owed = make_pressure_item("p", kind="self_advocacy_request", target=OURS, intensity=0.9)
    assert refused(speech(delivery_target=None), owed=(owed,)) == []
    assert refused(note(), speech(delivery_target=None), note(), owed=(owed,)) == [2]


def test_letting_go_is_no_circling_but_a_new_pressure_that_cools_is() -> None:
    body, other = make_pressure_item(target=OURS).body, make_thread(target=OURS).body
    assert isinstance(body, PressureItem) and isinstance(other, Thread)
    there = {EntryId("p"): body, EntryId("t"): other}
    gone = read(RetireAgencyPressure, pressure_id="p", reason="nobody asked for it")
    calm = (press(status="cooling", anchor_refs=OLD), thread(status="retired", anchor_refs=OLD), gone)
    assert refused(*calm, there=there) == []
    assert refused(*calm) == [0, 1]


def test_what_is_added_to_a_thread_about_itself_is_about_itself() -> None:
    other = make_thread(target=OURS).body
    assert isinstance(other, Thread)
    more = read(MergeIncubationSupport, thread={"thread_id": "t", "anchor_refs": OLD})
    assert refused(more, there={EntryId("t"): other}) == [0]
    assert refused(more) == []


def test_one_run_adds_one_whatever_it_rests_on() -> None:
    assert refused(note(anchor_refs=OLD), note(), press(), thread(), speech(), note(target=ROOMS)) == [0, 2, 3, 4]
    assert refused(note(), added=1) == [0]


@pytest.mark.parametrize(
    ("recent", "taken"),
    [
        ([], False),
        ([False] * 4, True),
        ([True] + [False] * 8, True),
        ([True] + [False] * 7, False),
        ([True] * 9 + [False] * 40, True),
        ([True] * 10 + [False] * 39, False),
        ([True] * 30 + [False] * 49, True),
    ],
    ids=["none yet", "fifth", "tenth", "ninth", "tenth of fifty", "eleventh of fifty", "long ago"],
)
def test_at_most_one_in_five_of_the_last_notes_is_about_itself(recent: list[bool], taken: bool) -> None:
    assert refused(note(), recent=recent) == ([] if taken else [0])
    assert refused(press(), recent=recent) == [], "the share is one of notes"


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=200))
def test_however_notes_come_the_share_is_kept(notes: list[tuple[bool, bool]]) -> None:
    recent: list[bool] = []
    for itself, fresh in notes:
        one = note(anchor_refs=FRESH if fresh else OLD) if itself else note(target=ROOMS)
        if not refused(one, recent=recent):
            recent.append(itself)
        assert sum(recent[-50:]) * 5 <= len(recent[-50:])
