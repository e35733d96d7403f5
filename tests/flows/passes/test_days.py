"""Whole days by themselves: three communities, a scripted model, the product's own clock over a change of it."""

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from core.domain.ids import CommunityId, RoomId
from core.domain.passes import PassName, Run, RunState
from core.domain.prompt import ModelRequest
from core.store import access, budgets
from core.store.engine import Database
from tests.fakes import ScriptedModel
from tests.flows.passes.days import Days, days

BERLIN = ZoneInfo("Europe/Berlin")
EVE = datetime(2027, 3, 27, 5, tzinfo=UTC)
"""The day before Berlin's clocks go on by an hour."""
PLATFORMS = ("console", "discord", "telegram")
TOPICS = ("amps", "cellar", "poster", "drums", "van", "stage", "lights", "keys", "posters", "soup")
STEP = timedelta(hours=2)
MACHINE = re.compile(r"\b(packet|operation|rumination|cursor|prompt|handle)\b", re.IGNORECASE)


class Mind:
    """A model that notes what people say, would say something now and then, and distils by night."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.calls: list[tuple[str, datetime]] = []
        self.now: Callable[[], datetime] = lambda: EVE
        self.named = 0

    def __call__(self, request: ModelRequest) -> str:
        text = request.messages[-1].text
        if "between conversations" in request.system:
            self.calls.append(("rumination", self.now()))
            return json.dumps(self.think(text))
        if "VoidBot's sleep" in request.system:
            self.calls.append(("sleep", self.now()))
            return json.dumps(self.sleep(text))
        self.calls.append(("reply", self.now()))
        return f"Answer {len(self.calls)}."

    def think(self, text: str) -> list[dict[str, Any]]:
        heard = re.findall(r"<<data \S+ (m\d+) (p\d+) \"\w+\" in (r\d+)[^\n]*\n([^\n<]+)", text)
        if not heard:
            return []
        message, _, room, words = self.draw.choice(heard)
        self.named += 1
        found = [self.note(message, words)]
        if self.draw.random() < 0.6:
            speech = {
                "interventionId": f"say-{self.named}",
                "kind": "ripe_thought_share",
                "summary": f"Something about {words[:40]}",
                "draft": f"About {words.split()[-1]} number {self.named}: shall we settle it?",
                "deliveryTarget": {"channelId": room},
                "priority": 0.8,
            }
            found.append({"operation": "queue_candidate_intervention", "intervention": speech})
        return found

    def note(self, message: str, words: str) -> dict[str, Any]:
        memory = {
            "memoryId": f"note-{self.named}",
            "kind": "room_observation",
            "target": {"kind": "lore", "id": words.split()[-1]},
            "summary": f"It was said of the {words.split()[-1]}: {words[:60]} ({self.named}).",
            "claim": f"{words[:80]} is open, {self.named}.",
            "tension": f"Nobody has settled {words.split()[-1]}.",
            "actionImplication": "Ask again in a week.",
            "anchorRefs": [{"ref": message, "kind": "message"}],
        }
        return {"operation": "record_short_term_memory", "memory": memory}

    def sleep(self, text: str) -> list[dict[str, Any]]:
        notes = text.split("## Notes of the day", 1)[1] if "## Notes of the day" in text else ""
        notes = notes.split("\n## ", 1)[0]
        handles = list(dict.fromkeys(re.findall(r"<<data \S+ (n\d+)", notes)))
        return [
            {
                "operation": "prune_short_term_memories",
                "sourceMemoryIds": [handle],
                "reason": f"The band has settled this one on stage, says note {n}.",
            }
            if n % 2
            else self.distil(handle, notes)
            for n, handle in enumerate(handles)
        ]

    def distil(self, handle: str, notes: str) -> dict[str, Any]:
        self.named += 1
        words = notes.split(f" {handle} ", 1)[1].split("\n", 1)[1][:200].replace("\n", " ")
        return {
            "operation": "propose_memory_distillation",
            "proposalId": f"night-{self.named}",
            "sourceMemoryIds": [handle],
            "candidate": {
                "memoryId": f"lasting-{self.named}",
                "kind": "project_seam",
                "target": {"kind": "lore", "id": f"matter-{self.named}"},
                "summary": f"Kept: {words[:120]}",
                "claim": f"{words[:150]}",
                "tension": "It was not settled.",
                "actionImplication": "Ask when it comes up.",
                "anchorsMissing": False,
            },
            "lossNote": "Only the wording of one note was shortened, nothing else was lost in it.",
        }


async def opened(here: Days) -> None:
    """Bring the rooms about: archived, and the bot may speak there unasked."""
    for platform in PLATFORMS:
        await here.say("Root", "/void mode open archive:on", on=platform)
        await here.say("Root", "/void room unattended on", on=platform)
    async with here.database.transaction() as tx:
        for row in await tx.fetch("select id, community_id from voidbot.rooms where kind <> 'dm'"):
            await access.save_access(tx, RoomId(row["id"]), CommunityId(row["community_id"]), everyone=True)


async def lived(here: Days, until: datetime, seed: int) -> None:
    """Let people talk by day, and time pass."""
    draw = random.Random(seed)
    while here.now < until:
        await here.pass_(STEP, here.now + STEP)
        local = here.now.astimezone(BERLIN)
        if 8 <= local.hour < 22:
            for platform in PLATFORMS:
                if draw.random() < 0.35:
                    await here.say(
                        draw.choice(["Ana", "Bo", "Cy"]), f"we should talk about the {draw.choice(TOPICS)}", on=platform
                    )


async def spent(here: Days) -> list[str]:
    async with here.database.transaction(durable=False) as tx:
        wrong = await budgets.invariants(tx)
        over = await tx.fetch(
            "select w.purse_id from voidbot.purse_windows w join voidbot.purses p on p.id = w.purse_id"
            " where p.limit_amount is not null and w.spent + w.held > p.limit_amount"
        )
    return [*wrong, *(f"purse {row['purse_id']} is over" for row in over)]


def by_slot(runs: list[Run]) -> Mapping[str, int]:
    return Counter(run.slot_key for run in runs)


@pytest.mark.field("F053")
@pytest.mark.field("F056")
@pytest.mark.parametrize("length", [3, pytest.param(30, marks=pytest.mark.long)])
async def test_days_pass_within_budget_and_nothing_runs_or_is_said_twice(
    fresh_dsn: str, database: Database, length: int
) -> None:
    mind = Mind(7)
    async with days(
        fresh_dsn, database, model=ScriptedModel(mind), platforms=PLATFORMS, timezone="Europe/Berlin"
    ) as here:
        mind.now = here.clock.now
        await here.clock.advance((EVE - here.now).total_seconds())
        await opened(here)
        await lived(here, EVE + timedelta(days=length), 11)
        runs = await here.runs()
        assert await spent(here) == []
        await no_speech_is_too_much(here)
        memory = await here.line.value(
            "select string_agg(body::text, ' ') from voidbot.state_entries where type = 'durable'"
        )
        left = await here.line.value(
            "select count(*) from voidbot.state_entries where type = 'short_term' and retired_at is null"
        )
    assert set(by_slot(runs).values()) == {1}
    assert [run for run in runs if run.state is RunState.FAILED] == []
    naps = {(run.mind_id, run.slot) for run in runs if run.name is PassName.SLEEP}
    nights = Counter((mind_id, at.astimezone(BERLIN).date()) for mind_id, at in naps)
    assert set(nights.values()) == {1}
    assert 2 * length <= len(nights) <= 3 * length  # some night some mind has nothing to tend
    quiet = [at for what, at in mind.calls if what == "rumination" and not 7 <= at.astimezone(BERLIN).hour < 22]
    assert quiet == []
    assert isinstance(left, int)
    assert left <= 3 * 20
    assert memory
    assert not MACHINE.search(str(memory))


async def no_speech_is_too_much(here: Days) -> None:
    async with here.database.transaction(durable=False) as tx:
        rows = await tx.fetch(
            "select room_id, body, created_at from voidbot.outbox where kind = 'speech' and state = 'sent'"
        )
    said = defaultdict[tuple[int, object], int](int)
    for row in rows:
        said[row["room_id"], row["created_at"].astimezone(BERLIN).date()] += 1
    assert rows
    assert max(said.values()) <= 2
    assert len({row["body"] for row in rows if row["body"]}) == len([row for row in rows if row["body"]])
