"""A double of Telegram on loopback: the Bot API over HTTP for one bot, people who act, and faults on demand.

The real library runs against it unchanged:

    async with TelegramServer() as telegram:
        builder = ApplicationBuilder().token(telegram.token)
        application = builder.base_url(f"{telegram.api_url}/bot").base_file_url(f"{telegram.api_url}/file/bot").build()
        group = telegram.add_group("Garden", kind="supergroup")
        ann = telegram.add_user("Ann", "ann_gardener")
        await telegram.say(ann, group, f"@{telegram.bot_username} hello")
        await telegram.until(lambda: len(telegram.messages(group)) == 2)

What it does not do answers 501 and is in `unimplemented`. Leaving the block fails if something is, or if a planned
fault never bit. There are no flood limits but the `FLOOD` fault, and no rule about message rates.
"""

import asyncio
import inspect
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Any, Self

from aiohttp import web
from pydantic import ValidationError, validate_call

from bot.clock import SystemClock
from core.ports import Clock
from tests.doubles.telegram_faults import (
    AFTER,
    BEFORE,
    Call,
    Fault,
    FaultKind,
    Matcher,
    Mutation,
    Refused,
    Unimplemented,
    bad_request,
)
from tests.doubles.telegram_people import People
from tests.doubles.telegram_state import Upload, User
from tests.doubles.telegram_world import World

BOT = User(7_000_000_001, "Void", "void_double_bot", is_bot=True)
TEXTS = frozenset({"text", "caption", "url", "secret_token", "callback_query_id", "file_id", "document", "photo"})
"""Parameters that are never JSON, even when they look like it."""
LARGEST_REQUEST_BYTES = 64 * 2**20
POLL_S = 0.01
ATTACHED = "attach://"
UNKNOWN = frozenset({"unexpected_keyword_argument", "extra_forbidden"})
FAULT_PARAMS = frozenset({"status", "retry_after", "body"})


