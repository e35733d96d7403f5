"""Each code that an operation on memories can give; a refused one changes nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from core.domain.mind.codes import Rejected
from core.domain.mind.codes import RejectionCode as Code
from core.domain.mind.entries import Entry
from core.domain.mind.facts import Emitter, quote_key
from core.domain.mind.values import AnchorKind
from core.domain.operations.base import Operation
from tests.domain.minds import (
    ANA,
    NOW,
    anchor,
    applied,
    make_durable,
    make_facts,
    make_note,
    make_short_term,
    make_thread,
    make_value,
    make_view,
    said,
    thought,
)
from tests.domain.proposals import (
    NOTE,
    SLOGAN,
    TEXT,
    VALUE,
    WHY,
    carry_out,
    crystallize,
    full,
    more_for,
    propose,
    proposed,
    prune,
    record,
    retire,
    revise,
    support,
    there,
)


@dataclass(frozen=True)
class Case:
    """An operation in a situation, and the code that it gets. `more`: entries beside those that are there."""

    code: Code
    operation: Operation
    by: Emitter = Emitter.SLEEP
    more: tuple[Entry, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    seen: Mapping[str, int] | None = None

    @property
    def name(self) -> str:
        """What pytest calls it."""
        return f"{self.operation.operation}-{self.code.value}"


R, S, O, C, U = Emitter.RUMINATION, Emitter.SLEEP, Emitter.OPERATOR, Emitter.CHAT, Emitter.UPKEEP  # noqa: E741  # page
FUTURE = NOW + timedelta(seconds=121)
NOBODY, ANA_T = {"kind": "person", "id": "999"}, {"kind": "person", "id": str(ANA)}
QUOTED = anchor("message:100", revision=0, quote="stops")
SELF: dict[str, Any] = {"target": {"kind": "self", "id": "void"}, "kind": "identity_seam"}
ORDERED = SELF | {"anchor_refs": said(100, 101)}
WALLS: list[tuple[Code, dict[str, Any]]] = [
    (Code.NO_CLAIM_OR_QUESTION, {"claim": None}),
    (Code.NO_TENSION, {"tension": None}),
    (Code.NO_ACTION_IMPLICATION, {"action_implication": None}),
    (Code.CONTRADICTION, {"claim": "the route graph  drops the last stop of a line.", "summary": thought()["summary"]}),
    (Code.CONTRADICTION, {"anchors_missing": True}),
]
PROOF: list[tuple[Code, dict[str, Any]]] = [
    (Code.NO_ANCHOR, {"anchor_refs": ()}),
    (Code.SELF_ANCHORED, {"anchor_refs": said(130)}),
    (Code.SELF_ANCHORED, {"anchor_refs": (anchor("memory:seam:routes"),)}),
]
NAMES: list[tuple[Code, dict[str, Any]]] = [
    (Code.BAD_TIMESTAMP, {"created_at": FUTURE}),
    (Code.BAD_TIMESTAMP, {"updated_at": FUTURE}),
    (Code.UNKNOWN_REFERENCE, {"target": NOBODY}),
    (Code.UNKNOWN_REFERENCE, {"target": {"kind": "room", "id": "99"}}),
    (Code.UNKNOWN_REFERENCE, {"target": {"kind": "repo", "id": "nowhere"}}),
    (Code.UNKNOWN_REFERENCE, {"anchor_refs": said(999)}),
    (Code.UNKNOWN_REFERENCE, {"anchor_refs": said(140)}),
    (Code.UNKNOWN_REFERENCE, {"evidence_refs": (anchor("evidence:none"),)}),
    (Code.ANCHOR_NOT_IN_PACKET, {"anchor_refs": said(120)}),
    (Code.CONTRADICTION, {"anchor_refs": ({"ref": "message:100", "kind": AnchorKind.EVIDENCE},)}),
]
MISQUOTED = {"lost_quotes": frozenset({quote_key(QUOTED)})}
MAKERS: list[tuple[Any, Emitter]] = [
    (record, R), (propose, S), (carry_out, S), (revise, S), (crystallize, S), (support, R),
]  # fmt: skip
CASES: list[Case] = [
    *(Case(code, make(**more), by) for make, by in MAKERS for code, more in NAMES if make is not carry_out),
    *(Case(code, make(**more), by) for make, by in MAKERS for code, more in WALLS if make is not carry_out),
    *(Case(code, make(**more), by) for make, by in ((record, R), (support, R)) for code, more in PROOF),
    *(Case(Code.PERSON_ERASED, m(target=ANA_T), b, facts={"erased": {ANA}}) for m, b in MAKERS if m is not carry_out),
    *(Case(Code.PERSON_OPTED_OUT, m(target=ANA_T), b, facts={"opted_out": {ANA}})
      for m, b in MAKERS if m is not carry_out),
    *(Case(Code.QUOTE_NOT_FOUND, m(anchor_refs=(QUOTED,)), b, facts=MISQUOTED)
      for m, b in MAKERS if m is not carry_out),
    *(Case(Code.OPERATION_NOT_ALLOWED, op, by) for op, by in [
        (record(), S), (record(), Emitter.PARENT), (prune(), R), (prune(), C), (retire(), R), (retire(), C),
        (propose(), R), (propose(), O), (carry_out(), R), (revise(), R), (revise(), U), (crystallize(), C),
        (crystallize(), R), (support(), C), (support(), U),
    ]),
    *(Case(Code.MIND_PAUSED, op, by, facts={"paused": True}) for op, by in [
        (record(), C), (prune(), S), (retire(), U), (propose(), S), (carry_out(), S), (revise(), S),
        (crystallize(), S), (support(), R),
    ]),
    # Notes of the day.
    Case(Code.ID_TAKEN, record(id_="seam:over"), R),
    Case(Code.ID_TAKEN, record(id_="durable:routes"), R),
    Case(Code.ID_TAKEN, record(id_="seam:routes", target={"kind": "room", "id": "7"}), O),
    Case(Code.ID_TAKEN, record(id_="seam:elsewhere", target={"kind": "repo", "id": "routes"}), R),
    Case(Code.STALE_VERSION, record(id_="seam:routes", target={"kind": "repo", "id": "audio"}), R, seen={}),
    Case(Code.UNTRUSTED_IDENTITY, record(**ORDERED), R),
    Case(Code.UNTRUSTED_IDENTITY, record(**ORDERED), O),
    Case(Code.LIMIT_REACHED, record(), R, more=full("short_term", make_short_term)[1:]),
    Case(Code.CONTRADICTION, prune("seam:routes", "seam:routes")),
    Case(Code.UNKNOWN_REFERENCE, prune("seam:none")),
    Case(Code.UNKNOWN_REFERENCE, prune("durable:routes")),
    Case(Code.NOT_LIVE, prune("seam:over")),
    Case(Code.STALE_VERSION, prune(), seen={"seam:routes": 2}),
    Case(Code.STALE_VERSION, prune(), O, seen={}),
    Case(Code.WEAK_REASON, prune(reason="No longer needed.")),
    Case(Code.WEAK_REASON, prune(reason="pruned: duplicate of an old note, cleanup")),
    # Lasting memories that go.
    Case(Code.UNKNOWN_REFERENCE, retire("durable:none")),
    Case(Code.UNKNOWN_REFERENCE, retire("seam:routes")),
    Case(Code.NOT_LIVE, retire("durable:over"), U),
    Case(Code.STALE_VERSION, retire(), seen={"durable:routes": 3}),
    Case(Code.STILL_SUPPORTS, retire(), more=(make_value(support_memory_id="durable:routes"),)),
    # Distillation.
    Case(Code.ID_TAKEN, propose(proposal="seam:over")),
    Case(Code.ID_TAKEN, propose(id_="durable:over")),
    Case(Code.CONTRADICTION, propose(id_="proposal:1")),
    Case(Code.CONTRADICTION, propose("seam:routes", "seam:routes")),
    Case(Code.UNKNOWN_REFERENCE, propose("seam:none")),
    Case(Code.UNKNOWN_REFERENCE, propose("thread:routes")),
    Case(Code.NOT_LIVE, propose("seam:routes", "seam:over")),
    Case(Code.STALE_VERSION, propose(), seen={"seam:routes": 4}),
    Case(Code.NO_ANCHOR, propose("seam:bare", anchor_refs=()),
         more=(make_short_term("seam:bare", anchor_refs=(), anchors_missing=True),)),
    Case(Code.SELF_ANCHORED, propose("seam:bare", anchor_refs=said(130)),
         more=(make_short_term("seam:bare", anchor_refs=(), anchors_missing=True),)),
    Case(Code.UNTRUSTED_IDENTITY, propose(**ORDERED)),
    Case(Code.LOSS_UNEXPLAINED, propose(**SLOGAN)),
    Case(Code.LOSS_UNEXPLAINED, propose(note=SLOGAN["claim"], **SLOGAN)),
    Case(Code.LOSS_UNEXPLAINED, propose(target={"kind": "repo", "id": "audio"})),
    Case(Code.UNKNOWN_REFERENCE, carry_out()),
    Case(Code.NOT_LIVE, carry_out(), more=(proposed(24),)),
    Case(Code.NOT_LIVE, carry_out(), O, more=(proposed(state="applied"),)),
    Case(Code.NOT_LIVE, carry_out("seam:over"), more=(proposed(),)),
    Case(Code.ID_TAKEN, carry_out(id_="durable:over"), more=(proposed(),)),
    Case(Code.CONTRADICTION, carry_out("seam:routes", "seam:routes"), more=(proposed(),)),
    Case(Code.ANCHOR_NOT_IN_PACKET, carry_out(anchor_refs=said(120)), more=(proposed(),)),
    Case(Code.PROPOSAL_MISMATCH, carry_out("seam:routes", "durable:routes"), more=(proposed(),)),
    Case(Code.PROPOSAL_MISMATCH, carry_out(claim="Stops without a timetable are shown."), more=(proposed(),)),
    Case(Code.PROPOSAL_MISMATCH, carry_out(note=NOTE), more=(proposed(),)),
    Case(Code.PROPOSAL_MISMATCH, carry_out(id_="durable:other"), more=(proposed(),)),
    Case(Code.STALE_VERSION, carry_out(), more=(proposed(),), seen={}),
    Case(Code.STALE_VERSION, carry_out(), Emitter.PARENT, more=(proposed(versions=3),)),
    # Revision.
    Case(Code.UNKNOWN_REFERENCE, revise("durable:none")),
    Case(Code.UNKNOWN_REFERENCE, revise("seam:routes")),
    Case(Code.NOT_LIVE, revise("durable:over")),
    Case(Code.CONTRADICTION, revise("durable:routes", "durable:routes")),
    Case(Code.ID_TAKEN, revise(id_="durable:over")),
    Case(Code.STALE_VERSION, revise(), seen={"durable:routes": 9}),
    Case(Code.UNTRUSTED_IDENTITY, revise(**ORDERED)),
    Case(Code.LOSS_UNEXPLAINED, revise(**SLOGAN)),
    Case(Code.LOSS_UNEXPLAINED, revise(note=WHY, **SLOGAN)),
    # Identity.
    Case(Code.CRYSTALLIZE_WRONG_KIND, crystallize(kind="project_seam")),
    Case(Code.CRYSTALLIZE_WRONG_KIND, crystallize("seam:routes")),
    Case(Code.BAD_TRANSITION, crystallize("durable:young"),
         more=(make_durable("durable:young", age=timedelta(hours=23)),)),
    Case(Code.UNTRUSTED_IDENTITY, crystallize(anchor_refs=said(100, 101))),
    Case(Code.UNTRUSTED_IDENTITY, crystallize(anchor_refs=said(100, 101)), O),
    Case(Code.UNTRUSTED_IDENTITY, crystallize(anchor_refs=(*said(100, 102), anchor("evidence:trace-1")))),
    Case(Code.UNTRUSTED_IDENTITY, crystallize(anchor_refs=said(100, 130))),
    Case(Code.ID_TAKEN, crystallize(id_="durable:over")),
    Case(Code.ID_TAKEN, crystallize(value=VALUE), more=(make_value("value:new", retired="evicted"),)),
    Case(Code.ID_TAKEN, crystallize(value=VALUE), more=(make_note("value:new"),)),
    Case(Code.ID_TAKEN, crystallize(note=TEXT), more=(make_note("note:new"),)),
    Case(Code.CONTRADICTION, crystallize(value=VALUE, note=TEXT | {"noteId": "value:new"})),
    Case(Code.CONTRADICTION, crystallize("durable:routes", "durable:routes")),
    Case(Code.UNKNOWN_REFERENCE, crystallize("durable:none")),
    Case(Code.NOT_LIVE, crystallize("durable:over")),
    Case(Code.STALE_VERSION, crystallize(), seen={}),
    Case(Code.STALE_VERSION, crystallize(value=VALUE), more=(make_value("value:new", version=2),),
         seen={"durable:routes": 1}),
    Case(Code.LIMIT_REACHED, crystallize(value=VALUE), more=full("value", make_value)),
    Case(Code.LIMIT_REACHED, crystallize(note=TEXT), O, more=full("note", make_note)),
    # Threads.
    Case(Code.ID_TAKEN, support(thread_id="seam:routes")),
    Case(Code.ID_TAKEN, support(thread_id="thread:elsewhere"), R),
    Case(Code.NOT_LIVE, support(thread_id="thread:over"), R),
    Case(Code.UNKNOWN_REFERENCE, support(support_memory_ids=("seam:none",)), R),
    Case(Code.CONTRADICTION, support(support_memory_ids=("seam:routes", "seam:routes")), R),
    Case(Code.MISSING_FIELD, support(summary=None), R),
    Case(Code.MISSING_FIELD, support(target=None), R),
    Case(Code.MISSING_FIELD, more_for(thread_id="thread:new"), R),
    Case(Code.CONTRADICTION, more_for(anchors_missing=True, anchor_refs=said(100)), R),
    Case(Code.TOO_MANY, more_for(support_memory_ids=("seam:routes",)), R,
         more=(make_thread(support_memory_ids=tuple(f"seam:{n}" for n in range(64))),)),
    Case(Code.LIMIT_REACHED, support(), R, more=full("thread", make_thread)[1:]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_operation_code_table(case: Case) -> None:
    view = make_view(*there(), *case.more)
    before = list(view.all())
    verdict = applied(case.operation, view, make_facts(case.by, **case.facts), case.seen)
    assert isinstance(verdict, Rejected)
    assert (verdict.code, list(view.all())) == (case.code, before)
