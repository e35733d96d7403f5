"""`/mind` and `/void mind`: what the asker may hear and nothing else, and the way back by a plan."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from core.domain.ids import RoomId
from core.domain.mind.facts import Actor, Emitter, Packet
from core.domain.operations.batch import Batch, Item
from core.domain.operations.catalog import read_operation
from core.state.replay import verify
from core.state.service import open_minds
from core.store.engine import Tx
from tests.flows.line import Line, running_line
from tests.flows.test_room_keeping import tell
from tests.store.minds import _JSON

REASON = 'reason:"it was only a joke"'


@pytest.fixture
async def line(fresh_dsn: str) -> AsyncIterator[Line]:
    """The sample community; its mind holds a note of the lobby, one that deepened it, and one of the staff's room."""
    async with running_line(fresh_dsn, sample=True) as running:
        await propose(running, "lobby", note("shelf", "The shelf leans.", "lobby"))
        await propose(running, "lobby", note("leaning", "The shelf leans more.", "lobby"))
        await propose(running, "staff", note("safe", "The copperfox opens it.", "staff"))
        await propose(running, "lobby", note("nothing", None, "lobby"))
        yield running


def note(id_: str, claim: str | None, topic: str) -> dict[str, Any]:
    memory = {
        "memoryId": id_, "kind": "room_observation", "target": {"kind": "self", "id": "void"}, "topics": [topic],
        "summary": f"Of the {topic}.", "claim": claim, "tension": "Nobody says why.", "actionImplication": "Ask.",
    }  # fmt: skip
    kept = {name: value for name, value in memory.items() if value is not None}
    return {"operation": "record_short_term_memory", "memory": kept}


async def propose(line: Line, room: str, piece: dict[str, Any]) -> None:
    """Have a model propose something after it has read the last message of a room."""
    async with line.database.transaction() as tx:
        row = await tx.fetchrow(
            "select m.id, m.room_id, m.author_id, c.mind_id from voidbot.messages m"
            " join voidbot.rooms r on r.id = m.room_id join voidbot.communities c on c.id = m.community_id"
            " where r.chat_ref = $1 order by m.id desc limit 1",
            room,
        )
        assert row is not None
        piece["memory"]["anchorRefs"] = [{"ref": f"message:{row['id']}", "kind": "message"}]
        packet = Packet(frozenset({RoomId(row["room_id"])}), frozenset(), frozenset({f"message:{row['id']}"}))
        item = Item(read_operation(_JSON.dump_json(piece)), f"test:{piece['memory']['memoryId']}")
        actor = Actor(Emitter.CHAT, "test")
        await open_minds().apply(tx, Batch(mind_id=row["mind_id"], actor=actor, items=(item,), packet=packet))


async def told(line: Line, person: str, text: str, room: str = "lobby", **more: object) -> str:
    """The newest answer, which only its asker has seen."""
    before = len(line.front_end.shown)
    await line.say(person, text, room, **more)
    await line.answers(before + 1)
    shown = list(line.front_end.shown.values())[-1]
    assert shown.part.private_to is not None
    return shown.text


async def sound(tx: Tx) -> bool:
    mind_id = await tx.fetchval("select id from voidbot.minds")
    return (await verify(tx, mind_id)).difference is None


async def test_members_hear_what_their_room_may_hear(line: Line) -> None:
    lobby = await told(line, "Wren", "/mind")
    assert "The shelf leans" in lobby and "copperfox" not in lobby and "staff" not in lobby
    assert "administrators" in await told(line, "Wren", "/void mind")
    staff = await told(line, "Mara", "/mind", room="staff")
    assert "copperfox" in staff


async def test_an_administrator_sees_what_they_may_read_and_how_much_else_there_is(line: Line) -> None:
    shown = await told(line, "Root", "/void mind")
    assert "short_term/shelf" in shown and "1 others, of rooms that you may not read" in shown
    assert "safe" not in shown and "copperfox" not in shown
    ops = await told(line, "Root", "/void mind ops")
    assert "op 4" in ops and "refused: no_claim_or_question" in ops and "op 3" not in ops
    assert "1 others of the last 4" in ops
    explained = await told(line, "Root", "/void mind explain entry:shelf")
    assert "claim: The shelf leans" in explained and "rests on: " in explained and "op 1 " in explained
    absent = await told(line, "Root", "/void mind explain entry:nowhere")
    assert await told(line, "Root", "/void mind explain entry:safe") == absent
    mine = await told(line, "Mara", "/void mind explain entry:short_term/safe", admin=True)
    assert "copperfox" in mine
    hidden = await told(line, "Root", f"/void mind undo op:3 {REASON}")
    assert hidden.replace("3", "99") == await told(line, "Root", f"/void mind undo op:99 {REASON}")


