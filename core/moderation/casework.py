"""Cases from their opening to their end: what joins one, what it leads to, who decides it, and what came of it.

Each function is part of a transaction of its caller. Nothing here speaks to a platform.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from core.domain.errors import Conflict, InputRejected
from core.domain.ids import PersonId
from core.domain.messages import Origin
from core.domain.moderation.cases import Case, CaseId, CaseStatus, Evidence, Lane, Outcome
from core.domain.moderation.ladder import ASK, acts_alone, effect_of, step_of, step_words
from core.domain.moderation.rule_file import SENSITIVE
from core.domain.moderation.rules import Level, Rule, RuleKind, Step, StepKind
from core.domain.moderation.sanctions import ActState, strikes
from core.domain.moderation.signals import Signal, Watched
from core.domain.rooms import Room
from core.moderation.rulebook import Book, Rulebook
from core.moderation.sanctioning import Sanctioning, plan_deletes, plan_step
from core.moderation.work import case_job
from core.ports import Clock
from core.store import acts, cases, jobs, ledger, mod_rules
from core.store.engine import Tx

PEOPLE_ALONE = frozenset({Origin.HUMAN, Origin.PROXIED})
"""Whose messages lead to strikes and acts by themselves; of machines and channels a person decides."""
NOT_DONE = "nothing of it was done"
"""Why rows of the ledger are taken back by code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """A message under a rule. `signals`: what was found; `quote`, `note`: what a reader says of it."""

    message: Watched
    rule: Rule
    signals: tuple[Signal, ...] = ()
    quote: str = ""
    note: str = ""
    run_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Casework:
    """What handling cases needs."""

    rulebook: Rulebook
    clock: Clock

    async def take_in(
        self, tx: Tx, book: Book, breach: Breach, lane: Lane, *, about_staff: bool = False, hold: str = ""
    ) -> Case:
        """Open a case, or let the breach join the one of its burst; queue what is to be done about it."""
        message, rule = breach.message, breach.rule
        case = await cases.find_burst(tx, message.community_id, rule.id, message.person_id)
        opened = case is None
        if case is None:
            case = await cases.open_case(
                tx,
                message.community_id,
                rule,
                lane,
                message.person_id,
                about_staff=about_staff,
                dry=book.switches.dry,
                hold=hold,
            )
        added = await cases.add_evidence(tx, case.id, _evidence(breach), message.text, breach.run_id)
        await mod_rules.add_signals(tx, message, [(signal, case.id) for signal in breach.signals])
        if opened or added:
            act = "opened" if opened else "joined"
            await cases.add_event(
                tx, case.id, None, act, {"lane": lane, "ref": message.ref, "revision": message.revision}
            )
            await jobs.enqueue(tx, [case_job(case.id, case.community_id)])
        return case

    async def judge(self, tx: Tx, case_id: CaseId) -> Case | None:
        """Work out what a case leads to, and do it where its rule may; None if it is gone.

        Returns:
            The case as it stands then. The caller shows it to the staff where its level says so.
        """
        case = await cases.load(tx, case_id, lock=True)
        if case is None or case.subject_id is None:
            return case
        book = await self.rulebook.load(tx, case.community_id)
        rule = await self.rulebook.find(tx, case.community_id, case.rule_id, case.rule_version)
        now_rule = book.find(case.rule_id)
        if rule is None or now_rule is None:
            return case
        if not case.status.waits:
            return await self._follow_up(tx, case, rule)
        subject = await ledger.subject_of(tx, case.community_id, case.subject_id)
        await ledger.hold(tx, case.community_id, subject, case.rule_id)
        rows = await ledger.list_under(tx, case.community_id, subject, case.rule_id)
        count = strikes(rows, self.clock.now()) + 1
        step = ASK if case.about_staff or case.hold_reason else step_of(rule, count)
        if case.strikes != count or case.step != step:
            await cases.judge(tx, case.id, step, count)
            await cases.add_event(tx, case.id, None, "judged", {"step": step_words(step), "strikes": count})
        braked = await acts.count_automatic(tx, case.community_id) >= book.switches.max_acts
        found = await cases.load(tx, case.id)
        if found is None or not acts_alone(now_rule, step, level=case.level, braked=braked) or found.version > 1:
            return found
        if await acts.was_handled(tx, case.community_id, case.subject_id):
            return await cases.change(tx, found, CaseStatus.CLOSED, outcome=Outcome.NATIVE, reason="handled natively")
        return await self._apply(tx, found, rule, step, by=None, approver=_by_rule(now_rule), reason="", book=book)

    async def _follow_up(self, tx: Tx, case: Case, rule: Rule) -> Case:
        """Let messages that joined a decided case later go the way of the others, where that was to delete them."""
        if case.decision is None or StepKind.DELETE not in case.decision.kinds or case.outcome is Outcome.REVERSED:
            return case
        if case.dry_run:
            return case
        await plan_deletes(tx, case, rule, automatic=case.decided_by is None)
        return case

    async def decide(
        self, tx: Tx, case_id: CaseId, version: int, step: Step | None, *, by: PersonId, reason: str
    ) -> Case:
        """Decide a case as somebody has seen it; `step` None dismisses it.

        Raises:
            InputRejected: There is no such case, it does not wait, or the step cannot be taken.
            Conflict: Somebody has decided or changed it since.
        """
        case = await cases.load(tx, case_id, lock=True)
        if case is None:
            raise InputRejected(f"id: there is no case {case_id}")
        if case.subject_id == by:
            raise InputRejected(f"id: case {case_id} is about you; somebody else decides it")
        if not case.status.waits or case.version != version:
            raise Conflict(f"case {case_id}: it has changed since it was shown")
        if step is None:
            done = await cases.change(tx, case, CaseStatus.CLOSED, by=by, reason=reason, outcome=Outcome.DISMISSED)
        else:
            done = await self._approve(tx, case, step, by, reason)
        if done is None:
            raise Conflict(f"case {case_id}: it has changed since it was shown")
        said = "dismissed" if step is None else "approved"
        details = {"step": step_words(step) if step else "", "version": version}
        await cases.add_event(tx, case.id, by, said, details)
        return done

    async def sanction(
        self, tx: Tx, room: Room, subject_id: PersonId, rule_id: str, step: Step, *, by: PersonId, reason: str
    ) -> Case:
        """Do what one of the staff has decided without a case being there: through a case, so that it counts.

        Raises:
            InputRejected: There is no such rule, or the step cannot be taken.
        """
        book = await self.rulebook.load(tx, room.community_id)
        rule = book.find(rule_id)
        if rule is None:
            raise InputRejected(f"rule: there is no rule {rule_id}; /rules lists them")
        if subject_id == by:
            raise InputRejected("member: that is you")
        case = await cases.open_case(
            tx, room.community_id, rule, Lane.STAFF, subject_id, about_staff=False, dry=book.switches.dry
        )
        await cases.add_event(tx, case.id, by, "opened", {"lane": Lane.STAFF})
        done = await self._approve(tx, case, step, by, reason, room)
        if done is None:
            raise Conflict(f"case {case.id}: it has changed")
        await cases.add_event(tx, case.id, by, "approved", {"step": step_words(step)})
        return done

    async def _approve(
        self, tx: Tx, case: Case, step: Step, by: PersonId, reason: str, room: Room | None = None
    ) -> Case | None:
        if step.kind is StepKind.ASK:
            raise InputRejected("step: say what is to be done: note, warn, delete, timeout 1h, kick, ban")
        if case.subject_id is None:
            raise InputRejected(f"id: case {case.id} is about nobody who can be acted on")
        rule = await self.rulebook.find(tx, case.community_id, case.rule_id, case.rule_version)
        if rule is None:
            raise InputRejected(f"id: the rule of case {case.id} is not there any more")
        if rule.kind is RuleKind.CARE and step.kind is not StepKind.NOTE:
            raise InputRejected(
                f"step: case {case.id} asks for care, and nothing is done to anybody; note or dismiss it"
            )
        book = await self.rulebook.load(tx, case.community_id)
        approver = f"person:{by}"
        return await self._apply(tx, case, rule, step, by=by, approver=approver, reason=reason, book=book, room=room)

    async def _apply(
        self,
        tx: Tx,
        case: Case,
        rule: Rule,
        step: Step,
        *,
        by: PersonId | None,
        approver: str,
        reason: str,
        book: Book,
        room: Room | None = None,
    ) -> Case | None:
        """Write what is done into the ledger, plan the acts, and mark the case decided."""
        if case.dry_run or book.switches.dry:
            would = Outcome.WOULD_HAVE_APPLIED
            return await cases.change(tx, case, CaseStatus.CLOSED, decision=step, by=by, reason=reason, outcome=would)
        done = await cases.change(tx, case, CaseStatus.DECIDED, decision=step, by=by, reason=reason)
        if done is None or done.subject_id is None:
            return done
        subject = await ledger.subject_of(tx, case.community_id, done.subject_id)
        await ledger.hold(tx, case.community_id, subject, case.rule_id)
        digest = await cases.evidence_hash(tx, case.id)
        now = self.clock.now()
        base = Sanctioning(case=done, subject=subject, rule=rule, approver=approver, digest=digest, reason=reason)
        planned = await plan_step(tx, base, step, now, room, automatic=by is None)
        if StepKind.DELETE in step.kinds:
            await plan_deletes(tx, done, rule, automatic=by is None, base=base)
            planned = True
        if planned:
            return done
        return await self.settle(tx, done.id)

    async def settle(self, tx: Tx, case_id: CaseId) -> Case | None:
        """Close a decided case once each of its acts is over: what became of it is what the platform said."""
        case = await cases.load(tx, case_id, lock=True)
        if case is None or case.status is not CaseStatus.DECIDED:
            return case
        planned = await acts.list_of_decision(tx, case.id)
        if any(act.state in (ActState.READY, ActState.DOING) for act in planned):
            return case
        refused = [act for act in planned if act.state is ActState.REFUSED]
        done = [act for act in planned if act.state is ActState.DONE]
        if planned and not any(act.state.stands for act in planned):
            await self._take_out(tx, case)
        if refused and not done:
            reasons = "; ".join(sorted({act.answer for act in refused}))
            await cases.add_event(tx, case.id, None, "refused", {"why": reasons})
            return await cases.change(tx, case, CaseStatus.OPEN)
        outcome = Outcome.APPLIED if done or not planned else Outcome.FAILED
        await cases.add_event(tx, case.id, None, "settled", {"outcome": outcome})
        return await cases.change(
            tx,
            case,
            CaseStatus.CLOSED,
            decision=case.decision,
            reason=case.decision_reason,
            by=case.decided_by,
            outcome=outcome,
        )

    async def _take_out(self, tx: Tx, case: Case) -> None:
        """Take what was written for a decision out of the count: nothing of it was done."""
        for row in await ledger.list_of_case(tx, case.id):
            await ledger.reverse(tx, row.id, None, NOT_DONE)

    async def take(self, tx: Tx, case_id: CaseId, by: PersonId) -> Case:
        """Give a case to one of the staff, or let it go where they have it.

        Raises:
            InputRejected: There is no such case, it waits no more, or somebody else has it.
        """
        case = await cases.load(tx, case_id, lock=True)
        if case is None or not case.status.waits:
            raise InputRejected(f"id: there is no case {case_id} that waits for a decision")
        if case.assigned_to is not None and case.assigned_to != by:
            raise InputRejected(f"id: somebody else has taken case {case_id}")
        holder = None if case.assigned_to == by else by
        status = CaseStatus.OPEN if holder is None else CaseStatus.ASSIGNED
        await cases.add_event(tx, case.id, by, "let_go" if holder is None else "taken", {})
        changed = await cases.change(tx, case, status, assigned_to=holder)
        if changed is None:
            raise Conflict(f"case {case_id}: it has changed")
        return changed


def _evidence(breach: Breach) -> Evidence:
    message = breach.message
    withheld = breach.rule.kind in SENSITIVE
    return Evidence(
        room_id=message.room_id,
        ref=message.ref,
        revision=message.revision,
        author_id=message.person_id,
        sent_at=message.at,
        text=None if withheld else message.text,
        withheld=withheld,
        files=() if withheld else tuple(each.line() for each in message.attachments),
        quote="" if withheld else breach.quote,
        note=breach.note,
    )


def _by_rule(rule: Rule) -> str:
    since = "" if rule.acts_since is None else f" on {rule.acts_since.date().isoformat()}"
    return f"rule:{rule.id}@v{rule.version} set to act by person:{rule.acts_by}{since}"


def shown_at_once(case: Case, rule: Rule | None) -> bool:
    """Return whether the staff is shown a case as soon as it is there."""
    level = case.level if rule is None else min(case.level, rule.level, key=list(Level).index)
    return effect_of(level).card


def strongest(signals: Sequence[Signal]) -> Signal | None:
    """Return which signal decides under which rule a message becomes a case; hints alone never do."""
    real = [signal for signal in signals if not signal.finding.hint]
    return min(real, key=lambda signal: (-signal.severity, signal.rule_id), default=None)
