"""A mind that sleeps: a home with notes of the day, naps that a test begins, runs stepped by hand, a script."""

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from typing import Any, TypeVar
from uuid import UUID

from core.chat.likening import Likening
from core.domain.archiving import ROOMS_ALONE
from core.domain.ids import JobId, RoomId
from core.domain.jobs import Claim
from core.domain.mind.entries import Entry, entry_hash
from core.domain.mind.facts import Emitter, Similarity
from core.domain.mind.values import wire_time
from core.domain.passes import Origin, PassName, PassPolicy, PhaseResult, Run, RunMode, slot_key
from core.domain.prompt import ModelRequest, Tier
from core.jobs.executor import JobContext
from core.passes.asking import ANSWER, PassAsking
from core.passes.catalog.sleep import Maintenance
from core.passes.gate import Gate
from core.passes.runner import PassWork, Runner
from core.prompt.builder import PromptBuilder
from core.prompt.tokens import estimate
from core.providers.router import Router
from core.store import passes, state
from core.store.engine import Database, Tx
from core.store.passes import NewRun
from tests.domain.chat_context import CATALOG
from tests.domain.minds import make_short_term
from tests.fakes import ManualClock, ScriptedModel
from tests.flows.line import SETTINGS
from tests.store.minds import Home, make_home, note

WHY = "the visit of the roofers was called off by Bo"
"""A reason to prune a note that stands any wall."""
T = TypeVar("T")
MATTERS: tuple[dict[str, Any], ...] = (
    {
        "summary": "The cellar floods whenever it rains for 2 days.",
        "claim": "Ana measured 14 cm of water beside the boiler.",
        "tension": "Ana wants a pump at once, Bo wants to wait for the landlord.",
        "action_implication": "Ask who pays for a pump before the next rain.",
        "topics": ["cellar"],
    },
    {
        "summary": "Saturday is market day and the van is double-booked.",
        "claim": "Bo promised the van to the choir at 9.",
        "tension": "The stall cannot be carried by hand, the choir has no other van.",
        "action_implication": "Find a second van before Friday evening.",
        "topics": ["market"],
    },
    {
        "summary": "The oven takes longer to heat than it did in spring.",
        "question": "Is it the thermostat or the door seal of the oven?",
        "tension": "A new seal costs little, a thermostat needs an electrician.",
        "action_implication": "Try the seal first and time the heating.",
        "topics": ["oven"],
    },
)


def matter(n: int) -> dict[str, Any]:
    """What the note `n` says: three matters that are told out, and others that are alike in nothing but their form."""
    if n < len(MATTERS):
        return MATTERS[n]
    word = "".join(chr(97 + (n * 7 + k * k * 5 + k * n) % 26) for k in range(12))
    back = word[::-1]
    return {
        "summary": f"{word} {word.upper()} {back}",
        "claim": f"{back} {n}{n} {word}x{word}",
        "tension": f"{word}{back} against {back}{word}",
        "action_implication": f"{back}{back} first, {word} later",
        "topics": [f"t-{word}"],
    }


def memory(n: int, id_: str, room: RoomId, **more: Any) -> dict[str, Any]:
    """A lasting memory that says what the note `n` said."""
    said = {_camel(name): value for name, value in matter(n).items()}
    target = {"kind": "room", "id": str(room)}
    return {"memoryId": id_, "kind": "project_seam", "target": target, "anchorsMissing": True, **said, **more}


def distil(n: int, room: RoomId, *ids: str, **more: Any) -> dict[str, Any]:
    """A proposal to make a memory of notes, with the words of the note `n`."""
    return {
        "operation": "propose_memory_distillation",
        "proposalId": f"proposal-{n}",
        "sourceMemoryIds": list(ids),
        "candidate": memory(n, f"lasting-{n}", room),
        **more,
    }


def prune(*ids: str, reason: str = WHY) -> dict[str, Any]:
    return {"operation": "prune_short_term_memories", "sourceMemoryIds": list(ids), "reason": reason}


