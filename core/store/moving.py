"""A chat that has a new id: its rooms, its community and what was met under either id become one. All or nothing."""

from dataclasses import dataclass

from core.domain.ids import CommunityId, RoomId, RoomKey
from core.store import places
from core.store.engine import Tx

_ALIAS = """
insert into voidbot.room_aliases (platform, chat_ref, topic_ref, room_id) values ($1, $2, $3, $4)
on conflict (platform, chat_ref, topic_ref) do update set room_id = excluded.room_id"""
_MET_TWICE = """
select n.id as newer, o.id as older, o.community_id from voidbot.rooms n
join voidbot.rooms o on o.platform = n.platform and o.chat_ref = $2 and o.topic_ref = n.topic_ref
where n.platform = $1 and n.chat_ref = $3"""


@dataclass(frozen=True, slots=True)
class MetTwice:
    """A room that was met under its new id before the word of the move came."""

    newer: RoomId
    older: RoomId
    community_id: CommunityId


async def list_met_twice(tx: Tx, old: RoomKey, new: RoomKey) -> list[MetTwice]:
    """Return the rooms of a moved chat that have a row under either id."""
    rows = await tx.fetch(_MET_TWICE, old.platform, old.chat_ref, new.chat_ref)
    return [MetTwice(RoomId(row["newer"]), RoomId(row["older"]), CommunityId(row["community_id"])) for row in rows]


async def remove_room(tx: Tx, room_id: RoomId) -> None:
    """Remove a room whose rows have all gone to another."""
    await tx.execute("delete from voidbot.rooms where id = $1", room_id)


async def list_moving(tx: Tx, old: RoomKey) -> list[RoomId]:
    """Return the rooms that still have the chat's old id."""
    rows = await tx.fetch(
        "select id from voidbot.rooms where platform = $1 and chat_ref = $2", old.platform, old.chat_ref
    )
    return [RoomId(row["id"]) for row in rows]


async def move_chat(tx: Tx, old: RoomKey, new: RoomKey) -> list[tuple[RoomId, CommunityId]]:
    """Give a chat's rooms the new id; the old id leads to the same rooms.

    Returns:
        Rooms that were met under the new id alone, with the community that they now belong to.
    """
    moved = await tx.fetch(
        "update voidbot.rooms set chat_ref = $3 where platform = $1 and chat_ref = $2 returning id, topic_ref",
        old.platform,
        old.chat_ref,
        new.chat_ref,
    )
    for row in moved:
        await tx.execute(_ALIAS, old.platform, old.chat_ref, row["topic_ref"], row["id"])
    ours = await places.find_community(tx, old.platform, old.chat_ref)
    theirs = await places.find_community(tx, new.platform, new.chat_ref)
    if not moved or ours is None or theirs is None:
        return []
    rows = await tx.fetch(
        "update voidbot.rooms set community_id = $2 where community_id = $1 returning id", theirs, ours
    )
    return [(RoomId(row["id"]), ours) for row in rows]


async def drop_moved(tx: Tx, old: RoomKey, new: RoomKey) -> None:
    """Give the community that is this chat the new id; one made for the new id meanwhile is empty by now and goes."""
    ours = await places.find_community(tx, old.platform, old.chat_ref)
    theirs = await places.find_community(tx, new.platform, new.chat_ref)
    if ours is None:
        return
    if theirs is not None:
        await tx.execute("delete from voidbot.communities where id = $1", theirs)
    await tx.execute(
        "update voidbot.communities set chat_ref = $2, access_epoch = access_epoch + 1 where id = $1",
        ours,
        new.chat_ref,
    )
