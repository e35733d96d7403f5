"""Running an app until it is told to stop: signals, drain, the words said meanwhile, the exit code."""

import asyncio
import contextlib
import gc
import signal
import sys
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from bot.adapters.addressing import Names
from bot.adapters.console_chat import ConsoleChat
from bot.adapters.console_screen import InteractiveScreen, JsonScreen, PlainScreen, Screen
from bot.app import App, Role, open_app
from bot.commands import COMMANDS
from bot.platforms import platforms_of
from bot.settings import Settings
from core.chat import receipts
from core.domain.audience import InRoom
from core.domain.errors import BotError, Misconfigured
from core.domain.ids import OutboxId, RoomId
from core.jobs.worker import Worker
from core.moderation.natives import Natives
from core.ports import Clock, FrontEnd
from core.store.access import ReadableRooms
from core.store.engine import Database
from core.store.platforms import StoredPlatformMemory
from core.store.shown import StoredShownMessages

DRAIN_WORDS_EVERY_S = 2.0
WITH_TERMINAL = frozenset({Role.GATEWAY, Role.WORKER})
"""Processes with these roles show what the terminal is told, so that a chat may come and go beside them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """How the terminal chat begins."""

    speaker: str | None = None
    room: str = "lobby"
    json: bool = False
    wait_s: float = 30.0
    admin: bool = False


def say(line: str) -> None:
    """Tell the operator one line; standard output is the chat's."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201  # the command line's own voice


async def run_app(
    settings: Settings, roles: frozenset[Role], chat: ChatOptions | None, *, platforms: bool = True
) -> int:
    """Build the app, run it until the chat ends or a signal comes, drain it, and return the exit code.

    `platforms`: whether this process may hold the connections to platforms; a chat beside another process may not.
    """
    terminal = chat is not None and not chat.json and sys.stdin.isatty() and sys.stdout.isatty()
    wake = asyncio.Event()
    make = partial(_front_ends, settings, roles, chat, terminal, wake, platforms)
    log_file = settings.home / "voidbot.log" if chat is not None else None
    stopping = asyncio.Event()
    with _signals(stopping):
        async with open_app(
            settings, roles, say=say, front_ends=make, terminal=chat is not None, log_file=log_file
        ) as app:
            app.database.on_wake(lambda in_s: wake.set())
            settle_memory()
            if roles == {Role.GATEWAY} and not app.front_ends:
                raise Misconfigured(
                    "gateway: no platform is configured; set DISCORD_TOKEN or TELEGRAM_TOKEN,"
                    " or use `voidbot up`, which has the terminal"
                )
            if app.page is not None:
                say(f"health page: {app.page.url}")
            for name in sorted(app.front_ends.keys() - {"console"}):
                say(f"{name}: connecting; what is wrong is said here, and `voidbot doctor` looks closer")
            if terminal:
                say("Type a message that begins with `@void`, or /help. /quit or Ctrl-D ends.")
            await _until_stopped(app, chat is not None, stopping)
            return _exit_code(app)


def settle_memory() -> None:
    """Spare the collector what was loaded at start and lives as long as the process: looking at it takes 0.2 s."""
    gc.collect()
    gc.freeze()


def _exit_code(app: App) -> int:
    console = app.front_ends.get("console")
    return console.exit_code if isinstance(console, ConsoleChat) else 0


def _front_ends(
    settings: Settings,
    roles: frozenset[Role],
    chat: ChatOptions | None,
    terminal: bool,
    wake: asyncio.Event,
    platforms: bool,
    database: Database,
    clock: Clock,
    readable: ReadableRooms,
) -> Sequence[FrontEnd]:
    """Return what this process speaks through: the terminal beside workers, platforms with the gateway's role."""
    made: list[FrontEnd] = []
    if roles >= WITH_TERMINAL:
        made.append(_terminal(settings, chat or ChatOptions(), terminal, wake, database, clock, readable))
    if platforms and Role.GATEWAY in roles:
        memory = StoredPlatformMemory(database, timezone=settings.timezone, language=settings.language)
        made += platforms_of(settings, clock, memory, say, Natives(database))
    return made


