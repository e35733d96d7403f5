"""The composition root: builds everything, hands it down, runs it, closes it in reverse.

The only module that knows both a concrete class and its user.
"""

import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from importlib.metadata import version
from pathlib import Path

import structlog

from bot.clock import SystemClock
from bot.commands import question_of
from bot.commands.telling import tell_person
from bot.kinds import Parts, kinds_of, passes_of
from bot.moderation_wiring import ModerationParts
from bot.observability import Metrics, configure_logs
from bot.readiness import checks_of
from bot.search_wiring import SearchParts, begin_search, open_search
from bot.settings import PROJECT, Settings
from bot.storage import Storage, no_transaction_open, open_key, open_storage
from bot.web.server import Address, HealthServer
from core.chat.lastwords import LastWords
from core.chat.notices import Notices
from core.chat.receive import Receiver
from core.chat.sample import load_sample, read_sample
from core.chat.voice import Voice
from core.domain.errors import Misconfigured
from core.domain.messages import InboundMessage
from core.domain.prompt import Tier
from core.jobs.executor import Fault
from core.jobs.worker import Worker
from core.passes.scheduler import Scheduler
from core.ports import Accepted, Clock, Embedder, FrontEnd
from core.privacy.desk import Desk
from core.prompt.catalog import Catalog, load_catalog
from core.prompt.tokens import estimate
from core.providers.model_settings import ModelSettings
from core.providers.models import connect
from core.providers.router import Connect, Router
from core.retrieval.indexing import index_all
from core.state.naming import name_minds
from core.state.service import open_minds
from core.store import budgets
from core.store.access import ReadableRooms
from core.store.engine import Database

log = structlog.get_logger()

Say = Callable[[str], None]


class Role(StrEnum):
    """What a process does; `voidbot up` does all of it."""

    GATEWAY = "gateway"
    WORKER = "worker"
    SCHEDULER = "scheduler"
    WEB = "web"


ALL_ROLES = frozenset(Role)


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """Everything that runs, put together. `page` is where the health page listens, if it does."""

    parts: Parts
    storage: Storage
    receiver: Receiver
    worker: Worker | None
    scheduler: Scheduler | None
    page: Address | None

    @property
    def database(self) -> Database:
        """The open database."""
        return self.parts.database

    @property
    def clock(self) -> Clock:
        """The time."""
        return self.parts.clock

    @property
    def front_ends(self) -> Mapping[str, FrontEnd]:
        """The front ends whose connection this process owns, by name."""
        return self.parts.front_ends

    async def accept(self, message: InboundMessage) -> Accepted:
        """Take one event in and count what became of it: what front ends are given."""
        accepted = await self.receiver.accept(message)
        observe = self.parts.metrics.observe
        result = "duplicate" if accepted.duplicate else "stored"
        observe("intake_total", 1, {"platform": message.front_end, "kind": message.kind, "result": result})
        if accepted.duplicate:
            observe("duplicates_total", 1, {})
        else:
            observe("decisions_total", 1, {"outcome": accepted.outcome, "reason": accepted.reason or ""})
        return accepted


MakeFrontEnds = Callable[[Database, Clock, ReadableRooms], Sequence[FrontEnd]]


@asynccontextmanager
async def open_app(
    settings: Settings,
    roles: frozenset[Role],
    *,
    say: Say,
    front_ends: MakeFrontEnds,
    clock: Clock | None = None,
    connect_model: Connect | None = None,
    embedders: Sequence[Embedder] | None = None,
    fault: Fault = lambda point: None,
    terminal: bool = False,
    log_file: Path | None = None,
) -> AsyncIterator[App]:
    """Build what the roles need, from the settings down to the page; close it in reverse.

    Args:
        settings: What the operator chose.
        roles: What this process does.
        say: Takes lines for the operator while starting and stopping.
        front_ends: Makes the front ends whose connection this process owns.
        clock: Another clock for tests.
        connect_model: Other models for tests.
        embedders: Other models of vectors for tests.
        fault: For crash tests.
        terminal: This process has the terminal chat: it gets the sample community unless that is switched off.
        log_file: Where logs go while a chat has the terminal.

    Raises:
        Misconfigured, Unavailable: Something is wrong, in words for the operator.
    """
    clock = clock or SystemClock()
    async with AsyncExitStack() as stack:
        stack.callback(_open_logs(settings, log_file).close)
        for note in settings.notes():
            say(note)
        catalog = load_catalog(PROJECT)
        storage = await stack.enter_async_context(open_storage(settings, clock, say))
        search = await stack.enter_async_context(
            open_search(settings.search, storage.database, clock, guard=no_transaction_open, embedders=embedders)
        )
        connect_to = connect_model or partial(connect, clock=clock, estimate=estimate, guard=no_transaction_open)
        parts = await _parts(settings, clock, catalog, storage, search, connect_to, front_ends, fault)
        stack.push_async_callback(parts.router.aclose)
        for front_end in parts.front_ends.values():
            stack.push_async_callback(front_end.close)
        await _prepare(parts, say, terminal=terminal)
        if Role.WORKER in roles:
            await begin_search(search, storage.database, say)
        page = None
        # A chat beside a running process has no page: the port that was chosen is that process's.
        if Role.WEB in roles or (settings.http_chosen and not terminal):
            page = await _open_page(parts, stack)
        yield App(
            parts=parts,
            storage=storage,
            receiver=_receiver(parts),
            worker=_worker(parts, roles),
            scheduler=_scheduler(parts, roles),
            page=page,
        )


