"""Purses and reservations: what is held before a call and settled after it.

Windows are locked narrow to wide in one order by every statement here, so that nobody waits in a circle. Call
`reserve`, `settle_usage` and `release` as the last act of a transaction: the deployment's window is everybody's.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from core.domain.budgets import (
    EXPIRY_GRACE_S,
    SCOPES,
    Draw,
    Reservation,
    Unit,
    UsageRow,
    Want,
    first_refused,
)
from core.domain.errors import BudgetHeld, BudgetRefused
from core.domain.ids import CommunityId, RoomId
from core.store.engine import Tx
from core.store.purses import NO_LIMIT, Balance, balances
from core.store.purses import ensure_defaults as ensure_defaults
from core.store.purses import set_purse as set_purse
from core.store.usage import usage_report as usage_report

# The condition is judged on the newest row under its lock; an amount that does not fit holds nothing in its window.
HOLD = """
with want as (
    select * from unnest($1::bigint[], $2::text[], $3::timestamptz[], $4::text[], $5::bigint[], $6::bigint[])
        with ordinality as u (purse_id, subject, starts_at, unit, amount, cap, n)
), granted as (
    insert into voidbot.purse_windows as w (purse_id, subject, starts_at, held)
    select purse_id, subject, starts_at, amount from want where amount > 0 and amount <= cap order by n
    on conflict (purse_id, subject, starts_at) do update set held = w.held + excluded.held
     where w.spent + w.held + excluded.held <= (select v.cap from want v
           where v.purse_id = excluded.purse_id and v.subject = excluded.subject)
    returning w.purse_id, w.subject
), booked as (
    insert into voidbot.reservations
           (id, job_id, attempt, purses, subjects, windows, units, amounts, spent, expires_at)
    select $7, $8, $9, $1, $2, $3, $4, $5, array_fill(0::bigint, array[cardinality($5::bigint[])]),
           voidbot.now() + make_interval(secs => $10)
     where (select count(*) from granted) = (select count(*) from want where amount > 0)
)
select n::int - 1 as n from want left join granted g using (purse_id, subject)
 where want.amount > 0 and g.purse_id is null order by n
"""

UNDO = """
update voidbot.purse_windows w set held = w.held - u.amount
  from unnest($1::bigint[], $2::text[], $3::timestamptz[], $4::bigint[]) as u (purse_id, subject, starts_at, amount)
 where (w.purse_id, w.subject, w.starts_at) = (u.purse_id, u.subject, u.starts_at)
"""

# A community, room or person erased during the call leaves its cost behind without the name.
LEDGER = """
insert into voidbot.usage (reservation_id, job_id, attempt, purpose, model, provider, tier, input_tokens, output_tokens,
       cached_tokens, usd_micro, priced, estimated, result, community_id, room_id, person_id)
select mine.id, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,
       (select c.id from voidbot.communities c where c.id = $15),
       (select r.id from voidbot.rooms r where r.id = $16),
       (select p.id from voidbot.people p where p.id = $17)
  from mine
"""

SETTLE = f"""
with mine as (
    select id, state, purses, subjects, windows, units, amounts from voidbot.reservations
     where id = $1 and state in ('held', 'assumed', 'released') for update
), part as (
    select m.state, u.*, case u.unit when 'tokens' then $8::bigint + $9 when 'usd_micro' then $11::bigint
           when 'answers' then case when $14 = 'ok' then u.amount else 0 end when 'calls' then 1
           else $18::bigint end as actual
      from mine m, unnest(m.purses, m.subjects, m.windows, m.units, m.amounts)
           with ordinality as u (purse_id, subject, starts_at, unit, amount, n)
), moved as (
    insert into voidbot.purse_windows as w (purse_id, subject, starts_at, held, spent)
    select purse_id, subject, starts_at, case state when 'held' then -amount else 0 end,
           actual - case state when 'assumed' then amount else 0 end
      from part where amount <> 0 or actual <> 0 order by n
    on conflict (purse_id, subject, starts_at) do update
       set held = w.held + excluded.held, spent = w.spent + excluded.spent
), closed as (
    update voidbot.reservations r
       set state = 'settled', spent = coalesce((select array_agg(actual order by n) from part), '{{}}')
      from mine where r.id = mine.id
), noted as ({LEDGER})
select array(select distinct unit from part where actual > amount and amount > 0 and state <> 'released') as overrun
  from mine
