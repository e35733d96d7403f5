"""Bring what is stored of a source to what the source holds now: file by file, and nothing where nothing changed."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar, assert_never

from core.domain.chunk_formats import chunk_file
from core.domain.errors import BotError, Conflict, Misconfigured, TooLong
from core.domain.paths import read_text
from core.domain.sources import (
    MOST_FILES,
    Activity,
    Entry,
    LeftOut,
    Named,
    Plan,
    Scan,
    Source,
    SourceKind,
    SourceState,
    StoredFile,
    SyncReport,
    plan_sync,
)
from core.retrieval.folders import Folder
from core.retrieval.git import Git
from core.retrieval.graph_files import parse_graph, read_graph_file
from core.retrieval.repositories import open_repository
from core.store import graphs, sources
from core.store.engine import Tx
from core.store.sources import ReadFile

BATCH_FILES = 20
BATCH_CHARS = 200_000
BATCH_MOVES = 200

T = TypeVar("T")
ReadEntry = Callable[[Entry], Awaitable[bytes]]


class Advance(Protocol):
    """Runs work in one transaction and commits it: a job's way to write, or the command line's."""

    async def __call__(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Return what `work` returned, once it is committed."""
        ...


@dataclass(frozen=True, slots=True)
class Sources:
    """Reads sources. `mirrors`: the folder in which repositories of an address are kept."""

    git: Git
    mirrors: Path

    async def sync(self, source: Source, advance: Advance) -> SyncReport:
        """Bring the stored files to the source's and return what was done; a failure is noted on the source.

        Raises:
            BotError: The source could not be read; what was read before stays usable.
            StaleState: Another sync of it has begun.
        """
        try:
            match source.kind:
                case SourceKind.GIT:
                    return await self._sync_repository(source, advance)
                case SourceKind.FOLDER:
                    return await self._sync_folder(source, advance)
                case SourceKind.GRAPH:
                    return await self._sync_graph(source, advance)
                case _:
                    assert_never(source.kind)
        except Conflict:
            raise
        except BotError as exc:
            await advance(partial(_note_failure, source, exc.message))
            raise

    async def recent(self, source: Source, cursor: str, limit: int = 20) -> Activity:
        """Return what was committed up to the last sync and behind `cursor`, oldest first.

        The caller stores `last` as the new cursor in the transaction that keeps what it read.

        Raises:
            Misconfigured: The source is no repository, or was never synced.
        """
        if source.kind is not SourceKind.GIT or not source.head:
            raise Misconfigured(f"source {source.name}: only a repository that was synced has commits")
        repository = await open_repository(self.git, source, self.mirrors, fetch=False)
        return await repository.activity(source.head, cursor, limit)

    async def forget(self, source: Source) -> None:
        """Remove the mirror of a source, if there is one on this machine."""
        await asyncio.to_thread(shutil.rmtree, self.mirrors / f"{source.id}.git", ignore_errors=True)

    async def _sync_repository(self, source: Source, advance: Advance) -> SyncReport:
        repository = await open_repository(self.git, source, self.mirrors)
        scan = await repository.scan(source.include, source.exclude)
        async with AsyncExitStack() as stack:
            blobs = await stack.enter_async_context(repository.blobs())
            return await _bring(source, scan, blobs.read, advance)

    async def _sync_folder(self, source: Source, advance: Advance) -> SyncReport:
        folder = Folder(Path(source.location))
        scan = await folder.scan(source.include, source.exclude)
        return await _bring(source, scan, folder.read, advance)

    async def _sync_graph(self, source: Source, advance: Advance) -> SyncReport:
        content, content_hash = await read_graph_file(source.name, source.location)
        report = SyncReport(name=source.name, head=content_hash)
        before = await advance(partial(_graph_hash, source))
        if before == content_hash and source.state is SourceState.ACTIVE:
            return replace(report, unchanged=1)
        graph = await asyncio.to_thread(parse_graph, source.name, content)

        async def put(tx: Tx) -> None:
            generation = await sources.begin_sync(tx, source.id)
            await graphs.replace_graph(tx, source.id, content_hash, graph)
            await sources.finish_sync(tx, source.id, generation, content_hash)

        await advance(put)
        return replace(
            report,
            changed=int(bool(before)),
            added=int(not before),
            nodes=len(graph.nodes),
            edges=len(graph.edges),
            dangling=graph.dangling,
        )


