"""What the mind would like to say, and what it has said: candidates, receipts, and what they settle."""

from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from core.domain.mind.bodies import Case
from core.domain.mind.codes import Rejected
from core.domain.mind.codes import RejectionCode as Code
from core.domain.mind.entries import Entry
from core.domain.mind.facts import Emitter, OutboxFact, speech_hash
from core.domain.mind.speech import Candidate, Receipt
from core.domain.operations.receipts import MarkCandidateSpoken, RecordDeliveryReceipt, RetireDeliveryReceipts
from core.domain.operations.speech import AdvanceCandidate, QueueCandidateIntervention, RetireCandidateIntervention
from tests.domain import speeches
from tests.domain.minds import (
    ANA,
    BO,
    ELSEWHERE,
    MESSAGES,
    NOW,
    PACKET,
    ROOM,
    applied,
    make_candidate,
    make_case,
    make_durable,
    make_facts,
    make_pressure_item,
    make_receipt,
    make_short_term,
    make_view,
    read,
)
from tests.domain.speeches import refusal, taken

PARENT, OPERATOR, RUMINATION = make_facts(Emitter.PARENT), make_facts(), make_facts(Emitter.RUMINATION)
DRAFT = "Two stops are cut from the map; shall I list them?"
HERE = {"mode": "channel", "channelId": ROOM}
HASH = "cd" * 32
LATE = NOW + timedelta(minutes=3)
DAY = timedelta(days=1)


def queued(**more: Any) -> QueueCandidateIntervention:
    fields: dict[str, Any] = {"intervention_id": "speech:new", "kind": "ripe_thought_share", "summary": "Two stops."}
    fields |= {"draft": DRAFT, "delivery_target": HERE}
    given = {name: value for name, value in (fields | more).items() if value is not None}
    return read(QueueCandidateIntervention, intervention=given)


def to_reply(message: int, room: int = ROOM) -> dict[str, Any]:
    return {"mode": "channel", "channelId": room, "replyToMessageId": message}


def advanced(to: str, **more: Any) -> AdvanceCandidate:
    return read(AdvanceCandidate, intervention_id="speech:stops", to=to, reason="its turn", **more)


def given_up(id_: str = "speech:stops") -> RetireCandidateIntervention:
    return read(RetireCandidateIntervention, intervention_id=id_, reason="not worth saying")


def received(**more: Any) -> RecordDeliveryReceipt:
    fields: dict[str, Any] = {"outbox_id": 6, "cause": "reply", "room_id": ROOM, "transport": "discord"}
    fields |= {"sent_message_ids": ("9002",), "content_length": 20, "chunk_count": 1, "preview": "here it is"}
    fields |= {"content_hash": HASH, "sent_at": NOW, "outcome": "sent", "delivery_ref": "turn:6"}
    return read(RecordDeliveryReceipt, receipt=fields | more)


def out(state: str = "sent", room: Any = ROOM, words: str = HASH) -> Any:
    return make_facts(Emitter.PARENT, outbox={6: OutboxFact(room, words, state)})


def spoken(receipt: str = "receipt:5") -> MarkCandidateSpoken:
    return read(MarkCandidateSpoken, intervention_id="speech:stops", receipt_id=receipt)


def forgotten(*ids: str) -> RetireDeliveryReceipts:
    return read(RetireDeliveryReceipts, receipt_ids=ids, reason="sent twice by mistake")


SENDING = make_candidate(status="sending")
OWN_RECEIPT = make_receipt(intervention_id="speech:stops", cause="candidate")
OVER = make_candidate(status="retired", retired="stale")
ELSEWHERE_MADE = make_durable(sources=(ELSEWHERE,))
FULL = tuple(make_candidate(f"speech:{n}") for n in range(32))
ECHO = make_facts(Emitter.RUMINATION, echoed=frozenset({speech_hash(DRAFT)}))
SAID = make_facts(Emitter.RUMINATION, said=frozenset({speech_hash(DRAFT)}))
ANSWERED = make_facts(Emitter.RUMINATION, answered=frozenset(MESSAGES))

