"""The settings of the platforms: tokens, addresses, and what of a platform this process serves."""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, model_validator


def _url(url: str) -> str:
    if url and not re.fullmatch(r"(https?|wss?)://[^\s/@]+(/\S*)?", url):
        raise ValueError("must be an address and hold no password")
    return url


def _words(value: object) -> object:
    return tuple(filter(None, (word.strip() for word in value.split(",")))) if isinstance(value, str) else value


def _telegram_token(token: SecretStr | None) -> SecretStr | None:
    if token is not None and not re.fullmatch(r"\d+:[\w-]+", token.get_secret_value()):
        raise ValueError("is not the form of a token, which is digits, a colon and letters")
    return token


Url = Annotated[str, AfterValidator(_url)]
Words = Annotated[tuple[str, ...], BeforeValidator(_words)]


class PlatformSettings(BaseModel):
    """What an operator chooses about Discord and Telegram. A platform without a token is not spoken to."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True, hide_input_in_errors=True
    )

    discord_token: SecretStr | None = Field(
        None, alias="DISCORD_TOKEN", description="token of the bot, from the developer portal; empty: no Discord"
    )
    discord_guilds: Words = Field(
        (),
        alias="DISCORD_GUILDS",
        description="ids of servers that commands are offered in, with commas between them; empty: everywhere",
    )
    discord_shards: str = Field(
        "",
        pattern=r"^(\d+-\d+/\d+)?$",
        alias="DISCORD_SHARDS",
        description="which shards this process holds, such as 0-3/8; empty: all of them",
    )
    discord_api_url: Url = Field(
        "", alias="DISCORD_API_URL", description="another address of its REST interface; empty: the platform's"
    )
    discord_gateway_url: Url = Field(
        "", alias="DISCORD_GATEWAY_URL", description="another address of its gateway; empty: the platform's"
    )
    discord_cdn_url: Url = Field(
        "", alias="DISCORD_CDN_URL", description="another address of its files; empty: the platform's"
    )
    telegram_token: Annotated[SecretStr | None, AfterValidator(_telegram_token)] = Field(
        None, alias="TELEGRAM_TOKEN", description="token of the bot, from @BotFather; empty: no Telegram"
    )
    telegram_api_url: Url = Field(
        "", alias="TELEGRAM_API_URL", description="another server of the Bot API; empty: the platform's"
    )
    telegram_webhook_url: Url = Field(
        "", alias="TELEGRAM_WEBHOOK_URL", description="https address that updates are brought to; empty: fetched"
    )
    telegram_webhook_secret: SecretStr | None = Field(
        None,
        alias="TELEGRAM_WEBHOOK_SECRET",
        description="what the platform shows with each update; empty: a new one at each start",
    )
    telegram_webhook_host: str = Field(
        "127.0.0.1", alias="TELEGRAM_WEBHOOK_HOST", description="address that we listen on for updates"
    )
    telegram_webhook_port: int = Field(
        8443, ge=0, le=65535, alias="TELEGRAM_WEBHOOK_PORT", description="its port, 0 to 65535"
    )

    @property
    def shards(self) -> tuple[tuple[int, ...], int | None]:
        """Return the shards of this process and how many there are; nothing and None for all of them."""
        if not self.discord_shards:
            return (), None
        span, _, count = self.discord_shards.partition("/")
        first, _, last = span.partition("-")
        return tuple(range(int(first), int(last) + 1)), int(count)

    def secrets(self) -> tuple[SecretStr, ...]:
        """Return every secret value."""
        return tuple(
            each for each in (self.discord_token, self.telegram_token, self.telegram_webhook_secret) if each is not None
        )

    @model_validator(mode="after")
    def _shards_exist(self) -> Self:
        shards, count = self.shards
        if count is not None and (not shards or shards[-1] >= count):
            raise ValueError("DISCORD_SHARDS: names shards that are not there; set first-last/count, such as 0-3/8")
        return self
