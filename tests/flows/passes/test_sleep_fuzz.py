"""Sleep against models that answer anything: what breaks the contract changes nothing, what stands loses nothing."""

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from core.domain.ids import RoomId
from core.domain.mind.entries import WHOLE, Entry, entry_hash
from core.domain.mind.facts import Similarity
from core.domain.passes import Advance, PhaseResult, Run, RunState, Wait
from core.passes.asking import ANSWER, PACKET, VERDICTS, answer_of, storable
from core.store import passes, state
from core.store.engine import Database, Tx
from tests.flows.passes.malformed import HOSTILE, Operations, malformed
from tests.flows.passes.sleeper import WHY, Sleeper, distil, memory, prune, sleeper

MEMORIES = ("short_term", "durable")


class Undone(Exception):
    """What was done in the transaction is to be as if it had not been."""


@dataclass(frozen=True)
class Decided:
    """What became of an answer, and the hash of the mind after it; of one that stands, also what stands of it."""

    result: PhaseResult
    state_hash: int
    after: list[Entry]
    rows: list[dict[str, str]]

    @property
    def stands(self) -> bool:
        """Whether the answer was taken."""
        return bool(self.rows)


class Scene:
    """A run whose model has answered: one answer after the other is decided on, and nothing of it stays."""

    def __init__(self, it: Sleeper, run: Run, packet: Mapping[str, Any], before: list[Entry]) -> None:
        self.it, self.run, self.packet, self.before = it, run, packet, before
        self.state_hash = sum(map(entry_hash, before)) % WHOLE

    async def decide(self, text: str) -> Decided:
        """What becomes of an answer to the mind as it was."""
        found: list[Decided] = []
        dreaming = self.it.maintenance.dreaming
        try:
            async with self.it.database.transaction() as tx:
                answer = answer_of(self.run, dreaming.role, self.packet, storable(text))
                result = await dreaming.settle(tx, self.run, answer, Similarity())
                mind = await state.find_mind(tx, self.run.mind_id)
                assert mind is not None
                after, rows = list[Entry](), list[dict[str, str]]()
                if isinstance(result, Advance) and not result.counts.get("refused"):
                    after = await entries_of(tx, self.run.mind_id)
                    rows = (await passes.get(tx, self.run.id, VERDICTS) or {})["items"]
                found.append(Decided(result, mind.state_hash, after, rows))
                raise Undone
        except Undone:
            return found[0]

    def check_conserved(self, decided: Decided) -> None:
        """Every memory that is over says why, what took its place is there, and nothing else came."""
        before, after = live(self.before), live(decided.after)
        came = after.keys() - before.keys()
        effects = [row["effect"] for row in decided.rows]
        for entry in decided.after:
            if entry.id in before.keys() - after.keys():
                assert entry.retired is not None
                assert entry.retired.superseded_by in came or "pruned" in effects
        assert len(came) == effects.count("distilled") + effects.count("revised")
        assert {entry.id for entry in decided.after} >= {entry.id for entry in self.before}
        assert not [entry for entry in decided.after if entry.live and entry.type == "short_term"]


async def entries_of(tx: Tx, mind_id: str) -> list[Entry]:
    """Every entry of a mind, held against the hash that the mind says it has."""
    entries = [held.entry for held in await state.list_entries(tx, mind_id)]
    mind = await state.find_mind(tx, mind_id)
    assert mind is not None
    assert mind.state_hash == sum(map(entry_hash, entries)) % WHOLE
    return entries


async def make_scene(database: Database) -> tuple[Scene, Operations]:
    """Three notes before a model that has read them, and an answer that would do."""
    it = await sleeper(database, "nonsense")
    await it.noted(0, 1, 2)
    run = await it.begin(await it.nap())
    while run.state is not RunState.WAITING:
        run = await it.step(run)
    room = it.home.room
    async with database.transaction(durable=False) as tx:
        before = await entries_of(tx, it.home.mind_id)
    return Scene(it, run, await it.kept(run, PACKET), before), [
        distil(0, room, "n1"),
        distil(1, room, "n2"),
        prune("n3"),
    ]


def live(entries: list[Entry]) -> dict[str, Entry]:
    return {entry.id: entry for entry in entries if entry.live and entry.type in MEMORIES}


async def fuzz(database: Database, seed: int, number: int) -> None:
    scene, valid = await make_scene(database)
    taken = 0
    for name, text, breaks in malformed(seed, number, valid):
        try:
            decided = await scene.decide(text)
        except Exception as exc:
            raise AssertionError(f"{name}: {type(exc).__name__} left the phase over {text[:300]!r}") from exc
        if decided.stands:
            assert not breaks, f"{name}: {text[:300]!r}"
            taken += 1
            scene.check_conserved(decided)
        else:
            assert isinstance(decided.result, Wait | Advance), name
            assert decided.state_hash == scene.state_hash, f"{name}: {text[:300]!r}"
    assert taken > number // 100  # the answer would do where nothing is wrong with it


async def test_whatever_a_model_writes_can_be_kept(database: Database) -> None:
    scene, _ = await make_scene(database)
    async with database.transaction() as tx:
        for text in HOSTILE:
            await passes.put(tx, scene.run.id, ANSWER, {"text": storable(text)})
            assert await passes.get(tx, scene.run.id, ANSWER) == {"text": storable(text)}


async def test_sleep_fuzz(database: Database) -> None:
    await fuzz(database, 7, 1_000)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_sleep_fuzz_at_length(database: Database) -> None:
    await fuzz(database, 8, 10_000)


def drawn(draw: random.Random, room: RoomId) -> Operations:
    """Well-formed operations on three notes, some of which cannot be together."""
    pool: list[dict[str, Any]] = []
    for n in range(3):
        pool += [distil(n, room, f"n{n + 1}"), prune(f"n{n + 1}")]
    together = distil(0, room, "n1", "n2", lossNote="what Bo promised the choir is not told")
    candidate = {
        "interventionId": f"say-{draw.randrange(3)}", "kind": "ripe_thought_share", "summary": "Ask about the pump.",
        "draft": "Who pays for a pump?", "deliveryTarget": {"mode": "channel", "channelId": room},
    }  # fmt: skip
    more: list[dict[str, Any]] = [
        together,
        {"operation": "queue_candidate_intervention", "intervention": candidate},
        {"operation": "retire_durable_memory", "memoryId": "lasting-0", "reason": WHY},
        {
            "operation": "revise_durable_memory", "sourceMemoryIds": ["n1"], "reason": WHY,
            "memory": memory(0, "lasting-9", room),
        },
    ]  # fmt: skip
    chosen = [draw.choice(pool[2 * n : 2 * n + 2]) for n in range(3)]
    extra = draw.sample([*pool, *more], draw.randrange(3))
    operations = [*chosen[: draw.choice((2, 3, 3, 3))], *extra]
    draw.shuffle(operations)
    return operations


async def conserve(database: Database, seed: int, number: int) -> None:
    scene, _ = await make_scene(database)
    draw = random.Random(seed)
    outcomes = {True: 0, False: 0}
    for _ in range(number):
        decided = await scene.decide(json.dumps(drawn(draw, scene.it.home.room)))
        outcomes[decided.stands] += 1
        if decided.stands:
            scene.check_conserved(decided)
        else:
            assert decided.state_hash == scene.state_hash
    assert min(outcomes.values()) > number // 10


async def test_sleep_conserves_records(database: Database) -> None:
    await conserve(database, 3, 50)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_sleep_conserves_records_at_length(database: Database) -> None:
    await conserve(database, 4, 1_000)
