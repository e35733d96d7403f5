"""What a decision leads to: rows of the ledger, and acts with the jobs that do them, in the caller's transaction."""

from dataclasses import dataclass, replace
from datetime import datetime

from core.domain.moderation.acts import ActKind
from core.domain.moderation.cases import Case, Lane
from core.domain.moderation.rules import Rule, Step, StepKind
from core.domain.moderation.sanctions import SanctionKind, SanctionOrigin
from core.domain.rooms import Room
from core.moderation.work import News, act_job, inform_job
from core.store import acts, cases, jobs, ledger, places
from core.store.acts import PlannedAct
from core.store.engine import Tx
from core.store.ledger import NewSanction

ON_PLATFORM = {
    StepKind.TIMEOUT: ActKind.TIMEOUT,
    StepKind.KICK: ActKind.KICK,
    StepKind.BAN: ActKind.BAN,
}
REACTION = "reaction:"
"""How the evidence of a reaction begins: it names a message of somebody else, which is never deleted for it."""
SLOWED_S = 30
"""How many seconds stand between two messages of a member in a room that is slowed."""
_ORIGIN = {
    Lane.FAST: SanctionOrigin.FAST,
    Lane.SLOW: SanctionOrigin.SLOW,
    Lane.NATIVE: SanctionOrigin.PLATFORM_NATIVE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sanctioning:
    """What all rows of one decision share."""

    case: Case
    subject: str
    rule: Rule
    approver: str
    digest: bytes
    reason: str

    @property
    def platform_reason(self) -> str:
        """What the platform's own log is told; it quotes nobody."""
        return platform_reason(self.case, self.rule)

    def row(self, kind: SanctionKind, expires_at: datetime | None) -> NewSanction:
        """Return a row of the ledger."""
        case = self.case
        subject_id = case.subject_id
        if subject_id is None:
            raise LookupError(f"case {case.id} is about nobody")
        return NewSanction(
            community_id=case.community_id,
            person_id=subject_id,
            subject=self.subject,
            kind=kind,
            rule=self.rule,
            case_id=case.id,
            proposer=case.lane.value,
            approver=self.approver,
            evidence_hash=self.digest,
            expires_at=expires_at,
            dry_run=False,
            origin=_ORIGIN.get(case.lane, SanctionOrigin.STAFF),
            dedupe=f"case:{case.id}:{case.version}:{kind}",
            reason_member=self.reason,
        )


async def plan(tx: Tx, act: PlannedAct, due_in_s: float = 0.0) -> bool:
    """Plan an act with the job that does it; False if it is planned already."""
    act_id = await acts.add(tx, act)
    if act_id is None:
        return False
    job = act_job(
        act_id, front_end=act.front_end, community_id=act.community_id, room_id=act.room_id, due_in_s=due_in_s
    )
    await jobs.enqueue(tx, [job])
    return True


async def plan_step(
    tx: Tx, base: Sanctioning, step: Step, now: datetime, room: Room | None, *, automatic: bool
) -> bool:
    """Add strike and sanction of a step; plan its act. Return whether there is one to wait for.

    `room`: where the act is done if the case holds no message.
    """
    until = None if step.term is None else now + step.term
    if step.kind is not StepKind.NOTE:
        await ledger.add(tx, base.row(SanctionKind.STRIKE, now + base.rule.expiry))
    if step.kind is StepKind.DELETE:
        return False
    sanction_id = await ledger.add(tx, base.row(SanctionKind(step.kind.value), until))
    evidence = await cases.list_evidence(tx, base.case.id)
    if evidence:
        room = await places.load_room(tx, evidence[-1].room_id)
    if sanction_id is None or room is None:
        return False
    kind = ActKind.SLOW if step.kind is StepKind.SLOW else ON_PLATFORM.get(step.kind)
    if step.kind is StepKind.NOTE:  # for the staff alone
        return False
    if kind is None:
        front_end = room.key.platform
        await jobs.enqueue(
            tx, [inform_job(sanction_id, News.DONE, front_end=front_end, community_id=base.case.community_id)]
        )
        return False
    act = PlannedAct(
        community_id=base.case.community_id,
        kind=kind,
        front_end=room.key.platform,
        room_id=room.id,
        dedupe=f"mod:{sanction_id}:{kind}",
        person_id=base.case.subject_id,
        sanction_id=sanction_id,
        case_id=base.case.id,
        until=until,
        setting=SLOWED_S if kind is ActKind.SLOW else 0,
        reason=base.platform_reason,
        automatic=automatic,
    )
    planned = await plan(tx, act)
    if planned and kind is ActKind.SLOW and step.term is not None:
        over = replace(act, setting=0, dedupe=f"lift:{act.dedupe}", automatic=False)
        await plan(tx, over, step.term.total_seconds())
    return planned


async def plan_deletes(tx: Tx, case: Case, rule: Rule, *, automatic: bool, base: Sanctioning | None = None) -> None:
    """Plan that each message of a case is deleted, once."""
    sanction_id = None if base is None else await ledger.add(tx, base.row(SanctionKind.DELETE, None))
    reason = platform_reason(case, rule)
    for evidence in await cases.list_evidence(tx, case.id):
        if evidence.ref.startswith(REACTION):
            continue
        room = await places.load_room(tx, evidence.room_id)
        act = PlannedAct(
            community_id=case.community_id,
            kind=ActKind.DELETE,
            front_end=room.key.platform,
            room_id=room.id,
            dedupe=f"mod:case:{case.id}:{case.decided_at}:delete:{evidence.room_id}:{evidence.ref}",
            person_id=case.subject_id,
            sanction_id=sanction_id,
            case_id=case.id,
            message_ref=evidence.ref,
            reason=reason,
            automatic=automatic,
        )
        await plan(tx, act)


def platform_reason(case: Case, rule: Rule) -> str:
    """Return what the platform's own log is told; it quotes nobody."""
    return f"VoidBot case {case.id}, rule {rule.id} v{rule.version}"
