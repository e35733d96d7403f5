"""A process that ends anywhere in a pass: the next one goes on, and what the pass does is done once."""

import json
import re
from typing import Any

import pytest

from core.domain.ids import CommunityId, RoomId
from core.domain.passes import WHOLE_MIND, Origin, PassName, RunState, slot_key
from core.domain.prompt import ModelRequest
from core.passes.runner import start
from core.state.replay import verify
from core.store import access, passes
from core.store.engine import Database
from core.store.passes import NewRun
from tests.conftest import on_database
from tests.databases import Clones
from tests.fakes import ScriptedModel
from tests.flows.passes.days import Days, Stopped, days

MIND = "console:console"
EVERY_NTH = 20
"""Each day the process ends at every so many points; in long runs at all of them."""


def thinks(request: ModelRequest) -> str:
    """Note one thing and want to say another."""
    text = request.messages[-1].text
    if "VoidBot's sleep" in request.system:
        return json.dumps(sleeps(text))
    heard = re.findall(r"<<data \S+ (m\d+) p\d+ \S+ in (r\d+)", text)
    if not heard:
        return "[]"
    message, room = heard[-1]
    memory = {
        "memoryId": "note-cellar",
        "kind": "room_observation",
        "target": {"kind": "lore", "id": "cellar"},
        "summary": "The cellar floods in spring.",
        "claim": "It happens every year.",
        "tension": "Nobody moves the amps.",
        "actionImplication": "Ask before April.",
        "anchorRefs": [{"ref": message, "kind": "message"}],
    }
    speech = {
        "interventionId": "say-cellar",
        "kind": "ripe_thought_share",
        "summary": "Who moves the amps",
        "draft": "Shall we move the amps before the cellar floods?",
        "deliveryTarget": {"channelId": room},
        "priority": 0.9,
        "mustEventuallyShare": True,
    }
    return json.dumps(
        [
            {"operation": "record_short_term_memory", "memory": memory},
            {"operation": "queue_candidate_intervention", "intervention": speech},
        ]
    )


def sleeps(text: str) -> list[dict[str, Any]]:
    """Distil each note as it stands."""
    notes = text.split("## Notes of the day")[-1].split("\n## ")[0]
    return [
        {
            "operation": "propose_memory_distillation",
            "proposalId": f"night-{handle}",
            "sourceMemoryIds": [handle],
            "candidate": {
                "memoryId": f"lasting-{handle}",
                "kind": "project_seam",
                "target": {"kind": "lore", "id": "cellar"},
                "summary": "The cellar floods in spring, each year.",
                "claim": "It happens every year.",
                "tension": "Nobody moves the amps.",
                "actionImplication": "Ask before April.",
            },
        }
        for handle in dict.fromkeys(re.findall(r"<<data \S+ (n\d+)", notes))
    ]


async def begin(here: Days, name: PassName) -> int:
    """Claim a run by hand."""
    async with here.database.transaction() as tx:
        groups = await here.line.app.parts.minds.loader.groups.load(tx, MIND)
        group = WHOLE_MIND if name in (PassName.MOOD, PassName.UPKEEP) else sorted(groups.values())[0]
        new = NewRun(
            mind_id=MIND, name=name, group=group, slot_key=slot_key(MIND, name, group, "by-hand"),
            slot=here.now, label="by-hand", origin=Origin.MANUAL,
        )  # fmt: skip
        (run,) = await passes.claim(tx, [new])
        place = await passes.find_place(tx, MIND)
        assert place is not None
        await start(tx, [run], {MIND: place.home})
    return run.id


async def settled(here: Days) -> None:
    """Bring the room about with something to think over."""
    await here.say("Root", "/void mode open archive:on")
    await here.say("Root", "/void room unattended on")
    async with here.database.transaction() as tx:
        for row in await tx.fetch("select id, community_id from voidbot.rooms"):
            await access.save_access(tx, RoomId(row["id"]), CommunityId(row["community_id"]), everyone=True)
    await here.say("Ana", "the cellar floods every spring, who moves the amps?")


async def outcome(here: Days, run_id: int) -> dict[str, Any]:
    """What a run has left behind, apart from times and from what a call was paid for twice."""
    async with here.database.transaction(durable=False) as tx:
        run = await passes.find(tx, run_id)
        rows = await tx.fetch(
            "select op, verdict, effect, count(*) from voidbot.state_operations where op not in ('update_sleep_cycle')"
            " group by 1, 2, 3 order by 1, 2, 3"
        )
        held = await tx.fetch(
            "select type, entry_id, retired_reason from voidbot.state_entries where type <> 'sleep' order by 1, 2"
        )
        sent = await tx.fetch("select kind, state from voidbot.outbox where kind = 'speech'")
        books = await tx.fetchval("select count(*) from voidbot.reservations where state = 'settled'")
        ledger = await tx.fetchval("select count(*) from voidbot.usage")
        assert books == ledger
        found = await verify(tx, MIND)
        assert found.difference is None
    assert run is not None
    return {
        "state": run.state,
        "reason": run.reason,
        "journal": [tuple(row) for row in rows],
        "entries": [tuple(row) for row in held],
        "speech": [tuple(row) for row in sent],
        "shown": len(here.line.front_end.shown),
    }


async def lived_through(clones: Clones, name: PassName, at: int | None) -> tuple[dict[str, Any], list[str]]:
    """Go through one run; the process ends at a point of it, and another goes on."""
    clone = await clones.take()
    dsn = on_database(clones.server, clone)
    database = await Database.open(dsn, size=4)
    try:
        async with days(dsn, database, model=ScriptedModel(thinks)) as here:
            await settled(here)
            await here.move_to(12)
            if name is PassName.SLEEP:
                await begin(here, PassName.RUMINATION)
                await here.work()
            run_id = await begin(here, name)
            here.stops.met, here.stops.at, here.stops.points = 0, at, []
            try:
                await here.work()
            except Stopped:
                await here.take_over()
                here.stops.at = None
                await here.work()
            return await outcome(here, run_id), here.stops.points
    finally:
        await database.close()
        await clones.give_back(clone)


@pytest.mark.parametrize("stride", [EVERY_NTH, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", list(PassName))
async def test_wherever_the_process_ends_the_pass_is_done_once(clones: Clones, name: PassName, stride: int) -> None:
    whole, points = await lived_through(clones, name, None)
    assert whole["state"] is RunState.FINISHED, whole
    wrong = {}
    for at in range(stride, len(points) + 1, stride):
        found, _ = await lived_through(clones, name, at)
        if found != whole:
            wrong[at, points[at - 1]] = {key: found[key] for key in found if found[key] != whole[key]}
    assert wrong == {}
