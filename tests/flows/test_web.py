"""Health over real HTTP: honest while Postgres is down, stopped or behind, and never hanging."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from html.parser import HTMLParser

import aiohttp
import pytest

from bot.observability import Metrics
from bot.web.checks import Checks, Figures, FrontEndState
from bot.web.server import HealthServer
from core.domain.errors import Misconfigured, Unavailable
from core.store.engine import Database, current_revision, head_revision
from tests.fakes import ManualClock


def always(value: object) -> Callable[[], Awaitable[object]]:
    async def answer() -> object:
        return value

    return answer


def checks_on(database: Database) -> Checks:
    """The checks as the composition root makes them, over a real database."""

    async def ask() -> None:
        async with database.transaction(durable=False) as tx:
            await tx.fetchval("select 1")

    async def schema() -> tuple[str | None, str]:
        return await current_revision(database.dsn), head_revision()

    async def figures() -> Figures:
        async with database.transaction(durable=False) as tx:
            rooms = await tx.fetchval("select count(*) from voidbot.rooms")
        return Figures({("chat", "ready"): 3}, rooms)

    async def tick() -> float | None:
        return 0.5

    async def oldest() -> float | None:
        return None

    async def front_ends() -> Mapping[str, FrontEndState]:
        return {"console": FrontEndState(True, "reads the terminal")}

    return Checks(
        database=ask, schema=schema, tick_age_s=tick, oldest_ready_s=oldest, front_ends=front_ends, figures=figures
    )


@pytest.fixture
def checks(database: Database) -> Checks:
    return checks_on(database)


class Page:
    """One running server and a client for it."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def get(self, path: str) -> tuple[int, str, Mapping[str, str]]:
        async with self._session.get(self._url + path.lstrip("/")) as answer:
            return answer.status, await answer.text(), answer.headers

    async def ready(self) -> tuple[int, dict[str, str]]:
        """Return the status and the reasons of the checks that are not fine."""
        status, text, _ = await self.get("/readyz")
        answer = json.loads(text)
        assert answer["ready"] is (status == 200)
        return status, {name: check["reason"] for name, check in answer["checks"].items() if not check["ok"]}


@asynccontextmanager
async def serving(checks: Checks, clock: ManualClock | None = None, answer_s: float = 2) -> AsyncIterator[Page]:
    clock = clock or ManualClock()
    server = HealthServer(checks, Metrics().text, clock, version="1.2<3", answer_s=answer_s)
    async with server, aiohttp.ClientSession() as session:
        address = await server.start("127.0.0.1", 0)
        yield Page(session, address.url)


async def test_all_fine_is_ready(checks: Checks) -> None:
    async with serving(checks) as page:
        assert await page.ready() == (200, {})


async def test_a_database_that_goes_away_is_an_honest_not_ready(checks: Checks, database: Database) -> None:
    async with serving(checks) as page:
        await database.close()
        status, wrong = await page.ready()
        assert status == 503
        assert wrong["postgres"] == "database: connection lost"
        assert (await page.get("/healthz"))[0] == 200  # restarting us would not mend it
        assert "unknown while Postgres does not answer" in (await page.get("/"))[1]


async def test_a_check_that_never_answers_is_not_waited_for_nor_asked_again(checks: Checks) -> None:
    asked = 0

    async def never() -> None:
        nonlocal asked
        asked += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.Event().wait()  # as a driver that waits for a stopped server

    async with serving(replace(checks, database=never), answer_s=0.05) as page:
        for _ in range(3):
            assert (await page.ready())[1]["postgres"] == "no answer within 0.05 s"
    assert asked == 1


async def test_a_check_that_answers_again_is_believed_again(checks: Checks) -> None:
    gate = asyncio.Event()

    async def slow() -> None:
        await gate.wait()

    async with serving(replace(checks, database=slow), answer_s=0.2) as page:
        assert (await page.ready())[0] == 503
        gate.set()
        assert (await page.ready())[0] == 200


