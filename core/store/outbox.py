"""What is to be said, part by part, and the receipt that proves it. Only this module writes these tables.

An answer is said once: `dedupe` is unique, a second insert is a no-op. A part keeps its nonce on every try.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from core.domain.ids import CommunityId, JobId, OutboxId, PersonId, RoomId
from core.domain.speech import Draft, OutboxState, Receipt, SpeechKind
from core.store.engine import Row, Tx
from core.store.words import clean

NONCE_CHARS = 25
"""Discord takes at most this many characters."""


def nonce(outbox_id: OutboxId, n: int) -> str:
    """Return the key of one part: the same on every try, whoever tries."""
    digest = hashlib.sha256(f"{outbox_id}/{n}".encode()).digest()
    return base64.b32encode(digest).decode("ascii")[:NONCE_CHARS].lower()


_ADD = """
insert into voidbot.outbox (front_end, community_id, room_id, reply_to, kind, body, audience, dedupe, private_to, trace,
                            asked_at, state)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) on conflict (dedupe) do nothing returning id"""


async def add(
    tx: Tx,
    draft: Draft,
    *,
    community_id: CommunityId,
    trace: str,
    asked_at: datetime | None,
    state: OutboxState = OutboxState.READY,
) -> OutboxId | None:
    """Queue an answer; None if this has been said, or will be, already."""
    found = await tx.fetchval(
        _ADD,
        draft.front_end,
        community_id,
        draft.room_id,
        draft.reply_to,
        draft.kind,
        clean(draft.text),
        sorted(draft.audience),
        draft.dedupe,
        draft.private_to,
        trace,
        asked_at,
        state,
    )
    return None if found is None else OutboxId(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    """One answer on its way."""

    id: OutboxId
    front_end: str
    community_id: CommunityId
    room_id: RoomId
    reply_to: str | None
    kind: SpeechKind
    body: str
    audience: frozenset[RoomId]
    dedupe: str
    state: OutboxState
    private_to: PersonId | None
    trace: str
    asked_at: datetime | None
    created_at: datetime
    closed_at: datetime | None
    answer_token: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRow:
    """One platform message of an answer."""

    n: int
    text: str
    nonce: str
    state: OutboxState
    attempt: int
    plain: bool
    first_attempt_at: datetime | None
    external_id: str | None
    final: bool


_COLUMNS = "id, front_end, community_id, room_id, reply_to, kind, coalesce(body, '') as body, audience, dedupe, state,"
_COLUMNS += """ private_to, trace, asked_at, created_at, closed_at, coalesce((
    select i.answer_token from voidbot.inbox i where i.front_end = outbox.front_end and i.room_id = outbox.room_id
      and i.message_ref = outbox.reply_to and i.kind in ('text', 'command')), '') as answer_token"""


def _outbox_of(row: Row) -> OutboxRow:
    return OutboxRow(
        id=OutboxId(row["id"]),
        front_end=row["front_end"],
        community_id=CommunityId(row["community_id"]),
        room_id=RoomId(row["room_id"]),
        reply_to=row["reply_to"],
        kind=SpeechKind(row["kind"]),
        body=row["body"],
        audience=frozenset(RoomId(room) for room in row["audience"]),
        dedupe=row["dedupe"],
        state=OutboxState(row["state"]),
        private_to=None if row["private_to"] is None else PersonId(row["private_to"]),
        trace=row["trace"],
        asked_at=row["asked_at"],
        created_at=row["created_at"],
        closed_at=row["closed_at"],
        answer_token=row["answer_token"],
    )


async def load(tx: Tx, outbox_id: OutboxId) -> OutboxRow | None:
    """Return the answer, locked until the transaction ends; None if it was erased."""
    row = await tx.fetchrow(f"select {_COLUMNS} from voidbot.outbox where id = $1 for update", outbox_id)
    return None if row is None else _outbox_of(row)


async def find_by_id(tx: Tx, outbox_id: OutboxId) -> OutboxRow | None:
    """Return the answer as it stands; None if it was erased."""
    row = await tx.fetchrow(f"select {_COLUMNS} from voidbot.outbox where id = $1", outbox_id)
    return None if row is None else _outbox_of(row)


async def find(tx: Tx, dedupe: str) -> OutboxRow | None:
    """Return the answer with this key."""
    row = await tx.fetchrow(f"select {_COLUMNS} from voidbot.outbox where dedupe = $1", dedupe)
    return None if row is None else _outbox_of(row)


async def list_parts(tx: Tx, outbox_id: OutboxId) -> list[PartRow]:
    """Return the parts in order."""
    rows = await tx.fetch("select * from voidbot.outbox_parts where outbox_id = $1 order by n", outbox_id)
    return [_part_of(row) for row in rows]


def _part_of(row: Row) -> PartRow:
    return PartRow(
        n=row["n"],
        text=row["text"] or "",
        nonce=row["nonce"],
        state=OutboxState(row["state"]),
        attempt=row["attempt"],
        plain=row["plain"],
        first_attempt_at=row["first_attempt_at"],
        external_id=row["external_id"],
        final=row["final_at"] is not None,
    )


_SET_PARTS = """
insert into voidbot.outbox_parts (outbox_id, n, text, nonce)
select $1, u.n, u.text, u.nonce from unnest($2::text[], $3::text[]) with ordinality as u (text, nonce, n)
on conflict (outbox_id, n) do update set text = excluded.text returning *"""


async def set_parts(tx: Tx, outbox_id: OutboxId, texts: Sequence[str]) -> list[PartRow]:
    """Make the parts and return them; a part that a stream has begun keeps its message and takes the new text."""
    nonces = [nonce(outbox_id, n) for n in range(1, len(texts) + 1)]
    rows = await tx.fetch(_SET_PARTS, outbox_id, [clean(text) for text in texts], nonces)
    return sorted(map(_part_of, rows), key=lambda part: part.n)


_BEGIN = """
with part as (update voidbot.outbox_parts set state = 'sending', attempt = $3,
                     first_attempt_at = coalesce(first_attempt_at, voidbot.now())
              where outbox_id = $1 and n = $2 returning outbox_id)