QUEUE: dict[str, speeches.Case] = {
    "not by chat": (queued(), (), make_facts(Emitter.CHAT), Code.OPERATION_NOT_ALLOWED, "operation"),
    "id of a tombstone": (
        queued(intervention_id="speech:stops"),
        (OVER,),
        RUMINATION,
        Code.ID_TAKEN,
        "intervention.interventionId",
    ),
    "stamped in 2099": (
        queued(created_at="2099-01-01T00:00:00Z"),
        (),
        RUMINATION,
        Code.BAD_TIMESTAMP,
        "intervention.createdAt",
    ),
    "about nobody": (
        queued(target={"kind": "person", "id": "99"}),
        (),
        RUMINATION,
        Code.UNKNOWN_REFERENCE,
        "intervention.target",
    ),
    "about one who does not want it": (
        queued(target={"kind": "person", "id": str(ANA)}),
        (),
        make_facts(Emitter.RUMINATION, opted_out=frozenset({ANA})),
        Code.PERSON_OPTED_OUT,
        "intervention.target",
    ),
    "about one who was erased": (
        queued(target={"kind": "person", "id": str(ANA)}),
        (),
        make_facts(Emitter.RUMINATION, erased=frozenset({ANA})),
        Code.PERSON_ERASED,
        "intervention.target",
    ),
    "no pressure": (
        queued(source_pressure_id="pressure:routes"),
        (),
        RUMINATION,
        Code.UNKNOWN_REFERENCE,
        "intervention.sourcePressureId",
    ),
    "a pressure that is over": (
        queued(source_pressure_id="pressure:routes"),
        (make_pressure_item(retired="resolved"),),
        RUMINATION,
        Code.NOT_LIVE,
        "intervention.sourcePressureId",
    ),
    "no memory": (
        queued(source_memory_ids=("seam:routes",)),
        (),
        RUMINATION,
        Code.UNKNOWN_REFERENCE,
        "intervention.sourceMemoryIds",
    ),
    "a memory that is over": (
        queued(source_memory_ids=("seam:routes",)),
        (make_short_term(retired="pruned"),),
        RUMINATION,
        Code.NOT_LIVE,
        "intervention.sourceMemoryIds",
    ),
    "no channel": (
        queued(delivery_target={"mode": "channel"}),
        (),
        RUMINATION,
        Code.DELIVERY_TARGET_MISSING_CHANNEL,
        "intervention.deliveryTarget.channelId",
    ),
    "a direct message in a channel": (
        queued(delivery_target={"mode": "owner_dm", "channelId": ROOM}),
        (),
        RUMINATION,
        Code.CONTRADICTION,
        "intervention.deliveryTarget.channelId",
    ),
    "an unknown channel": (
        queued(delivery_target={"mode": "channel", "channelId": 99}),
        (),
        RUMINATION,
        Code.UNKNOWN_REFERENCE,
        "intervention.deliveryTarget.channelId",
    ),
    "a reply to nothing": (
        queued(delivery_target=to_reply(999)),
        (),
        RUMINATION,
        Code.UNKNOWN_REFERENCE,
        "intervention.deliveryTarget.replyToMessageId",
    ),
    "a reply to what was deleted": (
        queued(delivery_target=to_reply(140)),
        (),
        RUMINATION,
        Code.UNKNOWN_REFERENCE,
        "intervention.deliveryTarget.replyToMessageId",
    ),
    "a reply to what was not shown": (
        queued(delivery_target=to_reply(120, ELSEWHERE)),
        (),
        RUMINATION,
        Code.ANCHOR_NOT_IN_PACKET,
        "intervention.deliveryTarget.replyToMessageId",
    ),
    "a reply in another room": (
        queued(delivery_target=to_reply(100, ELSEWHERE)),
        (),
        OPERATOR,
        Code.UNKNOWN_REFERENCE,
        "intervention.deliveryTarget.replyToMessageId",
    ),
    "a reply to what was answered": (
        queued(delivery_target=to_reply(100)),
        (),
        ANSWERED,
        Code.ALREADY_ANSWERED,
        "intervention.deliveryTarget",
    ),
    "said before": (queued(), (), SAID, Code.REPEATS_RECENT_SPEECH, "intervention.draft"),
    "an echo of the prompt": (queued(), (), ECHO, Code.PROMPT_ECHO, "intervention.draft"),
    "the markup of a role": (
        queued(draft="Fine.\nAssistant: I say more."),
        (),
        RUMINATION,
        Code.PROMPT_ECHO,
        "intervention.draft",
    ),
    "the markup of a tool": (
        queued(draft="<tool_call>list</tool_call>"),
        (),
        RUMINATION,
        Code.PROMPT_ECHO,
        "intervention.draft",
    ),
    "a machine's time": (
        queued(draft="It broke at 2026-03-10T19:30:00Z."),
        (),
        RUMINATION,
        Code.BAD_TIMESTAMP,
        "intervention.draft",
    ),
    "nothing to see": (queued(draft="\u200b\u2060"), (), RUMINATION, Code.OUT_OF_RANGE, "intervention.draft"),
    "a room of other readers": (
        queued(delivery_target={"mode": "channel", "channelId": ELSEWHERE}),
        (),
        RUMINATION,
        Code.VENUE_OUTSIDE_AUDIENCE,
        "intervention.deliveryTarget.channelId",
    ),
    "made from what some may not read": (
        queued(source_memory_ids=("durable:routes",)),
        (ELSEWHERE_MADE,),
        RUMINATION,
        Code.TARGET_NOT_READABLE,
        "intervention.deliveryTarget.channelId",
    ),
    "deferred for ever": (
        queued(status="deferred"),
        (),
        RUMINATION,
        Code.MISSING_FIELD,
        "intervention.deferredUntil",
    ),
    "queued and deferred": (
        queued(deferred_until=NOW + DAY),
        (),
        RUMINATION,
        Code.CONTRADICTION,
        "intervention.deferredUntil",
    ),
    "deferred too long": (
        queued(status="deferred", deferred_until=NOW + 15 * DAY),
        (),
        RUMINATION,
        Code.OUT_OF_RANGE,
        "intervention.deferredUntil",
    ),
    "over before its turn": (
        queued(status="deferred", deferred_until=NOW + 2 * DAY, expires_at=NOW + DAY),
        (),
        RUMINATION,
        Code.OUT_OF_RANGE,
        "intervention.expiresAt",
    ),
    "a full list": (queued(), FULL, RUMINATION, Code.LIMIT_REACHED, "intervention"),
}
ADVANCE: dict[str, speeches.Case] = {
    "no candidate": (advanced("deferred"), (), PARENT, Code.UNKNOWN_REFERENCE, "interventionId"),
    "not live": (advanced("queued"), (OVER,), PARENT, Code.NOT_LIVE, "interventionId"),
    "not by a model": (
        advanced("sending"),
        (make_candidate(),),
        RUMINATION,
        Code.OPERATION_NOT_ALLOWED,
        "operation",
    ),
    "to where it is": (advanced("queued"), (make_candidate(),), PARENT, Code.BAD_TRANSITION, "to"),
    "spoken by itself": (advanced("spoken"), (SENDING,), PARENT, Code.BAD_TRANSITION, "to"),
    "unasked approval": (advanced("approved"), (make_candidate(),), OPERATOR, Code.BAD_TRANSITION, "to"),
    "deferred and sent": (
        advanced("sending"),
        (make_candidate(status="deferred", deferred_until=NOW + DAY),),
        PARENT,
        Code.BAD_TRANSITION,
        "to",
    ),
    "approved by code": (
        advanced("approved"),
        (make_candidate(status="awaiting_approval"),),
        PARENT,
        Code.OPERATION_NOT_ALLOWED,
        "to",
    ),
    "sent nowhere": (
        advanced("sending"),
        (make_candidate(delivery_target=None),),
        PARENT,
        Code.DELIVERY_TARGET_MISSING_CHANNEL,
        "to",
    ),
    "put off without a day": (
        advanced("deferred"),
        (make_candidate(),),
        PARENT,
        Code.MISSING_FIELD,
        "deferredUntil",
    ),
    "sent with a day": (
        advanced("sending", deferred_until=NOW + DAY),
        (make_candidate(),),
        PARENT,
        Code.CONTRADICTION,
        "deferredUntil",
    ),
    "put off to yesterday": (
        advanced("deferred", deferred_until=NOW - DAY),
        (make_candidate(),),
        PARENT,
        Code.OUT_OF_RANGE,
        "deferredUntil",
    ),
    "give up nothing": (given_up(), (), PARENT, Code.UNKNOWN_REFERENCE, "interventionId"),
    "give up twice": (given_up(), (OVER,), PARENT, Code.NOT_LIVE, "interventionId"),
    "give up what is going out": (given_up(), (SENDING,), PARENT, Code.NOT_LIVE, "interventionId"),
    "give up in chat": (
        given_up(),
        (SENDING,),
        make_facts(Emitter.CHAT),
        Code.OPERATION_NOT_ALLOWED,
        "operation",
    ),
}
RECEIPTS: dict[str, speeches.Case] = {
    "not by hand": (received(), (), OPERATOR, Code.OPERATION_NOT_ALLOWED, "operation"),
    "no row": (received(), (), PARENT, Code.UNKNOWN_REFERENCE, "receipt.outboxId"),
    "a row not out": (received(), (), out("ready"), Code.UNKNOWN_REFERENCE, "receipt.outboxId"),
    "another outcome": (received(), (), out("unknown"), Code.UNKNOWN_REFERENCE, "receipt.outboxId"),
    "another room's row": (received(), (), out(room=ELSEWHERE), Code.UNKNOWN_REFERENCE, "receipt.outboxId"),
    "other words": (received(), (), out(words="ef" * 32), Code.UNKNOWN_REFERENCE, "receipt.outboxId"),
    "no candidate": (
        received(cause="candidate", intervention_id="speech:stops"),
        (),
        out(),
        Code.UNKNOWN_REFERENCE,
        "receipt.interventionId",
    ),
    "a second receipt": (received(), (make_receipt(6),), out(), Code.ID_TAKEN, "receipt.outboxId"),
    "sent tomorrow": (received(sent_at=LATE), (), out(), Code.BAD_TIMESTAMP, "receipt.sentAt"),
    "sent without ids": (
        received(sent_message_ids=()),
        (),
        out(),
        Code.MISSING_FIELD,
        "receipt.sentMessageIds",
    ),
    "a candidate's reply": (
        received(intervention_id="speech:stops"),
        (SENDING,),
        out(),
        Code.CONTRADICTION,
        "receipt.cause",
    ),
    "mark nothing": (spoken(), (OWN_RECEIPT,), PARENT, Code.UNKNOWN_REFERENCE, "interventionId"),
    "mark what is over": (spoken(), (OWN_RECEIPT, OVER), PARENT, Code.NOT_LIVE, "interventionId"),
    "mark without receipt": (spoken(), (SENDING,), PARENT, Code.UNKNOWN_REFERENCE, "receiptId"),
    "mark by a dead receipt": (
        spoken(),
        (SENDING, make_receipt(retired="mistake")),
        PARENT,
        Code.NOT_LIVE,
        "receiptId",
    ),
    "mark by another's receipt": (spoken(), (SENDING, make_receipt()), PARENT, Code.CONTRADICTION, "receiptId"),
    "mark what was not sent": (
        spoken(),
        (make_candidate(), OWN_RECEIPT),
        PARENT,
        Code.BAD_TRANSITION,
        "interventionId",
    ),
    "mark by hand": (spoken(), (SENDING, OWN_RECEIPT), OPERATOR, Code.OPERATION_NOT_ALLOWED, "operation"),
    "forget nothing": (forgotten("receipt:5"), (), OPERATOR, Code.UNKNOWN_REFERENCE, "receiptIds"),
    "forget twice": (
        forgotten("receipt:5"),
        (make_receipt(retired="mistake"),),
        OPERATOR,
        Code.NOT_LIVE,
        "receiptIds",
    ),
    "forget one named twice": (
        forgotten("receipt:5", "receipt:5"),
        (make_receipt(),),
        OPERATOR,
        Code.CONTRADICTION,
        "receiptIds",
    ),
    "forget by a model": (
        forgotten("receipt:5"),
        (make_receipt(),),
        RUMINATION,
        Code.OPERATION_NOT_ALLOWED,
        "operation",
    ),
}
CASES = {"queue": QUEUE, "advance": ADVANCE, "receipts": RECEIPTS}


