"""Whether a given Postgres server will do: everything that is wrong is reported together, each with what to do."""

import secrets
from urllib.parse import urlsplit

import asyncpg

from core.domain.errors import Misconfigured, Unavailable
from core.store.engine import database_errors

LEAST_VERSION = 15
EXTENSIONS = ("vector", "pg_trgm", "unaccent", "btree_gin")
LEAST_VECTOR = (0, 8)

_FACTS = """
select current_setting('server_version_num')::int / 10000 as major, pg_is_in_recovery() as standby,
       (select pg_encoding_to_char(encoding) from pg_database where datname = current_database()) as encoding,
       coalesce((select jsonb_object_agg(extname, extversion) from pg_extension), '{}') as installed,
       current_setting('max_connections')::int as connections
"""


async def check_server(dsn: str) -> None:
    """Return if the server can hold VoidBot; make missing extensions where we may.

    Raises:
        Misconfigured: Everything that is wrong, one line each.
        Unavailable: It does not answer.
    """
    try:
        with database_errors():
            first = await asyncpg.connect(dsn, timeout=5)
    except Unavailable as exc:
        parts = urlsplit(dsn)
        where = f"{parts.hostname}:{parts.port or 5432}" if parts.hostname else "the socket"
        raise Unavailable(f"database: {where} does not answer; start the server, or correct DATABASE_URL") from exc
    with database_errors():
        try:
            problems = await _facts(first)
            second = await asyncpg.connect(dsn, timeout=5)
            try:
                problems += await _session(first, second)
            finally:
                await second.close()
        finally:
            await first.close()
    if problems:
        raise Misconfigured("database: this server will not do\n" + "\n".join(problems))


async def _facts(connection: "asyncpg.Connection[asyncpg.Record]") -> list[str]:
    row = await connection.fetchrow(_FACTS)
    if row is None:
        return ["the server answers nothing; check DATABASE_URL"]
    problems = []
    if row["major"] < LEAST_VERSION:
        problems.append(f"Postgres {row['major']} is too old; use {LEAST_VERSION} or newer")
    if row["standby"]:
        problems.append("this is a standby; let DATABASE_URL name the primary")
    if row["encoding"] != "UTF8":
        problems.append(f"the database's encoding is {row['encoding']}; create it with encoding UTF8")
    missing = []
    for name in EXTENSIONS:
        try:
            await connection.execute(f"create extension if not exists {name}")
        except asyncpg.PostgresError:
            missing.append(name)
    if missing:
        lines = " ".join(f"create extension {name};" for name in missing)
        problems.append(f"extensions are missing; let an administrator run in this database: {lines}")
    version = await connection.fetchval("select extversion from pg_extension where extname = 'vector'")
    if version is not None and tuple(int(part) for part in version.split(".")[:2]) < LEAST_VECTOR:
        problems.append(f"pgvector {version} is too old; install 0.8 or newer and run: alter extension vector update;")
    return problems


async def _session(
    first: "asyncpg.Connection[asyncpg.Record]", second: "asyncpg.Connection[asyncpg.Record]"
) -> list[str]:
    """Find out whether each connection keeps a server process of its own, as locks and LISTEN need."""
    probe = secrets.token_hex(8)
    await first.execute("select set_config('voidbot.probe', $1, false)", probe)
    await second.execute("select set_config('voidbot.probe', 'other', false)")
    kept = await first.fetchval("select current_setting('voidbot.probe', true)")
    shared = await first.fetchval("select pg_backend_pid()") == await second.fetchval("select pg_backend_pid()")
    if kept == probe and not shared:
        return []
    return ["the address leads to a pooler that shares connections; use the server's own port or session mode"]
