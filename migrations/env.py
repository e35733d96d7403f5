"""How Alembic reaches the database. Started by core/store/engine.py in a thread of its own."""

import asyncio

from alembic import context
from sqlalchemy import Connection, pool, text
from sqlalchemy.ext.asyncio import create_async_engine

from core.store.tables import METADATA


def _run(connection: Connection) -> None:
    # A migration never queues behind a long reader and so blocks everybody else.
    connection.execute(text("set lock_timeout = '3s'"))
    connection.commit()
    context.configure(
        connection=connection, target_metadata=METADATA, include_schemas=True, transaction_per_migration=True
    )
    with context.begin_transaction():
        context.run_migrations()


async def _connect() -> None:
    dsn: str = context.config.attributes["dsn"]
    engine = create_async_engine(dsn.replace("postgresql://", "postgresql+asyncpg://", 1), poolclass=pool.NullPool)
    try:
        async with engine.connect() as connection:
            await connection.run_sync(_run)
    finally:
        await engine.dispose()


asyncio.run(_connect())
