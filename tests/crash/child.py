"""A process that forks whole bots on request, each on one platform, each told where to die.

It answers every line it reads with one line: the pid of a fork, or how one ended. Imports are paid once.
"""

import asyncio
import gc
import json
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp

from bot.app import App, Role, open_app
from bot.settings import Settings
from core.domain.errors import BotError, OutsideRefused
from core.domain.ids import RoomKey
from core.domain.messages import Address, InboundMessage, MessageKind, Origin
from core.domain.prompt import Completion, Delta, Finish, ModelRequest, Usage
from core.jobs.executor import Fault
from core.ports import Accept, Ambiguous, Clock, Delivered, FrontEnd, ModelProvider, OutgoingPart, SendResult
from core.providers.model_settings import ModelSettings
from core.providers.models import ConnectedModel
from core.providers.router import Connect
from tests.crash.platform import WINDOW_S, Behaviour
from tests.fakes import ManualClock
from tests.flows.line import SETTINGS, settings_for

NEVER = 1_000_000


class PlatformChat(FrontEnd):
    """The front end of `tests.crash.platform`; dies before a call arrives, or after it arrived, as told."""

    def __init__(self, order: dict[str, Any], session: aiohttp.ClientSession, clock: Clock, fault: Fault) -> None:
        self._behaviour = Behaviour(order["behaviour"])
        self._session, self._clock, self._fault = session, clock, fault
        self._every: float | None = 0.0 if order.get("streams") else None
        self._limit: int = order.get("limit", 2000)

    @property
    def name(self) -> str:
        return self._behaviour.value

    @property
    def nonce_window(self) -> timedelta | None:
        match self._behaviour:
            case Behaviour.TERMINAL:
                return timedelta(days=3650)
            case Behaviour.DISCORD:
                return timedelta(seconds=WINDOW_S)
            case Behaviour.TELEGRAM:
                return None

    @property
    def stream_every_s(self) -> float | None:
        return self._every

    @property
    def text_limit(self) -> int:
        return self._limit

    def split(self, text: str) -> Sequence[str]:
        return [text[at : at + self._limit] for at in range(0, len(text), self._limit)] or [""]

    async def send(self, part: OutgoingPart) -> SendResult:
        body = {"room": part.room.chat_ref, "nonce": part.nonce, "text": part.text.text, "reply_to": part.reply_to}
        return await self._act("send", body)

    async def edit(self, external_id: str, part: OutgoingPart) -> SendResult:
        return await self._act("edit", {"id": external_id, "text": part.text.text})

    async def close_choices(self, room: RoomKey, external_id: str) -> SendResult:
        return Delivered(external_id)

    async def _act(self, what: str, body: dict[str, Any]) -> SendResult:
        self._fault(f"{what}.called")
        async with self._session.post(f"/{what}", json=body) as response:
            external_id: str = (await response.json())["id"]
        self._fault(f"{what}.arrived")
        return Delivered(external_id)

    async def find_sent(self, part: OutgoingPart, since: datetime) -> str | Ambiguous | None:
        if self._behaviour is Behaviour.TELEGRAM:
            return Ambiguous("no history")
        text = part.text.text
        async with self._session.get("/history", params={"room": part.room.chat_ref}) as response:
            for each in await response.json():
                # A stream may have died after its first words: those are the beginning of what is looked for.
                if each["reply_to"] == part.reply_to and text.startswith(each["text"]):
                    return str(each["id"])
        return None

    async def show_typing(self, room: RoomKey) -> None:
        """Show nothing."""

    async def fetch(self, room: RoomKey, handle: str, limit_bytes: int) -> bytes:
        raise OutsideRefused("test: has no files")

    async def close(self) -> None:
        """Hold nothing."""

    def silent_s(self) -> float | None:
        """Return nothing: there is no connection."""
        return None

    async def run(self, accept: Accept) -> None:
        while True:
            async with self._session.get("/updates") as response:
                updates = await response.json()
            for update in updates:
                try:
                    await accept(self._inbound(update))
                except BotError:
                    await asyncio.sleep(0.1)  # not acknowledged: the platform hands it out again
                    continue
                self._fault("ack.called")
                async with self._session.post("/ack", json=update):
                    pass

    def _inbound(self, update: dict[str, Any]) -> InboundMessage:
        return InboundMessage(
            front_end=self.name,
            room=RoomKey(self.name, update["room"]),
            message_id=f"m-{update['event']}",
            event_id=f"e-{update['event']}",
            kind=MessageKind.TEXT,
            person_ref=update["person"],
            display_name=update["person"],
            username=update["person"],
            origin=Origin.HUMAN,
            text=update["text"],
            sent_at=self._clock.now(),
            received_at=self._clock.now(),
            addressed_by=frozenset({Address.MENTION}),
            quiet_window=False,
        )