async def _graph_hash(source: Source, tx: Tx) -> str:
    return await graphs.graph_hash(tx, source.id)


async def _note_failure(source: Source, error: str, tx: Tx) -> None:
    await sources.note_failure(tx, source.id, error)


async def _bring(source: Source, scan: Scan, read: ReadEntry, advance: Advance) -> SyncReport:
    if len(scan.entries) > MOST_FILES:
        raise TooLong(f"source {source.name}: holds more than {MOST_FILES} files; name what matters with --include")
    stored, known = await advance(partial(_stored, source))
    plan = plan_sync(stored, scan.entries)
    still = {entry.path: entry.blob_hash for entry in scan.entries}
    written = {entry.path for entry, _ in plan.write}
    silent = tuple(Named(path, reason) for path, reason in known if path in still and path not in written)
    report = SyncReport(
        name=source.name,
        head=scan.head,
        files=len(scan.entries),
        unchanged=plan.unchanged,
        left_out=scan.left_out + silent,
    )
    if plan.empty and scan.head == source.head and source.state is SourceState.ACTIVE:
        return report
    generation = await advance(partial(_begin, source))
    report = await _write(source, generation, plan, read, advance, report)

    async def finish(tx: Tx) -> None:
        await sources.hold_sync(tx, source.id, generation)
        await sources.finish_sync(tx, source.id, generation, scan.head)

    await advance(finish)
    return report


async def _stored(source: Source, tx: Tx) -> tuple[list[StoredFile], list[tuple[str, LeftOut]]]:
    return await sources.stored_files(tx, source.id), await sources.list_left_out(tx, source.id)


async def _begin(source: Source, tx: Tx) -> int:
    return await sources.begin_sync(tx, source.id)


async def _write(
    source: Source, generation: int, plan: Plan, read: ReadEntry, advance: Advance, report: SyncReport
) -> SyncReport:
    for at in range(0, len(plan.remove), BATCH_MOVES):
        await advance(partial(_remove, source, generation, plan.remove[at : at + BATCH_MOVES]))
    for at in range(0, len(plan.rename), BATCH_MOVES):
        await advance(partial(_rename, source, generation, plan.rename[at : at + BATCH_MOVES]))
    chunks, noticed = 0, list(report.left_out)
    waiting: list[ReadFile] = []
    chars = 0
    for entry, _ in plan.write:
        file = await asyncio.to_thread(_cut, entry, await read(entry))
        if file.left_out is not None:
            noticed.append(Named(entry.path, file.left_out))
        waiting.append(file)
        chunks += len(file.chunks)
        chars += sum(len(chunk.text) for chunk in file.chunks)
        if len(waiting) >= BATCH_FILES or chars >= BATCH_CHARS:
            await advance(partial(_put, source, generation, tuple(waiting)))
            waiting, chars = [], 0
    if waiting:
        await advance(partial(_put, source, generation, tuple(waiting)))
    return replace(
        report,
        added=sum(before is None for _, before in plan.write),
        changed=sum(before is not None for _, before in plan.write),
        renamed=len(plan.rename),
        removed=len(plan.remove),
        chunks=chunks,
        left_out=tuple(noticed),
    )


async def _remove(source: Source, generation: int, files: Sequence[StoredFile], tx: Tx) -> None:
    await sources.hold_sync(tx, source.id, generation)
    await sources.remove_files(tx, source.id, files)


async def _rename(source: Source, generation: int, files: Sequence[tuple[StoredFile, Entry]], tx: Tx) -> None:
    await sources.hold_sync(tx, source.id, generation)
    for old, entry in files:
        await sources.rename_file(tx, source.id, old, entry.path)


async def _put(source: Source, generation: int, files: Sequence[ReadFile], tx: Tx) -> None:
    await sources.hold_sync(tx, source.id, generation)
    for file in files:
        await sources.write_file(tx, source.id, file)


def _cut(entry: Entry, content: bytes) -> ReadFile:
    text = read_text(content)
    if isinstance(text, LeftOut):
        return ReadFile(entry, left_out=text)
    return ReadFile(entry, tuple(chunk for chunk in chunk_file(entry.path, text) if chunk.text.strip()))
