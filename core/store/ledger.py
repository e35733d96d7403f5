"""The ledger of sanctions: appended, never changed. Only this module writes its tables.

Who a sanction is about stands there as a hash under the community's own key; the way back to a person is a table
beside it, which an erasure empties. What is taken back is a row of its own.
"""

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from core.domain.ids import CommunityId, PersonId
from core.domain.moderation.cases import CaseId
from core.domain.moderation.rules import Category, Rule
from core.domain.moderation.sanctions import ActState, Sanction, SanctionId, SanctionKind, SanctionOrigin
from core.store import people
from core.store.engine import Row, Tx

KEPT_AFTER = timedelta(days=30)
"""How long a row stays after its time is over: as long as it can be appealed."""
KEPT_AT_MOST = timedelta(days=400)

_KEY = """
insert into voidbot.mod_keys (community_id, key) values ($1, $2) on conflict (community_id) do nothing"""
_SUBJECT = """
insert into voidbot.sanction_subjects (community_id, subject, person_id) values ($1, $2, $3)
on conflict (community_id, subject) do update set person_id = excluded.person_id
where voidbot.sanction_subjects.person_id <> excluded.person_id"""
_COLUMNS = """s.id, s.community_id, s.subject, s.kind, s.rule_id, s.rule_version, s.category, s.case_id, s.proposer,
  s.approver, s.created_at, s.expires_at, s.dry_run, s.origin, r.at as reversed_at,
  (select a.state from voidbot.acts a where a.sanction_id = s.id order by a.id limit 1) as effect"""
_FROM = "from voidbot.sanctions s left join voidbot.sanction_reversals r on r.sanction_id = s.id"
_ADD = """
insert into voidbot.sanctions (community_id, subject, kind, rule_id, rule_version, category, case_id, proposer,
  approver, evidence_hash, expires_at, dry_run, origin, dedupe)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) on conflict (dedupe) do nothing returning id"""
_TEXTS = """
insert into voidbot.sanction_texts (sanction_id, reason_member, reason_staff) values ($1, $2, $3)
on conflict do nothing"""
_UNDER = f"select {_COLUMNS} {_FROM} where s.community_id = $1 and s.subject = $2 and s.rule_id = $3 order by s.id"
_OF = f"select {_COLUMNS} {_FROM} where s.community_id = $1 and s.subject = $2 order by s.id desc limit $3"
_ONE = f"select {_COLUMNS} {_FROM} where s.id = $1"
_OF_CASE = f"select {_COLUMNS} {_FROM} where s.case_id = $1 order by s.id"
_REVERSE = """
insert into voidbot.sanction_reversals (sanction_id, by_person, reason, appeal_id) values ($1, $2, $3, $4)
on conflict do nothing"""
_OVER = """
select voidbot.clear_sanctions(array(
    select id from voidbot.sanctions
    where greatest(expires_at, created_at + interval '1 day') < voidbot.now() - $1::interval
      or created_at < voidbot.now() - $2::interval and expires_at is not null limit 500))"""


async def _key(tx: Tx, community_id: CommunityId) -> bytes:
    """Return the community's own key; made when it is first needed, gone with the community."""
    for _ in range(2):
        found: bytes | None = await tx.fetchval(
            "select key from voidbot.mod_keys where community_id = $1", community_id
        )
        if found is not None:
            return found
        await tx.execute(_KEY, community_id, secrets.token_bytes(32))
    raise AssertionError("a key that was just made is there")


async def subject_of(tx: Tx, community_id: CommunityId, person_id: PersonId) -> str:
    """Return the hash under which the ledger knows a person; the same for an account that comes back."""
    key = await _key(tx, community_id)
    platform, account = await people.find_account(tx, person_id)
    return hmac.new(key, f"{platform}:{account}".encode(), hashlib.sha256).hexdigest()


