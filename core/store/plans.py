"""Plans of destructive acts: what was previewed, for whom, for ten minutes. Only this module writes the table."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from core.domain.ids import CommunityId, PersonId
from core.store.engine import Tx

ID_CHARS = 8
VALID = timedelta(minutes=10)
LETTERS = "23456789ABCDEFGHJKMNPQRSTUVWXYZ"
"""Without those that are mistaken for one another."""


def new_code() -> str:
    """Return eight letters that nobody guesses in ten minutes."""
    return "".join(secrets.choice(LETTERS) for _ in range(ID_CHARS))


@dataclass(frozen=True, slots=True)
class Plan:
    """What was previewed. `state`: what it was previewed upon; a changed state wants a new preview."""

    act: str
    arguments: Mapping[str, Any]
    state: str


async def offer(
    tx: Tx, person_id: PersonId, community_id: CommunityId, act: str, arguments: Mapping[str, object], state: str = ""
) -> str:
    """Keep a plan for this person alone; return its id. An older plan for the same act is void."""
    await tx.execute("delete from voidbot.plans where person_id = $1 and act = $2", person_id, act)
    code = new_code()
    await tx.execute(
        "insert into voidbot.plans (id, person_id, community_id, act, arguments, state, expires_at)"
        " values ($1, $2, $3, $4, $5, $6, voidbot.now() + $7)",
        code,
        person_id,
        community_id,
        act,
        dict(arguments),
        state,
        VALID,
    )
    return code


async def take(tx: Tx, code: str, person_id: PersonId, community_id: CommunityId, act: str) -> Plan | None:
    """Use a plan up; None if it is nobody's, somebody else's, for another act or place, used, or too old."""
    row = await tx.fetchrow(
        "delete from voidbot.plans where id = $1 and person_id = $2 and community_id = $3 and act = $4"
        " and expires_at > voidbot.now() returning act, arguments, state",
        code.strip().upper(),
        person_id,
        community_id,
        act,
    )
    return None if row is None else Plan(row["act"], row["arguments"], row["state"])


async def sweep(tx: Tx) -> int:
    """Forget plans that are too old."""
    return await tx.execute("delete from voidbot.plans where expires_at < voidbot.now()")
