"""A platform outside the process under test: it hands out updates, keeps messages, and folds repeats or does not."""

import asyncio
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from typing import Any, Self

from aiohttp import web

WINDOW_S = 120.0


class Behaviour(StrEnum):
    """How a platform treats a repeat. The value is the front end's name."""

    TERMINAL = "console"  # equal nonces fold for ever
    DISCORD = "discord"  # they fold for two minutes, and own messages can be read back
    TELEGRAM = "telegram"  # neither


@dataclass(slots=True)
class Message:
    """One message of the bot as people see it now."""

    id: str
    room: str
    reply_to: str | None
    text: str
    nonce: str
    at: float
    versions: list[str] = field(default_factory=list)


class Platform:
    """Serves one front end over loopback. Updates stay until they are acknowledged."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.messages: list[Message] = []
        self.sends = 0
        self.shift_s = 0.0
        self.pending: dict[str, dict[str, Any]] = {}
        self.questions: dict[str, str] = {}
        self._ids = count(1)
        self._news = asyncio.Event()
        app = web.Application()
        app.router.add_get("/updates", self._updates)
        app.router.add_post("/ack", self._ack)
        app.router.add_post("/send", self._send)
        app.router.add_post("/edit", self._edit)
        app.router.add_get("/history", self._history)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        self.url = ""

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._runner.cleanup()

    def ask(self, room: str = "lobby") -> str:
        """Let a new person ask something in a room; return the question's token, which its answer repeats."""
        token = f"q{next(self._ids)}"
        self.questions[f"m-{token}"] = token
        self.pending[token] = {"event": token, "room": room, "person": f"p-{token}", "text": f"@void what is {token}?"}
        self._news.set()
        return token

    def deliver_again(self, token: str, room: str = "lobby") -> None:
        """Hand out an update that was acknowledged before, as after a new session."""
        self.pending[token] = {"event": token, "room": room, "person": f"p-{token}", "text": f"@void what is {token}?"}
        self._news.set()

    def answers(self, token: str) -> list[str]:
        """Return what stands in reply to a question."""
        return [message.text for message in self.messages if message.reply_to == f"m-{token}"]

    async def _updates(self, request: web.Request) -> web.Response:
        if not self.pending:
            self._news.clear()
            try:
                async with asyncio.timeout(0.5):
                    await self._news.wait()
            except TimeoutError:
                pass
        return web.json_response(list(self.pending.values()))

    async def _ack(self, request: web.Request) -> web.Response:
        self.pending.pop((await request.json())["event"], None)
        return web.json_response({})

    async def _send(self, request: web.Request) -> web.Response:
        asked = await request.json()
        self.sends += 1
        now = asyncio.get_running_loop().time() + self.shift_s
        for message in self.messages:
            if message.nonce == asked["nonce"] and self._folds(now - message.at):
                return web.json_response({"id": message.id})
        made = Message(
            f"s{len(self.messages) + 1}", asked["room"], asked["reply_to"], asked["text"], asked["nonce"], now
        )
        made.versions.append(made.text)
        self.messages.append(made)
        return web.json_response({"id": made.id})

    def _folds(self, age_s: float) -> bool:
        match self.behaviour:
            case Behaviour.TERMINAL:
                return True
            case Behaviour.DISCORD:
                return age_s <= WINDOW_S
            case Behaviour.TELEGRAM:
                return False

    async def _edit(self, request: web.Request) -> web.Response:
        asked = await request.json()
        message = next(each for each in self.messages if each.id == asked["id"])
        message.text = asked["text"]
        message.versions.append(message.text)
        return web.json_response({"id": message.id})

    async def _history(self, request: web.Request) -> web.Response:
        found = [each for each in self.messages if each.room == request.query["room"]]
        return web.json_response([{"id": each.id, "reply_to": each.reply_to, "text": each.text} for each in found])
