"""Links to messages, for a person who may open their rooms now."""

from collections.abc import Collection

from core.domain.ids import MessageId, RoomId, RoomKey
from core.domain.permalinks import permalink
from core.store.engine import Tx

_ADDRESSES = """
select m.id, m.platform_ref, r.platform, r.chat_ref, r.topic_ref, c.chat_ref as community_ref
from voidbot.messages m join voidbot.rooms r on r.id = m.room_id join voidbot.communities c on c.id = r.community_id
join voidbot.people p on p.id = m.author_id
where m.id = any($1::bigint[]) and m.room_id = any($2::bigint[]) and m.deleted_at is null and not p.opted_out"""


async def links_of(tx: Tx, ids: Collection[MessageId], openable: Collection[RoomId]) -> dict[MessageId, str | None]:
    """Return the links of these messages as far as they live in rooms that the asker may open now.

    None: it may be opened, but its platform has no links. A message that is missing may not be opened.
    """
    if not ids or not openable:
        return {}
    return {
        MessageId(row["id"]): permalink(
            row["platform"],
            row["community_ref"],
            RoomKey(row["platform"], row["chat_ref"], row["topic_ref"]),
            row["platform_ref"],
        )
        for row in await tx.fetch(_ADDRESSES, sorted(ids), sorted(openable))
    }
