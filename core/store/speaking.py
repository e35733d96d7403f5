"""What speech unasked is judged by: what was said where and when, what it answers and rests on. Read only."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from core.domain.ids import MessageId, PersonId, RoomId
from core.domain.mind.bodies import KIND_OF
from core.domain.mind.entries import Key
from core.domain.mind.values import EntryId
from core.store.engine import Tx
from core.store.journal import ACCEPTED, name_of

HERE, ANYWHERE = timedelta(days=14), timedelta(days=3)
"""For how long words count as said before: in the room, and in any room of the mind."""
MOST_OWN = 400
"""How many of its own messages, the newest, words are compared with."""

# What people have seen, or will. A part that arrived was seen, whatever became of the rest.
_SAID = """(o.state in ('ready', 'sending', 'sent', 'unknown') or exists (
    select 1 from voidbot.outbox_parts p where p.outbox_id = o.id and p.external_id is not null))"""
_TODAY = f"""
select r.id as room_id, count(*) as n from voidbot.rooms r join voidbot.communities c on c.id = r.community_id
join voidbot.receipts x on x.room_id = r.id and x.at >= $2 join voidbot.outbox o on o.id = x.outbox_id
where c.mind_id = $1 and o.kind = 'speech' and {_SAID} group by 1"""
_LAST = f"""
select x.at, coalesce(o.closed_at, voidbot.now()) as said_at from voidbot.receipts x
join voidbot.outbox o on o.id = x.outbox_id
where x.room_id = w.room_id and o.private_to is null and o.kind <> 'card' and {_SAID}"""
_HUMAN = """
select max(h.at) from (
  (select m.sent_at as at from voidbot.messages m join voidbot.people p on p.id = m.author_id
   where m.room_id = w.room_id and m.kind <> 'bot_reply' and not p.is_bot order by m.sent_at desc, m.id desc limit 1)
  union all
  (select i.received_at from voidbot.inbox i join voidbot.people p on p.id = i.person_id
   where i.room_id = w.room_id and i.kind = 'text' and not p.is_bot order by i.id desc limit 1)) h"""
_PAST = f"""
select w.room_id, (select said_at from ({_LAST} order by x.at desc limit 1) l) as last_at,
  (select said_at from ({_LAST} and o.kind = 'speech' order by x.at desc limit 1) l) as unattended_at,
  ({_HUMAN}) as human_at
from unnest($1::bigint[]) w(room_id)"""
# In the outbox words stay for a day, in the archive where there is one, in receipts their beginning. A card only asks
# whether its words may be said.
_OWN = """
with own as (
  select o.room_id, o.body as text, coalesce(o.closed_at, o.created_at) as at from voidbot.outbox o
  join voidbot.communities c on c.id = o.community_id
  where c.mind_id = $1 and o.body is not null and o.private_to is null and o.kind <> 'card'
    and o.state in ('ready', 'sending', 'sent', 'unknown')
  union all
  select m.room_id, m.text, m.sent_at from voidbot.messages m
  join voidbot.rooms r on r.id = m.room_id join voidbot.communities c on c.id = r.community_id
  where c.mind_id = $1 and m.kind = 'bot_reply' and m.sent_at > voidbot.now() - $3::interval
  union all
  select (e.body->>'roomId')::bigint, e.body->>'preview', (e.body->>'sentAt')::timestamptz from voidbot.state_entries e
  where e.mind_id = $1 and e.type = 'receipt' and e.retired_at is null)
select room_id, text, max(at) as at from own
where text <> '' and at > voidbot.now() - case when room_id = any($2::bigint[]) then $3::interval else $4::interval end
group by 1, 2 order by 3 desc limit $5"""
# An answer is on its way until the mind knows of it, which is a moment after it arrived.
_REPLIES = """
select m.id, m.room_id, m.platform_ref, m.author_id, m.deleted_at is not null as gone,
  coalesce(p.unprompted, true) as open, m.kind = 'bot_reply' as own,
  exists (select 1 from voidbot.outbox o where o.room_id = m.room_id and o.reply_to = m.platform_ref
    and o.kind in ('reply', 'speech') and (o.state in ('ready', 'sending')
      or o.state in ('sent', 'unknown') and o.private_to is null and o.closed_at > voidbot.now() - interval '1 hour'
        and not exists (select 1 from voidbot.state_entries e where e.mind_id = $1 and e.kind = $3
          and e.entry_id = 'receipt:' || o.id))) as under_way,
  (select max(e.created_at) from voidbot.state_entries e where e.mind_id = $1 and e.type = 'receipt'
    and e.retired_at is null and (e.body->>'replyToMessageId')::bigint = m.id) as answered_at
