"""The list of models in a TOML file: what each entry may say, and what is refused."""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from core.domain.errors import Misconfigured
from core.domain.prompt import Tier
from core.prompt.tokens import FAMILIES

Provider = Literal["openai", "anthropic"]


class ModelEntry(BaseModel):
    """One `[[models]]` entry. Prices are dollars for a million tokens; None: the model is not priced."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: str = Field(min_length=1)
    kind: Provider
    base_url: str | None = Field(None, pattern=r"^https?://[^\s/@]+(/\S*)?$")
    api_key_env: str | None = Field(None, pattern=r"^[A-Z][A-Z0-9_]*$")
    window_tokens: int = Field(16384, ge=2048)
    max_output_tokens: int = Field(1024, ge=64)
    price_in: float | None = Field(None, ge=0)
    price_out: float | None = Field(None, ge=0)
    price_cached: float | None = Field(None, ge=0)
    tiers: tuple[Tier, ...] = Field((Tier.DEEP, Tier.FAST, Tier.CHEAP), min_length=1)
    structured: bool = False
    vision: bool = False
    family: str = "default"

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.max_output_tokens * 2 > self.window_tokens:
            raise ValueError("max_output_tokens must be at most half of window_tokens")
        if (self.price_in is None) != (self.price_out is None):
            raise ValueError("price_in and price_out: set both or none")
        if self.price_cached is not None and self.price_in is None:
            raise ValueError("price_cached needs price_in and price_out")
        if self.family not in FAMILIES:
            raise ValueError(f"family must be one of: {', '.join(FAMILIES)}")
        if len(set(self.tiers)) < len(self.tiers):
            raise ValueError("tiers must differ")
        return self


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    models: tuple[ModelEntry, ...] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class Model:
    """An entry with its key; None: the server wants none."""

    entry: ModelEntry
    api_key: SecretStr | None = None


def read_models(path: Path, secret: Callable[[str], SecretStr | None]) -> tuple[Model, ...]:
    """Return the models of a file in its order, which is the order of preference within a tier.

    Args:
        path: The TOML file.
        secret: Gives the value of the variable that `api_key_env` names.

    Raises:
        Misconfigured: One line for each thing that is wrong; no value of the file is shown.
    """
    try:
        listed = _File.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError) as exc:
        raise Misconfigured(f"VOIDBOT_MODELS: {path} cannot be read; name a file that exists") from exc
    except tomllib.TOMLDecodeError as exc:
        raise Misconfigured(f"VOIDBOT_MODELS: {path} is no TOML: {exc}") from exc
    except ValidationError as exc:
        raise Misconfigured("\n".join(_lines(exc))) from None
    lines: list[str] = []
    models: list[Model] = []
    for place, entry in enumerate(listed.models, start=1):
        key = secret(entry.api_key_env) if entry.api_key_env else None
        if entry.api_key_env and key is None:
            lines.append(f"VOIDBOT_MODELS: model {place}: set the variable {entry.api_key_env}, its key")
        if any(entry.name == other.entry.name for other in models):
            lines.append(f"VOIDBOT_MODELS: model {place}: another one has its name; names must differ")
        models.append(Model(entry, key))
    if lines:
        raise Misconfigured("\n".join(lines))
    return tuple(models)


def _lines(failure: ValidationError) -> list[str]:
    lines = []
    for error in failure.errors(include_url=False, include_input=False, include_context=False):
        wrong = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
        where = ["VOIDBOT_MODELS"]
        for part in error["loc"]:
            if isinstance(part, int) and where[-1] == "models":
                where[-1] = f"model {part + 1}"
            else:
                where.append(str(part))
        if where[-1] == "api_key":
            wrong = "keys are not kept in this file; name the variable that holds it in api_key_env"
        lines.append(": ".join([*where, wrong]))
    return lines
