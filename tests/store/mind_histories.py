"""Random histories of a mind: whatever comes up is proposed, some of it is refused, and all of it is written down."""

import random
from typing import Any

from core.domain.mind.entries import Entry
from core.domain.mind.facts import Emitter
from core.domain.mind.values import wire_time
from core.store import state
from tests.store.minds import Home, note

_WORDS = (
    "amps",
    "cellar",
    "poster",
    "route",
    "timetable",
    "kiln",
    "mixer",
    "cable",
    "door",
    "rehearsal",
    "van",
    "choir",
)


class Dreamer:
    """Proposes what a seeded chance says, by what the mind holds now."""

    def __init__(self, home: Home, seed: int) -> None:
        self.home = home
        self.chance = random.Random(seed)
        self.made = 0

    async def propose(self) -> tuple[list[dict[str, Any]], Emitter, dict[str, int]]:
        """Return the next operations, who proposes them, and the versions that they were proposed by."""
        async with self.home.database.transaction() as tx:
            live = [held.entry for held in await state.list_entries(tx, self.home.mind_id) if held.entry.live]
        versions: dict[str, int] = {entry.id: entry.version for entry in live}
        acts = (self._note, self._note, self._note, self._thread, self._press, self._speak, self._owe, self._let_go)
        act = self.chance.choice((*acts, self._distil, self._configure, self._drop))
        operations, by = act(live)
        return operations, by, versions

    def _id(self, word: str) -> str:
        self.made += 1
        return f"{word}:{self.made}"

    def _thought(self) -> dict[str, Any]:
        one, other = self.chance.sample(_WORDS, 2)
        said = self.chance.randrange(len(self.home.messages))
        return {
            "target": {"kind": "room", "id": str(self.home.room)},
            "summary": f"The {one} and the {other}, again.",
            "claim": f"The {one} waits for the {other}.",
            "tension": f"Nobody has the {other}.",
            "actionImplication": f"Ask about the {one}.",
            "topics": self.chance.sample(_WORDS, self.chance.randrange(3)),
            "anchorRefs": [{"ref": f"message:{self.home.messages[said]}", "kind": "message"}],
        }

    def _pick(self, live: list[Entry], type_: str) -> list[str]:
        ids = [entry.id for entry in live if entry.type == type_]
        return self.chance.sample(ids, min(len(ids), self.chance.randrange(1, 4)))

    def _note(self, live: list[Entry]) -> tuple[list[dict[str, Any]], Emitter]:
        again = self._pick(live, "short_term") if self.chance.random() < 0.2 else []
        piece = note(self.home, again[0] if again else self._id("note"))
        piece["memory"] |= self._thought()
        return [piece], self.chance.choice((Emitter.CHAT, Emitter.RUMINATION, Emitter.OPERATOR))

    def _thread(self, live: list[Entry]) -> tuple[list[dict[str, Any]], Emitter]:
        there = self._pick(live, "thread")
        if there and self.chance.random() < 0.6:
            thread = {"threadId": there[0], "supportMemoryIds": self._pick(live, "short_term")}
        else:
            thread = self._thought() | {"threadId": self._id("thread"), "topic": "what waits"}
        return [{"operation": "merge_incubation_support", "thread": thread}], Emitter.OPERATOR

    def _press(self, live: list[Entry]) -> tuple[list[dict[str, Any]], Emitter]:
        there = self._pick(live, "pressure_item")
        if there and self.chance.random() < 0.4:
            gone = {"operation": "retire_agency_pressure", "pressureId": there[0], "reason": "nobody asked for it"}
            return [gone], Emitter.OPERATOR
        pressure = self._thought() | {"pressureId": self._id("pressure"), "kind": "discomfort", "intensity": 0.2}
        return [{"operation": "upsert_agency_pressure", "pressure": pressure}], Emitter.OPERATOR

    def _speak(self, live: list[Entry]) -> tuple[list[dict[str, Any]], Emitter]:
        there = self._pick(live, "candidate")
        if there and self.chance.random() < 0.5:
            to = self.chance.choice(("awaiting_approval", "approved", "sending", "queued"))
            step = {"operation": "advance_candidate", "interventionId": there[0], "to": to, "reason": "it is its turn"}
            return [step], self.chance.choice((Emitter.OPERATOR, Emitter.PARENT))
        one = self.chance.choice(_WORDS)
        speech = {
            "interventionId": self._id("speech"),
            "kind": "ripe_thought_share",
            "summary": f"Say where the {one} is.",
            "draft": f"The {one} stands behind the stage, number {self.made}.",
            "deliveryTarget": {"mode": "channel", "channelId": self.home.room},
            "sourceMemoryIds": self._pick(live, "durable"),
        }
        return [{"operation": "queue_candidate_intervention", "intervention": speech}], Emitter.OPERATOR

    def _owe(self, live: list[Entry]) -> tuple[list[dict[str, Any]], Emitter]:
        message = self.chance.choice(self.home.messages)
        if self.chance.random() < 0.4:
            closed = {"operation": "close_open_case", "sourceMessageId": message, "status": "closed"}
            return [closed], Emitter.OPERATOR
        owed = {
            "operation": "upsert_open_case",
            "sourceMessageId": message,
            "status": self.chance.choice(("pending", "watching")),
            "summary": f"Somebody asked for the {self.chance.choice(_WORDS)}.",
            "lastTouchedAt": wire_time(self.home.clock.now()),
        }
        return [owed], Emitter.OPERATOR

    def _let_go(self, live: list[Entry]) -> tuple[list[dict[str, Any]], Emitter]:
        ids = self._pick(live, "short_term") or ["nothing"]
        gone = {"operation": "prune_short_term_memories", "sourceMemoryIds": ids, "reason": "the poster hangs by now"}
        return [gone], Emitter.OPERATOR

    def _distil(self, live: list[Entry]) -> tuple[list[dict[str, Any]], Emitter]:
        ids = self._pick(live, "short_term") or ["nothing"]
        bodies = {entry.id: entry.body for entry in live if entry.id in ids}
        name, memory = self._id("proposal"), self._id("durable")
        anchors = [
            a.model_dump(mode="json", exclude_none=True) for b in bodies.values() for a in getattr(b, "proof", ())
        ]
        lasting = self._thought() | {"memoryId": memory, "kind": "project_seam", "anchorRefs": anchors[:20]}
        lost = "What was said on the side is left out of this one memory."
        return [
            {"operation": "propose_memory_distillation", "proposalId": name, "sourceMemoryIds": ids,
             "candidate": lasting, "lossNote": lost},
            {"operation": "apply_memory_distillation", "proposalId": name, "sourceMemoryIds": ids,
             "memory": lasting, "lossNote": lost},
        ], Emitter.SLEEP  # fmt: skip

    def _configure(self, live: list[Entry]) -> tuple[list[dict[str, Any]], Emitter]:
        value: dict[str, Any] = {"valueId": self.chance.choice(("value:a", "value:b")), "label": "what matters"}
        value |= {"priority": self.chance.random()}
        return [{"operation": "configure_profile", "values": [value]}], Emitter.OPERATOR

    def _drop(self, live: list[Entry]) -> tuple[list[dict[str, Any]], Emitter]:
        ids = self._pick(live, "durable") or ["nothing"]
        gone = {"operation": "retire_durable_memory", "memoryId": ids[0], "reason": "the choir has moved out"}
        return [gone], Emitter.OPERATOR


async def live_through(home: Home, seed: int, steps: int) -> Dreamer:
    """Have a mind live through so many steps."""
    dreamer = Dreamer(home, seed)
    for step in range(steps):
        operations, by, versions = await dreamer.propose()
        await home.apply(*operations, by=by, expect=versions, key=f"s{seed}-{step}")
    return dreamer
