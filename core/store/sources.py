"""Lore: sources, their files, chunks and cursors. Only this module writes these tables.

A sync writes file by file under the generation that it was given; a newer sync takes it away.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from core.domain.chunks import Chunk, inner_words, name_words
from core.domain.errors import InputRejected, StaleState
from core.domain.sources import (
    Entry,
    LeftOut,
    Source,
    SourceId,
    SourceKind,
    SourceState,
    StoredFile,
    Visibility,
)
from core.store.engine import Row, Tx
from core.store.graphs import DELETE_ROWS, delete_in_steps, remove_graph
from core.store.words import clean

_COLUMNS = "s.id, s.kind, s.name, s.location, s.include, s.exclude, s.state, s.head, s.error, s.hourly"
_ADD = """
insert into voidbot.sources (kind, name, location, include, exclude, hourly, all_rooms)
values ($1, $2, $3, $4, $5, $6, $7) on conflict (name) do nothing returning id"""
_COMMUNITIES = "insert into voidbot.source_communities (source_id, community_id) select $1, unnest($2::bigint[])"
_ROOMS = "insert into voidbot.source_rooms (source_id, room_id) select $1, unnest($2::bigint[])"
_LIST = f"""
select {_COLUMNS}, s.all_rooms, s.synced_at,
       array(select community_id from voidbot.source_communities c where c.source_id = s.id order by 1) as communities,
       array(select room_id from voidbot.source_rooms r where r.source_id = s.id order by 1) as rooms,
       (select count(*) from voidbot.source_files f where f.source_id = s.id and f.state = 'taken') as files,
       (select count(*) from voidbot.source_chunks k where k.source_id = s.id) as chunks
from voidbot.sources s order by s.name"""
_DROP_CHUNKS = f"""
delete from voidbot.source_chunks where ctid = any(array(
    select ctid from voidbot.source_chunks where source_id = $1 limit {DELETE_ROWS}))"""
_DROP_FILES = f"""
delete from voidbot.source_files where ctid = any(array(
    select ctid from voidbot.source_files where source_id = $1 limit {DELETE_ROWS}))"""


@dataclass(frozen=True, slots=True)
class ListedSource:
    """A source as operators see it. `synced_at`: when a sync last changed something, None before that."""

    source: Source
    visibility: Visibility
    files: int
    chunks: int
    synced_at: datetime | None


def _source_of(row: Row) -> Source:
    return Source(
        id=SourceId(row["id"]),
        kind=SourceKind(row["kind"]),
        name=row["name"],
        location=row["location"],
        include=tuple(row["include"]),
        exclude=tuple(row["exclude"]),
        state=SourceState(row["state"]),
        head=row["head"],
        error=row["error"],
        hourly=row["hourly"],
    )


async def add_source(
    tx: Tx,
    kind: SourceKind,
    name: str,
    location: str,
    visibility: Visibility,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    hourly: bool = False,
) -> SourceId:
    """Add a source; nothing of it is read before its first sync.

    Raises:
        InputRejected: The name is taken, or the visibility names nobody or a room of another community.
    """
    rooms = visibility.rooms
    if not visibility.communities or (rooms is not None and not rooms):
        raise InputRejected(f"source {name}: say which communities and rooms may be told what it says")
    if rooms is not None and await tx.fetchval(
        "select count(*) from voidbot.rooms where id = any($1::bigint[]) and community_id = any($2::bigint[])",
        sorted(rooms),
        sorted(visibility.communities),
    ) != len(rooms):
        raise InputRejected(f"source {name}: a listed room is not in a listed community")
    made = await tx.fetchval(_ADD, kind, name, location, list(include), list(exclude), hourly, rooms is None)
    if made is None:
        raise InputRejected(f"source {name}: there is one of this name; remove it first or choose another")
    await tx.execute(_COMMUNITIES, made, sorted(visibility.communities))
    await tx.execute(_ROOMS, made, sorted(rooms or ()))
    return SourceId(made)


async def list_sources(tx: Tx) -> list[ListedSource]:
    """Return every source with its counts, by name."""
    return [
        ListedSource(
            _source_of(row),
            Visibility(frozenset(row["communities"]), None if row["all_rooms"] else frozenset(row["rooms"])),
            row["files"],
            row["chunks"],
            row["synced_at"],
        )
        for row in await tx.fetch(_LIST)
    ]


async def find_source(tx: Tx, name: str) -> Source | None:
    """Return the source of this name."""
    row = await tx.fetchrow(f"select {_COLUMNS} from voidbot.sources s where s.name = $1", name)
    return None if row is None else _source_of(row)


async def load_source(tx: Tx, source_id: SourceId) -> Source | None:
    """Return a source; None if it was removed."""
    row = await tx.fetchrow(f"select {_COLUMNS} from voidbot.sources s where s.id = $1", source_id)
    return None if row is None else _source_of(row)


async def list_hourly(tx: Tx) -> list[tuple[SourceId, str]]:
    """Return the sources that are synced by themselves, each with the present hour as its slot."""
    rows = await tx.fetch(
        "select id, to_char(voidbot.now() at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24\"Z\"') as hour"
        " from voidbot.sources where hourly order by id"
    )
    return [(SourceId(row["id"]), row["hour"]) for row in rows]


async def remove_source(tx: Tx, source_id: SourceId) -> bool:
    """Remove a source with everything that was read of it; False if there is none."""
    await delete_in_steps(tx, _DROP_CHUNKS, source_id)
    await delete_in_steps(tx, _DROP_FILES, source_id)
    await remove_graph(tx, source_id)
    return await tx.execute("delete from voidbot.sources where id = $1", source_id) > 0


# A sync

_BEGIN = "update voidbot.sources set generation = generation + 1 where id = $1 returning generation"
_GUARD = "select 1 from voidbot.sources where id = $1 and generation = $2 for update"
_FILE = """
insert into voidbot.source_files (source_id, path, blob_hash, bytes, state, reason) values ($1, $2, $3, $4, $5, $6)
on conflict (source_id, path) do update
set blob_hash = excluded.blob_hash, bytes = excluded.bytes, state = excluded.state, reason = excluded.reason
returning id"""
# `offset 0` keeps the planner from making each vector once for each place that it is used in.
_CHUNKS = """
insert into voidbot.source_chunks
    (source_id, file_id, ordinal, line_start, line_end, symbol, blob_hash, text, len, tsv)
