"""A bot under measurement, in a process of its own: VoidBot with an instant model, or a floor bot without a store."""

import asyncio
import json
import logging
import resource
import sys
from pathlib import Path
from typing import Any

import discord

from benchmarks.rig import InstantModel, given_database, temporary_home
from bot.app import App, Role, open_app
from bot.model_list import Model
from bot.platform_settings import PlatformSettings
from bot.platforms import platforms_of
from bot.running import settle_memory
from bot.settings import Settings
from core.providers.model_settings import ModelSettings
from core.store.platforms import StoredPlatformMemory


def told(line: str) -> None:
    """Tell the parent one line."""
    print(line, flush=True)


async def voidbot(platform: dict[str, Any]) -> None:
    """Run everything but the terminal against the given platform until the parent's pipe closes."""
    model = ModelSettings(name="instant", base_url="http://127.0.0.1:9/v1")
    with temporary_home() as home:
        async with given_database() as address:
            settings = Settings.model_validate(
                {"home": home, "database_url": address, "sample": False, "migrate": "auto", "drain_s": 1.0}
            ).model_copy(update={"models": (Model(model),), "platforms": PlatformSettings.model_validate(platform)})
            await _serve(settings, home)


async def _serve(settings: Settings, home: Path) -> None:
    async with (
        open_app(
            settings,
            frozenset({Role.GATEWAY, Role.WORKER}),
            say=lambda line: None,
            front_ends=lambda database, clock, readable: platforms_of(settings, clock, StoredPlatformMemory(database)),
            connect_model=lambda settings, limits: InstantModel(),
            log_file=home / "voidbot.log",
        ) as app,
        asyncio.TaskGroup() as group,
    ):
        if app.worker is None:
            raise AssertionError("the worker's role was asked for")
        settle_memory()
        parts = [group.create_task(app.worker.run())]
        parts += [group.create_task(front_end.run(app.accept)) for front_end in app.front_ends.values()]
        await _answer_questions(app)
        app.worker.stop()
        for part in parts:
            part.cancel()


async def _answer_questions(app: App) -> None:
    """Tell the parent, for each line it writes, how many messages are stored and how large this process is."""
    loop = asyncio.get_running_loop()
    while await loop.run_in_executor(None, sys.stdin.buffer.readline):
        async with app.database.transaction(durable=False) as tx:
            stored = await tx.fetchval(
                "select count(*) from voidbot.inbox i join voidbot.rooms r on r.id = i.room_id"
                " where i.kind = 'text' and r.name like 'room-%'"
            )
        told(json.dumps({"stored": stored, "rss_mb": _rss_mb()}))


def _rss_mb() -> float:
    """Return how much memory this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return round(pages * resource.getpagesize() / 2**20, 1)


async def floor(platform: dict[str, Any]) -> None:
    """Answer each mention in the event handler: no store, no queue, no limits, nothing to lose."""
    discord.http.Route.BASE = f"{platform['discord_api_url']}/api/v10"
    intents = discord.Intents.default()
    intents.message_content = True
    client = discord.AutoShardedClient(intents=intents)

    @client.event
    async def on_message(message: discord.Message) -> None:
        if client.user is not None and client.user.mentioned_in(message) and message.author.id != client.user.id:
            await message.channel.send("It is.", reference=message, mention_author=False)

    async with client, asyncio.TaskGroup() as group:
        run = group.create_task(client.start(str(platform["discord_token"])))
        await _until_closed()
        run.cancel()


async def _until_closed() -> None:
    """Wait for the end of standard input."""
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)


def main() -> int:
    """Run one bot; the arguments are its name and the platform's settings as JSON."""
    name, platform = sys.argv[1], json.loads(sys.argv[2])
    logging.getLogger("discord").setLevel(logging.ERROR)
    asyncio.run(voidbot(platform) if name == "voidbot" else floor(platform))
    return 0


if __name__ == "__main__":
    sys.exit(main())