@pytest.mark.parametrize(("table", "case"), [(table, case) for table, cases in CASES.items() for case in cases])
def test_what_is_refused_leaves_the_mind_as_it_was(table: str, case: str) -> None:
    operation, entries, facts, code, path = CASES[table][case]
    assert refusal(operation, entries, facts) == (code.value, path)


@pytest.mark.parametrize("status", ["approved", "spoken", "retired"])
def test_a_model_cannot_queue_what_is_already_approved_or_over(status: str) -> None:
    with pytest.raises(ValidationError):
        queued(status=status)


@pytest.mark.parametrize("draft", ["The user: who is it?", "It starts at 19:30.", "On 2026-03-10 it broke.", "a <b> c"])
def test_the_wall_of_speech_lets_ordinary_words_through(draft: str) -> None:
    assert refusal(queued(draft=draft), (), RUMINATION) == ("", "queued")


def test_a_queued_candidate_has_all_that_its_author_read() -> None:
    view = make_view(make_pressure_item(people=(BO,)))
    op = queued(source_pressure_id="pressure:routes", delivery_target=to_reply(100))
    assert taken(op, view, RUMINATION) == ("queued", ("speech:new",))
    entry, body = candidate(view, "speech:new")
    assert entry.sources == PACKET.rooms and {ANA, BO} <= entry.people
    assert (body.status.value, body.attempts, body.expires_at) == ("queued", 0, NOW + timedelta(hours=72))