select $1, $2, u.ordinal, u.line_start, u.line_end, u.symbol, $3, u.text, length(t.own) + 0.3 * length(t.names),
       t.own || t.names
from unnest($4::bigint[], $5::bigint[], $6::bigint[], $7::text[], $8::text[], $9::text[], $10::text[])
     as u(ordinal, line_start, line_end, symbol, text, inner_words, names),
     lateral (select setweight(to_tsvector('english', u.text || ' ' || u.inner_words), 'A') as own,
                     setweight(to_tsvector('english', u.names), 'C') as names
              offset 0) t"""
_RENAME = "update voidbot.source_files set path = $3 where id = $2 and source_id = $1"
_OF_FILE = "select id, symbol from voidbot.source_chunks where file_id = $1"
_RENAMED = """
update voidbot.source_chunks c
set tsv = t.own || t.names, len = length(t.own) + 0.3 * length(t.names)
from unnest($1::bigint[], $2::text[]) as u(id, names),
     lateral (select ts_filter(k.tsv, '{a}') as own, setweight(to_tsvector('english', u.names), 'C') as names
              from voidbot.source_chunks k where k.id = u.id) t
where c.id = u.id"""
_DONE = """
update voidbot.sources set head = $3, state = 'active', error = '', synced_at = voidbot.now()
where id = $1 and generation = $2"""


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A file on its way in. `left_out`: why it has no chunks although it was asked for."""

    entry: Entry
    chunks: tuple[Chunk, ...] = ()
    left_out: LeftOut | None = None


async def stored_files(tx: Tx, source_id: SourceId) -> list[StoredFile]:
    """Return the files that earlier syncs read, those included that gave nothing."""
    rows = await tx.fetch("select id, path, blob_hash from voidbot.source_files where source_id = $1", source_id)
    return [StoredFile(row["id"], row["path"], row["blob_hash"]) for row in rows]


