"""Histories brought along: runs and their errors, and the set-based way of a batch into the archive.

A batch goes by COPY into a table of its transaction, and from there by a few statements for all of its rows. Only
this module writes the runs; it is the second writer of messages, beside `archive`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.domain.ids import CommunityId, PersonId, RoomId
from core.domain.imports import BadRecord, ImportFormat, ImportRecord, Place
from core.store.engine import Tx

RUNNING, DONE = "running", "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One file's way in. `rooms`: room ids by chat number and topic, `0` or `0/17`."""

    id: int
    state: str
    place: Place
    counts: Mapping[str, Any]
    rooms: Mapping[str, int]
    floor: int


_FIND_RUN = "select * from voidbot.import_runs where community_id = $1 and file_sha256 = $2"
_OPEN_RUN = """
insert into voidbot.import_runs (community_id, file_sha256, file_name, format, audience, room_map, actor)
values ($1, $2, $3, $4, $5, jsonb_build_object('rooms', $6::jsonb,
        'floor', (select coalesce(max(id), 0) from voidbot.messages)), $7)
on conflict (community_id, file_sha256) do update set file_name = $3, format = $4, audience = $5,
  room_map = excluded.room_map, byte_offset = 0, line = 1, counts = '{}', state = 'running', digest = '', actor = $7,
  started_at = voidbot.now(), ended_at = null
returning *"""
_SAVE = """
update voidbot.import_runs set byte_offset = $2, line = $3, counts = $4,
  room_map = room_map || jsonb_build_object('chat', $5::int, 'twins', $6::jsonb)
where id = $1"""


async def find_run(tx: Tx, community_id: CommunityId, sha256: str) -> Run | None:
    """Return the run of this very file, in whatever state."""
    row = await tx.fetchrow(_FIND_RUN, community_id, sha256)
    return None if row is None else _run_of(row)


def _run_of(row: Any) -> Run:
    told = row["room_map"]
    place = Place(row["byte_offset"], max(1, row["line"]), told.get("chat"), told.get("twins") or {})
    rooms, floor = told.get("rooms", {}), told.get("floor", 0)
    return Run(id=row["id"], state=row["state"], place=place, counts=row["counts"], rooms=rooms, floor=floor)


async def open_run(
    tx: Tx,
    community_id: CommunityId,
    *,
    sha256: str,
    file_name: str,
    form: ImportFormat,
    audience: str,
    rooms: Mapping[str, int],
    actor: str,
) -> Run:
    """Begin at the file's first byte; what an earlier run of the same file has noted of errors goes."""
    row = await tx.fetchrow(_OPEN_RUN, community_id, sha256, file_name, form.value, audience, dict(rooms), actor)
    if row is None:
        raise LookupError("a run's row vanished within one statement")
    await tx.execute("delete from voidbot.import_errors where run_id = $1", row["id"])
    return _run_of(row)


async def save_progress(tx: Tx, run_id: int, place: Place, counts: Mapping[str, Any]) -> None:
    """Note where to go on, in the transaction that stored everything before."""
    await tx.execute(_SAVE, run_id, place.byte, place.line, dict(counts), place.chat, dict(place.twins))


async def add_errors(tx: Tx, run_id: int, errors: Iterable[BadRecord]) -> None:
    """Note places of the file that gave no record, or a mended one."""
    rows = [(run_id, bad.line, bad.byte, bad.code.value, bad.excerpt) for bad in errors]
    if rows:
        await tx.copy("voidbot", "import_errors", ("run_id", "line", "byte", "code", "excerpt"), rows)


async def end_run(tx: Tx, run_id: int, counts: Mapping[str, Any], digest: str) -> None:
    """Note that the whole file was read."""
    await tx.execute(
        "update voidbot.import_runs set state = 'done', counts = $2, digest = $3, ended_at = voidbot.now()"
        " where id = $1",
        run_id,
        dict(counts),
        digest,
    )


@dataclass(frozen=True, slots=True)
class Staged:
    """A record with the rows it belongs to. `twin_id`: the live room whose equal messages it is not added to."""

    record: ImportRecord
    room_id: RoomId
    author_id: PersonId | None
    twin_id: RoomId | None = None


_STAGING = """
create temporary table import_staging (
  ord integer not null, id bigint not null, room_id bigint not null, author_id bigint, platform_ref text not null,
  kind text not null, text text not null, sent_at timestamptz not null, edited_at timestamptz, reply_to_ref text,
  near_id bigint, far_ref text, session text, forwarded_from text not null, twin_id bigint) on commit drop"""
_IDS = "select nextval('voidbot.messages_id_seq') as id from generate_series(1, $1::bigint)"
_STAGING_FILES = """
create temporary table import_files (
  ord integer not null, ordinal integer not null, kind text not null, name text not null, mime text not null,
  bytes bigint not null, caption text not null) on commit drop"""
_COLUMNS = ("ord", "id", "room_id", "author_id", "platform_ref", "kind", "text", "sent_at", "edited_at",
            "reply_to_ref", "near_id", "far_ref", "session", "forwarded_from", "twin_id")  # fmt: skip
