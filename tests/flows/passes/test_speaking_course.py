"""Speech unasked over hours and days: repetition, budgets, approval, crashes, and what is sent in the end."""

from dataclasses import replace
from datetime import timedelta
from itertools import product

import pytest

from core.chat.likening import Likening
from core.domain.errors import Unavailable
from core.domain.ids import RoomId
from core.domain.mind.facts import Emitter
from core.domain.passes import Run, RunMode
from core.retrieval.service import Likeness
from core.store import access, embeddings, passes, places
from core.store.engine import Database
from core.store.pgvector import PgVectorStore
from tests.fakes import ManualClock, WordEmbedder
from tests.flows.line import running_line
from tests.flows.passes.mouth import DRAWN, HOUR_S, THOUGHTS, Mouth, make_mouth

DAY_S = 24 * HOUR_S
LINE = "Every map of this town leaves out the same street."


def sentences() -> list[str]:
    """Many sentences that have little in common by their letters."""
    who = ("Bakers", "Gardeners", "Pilots", "Tailors", "Miners", "Judges", "Sailors", "Nurses")
    what = ("weigh cold iron", "forget green ladders", "mend quiet clocks", "paint whole rivers", "borrow thick fog")
    return [f"{one} {other} {one[::-1].lower()}." for one, other in product(who, what)]


async def until_dawn(clock: ManualClock) -> None:
    """Let it be six o'clock in UTC, so that a few hours are of one day."""
    now = clock.now()
    await clock.advance((now.replace(hour=6, minute=0, second=0) - now).total_seconds() % DAY_S)


# Repetition


@pytest.mark.parametrize("runs", [10, pytest.param(50, marks=pytest.mark.long)])
async def test_a_model_that_repeats_its_last_line_is_heard_once(
    database: Database, clock: ManualClock, runs: int
) -> None:
    mouth = await make_mouth(database, clock)
    rooms = [mouth.home.room, *[await mouth.open_room(f"room{n}") for n in range(4)]]
    for n, room in enumerate(rooms):  # before any of them is said
        await mouth.queue(f"early{n}", LINE, room=room)
    for n in range(runs):
        room = rooms[n % 5]
        await mouth.hear(room)
        await mouth.propose(f"line{n}", LINE, room=room)
        await mouth.speak()
        await mouth.arrive()
        await clock.advance(2 * HOUR_S)
    assert await mouth.said() == [LINE]
    assert set((await mouth.statuses()).values()) == {"spoken", "repeats_recent_speech"}


async def test_one_thought_in_other_words_is_known_by_its_meaning(database: Database, clock: ManualClock) -> None:
    embedder = WordEmbedder(alike={"saw": "cutter", "blunt": "dull", "is": "seems"})
    async with database.transaction() as tx:
        await embeddings.add_model(tx, embedder.model)
    likeness = Likeness(database, clock, {embedder.model.name: embedder}, PgVectorStore(database))
    mouth = await make_mouth(database, clock, replace(DRAWN, room_daily=9), likening=Likening(database, likeness))
    await mouth.queue("first", "The saw is blunt again.")
    await mouth.work(await mouth.claim())
    await mouth.arrive()
    await mouth.hear()
    await clock.advance(2 * HOUR_S)
    await mouth.queue("again", "The cutter seems dull again.", priority=0.9)
    await mouth.queue("other", "Swans came back to the pond.", priority=0.8)
    await mouth.work(await mouth.claim())
    assert mouth.outcomes() == {"again": "retired:repeats_recent_speech", "other": "spoken"}
    assert mouth.details("again")["repetition"] == "here 1.000 by embedder"
    # Without an answer of the model letters decide, and they do not know these for the same.
    await mouth.arrive()
    await mouth.hear()
    await clock.advance(2 * HOUR_S)
    embedder.down = Unavailable("embedder: down")
    await mouth.queue("third", "The cutter seems blunt today.")
    await mouth.work(await mouth.claim())
    assert mouth.outcomes() == {"third": "spoken"}


