"""What is too old to be kept: messages past their room's retention, and those of rooms that are gone.

They leave as an erasure's do, with units, words of the dictionary and what rests on them, and then with their rows.
"""

from core.domain.ids import MessageId
from core.store import erasure, units
from core.store.engine import Tx

DELETED_ROOM_DAYS = 7
"""How long the words of a deleted channel or thread are kept, unused, should the deletion have been a mistake."""
BATCH = 1000

# A thread without a word of its own follows the room that it hangs on.
_OVERDUE = """
with due as (
    select r.id, greatest(
        voidbot.now() - make_interval(days => coalesce(r.retention_days, p.retention_days)),
        case when r.state = 'deleted' and r.closed_at < voidbot.now() - make_interval(days => $2)
             then 'infinity'::timestamptz end) as before
    from voidbot.rooms r left join voidbot.rooms p on p.id = r.parent_id)
select m.id from due cross join lateral (
    select id, sent_at from voidbot.messages where room_id = due.id and sent_at < due.before
    order by sent_at, id limit $1) m
where due.before is not null order by m.sent_at, m.id limit $1"""


async def delete_overdue(tx: Tx, batch: int = BATCH) -> int:
    """Delete the oldest messages that are kept no longer, one batch of them; return how many."""
    overdue = [MessageId(row["id"]) for row in await tx.fetch(_OVERDUE, batch, DELETED_ROOM_DAYS)]
    if overdue:
        await units.queue_vectors(tx, overdue)
        await erasure.bury(tx, overdue)
        await tx.execute("delete from voidbot.messages where id = any($1::bigint[])", overdue)
    return len(overdue)
