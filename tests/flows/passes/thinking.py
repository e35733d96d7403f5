"""A mind at thought: a home with people who talk, the pass of rumination on a real queue, and a scripted model."""

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from core.chat.likening import Likening
from core.domain.archiving import ROOMS_ALONE
from core.domain.ids import RoomId
from core.domain.mind.entries import Entry, entry_hash
from core.domain.mind.facts import Emitter
from core.domain.passes import Advance, PassName, PassPolicy, PhaseResult, Run, RunMode, slot_key
from core.domain.passes import Origin as RunOrigin
from core.domain.prompt import ModelRequest, Tier
from core.jobs.executor import Kind
from core.passes.asking import PACKET, VERDICTS, PassAsking
from core.passes.catalog.rumination import Rumination, Speak
from core.passes.gate import Gate
from core.passes.runner import PassWork, Runner, start
from core.prompt.builder import PromptBuilder
from core.prompt.tokens import estimate
from core.providers.router import Router
from core.store import passes, state
from core.store.engine import Database, Tx
from core.store.mind_facts import AudienceGroups
from core.store.passes import NewRun
from tests.domain.chat_context import CATALOG
from tests.fakes import ManualClock, ScriptedModel
from tests.flows.line import SETTINGS
from tests.queue.harness import at_work, until, worker
from tests.store.minds import Home, make_home

BIG = SETTINGS.model_copy(update={"window_tokens": 60_000})
Script = Callable[[ModelRequest], str]


async def says_nothing(_: Tx, __: Run) -> PhaseResult:
    """Say nothing, and go on."""
    return Advance()


def script(*answers: object) -> Script:
    """Give these answers one after the other, the last one for ever; what is no text is written as JSON."""
    left = list(answers)

    def answer(request: ModelRequest) -> str:
        each = left.pop(0) if len(left) > 1 else left[0]
        each = each(request) if callable(each) else each
        return each if isinstance(each, str) else json.dumps(each)

    return answer


def handle(request: ModelRequest, words: str) -> str:
    """The handle of the piece in which these words stand."""
    text = request.messages[-1].text
    found: list[str] = re.findall(r"<<data \S+ ([a-z]\d+)", text[: text.index(words)])
    return found[-1]