# Budgets


async def test_a_sparse_room_hears_no_more_than_its_budget_each_local_day(
    database: Database, clock: ManualClock
) -> None:
    rules = replace(DRAWN, room_daily=2, mind_daily=3)
    await until_dawn(clock)
    mouth = await make_mouth(database, clock, rules)
    await mouth.do("update voidbot.communities set timezone = 'Asia/Kathmandu'")
    other, words = await mouth.open_room("other"), iter(sentences())
    for n in range(12):
        room = (mouth.home.room, other)[n % 2]
        await mouth.hear(room)
        await mouth.queue(f"thought{n}", next(words), room=room)
        await mouth.speak()
        await mouth.arrive()
        await clock.advance(4 * HOUR_S)
    async with database.transaction() as tx:
        days = await tx.fetch(
            "select (created_at at time zone 'Asia/Kathmandu')::date as day, count(*) as n,"
            " count(*) filter (where room_id = $1) as here from voidbot.outbox group by 1",
            mouth.home.room,
        )
    assert all(row["n"] <= 3 and row["here"] <= 2 for row in days)
    assert sum(row["n"] for row in days) >= 5


async def test_a_reply_stays_in_its_own_venue_though_a_louder_room_is_in_the_group(
    database: Database, clock: ManualClock
) -> None:
    mouth = await make_mouth(database, clock)
    asked = await mouth.home.say("What of the stops?")
    loud = await mouth.open_room("loud")
    for _ in range(5):
        await mouth.hear(loud)
    await mouth.owe(asked)
    await mouth.queue("thought", room=loud, priority=1.0)
    await mouth.queue("answer", reply=asked, priority=0.1)
    assert (await mouth.speak()).get("delivered") == 1
    (row,) = await mouth.rows()
    assert (row["room_id"], row["body"], row["reply_to"]) == (mouth.home.room, THOUGHTS["answer"], "1-6")


# Approval


async def approve(mouth: Mouth, id_: str) -> None:
    step = {"operation": "advance_candidate", "interventionId": id_, "to": "approved", "reason": "go on"}
    await mouth.home.accept(step, by=Emitter.OPERATOR, expect={id_: 2})


async def test_some_speech_waits_for_a_person_and_not_for_ever(database: Database, clock: ManualClock) -> None:
    mouth = await make_mouth(database, clock)
    await mouth.queue("asked", "Our map should show every stop.", kind="world_advocacy", priority=0.9)
    await mouth.queue("forgotten", "Ferries deserve a page of their own.", kind="moderation_note", priority=0.8)
    assert await mouth.speak() == {"read": 2, "awaiting_approval": 2}
    assert await mouth.rows() == []
    await approve(mouth, "asked")
    await mouth.queue("thought", priority=1.0)
    assert await mouth.speak() == {"read": 3, "delivered": 1}
    assert await mouth.said() == ["Our map should show every stop."]
    await clock.advance(DAY_S + 60)
    await mouth.speak()
    assert mouth.outcomes()["forgotten"] == "retired:approval_expired"


async def make_staff(mouth: Mouth, room: RoomId) -> None:
    async with mouth.database.transaction() as tx:
        await places.save_staff(tx, room, True)


