"""The composition root: builds everything, hands it down, runs it, closes it in reverse.

The only module that knows both a concrete class and its user.
"""

import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

import structlog
from pydantic import BaseModel

from bot.clock import SystemClock
from bot.commands import COMMANDS, question_of
from bot.commands.dispatch import Dispatcher
from bot.commands.spec import Services
from bot.observability import Metrics, configure_logs, correlated
from bot.settings import PROJECT, Settings
from bot.storage import Storage, open_storage
from bot.web.checks import Checks, Figures, FrontEndState
from bot.web.server import Address, HealthServer
from core.chat.asking import Asking
from core.chat.deliver import Deliverer
from core.chat.lastwords import LastWords
from core.chat.notices import Notices
from core.chat.promises import read_promises
from core.chat.receive import Receiver
from core.chat.reply import Replier
from core.chat.sample import load_sample, read_sample
from core.chat.voice import Voice
from core.chat.work import SendWork, TurnWork
from core.domain.jobs import Outcome
from core.domain.prompt import Tier
from core.jobs.executor import AnyKind, Fault, JobContext, Kind
from core.jobs.worker import Worker
from core.passes.scheduler import Scheduler
from core.passes.upkeep import Upkeep, UpkeepWork
from core.ports import Clock, FrontEnd
from core.prompt.builder import PromptBuilder
from core.prompt.catalog import Catalog, load_catalog
from core.prompt.tokens import estimate
from core.providers.model_settings import ModelSettings
from core.providers.models import connect
from core.providers.router import Connect, Router
from core.store import archive, budgets, jobs
from core.store.engine import Database, current_revision, head_revision, transaction_is_open
from core.store.people import ReadableRooms

log = structlog.get_logger()

