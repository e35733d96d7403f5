"""The `summarize` job: reads a span of a room for its asker (TX C); a model, or an extract; the turn ends (TX E).

What the model says counts as far as it cites what was read. Without one, or where nothing is left of its words,
people's own words stand in for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from core.chat.answered import Answered, Settle
from core.chat.answers import asked_of
from core.chat.asking import Asking, Call
from core.chat.citations import Links, quote_of
from core.chat.closing import Closing, close_turn
from core.chat.stage import Stage
from core.chat.voice import Voice
from core.chat.work import SummaryWork
from core.domain.audience import Private
from core.domain.budgets import Draw, Reservation, UsageRow
from core.domain.extract import Said, by_weight
from core.domain.ids import PersonId, RoomId, TurnId
from core.domain.jobs import Ok, Outcome
from core.domain.prompt import Persona, PromptKind, Role
from core.domain.retrieval import SAID
from core.domain.speech import ReceiptSource, SpeechKind
from core.jobs.executor import Fault, JobContext
from core.ports import Clock
from core.prompt.catalog import Catalog
from core.prompt.context import ChatParts, gather_span, passage_of
from core.prompt.fences import shown_name
from core.prompt.stock import StockKey
from core.providers.quotes import block
from core.providers.router import Route, Router
from core.store import addresses, budgets, inbox, places, spans
from core.store.access import ReadableRooms
from core.store.archive import ArchivedMessage
from core.store.engine import Tx
from core.store.inbox import TurnRow
from core.store.places import Place

MOST_MESSAGES = 500
QUOTES = 8
"""How many messages an extract shows."""
A_DAY = timedelta(hours=24)
EXTRACT_TIMEOUT_S = 60.0
SUMMARY_ROLE = "summary"
RULE = "command:summarize"


@dataclass(frozen=True, slots=True)
class _Talk:
    """What was read, oldest first, and why from there on. `spoken`, `day`: the span was not chosen by the asker."""

    messages: tuple[ArchivedMessage, ...]
    more: bool
    spoken: bool = False
    day: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """What TX C found, and what is held for the summary."""

    turn: TurnRow
    place: Place
    talk: _Talk
    readable: frozenset[RoomId]
    links: Links
    route: Route | None
    reservation: Reservation
    draw: Draw

    @property
    def tz(self) -> tzinfo:
        return ZoneInfo(self.place.community.timezone)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarizer:
    """What summaries need; one for the process. `fault`: for crash tests."""

    clock: Clock
    catalog: Catalog
    voice: Voice
    readable: ReadableRooms
    router: Router
    asking: Asking
    fault: Fault = lambda point: None

    async def run(self, ctx: JobContext, work: SummaryWork) -> Outcome:
        """Sum up once, for the asker alone.

        Raises:
            ClaimLost: Another worker owns the turn; nothing was written.
            StaleState: The command was edited meanwhile; it is done again from fresh data.
            BotError: No model could be reached; what it cost is settled already.
        """
        prepared = await ctx.advance(lambda tx: self._prepare(tx, ctx, work), durable=False)
        self.fault("C.committed")
        if prepared is None:
            return Ok()
        if not prepared.talk.messages:
            text = self._say(prepared, StockKey.SUMMARY_NONE)
            answered = Answered(text=text, provider="code", settle=self._unasked(ctx, prepared, "code"))
        else:
            answered = await self._sum_up(ctx, prepared)
        self.fault("model.answered")
        await self._close(ctx, prepared, answered)
        self.fault("E.committed")
        return Ok()

    async def _prepare(self, tx: Tx, ctx: JobContext, work: SummaryWork) -> _Prepared | None:
        """TX C: read what the asker may read now, and hold the worst case as the last act."""
        turn = await inbox.load_turn(tx, TurnId(work.turn_id))
        if turn.state not in ("open", "running"):
            return None
        place = await places.load_place(tx, turn.room_id)
        await inbox.start_turn(tx, turn.id)
        venue = Private(turn.person_id)
        readable = await self.readable.load(tx, place.community.id, venue, turn.person_id, epoch=place.mind_epoch)
        now = self.clock.now()
        talk = await _read(tx, work, turn.person_id, readable, now)
        links = await addresses.links_of(tx, [message.id for message in talk.messages], readable)
        route = self.router.route(self._role().tier) if talk.messages else None
        worst = None if route is None else route.worst
        draw = Draw(
            person_id=turn.person_id,
            room_id=turn.room_id,
            community_id=turn.community_id,
            limits=turn.limits,
            tokens=0 if worst is None else worst.tokens,
            usd_micro=0 if worst is None else worst.usd_micro,
            answers=1,
        )
        reservation = await budgets.reserve(
            tx,
            draw,
            job_id=ctx.job.id,
            attempt=ctx.job.attempt,
            timeout_s=EXTRACT_TIMEOUT_S if route is None else route.longest_s,
            now=now,
        )
        self.fault("C.written")
        return _Prepared(
            turn=turn,
            place=place,
            talk=talk,
            readable=readable,
            links=links,
            route=route,
            reservation=reservation,
            draw=draw,
        )

    async def _sum_up(self, ctx: JobContext, prepared: _Prepared) -> Answered:
        messages = prepared.talk.messages
        order = by_weight([Said(m.platform_ref, m.author_id, m.text, m.reply_to_ref) for m in messages])
        if prepared.route is None:
            text, sources = self._extract(prepared, order, StockKey.QUOTES_INTRO)
            settle = self._unasked(ctx, prepared, "quotes")
            return Answered(text=text, provider="quotes", sources=sources, settle=settle)
        answered = await self.asking.answer(self._call(ctx, prepared, prepared.route, order))
        if answered.provider == "code":  # nothing of what the model said can be used
            text, sources = self._extract(prepared, order, StockKey.SUMMARY_UNCITED)
            return replace(answered, text=text, provider="quotes", model="", sources=sources)
        sections = () if answered.prompt is None else answered.prompt.sections
        left_out = sum(section.items_dropped for section in sections if section.name == "passages")
        lines = [self._head(prepared)]
        if left_out:
            lines.append(self._say(prepared, StockKey.SUMMARY_LEFT_OUT, count=str(left_out)))
        return replace(answered, text="\n\n".join([" ".join(lines), answered.text]))

    def _call(self, ctx: JobContext, prepared: _Prepared, route: Route, order: Sequence[int]) -> Call:
        turn, place = prepared.turn, prepared.place
        ranks = {place_: rank for rank, place_ in enumerate(order)}
        passages = (passage_of(message, -float(ranks[n])) for n, message in enumerate(prepared.talk.messages))
        parts = ChatParts(passages=tuple(passages), persona=self._persona(place), readable=prepared.readable)
        return Call(
            ctx=ctx,
            route=route,
            role=self._role(),
            room=place.room,
            draw=prepared.draw,
            reservation_id=prepared.reservation.id,
            context=gather_span(turn, place.room, place.community, parts, self.clock.now()),
            own_texts=(),
            stage=Stage(
                ctx,
                None,  # shown whole: what cites nothing is taken out at the end
                self.clock,
                self.readable,
                room=place.room,
                asked=asked_of(turn, place.room),
                turn=turn,
                private_to=turn.account,
            ),
            trace=turn.trace,
            links=prepared.links,
            kind=PromptKind.SUMMARIZE,
        )

    def _extract(
        self, prepared: _Prepared, order: Sequence[int], intro: StockKey
    ) -> tuple[str, tuple[ReceiptSource, ...]]:
        """Return the most telling messages in the order of time, verbatim, and what they rest on."""
        chosen = [prepared.talk.messages[n] for n in sorted(order[:QUOTES])]
        quotes = (block(quote_of(message, prepared.links), prepared.tz) for message in chosen)
        text = "\n\n".join([f"{self._head(prepared)}\n{self._say(prepared, intro)}", *quotes])
        return text, tuple(ReceiptSource("message", str(message.id), message.sources) for message in chosen)

    def _head(self, prepared: _Prepared) -> str:
        """Return the line of code that says how much was read, and over which span."""
        talk = prepared.talk
        ends = talk.messages[0].sent_at, talk.messages[-1].sent_at
        first, last = (f"{at.astimezone(prepared.tz):%Y-%m-%d %H:%M}" for at in ends)
        rooms = dict.fromkeys(f"#{shown_name(message.room_name)}" for message in talk.messages)
        said = {"count": str(len(talk.messages)), "room": ", ".join(rooms), "since": first, "until": last}
        lines = [self._say(prepared, StockKey.SUMMARY_READ, **said)]
        notes = {
            StockKey.SUMMARY_SPOKEN: talk.spoken,
            StockKey.SUMMARY_DAY: talk.day,
            StockKey.SUMMARY_NEWEST: talk.more,
        }
        return " ".join([*lines, *(self._say(prepared, key) for key, holds in notes.items() if holds)])

    def _unasked(self, ctx: JobContext, prepared: _Prepared, provider: str) -> Settle:
        usage = UsageRow(
            job_id=ctx.job.id,
            attempt=ctx.job.attempt,
            purpose=PromptKind.SUMMARIZE.value,
            provider=provider,
            person_id=prepared.turn.person_id,
            room_id=prepared.turn.room_id,
            community_id=prepared.turn.community_id,
            answers=1,
        )
        return Settle(prepared.reservation.id, usage)

    async def _close(self, ctx: JobContext, prepared: _Prepared, answered: Answered) -> None:
        place = prepared.place
        closing = Closing(
            turn=replace(prepared.turn, private=True),
            asked=asked_of(prepared.turn, place.room),
            room=place.room,
            community=place.community,
            role=self._role(),
            persona=self._persona(place),
            rule=RULE,
            kind=SpeechKind.COMMAND,
        )
        await close_turn(ctx, closing, answered, self.asking.settle_apart, self.fault)

    def _role(self) -> Role:
        return self.catalog.roles[SUMMARY_ROLE]

    def _persona(self, place: Place) -> Persona:
        return self.catalog.personas.get(place.room.persona, self.catalog.personas["plain"])

    def _say(self, prepared: _Prepared, key: StockKey, **values: str) -> str:
        room = prepared.place.room
        return self.voice.say(room.language, key, room.id, **values)


async def _read(tx: Tx, work: SummaryWork, person_id: PersonId, readable: frozenset[RoomId], now: datetime) -> _Talk:
    """Read the span that was asked for, or the usual one: since the asker last spoke there, else a day."""
    rooms = sorted(readable.intersection(map(RoomId, work.rooms)))
    until = min(work.until or now, now)

    async def read(since: datetime | None) -> spans.Span:
        return await spans.read_span(tx, sorted(readable), rooms, SAID, since=since, until=until, limit=work.count)

    if not work.usual:
        span = await read(work.since)
        return _Talk(span.messages, span.more and work.count >= MOST_MESSAGES)
    spoken = await spans.last_spoken(tx, rooms, person_id, SAID)
    if spoken is not None:
        span = await read(spoken + timedelta(microseconds=1))
        if span.messages:
            return _Talk(span.messages, span.more, spoken=True)
    span = await read(now - A_DAY)
    return _Talk(span.messages, span.more, day=True)
