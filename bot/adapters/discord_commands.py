"""Commands at Discord: one table made into its application commands, and their use made into inbound messages."""

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import discord

from bot.adapters.discord_answers import Hook
from bot.adapters.discord_intake import PLATFORM, Ignored, Place, Us, Why
from bot.adapters.discord_payload import Payload, number, part, parts, ref, text, time_of
from bot.adapters.discord_rest import FAILURES, Request, Rest
from bot.adapters.discord_rooms import is_admin, may_moderate
from core.domain.choices import read_ref
from core.domain.ids import RoomKey
from core.domain.messages import Address, InboundMessage, MessageKind, Origin
from core.domain.rooms import RoomKind
from core.ports import CommandForm, CommandOption, OptionKind, PlatformMemory

SUMMARY_CHARS = 100
CHOICES = 25
COMMAND, COMPONENT, AUTOCOMPLETE, FORM = 2, 3, 4, 5
"""The kinds of interactions."""
_SUBCOMMAND, _STRING, _INTEGER, _BOOLEAN = 1, 3, 4, 5
_MANAGE_MESSAGES = str(1 << 13)
_IN_COMMUNITIES, _WITH_THE_BOT, _FOR_COMMUNITIES = 0, 1, 0
_YES = ("yes", "true")
DAILY_CREATES_SPENT = 30034
_LOG = logging.getLogger(__name__)


def rendered(forms: Sequence[CommandForm], *, everywhere: bool) -> list[dict[str, object]]:
    """Return the forms as application commands; `everywhere`: not for single communities."""
    made: dict[str, dict[str, object]] = {}
    for form in forms:
        name, _, below = form.path.partition(" ")
        options = [_option(one) for one in sorted(form.options, key=lambda one: not one.required)]
        command = made.get(name) or {"name": name, "type": 1, "description": _short(form.summary), "options": []}
        if below:
            inner = {"name": below, "type": _SUBCOMMAND, "description": _short(form.summary), "options": options}
            listed = command["options"]
            command |= {"description": name, "options": [*(listed if isinstance(listed, list) else []), inner]}
        else:
            command["options"] = options
        if form.restricted:
            # It only hides: who may use it is decided from the event's own bits.
            command["default_member_permissions"] = _MANAGE_MESSAGES
        if everywhere:
            # The library's own rendering sends null here, which takes commands out of direct rooms.
            command |= {"contexts": [_IN_COMMUNITIES, _WITH_THE_BOT], "integration_types": [_FOR_COMMUNITIES]}
        made[name] = command
    return list(made.values())


def _option(option: CommandOption) -> dict[str, object]:
    kinds = {OptionKind.NUMBER: _INTEGER, OptionKind.FLAG: _STRING if option.choices else _BOOLEAN}
    made: dict[str, object] = {
        "name": option.name,
        "type": kinds.get(option.kind, _STRING),
        "description": _short(option.summary),
        "required": option.required,
    }
    if option.choices and len(option.choices) <= CHOICES:
        made["choices"] = [{"name": choice, "value": choice} for choice in option.choices]
    return made


def _short(summary: str) -> str:
    return summary if len(summary) <= SUMMARY_CHARS else f"{summary[: SUMMARY_CHARS - 1]}…"


class Commands:
    """Brings the platform's copy of the command table up to date, and no more often than it changed.

    Args:
        forms: The table.
        guilds: The communities that get the commands; empty: all, and direct rooms.
        memory: Where the fingerprint is kept.
        alert: The operator's line.
    """

    def __init__(
        self,
        forms: Sequence[CommandForm],
        guilds: Sequence[str],
        rest: Rest,
        memory: PlatformMemory,
        alert: Callable[[str], None],
    ) -> None:
        self._forms, self._guilds, self._rest, self._memory, self._alert = forms, guilds, rest, memory, alert

    async def sync(self) -> float | None:
        """Write the commands if they are not what was written last.

        Returns:
            The seconds after which to try again; None when there is nothing more to do.
        """
        name = f"{PLATFORM}:commands:{self._rest.account}"
        body = rendered(self._forms, everywhere=not self._guilds)
        scopes = sorted(self._guilds) or ["global"]
        wanted = f"{fingerprint(body)} {','.join(scopes)}"
        known = await self._memory.recall(name) or ""
        if known == wanted:
            return None
        # One scope only: both copies would be shown.
        left = set(filter(None, known.partition(" ")[2].split(","))) - set(scopes)
        try:
            for scope in scopes:
                await self._put(scope, body)
            for scope in sorted(left):
                await self._put(scope, [])
        except discord.RateLimited as exc:
            return exc.retry_after  # a PUT replaces all or nothing: what was registered is still there
        except discord.HTTPException as exc:
            self._alert(f"discord: the commands could not be registered (status {exc.status}, code {exc.code})")
            return 3600.0 if exc.code == DAILY_CREATES_SPENT or exc.status < 500 else 60.0
        except FAILURES as exc:
            _LOG.warning("discord: the commands could not be registered: %s", type(exc).__name__)
            return 60.0
        await self._memory.remember(name, wanted)
        return None

    async def _put(self, scope: str, body: Sequence[Mapping[str, object]]) -> None:
        account = {"application_id": self._rest.account}
        path = "/applications/{application_id}/commands"
        if scope != "global":
            path, account = "/applications/{application_id}/guilds/{guild_id}/commands", account | {"guild_id": scope}
        await self._rest.call(Request("PUT", path, account, list(body)))


