"""What the doctor finds at Telegram, and that it never asks for updates."""

from collections.abc import AsyncIterator

import pytest

from bot.adapters.telegram_chat import TelegramSettings
from bot.adapters.telegram_doctor import MANY_PENDING, address_refused, examine
from core.domain.findings import Examined, Verdict
from tests.doubles.telegram_faults import FaultKind
from tests.doubles.telegram_library import Listener, bot_of
from tests.doubles.telegram_server import TelegramServer
from tests.fakes import ManualClock
from tests.platform.telegram_line import listening, make_line


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer(privacy_mode=False) as double:
        yield double


async def look(telegram: TelegramServer, token: str = "", clock: ManualClock | None = None, **more: str) -> Examined:
    values = {"api_url": telegram.api_url, **more}
    return await examine(TelegramSettings(token=token or telegram.token, **values), clock or ManualClock())  # type: ignore[arg-type]  # texts alone


def told(examined: Examined, check: str) -> tuple[Verdict, str, str]:
    """Return the one finding of a check."""
    (found,) = [each for each in examined.findings if each.check == check]
    assert (found.verdict is Verdict.OK) == (not found.remedy), found
    return found.verdict, found.what, found.remedy


async def test_all_is_well_and_nothing_is_fetched_or_changed(telegram: TelegramServer) -> None:
    examined = await look(telegram)
    assert {each.verdict for each in examined.findings} == {Verdict.OK}, examined.findings
    assert examined.name == "Void" and f"@{telegram.bot_username}" in told(examined, "telegram.token")[1]
    assert {call.method for call in telegram.calls} == {"getMe", "getWebhookInfo"}


async def test_a_poller_that_runs_is_left_alone(telegram: TelegramServer) -> None:
    async with listening(make_line(telegram)) as line:
        ann, group = telegram.add_user("Ann"), telegram.add_group("Garden", kind="supergroup")
        await telegram.until(lambda: telegram.polls > 0)
        assert told(await look(telegram), "telegram.token")[0] is Verdict.OK
        await telegram.say(ann, group, f"@{telegram.bot_username} still there?")
        await line.heard(1)
        assert line.alerts == []


async def test_a_refused_token_is_found(telegram: TelegramServer) -> None:
    examined = await look(telegram, token="7:other-token-of-somebody")
    verdict, what, remedy = told(examined, "telegram.token")
    assert verdict is Verdict.WRONG and "refuses" in what and "@BotFather" in remedy and "TELEGRAM_TOKEN" in remedy
    assert "other-token" not in str(examined)


async def test_privacy_mode_is_found(telegram: TelegramServer) -> None:
    telegram.privacy_mode = True
    verdict, what, remedy = told(await look(telegram), "telegram.privacy")
    assert verdict is Verdict.WARNING and "privacy mode is on" in what
    assert "/setprivacy" in remedy and "add it again" in remedy and "administrator" in remedy


async def test_a_webhook_beside_polling_is_found_and_left(telegram: TelegramServer) -> None:
    async with Listener() as hook, bot_of(telegram) as bot:
        await bot.set_webhook(hook)
        verdict, what, remedy = told(await look(telegram), "telegram.webhook")
        assert verdict is Verdict.WRONG and hook in what and "voidbot up" in remedy and "/revoke" in remedy
        assert (await bot.get_webhook_info()).url == hook


async def test_a_webhook_that_is_not_announced_is_found(telegram: TelegramServer) -> None:
    verdict, what, remedy = told(await look(telegram, webhook_url="https://bot.example.org/hook"), "telegram.webhook")
    assert verdict is Verdict.WARNING and "not announced" in what and "voidbot up" in remedy


async def test_a_webhook_that_cannot_be_reached_is_found(telegram: TelegramServer) -> None:
    ann, group = telegram.add_user("Ann"), telegram.add_group("Garden", kind="supergroup")
    hook = "http://127.0.0.1:9/hook"
    async with bot_of(telegram) as bot:
        await bot.set_webhook(hook)
        await telegram.say(ann, group, "hello")

        async def failed() -> bool:
            return (await bot.get_webhook_info()).last_error_date is not None

        await telegram.until(failed)
    verdict, what, remedy = told(await look(telegram, webhook_url=hook), "telegram.webhook")
    assert verdict is Verdict.WRONG and "cannot bring updates" in what and "TELEGRAM_WEBHOOK_HOST" in remedy


async def test_a_webhook_that_works_is_well(telegram: TelegramServer) -> None:
    async with Listener() as hook, bot_of(telegram) as bot:
        await bot.set_webhook(hook)
        assert told(await look(telegram, webhook_url=hook), "telegram.webhook")[0] is Verdict.OK


@pytest.mark.parametrize(
    ("url", "good"),
    [
        ("https://bot.example.org/hook", True),
        ("https://bot.example.org:8443/hook", True),
        ("http://bot.example.org/hook", False),
        ("https://bot.example.org:9000/hook", False),
        ("https://bot.example.org:port/hook", False),
    ],
)
def test_addresses_that_the_platform_takes_are_known(url: str, good: bool) -> None:
    assert (address_refused(url) == "") == good


async def test_updates_that_nobody_fetches_are_found(telegram: TelegramServer) -> None:
    ann, group = telegram.add_user("Ann"), telegram.add_group("Garden", kind="supergroup")
    for number in range(MANY_PENDING):
        await telegram.say(ann, group, f"message {number}")
    assert told(await look(telegram), "telegram.pending")[0] is Verdict.OK
    await telegram.say(ann, group, "one more")
    verdict, what, remedy = told(await look(telegram), "telegram.pending")
    assert verdict is Verdict.WARNING and str(MANY_PENDING + 1) in what and "voidbot up" in remedy
    assert len(telegram.pending_updates) == MANY_PENDING + 1


async def test_a_clock_that_is_off_is_found(telegram: TelegramServer) -> None:
    clock = ManualClock()
    await clock.advance(-600)
    verdict, what, remedy = told(await look(telegram, clock=clock), "clock.telegram")
    assert verdict is Verdict.WRONG and "behind" in what and "timedatectl" in remedy


async def test_a_platform_that_is_away_is_found(telegram: TelegramServer) -> None:
    async with telegram.unreachable():
        verdict, what, remedy = told(await look(telegram), "telegram.reached")
    assert verdict is Verdict.WRONG and "no usable answer" in what and "TELEGRAM_API_URL" in remedy


async def test_a_platform_that_asks_for_a_pause_is_obeyed(telegram: TelegramServer) -> None:
    telegram.fault(FaultKind.FLOOD, match="getWebhookInfo", retry_after=149)
    examined = await look(telegram)
    verdict, what, _ = told(examined, "telegram.reached")
    assert verdict is Verdict.WARNING and "149 s" in what
    assert len(telegram.called("getWebhookInfo")) == 1
