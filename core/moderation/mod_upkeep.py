"""Upkeep of moderation: cases that were let lie, bans whose term is over, and words that are kept no longer."""

from dataclasses import replace

import structlog

from core.domain.moderation.acts import ActKind
from core.domain.moderation.sanctions import ActState
from core.moderation.sanctioning import plan
from core.moderation.work import case_job
from core.store import acts, cases, jobs, ledger, mod_rules, review
from core.store.engine import Tx

log = structlog.get_logger()


async def tend(tx: Tx) -> dict[str, int]:
    """Do some of everything that is due; what is left the next run takes. Returns how much of each."""
    let_go = await cases.let_go(tx)
    for case_id in let_go:
        case = await cases.load(tx, case_id)
        if case is not None:
            await cases.add_event(tx, case_id, None, "let_go", {})
            await jobs.enqueue(tx, [case_job(case_id, case.community_id)])
    done = {
        "let_go": len(let_go),
        "lifted": await lift_overdue(tx),
        "evidence": await cases.forget_evidence(tx),
        "signals": await mod_rules.forget_signals(tx),
        "window": await review.sweep(tx),
        "sanctions": await ledger.drop_over(tx),
    }
    if any(done.values()):
        log.info("moderation.tended", **done)
    return done


async def lift_overdue(tx: Tx) -> int:
    """Plan that bans end whose term is over, also one that was over while nothing ran; return how many."""
    lifted = 0
    for ban in await acts.list_overdue(tx):
        over = replace(
            ban,
            kind=ActKind.UNBAN,
            until=None,
            automatic=False,
            dedupe=f"lift:{ban.id}",
            state=ActState.READY,
            answer="",
        )
        lifted += await plan(tx, over)
    return lifted
