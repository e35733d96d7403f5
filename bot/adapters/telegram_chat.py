"""Telegram's front end: people's messages in, answers out, one listener for each token."""

import asyncio
import hashlib
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from telegram import (
    Bot,
    BotCommand,
    BotCommandScopeAllChatAdministrators,
    BotCommandScopeDefault,
    Update,
)
from telegram.error import TelegramError

from bot.adapters.addressing import Names
from bot.adapters.limiter import Limiter
from bot.adapters.telegram_files import Files
from bot.adapters.telegram_intake import (
    Heard,
    Ignored,
    Known,
    Translated,
    command_name,
    forms_by_name,
    translate,
)
from bot.adapters.telegram_places import PLATFORM
from bot.adapters.telegram_polling import Alarm, Poller, Pulse, TokenRevoked
from bot.adapters.telegram_requests import CalmRequest, UpdatesRequest
from bot.adapters.telegram_rooms import NO_RIGHTS, Rooms
from bot.adapters.telegram_sending import Sender, limiter_of
from bot.adapters.telegram_text import split
from bot.adapters.telegram_webhook import Doorway, Webhook
from core.domain.errors import BotError, Conflict, InputRejected, Unavailable
from core.domain.ids import RoomKey
from core.domain.messages import InboundMessage, Origin
from core.ports import (
    Accept,
    Accepted,
    Ambiguous,
    Clock,
    CommandForm,
    FrontEnd,
    OutgoingPart,
    PlatformMemory,
    SendResult,
)

TEXT_LIMIT_CHARS = 4096
STREAM_EVERY_S = 3.5
READ_S, CONNECT_S, POOL_S = 20.0, 10.0, 10.0
CONNECTIONS = 32
TRIES = 3
"""How often an update that breaks our own code is tried before it is passed over."""
OFFICIAL_URL = "https://api.telegram.org"
PRIVATE_LINE = "I can answer that only in private. Open a chat with me and ask again: {link}"
PRIVACY_MODE = (
    "telegram: privacy mode hides from the bot what is not said to it in groups where it is no administrator; "
    "to change that: /setprivacy at BotFather, then remove the bot from the group and add it again"
)
_COMMAND = re.compile(r"[a-z0-9_]{1,32}")
_TOKEN = re.compile(r"(?P<id>\d{1,20}):[A-Za-z0-9_-]{10,}")
_SUMMARY_CHARS = 256
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TelegramSettings:
    """How to reach Telegram, and how it reaches us.

    `api_url`: another server of the Bot API; empty means the official one. `webhook_url`: where updates are brought
    to; empty means that they are fetched. `webhook_secret`: empty means a new one for each start. `private_line`:
    what a group is told, with `{link}`, where an answer is for one person whose private chat is not open.
    """

    token: str = field(repr=False)
    api_url: str = ""
    webhook_url: str = ""
    webhook_secret: str = field(default="", repr=False)
    webhook_host: str = "127.0.0.1"
    webhook_port: int = 8443
    private_line: str = PRIVATE_LINE


