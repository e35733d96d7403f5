"""What is said unasked: at most one thing a run, by every rule, once; and why all the rest was not."""

from datetime import timedelta
from typing import Any

import pytest

from core.domain.passes import PassName, PassPolicy, RunMode
from core.domain.rooms import QuietHours
from core.domain.speaking import SpeechRules
from core.store import passes, state
from core.store.engine import Database
from tests.fakes import ManualClock
from tests.flows.passes.mouth import DRAWN, HOUR_S, THOUGHTS, Mouth, make_mouth, wire


async def test_of_all_that_waits_the_first_in_turn_is_said(database: Database, clock: ManualClock) -> None:
    mouth = await make_mouth(database, clock)
    await mouth.queue("low", priority=0.2)
    await mouth.queue("high", priority=0.9)
    assert await mouth.speak() == {"read": 2, "delivered": 1}
    assert await mouth.said() == [THOUGHTS["high"]]
    assert await mouth.statuses() == {"high": "sending", "low": "queued"}
    assert mouth.outcomes() == {"high": "spoken"}
    # Nothing more for as long as the gap lasts, whoever asks.
    assert await mouth.speak() == {"read": 2, "held": 1}
    assert mouth.outcomes() == {"low": "held:gap,human_since"}


async def test_what_is_said_carries_its_receipt(database: Database, clock: ManualClock) -> None:
    mouth = await make_mouth(database, clock)
    asked = await mouth.home.say("What of the stops?")
    await mouth.owe(asked)
    await mouth.queue("answer", reply=asked)
    assert await mouth.speak() == {"read": 1, "delivered": 1}
    (row,) = await mouth.rows()
    assert (row["kind"], row["reply_to"], row["state"]) == ("speech", f"{mouth.home.room}-6", "ready")
    assert row["dedupe"].startswith("speech:answer#0@") and row["audience"] == [mouth.home.room]
    async with database.transaction() as tx:
        receipt = await tx.fetchrow("select * from voidbot.receipts")
        sources = await tx.fetch("select kind, ref from voidbot.receipt_sources order by n")
        job = await tx.fetchrow("select kind, pool from queue.job where id = (select job_id from voidbot.outbox)")
    assert receipt is not None and job is not None
    assert (receipt["trigger"], receipt["rule"], receipt["person_id"]) == (
        "candidate:answer", "speech:owed", mouth.home.ana,
    )  # fmt: skip
    assert receipt["role"] == "test"
    assert [tuple(each.values()) for each in sources] == [("memory", "answer"), ("message", str(asked))]
    assert (job["kind"], job["pool"]) == ("send", "send/console")


async def test_two_minds_may_call_what_they_would_say_by_the_same_name(database: Database, clock: ManualClock) -> None:
    mouth = await make_mouth(database, clock)
    await mouth.queue("thought")
    await mouth.do(
        "insert into voidbot.outbox (front_end, community_id, room_id, kind, body, audience, dedupe)"
        " values ('console', $1, $2, 'speech', 'other', '{}', 'speech:thought#0@another:mind')",
        mouth.home.community, mouth.home.closed,
    )  # fmt: skip
    assert (await mouth.speak()).get("delivered") == 1


# What stands in the way


async def hush(mouth: Mouth, how: str) -> None:
    """Let something stand in the way of all speech, or of it in the open room."""
    home = mouth.home
    match how:
        case "mind paused":
            async with mouth.database.transaction() as tx:
                await state.set_paused(tx, home.mind_id, True)
        case "pass paused":
            async with mouth.database.transaction() as tx:
                await passes.pause(tx, home.mind_id, PassName.RUMINATION, None, "enough")
        case "control unreadable":
            await mouth.do(
                "insert into voidbot.pass_controls (mind_id, pass, paused) values ($1, '??', false)", home.mind_id
            )
        case "room quiet":
            await mouth.do("update voidbot.rooms set quiet_from = '00:00', quiet_to = '23:59:59.999999'")
        case _:
            await mouth.do(f"update voidbot.rooms set {how} where id = $1", home.room)


HUSHED = [
    ("mind paused", {"posting": "paused"}),
    ("pass paused", {"posting": "paused"}),
    ("control unreadable", {"posting": "paused"}),
    ("room quiet", {"posting": "quiet"}),
    ("paused = true", {"posting": "paused"}),
    ("state = 'archived'", {"posting": "room_unreachable"}),
    ("unattended = false", {"opt_in": "unattended off"}),
    ("mode = 'silent'", {"opt_in": "silent"}),
    ("kind = 'dm'", {"opt_in": "not asked for"}),
]


