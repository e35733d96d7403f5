"""`/void setup`: how the rooms of a community are set up, what is in the way there, and what to type next."""

from collections.abc import Iterator, Mapping

from bot.commands.admins import readable_rooms_of
from bot.commands.spec import CommandAnswer, CommandCall, Services
from core.domain.archiving import is_archived
from core.domain.ids import RoomId
from core.domain.rooms import Room, RoomKind, RoomMode
from core.prompt.fences import shown_name
from core.store import access, refusals
from core.store.engine import Tx
from core.store.refusals import RefusedSend

SHOWN_ROOMS = 40
"""More rooms than these are only counted: nobody reads a longer list."""
_REASONS: Mapping[str, str] = {
    "no_permission": "I may not write here",
    "kicked": "I was put out of here",
    "not_a_member": "I am not in here",
    "room_gone": "the platform does not know this room any more",
    "topic_closed": "this topic is closed to me",
    "topic_gone": "this topic was deleted",
    "thread_archived": "this thread is archived and I may not open it",
    "automod": "the server's AutoMod held my words back",
}


async def setup(tx: Tx, call: CommandCall, services: Services) -> CommandAnswer:
    """Show the rooms that the asker may read, what is in the way in each, and the commands that come next."""
    rooms = await readable_rooms_of(tx, call, services)
    rooms.sort(key=lambda room: room.id != call.room.id)  # this one first
    world = await access.load_world(tx, call.community_id, [])
    kept = {room.id for room in rooms if is_archived(room, services.archiving)}
    known = {room_id for room_id, room in world.rooms.items() if room.known}
    refused = await refusals.last_refusals(tx, [room.id for room in rooms])
    lines = []
    for room in rooms[:SHOWN_ROOMS]:
        lines.append(_room(room, here=room.id == call.room.id, known=room.id in known, kept=room.id in kept))
        lines += [f"  ! {each}" for each in _in_the_way(room, refused.get(room.id))]
    if len(rooms) > SHOWN_ROOMS:
        lines.append(f"and {len(rooms) - SHOWN_ROOMS} more; /void rooms lists them all")
    lines += ["", "Next:", *(f"- {each}" for each in _next(call, rooms, known, kept, refused))]
    return CommandAnswer("\n".join(lines), sources=frozenset(room.id for room in rooms))


def _room(room: Room, *, here: bool, known: bool, kept: bool) -> str:
    parts = [
        f"#{shown_name(room.name)}" + (" (here)" if here else ""),
        str(room.kind),
        str(room.mode),
        "archive on" if kept else "archive off",
        "readers known" if known else "readers not known",
    ]
    return " · ".join(parts)


def _in_the_way(room: Room, refused: RefusedSend | None) -> Iterator[str]:
    """Yield why the bot does not speak in a room, whatever its mode says."""
    if room.paused:
        yield "paused: I answer nothing until that is lifted"
    if refused is not None:
        when = "" if refused.at is None else f" ({refused.at:%Y-%m-%d %H:%M} UTC)"
        yield f"my last answer was refused: {_REASONS.get(refused.code, refused.code)}{when}"


def _next(
    call: CommandCall,
    rooms: list[Room],
    known: set[RoomId],
    kept: set[RoomId],
    refused: Mapping[RoomId, RefusedSend],
) -> Iterator[str]:
    """Yield what to type next: first for this room, then what concerns several, then what is always of use."""
    here = call.room
    if here.mode is RoomMode.SILENT:
        yield "/void mode mention — I answer here when I am mentioned or replied to"
    if here.id not in kept and here.kind is not RoomKind.DM:
        yield "/void mode lurk archive:on — here I answer to my name too, and keep what is said so that I can quote it"
    elif here.mode is RoomMode.MENTION and here.kind is not RoomKind.DM:
        yield "/void mode lurk — here I answer to my name too"
    if others := [room for room in rooms if room.id != here.id and room.id not in kept]:
        yield f"the same in other rooms, typed there: {len(others)} of them keep nothing"
    unknown = [room for room in rooms if room.id not in known]
    if unknown:
        yield (
            f"in {len(unknown)} rooms I do not know who reads, so no other room's words are used there;"
            " `voidbot doctor` says whether the platform could tell me more"
        )
    if refused:
        yield "where I was refused: let my role or account write there; `voidbot doctor` names what is missing"
    yield "/void budget — the limits; /void persona — my style here; /void status — models and queues"
