"""What an operator says about a model: where it is, how large, what it costs, how patient to be with it."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from enum import StrEnum
from typing import Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from core.domain.prompt import Tier, Usage
from core.domain.prompt_policy import PromptPolicy

REBUILT_SHARE = 0.6
"""What is left of the input window when a provider found a prompt too long that we thought would fit."""


class ProviderKind(StrEnum):
    """Which protocol an endpoint speaks."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


class Prices(BaseModel):
    """What a model costs, in US dollars per million tokens. A missing price is that of plain input."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input_usd: Decimal = Field(ge=0)
    output_usd: Decimal = Field(ge=0)
    cached_usd: Decimal | None = Field(default=None, ge=0)
    cache_write_usd: Decimal | None = Field(default=None, ge=0)

    def usd_micro(self, usage: Usage, cache_write_tokens: int = 0) -> int:
        """Return the price in millionths of a dollar, rounded up.

        `usage.input_tokens` includes what was read from the provider's cache or written to it.
        """
        # A dollar per million tokens is a millionth of a dollar per token, so nothing is divided.
        cached = self.input_usd if self.cached_usd is None else self.cached_usd
        written = self.input_usd if self.cache_write_usd is None else self.cache_write_usd
        plain = max(0, usage.input_tokens - usage.cached_tokens - cache_write_tokens)
        total = (
            plain * self.input_usd
            + usage.cached_tokens * cached
            + cache_write_tokens * written
            + usage.output_tokens * self.output_usd
        )
        return int(total.to_integral_value(ROUND_CEILING))


class ModelSettings(BaseModel):
    """One model behind one address.

    `window_tokens` holds input and output. `structured`: the endpoint enforces a JSON schema. `patience`
    stretches the time limits, for models on slow machines. `long_limit_name`: the endpoint wants the
    output limit as `max_completion_tokens`. `thinks_in_text`: thinking may stand in the answer's own text, even
    behind a tag that only closes, so nothing is shown before the end; set it to false to see answers grow.
    `vision`: it reads images, each of which costs at most `image_tokens` of its window.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1)
    kind: ProviderKind = ProviderKind.OPENAI
    base_url: str | None = None
    api_key: SecretStr | None = None
    window_tokens: int = Field(default=11_000, gt=0)
    max_output_tokens: int = Field(default=1_000, gt=0)
    prices: Prices | None = None
    family: str = "default"
    bound_factor: float = Field(default=1.0, ge=1)
    vision: bool = False
    image_tokens: int = Field(default=1_600, gt=0)
    structured: bool = False
    patience: float = Field(default=1.0, ge=1)
    temperature: float | None = Field(default=None, ge=0, le=2)
    long_limit_name: bool = False
    thinks_in_text: bool = True

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.max_output_tokens >= self.window_tokens:
            raise ValueError("max_output_tokens must leave room in window_tokens")
        if self.base_url is None and self.kind is ProviderKind.OPENAI:
            raise ValueError("base_url is needed for an OpenAI-compatible endpoint")
        if self.api_key is None and self.kind is ProviderKind.ANTHROPIC:
            raise ValueError("api_key is needed for Anthropic")
        if self.base_url is not None:
            parts = urlsplit(self.base_url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError("base_url must begin with http:// or https:// and name a host")
            if parts.username or parts.password:
                raise ValueError("base_url must not carry a password; use api_key")
        return self

    @property
    def endpoint(self) -> str:
        """What fails together: models behind one address share a breaker."""
        return f"{self.kind}:{(self.base_url or '').rstrip('/')}"

    @property
    def input_tokens(self) -> int:
        """What the window leaves for the prompt."""
        return self.window_tokens - self.max_output_tokens

    def policy(self) -> PromptPolicy:
        """Return how large a prompt for this model may be; tools and schema are the caller's to add."""
        return PromptPolicy(
            window_tokens=self.window_tokens,
            max_output_tokens=self.max_output_tokens,
            family=self.family,
            bound_factor=self.bound_factor,
            image_tokens=self.image_tokens if self.vision else 0,
        )

    def shrunk(self) -> "ModelSettings":
        """Return the same model with a smaller window, for the one rebuild after a context-length error."""
        smaller = self.max_output_tokens + max(1, int(REBUILT_SHARE * self.input_tokens))
        return self.model_copy(update={"window_tokens": smaller})

    def blind(self) -> "ModelSettings":
        """Return the same model as one that reads no images, for the one rebuild after it refused them."""
        return self.model_copy(update={"vision": False})

    def usd_micro(self, usage: Usage, cache_write_tokens: int = 0) -> int:
        """Return the price of `usage`; 0 for an unpriced model."""
        return 0 if self.prices is None else self.prices.usd_micro(usage, cache_write_tokens)

    def worst_usd_micro(self) -> int:
        """Return what one call can cost at most, under this model's hard cap."""
        if self.prices is None:
            return 0
        tokens = self.policy().hard_cap - self.max_output_tokens
        plain = self.prices.usd_micro(Usage(tokens, self.max_output_tokens))
        return max(plain, self.prices.usd_micro(Usage(tokens, self.max_output_tokens), tokens))


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a call may take, in seconds: to its first delta, between deltas, in all."""

    first_s: float = 20
    between_s: float = 15
    total_s: float = 90

    def stretched(self, factor: float) -> "Limits":
        """Return the limits for a model that is to be waited for `factor` times as long."""
        return Limits(self.first_s * factor, self.between_s * factor, self.total_s * factor)


LIMITS: Mapping[Tier, Limits] = {
    Tier.DEEP: Limits(total_s=180),
    Tier.FAST: Limits(),
    Tier.CHEAP: Limits(first_s=8),
}
