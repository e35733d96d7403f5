"""Reading rooms on from where a consumer left off: what was said since, in the order of the archive. Read only."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from core.domain.ids import MessageId, PersonId, RoomId
from core.domain.mind.bodies import KIND_OF, Consumer
from core.domain.passes import Run, RunState
from core.store.archive import COLUMNS, JOINS, PROMPT_KIND, USABLE, ArchivedMessage, message_of
from core.store.engine import Tx

PAGE = 120
"""How many messages are read at once, over all rooms of a group together; in a new room, how far back it begins."""

# Of an edited message the newest revision is news, in its own place. Who does not want to be remembered is not read,
# nor histories that were brought in: they are there to be found.
_NEWS = """
    r.archived_seq > s.after and m.revision = r.revision and m.deleted_at is null and m.text <> ''
    and m.origin <> 'import' and w.searchable and not p.opted_out and not p.erasing
    and not exists (select from voidbot.people o where o.id = m.proxy_of and (o.opted_out or o.erasing))"""
_HUMAN = "(not p.is_bot or m.proxy_of is not null)"
_SINCE = f"""
select g.id, coalesce(
    (select (e.body->>'lastSeq')::bigint from voidbot.state_entries e where e.mind_id = $1
       and e.kind = '{KIND_OF["cursor"].value}' and e.entry_id = 'cursor:' || $3 || ':' || g.id),
    (select r.archived_seq from voidbot.message_revisions r where r.room_id = g.id
       order by r.archived_seq desc offset {PAGE} limit 1), 0) as after
from unnest($2::bigint[]) g(id)"""
_FROM = """
voidbot.message_revisions r join voidbot.messages m on m.id = r.message_id
join voidbot.people p on p.id = m.author_id join voidbot.rooms w on w.id = m.room_id"""
# Between rooms it goes by time, within each by its own order: nothing stands before what its room heard earlier.
_WINDOW = f"""
with since as materialized ({_SINCE}),
next as (
    select n.* from since s cross join lateral (
        select r.room_id, r.message_id, r.revision, r.archived_seq, r.seen_at, m.sent_at, m.kind, {_HUMAN} as human
        from {_FROM} where r.room_id = s.id and {_NEWS} order by r.archived_seq limit $4) n),
placed as (select next.*, max(seen_at) over (partition by room_id order by archived_seq) as heard from next)
select room_id, message_id, revision, sent_at, human from placed order by heard, room_id, archived_seq limit $4"""
_SPOKEN = f"""
with since as materialized ({_SINCE})
select exists (select from since s cross join lateral (
    select from {_FROM} where r.room_id = s.id and {_NEWS} and {_HUMAN} limit 1) n)"""
_AWAKE = f"""
select exists (select from unnest($1::bigint[]) g(id) cross join lateral (
    select from voidbot.messages m join voidbot.people p on p.id = m.author_id
    where m.room_id = g.id and m.sent_at > voidbot.now() - $2::interval and m.origin <> 'import' and {_HUMAN}
    limit 1) n)"""
_READ = f"""
{COLUMNS}, m.proxy_of from unnest($2::bigint[]) wanted(id) join voidbot.messages m on m.id = wanted.id {JOINS}
where {USABLE} and not p.erasing
  and not exists (select from voidbot.people o where o.id = m.proxy_of and o.erasing)"""
_THERE = """
select r.message_id, r.revision, m.sent_at from voidbot.message_revisions r
join voidbot.messages m on m.id = r.message_id where r.message_id = any($1::bigint[])"""
_WAITING = """
select exists (select from voidbot.turns where room_id = any($1::bigint[]) and state in ('open', 'running'))"""
# A question to the bot is open if nobody else has replied to it and no turn is about to.
_OPEN = f"""
select m.id, m.text from unnest($1::bigint[]) wanted(id) join voidbot.messages m on m.id = wanted.id
where m.kind = '{PROMPT_KIND}' and m.deleted_at is null and m.text like '%?%'
  and not exists (select from voidbot.messages a
                  where a.reply_to_id = m.id and a.author_id is distinct from m.author_id)
  and not exists (select from voidbot.turns t where t.room_id = m.room_id and t.person_id = m.author_id
                  and t.state in ('open', 'running'))