def test_a_candidate_without_a_venue_waits_a_day() -> None:
    view = make_view()
    assert taken(queued(delivery_target=None, must_eventually_share=True), view, RUMINATION)[0] == "deferred"
    _, body = candidate(view, "speech:new")
    assert (body.deferred_until, body.expires_at) == (NOW + DAY, NOW + 15 * DAY)


def test_an_operator_s_own_words_may_go_anywhere() -> None:
    assert refusal(queued(delivery_target={"mode": "channel", "channelId": ELSEWHERE}), (), OPERATOR)[0] == ""


def test_a_candidate_goes_its_way_to_being_sent() -> None:
    view = make_view(make_candidate())
    for to, facts in (("awaiting_approval", PARENT), ("approved", OPERATOR), ("sending", PARENT)):
        assert taken(advanced(to), view, facts) == (to, ("speech:stops",))
    assert candidate(view)[0].version == 4


def test_what_was_put_off_has_its_day_and_loses_it() -> None:
    view = make_view(make_candidate())
    taken(advanced("deferred", deferred_until=NOW + DAY), view, OPERATOR)
    assert candidate(view)[1].deferred_until == NOW + DAY
    taken(advanced("queued"), view, PARENT)
    assert candidate(view)[1].deferred_until is None


def test_the_third_failed_sending_gives_a_candidate_up() -> None:
    view = make_view(make_candidate())
    for effect in ("queued", "queued", "retired"):
        taken(advanced("sending"), view, PARENT)
        assert taken(advanced("queued"), view, PARENT)[0] == effect
    entry, body = candidate(view)
    assert entry.retired is not None and entry.retired.reason == "delivery_failed"
    assert (body.attempts, body.status.value) == (3, "retired")


