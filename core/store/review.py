"""Words of rooms that are watched and not archived, for a day. Only this module writes the table.

They share the counter of the archive, so that whoever reads a room on reads both in one order.
"""

from datetime import timedelta

from core.domain.ids import PersonId, RoomId
from core.domain.moderation.signals import Watched
from core.store.engine import Tx

KEPT = timedelta(hours=24)

_ADD = """
with counted as (
    update voidbot.rooms set last_archived_seq = last_archived_seq + 1
    where id = $1 and not exists (select 1 from voidbot.review_window where room_id = $1 and platform_ref = $2
      and revision = $3)
    returning last_archived_seq)
insert into voidbot.review_window (room_id, platform_ref, revision, archived_seq, author_id, sent_at, reply_to_ref,
  text, expires_at)
select $1, $2, $3, last_archived_seq, $4, $5, $6, $7, voidbot.now() + $8 from counted on conflict do nothing"""
_SWEEP = """
delete from voidbot.review_window where (room_id, platform_ref, revision) in (
    select room_id, platform_ref, revision from voidbot.review_window where expires_at < voidbot.now() limit $1)"""


async def add(tx: Tx, message: Watched, author_id: PersonId, reply_to: str | None) -> bool:
    """Keep one revision of a message for a day; False if it is kept already."""
    return bool(
        await tx.execute(
            _ADD,
            message.room_id,
            message.ref,
            message.revision,
            author_id,
            message.at,
            reply_to,
            message.text,
            KEPT,
        )
    )


async def bury(tx: Tx, room_id: RoomId, refs: list[str]) -> int:
    """Drop messages that were deleted; return how many revisions."""
    return await tx.execute(
        "delete from voidbot.review_window where room_id = $1 and platform_ref = any($2::text[])", room_id, refs
    )


async def sweep(tx: Tx, batch: int = 2000) -> int:
    """Delete what is older than a day, some at a time; return how many."""
    return await tx.execute(_SWEEP, batch)
