"""Postgres goes away under load and comes back: nothing is lost, and nobody is told otherwise meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from bot.app import Role, open_app
from core.domain.errors import Unavailable
from core.domain.prompt import ModelRequest
from core.providers.model_settings import ModelSettings
from core.providers.models import ConnectedModel
from tests.crash.child import answer_to, token_of
from tests.crash.servers import Server
from tests.fakes import RecordingFrontEnd, ScriptedModel
from tests.flows.line import SETTINGS, Line, settings_for, until

DOWN_S = 5.0
PATIENCE_S = 60.0


def think(request: ModelRequest) -> str:
    return answer_to(token_of(request))


@asynccontextmanager
async def line_with_a_page(dsn: str) -> AsyncIterator[Line]:
    front_end, model = RecordingFrontEnd(), ScriptedModel(think)

    def connected(settings: ModelSettings, limits: object) -> ConnectedModel:
        return model

    async with (
        open_app(
            settings_for(dsn, [SETTINGS], http_port=0),
            frozenset({Role.GATEWAY, Role.WORKER, Role.WEB}),
            say=lambda line: None,
            front_ends=lambda database, clock, readable: [front_end],
            connect_model=connected,
        ) as app,
        asyncio.TaskGroup() as group,
    ):
        assert app.worker is not None
        working = group.create_task(app.worker.run())
        yield Line(app, front_end, app.clock)
        working.cancel()


async def readiness(line: Line) -> tuple[int, str]:
    assert line.app.page is not None
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{line.app.page.port}/readyz") as response,
    ):
        return response.status, await response.text()


async def test_postgres_stopped_under_load_loses_nothing_and_readyz_says_how_it_is(own: Server) -> None:
    async with line_with_a_page(await own.clone()) as line:
        loop = asyncio.get_running_loop()
        messages = [line.message("Ana", f"@void what is q{n}?", room=f"room-{n % 5}") for n in range(30)]
        for message in messages[:20]:
            await line.app.receiver.accept(message)
        await own.shut_down()
        down_at = loop.time()

        async def says(status: int) -> bool:
            return (await readiness(line))[0] == status

        await until(lambda: says(503), PATIENCE_S)
        assert "postgres" in (await readiness(line))[1]
        for message in messages[20:22]:
            with pytest.raises(Unavailable):
                await line.app.receiver.accept(message)
        await until(lambda: loop.time() - down_at >= DOWN_S)
        await own.start_again()
        await until(lambda: says(200), PATIENCE_S)
        for message in messages[18:]:  # a front end hands in again what it got no word about
            await line.app.receiver.accept(message)
        await until(lambda: len(line.front_end.shown) == 30, PATIENCE_S)
        await line.quiet()
        assert sorted(line.front_end.texts()) == sorted(answer_to(f"q{n}") for n in range(30))