class Unqueued(JobContext):
    """A job whose claim is never lost and whose end nobody waits for: the phases alone are under test."""

    def __init__(self, home: Home) -> None:
        now = home.clock.now()
        claim = Claim(
            id=JobId(1), lane="pass", attempt=1, worker=UUID(int=1), pool="pass", kind="pass",
            community_id=home.community, room_id=None, person_id=None, trace="", payload={}, max_attempts=1, snoozed=0,
            created_at=now, due_at=now, granted_at=now,
        )  # fmt: skip
        super().__init__(claim, home.database)

    async def hold(self, tx: Tx) -> None:
        """Hold nothing."""

    async def finish(self, work: Callable[[Tx], Awaitable[T]], *, durable: bool = True) -> T:
        return await self.advance(work, durable=False)


@dataclass
class Sleeper:
    """A home whose mind naps when it is told to."""

    home: Home
    model: ScriptedModel
    maintenance: Maintenance
    runner: Runner
    ids: "count[int]" = field(default_factory=count)

    @property
    def database(self) -> Database:
        return self.home.database

    async def noted(self, *numbers: int, closed: bool = False, restated: int = 0, **more: Any) -> None:
        """Let the mind note these matters, each by itself. `restated`: the version of the note that is said anew."""
        for n in numbers:
            anchor = {"ref": f"message:{(self.home.hidden if closed else self.home.messages)[0]}", "kind": "message"}
            room = self.home.closed if closed else self.home.room
            said = matter(n) | {"target": {"kind": "room", "id": str(room)}, "anchor_refs": [anchor]} | more
            expect = {f"note-{n}": restated} if restated else {}
            await self.home.accept(note(self.home, f"note-{n}", **said), closed=closed, expect=expect)

    async def nap(self, hours: float = 1.5) -> str:
        """Let a nap begin, and the one before end; return its name."""
        await self.home.accept({"operation": "update_sleep_cycle", "sleep": {}}, by=Emitter.PARENT)
        nap, now = f"nap:{next(self.ids)}", self.home.clock.now()
        sleep = {
            "isNapping": True, "napId": nap, "napStartedAt": wire_time(now),
            "napEndsAt": wire_time(now + timedelta(hours=hours)),
        }  # fmt: skip
        await self.home.accept({"operation": "update_sleep_cycle", "sleep": sleep}, by=Emitter.PARENT)
        return nap

    async def begin(
        self,
        label: str,
        *,
        room: RoomId | None = None,
        origin: Origin = Origin.SCHEDULED,
        mode: RunMode = RunMode.NORMAL,
    ) -> Run:
        """Claim the run of the group of a room."""
        home = self.home
        async with self.database.transaction() as tx:
            group = (await home.service.loader.groups.load(tx, home.mind_id))[room or home.room]
            new = NewRun(
                mind_id=home.mind_id, name=PassName.SLEEP, group=group, label=label, slot=home.clock.now(),
                slot_key=slot_key(home.mind_id, PassName.SLEEP, group, label), origin=origin, mode=mode,
            )  # fmt: skip
            (run,) = await passes.claim(tx, [new])
        return run

    async def step(self, run: Run) -> Run:
        """Go through the present phase of a run; return it as it stands then."""
        work = PassWork(run_id=run.id, n=run.n, name=run.name, phase=run.phase)
        await self.runner.run(Unqueued(self.home), work)
        async with self.database.transaction(durable=False) as tx:
            now = await passes.find(tx, run.id)
        assert now is not None
        return now

    async def over(self, run: Run) -> Run:
        """Go through a run to its end, as if each of its waits passed at once."""
        while run.state.active:
            run = await self.step(run)
        return run

    async def sleep(self, **more: Any) -> Run:
        """Nap once, and let the run of a group go to its end."""
        return await self.over(await self.begin(await self.nap(), **more))

    async def tend(self, **more: Any) -> Run:
        """Let a run that a person asked for go to its end."""
        return await self.over(await self.begin(f"manual:{next(self.ids)}", origin=Origin.MANUAL, **more))

    async def entries(self, type_: str) -> dict[str, Entry]:
        """The live entries of a type, by id."""
        async with self.database.transaction(durable=False) as tx:
            return {each.entry.id: each.entry for each in await state.list_live(tx, self.home.mind_id, [type_])}

    async def tombs(self) -> dict[str, tuple[str, str | None]]:
        """Why each memory is over, and what stands in its place."""
        async with self.database.transaction(durable=False) as tx:
            entries = [held.entry for held in await state.list_entries(tx, self.home.mind_id)]
        kept = [each for each in entries if each.type in ("short_term", "durable") and each.retired is not None]
        return {each.id: (each.retired.reason, each.retired.superseded_by) for each in kept if each.retired}

    async def put(self, *entries: Entry) -> None:
        """Let entries stand, whatever an operation would be allowed to."""
        async with self.database.transaction() as tx:
            mind = await state.lock_mind(tx, self.home.mind_id)
            await state.save(tx, mind, [(each, entry_hash(each), 1) for each in entries])

    async def doubt(self, id_: str) -> None:
        """Let a lasting memory have lost some of its proof just now."""
        entry = (await self.entries("durable"))[id_]
        body = entry.body.model_copy(update={"needs_review": True})
        await self.put(replace(entry.changed(self.home.clock.now()), body=body))

    async def note_quickly(self, number: int, after: int = 0) -> None:
        """Let there be so many notes on matters that have nothing in common, without anyone having noted them."""
        for n in range(after, after + number):
            about = {"target": {"kind": "archive", "id": f"shelf {n}"}, "anchor_refs": None, "anchors_missing": True}
            entry = make_short_term(f"note-{n}", sources=(self.home.room,), people=(), **(matter(n) | about))
            at = self.home.clock.now() - timedelta(minutes=100 - n)
            await self.put(replace(entry, created_at=at, updated_at=at))

    async def answered(self, run: Run, answer: object) -> None:
        """Put an answer in the place of the one that a run saved."""
        text = answer if isinstance(answer, str) else json.dumps(answer)
        async with self.database.transaction(durable=False) as tx:
            await passes.put(tx, run.id, ANSWER, {"text": text})

    async def decided(self, run: Run) -> PhaseResult:
        """What becomes of the answer that a run has saved; it stands, if it does."""
        async with self.database.transaction(durable=False) as tx:
            now = await passes.find(tx, run.id)
            assert now is not None
            return await self.maintenance.dreaming.decide(tx, now, Similarity())

    async def kept(self, run: Run, name: str) -> dict[str, Any]:
        """What a run saved."""
        async with self.database.transaction(durable=False) as tx:
            found = await passes.get(tx, run.id, name)
        assert found is not None, f"the run kept no {name}"
        return found

    async def phases(self, run: Run) -> list[str]:
        """How the run went: its phases, with how they ended where they did not simply go on."""
        async with self.database.transaction(durable=False) as tx:
            rows = await passes.list_phases(tx, run.id)
        return [row.phase if row.outcome == "advance" else f"{row.phase}:{row.outcome}:{row.code}" for row in rows]

    def shown(self, n: int = -1) -> str:
        """What a request asked, the last one if nothing else is said."""
        return self.model.requests[n].messages[-1].text