async def list_left_out(tx: Tx, source_id: SourceId) -> list[tuple[str, LeftOut]]:
    """Return the files that were read and gave nothing, with the reason."""
    rows = await tx.fetch(
        "select path, reason from voidbot.source_files where source_id = $1 and state = 'left_out' order by path",
        source_id,
    )
    return [(row["path"], LeftOut(row["reason"])) for row in rows]


async def begin_sync(tx: Tx, source_id: SourceId) -> int:
    """Return the generation under which a sync may write from now on; an older one no longer may.

    Raises:
        StaleState: The source was removed.
    """
    generation = await tx.fetchval(_BEGIN, source_id)
    if generation is None:
        raise StaleState("source: removed meanwhile")
    return int(generation)


async def hold_sync(tx: Tx, source_id: SourceId, generation: int) -> None:
    """Make sure that this sync may still write.

    Raises:
        StaleState: Another sync has begun, or the source was removed.
    """
    if await tx.fetchval(_GUARD, source_id, generation) is None:
        raise StaleState("source: another sync has taken over")


async def write_file(tx: Tx, source_id: SourceId, file: ReadFile) -> None:
    """Put a file's new chunks in place of its old ones."""
    entry = file.entry
    state = "taken" if file.left_out is None else "left_out"
    reason = file.left_out or ""
    file_id = await tx.fetchval(_FILE, source_id, entry.path, entry.blob_hash, entry.size, state, reason)
    await tx.execute("delete from voidbot.source_chunks where file_id = $1", file_id)
    if not file.chunks:
        return
    await tx.execute(
        _CHUNKS,
        source_id,
        file_id,
        entry.blob_hash,
        list(range(len(file.chunks))),
        [chunk.line_start for chunk in file.chunks],
        [chunk.line_end for chunk in file.chunks],
        [chunk.symbol for chunk in file.chunks],
        [chunk.text for chunk in file.chunks],
        [inner_words(chunk.text) for chunk in file.chunks],
        [name_words(entry.path, chunk.symbol) for chunk in file.chunks],
    )


async def rename_file(tx: Tx, source_id: SourceId, old: StoredFile, path: str) -> None:
    """Give a file another path; its chunks stay, only the words of the path are indexed anew."""
    await tx.execute(_RENAME, source_id, old.id, path)
    rows = await tx.fetch(_OF_FILE, old.id)
    await tx.execute(_RENAMED, [row["id"] for row in rows], [name_words(path, row["symbol"]) for row in rows])


async def remove_files(tx: Tx, source_id: SourceId, files: Sequence[StoredFile]) -> None:
    """Remove files with their chunks."""
    ids = [file.id for file in files]
    await tx.execute("delete from voidbot.source_files where source_id = $1 and id = any($2::bigint[])", source_id, ids)


async def finish_sync(tx: Tx, source_id: SourceId, generation: int, head: str) -> None:
    """Note what the source's files are now."""
    await tx.execute(_DONE, source_id, generation, head)


async def note_failure(tx: Tx, source_id: SourceId, error: str) -> None:
    """Note that a sync failed; what was read before stays usable. The same failure again writes nothing."""
    await tx.execute(
        "update voidbot.sources set state = 'failing', error = $2 where id = $1 and (state, error) <> ('failing', $2)",
        source_id,
        clean(error)[:500],
    )


# Activity

_CURSOR = """
insert into voidbot.source_cursors (source_id, consumer, last) values ($1, $2, $3)
on conflict (source_id, consumer) do update set last = excluded.last, at = voidbot.now()
where source_cursors.last <> excluded.last"""


async def load_cursor(tx: Tx, source_id: SourceId, consumer: str) -> str:
    """Return how far a consumer has read the source's commits; empty if it never has."""
    last = await tx.fetchval(
        "select last from voidbot.source_cursors where source_id = $1 and consumer = $2", source_id, consumer
    )
    return str(last or "")


async def save_cursor(tx: Tx, source_id: SourceId, consumer: str, last: str) -> None:
    """Note how far a consumer has read, in the transaction that keeps what it read."""
    await tx.execute(_CURSOR, source_id, consumer, last)
