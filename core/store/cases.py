"""Cases with their evidence, events and reports. Only this module writes these tables.

A case is changed only by whoever names the version that they have seen, so that two who decide at once decide once.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from core.domain.ids import CommunityId, OutboxId, PersonId, RoomId
from core.domain.moderation.cases import BURST, Case, CaseId, CaseStatus, Evidence, Lane, Outcome
from core.domain.moderation.ladder import read_step, step_words
from core.domain.moderation.rules import Level, Rule, Step
from core.store.engine import Row, Tx

_COLUMNS = """id, community_id, rule_id, rule_version, level, lane, subject_id, severity, status, version, about_staff,
  dry_run, step, strikes, assigned_to, created_at, decision, decision_reason, decided_by, decided_at, outcome,
  closed_at, card_id, hold_reason"""
_OPEN = f"""
insert into voidbot.cases (community_id, rule_id, rule_version, level, lane, subject_id, severity, about_staff,
  dry_run, hold_reason, joins_until) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, voidbot.now() + $11)
returning {_COLUMNS}"""
# Breaches of one burst join their case, also where it was decided meanwhile: they are no further breach.
_BURST = f"""
select {_COLUMNS} from voidbot.cases where community_id = $1 and rule_id = $2 and subject_id = $3
  and joins_until > voidbot.now() order by id desc limit 1"""
_HOLDING = f"""
select {_COLUMNS} from voidbot.cases c where c.community_id = $1 and c.rule_id = $2 and exists (
    select 1 from voidbot.case_evidence e where e.case_id = c.id and e.room_id = $3 and e.platform_ref = $4
      and ($5::bigint is null or e.revision = $5)) order by id desc limit 1"""
_ONE = f"select {_COLUMNS} from voidbot.cases where id = $1"
_EVIDENCE = """
insert into voidbot.case_evidence (case_id, room_id, platform_ref, revision, author_id, sent_at, text, text_sha256,
  withheld, files, note, quote, run_id)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) on conflict do nothing"""
_EVENT = "insert into voidbot.case_events (case_id, person_id, act, details) values ($1, $2, $3, $4)"
_CHANGE = f"""
update voidbot.cases set status = $3, version = version + 1, assigned_to = $4,
  assigned_at = case when $4::bigint is null then null else voidbot.now() end,
  decision = $5, decision_reason = $6, decided_by = $7, decided_at = case when $5::jsonb is null and $8 = '' then null
    else coalesce(decided_at, voidbot.now()) end, outcome = $8,
  closed_at = case when $3 = 'closed' then voidbot.now() end
where id = $1 and version = $2 returning {_COLUMNS}"""
_JUDGE = "update voidbot.cases set step = $2, strikes = $3 where id = $1"
_CARD = "update voidbot.cases set card_id = $2 where id = $1 and card_id is null"
_LIST = f"""
select {_COLUMNS} from voidbot.cases where community_id = $1 and status = any($2) and ($3::text is null or rule_id = $3)
  and ($4::int is null or severity >= $4) and ($5::bigint is null or assigned_to = $5)
  and ($6 or not about_staff) and ($7::bigint is null or subject_id is distinct from $7)