def script(*answers: object) -> Callable[[ModelRequest], str]:
    """Give these answers one after the other, the last one for ever; what is no text is written as JSON."""
    left = list(answers)

    def answer(request: ModelRequest) -> str:
        each = left.pop(0) if len(left) > 1 else left[0]
        each = each(request) if callable(each) else each
        return each if isinstance(each, str) else json.dumps(each)

    return answer


async def sleeper(
    database: Database,
    *answers: object,
    model: bool = True,
    policy: PassPolicy | None = None,
    window_tokens: int = 60_000,
) -> Sleeper:
    """A mind whose runs go through their phases when a test says so.

    `answers`: what the model says; without one it may not be asked.
    """
    clock = ManualClock(database)
    scripted = ScriptedModel(script(*answers or (_never,)))
    home = await make_home(database, clock)
    settings = SETTINGS.model_copy(update={"window_tokens": window_tokens})
    router = Router({tier: [settings] for tier in Tier} if model else {}, lambda *_: scripted, clock, estimate)
    gate = Gate(policy=policy or PassPolicy(), archive=ROOMS_ALONE, groups=home.service.loader.groups, clock=clock)
    asking = PassAsking(
        database=database, clock=clock, builder=PromptBuilder(CATALOG.templates), catalog=CATALOG, router=router,
        observe=_unseen,
    )  # fmt: skip
    pass_ = Maintenance(gate=gate, asking=asking, minds=home.service, likening=Likening(database, None), clock=clock)
    spec = pass_.spec()
    return Sleeper(home, scripted, pass_, Runner(specs={spec.name: spec}, clock=clock, observe=_unseen))


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _never(_: ModelRequest) -> str:
    raise AssertionError("nobody may be asked")


def _unseen(name: str, value: float, labels: Mapping[str, str]) -> None:
    """Measure nothing."""
