"""The `act` job: a look at everything as it is now, one call to the platform, and what it said.

An act is done once: it is marked before the platform is called, and whoever finds it marked looks at the platform
first. Where it is as it should be already, nothing is called.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

import structlog

from core.act_ports import ActResult, ModerationPort
from core.domain.errors import Unavailable
from core.domain.ids import PersonId
from core.domain.jobs import Ok, Outcome, Retry, Snooze
from core.domain.moderation.acts import Act, ActKind, Done
from core.domain.moderation.cases import Outcome as CaseOutcome
from core.domain.moderation.refusals import UNREACHABLE, UNSUPPORTED, refusal_in_words
from core.domain.moderation.rules import Level
from core.domain.moderation.sanctions import ActId, ActRefusal, ActState, AlreadySo, look
from core.jobs.executor import Fault, JobContext, Observe
from core.moderation.cards import Cards
from core.moderation.casework import Casework
from core.moderation.staffroom import tell_staff
from core.moderation.work import ACT_TRIES, ActWork, News, inform_job
from core.ports import Ambiguous, RetryAfter, SendRefused, Unsent
from core.store import acts, archive, cases, jobs, ledger, people, places
from core.store.acts import PlannedAct
from core.store.engine import Tx

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Ready:
    """An act that nothing of ours speaks against. `again`: it was begun before, and nobody knows how it went."""

    planned: PlannedAct
    act: Act
    again: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Acting:
    """What doing acts needs. `ports`: of front ends whose connection this process owns and that can do any."""

    ports: Mapping[str, ModerationPort]
    casework: Casework
    cards: Cards
    observe: Observe = lambda name, value, labels: None
    fault: Fault = lambda point: None

    async def run(self, ctx: JobContext, work: ActWork) -> Outcome:
        """Do one act, if everything still speaks for it."""
        act_id = ActId(work.act_id)
        ready = await ctx.advance(lambda tx: self._begin(tx, act_id))
        self.fault("act.begun")
        if not isinstance(ready, _Ready):
            return await self._end(ctx, act_id, ready)
        port = self.ports.get(ready.planned.front_end)
        if port is None:
            return await self._end(ctx, act_id, None, ActState.REFUSED, UNSUPPORTED)
        try:
            standing = await port.look(ready.act)
        except Unavailable as exc:
            return await self._again(ctx, act_id, str(exc), begun=ready.again)
        found = look(ready.act.kind, standing, ready.act.until)
        if ready.again and _is_ours(ready.act, found):
            return await self._end(ctx, act_id, None, ActState.DONE, "")
        if found is not None:
            return await self._end(ctx, act_id, found)
        self.fault("act.looked")
        result = await port.do(ready.act)
        self.fault("act.done")
        return await self._record(ctx, ready, port, result)

    async def _begin(self, tx: Tx, act_id: ActId) -> _Ready | ActRefusal | AlreadySo | None:
        """Mark an act as being done; return what of our own knowledge speaks against it."""
        started = await acts.start(tx, act_id)
        if started is None:
            return None
        planned, again = started
        if (refusal := await self._ours(tx, planned)) is not None:
            return refusal
        room = await places.load_room(tx, planned.room_id)
        community = await places.load_community(tx, planned.community_id)
        account = ""
        if planned.person_id is not None:
            platform, account = await people.find_account(tx, planned.person_id)
            if platform != room.key.platform:
                return ActRefusal.ERASED
        act = Act(
            kind=planned.kind,
            community_ref=community.chat_ref,
            room=room.key,
            nonce=f"act{planned.id}",
            reason=await _reason(tx, planned),
            account_ref=account,
            by_channel=planned.by_channel,
            message_ref=planned.message_ref,
            until=planned.until,
            setting=planned.setting,
        )
        return _Ready(planned, act, again)

    async def _ours(self, tx: Tx, planned: PlannedAct) -> ActRefusal | None:
        """Return what our own tables say against an act; acts that take something back are never held."""
        lifting = planned.dedupe.startswith(("lift:", "undo:"))
        if lifting:
            return None
        if planned.sanction_id is not None:
            sanction = await ledger.find(tx, planned.sanction_id)
            if sanction is None or sanction.reversed_at is not None:
                return ActRefusal.REVERSED
        case = None if planned.case_id is None else await cases.load(tx, planned.case_id)
        if case is not None and (case.outcome is CaseOutcome.REVERSED or case.decision is None):
            return ActRefusal.REDECIDED
        if case is None or not planned.automatic:
            return None
        book = await self.casework.rulebook.load(tx, planned.community_id)
        rule = book.find(case.rule_id)
        if rule is None or rule.level is not Level.ACT or book.switches.dry:
            return ActRefusal.REDECIDED
        if await acts.count_automatic(tx, planned.community_id) > book.switches.max_acts:
            return ActRefusal.BRAKE
        return ActRefusal.EDITED_HARMLESS if await _is_changed(tx, planned) else None

    async def _record(self, ctx: JobContext, ready: _Ready, port: ModerationPort, result: ActResult) -> Outcome:
        act_id = ready.planned.id
        match result:
            case Done():
                return await self._end(ctx, act_id, None, ActState.DONE, "")
            case RetryAfter(seconds):
                await self._put_back(ctx, act_id, begun=ready.again)
                return Snooze(seconds)
            case Unsent(reason):
                return await self._again(ctx, act_id, reason, begun=ready.again)
            case SendRefused(code):
                return await self._end(ctx, act_id, None, ActState.FAILED, code)
            case Ambiguous(reason):
                return await self._reconcile(ctx, ready, port, reason)
            case _:
                assert_never(result)

    async def _reconcile(self, ctx: JobContext, ready: _Ready, port: ModerationPort, reason: str) -> Outcome:
        """It may have been done: the platform tells by how its target stands now."""
        try:
            standing = await port.look(ready.act)
        except Unavailable as exc:
            return await self._again(ctx, ready.planned.id, str(exc), begun=True)
        found = look(ready.act.kind, standing, ready.act.until)
        if _is_ours(ready.act, found):
            return await self._end(ctx, ready.planned.id, None, ActState.DONE, "")
        return await self._again(ctx, ready.planned.id, reason, begun=True)

    async def _again(self, ctx: JobContext, act_id: ActId, reason: str, *, begun: bool) -> Outcome:
        """Try again later; given up, it was not done, or with `begun` nobody can tell."""
        if ctx.attempt < ACT_TRIES:
            await self._put_back(ctx, act_id, begun=begun)
            return Retry(None, reason)
        log.warning("act.given_up", act=act_id, why=reason)
        state = ActState.UNKNOWN if begun else ActState.FAILED
        return await self._end(ctx, act_id, None, state, UNREACHABLE)

    async def _put_back(self, ctx: JobContext, act_id: ActId, *, begun: bool) -> None:
        """Take the mark off an act of which it is certain that it was not done."""
        if not begun:
            await ctx.advance(lambda tx: acts.put_back(tx, act_id))

    async def _end(
        self,
        ctx: JobContext,
        act_id: ActId,
        found: ActRefusal | AlreadySo | None,
        state: ActState | None = None,
        answer: str = "",
    ) -> Outcome:
        """Record the end of an act, and what it means for its case; `found` None and no state: it was over before."""
        match found:
            case ActRefusal() | AlreadySo.LEFT:
                state, answer = ActState.REFUSED, found.value
            case AlreadySo():
                state, answer = ActState.DONE, found.value
            case None:
                pass
            case _:
                assert_never(found)
        if state is not None:
            self.observe("moderation_acts_total", 1, {"state": state})
        await ctx.finish(lambda tx: self._write(tx, act_id, state, answer))
        return Ok()

    async def _write(self, tx: Tx, act_id: ActId, state: ActState | None, answer: str) -> None:
        planned = await acts.find(tx, act_id)
        if planned is None or state is None or not await acts.end(tx, act_id, state, answer):
            return
        if state is not ActState.DONE:
            log.warning("act.not_done", act=act_id, kind=planned.kind, state=state, why=answer)
        if state is ActState.DONE and planned.sanction_id is not None and planned.kind.value != "delete":
            news = News.LIFTED if planned.dedupe.startswith(("lift:", "undo:")) else News.DONE
            job = inform_job(planned.sanction_id, news, front_end=planned.front_end, community_id=planned.community_id)
            await jobs.enqueue(tx, [job])
        if planned.case_id is not None:
            case = await self.casework.settle(tx, planned.case_id)
            if case is not None:
                await self.cards.bring_up_to_date(tx, case)
            if case is not None and case.status.waits:
                words = refusal_in_words(answer)
                why = f"Case {case.id} waits for you again: what was decided could not be done: {words} ({answer})."
                await tell_staff(tx, case.community_id, why, f"again:{case.id}:{case.version}")


def _is_ours(act: Act, found: ActRefusal | AlreadySo | None) -> bool:
    """Return whether what is found of an act that was begun says that it was done."""
    left = AlreadySo.LEFT if act.kind is ActKind.KICK else None
    return found is not None and found in (AlreadySo.HOLDS, AlreadySo.MESSAGE_GONE, left)


async def _reason(tx: Tx, planned: PlannedAct) -> str:
    """Return the reason for the platform's log with the name of who stands behind it, as of now."""
    sanction = None if planned.sanction_id is None else await ledger.find(tx, planned.sanction_id)
    if sanction is None or not sanction.approver.startswith("person:"):
        return planned.reason
    by = await people.names_of(tx, [PersonId(int(sanction.approver.removeprefix("person:")))])
    return f"{planned.reason}, by {next(iter(by.values()), 'the staff')}"


async def _is_changed(tx: Tx, planned: PlannedAct) -> bool:
    """Return whether any evidence of an act's case says something else now, as far as its room is archived."""
    if planned.case_id is None:
        return False
    for each in await cases.list_evidence(tx, planned.case_id):
        if each.text is not None and await archive.says_no_more(tx, each.room_id, each.ref, each.text):
            return True
    return False
