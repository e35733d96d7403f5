"""What the store knows of sending in a room: how the last answer that was for everyone there ended. Only reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from core.domain.ids import RoomId
from core.store.engine import Tx

# An answer for one person says nothing of the room: it goes to that person's own chat.
_LAST = """
select r.id as room_id, o.state, o.closed_at, p.error
from unnest($1::bigint[]) r(id)
cross join lateral (
    select id, state, closed_at from voidbot.outbox
    where room_id = r.id and private_to is null and state in ('sent', 'failed')
    order by closed_at desc nulls last, id desc limit 1) o
left join lateral (
    select error from voidbot.outbox_parts where outbox_id = o.id and state = 'failed' order by n limit 1) p on true
where o.state = 'failed'"""


@dataclass(frozen=True, slots=True)
class RefusedSend:
    """The platform's no to the last answer of a room: its reason in our words, and when."""

    code: str
    at: datetime | None


async def last_refusals(tx: Tx, room_ids: Sequence[RoomId]) -> Mapping[RoomId, RefusedSend]:
    """Return the rooms among these whose last answer was refused."""
    rows = await tx.fetch(_LAST, room_ids)
    return {RoomId(row["room_id"]): RefusedSend(row["error"] or "refused", row["closed_at"]) for row in rows}
