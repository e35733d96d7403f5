"""The database: pools, transactions, migrations. Nothing else in VoidBot commits."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeAlias
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg

from core.domain.errors import BotError, Conflict, Misconfigured, TimedOut, Unavailable

Row = asyncpg.Record
Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Pooled: TypeAlias = "asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"

_live: ContextVar[bool] = ContextVar("a transaction is open", default=False)
_PLANNED_ONCE = {"plan_cache_mode": "force_generic_plan"}
"""Every statement is a lookup by index: a plan for these very values is never better, and costs more to make."""
_MIGRATIONS = Path(__file__).parents[2] / "migrations"
_LOCAL_HOSTS = {"", "localhost", "127.0.0.1", "::1"}


class Tx:
    """One open transaction. `$1` parameters only; every statement names its schema."""

    __slots__ = ("_connection", "_on_commit", "_wake", "_wakes")

    def __init__(
        self, connection: "Connection | Pooled", on_commit: list[Callable[[], None]], wake: Callable[[float], None]
    ) -> None:
        self._connection = connection
        self._on_commit = on_commit
        self._wake = wake
        self._wakes: set[float] = set()

    async def fetch(self, sql: str, *args: object) -> list[Row]:
        """Return all rows."""
        return await self._connection.fetch(sql, *args)

    async def fetchrow(self, sql: str, *args: object) -> Row | None:
        """Return the first row, or None."""
        return await self._connection.fetchrow(sql, *args)

    async def fetchval(self, sql: str, *args: object) -> Any:
        """Return the first column of the first row, or None."""
        return await self._connection.fetchval(sql, *args)

    async def execute(self, sql: str, *args: object) -> int:
        """Run one statement; return how many rows it touched (0 where Postgres does not count)."""
        tag = (await self._connection.execute(sql, *args)).rpartition(" ")[2]
        return int(tag) if tag.isdigit() else 0

    async def executemany(self, sql: str, rows: Sequence[Sequence[object]]) -> None:
        """Run one statement for each row of parameters."""
        await self._connection.executemany(sql, rows)

    async def copy_out(self, schema: str, table: str, sink: Callable[[bytes], Coroutine[Any, Any, None]]) -> None:
        """Give `sink` the whole table in `COPY`'s text format, piece by piece."""
        await self._connection.copy_from_table(table, schema_name=schema, output=sink, format="text")

    async def copy(self, schema: str, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Put rows into a table by binary COPY."""
        await self._connection.copy_records_to_table(table, schema_name=schema, columns=columns, records=rows)

    def on_commit(self, call: Callable[[], None]) -> None:
        """Call `call` once after this transaction has committed; not at all if it does not."""
        if call not in self._on_commit:
            self._on_commit.append(call)

    def wake_workers(self, in_s: float = 0.0) -> None:
        """Tell workers once this transaction has committed that there is work, or will be in so many seconds."""
        if in_s not in self._wakes:
            self._wakes.add(in_s)
            self._on_commit.append(partial(self._wake, in_s))


class Database:
    """Pools onto one Postgres: `app` for every transaction, `long` for imports and backfills."""

    def __init__(self, dsn: str, app: Pool, long: Pool) -> None:
        self.dsn = dsn
        self._pools = {False: app, True: long}
        self._wakers: list[Callable[[float], None]] = []

    def on_wake(self, call: Callable[[float], None]) -> None:
        """Have `call` called after each commit that queued work, with the seconds until it is due."""
        self._wakers.append(call)

    def _wake(self, in_s: float) -> None:
        for call in self._wakers:
            call(in_s)

    @classmethod
    async def open(cls, dsn: str, *, size: int = 15) -> Self:
        """Connect.

        Raises:
            Unavailable: The server does not answer.
            Misconfigured: It answers and refuses these credentials or this address.
        """
        with database_errors():
            app = await _pool(dsn, size, statement_s=5)
            long = await _pool(dsn, 2, statement_s=600)
        return cls(dsn, app, long)

    async def close(self) -> None:
        """Close the pools; a connection that does not end within 5 s is dropped."""
        for pool in self._pools.values():
            try:
                await asyncio.wait_for(pool.close(), 5)
            except TimeoutError:
                pool.terminate()

    @asynccontextmanager
    async def transaction(self, *, durable: bool = True, long: bool = False) -> AsyncIterator[Tx]:
        """Open one READ COMMITTED transaction: commits at the end, rolls back on any exception.

        Args:
            durable: Wait for the disk. False survives a kill of our process; only a crash of the server
                can lose it, so what it wrote must be repeatable (ADR 0003).
            long: Use the pool with the ten-minute statement limit.

        Raises:
            Unavailable, Conflict, Misconfigured: Driver errors, mapped at this border.
        """
        if _live.get():
            raise AssertionError("a transaction is open already; hand its Tx down instead")
        hooks: list[Callable[[], None]] = []
        with database_errors():
            connection = await self._pools[long].acquire(timeout=5)
            token = _live.set(True)
            try:
                await connection.execute("begin" if durable else "begin; set local synchronous_commit = off")
                try:
                    yield Tx(connection, hooks, self._wake)
                except BaseException:
                    await _roll_back(connection)
                    raise
                await connection.execute("commit")
            finally:
                _live.reset(token)
                await self._pools[long].release(connection)
        for hook in hooks:
            hook()

    async def connect(self) -> Connection:
        """Return a connection of its own, outside the pools (queue, LISTEN); the caller closes it."""
        with database_errors():
            connection = await asyncpg.connect(
                self.dsn, timeout=5, command_timeout=10, server_settings={"lock_timeout": "2s"} | _PLANNED_ONCE
            )
            await _teach_json(connection)
            return connection


def transaction_is_open() -> bool:
    """Return whether this task holds a transaction; providers and adapters refuse to call out then."""
    return _live.get()


async def _pool(dsn: str, size: int, *, statement_s: int) -> Pool:
    return await asyncpg.create_pool(
        dsn,
        min_size=1,
        max_size=size,
        timeout=5,
        init=_teach_json,
        reset=_leave_as_is,
        server_settings={
            "statement_timeout": f"{statement_s}s",
            "lock_timeout": "2s",
            "idle_in_transaction_session_timeout": "15s",
        }
        | _PLANNED_ONCE,
    )


async def _roll_back(connection: "Pooled") -> None:
    """End the transaction; a connection on which that can't be done is dropped, which ends it too."""
    rolled_back = False
    rolling = asyncio.ensure_future(_say_rollback(connection))
    try:
        await asyncio.shield(rolling)
        rolled_back = True
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
        pass  # what went wrong first is what the caller is told
    finally:
        if not rolled_back:
            rolling.add_done_callback(lambda done: done.cancelled() or done.exception())
            with suppress(asyncpg.InterfaceError):  # the pool has dropped it already
                connection.terminate()


async def _say_rollback(connection: "Pooled") -> None:
    await connection.execute("rollback")  # a connection that the pool has dropped refuses before it returns a future


async def _teach_json(connection: Connection) -> None:
    await connection.set_type_codec("jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads)


async def _leave_as_is(_: object) -> None:
    """Skip the driver's reset: every transaction ends itself and nothing is set for a session."""


@contextmanager
def database_errors() -> Iterator[None]:
    """Turn driver errors into ours, so that no caller imports the driver to handle a failure."""
    try:
        yield
    except BotError:
        raise
    except (asyncpg.DeadlockDetectedError, asyncpg.SerializationError) as exc:
        raise Conflict("database: another transaction won") from exc
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError) as exc:
        raise Misconfigured("database: refused this role, password or database name") from exc
    except (asyncpg.QueryCanceledError, asyncpg.LockNotAvailableError) as exc:
        raise TimedOut("database: a statement took too long") from exc
    except (
        asyncpg.PostgresConnectionError,
        asyncpg.OperatorInterventionError,
        asyncpg.InsufficientResourcesError,
        asyncpg.IdleInTransactionSessionTimeoutError,
    ) as exc:
        raise Unavailable("database: not reachable") from exc
    except (asyncpg.InternalClientError, OSError) as exc:
        # The first is the driver's word when the server ended a backend between two statements.
        raise Unavailable("database: connection lost") from exc
    except asyncpg.InterfaceError as exc:
        if "closed" in str(exc) or "closing" in str(exc):
            raise Unavailable("database: connection lost") from exc
        raise


_URL_OPTIONS = {
    *(
        "host",
        "port",
        "user",
        "password",
        "database",
        "dbname",
        "options",
        "application_name",
        "service",
        "servicefile",
    ),
    *("sslmode", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslpassword", "sslnegotiation"),
    *("passfile", "target_session_attrs"),
}
"""What the driver reads after the `?`; it would hand anything else to the server as a setting of its own."""


def normalise(url: str) -> str:
    """Return a database address as the driver wants it; TLS is required unless the host is local.

    Raises:
        Misconfigured: It is no Postgres address.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as exc:
        raise Misconfigured(
            "DATABASE_URL: its port is no number; write postgresql://user:password@host:5432/name"
        ) from exc
    scheme = parts.scheme.partition("+")[0]
    if scheme not in ("postgres", "postgresql"):
        raise Misconfigured("DATABASE_URL: must start with postgresql://", scheme=parts.scheme)
    query = dict(parse_qsl(parts.query))
    if unknown := sorted(query.keys() - _URL_OPTIONS):
        raise Misconfigured(f"DATABASE_URL: {unknown[0]} is no option of an address; remove it after the ?")
    host = query.get("host") or parts.hostname or ""
    if not (host in _LOCAL_HOSTS or host.startswith("/")):
        query.setdefault("sslmode", "require")
    tail = urlunsplit(("", "", parts.path, urlencode(query, safe="/"), ""))
    return f"postgresql://{parts.netloc}{tail}"  # put together by hand: an address of a socket has no host


def head_revision() -> str:
    """Return the newest revision this code knows: the number that its file's name begins with."""
    return max(file.stem.partition("_")[0] for file in (_MIGRATIONS / "versions").glob("*.py"))


async def current_revision(dsn: str) -> str | None:
    """Return the revision the database stands at; None before the first migration."""
    connection = await asyncpg.connect(dsn, timeout=5)
    try:
        if await connection.fetchval("select to_regclass('public.alembic_version')") is None:
            return None
        value: str | None = await connection.fetchval("select version_num from public.alembic_version")
        return value
    finally:
        await connection.close()


async def migrate(dsn: str, revision: str = "head", *, waiting: Callable[[], Awaitable[None]] | None = None) -> None:
    """Bring the schema to `revision` under an advisory lock; the first process migrates, the others wait.

    Args:
        dsn: The database, as `normalise` returns it.
        revision: `head`, `base`, or one revision; older ones are reached by downgrading.
        waiting: Called once if another process holds the lock.
    """
    with database_errors():
        gate = await asyncpg.connect(dsn, timeout=5)
    try:
        if not await gate.fetchval("select pg_try_advisory_lock(hashtext('voidbot.migrate'))"):
            if waiting is not None:
                await waiting()
            await gate.execute("select pg_advisory_lock(hashtext('voidbot.migrate'))")
        await asyncio.to_thread(_step_to, dsn, revision)
    finally:
        await gate.close()


def _step_to(dsn: str, revision: str) -> None:
    # Loaded here: it and the declared tables cost every start more than all else, and hardly one start migrates.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.attributes["dsn"] = dsn
    down = revision == "base" or revision.startswith("-")
    (command.downgrade if down else command.upgrade)(config, revision)
