"""Every kind of job with what runs it: the flows, put together from the parts of the process."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version

from bot.commands import COMMANDS
from bot.commands.dispatch import Dispatcher
from bot.commands.spec import Services
from bot.moderation_wiring import ModerationParts
from bot.observability import Metrics
from bot.pass_wiring import PassParts
from bot.search_wiring import SearchParts, search_kinds
from bot.settings import PROJECT, Settings
from bot.tracing import traced
from core.chat.asking import Asking
from core.chat.choosing import Closing, ClosingWork
from core.chat.deliver import Deliverer
from core.chat.likening import Likening
from core.chat.notices import Notices
from core.chat.promises import Promises, read_promises
from core.chat.receipting import Receipting, ReceiptWork
from core.chat.reply import Replier
from core.chat.summaries import Summarizer
from core.chat.work import SendWork, SummaryWork, TurnWork
from core.jobs.executor import AnyKind, Fault, Kind
from core.passes.indexing import Indexing, IndexWork
from core.passes.retracting import Retracting, RetractWork
from core.passes.sources import SourceSync, SourceWork
from core.passes.upkeep import Upkeep, UpkeepWork
from core.ports import Clock, FrontEnd
from core.privacy.desk import Desk
from core.privacy.erasure import EraseWork, ErasureService
from core.privacy.export import Exporting, ExportWork
from core.privacy.upkeep import PrivacyUpkeep
from core.prompt.builder import PromptBuilder
from core.prompt.catalog import Catalog
from core.providers.router import Router
from core.retrieval.git import Git
from core.retrieval.sources import Sources
from core.state.service import StateService
from core.store.access import ReadableRooms
from core.store.engine import Database

REPLY_TIMEOUT_S = 60.0
"""What a reply may take besides its calls to models, which have limits of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What everything else is built from; one of each for the process."""

    settings: Settings
    clock: Clock
    database: Database
    catalog: Catalog
    readable: ReadableRooms
    router: Router
    notices: Notices
    front_ends: Mapping[str, FrontEnd]
    metrics: Metrics
    desk: Desk
    search: SearchParts
    minds: StateService
    moderation: ModerationParts
    fault: Fault


def kinds_of(parts: Parts) -> dict[str, AnyKind]:
    """Return every kind of job with what runs it: the list that the outcome matrix is held against."""
    vectors = search_kinds(parts.search, parts.database, parts.clock, parts.metrics.observe)
    private = PrivacyUpkeep(parts.settings.home, parts.search.remote)
    upkeep = Upkeep(parts.metrics.observe, private, likeness=bool(parts.search.embedders))
    exporting = Exporting(database=parts.database, clock=parts.clock, readable=parts.readable, desk=parts.desk)
    syncs = SourceSync(Sources(Git(), parts.settings.home / "sources"))
    retracting = Retracting(parts.minds)
    receipting = Receipting(minds=parts.minds, observe=parts.metrics.observe)
    closing = Closing(front_ends=parts.front_ends)
    indexing = Indexing(parts.database, parts.clock, parts.metrics.observe)
    found: list[AnyKind] = [
        Kind(name="reply", pool="chat", payload=TurnWork, run=traced(_replier(parts).run), timeout_s=REPLY_TIMEOUT_S),
        Kind(name="command", pool="chat", payload=TurnWork, run=traced(_dispatcher(parts).run), timeout_s=30),
        Kind(name="summarize", pool="chat", payload=SummaryWork, run=traced(_summarizer(parts).run), timeout_s=60),
        Kind(name="send", pool="send", payload=SendWork, run=traced(_deliverer(parts).run), timeout_s=120),
        Kind(name="close_choices", pool="send", payload=ClosingWork, run=traced(closing.run), timeout_s=120),
        Kind(name="receipt", pool="upkeep", payload=ReceiptWork, run=traced(receipting.run), timeout_s=60),
        Kind(name="index", pool="upkeep", payload=IndexWork, run=traced(indexing.run), timeout_s=600),
        Kind(name="upkeep", pool="upkeep", payload=UpkeepWork, run=traced(upkeep.run), timeout_s=600),
        Kind(name="erase", pool="upkeep", payload=EraseWork, run=traced(_erasing(parts).run), timeout_s=3600),
        Kind(name="export", pool="upkeep", payload=ExportWork, run=traced(exporting.run), timeout_s=600),
        Kind(name="retract", pool="upkeep", payload=RetractWork, run=traced(retracting.run), timeout_s=600),
        Kind(name="sync_source", pool="upkeep", payload=SourceWork, run=traced(syncs.run), timeout_s=1800),
    ]
    return {kind.name: kind for kind in (*found, *vectors, *parts.moderation.kinds(), passes_of(parts).kind)}


def passes_of(parts: Parts) -> PassParts:
    """Return the parts of passes."""
    return PassParts(
        settings=parts.settings,
        database=parts.database,
        clock=parts.clock,
        catalog=parts.catalog,
        readable=parts.readable,
        minds=parts.minds,
        router=parts.router,
        voice=parts.notices.voice,
        promises=_promises(),
        likening=Likening(parts.database, parts.search.likeness),
        metrics=parts.metrics,
        fault=parts.fault,
    )


def _erasing(parts: Parts) -> ErasureService:
    return ErasureService(
        database=parts.database,
        clock=parts.clock,
        key=parts.desk.key,
        home=parts.settings.home,
        tell=parts.desk.tell,
        minds=parts.minds,
        vectors=parts.search.remote,
        fault=parts.fault,
    )


def _promises() -> Promises:
    promises = PROJECT / "prompts" / "stock" / "promises.md"
    return read_promises(str(promises), promises.read_text(encoding="utf-8"))


def _asking(parts: Parts) -> Asking:
    return Asking(
        database=parts.database,
        clock=parts.clock,
        builder=PromptBuilder(parts.catalog.templates),
        voice=parts.notices.voice,
        promises=_promises(),
        observe=parts.metrics.observe,
    )


def _replier(parts: Parts) -> Replier:
    return Replier(
        clock=parts.clock,
        front_ends=parts.front_ends,
        catalog=parts.catalog,
        voice=parts.notices.voice,
        readable=parts.readable,
        router=parts.router,
        asking=_asking(parts),
        minds=parts.minds,
        likening=Likening(parts.database, parts.search.likeness),
        likeness=parts.search.likeness,
        fault=parts.fault,
    )


def _summarizer(parts: Parts) -> Summarizer:
    return Summarizer(
        clock=parts.clock,
        catalog=parts.catalog,
        voice=parts.notices.voice,
        readable=parts.readable,
        router=parts.router,
        asking=_asking(parts),
        fault=parts.fault,
    )


def _dispatcher(parts: Parts) -> Dispatcher:
    services = Services(
        stock=parts.catalog.stock,
        readable=parts.readable,
        router=parts.router,
        personas=sorted(parts.catalog.personas),
        version=version("voidbot"),
        table=COMMANDS,
        privacy=parts.desk,
        minds=parts.minds,
        moderation=parts.moderation.desk,
        vectors=parts.search.embedders,
        archiving=parts.settings.archive.policy,
        passes=parts.settings.passes.policy,
    )
    return Dispatcher(
        table=COMMANDS, services=services, voice=parts.notices.voice, clock=parts.clock, likeness=parts.search.likeness
    )


def _deliverer(parts: Parts) -> Deliverer:
    return Deliverer(
        front_ends=parts.front_ends,
        clock=parts.clock,
        readable=parts.readable,
        notices=parts.notices,
        policy=parts.settings.archive.policy,
        observe=parts.metrics.observe,
        fault=parts.fault,
    )