def _terminal(
    settings: Settings,
    options: ChatOptions,
    terminal: bool,
    wake: asyncio.Event,
    database: Database,
    clock: Clock,
    readable: ReadableRooms,
) -> ConsoleChat:
    """Return the terminal; without a chat it only shows, so that a chat in another process can be answered."""
    screen: Screen
    if terminal:
        screen = InteractiveScreen(spec.path for spec in COMMANDS)
    elif options.json:
        screen = JsonScreen(sys.stdin.fileno(), sys.stdout.fileno())
    else:
        screen = PlainScreen(sys.stdin.fileno(), sys.stdout.fileno(), sys.stderr.fileno())
    return ConsoleChat(
        StoredShownMessages(database),
        clock,
        speaker=options.speaker,
        room=options.room,
        wait_s=options.wait_s,
        screen=screen,
        admin=options.admin,
        names=Names(tuple(name.lower() for name in settings.names)),
        receipts=partial(_receipt, database, readable),
        wake=wake,
    )


async def _receipt(database: Database, readable: ReadableRooms, receipt_id: int) -> dict[str, object]:
    """Return a receipt as its own room may see it."""
    async with database.transaction(durable=False) as tx:
        view = await receipts.load(tx, OutboxId(receipt_id))
        if view is None:
            return {}
        room_id, community_id = RoomId(view.row["room_id"]), view.row["community_id"]
        rooms = await readable.load(tx, community_id, InRoom(room_id), view.private_to)
        return receipts.fields(view, rooms | {room_id})


async def _until_stopped(app: App, reads: bool, stopping: asyncio.Event) -> None:
    """Run every part; the end of the chat or a first signal drains, a second one stops at once."""
    try:
        async with asyncio.TaskGroup() as group:
            parts = [group.create_task(part) for part in _parts(app, reads, stopping)]
            await stopping.wait()
            if app.worker is not None:
                app.worker.stop()
                await _drained(app.worker, parts[0])
            for part in parts:
                part.cancel()
    except* BotError as group:
        raise _first(group) from None


def _parts(app: App, reads: bool, stopping: asyncio.Event) -> list[Coroutine[object, object, None]]:
    """Return what runs side by side; the worker comes first."""
    parts: list[Coroutine[object, object, None]] = []
    if app.worker is not None:
        parts.append(app.worker.run())
    if app.scheduler is not None:
        parts.append(app.scheduler.run())
    if app.storage.embedded is not None:
        parts.append(app.storage.embedded.watch())
    for front_end in app.front_ends.values():
        if not isinstance(front_end, ConsoleChat):
            parts.append(front_end.run(app.accept))
        elif reads:
            parts.append(_listen(front_end, app, stopping))
    return parts


async def _listen(chat: ConsoleChat, app: App, stopping: asyncio.Event) -> None:
    """Take lines in until there are no more, which ends the process."""
    try:
        await chat.run(app.accept)
    finally:
        stopping.set()


async def _drained(worker: Worker, task: "asyncio.Task[None]") -> None:
    """Wait until the worker has let go of its jobs; say what it waits for."""
    while not task.done():
        await asyncio.wait({task}, timeout=DRAIN_WORDS_EVERY_S)
        if not task.done():
            busy = worker.waiting_for() or ["the database"]
            say(f"stopping, waiting for: {'; '.join(busy)} (Ctrl-C stops at once, nothing is lost)")


@contextlib.contextmanager
def _signals(stopping: asyncio.Event) -> Iterator[None]:
    """Let a first SIGINT or SIGTERM set `stopping`, and a second one cancel the present task."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def stop() -> None:
        if stopping.is_set() and task is not None:
            task.cancel()
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _first(group: BaseExceptionGroup[BotError]) -> BotError:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if not isinstance(error, BotError):
        raise error
    return error