_FILE_COLUMNS = ("ord", "ordinal", "kind", "name", "mime", "bytes", "caption")


async def stage(tx: Tx, rows: Sequence[Staged]) -> None:
    """Put a batch beside the archive, with the ids it will have there; it is gone with the transaction.

    Ids rise in the platform's order. An answer is given the id of what it answers where that is in the batch, too.
    """
    ids = [int(row["id"]) for row in await tx.fetch(_IDS, len(rows))]
    near = {(row.room_id, row.record.ref): id_ for row, id_ in zip(rows, ids, strict=True) if row.twin_id is None}
    await tx.execute(_STAGING)
    await tx.copy("pg_temp", "import_staging", _COLUMNS, _staged(rows, ids, near))
    files = [
        (number, ordinal, file.kind, file.name, file.mime, file.size_bytes, file.caption)
        for number, row in enumerate(rows)
        for ordinal, file in enumerate(row.record.files)
    ]
    await tx.execute(_STAGING_FILES)
    if files:
        await tx.copy("pg_temp", "import_files", _FILE_COLUMNS, files)


def _staged(
    rows: Sequence[Staged], ids: Sequence[int], near: Mapping[tuple[RoomId, str], int]
) -> Iterator[tuple[object, ...]]:
    for number, row in enumerate(rows):
        record = row.record
        target = None if record.reply_to is None else near.get((row.room_id, record.reply_to))
        yield (
            number,
            ids[number],
            row.room_id,
            row.author_id,
            record.ref,
            record.kind,
            record.text,
            record.sent_at,
            record.edited_at,
            record.reply_to,
            target,
            record.reply_to if target is None else None,
            record.session,
            record.forwarded_from,
            row.twin_id,
        )


_LOCK = "select id from voidbot.rooms where id = any($1::bigint[]) order by id for no key update"
_MERGE = """
delete from pg_temp.import_staging s where s.twin_id is not null and exists (
  select 1 from voidbot.messages m where m.room_id = s.twin_id and m.author_id = s.author_id and m.text = s.text
    and m.sent_at >= date_trunc('second', s.sent_at) and m.sent_at < date_trunc('second', s.sent_at) + interval '1 s')
returning s.ord"""
# The bot's own words stand under a mark of their own. One look by index for each row, however large the archive is.
_KNOWN = """
select s.ord, s.id, m.id as there, m.origin <> 'import' as live, m.deleted_at is not null as gone,
       coalesce(m.origin_run = $1 and m.id > $2, false) as twice,
       m.origin = 'import' and m.deleted_at is null and s.edited_at is not null
         and (m.edited_at is null or m.edited_at < s.edited_at) and m.text <> s.text as newer
from pg_temp.import_staging s
cross join lateral (
  select * from voidbot.messages m
  where m.room_id = s.room_id and m.platform_ref = any (array[s.platform_ref, 'own:' || s.platform_ref])
  limit 1) m"""
# What answers a message that was there already is joined to that one.
_DROP_KNOWN = "delete from pg_temp.import_staging where ord = any($1::integer[])"
_POINT = """
update pg_temp.import_staging s set near_id = k.there from unnest($1::bigint[], $2::bigint[]) k(id, there)
where s.near_id = k.id"""
# A later text in the same file replaces the earlier one: nobody has seen that, however the batches fell.
_EDIT = """
with given as (
    select k.id, k.twice, s.room_id, s.text, s.edited_at,
           row_number() over (partition by s.room_id, k.twice order by s.ord) as n
    from unnest($1::integer[], $2::bigint[], $3::boolean[]) k(ord, id, twice)
    join pg_temp.import_staging s on s.ord = k.ord),
  counted as (
    update voidbot.rooms r set last_archived_seq = r.last_archived_seq + c.count
    from (select room_id, count(*) from given where not twice group by room_id) c where r.id = c.room_id
    returning r.id, r.last_archived_seq - c.count as before),
  edited as (
    update voidbot.messages m set text = g.text, edited_at = g.edited_at,
      revision = m.revision + (not g.twice)::integer,
      index_state = case when m.kind = 'system' then 'none' else 'queued' end
    from given g where m.id = g.id returning m.id, m.revision)
insert into voidbot.message_revisions (message_id, revision, room_id, archived_seq)
select g.id, e.revision, g.room_id, r.before + g.n from given g join counted r on r.id = g.room_id
join edited e on e.id = g.id where not g.twice"""
_ADD = """
with counted as (
    update voidbot.rooms r set last_archived_seq = r.last_archived_seq + c.count
    from (select room_id, count(*) from pg_temp.import_staging group by room_id) c where r.id = c.room_id
    returning r.id, r.community_id, r.language, r.last_archived_seq - c.count as before),
  stored as (
    insert into voidbot.messages (id, community_id, room_id, author_id, platform_ref, archived_seq, kind, text,
      sent_at, edited_at, reply_to_ref, reply_to_id, session, forwarded_from, lang, origin, origin_run, index_state)
    overriding system value
    select s.id, r.community_id, s.room_id, s.author_id, s.platform_ref,
      r.before + row_number() over (partition by s.room_id order by s.id), s.kind, s.text, s.sent_at, s.edited_at,
      s.reply_to_ref,
      case when s.near_id is not null then s.near_id when s.far_ref is not null then (
        select m.id from voidbot.messages m where m.room_id = s.room_id and m.platform_ref = s.far_ref) end,
      s.session, s.forwarded_from, r.language, 'import', $1,
      case when s.kind = 'system' or s.text = '' then 'none' else 'queued' end
    from pg_temp.import_staging s join counted r on r.id = s.room_id
    returning id, room_id, archived_seq)
insert into voidbot.message_revisions (message_id, revision, room_id, archived_seq)
select id, 0, room_id, archived_seq from stored"""
_ADD_FILES = """
insert into voidbot.attachments (message_id, ordinal, kind, name, mime, bytes, caption)
select s.id, a.ordinal, a.kind, a.name, a.mime, a.bytes, a.caption from pg_temp.import_files a
join pg_temp.import_staging s on s.ord = a.ord"""


