"""The HTTP front of the Discord double: authorisation, limits, faults and the headers that the library insists on."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from fnmatch import fnmatchcase
from typing import Any

from aiohttp import web

from core.ports import Clock
from tests.doubles.discord_faults import FaultKind, Faults, Mutation
from tests.doubles.discord_words import PRIVILEGED, DiscordError, Intent
from tests.doubles.mutations import ordered

API = "/api/v10"
UNAUTHENTICATED = ("/webhooks/", "/interactions/")
AUDIT_REASON_LIMIT = 512


class Rules:
    """What a test may change while the double runs: times in seconds unless said otherwise, limits and grants."""

    def __init__(self) -> None:
        self.ack_deadline = 3.0
        self.token_life = 900.0
        self.nonce_window = 300.0
        self.heartbeat_ms = 41_250
        self.members_per_chunk = 1_000
        self.command_creates_per_day = 200
        self.identifies_per_day = 1_000
        self.shards = 1
        self.privileged_intents: Intent = PRIVILEGED
        self.mutations: set[str] = ordered(Mutation)


@dataclass(slots=True)
class Call:
    """One request: its path without the API's prefix, its JSON, and the status that was answered (0: cut off)."""

    method: str
    path: str
    body: Any
    headers: Mapping[str, str] = field(repr=False)
    query: Mapping[str, str]
    status: int = 0


@dataclass(frozen=True, slots=True)
class Upload:
    """A file of a multipart request."""

    filename: str
    data: bytes
    content_type: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A request as its route sees it."""

    params: Mapping[str, str]
    query: Mapping[str, str]
    body: Any
    uploads: Sequence[Upload]
    reason: str | None

    def key(self, name: str) -> int:
        """Return an id in the path."""
        return int(self.params[name])


class NotImplementedHere(Exception):
    """The double has the route, but not what was asked of it."""


Handler = Callable[[Ask], Any]
Routes = Sequence[tuple[str, str, Handler]]


@dataclass(slots=True)
class Window:
    """What is used of one bucket."""

    began: float
    used: int = 0


@dataclass(slots=True)
class Limits:
    """Rate limits, none unless a test sets them, and the count of answers that Discord holds against an address."""

    clock: Clock
    per_second: int | None = None
    invalid_answers: int = 0
    _rules: list[tuple[str, int, float]] = field(default_factory=list)
    _windows: dict[tuple[str, str], Window] = field(default_factory=dict)

    def add(self, match: str, count: int, per_s: float) -> None:
        """Allow `count` requests in `per_s` seconds for each room, guild or webhook on the routes that match."""
        self._rules.append((match, count, per_s))

    def use(self, method: str, path: str) -> tuple[dict[str, str], float | None]:
        """Return the headers of a request's bucket, and how long to wait if it is empty."""
        if self.per_second is not None:
            _, wait = self._take("global", "", self.per_second, 1.0)
            if wait is not None:
                return {"X-RateLimit-Global": "true", "X-RateLimit-Scope": "global"}, wait
        for match, count, per_s in self._rules:
            if fnmatchcase(f"{method} {path}", match):
                return self._take(match, path.split("/")[2], count, per_s)
        return {}, None

    def _take(self, rule: str, owner: str, count: int, per_s: float) -> tuple[dict[str, str], float | None]:
        now = self.clock.monotonic()
        window = self._windows.setdefault((rule, owner), Window(now))
        if now - window.began >= per_s:
            window.began, window.used = now, 0
        left = window.began + per_s - now
        empty = window.used >= count
        window.used += not empty
        headers = {
            "X-RateLimit-Limit": str(count),
            "X-RateLimit-Remaining": str(count - window.used),
            "X-RateLimit-Reset": f"{self.clock.now().timestamp() + left:.3f}",
            "X-RateLimit-Reset-After": f"{left:.3f}",
            "X-RateLimit-Bucket": f"{abs(hash(rule)):x}",
        }
        return headers, (left if empty else None)