@dataclass
class Mind:
    """A home whose mind thinks when it is told to."""

    home: Home
    model: ScriptedModel
    ids: "count[int]" = field(default_factory=count)

    @property
    def database(self) -> Database:
        return self.home.database

    @property
    def clock(self) -> ManualClock:
        return self.home.clock

    async def group(self, room: RoomId | None = None) -> str:
        async with self.database.transaction() as tx:
            named = await AudienceGroups().load(tx, self.home.mind_id)
        return named[room or self.home.room]

    async def think(
        self, room: RoomId | None = None, *, mode: RunMode = RunMode.NORMAL, origin: RunOrigin = RunOrigin.SCHEDULED
    ) -> Run:
        """Let one slot come and its run go to its end."""
        return await self.go_on(await self.claim(room, mode=mode, origin=origin))

    async def claim(
        self, room: RoomId | None = None, *, mode: RunMode = RunMode.NORMAL, origin: RunOrigin = RunOrigin.SCHEDULED
    ) -> Run:
        """Claim one slot; nobody works on its run yet."""
        group, label = await self.group(room), f"slot{next(self.ids)}"
        key = slot_key(self.home.mind_id, PassName.RUMINATION, group, label)
        new = NewRun(
            mind_id=self.home.mind_id, name=PassName.RUMINATION, group=group, slot_key=key, slot=self.clock.now(),
            label=label, mode=mode, origin=origin,
        )  # fmt: skip
        async with self.database.transaction() as tx:
            (run,) = await passes.claim(tx, [new])
        return run

    async def go_on(self, run: Run) -> Run:
        """Let a claimed run go on from the phase that it is at, to its end."""
        async with self.database.transaction() as tx:
            found = await passes.find(tx, run.id)
            assert found is not None
            await start(tx, [found], {self.home.mind_id: self.home.community})
        return await self.over(run.id)

    async def over(self, run_id: int) -> Run:
        """Wait until a run is over; return it."""
        found: list[Run] = []

        async def ended() -> bool:
            async with self.database.transaction(durable=False) as tx:
                run = await passes.find(tx, run_id)
            found[:] = [run] if run is not None and not run.state.active else []
            return bool(found)

        await until(ended)
        return found[0]

    async def kept(self, run: Run, name: str) -> dict[str, Any]:
        async with self.database.transaction() as tx:
            found = await passes.get(tx, run.id, name)
        assert found is not None, f"the run kept no {name}"
        return found

    async def verdicts(self, run: Run) -> list[tuple[str, str]]:
        """What became of each piece: its name, and its effect or code."""
        rows = (await self.kept(run, VERDICTS))["items"]
        return [(row["name"], row["effect"] or row["code"]) for row in rows]

    async def shown(self, run: Run) -> list[int]:
        """The messages that stood in the prompt."""
        packet = await self.kept(run, PACKET)
        return [place[1] for place in packet["window"][: packet["kept"]["recent"]]]

    async def entries(self, type_: str) -> list[Entry]:
        async with self.database.transaction() as tx:
            return [each.entry for each in await state.list_live(tx, self.home.mind_id, [type_])]

    async def cursors(self) -> dict[str, int]:
        """How far each room was read, and by whom."""
        cursors = [(each.id, each.body) for each in await self.entries("cursor")]
        return {id_: getattr(body, "last_reviewed_message_id", 0) for id_, body in cursors}

    async def put(self, *entries: Entry) -> None:
        """Let entries stand, whatever a model would be allowed to."""
        async with self.database.transaction() as tx:
            mind = await state.lock_mind(tx, self.home.mind_id)
            await state.save(tx, mind, [(each, entry_hash(each), 1) for each in entries])

    async def read_all(self) -> None:
        """Let everything said so far be read, so that what comes is news."""
        for room, said in ((self.home.room, self.home.messages), (self.home.closed, self.home.hidden)):
            await self.home.accept(
                {
                    "operation": "record_reviewed_messages", "consumer": "rumination", "roomId": room,
                    "lastReviewedMessageId": said[-1], "lastReviewedTimestamp": "2026-01-01T00:00:00Z",
                },
                by=Emitter.PARENT,
            )  # fmt: skip


@asynccontextmanager
async def thinking(
    database: Database,
    clock: ManualClock,
    answer: Script | None = None,
    *,
    policy: PassPolicy | None = None,
    model: bool = True,
    speak: Speak = says_nothing,
    window_tokens: int = 60_000,
) -> AsyncIterator[Mind]:
    """A mind with its worker. `answer`: what the model says; without one it may not be asked."""
    scripted = ScriptedModel(answer or _never)
    home = await make_home(database, clock)
    settings = BIG.model_copy(update={"window_tokens": window_tokens})
    tiers = {tier: [settings] for tier in Tier} if model else {}
    router = Router(tiers, lambda *_: scripted, clock, estimate)
    groups = home.service.loader.groups
    gate = Gate(policy=policy or PassPolicy(), archive=ROOMS_ALONE, groups=groups, clock=clock)
    asking = PassAsking(
        database=database, clock=clock, builder=PromptBuilder(CATALOG.templates), catalog=CATALOG, router=router,
        observe=_unseen,
    )  # fmt: skip
    pass_ = Rumination(
        gate=gate, asking=asking, minds=home.service, likening=Likening(database, None), clock=clock, speak=speak,
        own_repo="voidbot",
    )  # fmt: skip
    spec = pass_.spec()
    runner = Runner(specs={spec.name: spec}, clock=clock, observe=_unseen)
    kind = Kind(name="pass", pool="pass", payload=PassWork, run=runner.run)
    async with at_work(worker(database, kind, pools={"pass": 2}, clock=clock)):
        yield Mind(home, scripted)


def _never(_: ModelRequest) -> str:
    raise AssertionError("nobody may be asked")


def _unseen(name: str, value: float, labels: object) -> None:
    """Measure nothing."""
