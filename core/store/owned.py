"""What a person has said and was answered, read out for that person. Reads alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from core.domain.ids import CommunityId, PersonId, RoomId
from core.store.engine import Tx


@dataclass(frozen=True, slots=True)
class Said:
    """One own message. `files`: their names.

    `answered`: what it answers, if the person may still read that. `room_name` is empty where they may not: it may have
    changed since.
    """

    id: int
    room_id: int
    community: str
    room_name: str
    sent_at: datetime
    text: str
    answered: str | None
    files: tuple[str, ...]


_MESSAGES = """
select m.id, m.room_id, c.name as community, case when r.id = any($2::bigint[]) then r.name else '' end as room_name,
        m.sent_at, m.text, p.text as answered,
       array(select a.name from voidbot.attachments a where a.message_id = m.id order by a.ordinal) as files
from voidbot.messages m join voidbot.rooms r on r.id = m.room_id join voidbot.communities c on c.id = m.community_id
left join lateral (
    select a.text from voidbot.messages a join voidbot.people w on w.id = a.author_id
    where a.room_id = m.room_id and a.platform_ref in (m.reply_to_ref, 'own:' || m.reply_to_ref)
      and a.deleted_at is null and not w.opted_out and a.room_id = any($2::bigint[])
      and (a.sources is null or a.sources <@ $2::bigint[]) limit 1) p on true
where m.author_id = any($1::bigint[]) and m.deleted_at is null and (m.room_id, m.id) > ($3, $4)
order by m.room_id, m.id limit $5"""
_ANSWERS = """
select r.outbox_id as receipt, r.at, r.delivered_at, r.rule, r.provider, r.model, r.trigger, r.usd_micro
from voidbot.receipts r where r.person_id = any($1::bigint[]) and r.outbox_id > $2 order by r.outbox_id limit $3"""


async def list_messages(
    tx: Tx, people: Sequence[PersonId], readable: Sequence[RoomId], after: tuple[int, int], limit: int
) -> list[Said]:
    """Return own messages by room and order, those behind `after` (room, message)."""
    rows = await tx.fetch(_MESSAGES, people, readable, *after, limit)
    return [Said(*row.values()) for row in rows]


async def list_answers(tx: Tx, people: Sequence[PersonId], after: int, limit: int) -> list[dict[str, Any]]:
    """Return the receipts of answers to these accounts, those behind `after`."""
    rows = await tx.fetch(_ANSWERS, people, after, limit)
    return [
        {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}
        for row in rows
    ]


async def list_names(tx: Tx, people: Sequence[PersonId]) -> list[str]:
    """Return the names that these accounts had."""
    rows = await tx.fetch(
        "select distinct name from voidbot.person_names where person_id = any($1::bigint[]) order by name", people
    )
    return [row["name"] for row in rows]


async def list_communities(tx: Tx, person_id: PersonId) -> list[CommunityId]:
    """Return the communities that the person is a member of now."""
    rows = await tx.fetch(
        "select community_id from voidbot.memberships where person_id = $1 and left_at is null order by 1", person_id
    )
    return [CommunityId(row["community_id"]) for row in rows]
