"""What is owed: how far rooms and repositories were read, obligations opened, closed and opened again."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pydantic import ValidationError

from core.domain.ids import MessageId
from core.domain.mind.bodies import Case, Cursor, RepoCursor
from core.domain.mind.codes import RejectionCode as Code
from core.domain.mind.facts import Emitter
from core.domain.operations.obligations import (
    CloseOpenCase,
    RecordReviewedMessages,
    UpdateRepoActivityCursor,
    UpsertOpenCase,
)
from tests.domain import speeches
from tests.domain.minds import (
    ANA,
    ELSEWHERE,
    MESSAGES,
    NOW,
    PACKET,
    ROOM,
    make_case,
    make_entry,
    make_facts,
    make_view,
    read,
    said,
)
from tests.domain.speeches import refusal, taken

PARENT, RUMINATION, CHAT = make_facts(Emitter.PARENT), make_facts(Emitter.RUMINATION), make_facts(Emitter.CHAT)
LATE = NOW + timedelta(minutes=3)


def reviewed(message: int = 105, **more: Any) -> RecordReviewedMessages:
    fields = {"consumer": "rumination", "room_id": ROOM, "last_reviewed_message_id": message}
    return read(RecordReviewedMessages, **(fields | {"last_reviewed_timestamp": NOW} | more))


def opened(message: int = 102, **more: Any) -> UpsertOpenCase:
    fields: dict[str, Any] = {"source_message_id": message, "status": "pending", "summary": "Ana waits for a list."}
    return read(UpsertOpenCase, **(fields | {"last_touched_at": NOW} | more))


def closed(message: int = 100, **more: Any) -> CloseOpenCase:
    fields = {"source_message_id": message, "status": "resolved", "resolution_summary": "The list was posted."}
    return read(CloseOpenCase, **(fields | more))


def pulled(**more: Any) -> UpdateRepoActivityCursor:
    fields = {"repo": "Routes", "last_commit_sha": "abc1234", "last_commit_at": NOW, "backlog": 2}
    return read(UpdateRepoActivityCursor, **(fields | more))


def cursor(seq: int = 105, **more: Any) -> Any:
    fields = {"consumer": "rumination", "room_id": ROOM, "last_reviewed_message_id": seq}
    fields |= {"last_reviewed_revision": 0, "last_reviewed_timestamp": NOW, "last_seq": seq, "reviewed": 10}
    return make_entry(f"cursor:rumination:{ROOM}", read(Cursor, **(fields | more)), people=())


FULL = tuple(make_case(1000 + n) for n in range(200))
BOTH = tuple(make_case(n, status="answered", retired="answered") for n in (100, 102))
CASES: dict[str, speeches.Case] = {
    "not by a model": (reviewed(), (), RUMINATION, Code.OPERATION_NOT_ALLOWED, "operation"),
    "another room": (reviewed(120), (), PARENT, Code.UNKNOWN_REFERENCE, "lastReviewedMessageId"),
    "no message": (reviewed(999), (), PARENT, Code.UNKNOWN_REFERENCE, "lastReviewedMessageId"),
    "no revision": (
        reviewed(last_reviewed_revision=3),
        (),
        PARENT,
        Code.UNKNOWN_REFERENCE,
        "lastReviewedRevision",
    ),
    "ahead": (reviewed(last_reviewed_timestamp=LATE), (), PARENT, Code.BAD_TIMESTAMP, "lastReviewedTimestamp"),
    "backwards": (reviewed(104), (cursor(),), PARENT, Code.CURSOR_REGRESSION, "lastReviewedMessageId"),
    "an older revision": (
        reviewed(105, last_reviewed_revision=0),
        (cursor(),),
        make_facts(
            Emitter.PARENT,
            messages={MessageId(105): replace(MESSAGES[MessageId(105)], revision=1, seq=300)},
            revisions={(MessageId(105), 0): 99},
        ),
        Code.CURSOR_REGRESSION,
        "lastReviewedMessageId",
    ),
    "not by sleep": (opened(), (), make_facts(Emitter.SLEEP), Code.OPERATION_NOT_ALLOWED, "operation"),
    "deleted": (opened(140), (), PARENT, Code.UNKNOWN_REFERENCE, "sourceMessageId"),
    "not shown": (opened(120), (), CHAT, Code.ANCHOR_NOT_IN_PACKET, "sourceMessageId"),
    "touched tomorrow": (opened(last_touched_at=LATE), (), PARENT, Code.BAD_TIMESTAMP, "lastTouchedAt"),
    "closed": (opened(100), BOTH, CHAT, Code.CASE_CLOSED, "sourceMessageId"),
    "an older message": (opened(102, anchor_refs=said(104)), BOTH, CHAT, Code.CASE_CLOSED, "sourceMessageId"),
    "another's message": (opened(102, anchor_refs=said(101)), BOTH, CHAT, Code.CASE_CLOSED, "sourceMessageId"),
    "a full list": (opened(), FULL, PARENT, Code.LIMIT_REACHED, "sourceMessageId"),
    "a full list, again": (opened(100), (*FULL, *BOTH), make_facts(), Code.LIMIT_REACHED, "sourceMessageId"),
    "close nothing": (closed(), (), CHAT, Code.UNKNOWN_REFERENCE, "sourceMessageId"),
    "close twice": (closed(), BOTH, CHAT, Code.NOT_LIVE, "sourceMessageId"),
    "no word how": (
        read(CloseOpenCase, source_message_id=100, status="resolved"),
        (make_case(),),
        CHAT,
        Code.MISSING_FIELD,
        "resolutionSummary",
    ),
    "resolved tomorrow": (closed(resolved_at=LATE), (make_case(),), PARENT, Code.BAD_TIMESTAMP, "resolvedAt"),
    "close in sleep": (
        closed(),
        (make_case(),),
        make_facts(Emitter.SLEEP),
        Code.OPERATION_NOT_ALLOWED,
        "operation",
    ),
    "no repository": (pulled(repo="nothing"), (), PARENT, Code.UNKNOWN_REFERENCE, "repo"),
    "committed tomorrow": (pulled(last_commit_at=LATE), (), PARENT, Code.BAD_TIMESTAMP, "lastCommitAt"),
    "repository by hand": (pulled(), (), make_facts(), Code.OPERATION_NOT_ALLOWED, "operation"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_refused_leaves_the_mind_as_it_was(case: str) -> None:
    operation, entries, facts, code, path = CASES[case]
    assert refusal(operation, entries, facts) == (code.value, path)


def test_a_cursor_counts_up_and_the_same_place_changes_nothing() -> None:
    view = make_view()
    assert taken(reviewed(105, reviewed=3), view, PARENT)[0] == "added"
    assert taken(reviewed(105, reviewed=3), view, PARENT) == ("unchanged", ())
    taken(reviewed(110, reviewed=4, quarantined=(109,)), view, PARENT)
    entry = view.find("cursor", f"cursor:rumination:{ROOM}")
    body = view.body(entry, Cursor)
    assert entry is not None and entry.sources == {ROOM} and not entry.people and entry.version == 2
    assert body is not None and (body.last_seq, body.reviewed, body.quarantined) == (110, 7, (109,))


def test_a_cursor_of_another_consumer_stands_apart() -> None:
    view = make_view(cursor(110))
    assert taken(reviewed(104, consumer="moderation"), view, PARENT)[0] == "added"


def test_an_edit_is_a_later_place_than_the_message_that_it_edits() -> None:
    edited = replace(MESSAGES[MessageId(105)], revision=1, seq=300)
    view = make_view(cursor(110))
    taken(reviewed(105), view, make_facts(Emitter.PARENT, messages={edited.id: edited}))
    body = view.body(view.find("cursor", f"cursor:rumination:{ROOM}"), Cursor)
    assert body is not None and (body.last_seq, body.last_reviewed_revision) == (300, 1)


def test_an_obligation_is_opened_with_room_and_author_and_written_anew() -> None:
    view = make_view()
    assert taken(opened(tags=("List",)), view, RUMINATION) == ("opened", ("case:102",))
    later = opened(status="watching", summary="Ana waits on.", why_it_matters="She asked twice.")
    assert taken(later, view, CHAT) == ("changed", ("case:102",))
    entry = view.find("case", "case:102")
    case = view.body(entry, Case)
    assert entry is not None and entry.sources == PACKET.rooms and ANA in entry.people
    assert case is not None and (case.room_id, case.author_id, case.tags) == (ROOM, ANA, ("list",))
    assert (case.status.value, case.summary, case.why_it_matters) == ("watching", "Ana waits on.", "She asked twice.")


def test_a_model_s_clock_counts_for_nothing() -> None:
    view = make_view()
    taken(opened(last_touched_at=NOW - timedelta(days=400)), view, RUMINATION)
    case = view.body(view.find("case", "case:102"), Case)
    assert case is not None and case.last_touched_at == NOW


@pytest.mark.parametrize(("facts", "anchors"), [(CHAT, said(100)), (make_facts(), ())])
def test_an_obligation_opens_again_with_a_newer_message_or_an_operator(facts: Any, anchors: Any) -> None:
    ended = make_case(102, status="resolved", resolution_summary="Posted.", resolved_at=NOW, retired="resolved")
    view = make_view(ended)
    assert taken(opened(102, anchor_refs=anchors), view, facts) == ("reopened", ("case:102",))
    entry = view.find("case", "case:102")
    case = view.body(entry, Case)
    assert entry is not None and entry.live and entry.version == 2
    assert case is not None and (case.reopened, case.resolved_at, case.resolution_summary) == (1, None, None)


def test_another_group_has_room_of_its_own() -> None:
    view = make_view(*FULL)
    assert taken(opened(120), view, PARENT)[0] == "opened"
    entry = view.find("case", "case:120")
    assert entry is not None and entry.sources == {ELSEWHERE}


def test_a_closed_obligation_is_a_tombstone_that_says_how() -> None:
    view = make_view(make_case())
    assert taken(closed(), view, CHAT) == ("resolved", ("case:100",))
    entry = view.find("case", "case:100")
    assert entry is not None and entry.retired is not None and entry.retired.reason == "resolved"
    assert isinstance(entry.body, Case) and entry.body.resolution_summary == "The list was posted."
    assert entry.body.resolved_at == NOW and entry.version == 2


@pytest.mark.parametrize(
    ("shape", "status"), [(UpsertOpenCase, "answered"), (CloseOpenCase, "pending"), (CloseOpenCase, "done")]
)
def test_only_open_states_open_and_only_end_states_close(shape: Any, status: str) -> None:
    with pytest.raises(ValidationError):
        read(shape, source_message_id=100, status=status, summary="x", last_touched_at=NOW)


def test_a_repository_s_cursor_goes_forward_only() -> None:
    view = make_view()
    assert taken(pulled(), view, PARENT)[0] == "added"
    assert taken(pulled(repo="ROUTES", last_commit_sha="abc1235", backlog=0), view, PARENT)[0] == "changed"
    (entry,) = view.live("repo_cursor")
    assert isinstance(entry.body, RepoCursor) and entry.body.backlog == 0 and entry.sources == frozenset()
    earlier = pulled(last_commit_at=NOW - timedelta(minutes=1))
    assert refusal(earlier, (entry,), PARENT) == ("cursor_regression", "lastCommitAt")
