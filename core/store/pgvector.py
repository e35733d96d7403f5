"""Vectors in Postgres by pgvector: a table for each model, made when the model is first used.

A vector goes with its unit in the same transaction, by a foreign key. Up to `EXACT_ROWS` in reach every one is
compared; the index of the rest is built by `build_index` and is never asked where it could miss what it should find.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import asyncpg

from core.domain.errors import Misconfigured, Unavailable
from core.domain.ids import CommunityId, MessageId, PersonId, RoomId
from core.domain.vectors import (
    EmbeddingModel,
    UnitId,
    Vector,
    VectorHit,
    VectorRow,
    VectorScope,
    VectorsOf,
    normalised,
    storage_key,
)
from core.ports import VectorStore
from core.store.engine import Database, Row, Tx, database_errors

EXACT_ROWS = 20_000
"""Up to so many in reach are compared one by one: for 384 numbers 17 to 27 ms on a free core, 100 at a load of 10."""
INDEX_DIMENSIONS = 4_000
"""What an index of half-precision vectors can hold; larger ones are always compared one by one."""
LEAST_VERSION = (0, 8)
"""pgvector's first release whose index goes on reading until a filter has passed enough."""
_INLINE_DIMENSIONS = 3_500
"""Vectors up to this size fit a page, so that reading one never takes a second look-up."""
_ROWS_AT_ONCE = 500
_BUILD_S = 3_600

_HELD = """
select (select extversion from pg_catalog.pg_extension where extname = 'vector') as version,
       exists (select 1 from pg_catalog.pg_available_extensions where name = 'vector') as on_server
"""
_MAKE = """
create table {table} (
  unit_id bigint primary key references voidbot.units (id) on delete cascade,
  community_id bigint not null,
  room_id bigint not null,
  message_id bigint,
  author_id bigint,
  sent_at timestamptz not null,
  kind text not null,
  unit_hash text not null,
  embedding halfvec({dimension}) not null
)
"""
_MAKE_INDEXES = (
    "create index {name}_room_idx on {table} (community_id, room_id)",
    "create index {name}_message_idx on {table} (message_id)",
)
_SAME_NAME = """
select relname from pg_catalog.pg_class
where relnamespace = 'voidbot'::regnamespace and relkind = 'r' and starts_with(relname, $1)
"""
# A unit that is gone takes no vector; one that is being deleted is waited for.
_UPSERT = """
insert into {table} as held
    (unit_id, community_id, room_id, message_id, author_id, sent_at, kind, unit_hash, embedding)
select new.* from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::timestamptz[],
                         $7::text[], $8::text[], $9::halfvec[]) as new (unit_id)
join voidbot.units u on u.id = new.unit_id
for key share of u
on conflict (unit_id) do update set
    community_id = excluded.community_id, room_id = excluded.room_id, message_id = excluded.message_id,
    author_id = excluded.author_id, sent_at = excluded.sent_at, kind = excluded.kind, unit_hash = excluded.unit_hash,
    embedding = excluded.embedding
"""
_IN_SCOPE = """
community_id = $1 and room_id = any($2::bigint[])
  and (cardinality($3::bigint[]) = 0 or author_id = any($3))
  and ($4::timestamptz is null or sent_at >= $4) and ($5::timestamptz is null or sent_at < $5)
  and (cardinality($6::text[]) = 0 or kind = any($6))
"""
_COUNT = "select count(*) from {table} where " + _IN_SCOPE
_INDEXED = "select indisvalid from pg_catalog.pg_index where indexrelid = to_regclass($1)"
_IN_REACH = """
select count(*) from (select 1 from {table} where community_id = $1 and room_id = any($2::bigint[]) limit $3) as near
"""
# No order that the index could serve: the planner must not take it here.
_COMPARE_ALL = f"""
select unit_id, 1 - (embedding <=> $7::halfvec) as score, unit_hash from {{table}}
where {_IN_SCOPE} order by score desc, unit_id limit $8
"""
_TUNE = """
select set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.ef_search', $1, true),
       set_config('enable_sort', 'off', true)
"""
_ASK_INDEX = f"""
with near as materialized (
    select unit_id, embedding <=> $7::halfvec as distance, unit_hash from {{table}}
    where {_IN_SCOPE} order by embedding <=> $7::halfvec limit $8)
select unit_id, 1 - distance as score, unit_hash from near order by distance, unit_id
"""
_SCAN = """
select unit_id, community_id, room_id, message_id, author_id, sent_at, kind, unit_hash, embedding::real[] as numbers
from {table} where unit_id > $1 order by unit_id limit $2
"""
_BUILD = """
create index concurrently if not exists {name}_near_idx on {table}
    using hnsw (embedding halfvec_cosine_ops) with (m = 16, ef_construction = 64)
"""


