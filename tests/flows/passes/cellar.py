"""A room that speaks of a cellar: what a model makes of it, runs begun by hand, and what a run leaves behind."""

import json
import re
from typing import Any

from core.domain.ids import CommunityId, RoomId
from core.domain.passes import WHOLE_MIND, Origin, PassName, slot_key
from core.domain.prompt import ModelRequest
from core.passes.runner import start
from core.state.replay import verify
from core.store import access, passes
from core.store.engine import Database
from core.store.passes import NewRun
from tests.flows.passes.days import Days

DRAFT = "Shall we move the amps before the cellar floods?"
"""What it would say unasked."""
WORDS = "The cellar floods in spring, each year."
HEARD = re.compile(r"<<data \S+ (m\d+) p\d+ \S+ in (r\d+)")
NOTES = re.compile(r"<<data \S+ (n\d+)")


def thinks(request: ModelRequest) -> str:
    """Note one thing and want to say another."""
    return thoughts(request.system, request.messages[-1].text)


def thoughts(system: str, text: str) -> str:
    """Answer the prompt of any pass."""
    if is_sleep(system):
        return json.dumps([distilled(handle, handle) for handle in dict.fromkeys(NOTES.findall(notes_of(text)))])
    heard = HEARD.findall(text)
    return json.dumps(taken_up(*heard[-1]) if heard else [])


def is_sleep(system: str) -> bool:
    """Whether a prompt is one of sleep."""
    return "VoidBot's sleep" in system


def notes_of(text: str) -> str:
    """Return the part of a prompt in which the notes of the day stand."""
    return text.split("## Notes of the day")[-1].split("\n## ")[0]


def taken_up(
    message: str, room: str, mark: str = "cellar", words: str = WORDS, draft: str = DRAFT
) -> list[dict[str, Any]]:
    """Note what a message says, and want to say something in its room. `mark`: what both are called by."""
    memory = {
        "memoryId": f"note-{mark}",
        "kind": "room_observation",
        "target": {"kind": "lore", "id": mark},
        "summary": words,
        "claim": "It happens every year.",
        "tension": "Nobody moves the amps.",
        "actionImplication": "Ask before April.",
        "anchorRefs": [{"ref": message, "kind": "message"}],
    }
    speech = {
        "interventionId": f"say-{mark}",
        "kind": "ripe_thought_share",
        "summary": f"Speak of {mark}",
        "draft": draft,
        "deliveryTarget": {"channelId": room},
        "priority": 0.9,
        "mustEventuallyShare": True,
    }
    return [
        {"operation": "record_short_term_memory", "memory": memory},
        {"operation": "queue_candidate_intervention", "intervention": speech},
    ]


def distilled(handle: str, mark: str, words: str = WORDS) -> dict[str, Any]:
    """Distil a note as it stands. `mark`: what the lasting memory is called by."""
    return {
        "operation": "propose_memory_distillation",
        "proposalId": f"night-{mark}",
        "sourceMemoryIds": [handle],
        "candidate": {
            "memoryId": f"lasting-{mark}",
            "kind": "project_seam",
            "target": {"kind": "lore", "id": "cellar"},
            "summary": words,
            "claim": "It happens every year.",
            "tension": "Nobody moves the amps.",
            "actionImplication": "Ask before April.",
        },
    }


async def begin(here: Days, name: PassName, label: str = "by-hand") -> int:
    """Claim a run by hand."""
    async with here.database.transaction() as tx:
        (mind,) = await passes.list_minds(tx)
        groups = await here.line.app.parts.minds.loader.groups.load(tx, mind.mind_id)
        group = WHOLE_MIND if name in (PassName.MOOD, PassName.UPKEEP) else sorted(groups.values())[0]
        new = NewRun(
            mind_id=mind.mind_id, name=name, group=group, slot_key=slot_key(mind.mind_id, name, group, label),
            slot=here.now, label=label, origin=Origin.MANUAL,
        )  # fmt: skip
        (run,) = await passes.claim(tx, [new])
        await start(tx, [run], {mind.mind_id: mind.home})
    return run.id


async def settled(here: Days, *, speaks: bool = True) -> None:
    """Bring the room about with something to think over. `speaks`: whether something may be said there unasked."""
    on = here.line.front_end.name
    await here.say("Root", "/void mode open archive:on", on=on)
    if speaks:
        await here.say("Root", "/void room unattended on", on=on)
    async with here.database.transaction() as tx:
        for row in await tx.fetch("select id, community_id from voidbot.rooms"):
            await access.save_access(tx, RoomId(row["id"]), CommunityId(row["community_id"]), everyone=True)
    await here.say("Ana", "the cellar floods every spring, who moves the amps?", on=on)


async def outcome(database: Database, run_id: int) -> dict[str, Any]:
    """What a run has left behind, apart from times and from what a call was paid for twice."""
    async with database.transaction(durable=False) as tx:
        run = await passes.find(tx, run_id)
        assert run is not None
        rows = await tx.fetch(
            "select op, verdict, effect, count(*) from voidbot.state_operations where op not in ('update_sleep_cycle')"
            " group by 1, 2, 3 order by 1, 2, 3"
        )
        held = await tx.fetch(
            "select type, case type when 'receipt' then '' else entry_id end, retired_reason"
            " from voidbot.state_entries where type <> 'sleep' order by 1, 2"
        )
        sent = await tx.fetch("select kind, state from voidbot.outbox where kind = 'speech'")
        books = await tx.fetchval("select count(*) from voidbot.reservations where state = 'settled'")
        ledger = await tx.fetchval("select count(*) from voidbot.usage")
        assert books == ledger
        found = await verify(tx, run.mind_id)
        assert found.difference is None
    return {
        "state": run.state,
        "reason": run.reason,
        "journal": [tuple(row) for row in rows],
        "entries": [tuple(row) for row in held],
        "speech": [tuple(row) for row in sent],
    }