@dataclass(frozen=True, slots=True)
class Known:
    """What stood in the archive already. `newer`: the file has a later text, which was taken."""

    number: int
    live: bool
    gone: bool
    twice: bool
    newer: bool


@dataclass(frozen=True, slots=True)
class Merged:
    """What became of a batch: numbers of rows added, places of rows that were there, and of copies of live ones."""

    added: int
    known: tuple[Known, ...]
    merged: tuple[int, ...]


async def add_staged(tx: Tx, run: Run, rooms: Sequence[RoomId], *, twins: bool) -> Merged:
    """Bring the staged batch into the archive. `twins`: some of its rooms stand beside a live one.

    The rooms' rows are locked first: what is counted afterwards is true until the commit.
    """
    await tx.fetch(_LOCK, sorted(set(rooms)))
    merged = tuple(row["ord"] for row in await tx.fetch(_MERGE)) if twins else ()
    rows = await tx.fetch(_KNOWN, run.id, run.floor)
    known = tuple(Known(row["ord"], row["live"], row["gone"], row["twice"], row["newer"]) for row in rows)
    if newer := [row for row in rows if row["newer"]]:
        await tx.execute(_EDIT, *([row[name] for row in newer] for name in ("ord", "there", "twice")))
    if known:
        await tx.execute(_DROP_KNOWN, [each.number for each in known])
        await tx.execute(_POINT, [row["id"] for row in rows], [row["there"] for row in rows])
    added = await tx.execute(_ADD, run.id)
    if added:
        await tx.execute(_ADD_FILES)
    return Merged(added, known, merged)


_LINK = """
with missing as (
    select m.id, (select t.id from voidbot.messages t
                  where t.room_id = m.room_id and t.platform_ref = m.reply_to_ref) as target
    from voidbot.messages m
    where m.room_id = any($2::bigint[]) and m.reply_to_ref is not null and m.origin_run = $1 and m.reply_to_id is null)
update voidbot.messages m set reply_to_id = l.target from missing l
where m.id = l.id and l.target is not null and l.target <> m.id"""
# A sum does not depend on the order, and neither on our own ids.
_DIGEST = """
select count(*) as n, coalesce(sum(hashtextextended(f.line, 0)::numeric), 0) as a,
       coalesce(sum(hashtextextended(f.line, 1)::numeric), 0) as b
from (select concat_ws(chr(31), r.platform, r.chat_ref, r.topic_ref, m.platform_ref, coalesce(p.account_ref, ''),
                       extract(epoch from m.sent_at), md5(m.text), coalesce(m.reply_to_ref, '')) as line
      from voidbot.messages m join voidbot.rooms r on r.id = m.room_id left join voidbot.people p on p.id = m.author_id
      where m.room_id = any($1::bigint[]) and m.origin = 'import') f"""


async def link_replies(tx: Tx, run_id: int, rooms: Sequence[RoomId]) -> int:
    """Join answers to what they answer where that came later in the file; return how many."""
    return await tx.execute(_LINK, run_id, rooms)


async def digest(tx: Tx, rooms: Sequence[RoomId]) -> str:
    """Return what stands for all imported rows of these rooms: equal if they are."""
    row = await tx.fetchrow(_DIGEST, rooms)
    if row is None:
        raise LookupError("a count without a row")
    span = 1 << 64
    return f"{row['n']:x}-{int(row['a']) % span:016x}{int(row['b']) % span:016x}"


EXCERPT_DAYS = 30
"""How long excerpts of what could not be read are kept; they are what people wrote."""


async def forget_old(tx: Tx) -> int:
    """Remove the errors of runs that ended long ago; return how many there were."""
    return await tx.execute(
        "delete from voidbot.import_errors e using voidbot.import_runs r"
        " where r.id = e.run_id and r.ended_at < voidbot.now() - make_interval(days => $1)",
        EXCERPT_DAYS,
    )
