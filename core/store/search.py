"""Archived messages by the words they hold: one statement finds, filters and counts, one reads what is wanted."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from core.domain.ids import MessageId, PersonId, RoomId
from core.store.archive import COLUMNS, JOINS, PROMPT_KIND, USABLE, ArchivedMessage, clean, message_of
from core.store.engine import Tx


@dataclass(frozen=True, slots=True)
class Candidate:
    """A message that holds some of the question's words."""

    id: MessageId
    sent_at: datetime
    terms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """Messages that hold a word of the question, newest first.

    `terms`: the question's words as the index folds them, without stop words; empty if nothing was found.
    `total`: about how many messages the readable rooms hold, revisions counted too.
    """

    candidates: tuple[Candidate, ...] = ()
    terms: tuple[str, ...] = ()
    total: int = 0


# The words and the count ride on the first row: they are wanted only if there is one.
_SEARCH = f"""
with asked as materialized (
    select array_agg(lexeme) as terms, string_agg(quote_literal(lexeme), ' | ')::tsquery as any_of
    from (select lexeme from unnest(to_tsvector('english', $2)) limit $3) t),
found as materialized (
    select m.id, m.sent_at, m.tsv from voidbot.messages m join voidbot.people p on p.id = m.author_id
    where {USABLE} and m.tsv @@ (select any_of from asked)
      and m.kind = any($9::text[]) and not p.is_bot and ($5::text is null or m.platform_ref <> $5 or m.room_id <> $6)
      and ($7::bigint[] is null or m.author_id = any($7)) and ($8::timestamptz is null or m.sent_at >= $8)
    order by m.sent_at desc, m.id desc limit $4)
select f.id, f.sent_at, array(select t from unnest(asked.terms) t where f.tsv @@ quote_literal(t)::tsquery) as terms,
       case when n = 1 then asked.terms end as asked,
       case when n = 1 then (select coalesce(sum(last_archived_seq), 0) from voidbot.rooms
                             where id = any($1::bigint[])) end as total
from (select row_number() over (order by sent_at desc, id desc) as n, found.* from found) f cross join asked
order by n"""
_READ = f"{COLUMNS} from voidbot.messages m {JOINS} where {USABLE} and m.id = any($2::bigint[])"


async def search_messages(
    tx: Tx,
    readable: Sequence[RoomId],
    text: str,
    *,
    most_terms: int,
    limit: int,
    but_not: tuple[RoomId, str] | None = None,
    authors: Sequence[PersonId] | None = None,
    since: datetime | None = None,
    prompts: bool = False,
) -> Found:
    """Return people's messages that hold any of the first `most_terms` words of `text`.

    The audience filter is part of the statement. `but_not` leaves one message out: the question itself.
    `prompts`: what was said to the bot counts too; a question is no answer to the next one.
    """
    room, ref = but_not or (None, None)
    kinds = ["text", PROMPT_KIND] if prompts else ["text"]
    rows = await tx.fetch(_SEARCH, readable, clean(text), most_terms, limit, ref, room, authors, since, kinds)
    if not rows:
        return Found()
    candidates = tuple(Candidate(MessageId(row["id"]), row["sent_at"], tuple(row["terms"])) for row in rows)
    return Found(candidates, tuple(rows[0]["asked"]), int(rows[0]["total"]))


async def read_messages(
    tx: Tx, readable: Sequence[RoomId], ids: Sequence[MessageId]
) -> dict[MessageId, ArchivedMessage]:
    """Return these messages by id, as far as `readable` allows."""
    found = map(message_of, await tx.fetch(_READ, readable, ids))
    return {message.id: message for message in found}
