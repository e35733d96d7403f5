"""The real client library, pointed at the Telegram double as it would be at Telegram."""

import ssl
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

import httpx
from aiohttp import web
from telegram import Bot, Update
from telegram.error import TelegramError
from telegram.ext import Application, ApplicationBuilder, TypeHandler
from telegram.request import HTTPXRequest

from tests.doubles.telegram_server import TelegramServer
from tests.doubles.telegram_updates import SECRET_HEADER


def bot_of(telegram: TelegramServer) -> Bot:
    """Return a client that is not yet initialised; `async with` does that."""
    return Bot(
        telegram.token,
        base_url=f"{telegram.api_url}/bot",
        base_file_url=f"{telegram.api_url}/file/bot",
        request=_request(256),
        get_updates_request=_request(1),
    )


@cache
def _authorities() -> ssl.SSLContext:
    return httpx.create_ssl_context()


def _request(connections: int) -> HTTPXRequest:
    """Return what the library makes by itself, but for the authorities: to read them anew takes longer than a test."""
    return HTTPXRequest(connections, httpx_kwargs={"verify": _authorities()})


async def hear(bot: Bot) -> list[Update]:
    """Return what waits for the bot, and confirm it; asks for every kind of update from now on."""
    heard: list[Update] = []
    while batch := await bot.get_updates(
        offset=heard[-1].update_id + 1 if heard else None, timeout=0, allowed_updates=Update.ALL_TYPES
    ):
        heard += batch
    return heard


@asynccontextmanager
async def polling(telegram: TelegramServer) -> AsyncIterator[list[Update]]:
    """Run a whole application that polls, and yield the growing list of what reached its handlers."""
    reached: list[Update] = []

    async def keep(update: Update, context: Any) -> None:
        reached.append(update)

    builder = ApplicationBuilder().token(telegram.token).base_url(f"{telegram.api_url}/bot")
    application: Application[Any, Any, Any, Any, Any, Any] = builder.build()
    application.add_handler(TypeHandler(Update, keep))
    assert application.updater is not None
    async with application:
        await application.start()
        await application.updater.start_polling(allowed_updates=Update.ALL_TYPES, timeout=1)
        try:
            yield reached
        finally:
            await application.updater.stop()
            await application.stop()


async def outcome(call: Awaitable[Any]) -> Any:
    """Return what a call gave, or the error that it raised."""
    try:
        return await call
    except TelegramError as error:
        return error


class Listener:
    """A web server that a webhook points at; answers with `statuses` in order, then with 200."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.seen: list[tuple[int, str | None]] = []
        app = web.Application()
        app.router.add_post("/hook", self._take)
        self._runner = web.AppRunner(app)

    async def __aenter__(self) -> str:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}/hook"

    async def __aexit__(self, *exc: object) -> None:
        await self._runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        self.seen.append(((await request.json())["update_id"], request.headers.get(SECRET_HEADER)))
        return web.Response(status=self.statuses.pop(0) if self.statuses else 200)
