"""Communities, rooms and what was said in them. Only this module writes these tables.

Order within a room is `archived_seq`: counted up on the room's row in the transaction that stores the
message, so it is commit order and a cursor over it never skips.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from core.domain.ids import CommunityId, MessageId, PersonId, RoomId, RoomKey
from core.domain.rooms import ArchiveSwitch, Community, QuietHours, Room, RoomKind, RoomMode, RoomState
from core.store.engine import Row, Tx

PROMPT_KIND = "bot_prompt"
"""The kind of a message that was said to the bot."""
OWN_KIND = "bot_reply"
"""The kind of a message that the bot itself said."""

_ROOM_COLUMNS = """
r.id, r.community_id, r.platform, r.chat_ref, r.topic_ref, r.kind, r.name, r.topic, r.mode,
r.unattended, r.paused, r.persona, r.language, r.quiet_from, r.quiet_to, r.state, c.state as community_state,
case when r.archive = 'inherit' then coalesce(p.archive, 'off') else r.archive end = 'on' as archived"""
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
        archived=row["archived"] and not gone,
        unattended=row["unattended"],
        state=RoomState.DELETED if gone else RoomState(row["state"]),
        language=row["language"],
        persona=row["persona"],
        quiet_hours=quiet,
        paused=row["paused"],
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
        name,
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


async def save_mode(
    tx: Tx, room_id: RoomId, *, mode: RoomMode | None = None, archive: ArchiveSwitch | None = None
) -> None:
    """Set what is not None, and count the community's settings version up."""
    await tx.execute(
        "with r as (update voidbot.rooms set mode = coalesce($2, mode), archive = coalesce($3, archive)"
        " where id = $1 returning community_id)"
        " update voidbot.communities c set settings_version = settings_version + 1 from r where c.id = r.community_id",
        room_id,
        mode,
        archive,
    )


