"""Search by likeness, put together: the embedders a process can ask, the store of vectors, and what a start does."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from bot.search_settings import MINILM, SearchSettings
from bot.tracing import traced
from core.domain.errors import BotError
from core.domain.vectors import EmbeddingModel
from core.jobs.executor import AnyKind, Kind, Observe
from core.passes.comparing import CompareWork, Comparing
from core.passes.embedding import Embedding, EmbedWork
from core.passes.reembedding import BuildIndex, Reembedding, ReembedWork
from core.ports import Clock, Embedder, VectorStore
from core.providers.embeddings import EndpointEmbedder
from core.providers.minilm import MODEL, MiniLm
from core.providers.qdrant import open_qdrant
from core.retrieval.service import Embedders, Likeness
from core.store import embeddings
from core.store.embeddings import ModelState
from core.store.engine import Database, Tx
from core.store.pgvector import PgVectorStore

Guard = Callable[[], None]
Say = Callable[[str], None]
EMBED_S, REEMBED_S, COMPARE_S = 600.0, 4 * 3600.0, 4 * 3600.0
"""How long one run may take: the last two read every vector and may build an index of millions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchParts:
    """What makes and finds vectors.

    `embedders` empty: search goes by words alone. `remote` None: vectors stand in Postgres and go with their units.
    `chosen`: the model to be read; `named`: by the operator, not by default.
    """

    embedders: Embedders
    store: VectorStore
    remote: VectorStore | None
    build_index: BuildIndex
    likeness: Likeness | None
    chosen: EmbeddingModel | None
    named: bool


@asynccontextmanager
async def open_search(
    settings: SearchSettings,
    database: Database,
    clock: Clock,
    *,
    guard: Guard,
    embedders: Sequence[Embedder] | None = None,
) -> AsyncIterator[SearchParts]:
    """Build what the settings name; nothing is loaded and nobody is asked yet.

    Args:
        settings: What the operator chose.
        database: Holds the units, and the vectors unless a Qdrant is set.
        clock: The time.
        guard: Raises while a transaction is open.
        embedders: Others for tests; the first one is chosen by default.

    Raises:
        Misconfigured: A Qdrant is set and its library is not installed.
    """
    async with AsyncExitStack() as stack:
        store: VectorStore
        remote: VectorStore | None = None
        build_index: BuildIndex = _nothing_to_build
        if settings.qdrant_url is None:
            store = local = PgVectorStore(database)
            build_index = local.build_index
        else:
            store = remote = qdrant = open_qdrant(settings.qdrant_url, settings.qdrant_api_key, guard=guard)
            stack.push_async_callback(qdrant.close)
        made: Sequence[Embedder] = ()
        if not settings.off:
            made = _embedders(settings, guard, stack) if embedders is None else embedders
        names = {each.model.name: each for each in made}
        yield SearchParts(
            embedders=names,
            store=store,
            remote=remote,
            build_index=build_index,
            likeness=Likeness(database, clock, names, store) if names else None,
            chosen=_chosen(settings, made),
            named=settings.named,
        )


async def _nothing_to_build(_: EmbeddingModel) -> bool:
    return False


def _embedders(settings: SearchSettings, guard: Guard, stack: AsyncExitStack) -> Sequence[Embedder]:
    """Return every embedder that can be asked: while models change two are, and which they are the database says."""
    local = MiniLm(guard=guard)
    stack.push_async_callback(local.aclose)
    made: list[Embedder] = [local]
    for entry in settings.entries:
        endpoint = EndpointEmbedder(entry, guard=guard)
        stack.push_async_callback(endpoint.aclose)
        made.append(endpoint)
    return made


def _chosen(settings: SearchSettings, made: Sequence[Embedder]) -> EmbeddingModel | None:
    named = [each.model for each in made if each.model.name == stored_name(settings.embeddings)]
    return next(iter([*named, *(each.model for each in made)]), None)


def stored_name(name: str) -> str:
    """Return the name under which vectors of a model are kept; operators call the one that ships `minilm`."""
    return MODEL.name if name == MINILM else name


async def begin_search(parts: SearchParts, database: Database, say: Say) -> None:
    """Bring the chosen model on its way to be read; what does not work is one line, and tried again by its jobs."""
    if parts.chosen is None:
        return
    try:
        async with database.transaction() as tx:
            model, line = await _begin(tx, parts, parts.chosen)
        if line:
            say(line)
        await parts.store.ensure(model)
    except BotError as exc:
        say(f"{exc.message}; until then search goes by words")


async def _begin(tx: Tx, parts: SearchParts, chosen: EmbeddingModel) -> tuple[EmbeddingModel, str]:
    """Return the model to be read, and what the operator is told of it."""
    known = await embeddings.list_models(tx)
    read = next((each.model for each in known if each.state is ModelState.READING), None)
    if read is not None and not parts.named:
        under_way = [each.model for each in known if each.state in (ModelState.BACKFILLING, ModelState.VERIFIED)]
        if (under_way or [read])[0].name in parts.embedders:
            return (under_way or [read])[0], ""
    stored = await embeddings.add_model(tx, chosen)
    if read is None or stored.state is ModelState.READING:
        return chosen, ""
    answers = f"{read.name} answers" if read.name in parts.embedders else f"{read.name} is not listed, words answer"
    return chosen, f"vectors are being made anew by {chosen.name}; {answers} until they are complete"


def search_kinds(parts: SearchParts, database: Database, clock: Clock, observe: Observe) -> list[AnyKind]:
    """Return the kinds of jobs that make, compare and drop vectors."""
    embedding = Embedding(database, clock, parts.embedders, parts.store, observe)
    reembedding = Reembedding(database, parts.embedders, parts.store, parts.build_index)
    comparing = Comparing(database, parts.embedders, parts.store, parts.build_index)
    return [
        Kind(name="embed", pool="upkeep", payload=EmbedWork, run=traced(embedding.run), timeout_s=EMBED_S),
        Kind(name="reembed", pool="upkeep", payload=ReembedWork, run=traced(reembedding.run), timeout_s=REEMBED_S),
        Kind(
            name="compare_vectors", pool="upkeep", payload=CompareWork, run=traced(comparing.run), timeout_s=COMPARE_S
        ),
    ]
