"""Health, readiness, figures and the health page over HTTP, on loopback unless told otherwise."""

import asyncio
import errno
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from aiohttp import web

from bot.web.checks import ANSWER_S, Checks, Prober
from bot.web.health_page import POLICY, render
from core.domain.errors import Misconfigured
from core.ports import Clock

LAG_S = 5.0
_BEAT_S = 1.0
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Server": "voidbot",
}


@dataclass(frozen=True, slots=True)
class Address:
    """Where the page listens; `port` is the real one if a free one was asked for."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The page's address for a browser."""
        return f"http://[{self.host}]:{self.port}/" if ":" in self.host else f"http://{self.host}:{self.port}/"


class HealthServer:
    """Answers `/healthz`, `/readyz`, `/metrics` and `/`.

    `metrics` gives the text of `/metrics`; `lag` is told the event loop's lag in seconds once a second.
    """

    def __init__(
        self,
        checks: Checks,
        metrics: Callable[[], bytes],
        clock: Clock,
        *,
        version: str,
        lag: Callable[[float], None] = lambda _: None,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._prober = Prober(checks, answer_s)
        self._metrics = metrics
        self._clock = clock
        self._version = version
        self._tell_lag = lag
        self._lag_s = 0.0
        self._beat_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int, *, outside: bool = False) -> Address:
        """Listen and return where.

        Args:
            host: An address or a name of this machine.
            port: 0 takes a free one.
            outside: Whether the operator named this host, so that it may be other than loopback.

        Raises:
            Misconfigured: The address is taken, not ours, or not loopback without the operator's word.
        """
        if not outside and not _is_loopback(host):
            raise Misconfigured(f"web: {host} can be reached from outside; set VOIDBOT_HTTP_HOST to it if you mean it")
        app = web.Application(client_max_size=1024)
        app.on_response_prepare.append(_harden)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._figures)
        app.router.add_get("/", self._page)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1)
        await runner.setup()
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as exc:
            await runner.cleanup()
            raise _bind_error(host, port, exc) from exc
        self._runner = runner
        self._beat_at = self._clock.monotonic()
        self._timer = asyncio.get_running_loop().call_later(_BEAT_S, self._beat)
        return Address(host, runner.addresses[0][1])

    async def stop(self) -> None:
        """Stop listening; what is being answered gets a second."""
        if self._timer is not None:
            self._timer.cancel()
        self._prober.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _beat(self) -> None:
        now = self._clock.monotonic()
        self._lag_s = max(0.0, now - self._beat_at - _BEAT_S)
        self._beat_at = now
        self._tell_lag(self._lag_s)
        self._timer = asyncio.get_running_loop().call_later(_BEAT_S, self._beat)

    async def _healthz(self, _: web.Request) -> web.Response:
        """The loop is fine if its last beat came in time and the next one is not overdue."""
        overdue = self._clock.monotonic() - self._beat_at - _BEAT_S
        lag_s = max(self._lag_s, overdue, 0.0)
        live = lag_s < LAG_S
        return web.json_response({"live": live, "lag_s": round(lag_s, 3)}, status=200 if live else 503)

    async def _readyz(self, _: web.Request) -> web.Response:
        report = await self._prober.report()
        checks = {verdict.name: {"ok": verdict.ok, "reason": verdict.reason} for verdict in report.verdicts}
        answer = {"ready": report.ready, "version": self._version, "checks": checks}
        return web.json_response(answer, status=200 if report.ready else 503)

    async def _figures(self, _: web.Request) -> web.Response:
        return web.Response(body=self._metrics(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    async def _page(self, _: web.Request) -> web.Response:
        report = await self._prober.report()
        return web.Response(text=render(report, self._version), content_type="text/html")


async def _harden(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_HEADERS)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _bind_error(host: str, port: int, failure: OSError) -> Misconfigured:
    match failure.errno:
        case errno.EADDRINUSE:
            return Misconfigured(
                f"web: port {port} is taken; set VOIDBOT_HTTP_PORT to another one, or to 0 for a free one"
            )
        case errno.EACCES:
            return Misconfigured(f"web: port {port} is not allowed to us; set VOIDBOT_HTTP_PORT to 1024 or more")
        case _:
            return Misconfigured(f"web: {host} is no address of this machine; set VOIDBOT_HTTP_HOST to one")
