"""The only reader of the environment: every setting, typed, with its default and what to set.

Its law: a value that is wrong, and a `VOIDBOT_` name that nobody knows, stop the start; nothing is guessed.
Variables of the process stand above those of the file `.env` in the project folder; empty ones count as unset, but
for those whose emptiness says something: an empty switch is off.
"""

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_settings import BaseSettings, DotEnvSettingsSource

from bot.archive_settings import ArchiveSettings
from bot.model_list import Listed, Model, ModelEntry, build_model, read_list
from bot.pass_settings import PassSettings
from bot.platform_settings import PlatformSettings, Words
from bot.search_settings import MINILM, OFF, SearchSettings
from bot.setting_checks import SAYS_SOMETHING_EMPTY, base_url, lower, people, zone
from core.domain.errors import Misconfigured
from core.domain.jobs import MOST_SLOTS
from core.providers.minilm import MODEL
from core.providers.model_settings import ProviderKind

PROJECT = Path(__file__).resolve().parents[1]
"""The folder that holds the project: `.env` is read there, and relative paths start there."""
OWN = "VOIDBOT_"
# The test suite's switches share our prefix and are inherited by the processes that it starts.
SUITE = "VOIDBOT_TEST_"
OPENAI = "https://api.openai.com/v1"

M = TypeVar("M", bound=BaseModel)