async def test_nothing_is_said_where_something_stands_in_the_way(database: Database, clock: ManualClock) -> None:
    mouth = await make_mouth(database, clock)
    await mouth.queue("thought")
    found = {}
    for how, _ in HUSHED:
        await hush(mouth, how)
        assert await mouth.speak() == {"read": 1, "held": 1}
        found[how] = mouth.details("thought")
        async with database.transaction() as tx:
            await state.set_paused(tx, mouth.home.mind_id, False)
            await tx.execute("delete from voidbot.pass_controls")
            await tx.execute(
                "update voidbot.rooms set quiet_from = null, quiet_to = null, paused = false, state = 'active',"
                " unattended = true, mode = 'lurk', kind = 'terminal'"
            )
    assert found == dict(HUSHED)
    assert (await mouth.speak()).get("delivered") == 1


@pytest.mark.parametrize(
    ("rules", "policy", "held"),
    [
        (SpeechRules(), PassPolicy(), {"need_to_speak": "0.350 of 0.550"}),
        (DRAWN, "now", {"posting": "quiet"}),
    ],
    ids=["nothing presses", "mind quiet"],
)
async def test_the_mind_itself_may_be_silent(
    database: Database, clock: ManualClock, rules: SpeechRules, policy: Any, held: dict[str, str]
) -> None:
    if policy == "now":
        now = clock.now()
        policy = PassPolicy(quiet=QuietHours((now - timedelta(hours=1)).time(), (now + timedelta(hours=1)).time()))
    mouth = await make_mouth(database, clock, rules, policy=policy)
    await mouth.queue("thought")
    await mouth.speak()
    assert mouth.details("thought") == held


async def test_a_run_that_may_not_post_or_write_says_what_it_would_do(database: Database, clock: ManualClock) -> None:
    mouth = await make_mouth(database, clock)
    await mouth.queue("old", expiresAt=wire(clock, hours=1))
    await mouth.queue("thought")
    await clock.advance(2 * HOUR_S)
    before = (await mouth.home.mind()).last_seq
    assert await mouth.speak(RunMode.DRY_RUN) == {"read": 2, "retired": 1, "held": 1}
    assert mouth.outcomes() == {"old": "retired:expired", "thought": "held:posting"}
    assert (await mouth.home.mind()).last_seq == before
    assert await mouth.speak(RunMode.NO_POST) == {"read": 2, "retired": 1, "held": 1}
    assert await mouth.statuses() == {"old": "expired", "thought": "queued"}
    assert await mouth.rows() == []


async def test_only_the_candidates_of_the_groups_own_readers_are_looked_at(
    database: Database, clock: ManualClock
) -> None:
    mouth = await make_mouth(database, clock)
    home = mouth.home
    await mouth.do("update voidbot.rooms set unattended = true, mode = 'lurk' where id = $1", home.closed)
    await mouth.queue("secret", room=home.closed, closed=True)
    assert await mouth.speak() == {}
    assert mouth.decision == {}
    assert (await mouth.speak(room=home.closed)).get("delivered") == 1


async def test_a_room_that_others_read_now_hears_nothing(database: Database, clock: ManualClock) -> None:
    mouth = await make_mouth(database, clock)
    home = mouth.home
    await mouth.do("update voidbot.rooms set unattended = true, mode = 'lurk' where id = $1", home.closed)
    await mouth.queue("secret", room=home.closed, closed=True)
    # By now it would be said in the open room, where Bo reads too.
    await mouth.do(
        "update voidbot.state_entries set body = jsonb_set(body, '{deliveryTarget,channelId}', to_jsonb($1::bigint))"
        " where entry_id = 'secret'",
        home.room,
    )
    await mouth.speak(room=home.closed)
    assert mouth.outcomes() == {"secret": "held:audience"}


@pytest.mark.parametrize("wish", ["opted_out", "erasing"])
async def test_nothing_is_said_of_who_does_not_want_to_be_remembered(
    database: Database, clock: ManualClock, wish: str
) -> None:
    mouth = await make_mouth(database, clock)
    await mouth.queue("thought")
    await mouth.do(f"update voidbot.people set {wish} = true where id = $1", mouth.home.bo)
    assert await mouth.speak() == {}
    assert await mouth.said() == []


# What is tidied up first


