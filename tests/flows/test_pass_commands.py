"""`/void pass`, `/void room`, `/void candidates` and why nothing was said unasked, as far as the asker may read."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from core.domain.ids import RoomId
from core.domain.mind.facts import Actor, Emitter, Packet
from core.domain.operations.batch import Batch, Item
from core.domain.operations.catalog import read_operation
from core.domain.passes import Finish, PassName, RunState, SkipReason, Step
from core.passes import telling
from core.state.service import open_minds
from core.store import passes, state
from core.store.passes import NewRun
from tests.flows.line import Line, running_line
from tests.flows.test_mind_commands import told
from tests.store.minds import _JSON


@pytest.fixture
async def line(fresh_dsn: str) -> AsyncIterator[Line]:
    """The sample community; its mind would say something in the lobby and something in the staff's room."""
    async with running_line(fresh_dsn, sample=True) as running:
        await wish(running, "lobby", "speech:shelf", "The shelf leans; shall I ask for a level?")
        await wish(running, "staff", "speech:safe", "Is copperfox still on the safe?")
        yield running


async def mind_of(line: Line) -> str:
    return str(await line.value("select mind_id from voidbot.communities limit 1"))


async def room_of(line: Line, room: str) -> int:
    return int(str(await line.value("select id from voidbot.rooms where chat_ref = $1", room)))


async def apply(line: Line, key: str, emitter: Emitter, piece: dict[str, Any], room: int) -> None:
    packet = Packet(frozenset({RoomId(room)}), frozenset(), frozenset())
    item = Item(read_operation(_JSON.dump_json(piece)), key)
    batch = Batch(mind_id=await mind_of(line), actor=Actor(emitter, "test"), items=(item,), packet=packet)
    async with line.database.transaction() as tx:
        verdict = await open_minds().apply(tx, batch)
    assert verdict.accepted, verdict


async def wish(line: Line, room: str, id_: str, draft: str) -> None:
    """Have the mind want to say something in a room, made from the last message there."""
    number = await room_of(line, room)
    message = await line.value("select max(id) from voidbot.messages where room_id = $1", number)
    speech = {
        "interventionId": id_, "kind": "direct_reply", "summary": "It was asked.", "draft": draft, "priority": 0.7,
        "deliveryTarget": {"mode": "channel", "channelId": number, "replyToMessageId": message},
    }  # fmt: skip
    await apply(
        line, id_, Emitter.OPERATOR, {"operation": "queue_candidate_intervention", "intervention": speech}, number
    )


async def ask_for_approval(line: Line, id_: str) -> None:
    step = {"operation": "advance_candidate", "interventionId": id_, "to": "awaiting_approval", "reason": "its kind"}
    await apply(line, f"{id_}:ask", Emitter.PARENT, step, 1)


async def ran(line: Line, label: str, *, skipped: str = "", decision: dict[str, Any] | None = None) -> None:
    """Note a run of thinking over the lobby's group, as it would have gone."""
    lobby = await room_of(line, "lobby")
    mind_id = await mind_of(line)
    async with line.database.transaction() as tx:
        group = (await open_minds().loader.groups.load(tx, mind_id))[RoomId(lobby)]
        key = f"{mind_id}/rumination/{group}/{label}"
        new = NewRun(
            mind_id=mind_id, name=PassName.RUMINATION, group=group, slot_key=key, slot=await state.now(tx),
            label=label, skipped=skipped,
        )  # fmt: skip
        for run in await passes.claim(tx, [new]):
            held = await passes.take(tx, run.id, 1)
            assert held is not None
            if decision is not None:
                await passes.put(tx, run.id, telling.DECISION, decision)
            await passes.close(tx, held, Step(RunState.FINISHED, held.phase, 1, "held"), Finish("held", {"read": 3}))


def held(id_: str, rule: str, detail: str) -> dict[str, Any]:
    rules = [{"rule": "posting", "passed": True}, {"rule": rule, "passed": False, "detail": detail}]
    return {"id": id_, "outcome": "held", "rules": rules}


async def test_an_administrator_sees_and_steers_what_runs_by_itself(line: Line) -> None:
    assert "administrators" in await told(line, "Wren", "/void pass")
    await ran(line, "a", skipped=SkipReason.QUIET)
    paused = await told(line, "Root", '/void pass pause rumination for:2h reason:"a quiet evening"')
    assert "Rumination is paused and goes on in 2 hours" in paused
    listed = await told(line, "Root", "/void pass")
    assert "rumination: on · paused, goes on in 2 hours: a quiet evening" in listed
    assert "#lobby" in listed and "these were quiet hours" in listed and "staff" not in listed
    assert "goes on" in await told(line, "Root", "/void pass resume rumination")
    assert "was not paused" in await told(line, "Root", "/void pass resume rumination")
    assert "this release has none" in await told(line, "Root", "/void pass pause all")
    for wrong in ("pause sleeping", "pause", "pause mood for:soon", "show x", "show 99", "run walking"):
        assert (await told(line, "Root", f"/void pass {wrong}")).startswith(("name: ", "for: "))
    begun = await told(line, "Root", "/void pass run rumination no-post")
    assert "Run 2 of rumination has begun, for the rooms that are read by whoever reads here" in begun
    assert await line.value("select origin || ' ' || mode from voidbot.pass_runs where id = 2") == "manual no_post"
    shown = await told(line, "Root", "/void pass show 2")
    assert shown.startswith("run 2 · rumination · ") and "#lobby" in shown.splitlines()[0]
    acts = await line.value("select array_agg(details order by id) from voidbot.audit where act = 'void pass'")
    assert isinstance(acts, list) and [each.get("paused") for each in acts] == ["rumination", None, None, "all", None]
    assert acts[1] == {"resumed": "rumination", "was_paused": True} and acts[4]["run"] == 2


