"""Rooms whose messages a proxy service copies, and the names under which their writers appear there."""

from datetime import timedelta

from core.domain.ids import CommunityId, PersonId, RoomKey, TurnId
from core.store import people
from core.store.engine import Tx

_SEEN = """
insert into voidbot.platform_memory (name, value) values ($1, 'seen')
on conflict (name) do update set at = voidbot.now()"""
_COPIES = "select at > voidbot.now() - $2::interval from voidbot.platform_memory where name = $1"
_ANSWERED = "select state = 'answered' or shown from voidbot.turns where id = $1"


def _name(room: RoomKey) -> str:
    return f"proxies:{room.platform}:{room.chat_ref}:{room.topic_ref}"


async def note_copy(tx: Tx, room: RoomKey) -> None:
    """Note that a message of this room was copied just now."""
    await tx.execute(_SEEN, _name(room))


async def are_copied(tx: Tx, room: RoomKey, within: timedelta) -> bool:
    """Return whether a message of this room was copied within that time."""
    return bool(await tx.fetchval(_COPIES, _name(room), within))


async def ensure_name(tx: Tx, room: RoomKey, community_id: CommunityId, account_ref: str, name: str) -> PersonId:
    """Return the person under whose name somebody's words appear."""
    person = await people.ensure_person(tx, room.platform, account_ref, community_id, name, is_bot=True)
    await people.mark_webhook(tx, person.id, proxied=True)
    return person.id


async def was_answered(tx: Tx, turn_id: TurnId) -> bool:
    """Return whether words of a turn's answer may be seen."""
    return bool(await tx.fetchval(_ANSWERED, turn_id))
