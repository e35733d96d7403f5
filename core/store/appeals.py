"""Appeals against sanctions: one for each, with how it was decided. Only this module writes the table."""

from dataclasses import dataclass
from datetime import datetime

from core.domain.ids import CommunityId, PersonId
from core.domain.moderation.sanctions import SanctionId
from core.store.engine import Row, Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Appeal:
    """What a member says against a sanction. `granted`: None while nobody has decided."""

    id: int
    sanction_id: SanctionId
    person_id: PersonId
    text: str
    at: datetime
    decided_by: PersonId | None = None
    granted: bool | None = None
    reason: str = ""


def _appeal(row: Row) -> Appeal:
    return Appeal(
        id=row["id"],
        sanction_id=SanctionId(row["sanction_id"]),
        person_id=PersonId(row["person_id"]),
        text=row["text"],
        at=row["at"],
        decided_by=None if row["decided_by"] is None else PersonId(row["decided_by"]),
        granted=row["granted"],
        reason=row["reason"],
    )


async def add(tx: Tx, sanction_id: SanctionId, person_id: PersonId, text: str) -> int | None:
    """Add an appeal; None if there was one already."""
    found: int | None = await tx.fetchval(
        "insert into voidbot.appeals (sanction_id, person_id, text) values ($1, $2, $3) on conflict do nothing"
        " returning id",
        sanction_id,
        person_id,
        text,
    )
    return found


async def find(tx: Tx, appeal_id: int, *, lock: bool = False) -> Appeal | None:
    """Return an appeal; None if there is none. `lock`: until the transaction ends."""
    row = await tx.fetchrow("select * from voidbot.appeals where id = $1" + (" for update" if lock else ""), appeal_id)
    return None if row is None else _appeal(row)


async def find_of(tx: Tx, sanction_id: SanctionId) -> Appeal | None:
    """Return the appeal against a sanction; None if there is none."""
    row = await tx.fetchrow("select * from voidbot.appeals where sanction_id = $1", sanction_id)
    return None if row is None else _appeal(row)


async def list_open(tx: Tx, community_id: CommunityId, limit: int = 20) -> list[Appeal]:
    """Return the appeals of a community that nobody has decided, oldest first."""
    rows = await tx.fetch(
        "select a.* from voidbot.appeals a join voidbot.sanctions s on s.id = a.sanction_id"
        " where s.community_id = $1 and a.granted is null order by a.id limit $2",
        community_id,
        limit,
    )
    return [_appeal(row) for row in rows]


async def decide(tx: Tx, appeal_id: int, by: PersonId, granted: bool, reason: str) -> bool:
    """Decide an appeal; False if somebody has."""
    return bool(
        await tx.execute(
            "update voidbot.appeals set decided_by = $2, decided_at = voidbot.now(), granted = $3, reason = $4"
            " where id = $1 and granted is null",
            appeal_id,
            by,
            granted,
            reason,
        )
    )
