"""Communities and rooms, and where a platform's key leads. Only this module writes these tables."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from core.domain.ids import CommunityId, PersonId, RoomId, RoomKey
from core.domain.platforms import Surroundings
from core.domain.rooms import ArchiveSwitch, Community, QuietHours, Room, RoomKind, RoomMode, RoomState
from core.store.engine import Row, Tx
from core.store.words import clean

_ROOM_COLUMNS = """
r.id, r.community_id, r.platform, r.chat_ref, r.topic_ref, r.kind, r.name, r.topic, r.mode,
r.unattended, r.staff, r.paused, r.persona, r.language, r.quiet_from, r.quiet_to, r.state, c.state as community_state,
r.archive, p.archive as archive_above"""
_ROOM_FROM = """
from voidbot.rooms r join voidbot.communities c on c.id = r.community_id left join voidbot.rooms p on p.id = r.parent_id
"""
_ROOM = f"select {_ROOM_COLUMNS} {_ROOM_FROM}"
_PLACE = f"""
select {_ROOM_COLUMNS}, c.chat_ref as community_ref, c.name as community_name, c.mind_id, c.timezone,
       c.language as community_language, c.access_epoch, c.settings_version,
       (select sum(o.access_epoch)::bigint from voidbot.communities o where o.mind_id = c.mind_id) as mind_epoch
{_ROOM_FROM}"""
_BY_KEY = " where r.platform = $1 and r.chat_ref = $2 and r.topic_ref = $3"
_BY_ALIAS = """
 where r.id = (select room_id from voidbot.room_aliases where platform = $1 and chat_ref = $2 and topic_ref = $3)"""


def room_of(row: Row) -> Room:
    """Return the room that a row of `_ROOM`'s columns holds."""
    quiet = None if row["quiet_from"] is None else QuietHours(row["quiet_from"], row["quiet_to"])
    gone = row["community_state"] != "active"
    return Room(
        id=RoomId(row["id"]),
        community_id=CommunityId(row["community_id"]),
        key=RoomKey(row["platform"], row["chat_ref"], row["topic_ref"]),
        kind=RoomKind(row["kind"]),
        name=row["name"],
        topic=row["topic"],
        mode=RoomMode(row["mode"]),
        archive=ArchiveSwitch(row["archive"]),
        archive_above=None if row["archive_above"] is None else ArchiveSwitch(row["archive_above"]),
        community_active=not gone,
        unattended=row["unattended"],
        state=RoomState.DELETED if gone else RoomState(row["state"]),
        language=row["language"],
        persona=row["persona"],
        quiet_hours=quiet,
        paused=row["paused"],
        staff=row["staff"],
    )


@dataclass(frozen=True, slots=True)
class Place:
    """A room, its community, and `mind_epoch`: it rises with every change of who may read what in the mind."""

    room: Room
    community: Community
    mind_epoch: int


def _place_of(row: Row) -> Place:
    community = Community(
        id=CommunityId(row["community_id"]),
        platform=row["platform"],
        chat_ref=row["community_ref"],
        name=row["community_name"],
        mind_id=row["mind_id"],
        timezone=row["timezone"],
        language=row["community_language"],
        access_epoch=row["access_epoch"],
        settings_version=row["settings_version"],
    )
    return Place(room_of(row), community, row["mind_epoch"])


async def find_place(tx: Tx, key: RoomKey) -> Place | None:
    """Return the room with this platform key and its community, as both stand now."""
    row = await tx.fetchrow(_PLACE + _BY_KEY, key.platform, key.chat_ref, key.topic_ref)
    if row is None:  # seldom: the room is new, or has moved
        row = await tx.fetchrow(_PLACE + _BY_ALIAS, key.platform, key.chat_ref, key.topic_ref)
    return None if row is None else _place_of(row)


async def load_place(tx: Tx, room_id: RoomId) -> Place:
    """Return the room and its community as both stand now."""
    row = await tx.fetchrow(_PLACE + " where r.id = $1", room_id)
    if row is None:
        raise LookupError(f"no room {room_id}")
    return _place_of(row)


async def load_room(tx: Tx, room_id: RoomId) -> Room:
    """Return the room as it stands now."""
    row = await tx.fetchrow(_ROOM + " where r.id = $1", room_id)
    if row is None:
        raise LookupError(f"no room {room_id}")
    return room_of(row)


