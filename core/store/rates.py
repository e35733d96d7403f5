"""Durable rate limits: one row a key, no window edges, shared by all processes and restarts.

The generic cell rate algorithm (ITU-T I.371): a row holds the instant at which its limiter is idle again.
"""

from datetime import timedelta

from core.domain.budgets import Pace, retry_after
from core.store.engine import Tx

TAKE = """
with took as (
    insert into voidbot.rates as r (key, tat) values ($1, voidbot.now() + $2::interval)
    on conflict (key) do update set tat = greatest(r.tat, voidbot.now()) + $2::interval
     where greatest(r.tat, voidbot.now()) + $2::interval <= voidbot.now() + $3::interval
    returning tat
)
select exists (select from took) as allowed, (select tat from voidbot.rates where key = $1) as tat, voidbot.now() as now
"""

GIVE_BACK = "update voidbot.rates set tat = tat - $2::interval where key = $1"

SWEEP = "delete from voidbot.rates where tat < voidbot.now()"


async def take(tx: Tx, key: str, cost_s: float, burst_s: float) -> float | None:
    """Take one turn of a limiter.

    Args:
        tx: The open transaction; rolled back, nothing was taken.
        key: Which limiter, for example `person:7:ask`.
        cost_s: Seconds between turns in the long run, above 0.
        burst_s: How far ahead turns may be taken; below `cost_s` it counts as `cost_s`, one turn at a time.

    Returns:
        None if the turn is granted, else the seconds to wait (above 0); a refusal costs nothing.
    """
    if cost_s <= 0:
        raise ValueError("a turn must cost time")
    pace = Pace(cost_s, max(cost_s, burst_s))
    row = await tx.fetchrow(TAKE, key, timedelta(seconds=pace.cost_s), timedelta(seconds=pace.burst_s))
    if row is None or row["allowed"]:
        return None
    # A concurrent first turn is not visible to the statement that it refused: then one turn's cost is the answer.
    return (retry_after(row["tat"], row["now"], pace) if row["tat"] else 0.0) or cost_s


async def give_back(tx: Tx, key: str, cost_s: float) -> None:
    """Undo one `take` whose turn failed by our fault; at most once for each."""
    await tx.execute(GIVE_BACK, key, timedelta(seconds=cost_s))


async def sweep(tx: Tx) -> int:
    """Delete limiters that are idle, which changes nothing; return how many."""
    return await tx.execute(SWEEP)
