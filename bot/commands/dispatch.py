"""The `command` job: parse, rights, handler, audit row and answer in one transaction, for every front end."""

from collections.abc import Sequence
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from bot.commands.parse import BadOption, Parsed, Unknown, parse
from bot.commands.spec import Access, CommandAnswer, CommandCall, CommandSpec, Services, Visibility
from core.chat.answers import asked_of, queue_answer
from core.chat.voice import Voice
from core.chat.work import TurnWork
from core.domain.errors import InputRejected
from core.domain.ids import TurnId
from core.domain.jobs import Ok, Outcome
from core.domain.rooms import Room, RoomMode
from core.domain.speech import Draft, Receipt, SpeechKind
from core.jobs.executor import JobContext
from core.ports import Clock
from core.prompt.stock import StockKey
from core.store import audit, inbox, places
from core.store.engine import Tx
from core.store.inbox import TurnRow

_WHO = {Access.MEMBER: "members", Access.ADMIN: "administrators", Access.OPERATOR: "operators"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatcher:
    """Runs commands. `table` is the one list that all front ends render."""

    table: Sequence[CommandSpec]
    services: Services
    voice: Voice
    clock: Clock

    async def run(self, ctx: JobContext, work: TurnWork) -> Outcome:
        """Run one command; its effects and its answer commit together with the job."""
        await ctx.finish(lambda tx: self._answer(tx, TurnId(work.turn_id)))
        return Ok()

    async def _answer(self, tx: Tx, turn_id: TurnId) -> None:
        turn = await inbox.load_turn(tx, turn_id)
        if not await inbox.end_turn(tx, turn_id, None):
            return
        room = await places.load_room(tx, turn.room_id)
        community = await places.load_community(tx, turn.community_id)
        parsed = parse(turn.text, self.table)
        call = CommandCall(
            path=parsed.spec.path if isinstance(parsed, Parsed) else "",
            options=parsed.options if isinstance(parsed, Parsed) else {},
            person_id=turn.person_id,
            room=room,
            community_id=turn.community_id,
            tz=ZoneInfo(community.timezone),
            admin=turn.admin,
            operator=turn.operator,
            message_ref=turn.asked_reply_to,
            now=self.clock.now(),
            front_end=turn.front_end,
            trace=turn.trace,
        )
        answer = await self._run(tx, parsed, call)
        await self._queue(tx, turn, call, answer, private=not _for_the_room(parsed, answer, room))

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
        receipt = Receipt(trigger=f"message:{turn.reply_to}", rule=f"command:{call.path or 'refused'}", provider="code")
        await queue_answer(tx, draft, asked, receipt)


def _for_the_room(parsed: Parsed | Unknown | BadOption, answer: CommandAnswer, room: Room) -> bool:
    """Return whether the room sees the answer; in a silent room only what concerns everybody."""
    if answer.refused or not isinstance(parsed, Parsed) or parsed.spec.visibility is not Visibility.ROOM:
        return False
    return answer.concerns_all or room.mode is not RoomMode.SILENT