async def list_rooms(tx: Tx, community_id: CommunityId) -> list[Room]:
    """Return the community's rooms by name."""
    return [room_of(row) for row in await tx.fetch(_ROOM + " where c.id = $1 order by r.name, r.id", community_id)]


async def list_mind_rooms(tx: Tx, mind_id: str) -> list[Room]:
    """Return the rooms of all communities that share a mind."""
    return [room_of(row) for row in await tx.fetch(_ROOM + " where c.mind_id = $1 order by r.id", mind_id)]


async def load_rooms(tx: Tx, ids: Iterable[RoomId]) -> list[Room]:
    """Return those of these rooms that there are, by id."""
    found = await tx.fetch(_ROOM + " where r.id = any($1::bigint[]) order by r.id", sorted(ids))
    return [room_of(row) for row in found]


async def count_rooms(tx: Tx) -> int:
    """Return how many rooms there are."""
    return int(await tx.fetchval("select count(*) from voidbot.rooms"))


async def load_community(tx: Tx, community_id: CommunityId) -> Community:
    """Return the community as it stands now."""
    row = await tx.fetchrow("select * from voidbot.communities where id = $1", community_id)
    if row is None:
        raise LookupError(f"no community {community_id}")
    return Community(
        id=CommunityId(row["id"]),
        platform=row["platform"],
        chat_ref=row["chat_ref"],
        name=row["name"],
        mind_id=row["mind_id"],
        timezone=row["timezone"],
        language=row["language"],
        access_epoch=row["access_epoch"],
        settings_version=row["settings_version"],
    )


async def add_community(
    tx: Tx, platform: str, chat_ref: str, name: str, *, timezone: str = "UTC", language: str = "en"
) -> CommunityId:
    """Add a community unless it is there; return its id. Its mind is its own (charter D8)."""
    await tx.execute(
        "insert into voidbot.communities (platform, chat_ref, name, mind_id, timezone, language)"
        " values ($1, $2, $3, $1 || ':' || $2, $4, $5) on conflict (platform, chat_ref) do nothing",
        platform,
        chat_ref,
        clean(name),
        timezone,
        language,
    )
    return CommunityId(
        await tx.fetchval(
            "select id from voidbot.communities where platform = $1 and chat_ref = $2", platform, chat_ref
        )
    )


async def has_community(tx: Tx, platform: str) -> bool:
    """Return whether the platform has any community yet."""
    return bool(await tx.fetchval("select exists (select 1 from voidbot.communities where platform = $1)", platform))


async def add_room(
    tx: Tx,
    community_id: CommunityId,
    key: RoomKey,
    kind: RoomKind,
    name: str,
    *,
    topic: str = "",
    archive: ArchiveSwitch = ArchiveSwitch.INHERIT,
) -> RoomId:
    """Add a room unless it is there; return its id. It starts in mode `mention`, in its community's language."""
    await tx.execute(
        "insert into voidbot.rooms (community_id, platform, chat_ref, topic_ref, kind, name, topic, archive, language)"
        " select $1, $2, $3, $4, $5, $6, $7, $8, language from voidbot.communities where id = $1"
        " on conflict (platform, chat_ref, topic_ref) do nothing",
        community_id,
        key.platform,
        key.chat_ref,
        key.topic_ref,
        kind,
        name,
        topic,
        archive,
    )
    return RoomId(
        await tx.fetchval(
            "select id from voidbot.rooms where platform = $1 and chat_ref = $2 and topic_ref = $3",
            key.platform,
            key.chat_ref,
            key.topic_ref,
        )
    )


# A room that is new takes its parent's switches along: a thread is no way around them.
_MEET = """
insert into voidbot.rooms (community_id, platform, chat_ref, topic_ref, kind, parent_id, name, topic, archive, language,
                           mode, persona, unattended)
select c.id, $2, $3, $4, $5, p.id, $6, $7, case when p.id is null then 'off' else 'inherit' end, c.language,
       coalesce(p.mode, 'mention'), coalesce(p.persona, 'plain'), coalesce(p.unattended, false)
from voidbot.communities c
left join voidbot.rooms p on p.platform = $2 and p.chat_ref = $8 and p.topic_ref = $9
where c.id = $1
on conflict (platform, chat_ref, topic_ref) do update set kind = excluded.kind, name = excluded.name,
  topic = excluded.topic, parent_id = coalesce(excluded.parent_id, rooms.parent_id), state = 'active',
  closed_at = null
returning id"""