class Rest:
    """Carries every request from its socket to a route and back, and writes all of them down in order."""

    def __init__(self, rules: Rules, faults: Faults, limits: Limits, token: str) -> None:
        self.calls: list[Call] = []
        self.unimplemented: list[str] = []
        self._rules = rules
        self._faults = faults
        self._limits = limits
        self._token = token

    def mount(self, app: web.Application, routes: Routes) -> None:
        for method, pattern, handler in routes:
            app.router.add_route(method, API + pattern, self._serving(handler))

    def _serving(self, handler: Handler) -> Callable[[web.Request], Any]:
        async def serve(request: web.Request) -> web.StreamResponse:
            return await self.serve(request, handler)

        return serve

    def note_unimplemented(self, what: str) -> None:
        """Write down what the double was asked for and cannot do."""
        self.unimplemented.append(what)

    async def unknown(self, request: web.Request) -> web.StreamResponse:
        """Answer 501, never a silent OK."""
        call, _ = await self._record(request)
        return self._refuse_as_unimplemented(call)

    def _refuse_as_unimplemented(self, call: Call) -> web.Response:
        self.note_unimplemented(f"{call.method} {call.path}")
        return self._answer(call, 501, {"message": "UNIMPLEMENTED: the double does not do this", "code": 0})

    async def serve(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer one request; routes run in one go, so what they do is done before any fault after it."""
        call, ask = await self._record(request)
        subject = f"{call.method} {call.path}"
        if not call.path.startswith(UNAUTHENTICATED) and call.headers.get("Authorization") != f"Bot {self._token}":
            return self._answer(call, 401, {"message": "401: Unauthorized", "code": 0})
        headers, wait = self._limits.use(call.method, call.path)
        if wait is not None:
            return self._limited(call, headers, wait)
        if fault := self._faults.take(FaultKind.UNANNOUNCED_429, subject):
            shared = {"X-RateLimit-Scope": "global" if fault.params.get("is_global") else "shared"}
            if fault.params.get("is_global"):
                shared["X-RateLimit-Global"] = "true"
            return self._limited(call, shared, fault.params.get("retry_after", 0.05))
        if fault := self._faults.take(FaultKind.STATUS_BEFORE, subject):
            return self._answer(call, fault.params["status"], {"message": "fault before", "code": 0}, headers)
        try:
            status, body = self._run(handler, ask)
        except NotImplementedHere:
            return self._refuse_as_unimplemented(call)
        except Exception as error:
            # A route that breaks is a gap of the double as well; as a 500 the library would hide it behind retries.
            self.note_unimplemented(f"{subject} broke: {error!r}")
            return self._answer(call, 501, {"message": "UNIMPLEMENTED: the route broke", "code": 0})
        if fault := self._faults.take(FaultKind.DELAY, subject):
            await asyncio.sleep(fault.params.get("seconds", 0.2))
        if self._faults.take(FaultKind.CUT_AFTER, subject) and request.transport is not None:
            request.transport.close()
            return web.Response(status=500)
        if fault := self._faults.take(FaultKind.STATUS_AFTER, subject):
            return self._answer(call, fault.params["status"], {"message": "fault after", "code": 0}, headers)
        return self._answer(call, status, body, headers)

    def _run(self, handler: Handler, ask: Ask) -> tuple[int, Any]:
        try:
            if ask.reason is not None and len(ask.reason) > AUDIT_REASON_LIMIT:
                raise DiscordError(400, 50035, "Invalid Form Body: audit log reason is too long")
            body = handler(ask)
        except DiscordError as error:
            return error.status, error.body()
        return (204, None) if body is None else (200, body)

    def _limited(self, call: Call, headers: dict[str, str], wait: float) -> web.Response:
        """Answer 429, with the scope of the limit and without its bucket if it was never announced."""
        scope = {"X-RateLimit-Scope": "user"} | headers | {"Retry-After": str(max(1, round(wait)))}
        is_global = scope["X-RateLimit-Scope"] == "global"
        body = {"message": "You are being rate limited.", "retry_after": wait, "global": is_global}
        return self._answer(call, 429, body, scope)

    def _answer(self, call: Call, status: int, body: Any, headers: Mapping[str, str] | None = None) -> web.Response:
        call.status = status
        self._limits.invalid_answers += status in (401, 403, 429)
        answer = dict(headers or {})
        if Mutation.NO_VIA not in self._rules.mutations:
            answer["Via"] = "1.1 google"
        if body is None:
            return web.Response(status=status, headers=answer)
        charset = "; charset=utf-8" if Mutation.JSON_CHARSET in self._rules.mutations else ""
        answer["Content-Type"] = f"application/json{charset}"
        return web.Response(status=status, body=json.dumps(body).encode(), headers=answer)

    async def _record(self, request: web.Request) -> tuple[Call, Ask]:
        """Read a request and write it down."""
        body: Any = None
        uploads: list[Upload] = []
        if request.content_type == "multipart/form-data":
            form = await request.post()
            body = json.loads(str(form.get("payload_json", "{}")))
            parts = [part for part in form.values() if isinstance(part, web.FileField)]
            uploads = [Upload(part.filename, part.file.read(), part.content_type) for part in parts]
        elif request.can_read_body:
            raw = await request.read()
            body = json.loads(raw) if raw else None
        path = request.path.removeprefix(API)
        call = Call(request.method, path, body, request.headers.copy(), dict(request.query))
        self.calls.append(call)
        reason = request.headers.get("X-Audit-Log-Reason")
        return call, Ask(dict(request.match_info), call.query, body, uploads, reason)


@dataclass(slots=True)
class DailyCount:
    """How often something was done today."""

    clock: Clock
    _day: date | None = None
    _count: int = 0

    def add(self, more: int) -> int:
        """Count and return today's sum."""
        today = self.clock.now().date()
        self._count = more + (self._count if today == self._day else 0)
        self._day = today
        return self._count