async def test_the_staff_is_asked_by_a_card_and_its_words_repeat_nothing(
    database: Database, clock: ManualClock
) -> None:
    mouth = await make_mouth(database, clock)
    await make_staff(mouth, mouth.home.closed)
    await make_staff(mouth, mouth.home.room)  # there is one such room
    await mouth.queue("asked", "Our map should show every stop.", kind="world_advocacy")
    await mouth.queue("leak", "The key is ghp_0123456789abcdefghijABCDEFGHIJ0123.", kind="world_advocacy")
    assert await mouth.speak(RunMode.DRY_RUN) == {"read": 2, "held": 2}
    assert await mouth.speak() == {"read": 2, "awaiting_approval": 1, "retired": 1}
    (card,) = await mouth.rows()
    assert (card["kind"], card["room_id"], card["state"]) == ("card", mouth.home.room, "ready")
    assert card["dedupe"] == f"card:{mouth.home.mind_id}:asked:0" and card["audience"] == [mouth.home.room]
    assert "(world advocacy)" in card["body"] and "> Our map should show every stop." in card["body"]
    assert "24 h" in card["body"]
    acts = [["Approve", "/void candidates approve id:asked"], ["Deny", "/void candidates deny id:asked"]]
    assert card["choices"] == acts
    assert timedelta(hours=23) < card["choices_until"] - clock.now() <= timedelta(hours=24)
    await mouth.do("update voidbot.outbox set state = 'sent', closed_at = voidbot.now()")
    assert await mouth.speak() == {"read": 1}
    await approve(mouth, "asked")
    assert await mouth.speak() == {"read": 1, "delivered": 1}
    assert [row["kind"] for row in await mouth.rows()] == ["card", "speech"]


async def test_a_card_tells_nothing_where_somebody_may_not_read_what_it_comes_from(
    database: Database, clock: ManualClock
) -> None:
    mouth = await make_mouth(database, clock)
    await make_staff(mouth, mouth.home.room)
    await mouth.do("update voidbot.rooms set unattended = true, mode = 'lurk' where id = $1", mouth.home.closed)
    await mouth.queue("secret", room=mouth.home.closed, closed=True, kind="world_advocacy")
    assert (await mouth.speak(room=mouth.home.closed)).get("awaiting_approval") == 1
    (card,) = await mouth.rows()
    assert (card["room_id"], card["audience"], card["choices"]) == (mouth.home.room, [mouth.home.room], None)
    assert "secret" not in card["body"] and "/void candidates" in card["body"]
    async with database.transaction() as tx:
        assert await tx.fetchval("select count(*) from voidbot.receipt_sources") == 0
        assert "secret" not in str(await tx.fetchval("select trigger from voidbot.receipts"))


# Words, people, places


async def test_words_that_may_be_said_nowhere_are_given_up(database: Database, clock: ManualClock) -> None:
    mouth = await make_mouth(database, clock)
    await mouth.queue("leak", "The key is ghp_0123456789abcdefghijABCDEFGHIJ0123.", priority=1.0)
    await mouth.queue("nothing", "NO_REPLY", priority=0.9)
    await mouth.queue("thought", priority=0.1)
    assert await mouth.speak() == {"read": 3, "retired": 2, "delivered": 1}
    assert await mouth.statuses() == {"leak": "guard_secret", "nothing": "guard_sentinel", "thought": "sending"}


async def test_who_does_not_want_to_be_spoken_to_is_answered_and_no_more(
    database: Database, clock: ManualClock
) -> None:
    mouth = await make_mouth(database, clock)
    await mouth.do("update voidbot.people set unprompted = false")
    asked = await mouth.home.say("What of the stops?")
    await mouth.queue("answer", reply=asked)
    await mouth.speak()
    assert mouth.details("answer") == {"posting": "not_permitted"}
    await mouth.owe(asked)
    assert (await mouth.speak()).get("delivered") == 1


async def test_what_rests_on_a_message_that_goes_is_not_said(database: Database, clock: ManualClock) -> None:
    mouth = await make_mouth(database, clock)
    home = mouth.home
    pressure = {
        "pressureId": "stops", "kind": "discomfort", "status": "active", "intensity": 0.6,
        "target": {"kind": "room", "id": str(home.room)}, "summary": "The stops are cut.",
        "claim": "Stops are missing.", "actionImplication": "Ask about them.",
        "anchorRefs": [{"ref": f"message:{home.messages[0]}", "kind": "message"}],
    }  # fmt: skip
    await home.accept({"operation": "upsert_agency_pressure", "pressure": pressure}, by=Emitter.RUMINATION)
    await mouth.queue("thought", sourcePressureId="stops")
    await mouth.do("update voidbot.messages set deleted_at = voidbot.now() where id = $1", home.messages[0])
    await mouth.speak()
    assert mouth.outcomes() == {"thought": "held:audience"}
    void = {"operation": "void_source", "refs": [f"message:{home.messages[0]}"], "cause": "deleted"}
    await home.accept(void, by=Emitter.PARENT)
    assert await mouth.speak() == {}
    assert await mouth.statuses() == {"thought": "source_voided"}