async def meet_room(tx: Tx, community_id: CommunityId, key: RoomKey, about: Surroundings) -> RoomId:
    """Make the room's row, or bring it to what the platform says of it now; return its id.

    A new room's archive is off; one that hangs on another takes over the other's switches.
    """
    parent = about.parent
    return RoomId(
        await tx.fetchval(
            _MEET,
            community_id,
            key.platform,
            key.chat_ref,
            key.topic_ref,
            about.kind,
            clean(about.name) or key.chat_ref,
            clean(about.topic),
            None if parent is None else parent.chat_ref,
            None if parent is None else parent.topic_ref,
        )
    )


_SAVE_MODE = """
with r as (
    update voidbot.rooms set mode = coalesce($2, mode), archive = coalesce($3, archive),
      archive_set_by = case when $3::text is null then archive_set_by else $4 end,
      archive_set_at = case when $3::text is null then archive_set_at else voidbot.now() end,
      searchable = coalesce($5, searchable)
    where id = $1 returning community_id)
update voidbot.communities c set settings_version = settings_version + 1 from r where c.id = r.community_id"""


async def save_mode(
    tx: Tx,
    room_id: RoomId,
    *,
    mode: RoomMode | None = None,
    archive: ArchiveSwitch | None = None,
    by: PersonId | None = None,
    searchable: bool | None = None,
) -> None:
    """Set what is not None, and count the community's settings version up. `by`: who has set the archive's switch."""
    await tx.execute(_SAVE_MODE, room_id, mode, archive, "" if by is None else str(by), searchable)


_SAVE_UNATTENDED = """
with r as (update voidbot.rooms set unattended = $2 where id = $1 returning community_id)
update voidbot.communities c set settings_version = settings_version + 1 from r where c.id = r.community_id"""
# A community has one staff room: a new one takes the place of the one before.
_SAVE_STAFF = """
with r as (
    update voidbot.rooms o set staff = $2 and o.id = $1 from voidbot.rooms n
    where n.id = $1 and (o.id = $1 or $2 and o.staff and o.community_id = n.community_id) returning o.community_id)
update voidbot.communities c set settings_version = settings_version + 1 from r where c.id = r.community_id"""
_SAVE_QUIET = """
with r as (update voidbot.rooms set quiet_from = $2, quiet_to = $3 where id = $1 returning community_id)
update voidbot.communities c set settings_version = settings_version + 1 from r where c.id = r.community_id"""


async def save_unattended(tx: Tx, room_id: RoomId, on: bool) -> None:
    """Set whether something may be said in the room unasked, and count the community's settings version up."""
    await tx.execute(_SAVE_UNATTENDED, room_id, on)


async def save_staff(tx: Tx, room_id: RoomId, on: bool) -> None:
    """Make the room its community's staff room, or no longer, and count the community's settings version up."""
    await tx.execute(_SAVE_STAFF, room_id, on)


async def find_staff(tx: Tx, community_id: CommunityId) -> Room | None:
    """Return where the community's staff is asked and told; None if no open room is."""
    row = await tx.fetchrow(_ROOM + " where c.id = $1 and r.staff and r.state = 'active' order by r.id", community_id)
    return None if row is None else room_of(row)


async def save_quiet_hours(tx: Tx, room_id: RoomId, hours: QuietHours | None) -> None:
    """Set the room's quiet hours, and count the community's settings version up."""
    await tx.execute(_SAVE_QUIET, room_id, None if hours is None else hours.start, None if hours is None else hours.end)


async def save_retention(tx: Tx, room_id: RoomId, days: int | None) -> None:
    """Set for how many days the room's messages are kept; None: for as long as where it hangs on says, or for ever."""
    await tx.execute("update voidbot.rooms set retention_days = $2 where id = $1", room_id, days)


async def list_searchable(tx: Tx, rooms: Iterable[RoomId]) -> list[RoomId]:
    """Return those of these rooms of which what is kept may be found."""
    rows = await tx.fetch(
        "select id from voidbot.rooms where id = any($1::bigint[]) and searchable order by id", sorted(rooms)
    )
    return [RoomId(row["id"]) for row in rows]


async def save_persona(tx: Tx, room_id: RoomId, name: str) -> None:
    """Set the room's style pack."""
    await tx.execute("update voidbot.rooms set persona = $2 where id = $1", room_id, name)


