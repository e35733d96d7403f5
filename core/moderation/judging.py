"""The `case` job: what a case leads to, as of now, and its card."""

from dataclasses import dataclass

from core.domain.jobs import Ok, Outcome
from core.domain.moderation.cases import CaseId
from core.jobs.executor import JobContext
from core.moderation.cards import Cards
from core.moderation.casework import Casework
from core.moderation.work import CaseWork
from core.store.engine import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """What judging needs."""

    casework: Casework
    cards: Cards

    async def run(self, ctx: JobContext, work: CaseWork) -> Outcome:
        """Judge one case; what it leads to and its card commit together with the job."""
        await ctx.finish(lambda tx: self._judge(tx, CaseId(work.case_id)))
        return Ok()

    async def _judge(self, tx: Tx, case_id: CaseId) -> None:
        case = await self.casework.judge(tx, case_id)
        if case is not None:
            await self.cards.bring_up_to_date(tx, case)
