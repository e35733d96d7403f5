"""Appeals: what a member says against a sanction, decided by somebody else than whoever approved it."""

from dataclasses import dataclass

from core.domain.errors import InputRejected
from core.domain.ids import PersonId
from core.domain.moderation.cases import Case
from core.domain.moderation.sanctions import APPEALED_WITHIN, Sanction, SanctionId, SanctionKind
from core.moderation.reversal import Reversal
from core.moderation.staffroom import tell_staff
from core.moderation.work import News, inform_job
from core.ports import Clock
from core.store import appeals, cases, jobs, ledger, people
from core.store.appeals import Appeal
from core.store.engine import Tx

TEXT_CHARS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Appeals:
    """What appeals need."""

    reversal: Reversal
    clock: Clock

    async def appeal(self, tx: Tx, person_id: PersonId, sanction_id: SanctionId, text: str) -> int:
        """Take an appeal in and tell the staff that there is one; return its number.

        Raises:
            InputRejected: It is about no sanction of theirs, too late, a second one, or says nothing.
        """
        sanction = await ledger.find(tx, sanction_id)
        if sanction is None or await ledger.person_of(tx, sanction) != person_id:
            raise InputRejected(f"sanction: there is no sanction {sanction_id} about you; /my-record lists them")
        if sanction.reversed_at is not None:
            raise InputRejected(f"sanction: {sanction_id} was taken back already")
        if self.clock.now() - sanction.created_at > APPEALED_WITHIN:
            raise InputRejected(f"sanction: {sanction_id} is older than {APPEALED_WITHIN.days} days")
        text = text.strip()
        if not text or len(text) > TEXT_CHARS:
            raise InputRejected(f"text: say in up to {TEXT_CHARS} letters why it is wrong")
        added = await appeals.add(tx, sanction_id, person_id, text)
        if added is None:
            raise InputRejected(f"sanction: you have appealed against {sanction_id} already")
        if sanction.case_id is not None:
            await cases.add_event(tx, sanction.case_id, None, "appealed", {"appeal": added})
        said = f"Appeal {added} against sanction {sanction_id} waits: /void cases act:appeals shows it."
        await tell_staff(tx, sanction.community_id, said, f"appeal:{added}")
        return added

    async def decide(self, tx: Tx, appeal: Appeal, by: PersonId, *, granted: bool, reason: str) -> Case | None:
        """Decide an appeal; granted, everything is taken back. Returns the case that was.

        Raises:
            InputRejected: It is their own, they approved what it is against, or it is decided.
        """
        sanction = await ledger.find(tx, appeal.sanction_id)
        if sanction is None:
            raise InputRejected(f"id: what appeal {appeal.id} was about is there no more")
        if by == appeal.person_id:
            raise InputRejected(f"id: appeal {appeal.id} is yours; somebody else decides it")
        if sanction.approver == f"person:{by}" and not granted:
            raise InputRejected(
                f"id: you approved what appeal {appeal.id} is against: grant it, or let somebody else refuse"
            )
        if not await appeals.decide(tx, appeal.id, by, granted, reason):
            raise InputRejected(f"id: appeal {appeal.id} is decided already")
        if granted and sanction.reversed_at is None:
            return await self.reversal.reverse(tx, sanction.id, by, reason, appeal.id)
        await self._tell(tx, sanction, appeal)
        return None

    async def _tell(self, tx: Tx, sanction: Sanction, appeal: Appeal) -> None:
        platform, _ = await people.find_account(tx, appeal.person_id)
        job = inform_job(sanction.id, News.UPHELD, front_end=platform, community_id=sanction.community_id)
        await jobs.enqueue(tx, [job])


async def newest_of(tx: Tx, sanctions: list[Sanction]) -> SanctionId | None:
    """Return the newest sanction that can be appealed against without naming it; None if there is none."""
    for each in sanctions:
        if (
            each.kind not in (SanctionKind.STRIKE, SanctionKind.NOTE)
            and each.reversed_at is None
            and await appeals.find_of(tx, each.id) is None
        ):
            return each.id
    return None