def test_what_is_given_up_keeps_its_words_and_the_reason() -> None:
    view = make_view(make_candidate())
    assert taken(given_up(), view, RUMINATION) == ("retired", ("speech:stops",))
    entry, body = candidate(view)
    assert entry.retired is not None and entry.retired.reason == "not worth saying" and body.status.value == "retired"


@pytest.mark.parametrize(("outcome", "ids"), [("sent", ("9002",)), ("unknown", ())])
def test_a_receipt_closes_the_obligation_that_it_answers(outcome: str, ids: tuple[str, ...]) -> None:
    view = make_view(make_case(100), make_case(102))
    op = received(reply_to_message_id=100, outcome=outcome, sent_message_ids=ids)
    assert taken(op, view, out(outcome)) == ("recorded", ("case:100", "receipt:6"))
    ended = view.find("case", "case:100")
    assert ended is not None and ended.retired is not None and ended.retired.reason == "answered"
    assert isinstance(ended.body, Case) and ended.body.resolved_at == NOW
    entry = view.find("receipt", "receipt:6")
    assert entry is not None and entry.sources == {ROOM} and entry.people == {ANA}


def test_two_answers_to_one_message_are_two_receipts() -> None:
    view = make_view(make_receipt(5))
    taken(received(reply_to_message_id=100), view, out())
    assert [entry.id for entry in view.live("receipt")] == ["receipt:5", "receipt:6"]


