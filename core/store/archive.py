"""What was said in rooms: messages and their revisions. Only this module writes these tables.

Order within a room is `archived_seq`: counted up on the room's row in the transaction that stores the
message, so it is commit order and a cursor over it never skips.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from core.domain.ids import CommunityId, MessageId, PersonId, RoomId
from core.domain.messages import Attachment
from core.store import attachments, reactions, units
from core.store.engine import Row, Tx
from core.store.words import clean

PROMPT_KIND = "bot_prompt"
"""The kind of a message that was said to the bot."""
OWN_KIND = "bot_reply"
"""The kind of a message that the bot itself said."""
OWN_MARK = "own:"
"""What stands before the platform's id of what the bot itself said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMessage:
    """A message on its way into the archive. `sources`: rooms it was made from, None for people's words.

    `proxy_of`: the person who answers for it, where it stands under another name.
    """

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
    forwarded_from: str = ""
    files: Sequence[Attachment] = ()
    proxy_of: PersonId | None = None


# An answer may come before what it answers: it is joined to it then.
_ADD = """
with known as (select 1 from voidbot.messages where room_id = $2 and platform_ref = $4),
     counted as (update voidbot.rooms set last_archived_seq = last_archived_seq + 1
                 where id = $2 and not exists (select 1 from known) returning last_archived_seq),
     stored as (insert into voidbot.messages
                    (community_id, room_id, author_id, platform_ref, archived_seq, kind, text, sent_at, reply_to_ref,
                     origin, sources, index_state, forwarded_from, proxy_of, reply_to_id)
                select $1, $2, $3, $4, last_archived_seq, $5, $6, $7, $8, $9, $10, 'queued', $11, $12,
                       (select id from voidbot.messages t where t.room_id = $2 and t.platform_ref in ($8, 'own:' || $8)
                        order by t.id limit 1)
                from counted
                on conflict (room_id, platform_ref) do nothing returning id, room_id, archived_seq),
     answers as (update voidbot.messages m set reply_to_id = s.id from stored s
                 where m.room_id = s.room_id and m.reply_to_ref = $13 and m.reply_to_id is null)
insert into voidbot.message_revisions (message_id, revision, room_id, archived_seq, text)
select id, 0, room_id, archived_seq, null from stored returning message_id
"""


async def add_message(tx: Tx, message: NewMessage) -> MessageId | None:
    """Archive one message with the names of its files; None if it was there already, or was deleted before it came."""
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
        clean(message.forwarded_from),
        message.proxy_of,
        message.platform_ref.removeprefix(OWN_MARK),
    )
    if found is None:
        return None
    await attachments.add(tx, MessageId(found), message.files)
    return MessageId(found)


# Beyond three revisions a minute the newest one's row is written over: it stands behind every cursor again, and what
# rests on the words before it finds another number.
_EDIT = """
with counted as (update voidbot.rooms set last_archived_seq = last_archived_seq + 1 where id = $1 and exists
                   (select 1 from voidbot.messages where room_id = $1 and platform_ref = $2
                    and deleted_at is null and text <> $3 and (edited_at is null or edited_at <= $4))
                 returning last_archived_seq),
     changed as (update voidbot.messages m set text = $3, revision = revision + 1, edited_at = $4,
                   index_state = 'queued'
                 from counted where m.room_id = $1 and m.platform_ref = $2 and m.deleted_at is null
                   and (m.edited_at is null or m.edited_at <= $4) returning m.id, m.revision),
     storm as (select count(*) >= $5 as rages, max(r.revision) as newest from voidbot.message_revisions r
               join changed on changed.id = r.message_id
               where r.revision > 0 and r.seen_at > voidbot.now() - interval '1 minute'),
     over as (update voidbot.message_revisions r set revision = changed.revision,
                archived_seq = counted.last_archived_seq
              from changed, counted, storm
              where storm.rages and r.message_id = changed.id and r.revision = storm.newest),
     added as (insert into voidbot.message_revisions (message_id, revision, room_id, archived_seq, text)
               select changed.id, changed.revision, $1, counted.last_archived_seq, null from changed, counted, storm
               where not storm.rages)
select id from changed"""
REVISIONS_A_MINUTE = 3


async def edit_message(
    tx: Tx, room_id: RoomId, platform_ref: str, text: str, at: datetime, files: Sequence[Attachment] = ()
) -> bool:
    """Store a newer text; False if the message is unknown, gone, unchanged, or the edit is an older one."""
    found = await tx.fetchval(_EDIT, room_id, platform_ref, clean(text), at, REVISIONS_A_MINUTE)
    if found is None:
        return False
    await attachments.replace(tx, MessageId(found), files)
    return True


