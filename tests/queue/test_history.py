"""Q1 and Q10: a load of every sort, and the history it leaves; the same without a single notification."""

from core.store.engine import Database
from tests.queue.harness import at_work, until, worker
from tests.queue.history import add_backlog, check, drained, install, recorded_kind


async def test_history_checker(database: Database) -> None:
    await install(database)
    await add_backlog(database, lanes=6, each=8)
    async with at_work(*(worker(database, recorded_kind(database), poll_s=0.2) for _ in range(3))):
        await add_backlog(database, lanes=9, each=4)
        await until(lambda: drained(database), within_s=60.0)
    await check(database)


async def test_notify_lost(database: Database, fresh_dsn: str) -> None:
    await install(database)
    # A Database that nobody asked to wake anybody: what is queued through it is told to no one, here or elsewhere.
    silent = await Database.open(fresh_dsn, size=8)
    async with at_work(*(worker(database, recorded_kind(silent), poll_s=0.1) for _ in range(2))):
        await add_backlog(silent, lanes=4, each=3)
        await until(lambda: drained(database), within_s=60.0)
    await silent.close()
    await check(database)
