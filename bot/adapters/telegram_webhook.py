"""Where Telegram brings updates to: a small receiver that says yes only to what is stored."""

import asyncio
import hmac
import json
import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web
from telegram import Bot, Update
from telegram.error import InvalidToken, TelegramError

from bot.adapters.telegram_polling import ALLOWED, Alarm, Handle, Poller, Pulse, TokenRevoked
from bot.adapters.telegram_requests import bare_unless_readable, has_number
from core.domain.errors import Conflict, Unavailable

SECRET_HEADER = "X-Telegram-Bot-Api-Secret-Token"  # noqa: S105  # the name of a header
LARGEST_BODY_BYTES = 2**20
ONE_AT_A_TIME = 1
"""Updates come in order only over a single connection, and storing one takes milliseconds."""


@dataclass(frozen=True, slots=True)
class Doorway:
    """Where the platform finds us (`url`), where we listen, and the secret that proves it is the platform."""

    url: str
    host: str
    port: int
    secret: str = ""


class Webhook:
    """Receives updates until cancelled.

    Attributes:
        watch_s: How often the platform is asked whether it still brings updates, and with what success.
        again_s: How often an address that cannot be listened on is tried.
        bound_port: The port that is listened on, once it is.
    """

    def __init__(self, bot: Bot, door: Doorway, handle: Handle, pulse: Pulse, alarm: Alarm) -> None:
        self._bot, self._door, self._handle, self._pulse, self._alarm = bot, door, handle, pulse, alarm
        self._secret = door.secret or secrets.token_urlsafe(32)
        self.watch_s, self.again_s = 60.0, 5.0
        self.bound_port = 0

    async def run(self, poller: Poller) -> None:
        """Listen, and tell the platform where; `poller` knows how to wait out faults.

        Raises:
            TokenRevoked: The token is not good any more.
        """
        app = web.Application(client_max_size=LARGEST_BODY_BYTES)
        app.router.add_post(urlsplit(self._door.url).path or "/", self._take)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            await self._open(runner)
            await poller.persist(self._announce)
            while True:
                await self._look()
                await asyncio.sleep(self.watch_s)
        finally:
            await runner.cleanup()

    async def _open(self, runner: web.AppRunner) -> None:
        """Listen as soon as the address can be had; the rest of the house goes on meanwhile."""
        while True:
            site = web.TCPSite(runner, self._door.host, self._door.port)
            try:
                await site.start()
                break
            except OSError as exc:
                await site.stop()
                self._alarm.raise_once(
                    "port",
                    "telegram: the webhook cannot listen on its address; set TELEGRAM_WEBHOOK_PORT to a free port, or "
                    f"TELEGRAM_WEBHOOK_HOST to an address of this machine; tried until it can: {exc.strerror}",
                )
            await asyncio.sleep(self.again_s)
        self.bound_port = runner.addresses[0][1]
        self._alarm.clear("port", "telegram: the webhook listens now")

    async def _announce(self) -> None:
        await self._bot.set_webhook(
            self._door.url, secret_token=self._secret, allowed_updates=ALLOWED, max_connections=ONE_AT_A_TIME
        )

    async def _look(self) -> None:
        """Ask how it goes, say so if it goes badly, and announce ourselves again if something has replaced us."""
        try:
            info = await self._bot.get_webhook_info()
            await self._pulse.beat()
            if info.url != self._door.url:
                self._alarm.raise_once("conflict", "telegram: something else took the webhook away; it was set again")
                await self._announce()
        except InvalidToken as exc:
            raise TokenRevoked("telegram: the token was refused") from exc
        except TelegramError:
            self._alarm.raise_once("silent", "telegram: cannot be reached; tried again until it is")
            return
        self._alarm.clear("silent", "telegram: is heard again")
        if info.pending_update_count and info.last_error_date is not None:
            self._alarm.raise_once("webhook", "telegram: cannot bring updates to the webhook; look at its address")
        else:
            self._alarm.clear("webhook", "telegram: brings updates again")

    async def _take(self, request: web.Request) -> web.Response:
        given = request.headers.get(SECRET_HEADER, "")
        # A header's bytes that are no text come as lone surrogates, which only this way are bytes again.
        if not hmac.compare_digest(given.encode(errors="surrogateescape"), self._secret.encode()):
            return web.Response(status=403)
        body: Any = None
        with suppress(json.JSONDecodeError, UnicodeDecodeError):
            body = json.loads(await request.read())
        if not has_number(body):
            return web.Response(status=400)
        update = Update.de_json(bare_unless_readable(body), self._bot)
        try:
            await self._handle(update)
        except (Unavailable, Conflict):
            self._alarm.raise_once("store", "telegram: what people say cannot be stored; it waits at the platform")
            return web.Response(status=503)
        self._alarm.clear("store", "telegram: what people say is stored again")
        await self._pulse.beat()
        return web.Response()