def test_a_receipt_of_a_candidate_has_the_people_of_its_words() -> None:
    view = make_view(make_candidate(status="sending", people=(BO,), sources=(ROOM, ELSEWHERE)))
    taken(received(cause="candidate", intervention_id="speech:stops"), view, out())
    entry = view.find("receipt", "receipt:6")
    assert entry is not None and entry.sources == {ROOM} and entry.people == {BO}


def test_a_spoken_candidate_gives_up_others_that_would_answer_the_same() -> None:
    same, other = to_reply(100), to_reply(102)
    view = make_view(
        make_candidate(status="sending", delivery_target=same),
        make_candidate("speech:again", delivery_target=same, must_eventually_share=True),
        make_candidate("speech:leaving", delivery_target=same, status="sending"),
        make_candidate("speech:other", delivery_target=other),
        OWN_RECEIPT,
    )
    assert taken(spoken(), view, PARENT) == ("spoken", ("speech:stops", "speech:again"))
    entry, body = candidate(view)
    receipt = OWN_RECEIPT.body
    assert entry.retired is not None and entry.retired.reason == "spoken" and isinstance(receipt, Receipt)
    assert (body.status.value, body.receipt_id, body.spoken_at) == ("spoken", "receipt:5", receipt.sent_at)
    again, _ = candidate(view, "speech:again")
    assert again.retired is not None and again.retired.reason == "answered_elsewhere"


def test_speech_that_answers_nothing_gives_nothing_up() -> None:
    view = make_view(SENDING, make_candidate("speech:again"), OWN_RECEIPT)
    assert taken(spoken(), view, PARENT)[1] == ("speech:stops",)


def test_retired_receipts_keep_their_words() -> None:
    view = make_view(make_receipt(5), make_receipt(6))
    assert taken(forgotten("receipt:6", "receipt:5"), view, OPERATOR) == ("retired", ("receipt:6", "receipt:5"))
    assert list(view.live("receipt")) == []
    entry = view.find("receipt", "receipt:5")
    assert entry is not None and isinstance(entry.body, Receipt) and entry.body.preview


def test_an_operator_who_saw_an_older_version_is_refused() -> None:
    view = make_view(make_candidate(version=2))
    verdict = applied(given_up(), view, OPERATOR, {"speech:stops": 1})
    assert verdict == Rejected(Code.STALE_VERSION, "speech:stops", "is at version 2")


def candidate(view: Any, id_: str = "speech:stops") -> tuple[Entry, Candidate]:
    entry = view.find("candidate", id_)
    assert entry is not None and isinstance(entry.body, Candidate)
    return entry, entry.body