order by m.id"""
_ENDED = f"""
select id, state, reason, finished_at from voidbot.pass_runs
where mind_id = $1 and pass = $2 and group_key = $3 and id < $4
  and state in ('{RunState.FINISHED.value}', '{RunState.FAILED.value}') order by id desc limit $5"""


@dataclass(frozen=True, slots=True)
class Heard:
    """One message in a window, as it stood when the window was made. `human`: a person said it."""

    room_id: RoomId
    id: MessageId
    revision: int
    sent_at: datetime
    human: bool


@dataclass(frozen=True, slots=True)
class Read:
    """A message as it stands now. `proxy_of`: who answers for it, where it stands under another name."""

    message: ArchivedMessage
    proxy_of: PersonId | None


@dataclass(frozen=True, slots=True)
class Ended:
    """How an earlier run ended."""

    id: int
    state: RunState
    reason: str
    at: datetime


async def list_window(
    tx: Tx, mind_id: str, consumer: Consumer, rooms: Iterable[RoomId], limit: int = PAGE
) -> list[Heard]:
    """Return what was said in some rooms since the consumer's cursors, oldest first.

    A room that it has never read begins with its newest messages, as many as a page holds.
    """
    rows = await tx.fetch(_WINDOW, mind_id, sorted(rooms), consumer.value, limit)
    return [
        Heard(RoomId(row["room_id"]), MessageId(row["message_id"]), row["revision"], row["sent_at"], row["human"])
        for row in rows
    ]


async def has_news(tx: Tx, mind_id: str, consumer: Consumer, rooms: Iterable[RoomId]) -> bool:
    """Return whether a person has said something in these rooms since the consumer's cursors."""
    return bool(await tx.fetchval(_SPOKEN, mind_id, sorted(rooms), consumer.value))


async def is_awake(tx: Tx, rooms: Iterable[RoomId], within: timedelta) -> bool:
    """Return whether a person has said something in one of these rooms of late."""
    return bool(await tx.fetchval(_AWAKE, sorted(rooms), within))


async def is_waited_for(tx: Tx, rooms: Iterable[RoomId]) -> bool:
    """Return whether somebody who spoke to the bot in one of these rooms still waits for the answer."""
    return bool(await tx.fetchval(_WAITING, sorted(rooms)))


async def read_now(tx: Tx, readable: Iterable[RoomId], ids: Sequence[MessageId]) -> dict[MessageId, Read]:
    """Return these messages as they stand now, as far as `readable` and their authors' wishes allow."""
    rows = await tx.fetch(_READ, sorted(readable), ids)
    return {
        MessageId(row["id"]): Read(message_of(row), None if row["proxy_of"] is None else PersonId(row["proxy_of"]))
        for row in rows
    }


async def list_there(tx: Tx, ids: Sequence[MessageId]) -> Mapping[tuple[MessageId, int], datetime]:
    """Return which revisions of these messages are still known, with the time of the message."""
    rows = await tx.fetch(_THERE, ids)
    return {(MessageId(row["message_id"]), row["revision"]): row["sent_at"] for row in rows}


async def list_open_questions(tx: Tx, ids: Sequence[MessageId]) -> list[tuple[MessageId, str]]:
    """Return those of these messages that ask the bot something and that nobody has answered, with their words."""
    return [(MessageId(row["id"]), row["text"]) for row in await tx.fetch(_OPEN, ids)]


async def list_ended(tx: Tx, run: Run, limit: int) -> list[Ended]:
    """Return the runs of the same pass and group before this one that were not skipped, newest first."""
    rows = await tx.fetch(_ENDED, run.mind_id, run.name.value, run.group, run.id, limit)
    return [Ended(row["id"], RunState(row["state"]), row["reason"], row["finished_at"]) for row in rows]