async def test_a_room_says_whether_it_may_be_spoken_in_unasked_and_silence_there_is_explained(line: Line) -> None:
    assert "an administrator could allow it with /void room unattended on" in await told(line, "Wren", "/why-silent")
    version = await line.value("select settings_version from voidbot.communities")
    await line.say("Root", "/void room unattended on")
    said = (await line.answers(2))[1]
    assert "unasked now and then" in said and list(line.front_end.shown.values())[1].part.private_to is None
    await line.say("Root", "/void room quiet 22:00-07:00")
    assert "22:00-07:00 (Europe/" in (await line.answers(3))[2]
    row = await line.value(
        "select array[r.unattended::text, r.quiet_from::text, r.quiet_to::text, (c.settings_version - $1)::text]"
        " from voidbot.rooms r join voidbot.communities c on c.id = r.community_id where r.chat_ref = 'lobby'",
        version,
    )
    assert row == ["true", "22:00:00", "07:00:00", "2"]
    assert "Unasked words: allowed. Quiet hours: 22:00-07:00" in await told(line, "Root", "/void room")
    assert "speaks unasked · quiet 22:00-07:00" in await told(line, "Root", "/void rooms")
    assert "set: must be two local times" in await told(line, "Root", "/void room quiet nights")
    assert "administrators" in await told(line, "Wren", "/void room unattended off")
    assert await line.value("select count(*) from voidbot.audit where act = 'void room'") == 2
    assert "not thought of anything to say here yet" in await told(line, "Wren", "/why-silent")
    decision = {
        "candidates": [held("speech:shelf", "need_to_speak", "0.312 of 0.550"), held("speech:safe", "gap", "9 s")]
    }
    await ran(line, "a", decision=decision)
    await ran(line, "b", skipped=SkipReason.NOTHING_NEW)
    member = await told(line, "Wren", "/why-silent")
    assert "I held something back here (direct reply): I was not drawn enough to speak." in member
    assert "I thought nothing over: nothing new was said." in member
    assert "0.312" not in member and "other candidates" not in member and "shelf leans" not in member
    admin = await told(line, "Root", "/why-silent")
    assert "(0.312 of 0.550)" in admin and "1 other candidates were looked at in run 1" in admin
    assert "safe" not in admin


async def test_what_waits_is_seen_and_decided_by_who_may_read_all_that_it_comes_from(line: Line) -> None:
    await ask_for_approval(line, "speech:shelf")
    listed = await told(line, "Root", "/void candidates")
    assert "speech:shelf · direct reply · awaiting approval" in listed and "here: The shelf leans" in listed
    assert "1 others are of rooms that you may not read" in listed and "copperfox" not in listed
    assert "copperfox" in await told(line, "Mara", "/void candidates", admin=True)
    hidden = await told(line, "Root", "/void candidates approve speech:safe")
    assert hidden == await told(line, "Root", "/void candidates approve speech:nowhere")
    assert "words: The shelf leans" in await told(line, "Root", "/void candidates show speech:shelf")
    assert "administrators" in await told(line, "Wren", "/void candidates approve speech:shelf")
    # A yes and a no are operations of an operator, and written down.
    approved = await told(line, "Root", "/void candidates approve speech:shelf")
    assert "Approved: it is said when its turn comes. This was op 4." in approved
    again = await told(line, "Root", "/void candidates approve speech:shelf")
    assert "it is approved; only what awaits approval can be approved" in again
    denied = await told(line, "Mara", '/void candidates deny speech:safe reason:"not theirs to hear"', admin=True)
    assert "Denied" in denied
    async with line.database.transaction() as tx:
        rows = await tx.fetch(
            "select op, verdict, actor_kind, payload->>'reason' as reason from voidbot.state_operations"
            " where seq > 3 order by seq"
        )
        acts = await tx.fetch("select details from voidbot.audit where act = 'void candidates' order by id")
    assert [(row["op"], row["verdict"], row["actor_kind"]) for row in rows] == [
        ("advance_candidate", "accepted", "operator"),
        ("retire_candidate_intervention", "accepted", "operator"),
    ]
    assert [row["reason"] for row in rows] == ["approved by an administrator", "not theirs to hear"]
    assert [act["details"]["id"] for act in acts] == ["speech:shelf", "speech:safe"]
    assert "reason: write it" in await told(line, "Root", f"/void candidates deny speech:shelf reason:{'x' * 1001}")
