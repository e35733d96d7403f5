"""The whole line on the platforms: the composition root with the real front ends, on a real database."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from bot.app import App, Role, open_app
from bot.model_list import Model
from bot.platform_settings import PlatformSettings
from bot.platforms import platforms_of
from core.ports import Clock, ModelProvider
from core.providers.model_settings import ModelSettings
from core.store.engine import Database
from core.store.platforms import StoredPlatformMemory
from tests.doubles.discord_server import DiscordServer
from tests.doubles.telegram_server import TelegramServer
from tests.flows.line import SETTINGS, settings_for, until


@dataclass
class Whole:
    """A running app with its platforms connected."""

    app: App

    @property
    def database(self) -> Database:
        return self.app.database

    async def value(self, sql: str, *args: object) -> Any:
        """Return one value from the database."""
        async with self.database.transaction(durable=False) as tx:
            return await tx.fetchval(sql, *args)

    async def quiet(self) -> None:
        """Wait until no job is queued and no answer is open."""

        async def idle() -> bool:
            return bool(
                await self.value(
                    "select (select count(*) from queue.job) + (select count(*) from queue.later)"
                    " + (select count(*) from voidbot.outbox where state in ('ready', 'sending')) = 0"
                )
            )

        await until(idle)


def discord_settings(discord: DiscordServer) -> dict[str, object]:
    return {
        "discord_token": SecretStr(discord.token),
        "discord_api_url": discord.api_url,
        "discord_gateway_url": discord.gateway_url,
        "discord_cdn_url": discord.cdn_url,
    }


def telegram_settings(telegram: TelegramServer) -> dict[str, object]:
    return {"telegram_token": SecretStr(telegram.token), "telegram_api_url": telegram.api_url}


@asynccontextmanager
async def whole_line(
    dsn: str,
    platform: dict[str, object],
    model: ModelProvider | None = None,
    clock: Clock | None = None,
    models: Sequence[ModelSettings] = (),
    **more: object,
) -> AsyncIterator[Whole]:
    """Run everything but the terminal inside the block.

    `model`: answers in process; `models`: real providers over HTTP; neither: quotes.
    """
    listed = models if model is None else (SETTINGS,)
    settings = settings_for(dsn, listed, **more).model_copy(
        update={"platforms": PlatformSettings.model_validate(platform)}
    )
    assert model is None or isinstance(settings.models[0], Model)
    async with (
        open_app(
            settings,
            frozenset({Role.GATEWAY, Role.WORKER}),
            say=lambda line: None,
            front_ends=lambda database, clock, readable: platforms_of(settings, clock, StoredPlatformMemory(database)),
            clock=clock,
            connect_model=None if model is None else lambda settings, limits: model,  # type: ignore[arg-type, return-value]
        ) as app,
        asyncio.TaskGroup() as group,
    ):
        assert app.worker is not None
        work = group.create_task(app.worker.run())
        listeners = [group.create_task(front_end.run(app.accept)) for front_end in app.front_ends.values()]
        try:
            yield Whole(app)
        finally:
            app.worker.stop()
            await asyncio.wait({work}, timeout=5)
            for task in (work, *listeners):
                task.cancel()
