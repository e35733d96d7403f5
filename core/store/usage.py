"""What was used: the answer to /usage, by purse, by model and by purpose."""

from dataclasses import dataclass
from datetime import datetime

from core.domain.budgets import DEFAULT_LIMITS, Draw, PersonLimits, Scope, Unit, Window
from core.domain.windows import window_span
from core.store.engine import Tx
from core.store.purses import Balance, balances

ZONE = "select timezone from voidbot.communities where id = $1"

_SUMS = """model, purpose, count(*) as calls, count(*) filter (where result <> 'ok') as failed,
       sum(input_tokens)::bigint as input_tokens, sum(output_tokens)::bigint as output_tokens,
       sum(cached_tokens)::bigint as cached_tokens, sum(usd_micro)::bigint as usd_micro,
       count(*) filter (where not priced) as unpriced, count(*) filter (where estimated) as estimated
  from voidbot.usage where at >= $1"""

BY_MODEL = f"""
select 'person' as scope, {_SUMS} and person_id = $2 group by model, purpose union all
select 'room', {_SUMS} and room_id = $3 group by model, purpose union all
select 'community', {_SUMS} and community_id = $4 group by model, purpose union all
select 'deployment', {_SUMS} and $5 group by model, purpose
order by usd_micro desc, calls desc, model, purpose
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PurseUse:
    """One purse as it stands. `used` is spent for good, `held` for calls under way; `limit` None is no limit.

    `scope` is the scope's word, or `passes` for unattended work's share. `warn`: past the purse's soft mark.
    """

    scope: str
    unit: Unit
    window: Window
    used: int
    held: int
    limit: int | None
    resets_at: datetime
    warn: bool

    @property
    def left(self) -> int | None:
        """Return what is still free; None without limit."""
        return None if self.limit is None else max(self.limit - self.used - self.held, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUse:
    """Calls of one model for one purpose today, those that failed or stayed silent included.

    `unpriced` of the calls have no price, so `usd_micro` says nothing of them; `estimated` of them had their
    tokens estimated by us.
    """

    scope: Scope
    model: str
    purpose: str
    calls: int
    failed: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    usd_micro: int
    unpriced: int
    estimated: int


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Purses narrow to wide, and what the community's local day has used so far, dearest first."""

    purses: tuple[PurseUse, ...]
    models: tuple[ModelUse, ...]


async def usage_report(
    tx: Tx,
    person_id: int | None,
    room_id: int | None,
    community_id: int | None,
    now: datetime,
    *,
    limits: PersonLimits = DEFAULT_LIMITS,
    pass_class: str | None = None,
    deployment: bool = False,
) -> UsageReport:
    """Return purses and usage of whoever is named; None leaves a scope out.

    Args:
        tx: The open transaction.
        person_id: The asker.
        room_id: Where the asker is.
        community_id: Whose time zone the days have.
        now: The instant whose windows are shown.
        limits: What the asker's role does to the asker's purses.
        pass_class: Show this class's purse and the passes' share instead of a person's purses.
        deployment: Add the deployment's calls by model. Its purses are always there; who may see them is the
            caller's business.
    """
    draw = Draw(person_id=person_id, room_id=room_id, community_id=community_id, pass_class=pass_class, limits=limits)
    purses = tuple(_use(balance) for balance in await balances(tx, draw, now))
    zone = await tx.fetchval(ZONE, community_id) or "UTC"
    since, _ = window_span(Window.DAY, zone, now)
    rows = await tx.fetch(BY_MODEL, since, person_id, room_id, community_id, deployment)
    return UsageReport(purses, tuple(ModelUse(**{**row, "scope": Scope(row["scope"])}) for row in rows))


def _use(balance: Balance) -> PurseUse:
    want, taken = balance.want, balance.spent + balance.held
    return PurseUse(
        scope=want.name,
        unit=want.purse.unit,
        window=want.purse.window,
        used=balance.spent,
        held=balance.held,
        limit=want.limit,
        resets_at=want.ends_at,
        warn=want.limit is not None and taken >= want.limit * want.purse.soft,
    )
