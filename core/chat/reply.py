"""The `reply` job: gates as of now, context, reservation (TX C); the model; draft and job end together (TX E)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from core.chat.answered import Answered, Settle
from core.chat.answers import Asked, asked_of
from core.chat.asking import Asking, Call
from core.chat.attachments import with_files
from core.chat.citations import Links, citable, quote_of_hit, receipt_of
from core.chat.closing import Closing, close_turn
from core.chat.deliver import TOO_OLD_AFTER
from core.chat.likening import Likening
from core.chat.notices import Notices
from core.chat.proposing import Shown
from core.chat.stage import Stage
from core.chat.typing import typing_in
from core.chat.voice import Voice
from core.chat.waking import wake
from core.chat.work import TurnWork
from core.domain.audience import InRoom, Private, Venue
from core.domain.budgets import Draw, Reservation, UsageRow
from core.domain.errors import Refused, Unavailable
from core.domain.ids import RoomId, TurnId
from core.domain.jobs import Ok, Outcome, Snooze
from core.domain.messages import Address, Origin
from core.domain.mind.projecting import CHAT_TOKENS, SelfStateSection, ViewWanted
from core.domain.prompt import Excerpt, Passage, RequestContext, Role
from core.domain.retrieval import SAID, Near, Query, unaddressed
from core.domain.rooms import Community, Room
from core.domain.speech import NoSpeech, OutboxState, SilenceReason, should_reply
from core.jobs.executor import Fault, JobContext
from core.ports import Clock, FrontEnd
from core.prompt.catalog import Catalog
from core.prompt.context import ChatParts, excerpt_of, gather, passage_of
from core.prompt.stock import StockKey
from core.prompt.tokens import estimate
from core.providers.quotes import compose
from core.providers.router import Route, Router
from core.retrieval.lore import Found, LoreHit, search_all
from core.retrieval.service import Likeness
from core.state.projection import project
from core.state.service import StateService
from core.store import addresses, archive, budgets, decisions, inbox, outbox, places
from core.store.access import ReadableRooms
from core.store.engine import Tx
from core.store.inbox import TurnRow
from core.store.places import Place

PASSAGES = 8
QUOTES = 3
REPLY_TIMEOUT_S = 180.0
LONGEST_PAUSE_S = 60.0
VOICE_ROLE = "voice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What TX C found: everything the answer may be made from, and what is held for it."""

    turn: TurnRow
    asked: Asked
    room: Room
    community: Community
    context: RequestContext
    hits: tuple[Found, ...]
    links: Links
    own_texts: tuple[str, ...]
    route: Route | None
    reservation: Reservation
    draw: Draw
    shown: Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Replier:
    """What a reply needs; one for the process.

    `front_ends`: those it can show growing answers on. `fault`: for crash tests.
    """

    clock: Clock
    front_ends: Mapping[str, FrontEnd]
    catalog: Catalog
    voice: Voice
    readable: ReadableRooms
    router: Router
    asking: Asking
    minds: StateService
    likening: Likening
    likeness: Likeness | None = None
    fault: Fault = lambda point: None

    async def run(self, ctx: JobContext, work: TurnWork) -> Outcome:
        """Answer one turn once.

        Raises:
            ClaimLost: Another worker owns the turn; nothing was written.
            StaleState: A fragment or an edit came meanwhile; the turn is answered again from fresh data.
            BotError: The model could not answer; what it cost is settled already.
        """
        turn_id = TurnId(work.turn_id)
        near = await self._near(turn_id)
        prepared = await ctx.advance(lambda tx: self._prepare(tx, ctx, turn_id, near), durable=False)
        self.fault("C.committed")
        if not isinstance(prepared, Prepared):
            return prepared
        if prepared.route is None:
            answered = self._quote(ctx, prepared)
        else:
            answered = await self._ask(ctx, prepared, prepared.route)
            answered = await self._likened(prepared, answered)
        self.fault("model.answered")
        await self._commit(ctx, prepared, answered)
        self.fault("E.committed")
        return Ok()

    async def _ask(self, ctx: JobContext, prepared: Prepared, route: Route) -> Answered:
        front_end = self.front_ends.get(prepared.turn.front_end)
        try:
            async with typing_in(front_end, prepared.room.key if not prepared.turn.private else None):
                context = await with_files(
                    prepared.context,
                    prepared.turn.files,
                    prepared.room.key,
                    front_end,
                    vision=any(model.vision for model in route.models),
                )
                return await self.asking.answer(self._call(ctx, replace(prepared, context=context), route))
        except Unavailable as exc:
            # The room's next questions wait behind this one: a long pause is told, not waited for.
            if exc.retry_after_s is not None and exc.retry_after_s > LONGEST_PAUSE_S:
                raise Refused("model: asks for a long pause", seconds=round(exc.retry_after_s)) from exc
            raise

    async def _likened(self, prepared: Prepared, answered: Answered) -> Answered:
        """Compare what an answer would note with what is noted, where a model can."""
        proposed = answered.proposed
        if proposed is None:
            return answered
        mind_id = prepared.community.mind_id
        similarity = await self.likening.compare(mind_id, proposed.items, proposed.packet)
        return replace(answered, proposed=replace(proposed, similarity=similarity))

    def _call(self, ctx: JobContext, prepared: Prepared, route: Route) -> Call:
        turn = prepared.turn
        stage = Stage(
            ctx,
            self.front_ends.get(turn.front_end),
            self.clock,
            self.readable,
            room=prepared.room,
            asked=prepared.asked,
            turn=turn,
            private_to=turn.account if turn.private else None,
            fault=self.fault,
        )
        return Call(
            ctx=ctx,
            route=route,
            role=self._role(),
            room=prepared.room,
            draw=prepared.draw,
            reservation_id=prepared.reservation.id,
            context=prepared.context,
            own_texts=prepared.own_texts,
            stage=stage,
            trace=turn.trace,
            links=prepared.links,
            shown=prepared.shown,
        )

    def _role(self) -> Role:
        return self.catalog.roles[VOICE_ROLE]

    async def _near(self, turn_id: TurnId) -> Near:
        """Ask what is like the question, between two transactions; what it finds counts as far as TX C allows."""
        if self.likeness is None:
            return Near()
        async with self.asking.database.transaction(durable=False) as tx:
            turn = await inbox.load_turn(tx, turn_id)
            if turn.state not in ("open", "running") or turn.wait.total_seconds() > 0:
                return Near()
            place = await places.load_place(tx, turn.room_id)
            readable = await self._readable(tx, turn, place)
        return await self.likeness.near(_query_of(turn, place, readable, self.clock.now()))

    async def _readable(self, tx: Tx, turn: TurnRow, place: Place) -> frozenset[RoomId]:
        venue: Venue = Private(turn.person_id) if turn.private else InRoom(place.room.id)
        return await self.readable.load(tx, place.community.id, venue, turn.person_id, epoch=place.mind_epoch)

    async def _mind(self, tx: Tx, turn: TurnRow, place: Place, readable: frozenset[RoomId]) -> SelfStateSection:
        """Return what of the mind everyone may hear who will read the answer."""
        view = ViewWanted(
            room=place.room.id,
            readable=readable,
            private_to=turn.person_id if turn.private else None,
            speaker=turn.person_id,
            about=turn.text,
        )
        return await project(tx, place.community.mind_id, view, self.clock.now(), CHAT_TOKENS, estimate)

    async def _prepare(self, tx: Tx, ctx: JobContext, turn_id: TurnId, near: Near) -> Prepared | Outcome:
        """TX C: look again at everything that may have changed, gather, and hold the worst case as the last act."""
        turn = await inbox.load_turn(tx, turn_id)
        if turn.state not in ("open", "running"):
            await self._end_shown(tx, turn)
            return Ok()
        if turn.state == "open" and turn.wait.total_seconds() > 0:
            return Snooze(turn.wait.total_seconds())
        place = await places.load_place(tx, turn.room_id)
        room, community = place.room, place.community
        now = self.clock.now()
        reason = self._gate(turn, room, community)
        if reason is not None:
            await self._stay_silent(tx, turn, room, community, reason)
            return Ok()
        await wake(tx, self.minds, community.mind_id, ctx)
        await inbox.start_turn(tx, turn_id)
        readable = await self._readable(tx, turn, place)
        hits = await search_all(tx, _query_of(turn, place, readable, now), room.id, near)
        mind = await self._mind(tx, turn, place, readable)
        parts = ChatParts(
            self_view=mind.self_view,
            memories=mind.memories,
            passages=tuple(map(_passage_of, hits)),
            persona=self.catalog.personas.get(room.persona, self.catalog.personas["plain"]),
            readable=readable,
        )
        context = await gather(tx, turn, room, community, parts, now)
        openable = await self.readable.load(
            tx, community.id, Private(turn.person_id), turn.person_id, epoch=place.mind_epoch
        )
        links = await addresses.links_of(tx, citable(context), openable)
        own_texts = await archive.list_own_texts(tx, room.id)
        route = self.router.route(self._role().tier)
        draw = _draw(turn, route)
        reservation = await budgets.reserve(
            tx,
            draw,
            job_id=ctx.job.id,
            attempt=ctx.job.attempt,
            timeout_s=REPLY_TIMEOUT_S if route is None else route.longest_s,
            now=now,
        )
        self.fault("C.written")
        return Prepared(
            turn=turn,
            asked=asked_of(turn, room),
            room=room,
            community=community,
            context=context,
            hits=hits,
            links=links,
            own_texts=tuple(own_texts),
            route=route,
            reservation=reservation,
            draw=draw,
            shown=Shown(mind.versions, mind.packet.people),
        )

    def _gate(self, turn: TurnRow, room: Room, community: Community) -> SilenceReason | None:
        if not turn.inbox_ids:
            return SilenceReason.TRIGGER_DELETED
        if self.clock.now() - turn.asked_at > TOO_OLD_AFTER:
            return SilenceReason.TOO_OLD
        local = self.clock.now().astimezone(ZoneInfo(community.timezone))
        # That it was addressed was decided at intake; a private answer passes like a command.
        addressed = frozenset({Address.COMMAND if turn.private else Address.MENTION})
        verdict = should_reply(room, addressed, Origin.HUMAN, local)
        return verdict.reason if isinstance(verdict, NoSpeech) else None

    async def _end_shown(self, tx: Tx, turn: TurnRow) -> None:
        """Give words that were shown for a turn withdrawn meanwhile their honest end; do nothing if there are none."""
        begun = await outbox.find(tx, f"reply:{turn.id}")
        if begun is not None and begun.state is OutboxState.SENDING and turn.state != "answered":
            room = await places.load_room(tx, turn.room_id)
            text = self.voice.say(room.language, StockKey.REPLY_CUT_SHORT, room.id)
            await Notices(self.voice).cut_short(tx, asked_of(turn, room), begun, text)

    async def _stay_silent(
        self, tx: Tx, turn: TurnRow, room: Room, community: Community, reason: SilenceReason
    ) -> None:
        await inbox.end_turn(tx, turn.id, reason)
        await self._end_shown(tx, turn)
        for inbox_id in turn.inbox_ids[:1]:
            await decisions.add(
                tx, inbox_id, room_id=room.id, person_id=turn.person_id, message_ref=turn.reply_to, reason=reason,
                settings_version=community.settings_version, gates={"at": "start", "mode": room.mode},
            )  # fmt: skip

    def _quote(self, ctx: JobContext, prepared: Prepared) -> Answered:
        """Answer without a model: verbatim quotes, or the plain word that there is none."""
        room = prepared.room
        hits = prepared.hits[:QUOTES]
        text = compose(
            self.voice.say(room.language, StockKey.QUOTES_INTRO, room.id),
            self.voice.say(room.language, StockKey.QUOTES_NONE, room.id),
            [quote_of_hit(hit, prepared.links) for hit in hits],
            prepared.context.tz,
        )
        usage = UsageRow(
            job_id=ctx.job.id,
            attempt=ctx.job.attempt,
            purpose="reply",
            provider="quotes",
            person_id=prepared.turn.person_id,
            room_id=room.id,
            community_id=prepared.community.id,
            answers=1,
        )
        return Answered(
            text=text,
            provider="quotes",
            sources=tuple(map(receipt_of, hits)),
            settle=Settle(prepared.reservation.id, usage),
        )

    async def _commit(self, ctx: JobContext, prepared: Prepared, answered: Answered) -> None:
        closing = Closing(
            turn=prepared.turn,
            asked=prepared.asked,
            room=prepared.room,
            community=prepared.community,
            role=self._role(),
            persona=prepared.context.persona,
            rule="addressed",
            minds=self.minds,
            voice=self.voice,
        )
        await close_turn(ctx, closing, answered, self.asking.settle_apart, self.fault)


def _passage_of(hit: Found) -> Passage | Excerpt:
    return excerpt_of(hit.chunk, hit.audience) if isinstance(hit, LoreHit) else passage_of(hit.message)


def _query_of(turn: TurnRow, place: Place, readable: frozenset[RoomId], now: datetime) -> Query:
    return Query(
        text=unaddressed(turn.text),
        community_id=place.community.id,
        readable=readable,
        now=now,
        k=PASSAGES,
        but_not=(place.room.id, turn.reply_to),
        people_only=True,
        kinds=SAID,
    )


def _draw(turn: TurnRow, route: Route | None) -> Draw:
    worst = None if route is None else route.worst
    return Draw(
        person_id=turn.person_id,
        room_id=turn.room_id,
        community_id=turn.community_id,
        limits=turn.limits,
        tokens=0 if worst is None else worst.tokens,
        usd_micro=0 if worst is None else worst.usd_micro,
        answers=1,
    )
