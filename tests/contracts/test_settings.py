"""Settings: defaults, refusals with what to set, secrets that stay hidden, and the documented example."""

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic.fields import FieldInfo

from bot.archive_settings import ArchiveSettings
from bot.model_list import EmbeddingEntry, ModelEntry
from bot.pass_settings import PassSettings
from bot.platform_settings import PlatformSettings
from bot.search_settings import SearchSettings
from bot.settings import PROJECT, Environment, Settings, SettingsError, variable_names
from core.domain.mind.speech import CandidateKind
from core.domain.passes import PassName, PassPolicy
from core.domain.prompt import Tier
from core.domain.sleeping import read_schedule
from core.domain.speaking import SpeechRules
from core.providers.model_settings import ModelSettings, Prices

LISTED = """
[[models]]
name = "small"
kind = "openai"
base_url = "http://127.0.0.1:9/v1"
tiers = ["fast"]
[[models]]
name = "large"
kind = "anthropic"
api_key_env = "LARGE_KEY"
price_in = 3
price_out = 15
"""


class Section(BaseModel):
    """What an adapter would read for itself."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    token: SecretStr = Field(alias="VOIDBOT_PIGEON_TOKEN", description="the pigeon's token")
    flock: int = Field(3, alias="VOIDBOT_PIGEON_FLOCK")


def load(folder: Path = Path("/nowhere"), /, **variables: str) -> Settings:
    return Environment.read(variables, folder).settings()


def refused(folder: Path = Path("/nowhere"), /, **variables: str) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load(folder, **variables)
    return caught.value.lines


def test_an_empty_environment_gives_the_defaults() -> None:
    settings = load()
    assert settings.home == Path("/nowhere/.voidbot")
    assert (settings.http_host, settings.http_port, settings.usd_per_day) == ("127.0.0.1", 8642, 2)
    assert settings.names == ("void", "voidbot")
    assert settings.models == ()


def test_settings_can_be_made_by_field_name(tmp_path: Path) -> None:
    assert Settings(home=tmp_path, http_port=0).home == tmp_path


def test_an_empty_variable_counts_as_unset() -> None:
    assert load(DATABASE_URL="", VOIDBOT_HTTP_PORT=" ") == load()


def test_the_process_stands_above_the_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("VOIDBOT_HTTP_PORT=1000\nVOIDBOT_LANGUAGE=de\nPOSTGRES_PASSWORD=other\n")
    settings = load(tmp_path, VOIDBOT_HTTP_PORT="2000")
    assert (settings.http_port, settings.language) == (2000, "de")


def test_an_empty_variable_of_the_process_leaves_the_file_standing(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("VOIDBOT_LANGUAGE=de\n")
    assert load(tmp_path, VOIDBOT_LANGUAGE="").language == "de"


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    (tmp_path / ".env").write_bytes(b"VOIDBOT_LANGUAGE=\xff\xfe\n")
    assert str(tmp_path / ".env") in refused(tmp_path)[0]


def test_an_unknown_name_is_refused_with_the_nearest_known_one() -> None:
    assert refused(VOIDBOT_HTTP_PROT="1") == (
        "VOIDBOT_HTTP_PROT: is no setting; the nearest name is VOIDBOT_HTTP_PORT",
    )


def test_an_unknown_name_in_the_file_is_refused_too(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("VOIDBOT_HOMES=x\n")
    assert refused(tmp_path) == ("VOIDBOT_HOMES: is no setting; the nearest name is VOIDBOT_HOME",)


def test_names_of_others_and_of_the_suite_are_left_alone() -> None:
    assert load(HTTP_PROXY="x", VOIDBOT_TEST_DATA="/data") == load()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VOIDBOT_HTTP_PORT", "65536"),
        ("VOIDBOT_HTTP_PORT", "many"),
        ("VOIDBOT_MIGRATE", "maybe"),
        ("VOIDBOT_LOG_LEVEL", "loud"),
        ("VOIDBOT_TIMEZONE", "Middle/Earth"),
        ("VOIDBOT_TIMEZONE", "../etc/passwd"),
        ("VOIDBOT_LANGUAGE", "english"),
        ("VOIDBOT_OPERATORS", "discord"),
        ("VOIDBOT_NAMES", ","),
        ("VOIDBOT_SAMPLE", "perhaps"),
        ("VOIDBOT_USD_PER_DAY", "-1"),
        ("VOIDBOT_CHAT_SLOTS", "0"),
        ("VOIDBOT_DEAD_AFTER_S", "1"),
        ("OPENAI_BASE_URL", "ftp://somewhere"),
        ("OPENAI_BASE_URL", "http://me:hunter2@somewhere/v1"),
        ("QDRANT_URL", "http://me:hunter2@somewhere"),
        ("VOIDBOT_RUMINATION", "enabled"),
        ("VOIDBOT_SLEEP", "yes please"),
        ("VOIDBOT_MOOD", "2"),
        ("VOIDBOT_RUMINATION_MINUTES", "14"),
        ("VOIDBOT_RUMINATION_MINUTES", "1441"),
        ("VOIDBOT_QUIET_HOURS", "22:00"),
        ("VOIDBOT_QUIET_HOURS", "22:00-22:00"),
        ("VOIDBOT_SLEEP_TIMES", "3:75/90m"),
        ("VOIDBOT_SLEEP_TIMES", "03:30/4h"),
        ("VOIDBOT_SLEEP_ZONE", "Middle/Earth"),
        ("VOIDBOT_SPEECH_THRESHOLD", "1.1"),
        ("VOIDBOT_SPEECH_APPROVAL", "gossip"),
        ("VOIDBOT_PASS_SLOTS", "0"),
    ],
)
def test_a_wrong_value_is_one_line_with_its_name_and_what_to_set(name: str, value: str) -> None:
    (line,) = refused(**{name: value})
    assert re.match(rf"{name}: \S.*; set: \w", line)
    assert value not in line.replace(",", " ").split() and "hunter2" not in line


def test_all_that_is_wrong_is_said_at_once() -> None:
    lines = refused(VOIDBOT_HTTP_PORT="x", VOIDBOT_NAME="y", VOIDBOT_LANGUAGE="z")
    assert [line.partition(":")[0] for line in lines] == [
        "VOIDBOT_NAME",
        "VOIDBOT_HTTP_PORT",
        "VOIDBOT_LANGUAGE",
    ]


def test_words_are_parted_by_commas() -> None:
    settings = load(VOIDBOT_NAMES="ada, bot ,", VOIDBOT_OPERATORS="console:me,discord:12")
    assert (settings.names, settings.operators) == (("ada", "bot"), ("console:me", "discord:12"))


def test_only_a_named_address_may_lie_outside() -> None:
    assert not load().http_outside and load(VOIDBOT_HTTP_HOST="0.0.0.0").http_outside  # noqa: S104


def test_only_a_named_port_is_for_every_role() -> None:
    assert not load().http_chosen and load(VOIDBOT_HTTP_PORT="8642").http_chosen


def test_secrets_are_in_no_representation(tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text(LISTED)
    settings = load(
        tmp_path,
        DATABASE_URL="postgresql://u:swordfish-db@host/db",
        OPENAI_API_KEY="swordfish-openai",
        ANTHROPIC_API_KEY="swordfish-anthropic",
        LARGE_KEY="swordfish-large",
        VOIDBOT_MODELS="models.toml",
    )
    shown = f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
    assert "swordfish" not in shown
    assert len(settings.secrets()) == 4 and all("swordfish" in secret for secret in settings.secrets())


def test_settings_do_not_change() -> None:
    with pytest.raises(ValueError, match="frozen"):
        setattr(load(), "http_port", 1)  # noqa: B010  # mypy forbids it in the plain form


# Models


def test_listed_models_keep_their_order_and_get_their_keys(tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text(LISTED)
    small, large = load(tmp_path, VOIDBOT_MODELS="models.toml", LARGE_KEY="k").models
    assert (small.settings.name, small.tiers, small.settings.api_key) == ("small", (Tier.FAST,), None)
    assert large.settings.api_key is not None and large.settings.api_key.get_secret_value() == "k"
    assert large.settings.prices == Prices(input_usd=Decimal(3), output_usd=Decimal(15))
    assert small.settings.window_tokens == ModelSettings.model_fields["window_tokens"].default


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (LISTED, "model 2: set the variable LARGE_KEY"),
        (LISTED.replace("large", "small").replace('api_key_env = "LARGE_KEY"', ""), "names must differ"),
        (LISTED + 'api_key = "swordfish"\n', "api_key_env"),
        (LISTED + "tires = 4\n", "model 2: tires"),
        (LISTED.replace('"fast"', '"slow"'), "model 1: tiers"),
        (LISTED.replace("price_out = 15", ""), "model 2: price_out"),
        (LISTED + "max_output_tokens = 90000\n", "must leave room"),
        (LISTED + 'family = "ancient"\n', "one of default"),
        (LISTED.replace("http://", "http://me:swordfish@"), "must not carry a password"),
        (LISTED.replace('api_key_env = "LARGE_KEY"', ""), "model 2: api_key is needed"),
        ("models = []", "models"),
        ("models = ", "is no TOML"),
    ],
)
def test_a_wrong_list_is_refused_with_the_place(tmp_path: Path, text: str, part: str) -> None:
    (tmp_path / "models.toml").write_text(text)
    keys = {} if "LARGE_KEY" in part else {"LARGE_KEY": "k"}
    lines = refused(tmp_path, VOIDBOT_MODELS="models.toml", **keys)
    assert all(line.startswith("VOIDBOT_MODELS: ") for line in lines)
    assert part in "\n".join(lines) and "swordfish" not in "\n".join(lines)


def test_a_missing_list_is_refused(tmp_path: Path) -> None:
    assert "cannot be read" in refused(tmp_path, VOIDBOT_MODELS="models.toml")[0]


def test_one_model_needs_no_list() -> None:
    settings = load(OPENAI_BASE_URL="http://127.0.0.1:9/v1", VOIDBOT_MODEL="llama3.2:3b")
    (model,) = settings.models
    assert (model.settings.kind, model.settings.name) == ("openai", "llama3.2:3b")
    assert (model.settings.api_key, len(model.tiers)) == (None, 3)
    assert settings.notes() == ()


def test_anthropic_needs_only_its_key() -> None:
    (model,) = load(ANTHROPIC_API_KEY="k", VOIDBOT_MODEL="claude").models
    assert (model.settings.kind, model.settings.base_url) == ("anthropic", None)


def test_with_two_providers_the_name_says_which() -> None:
    keys = {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"}
    (model,) = load(**keys, VOIDBOT_MODEL="anthropic:claude").models
    assert (model.settings.kind, model.settings.name) == ("anthropic", "claude")
    assert "two providers" in refused(**keys, VOIDBOT_MODEL="claude")[0]


@pytest.mark.parametrize(
    ("variables", "part"),
    [
        ({"VOIDBOT_MODEL": "x"}, "no provider is set"),
        ({"VOIDBOT_MODEL": "x", "VOIDBOT_MODELS": "y"}, "set one of them"),
        ({"VOIDBOT_MODEL_PRICE_IN": "1"}, "set both or none"),
    ],
)
def test_half_a_model_is_refused(variables: dict[str, str], part: str) -> None:
    assert part in refused(**variables)[0]


def test_a_key_without_a_model_and_a_paid_model_without_a_price_are_noted() -> None:
    assert "VOIDBOT_MODEL" in load(OPENAI_API_KEY="k").notes()[0]
    assert "no price" in load(OPENAI_API_KEY="k", VOIDBOT_MODEL="m").notes()[0]
    priced = {"VOIDBOT_MODEL_PRICE_IN": "1", "VOIDBOT_MODEL_PRICE_OUT": "2"}
    assert load(OPENAI_API_KEY="k", VOIDBOT_MODEL="m", **priced).notes() == ()


# Unattended work


def test_unset_it_runs_as_the_domain_has_it() -> None:
    passes = load().passes
    assert passes.speech == SpeechRules()
    assert (passes.policy.on, passes.policy.rumination_every) == (PassPolicy().on, PassPolicy().rumination_every)
    assert passes.policy.quiet is not None and not passes.policy.thinks_when_quiet
    assert passes.origins()["VOIDBOT_SLEEP"] == ("on", None)


@pytest.mark.parametrize("spelling", ["off", "OFF", "false", "0", "no", "", "  ", " No "])
def test_every_spelling_of_off_is_off(spelling: str) -> None:
    policy = load(VOIDBOT_RUMINATION=spelling, VOIDBOT_SLEEP=spelling, VOIDBOT_MOOD=spelling).passes.policy
    assert policy.on == {PassName.UPKEEP}


@pytest.mark.parametrize("spelling", ["on", "True", "1", "YES"])
def test_every_spelling_of_on_is_on(spelling: str) -> None:
    settings = load(VOIDBOT_RUMINATION=spelling, VOIDBOT_SLEEP="off")
    assert settings.passes.policy.on == {PassName.RUMINATION, PassName.MOOD, PassName.UPKEEP}
    assert settings.passes.origins()["VOIDBOT_RUMINATION"] == ("on", "VOIDBOT_RUMINATION")


def test_an_empty_switch_of_the_process_stands_above_the_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("VOIDBOT_RUMINATION=on\nVOIDBOT_SLEEP=\n")
    assert load(tmp_path, VOIDBOT_RUMINATION="").passes.policy.on == {PassName.MOOD, PassName.UPKEEP}


def test_quiet_hours_and_what_wants_approval_can_be_none_and_hours_cannot_be_guessed() -> None:
    passes = load(VOIDBOT_QUIET_HOURS="", VOIDBOT_SPEECH_APPROVAL=" ").passes
    assert passes.policy.quiet is None and passes.speech.approval == frozenset()
    chosen = load(VOIDBOT_SPEECH_APPROVAL="direct_reply, self_advocacy,", VOIDBOT_SLEEP_TIMES="4h/1h").passes
    assert chosen.speech.approval == {CandidateKind.DIRECT_REPLY, CandidateKind.SELF_ADVOCACY}
    assert "no time to nap" in refused(VOIDBOT_SLEEP_TIMES="4h/1h, 03:30/90m")[0]


def test_naps_are_counted_in_the_zone_that_is_set_else_in_the_community_s() -> None:
    assert load().passes.schedule("Asia/Tokyo") == read_schedule("03:30/90m", "Asia/Tokyo")
    chosen = load(VOIDBOT_SLEEP_ZONE="Europe/Rome", VOIDBOT_SLEEP_TIMES="14:00/1h,03:30/90m").passes
    assert chosen.schedule("Asia/Tokyo") == read_schedule("03:30/90m,14:00/1h", "Europe/Rome")


# Sections of adapters


def test_an_adapter_reads_its_own_section() -> None:
    environment = Environment.read({"VOIDBOT_PIGEON_TOKEN": "coo"}, Path("/nowhere"))
    section = environment.read_section(Section)
    assert (section.token.get_secret_value(), section.flock) == ("coo", 3)


def test_a_section_without_its_token_says_what_to_set() -> None:
    with pytest.raises(SettingsError, match=r"^VOIDBOT_PIGEON_TOKEN: .*; set: the pigeon's token$"):
        Environment.read({}, Path("/nowhere")).read_section(Section)


def test_names_of_sections_are_known_when_they_are_given() -> None:
    environment = Environment.read({"VOIDBOT_PIGEON_FLOCK": "4"}, Path("/nowhere"))
    assert environment.settings([Section]) == load()
    with pytest.raises(SettingsError, match="VOIDBOT_PIGEON_FLOCK: is no setting"):
        environment.settings()


# The documented example


def example() -> dict[str, str]:
    lines = (PROJECT / ".env.example").read_text().splitlines()
    matches = [re.fullmatch(r"(?:# )?([A-Z][A-Z0-9_]+)=(.*)", line) for line in lines]
    return {match[1]: match[2] for match in matches if match}


def fields() -> dict[str, FieldInfo]:
    """Every variable that is read, with its field."""
    models: list[type[BaseModel]] = [Settings, PlatformSettings, SearchSettings, ArchiveSettings, PassSettings]
    return {name: model.model_fields[field] for model in models for name, field in variable_names(model).items()}


def test_the_example_names_every_setting_and_nothing_else() -> None:
    assert sorted(example()) == sorted(fields())


def test_the_example_shows_the_defaults_of_the_code() -> None:
    def shown(default: Any) -> str:
        if default is None:
            return ""
        if isinstance(default, bool):
            return str(default).lower()
        if isinstance(default, SecretStr):
            return default.get_secret_value()
        return ",".join(default) if isinstance(default, tuple) else str(default)

    assert example() == {name: shown(field.default) for name, field in fields().items()}


def test_the_example_changes_nothing_when_it_is_copied(tmp_path: Path) -> None:
    text = (PROJECT / ".env.example").read_text()
    (tmp_path / ".env").write_text(re.sub(r"(?m)^# (?=[A-Z][A-Z0-9_]+=)", "", text))
    assert load(tmp_path) == load(tmp_path / "elsewhere").model_copy(update={"home": tmp_path / ".voidbot"})


def test_every_setting_says_what_to_set() -> None:
    assert all(field.description for field in fields().values())


def test_the_example_list_of_models_is_a_valid_one() -> None:
    settings = load(VOIDBOT_MODELS=str(PROJECT / "models.example.toml"), ANTHROPIC_API_KEY="k")
    assert [model.settings.kind for model in settings.models] == ["openai", "anthropic"]
    shown = (PROJECT / "models.example.toml").read_text()
    assert all(name in shown for entry in (ModelEntry, EmbeddingEntry) for name in entry.model_fields)


# Search


EMBEDDING = """
[[embeddings]]
name = "vectors"
base_url = "http://127.0.0.1:9/v1"
dimension = 8
api_key_env = "VECTOR_KEY"
"""


def test_a_model_of_vectors_is_taken_from_the_list_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text(EMBEDDING)
    given = {"VOIDBOT_MODELS": "models.toml", "VOIDBOT_EMBEDDINGS": "vectors", "VECTOR_KEY": "swordfish"}
    settings = load(tmp_path, **given)
    (entry,) = settings.search.entries
    assert (settings.models, entry.name, entry.dimension, settings.search.named) == ((), "vectors", 8, True)
    assert "swordfish" in settings.secrets() and "swordfish" not in repr(settings)


def test_without_a_word_the_model_that_ships_is_used_and_off_means_none() -> None:
    assert (load().search.embeddings, load().search.named, load().search.off) == ("minilm", False, False)
    assert load(VOIDBOT_EMBEDDINGS="Off").search.off


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (EMBEDDING, "embedding 1: set the variable VECTOR_KEY"),
        (EMBEDDING.replace('"vectors"', '"minilm"'), "embedding 1: another one has its name"),
        (EMBEDDING.replace("8", "0"), "embedding 1: dimension"),
        (EMBEDDING + "dimensions = 8", "embedding 1: dimensions"),
        (EMBEDDING.replace("http://", "http://me:swordfish@"), "must not carry a password"),
        (EMBEDDING.replace('"vectors"', '"others"'), "VOIDBOT_EMBEDDINGS: no [[embeddings]] entry has this name"),
    ],
)
def test_a_wrong_model_of_vectors_is_refused_with_the_place(tmp_path: Path, text: str, part: str) -> None:
    (tmp_path / "models.toml").write_text(text)
    keys = {} if "VECTOR_KEY" in part else {"VECTOR_KEY": "k"}
    lines = refused(tmp_path, VOIDBOT_MODELS="models.toml", VOIDBOT_EMBEDDINGS="vectors", **keys)
    assert part in "\n".join(lines) and "swordfish" not in "\n".join(lines)


# Platforms


def test_platforms_are_spoken_to_only_with_a_token() -> None:
    assert load().platforms == PlatformSettings() and load().platforms.shards == ((), None)
    platforms = load(
        DISCORD_TOKEN="a.b.c", DISCORD_SHARDS="2-3/8", DISCORD_GUILDS="1, 2", TELEGRAM_TOKEN="1:x"
    ).platforms
    assert (platforms.shards, platforms.discord_guilds) == (((2, 3), 8), ("1", "2"))
    assert {each.get_secret_value() for each in platforms.secrets()} == {"a.b.c", "1:x"}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("TELEGRAM_TOKEN", "hunter2", "is not the form of a token"),
        ("DISCORD_SHARDS", "3", "should match pattern"),
        ("DISCORD_SHARDS", "3-9/8", "names shards that are not there"),
        ("DISCORD_SHARDS", "3-2/8", "names shards that are not there"),
        ("DISCORD_API_URL", "http://me:secret@host", "hold no password"),
        ("TELEGRAM_WEBHOOK_PORT", "70000", "less than or equal to 65535"),
    ],
)
def test_a_wrong_setting_of_a_platform_is_named_and_not_shown(name: str, value: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as refused:
        load(**{name: value})
    assert any(line.startswith(name) for line in refused.value.lines)
    assert "hunter2" not in str(refused.value) and "secret@" not in str(refused.value)


def test_tokens_are_among_the_secrets_that_logs_hide() -> None:
    assert {"a.b.c", "1:x"} <= set(load(DISCORD_TOKEN="a.b.c", TELEGRAM_TOKEN="1:x").secrets())
