"""Messages to Telegram: sending, editing, typing, each within the limits of its chat; errors become values."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from telegram import (
    Bot,
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    LinkPreviewOptions,
    Message,
    MessageEntity,
    ReplyParameters,
)
from telegram.constants import ChatAction
from telegram.error import ChatMigrated, TelegramError

from bot.adapters.limiter import Limiter, Pace, Priority
from bot.adapters.telegram_errors import CLOSED_CHAT, is_unmodified, result_of
from bot.adapters.telegram_places import room_key
from bot.adapters.telegram_presses import Presses
from bot.adapters.telegram_rooms import Rooms
from bot.adapters.telegram_text import MESSAGE_PARTS, Rendered, plain, render
from core.domain.choices import ChoiceRef
from core.domain.errors import Conflict, Unavailable
from core.domain.ids import RoomKey
from core.ports import Ambiguous, Clock, Delivered, OutgoingPart, RetryAfter, SendRefused, SendResult, Unsent

PRIVATE_PACE = Pace(rate=1.0, burst=3.0)
GROUP_PACE = Pace(rate=0.25, burst=3.0)
"""At most 18 a minute, counted from any moment."""
OVERALL_RATE = 25.0
PATIENCE_S = 10.0
"""A chat that is closed for longer is left to the job, which can wait without holding anything up."""
LONG_WAIT_S = 900.0
FILE_NAME = "rest-of-the-answer.md"
PRIVATE_CLOSED = "private_chat_closed"
_NO_PREVIEW = LinkPreviewOptions(is_disabled=True)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a part goes: chat by its ref, thread, and what it answers there."""

    chat_ref: str
    thread: int | None
    reply_to: int | None

    def reply(self) -> ReplyParameters | None:
        """Return what makes it an answer, also where what is answered has gone."""
        return ReplyParameters(self.reply_to, allow_sending_without_reply=True) if self.reply_to is not None else None


def limiter_of(clock: Clock) -> Limiter:
    """Return the one budget of sends, edits and typing; groups have negative ids."""
    return Limiter(
        clock,
        PRIVATE_PACE.rate,
        PRIVATE_PACE.burst,
        OVERALL_RATE,
        pace_of=lambda chat: GROUP_PACE if chat.startswith("-") else None,
    )


