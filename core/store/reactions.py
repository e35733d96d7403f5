"""Reactions to archived messages. Only this module writes the table; a reaction is one person's and one emoji."""

from collections.abc import Sequence

from core.domain.ids import MessageId, PersonId, RoomId
from core.store.engine import Tx
from core.store.words import clean

_TARGET = """
select id from voidbot.messages
where room_id = $1 and platform_ref in ($2, 'own:' || $2) and deleted_at is null order by id limit 1 for share"""
_ADD = """
insert into voidbot.reactions (message_id, person_id, emoji) select $1, $2, unnest($3::text[])
on conflict (message_id, person_id, emoji) do nothing"""
_REMOVE = """
delete from voidbot.reactions where message_id = $1 and ($2::bigint is null or person_id = $2)
  and ($3::text[] is null or emoji = any($3))"""


async def find_target(tx: Tx, room_id: RoomId, platform_ref: str) -> MessageId | None:
    """Return the archived message that is reacted to, kept from being deleted meanwhile; None if it has no words."""
    found = await tx.fetchval(_TARGET, room_id, platform_ref)
    return None if found is None else MessageId(found)


async def add(tx: Tx, message_id: MessageId, person_id: PersonId, emoji: Sequence[str]) -> None:
    """Add what is not there yet of a person's reactions."""
    await tx.execute(_ADD, message_id, person_id, [clean(each) for each in emoji])


async def take_back(tx: Tx, message_id: MessageId, person_id: PersonId | None, emoji: Sequence[str] | None) -> None:
    """Remove reactions of a person, None: of everybody; these emoji, None: all."""
    chosen = None if emoji is None else [clean(each) for each in emoji]
    await tx.execute(_REMOVE, message_id, person_id, chosen)


async def remove(tx: Tx, messages: Sequence[MessageId]) -> None:
    """Forget every reaction to these messages."""
    await tx.execute("delete from voidbot.reactions where message_id = any($1::bigint[])", messages)
