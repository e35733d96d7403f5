"""The lists of models and of embedding models in a TOML file: what each entry may say, and what is refused."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from core.domain.errors import Misconfigured
from core.domain.prompt import Tier
from core.prompt.tokens import FAMILIES
from core.providers.embeddings import EmbeddingSettings
from core.providers.model_settings import ModelSettings, ProviderKind

ALL_TIERS = (Tier.DEEP, Tier.FAST, Tier.CHEAP)
_LISTS = {"models": "model", "embeddings": "embedding"}
_PRICES = {
    "price_in": "input_usd",
    "price_out": "output_usd",
    "price_cached": "cached_usd",
    "price_cache_write": "cache_write_usd",
}


class ModelEntry(BaseModel):
    """One `[[models]]` entry; what is left out has the default of `ModelSettings`.

    Prices are dollars for a million tokens; without them the model is not counted in dollars.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: str
    kind: ProviderKind
    base_url: str | None = None
    api_key_env: str | None = Field(None, pattern=r"^[A-Z][A-Z0-9_]*$")
    tiers: tuple[Tier, ...] = Field(ALL_TIERS, min_length=1)
    window_tokens: int | None = Field(None, ge=2048)
    max_output_tokens: int | None = Field(None, ge=64)
    price_in: Decimal | None = None
    price_out: Decimal | None = None
    price_cached: Decimal | None = None
    price_cache_write: Decimal | None = None
    structured: bool | None = None
    vision: bool | None = None
    image_tokens: int | None = Field(None, ge=1)
    family: str | None = None
    bound_factor: float | None = None
    patience: float | None = None
    temperature: float | None = None
    long_limit_name: bool | None = None
    thinks_in_text: bool | None = None

    def settings(self, api_key: SecretStr | None) -> ModelSettings:
        """Return what the provider is built from.

        Raises:
            ValidationError: The entry contradicts itself.
        """
        said = self.model_dump(exclude_none=True, exclude={"api_key_env", "tiers"})
        prices = {inner: said.pop(name) for name, inner in _PRICES.items() if name in said}
        return ModelSettings.model_validate({**said, "api_key": api_key, "prices": prices or None})


class EmbeddingEntry(BaseModel):
    """One `[[embeddings]]` entry: a model behind an address that speaks OpenAI's `/embeddings`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: str
    base_url: str
    dimension: int
    api_key_env: str | None = Field(None, pattern=r"^[A-Z][A-Z0-9_]*$")
    batch_texts: int | None = None
    window_chars: int | None = None

    def settings(self, api_key: SecretStr | None) -> EmbeddingSettings:
        """Return what the embedder is built from.

        Raises:
            ValidationError: A value is out of its bounds.
        """
        said = self.model_dump(exclude_none=True, exclude={"api_key_env"})
        return EmbeddingSettings.model_validate({**said, "api_key": api_key})


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    models: tuple[ModelEntry, ...] = ()
    embeddings: tuple[EmbeddingEntry, ...] = ()

    @model_validator(mode="after")
    def _lists_something(self) -> Self:
        if not self.models and not self.embeddings:
            raise ValueError("lists no models and no embeddings; name one in [[models]] or [[embeddings]]")
        return self


@dataclass(frozen=True, slots=True)
class Model:
    """A model and the tiers it serves."""

    settings: ModelSettings
    tiers: tuple[Tier, ...] = ALL_TIERS


@dataclass(frozen=True, slots=True)
class Listed:
    """What a file lists, each in its order."""

    models: tuple[Model, ...]
    embeddings: tuple[EmbeddingSettings, ...]


def read_list(path: Path, secret: Callable[[str], SecretStr | None], *, reserved: frozenset[str]) -> Listed:
    """Return the models of a file in its order, which is the order of preference within a tier.

    Args:
        path: The TOML file.
        secret: Gives the value of the variable that `api_key_env` names.
        reserved: Names that no embedding model may have.

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
        raise Misconfigured("\n".join(_lines("VOIDBOT_MODELS", exc))) from None
    lines: list[str] = []
    models: list[Model] = []
    for place, entry in enumerate(listed.models, start=1):
        where = f"VOIDBOT_MODELS: model {place}"
        if (key := _key(where, entry, secret, lines)) is _MISSING:
            continue
        if any(entry.name == other.settings.name for other in models):
            lines.append(f"{where}: another one has its name; names must differ")
        try:
            models.append(build_model(where, entry, key))
        except Misconfigured as exc:
            lines.append(exc.message)
    embeddings = _embeddings(listed.embeddings, secret, reserved, lines)
    if lines:
        raise Misconfigured("\n".join(lines))
    return Listed(tuple(models), tuple(embeddings))


_MISSING = SecretStr("")


def _key(
    where: str, entry: ModelEntry | EmbeddingEntry, secret: Callable[[str], SecretStr | None], lines: list[str]
) -> SecretStr | None:
    """Return the key that an entry names, None if it names none; what is not set becomes a line."""
    if entry.api_key_env is None:
        return None
    found = secret(entry.api_key_env)
    if found is None:
        lines.append(f"{where}: set the variable {entry.api_key_env}, its key")
        return _MISSING
    return found


def _embeddings(
    entries: Sequence[EmbeddingEntry],
    secret: Callable[[str], SecretStr | None],
    reserved: frozenset[str],
    lines: list[str],
) -> list[EmbeddingSettings]:
    made: list[EmbeddingSettings] = []
    for place, entry in enumerate(entries, start=1):
        where = f"VOIDBOT_MODELS: embedding {place}"
        if (key := _key(where, entry, secret, lines)) is _MISSING:
            continue
        if entry.name in reserved or any(entry.name == other.name for other in made):
            lines.append(f"{where}: another one has its name; names must differ")
        try:
            made.append(entry.settings(key))
        except ValidationError as exc:
            lines += _lines(where, exc)
    return made


def build_model(where: str, entry: ModelEntry, api_key: SecretStr | None) -> Model:
    """Return an entry as a model.

    Raises:
        Misconfigured: It contradicts itself; each line starts with `where`.
    """
    if entry.family is not None and entry.family not in FAMILIES:
        raise Misconfigured(f"{where}: family: must be one of {', '.join(FAMILIES)}")
    try:
        return Model(entry.settings(api_key), entry.tiers)
    except ValidationError as exc:
        raise Misconfigured("\n".join(_lines(where, exc))) from None


def _lines(where: str, failure: ValidationError) -> list[str]:
    """Return one line for each wrong value, in the words of the file."""
    told: Mapping[str, str] = {inner: name for name, inner in _PRICES.items()}
    lines = []
    for error in failure.errors(include_url=False, include_input=False, include_context=False):
        wrong = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
        place = [where]
        for part in error["loc"]:
            if isinstance(part, int) and place[-1] in _LISTS:
                place[-1] = f"{_LISTS[place[-1]]} {part + 1}"
            elif part != "prices":
                place.append(told.get(str(part), str(part)))
        if place[-1] == "api_key":
            wrong = "keys are not kept in this file; name the variable that holds it in api_key_env"
        lines.append(": ".join([*place, wrong]))
    return lines