class SettingsError(Misconfigured):
    """Settings that cannot be used; `lines` has one line for each: what is wrong, what to set."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


def _in_project(path: Path, info: ValidationInfo) -> Path:
    folder: Path = (info.context or {}).get("folder", PROJECT)
    return folder / path.expanduser()


ProjectPath = Annotated[Path, AfterValidator(_in_project)]
Slots = Annotated[int, Field(ge=1, le=MOST_SLOTS)]


class Settings(BaseModel):
    """Everything an operator chooses for one process. The descriptions say what to set."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_by_name=True,
        validate_by_alias=True,
        validate_default=True,
        hide_input_in_errors=True,
    )

    # Where data lives
    home: ProjectPath = Field(Path(".voidbot"), alias="VOIDBOT_HOME", description="folder of data, logs and backups")
    database_url: SecretStr | None = Field(
        None,
        alias="DATABASE_URL",
        description="postgresql://user:password@host/database of a server; empty starts the embedded one",
    )
    erasure_key: ProjectPath | None = Field(
        None, alias="VOIDBOT_ERASURE_KEY", description="file of the erasure key; empty: erasure.key in the home folder"
    )
    pg_bin: ProjectPath | None = Field(
        None, alias="PG_BIN", description="folder of other Postgres binaries for the embedded server"
    )
    pg_user: str | None = Field(
        None, alias="VOIDBOT_PG_USER", description="account that the embedded server runs as if we are root"
    )
    migrate: Annotated[Literal["auto", "refuse"], BeforeValidator(lower)] = Field(
        "refuse",
        alias="VOIDBOT_MIGRATE",
        description="what to do with an older schema on a server: auto or refuse; embedded is always auto",
    )

    # Pages, logs
    http_host: str = Field(
        "127.0.0.1", alias="VOIDBOT_HTTP_HOST", description="address that the health page listens on"
    )
    http_port: int = Field(
        8642, ge=0, le=65535, alias="VOIDBOT_HTTP_PORT", description="its port, 0 to 65535; 0 takes a free one"
    )
    log_level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(lower)] = Field(
        "info", alias="VOIDBOT_LOG_LEVEL", description="debug, info, warning or error"
    )
    log_format: Annotated[Literal["json", "console"], BeforeValidator(lower)] = Field(
        "json", alias="VOIDBOT_LOG_FORMAT", description="json or console"
    )

    # The bot
    names: Words = Field(
        ("void", "voidbot"),
        min_length=1,
        alias="VOIDBOT_NAMES",
        description="names the bot answers to, with commas between them",
    )
    timezone: Annotated[str, AfterValidator(zone)] = Field(
        "UTC", alias="VOIDBOT_TIMEZONE", description="time zone of new communities, such as Europe/Berlin"
    )
    language: str = Field(
        "en",
        pattern=r"^[a-z]{2}(-[A-Z]{2})?$",
        alias="VOIDBOT_LANGUAGE",
        description="language of new communities, such as en or pt-BR",
    )
    operators: Annotated[Words, AfterValidator(people)] = Field(
        (),
        alias="VOIDBOT_OPERATORS",
        description="people who may operate the bot: platform:account, with commas between them",
    )
    sample: bool | None = Field(
        None,
        alias="VOIDBOT_SAMPLE",
        description="true or false: load the sample community; empty loads it where a terminal chat starts",
    )

    # Models
    models_file: ProjectPath | None = Field(
        None, alias="VOIDBOT_MODELS", description="TOML file that lists models; see models.example.toml"
    )
    model: str | None = Field(
        None,
        alias="VOIDBOT_MODEL",
        description="name of one model at OPENAI_BASE_URL or ANTHROPIC_API_KEY's provider",
    )
    model_window: int = Field(
        11000,
        ge=2048,
        alias="VOIDBOT_MODEL_WINDOW",
        description="tokens that VOIDBOT_MODEL reads and writes in one call, at least 2048",
    )
    model_price_in: Decimal | None = Field(
        None, ge=0, alias="VOIDBOT_MODEL_PRICE_IN", description="dollars for a million tokens it reads"
    )
    model_price_out: Decimal | None = Field(
        None, ge=0, alias="VOIDBOT_MODEL_PRICE_OUT", description="dollars for a million tokens it writes"
    )
    openai_base_url: Annotated[str, AfterValidator(base_url)] | None = Field(
        None, alias="OPENAI_BASE_URL", description="address of an OpenAI-compatible server, mostly ending in /v1"
    )
    openai_api_key: SecretStr | None = Field(
        None, alias="OPENAI_API_KEY", description="key of that server; empty if it wants none"
    )
    anthropic_api_key: SecretStr | None = Field(
        None, alias="ANTHROPIC_API_KEY", description="key for Anthropic's models"
    )
    usd_per_day: float = Field(
        2, ge=0, alias="VOIDBOT_USD_PER_DAY", description="most dollars a day for all models; 0 allows no paid call"
    )

    # Workers
    chat_slots: Slots = Field(16, alias="VOIDBOT_CHAT_SLOTS", description="answers made at once, 1 to 96")
    send_slots: Slots = Field(
        8, alias="VOIDBOT_SEND_SLOTS", description="messages sent at once for each front end, 1 to 96"
    )
    upkeep_slots: Slots = Field(4, alias="VOIDBOT_UPKEEP_SLOTS", description="background jobs done at once, 1 to 96")
    dead_after_s: float = Field(
        15,
        ge=5,
        le=600,
        alias="VOIDBOT_DEAD_AFTER_S",
        description="seconds without a heartbeat after which a worker's jobs go to others, 5 to 600",
    )
    drain_s: float = Field(
        20,
        ge=0,
        le=600,
        alias="VOIDBOT_DRAIN_S",
        description="seconds that running jobs get to finish when the process stops, 0 to 600",
    )

    # Read from the files and variables that the fields above name
    models: tuple[Model, ...] = Field((), exclude=True)
    platforms: PlatformSettings = Field(PlatformSettings(), exclude=True)
    search: SearchSettings = Field(SearchSettings(), exclude=True)
    archive: ArchiveSettings = Field(ArchiveSettings(), exclude=True)
    passes: PassSettings = Field(PassSettings(), exclude=True)

    @property
    def http_outside(self) -> bool:
        """Whether the operator named the address, so that it may be other than loopback."""
        return "http_host" in self.model_fields_set

    @property
    def http_chosen(self) -> bool:
        """Whether the operator named the port, so that roles without pages answer health checks there too."""
        return "http_port" in self.model_fields_set

    def secrets(self) -> tuple[str, ...]:
        """Return every secret value, so that logs can hide them."""
        own = (self.database_url, self.openai_api_key, self.anthropic_api_key)
        keys = (*self.platforms.secrets(), *self.search.secrets(), *(model.settings.api_key for model in self.models))
        return tuple({secret.get_secret_value() for secret in (*own, *keys) if secret is not None})

    def notes(self) -> tuple[str, ...]:
        """Return what works and is probably not meant, one line each."""
        lines = []
        if not self.models and (self.openai_api_key or self.anthropic_api_key or self.openai_base_url):
            lines.append("a model's provider is set but no model; answers are quotes until VOIDBOT_MODEL is set")
        lines += [
            f"{model.settings.name}: has no price, so VOIDBOT_USD_PER_DAY does not count it; "
            "set its prices if it is paid for"
            for model in self.models
            if model.settings.prices is None and model.settings.api_key is not None
        ]
        return tuple(lines)

    @model_validator(mode="after")
    def _one_way_to_name_models(self) -> Self:
        if self.model and self.models_file:
            raise ValueError("VOIDBOT_MODEL and VOIDBOT_MODELS: both are set; set one of them")
        if (self.model_price_in is None) != (self.model_price_out is None):
            raise ValueError("VOIDBOT_MODEL_PRICE_IN and VOIDBOT_MODEL_PRICE_OUT: set both or none")
        return self