@pytest.mark.parametrize(
    ("field", "value", "name", "reason"),
    [
        ("schema", ("0002", "0003"), "schema", "at 0002, needs 0003: run `voidbot db migrate`"),
        ("schema", (None, "0003"), "schema", "at nothing, needs 0003: run `voidbot db migrate`"),
        ("tick_age_s", None, "worker", "no worker has ticked yet"),
        ("tick_age_s", 10.0, "worker", "last tick 10 s ago"),
        ("oldest_ready_s", 300.0, "queue", "oldest ready job has waited 300 s"),
        ("front_ends", {"void": FrontEndState(False, "no poll")}, "front end void", "no poll"),
    ],
)
async def test_each_check_has_its_reason(checks: Checks, field: str, value: object, name: str, reason: str) -> None:
    changed = replace(checks, **{field: always(value)})  # type: ignore[arg-type]  # by name
    async with serving(changed) as page:
        assert await page.ready() == (503, {name: reason})


@pytest.mark.parametrize(("field", "value"), [("tick_age_s", 9.9), ("oldest_ready_s", 299.0), ("front_ends", {})])
async def test_within_the_limits_is_ready(checks: Checks, field: str, value: object) -> None:
    changed = replace(checks, **{field: always(value)})  # type: ignore[arg-type]  # by name
    async with serving(changed) as page:
        assert await page.ready() == (200, {})


async def test_a_bug_in_a_check_shows_its_class_and_no_message(checks: Checks) -> None:
    async def broken() -> None:
        raise RuntimeError("swordfish")

    async with serving(replace(checks, database=broken)) as page:
        assert (await page.ready())[1] == {"postgres": "failed: RuntimeError"}


async def test_an_error_of_ours_shows_its_message_without_its_attributes(checks: Checks) -> None:
    async def broken() -> None:
        raise Unavailable("database: not reachable", host="10.0.0.7")

    async with serving(replace(checks, database=broken)) as page:
        assert (await page.ready())[1] == {"postgres": "database: not reachable"}


async def test_a_late_event_loop_is_not_live(checks: Checks) -> None:
    clock = ManualClock()
    async with serving(checks, clock) as page:
        assert (await page.get("/healthz"))[0] == 200
        await clock.advance(6.5)
        status, text, _ = await page.get("/healthz")
    assert status == 503 and json.loads(text)["lag_s"] >= 5


async def test_the_page_shows_checks_queue_rooms_and_version_escaped(checks: Checks) -> None:
    odd = {"<script>alert(1)</script>": FrontEndState(False, "\"'><img src=x>")}
    async with serving(replace(checks, front_ends=always(odd))) as page:  # type: ignore[arg-type]  # any mapping
        status, text, headers = await page.get("/")
    tags: set[str] = set()

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            tags.add(tag)

    Tags().feed(text)
    assert status == 200 and not tags & {"script", "img", "iframe", "form"}
    assert "VoidBot is not ready" in text and "Version 1.2&lt;3" in text and "Rooms: 0" in text
    assert "<td>chat</td><td>ready</td><td>3</td>" in text
    assert "default-src 'none'" in headers["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/metrics"])
async def test_every_answer_is_hardened_and_names_no_software(checks: Checks, path: str) -> None:
    async with serving(checks) as page:
        status, _, headers = await page.get(path)
    assert status == 200
    assert (headers["X-Content-Type-Options"], headers["Server"]) == ("nosniff", "voidbot")


async def test_metrics_are_prometheus_text(checks: Checks) -> None:
    async with serving(checks) as page:
        _, text, headers = await page.get("/metrics")
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert "voidbot_memory_bytes" in text


async def test_a_taken_port_is_refused_with_the_setting_to_change(checks: Checks) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with HealthServer(checks, Metrics().text, ManualClock(), version="1") as server:
            with pytest.raises(Misconfigured, match=f"port {port} is taken; set VOIDBOT_HTTP_PORT"):
                await server.start("127.0.0.1", port)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "example.org", ""])  # noqa: S104
async def test_an_outside_address_needs_the_operator_s_word(checks: Checks, host: str) -> None:
    async with HealthServer(checks, Metrics().text, ManualClock(), version="1") as server:
        with pytest.raises(Misconfigured, match="set VOIDBOT_HTTP_HOST"):
            await server.start(host, 0)


async def test_with_the_operator_s_word_it_listens_outside(checks: Checks) -> None:
    async with HealthServer(checks, Metrics().text, ManualClock(), version="1") as server:
        address = await server.start("0.0.0.0", 0, outside=True)  # noqa: S104
        with socket.create_connection(("127.0.0.1", address.port)):
            pass