_LEARN_COMMUNITY = """
insert into voidbot.communities (platform, chat_ref, name, mind_id, timezone, language)
values ($1, $2, $3, $1 || ':' || $2, $4, $5)
on conflict (platform, chat_ref) do update set name = excluded.name, state = 'active', left_at = null
returning id"""
# Not seen any more may mean not allowed to see: without a time its words are not deleted.
_CLOSE_OTHERS = """
with recursive gone as (
    select id from voidbot.rooms where community_id = $1 and parent_id is null and kind = 'channel'
      and state = 'active' and id <> all($2::bigint[])
    union select r.id from voidbot.rooms r join gone on r.parent_id = gone.id)
update voidbot.rooms set state = 'deleted' where id in (select id from gone) returning id"""
_CLOSE = """
with recursive gone as (
    select id from voidbot.rooms where platform = $1 and chat_ref = $2 and topic_ref = $3
    union select r.id from voidbot.rooms r join gone on r.parent_id = gone.id),
  closed as (
    update voidbot.rooms set state = 'deleted', closed_at = coalesce(closed_at, voidbot.now())
    where id in (select id from gone) returning id, community_id),
  raised as (
    update voidbot.communities set access_epoch = access_epoch + 1 where id in (select community_id from closed))
select id from closed"""


async def learn_community(tx: Tx, platform: str, ref: str, name: str, *, timezone: str, language: str) -> CommunityId:
    """Add the community, or open it again under its present name; the last two are for one never seen."""
    return CommunityId(await tx.fetchval(_LEARN_COMMUNITY, platform, ref, clean(name) or ref, timezone, language))


async def close_others(tx: Tx, community_id: CommunityId, kept: Sequence[RoomId]) -> list[RoomId]:
    """Close the channels of the community that are not among `kept`, with what hangs on them; return all of these."""
    return [RoomId(row["id"]) for row in await tx.fetch(_CLOSE_OTHERS, community_id, kept)]


async def close_room(tx: Tx, key: RoomKey) -> list[RoomId]:
    """Close the room and what hangs on it; return all of these."""
    return [RoomId(row["id"]) for row in await tx.fetch(_CLOSE, key.platform, key.chat_ref, key.topic_ref)]


async def close_community(tx: Tx, platform: str, ref: str) -> None:
    """Close the community until the platform speaks of it again."""
    await tx.execute(
        "update voidbot.communities set state = 'gone', access_epoch = access_epoch + 1,"
        " left_at = coalesce(left_at, voidbot.now())"
        " where platform = $1 and chat_ref = $2",
        platform,
        ref,
    )


async def doubt(tx: Tx, platform: str, refs: Sequence[str] | None) -> None:
    """Note that what is known of these communities' readers may be out of date; None: of all of the platform."""
    await tx.execute(
        "update voidbot.communities set access_state = 'stale', access_epoch = access_epoch + 1"
        " where platform = $1 and access_state <> 'stale' and ($2::text[] is null or chat_ref = any($2))"
        " and exists (select 1 from voidbot.rooms r where r.community_id = communities.id and r.kind <> 'dm')",
        platform,
        refs,
    )


async def trust(tx: Tx, community_id: CommunityId) -> None:
    """Note that the community's readers are known as of now."""
    await tx.execute("update voidbot.communities set access_state = 'fresh' where id = $1", community_id)


async def find_community(tx: Tx, platform: str, ref: str) -> CommunityId | None:
    """Return the community with this platform id."""
    found = await tx.fetchval("select id from voidbot.communities where platform = $1 and chat_ref = $2", platform, ref)
    return None if found is None else CommunityId(found)


async def languages_of(tx: Tx, rooms: Sequence[RoomId]) -> list[str]:
    """Return the languages of these rooms."""
    rows = await tx.fetch("select distinct language from voidbot.rooms where id = any($1::bigint[])", rooms)
    return sorted(row["language"] for row in rows)


async def find_communities(tx: Tx, wanted: str) -> list[CommunityId]:
    """Return the communities that an operator may mean by their number, platform id, both, or name."""
    rows = await tx.fetch(
        "select id from voidbot.communities where state = 'active' and $1 in (id::text, chat_ref,"
        " platform || ':' || chat_ref, name) order by id",
        wanted,
    )
    return [CommunityId(row["id"]) for row in rows]