SECTIONS: tuple[type[BaseModel], ...] = (Settings, PlatformSettings, SearchSettings, ArchiveSettings, PassSettings)
SAYING = frozenset(
    field.alias
    for section in SECTIONS
    for field in section.model_fields.values()
    if SAYS_SOMETHING_EMPTY in field.metadata
)
"""Variables that say something when they are empty."""


class Environment:
    """The variables a process was given. Sections of adapters are read from the same ones."""

    def __init__(self, variables: Mapping[str, str], folder: Path = PROJECT) -> None:
        self._variables = _said(variables)
        self._folder = folder

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None, folder: Path = PROJECT) -> Self:
        """Return the variables of `environ` (None: of this process) above those of `folder/.env`."""
        given = os.environ if environ is None else environ  # noqa: TID251  # the only reader
        return cls({**_dot_env(folder / ".env"), **_said(given)}, folder)

    def secret(self, name: str) -> SecretStr | None:
        """Return the value of one variable whose name stands in a file; None if it is not set."""
        value = self._variables.get(name)
        return None if value is None else SecretStr(value)

    def read_section(self, model: type[M]) -> M:
        """Return `model` filled from the variables that its fields name as aliases.

        Raises:
            SettingsError: A value is wrong or missing.
        """
        names = variable_names(model)
        given = {name: self._variables[name] for name in names if name in self._variables}
        try:
            return model.model_validate(given, context={"folder": self._folder})
        except ValidationError as exc:
            raise SettingsError(_lines(model, exc)) from None

    def settings(self, sections: Iterable[type[BaseModel]] = ()) -> Settings:
        """Return the settings of this process.

        Args:
            sections: Models that adapters read for themselves; their names are known too.

        Raises:
            SettingsError: Every wrong value and every unknown `VOIDBOT_` name at once.
        """
        lines = self._unknown([*SECTIONS, *sections])
        read: dict[type[BaseModel], BaseModel] = {}
        for section in SECTIONS:
            try:
                read[section] = self.read_section(section)
            except SettingsError as exc:
                lines += exc.lines
        settings, search = read.get(Settings), read.get(SearchSettings)
        if not isinstance(settings, Settings) or not isinstance(search, SearchSettings) or len(read) < len(SECTIONS):
            raise SettingsError(lines)
        try:
            listed = _listed(settings, self)
        except Misconfigured as exc:
            raise SettingsError([*lines, *exc.message.splitlines()]) from None
        search = search.model_copy(update={"entries": listed.embeddings})
        if lines := [*lines, *search.wrong()]:
            raise SettingsError(lines)
        more = {"platforms": read[PlatformSettings], "archive": read[ArchiveSettings], "passes": read[PassSettings]}
        return settings.model_copy(update={"models": listed.models, "search": search, **more})

    def _unknown(self, models: Iterable[type[BaseModel]]) -> list[str]:
        known = sorted({name for model in models for name in variable_names(model)})
        lines = []
        for name in sorted(self._variables):
            if name.startswith(OWN) and not name.startswith(SUITE) and name not in known:
                near = difflib.get_close_matches(name, known, n=1, cutoff=0)
                lines.append(f"{name}: is no setting; the nearest name is {near[0]}")
        return lines


