"""Durable rate limits: one row a key, no window edges, shared by all processes and restarts.

The generic cell rate algorithm (ITU-T I.371): a row holds the instant at which its limiter is idle again.
"""

from collections.abc import Sequence
from datetime import timedelta

from core.domain.budgets import Pace, retry_after
from core.store.engine import Tx

# Rows are those that refused, in the order asked for; keys are locked in that order by everybody.
TAKE = """
with want as (
    select * from unnest($1::text[], $2::interval[], $3::interval[]) with ordinality as u (key, cost, burst, n)
), took as (
    insert into voidbot.rates as r (key, tat) select key, voidbot.now() + cost from want order by n
    on conflict (key) do update set tat = greatest(r.tat, voidbot.now()) + (select cost from want where key = r.key)
     where greatest(r.tat, voidbot.now()) + (select cost from want where key = r.key)
           <= voidbot.now() + (select burst from want where key = r.key)
    returning key
)
select want.n::int - 1 as n, r.tat, voidbot.now() as now from want left join voidbot.rates r using (key)
 where want.key not in (select key from took) order by want.n
"""

GIVE_BACK = """
update voidbot.rates r set tat = r.tat - u.cost from unnest($1::text[], $2::interval[]) as u (key, cost)
 where r.key = u.key
"""

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
    return await take_all(tx, [(key, Pace(cost_s, burst_s))])


async def take_all(tx: Tx, turns: Sequence[tuple[str, Pace]]) -> float | None:
    """Take one turn of each limiter, or of none: by one statement unless one refuses. The keys differ.

    Returns:
        None if all are granted, else the seconds to wait for the first that refuses.
    """
    if any(pace.cost_s <= 0 for _, pace in turns):
        raise ValueError("a turn must cost time")
    paces = [Pace(pace.cost_s, max(pace.cost_s, pace.burst_s)) for _, pace in turns]
    keys, costs = [key for key, _ in turns], [timedelta(seconds=pace.cost_s) for pace in paces]
    refused = await tx.fetch(TAKE, keys, costs, [timedelta(seconds=pace.burst_s) for pace in paces])
    if not refused:
        return None
    granted = sorted(set(range(len(turns))) - {row["n"] for row in refused})
    if granted:
        await tx.execute(GIVE_BACK, [keys[n] for n in granted], [costs[n] for n in granted])
    tat, now, pace = refused[0]["tat"], refused[0]["now"], paces[refused[0]["n"]]
    # A concurrent first turn is not visible to the statement that it refused: then one turn's cost is the answer.
    return (retry_after(tat, now, pace) if tat else 0.0) or pace.cost_s


async def give_back(tx: Tx, key: str, cost_s: float) -> None:
    """Undo one `take` whose turn failed by our fault; at most once for each."""
    await tx.execute(GIVE_BACK, [key], [timedelta(seconds=cost_s)])


async def sweep(tx: Tx) -> int:
    """Delete limiters that are idle, which changes nothing; return how many."""
    return await tx.execute(SWEEP)
