"""Facts about people, each with living anchors. Only this module writes these tables.

An anchor lives as long as its message stands in the revision that was read. A fact without one is not shown and not
used, except where its person has stated it by command.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from core.domain.ids import MessageId, PersonId, RoomId
from core.domain.profile import ONE_AT_A_TIME, Anchor, FactRefusal, Predicate, SaidBy, clean_value
from core.store.engine import Tx


@dataclass(frozen=True, slots=True)
class Quote:
    """An anchor's words, as they stand now."""

    message_id: MessageId
    room_id: RoomId
    room_name: str
    sent_at: datetime
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A fact as it stands, with the quotes that prove it. `sources`: the rooms it was made from."""

    id: int
    person_id: PersonId
    predicate: Predicate
    value: str
    said_by: SaidBy
    confirmed: bool
    sources: frozenset[RoomId]
    stated_at: datetime
    quotes: tuple[Quote, ...]


_ANCHORED = """
select a.message_id, m.room_id, m.author_id, p.is_bot, m.sent_at
from unnest($1::bigint[], $2::int[], $3::int[], $4::int[]) a(message_id, revision, span_from, span_to)
join voidbot.messages m on m.id = a.message_id and m.deleted_at is null and m.revision = a.revision
join voidbot.people p on p.id = m.author_id
where a.span_from >= 0 and a.span_to > a.span_from and a.span_to <= length(m.text)"""
_REFUSED_BEFORE = """
select exists (
    select 1 from voidbot.profile_facts f where f.person_id = $1 and f.predicate = $2 and f.state = 'refused'
      and $3::bigint[] <@ array(select message_id from voidbot.fact_anchors a where a.fact_id = f.id))"""
_SAME = """
select id from voidbot.profile_facts
where person_id = $1 and predicate = $2 and state = 'current' and lower(value) = lower($3)"""
_REPLACE = """
update voidbot.profile_facts set state = 'replaced', ended_at = $3
where person_id = $1 and predicate = $2 and state = 'current' and stated_at <= $3 and said_by <> 'corrected'"""
_NEWER = """
select exists (select 1 from voidbot.profile_facts where person_id = $1 and predicate = $2 and state = 'current'
               and (stated_at > $3 or said_by = 'corrected'))"""
_ADD = """
insert into voidbot.profile_facts (person_id, predicate, value, said_by, confirmed, sources, stated_at, state, ended_at)
values ($1, $2, $3, $4, $5, $6, $7::timestamptz, $8::text, case when $8::text = 'replaced' then $7::timestamptz end)
returning id"""
_ADD_ANCHORS = """
insert into voidbot.fact_anchors (fact_id, message_id, revision, span_from, span_to, account_id)
select $1, u.* from unnest($2::bigint[], $3::int[], $4::int[], $5::int[], $6::bigint[]) u on conflict do nothing"""


async def add(
    tx: Tx, person_id: PersonId, predicate: Predicate, value: str, said_by: SaidBy, anchors: Sequence[Anchor]
) -> int | FactRefusal:
    """Take a fact that messages prove; return its number, or why it was refused.

    A newer statement of the person's own replaces an older one of the same sort; equal values become one fact.
    """
    kept = clean_value(predicate, value)
    if kept is None:
        return FactRefusal.BAD_VALUE
    rows = await tx.fetch(
        _ANCHORED,
        [each.message_id for each in anchors],
        [each.revision for each in anchors],
        [each.span_from for each in anchors],
        [each.span_to for each in anchors],
    )
    refusal = await _refusal(tx, person_id, predicate, said_by, anchors, [dict(row) for row in rows])
    if refusal is not None:
        return refusal
    at, rooms = max(row["sent_at"] for row in rows), sorted({row["room_id"] for row in rows})
    found: int | None = await tx.fetchval(_SAME, person_id, predicate, kept)
    if found is not None:
        await _anchor(tx, found, anchors)
        await tx.execute(_WIDEN, found, rooms)
        return found
    state = "current"
    if said_by is SaidBy.SELF and predicate in ONE_AT_A_TIME:
        state = "replaced" if await tx.fetchval(_NEWER, person_id, predicate, at) else state
        await tx.execute(_REPLACE, person_id, predicate, at)
    number: int = await tx.fetchval(_ADD, person_id, predicate, kept, said_by, said_by is SaidBy.SELF, rooms, at, state)
    await _anchor(tx, number, anchors)
    return number


_WIDEN = """
update voidbot.profile_facts set sources = array(select distinct unnest(sources || $2::bigint[]) order by 1)
where id = $1"""


async def _refusal(
    tx: Tx,
    person_id: PersonId,
    predicate: Predicate,
    said_by: SaidBy,
    anchors: Sequence[Anchor],
    rows: Sequence[dict[str, object]],
) -> FactRefusal | None:
    if not anchors or len(rows) < len(anchors):
        return FactRefusal.NO_ANCHOR
    if any(row["is_bot"] for row in rows):
        return FactRefusal.BOT
    own = await linked_accounts(tx, person_id)
    if (said_by is SaidBy.SELF or predicate is Predicate.PRONOUNS) and any(row["author_id"] not in own for row in rows):
        return FactRefusal.NOT_THEIR_WORDS
    if not await tx.fetchval("select learn_me from voidbot.people where id = $1 and not is_bot", person_id):
        return FactRefusal.NOT_WANTED
    if await tx.fetchval(_REFUSED_BEFORE, person_id, predicate, [each.message_id for each in anchors]):
        return FactRefusal.CORRECTED_BEFORE
    return None


async def _anchor(tx: Tx, fact_id: int, anchors: Sequence[Anchor]) -> None:
    await tx.execute(
        _ADD_ANCHORS,
        fact_id,
        [each.message_id for each in anchors],
        [each.revision for each in anchors],
        [each.span_from for each in anchors],
        [each.span_to for each in anchors],
        [each.account_id for each in anchors],
    )


async def linked_accounts(tx: Tx, person_id: PersonId) -> list[PersonId]:
    """Return the person and the accounts that are linked with it, itself first."""
    rows = await tx.fetch(
        "select case when one_id = $1 then other_id else one_id end as other from voidbot.person_links"
        " where (one_id = $1 or other_id = $1) and ended_at is null order by 1",
        person_id,
    )
    return [person_id, *(PersonId(row["other"]) for row in rows)]


_LIST = """
select f.*, coalesce(jsonb_agg(jsonb_build_array(m.id, m.room_id, r.name, m.sent_at,
           substr(m.text, a.span_from + 1, a.span_to - a.span_from)) order by m.sent_at, m.id)
           filter (where m.id is not null), '[]') as quotes
