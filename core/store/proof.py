"""The proof of an erasure: every table and every file is read through, byte for byte, for what must not be there."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from core.domain.needles import Needles, Stream
from core.store.engine import Database, Tx, database_errors

PIECE_BYTES = 1 << 20
PLACES = 100
"""How many places of one table are named."""
OTHERS_WORDS = frozenset(
    {
        *("messages", "message_revisions", "attachments", "inbox", "units", "term_df", "import_errors"),
        *("case_evidence", "review_window", "case_reports", "appeals", "spam_examples", "mod_rules"),
        *("source_chunks", "source_files", "sources", "graph_nodes", "graph_edges"),
    }
)
"""Where other people's words stand. What they quote or say of somebody is theirs, and is listed."""

_TABLES = """
select n.nspname, c.relname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'r' and n.nspname !~ '^pg_' and n.nspname <> 'information_schema' order by 1, 2"""
_KEY = """
select coalesce(string_agg(a.attname, ', ' order by a.attnum), '') from pg_catalog.pg_index i
join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
where i.indisprimary and i.indrelid = $1::text::regclass"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was found. `row`: the row's key, or a file's name. `others`: in words of somebody else."""

    table: str
    row: str
    others: bool

    def __str__(self) -> str:
        return f"{self.table}:{self.row}"


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search has read, and what it found."""

    tables: int
    bytes: int
    files: int
    places: tuple[Place, ...]


async def search_database(database: Database, needles: Needles) -> Searched:
    """Read every table through; rows that hold a needle are found and named."""
    places: list[Place] = []
    read = 0
    async with database.transaction(durable=False, long=True) as tx:
        tables = [(row["nspname"], row["relname"]) for row in await tx.fetch(_TABLES)]
    for schema, table in tables:
        stream = Stream(needles)

        async def look(piece: bytes, stream: Stream = stream) -> None:
            stream.feed(piece)

        async with database.transaction(durable=False, long=True) as tx:
            await tx.copy_out(schema, table, look)
            read += stream.bytes
            if stream.found:
                places += await _locate(tx, schema, table, needles, sorted(stream.found))
    return Searched(len(tables), read, 0, tuple(places))


async def _locate(tx: Tx, schema: str, table: str, needles: Needles, found: Sequence[int]) -> list[Place]:
    """Return the rows that hold one of the needles, as the database reads them."""
    name = f'"{schema}"."{table}"'
    key = await tx.fetchval(_KEY, name)
    texts = [needles[n].decode(errors="replace") for n in found if not needles.is_id(n)]
    ids = [_word(needles[n].decode(errors="replace")) for n in found if needles.is_id(n)]
    mine = "t.kind = 'bot_reply'" if (schema, table) == ("voidbot", "messages") else "false"
    shown = f"concat_ws(',', {key})" if key else "t.ctid::text"
    rows = await tx.fetch(
        f"select {shown} as row, {mine} as mine"
        f" from {name} t cross join lateral (select to_jsonb(t)::text as json, t::text as plain) w"
        " where exists (select 1 from unnest($1::text[]) n"
        " where position(n in w.json) > 0 or position(n in w.plain) > 0)"
        " or exists (select 1 from unnest($2::text[]) i where w.json ~ i) limit $3",
        texts,
        ids,
        PLACES,
    )
    others = schema == "voidbot" and table in OTHERS_WORDS
    told = [needles[n].decode(errors="replace") for n in found]
    return [Place(f"{schema}.{table}", _hidden(str(row["row"]), told), others and not row["mine"]) for row in rows]


def _hidden(key: str, told: Sequence[str]) -> str:
    """Return a key without what was looked for: a place is written down where it would be found again."""
    for text in sorted(told, key=len, reverse=True):
        key = key.replace(text, "*")
    return key


def _word(text: str) -> str:
    """Return a pattern that finds an id only where it stands as a word of its own."""
    escaped = "".join(each if each.isalnum() or each == "_" else f"\\{each}" for each in text)
    return f"(^|[^[:alnum:]_]){escaped}($|[^[:alnum:]_])"


async def search_files(folder: Path, needles: Needles, *, but_not: frozenset[str]) -> Searched:
    """Read every file below `folder` through; first-level names in `but_not` are left out."""
    return await asyncio.to_thread(_search_files, folder, needles, but_not)


def _search_files(folder: Path, needles: Needles, but_not: frozenset[str]) -> Searched:
    places: list[Place] = []
    read = files = 0
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if inside.parts[0] in but_not or path.is_symlink() or not path.is_file():
            continue
        stream = Stream(needles)
        with suppress(OSError), path.open("rb") as file:  # a log may be turned over meanwhile
            while piece := file.read(PIECE_BYTES):
                stream.feed(piece)
        files += 1
        read += stream.bytes
        if stream.found:
            told = [needles[n].decode(errors="replace") for n in stream.found]
            places.append(Place("file", _hidden(inside.as_posix(), told), others=False))
    return Searched(0, read, files, tuple(places))


async def vacuum(database: Database, tables: Sequence[str]) -> bool:
    """Let the server give free what was deleted; return whether it could. Sizes and time are the server's business."""
    connection = await database.connect()
    try:
        with database_errors():
            for table in tables:
                await connection.execute(f'vacuum voidbot."{table}"', timeout=600)
            await connection.execute("checkpoint", timeout=600)
    except asyncpg.InsufficientPrivilegeError:  # on a server that is not ours the checkpoint is its owner's
        return False
    finally:
        await connection.close()
    return True