update voidbot.outbox set state = 'sending' where id in (select outbox_id from part)"""


async def begin_part(tx: Tx, outbox_id: OutboxId, n: int, attempt: int) -> None:
    """Mark a part as being sent under this attempt, before the platform is called."""
    await tx.execute(_BEGIN, outbox_id, n, attempt)


async def set_part(
    tx: Tx,
    outbox_id: OutboxId,
    n: int,
    state: OutboxState,
    *,
    external_id: str | None = None,
    error: str | None = None,
    plain: bool | None = None,
    final: bool = False,
) -> None:
    """Record what became of a part."""
    await tx.execute(
        "update voidbot.outbox_parts set state = $3, external_id = coalesce($4, external_id), error = $5,"
        " plain = coalesce($6, plain), sent_at = case when $3 = 'sent' then voidbot.now() else sent_at end,"
        " final_at = case when $7 then voidbot.now() else final_at end where outbox_id = $1 and n = $2",
        outbox_id,
        n,
        state,
        external_id,
        error,
        plain,
        final,
    )


async def set_body(tx: Tx, outbox_id: OutboxId, text: str, audience: Sequence[RoomId]) -> None:
    """Give a streamed answer its whole text and let it be sent once more, as the final edit."""
    await tx.execute(
        "update voidbot.outbox set body = $2, audience = $3, state = 'ready' where id = $1",
        outbox_id,
        clean(text),
        sorted(audience),
    )


async def set_state(tx: Tx, outbox_id: OutboxId, state: OutboxState, reason: str | None = None) -> None:
    """Move an answer; a dropped one gives its key free, so that a rebuilt answer can be said."""
    await tx.execute(
        "update voidbot.outbox set state = $2, reason = $3,"
        " closed_at = case when $2 in ('sent', 'unknown', 'failed', 'dropped') then voidbot.now() end,"
        " dedupe = case when $2 = 'dropped' then dedupe || ':dropped:' || id else dedupe end where id = $1",
        outbox_id,
        state,
        reason,
    )


async def drop_for_turn(tx: Tx, dedupe: str, reason: str) -> bool:
    """Withdraw an answer that nobody has begun to send."""
    found = await tx.fetchval(
        "select id from voidbot.outbox where dedupe = $1 and state = 'ready' and not exists"
        " (select 1 from voidbot.outbox_parts p where p.outbox_id = outbox.id and p.state <> 'ready') for update",
        dedupe,
    )
    if found is None:
        return False
    await set_state(tx, OutboxId(found), OutboxState.DROPPED, reason)
    return True


_RECEIPT = """
with sent_by as (update voidbot.outbox set job_id = $18 where id = $1),
     based_on as (
         insert into voidbot.receipt_sources (outbox_id, n, kind, ref, audience)
         select $1, s.n, s.kind, s.ref, s.audience
         from jsonb_to_recordset($19) as s (n int, kind text, ref text, audience bigint[]) on conflict do nothing)
insert into voidbot.receipts (outbox_id, room_id, person_id, trigger, rule, provider, model, usd_micro, input_tokens,
                              output_tokens, prompt_sha256, role, persona, attempts, gates, sections, guards)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
