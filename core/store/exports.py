"""Files that hold what is kept of a person, made for that person. Only this module writes the table."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from core.domain.ids import PersonId, RoomId
from core.store.engine import Tx

FOLDER = "exports"
"""Where the files are, below the home folder."""
VALID = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Export:
    """One file that was asked for."""

    id: int
    person_id: PersonId
    room_id: RoomId
    front_end: str
    state: str


async def add(tx: Tx, person_id: PersonId, room_id: RoomId, front_end: str) -> int | None:
    """Note that a person wants a file; None if one is being made already."""
    found: int | None = await tx.fetchval(
        "insert into voidbot.exports (person_id, room_id, front_end) select $1, $2, $3 where not exists"
        " (select 1 from voidbot.exports where person_id = $1 and state = 'queued') returning id",
        person_id,
        room_id,
        front_end,
    )
    return found


async def load(tx: Tx, export_id: int) -> Export | None:
    """Return one wish for a file; None if it is gone, with its person."""
    row = await tx.fetchrow("select * from voidbot.exports where id = $1", export_id)
    if row is None:
        return None
    return Export(row["id"], PersonId(row["person_id"]), RoomId(row["room_id"]), row["front_end"], row["state"])


async def complete(tx: Tx, export_id: int, file_name: str, counts: Mapping[str, int]) -> None:
    """Note that the file is there; it is good for a day."""
    await tx.execute(
        "update voidbot.exports set state = 'ready', file_name = $2, counts = $3, expires_at = voidbot.now() + $4"
        " where id = $1",
        export_id,
        file_name,
        dict(counts),
        VALID,
    )


async def list_files(tx: Tx, person_id: PersonId) -> list[str]:
    """Return the names of the person's files."""
    rows = await tx.fetch("select file_name from voidbot.exports where person_id = $1 and file_name <> ''", person_id)
    return [row["file_name"] for row in rows]


async def take_expired(tx: Tx) -> list[str]:
    """Forget files whose day is over, and wishes that nothing came of; return the names of the files to delete."""
    rows = await tx.fetch(
        "delete from voidbot.exports where expires_at < voidbot.now()"
        " or state = 'queued' and asked_at < voidbot.now() - interval '7 days' returning file_name"
    )
    return [row["file_name"] for row in rows if row["file_name"]]
