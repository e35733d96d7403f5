"""The card that shows a case to the staff: its words, its choices, and how it is brought up to date once decided."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from core.chat.answers import queue_unasked
from core.chat.choosing import again_of
from core.chat.deliver import public_text
from core.chat.voice import Voice
from core.domain.choices import Choice
from core.domain.ids import OutboxId, RoomId
from core.domain.jobs import Ok, Outcome
from core.domain.moderation.cases import Case, CaseId, Evidence, outcome_words
from core.domain.moderation.cases import Outcome as CaseOutcome
from core.domain.moderation.ladder import step_words
from core.domain.moderation.rules import Rule, StepKind
from core.domain.moderation.sanctions import ActState
from core.domain.permalinks import permalink
from core.domain.rooms import Room
from core.domain.speech import Draft, Receipt, SpeechKind
from core.jobs.executor import JobContext
from core.moderation.casework import shown_at_once
from core.moderation.rulebook import Rulebook
from core.moderation.work import CardWork, card_job
from core.ports import Clock, FrontEnd, OutgoingPart
from core.prompt.fences import shown_name
from core.prompt.stock import StockKey
from core.store import acts, cases, choices, jobs, mod_rules, outbox, people, places
from core.store.access import ReadableRooms
from core.store.acts import PlannedAct
from core.store.engine import Tx
from core.store.mod_rules import KeptSignal

QUOTED_CHARS = 600
"""How much of a message a card shows."""
MOST_QUOTED = 3
CARD_LASTS = timedelta(days=30)
"""How long a card can be pressed."""
CARE = "self-harm"
"""What a signal is called that asks for care and for nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cards:
    """What showing cases needs. `removing`: front ends where a ban takes all words of the member with it."""

    rulebook: Rulebook
    readable: ReadableRooms
    voice: Voice
    clock: Clock
    removing: frozenset[str] = frozenset()

    async def show(self, tx: Tx, case: Case) -> OutboxId | None:
        """Queue the card of a case; None if its level shows none, no room is the staff's, or it is shown already.

        Of a case about one of the staff the card says nothing: only administrators look at those.
        """
        rule = (await self.rulebook.load(tx, case.community_id)).find(case.rule_id)
        staff = await places.find_staff(tx, case.community_id)
        if staff is None or not shown_at_once(case, rule):
            return None
        sources = await self.sources(tx, case, staff)
        draft = Draft(
            kind=SpeechKind.CARD,
            room_id=staff.id,
            front_end=staff.key.platform,
            reply_to=None,
            text=await self.text(tx, case, staff, shown=sources is not None),
            audience=(sources or frozenset()) | {staff.id},
            dedupe=f"case:{case.id}",
        )
        outbox_id = await queue_unasked(
            tx,
            draft,
            Receipt(trigger=f"case:{case.id}", rule=f"card:{case.rule_id}", provider="code"),
            community_id=staff.community_id,
            trace=f"case:{case.id}",
            choices=await self.choices(tx, case, staff),
            until=self.pressed_until(),
        )
        if outbox_id is not None:
            await cases.set_card(tx, case.id, outbox_id)
        return outbox_id

    async def sources(self, tx: Tx, case: Case, staff: Room) -> frozenset[RoomId] | None:
        """Return the rooms that the card of a case is made of; None if not all who read there may read them now.

        Nor is a case about one of the staff shown to the others.
        """
        here = await places.load_place(tx, staff.id)
        sources = frozenset(each.room_id for each in await cases.list_evidence(tx, case.id))
        allowed = await self.readable.allow(tx, staff.community_id, staff.id, None, sources, epoch=here.mind_epoch)
        return sources if allowed and not case.about_staff else None

    async def bring_up_to_date(self, tx: Tx, case: Case) -> None:
        """Have the card of a case say how it stands; where there is none yet, show it if its level says so."""
        if case.card_id is None:
            await self.show(tx, case)
            return
        row = await outbox.find_by_id(tx, case.card_id)
        if row is not None:
            job = card_job(case.id, front_end=row.front_end, community_id=case.community_id, room_id=row.room_id)
            await jobs.enqueue(tx, [job])

    async def text(self, tx: Tx, case: Case, staff: Room, *, shown: bool = True) -> str:
        """Return what the card of a case says. `shown`: whether it may quote and name."""
        status = outcome_words(case, await list_missing(tx, case.id))
        if not shown:
            key = StockKey.CASE_CARD_HIDDEN
            return self.voice.say(staff.language, key, staff.id, case=str(case.id), rule=case.rule_id, status=status)
        evidence = await cases.list_evidence(tx, case.id)
        signals = await mod_rules.list_signals(tx, case.id)
        named = await people.names_of(tx, [case.subject_id]) if case.subject_id is not None else {}
        who = shown_name(next(iter(named.values()), "somebody"))
        where = await self._where(tx, evidence)
        if any(signal.what == CARE for signal in signals):
            return self.voice.say(
                staff.language, StockKey.CASE_CARE, staff.id, case=str(case.id), who=who, room=where[0], link=where[1]
            )
        rule = await self.rulebook.find(tx, case.community_id, case.rule_id, case.rule_version)
        return self.voice.say(
            staff.language,
            StockKey.CASE_CARD,
            staff.id,
            case=str(case.id),
            rule=case.rule_id,
            words="" if rule is None else rule.words(staff.language),
            level=case.level.value + (", dry run" if case.dry_run else ""),
            severity=str(case.severity),
            who=who,
            room=where[0],
            link=where[1],
            quote=quoted(evidence),
            found=_found(case, signals, evidence),
            strikes=str(case.strikes),
            step=step_words(case.step),
            status=status + (f" · {case.hold_reason}" if case.hold_reason else ""),
            warning=self._warning(case, rule, staff),
        )

    async def _where(self, tx: Tx, evidence: list[Evidence]) -> tuple[str, str]:
        if not evidence:
            return "", ""
        room = await places.load_room(tx, evidence[-1].room_id)
        community = await places.load_community(tx, room.community_id)
        link = permalink(room.key.platform, community.chat_ref, room.key, evidence[-1].ref)
        return f"#{shown_name(room.name)}", link or ""

    def _warning(self, case: Case, rule: Rule | None, staff: Room) -> str:
        step = case.decision or case.step
        if step.kind is StepKind.BAN and staff.key.platform in self.removing:
            return " A ban here removes everything that the member wrote, for good."
        return ""

    async def choices(self, tx: Tx, case: Case, staff: Room) -> tuple[Choice, ...]:
        """Return what can be pressed below a card as its case stands."""
        label = self._label
        if not case.status.waits:
            if case.outcome is not CaseOutcome.APPLIED:
                return ()
            return (Choice(label(staff, StockKey.CASE_UNDO), f"/void cases undo id:{case.id}"),)
        signals = await mod_rules.list_signals(tx, case.id)
        look = Choice(label(staff, StockKey.CASE_CONTEXT), f"/void cases context id:{case.id}")
        take = Choice(label(staff, StockKey.CASE_TAKE), f"/void cases take id:{case.id}")
        dismiss = Choice(
            label(staff, StockKey.CASE_DISMISS), f"/void cases dismiss id:{case.id} version:{case.version}"
        )
        if any(signal.what == CARE for signal in signals) or case.about_staff:
            return (look, take, dismiss)
        if case.step.kind is StepKind.ASK:
            return (dismiss, look, take)
        approve = Choice(
            f"{label(staff, StockKey.CASE_APPROVE)}: {step_words(case.step)}"[:40],
            f"/void cases decide id:{case.id} version:{case.version}",
        )
        return (approve, dismiss, look, take)

    def pressed_until(self) -> datetime:
        """Return until when a card of now can be pressed."""
        return self.clock.now() + CARD_LASTS

    def _label(self, staff: Room, key: StockKey) -> str:
        return self.voice.say(staff.language, key, staff.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class CardKeeping:
    """What bringing cards up to date needs. `front_ends`: those whose connection this process owns."""

    front_ends: Mapping[str, FrontEnd]
    cards: Cards

    async def run(self, ctx: JobContext, work: CardWork) -> Outcome:
        """Edit the card of one case to say how it stands; where it cannot be, it stays as it was."""
        found = await ctx.advance(lambda tx: self._part(tx, CaseId(work.case_id)), durable=False)
        if found is not None:
            front_end, external_id, part = found
            result = await self.front_ends[front_end].edit(external_id, part)
            again = again_of(result, ctx.attempt)
            if again is not None:
                return again
        await ctx.finish(_nothing, durable=False)
        return Ok()

    async def _part(self, tx: Tx, case_id: CaseId) -> tuple[str, str, OutgoingPart] | None:
        case = await cases.load(tx, case_id)
        row = None if case is None or case.card_id is None else await outbox.find_by_id(tx, case.card_id)
        if case is None or row is None:
            return None
        external_id = await choices.shown_as(tx, row.id)
        if external_id is None:
            return None
        staff = await places.load_room(tx, row.room_id)
        # Who reads there may have changed since the card was sent.
        text = await self.cards.text(tx, case, staff, shown=await self.cards.sources(tx, case, staff) is not None)
        offered = await self.cards.choices(tx, case, staff)
        (part,) = (await outbox.list_parts(tx, row.id))[-1:]
        if offered:
            await choices.offer(tx, row.id, offered, self.cards.pressed_until())
        else:
            await choices.close(tx, row.id)
        outgoing = OutgoingPart(
            room=staff.key,
            text=public_text(text),
            nonce=part.nonce,
            reply_to=None,
            private_to=None,
            plain=part.plain,
            outbox_id=row.id,
            n=part.n,
            choices=offered,
        )
        return row.front_end, external_id, outgoing


async def _nothing(tx: Tx) -> None:
    """There is nothing to write."""


async def list_missing(tx: Tx, case_id: CaseId) -> list[str]:
    """Return which acts of a case were not done, each with why."""
    planned = await acts.list_of_decision(tx, case_id)
    over = (act for act in planned if act.state in (ActState.REFUSED, ActState.FAILED, ActState.UNKNOWN))
    return sorted({f"{act.kind.value.replace('_', ' ')}: {_why(act)}" for act in over})


def _why(act: PlannedAct) -> str:
    """Return why an act was not done, as far as anybody knows."""
    return "nobody can tell whether it was done" if act.state is ActState.UNKNOWN else act.answer


def quoted(evidence: list[Evidence]) -> str:
    """Return the newest words of a case as a quotation; where they were not copied, that they were not."""
    shown = evidence[-MOST_QUOTED:]
    lines = []
    for each in shown:
        if each.withheld:
            lines.append("> [not copied: open the link, and only if you have to]")
        elif each.text is None:
            lines.append("> [kept no longer]")
        else:
            text = each.text if len(each.text) <= QUOTED_CHARS else f"{each.text[:QUOTED_CHARS]} […]"
            lines += [f"> {line}" for line in text.splitlines() or [""]]
    if len(evidence) > len(shown):
        lines.insert(0, f"> [{len(evidence) - len(shown)} earlier messages]")
    return "\n".join(lines)


def _found(case: Case, signals: list[KeptSignal], evidence: list[Evidence]) -> str:
    """Return what found it, with value and threshold, in a few words."""
    said = []
    for signal in signals[-4:]:
        what = f" ({signal.what})" if signal.what else ""
        said.append(f"{signal.detector}{what} {signal.value:g} of {signal.threshold:g}")
    said += [each.note for each in evidence if each.note][-2:]
    return "; ".join(dict.fromkeys(said)) or case.lane.value
