"""What the benchmarks share: the app behind a front end with a stopwatch, the machine's figures, the printed line."""

import argparse
import asyncio
import json
import os
import platform
import random
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from benchmarks.town import sentence
from bot.app import App, Role, open_app
from bot.model_list import Model
from bot.running import settle_memory
from bot.settings import PROJECT, Settings
from core.domain.errors import OutsideRefused
from core.domain.ids import RoomKey
from core.domain.messages import InboundMessage
from core.domain.prompt import Completion, Delta, Finish, ModelRequest, Usage
from core.ports import Accept, Ambiguous, Delivered, FrontEnd, OutgoingPart, SendResult
from core.providers.model_settings import ModelSettings
from core.providers.models import ConnectedModel
from core.store.engine import normalise

REGRESSION = 1.2
"""A figure that is worse by more than this factor than in the line it is held against is named."""
PLATFORM = "bench"
FDATASYNCS = 200
PATIENCE_S = 30.0
"""How long the last answers are waited for."""


class Stopwatch(FrontEnd):
    """A platform that takes every part at once and notes when; `first_call`: seconds by the message answered.

    It folds equal nonces as Discord does, so that an answer waits for the disk twice. `waits`: it does not, as
    Telegram, so that sending waits a third time.
    """

    def __init__(self, *, waits: bool) -> None:
        self._window = None if waits else timedelta(minutes=3)
        self._sent = 0
        self.first_call: dict[str, float] = {}

    @property
    def name(self) -> str:
        """Return its key."""
        return PLATFORM

    @property
    def nonce_window(self) -> timedelta | None:
        """Return how long equal nonces are folded."""
        return self._window

    @property
    def stream_every_s(self) -> float | None:
        """Return None: answers come whole."""
        return None

    @property
    def text_limit(self) -> int:
        """Return Discord's limit."""
        return 2000

    def split(self, text: str) -> Sequence[str]:
        """Return one part: the model's answers are short."""
        return [text]

    async def send(self, part: OutgoingPart) -> SendResult:
        """Note the time of the first call for this message."""
        if part.reply_to is not None:
            self.first_call.setdefault(part.reply_to, time.perf_counter())
        self._sent += 1
        return Delivered(f"s{self._sent}")

    async def find_sent(self, part: OutgoingPart, since: datetime) -> str | Ambiguous | None:
        """Find nothing: no answer of this platform is ever lost."""
        return None

    async def edit(self, external_id: str, part: OutgoingPart) -> SendResult:
        """Take the edit."""
        return Delivered(external_id)

    async def close_choices(self, room: RoomKey, external_id: str) -> SendResult:
        """Take the choices off."""
        return Delivered(external_id)

    async def show_typing(self, room: RoomKey) -> None:
        """Show nothing."""

    async def fetch(self, room: RoomKey, handle: str, limit_bytes: int) -> bytes:
        """Refuse: nobody brings files here."""
        raise OutsideRefused("bench: has no files")

    async def close(self) -> None:
        """Hold nothing."""

    def silent_s(self) -> float | None:
        """Return nothing: there is no connection."""
        return None

    async def run(self, accept: Accept) -> None:
        """Take nothing in: the benchmark calls `accept` itself."""