class TelegramServer(People):
    """Telegram for one bot. Several may run in one process.

    Attributes:
        token: what the bot signs in with.
        calls: every request of the bot in order; what the double lacks has `UNIMPLEMENTED ` before its method.
        unimplemented: what the double was asked for and lacks.
        mutations: names of `Mutation` that are in force; an unknown name fails the next request.
        privacy_mode: may be changed, which counts in groups that the bot is added to afterwards.
    """

    def __init__(
        self,
        privacy_mode: bool = True,
        bot: User = BOT,
        clock: Clock | None = None,
        mutations: Iterable[str] = (),
    ) -> None:
        super().__init__(World(clock or SystemClock(), bot, privacy_mode=privacy_mode))
        self.mutations.update(mutations)
        self.token = f"{bot.id}:AAH-double-of-Telegram-no-real-token"
        self.calls: list[Call] = []
        self.unimplemented: list[str] = []
        self._methods = {name.lower(): (name, validate_call(method)) for name, method in self._bot_methods().items()}
        self._leaving = asyncio.Event()
        app = web.Application(client_max_size=LARGEST_REQUEST_BYTES)
        app.router.add_route("*", "/bot{token}/{method}", self._serve_method)
        app.router.add_get("/file/bot{token}/{path:.+}", self._serve_file)
        app.router.add_route("*", "/{rest:.*}", self._no_such_route)
        # A poller that leaves must not be counted as one that was answered.
        self._runner = web.AppRunner(app, shutdown_timeout=1, handler_cancellation=True)
        self._port = 0

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await self._listen()
        self._pushing = asyncio.get_running_loop().create_task(self.world.queue.push())
        return self

    async def __aexit__(self, kind: object, *rest: object) -> None:
        self._leaving.set()
        self._pushing.cancel()
        try:
            with suppress(asyncio.CancelledError):
                await self._pushing
        finally:
            await self._runner.cleanup()
        if kind is None:
            assert self.mutations <= set(Mutation), f"no such mutations: {self.mutations - set(Mutation)}"
            assert not self.unimplemented, f"asked for what the double does not have: {self.unimplemented}"
            assert not self.unused_faults(), f"planned faults that never bit: {self.unused_faults()}"

    @property
    def api_url(self) -> str:
        """The address before `/bot` and `/file/bot`."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def bot_id(self) -> int:
        """The bot's account."""
        return self.bot.id

    @property
    def bot_username(self) -> str:
        """The bot's name without @."""
        return str(self.bot.username)

    @property
    def privacy_mode(self) -> bool:
        """Whether the bot hears in groups only what is meant for it."""
        return self.world.privacy_mode

    @privacy_mode.setter
    def privacy_mode(self, on: bool) -> None:
        self.world.privacy_mode = on

    @property
    def bots_hear_bots(self) -> bool:
        """Whether messages of other bots arrive; in life they usually do not."""
        return self.world.bots_hear_bots

    @bots_hear_bots.setter
    def bots_hear_bots(self, on: bool) -> None:
        self.world.bots_hear_bots = on

    @property
    def long_poll_max(self) -> float:
        """The longest wait of getUpdates in seconds, whatever it asks for."""
        return self.room_methods.long_poll_max

    @long_poll_max.setter
    def long_poll_max(self, seconds: float) -> None:
        self.room_methods.long_poll_max = seconds

    @property
    def mutations(self) -> set[str]:
        """The rules that are off."""
        return self.world.mutations

    @property
    def pending_updates(self) -> deque[dict[str, Any]]:
        """What the bot has not confirmed, oldest first."""
        return self.world.queue.pending

    @property
    def polls(self) -> int:
        """How many getUpdates were answered with updates or with none."""
        return self.world.queue.polls

    def called(self, method: str) -> list[Mapping[str, Any]]:
        """Return the parameters of every call of one method, in order."""
        return [call.params for call in self.calls if call.method == method]

    def fault(self, kind: FaultKind, times: int = 1, match: Matcher = None, **params: Any) -> None:
        """Plan a fault for the next `times` calls, or updates, that match.

        `match` is a method's name (for updates: their kind) or a question about the call; None is any method but
        getUpdates, for `HANG` and `FORGOTTEN_CONFIRMATION` getUpdates. `params`: see `FaultKind`.

        Raises:
            ValueError: no fault has such a parameter.
        """
        if unknown := params.keys() - FAULT_PARAMS:
            raise ValueError(f"no fault has {sorted(unknown)}")
        self.world.faults.plan(kind, times, match, params)

    def unused_faults(self) -> list[Fault]:
        """Return the planned faults that have not bitten as often as planned."""
        return self.world.faults.unused()

    @asynccontextmanager
    async def unreachable(self) -> AsyncIterator[None]:
        """Refuse connections inside the block, on a port that stays ours, and end those that are open."""
        for site in list(self._runner.sites):
            await site.stop()
        if self._runner.server is not None:
            for connection in self._runner.server.connections:
                connection.force_close()
                if connection.transport is not None:
                    connection.transport.abort()
            while self._runner.server.connections:
                await asyncio.sleep(0)
        try:
            yield
        finally:
            await self._listen()

    async def until(self, condition: Callable[[], bool | Awaitable[bool]], timeout_s: float = 10) -> None:
        """Wait until a condition holds.

        Raises:
            TimeoutError: it did not in time.
        """
        async with asyncio.timeout(timeout_s):
            while not await _truth(condition()):
                await asyncio.sleep(POLL_S)

    async def _listen(self) -> None:
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self._port = self._runner.addresses[0][1]

    def _bot_methods(self) -> dict[str, Callable[..., Any]]:
        messages, rooms = self.message_methods, self.room_methods
        methods: tuple[Callable[..., Any], ...] = (
            rooms.getMe, rooms.getUpdates, rooms.setWebhook, rooms.deleteWebhook, rooms.getWebhookInfo,
            messages.sendMessage, messages.editMessageText, messages.editMessageReplyMarkup, messages.deleteMessage,
            messages.sendDocument, messages.sendPhoto, messages.getFile,
            messages.sendMessageDraft, messages.sendChatAction, messages.setMessageReaction,
            messages.answerCallbackQuery,
            rooms.getChat, rooms.getChatMember, rooms.getChatAdministrators, rooms.getChatMemberCount, rooms.leaveChat,
            rooms.restrictChatMember, rooms.banChatMember, rooms.unbanChatMember,
            rooms.setMyCommands, rooms.getMyCommands, rooms.deleteMyCommands,
        )  # fmt: skip
        return {method.__name__: method for method in methods}

    async def _serve_method(self, request: web.Request) -> web.StreamResponse:
        name, method = self._methods.get(request.match_info["method"].lower(), (request.match_info["method"], None))
        params = await _read(request)
        call = Call(name, {key: _decoded(key, value) for key, value in params.items()})
        if request.match_info["token"] != self.token:
            return _refusal(Refused(401, "Unauthorized"))
        if method is None:
            return self._lacks(call, name)
        self.calls.append(call)
        if fault := self.world.faults.take(BEFORE, call):
            return await self._fail(request, fault)
        try:
            result = method(**params)
            result = await result if inspect.isawaitable(result) else result
        except Refused as refused:
            return _refusal(refused)
        except Unimplemented as lacking:
            return self._lacks(self.calls.pop(), f"{name}: {lacking}")
        except ValidationError as wrong:
            unknown = [".".join(map(str, e["loc"])) for e in wrong.errors() if e["type"] in UNKNOWN]
            if unknown:
                return self._lacks(self.calls.pop(), f"{name}: {', '.join(unknown)}")
            return _refusal(bad_request(f"wrong parameter {wrong.errors()[0]['loc'][0]} in request"))
        if fault := self.world.faults.take(AFTER, call):
            return await self._fail(request, fault)
        return web.json_response({"ok": True, "result": result})

    async def _serve_file(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        self.calls.append(Call("download", {"path": path}))
        file = next((file for file in self.world.files.values() if file.path == path), None)
        if request.match_info["token"] != self.token or file is None:
            return _refusal(Refused(404, "Not Found"))
        return web.Response(body=file.content, content_type="application/octet-stream")

    async def _no_such_route(self, request: web.Request) -> web.StreamResponse:
        return self._lacks(Call(request.path, {}), f"{request.method} {request.path}")

    def _lacks(self, call: Call, what: str) -> web.StreamResponse:
        self.unimplemented.append(what)
        self.calls.append(Call(f"UNIMPLEMENTED {what}", call.params))
        return _refusal(Refused(501, f"Not Implemented: the double does not have {what}"))

    async def _fail(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        match fault.kind:
            case FaultKind.FLOOD:
                wait_s = fault.params.get("retry_after", 33)
                return _refusal(Refused(429, f"Too Many Requests: retry after {wait_s}", retry_after=wait_s))
            case FaultKind.HANG | FaultKind.HANG_AFTER_COMMIT:
                await self._leaving.wait()
            case FaultKind.CUT_AFTER_COMMIT:
                pass
            case _:
                return _broken(fault.params.get("status", 502))
        if request.transport is not None:
            request.transport.close()
        return web.Response()


async def _truth(answer: bool | Awaitable[bool]) -> bool:
    return await answer if inspect.isawaitable(answer) else bool(answer)


async def _read(request: web.Request) -> dict[str, str | Upload]:
    """Return the parameters of query, form, multipart or JSON, each as text or upload."""
    params: dict[str, str | Upload] = dict(request.query)
    if request.content_type == "application/json":
        body = await request.json()
        return params | {key: value if isinstance(value, str) else json.dumps(value) for key, value in body.items()}
    for key, value in (await request.post()).items():
        if isinstance(value, web.FileField):
            params[key] = Upload(value.filename, value.content_type, value.file.read())
        else:
            params[key] = str(value)
    attached = {
        key: value.removeprefix(ATTACHED)
        for key, value in params.items()
        if isinstance(value, str) and value.startswith(ATTACHED)
    }
    named = {key: params[name] for key, name in attached.items()}
    return {key: value for key, value in params.items() if key not in attached.values()} | named


def _decoded(key: str, value: str | Upload) -> Any:
    """Return a parameter as it was before it was made text."""
    if isinstance(value, Upload) or key in TEXTS:
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _refusal(refused: Refused) -> web.Response:
    body: dict[str, Any] = {"ok": False, "error_code": refused.code, "description": refused.description}
    return web.json_response(
        body | ({"parameters": refused.parameters} if refused.parameters else {}), status=refused.code
    )


def _broken(status: int) -> web.Response:
    """Return an error as front servers give it: HTML where the fault is theirs."""
    phrase = HTTPStatus(status).phrase
    if status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return _refusal(Refused(status, phrase))
    page = (
        f"<html>\r\n<head><title>{status} {phrase}</title></head>\r\n<body><h1>{status} {phrase}</h1></body>\r\n</html>"
    )
    return web.Response(status=status, text=page, content_type="text/html")