_STAND = """
select deleted_at is not null from voidbot.messages where room_id = $1 and platform_ref = $2"""


async def is_gone(tx: Tx, room_id: RoomId, platform_ref: str) -> bool | None:
    """Return whether a message is a tombstone; None if the archive has never heard of it."""
    gone: bool | None = await tx.fetchval(_STAND, room_id, platform_ref)
    return gone


_OWN = """
update voidbot.messages set proxy_of = $3, index_state = 'queued'
where room_id = $1 and platform_ref = $2 and deleted_at is null"""


async def give_owner(tx: Tx, room_id: RoomId, platform_ref: str, person_id: PersonId) -> None:
    """Note whose words an archived message under another name has shown."""
    await tx.execute(_OWN, room_id, platform_ref, person_id)


async def says_otherwise(tx: Tx, room_id: RoomId, platform_ref: str, text: str) -> bool:
    """Return whether a message is archived with other words than these."""
    return bool(
        await tx.fetchval(
            "select exists (select 1 from voidbot.messages where room_id = $1 and platform_ref = $2"
            " and deleted_at is null and text <> $3)",
            room_id,
            platform_ref,
            clean(text),
        )
    )


async def says_no_more(tx: Tx, room_id: RoomId, platform_ref: str, text: str) -> bool:
    """Return whether a message is archived, and these words stand in it no longer."""
    return bool(
        await tx.fetchval(
            "select exists (select 1 from voidbot.messages where room_id = $1 and platform_ref = $2"
            " and deleted_at is null and position($3 in text) = 0)",
            room_id,
            platform_ref,
            clean(text),
        )
    )


_BURY = """
update voidbot.messages set text = '', forwarded_from = '', deleted_at = voidbot.now(), delete_reason = $3,
  index_state = 'queued'
where room_id = $1 and platform_ref = any($2::text[]) and deleted_at is null returning id"""
_PUT_STONES = """
with missing as (
    select g.ref, row_number() over (order by g.ref) as n from (select distinct unnest($2::text[]) as ref) g
    where not exists (select 1 from voidbot.messages m where m.room_id = $1
                      and m.platform_ref in (g.ref, 'own:' || g.ref))),
counted as (
    update voidbot.rooms set last_archived_seq = last_archived_seq + (select count(*) from missing)
    where id = $1 and exists (select 1 from missing)
    returning id, community_id, last_archived_seq - (select count(*) from missing) as before),
stored as (
    insert into voidbot.messages (community_id, room_id, platform_ref, archived_seq, sent_at, deleted_at, delete_reason)
    select c.community_id, c.id, m.ref, c.before + m.n, $4, voidbot.now(), $3 from missing m, counted c
    on conflict (room_id, platform_ref) do nothing returning id, room_id, archived_seq)
insert into voidbot.message_revisions (message_id, revision, room_id, archived_seq)
select id, 0, room_id, archived_seq from stored"""


async def bury_message(tx: Tx, room_id: RoomId, platform_ref: str, reason: str) -> bool:
    """Turn a message into a tombstone: its words go, its place in the thread stays."""
    return bool(await bury_messages(tx, room_id, [platform_ref], reason))


async def bury_messages(
    tx: Tx, room_id: RoomId, refs: Sequence[str], reason: str, *, unheard_at: datetime | None = None
) -> int:
    """Turn messages, also our own answers, into tombstones; return how many had words until now.

    What each said goes everywhere at once: text, earlier texts, names of files, reactions, its entry in the index. The
    neighbours' entries are made anew by indexing. `unheard_at`: of what was never heard a tombstone is left as well,
    of that time, so that it cannot be stored by coming late.
    """
    rows = await tx.fetch(_BURY, room_id, [*refs, *(OWN_MARK + ref for ref in refs)], reason)
    gone = [MessageId(row["id"]) for row in rows]
    if gone:
        await tx.execute(_EMPTY_REVISIONS, gone)
        await attachments.remove(tx, gone)
        await reactions.remove(tx, gone)
        await units.drop(tx, gone)
    if unheard_at is not None and len(gone) < len(refs):
        await tx.execute(_PUT_STONES, room_id, refs, reason, unheard_at)
    return len(gone)


_EMPTY_REVISIONS = """
update voidbot.message_revisions set text = null where message_id = any($1::bigint[]) and text is not null"""


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
    )


