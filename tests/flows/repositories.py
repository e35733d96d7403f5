"""Real git repositories in temporary folders, well-behaved and hostile, and a store to sync them into."""

import secrets
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from core.domain.ids import CommunityId, RoomId, RoomKey
from core.domain.rooms import RoomKind
from core.domain.sources import Activity, Source, SourceId, SourceKind, SyncReport, Visibility
from core.retrieval.git import Git
from core.retrieval.sources import Sources
from core.store import places, sources
from core.store.engine import Database, Tx
from core.store.lore_search import ChunkHit, search_chunks
from tests.conftest import on_database, run_sql

T = TypeVar("T")


@asynccontextmanager
async def fresh_database(server: str, template: str) -> AsyncIterator[Database]:
    """Open a clone of the template for a whole file of tests; drop it afterwards."""
    name = f"test_{secrets.token_hex(6)}"
    await run_sql(server, f"create database {name} template {template}")
    database = await Database.open(on_database(server, name), size=4)
    yield database
    await database.close()
    await run_sql(server, f"drop database {name} with (force)")


_QUIET = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in
       (("NAME", "Ana"), ("EMAIL", "ana@example.org"), ("DATE", "2026-05-07T10:00:00+00:00"))},
}  # fmt: skip


@dataclass(frozen=True)
class Checkout:
    """A repository that a test writes."""

    folder: Path

    @classmethod
    def new(cls, folder: Path) -> "Checkout":
        folder.mkdir(parents=True)
        made = cls(folder)
        made.git("init", "--quiet", "--initial-branch=main", ".")
        return made

    def git(self, *words: str, given: bytes = b"") -> str:
        done = subprocess.run(
            ["git", "-C", str(self.folder), *words], env=_QUIET, input=given, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr.decode(errors="replace")
        return done.stdout.decode(errors="replace").strip()

    def write(self, path: str, content: str | bytes) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(self, subject: str, **files: str) -> str:
        """Write `files`, double underscores for slashes and one for the dot before the ending; commit everything."""
        for name, content in files.items():
            self.write(".".join(name.replace("__", "/").rsplit("_", 1)), content)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", subject)
        return self.git("rev-parse", "HEAD")

    def commit_tree(self, *records: bytes) -> str:
        """Commit a tree of raw records `mode SP type SP hash TAB path`, checked by nobody."""
        blob = self.git("hash-object", "-w", "--stdin", given=b"words\n")
        lines = b"\0".join(record.replace(b"BLOB", blob.encode()) for record in records) + b"\0"
        tree = self.git("mktree", "-z", "--missing", given=lines)
        commit = self.git("commit-tree", tree, "-m", "odd")
        self.git("update-ref", "HEAD", commit)
        return commit


@dataclass(frozen=True)
class Library:
    """One community with a lobby and a staff room, and what was synced for it."""

    database: Database
    sources: Sources
    community: CommunityId
    lobby: RoomId
    staff: RoomId

    @classmethod
    async def open(cls, database: Database, home: Path, git: Git | None = None) -> "Library":
        async with database.transaction() as tx:
            await tx.execute("delete from voidbot.sources")
            community = await places.add_community(tx, "console", "console", "Here")
            lobby, staff = [
                await places.add_room(tx, community, RoomKey("console", name), RoomKind.TERMINAL, name)
                for name in ("lobby", "staff")
            ]
        return cls(database, Sources(git or Git(), home / "sources"), community, lobby, staff)

    async def advance(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        async with self.database.transaction() as tx:
            return await work(tx)

    async def add(self, kind: SourceKind, location: Path | str, name: str = "lore", **more: object) -> SourceId:
        rooms = more.pop("rooms", None)
        visibility = Visibility(frozenset({self.community}), rooms)  # type: ignore[arg-type]  # a test's own
        async with self.database.transaction() as tx:
            return await sources.add_source(tx, kind, name, str(location), visibility, **more)  # type: ignore[arg-type]

    async def source(self, source_id: SourceId) -> Source:
        async with self.database.transaction() as tx:
            found = await sources.load_source(tx, source_id)
        assert found is not None
        return found

    async def sync(self, source_id: SourceId) -> SyncReport:
        return await self.sources.sync(await self.source(source_id), self.advance)

    async def recent(self, source_id: SourceId, cursor: str, limit: int) -> Activity:
        return await self.sources.recent(await self.source(source_id), cursor, limit)

    async def find(self, text: str, *readable: RoomId) -> list[ChunkHit]:
        async with self.database.transaction() as tx:
            return await search_chunks(tx, readable or (self.lobby,), self.community, text, 5)

    async def rows(self) -> list[tuple[object, ...]]:
        """Return every row of lore with its version: equal lists mean that nothing was written in between."""
        tables = ("sources", "source_files", "source_chunks", "source_cursors", "graphs", "graph_nodes", "graph_edges")
        found: list[tuple[object, ...]] = []
        async with self.database.transaction() as tx:
            for table in tables:
                rows = await tx.fetch(f"select xmin::text, ctid::text, t.*::text from voidbot.{table} t order by ctid")
                found += [(table, *row.values()) for row in rows]
        return found

    async def values(self, sql: str) -> list[object]:
        async with self.database.transaction() as tx:
            return [row[0] for row in await tx.fetch(sql)]
