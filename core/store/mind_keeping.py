"""What upkeep of a mind looks for: what nobody touched for long, and tombstones that still have words. Read only."""

from datetime import datetime

from core.domain.mind.entries import Entry
from core.store.engine import Tx
from core.store.state import held_of

_COLUMNS = """e.kind, e.entry_id, e.version, e.body::text as body, e.sources, e.people, e.created_at, e.updated_at,
  e.retired_at, e.retired_reason, e.superseded_by, e.last_seq"""
_UNTOUCHED = f"""
select {_COLUMNS} from voidbot.state_entries e
where e.mind_id = $1 and e.type = $2 and e.retired_at is null and e.updated_at <= $3
order by e.updated_at, e.entry_id limit $4"""
_TOMBSTONES = f"""
select {_COLUMNS} from voidbot.state_entries e
where e.mind_id = $1 and e.retired_at <= $2 and not e.body ? 'scrubbed'
order by e.retired_at, e.kind, e.entry_id limit $3"""


async def list_untouched(tx: Tx, mind_id: str, type_: str, before: datetime, limit: int) -> list[Entry]:
    """Return live entries of a type that were not changed since `before`, the oldest first."""
    return [held_of(row).entry for row in await tx.fetch(_UNTOUCHED, mind_id, type_, before, limit)]


async def list_tombstones(tx: Tx, mind_id: str, before: datetime, limit: int) -> list[Entry]:
    """Return tombstones from before `before` that still have their words, the oldest first."""
    return [held_of(row).entry for row in await tx.fetch(_TOMBSTONES, mind_id, before, limit)]