P = TypeVar("P", bound=BaseModel)
Say = Callable[[str], None]
REPLY_TIMEOUT_S = 400.0


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

    settings: Settings
    clock: Clock
    storage: Storage
    database: Database
    catalog: Catalog
    router: Router
    receiver: Receiver
    front_ends: Mapping[str, FrontEnd]
    worker: Worker | None
    scheduler: Scheduler | None
    metrics: Metrics
    readable: ReadableRooms
    page: Address | None
    say: Say


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
    fault: Fault = lambda point: None,
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
        fault: For crash tests.
        log_file: Where logs go while a chat has the terminal.

    Raises:
        Misconfigured, Unavailable: Something is wrong, in words for the operator.
    """
    clock = clock or SystemClock()
    async with AsyncExitStack() as stack:
        handler = configure_logs(
            level=settings.log_level, form=settings.log_format, file=log_file, secrets=settings.secrets()
        )
        stack.callback(handler.close)
        for note in settings.notes():
            say(note)
        catalog = load_catalog(PROJECT)
        storage = await stack.enter_async_context(open_storage(settings, clock, say))
        database = storage.database
        readable = ReadableRooms()
        router = Router(
            _tiers(settings),
            connect_model or partial(connect, clock=clock, estimate=estimate, guard=_no_transaction_open),
            clock,
            estimate,
        )
        stack.push_async_callback(router.aclose)
        owned = {front_end.name: front_end for front_end in front_ends(database, clock, readable)}
        await _prepare(database, settings, clock, say)
        metrics = Metrics()
        notices = Notices(Voice(catalog.stock))
        kinds = _kinds(database, clock, catalog, router, readable, notices, owned, metrics, fault)
        worker = _worker(settings, roles, database, kinds, clock, notices, owned, metrics, fault)
        receiver = Receiver(
            database=database,
            clock=clock,
            notices=notices,
            text_limits={name: front_end.text_limit for name, front_end in owned.items()},
            keeps_doors=frozenset({"console"}),
            question_of=question_of,
            fault=fault,
        )
        page = None
        if Role.WEB in roles or settings.http_chosen:
            checks = _checks(storage, worker, owned)
            server = HealthServer(checks, metrics.text, clock, version=version("voidbot"), lag=_lag(metrics))
            page = await server.start(settings.http_host, settings.http_port, outside=settings.http_outside)
            stack.push_async_callback(server.stop)
        yield App(
            settings=settings,
            clock=clock,
            storage=storage,
            database=database,
            catalog=catalog,
            router=router,
            receiver=receiver,
            front_ends=owned,
            worker=worker,
            scheduler=Scheduler(database, clock) if Role.SCHEDULER in roles else None,
            metrics=metrics,
            readable=readable,
            page=page,
            say=say,
        )


def _no_transaction_open() -> None:
    if transaction_is_open():
        raise AssertionError("a model is called while a transaction is open")


def _tiers(settings: Settings) -> dict[Tier, list[ModelSettings]]:
    return {tier: [model.settings for model in settings.models if tier in model.tiers] for tier in Tier}


async def _prepare(database: Database, settings: Settings, clock: Clock, say: Say) -> None:
    """Add the purses that must exist, and the sample community if it is wanted and nothing is there."""
    async with database.transaction(long=True) as tx:
        await budgets.ensure_defaults(tx, deployment_usd_per_day=settings.usd_per_day)
        if settings.loads_sample(()):
            sample = read_sample(PROJECT / "data" / "sample_community.yaml")
            count = await load_sample(tx, sample, "console", clock.now())
            if count:
                say(f"sample community: {count} messages in {len(sample.rooms)} rooms")


def _kinds(
    database: Database,
    clock: Clock,
    catalog: Catalog,
    router: Router,
    readable: ReadableRooms,
    notices: Notices,
    front_ends: Mapping[str, FrontEnd],
    metrics: Metrics,
    fault: Fault,
) -> dict[str, AnyKind]:
    """Return every kind of job with what runs it: the list that the outcome matrix is held against."""
    promises_file = PROJECT / "prompts" / "stock" / "promises.md"
    asking = Asking(
        database=database,
        clock=clock,
        builder=PromptBuilder(catalog.templates),
        voice=notices.voice,
        promises=read_promises(str(promises_file), promises_file.read_text(encoding="utf-8")),
    )
    replier = Replier(
        clock=clock,
        front_ends=front_ends,
        catalog=catalog,
        voice=notices.voice,
        readable=readable,
        router=router,
        asking=asking,
        fault=fault,
    )
    services = Services(
        stock=catalog.stock,
        readable=readable,
        router=router,
        personas=sorted(catalog.personas),
        version=version("voidbot"),
        table=COMMANDS,
    )
    dispatcher = Dispatcher(table=COMMANDS, services=services, voice=notices.voice, clock=clock)
    deliverer = Deliverer(front_ends=front_ends, clock=clock, readable=readable, notices=notices, fault=fault)
    upkeep = Upkeep(metrics.observe)
    found: list[AnyKind] = [
        Kind(name="reply", pool="chat", payload=TurnWork, run=_traced(replier.run), timeout_s=REPLY_TIMEOUT_S),
        Kind(name="command", pool="chat", payload=TurnWork, run=_traced(dispatcher.run), timeout_s=30),
        Kind(name="send", pool="send", payload=SendWork, run=_traced(deliverer.run), timeout_s=120),
        Kind(name="upkeep", pool="upkeep", payload=UpkeepWork, run=_traced(upkeep.run), timeout_s=600),
    ]
    return {kind.name: kind for kind in found}


def _traced(run: Callable[[JobContext, P], Awaitable[Outcome]]) -> Callable[[JobContext, P], Awaitable[Outcome]]:
    """Let every log line of a run carry the id given at intake."""

    async def traced(ctx: JobContext, payload: P) -> Outcome:
        with correlated(ctx.job.trace or f"job-{ctx.job.id}", room=ctx.job.room_id, attempt=ctx.job.attempt):
            return await run(ctx, payload)

    return traced


def _worker(
    settings: Settings,
    roles: frozenset[Role],
    database: Database,
    kinds: Mapping[str, AnyKind],
    clock: Clock,
    notices: Notices,
    front_ends: Mapping[str, FrontEnd],
    metrics: Metrics,
    fault: Fault,
) -> Worker | None:
    """Return a worker for the pools of these roles; what is sent goes through the process with the connection."""
    pools = {f"send/{name}": settings.send_slots for name in front_ends}
    if Role.WORKER in roles:
        pools |= {"chat": settings.chat_slots, "upkeep": settings.upkeep_slots}
    if not pools:
        return None
    return Worker(
        database,
        kinds,
        pools,
        clock,
        on_give_up=LastWords(notices),
        dead_after_s=settings.dead_after_s,
        drain_s=settings.drain_s,
        info={"host": socket.gethostname(), "pid": os.getpid(), "roles": sorted(roles)},
        observe=metrics.observe,
        fault=fault,
    )


def _lag(metrics: Metrics) -> Callable[[float], None]:
    return lambda seconds: metrics.observe("event_loop_lag_seconds", seconds, {})


def _checks(storage: Storage, worker: Worker | None, front_ends: Mapping[str, FrontEnd]) -> Checks:
    database = storage.database

    async def answers() -> None:
        async with database.transaction(durable=False) as tx:
            await tx.fetchval("select 1")

    async def schema() -> tuple[str | None, str]:
        return await current_revision(database.dsn), head_revision()

    async def tick_age_s() -> float | None:
        async with database.transaction(durable=False) as tx:
            return await jobs.youngest_beat_s(tx)

    async def oldest_ready_s() -> float | None:
        async with database.transaction(durable=False) as tx:
            return max((each.oldest_wait for each in await jobs.stats(tx)), default=None)

    async def heard() -> Mapping[str, FrontEndState]:
        return {name: FrontEndState(True, "in this process") for name in front_ends}

    async def figures() -> Figures:
        async with database.transaction(durable=False) as tx:
            queue: dict[tuple[str, str], int] = {}
            for each in await jobs.stats(tx):
                for state in ("ready", "running", "waiting", "later", "dead"):
                    key = (each.pool, state)
                    queue[key] = queue.get(key, 0) + getattr(each, state)
            return Figures(queue, await archive.count_rooms(tx))

    return Checks(
        database=answers,
        schema=schema,
        tick_age_s=tick_age_s,
        oldest_ready_s=oldest_ready_s,
        front_ends=heard,
        figures=figures,
    )
