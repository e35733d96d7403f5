"""Units: what the index holds for each message. Only this module writes these tables.

A unit is made from a message and its neighbours by `core/domain/units.py`; its tsvector carries the fields as
weights: A own words, B near, C far, D when. A message says in `index_state` whether its unit is made, so a search
can read what is not indexed yet from the messages themselves.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from core.domain.ids import CommunityId, MessageId, PersonId, RoomId
from core.domain.units import Spoken, Unit
from core.store.engine import Row, Tx

BESIDE_CHARS = 8_000
"""What is indexed of a message's files."""
WINDOW = 500
"""How many messages of a room one step reads."""
MARGIN = 4
"""How many messages before the first that waits are read: the neighbours of its neighbours."""
UNSEARCHED = ("system", "command")
"""Kinds that no search returns."""

_CONFIGS = {
    "da": "danish", "de": "german", "en": "english", "es": "spanish", "fi": "finnish", "fr": "french",
    "hu": "hungarian", "it": "italian", "nl": "dutch", "no": "norwegian", "pt": "portuguese", "ro": "romanian",
    "ru": "russian", "sv": "swedish", "tr": "turkish",
}  # fmt: skip


def config_of(language: str) -> str:
    """Return Postgres' text search configuration for a room's language; `simple` where it has none."""
    return _CONFIGS.get(language.lower()[:2], "simple")


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A message read for indexing. `changed`: it is new, edited or gone itself; else only a neighbour was."""

    spoken: Spoken
    ref: str
    reply_to: str | None
    waits: bool
    changed: bool


_ROOMS = """
with recursive found as (
    (select room_id from voidbot.messages where index_state in ('queued', 'near') order by room_id limit 1)
    union all
    select (select m.room_id from voidbot.messages m where m.index_state in ('queued', 'near') and m.room_id > f.room_id
            order by m.room_id limit 1) from found f where f.room_id is not null)
select f.room_id, r.community_id, r.language from found f join voidbot.rooms r on r.id = f.room_id limit $1"""


@dataclass(frozen=True, slots=True)
class RoomToIndex:
    """A room in which messages wait for their units."""

    room_id: RoomId
    community_id: CommunityId
    language: str


async def rooms_waiting(tx: Tx, limit: int) -> list[RoomToIndex]:
    """Return rooms in which messages wait to be indexed."""
    rows = await tx.fetch(_ROOMS, limit)
    return [RoomToIndex(RoomId(r["room_id"]), CommunityId(r["community_id"]), r["language"]) for r in rows]


async def find_room(tx: Tx, room_id: RoomId) -> RoomToIndex | None:
    """Return a room as the index needs it; None if it is gone."""
    row = await tx.fetchrow("select id, community_id, language from voidbot.rooms where id = $1", room_id)
    return None if row is None else RoomToIndex(RoomId(row["id"]), CommunityId(row["community_id"]), row["language"])


_SPOKEN = f"""
select m.id, m.room_id, m.author_id, coalesce(n.name, p.account_ref, '') as speaker,
       coalesce(p.is_bot, false) as by_bot, m.sent_at, m.text, m.kind, m.session, m.sources, m.platform_ref,
       m.reply_to_ref,
       m.deleted_at is null and p.id is not null and not p.opted_out
         and not exists (select 1 from voidbot.people o where o.id = m.proxy_of and o.opted_out)
         and m.kind <> all(array{list(UNSEARCHED)!r}::text[]) as usable,
       m.index_state in ('queued', 'near') as waits, m.index_state = 'queued' as changed,
       coalesce((select string_agg(concat_ws(' ', a.name, a.caption, a.extracted_text), ' ' order by a.ordinal)
                 from voidbot.attachments a where a.message_id = m.id), '') as beside
"""
# Rows are locked before they are read by a statement of its own: what an erasure or an edit commits meanwhile would
# come back with the older words. Those who answer them may go on, for the key stays as it is.
_LOCK_WINDOW = f"""
with start as (select sent_at, id from voidbot.messages where room_id = $1 and index_state in ('queued', 'near')
               order by room_id, sent_at, id limit 1),
window_ as (
    (select m.id from voidbot.messages m, start where m.room_id = $1 and (m.sent_at, m.id) < (start.sent_at, start.id)
     order by m.sent_at desc, m.id desc limit {MARGIN})
    union all
    (select m.id from voidbot.messages m, start where m.room_id = $1 and (m.sent_at, m.id) >= (start.sent_at, start.id)
     order by m.sent_at, m.id limit {WINDOW}))