def fingerprint(body: Sequence[Mapping[str, object]]) -> str:
    """Return what changes whenever the commands do."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:32]


def is_private(data: Payload, forms: Sequence[CommandForm]) -> bool:
    """Return whether the answer is for the asker alone, as far as its first, empty form has to know."""
    path, options = _path(part(data, "data"))
    form = next((one for one in forms if one.path == path), None)
    if form is None or form.private:
        return True
    return any(text(one, "name") == "private" and _value(one).lower() in _YES for one in options)


def to_command(
    data: Payload, *, us: Us, place: Place, forms: Sequence[CommandForm], now: datetime
) -> InboundMessage | Ignored:
    """Return the use of a command in our words: as a person would type it."""
    path, options = _path(part(data, "data"))
    if not path:
        return Ignored(Why.MALFORMED)
    typed = " ".join([f"/{path}", *(f"{text(one, 'name')}:{_quoted(_value(one))}" for one in options)])
    return _used(data, us, place, now, MessageKind.COMMAND, typed, private=is_private(data, forms))


def choice_of(data: Payload) -> str:
    """Return the choice of ours that was pressed; empty for whatever else stands below a message."""
    pressed = text(part(data, "data"), "custom_id")
    return "" if read_ref(pressed) is None else pressed


def to_press(data: Payload, *, us: Us, place: Place, now: datetime) -> InboundMessage | Ignored:
    """Return a button's pressing in our words. What it says of the presser's rights holds now."""
    pressed, below = choice_of(data), ref(part(data, "message"), "id")
    if not (pressed and below):
        return Ignored(Why.MALFORMED)
    message = _used(data, us, place, now, MessageKind.BUTTON, pressed, private=True)
    return message if isinstance(message, Ignored) else replace(message, reply_to=below)


def _used(
    data: Payload, us: Us, place: Place, now: datetime, kind: MessageKind, words: str, *, private: bool
) -> InboundMessage | Ignored:
    key, room, token = ref(data, "id"), ref(data, "channel_id"), text(data, "token")
    member = part(data, "member")
    user = part(member, "user") or part(data, "user")
    at = time_of(key)
    if not (key and room and token and ref(user, "id")) or at is None:
        return Ignored(Why.MALFORMED)
    hook = Hook(ref(data, "application_id") or us.bot_ref, private, token)
    found = {Address.COMMAND} | ({Address.DM} if place.surroundings.kind is RoomKind.DM else set())
    return InboundMessage(
        front_end=PLATFORM,
        room=RoomKey(PLATFORM, room),
        message_id=key,
        event_id=key,
        kind=kind,
        person_ref=ref(user, "id"),
        display_name=text(member, "nick") or text(user, "global_name") or text(user, "username"),
        username=text(user, "username"),
        origin=Origin.BOT if user.get("bot") is True else Origin.HUMAN,
        text=words,
        sent_at=at,
        received_at=now,
        surroundings=place.surroundings,
        answer_token=hook.text(),
        addressed_by=frozenset(found),
        quiet_window=False,
        admin=is_admin(number(member, "permissions")),
        moderator=may_moderate(number(member, "permissions")),
    )


def _path(data: Payload) -> tuple[str, Sequence[Payload]]:
    """Return the words of a command and its filled options."""
    names, options = [text(data, "name")], parts(data, "options")
    while len(options) == 1 and number(options[0], "type") in (_SUBCOMMAND, 2):
        names.append(text(options[0], "name"))
        options = parts(options[0], "options")
    return " ".join(filter(None, names)), options


def _value(option: Payload) -> str:
    value = option.get("value")
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if isinstance(value, str | int | float) else ""


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
