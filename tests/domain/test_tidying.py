"""What upkeep of a mind has to do: which task is due, what is over, what wakes, and what makes room."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from core.domain.mind.bodies import CAPS, Proposal, ProposalState, Scrubbed
from core.domain.mind.codes import Accepted, Rejected, RejectionCode
from core.domain.mind.entries import Entry
from core.domain.mind.facts import Emitter
from core.domain.mind.values import EntryId
from core.domain.operations.keeping import EvictAction, EvictEntries
from core.domain.tidying import ROOM as FREE
from core.domain.tidying import Earlier, Planned, Task, awake, crowded, due, evictions, over, scrubbing
from tests.domain.minds import (
    ELSEWHERE,
    NOW,
    applied,
    make_candidate,
    make_case,
    make_durable,
    make_entry,
    make_facts,
    make_note,
    make_value,
    make_view,
    read,
    thought,
)

BERLIN = ZoneInfo("Europe/Berlin")
DAY, HOUR, INSTANT = timedelta(days=1), timedelta(hours=1), timedelta(microseconds=1)
REASON = "there are more than there may be"


def at(hour: int, minute: int = 0, day: int = 10) -> datetime:
    """A moment by the clock of Berlin, which is ahead of UTC."""
    return datetime(2026, 3, day, hour, minute, tzinfo=BERLIN).astimezone(UTC)


def make_proposal(id_: str, expires_at: datetime) -> Entry:
    """A distillation that was proposed."""
    candidate = thought(type="durable", kind="project_seam")
    fields = {"memory_id": "durable:x", "sources": {"seam:routes": 1}, "candidate": candidate, "proposed_at": NOW - DAY}
    return make_entry(id_, read(Proposal, **fields, expires_at=expires_at))


def ids(planned: list[Planned]) -> list[str]:
    return [entry.id for each in planned for entry in each.entries]


@pytest.mark.parametrize(
    ("when", "counts", "now", "left"),
    [
        (None, {}, at(3), True),
        (at(3, 17), {"verify_done": 1}, at(4, 17), False),
        (at(3, 17), {"verify_done": 1}, at(2, 59, day=11), False),
        (at(3, 17), {"verify_done": 1}, at(3, day=11), True),
        (at(3, 17), {"receipts_retired": 50}, at(4, 17), True),
        (at(23, 17, day=9), {"verify_done": 1}, at(2, 17), False),
        (at(2, 17), {"verify_done": 1}, at(3, 17), True),
        (at(15, day=7), {"verify_done": 1}, at(15), True),
        (at(3, 17, day=29), {"verify_done": 1}, at(4, 17, day=29), False),
    ],
    ids=str,
)
def test_the_work_of_the_night_is_done_once_from_three_on(
    when: datetime | None, counts: dict[str, int], now: datetime, left: bool
) -> None:
    earlier = [] if when is None else [Earlier(when, counts)]
    assert (Task.VERIFY in due(earlier, now, BERLIN)) is left
    assert Task.EXPIRY in due(earlier, now, BERLIN)


def test_what_is_over_ends_and_nothing_else_does() -> None:
    entries = [
        make_candidate("late", expires_at=NOW),
        make_candidate("unapproved", status="awaiting_approval", age=24 * HOUR),
        make_candidate("soon", expires_at=NOW + INSTANT, status="deferred", deferred_until=NOW),
        make_candidate("both", expires_at=NOW, status="deferred", deferred_until=NOW),
        make_proposal("p:late", NOW),
        make_proposal("p:soon", NOW + INSTANT),
        make_case(100, age=14 * DAY),
        make_case(101, age=14 * DAY - INSTANT),
        make_case(102, age=20 * DAY, retired="answered"),
    ]
    view = make_view(*entries)
    ending, waking = over(entries, NOW), awake(entries, NOW)
    assert ids(ending) == ["late", "unapproved", "both", "p:late", "case:100"]
    assert ids(waking) == ["soon"]
    verdicts = [applied(each.operation, view, make_facts(Emitter.UPKEEP)) for each in ending]
    assert [verdict.effect for verdict in verdicts if isinstance(verdict, Accepted)] == [
        "retired",
        "retired",
        "retired",
        "expired",
        "dropped",
    ]
    gone = [entry for id_ in ("late", "unapproved") if (entry := view.find("candidate", id_)) is not None]
    assert [entry.retired.reason for entry in gone if entry.retired] == ["expired", "approval_expired"]
    proposal = view.find("proposal", "p:late")
    assert proposal is not None and isinstance(proposal.body, Proposal)
    assert proposal.body.state is ProposalState.EXPIRED and not proposal.live
    assert isinstance(applied(waking[0].operation, view, make_facts(Emitter.PARENT)), Accepted)


def test_a_proposal_that_can_still_be_carried_out_is_not_ended() -> None:
    waiting = make_proposal("p", NOW + INSTANT)
    ending = EvictEntries(entry_type="proposal", entry_ids=(waiting.id,), action=EvictAction.RETIRE, reason=REASON)
    verdict = applied(ending, make_view(waiting), make_facts(Emitter.UPKEEP))
    assert isinstance(verdict, Rejected) and verdict.code is RejectionCode.NOT_EVICTABLE


def crowd(make: Any, type_: str, more: int, **each: Any) -> list[Entry]:
    """As many entries as a group may have of a type, and some more; the first are the oldest."""
    many = CAPS[type_] + more
    return [make(f"{type_}:{n:03}", age=(many - n) * DAY, **each) for n in range(many)]


def test_only_what_there_is_too_much_of_makes_room_the_least_of_it() -> None:
    here = crowd(make_note, "note", 2)
    there = [make_note(f"other:{n}", sources=[ELSEWHERE], age=400 * DAY) for n in range(CAPS["note"])]
    view, facts = make_view(*here, *there), make_facts(Emitter.UPKEEP, recalled={EntryId("note:000"): NOW})
    assert crowded([("note", CAPS["note"]), ("value", 3)]) == ()
    assert crowded([("note", CAPS["note"] + 2)]) == ("note",)
    (planned,) = evictions(view, facts, "note", 50)
    assert ids([planned]) == ["note:001", "note:002"]  # the oldest was recalled just now
    assert isinstance(applied(planned.operation, view, facts), Accepted)
    assert len(list(view.live("note"))) == 2 * CAPS["note"]


def test_what_is_evicted_is_bounded_and_identity_stays() -> None:
    memories = crowd(make_durable, "durable", 0)
    first, second = memories[0], make_durable("kept", age=9000 * DAY, crystallized=True)
    supporting = make_value(support_memory_id=first.id)
    view = make_view(*memories[1:], first, second, supporting)
    facts = make_facts(Emitter.UPKEEP)
    (planned,) = evictions(view, facts, "durable", FREE)
    assert len(planned.entries) == FREE
    assert not {"kept", first.id} & set(ids([planned]))
    assert isinstance(applied(planned.operation, view, facts), Accepted)


def test_one_that_matters_more_is_not_evicted_while_another_stays() -> None:
    here = crowd(make_note, "note", 1)
    newest = EvictEntries(entry_type="note", entry_ids=(here[-1].id,), action=EvictAction.RETIRE, reason=REASON)
    verdict = applied(newest, make_view(*here), make_facts(Emitter.UPKEEP))
    assert isinstance(verdict, Rejected) and verdict.code is RejectionCode.NOT_EVICTABLE


def test_old_tombstones_lose_their_words() -> None:
    old = [make_note(age=181 * DAY, retired="evicted"), make_durable(age=181 * DAY, retired="distilled")]
    view = make_view(*old)
    verdicts = [applied(each.operation, view, make_facts(Emitter.UPKEEP)) for each in scrubbing(old)]
    assert [type(verdict) for verdict in verdicts] == [Accepted, Accepted]
    assert all(isinstance(entry.body, Scrubbed) for entry in view.all())