class InstantModel(ConnectedModel):
    """A model that takes no time, and says something new each time: who repeats himself is asked again."""

    def __init__(self) -> None:
        self._rng = random.Random(13)

    @property
    def model(self) -> str:
        """Return its name."""
        return "instant"

    async def complete(self, request: ModelRequest) -> Completion:
        """Return the one answer it has."""
        return Completion(f"It is {sentence(self._rng)}.", Usage(100, 10), self.model, Finish.STOP)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Yield the same in one piece."""
        completion = await self.complete(request)
        yield Delta(completion.text)
        yield Delta(completion=completion)

    async def aclose(self) -> None:
        """Have nothing to close."""


def say(line: str) -> None:
    """Tell whoever waits; standard output is for the one line."""
    print(line, file=sys.stderr, flush=True)


def parser(what: str) -> argparse.ArgumentParser:
    """Return the flags that all benchmarks know."""
    flags = argparse.ArgumentParser(
        description=what, epilog="One JSON line to standard output, words to standard error."
    )
    flags.add_argument("--quick", action="store_true", help="a few seconds: shows that it runs, no more")
    flags.add_argument(
        "--against", type=Path, metavar="FILE", help="an earlier line; figures worse by more than 20 %% are named"
    )
    flags.add_argument(
        "--three-waits", action="store_true", help="a platform without nonces: sending waits for the disk as well"
    )
    return flags


@contextmanager
def temporary_home() -> Iterator[Path]:
    """Yield a folder that an embedded server can use, also one that drops root; removed afterwards."""
    home = Path(tempfile.mkdtemp(prefix="voidbot-bench-"))
    home.chmod(0o755)
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


@asynccontextmanager
async def running_app(home: Path, front_end: Stopwatch) -> AsyncIterator[App]:
    """Run the composition root with its worker as `voidbot up` does; logs go to a file in `home`."""
    model = ModelSettings(name="instant", base_url="http://127.0.0.1:9/v1")
    async with given_database() as address:
        settings = Settings.model_validate(
            {"home": home, "database_url": address, "sample": False, "migrate": "auto", "drain_s": 5.0}
        ).model_copy(update={"models": (Model(model),)})
        async with (
            open_app(
                settings,
                frozenset({Role.GATEWAY, Role.WORKER}),
                say=say,
                front_ends=lambda database, clock, readable: [front_end],
                connect_model=lambda settings, limits: InstantModel(),
                log_file=home / "voidbot.log",
            ) as app,
            asyncio.TaskGroup() as group,
        ):
            if app.worker is None:
                raise AssertionError("the worker's role was asked for")
            settle_memory()
            work = group.create_task(app.worker.run())
            yield app
            app.worker.stop()
            await asyncio.wait({work}, timeout=10)
            work.cancel()


@asynccontextmanager
async def given_database() -> AsyncIterator[str | None]:
    """Yield a new database on the server of DATABASE_URL, dropped afterwards; None: an embedded server is started."""
    given = os.environ.get("DATABASE_URL")  # noqa: TID251  # the benchmarks' own switch
    if not given:
        yield None
        return
    server, name = normalise(given), f"bench_{secrets.token_hex(4)}"
    await _run_sql(server, f"create database {name}")
    try:
        yield urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
    finally:
        await _run_sql(server, f"drop database {name} with (force)")


async def _run_sql(dsn: str, statement: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def offer(
    messages: Iterator[InboundMessage],
    rate_per_s: float,
    seconds: float,
    take: Callable[[InboundMessage], Awaitable[None]],
) -> None:
    """Hand over messages at a steady rate, whether or not the earlier ones are through; a room's go in order."""
    locks: dict[str, asyncio.Lock] = {}

    async def in_order(message: InboundMessage) -> None:
        async with locks.setdefault(message.room.chat_ref, asyncio.Lock()):
            await take(message)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(round(rate_per_s * seconds)):
            due = began + number / rate_per_s
            if (early := due - time.perf_counter()) > 0:
                await asyncio.sleep(early)
            group.create_task(in_order(next(messages)))


async def all_answered(front_end: Stopwatch, count: int) -> None:
    """Wait until so many messages were answered, but not for ever."""
    deadline = time.perf_counter() + PATIENCE_S
    while len(front_end.first_call) < count and time.perf_counter() < deadline:
        await asyncio.sleep(0.02)


def fdatasync_ms(folder: Path) -> dict[str, float]:
    """Return how long this disk takes to make a small write last, in milliseconds, as a commit has to."""
    file = folder / "fdatasync"
    taken: list[float] = []
    handle = os.open(file, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.write(handle, b"\0" * 8192 * FDATASYNCS)
        os.fsync(handle)
        for number in range(FDATASYNCS):
            os.lseek(handle, number * 8192, os.SEEK_SET)
            began = time.perf_counter()
            os.write(handle, b"\1" * 8192)
            os.fdatasync(handle)
            taken.append(time.perf_counter() - began)
    finally:
        os.close(handle)
        file.unlink()
    found = spread_ms(taken)
    return {"p50": found["p50"], "p99": found["p99"]}


def spread_ms(seconds: Sequence[float]) -> dict[str, float]:
    """Return middle, tail and end of some durations, in milliseconds."""
    if not seconds:
        return dict.fromkeys(("p50", "p90", "p99", "max"), float("nan"))
    ordered = sorted(seconds)

    def at(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1000, 2)

    return {"p50": round(statistics.median(ordered) * 1000, 2), "p90": at(0.9), "p99": at(0.99), "max": at(1)}


def load() -> float:
    """Return how many tasks of this machine want a core, over the last minute."""
    return round(os.getloadavg()[0], 2)


def commit() -> str:
    """Return which commit is measured; empty outside a checkout."""
    shown = subprocess.run(["git", "-C", str(PROJECT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return shown.stdout.strip()


async def machine(app: App) -> dict[str, object]:
    """Return what the figures depend on."""
    async with app.database.transaction(durable=False) as tx:
        postgres = await tx.fetchval("show server_version")
        fsync = await tx.fetchval("show fsync")
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "postgres": postgres,
        "fsync": fsync,
        "server": "embedded" if app.storage.embedded is not None else "given",
        "commit": commit(),
    }


def print_line(line: Mapping[str, object], against: Path | None, better_low: Sequence[str]) -> None:
    """Print the one line; with `worse`, the figures that an earlier line had better by more than 20 %.

    `better_low`: dotted names of figures where less is better; of every other number it is not asked.
    """
    worse: list[str] = []
    if against is not None:
        before = json.loads(against.read_text(encoding="utf-8"))
        for name in better_low:
            old, new = _figure(before, name), _figure(line, name)
            if old is not None and new is not None and new > old * REGRESSION:
                worse.append(f"{name}: {old} -> {new}")
    print(json.dumps({**line, "worse": worse}), flush=True)


def _figure(line: object, name: str) -> float | None:
    for key in name.split("."):
        line = line.get(key) if isinstance(line, dict) else None
    return float(line) if isinstance(line, int | float) else None
