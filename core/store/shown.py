"""What the terminal has shown: a small table in which sending twice shows once (owner of `console_messages`)."""

from collections.abc import Mapping, Sequence

from core.domain.errors import Refused
from core.domain.ids import RoomKey
from core.domain.speech import SilenceReason
from core.ports import OutgoingPart, ShownMessage, ShownMessages
from core.store.engine import Database, Row

# Numbers of a sequence are drawn before commit. One writer at a time makes them visible in their order, so that
# a reader's cursor never passes a row that is still on its way.
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
limit 1
"""

_FIND = "select id from voidbot.console_messages where nonce = $1"

_EDIT = """
update voidbot.console_messages
set text = $2, revision = revision + 1, at = voidbot.now(),
    seq = nextval(pg_get_serial_sequence('voidbot.console_messages', 'seq'))
where id = $1 and text is distinct from $2
"""

_IS_THERE = "select exists (select 1 from voidbot.console_messages where id = $1)"

# A stock message and a command's answer come from code, whatever their receipt leaves empty.
_AFTER = """
select m.id, m.seq, r.platform, r.chat_ref, r.topic_ref, m.text, m.reply_to, m.private_to, m.revision, m.at,
       p.outbox_id as receipt_id,
       coalesce(nullif(p.provider, ''), case when o.kind is distinct from 'reply' then 'code' end) as provider
from voidbot.console_messages m
join voidbot.rooms r on r.id = m.room_id
left join voidbot.outbox o on o.id = m.outbox_id
left join voidbot.receipts p on p.outbox_id = m.outbox_id
where m.seq > $1
order by m.seq
limit $2
"""

_LATEST = "select coalesce(max(seq), 0) from voidbot.console_messages"

# An answer's key is `<kind>:<turn>` with further parts behind it; the index on `dedupe` finds it by range:
# ';' follows ':' in the byte order of collation "C".
_ENDED = """
select t.id, t.state, t.reason, bool_and(o.closed_at is not null) as closed,
       bool_or(o.state in ('sent', 'unknown')) as arrived,
       max(o.reason) filter (where o.state in ('dropped', 'failed')) as lost
from voidbot.turns t
left join voidbot.outbox o on t.state = 'answered' and split_part(o.dedupe, ':', 2) = t.id::text
    and o.dedupe = any (array[
        'reply:' || t.id, 'command:' || t.id, 'notice:' || t.id
    ]) 
where t.id = any ($1::bigint[]) and t.state in ('answered', 'silent', 'cancelled')
group by t.id
"""
