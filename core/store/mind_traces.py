"""Rows of the mind's journal in which words stand that went: by what they rest on, by whose they are, by names."""

import re
from collections.abc import Iterable, Sequence

from core.domain.ids import PersonId
from core.store.engine import Tx
from core.store.journal import COLUMNS, JournalRow, row_of

WORDLESS = (
    "advance_candidate",
    "erase_person",
    "mark_candidate_spoken",
    "record_delivery_receipt",
    "record_last_run",
    "record_reviewed_messages",
    "undo_operation",
    "update_sleep_cycle",
    "update_speaking_pressure",
    "void_source",
)
"""Operations that name what they are about and say nothing of it."""
_WILD, _ESCAPED = re.compile(r"([\\%_])"), r"\\\1"
_RESTING = f"""
select {COLUMNS} from voidbot.state_operations
where mind_id = $1 and seq < $2 and cites && $3::text[] and op <> all($4::text[]) and payload <> '{{}}' order by seq"""
# Of a person all is taken that a model proposed after reading their words: it may say them in words of its own. What
# stands is found by its entry; what was refused or undone is in no entry any more.
_OF_PERSON = f"""
select {COLUMNS} from voidbot.state_operations
where mind_id = $1 and seq < $2 and (
  verdict = 'rejected' and redacted_by is null and (
    facts @> jsonb_build_object('packet', jsonb_build_object('people', jsonb_build_array($3::bigint)))
    or payload @> jsonb_build_object('personId', $3::bigint))
  or undone_by is not null
    and touched @> jsonb_build_array(jsonb_build_object('after', jsonb_build_object('people',
      jsonb_build_array($3::bigint))))) order by seq"""
_NAMING = """
select o.seq, o.payload::text || o.touched::text as words from voidbot.state_operations o
where o.mind_id = $1 and (o.payload::text ilike any($2::text[]) or o.touched::text ilike any($2::text[])) order by 1"""


async def list_resting(tx: Tx, mind_id: str, before: int, names: Iterable[str]) -> list[JournalRow]:
    """Return the rows before `before`, refused ones too, whose words rest on one of these refs or entries."""
    return [row_of(row) for row in await tx.fetch(_RESTING, mind_id, before, sorted(names), WORDLESS)]


async def list_of_person(tx: Tx, mind_id: str, before: int, person_id: PersonId) -> list[JournalRow]:
    """Return the rows before `before`, refused or undone, in which a person's words may stand."""
    return [row_of(row) for row in await tx.fetch(_OF_PERSON, mind_id, before, person_id)]


async def list_naming(tx: Tx, mind_id: str, names: Sequence[str]) -> list[tuple[int, str]]:
    """Return number and words of each row in which one of these names stands, whole or as part of a word."""
    escaped = [f"%{_WILD.sub(_ESCAPED, name)}%" for name in names]
    return [(row["seq"], row["words"]) for row in await tx.fetch(_NAMING, mind_id, escaped)] if names else []
