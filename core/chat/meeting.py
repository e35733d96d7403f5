"""A room that was never seen before gets its rows: readable by itself alone unless it is our own, archive off."""

from core.domain.messages import Address, InboundMessage
from core.domain.platforms import Surroundings
from core.domain.rooms import RoomKind
from core.store import access, people, places
from core.store.engine import Tx
from core.store.places import Place


async def meet(tx: Tx, message: InboundMessage, *, own: bool, timezone: str, language: str) -> Place:
    """Return the message's room after making it. `own`: rooms of its front end exist only here."""
    about = _surroundings(message, own=own)
    community_id = await places.add_community(
        tx,
        message.room.platform,
        about.community_ref,
        about.community_name or about.community_ref,
        timezone=timezone,
        language=language,
    )
    room_id = await places.meet_room(tx, community_id, message.room, about)
    if about.kind is RoomKind.DM:
        person = await people.ensure_person(
            tx, message.room.platform, message.person_ref, community_id, message.display_name
        )
        await access.save_access(tx, room_id, community_id, everyone=False, users=[person.id])
    elif own:
        await access.save_access(tx, room_id, community_id, everyone=True)
    return await places.load_place(tx, room_id)


def _surroundings(message: InboundMessage, *, own: bool) -> Surroundings:
    """Return what is known of the message's room: as the platform tells it, or as it is with our own rooms."""
    if message.surroundings is not None:
        return message.surroundings
    direct = Address.DM in message.addressed_by
    return Surroundings(
        community_ref=message.front_end if own else message.room.chat_ref,
        kind=RoomKind.DM if direct else RoomKind.TERMINAL if own else RoomKind.CHANNEL,
        name=message.room.chat_ref,
    )
