"""The front ends of the platforms that have a token. A library is loaded only where it is used."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import SecretStr

from bot.adapters.addressing import Names
from bot.commands import COMMANDS
from bot.commands.spec import Access, CommandSpec, OptionType, Visibility
from bot.platform_settings import PlatformSettings
from bot.settings import Settings
from core.act_ports import NativeEvents
from core.domain.findings import Examined
from core.domain.platforms import CatchUpLimits
from core.ports import Clock, CommandForm, CommandOption, FrontEnd, OptionKind, PlatformMemory

_LOG = logging.getLogger(__name__)


def forms() -> tuple[CommandForm, ...]:
    """Return the table of commands as front ends render it."""
    return tuple(_form(spec) for spec in COMMANDS)


def _form(spec: CommandSpec) -> CommandForm:
    options = tuple(
        CommandOption(option.name, _KINDS[option.type], option.summary, option.required, option.choices)
        for option in spec.options
    )
    return CommandForm(
        spec.path,
        spec.summary,
        options,
        restricted=spec.access is not Access.MEMBER,
        private=spec.visibility is Visibility.ASKER,
    )


_KINDS = {
    OptionType.WORD: OptionKind.WORD,
    OptionType.TEXT: OptionKind.TEXT,
    OptionType.NUMBER: OptionKind.NUMBER,
    OptionType.FLAG: OptionKind.FLAG,
}


def platforms_of(
    settings: Settings,
    clock: Clock,
    memory: PlatformMemory,
    tell: Callable[[str], None] = lambda line: None,
    events: NativeEvents | None = None,
) -> Sequence[FrontEnd]:
    """Return a front end for each platform with a token.

    `tell` takes what an operator has to know at once; `events` is told of joins and of what others do to members.

    Raises:
        InputRejected: A token cannot be one.
    """
    names = Names(tuple(name.lower() for name in settings.names))
    made: list[FrontEnd] = []

    def alert(line: str) -> None:
        _LOG.error("platform: %s", line)
        tell(line)

    if settings.platforms.discord_token is not None:
        made.append(_discord(settings.platforms, clock, memory, names, alert, events))
    if settings.platforms.telegram_token is not None:
        made.append(_telegram(settings.platforms, clock, memory, names, alert))
    return made


def _discord(
    settings: PlatformSettings,
    clock: Clock,
    memory: PlatformMemory,
    names: Names,
    alert: Callable[[str], None],
    events: NativeEvents | None,
) -> FrontEnd:
    from bot.adapters.discord_chat import DiscordChat
    from bot.adapters.discord_gateway import DiscordSettings

    return DiscordChat(
        DiscordSettings(**_discord_values(settings)),
        clock,
        memory,
        names=names,
        commands=forms(),
        limits=CatchUpLimits(),
        alert=alert,
        events=events,
    )


def _telegram(
    settings: PlatformSettings, clock: Clock, memory: PlatformMemory, names: Names, alert: Callable[[str], None]
) -> FrontEnd:
    from bot.adapters.telegram_chat import TelegramChat, TelegramSettings

    return TelegramChat(
        TelegramSettings(**_telegram_values(settings)),
        clock,
        memory,
        names=names,
        commands=forms(),
        alert=alert,
    )


async def examine_platforms(settings: Settings, clock: Clock) -> Mapping[str, Examined]:
    """Return what each platform with a token says of the bot, by name; takes no connection from a running process."""
    found: dict[str, Examined] = {}
    if settings.platforms.discord_token is not None:
        from bot.adapters import discord_doctor
        from bot.adapters.discord_gateway import DiscordSettings

        found["discord"] = await discord_doctor.examine(DiscordSettings(**_discord_values(settings.platforms)), clock)
    if settings.platforms.telegram_token is not None:
        from bot.adapters import telegram_doctor
        from bot.adapters.telegram_chat import TelegramSettings

        found["telegram"] = await telegram_doctor.examine(
            TelegramSettings(**_telegram_values(settings.platforms)), clock
        )
    return found


def _discord_values(settings: PlatformSettings) -> dict[str, Any]:
    shard_ids, shard_count = settings.shards
    return {
        "token": _shown(settings.discord_token),
        "api_url": settings.discord_api_url,
        "gateway_url": settings.discord_gateway_url,
        "cdn_url": settings.discord_cdn_url,
        "shard_ids": shard_ids,
        "shard_count": shard_count,
        "guilds": settings.discord_guilds,
    }


def _telegram_values(settings: PlatformSettings) -> dict[str, Any]:
    return {
        "token": _shown(settings.telegram_token),
        "api_url": settings.telegram_api_url,
        "webhook_url": settings.telegram_webhook_url,
        "webhook_secret": _shown(settings.telegram_webhook_secret),
        "webhook_host": settings.telegram_webhook_host,
        "webhook_port": settings.telegram_webhook_port,
    }


def _shown(secret: SecretStr | None) -> str:
    return "" if secret is None else secret.get_secret_value()