select id from voidbot.messages where id in (select id from window_) order by id for no key update"""
_LOCK_PARENTS = """
select id from voidbot.messages where room_id = $1 and platform_ref = any($2::text[]) order by id for no key update"""
_LOCKED = f"""
{_SPOKEN}
from voidbot.messages m left join voidbot.people p on p.id = m.author_id
left join voidbot.person_names n on n.person_id = p.id and n.kind = 'display' and n.valid_to is null
where m.id = any($1::bigint[]) order by m.sent_at, m.id"""


async def read_window(tx: Tx, room_id: RoomId) -> list[Waiting]:
    """Return the room's messages around the first that waits, in shown order; empty if none does.

    They are locked until the transaction ends: whoever changes or erases one waits until its unit is written.
    """
    return await _read_locked(tx, await tx.fetch(_LOCK_WINDOW, room_id))


async def read_parents(tx: Tx, room_id: RoomId, refs: Sequence[str]) -> dict[str, Spoken]:
    """Return messages of the room by their platform ids, locked; our own answers also by the id without its mark."""
    if not refs:
        return {}
    found = await _read_locked(tx, await tx.fetch(_LOCK_PARENTS, room_id, [*refs, *(f"own:{ref}" for ref in refs)]))
    return {each.ref.removeprefix("own:"): each.spoken for each in found}


async def _read_locked(tx: Tx, locked: Sequence[Row]) -> list[Waiting]:
    return [_waiting(row) for row in await tx.fetch(_LOCKED, [row["id"] for row in locked])] if locked else []


def _waiting(row: Row) -> Waiting:
    sources = row["sources"]
    return Waiting(
        spoken=Spoken(
            id=MessageId(row["id"]),
            room_id=RoomId(row["room_id"]),
            author_id=PersonId(row["author_id"] or 0),
            speaker=row["speaker"],
            by_bot=row["by_bot"],
            sent_at=row["sent_at"],
            text=row["text"],
            kind=row["kind"],
            usable=row["usable"],
            session=row["session"],
            beside=row["beside"][:BESIDE_CHARS],
            sources=None if sources is None else tuple(RoomId(room) for room in sources),
        ),
        ref=row["platform_ref"],
        reply_to=row["reply_to_ref"],
        waits=row["waits"],
        changed=row["changed"],
    )


# What differs is written, what is gone is deleted, and both wait for the vector stores; all in one statement.
_WRITE = """
with given as (
    select * from unnest($5::bigint[], $6::int[], $7::bigint[], $8::boolean[], $9::timestamptz[], $10::text[],
                         $11::int[], $12::int[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[],
                         $18::text[], $19::text[], $20::text[])
      as g(message_id, part, author_id, by_bot, sent_at, kind, quote_from, quote_to, own, near, far, said_on, idents,
           sources, own_hash, unit_hash)),
before as (select id, message_id, part, own_hash, unit_hash from voidbot.units where message_id = any($4::bigint[])),
gone as (
    delete from voidbot.units u using before b where u.id = b.id
      and not exists (select 1 from given g where g.message_id = b.message_id and g.part = b.part)
    returning u.id, u.community_id),
put as (
    insert into voidbot.units as u (community_id, room_id, message_id, part, author_id, by_bot, sent_at, kind, sources,
                                    quote_from, quote_to, len, unit_hash, own_hash, tsv)
    select $1, $2, g.message_id, g.part, g.author_id, g.by_bot, g.sent_at, g.kind, g.sources::bigint[], g.quote_from,
           g.quote_to, length(f.a) + length(f.i) + .5 * length(f.b) + .3 * length(f.c) + .5 * length(f.d),
           g.unit_hash, g.own_hash,
           setweight(f.a, 'A') || f.i || setweight(f.b, 'B') || setweight(f.c, 'C') || setweight(f.d, 'D')
    from given g left join before b on b.message_id = g.message_id and b.part = g.part
    cross join lateral (
        select to_tsvector($3::text::regconfig, g.own) as a, g.idents::tsvector as i,
               to_tsvector($3::text::regconfig, g.near) as b, to_tsvector($3::text::regconfig, g.far) as c,
               to_tsvector($3::text::regconfig, g.said_on) as d offset 0) f
    where b.unit_hash is distinct from g.unit_hash
    on conflict (message_id, part) do update set
        author_id = excluded.author_id, by_bot = excluded.by_bot, sent_at = excluded.sent_at, kind = excluded.kind,
        sources = excluded.sources, quote_from = excluded.quote_from, quote_to = excluded.quote_to, len = excluded.len,
        unit_hash = excluded.unit_hash, own_hash = excluded.own_hash, tsv = excluded.tsv
    returning u.id, u.community_id, u.own_hash),
embed as (
    select id, community_id from gone
    union all
    select put.id, put.community_id from put left join before b on b.id = put.id
    where b.own_hash is distinct from put.own_hash),
queued as (
    insert into voidbot.embed_queue (model, unit_id, community_id)
    select m.name, e.id, e.community_id from embed e
    join voidbot.embedding_models m on m.state <> 'dropped'
    on conflict (model, unit_id) do update set queued_at = voidbot.now()),
settled as (update voidbot.messages set index_state = 'done' where id = any($4::bigint[]) and index_state <> 'done')
select (select count(*) from put) as written, (select count(*) from gone) as gone"""


async def write_units(tx: Tx, room: RoomToIndex, done: Sequence[MessageId], units: Sequence[Unit]) -> tuple[int, int]:
    """Bring the units of the messages in `done` to `units`; what is not among them goes.

    Returns:
        How many were written and how many deleted; 0 for what was right already.
    """
    row = await tx.fetchrow(
        _WRITE,
        room.community_id,
        room.room_id,
        config_of(room.language),
        done,
        [unit.message.id for unit in units],
        [unit.part for unit in units],
        [unit.message.author_id for unit in units],
        [unit.message.by_bot for unit in units],
        [unit.message.sent_at for unit in units],
        [unit.message.kind for unit in units],
        [unit.quote_from for unit in units],
        [unit.quote_to for unit in units],
        [unit.own for unit in units],
        [unit.near for unit in units],
        [unit.far for unit in units],
        [unit.when for unit in units],
        [_tsvector(unit.idents) for unit in units],
        [None if unit.sources is None else f"{{{','.join(map(str, unit.sources))}}}" for unit in units],
        [unit.own_hash for unit in units],
        [unit.unit_hash for unit in units],
    )
    if row is None:
        raise LookupError("units: the statement returned nothing")
    return int(row["written"]), int(row["gone"])


def _tsvector(lexemes: Sequence[str]) -> str:
    """Return lexemes as a tsvector's text, weighted as own words."""
    return " ".join(f"{quoted(lexeme)}:1A" for lexeme in lexemes)


def quoted(lexeme: str) -> str:
    """Return a lexeme as it stands in the text of a tsvector or tsquery."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


_DROP = """
with gone as (delete from voidbot.units where message_id = any($1::bigint[]) returning id, community_id)
insert into voidbot.embed_queue (model, unit_id, community_id)
select m.name, g.id, g.community_id from gone g join voidbot.embedding_models m on m.state <> 'dropped'
on conflict (model, unit_id) do update set queued_at = voidbot.now()"""


async def drop(tx: Tx, messages: Sequence[MessageId]) -> None:
    """Remove the units of these messages at once; their vectors wait to be deleted."""
    await tx.execute(_DROP, messages)


async def queue_replies(tx: Tx, room_id: RoomId, refs: Sequence[str]) -> None:
    """Have the units made anew that hold these messages as what they answer."""
    if refs:
        await tx.execute(
            "update voidbot.messages set index_state = 'near'"
            " where room_id = $1 and reply_to_ref = any($2::text[]) and index_state = 'done'",
            room_id,
            refs,
        )


_QUEUE_VECTORS = """
insert into voidbot.embed_queue (model, unit_id, community_id)
select m.name, u.id, u.community_id from voidbot.units u join voidbot.embedding_models m on m.state <> 'dropped'
where u.message_id = any($1::bigint[])
on conflict (model, unit_id) do update set queued_at = voidbot.now()"""


async def queue_vectors(tx: Tx, messages: Sequence[MessageId]) -> None:
    """Have the vectors of these messages' units looked at: those of units that are gone by then are deleted."""
    await tx.execute(_QUEUE_VECTORS, messages)


async def index_author_anew(tx: Tx, author_id: PersonId) -> None:
    """Have what a person said indexed anew, with what stands around it: who has opted out leaves both."""
    await tx.execute(
        "update voidbot.messages set index_state = 'queued' where (author_id = $1 or proxy_of = $1)"
        " and index_state in ('done', 'near')",
        author_id,
    )


_STATS = """
select s.units, r.last_archived_seq as n from voidbot.rooms r left join voidbot.index_stats s on s.room_id = r.id
where r.id = $1"""
# Counted by room, so that a search weighs words by what its readers may read, and by nothing else. What the bot made
# from other rooms may be closed to them too.
_TERM_DF = """
insert into voidbot.term_df (room_id, lexeme, df)
select $1, word, ndoc
from ts_stat('select tsv from voidbot.units where sources is null and room_id = ' || $1::bigint)"""
_INDEX_STATS = """
insert into voidbot.index_stats (room_id, units, avg_len)
select $1, count(*), coalesce(avg(len), 1) from voidbot.units where room_id = $1 and sources is null
on conflict (room_id) do update set units = excluded.units, avg_len = excluded.avg_len, at = voidbot.now()"""
GROWN = 1.25
"""How much a room may grow before its words are counted again."""


async def stats_are_old(tx: Tx, room_id: RoomId) -> bool:
    """Return whether the room has grown much since its words were counted."""
    row = await tx.fetchrow(_STATS, room_id)
    return row is not None and (row["units"] is None or row["n"] > GROWN * row["units"] + 20)


async def count_words(tx: Tx, room_id: RoomId) -> None:
    """Count anew how many units of the room hold each word; a word that none holds any more is gone from the count."""
    await tx.execute("delete from voidbot.term_df where room_id = $1", room_id)
    await tx.execute(_TERM_DF, room_id)
    await tx.execute(_INDEX_STATS, room_id)
