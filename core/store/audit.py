"""Who did which administrative act, and when: appended, never changed. Only this module writes the table."""

from collections.abc import Mapping

from core.domain.ids import PersonId
from core.store.engine import Row, Tx


async def add(tx: Tx, person_id: PersonId | None, act: str, place: str, details: Mapping[str, object]) -> None:
    """Note one act. `details` holds options as typed, never a message's text."""
    await tx.execute(
        "insert into voidbot.audit (person_id, act, place, details) values ($1, $2, $3, $4)",
        person_id,
        act,
        place,
        dict(details),
    )


async def list_acts(tx: Tx, limit: int = 50) -> list[Row]:
    """Return the newest acts."""
    return await tx.fetch("select * from voidbot.audit order by id desc limit $1", limit)
