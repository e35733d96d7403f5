"""A claim of 50 beside a busy lane that is 50,000 jobs deep, against an anti-join over the same rows."""

import time
from typing import Any

from core.domain.jobs import FAIRNESS_PENALTY_S
from core.store.engine import Connection

# The busy lane's jobs are the oldest, as they are when one room lags behind; 1,000 other lanes have one job each.
_ROWS = """
insert into queue.job (lane, pool, community_id, kind, due_at)
  select 'chat:busy', 'bench', 1, 'bench', now() - interval '1 hour' from generate_series(1, $1::integer);
"""
_OTHERS = """
insert into queue.job (lane, pool, community_id, kind)
  select 'chat:' || n, 'bench', 1 + n % 20, 'bench' from generate_series(1, 1000) n
"""
_SIGNALS = "insert into queue.signal (lane) select distinct lane from queue.job"
# The usual way without lanes: the oldest jobs that have no older one of the same key, running or waiting.
_ANTI_JOIN = """
select j.id from queue.job j
where j.pool = 'bench'
  and not exists (select from queue.job o where o.lane = j.lane and o.place < j.place)
  and not exists (select from queue.lane l where l.job_id = j.id and l.state = 2)
order by j.id limit 50 for update of j skip locked
"""


async def prepare(connection: Connection, depth: int) -> Any:
    """Fill the tables, let a worker run the busy lane's first job, and return that worker."""
    await connection.execute(_ROWS, depth)
    await connection.execute(_OTHERS)
    await connection.execute(_SIGNALS)
    worker = await connection.fetchval("select queue.register('{}', null)")
    while await connection.fetchval("select exists (select from queue.signal)"):
        await connection.execute("select queue.promote()")
    claimed = await connection.fetch("select * from queue.claim($1, 'bench', 1, $2)", worker, FAIRNESS_PENALTY_S)
    if [row["lane"] for row in claimed] != ["chat:busy"]:
        raise AssertionError("claim: the busy lane was not granted first")
    await connection.execute("vacuum analyze")
    return worker


async def claim_ms(connection: Connection, worker: Any) -> float:
    """Return how long a claim of 50 takes, in milliseconds; it is rolled back."""
    return await _timed(connection, "select * from queue.claim($1, 'bench', 50, $2)", worker, FAIRNESS_PENALTY_S)


async def anti_join_ms(connection: Connection) -> float:
    """Return how long finding and locking 50 jobs by an anti-join takes, without even marking them."""
    return await _timed(connection, _ANTI_JOIN)


async def _timed(connection: Connection, sql: str, *arguments: object) -> float:
    transaction = connection.transaction()
    await transaction.start()
    start = time.monotonic()
    rows = await connection.fetch(sql, *arguments)
    taken = time.monotonic() - start
    await transaction.rollback()
    if len(rows) != 50:
        raise AssertionError(f"claim: {len(rows)} jobs instead of 50")
    return taken * 1000
