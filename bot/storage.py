"""Where the database comes from: a server by address, or the embedded one; migrated before anything else runs."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bot.settings import Settings
from core.domain.errors import Misconfigured
from core.ports import Clock
from core.store.embedded import EmbeddedPostgres, EmbeddedSettings
from core.store.embedded_dump import dump_before_migration
from core.store.engine import Database, current_revision, head_revision, migrate, normalise
from core.store.server_check import check_server

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Storage:
    """An open database. `embedded` None: a server that is not ours."""

    database: Database
    embedded: EmbeddedPostgres | None


@asynccontextmanager
async def open_storage(settings: Settings, clock: Clock, say: Say) -> AsyncIterator[Storage]:
    """Start or reach Postgres, bring the schema to this code's revision, and open the pools.

    Raises:
        Misconfigured: The server will not do, or its schema is another one and may not be changed.
        Unavailable: It does not answer.
    """
    async with reach(settings, say) as (dsn, embedded):
        await bring_to_head(settings, dsn, embedded, clock, say)
        database = await Database.open(dsn)
        try:
            yield Storage(database, embedded)
        finally:
            await database.close()


@asynccontextmanager
async def reach(settings: Settings, say: Say) -> AsyncIterator[tuple[str, EmbeddedPostgres | None]]:
    """Yield the address of a server that answers; an embedded one that we started is stopped afterwards."""
    if settings.database_url is not None:
        dsn = normalise(settings.database_url.get_secret_value())
        await check_server(dsn)
        yield dsn, None
        return
    embedded = EmbeddedPostgres(settings.home, EmbeddedSettings(pg_bin=settings.pg_bin, pg_user=settings.pg_user), say)
    try:
        yield await embedded.ensure(), embedded
    finally:
        await embedded.stop()


async def bring_to_head(
    settings: Settings, dsn: str, embedded: EmbeddedPostgres | None, clock: Clock, say: Say
) -> None:
    """Migrate where we may: an embedded database always, after a dump; a server only if the settings say so."""
    current, head = await current_revision(dsn), head_revision()
    if current == head:
        return
    if embedded is None and settings.migrate != "auto":
        raise Misconfigured(
            f"database: its schema is {current or 'empty'}, this release needs {head};"
            " run `voidbot db migrate`, or set VOIDBOT_MIGRATE=auto"
        )
    if embedded is not None and current is not None:
        say("saving a copy of the database before the migration")
        await dump_before_migration(dsn, settings.home, current, clock.now(), settings.pg_bin)

    async def waiting() -> None:
        say("waiting for another process that is migrating the database")

    say(f"migrating the database to {head}")
    await migrate(dsn, waiting=waiting)