class TelegramChat(FrontEnd):
    """Telegram for one bot account.

    Args:
        settings: The account and the addresses.
        clock: The time of what comes in and of the limits.
        memory: What outlives this process, and the right to be the one who listens.
        names: What the bot is called.
        commands: What the platform offers to people.
        alert: Tells the operator.
        limiter: The budget of each chat; None makes the usual one.

    Attributes:
        poller: Its times may be changed before `run`.
        presses: Pressed buttons that wait for their answer.
        webhook: The receiver; None where updates are fetched.
        ignored: How many updates were no message, by reason.

    Raises:
        InputRejected: The token does not have a token's form.
    """

    def __init__(
        self,
        settings: TelegramSettings,
        clock: Clock,
        memory: PlatformMemory,
        *,
        names: Names,
        commands: Sequence[CommandForm],
        alert: Callable[[str], None],
        limiter: Limiter | None = None,
    ) -> None:
        form = _TOKEN.fullmatch(settings.token)
        if form is None:
            raise InputRejected("telegram: the token has not the form of one")
        self._account = form["id"]
        self._clock, self._memory, self._names, self._commands = clock, memory, names, tuple(commands)
        self._forms = forms_by_name(commands)
        url = (settings.api_url or OFFICIAL_URL).rstrip("/")
        fetching = UpdatesRequest(1, READ_S, READ_S, CONNECT_S, POOL_S)
        sending = CalmRequest(CONNECTIONS, READ_S, READ_S, CONNECT_S, POOL_S)
        self._requests = (fetching, sending)
        self._bot = Bot(
            settings.token,
            f"{url}/bot",
            f"{url}/file/bot",
            request=sending,
            get_updates_request=fetching,
        )
        self._files = Files(self._bot, sending, f"{url}/file/bot{settings.token}/")
        self._alarm = Alarm(alert)
        self._pulse = Pulse(self._account, clock, memory, self._alarm)
        self._rooms = Rooms(self._bot, memory, clock)
        self._sender = Sender(
            self._bot, self._rooms, limiter or limiter_of(clock), private_line=settings.private_line, alert=alert
        )
        self.presses = self._sender.presses
        self._username = ""
        self._accept: Accept = _not_yet
        self._broken: Counter[int] = Counter()
        self.ignored: Counter[str] = Counter()
        self.poller = Poller(self._bot, fetching, self._handle, self._pulse, self._alarm)
        self.webhook: Webhook | None = None
        if settings.webhook_url:
            door = Doorway(settings.webhook_url, settings.webhook_host, settings.webhook_port, settings.webhook_secret)
            self.webhook = Webhook(self._bot, door, self._handle, self._pulse, self._alarm)

    @property
    def name(self) -> str:
        """Return the key of this front end."""
        return PLATFORM

    @property
    def nonce_window(self) -> timedelta | None:
        """Return None: Telegram has no key by which a repeated message folds."""
        return None

    @property
    def stream_every_s(self) -> float | None:
        """Return the least seconds between two edits of a growing answer."""
        return STREAM_EVERY_S

    @property
    def text_limit(self) -> int:
        """Return the longest text a person can write here, in characters."""
        return TEXT_LIMIT_CHARS

    def split(self, text: str) -> Sequence[str]:
        """Return `text` in up to five messages, and what is left over as one more part, which is sent as a file."""
        return split(text)

    async def send(self, part: OutgoingPart) -> SendResult:
        """Send one part; a private one to the person's own chat."""
        return await self._sender.send(part)

    async def find_sent(self, part: OutgoingPart, since: datetime) -> str | Ambiguous | None:
        """Return that it cannot be known: bots read no history here."""
        return Ambiguous("telegram: no history to look at")

    async def edit(self, external_id: str, part: OutgoingPart) -> SendResult:
        """Replace the text of a message sent before."""
        return await self._sender.edit(external_id, part)

    async def close_choices(self, room: RoomKey, external_id: str) -> SendResult:
        """Take the buttons off a message sent before."""
        return await self._sender.close_choices(room, external_id)

    async def show_typing(self, room: RoomKey) -> None:
        """Show for five seconds that an answer is being made."""
        await self._sender.show_typing(room)

    async def fetch(self, room: RoomKey, handle: str, limit_bytes: int) -> bytes:
        """Return a file by its id, which is good in every chat of this account."""
        return await self._files.read(handle, limit_bytes)

    def silent_s(self) -> float | None:
        """Return the seconds since Telegram last answered a poll; None while another process listens."""
        return self._pulse.silent_s()

    async def close(self) -> None:
        """Close all connections, once nothing more is to be sent."""
        for request in self._requests:
            await request.shutdown()

    async def run(self, accept: Accept) -> None:
        """Listen until cancelled, one process at a time; return only if the token was revoked."""
        self._accept = accept
        while True:
            try:
                async with self._memory.lead(f"telegram:{self._account}", self._wait):
                    self._alarm.clear("second", "telegram: this process listens now")
                    self._pulse.start()
                    await self._listen()
            except TokenRevoked:
                self._alarm.raise_once("revoked", "telegram: the token was refused; nothing is heard or said any more")
                return
            except Unavailable:
                self._pulse.stop()
                await asyncio.sleep(self.poller.first_wait_s)
            finally:
                self._pulse.stop()

    def _wait(self) -> None:
        self._alarm.raise_once("second", "telegram: another process listens with this token; this one waits")

    async def _listen(self) -> None:
        """Listen, and answer meanwhile what was pressed; what ends the listening is raised as it is."""
        over: TokenRevoked | Unavailable | None = None
        async with asyncio.TaskGroup() as tasks:
            answering = tasks.create_task(self.presses.run())
            try:
                await self._hear()
            except (TokenRevoked, Unavailable) as exc:
                over = exc
            answering.cancel()
        if over is not None:
            raise over

    async def _hear(self) -> None:
        await self.poller.persist(self._introduce)
        await self._offer_commands()
        if self.webhook is not None:
            await self.webhook.run(self.poller)
        else:
            await self.poller.run()

    async def _introduce(self) -> None:
        """Learn who we are and what we may hear."""
        me = await self._bot.get_me()
        self._username = me.username or ""
        if not me.can_read_all_group_messages:
            self._alarm.raise_once("privacy", PRIVACY_MODE)

    async def _offer_commands(self) -> None:
        """Tell clients which commands there are, if the list is another than the last time; never worth a stop."""
        everyone = _offered(form for form in self._commands if not form.restricted)
        admins = _offered(self._commands)
        print_ = hashlib.sha256(json.dumps([everyone, admins]).encode()).hexdigest()
        kept = f"telegram:{self._account}:commands"
        with suppress(TelegramError, Unavailable, Conflict):
            if await self._memory.recall(kept) == print_:
                return
            for scope, offered in (
                (BotCommandScopeDefault(), everyone),
                (BotCommandScopeAllChatAdministrators(), admins),
            ):
                await self._bot.set_my_commands([BotCommand(*each) for each in offered], scope=scope)
            await self._memory.remember(kept, print_)

    async def _handle(self, update: Update) -> None:
        """Store an update and do what follows; one that breaks our code is tried again and then passed over.

        Raises:
            Unavailable, Conflict: It must come again.
        """
        try:
            await self._take(self._translate(update))
        except (Unavailable, Conflict):
            raise
        except BotError as exc:
            _LOG.warning("telegram: an update was refused: %s", exc.message)
            self.ignored["refused"] += 1
        except Exception as exc:
            self._broken[update.update_id] += 1
            _LOG.exception("telegram: an update could not be handled")
            if self._broken[update.update_id] < TRIES:
                raise Unavailable("telegram: an update could not be handled") from exc
            self.ignored["broken"] += 1
            self._alarm.raise_once("broken", "telegram: an update could not be handled and is passed over; see the log")
        self._broken.pop(update.update_id, None)

    def _translate(self, update: Update) -> Translated:
        known = Known(
            bot_id=int(self._account),
            username=self._username,
            names=self._names,
            now=self._clock.now(),
            forms=self._forms,
            topic_of=self._rooms.topic_of,
        )
        return translate(update, known)

    async def _take(self, news: Translated) -> None:
        if isinstance(news, Heard):
            revised = self._rooms.revised(news)
            if isinstance(revised, Heard):
                await self._store(revised)
                return
            news = revised
        if isinstance(news, Ignored):
            self.ignored[news.reason] += 1
            if news.press:
                _LOG.warning("telegram: a button was pressed that is none of ours")
                await self.presses.end(news.press)
        else:
            await self._rooms.change(news)

    async def _store(self, heard: Heard) -> None:
        """Hand a message in before anything is done with it.

        Asked before are only an administrator's standing and, in a topic, that its group is known.
        """
        message = heard.message
        if heard.press:
            self.presses.wait(heard.press)
        if (heard.press or (heard.form is not None and heard.form.restricted)) and message.origin is Origin.HUMAN:
            private = message.room.chat_ref == message.person_ref
            rights = NO_RIGHTS if private else await self._rooms.rights_of(message.room.chat_ref, message.person_ref)
            heard = replace(heard, message=replace(message, admin=rights.admin, moderator=rights.moderator))
        await self._rooms.learn_parent(heard.report)
        accepted = await self._accept(heard.message)
        self._rooms.remember(heard)
        await self._rooms.learn(heard.report)
        if heard.press and accepted.outcome == "no_speech" and not accepted.duplicate:
            await self.presses.end(heard.press)


async def _not_yet(message: InboundMessage) -> Accepted:
    raise Unavailable("telegram: nobody takes messages yet")


def _offered(forms: Iterable[CommandForm]) -> list[tuple[str, str]]:
    named = ((command_name(form.path), form.summary[:_SUMMARY_CHARS] or form.path) for form in forms)
    return [(name, summary) for name, summary in named if _COMMAND.fullmatch(name)]
