"""What an answer rests on, looked at again before it is sent: messages, memories, files. Reads alone."""

from core.domain.ids import OutboxId
from core.store.engine import Tx

# A memory is gone with its entry's words, and as soon as a message that it rests on is: voiding comes a moment later.
_BASIS = """
select exists (select 1 from voidbot.receipt_sources s join voidbot.messages m on m.id = s.ref::bigint
               join voidbot.people p on p.id = m.author_id
               where s.outbox_id = $1 and s.kind in ('message', 'passage') and s.ref ~ '^[0-9]+$'
                 and (m.deleted_at is not null or p.opted_out))
    or exists (select 1 from voidbot.receipt_sources s join voidbot.outbox x on x.id = s.outbox_id
               join voidbot.communities c on c.id = x.community_id
               join voidbot.state_entries e on e.mind_id = c.mind_id and e.entry_id = s.ref
               where s.outbox_id = $1 and s.kind = 'memory' and (e.body ? 'scrubbed' or exists (
                   select 1 from unnest(e.cites) k(ref) join voidbot.messages m
                     on m.id = case when k.ref ~ '^message:[0-9]{1,18}$' then substr(k.ref, 9)::bigint end
                   where m.deleted_at is not null))) as gone,
       array(select ref from voidbot.receipt_sources where outbox_id = $1 and kind = 'file' order by n) as files"""


async def look_at_basis(tx: Tx, outbox_id: OutboxId) -> tuple[bool, list[str]]:
    """Return whether something that the answer rests on is gone, or its author has opted out, since; and its files."""
    row = await tx.fetchrow(_BASIS, outbox_id)
    return (False, []) if row is None else (bool(row["gone"]), list(row["files"]))
