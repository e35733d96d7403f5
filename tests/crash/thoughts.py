"""Minds under a test's control: runs of passes begun by hand, carried out by processes that are killed meanwhile."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

from aiohttp import web

from core.domain.ids import RoomKey
from core.domain.passes import PassName
from core.store.engine import Database
from tests.crash.platform import Behaviour, Platform
from tests.crash.processes import A_WHILE_S, Forks, World, world
from tests.doubles.model_server import Say, openai_whole
from tests.fakes import ScriptedModel
from tests.flows.passes.cellar import begin, outcome, settled, thinks, thoughts
from tests.flows.passes.days import Days, days

Answer = Callable[[str, str], str]
"""What is answered to a prompt: its system part and the last message."""
LONG_S = 40 * 86_400.0
"""After so long, what waits to be said is given up."""
SHIFT = "select extract(epoch from shift)::float8 from voidbot_test.clock"
PROOF = """
select coalesce(e.body ->> 'outcome', 'none') || '/' || coalesce(c.body ->> 'status', 'none') || '/' || o.state
from voidbot.outbox o
left join voidbot.state_entries e on e.type = 'receipt' and (e.body ->> 'outboxId')::bigint = o.id
left join voidbot.state_entries c on c.type = 'candidate' and c.entry_id = e.body ->> 'interventionId'
where o.kind = 'speech'
"""
"""What the mind's receipt says of each thing said unasked, where its candidate stands, what the outbox says."""


class Endpoint:
    """A model behind a real socket, outside of every process that asks it. `calls`: how often it was asked."""

    def __init__(self, answer: Answer = thoughts) -> None:
        self.answer, self.calls = answer, 0
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/v1/chat/completions", self._complete)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        self.url = ""

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._runner.cleanup()

    async def _complete(self, request: web.Request) -> web.Response:
        self.calls += 1
        by_role = {each["role"]: each["content"] for each in (await request.json())["messages"]}
        return web.json_response(openai_whole(Say([self.answer(by_role["system"], by_role["user"])])))


@dataclass
class Mind:
    """A mind whose runs are carried out by processes that come and go. `days`: a process without a worker."""

    world: World
    days: Days
    endpoint: Endpoint

    @property
    def platform(self) -> Platform:
        return self.world.platform

    async def prepare(self, name: PassName) -> None:
        """Bring about what a pass needs: notes of the day for sleep, something whose time is over for upkeep."""
        if name in (PassName.SLEEP, PassName.UPKEEP):
            await self.begin(PassName.RUMINATION, "before")
            await self.days.work()
        if name is PassName.UPKEEP:
            await self.later(LONG_S)

    async def join(self) -> None:
        """Let the processes to come live at the time to which this one has moved."""
        shift: float = await self.world.value(SHIFT)
        self.platform.shift_s += shift - self.world.now_s
        self.world.now_s = shift

    async def later(self, seconds: float = A_WHILE_S) -> None:
        """Let time pass, everywhere at once."""
        await self.days.clock.advance(seconds)
        await self.join()

    async def begin(self, name: PassName, label: str = "by-hand") -> int:
        """Claim a run; no process carries it out yet."""
        return await begin(self.days, name, label)

    async def hear(self, text: str) -> None:
        """Let somebody say something in the room."""
        on = self.platform.behaviour.value
        message = self.days.line.message("Ana", text, front_end=on)
        await self.days.line.app.receiver.accept(replace(message, room=RoomKey(on, message.room.chat_ref)))

    def spawn(self, **order: Any) -> int:
        """Start a process that carries out what is due; it hears nobody."""
        return self.world.spawn(model=self.endpoint.url, **order)

    async def die_at(self, point: str, phase: int = 1, **order: Any) -> None:
        """Have a process carry out what is due until it kills itself; let the others notice. `phase`: it begins at."""
        await self.world.forks.killed(self.spawn(point=point, phase=phase, **order))
        await self.later()

    async def finish(self, **order: Any) -> None:
        """Have a process carry out all that is left."""
        await self.world.finish(model=self.endpoint.url, **order)

    async def outcome(self, run_id: int) -> dict[str, Any]:
        """What a run has left behind, and what people see of it."""
        left = await outcome(self.days.database, run_id)
        return left | {"shown": [each.text for each in self.platform.messages]}

    async def proofs(self) -> list[str]:
        """What is known of each thing said unasked: receipt, candidate, outbox."""
        return [row[0] for row in await self.world.connection.fetch(PROOF)]


@asynccontextmanager
async def thinking(
    forks: Forks, dsn: str, behaviour: Behaviour = Behaviour.TERMINAL, *, answer: Answer = thoughts, **how: Any
) -> AsyncIterator[Mind]:
    """Have a mind in a room that has spoken of something, at noon. `how`: how the room is settled."""
    database = await Database.open(dsn, size=4)
    try:
        async with (
            Endpoint(answer) as endpoint,
            world(forks, dsn, Platform(behaviour)) as here,
            days(dsn, database, platforms=(behaviour.value,), model=ScriptedModel(thinks)) as simulated,
        ):
            await settled(simulated, **how)
            await simulated.move_to(12)
            mind = Mind(here, simulated, endpoint)
            await mind.join()
            yield mind
    finally:
        await database.close()