"""

BOOK_LOST = f"""
with mine as (
    insert into voidbot.reservations
           (id, job_id, attempt, purses, subjects, windows, units, amounts, spent, state, expires_at)
    values ($1, $2, $3, $18, $19, $20, $21, array_fill(0::bigint, array[cardinality($18::bigint[])]),
            $22::bigint[], 'settled', voidbot.now())
    on conflict (id) do nothing returning id
), moved as (
    insert into voidbot.purse_windows as w (purse_id, subject, starts_at, spent)
    select u.purse_id, u.subject, u.starts_at, u.actual
      from mine, unnest($18::bigint[], $19::text[], $20::timestamptz[], $22::bigint[])
           with ordinality as u (purse_id, subject, starts_at, actual, n)
     where u.actual <> 0 order by u.n
    on conflict (purse_id, subject, starts_at) do update set spent = w.spent + excluded.spent
), noted as ({LEDGER})
select id from mine
"""

RELEASE = """
with mine as (
    update voidbot.reservations set state = 'released' where id = $1 and state = 'held'
    returning purses, subjects, windows, amounts
), moved as (
    insert into voidbot.purse_windows as w (purse_id, subject, starts_at, held)
    select u.purse_id, u.subject, u.starts_at, -u.amount
      from mine m, unnest(m.purses, m.subjects, m.windows, m.amounts)
           with ordinality as u (purse_id, subject, starts_at, amount, n)
     where u.amount <> 0 order by u.n
    on conflict (purse_id, subject, starts_at) do update set held = w.held + excluded.held
)
select count(*) from mine
"""

EXPIRE = """
with due as (
    select id, job_id, purses, subjects, windows, amounts from voidbot.reservations
     where state = 'held' and expires_at <= voidbot.now() order by expires_at limit $1 for update skip locked
), part as (
    select u.purse_id, u.subject, u.starts_at, sum(u.amount)::bigint as amount
      from due d, unnest(d.purses, d.subjects, d.windows, d.amounts) as u (purse_id, subject, starts_at, amount)
     where u.amount <> 0 group by 1, 2, 3
), moved as (
    insert into voidbot.purse_windows as w (purse_id, subject, starts_at, held, spent)
    select part.purse_id, part.subject, part.starts_at, -part.amount, part.amount
      from part join voidbot.purses p on p.id = part.purse_id
     order by array_position($2::text[], p.scope), part.purse_id, part.subject, part.starts_at
    on conflict (purse_id, subject, starts_at) do update
       set held = w.held + excluded.held, spent = w.spent + excluded.spent
), closed as (
    update voidbot.reservations r set state = 'assumed' from due d where r.id = d.id
)
select job_id from due order by job_id
"""

# Windows end at most a month after they start; a reservation's windows all start before it does.
PRUNE = """
with gone as (
    delete from voidbot.purse_windows where starts_at < voidbot.now() - make_interval(days => $1)
)
delete from voidbot.reservations
 where created_at < voidbot.now() - make_interval(days => $1) and state <> 'held'
"""

BOOKS = """
with entry as (
    select r.state, u.* from voidbot.reservations r,
           unnest(r.purses, r.subjects, r.windows, r.amounts, r.spent)
               as u (purse_id, subject, starts_at, amount, actual)
), book as (
    select purse_id, subject, starts_at, coalesce(sum(amount) filter (where state = 'held'), 0) as held,
           sum(case state when 'settled' then actual when 'assumed' then amount else 0 end) as spent
      from entry group by 1, 2, 3
)
select purse_id, subject, starts_at, coalesce(w.held, 0) as held, coalesce(b.held, 0) as book_held,
       coalesce(w.spent, 0) as spent, coalesce(b.spent, 0) as book_spent
  from voidbot.purse_windows w full join book b using (purse_id, subject, starts_at)
 where case when w.held is null then b.held <> 0  -- settled ones may outlive a window that was pruned
            else (w.held, w.spent) <> (coalesce(b.held, 0), coalesce(b.spent, 0)) or w.held < 0 or w.spent < 0 end
 order by 1, 2, 3
"""

LEDGER_BOOKS = """
select u.reservation_id, e.unit, e.actual, r.state,
       case e.unit when 'tokens' then u.input_tokens + u.output_tokens else u.usd_micro end as cost
  from voidbot.usage u join voidbot.reservations r on r.id = u.reservation_id
  left join lateral unnest(r.units, r.spent) as e (unit, actual) on e.unit in ('tokens', 'usd_micro')
 where r.state <> 'settled'
    or e.actual <> case e.unit when 'tokens' then u.input_tokens + u.output_tokens else u.usd_micro end
 order by 1, 2
