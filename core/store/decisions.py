"""What was decided about each message, without its text. Only this module writes this table."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from core.domain.ids import InboxId, JobId, PersonId, RoomId, TurnId
from core.domain.speech import SilenceReason
from core.store.engine import Tx


async def exists(tx: Tx, inbox_id: InboxId) -> bool:
    """Return whether the gates were asked about this event before."""
    return bool(await tx.fetchval("select exists (select 1 from voidbot.decisions where inbox_id = $1)", inbox_id))


_DECIDE = """
with part as (update voidbot.inbox set turn_id = $9 where id = $1 and $9::bigint is not null),
     answered_by as (update voidbot.turns set job_id = $10 where id = $9 and $10::bigint is not null)
insert into voidbot.decisions (inbox_id, room_id, person_id, message_ref, outcome, reason, settings_version, gates)
values ($1, $2, $3, $4, $5, $6, $7, $8)"""


async def add(
    tx: Tx,
    inbox_id: InboxId,
    *,
    room_id: RoomId,
    person_id: PersonId,
    message_ref: str,
    reason: SilenceReason | None,
    settings_version: int,
    gates: Mapping[str, object],
    turn_id: TurnId | None = None,
    job_id: JobId | None = None,
) -> None:
    """Write down whether an answer was promised and by which gate it was refused; holds no text.

    `turn_id`: the turn that the event is now part of. `job_id`: what answers it, if it was opened for this event.
    """
    await tx.execute(
        _DECIDE,
        inbox_id,
        room_id,
        person_id,
        message_ref,
        "reply" if reason is None else "no_speech",
        reason,
        settings_version,
        dict(gates),
        turn_id,
        job_id,
    )


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """What was decided about one message. `reason` None: it was accepted."""

    message_ref: str
    reason: SilenceReason | None
    at: datetime


# A message that nobody asked the gates about was not addressed. What became of a turn later stands in its row.
_DECISION = """
select i.message_ref, coalesce(d.at, i.received_at) as at,
       case when d.id is null then 'not_addressed' else coalesce(d.reason, t.reason) end as reason
from voidbot.inbox i left join voidbot.decisions d on d.inbox_id = i.id
left join voidbot.turns t on t.id = i.turn_id and t.state = 'silent'
where i.room_id = $1 and i.person_id = $2 and i.kind in ('text', 'command')
  and ($3::text is null and i.kind = 'text' or i.message_ref = $3)
order by i.id desc, d.id desc limit 1"""


async def find(tx: Tx, room_id: RoomId, person_id: PersonId, message_ref: str | None) -> DecisionRow | None:
    """Return what was decided about the person's message; about their newest one but commands if none is named."""
    row = await tx.fetchrow(_DECISION, room_id, person_id, message_ref)
    if row is None:
        return None
    return DecisionRow(row["message_ref"], None if row["reason"] is None else SilenceReason(row["reason"]), row["at"])


async def rehome(tx: Tx, newer: RoomId, older: RoomId) -> None:
    """Give what was decided in one room to another."""
    await tx.execute("update voidbot.decisions set room_id = $2 where room_id = $1", newer, older)