async def test_what_is_over_is_given_up_and_what_waited_is_said(database: Database, clock: ManualClock) -> None:
    mouth = await make_mouth(database, clock)
    gone = await mouth.open_room("gone")
    asked, deleted = await mouth.home.say("What of it?"), await mouth.home.say("And this?")
    await mouth.owe(asked)
    await mouth.queue("expired", expiresAt=wire(clock, hours=1), priority=1.0)
    await mouth.queue("nowhere", room=gone, priority=1.0)
    await mouth.queue("answered", reply=asked, priority=1.0)
    await mouth.queue("unasked", reply=deleted, priority=1.0)
    await mouth.queue("later", status="deferred", deferredUntil=wire(clock, hours=1))
    await mouth.queue("much_later", status="deferred", deferredUntil=wire(clock, hours=30), priority=1.0)
    await mouth.do("update voidbot.rooms set state = 'deleted' where id = $1", gone)
    await mouth.do("update voidbot.messages set deleted_at = voidbot.now() where id = $1", deleted)
    await mouth.answer(asked)
    await mouth.arrive()
    await clock.advance(2 * HOUR_S)
    assert await mouth.speak() == {"read": 6, "retired": 4, "delivered": 1}
    assert await mouth.statuses() == {
        "expired": "expired",
        "nowhere": "room_gone",
        "answered": "already_answered",
        "unasked": "source_voided",
        "later": "sending",
        "much_later": "deferred",
    }


async def test_an_answer_closes_what_was_owed_and_what_would_say_it_again(
    database: Database, clock: ManualClock
) -> None:
    mouth = await make_mouth(database, clock)
    asked, other = await mouth.home.say("What of the stops?"), await mouth.home.say("And the lamps?")
    for message in (asked, other):
        await mouth.owe(message)
    await mouth.queue("high", reply=other, priority=0.95)
    await mouth.queue("answer", reply=asked, priority=0.6)
    await mouth.queue("low", reply=asked, priority=0.5)
    await mouth.answer(other)
    await mouth.arrive()
    assert await mouth.propose("late", reply=other) == ["already_answered"]
    assert await mouth.speak() == {"read": 3, "retired": 1, "delivered": 1}
    await mouth.arrive()
    assert await mouth.statuses() == {"answer": "spoken", "high": "already_answered", "low": "answered_elsewhere"}
    assert await mouth.speak() == {}
    async with database.transaction() as tx:
        owed = await tx.fetch("select body->>'status' as status from voidbot.state_entries where type = 'case'")
    assert [each["status"] for each in owed] == ["answered", "answered"]


async def test_while_an_answer_is_on_its_way_no_other_one_is_begun(database: Database, clock: ManualClock) -> None:
    mouth = await make_mouth(database, clock)
    asked = await mouth.home.say("What of it?")
    await mouth.owe(asked)
    await mouth.queue("answer", reply=asked)
    await mouth.answer(asked)
    for stage in ("sending", "sent"):  # that it arrived is known to the mind a moment later
        await mouth.do("update voidbot.outbox set state = $1, closed_at = voidbot.now()", stage)
        assert await mouth.speak() == {"read": 1, "held": 1}
        assert mouth.outcomes() == {"answer": "held:answer_under_way"}


async def test_what_people_saw_the_beginning_of_is_not_said_again(database: Database, clock: ManualClock) -> None:
    mouth = await make_mouth(database, clock)
    await mouth.queue("thought")
    await mouth.speak()
    await mouth.do("update voidbot.outbox set state = 'failed', closed_at = voidbot.now()")
    await mouth.do(
        "insert into voidbot.outbox_parts (outbox_id, n, nonce, state, external_id)"
        " select id, 1, 'n1', 'sent', 's1' from voidbot.outbox"
    )
    await clock.advance(2 * HOUR_S)
    await mouth.speak()
    await mouth.speak()
    assert await mouth.statuses() == {"thought": "already_said"}


async def test_what_was_certainly_not_sent_is_tried_three_times(database: Database, clock: ManualClock) -> None:
    mouth = await make_mouth(database, clock)
    await mouth.queue("thought")
    for n in range(3):
        assert (await mouth.speak()).get("delivered") == 1, n
        await mouth.do("update voidbot.outbox set state = 'failed', closed_at = voidbot.now()")
        assert await mouth.speak() == {"read": 1}
        await clock.advance(HOUR_S)
        await mouth.speak()
        assert mouth.outcomes()["thought"] == "queued_again:delivery_failed"
    assert await mouth.statuses() == {"thought": "delivery_failed"}
    assert [row["dedupe"].partition("@")[0] for row in await mouth.rows()] == [f"speech:thought#{n}" for n in range(3)]