class PgVectorStore(VectorStore):
    """The store beside everything else. A model that `ensure` was not called for counts as unavailable."""

    def __init__(self, database: Database, *, exact_rows: int = EXACT_ROWS) -> None:
        self._database = database
        self._exact_rows = exact_rows

    async def ensure(self, model: EmbeddingModel) -> None:
        """Make the model's table, and pgvector in this database where we may.

        Raises:
            Misconfigured: The same name stands for another dimension, or pgvector is missing, too old or not ours
                to make; the text says what to do.
        """
        async with self._database.transaction() as tx:
            await tx.execute("select pg_advisory_xact_lock(hashtext('voidbot.vectors'))")
            await _make_extension(tx)
            prefix = f"vec_{storage_key(model)}_"
            held = {row["relname"] for row in await tx.fetch(_SAME_NAME, prefix)}
            if name_of(model) in held:
                return
            if held:
                raise Misconfigured(
                    "vectors: this model's name stands for another dimension; give the model another name",
                    model=model.name,
                    asked=model.dimension,
                    held=held.pop().removeprefix(prefix),
                )
            await tx.execute(_of(_MAKE, model))
            for statement in _MAKE_INDEXES:
                await tx.execute(_of(statement, model))
            if model.dimension <= _INLINE_DIMENSIONS:
                await tx.execute(_of("alter table {table} alter column embedding set storage plain", model))

    async def upsert(self, model: EmbeddingModel, rows: Sequence[VectorRow]) -> None:
        """Store vectors; what a unit had before is replaced, and a unit that is gone is left out."""
        texts = {row.unit_id: _text(normalised(row.vector, model)) for row in rows}
        unique = sorted({row.unit_id: row for row in rows}.values(), key=lambda row: row.unit_id)
        if not unique:
            return
        # Vectors can be made again, and what notes them as made is committed after them.
        with missing_table(model):
            async with self._database.transaction(durable=False) as tx:
                for start in range(0, len(unique), _ROWS_AT_ONCE):
                    part = unique[start : start + _ROWS_AT_ONCE]
                    await tx.execute(_of(_UPSERT, model), *_columns(part), [texts[row.unit_id] for row in part])

    async def delete(self, model: EmbeddingModel, of: VectorsOf) -> int:
        """Delete vectors; return how many there were. What is deleted with its unit needs no call."""
        wanted: list[tuple[str, object]] = [("community_id =", of.community_id)]
        if of.units is not None:
            wanted.append(("unit_id = any", sorted(of.units)))
        given = (("room_id =", of.room_id), ("message_id =", of.message_id), ("author_id =", of.author_id))
        wanted += [(column, value) for column, value in given if value is not None]
        where = " and ".join(f"{column} (${n})" for n, (column, _) in enumerate(wanted, start=1))
        with missing_table(model):
            async with self._database.transaction() as tx:
                return await tx.execute(_of("delete from {table} where ", model) + where, *(each for _, each in wanted))

    async def search(self, model: EmbeddingModel, vector: Vector, scope: VectorScope, k: int) -> Sequence[VectorHit]:
        """Return the `k` most alike within the scope, best first, equal ones by unit."""
        asked = _text(normalised(vector, model))
        if not scope.rooms or k <= 0:
            return []
        with missing_table(model):
            async with self._database.transaction(durable=False) as tx:
                rows: list[Row] = []
                if await self._is_large(tx, model, scope):
                    await tx.execute(_TUNE, str(min(max(k, 100), 1000)))
                    rows = await tx.fetch(_of(_ASK_INDEX, model), *_bounds(scope), asked, k)
                if len(rows) < k:  # also where a rare author or kind made the index give up before it had enough
                    rows = await tx.fetch(_of(_COMPARE_ALL, model), *_bounds(scope), asked, k)
        return [VectorHit(UnitId(row["unit_id"]), _score(row["score"]), row["unit_hash"]) for row in rows]

    async def _is_large(self, tx: Tx, model: EmbeddingModel, scope: VectorScope) -> bool:
        """Return whether there is an index and more in reach than is compared one by one."""
        if not await tx.fetchval(_INDEXED, f"voidbot.{name_of(model)}_near_idx"):
            return False
        community_id, rooms, *_ = _bounds(scope)
        some: int = await tx.fetchval(_of(_IN_REACH, model), community_id, rooms, self._exact_rows + 1)
        return some > self._exact_rows

    async def count(self, model: EmbeddingModel, scope: VectorScope) -> int:
        """Return how many vectors the scope holds."""
        if not scope.rooms:
            return 0
        with missing_table(model):
            async with self._database.transaction(durable=False) as tx:
                counted: int = await tx.fetchval(_of(_COUNT, model), *_bounds(scope))
                return counted

    async def scan(self, model: EmbeddingModel, after: UnitId | None, limit: int) -> Sequence[VectorRow]:
        """Return vectors in order of their units, those behind `after`; numbers have the precision of a half."""
        with missing_table(model):
            async with self._database.transaction(durable=False) as tx:
                return [_row(each) for each in await tx.fetch(_of(_SCAN, model), -1 if after is None else after, limit)]

    async def drop(self, model: EmbeddingModel) -> None:
        """Remove the model's table; does nothing where there is none."""
        async with self._database.transaction() as tx:
            await tx.execute(_of("drop table if exists {table}", model))

    async def build_index(self, model: EmbeddingModel) -> bool:
        """Build the index where the table has grown beyond `EXACT_ROWS` and has none; writes go on meanwhile.

        Returns:
            Whether it was built now. Takes 0.8 ms (free core) to 4 ms a row of 384 numbers, on a connection of its own.
        """
        with missing_table(model):
            async with self._database.transaction(durable=False) as tx:
                rows: int = await tx.fetchval(
                    _of("select count(*) from (select 1 from {table} limit $1) as near", model), self._exact_rows + 1
                )
                held: bool | None = await tx.fetchval(_INDEXED, f"voidbot.{name_of(model)}_near_idx")
        if held or rows <= self._exact_rows or model.dimension > INDEX_DIMENSIONS:
            return False
        connection = await self._database.connect()
        try:
            with database_errors(), missing_table(model):
                # Without helpers: theirs share memory that containers give little of.
                for setting in ("max_parallel_maintenance_workers = 0", "maintenance_work_mem = '256MB'"):
                    await connection.execute(f"set {setting}")
                await connection.execute("set lock_timeout = '10min'")  # it waits for transactions, blocking none
                if held is False:  # left behind by a build that was interrupted
                    await connection.execute(_of("drop index concurrently voidbot.{name}_near_idx", model))
                await connection.execute(_of(_BUILD, model), timeout=_BUILD_S)
        finally:
            await connection.close()
        return True