async def hold(tx: Tx, community_id: CommunityId, subject: str, rule_id: str) -> None:
    """Let one count strikes after the other: two cannot both be the third."""
    await tx.execute(
        "select pg_advisory_xact_lock(hashtextextended('voidbot.ledger:' || $1::bigint || $2 || $3, 0))",
        community_id,
        subject,
        rule_id,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSanction:
    """A row to be added. `dedupe`: the same on each try; `lasts` None: for good, or it is over at once."""

    community_id: CommunityId
    person_id: PersonId
    subject: str
    kind: SanctionKind
    rule: Rule
    case_id: CaseId | None
    proposer: str
    approver: str
    evidence_hash: bytes
    expires_at: datetime | None
    dry_run: bool
    origin: SanctionOrigin
    dedupe: str
    reason_member: str = ""
    reason_staff: str = ""


async def add(tx: Tx, new: NewSanction) -> SanctionId | None:
    """Add a row with its texts; None if it is there already."""
    await tx.execute(_SUBJECT, new.community_id, new.subject, new.person_id)
    found = await tx.fetchval(
        _ADD,
        new.community_id,
        new.subject,
        new.kind,
        new.rule.id,
        new.rule.version,
        new.rule.category,
        new.case_id,
        new.proposer,
        new.approver,
        new.evidence_hash,
        new.expires_at,
        new.dry_run,
        new.origin,
        new.dedupe,
    )
    if found is None:
        return None
    await tx.execute(_TEXTS, found, new.reason_member, new.reason_staff)
    return SanctionId(found)


def _sanction(row: Row) -> Sanction:
    return Sanction(
        id=SanctionId(row["id"]),
        community_id=CommunityId(row["community_id"]),
        subject=row["subject"],
        kind=SanctionKind(row["kind"]),
        rule_id=row["rule_id"],
        rule_version=row["rule_version"],
        category=Category(row["category"]),
        case_id=None if row["case_id"] is None else CaseId(row["case_id"]),
        proposer=row["proposer"],
        approver=row["approver"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
        dry_run=row["dry_run"],
        origin=SanctionOrigin(row["origin"]),
        effect=None if row["effect"] is None else ActState(row["effect"]),
        reversed_at=row["reversed_at"],
    )


async def list_under(tx: Tx, community_id: CommunityId, subject: str, rule_id: str) -> list[Sanction]:
    """Return what stands about a subject under a rule, oldest first."""
    return [_sanction(row) for row in await tx.fetch(_UNDER, community_id, subject, rule_id)]


async def list_of(tx: Tx, community_id: CommunityId, subject: str, limit: int = 50) -> list[Sanction]:
    """Return what stands about a subject, newest first."""
    return [_sanction(row) for row in await tx.fetch(_OF, community_id, subject, limit)]


async def list_about(tx: Tx, person_id: PersonId, limit: int = 50) -> list[Sanction]:
    """Return what stands about a person in any community, newest first."""
    rows = await tx.fetch(
        f"select {_COLUMNS} {_FROM} join voidbot.sanction_subjects p on p.community_id = s.community_id"
        " and p.subject = s.subject where p.person_id = $1 order by s.id desc limit $2",
        person_id,
        limit,
    )
    return [_sanction(row) for row in rows]


async def list_of_case(tx: Tx, case_id: CaseId) -> list[Sanction]:
    """Return what came of a case, oldest first."""
    return [_sanction(row) for row in await tx.fetch(_OF_CASE, case_id)]


async def find(tx: Tx, sanction_id: SanctionId) -> Sanction | None:
    """Return one row; None if there is none."""
    row = await tx.fetchrow(_ONE, sanction_id)
    return None if row is None else _sanction(row)


async def person_of(tx: Tx, sanction: Sanction) -> PersonId | None:
    """Return whom a row is about; None once that was erased."""
    found = await tx.fetchval(
        "select person_id from voidbot.sanction_subjects where community_id = $1 and subject = $2",
        sanction.community_id,
        sanction.subject,
    )
    return None if found is None else PersonId(found)


async def reason_of(tx: Tx, sanction_id: SanctionId) -> str:
    """Return what the member is told as the reason; empty once that was erased."""
    return str(
        await tx.fetchval("select reason_member from voidbot.sanction_texts where sanction_id = $1", sanction_id) or ""
    )


async def reverse(
    tx: Tx, sanction_id: SanctionId, by: PersonId | None, reason: str, appeal_id: int | None = None
) -> bool:
    """Take a row back by a row of its own; False if it was already."""
    return bool(await tx.execute(_REVERSE, sanction_id, by, reason, appeal_id))


async def drop_over(tx: Tx) -> int:
    """Remove rows whose time is over, and that can be appealed no more; return how many."""
    return int(await tx.fetchval(_OVER, KEPT_AFTER, KEPT_AT_MOST))


async def list_reversed(tx: Tx, case_ids: Sequence[CaseId]) -> set[CaseId]:
    """Return the cases of which something was taken back."""
    rows = await tx.fetch(
        "select distinct s.case_id from voidbot.sanctions s join voidbot.sanction_reversals r on r.sanction_id = s.id"
        " where s.case_id = any($1::bigint[])",
        list(case_ids),
    )
    return {CaseId(row["case_id"]) for row in rows}