async def save_persona(tx: Tx, room_id: RoomId, name: str) -> None:
    """Set the room's style pack."""
    await tx.execute("update voidbot.rooms set persona = $2 where id = $1", room_id, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """A message on its way into the archive. `sources`: rooms it was made from, None for people's words."""

    room_id: RoomId
    community_id: CommunityId
    author_id: PersonId
    platform_ref: str
    kind: str
    text: str
    sent_at: datetime
    reply_to_ref: str | None = None
    origin: str = "live"
    sources: Sequence[RoomId] | None = None


_ADD = """
with known as (select 1 from voidbot.messages where room_id = $2 and platform_ref = $4),
     counted as (update voidbot.rooms set last_archived_seq = last_archived_seq + 1
                 where id = $2 and not exists (select 1 from known) returning last_archived_seq),
     stored as (insert into voidbot.messages
                    (community_id, room_id, author_id, platform_ref, archived_seq, kind, text, sent_at, reply_to_ref,
                     origin, sources)
                select $1, $2, $3, $4, last_archived_seq, $5, $6, $7, $8, $9, $10 from counted
                on conflict (room_id, platform_ref) do nothing returning id, room_id, archived_seq)
insert into voidbot.message_revisions (message_id, revision, room_id, archived_seq, text)
select id, 0, room_id, archived_seq, null from stored returning message_id
"""


async def add_message(tx: Tx, message: NewMessage) -> MessageId | None:
    """Archive one message; None if it was there already."""
    found = await tx.fetchval(
        _ADD,
        message.community_id,
        message.room_id,
        message.author_id,
        message.platform_ref,
        message.kind,
        clean(message.text),
        message.sent_at,
        message.reply_to_ref,
        message.origin,
        None if message.sources is None else sorted(message.sources),
    )
    return None if found is None else MessageId(found)


_EDIT = """
with counted as (update voidbot.rooms set last_archived_seq = last_archived_seq + 1 where id = $1 and exists
                   (select 1 from voidbot.messages where room_id = $1 and platform_ref = $2
                    and deleted_at is null and text <> $3 and (edited_at is null or edited_at <= $4))
                 returning last_archived_seq),
     changed as (update voidbot.messages m set text = $3, revision = revision + 1, edited_at = $4
                 from counted where m.room_id = $1 and m.platform_ref = $2 returning m.id, m.revision)
insert into voidbot.message_revisions (message_id, revision, room_id, archived_seq, text)
select changed.id, changed.revision, $1, counted.last_archived_seq, null from changed, counted returning message_id
"""


async def edit_message(tx: Tx, room_id: RoomId, platform_ref: str, text: str, at: datetime) -> bool:
    """Store a newer text; False if the message is unknown, gone, unchanged, or the edit is an older one."""
    return await tx.fetchval(_EDIT, room_id, platform_ref, clean(text), at) is not None


async def bury_message(tx: Tx, room_id: RoomId, platform_ref: str, reason: str) -> bool:
    """Turn a message into a tombstone: its words go, its place in the thread stays."""
    return bool(
        await tx.execute(
            "update voidbot.messages set text = '', deleted_at = voidbot.now(), delete_reason = $3"
            " where room_id = $1 and platform_ref in ($2, 'own:' || $2) and deleted_at is null",
            room_id,
            platform_ref,
            reason,
        )
    )


@dataclass(frozen=True, slots=True)
class ArchivedMessage:
    """A message with the name its author carries now."""

    id: MessageId
    room_id: RoomId
    room_name: str
    author_id: PersonId
    author_name: str
    is_bot: bool
    platform_ref: str
    reply_to_ref: str | None
    kind: str
    text: str
    sent_at: datetime
    sources: frozenset[RoomId]
    terms: tuple[str, ...] = ()


def message_of(row: Row) -> ArchivedMessage:
    """Return the message that a row of `COLUMNS` holds."""
    return ArchivedMessage(
        id=MessageId(row["id"]),
        room_id=RoomId(row["room_id"]),
        room_name=row["room_name"],
        author_id=PersonId(row["author_id"]),
        author_name=row["author_name"],
        is_bot=row["is_bot"],
        platform_ref=row["platform_ref"],
        reply_to_ref=row["reply_to_ref"],
        kind=row["kind"],
        text=row["text"],
        sent_at=row["sent_at"],
        sources=frozenset(RoomId(room) for room in row["sources"] or [row["room_id"]]),
        terms=tuple(row["terms"]) if "terms" in row else (),
    )


COLUMNS = """
select m.id, m.room_id, r.name as room_name, m.author_id, coalesce(n.name, p.account_ref) as author_name, p.is_bot,
       m.platform_ref, m.reply_to_ref, m.kind, m.text, m.sent_at, m.sources"""
JOINS = """
join voidbot.rooms r on r.id = m.room_id join voidbot.people p on p.id = m.author_id
left join voidbot.person_names n on n.person_id = p.id and n.kind = 'display' and n.valid_to is null"""
USABLE = """
    m.room_id = any($1::bigint[]) and m.deleted_at is null and not p.opted_out
    and (m.sources is null or m.sources <@ $1::bigint[])"""
_TRANSCRIPT = f"""
{COLUMNS} from (
    select * from voidbot.messages m where m.room_id = $2 and m.deleted_at is null and m.sent_at > $4
    order by m.sent_at desc, m.id desc limit $3) m
{JOINS} where {USABLE} order by m.sent_at, m.id"""
_BY_REF = f"{COLUMNS} from voidbot.messages m {JOINS} where {USABLE} and m.room_id = $2 and m.platform_ref = $3"


async def list_transcript(
    tx: Tx, readable: Sequence[RoomId], room_id: RoomId, *, limit: int, since: datetime
) -> list[ArchivedMessage]:
    """Return the room's last messages since then, oldest first, as far as `readable` allows."""
    return [message_of(row) for row in await tx.fetch(_TRANSCRIPT, readable, room_id, limit, since)]


async def find_message(
    tx: Tx, readable: Sequence[RoomId], room_id: RoomId, platform_ref: str
) -> ArchivedMessage | None:
    """Return one message by its platform id, as far as `readable` allows."""
    row = await tx.fetchrow(_BY_REF, readable, room_id, platform_ref)
    return None if row is None else message_of(row)


_CHAIN = f"""
with recursive up as (
    select m.*, 1 as depth from voidbot.messages m where m.room_id = $2 and m.platform_ref in ($3, 'own:' || $3)
    union all
    select m.*, up.depth + 1 from up
    join voidbot.messages m on m.room_id = up.room_id and m.platform_ref in (up.reply_to_ref, 'own:' || up.reply_to_ref)
    where up.depth < $4)
{COLUMNS} from up m {JOINS} where {USABLE} order by m.depth desc"""


async def list_chain(
    tx: Tx, readable: Sequence[RoomId], room_id: RoomId, platform_ref: str, *, depth: int
) -> list[ArchivedMessage]:
    """Return the chain of replies that ends in this message, oldest first."""
    return [message_of(row) for row in await tx.fetch(_CHAIN, readable, room_id, platform_ref, depth)]


async def list_own_texts(tx: Tx, room_id: RoomId, *, limit: int = 5) -> list[str]:
    """Return the bot's own last texts in the room, newest first."""
    rows = await tx.fetch(
        "select m.text from voidbot.messages m join voidbot.people p on p.id = m.author_id"
        " where m.room_id = $1 and p.is_bot and m.kind = $3 and m.deleted_at is null"
        " order by m.sent_at desc, m.id desc limit $2",
        room_id,
        limit,
        OWN_KIND,
    )
    return [row["text"] for row in rows]


def clean(text: str) -> str:
    """Return `text` as Postgres can hold it: no NUL, broken surrogates replaced."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")
