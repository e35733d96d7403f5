"""The databases of tests: clones of one migrated template, swept after each test and used again.

Its law: a swept clone is as the template is, or it is dropped. A clone costs the server hundreds of files.
"""

import secrets
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit

import asyncpg

# Whatever changes a schema, a setting of the database or what the planner knows leaves a new row or takes one away.
_SHAPE = " union all ".join(
    f"select '{catalog} ' || count(*) || ' ' || coalesce(max(xmin::text::bigint), 0) from {catalog}{where}"
    for catalog, where in {
        "pg_attrdef": "",
        "pg_attribute": "",
        "pg_class": "",
        "pg_constraint": "",
        "pg_extension": "",
        "pg_index": "",
        "pg_namespace": "",
        "pg_proc": "",
        "pg_trigger": "",
        "pg_type": "",
        "pg_db_role_setting": " where setdatabase = (select oid from pg_database where datname = current_database())",
    }.items()
)
_ANALYSED = "select 'analysed ' || count(*) from pg_class where relkind in ('r', 'p') and reltuples >= 0"
_OURS = "n.nspname in ('voidbot', 'queue', 'public')"
_TABLES = f"""
select format('%I.%I', n.nspname, c.relname) as name, pg_relation_size(c.oid) / 8192 as pages
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.relkind = 'r' and {_OURS} and pg_relation_size(c.oid) > 0
 order by 1
"""
_COUNTED = f"""
select format('%I.%I', n.nspname, c.relname) as name, s.seqstart as start
  from pg_sequence s join pg_class c on c.oid = s.seqrelid join pg_namespace n on n.oid = c.relnamespace
 where {_OURS} and pg_sequence_last_value(s.seqrelid) is not null
"""
_OTHERS = """
select pg_terminate_backend(pid, 10000) from pg_stat_activity
 where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
"""
# Up to here the planner takes a table that nobody analysed for one of ten pages, whatever once stood in it.
_PAGES = 10


def on_database(dsn: str, name: str) -> str:
    """Return the same server's address with another database."""
    return urlunsplit(urlsplit(dsn)._replace(path=f"/{name}"))


async def run_sql(dsn: str, *statements: str) -> None:
    """Run statements outside any transaction of ours."""
    connection = await asyncpg.connect(dsn)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


@dataclass(frozen=True, slots=True)
class Shape:
    """What is compared, not swept: the catalogs, and the tables that migrations left rows in, with their state."""

    catalogs: tuple[str, ...]
    kept: dict[str, str]


@dataclass(slots=True)
class Clones:
    """Clones of one template on one server."""

    server: str
    template: str
    _free: list[str] = field(default_factory=list)
    _made: set[str] = field(default_factory=set)
    _shape: Shape | None = None

    async def fresh(self) -> str:
        """Return the name of a clone that nobody has used."""
        name = f"test_{secrets.token_hex(6)}"
        await run_sql(self.server, f"create database {name} template {self.template} strategy file_copy")
        self._made.add(name)
        return name

    async def take(self) -> str:
        """Return the name of a clone that is as the template is."""
        name = self._free.pop() if self._free else await self.fresh()
        if self._shape is None:
            connection = await asyncpg.connect(on_database(self.server, name))
            try:
                self._shape = await _shape(connection, None)
                assert await connection.fetch(_COUNTED) == [], "migrations draw from a sequence; sweep it to there"
            finally:
                await connection.close()
        return name

    async def give_back(self, name: str) -> None:
        """Sweep a clone for the next test; drop it if that does not make it what it was."""
        if await self._swept(name):
            self._free.append(name)
        else:
            await self.drop(name)

    async def drop(self, name: str) -> None:
        self._made.discard(name)
        await run_sql(self.server, f"drop database if exists {name} with (force)")

    async def close(self) -> None:
        for name in sorted(self._made):
            await self.drop(name)

    async def _swept(self, name: str) -> bool:
        assert self._shape is not None
        try:
            connection = await asyncpg.connect(on_database(self.server, name))
        except asyncpg.PostgresError:
            return False  # renamed, dropped, or closed to connections
        try:
            await connection.execute(_OTHERS)
            if await _shape(connection, self._shape) != self._shape:
                return False
            tables = [row for row in await connection.fetch(_TABLES) if row["name"] not in self._shape.kept]
            if any(row["pages"] > _PAGES for row in tables):
                return False
            await _sweep(connection, [row["name"] for row in tables])
            return True
        finally:
            await connection.close()


async def _shape(connection: "asyncpg.Connection[asyncpg.Record]", known: Shape | None) -> Shape:
    """Return the shape of a clone; `known` names what is to be compared, none means that the clone is fresh."""
    catalogs = tuple(row[0] for row in await connection.fetch(f"{_SHAPE} union all {_ANALYSED}"))
    names = [row["name"] for row in await connection.fetch(_TABLES)] if known is None else list(known.kept)
    kept = {}
    for name in names:
        kept[name] = await connection.fetchval(
            f"select count(*) || ' ' || coalesce(max(xmin::text::bigint), 0) from {name}"
        )
    return Shape(catalogs, kept)


async def _sweep(connection: "asyncpg.Connection[asyncpg.Record]", tables: list[str]) -> None:
    """Take all rows away in one statement, so that references are looked at when all are gone; count anew."""
    # The journal of a mind and the ledger of moderation let nobody delete from them.
    await connection.execute("set voidbot.journal = 'open'; set voidbot.ledger = 'clearing'")
    parts = ", ".join(f"t{n} as (delete from {table})" for n, table in enumerate(tables))
    await connection.execute((f"with {parts} " if parts else "") + "update voidbot_test.clock set shift = '0'")
    for row in await connection.fetch(_COUNTED):
        await connection.execute("select setval($1::regclass, $2, false)", row["name"], row["start"])