async def test_who_runs_the_bot_is_written_to_directly_twice_a_day(database: Database, clock: ManualClock) -> None:
    rules = replace(DRAWN, room_daily=9)
    await until_dawn(clock)
    mouth = await make_mouth(database, clock, rules, operators=("console:nobody", "console:ana"))
    for n, words in enumerate(sentences()[:3]):
        await mouth.queue(f"note{n}", words, kind="self_advocacy", deliveryTarget={"mode": "owner_dm"})
    await mouth.speak()
    assert mouth.details("note0") == {"posting": "room_unreachable", "audience": "not all readers may read its sources",
                                      "owner_dm": "not linked"}  # fmt: skip
    await mouth.do("update voidbot.rooms set kind = 'dm', unattended = false where id = $1", mouth.home.closed)
    for _ in range(3):
        await mouth.hear(mouth.home.closed)
        await mouth.speak()
        await mouth.arrive()
        await clock.advance(2 * HOUR_S)
    assert [row["room_id"] for row in await mouth.rows()] == [mouth.home.closed] * 2
    assert mouth.details("note2") == {"owner_dm": "2 of 2"}


# Crashes, and what happens on the way


async def test_a_run_that_is_stopped_before_its_end_has_said_nothing(database: Database, clock: ManualClock) -> None:
    mouth = await make_mouth(database, clock)
    await mouth.queue("thought")
    run = await mouth.claim()
    with pytest.raises(RuntimeError, match="stopped"):
        await stopped(mouth, run)
    assert (await mouth.rows(), await mouth.statuses()) == ([], {"thought": "queued"})
    assert (await mouth.go_through(run)).get("delivered") == 1
    assert len(await mouth.rows()) == 1


async def stopped(mouth: Mouth, run: Run) -> None:
    """Take a run through the phase and stop before it is written down for good."""
    async with mouth.database.transaction() as tx:
        held = await passes.take(tx, run.id, run.n)
        assert held is not None
        await mouth.speaking(tx, held)
        raise RuntimeError("stopped")


async def test_what_was_decided_is_sent_once_by_whoever_comes_next(
    fresh_dsn: str, database: Database, clock: ManualClock
) -> None:
    mouth = await make_mouth(database, clock)
    await mouth.queue("thought")
    await mouth.speak()
    async with running_line(fresh_dsn, clock=clock) as line:
        assert await line.answers(1) == [THOUGHTS["thought"]]
        await line.quiet()
        assert await line.value("select state from voidbot.outbox") == "sent"
    async with running_line(fresh_dsn, front_end=line.front_end, clock=clock) as again:
        await again.quiet()
        assert len(again.front_end.shown) == 1


async def test_what_others_would_read_by_now_is_withdrawn_and_waits(
    fresh_dsn: str, database: Database, clock: ManualClock
) -> None:
    mouth = await make_mouth(database, clock)
    home = mouth.home
    beside = await mouth.open_room("beside")
    await mouth.queue("thought", room=beside)
    await mouth.speak()
    async with database.transaction() as tx:  # what it was made from is Ana's alone from now on
        await access.save_access(tx, home.room, home.community, everyone=False, users=[home.ana])
    async with running_line(fresh_dsn, clock=clock) as line:
        await line.quiet()
        assert line.front_end.shown == {}
    await clock.advance(HOUR_S)
    await mouth.speak()
    await mouth.speak()
    assert mouth.outcomes() == {"thought": "held:audience"}
    assert await mouth.statuses() == {"thought": "queued"}
