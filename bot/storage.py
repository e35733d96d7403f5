"""Where the database comes from: a server by address, or the embedded one; migrated before anything else runs."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bot.settings import Settings
from core.domain.errors import Misconfigured
from core.ports import Clock
from core.privacy.key import KEY_FILE, ErasureKey, load_key
from core.store.embedded import EmbeddedPostgres, EmbeddedSettings
from core.store.embedded_dump import dump_before_migration
from core.store.engine import Database, current_revision, head_revision, migrate, normalise, transaction_is_open
from core.store.erasure import check_hooks
from core.store.erasures import list_key_ids
from core.store.restore import refuse_half_restored
from core.store.server_check import check_server

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Storage:
    """An open database. `embedded` None: a server that is not ours."""

    database: Database
    embedded: EmbeddedPostgres | None


def no_transaction_open() -> None:
    """Refuse while a transaction is open: nobody outside is asked then."""
    if transaction_is_open():
        raise AssertionError("a model or store of vectors is called while a transaction is open")


@asynccontextmanager
async def open_storage(settings: Settings, clock: Clock, say: Say) -> AsyncIterator[Storage]:
    """Start or reach Postgres, bring the schema to this code's revision, and open the pools.

    Raises:
        Misconfigured: The server will not do, its schema is another one and may not be changed, a restore is not
            finished, or a table of people's data has no erase hook.
        Unavailable: It does not answer.
    """
    async with reach(settings, say) as (dsn, embedded):
        check_hooks()
        await refuse_half_restored(dsn)
        await bring_to_head(settings, dsn, embedded, clock, say)
        database = await Database.open(dsn)
        try:
            yield Storage(database, embedded)
        finally:
            await database.close()


async def open_key(settings: Settings, database: Database) -> ErasureKey:
    """Return this installation's erasure key, made at its first start.

    Raises:
        Misconfigured: It is missing, or of another installation, while erasures rest on it.
    """
    async with database.transaction(durable=False) as tx:
        written_by = sorted(await list_key_ids(tx))
    return await asyncio.to_thread(load_key, key_file(settings), written_by)


def key_file(settings: Settings) -> Path:
    """Return where the erasure key stands."""
    return settings.erasure_key or settings.home / KEY_FILE


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
