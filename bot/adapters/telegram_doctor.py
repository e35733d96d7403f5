"""What an operator can get wrong at Telegram, found out without asking for updates: a poll would end another's."""

import asyncio
from datetime import datetime
from urllib.parse import urlsplit

import httpx
from telegram import Bot, User, WebhookInfo
from telegram.error import InvalidToken, TelegramError
from telegram.error import RetryAfter as FloodWait

from bot.adapters.telegram_chat import OFFICIAL_URL, TelegramSettings
from bot.adapters.telegram_errors import seconds_of
from bot.adapters.telegram_requests import CalmRequest
from core.domain.findings import Examined, Finding, clock, http_date, ok, one_line, warning, wrong
from core.ports import Clock

MANY_PENDING = 100
"""More updates than this do not wait where somebody listens."""
PORTS = frozenset({443, 80, 88, 8443})
"""Where the official servers bring updates to."""
WITHIN_S = 60.0
READ_S, CONNECT_S, POOL_S = 20.0, 10.0, 10.0
_GRAIN_S = 1.0
TOKEN_REMEDY = (
    "take the token from @BotFather (/token; /revoke makes a new one), put it into TELEGRAM_TOKEN, start again"  # noqa: S105  # words, no token
)
REACH_REMEDY = "let this machine reach the platform over https, or mend TELEGRAM_API_URL; then ask again"


class Times:
    """The time that the last answer carried in its headers, with ours when we asked and when we knew."""

    def __init__(self, ours: Clock) -> None:
        self._ours = ours
        self._asked = ours.now()
        self.last: tuple[datetime, datetime, datetime] | None = None

    async def begun(self, _: httpx.Request) -> None:
        """Note when we asked."""
        self._asked = self._ours.now()

    async def ended(self, answer: httpx.Response) -> None:
        """Note what the answer says."""
        told = http_date(answer.headers.get("Date", ""))
        if told is not None:
            self.last = (self._asked, told, self._ours.now())


async def examine(settings: TelegramSettings, ours: Clock) -> Examined:
    """Ask who we are and how updates come; leave everything as it is."""
    times = Times(ours)
    url = (settings.api_url or OFFICIAL_URL).rstrip("/")
    hooks = {"event_hooks": {"request": [times.begun], "response": [times.ended]}}
    request = CalmRequest(1, READ_S, READ_S, CONNECT_S, POOL_S, httpx_kwargs=hooks)
    unused = CalmRequest(1, READ_S, READ_S, CONNECT_S, POOL_S)
    bot = Bot(settings.token, f"{url}/bot", f"{url}/file/bot", request=request, get_updates_request=unused)
    found: list[Finding] = []
    name = ""
    try:
        async with asyncio.timeout(WITHIN_S), bot:
            name = one_line(bot.bot.full_name)
            found.append(ok("telegram.token", f"good, the bot is {name} (@{bot.username})"))
            found += _account(bot.bot)
            found += _updates(settings, await bot.get_webhook_info())
    except InvalidToken:
        found.append(wrong("telegram.token", "the platform refuses it", TOKEN_REMEDY))
    except FloodWait as exc:
        what = f"the platform asks for a pause of {seconds_of(exc):.0f} s"
        found.append(warning("telegram.reached", what, "ask again after it"))
    except (TelegramError, TimeoutError) as exc:
        found.append(wrong("telegram.reached", f"no usable answer ({type(exc).__name__})", REACH_REMEDY))
    if times.last is not None:
        found.append(clock("telegram", *times.last, grain_s=_GRAIN_S))
    return Examined(tuple(found), name)


def _account(me: User) -> list[Finding]:
    """Return what the account may hear and join."""
    found = []
    if me.can_read_all_group_messages:
        found.append(ok("telegram.privacy", "privacy mode is off: groups joined since then are heard whole"))
    else:
        what = (
            "privacy mode is on: in groups where the bot is no administrator it hears only commands, mentions and"
            " replies to it"
        )
        remedy = (
            "if rooms are to be in lurk or archived: /setprivacy at @BotFather, Disable, then remove the bot from the"
            " group and add it again; or make it an administrator there"
        )
        found.append(warning("telegram.privacy", what, remedy))
    if not me.can_join_groups:
        what = "the bot may not be added to groups"
        found.append(warning("telegram.groups", what, "/setjoingroups at @BotFather, Enable"))
    return found


def _updates(settings: TelegramSettings, info: WebhookInfo) -> list[Finding]:
    """Return whether updates find their way to us."""
    found = []
    if not settings.webhook_url:
        found.append(_fetched(info))
    else:
        if not settings.api_url and (bad := address_refused(settings.webhook_url)):
            remedy = "set TELEGRAM_WEBHOOK_URL to an https address with port 443, 80, 88 or 8443, or empty it to poll"
            found.append(wrong("telegram.address", bad, remedy))
        found.append(_brought(settings, info))
    waiting = info.pending_update_count
    if waiting > MANY_PENDING:
        what = f"{waiting} updates wait at the platform, which keeps them for 24 hours"
        found.append(warning("telegram.pending", what, "start `voidbot up`; if it runs, look for alerts in its log"))
    else:
        found.append(ok("telegram.pending", f"{waiting} updates wait"))
    return found


def _fetched(info: WebhookInfo) -> Finding:
    if not info.url:
        return ok("telegram.webhook", "none is set, updates are fetched")
    what = f"a webhook is set ({one_line(info.url)}) although updates are to be fetched: nothing is heard"
    remedy = (
        "start `voidbot up`, which takes it away; if it comes back another program has this token: stop that one, or"
        " make a new token with /revoke at @BotFather"
    )
    return wrong("telegram.webhook", what, remedy)


def _brought(settings: TelegramSettings, info: WebhookInfo) -> Finding:
    check = "telegram.webhook"
    if info.url != settings.webhook_url:
        what = "the webhook of TELEGRAM_WEBHOOK_URL is not announced" + (", another one is" if info.url else "")
        return warning(check, what, "start `voidbot up`, which announces it")
    if info.pending_update_count and info.last_error_date is not None:
        what = f"the platform cannot bring updates: {one_line(info.last_error_message or 'it does not say why')}"
        remedy = (
            "let the address of TELEGRAM_WEBHOOK_URL lead to TELEGRAM_WEBHOOK_HOST and TELEGRAM_WEBHOOK_PORT of the"
            " machine where `voidbot up` runs, with a valid certificate"
        )
        return wrong(check, what, remedy)
    return ok(check, "updates are brought to TELEGRAM_WEBHOOK_URL")


def address_refused(url: str) -> str:
    """Return why the official servers bring no updates to an address; empty if they do."""
    parts = urlsplit(url)
    if parts.scheme != "https":
        return "TELEGRAM_WEBHOOK_URL is no https address"
    try:
        port = parts.port or 443
    except ValueError:
        port = 0
    return "" if port in PORTS else "TELEGRAM_WEBHOOK_URL has a port that the platform does not use"
