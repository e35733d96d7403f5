"""The `command` job: parse, rights, handler, audit row and answer in one transaction, for every front end."""

from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from bot.commands.parse import BadOption, Parsed, Unknown, parse
from bot.commands.spec import Access, CommandAnswer, CommandCall, CommandSpec, Services, Visibility
from core.chat import choosing
from core.chat.answers import asked_of, queue_answer
from core.chat.voice import Voice
from core.chat.work import TurnWork
from core.domain.choices import ChoiceRef, pressed_of
from core.domain.errors import InputRejected
from core.domain.ids import TurnId
from core.domain.jobs import Ok, Outcome
from core.domain.retrieval import Near, Query
from core.domain.rooms import Room, RoomMode
from core.domain.speech import Draft, Receipt, SpeechKind
from core.jobs.executor import JobContext
from core.ports import Clock
from core.prompt.stock import StockKey
from core.retrieval.service import Likeness
from core.store import audit, inbox, jobs, places
from core.store.engine import Tx
from core.store.inbox import TurnRow

_WHO = {
    Access.MEMBER: "members",
    Access.MODERATOR: "moderators",
    Access.ADMIN: "administrators",
    Access.OPERATOR: "operators",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatcher:
    """Runs commands. `table` is the one list that all front ends render."""

    table: Sequence[CommandSpec]
    services: Services
    voice: Voice
    clock: Clock
    likeness: Likeness | None = None

    async def run(self, ctx: JobContext, work: TurnWork) -> Outcome:
        """Run one command; its effects and its answer commit together with the job."""
        near = await self._near(ctx, TurnId(work.turn_id))
        await ctx.finish(lambda tx: self._answer(tx, TurnId(work.turn_id), near))
        return Ok()

    async def _near(self, ctx: JobContext, turn_id: TurnId) -> Near:
        """Ask what is like the command's query, between two transactions."""
        if self.likeness is None:
            return Near()
        query = await ctx.advance(lambda tx: self._look(tx, turn_id), durable=False)
        return Near() if query is None else await self.likeness.near(query)

    async def _look(self, tx: Tx, turn_id: TurnId) -> Query | None:
        turn = await inbox.load_turn(tx, turn_id)
        parsed = parse(turn.text, self.table)
        if turn.state not in ("open", "running") or not isinstance(parsed, Parsed) or parsed.spec.look is None:
            return None
        call = await self._call(tx, turn, parsed, Near())
        if parsed.spec.access not in call.access:
            return None
        try:
            return await parsed.spec.look(tx, call, self.services)
        except InputRejected:
            return None  # the handler says what is wrong

    async def _answer(self, tx: Tx, turn_id: TurnId, near: Near) -> None:
        turn = await inbox.load_turn(tx, turn_id)
        parsed = parse(turn.text, self.table)
        if turn.state not in ("open", "running"):
            return
        later = isinstance(parsed, Parsed) and parsed.spec.later
        if not later and not await inbox.end_turn(tx, turn_id, None):
            return
        call = await self._call(tx, turn, parsed, near)
        answer = await self._carry_out(tx, parsed, call, pressed_of(turn.reply_to))
        if answer.job is not None:
            (job_id,) = await jobs.enqueue(tx, [answer.job])
            await inbox.set_job(tx, turn_id, job_id)
            return
        if later:
            await inbox.end_turn(tx, turn_id, None)
        await self._queue(tx, turn, call, answer, private=not _for_the_room(parsed, answer, call.room))

    async def _call(self, tx: Tx, turn: TurnRow, parsed: Parsed | Unknown | BadOption, near: Near) -> CommandCall:
        room = await places.load_room(tx, turn.room_id)
        community = await places.load_community(tx, turn.community_id)
        return CommandCall(
            path=parsed.spec.path if isinstance(parsed, Parsed) else "",
            options=parsed.options if isinstance(parsed, Parsed) else {},
            person_id=turn.person_id,
            room=room,
            community_id=turn.community_id,
            tz=ZoneInfo(community.timezone),
            admin=turn.admin,
            operator=turn.operator,
            moderator=turn.moderator,
            message_ref=turn.asked_reply_to,
            now=self.clock.now(),
            front_end=turn.front_end,
            trace=turn.trace,
            turn_id=turn.id,
            near=near,
        )

    async def _carry_out(
        self, tx: Tx, parsed: Parsed | Unknown | BadOption, call: CommandCall, pressed: ChoiceRef | None
    ) -> CommandAnswer:
        """Run a command; one that was pressed at most once, and then nothing else of the same message."""
        if pressed is None:
            return await self._run(tx, parsed, call)
        late = await choosing.settled(tx, pressed)
        if late is not None:
            return self._say(call, late)
        answer = await self._run(tx, parsed, call)
        if not answer.refused:
            await choosing.decide(tx, pressed)
        return answer

    async def _run(self, tx: Tx, parsed: Parsed | Unknown | BadOption, call: CommandCall) -> CommandAnswer:
        match parsed:
            case Unknown(word):
                return self._say(call, StockKey.COMMAND_UNKNOWN, command=f"/{word}")
            case BadOption(spec, option, expected):
                if spec.access not in call.access:
                    return self._forbidden(call, spec)
                return self._say(call, StockKey.COMMAND_BAD_OPTION, option=option, expected=expected)
            case Parsed(spec, _):
                if spec.access not in call.access:
                    return self._forbidden(call, spec)
        try:
            answer = await spec.handler(tx, call, self.services)
        except InputRejected as exc:
            return CommandAnswer(str(exc), refused=True)
        if spec.audited and call.options:  # without options it only shows
            await audit.add(tx, call.person_id, spec.path, f"room:{call.room.id}", dict(call.options))
        return answer

    def _forbidden(self, call: CommandCall, spec: CommandSpec) -> CommandAnswer:
        return self._say(call, StockKey.COMMAND_FORBIDDEN, command=f"/{spec.path}", who=_WHO[spec.access])

    def _say(self, call: CommandCall, key: StockKey, **values: str) -> CommandAnswer:
        return CommandAnswer(self.voice.say(call.room.language, key, call.room.id, **values), refused=True)

    async def _queue(self, tx: Tx, turn: TurnRow, call: CommandCall, answer: CommandAnswer, *, private: bool) -> None:
        asked = asked_of(turn, call.room)
        draft = Draft(
            kind=SpeechKind.COMMAND,
            room_id=turn.room_id,
            front_end=turn.front_end,
            reply_to=turn.reply_to,
            text=answer.text,
            audience=frozenset({turn.room_id}) | answer.sources,
            dedupe=f"reply:{turn.id}",
            private_to=turn.person_id if private else None,
        )
        rule = f"command:{call.path or 'refused'}"
        receipt = Receipt(trigger=f"message:{turn.reply_to}", rule=rule, provider="code", sources=answer.files)
        await queue_answer(tx, draft, asked, receipt)


def _for_the_room(parsed: Parsed | Unknown | BadOption, answer: CommandAnswer, room: Room) -> bool:
    """Return whether the room sees the answer; in a silent room only what concerns everybody."""
    if answer.refused or not isinstance(parsed, Parsed) or parsed.spec.visibility is not Visibility.ROOM:
        return False
    return answer.concerns_all or room.mode is not RoomMode.SILENT
