"""The mark of a restore that is not finished: nothing serves a database in which erasures wait to be done again."""

import asyncpg

from core.domain.errors import Misconfigured
from core.store.engine import database_errors

_MARK = "create table if not exists public.voidbot_restoring (at timestamptz not null)"
_UNMARK = "drop table if exists public.voidbot_restoring"
_MARKED = "select to_regclass('public.voidbot_restoring') is not null"
_BUSY = """
select count(*) from pg_catalog.pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"""


async def mark(dsn: str, *, restoring: bool) -> None:
    """Write down that a restore has begun, or that it is finished."""
    with database_errors():
        connection = await asyncpg.connect(dsn, timeout=5)
        try:
            await connection.execute(_MARK if restoring else _UNMARK)
        finally:
            await connection.close()


async def refuse_half_restored(dsn: str) -> None:
    """Refuse a database in which a restore is not finished.

    Raises:
        Misconfigured: It names what to run.
    """
    with database_errors():
        connection = await asyncpg.connect(dsn, timeout=5)
        try:
            marked = await connection.fetchval(_MARKED)
        finally:
            await connection.close()
    if marked:
        raise Misconfigured(
            "database: a restore is not finished, so erased people may stand in it; run `voidbot db restore` again"
        )


async def count_others(dsn: str) -> int:
    """Return how many other connections the database has."""
    with database_errors():
        connection = await asyncpg.connect(dsn, timeout=5)
        try:
            return int(await connection.fetchval(_BUSY))
        finally:
            await connection.close()
