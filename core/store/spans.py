"""What people said in rooms within a span of time, for summaries."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from core.domain.ids import PersonId, RoomId
from core.store.archive import COLUMNS, JOINS, USABLE, ArchivedMessage, message_of
from core.store.engine import Tx

_SPAN = f"""
{COLUMNS} from voidbot.messages m {JOINS}
where {USABLE} and m.room_id = any($2::bigint[]) and m.kind = any($3::text[]) and not p.is_bot and m.text <> ''
  and m.sent_at < $5 and ($4::timestamptz is null or m.sent_at >= $4)
order by m.sent_at desc, m.id desc limit $6"""


@dataclass(frozen=True, slots=True)
class Span:
    """Messages oldest first. `more`: the span holds older ones too."""

    messages: tuple[ArchivedMessage, ...]
    more: bool


async def read_span(
    tx: Tx,
    readable: Sequence[RoomId],
    rooms: Sequence[RoomId],
    kinds: Collection[str],
    *,
    since: datetime | None,
    until: datetime,
    limit: int,
) -> Span:
    """Return the newest messages of people in `rooms` from `since` to before `until`, as far as `readable` allows."""
    rows = await tx.fetch(_SPAN, readable, rooms, sorted(kinds), since, until, limit + 1)
    return Span(tuple(message_of(row) for row in reversed(rows[:limit])), len(rows) > limit)


async def last_spoken(tx: Tx, rooms: Sequence[RoomId], person_id: PersonId, kinds: Collection[str]) -> datetime | None:
    """Return when the person last said something in these rooms; None if never."""
    found: datetime | None = await tx.fetchval(
        "select max(sent_at) from voidbot.messages"
        " where author_id = $2 and room_id = any($1::bigint[]) and kind = any($3::text[]) and deleted_at is null",
        rooms,
        person_id,
        sorted(kinds),
    )
    return found
