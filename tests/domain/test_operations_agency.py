"""What presses the mind to act: taken in with proof, grown slowly, and let go with what would have been said."""

from datetime import timedelta
from typing import Any

import pytest

from core.domain.mind.bodies import PressureItem
from core.domain.mind.codes import RejectionCode as Code
from core.domain.mind.facts import Emitter
from core.domain.operations.agency import RetireAgencyPressure, UpsertAgencyPressure
from tests.domain import speeches
from tests.domain.minds import (
    ANA,
    BO,
    ELSEWHERE,
    NOW,
    PACKET,
    anchor,
    make_candidate,
    make_durable,
    make_facts,
    make_pressure_item,
    make_thread,
    make_view,
    read,
    said,
    thought,
)
from tests.domain.speeches import refusal, taken

PARENT, OPERATOR, RUMINATION = make_facts(Emitter.PARENT), make_facts(), make_facts(Emitter.RUMINATION)
LATE = NOW + timedelta(minutes=3)
ID = "pressure:routes"


def pressed(**more: Any) -> UpsertAgencyPressure:
    fields = thought(**({"pressure_id": ID, "kind": "discomfort"} | more))
    return read(UpsertAgencyPressure, pressure=fields)


def let_go(id_: str = ID) -> RetireAgencyPressure:
    return read(RetireAgencyPressure, pressure_id=id_, reason="the stops are shown now")