def variable_names(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the variables that `model` reads, each with its field's name."""
    return {field.alias: name for name, field in model.model_fields.items() if field.alias}


def _said(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that say something."""
    return {name: value for name, value in variables.items() if value.strip() or name in SAYING}


def _dot_env(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    try:
        read = DotEnvSettingsSource(BaseSettings, env_file=path, case_sensitive=True).env_vars
    except (OSError, UnicodeDecodeError) as exc:
        raise SettingsError([f"{path}: cannot be read; make it readable text or remove it"]) from exc
    return {name: value for name, value in read.items() if value is not None}


def _lines(model: type[BaseModel], failure: ValidationError) -> list[str]:
    """Return one line for each wrong value; the value itself may be a secret and is not shown."""
    lines = []
    for error in failure.errors(include_url=False, include_input=False, include_context=False):
        wrong = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
        place = [part for part in error["loc"] if isinstance(part, str)]
        fields = {**{name: name for name in model.model_fields}, **variable_names(model)}
        name = next((part for part in place if part in fields), None)
        if name is None:
            lines.append(wrong)
            continue
        field = model.model_fields[fields[name]]
        lines.append(f"{field.alias or name}: {wrong}; set: {field.description or 'it'}")
    return list(dict.fromkeys(lines))


def _listed(settings: Settings, environment: Environment) -> Listed:
    """Return what the file lists, else the one model of the shortcut, else nothing."""
    if settings.models_file is not None:
        return read_list(settings.models_file, environment.secret, reserved=frozenset({MINILM, OFF, MODEL.name}))
    if settings.model is None:
        return Listed((), ())
    kind, name = _provider(settings, settings.model)
    openai = kind is ProviderKind.OPENAI
    entry = ModelEntry(
        name=name,
        kind=kind,
        base_url=(settings.openai_base_url or OPENAI) if openai else None,
        window_tokens=settings.model_window,
        price_in=settings.model_price_in,
        price_out=settings.model_price_out,
    )
    key = settings.openai_api_key if openai else settings.anthropic_api_key
    return Listed((build_model("VOIDBOT_MODEL", entry, key),), ())


def _provider(settings: Settings, named: str) -> tuple[ProviderKind, str]:
    """Return where the one model is and its name there; a prefix decides between two providers."""
    ready = {
        ProviderKind.OPENAI: bool(settings.openai_base_url or settings.openai_api_key),
        ProviderKind.ANTHROPIC: settings.anthropic_api_key is not None,
    }
    chosen = [kind for kind, is_set in ready.items() if is_set]
    prefix, _, rest = named.partition(":")
    if rest and prefix in chosen:
        return ProviderKind(prefix), rest
    if len(chosen) == 1:
        return chosen[0], named
    if chosen:
        wrong = "two providers are set; write openai:NAME or anthropic:NAME, or list both in VOIDBOT_MODELS"
    else:
        wrong = "no provider is set for it; set OPENAI_BASE_URL, OPENAI_API_KEY or ANTHROPIC_API_KEY"
    raise Misconfigured(f"VOIDBOT_MODEL: {wrong}")