class Thinker(ModelProvider):
    """A model whose answer repeats the question's token, in three sentences."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    @property
    def model(self) -> str:
        return "thinker"

    async def complete(self, request: ModelRequest) -> Completion:
        self._fault("model.called")
        return Completion(answer_to(token_of(request)), Usage(100, 10), self.model, Finish.STOP)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        completion = await self.complete(request)
        # Once its thinking is over, nothing more can take its words back: they may be shown as they come.
        thought = "<think>Let me see.</think>\n"
        yield Delta(thought)
        for sentence in completion.text.splitlines(keepends=True):
            yield Delta(sentence)
        yield Delta(completion=replace(completion, text=thought + completion.text))

    async def aclose(self) -> None:
        """Have nothing to close."""


def token_of(request: ModelRequest) -> str:
    """Return the token of the question that a prompt ends with."""
    found: list[str] = re.findall(r"\bq\d+\b", repr(request))
    return found[-1]


def answer_to(token: str) -> str:
    """Return the one right answer to a question."""
    return f"About {token} there is this to say.\nIt has a second side too.\nThat was all."


def fault_of(order: dict[str, Any]) -> Callable[[str], None]:
    """Return a hook that acts when `point` is reached for the `nth` time; the point `any` counts them all."""
    point, act = order.get("point"), order.get("act", "kill")
    left = order.get("nth", 1) if point else NEVER

    def hook(name: str) -> None:
        nonlocal left
        # Heartbeats and ticks come with the time, not with the work.
        if name != point and (point != "any" or name.startswith(("beat.", "tick."))):
            return
        left -= 1
        if left:
            return
        match act:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "crash":
                crash_server(order["postmaster"])

    return hook


def crash_server(postmaster: int) -> None:
    """End the server without a checkpoint; return when it is gone, so that nothing more becomes durable."""
    os.kill(postmaster, signal.SIGQUIT)
    deadline = time.monotonic() + 30
    with suppress(FileNotFoundError, ProcessLookupError):
        while state_of(postmaster) != "Z" and time.monotonic() < deadline:
            time.sleep(0.002)


def state_of(pid: int) -> str:
    """Return the kernel's letter for what a process does: T stopped, Z ended."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@asynccontextmanager
async def on_its_platform(
    order: dict[str, Any], settings: Settings, clock: Clock, fault: Fault, connect: Connect | None = None
) -> AsyncIterator[App]:
    """Open a bot that hears and works on the platform of its order."""
    async with (
        aiohttp.ClientSession(order["platform"]) as session,
        open_app(
            settings,
            frozenset({Role.GATEWAY, Role.WORKER}),
            say=lambda line: None,
            front_ends=lambda database, clock, readable: [PlatformChat(order, session, clock, fault)],
            clock=clock,
            connect_model=connect,
            fault=fault,
        ) as app,
    ):
        yield app


async def live(order: dict[str, Any], fault: Callable[[str], None]) -> None:
    clock = ManualClock()
    await clock.advance(order.get("skew_s", 0.0))
    # Shorter than an operator may choose: a test waits for it.
    hurried = {"dead_after_s": order.get("dead_after_s", 3.0), "chat_slots": order.get("slots", 16)}
    settings = settings_for(order["dsn"], [SETTINGS]).model_copy(update=hurried)

    def connected(settings: ModelSettings, limits: object) -> ConnectedModel:
        return Thinker(fault)

    async with (
        on_its_platform(order, settings, clock, fault, connected) as app,
        asyncio.TaskGroup() as group,
    ):
        assert app.worker is not None
        group.create_task(app.worker.run())
        if order.get("listens", True):
            for front_end in app.front_ends.values():
                group.create_task(front_end.run(app.receiver.accept))


Live = Callable[[dict[str, Any], Callable[[str], None]], Coroutine[None, None, None]]
"""How a bot lives: by an order, with a hook that may end it."""


def fork(order: dict[str, Any], live: Live) -> int:
    pid = os.fork()
    if pid:
        return pid
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    try:
        asyncio.run(live(order, fault_of(order)))
    finally:
        os._exit(1)


def main(live: Live) -> None:
    # What was loaded is shared with every fork as long as no collector touches it.
    gc.freeze()
    ended: dict[int, int] = {}
    for line in sys.stdin:
        order = json.loads(line)
        if "dsn" in order:
            said: dict[str, Any] = {"pid": fork(order, live)}
        else:
            pid = order["ended"]
            if pid not in ended:
                found, status = os.waitpid(pid, os.WNOHANG)
                if found:
                    ended[pid] = os.waitstatus_to_exitcode(status)
            said = {"code": ended.get(pid)}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(live)
