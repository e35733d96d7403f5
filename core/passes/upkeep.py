"""Housekeeping of the store: expiry, blanking, pruning, books. Each step is small and may run twice."""

from dataclasses import dataclass
from typing import Literal

import structlog
from pydantic import BaseModel, ConfigDict

from core.chat import choosing
from core.domain.jobs import Ok, Outcome
from core.jobs.executor import JobContext, Observe
from core.moderation.mod_upkeep import tend
from core.passes.comparing import tend_vectors
from core.passes.sources import queue_hourly
from core.privacy.upkeep import PrivacyUpkeep
from core.store import budgets, imports, inbox, jobs, outbox, pass_books, rates, retention, shown

log = structlog.get_logger()

OVERDUE_BATCHES = 50
"""How many batches of messages past their time one run deletes."""


class UpkeepWork(BaseModel):
    """One slot of upkeep."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    v: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The `upkeep` job. `likeness`: whether vectors are made here, so that they are looked after."""

    observe: Observe
    privacy: PrivacyUpkeep
    likeness: bool = False

    async def run(self, ctx: JobContext, _: UpkeepWork) -> Outcome:
        """Do every step in a transaction of its own; report what the books get wrong."""
        lost = await ctx.advance(budgets.expire, durable=False)
        blanked = await ctx.advance(inbox.blank_old, durable=False)
        emptied = await ctx.advance(outbox.blank_old, durable=False)
        emptied += await ctx.advance(shown.blank_old, durable=False)
        await ctx.advance(choosing.sweep, durable=False)
        abandoned = await ctx.advance(inbox.end_abandoned, durable=False)
        await ctx.advance(rates.sweep, durable=False)
        pruned = await ctx.advance(budgets.prune, durable=False)
        await ctx.advance(imports.forget_old, durable=False)
        saved = await ctx.advance(pass_books.drop_saved, durable=False)
        removed = await ctx.advance(jobs.keep_house)
        syncs = await ctx.advance(queue_hourly, durable=False)
        await ctx.advance(tend, durable=False)
        if self.likeness:
            await ctx.advance(tend_vectors, durable=False)
        private = await self.privacy.run(ctx)
        overdue = await _forget_overdue(ctx)
        wrong = await ctx.advance(budgets.invariants, durable=False)
        for line in wrong:
            log.error("budget.books_wrong", what=line)
        log.info(
            "upkeep.done",
            assumed=len(lost),
            blanked=blanked,
            emptied=emptied,
            abandoned=abandoned,
            pruned=pruned,
            saved=saved,
            **private,
            overdue=overdue,
            syncs=syncs,
            **dict(removed),
        )
        return Ok()


async def _forget_overdue(ctx: JobContext) -> int:
    """Delete what is kept no longer in batches; what one run leaves, the next one goes on with."""
    deleted = 0
    for _ in range(OVERDUE_BATCHES):
        batch = await ctx.advance(retention.delete_overdue)
        deleted += batch
        if batch < retention.BATCH or ctx.cancelled:
            break
    return deleted
