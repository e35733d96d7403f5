"""What waits to be said: what is given up, what wakes, and whose turn it is."""

from datetime import timedelta
from typing import Any

import pytest

from core.domain.candidates import StaleReason, Standing, in_turn, stale, wakes
from core.domain.ids import MessageId
from core.domain.mind.values import EntryId
from tests.domain.minds import NOW, ROOM, make_candidate

HOUR, INSTANT = timedelta(hours=1), timedelta(microseconds=1)
REPLY = {"mode": "channel", "channelId": ROOM, "replyToMessageId": 100}
MADE = NOW - 30 * HOUR
OBLIGATIONS = frozenset({MessageId(100)})


def of(id_: str, **more: Any) -> Any:
    return make_candidate(id_, **more)


@pytest.mark.parametrize(
    ("more", "standing", "reason"),
    [
        ({"expires_at": NOW}, Standing(), StaleReason.EXPIRED),
        ({"expires_at": NOW + INSTANT}, Standing(), None),
        ({"status": "awaiting_approval", "age": 24 * HOUR}, Standing(), StaleReason.APPROVAL_EXPIRED),
        ({"status": "awaiting_approval", "age": 24 * HOUR - INSTANT}, Standing(), None),
        ({"status": "approved"}, Standing(), None),
        ({}, Standing(answered={MessageId(100): MADE}), StaleReason.ALREADY_ANSWERED),
        ({}, Standing(answered={MessageId(100): MADE - INSTANT}), None),
        ({}, Standing(answered={MessageId(101): NOW}), None),
        ({}, Standing(gone=frozenset({ROOM})), StaleReason.ROOM_GONE),
        ({}, Standing(deleted=frozenset({MessageId(100)})), StaleReason.SOURCE_VOIDED),
        ({"source_memory_ids": ("a", "b")}, Standing(voided=frozenset({EntryId("b")})), StaleReason.SOURCE_VOIDED),
        ({"source_pressure_id": "p"}, Standing(voided=frozenset({EntryId("p")})), StaleReason.SOURCE_VOIDED),
        ({"source_pressure_id": "p"}, Standing(voided=frozenset({EntryId("q")})), None),
        ({"expires_at": NOW, "status": "sending"}, Standing(), None),
        ({"expires_at": NOW, "retired": "spoken"}, Standing(), None),
    ],
    ids=str,
)
def test_a_candidate_is_given_up_for_the_first_reason_that_holds(
    more: dict[str, Any], standing: Standing, reason: StaleReason | None
) -> None:
    assert stale(of("speech:x", **({"delivery_target": REPLY} | more)), standing, NOW) is reason


def test_speech_without_a_place_rests_on_no_room_and_answers_nothing() -> None:
    standing = Standing(answered={MessageId(100): NOW}, gone=frozenset({ROOM}), deleted=frozenset({MessageId(100)}))
    assert stale(of("speech:x", delivery_target=None), standing, NOW) is None


@pytest.mark.parametrize(
    ("more", "woken"),
    [
        ({"deferred_until": NOW}, True),
        ({"deferred_until": NOW + INSTANT}, False),
        ({"deferred_until": NOW, "delivery_target": None}, False),
        ({"deferred_until": NOW, "retired": "expired"}, False),
        ({"status": "queued"}, False),
    ],
    ids=str,
)
def test_what_was_put_off_wakes_at_its_time_if_it_has_a_place(more: dict[str, Any], woken: bool) -> None:
    assert wakes(of("speech:x", **({"status": "deferred"} | more)), NOW) is woken


def test_approved_speech_comes_first_then_what_is_owed_then_what_matters_and_waits() -> None:
    there = (
        of("d", priority=0.4, age=3 * HOUR),
        of("b", priority=0.9),
        of("c", priority=0.4, age=2 * HOUR),
        of("e", priority=0.4, age=3 * HOUR),
        of("a", priority=0.1, kind="direct_reply", delivery_target=REPLY),
        of("f", priority=0.0, status="approved"),
        of("g", priority=0.2, delivery_target=REPLY),
    )
    assert [entry.id for entry in in_turn(there, OBLIGATIONS)] == ["f", "a", "b", "d", "e", "c", "g"]
    assert [entry.id for entry in in_turn(there, frozenset())] == ["f", "b", "d", "e", "c", "g", "a"]


def test_what_has_no_place_or_is_not_queued_has_no_turn() -> None:
    others = ("deferred", "awaiting_approval", "sending", "spoken", "retired")
    there = (of("a", delivery_target=None), of("b", retired="spoken"), *(of(each, status=each) for each in others))
    assert in_turn(there, OBLIGATIONS) == ()