"""


class SettleOutcome(StrEnum):
    """What a settlement found: the reservation, its own earlier work, or nothing (a server crash took it)."""

    BOOKED = "booked"
    ALREADY = "already"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Settled:
    """How a settlement went. `overrun`: units that cost more than was held, which is a bug to count."""

    outcome: SettleOutcome
    overrun: tuple[Unit, ...] = ()


async def look(tx: Tx, draw: Draw, now: datetime) -> BudgetRefused | None:
    """Return the purse that is spent too far for this draw; what calls under way hold may still return."""
    return _refusal(await balances(tx, draw, now), held=False)


async def reserve(tx: Tx, draw: Draw, *, job_id: int, attempt: int, timeout_s: float, now: datetime) -> Reservation:
    """Hold a call's worst case in every purse that matches, or in none.

    Args:
        tx: The open transaction; after a refusal it can go on.
        draw: The worst case: the policy's hard cap, or the hard bound of a prompt.
        job_id: Whose call.
        attempt: Which grant of the job.
        timeout_s: The call's outer timeout; a minute later the reservation counts as spent.
        now: The instant whose windows are charged.

    Raises:
        BudgetRefused: The narrowest purse that is used up; nothing is held.
        BudgetHeld: None is used up, but calls under way hold too much; nothing is held.
    """
    found = await balances(tx, draw, now)
    if refusal := _refusal(found):
        raise _refusal(found, held=False) or _waits(refusal)
    wants = tuple(balance.want for balance in found)
    reservation = Reservation(secrets.randbits(62), job_id, attempt, wants)
    refused = await tx.fetch(
        HOLD,
        *_windows(wants),
        [want.purse.unit.value for want in wants],
        [want.amount for want in wants],
        [NO_LIMIT if want.limit is None else want.limit for want in wants],
        reservation.id,
        job_id,
        attempt,
        timeout_s + EXPIRY_GRACE_S,
    )
    if not refused:
        return reservation
    missed = {row["n"] for row in refused}
    held = [want for n, want in enumerate(wants) if want.amount and n not in missed]
    await tx.execute(UNDO, *_windows(held), [want.amount for want in held])
    after = await balances(tx, draw, now)
    raise _refusal(after, held=False) or _waits(_refusal(after) or _refused_by(after[min(missed)]))


async def settle_usage(tx: Tx, reservation_id: int, usage: UsageRow) -> Settled:
    """Replace what was held, or assumed, by what the call cost, and write the ledger; once, however often called.

    An answer stays counted only if the call was `OK`. A reservation that a server crash took is booked anew at
    its real cost.
    """
    ledger: tuple[object, ...] = (
        reservation_id, usage.job_id, usage.attempt, usage.purpose, usage.model, usage.provider, usage.tier,
        usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.usd_micro, usage.priced,
        usage.estimated, usage.result.value, usage.community_id, usage.room_id, usage.person_id,
    )  # fmt: skip
    row = await tx.fetchrow(SETTLE, *ledger, usage.seconds)
    if row is not None:
        return Settled(SettleOutcome.BOOKED, tuple(Unit(unit) for unit in row["overrun"]))
    wants = [balance.want for balance in await balances(tx, usage.as_draw(), None)]
    booked = await tx.fetchval(
        BOOK_LOST,
        *ledger,
        *_windows(wants),
        [want.purse.unit.value for want in wants],
        [want.amount for want in wants],
    )
    return Settled(SettleOutcome.ALREADY if booked is None else SettleOutcome.LOST)


async def release(tx: Tx, reservation_id: int) -> bool:
    """Give back a reservation whose call was never sent; False if it is not held any more."""
    return bool(await tx.fetchval(RELEASE, reservation_id))


async def expire(tx: Tx, limit: int = 500) -> list[int]:
    """Count reservations that nobody settled in time as spent; return their jobs, for the log."""
    rows = await tx.fetch(EXPIRE, limit, [scope.value for scope in SCOPES])
    return [row["job_id"] for row in rows]


async def prune(tx: Tx, keep_days: int = 62) -> int:
    """Delete windows and reservations older than `keep_days` (at least 62); return how many reservations."""
    return await tx.execute(PRUNE, max(keep_days, 62))


async def invariants(tx: Tx) -> list[str]:
    """Return what the books get wrong, in words; empty if every window equals its reservations and the ledger.

    That nothing is granted above a limit is the condition of the grant itself.
    """
    wrong = [
        f"purse {row['purse_id']} {row['subject']} {row['starts_at']:%Y-%m-%dT%H:%MZ}: "
        f"held {row['held']} but reserved {row['book_held']}, spent {row['spent']} but booked {row['book_spent']}"
        for row in await tx.fetch(BOOKS)
    ]
    wrong += [
        f"reservation {row['reservation_id']}: {row['state']}, {row['unit']} booked {row['actual']} "
        f"but the ledger says {row['cost']}"
        for row in await tx.fetch(LEDGER_BOOKS)
    ]
    return wrong


def _windows(wants: Sequence[Want]) -> tuple[list[int], list[str], list[datetime]]:
    return (
        [want.purse.id for want in wants],
        [want.subject for want in wants],
        [want.starts_at for want in wants],
    )


def _refusal(found: Sequence[Balance], *, held: bool = True) -> BudgetRefused | None:
    taken = [balance.spent + (balance.held if held else 0) for balance in found]
    index = first_refused([balance.want for balance in found], taken)
    return None if index is None else _refused_by(found[index])


def _waits(refused: BudgetRefused) -> BudgetHeld:
    return BudgetHeld(refused.scope, refused.used, refused.limit, refused.unit, refused.resets_at)


def _refused_by(balance: Balance) -> BudgetRefused:
    want = balance.want
    return BudgetRefused(want.name, balance.held + balance.spent, want.limit or 0, want.purse.unit.value, want.ends_at)


async def rehome(tx: Tx, newer: RoomId, older: RoomId, community_id: CommunityId) -> None:
    """Count what was used in one room as used in another."""
    await tx.execute(
        "update voidbot.usage set room_id = $2, community_id = $3 where room_id = $1", newer, older, community_id
    )
