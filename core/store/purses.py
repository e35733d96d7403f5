"""Purses as they stand: setting limits, and what each window has held and spent."""

from dataclasses import dataclass
from datetime import datetime

from core.domain.budgets import DEFAULT_PURSES, PASSES, Draw, Purse, Scope, Unit, Want, Window, check_limit
from core.store.engine import Row, Tx

NO_LIMIT = 2**63 - 1
"""How `purses.limit_amount` stores that there is no limit, so that an override can lift a default."""

ADD_DEFAULT = """
insert into voidbot.purses as p (scope, unit, window_kind, limit_amount) values ($1, $2, $3, $4)
on conflict (scope, scope_id, unit, window_kind) do update set limit_amount = excluded.limit_amount
 where p.set_by = 'default' and p.limit_amount <> excluded.limit_amount
"""

SET_PURSE = """
insert into voidbot.purses (scope, scope_id, unit, window_kind, limit_amount, timezone, set_by, set_at)
values ($1, $2, $3, $4, $5, coalesce($6, 'UTC'), $7, voidbot.now())
on conflict (scope, scope_id, unit, window_kind) do update
   set limit_amount = excluded.limit_amount, timezone = coalesce($6, voidbot.purses.timezone),
       set_by = excluded.set_by, set_at = excluded.set_at
"""

# Windows of a zone other than the asker's may be found too; the caller picks by the exact start.
MATCH = """
select p.id, p.scope, p.scope_id, p.unit, p.window_kind, p.limit_amount, p.soft, p.timezone,
       coalesce(c.timezone, 'UTC') as zone, coalesce($4::timestamptz, voidbot.now()) as at,
       w.subject, w.starts_at, w.held, w.spent
  from unnest($1::text[], $2::text[]) as s (scope, scope_id)
  join voidbot.purses p on p.scope = s.scope and p.scope_id = s.scope_id
  left join voidbot.purse_windows w on w.purse_id = p.id and w.subject = any ($3::text[])
       and w.starts_at > coalesce($4::timestamptz, voidbot.now()) - case p.window_kind
           when 'hour' then interval '1 hour' when 'day' then interval '50 hours' else interval '32 days' end
  left join voidbot.communities c on c.id = $5
"""


@dataclass(frozen=True, slots=True)
class Balance:
    """One want beside what its window has held and spent."""

    want: Want
    held: int
    spent: int


async def ensure_defaults(tx: Tx, *, deployment_usd_per_day: float) -> None:
    """Add the default purses; limits that somebody set stay.

    Args:
        tx: The open transaction.
        deployment_usd_per_day: Dollars, from the settings; 0 means no paid call.

    Raises:
        InputRejected: The dollars are negative or absurd.
    """
    dollars = round(deployment_usd_per_day * 1_000_000)
    check_limit(Scope.DEPLOYMENT, "", Unit.USD_MICRO, Window.DAY, dollars)
    await tx.executemany(ADD_DEFAULT, [*DEFAULT_PURSES, (Scope.DEPLOYMENT, Unit.USD_MICRO, Window.DAY, dollars)])


async def set_purse(
    tx: Tx,
    scope: Scope,
    scope_id: str,
    unit: Unit,
    window: Window,
    limit: int | None,
    by: str,
    *,
    timezone: str | None = None,
) -> None:
    """Set a limit; `scope_id` '' is the default of the scope, an id overrides it.

    A pass class has the ids `sleep` (each community by itself) and `sleep:7` (community 7).

    Args:
        tx: The open transaction.
        scope: Whose purse.
        scope_id: Empty, or which one.
        unit: What is counted.
        window: How long.
        limit: 0 allows nothing; None lifts the limit, the default's too.
        by: Who sets it, for the account.
        timezone: When the deployment's days begin; None leaves it. Narrower scopes live by their community's.

    Raises:
        InputRejected: The limit is negative or absurd, or may not be lifted.
    """
    check_limit(scope, scope_id, unit, window, limit)
    await tx.execute(SET_PURSE, scope, scope_id, unit, window, NO_LIMIT if limit is None else limit, timezone, by)


async def balances(tx: Tx, draw: Draw, now: datetime | None) -> list[Balance]:
    """Return every purse that `draw` would touch with its window's state, narrow to wide.

    Args:
        tx: The open transaction.
        draw: Who, where, how much.
        now: The instant whose windows are meant; None is the database's present.
    """
    sources = draw.sources()
    rows = await tx.fetch(
        MATCH,
        [scope.value for scope, _ in sources],
        [scope_id for _, scope_id in sources],
        [*{subject for _, subject in sources if subject}, "total", PASSES],
        now,
        draw.community_id,
    )
    if not rows:
        return []
    purses = {row["id"]: _purse(row) for row in rows}
    windows = {(row["id"], row["subject"], row["starts_at"]): row for row in rows}
    found: list[Balance] = []
    for want in draw.wants(purses.values(), rows[0]["zone"], rows[0]["at"]):
        row = windows.get((want.purse.id, want.subject, want.starts_at))
        found.append(Balance(want, row["held"], row["spent"]) if row else Balance(want, 0, 0))
    return found


def _purse(row: Row) -> Purse:
    limit = row["limit_amount"]
    return Purse(
        id=row["id"],
        scope=Scope(row["scope"]),
        scope_id=row["scope_id"],
        unit=Unit(row["unit"]),
        window=Window(row["window_kind"]),
        limit=None if limit == NO_LIMIT else limit,
        soft=round(row["soft"], 4),  # stored in single precision
        timezone=row["timezone"],
    )