HERE, GONE = (make_pressure_item(),), (make_pressure_item(retired="resolved"),)
SPENT = make_facts(Emitter.RUMINATION, spent={"pressure:pressure:routes": 0.2})
CASES: dict[str, speeches.Case] = {
    "not by chat": (pressed(), (), make_facts(Emitter.CHAT), Code.OPERATION_NOT_ALLOWED, "operation"),
    "over": (pressed(), GONE, RUMINATION, Code.NOT_LIVE, "pressure.pressureId"),
    "stamped in 2099": (
        pressed(updated_at="2099-01-01T00:00:00Z"),
        (),
        RUMINATION,
        Code.BAD_TIMESTAMP,
        "pressure.updatedAt",
    ),
    "about no repository": (
        pressed(target={"kind": "repo", "id": "none"}),
        (),
        RUMINATION,
        Code.UNKNOWN_REFERENCE,
        "pressure.target",
    ),
    "about one who does not want it": (
        pressed(target={"kind": "person", "id": str(ANA)}),
        (),
        make_facts(Emitter.RUMINATION, opted_out=frozenset({ANA})),
        Code.PERSON_OPTED_OUT,
        "pressure.target",
    ),
    "about one who was erased": (
        pressed(target={"kind": "person", "id": str(ANA)}),
        (),
        make_facts(Emitter.RUMINATION, erased=frozenset({ANA})),
        Code.PERSON_ERASED,
        "pressure.target",
    ),
    "not shown": (pressed(anchor_refs=said(120)), (), RUMINATION, Code.ANCHOR_NOT_IN_PACKET, "pressure.anchorRefs"),
    "no evidence": (
        pressed(evidence_refs=(anchor("evidence:none"),)),
        (),
        OPERATOR,
        Code.UNKNOWN_REFERENCE,
        "pressure.evidenceRefs",
    ),
    "an invented quote": (
        pressed(anchor_refs=(anchor("source:routes/src/graph.py", quote="never"),)),
        (),
        OPERATOR,
        Code.QUOTE_NOT_FOUND,
        "pressure.anchorRefs",
    ),
    "no memory": (
        pressed(source_memory_ids=("durable:routes",)),
        (),
        RUMINATION,
        Code.UNKNOWN_REFERENCE,
        "pressure.sourceMemoryIds",
    ),
    "a memory that is over": (
        pressed(source_memory_ids=("durable:routes",)),
        (make_durable(retired="revised"),),
        RUMINATION,
        Code.NOT_LIVE,
        "pressure.sourceMemoryIds",
    ),
    "resolved tomorrow": (
        pressed(status="resolved", resolved_at=LATE),
        HERE,
        PARENT,
        Code.BAD_TIMESTAMP,
        "pressure.resolvedAt",
    ),
    "nothing claimed": (pressed(claim=None), (), RUMINATION, Code.NO_CLAIM_OR_QUESTION, "pressure.claim"),
    "nothing follows": (
        pressed(action_implication=None),
        (),
        RUMINATION,
        Code.NO_ACTION_IMPLICATION,
        "pressure.actionImplication",
    ),
    "no proof": (pressed(anchor_refs=()), (), RUMINATION, Code.NO_ANCHOR, "pressure.anchorRefs"),
    "own words": (pressed(anchor_refs=said(130)), (), RUMINATION, Code.SELF_ANCHORED, "pressure.anchorRefs"),
    "proof and none": (
        pressed(anchors_missing=True),
        (),
        RUMINATION,
        Code.CONTRADICTION,
        "pressure.anchorsMissing",
    ),
    "resolved and not": (pressed(resolved_at=NOW), HERE, RUMINATION, Code.CONTRADICTION, "pressure.resolvedAt"),
    "new and over": (pressed(status="retired"), (), RUMINATION, Code.CONTRADICTION, "pressure.status"),
    "a leap": (pressed(intensity=0.9), HERE, RUMINATION, Code.OUT_OF_RANGE, "pressure.intensity"),
    "a leap in two steps": (pressed(intensity=0.7), HERE, SPENT, Code.OUT_OF_RANGE, "pressure.intensity"),
    "a full list": (
        pressed(),
        tuple(make_pressure_item(f"pressure:{n}") for n in range(64)),
        RUMINATION,
        Code.LIMIT_REACHED,
        "pressure",
    ),
    "let nothing go": (let_go(), (), RUMINATION, Code.UNKNOWN_REFERENCE, "pressureId"),
    "let go twice": (let_go(), GONE, RUMINATION, Code.NOT_LIVE, "pressureId"),
    "let go by code": (let_go(), HERE, PARENT, Code.OPERATION_NOT_ALLOWED, "operation"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_refused_leaves_the_mind_as_it_was(case: str) -> None:
    operation, entries, facts, code, path = CASES[case]
    assert refusal(operation, entries, facts) == (code.value, path)


def test_a_pressure_has_all_that_its_author_read() -> None:
    view = make_view(make_thread(sources=(ELSEWHERE,), people=(BO,)))
    op = pressed(source_memory_ids=("thread:routes",), anchor_refs=(), tension=None, intensity=0.82)
    assert taken(op, view, RUMINATION) == ("added", (ID,))
    entry = view.find("pressure_item", ID)
    assert entry is not None and entry.sources == PACKET.rooms | {ELSEWHERE}
    assert isinstance(entry.body, PressureItem) and entry.body.intensity == 0.82


def test_a_pressure_without_proof_may_say_so() -> None:
    assert refusal(pressed(anchor_refs=(), anchors_missing=True), (), RUMINATION) == ("", "added")


def test_a_pressure_grows_by_a_step_and_what_it_used_is_told() -> None:
    view = make_view(make_pressure_item())
    op = pressed(intensity=0.8)
    assert op.spends(view) == {"pressure:pressure:routes": pytest.approx(0.3)}
    assert taken(op, view, RUMINATION) == ("changed", (ID,))
    assert pressed(intensity=0.1).spends(view) == {}


@pytest.mark.parametrize("facts", [OPERATOR, PARENT])
def test_operators_and_code_may_let_it_leap(facts: Any) -> None:
    assert refusal(pressed(intensity=1.0), HERE, facts) == ("", "changed")


SPEECH = (
    make_candidate("speech:its", source_pressure_id=ID),
    make_candidate("speech:must", source_pressure_id=ID, must_eventually_share=True),
    make_candidate("speech:leaving", source_pressure_id=ID, status="sending"),
    make_candidate("speech:other"),
)


def test_what_would_have_been_said_goes_with_the_pressure() -> None:
    view = make_view(make_pressure_item(), *SPEECH)
    assert taken(let_go(), view, RUMINATION) == ("retired", (ID, "speech:its"))
    entry = view.find("pressure_item", ID)
    assert entry is not None and entry.retired is not None and entry.retired.reason == "the stops are shown now"
    assert isinstance(entry.body, PressureItem) and entry.body.status.value == "retired"
    its = view.find("candidate", "speech:its")
    assert its is not None and its.retired is not None and its.retired.reason == "pressure_retired"


def test_a_pressure_that_is_resolved_ends_in_one_step() -> None:
    view = make_view(make_pressure_item(), *SPEECH)
    assert taken(pressed(status="resolved"), view, RUMINATION) == ("resolved", (ID, "speech:its"))
    entry = view.find("pressure_item", ID)
    assert entry is not None and entry.version == 2 and entry.retired is not None
    assert isinstance(entry.body, PressureItem) and entry.body.resolved_at == NOW


def test_what_ends_a_pressure_reads_every_candidate() -> None:
    assert pressed(status="retired").needs().live == {"candidate"} == let_go().needs().live
    assert pressed().needs().live == frozenset()
