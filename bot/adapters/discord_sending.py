"""Words going out to Discord: sent once by their nonce, edited, looked for in the history, and kept within limits."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Literal, TypeVar

from bot.adapters.discord_answers import Hook, hook_of
from bot.adapters.discord_payload import id_at, number, parts, payload, ref, text
from bot.adapters.discord_payload import part as inner
from bot.adapters.discord_rest import FAILURES, UNREACHABLE, Request, Rest, is_banned, meaning
from bot.adapters.limiter import Limiter, Priority
from core.domain.choices import ChoiceRef
from core.domain.ids import RoomKey
from core.ports import Ambiguous, Clock, Delivered, OutgoingPart, RetryAfter, SendRefused, SendResult

PATIENCE_S = 2.0
"""A chat that has to wait longer is left alone: the caller is told when to come back."""
TYPING_EVERY_S = 8.0
"""Typing shows for 10 s; it is not asked for again before this."""
PAGES, PAGE = 5, 100
"""How far the history is searched for a message of ours."""
SKEW = timedelta(seconds=5)
SUPPRESS_EMBEDS = 1 << 2
REMEMBERED = 4096

_DIRECT = 1
"""The type of a direct room among channels."""
_ROW, _BUTTON, _PLAIN = 1, 2, 2
"""Types of components, and a button's looks."""

_MESSAGES = "/channels/{channel_id}/messages"
_MESSAGE = "/channels/{channel_id}/messages/{message_id}"
_ORIGINAL = "/webhooks/{webhook_id}/{webhook_token}/messages/@original"


_V = TypeVar("_V")


