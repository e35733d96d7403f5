"""Where the index stands in each room, and units marked to be made anew; they are found all the while."""

from dataclasses import dataclass

from core.domain.ids import CommunityId, RoomId
from core.store.engine import Tx

_ROOMS = """
select c.id as community_id, c.name as community, r.id as room_id, r.name as room, m.messages, m.waiting, u.units
from voidbot.rooms r join voidbot.communities c on c.id = r.community_id
cross join lateral (
    select count(*) filter (where index_state <> 'none') as messages,
           count(*) filter (where index_state in ('queued', 'near')) as waiting
    from voidbot.messages where room_id = r.id) m
cross join lateral (select count(*) as units from voidbot.units where room_id = r.id) u
where ($1::bigint is null or c.id = $1) and ($2::bigint is null or r.id = $2) and m.messages + u.units > 0
order by c.id, r.id"""


@dataclass(frozen=True, slots=True)
class RoomIndex:
    """A room's index. `messages`: those that are to have units; `waiting`: of them, those whose units are due."""

    community_id: CommunityId
    community: str
    room_id: RoomId
    room: str
    messages: int
    waiting: int
    units: int


async def list_rooms(
    tx: Tx, *, community_id: CommunityId | None = None, room_id: RoomId | None = None
) -> list[RoomIndex]:
    """Return the rooms that have something to find, of one community or one room alone if it is named."""
    return [
        RoomIndex(
            community_id=CommunityId(row["community_id"]),
            community=row["community"],
            room_id=RoomId(row["room_id"]),
            room=row["room"],
            messages=row["messages"],
            waiting=row["waiting"],
            units=row["units"],
        )
        for row in await tx.fetch(_ROOMS, community_id, room_id)
    ]


# A unit without its hash differs from what will be made, so it is written anew; `near` keeps it found until then.
_ANEW = """
with units as (update voidbot.units set unit_hash = '' where room_id = $1)
update voidbot.messages set index_state = 'near' where room_id = $1 and index_state = 'done'"""


async def make_anew(tx: Tx, room_id: RoomId) -> int:
    """Have every unit of a room made anew; return how many messages wait for that now."""
    return await tx.execute(_ANEW, room_id)