async def _parts(
    settings: Settings,
    clock: Clock,
    catalog: Catalog,
    storage: Storage,
    search: SearchParts,
    connect_to: Connect,
    make: MakeFrontEnds,
    fault: Fault,
) -> Parts:
    """Return what everything else is built from."""
    readable = ReadableRooms()
    front_ends = {each.name: each for each in make(storage.database, clock, readable)}
    notices, metrics, minds = Notices(Voice(catalog.stock)), Metrics(), open_minds()
    moderation = ModerationParts(
        clock=clock,
        readable=readable,
        voice=notices.voice,
        front_ends=front_ends,
        minds=minds,
        metrics=metrics,
        fault=fault,
    )
    return Parts(
        settings=settings,
        clock=clock,
        database=storage.database,
        catalog=catalog,
        readable=readable,
        router=Router(_tiers(settings), connect_to, clock, estimate),
        notices=notices,
        front_ends=front_ends,
        metrics=metrics,
        desk=Desk(await open_key(settings, storage.database), tell_person, settings.home),
        search=search,
        minds=minds,
        moderation=moderation,
        fault=fault,
    )


def _open_logs(settings: Settings, file: Path | None) -> logging.Handler:
    try:
        return configure_logs(level=settings.log_level, form=settings.log_format, file=file, secrets=settings.secrets())
    except OSError as exc:
        raise Misconfigured(f"home: {settings.home} cannot be written; set VOIDBOT_HOME to another") from exc


def _tiers(settings: Settings) -> dict[Tier, list[ModelSettings]]:
    return {tier: [model.settings for model in settings.models if tier in model.tiers] for tier in Tier}


async def _prepare(parts: Parts, say: Say, *, terminal: bool) -> None:
    """Add the purses that must exist, and the sample community if it is wanted; let minds bear the bot's name."""
    settings = parts.settings
    async with parts.database.transaction(long=True) as tx:
        await budgets.ensure_defaults(tx, deployment_usd_per_day=settings.usd_per_day)
        if settings.sample is True or (settings.sample is None and terminal):
            sample = read_sample(PROJECT / "data" / "sample_community.yaml")
            if count := await load_sample(tx, sample, "console", parts.clock.now()):
                await index_all(tx)
                say(f"sample community: {count} messages in {len(sample.rooms)} rooms")
    await name_minds(parts.database, parts.minds, settings.names[0])


async def _open_page(parts: Parts, stack: AsyncExitStack) -> Address:
    settings, metrics = parts.settings, parts.metrics
    server = HealthServer(
        checks_of(parts.database, parts.front_ends),
        metrics.text,
        parts.clock,
        version=version("voidbot"),
        lag=lambda seconds: metrics.observe("event_loop_lag_seconds", seconds, {}),
    )
    address = await server.start(settings.http_host, settings.http_port, outside=settings.http_outside)
    stack.push_async_callback(server.stop)
    return address


def _receiver(parts: Parts) -> Receiver:
    return Receiver(
        database=parts.database,
        clock=parts.clock,
        notices=parts.notices,
        text_limits={name: front_end.text_limit for name, front_end in parts.front_ends.items()},
        keeps_doors=frozenset({"console"}),
        question_of=question_of,
        operators=frozenset(parts.settings.operators),
        timezone=parts.settings.timezone,
        language=parts.settings.language,
        account_hash=parts.desk.key.person,
        policy=parts.settings.archive.policy,
        moderate=parts.moderation.warden.watch,
        observe=parts.metrics.observe,
        fault=parts.fault,
    )


def _scheduler(parts: Parts, roles: frozenset[Role]) -> Scheduler | None:
    if Role.SCHEDULER not in roles:
        return None
    return Scheduler(parts.database, parts.clock, parts.search.embedders, passes_of(parts).planner)


def _worker(parts: Parts, roles: frozenset[Role]) -> Worker | None:
    """Return a worker for the pools of these roles; what is sent goes through the process with the connection."""
    settings = parts.settings
    pools = {f"send/{name}": settings.send_slots for name in parts.front_ends}
    if Role.WORKER in roles:
        pools |= {"chat": settings.chat_slots, "upkeep": settings.upkeep_slots, "pass": settings.passes.slots}
    if not pools:
        return None
    return Worker(
        parts.database,
        kinds_of(parts),
        pools,
        parts.clock,
        on_give_up=LastWords(parts.notices),
        dead_after_s=settings.dead_after_s,
        drain_s=settings.drain_s,
        info={"host": socket.gethostname(), "pid": os.getpid(), "roles": sorted(roles), "pools": sorted(pools)},
        observe=parts.metrics.observe,
        fault=parts.fault,
    )