order by severity desc, id limit $8"""
_STALE = """
update voidbot.cases set status = 'open', version = version + 1, assigned_to = null, assigned_at = null
where status = 'assigned' and assigned_at < voidbot.now() - interval '24 hours' returning id"""
_REPORT = "insert into voidbot.case_reports (case_id, reporter_id, text) values ($1, $2, $3) on conflict do nothing"
_REPORTED = """
select count(*) from voidbot.case_reports r join voidbot.cases c on c.id = r.case_id
where r.reporter_id = $1 and c.community_id = $2 and r.at > voidbot.now() - interval '1 day'"""


def _case(row: Row) -> Case:
    return Case(
        id=CaseId(row["id"]),
        community_id=CommunityId(row["community_id"]),
        rule_id=row["rule_id"],
        rule_version=row["rule_version"],
        level=Level(row["level"]),
        lane=Lane(row["lane"]),
        subject_id=None if row["subject_id"] is None else PersonId(row["subject_id"]),
        severity=row["severity"],
        status=CaseStatus(row["status"]),
        version=row["version"],
        about_staff=row["about_staff"],
        dry_run=row["dry_run"],
        step=read_step(row["step"].get("step", "ask")),
        strikes=row["strikes"],
        assigned_to=None if row["assigned_to"] is None else PersonId(row["assigned_to"]),
        created_at=row["created_at"],
        decision=None if row["decision"] is None else read_step(row["decision"]["step"]),
        decision_reason=row["decision_reason"],
        decided_by=None if row["decided_by"] is None else PersonId(row["decided_by"]),
        decided_at=row["decided_at"],
        outcome=Outcome(row["outcome"]),
        closed_at=row["closed_at"],
        hold_reason=row["hold_reason"],
        card_id=None if row["card_id"] is None else OutboxId(row["card_id"]),
    )


async def open_case(
    tx: Tx,
    community_id: CommunityId,
    rule: Rule,
    lane: Lane,
    subject_id: PersonId | None,
    *,
    about_staff: bool,
    dry: bool,
    hold: str = "",
) -> Case:
    """Open a case under a rule as it stands. `hold`: why a person has to decide; empty if nobody has to."""
    row = await tx.fetchrow(
        _OPEN,
        community_id,
        rule.id,
        rule.version,
        rule.level,
        lane,
        subject_id,
        rule.severity,
        about_staff,
        dry,
        hold,
        BURST,
    )
    if row is None:
        raise LookupError(f"no community {community_id}")
    return _case(row)


async def find_burst(tx: Tx, community_id: CommunityId, rule_id: str, subject_id: PersonId) -> Case | None:
    """Return the case that a breach of now joins. Whoever looks next waits until the transaction ends."""
    await tx.execute(
        "select pg_advisory_xact_lock(hashtextextended('voidbot.burst:' || $1::bigint || ':' || $2::bigint || $3, 0))",
        community_id,
        subject_id,
        rule_id,
    )
    row = await tx.fetchrow(_BURST, community_id, rule_id, subject_id)
    return None if row is None else _case(row)


async def find_holding(
    tx: Tx, community_id: CommunityId, rule_id: str, room_id: RoomId, ref: str, revision: int | None = None
) -> Case | None:
    """Return the newest case under a rule that holds a message, or one revision of it."""
    row = await tx.fetchrow(_HOLDING, community_id, rule_id, room_id, ref, revision)
    return None if row is None else _case(row)


async def load(tx: Tx, case_id: CaseId, *, lock: bool = False) -> Case | None:
    """Return a case; None if there is none. `lock`: until the transaction ends."""
    row = await tx.fetchrow(_ONE + (" for update" if lock else ""), case_id)
    return None if row is None else _case(row)


def text_hash(text: str) -> bytes:
    """Return what tells whether a text is the one that was seen."""
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()


async def add_evidence(tx: Tx, case_id: CaseId, evidence: Evidence, text: str, run_id: int | None = None) -> bool:
    """Add a revision of a message to a case; False if it is there. `text`: what it says, copied or not."""
    return bool(
        await tx.execute(
            _EVIDENCE,
            case_id,
            evidence.room_id,
            evidence.ref,
            evidence.revision,
            evidence.author_id,
            evidence.sent_at,
            evidence.text,
            text_hash(text),
            evidence.withheld,
            list(evidence.files),
            evidence.note,
            evidence.quote,
            run_id,
        )
    )


async def list_evidence(tx: Tx, case_id: CaseId) -> list[Evidence]:
    """Return the evidence of a case in the order in which it was said."""
    rows = await tx.fetch("select * from voidbot.case_evidence where case_id = $1 order by sent_at, id", case_id)
    return [
        Evidence(
            room_id=RoomId(row["room_id"]),
            ref=row["platform_ref"],
            revision=row["revision"],
            author_id=PersonId(row["author_id"]),
            sent_at=row["sent_at"],
            text=row["text"],
            withheld=row["withheld"],
            files=tuple(row["files"]),
            quote=row["quote"],
            note=row["note"],
        )
        for row in rows
    ]


async def evidence_hash(tx: Tx, case_id: CaseId) -> bytes:
    """Return one hash over all evidence of a case, in order."""
    rows = await tx.fetch("select text_sha256 from voidbot.case_evidence where case_id = $1 order by id", case_id)
    return hashlib.sha256(b"".join(row["text_sha256"] for row in rows)).digest()


async def add_event(tx: Tx, case_id: CaseId, person_id: PersonId | None, act: str, details: Mapping[str, Any]) -> None:
    """Note what happened to a case, and by whom; never a text."""
    await tx.execute(_EVENT, case_id, person_id, act, dict(details))


async def list_events(tx: Tx, case_id: CaseId) -> list[Row]:
    """Return what happened to a case, oldest first."""
    return await tx.fetch(
        "select at, person_id, act, details from voidbot.case_events where case_id = $1 order by id", case_id
    )


async def judge(tx: Tx, case_id: CaseId, step: Step, strikes: int) -> None:
    """Note what acting by itself would do, and how many strikes count with this one."""
    await tx.execute(_JUDGE, case_id, {"step": step_words(step)}, strikes)


async def change(
    tx: Tx,
    case: Case,
    status: CaseStatus,
    *,
    assigned_to: PersonId | None = None,
    decision: Step | None = None,
    reason: str = "",
    by: PersonId | None = None,
    outcome: Outcome = Outcome.NONE,
) -> Case | None:
    """Change a case as it was seen; None if somebody changed it meanwhile. What is not given is emptied."""
    row = await tx.fetchrow(
        _CHANGE,
        case.id,
        case.version,
        status,
        assigned_to,
        None if decision is None else {"step": step_words(decision)},
        reason,
        by,
        outcome,
    )
    return None if row is None else _case(row)


async def set_card(tx: Tx, case_id: CaseId, outbox_id: OutboxId) -> None:
    """Note which message shows a case to the staff."""
    await tx.execute(_CARD, case_id, outbox_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFilter:
    """Which cases are listed. `admin`: those about staff too. `not_about`: never those about this person."""

    statuses: tuple[CaseStatus, ...] = (CaseStatus.OPEN, CaseStatus.ASSIGNED)
    rule_id: str | None = None
    severity: int | None = None
    assigned_to: PersonId | None = None
    admin: bool = False
    not_about: PersonId | None = None
    limit: int = 20


async def list_cases(tx: Tx, community_id: CommunityId, wanted: CaseFilter) -> list[Case]:
    """Return cases, the gravest first, then the oldest."""
    rows = await tx.fetch(
        _LIST,
        community_id,
        list(wanted.statuses),
        wanted.rule_id,
        wanted.severity,
        wanted.assigned_to,
        wanted.admin,
        wanted.not_about,
        wanted.limit,
    )
    return [_case(row) for row in rows]


async def list_fresh(tx: Tx, community_id: CommunityId, subject_id: PersonId) -> list[Case]:
    """Return the cases about somebody that wait and began within the last minute; locked until the end."""
    rows = await tx.fetch(
        f"select {_COLUMNS} from voidbot.cases where community_id = $1 and subject_id = $2"
        " and status in ('open', 'assigned') and created_at > voidbot.now() - interval '60 seconds'"
        " order by id for update",
        community_id,
        subject_id,
    )
    return [_case(row) for row in rows]


async def let_go(tx: Tx) -> Sequence[CaseId]:
    """Open cases again that somebody took and did not decide for a day; return them."""
    return [CaseId(row["id"]) for row in await tx.fetch(_STALE)]


_FORGET = """
update voidbot.case_evidence e set text = null, quote = '', note = '', files = '[]' from voidbot.cases c
where e.id in (
    select f.id from voidbot.case_evidence f join voidbot.cases d on d.id = f.case_id
    where (f.text is not null or f.quote <> '' or f.note <> '' or f.files <> '[]')
      and (d.created_at < voidbot.now() - interval '400 days' or not exists (
        select 1 from voidbot.sanctions s where s.case_id = d.id
          and (s.expires_at is null and s.kind = 'ban' or s.expires_at > voidbot.now() - interval '30 days'))
      and coalesce(d.closed_at, d.created_at) < voidbot.now() - interval '30 days')
    limit $1)
  and c.id = e.case_id"""


async def forget_evidence(tx: Tx, batch: int = 1000) -> int:
    """Empty the words of evidence that nothing in force rests on, some at a time; return of how many messages.

    They stay for thirty days, for as long as what came of them is in force and can be appealed, and at most 400 days.
    """
    return await tx.execute(_FORGET, batch)


async def add_report(tx: Tx, case_id: CaseId, reporter_id: PersonId, text: str) -> bool:
    """Add a member's report to a case; False if they reported it already."""
    return bool(await tx.execute(_REPORT, case_id, reporter_id, text))


async def count_reports(tx: Tx, case_id: CaseId) -> int:
    """Return how many members reported what a case holds."""
    return int(await tx.fetchval("select count(*) from voidbot.case_reports where case_id = $1", case_id))


async def count_reported_today(tx: Tx, reporter_id: PersonId, community_id: CommunityId) -> int:
    """Return how many reports a member has made within a day."""
    return int(await tx.fetchval(_REPORTED, reporter_id, community_id))


async def raise_severity(tx: Tx, case_id: CaseId) -> None:
    """Make a case graver by one, up to the gravest."""
    await tx.execute("update voidbot.cases set severity = least(4, severity + 1) where id = $1", case_id)


async def last_change(tx: Tx, case_id: CaseId) -> datetime | None:
    """Return when something last happened to a case."""
    found: datetime | None = await tx.fetchval("select max(at) from voidbot.case_events where case_id = $1", case_id)
    return found
