"""Updates that Telegram brings: taken only with the secret, and only when they are stored."""

import asyncio
import socket
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import aiohttp
import pytest

from bot.adapters.telegram_polling import ALLOWED
from bot.adapters.telegram_webhook import SECRET_HEADER
from tests.doubles.telegram_faults import FaultKind
from tests.doubles.telegram_server import TelegramServer
from tests.doubles.telegram_state import Chat, User
from tests.fakes import ManualClock
from tests.platform.telegram_line import Line, listening, make_line


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer(privacy_mode=False, clock=ManualClock()) as double:
        yield double


@pytest.fixture
def ann(telegram: TelegramServer) -> User:
    return telegram.add_user("Ann")


@pytest.fixture
def group(telegram: TelegramServer, ann: User) -> Chat:
    return telegram.add_group("Garden", kind="supergroup", owner=ann)


def free_port() -> int:
    """Return a port that nobody listens on: the platform must be told one before we do."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def hooked(telegram: TelegramServer, *, secret: str) -> tuple[Line, str]:
    """Return a line to which updates are brought, and the address."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/telegram"
    return make_line(telegram, webhook_url=url, webhook_port=port, webhook_secret=secret), url


async def test_webhook_answers_after_commit(telegram: TelegramServer, ann: User, group: Chat) -> None:
    line, _ = hooked(telegram, secret="hush-hush")
    line.inbox.down = True
    telegram.fault(FaultKind.REPEATED_WEBHOOK)
    async with listening(line):
        await telegram.say(ann, group, "one")
        await telegram.until(lambda: line.inbox.offered >= 2)
        assert len(telegram.pending_updates) == 1
        line.inbox.down = False
        await line.heard(1)
        await line.confirmed()
    assert line.inbox.texts == ["one"]
    (call,) = telegram.called("setWebhook")
    assert (call["secret_token"], call["allowed_updates"]) == ("hush-hush", list(ALLOWED))


async def test_webhook_refuses_what_comes_without_the_secret(telegram: TelegramServer) -> None:
    line, url = hooked(telegram, secret="hush-hush")
    async with listening(line), aiohttp.ClientSession() as client:
        await telegram.until(lambda: bool(telegram.called("setWebhook")))
        answers = []
        for secret, body in (
            ("", '{"update_id": 1}'), ("wrong", '{"update_id": 1}'), ("hush-hush", "no json"), ("hush-hush", "[]"),
            ("hush-hush", '{"update_id": 1, "message": {}}'), ("hush-hush", '{"update_id": 2}'),
        ):  # fmt: skip
            async with client.post(url, data=body, headers={SECRET_HEADER: secret}) as answer:
                answers.append(answer.status)
    assert answers == [403, 403, 400, 400, 200, 200]
    assert (line.inbox.offered, line.chat.ignored) == (0, {"unknown_kind": 2})


async def test_a_secret_that_is_no_text_is_refused_like_any_other(telegram: TelegramServer) -> None:
    line, url = hooked(telegram, secret="hush-hush")
    async with listening(line):
        await telegram.until(lambda: bool(telegram.called("setWebhook")))
        reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
        writer.write(b"POST /telegram HTTP/1.1\r\nHost: here\r\nContent-Length: 0\r\n")
        writer.write(SECRET_HEADER.encode() + b": hush-\xff\xe9\x80\r\n\r\n")
        answer = await reader.readline()
        writer.close()
        await writer.wait_closed()
    assert answer.split()[1] == b"403"


async def test_a_webhook_without_a_secret_makes_one(telegram: TelegramServer, ann: User, group: Chat) -> None:
    line, _ = hooked(telegram, secret="")
    async with listening(line):
        await telegram.say(ann, group, "one")
        await line.heard(1)
    assert len(telegram.called("setWebhook")[0]["secret_token"]) >= 32


async def test_a_webhook_that_something_replaced_is_set_again(telegram: TelegramServer, ann: User, group: Chat) -> None:
    line, _ = hooked(telegram, secret="hush-hush")
    assert line.chat.webhook is not None
    line.chat.webhook.watch_s = 0.05
    async with listening(line):
        await telegram.until(lambda: bool(telegram.called("getWebhookInfo")))
        telegram.room_methods.setWebhook("http://127.0.0.1:9/elsewhere")
        await telegram.say(ann, group, "one")
        await line.heard(1)
        assert line.chat.silent_s() is not None
    assert any("took the webhook away" in each for each in line.alerts)


async def test_a_taken_port_is_told_once_and_listened_on_once_it_is_free(
    telegram: TelegramServer, ann: User, group: Chat
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        line = make_line(telegram, webhook_url=f"http://127.0.0.1:{port}/telegram", webhook_port=port)
        assert line.chat.webhook is not None
        line.chat.webhook.again_s = 0.02
        async with listening(line):
            await telegram.until(lambda: any("TELEGRAM_WEBHOOK_PORT" in each for each in line.alerts))
            assert telegram.called("setWebhook") == []
            other.close()
            await telegram.say(ann, group, "one")
            await line.heard(1)
    assert [each for each in line.alerts if "the webhook" in each][1:] == ["telegram: the webhook listens now"]