class Sender:
    """Delivers parts. `private_line`: what a group is told, with `{link}`, where a private chat is closed."""

    def __init__(
        self, bot: Bot, rooms: Rooms, limiter: Limiter, *, private_line: str, alert: Callable[[str], None]
    ) -> None:
        self._bot, self._rooms, self._limiter = bot, rooms, limiter
        self._private_line, self._alert = private_line, alert
        self._username = ""
        self.presses = Presses(bot)

    async def send(self, part: OutgoingPart) -> SendResult:
        """Send one part to its room, or to the private chat of the person whom it is for.

        Few words that answer a pressed button are shown where it was pressed, to who has pressed it.
        """
        if part.private_to is None:
            if part.answer_token:
                await self.presses.end(part.answer_token)
            return await self._send(part, _room_target(part))
        if part.answer_token and part.n == 1:
            told = await self.presses.tell(part.answer_token, _rendered(part).text)
            if told is not None:
                return told
        if _is_person(part.private_to):
            if part.private_to == part.room.chat_ref:
                return await self._send(part, _room_target(part))
            result = await self._send(part, _Target(part.private_to, None, None))
            if not (isinstance(result, SendRefused) and result.code in CLOSED_CHAT):
                return result
        if part.n == 1:
            await self._point_to_private(part)
        return SendRefused(PRIVATE_CLOSED)

    async def edit(self, external_id: str, part: OutgoingPart) -> SendResult:
        """Replace the text of a message of ours."""
        if not external_id.isdigit() or part.n > MESSAGE_PARTS:
            return SendRefused("unknown_message")
        if part.private_to is not None and not _is_person(part.private_to):
            return SendRefused(PRIVATE_CLOSED)
        shown = _rendered(part)

        async def call(chat_id: int) -> object:
            return await self._bot.edit_message_text(
                shown.text,
                chat_id=chat_id,
                message_id=int(external_id),
                entities=_entities(shown),
                link_preview_options=_NO_PREVIEW,
                reply_markup=_keyboard(part),
            )

        priority = Priority.FINAL if part.final else Priority.EDIT
        result = await self._act(_room_target(part, part.private_to), priority, call, unmodified=external_id)
        return Delivered(external_id) if isinstance(result, Delivered) else result

    async def close_choices(self, room: RoomKey, external_id: str) -> SendResult:
        """Take the buttons off a message of ours."""
        if not external_id.isdigit():
            return SendRefused("unknown_message")

        async def call(chat_id: int) -> object:
            return await self._bot.edit_message_reply_markup(chat_id, int(external_id))

        target = _Target(room.chat_ref, None, None)
        result = await self._act(target, Priority.FINAL, call, unmodified=external_id)
        return Delivered(external_id) if isinstance(result, Delivered) else result

    async def show_typing(self, room: RoomKey) -> None:
        """Show for some seconds that an answer is being made, if the chat has a turn to spare."""
        if not await self._limiter.turn(room.chat_ref, Priority.TYPING):
            return
        try:
            await self._bot.send_chat_action(
                self._rooms.chat_id(room.chat_ref),
                ChatAction.TYPING,
                message_thread_id=self._rooms.typing_thread(room),
            )
        except TelegramError as exc:
            self._heed(room.chat_ref, result_of(exc))

    async def _send(self, part: OutgoingPart, target: _Target) -> SendResult:
        reply = target.reply()
        shown = _rendered(part)

        async def send_text(chat_id: int) -> Message:
            return await self._bot.send_message(
                chat_id,
                shown.text,
                entities=_entities(shown),
                message_thread_id=target.thread,
                reply_parameters=reply,
                link_preview_options=_NO_PREVIEW,
                reply_markup=_keyboard(part),
            )

        async def send_file(chat_id: int) -> Message:
            return await self._bot.send_document(
                chat_id,
                plain(part.text.text).text.encode(),
                filename=FILE_NAME,
                message_thread_id=target.thread,
                reply_parameters=reply,
                reply_markup=_keyboard(part),
            )

        result = await self._act(target, Priority.FINAL, send_file if part.n > MESSAGE_PARTS else send_text)
        if isinstance(result, Delivered):
            self._rooms.note_sent(target.chat_ref, result.external_id, target.thread)
        return result

    async def _act(
        self, target: _Target, priority: Priority, call: Callable[[int], Awaitable[object]], unmodified: str = ""
    ) -> SendResult:
        """Call the platform when the chat's turn has come; a second time if the chat has moved meanwhile."""
        wait_s = self._limiter.wait_s(target.chat_ref)
        if wait_s > PATIENCE_S:
            return RetryAfter(wait_s)
        await self._limiter.turn(target.chat_ref, priority)
        try:
            return await self._try(target, call)
        except TelegramError as exc:
            if unmodified and is_unmodified(exc):
                return Delivered(unmodified)
            result = result_of(exc)
        except (Unavailable, Conflict) as exc:
            return Unsent(exc.message)  # refused because the chat has moved, which could not be stored
        except (TypeError, ValueError, KeyError, AttributeError):
            return Ambiguous("telegram: an answer that cannot be read")  # the library reads only what says yes
        self._heed(target.chat_ref, result)
        return result

    async def _try(self, target: _Target, call: Callable[[int], Awaitable[object]]) -> SendResult:
        chat_id = self._rooms.chat_id(target.chat_ref)
        try:
            sent = await call(chat_id)
        except ChatMigrated as exc:
            await self._rooms.move(room_key(chat_id), room_key(exc.new_chat_id))
            sent = await call(exc.new_chat_id)
        return Delivered(str(sent.message_id) if isinstance(sent, Message) else "")

    def _heed(self, chat_ref: str, result: SendResult) -> None:
        """Let the whole chat pause if the platform asks for it."""
        if not isinstance(result, RetryAfter):
            return
        self._limiter.pause(chat_ref, result.seconds)
        if result.seconds > LONG_WAIT_S:
            self._alert(f"telegram: one chat may not be written to for {result.seconds:.0f} s")

    async def _point_to_private(self, part: OutgoingPart) -> None:
        """Say in the group, in one line, where the answer can be had."""
        target = _room_target(part)
        try:
            if not self._username:
                self._username = (await self._bot.get_me()).username or ""
        except TelegramError:
            return
        line = self._private_line.format(link=f"https://t.me/{self._username}?start=private")
        await self._act(
            target,
            Priority.COMMAND,
            lambda chat_id: self._bot.send_message(
                chat_id,
                line,
                message_thread_id=target.thread,
                reply_parameters=target.reply(),
                link_preview_options=_NO_PREVIEW,
            ),
        )


def _is_person(ref: str) -> bool:
    """Return whether a ref is a person's: who speaks for a group or channel has its negative id, even in the group."""
    return ref.isdigit()


def _room_target(part: OutgoingPart, private_to: str | None = None) -> _Target:
    """Return the part's own room; General is a chat without a thread. `private_to`: the chat with them instead."""
    if private_to is not None and private_to != part.room.chat_ref:
        return _Target(private_to, None, None)
    reply_to = int(part.reply_to) if part.reply_to is not None and part.reply_to.isdigit() else None
    return _Target(part.room.chat_ref, int(part.room.topic_ref) if part.room.topic_ref else None, reply_to)


def _keyboard(part: OutgoingPart) -> InlineKeyboardMarkup | None:
    """Return one row of buttons; None if there is nothing to choose."""
    buttons = [
        InlineKeyboardButton(choice.label, callback_data=ChoiceRef(part.outbox_id, n).text())
        for n, choice in enumerate(part.choices, start=1)
    ]
    return InlineKeyboardMarkup([buttons]) if buttons else None


def _rendered(part: OutgoingPart) -> Rendered:
    return plain(part.text.text) if part.plain else render(part.text.text)


def _entities(shown: Rendered) -> list[MessageEntity]:
    return [
        MessageEntity(
            span.kind, span.start, span.end - span.start, url=span.url or None, language=span.language or None
        )
        for span in shown.spans
    ]