COLUMNS = """
select m.id, m.room_id, r.name as room_name, m.author_id, coalesce(n.name, p.account_ref) as author_name, p.is_bot,
       m.platform_ref, m.reply_to_ref, m.kind, m.text, m.sent_at, m.sources"""
JOINS = """
join voidbot.rooms r on r.id = m.room_id join voidbot.people p on p.id = m.author_id
left join voidbot.person_names n on n.person_id = p.id and n.kind = 'display' and n.valid_to is null"""
USABLE = """
    m.room_id = any($1::bigint[]) and m.deleted_at is null and r.searchable and not p.opted_out
    and not exists (select 1 from voidbot.people o where o.id = m.proxy_of and o.opted_out)
    and (m.sources is null or m.sources <@ $1::bigint[])"""
_TRANSCRIPT = f"""
{COLUMNS} from (
    select * from voidbot.messages m where m.room_id = $2 and m.deleted_at is null and m.sent_at > $4
      and ($5::timestamptz is null or m.sent_at < $5)
    order by m.sent_at desc, m.id desc limit $3) m
{JOINS} where {USABLE} order by m.sent_at, m.id"""
_BY_REF = f"{COLUMNS} from voidbot.messages m {JOINS} where {USABLE} and m.room_id = $2 and m.platform_ref = $3"


async def list_transcript(
    tx: Tx,
    readable: Sequence[RoomId],
    room_id: RoomId,
    *,
    limit: int,
    since: datetime,
    until: datetime | None = None,
) -> list[ArchivedMessage]:
    """Return the room's last messages since then, or between the two, oldest first, as far as `readable` allows."""
    return [message_of(row) for row in await tx.fetch(_TRANSCRIPT, readable, room_id, limit, since, until)]


async def find_message(
    tx: Tx, readable: Sequence[RoomId], room_id: RoomId, platform_ref: str
) -> ArchivedMessage | None:
    """Return one message by its platform id, as far as `readable` allows."""
    row = await tx.fetchrow(_BY_REF, readable, room_id, platform_ref)
    return None if row is None else message_of(row)


# By a join: a plan for any lists would look for the ids within the rooms, one room after the other.
_READ = f"""
{COLUMNS} from unnest($2::bigint[]) wanted(id) join voidbot.messages m on m.id = wanted.id {JOINS} where {USABLE}"""


async def read_messages(
    tx: Tx, readable: Sequence[RoomId], ids: Sequence[MessageId]
) -> dict[MessageId, ArchivedMessage]:
    """Return these messages by id, as far as `readable` allows."""
    found = map(message_of, await tx.fetch(_READ, readable, ids))
    return {message.id: message for message in found}


async def id_of(tx: Tx, room_id: RoomId, platform_ref: str) -> MessageId | None:
    """Return our id of a message of a room."""
    found = await tx.fetchval(
        "select id from voidbot.messages where room_id = $1 and platform_ref = $2", room_id, platform_ref
    )
    return None if found is None else MessageId(found)


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


_REHOME_REVISIONS = """
update voidbot.message_revisions set room_id = $2,
  archived_seq = archived_seq + (select last_archived_seq from voidbot.rooms where id = $2) where room_id = $1"""
_REHOME_MESSAGES = """
update voidbot.messages set room_id = $2, community_id = $3,
  archived_seq = archived_seq + (select last_archived_seq from voidbot.rooms where id = $2) where room_id = $1"""


async def rehome(tx: Tx, newer: RoomId, older: RoomId, community_id: CommunityId) -> None:
    """Give what was said in one room to another, after what was said there."""
    await tx.execute(_REHOME_REVISIONS, newer, older)
    await tx.execute(_REHOME_MESSAGES, newer, older, community_id)
    await tx.execute(
        "update voidbot.rooms o set last_archived_seq = o.last_archived_seq + n.last_archived_seq"
        " from voidbot.rooms n where n.id = $1 and o.id = $2",
        newer,
        older,
    )


async def adopt(tx: Tx, room_id: RoomId, community_id: CommunityId) -> None:
    """Let what was said in a room belong to another community."""
    await tx.execute("update voidbot.messages set community_id = $2 where room_id = $1", room_id, community_id)


async def mark_refs(tx: Tx, room_id: RoomId, mark: str) -> None:
    """Put `mark` before the platform's ids of a room's messages: from now on it gives them out anew."""
    await tx.execute(
        "update voidbot.messages set platform_ref = $2 || '/' || platform_ref,"
        " reply_to_ref = $2 || '/' || reply_to_ref where room_id = $1",
        room_id,
        mark,
    )