from voidbot.messages m left join voidbot.people p on p.id = m.author_id where m.id = any($2::bigint[])"""
# A memory that lost a part of its proof stays until it is looked at again; what was made from it before may not.
_BASIS = """
select e.entry_id, e.sources, e.body ? 'scrubbed' as emptied,
  case when (e.body->>'needsReview')::boolean then e.updated_at end as doubted_at,
  exists (select 1 from unnest(e.cites) k(ref) join voidbot.messages m
    on m.id = case when k.ref ~ '^message:[0-9]{1,18}$' then substr(k.ref, 9)::bigint end
    where m.deleted_at is not null) as losing
from voidbot.state_entries e where e.mind_id = $1 and e.kind = any($2::text[]) and e.entry_id = any($3::text[])"""
_ATTEMPTS = """
select o.dedupe, o.state, exists (select 1 from voidbot.outbox_parts p
    where p.outbox_id = o.id and p.external_id is not null) as shown
from voidbot.outbox o where o.dedupe = any($1::text[])"""
_OWNER = """
select r.id, p.id as person_id from voidbot.rooms r join voidbot.communities c on c.id = r.community_id
join voidbot.room_access_users u on u.room_id = r.id join voidbot.people p on p.id = u.person_id
where c.mind_id = $1 and c.state = 'active' and r.kind = 'dm' and r.state = 'active'
  and p.platform || ':' || p.account_ref = any($2::text[])
order by array_position($2::text[], p.platform || ':' || p.account_ref), r.id limit 1"""
_MAKING = """
select o.actor_ref, o.run_id, coalesce(max(f.model), '') as model, coalesce(max(f.prompt_hash), '') as prompt_hash,
  coalesce(sum(f.tokens_in), 0)::bigint as tokens_in, coalesce(sum(f.tokens_out), 0)::bigint as tokens_out,
  coalesce(sum(f.usd_micro), 0)::bigint as usd_micro
from (select q.actor_ref, q.run_id from voidbot.state_operations q where q.mind_id = $1 and q.touches @> array[$2]
  and q.op = 'queue_candidate_intervention' and q.verdict = $3 order by q.seq desc limit 1) o
