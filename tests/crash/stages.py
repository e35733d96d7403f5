"""One message stopped between two transactions of the line, so that something can happen to it there."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from bot.app import Role, open_app
from core.domain.messages import InboundMessage, MessageKind
from core.domain.prompt import Completion, Delta, ModelRequest
from core.ports import Clock
from core.providers.model_settings import ModelSettings
from core.providers.models import ConnectedModel
from tests.fakes import RecordingFrontEnd, ScriptedModel
from tests.flows.line import SETTINGS, Line, settings_for


class HeldModel(ScriptedModel):
    """A model that thinks until it is let go; it answers with what it read, so that a test sees what it was asked."""

    def __init__(self, text: str = "Certainly.") -> None:
        super().__init__(lambda request: text)
        self.called = asyncio.Event()
        self.go_on = asyncio.Event()

    async def complete(self, request: ModelRequest) -> Completion:
        self.called.set()
        await self.go_on.wait()
        return await super().complete(request)


class ShownThenHeld(HeldModel):
    """A model that says all but its last line and then thinks until it is let go."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        completion = await ScriptedModel.complete(self, request)
        *lines, last = completion.text.splitlines(keepends=True)
        for line in lines:
            yield Delta(line)
        await self.go_on.wait()
        yield Delta(last)
        yield Delta(completion=completion)


@asynccontextmanager
async def line_that_cannot_send(
    dsn: str, model: ScriptedModel | None = None, clock: Clock | None = None
) -> AsyncIterator[Line]:
    """A line up to E: no process owns the platform's connection, so that answers wait in the outbox."""
    async with _part_of_the_line(dsn, Role.WORKER, None, model, clock) as line:
        yield line


@asynccontextmanager
async def line_that_only_sends(dsn: str, front_end: RecordingFrontEnd) -> AsyncIterator[Line]:
    """A line from F on: nobody makes answers."""
    async with _part_of_the_line(dsn, Role.GATEWAY, front_end, None, None) as line:
        yield line


@asynccontextmanager
async def _part_of_the_line(
    dsn: str, role: Role, front_end: RecordingFrontEnd | None, model: ScriptedModel | None, clock: Clock | None
) -> AsyncIterator[Line]:

    def connected(settings: ModelSettings, limits: object) -> ConnectedModel:
        assert model is not None
        return model

    async with (
        open_app(
            settings_for(dsn, [SETTINGS] if model is not None else []),
            frozenset({role}),
            say=lambda line: None,
            front_ends=lambda database, clock, readable: [] if front_end is None else [front_end],
            clock=clock,
            connect_model=connected,
        ) as app,
        asyncio.TaskGroup() as group,
    ):
        assert app.worker is not None
        working = group.create_task(app.worker.run())
        yield Line(app, front_end or RecordingFrontEnd(), app.clock)
        app.worker.stop()
        await asyncio.wait({working}, timeout=5)
        working.cancel()


def edited(message: InboundMessage, text: str, revision: int = 1, *, addressed: bool = True) -> InboundMessage:
    """Return the event that its author changed the message to `text`."""
    changed = replace(
        message,
        kind=MessageKind.EDIT,
        event_id=f"{message.event_id}-edit-{revision}",
        revision=revision,
        text=text,
    )
    return changed if addressed else replace(changed, addressed_by=frozenset())


def deleted(message: InboundMessage) -> InboundMessage:
    """Return the event that the message is gone."""
    return replace(message, kind=MessageKind.DELETE, event_id=f"{message.event_id}-delete", text="")