async def test_an_undo_takes_a_plan_which_names_what_goes_along(line: Line) -> None:
    assert "at least 10 characters" in await told(line, "Root", "/void mind undo op:1 reason:no")
    preview = await told(line, "Root", f"/void mind undo op:1 {REASON}")
    assert "1 later operations rest on it" in preview and "retired: short_term/shelf" in preview
    assert "shelf leans" in await told(line, "Wren", "/mind")
    code = re.search(r"plan:(\w{8})", preview)
    assert code is not None
    assert "run out" in await told(line, "Mara", f"/void mind plan:{code[1]}", admin=True)  # it is not hers
    assert "Op 1 is undone with 1" in await told(line, "Root", f"/void mind plan:{code[1]}")
    assert "shelf leans" not in await told(line, "Wren", "/mind")
    assert "run out" in await told(line, "Root", f"/void mind plan:{code[1]}")
    async with line.database.transaction() as tx:
        assert await sound(tx)
        row = await tx.fetchrow("select * from voidbot.state_operations where op = 'undo_operation'")
        acts = await tx.fetch("select act, details from voidbot.audit where act = 'void mind'")
    assert row is not None and row["idempotency_key"].startswith("op:") and row["actor_kind"] == "operator"
    assert [act["details"] for act in acts] == [{"undo": 1, "row": 5, "cascade": 1}]
    again = await told(line, "Root", f"/void mind undo op:1 {REASON}")
    assert "not_live" in again and "undone by 5" in again


async def test_a_plan_is_void_when_something_else_rests_on_it_by_now(line: Line) -> None:
    preview = await told(line, "Root", f"/void mind undo op:1 {REASON}")
    await propose(line, "lobby", note("falling", "The shelf leans even more.", "lobby"))
    code = re.search(r"plan:(\w{8})", preview)
    assert code is not None
    assert "run out" in await told(line, "Root", f"/void mind plan:{code[1]}")
    assert "shelf leans" in await told(line, "Wren", "/mind")
    rows = "select count(*) from voidbot.state_operations where verdict = 'accepted' and op = 'undo_operation'"
    assert await line.value(rows) == 0


async def test_what_rests_on_a_closed_room_is_an_operator_s_to_undo(line: Line) -> None:
    await propose(line, "lobby", note("lamp", "The lamp is broken.", "lamp"))
    preview = await told(line, "Root", f"/void mind undo op:5 {REASON}")
    # Meanwhile another mind has read both rooms and thought further.
    async with line.database.transaction() as tx:
        staff = await tx.fetchval("select id from voidbot.rooms where chat_ref = 'staff'")
        await tx.execute("update voidbot.state_entries set sources = sources || $1::bigint", staff)
        await tx.execute("select set_config('voidbot.journal', 'open', true)")
        await tx.execute(
            "update voidbot.state_operations"
            " set facts = jsonb_set(facts, '{packet,rooms}', to_jsonb(array[$1::bigint])) where seq = 5",
            staff,
        )
    code = re.search(r"plan:(\w{8})", preview)
    assert code is not None
    assert "run out" in await told(line, "Root", f"/void mind plan:{code[1]}")
    assert await line.value("select count(*) from voidbot.state_operations where op = 'undo_operation'") == 0


async def test_a_paused_mind_keeps_nothing_until_it_is_resumed(line: Line) -> None:
    assert "is paused" in await told(line, "Root", "/void mind pause")
    await propose(line, "lobby", note("lamp", "The lamp is broken.", "lamp"))
    assert "mind_paused" in await told(line, "Root", "/void mind ops")
    assert "It is paused" in await told(line, "Root", "/void mind show")
    assert "again" in await told(line, "Root", "/void mind resume")
    assert await line.value("select paused from voidbot.minds") is False
    assert (await tell(line, "Wren", "/void mind pause"))[0].count("administrators") == 1
    async with line.database.transaction() as tx:
        await tx.execute(
            "insert into voidbot.communities (platform, chat_ref, name, mind_id)"
            " select 'console', 'twin', 'Twin', mind_id from voidbot.communities limit 1"
        )
    assert "an operator can" in await told(line, "Mara", "/void mind pause", admin=True)
