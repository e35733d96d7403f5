"""A Qdrant endpoint on loopback that records what it is asked and fails as told; it stores nothing."""

import asyncio
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from aiohttp import web

_DONE = {"operation_id": 1, "status": "completed"}
_YES: dict[str, Any] = {
    "GET /aliases": {"aliases": []},
    "GET exists": {"exists": False},
    "PUT index": _DONE,
    "PUT points": _DONE,
    "POST delete": _DONE,
    "POST count": {"count": 0},
}


@dataclass(frozen=True, slots=True)
class Failing:
    """What every request is answered with. `stall`: never."""

    status: int = 200
    body: str = "{}"
    headers: dict[str, str] = field(default_factory=dict)
    stall: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came."""

    line: str
    query: str
    key: str
    body: Any


class QdrantServer:
    """`async with` it; `url` is its address."""

    def __init__(self, failing: Failing | None = None) -> None:
        self._failing = failing
        self.asked: list[Asked] = []
        self.url = ""
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else None
        self.asked.append(
            Asked(f"{request.method} {request.path}", request.query_string, request.headers.get("api-key", ""), body)
        )
        if self._failing is None:
            last = request.path if request.path == "/aliases" else request.path.rpartition("/")[2]
            result = _YES.get(f"{request.method} {last}", True)
            return web.json_response({"result": result, "status": "ok", "time": 0.0})
        if self._failing.stall:
            await asyncio.Event().wait()
        return web.Response(
            status=self._failing.status,
            text=self._failing.body,
            headers=self._failing.headers,
            content_type="application/json",
        )
