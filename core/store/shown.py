"""What the terminal has shown: a small table in which sending twice shows once (owner of `console_messages`)."""

from collections.abc import Mapping, Sequence

from core.domain.choices import in_words
from core.domain.errors import Refused
from core.domain.ids import RoomKey
from core.domain.speech import SilenceReason
from core.ports import OutgoingPart, ShownMessage, ShownMessages
from core.store.engine import Database, Row, Tx

# Numbers of a sequence are drawn before their row commits. With one writer at a time rows become visible in the
# order of their numbers, so no reader's cursor can pass a row that is still on its way.
_IN_ORDER = "select pg_advisory_xact_lock(hashtextextended('voidbot.console_messages', 0))"

_SHOW = """
with room as (
    select id from voidbot.rooms where platform = $1 and chat_ref = $2 and topic_ref = $3
), added as (
    insert into voidbot.console_messages (room_id, nonce, text, reply_to, private_to, outbox_id)
    select id, $4, $5, $6, $7, $8 from room
    on conflict (nonce) do nothing
    returning id
)
select id from added
union all
select id from voidbot.console_messages where nonce = $4
limit 1"""

_EDIT = """
update voidbot.console_messages
set text = $2, revision = revision + 1, at = voidbot.now(),
    seq = nextval(pg_get_serial_sequence('voidbot.console_messages', 'seq'))
where id = $1 and text <> $2"""

# A command's answer and a stock message come from code, even where their receipt names no provider.
_AFTER = """
select m.id, m.seq, r.platform, r.chat_ref, r.topic_ref, m.text, m.reply_to, m.private_to, m.revision, m.at,
       p.outbox_id as receipt_id,
       coalesce(nullif(p.provider, ''), case when o.kind <> 'reply' then 'code' end) as provider
from voidbot.console_messages m
join voidbot.rooms r on r.id = m.room_id
left join voidbot.outbox o on o.id = m.outbox_id
left join voidbot.receipts p on p.outbox_id = m.outbox_id
where m.seq > $1
order by m.seq
limit $2"""

# All that a turn gives carries its trace. Rows on their way are few and have an index of their own; the whole
# outbox is searched only for a turn whose answer, found by its key, did not arrive.
_ENDED = """
select t.id, t.state, t.reason, (
    select case when o.state in ('dropped', 'failed') then coalesce(o.reason, 'no_permission') end
    from voidbot.outbox o
    where t.state = 'answered' and o.trace = t.trace and t.trace <> '' and not exists (
        select 1 from voidbot.outbox sent
        where sent.dedupe in ('reply:' || t.id, 'command:' || t.id) and sent.state in ('sent', 'unknown'))
    order by o.state in ('sent', 'unknown') desc, o.id desc
    limit 1
) as lost
from voidbot.turns t
where t.id = any ($1::bigint[]) and t.state in ('answered', 'silent', 'cancelled')
  and not exists (
    select 1 from voidbot.outbox o
    where o.state in ('ready', 'sending')
      and (o.trace = t.trace and t.trace <> '' or o.dedupe in ('reply:' || t.id, 'command:' || t.id)))"""


class StoredShownMessages(ShownMessages):
    """The terminal's messages in Postgres, seen by every process that runs a terminal."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def show(self, part: OutgoingPart) -> int:
        """Add one message unless its nonce is there; return its id in both cases. Choices are shown as what to type.

        Raises:
            Refused: There is no such room.
        """
        async with self._database.transaction() as tx:
            await tx.execute(_IN_ORDER)
            found: int | None = await tx.fetchval(
                _SHOW,
                part.room.platform,
                part.room.chat_ref,
                part.room.topic_ref,
                part.nonce,
                "\n".join(filter(None, (part.text.text, in_words(part.choices)))),
                part.reply_to,
                part.private_to,
                part.outbox_id,
            )
        if found is None:
            raise Refused("console: room is not there", outbox_id=part.outbox_id)
        return found

    async def find(self, nonce: str) -> int | None:
        """Return the id of the message with this nonce."""
        async with self._database.transaction() as tx:
            found: int | None = await tx.fetchval("select id from voidbot.console_messages where nonce = $1", nonce)
        return found

    async def edit(self, message_id: int, text: str) -> None:
        """Replace the text and raise the revision; the same text again changes nothing.

        Raises:
            Refused: There is no such message.
        """
        async with self._database.transaction() as tx:
            await tx.execute(_IN_ORDER)
            changed = await tx.execute(_EDIT, message_id, text)
            if not changed and not await _is_there(tx, message_id):
                raise Refused("console: message is not there", message_id=message_id)

    async def after(self, cursor: int, limit: int = 200) -> Sequence[ShownMessage]:
        """Return what was shown or edited after `cursor`, oldest first.

        An edited message appears once, at its newest place, with its newest text.
        """
        async with self._database.transaction() as tx:
            rows = await tx.fetch(_AFTER, cursor, limit)
        return [_message(row) for row in rows]

    async def latest(self) -> int:
        """Return the newest cursor; 0 if nothing was ever shown."""
        async with self._database.transaction() as tx:
            newest: int = await tx.fetchval("select coalesce(max(seq), 0) from voidbot.console_messages")
        return newest

    async def ended(self, turn_ids: Sequence[int]) -> Mapping[int, SilenceReason | None]:
        """Return which of these turns are over: None if what they gave was shown, else why they were silent."""
        async with self._database.transaction() as tx:
            rows = await tx.fetch(_ENDED, list(turn_ids))
        return {row["id"]: _reason(row) for row in rows}


async def blank_old(tx: Tx) -> int:
    """Empty what was shown more than a day ago; what a room keeps is in the archive."""
    return await tx.execute(
        "update voidbot.console_messages set text = '' where text <> '' and at < voidbot.now() - interval '24 hours'"
    )


async def _is_there(tx: Tx, message_id: int) -> bool:
    return bool(await tx.fetchval("select exists (select 1 from voidbot.console_messages where id = $1)", message_id))


def _message(row: Row) -> ShownMessage:
    return ShownMessage(
        id=row["id"],
        seq=row["seq"],
        room=RoomKey(row["platform"], row["chat_ref"], row["topic_ref"]),
        text=row["text"],
        reply_to=row["reply_to"],
        private_to=row["private_to"],
        receipt_id=row["receipt_id"],
        provider=row["provider"],
        revision=row["revision"],
        at=row["at"],
    )


def _reason(row: Row) -> SilenceReason | None:
    given = row["lost"] if row["state"] == "answered" else row["reason"] or SilenceReason.SUPERSEDED
    if given is None:
        return None
    # A row that delivery gave up on may name a code of its own; to the asker that is: it could not be sent.
    return SilenceReason(given) if given in set(SilenceReason) else SilenceReason.NO_PERMISSION