left join voidbot.pass_phases f on f.run_id = o.run_id and f.model <> '' group by 1, 2"""
_PROVIDER = "select provider from voidbot.usage where model = $1 order by id desc limit 1"


@dataclass(frozen=True, slots=True)
class Past:
    """When the bot spoke last in a room, and unasked, and when a person did; None: never. What is under way is now."""

    last_at: datetime | None = None
    unattended_at: datetime | None = None
    human_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class OwnText:
    """Something that the bot said, or is about to."""

    room_id: RoomId
    text: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyFact:
    """A message that something would answer. `open`: its author may be spoken to unasked. `own`: the bot said it.

    `under_way`: an answer to it is on its way. `answered_at`: when the newest live receipt for it was recorded.
    """

    id: MessageId
    room_id: RoomId
    ref: str
    author_id: PersonId | None
    gone: bool
    open: bool
    own: bool
    under_way: bool
    answered_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BasisFact:
    """A memory or pressure that speech rests on, with the rooms that it was made from.

    `emptied`: it was voided or erased. `doubted_at`: since when part of its proof is gone. `losing`: a message that
    proves it was deleted, and what follows from that is not decided yet.
    """

    sources: frozenset[RoomId]
    emptied: bool
    doubted_at: datetime | None
    losing: bool


@dataclass(frozen=True, slots=True)
class Attempt:
    """What became of saying something: the state in the outbox, and whether people may have seen part of it."""

    state: str
    shown: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """Who queued a candidate, and the model, prompt and cost of the run in which that was. Empty: no model."""

    author: str = ""
    run_id: int | None = None
    provider: str = ""
    model: str = ""
    prompt_hash: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    usd_micro: int = 0


async def count_today(tx: Tx, mind_id: str, since: datetime) -> dict[RoomId, int]:
    """Return how often the mind spoke unasked since `since`, by room; what is under way counts."""
    return {RoomId(row["room_id"]): row["n"] for row in await tx.fetch(_TODAY, mind_id, since)}


async def load_past(tx: Tx, rooms: Iterable[RoomId]) -> dict[RoomId, Past]:
    """Return who spoke last in these rooms."""
    return {
        RoomId(row["room_id"]): Past(row["last_at"], row["unattended_at"], row["human_at"])
        for row in await tx.fetch(_PAST, sorted(rooms))
    }


async def list_own(tx: Tx, mind_id: str, rooms: Iterable[RoomId]) -> list[OwnText]:
    """Return what the mind said lately to whole rooms, newest first: of these rooms for longer than of the others."""
    rows = await tx.fetch(_OWN, mind_id, sorted(rooms), HERE, ANYWHERE, MOST_OWN)
    return [OwnText(RoomId(row["room_id"]), row["text"], row["at"]) for row in rows]


async def load_replies(tx: Tx, mind_id: str, messages: Collection[MessageId]) -> dict[MessageId, ReplyFact]:
    """Return these messages as they stand; one that is not there is not in it."""
    receipts = KIND_OF["receipt"].value
    rows = await tx.fetch(_REPLIES, mind_id, sorted(messages), receipts) if messages else []
    return {
        MessageId(row["id"]): ReplyFact(
            id=MessageId(row["id"]),
            room_id=RoomId(row["room_id"]),
            ref=row["platform_ref"].removeprefix("own:"),
            author_id=None if row["author_id"] is None else PersonId(row["author_id"]),
            gone=row["gone"],
            open=row["open"],
            own=row["own"],
            under_way=row["under_way"],
            answered_at=row["answered_at"],
        )
        for row in rows
    }


async def load_basis(tx: Tx, mind_id: str, ids: Collection[EntryId]) -> dict[EntryId, BasisFact]:
    """Return these memories and pressures as they stand."""
    kinds = sorted({KIND_OF["durable"].value, KIND_OF["pressure_item"].value})
    rows = await tx.fetch(_BASIS, mind_id, kinds, sorted(ids)) if ids else []
    return {
        EntryId(row["entry_id"]): BasisFact(
            sources=frozenset(map(RoomId, row["sources"])),
            emptied=row["emptied"],
            doubted_at=row["doubted_at"],
            losing=row["losing"],
        )
        for row in rows
    }


async def find_attempts(tx: Tx, keys: Collection[str]) -> Mapping[str, Attempt]:
    """Return what became of what the outbox holds under these keys; what was withdrawn is not in it."""
    rows = await tx.fetch(_ATTEMPTS, sorted(keys)) if keys else []
    return {row["dedupe"]: Attempt(row["state"], row["shown"]) for row in rows}


async def find_owner(tx: Tx, mind_id: str, operators: Sequence[str]) -> tuple[RoomId, PersonId] | None:
    """Return the direct room of the first of these operators, as platform:account, who has one with the bot."""
    row = await tx.fetchrow(_OWNER, mind_id, operators) if operators else None
    return None if row is None else (RoomId(row["id"]), PersonId(row["person_id"]))


async def find_making(tx: Tx, mind_id: str, candidate_id: EntryId) -> Making:
    """Return how a candidate came about."""
    name = name_of(Key(KIND_OF["candidate"], candidate_id))
    row = await tx.fetchrow(_MAKING, mind_id, name, ACCEPTED)
    if row is None:
        return Making()
    provider = await tx.fetchval(_PROVIDER, row["model"]) if row["model"] else ""
    return Making(
        author=row["actor_ref"],
        run_id=row["run_id"],
        provider=provider or "",
        model=row["model"],
        prompt_hash=row["prompt_hash"],
        tokens_in=row["tokens_in"],
        tokens_out=row["tokens_out"],
        usd_micro=row["usd_micro"],
    )