def name_of(model: EmbeddingModel) -> str:
    """Return the name of the model's table in schema `voidbot`."""
    return f"vec_{storage_key(model)}_{model.dimension}"


@contextmanager
def missing_table(model: EmbeddingModel) -> Iterator[None]:
    """Say of a model that has no table that nothing is known of its vectors."""
    try:
        yield
    except asyncpg.UndefinedTableError as exc:
        raise Unavailable("vectors: there are none of this model here", model=model.name) from exc


async def _make_extension(tx: Tx) -> None:
    held = await _held(tx)
    if held == (None, True):
        try:
            await tx.execute("create extension if not exists vector")
        except asyncpg.InsufficientPrivilegeError as exc:
            raise Misconfigured(
                "vectors: this role may not make pgvector;"
                " let an administrator run in this database: create extension vector;"
            ) from exc
        held = await _held(tx)
    if problem := extension_problem(*held):
        raise Misconfigured(f"vectors: {problem}")


async def _held(tx: Tx) -> tuple[str | None, bool]:
    row = await tx.fetchrow(_HELD)
    return (None, False) if row is None else (row["version"], row["on_server"])


def extension_problem(version: str | None, on_server: bool) -> str | None:
    """Return what is wrong with pgvector and what to do, given the version in this database; None if it will do."""
    if version is None and not on_server:
        return "the database server has no pgvector; install pgvector 0.8 or newer there, or set QDRANT_URL"
    if version is None:
        return "pgvector is not in this database; let an administrator run in it: create extension vector;"
    if tuple(int(part) for part in version.split(".")[:2]) < LEAST_VERSION:
        return f"pgvector {version} is too old; install 0.8 or newer and run: alter extension vector update;"
    return None


def _of(sql: str, model: EmbeddingModel) -> str:
    name = name_of(model)
    return sql.format(name=name, table=f"voidbot.{name}", dimension=model.dimension)


def _text(vector: Vector) -> str:
    """Return the vector as pgvector reads it, in five digits; a half has little more than three."""
    return "[" + ",".join(["%.5g"] * len(vector)) % vector + "]"


def _columns(rows: Sequence[VectorRow]) -> tuple[list[object], ...]:
    values = (
        (r.unit_id, r.community_id, r.room_id, r.message_id, r.author_id, r.sent_at, r.kind, r.unit_hash) for r in rows
    )
    return tuple(list(column) for column in zip(*values, strict=True))


def _bounds(scope: VectorScope) -> tuple[object, ...]:
    return (
        scope.community_id,
        sorted(scope.rooms),
        sorted(scope.authors),
        scope.since,
        scope.until,
        sorted(scope.kinds),
    )


def _score(value: float) -> float:
    return max(-1.0, min(1.0, value))


def _row(row: Row) -> VectorRow:
    message_id, author_id = row["message_id"], row["author_id"]
    return VectorRow(
        unit_id=UnitId(row["unit_id"]),
        community_id=CommunityId(row["community_id"]),
        room_id=RoomId(row["room_id"]),
        message_id=None if message_id is None else MessageId(message_id),
        author_id=None if author_id is None else PersonId(author_id),
        sent_at=row["sent_at"],
        kind=row["kind"],
        unit_hash=row["unit_hash"],
        vector=tuple(row["numbers"]),
    )
