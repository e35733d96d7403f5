"""The `inform` job: a member is told by a direct message what was done, under which rule, and how to appeal."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import structlog

from core.act_ports import ModerationPort
from core.chat.answers import queue_unasked
from core.chat.voice import Voice
from core.domain.errors import Unavailable
from core.domain.ids import PersonId, RoomKey
from core.domain.jobs import Ok, Outcome, Retry
from core.domain.moderation.ladder import step_words
from core.domain.moderation.rules import Step, StepKind
from core.domain.moderation.sanctions import Sanction, SanctionId, SanctionKind
from core.domain.platforms import Surroundings
from core.domain.rooms import Room, RoomKind
from core.domain.speech import Draft, Receipt, SpeechKind
from core.jobs.executor import JobContext
from core.moderation.cards import quoted
from core.moderation.rulebook import Rulebook
from core.moderation.work import InformWork, News
from core.prompt.stock import StockKey
from core.store import access, cases, ledger, people, places
from core.store.engine import Tx

log = structlog.get_logger()
DIRECT = "dm:"
"""How communities begin that are nobody's but one member's, where rooms have ids of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Informing:
    """What telling members needs. `ports`: those whose connection this process owns."""

    ports: Mapping[str, ModerationPort]
    rulebook: Rulebook
    voice: Voice

    async def run(self, ctx: JobContext, work: InformWork) -> Outcome:
        """Tell one member of one sanction, or what became of it; who cannot be reached reads it by a command."""
        sanction_id = SanctionId(work.sanction_id)
        account = await ctx.advance(lambda tx: _account(tx, sanction_id), durable=False)
        key = None
        if account is not None and account[0] in self.ports:
            try:
                key = await self.ports[account[0]].open_direct(account[1])
            except Unavailable as exc:
                return Retry(None, str(exc))
        await ctx.finish(lambda tx: self._queue(tx, sanction_id, key, work.news))
        return Ok()

    async def _queue(self, tx: Tx, sanction_id: SanctionId, key: RoomKey | None, news: News) -> None:
        sanction = await ledger.find(tx, sanction_id)
        person_id = None if sanction is None else await ledger.person_of(tx, sanction)
        if sanction is None or person_id is None:
            return
        if key is None:
            log.info("inform.unreachable", sanction=sanction_id)
            if sanction.case_id is not None:
                await cases.add_event(tx, sanction.case_id, None, "not_reached", {"sanction": sanction_id})
            return
        room = await _direct_room(tx, sanction, person_id, key)
        text = await self._text(tx, sanction, room, news)
        draft = Draft(
            kind=SpeechKind.MODERATION,
            room_id=room.id,
            front_end=room.key.platform,
            reply_to=None,
            text=text,
            audience=frozenset({room.id}),
            dedupe=f"inform:{sanction_id}:{news}",
        )
        trace = f"sanction:{sanction_id}"
        receipt = Receipt(trigger=trace, rule=f"inform:{sanction.rule_id}", provider="code")
        await queue_unasked(tx, draft, receipt, community_id=room.community_id, trace=trace, person_id=person_id)

    async def _text(self, tx: Tx, sanction: Sanction, room: Room, news: News) -> str:
        community = await places.load_community(tx, sanction.community_id)
        step = sanction_words(sanction)
        if news is not News.DONE:
            key = StockKey.CASE_INFORM_LIFTED if news is News.LIFTED else StockKey.CASE_INFORM_UPHELD
            return self.voice.say(room.language, key, room.id, community=community.name, step=step)
        rule = await self.rulebook.find(tx, sanction.community_id, sanction.rule_id, sanction.rule_version)
        evidence = [] if sanction.case_id is None else await cases.list_evidence(tx, sanction.case_id)
        reason = await ledger.reason_of(tx, sanction.id)
        return self.voice.say(
            room.language,
            StockKey.CASE_INFORM,
            room.id,
            community=community.name,
            rule=sanction.rule_id,
            words="" if rule is None else rule.words(room.language),
            step=step,
            quote=quoted(evidence),
            reason=reason or "—",
            sanction=str(sanction.id),
        )


def sanction_words(sanction: Sanction) -> str:
    """Return what was done, as it is written, with its term."""
    if sanction.kind is SanctionKind.STRIKE:
        return "strike"
    term = None
    if sanction.kind in (SanctionKind.TIMEOUT, SanctionKind.BAN, SanctionKind.SLOW) and sanction.expires_at is not None:
        seconds = round((sanction.expires_at - sanction.created_at).total_seconds())
        term = _rounded(seconds)
    return step_words(Step(StepKind(sanction.kind.value), term))


def _rounded(seconds: int) -> timedelta:
    return timedelta(seconds=max(1, round(seconds / 60) * 60 if seconds >= 120 else seconds))


async def _account(tx: Tx, sanction_id: SanctionId) -> tuple[str, str] | None:
    """Return the platform and account of whom a sanction is about; None once that was erased."""
    sanction = await ledger.find(tx, sanction_id)
    person_id = None if sanction is None else await ledger.person_of(tx, sanction)
    return None if person_id is None else await people.find_account(tx, person_id)


async def _direct_room(tx: Tx, sanction: Sanction, person_id: PersonId, key: RoomKey) -> Room:
    """Return the direct room with a member, with its rows made as if they had written first."""
    place = await places.find_place(tx, key)
    if place is not None:
        return place.room
    community = await places.load_community(tx, sanction.community_id)
    _, account = await people.find_account(tx, person_id)
    ref = account if account == key.chat_ref else DIRECT + account
    about = Surroundings(community_ref=ref, kind=RoomKind.DM, name=key.chat_ref)
    home = await places.add_community(
        tx,
        key.platform,
        about.community_ref,
        about.community_ref,
        timezone=community.timezone,
        language=community.language,
    )
    room_id = await places.meet_room(tx, home, key, about)
    await access.save_access(tx, room_id, home, everyone=False, users=[person_id])
    return await places.load_room(tx, room_id)