on conflict (outbox_id) do nothing"""


async def add_receipt(
    tx: Tx,
    outbox_id: OutboxId,
    receipt: Receipt,
    *,
    room_id: RoomId,
    person_id: PersonId | None,
    job_id: JobId | None,
) -> None:
    """Draft the receipt in the transaction that queues the answer, and note its `send` job; delivery completes it."""
    await tx.execute(
        _RECEIPT,
        outbox_id,
        room_id,
        person_id,
        receipt.trigger,
        receipt.rule,
        receipt.provider,
        receipt.model,
        receipt.usd_micro,
        receipt.input_tokens,
        receipt.output_tokens,
        receipt.prompt_sha256,
        receipt.role,
        receipt.persona,
        receipt.attempts,
        dict(receipt.gates),
        [dict(section) for section in receipt.sections],
        list(receipt.guards),
        job_id,
        [
            {"n": n, "kind": source.kind, "ref": source.ref, "audience": sorted(source.audience)}
            for n, source in enumerate(receipt.sources)
        ],
    )


_CLOSE = """
with proved as (
    update voidbot.receipts set delivered_at = voidbot.now(), external_ids = array(
        select external_id from voidbot.outbox_parts where outbox_id = $1 and external_id is not null order by n)
    where outbox_id = $1)
update voidbot.outbox set state = $2, reason = $3, closed_at = voidbot.now() where id = $1"""


async def close(tx: Tx, outbox_id: OutboxId, state: OutboxState, reason: str | None = None) -> None:
    """End an answer that was sent, as `state` says; note in its receipt the ids of all parts that arrived, and when."""
    await tx.execute(_CLOSE, outbox_id, state, reason)


async def reopen(tx: Tx, job_id: JobId) -> bool:
    """Let an answer that was given up be sent after all, whatever became of its parts; only a person decides that.

    What was said unasked is not: the mind has it as spoken, or has it say that anew.
    """
    outbox_id = await tx.fetchval(
        "update voidbot.outbox set state = 'ready', reason = null, closed_at = null"
        " where job_id = $1 and state in ('failed', 'unknown') and kind <> 'speech'"
        " and body is not null returning id",
        job_id,
    )
    if outbox_id is None:
        return False
    await tx.execute(
        "update voidbot.outbox_parts set state = 'ready', error = null"
        " where outbox_id = $1 and state in ('failed', 'unknown', 'sending')",
        outbox_id,
    )
    return True


async def mark_source_gone(tx: Tx, room_id: RoomId, message_ref: str) -> None:
    """Note in receipts that the message they answer was deleted."""
    await tx.execute(
        "update voidbot.receipts set source_gone = true where room_id = $1 and outbox_id in"
        " (select id from voidbot.outbox where room_id = $1 and reply_to = $2)",
        room_id,
        message_ref,
    )


async def find_receipt(tx: Tx, room_id: RoomId, external_id: str | None, asker: PersonId) -> Row | None:
    """Return the receipt of a message of ours in the room; without a name the newest one that the asker saw."""
    return await tx.fetchrow(
        "select r.*, o.state, o.kind, o.private_to, o.reply_to, o.community_id, o.created_at from voidbot.receipts r"
        " join voidbot.outbox o on o.id = r.outbox_id where r.room_id = $1"
        " and ($2::text is null and r.delivered_at is not null"
        " and (o.kind in ('reply', 'speech', 'notice') or r.provider <> 'code')"
        " and (o.private_to is null or o.private_to = $3) or $2 = any(r.external_ids))"
        " order by r.outbox_id desc limit 1",
        room_id,
        external_id,
        asker,
    )


async def load_receipt(tx: Tx, outbox_id: OutboxId) -> Row | None:
    """Return the receipt of one answer."""
    return await tx.fetchrow(
        "select r.*, o.state, o.kind, o.private_to, o.reply_to, o.community_id, o.created_at from voidbot.receipts r"
        " join voidbot.outbox o on o.id = r.outbox_id where r.outbox_id = $1",
        outbox_id,
    )


async def list_sources(tx: Tx, outbox_id: OutboxId) -> list[Row]:
    """Return what an answer rests on, with the rooms each thing came from."""
    return await tx.fetch(
        "select n, kind, ref, audience from voidbot.receipt_sources where outbox_id = $1 order by n", outbox_id
    )


async def count_states(tx: Tx) -> dict[str, int]:
    """Return how many answers stand in each state that an operator looks at."""
    rows = await tx.fetch(
        "select state, count(*) as n from voidbot.outbox where state in ('ready', 'sending', 'unknown', 'failed')"
        " group by state"
    )
    return {row["state"]: row["n"] for row in rows}


async def blank_old(tx: Tx, limit: int = 5000) -> int:
    """Empty bodies and parts a day after their answer was closed; the archive has what was said."""
    return await tx.execute(
        "with old as (select id from voidbot.outbox where closed_at < voidbot.now() - interval '24 hours'"
        " and body is not null order by id limit $1),"
        " parts as (update voidbot.outbox_parts set text = null where outbox_id in (select id from old))"
        " update voidbot.outbox set body = null where id in (select id from old)",
        limit,
    )


async def rehome(tx: Tx, newer: RoomId, older: RoomId, community_id: CommunityId) -> None:
    """Give what is to be said in one room, and its receipts, to another."""
    await tx.execute(
        "update voidbot.outbox set room_id = $2, community_id = $3 where room_id = $1", newer, older, community_id
    )
    await tx.execute("update voidbot.receipts set room_id = $2 where room_id = $1", newer, older)
