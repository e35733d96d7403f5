"""The whole line for tests: the composition root with a recording front end and any model, on a real database."""

import asyncio
import atexit
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from pathlib import Path

from bot.app import App, Role, open_app
from bot.model_list import Model
from bot.search_settings import SearchSettings
from bot.settings import Settings
from core.domain.ids import RoomKey
from core.domain.messages import Address, InboundMessage, MessageKind, Origin
from core.jobs.executor import Fault
from core.ports import Accepted, Clock, Embedder
from core.providers.model_settings import ModelSettings
from core.providers.models import ConnectedModel
from core.providers.router import Connect
from core.store.engine import Database
from tests.fakes import ManualClock, RecordingFrontEnd, ScriptedModel

PATIENCE_S = 20.0
HOME = Path(tempfile.mkdtemp(prefix="voidbot-line-"))
"""The home folder of every line of this process: tests write nothing into the project's."""
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
SETTINGS = ModelSettings(name="scripted", base_url="http://127.0.0.1:9/v1")


async def until(condition: Callable[[], Awaitable[bool]] | Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
    """Wait until `condition` holds; fail if it does not in time."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while True:
        held = condition()
        if (held if isinstance(held, bool) else await held) is True:
            return
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"still not so after {timeout_s} s: {condition}")
        await asyncio.sleep(0.01)


@dataclass
class Line:
    """A running app and the people who talk to it."""

    app: App
    front_end: RecordingFrontEnd
    clock: Clock
    ids: "count[int]" = field(default_factory=lambda: count(1))

    @property
    def database(self) -> Database:
        return self.app.database

    async def say(self, person: str, text: str, room: str = "lobby", **changes: object) -> Accepted:
        """Let a person say something; `@void` or a slash at the beginning addresses the bot."""
        return await self.app.receiver.accept(self.message(person, text, room, **changes))

    def message(self, person: str, text: str, room: str = "lobby", **changes: object) -> InboundMessage:
        number = next(self.ids)
        command = text.startswith("/")
        how = {Address.COMMAND} if command else {Address.MENTION} if text.startswith("@void") else set()
        if room.startswith("dm:"):
            how.add(Address.DM)
        fields: dict[str, object] = {
            "front_end": self.front_end.name,
            "room": RoomKey(self.front_end.name, room),
            "message_id": f"m{number}",
            "event_id": f"e{number}",
            "kind": MessageKind.COMMAND if command else MessageKind.TEXT,
            "person_ref": person.lower(),
            "display_name": person,
            "username": person.lower(),
            "origin": Origin.HUMAN,
            "text": text,
            "sent_at": self.clock.now(),
            "received_at": self.clock.now(),
            "addressed_by": frozenset(how),
            "quiet_window": False,
            "admin": person == "Root",
            "operator": person == "Root",
        }
        return InboundMessage(**{**fields, **changes})  # type: ignore[arg-type]  # a test's own changes

    async def answers(self, number: int) -> list[str]:
        """Wait until the room has seen so many messages and nothing is under way; return their texts."""
        await until(lambda: len(self.front_end.shown) >= number)
        await self.quiet()
        return self.front_end.texts()

    async def quiet(self) -> None:
        """Wait until no job is queued and no answer is open."""

        async def idle() -> bool:
            async with self.database.transaction(durable=False) as tx:
                left = await tx.fetchval(
                    "select (select count(*) from queue.job) + (select count(*) from queue.later)"
                    " + (select count(*) from voidbot.outbox where state in ('ready', 'sending'))"
                )
            return bool(left == 0)

        await until(idle)

    async def value(self, sql: str, *args: object) -> object:
        """Return one value from the database."""
        async with self.database.transaction(durable=False) as tx:
            return await tx.fetchval(sql, *args)


async def wait_over(line: Line, clock: ManualClock) -> bool:
    """Let the time of the next try come, if a lane waits for one; return whether one did.

    Once for each wait: a longer jump would make the worker look dead.
    """
    waits = await line.value("select extract(epoch from max(wake_at) - voidbot.now()) from queue.lane")
    if not isinstance(waits, Decimal) or waits <= 0:
        return False
    await clock.advance(float(waits))
    return True


def settings_for(dsn: str, models: Sequence[ModelSettings] = (), **changes: object) -> Settings:
    """Return settings for a test: that database, no page, no sample, no vectors, these models for every tier."""
    values = {"database_url": dsn, "sample": False, "drain_s": 2.0, "log_level": "error", "home": HOME, **changes}
    settings = Settings.model_validate(values)
    search = changes.get("search", SearchSettings(embeddings="off"))
    return settings.model_copy(update={"models": tuple(Model(model) for model in models), "search": search})


@asynccontextmanager
async def running_line(
    dsn: str,
    *,
    front_end: RecordingFrontEnd | None = None,
    front_ends: Sequence[RecordingFrontEnd] = (),
    model: ScriptedModel | None = None,
    models: Sequence[ModelSettings] = (),
    clock: Clock | None = None,
    connect: Connect | None = None,
    embedders: Sequence[Embedder] | None = None,
    works: bool = True,
    fault: Fault = lambda point: None,
    **changes: object,
) -> AsyncIterator[Line]:
    """Run the composition root. `model`: answers in process; `models`: real providers over HTTP; neither: quotes."""
    every = front_ends or [front_end or RecordingFrontEnd()]
    shown = every[0]
    if model is not None:
        models = [SETTINGS]

        def connected(settings: ModelSettings, limits: object) -> ConnectedModel:
            return model

        connect = connected
    async with (
        open_app(
            settings_for(dsn, models, **changes),
            frozenset({Role.GATEWAY, Role.WORKER}),
            say=lambda line: None,
            front_ends=lambda database, clock, readable: list(every),
            clock=clock,
            connect_model=connect,
            embedders=embedders,
            fault=fault,
        ) as app,
        asyncio.TaskGroup() as group,
    ):
        worker = group.create_task(app.worker.run()) if works and app.worker is not None else None
        yield Line(app, shown, app.clock)
        if worker is not None and app.worker is not None:
            app.worker.stop()
            await asyncio.wait({worker}, timeout=5)
            worker.cancel()