class Sender:
    """Sends and edits.

    Args:
        rest: Where requests go.
        limiter: The budget of each chat.
        clock: The time between two showings of typing.
        readable: Whether we may read a chat's history; None where that is not known.
    """

    def __init__(self, rest: Rest, limiter: Limiter, clock: Clock, readable: Callable[[str], bool | None]) -> None:
        self._rest, self._limiter, self._clock, self._readable = rest, limiter, clock, readable
        self._direct: dict[str, str] = {}
        self._unreachable: dict[str, str] = {}
        self._typed: dict[str, float] = {}

    def reachable_again(self, chat: str) -> None:
        """Try a chat again that was refused: something about it has changed."""
        self._unreachable.pop(chat, None)

    async def send(self, part: OutgoingPart) -> SendResult:
        """Send one part: as the answer to its interaction while that can be, else as a message."""
        hook = hook_of(part.answer_token)
        if hook is None:
            return await self._say(part)
        if hook.private is not (part.private_to is not None):
            # The waiting answer is for other eyes than these words: they go their own way, and it goes away.
            if part.n == 1:
                await self.take_back(part.answer_token)
            return await self._say(part)
        if part.n > 1:
            return await (self._append(hook, part) if hook.private else self._say(part))
        result = await self._answer(hook, part, Priority.COMMAND)
        return await self._say(part) if _is_over(result) else result

    async def edit(self, external_id: str, part: OutgoingPart) -> SendResult:
        """Replace the text of a message sent before."""
        hook = hook_of(part.answer_token)
        if hook is not None and part.n == 1 and hook.private is (part.private_to is not None):
            result = await self._answer(hook, part, Priority.FINAL if part.final else Priority.EDIT)
            if not _is_over(result):
                return result
            if hook.private:
                return await self._say(part)  # what only the asker saw can't be edited any more
        chat = await self._chat_of(part)
        if not isinstance(chat, str):
            return chat
        request = Request("PATCH", _MESSAGE, {"channel_id": chat, "message_id": external_id}, _edited(part))
        return await self._do(chat, request, Priority.FINAL if part.final else Priority.EDIT)

    async def close_choices(self, room: RoomKey, external_id: str) -> SendResult:
        """Take the buttons off a message of ours."""
        ids = {"channel_id": room.chat_ref, "message_id": external_id}
        return await self._do(room.chat_ref, Request("PATCH", _MESSAGE, ids, {"components": []}), Priority.FINAL)

    async def take_back(self, answer_token: str) -> None:
        """End the waiting for an answer that will not come."""
        hook = hook_of(answer_token)
        if hook is not None:
            await self._try(hook.chat, Request("DELETE", _ORIGINAL, hook.ids))

    async def find_sent(self, part: OutgoingPart, since: datetime) -> str | Ambiguous | None:
        """Look for the part among what was said since then."""
        hook = hook_of(part.answer_token)
        if hook is not None and self._repeats(part):
            over = await self._is_past(hook)
            if over is not True:
                return over
            # A try before this one may have found it over as well, and have said the part as a message.
        chat = await self._chat_of(part)
        if isinstance(chat, SendRefused):
            return None
        if not isinstance(chat, str):
            return Ambiguous("the room could not be asked")
        if self._readable(chat) is False:
            return Ambiguous("no permission to read the history")
        after, heard = str(id_at(since - SKEW)), False
        for _ in range(PAGES):
            query = {"after": after, "limit": PAGE}
            try:
                found = await self._rest.call(Request("GET", _MESSAGES, {"channel_id": chat}, query=query))
            except FAILURES as exc:
                return Ambiguous(f"the history could not be read: {type(exc).__name__}")
            page = [payload(one) for one in found] if isinstance(found, list) else []
            for message in reversed(page):
                heard = True
                if self._is_it(message, part, chat):
                    return ref(message, "id")
            if len(page) < PAGE:
                # Without the permission the platform answers with an empty page, not with a refusal.
                known = heard or self._readable(chat) or await self._is_direct(chat)
                return None if known else Ambiguous("the history may be hidden")
            after = str(max(int(ref(message, "id") or 0) for message in page))
        return Ambiguous("too much was said since")

    async def _is_past(self, hook: Hook) -> Literal[True] | Ambiguous | None:
        """Return True if the interaction can't be answered any more, None if it can."""
        try:
            await self._rest.call(Request("GET", _ORIGINAL, hook.ids))
        except FAILURES as exc:
            return True if _is_over(meaning(exc)) else Ambiguous(f"the answer's place: {type(exc).__name__}")
        return None

    async def _is_direct(self, chat: str) -> bool:
        """Return whether a chat is a direct room: its history is always ours to read."""
        try:
            found = await self._rest.call(Request("GET", "/channels/{channel_id}", {"channel_id": chat}))
        except FAILURES:
            return False
        return number(payload(found), "type") == _DIRECT

    async def show_typing(self, room: RoomKey) -> None:
        """Show typing unless it is shown already, or the chat has no room for it."""
        chat, now = room.chat_ref, self._clock.monotonic()
        if now - self._typed.get(chat, float("-inf")) < TYPING_EVERY_S or chat in self._unreachable:
            return
        if self._limiter.wait_s(chat) > 0 or not await self._limiter.turn(chat, Priority.TYPING):
            return
        _remember(self._typed, chat, now)
        await self._try(chat, Request("POST", "/channels/{channel_id}/typing", {"channel_id": chat}))

    def _repeats(self, part: OutgoingPart) -> bool:
        """Return whether a second try changes the answer of an interaction in place."""
        hook = hook_of(part.answer_token)
        fits = hook is not None and hook.private is (part.private_to is not None)
        return fits and hook is not None and (part.n == 1 or hook.private)

    def _is_it(self, message: Mapping[str, object], part: OutgoingPart, chat: str) -> bool:
        said, wanted, target = text(message, "content").strip(), part.text.text.strip(), _target(part, chat)
        # A stream may have died after its first words: in reply to the same message, those are what is looked for.
        begun = target is not None and bool(said) and wanted.startswith(said)
        return (
            ref(inner(message, "author"), "id") == self._rest.account
            and (said == wanted or begun)
            and (ref(inner(message, "message_reference"), "message_id") or None) == target
        )

    async def _chat_of(self, part: OutgoingPart) -> str | SendResult:
        """Return the channel of a part: its room, or the direct room of the one person who may see it."""
        if part.private_to is None:
            return part.room.chat_ref
        known = self._direct.get(part.private_to)
        if known is not None:
            return known
        budget = f"dm:{part.private_to}"
        wait_s = self._limiter.wait_s(budget)
        if wait_s > PATIENCE_S:
            return RetryAfter(wait_s)
        request = Request("POST", "/users/@me/channels", {}, {"recipient_id": part.private_to})
        opened = await self._try(budget, request)
        if not isinstance(opened, Delivered):
            return opened
        _remember(self._direct, part.private_to, opened.external_id)
        return opened.external_id

    async def _say(self, part: OutgoingPart) -> SendResult:
        chat = await self._chat_of(part)
        if not isinstance(chat, str):
            return chat
        body: dict[str, object] = {
            "content": part.text.text,
            "nonce": part.nonce,
            "enforce_nonce": True,
            "flags": SUPPRESS_EMBEDS,
            "allowed_mentions": {"parse": [], "replied_user": part.late},
        }
        body |= _buttons(part)
        target = _target(part, chat)
        if target is not None:
            body["message_reference"] = {"message_id": target, "channel_id": chat, "fail_if_not_exists": True}
        self._typed.pop(chat, None)  # a message ends the showing of typing
        request = Request("POST", _MESSAGES, {"channel_id": chat}, body)
        return await self._do(chat, request, Priority.FINAL, replied=target is not None)

    async def _answer(self, hook: Hook, part: OutgoingPart, priority: Priority) -> SendResult:
        request = Request("PATCH", _ORIGINAL, hook.ids, _edited(part))
        return await self._do(hook.chat if hook.private else part.room.chat_ref, request, priority)

    async def _append(self, hook: Hook, part: OutgoingPart) -> SendResult:
        """Add a further part of a private answer as a file: its one message is edited, so a second try adds nothing."""
        name = f"continued-{part.n}.md"
        try:
            message = payload(await self._rest.call(Request("GET", _ORIGINAL, hook.ids)))
        except FAILURES as exc:
            result = meaning(exc)
            return await self._say(part) if _is_over(result) else result
        files = parts(message, "attachments")
        if any(text(one, "filename") == name for one in files):
            return Delivered(ref(message, "id"))
        kept: list[object] = [{"id": ref(one, "id")} for one in files]
        body = {"attachments": [*kept, {"id": 0, "filename": name}]}
        request = Request("PATCH", _ORIGINAL, hook.ids, body, file=(name, part.text.text.encode()))
        result = await self._do(hook.chat, request, Priority.COMMAND)
        return await self._say(part) if _is_over(result) else result

    async def _do(self, chat: str, request: Request, priority: Priority, *, replied: bool = False) -> SendResult:
        """Do a request in its turn, unless its chat is known to refuse or to have to wait for long.

        The answer of an interaction needs no permission in its room: what that refused says nothing of it.
        """
        if chat in self._unreachable and request.path != _ORIGINAL:
            return SendRefused(self._unreachable[chat])
        wait_s = self._limiter.wait_s(chat)
        if wait_s > PATIENCE_S:
            return RetryAfter(wait_s)
        await self._limiter.turn(chat, priority)
        return await self._try(chat, request, replied=replied)

    async def _try(self, chat: str, request: Request, *, replied: bool = False) -> SendResult:
        try:
            made = payload(await self._rest.call(request))
        except FAILURES as exc:
            result = meaning(exc, replied=replied)
            if isinstance(result, RetryAfter) and is_banned(exc):
                self._limiter.pause_all(result.seconds)
            elif isinstance(result, RetryAfter):
                self._limiter.pause(chat, result.seconds)
            elif isinstance(result, SendRefused) and result.code in UNREACHABLE and request.path != _ORIGINAL:
                _remember(self._unreachable, chat, result.code)
            return result
        return Delivered(ref(made, "id"))


def _target(part: OutgoingPart, chat: str) -> str | None:
    """Return the message to reply to; an interaction is none, and no message of another room can be it."""
    return part.reply_to if chat == part.room.chat_ref and not part.answer_token else None


def _edited(part: OutgoingPart) -> dict[str, object]:
    return {"content": part.text.text, "flags": SUPPRESS_EMBEDS, "allowed_mentions": {"parse": []}} | _buttons(part)


def _buttons(part: OutgoingPart) -> dict[str, object]:
    """Return one row of buttons, if there is something to choose."""
    buttons = [
        {"type": _BUTTON, "style": _PLAIN, "label": choice.label, "custom_id": ChoiceRef(part.outbox_id, n).text()}
        for n, choice in enumerate(part.choices, start=1)
    ]
    return {"components": [{"type": _ROW, "components": buttons}]} if buttons else {}


def _is_over(result: SendResult) -> bool:
    """Return whether the interaction can't be answered any more."""
    return isinstance(result, SendRefused) and result.code in ("token_over", "unknown_message")


def _remember(memory: dict[str, _V], key: str, value: _V) -> None:
    """Keep a value; the oldest goes once there are too many."""
    memory[key] = value
    if len(memory) > REMEMBERED:
        del memory[next(iter(memory))]
