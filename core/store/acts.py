"""Acts on members and rooms on their way to a platform, and what others did there. Only this module writes these.

An act is done once: `dedupe` is unique, a second insert is a no-op.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from core.domain.ids import CommunityId, PersonId, RoomId
from core.domain.moderation.acts import ActKind, NativeAct
from core.domain.moderation.cases import CaseId
from core.domain.moderation.sanctions import ActId, ActState, SanctionId
from core.store.engine import Row, Tx

UNPLANNED = ActId(0)
"""The id of an act that is not in the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAct:
    """One act as it is to be done. `automatic`: no person has said yes to it. `reason`: for the platform's log."""

    community_id: CommunityId
    kind: ActKind
    front_end: str
    room_id: RoomId
    dedupe: str
    person_id: PersonId | None = None
    sanction_id: SanctionId | None = None
    case_id: CaseId | None = None
    by_channel: bool = False
    message_ref: str = ""
    until: datetime | None = None
    setting: int = 0
    reason: str = ""
    automatic: bool = False
    id: ActId = UNPLANNED
    state: ActState = ActState.READY
    answer: str = ""


_ADD = """
insert into voidbot.acts (community_id, sanction_id, case_id, kind, front_end, room_id, person_id, by_channel,
  message_ref, until, setting, reason, automatic, dedupe, state)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
on conflict (dedupe) do nothing returning id"""
_BEGIN = """
update voidbot.acts a set state = 'doing' from (select id, state from voidbot.acts where id = $1 for update) was
where a.id = was.id and was.state in ('ready', 'doing') returning a.*, was.state = 'doing' as again"""
_END = """
update voidbot.acts set state = $2, answer = $3, done_at = voidbot.now()
where id = $1 and state in ('ready', 'doing')"""
_AUTOMATIC = """
select count(*) from voidbot.acts where community_id = $1 and automatic and state not in ('would', 'refused')
  and created_at > voidbot.now() - interval '1 hour'"""
_OVERDUE = """
select a.* from voidbot.acts a join voidbot.sanctions s on s.id = a.sanction_id
left join voidbot.sanction_reversals r on r.sanction_id = s.id
where a.kind = 'ban' and a.state = 'done' and a.until <= voidbot.now() and r.sanction_id is null
  and a.person_id is not null
  and not exists (select 1 from voidbot.acts u where u.dedupe = 'lift:' || a.id) order by a.until limit $1"""
_NATIVE = """
insert into voidbot.native_acts (community_id, event_ref, kind, person_id, by_ref, by_bot, room_id, message_ref,
  rule_name, at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) on conflict do nothing"""
_NATIVE_NEAR = """
select exists (select 1 from voidbot.native_acts where community_id = $1 and person_id = $2
  and at > voidbot.now() - interval '60 seconds')"""


async def add(tx: Tx, act: PlannedAct) -> ActId | None:
    """Plan an act; None if it is planned already."""
    found = await tx.fetchval(
        _ADD,
        act.community_id,
        act.sanction_id,
        act.case_id,
        act.kind,
        act.front_end,
        act.room_id,
        act.person_id,
        act.by_channel,
        act.message_ref,
        act.until,
        act.setting,
        act.reason,
        act.automatic,
        act.dedupe,
        act.state,
    )
    return None if found is None else ActId(found)


def _act(row: Row) -> PlannedAct:
    return PlannedAct(
        id=ActId(row["id"]),
        community_id=CommunityId(row["community_id"]),
        sanction_id=None if row["sanction_id"] is None else SanctionId(row["sanction_id"]),
        case_id=None if row["case_id"] is None else CaseId(row["case_id"]),
        kind=ActKind(row["kind"]),
        front_end=row["front_end"],
        room_id=RoomId(row["room_id"]),
        person_id=None if row["person_id"] is None else PersonId(row["person_id"]),
        by_channel=row["by_channel"],
        message_ref=row["message_ref"],
        until=row["until"],
        setting=row["setting"],
        reason=row["reason"],
        automatic=row["automatic"],
        dedupe=row["dedupe"],
        state=ActState(row["state"]),
        answer=row["answer"],
    )


async def start(tx: Tx, act_id: ActId) -> tuple[PlannedAct, bool] | None:
    """Mark an act as being done, before the platform is called; None if it is over.

    Returns:
        The act, and whether it was marked before: then it may have been done already.
    """
    row = await tx.fetchrow(_BEGIN, act_id)
    return None if row is None else (_act(row), row["again"])


async def put_back(tx: Tx, act_id: ActId) -> None:
    """Note that an act was not done after all, and is still to be done."""
    await tx.execute("update voidbot.acts set state = 'ready' where id = $1 and state = 'doing'", act_id)


async def end(tx: Tx, act_id: ActId, state: ActState, answer: str = "") -> bool:
    """Record what became of an act; False if that is known already."""
    return bool(await tx.execute(_END, act_id, state, answer))


async def find(tx: Tx, act_id: ActId) -> PlannedAct | None:
    """Return an act; None if there is none."""
    row = await tx.fetchrow("select * from voidbot.acts where id = $1", act_id)
    return None if row is None else _act(row)


async def list_of_decision(tx: Tx, case_id: CaseId) -> list[PlannedAct]:
    """Return what a case's present decision is to do, in order: nothing of an earlier one, and no taking back."""
    rows = await tx.fetch(
        "select a.* from voidbot.acts a join voidbot.cases c on c.id = a.case_id where c.id = $1"
        " and a.created_at >= c.decided_at and a.dedupe not like 'lift:%' and a.dedupe not like 'undo:%' order by a.id",
        case_id,
    )
    return [_act(row) for row in rows]


async def list_of_sanction(tx: Tx, sanction_id: SanctionId) -> list[PlannedAct]:
    """Return the acts of a sanction in their order."""
    rows = await tx.fetch("select * from voidbot.acts where sanction_id = $1 order by id", sanction_id)
    return [_act(row) for row in rows]


async def count_automatic(tx: Tx, community_id: CommunityId) -> int:
    """Return how much was done without a person within the last hour, or is about to be."""
    return int(await tx.fetchval(_AUTOMATIC, community_id))


async def list_overdue(tx: Tx, limit: int = 100) -> list[PlannedAct]:
    """Return bans whose term is over and that nobody has lifted, the longest overdue first."""
    return [_act(row) for row in await tx.fetch(_OVERDUE, limit)]


async def add_native(
    tx: Tx, community_id: CommunityId, event: NativeAct, person_id: PersonId | None, room_id: RoomId | None
) -> bool:
    """Note what was done without us; False if it is known."""
    return bool(
        await tx.execute(
            _NATIVE,
            community_id,
            event.event_ref,
            event.kind,
            person_id,
            event.by_ref,
            event.by_bot,
            room_id,
            event.message_ref,
            event.rule_name,
            event.at,
        )
    )


async def was_handled(tx: Tx, community_id: CommunityId, person_id: PersonId) -> bool:
    """Return whether somebody else has dealt with a person within the last minute."""
    return bool(await tx.fetchval(_NATIVE_NEAR, community_id, person_id))


async def cancel(tx: Tx, sanctions: Sequence[SanctionId], answer: str) -> int:
    """Take back acts that are not begun; return how many."""
    return await tx.execute(
        "update voidbot.acts set state = 'refused', answer = $2, done_at = voidbot.now()"
        " where sanction_id = any($1::bigint[]) and state = 'ready'",
        list(sanctions),
        answer,
    )
