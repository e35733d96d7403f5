"""Transactions: all or nothing, one at a time, errors in our words, hooks only after the commit."""

import asyncio

import asyncpg
import pytest

from core.domain.errors import Conflict, Misconfigured, TimedOut, Unavailable
from core.store.engine import Database, Tx, database_errors, normalise, transaction_is_open
from core.store.server_check import check_server
from tests.conftest import on_database

ADD = "insert into voidbot.rates (key, tat) values ($1, voidbot.now())"
COUNT = "select count(*) from voidbot.rates"


async def _count(database: Database) -> int:
    async with database.transaction() as tx:
        return int(await tx.fetchval(COUNT))


@pytest.mark.parametrize("durable", [True, False])
async def test_what_may_be_repeated_does_not_wait_for_the_disk(database: Database, durable: bool) -> None:
    async with database.transaction() as tx:
        usual = await tx.fetchval("show synchronous_commit")
    async with database.transaction(durable=durable) as tx:
        assert await tx.fetchval("show synchronous_commit") == (usual if durable else "off")
    async with database.transaction() as tx:  # nothing is left of it on the connection
        assert await tx.fetchval("show synchronous_commit") == usual


@pytest.mark.parametrize("error", [RuntimeError, asyncio.CancelledError, KeyboardInterrupt])
async def test_any_error_takes_everything_back(database: Database, error: type[BaseException]) -> None:
    called: list[str] = []
    with pytest.raises(error):
        async with database.transaction() as tx:
            await tx.execute(ADD, "one")
            tx.on_commit(lambda: called.append("hook"))
            tx.wake_workers()
            raise error
    assert await _count(database) == 0 and called == []
    assert not transaction_is_open()


async def test_a_failed_statement_takes_everything_back_and_the_connection_goes_on(database: Database) -> None:
    for _ in range(20):  # more than the pool has
        with pytest.raises(asyncpg.UniqueViolationError):
            async with database.transaction() as tx:
                await tx.execute(ADD, "one")
                await tx.execute(ADD, "one")
    assert await _count(database) == 0


async def test_a_transaction_inside_another_is_a_bug(database: Database) -> None:
    async with database.transaction() as tx:
        assert transaction_is_open()
        with pytest.raises(AssertionError, match="open already"):
            async with database.transaction():
                pass
        await tx.execute(ADD, "one")
    assert await _count(database) == 1


async def test_two_tasks_have_transactions_of_their_own(database: Database) -> None:
    inside = asyncio.Barrier(2)

    async def work(key: str) -> None:
        async with database.transaction() as tx:
            await tx.execute(ADD, key)
            await inside.wait()

    await asyncio.gather(work("one"), work("two"))
    assert await _count(database) == 2


async def test_hooks_run_once_and_after_the_commit(database: Database) -> None:
    seen: list[int] = []
    woken: list[bool] = []
    database.on_wake(lambda in_s: woken.append(transaction_is_open()))

    def hook() -> None:
        seen.append(len(woken))

    async with database.transaction() as tx:
        tx.on_commit(hook)
        tx.on_commit(hook)
        tx.wake_workers()
        tx.wake_workers()
        await tx.execute(ADD, "one")
        assert seen == [] and woken == []
    assert seen == [0] and woken == [False]


async def test_hooks_do_not_run_when_the_commit_fails(database: Database) -> None:
    called: list[bool] = []
    async with database.transaction() as tx:
        await tx.execute("create table voidbot.late (n int unique deferrable initially deferred)")
    with pytest.raises(asyncpg.UniqueViolationError):
        async with database.transaction() as tx:
            await tx.executemany("insert into voidbot.late values ($1)", [(1,), (1,)])
            tx.on_commit(lambda: called.append(True))
    assert called == []
    async with database.transaction() as tx:
        assert await tx.fetchval("select count(*) from voidbot.late") == 0


async def test_a_lock_held_too_long_is_a_timeout(database: Database) -> None:
    locked, done = asyncio.Event(), asyncio.Event()

    async def holder() -> None:
        async with database.transaction() as tx:
            await tx.execute("lock table voidbot.rates in access exclusive mode")
            locked.set()
            await done.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(holder())
        await locked.wait()
        with pytest.raises(TimedOut):
            await _count(database)
        done.set()
    assert await _count(database) == 0


async def test_a_deadlock_is_a_conflict(database: Database) -> None:
    async with database.transaction() as tx:
        await tx.executemany(ADD, [("one",), ("two",)])
    meet = asyncio.Barrier(2)
    touch = "update voidbot.rates set tat = voidbot.now() where key = $1"

    async def work(first: str, second: str) -> None:
        async with database.transaction() as tx:
            await tx.execute(touch, first)
            await meet.wait()
            await tx.execute(touch, second)

    results = await asyncio.gather(work("one", "two"), work("two", "one"), return_exceptions=True)
    assert [type(result) for result in results if result is not None] == [Conflict]


async def test_a_server_that_ends_us_is_unavailable_and_the_next_transaction_works(database: Database) -> None:
    async def ended() -> None:
        async with database.transaction() as tx:
            await tx.execute("select pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(Unavailable):
        await ended()
    for _ in range(10):
        assert await _count(database) == 0


async def test_an_address_without_a_database_is_misconfigured(server: str) -> None:
    with pytest.raises(Misconfigured):
        await Database.open(on_database(server, "nothing_here"))


async def test_nobody_at_the_address_is_unavailable() -> None:
    with pytest.raises(Unavailable):
        await Database.open("postgresql://nobody@127.0.0.1:9/nothing")


def test_an_error_of_our_own_passes_the_border_unchanged() -> None:
    error = Unavailable("model: down", retry_after_s=3.0)
    with pytest.raises(Unavailable) as caught, database_errors():
        raise error
    assert caught.value is error


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("postgres://a:b@localhost/c", "postgresql://a:b@localhost/c"),
        ("postgresql+asyncpg://a@127.0.0.1:5/c", "postgresql://a@127.0.0.1:5/c"),
        ("postgresql://a@db.example.org/c", "postgresql://a@db.example.org/c?sslmode=require"),
        ("postgresql://a@db.example.org/c?sslmode=disable", "postgresql://a@db.example.org/c?sslmode=disable"),
        ("postgresql:///c?host=/run/pg", "postgresql:///c?host=/run/pg"),
    ],
)
def test_addresses_are_read_as_people_write_them(given: str, used: str) -> None:
    assert normalise(given) == used


def test_another_kind_of_address_is_refused_without_repeating_it() -> None:
    with pytest.raises(Misconfigured) as caught:
        normalise("mysql://user:hunter2@host/db")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://u:hunter2@host:5x/db", "its port is no number"),
        ("postgresql://u:hunter2@host/db?foo=bar", "foo is no option of an address"),
    ],
)
def test_an_address_that_the_driver_cannot_read_is_named(url: str, said: str) -> None:
    with pytest.raises(Misconfigured, match=said) as refused:
        normalise(url)
    assert "hunter2" not in str(refused.value)


async def test_a_server_that_does_not_answer_is_named_with_what_to_do() -> None:
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1 does not answer; start the server") as refused:
        await check_server("postgresql://u:hunter2@127.0.0.1:1/db")
    assert "hunter2" not in str(refused.value)


async def test_rows_touched_are_counted(database: Database) -> None:
    async with database.transaction() as tx:
        assert isinstance(tx, Tx)
        assert await tx.execute(ADD, "one") == 1
        assert await tx.execute("update voidbot.rates set tat = tat where key = 'none'") == 0
        assert await tx.fetchrow("select 1 where false") is None
        assert await tx.fetchval("select 1 where false") is None