from voidbot.profile_facts f
left join voidbot.fact_anchors a on a.fact_id = f.id
left join voidbot.messages m on m.id = a.message_id and m.deleted_at is null and m.revision = a.revision
left join voidbot.rooms r on r.id = m.room_id
where f.person_id = any($1::bigint[]) and f.state = 'current'
group by f.id having f.said_by = 'corrected' or count(m.id) > 0
order by f.predicate, f.id"""


async def list_facts(tx: Tx, people: Sequence[PersonId]) -> list[Fact]:
    """Return the facts of these accounts that something living proves."""
    return [
        Fact(
            id=row["id"],
            person_id=PersonId(row["person_id"]),
            predicate=Predicate(row["predicate"]),
            value=row["value"],
            said_by=SaidBy(row["said_by"]),
            confirmed=row["confirmed"],
            sources=frozenset(RoomId(room) for room in row["sources"]),
            stated_at=row["stated_at"],
            quotes=tuple(
                Quote(MessageId(message), RoomId(room), name, datetime.fromisoformat(at), words)
                for message, room, name, at, words in row["quotes"]
            ),
        )
        for row in await tx.fetch(_LIST, people)
    ]


async def refuse(tx: Tx, fact_id: int) -> None:
    """Take a fact away for good: its value goes, its anchors stay so that it is not made from them again."""
    await tx.execute(
        "update voidbot.profile_facts set state = 'refused', value = '', ended_at = voidbot.now() where id = $1",
        fact_id,
    )


async def confirm(tx: Tx, fact_id: int) -> None:
    """Note that the person has said that a reported fact is right."""
    await tx.execute("update voidbot.profile_facts set confirmed = true where id = $1", fact_id)


async def state(tx: Tx, person_id: PersonId, predicate: Predicate, value: str, sources: Sequence[RoomId]) -> int | None:
    """Take the person's own word by command; None if the value cannot be kept. It stands above what is learned."""
    kept = clean_value(predicate, value)
    if kept is None:
        return None
    if predicate in ONE_AT_A_TIME:
        await tx.execute(
            "update voidbot.profile_facts set state = 'refused', value = '', ended_at = voidbot.now()"
            " where person_id = $1 and predicate = $2 and state = 'current'",
            person_id,
            predicate,
        )
    now = await tx.fetchval("select voidbot.now()")
    number: int = await tx.fetchval(
        _ADD, person_id, predicate, kept, SaidBy.CORRECTED, True, sorted(sources), now, "current"
    )
    return number


# A fact that both accounts' words prove becomes two; one that only the other's prove goes there.
_PART_COPY = """
with theirs as (
    select f.id from voidbot.profile_facts f where f.person_id = $1
      and exists (select 1 from voidbot.fact_anchors a where a.fact_id = f.id and a.account_id = $2)),
copied as (
    insert into voidbot.profile_facts
      (person_id, predicate, value, said_by, state, confirmed, sources, stated_at, ended_at)
    select $2, f.predicate, f.value, f.said_by, f.state, f.confirmed,
           array(select distinct m.room_id from voidbot.fact_anchors a join voidbot.messages m on m.id = a.message_id
                 where a.fact_id = f.id and a.account_id = $2 order by 1), f.stated_at, f.ended_at
    from voidbot.profile_facts f where f.id = $3 and f.id in (select id from theirs) returning id)
select id from copied"""


async def part(tx: Tx, one: PersonId, other: PersonId) -> int:
    """Give each of two accounts the facts that its own words prove; return how many moved or were split."""
    moved = 0
    for mine, theirs in ((one, other), (other, one)):
        rows = await tx.fetch(
            "select distinct f.id from voidbot.profile_facts f join voidbot.fact_anchors a on a.fact_id = f.id"
            " where f.person_id = $1 and a.account_id = $2",
            mine,
            theirs,
        )
        for row in rows:
            copy = await tx.fetchval(_PART_COPY, mine, theirs, row["id"])
            await tx.execute(
                "update voidbot.fact_anchors set fact_id = $1 where fact_id = $2 and account_id = $3",
                copy,
                row["id"],
                theirs,
            )
            await tx.execute(
                "delete from voidbot.profile_facts f where id = $1 and said_by <> 'corrected'"
                " and not exists (select 1 from voidbot.fact_anchors a where a.fact_id = f.id)",
                row["id"],
            )
            await tx.execute(_NARROW, row["id"])
            moved += 1
    return moved


_NARROW = """
update voidbot.profile_facts f set sources = left_.rooms from (
    select array_agg(distinct m.room_id order by m.room_id) as rooms from voidbot.fact_anchors a
    join voidbot.messages m on m.id = a.message_id where a.fact_id = $1) left_
where f.id = $1 and left_.rooms is not null"""
