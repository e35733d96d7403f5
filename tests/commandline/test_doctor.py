"""The doctor as an operator calls it: one line for each check, an exit code, and everything else left as it was."""

import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from bot.doctor import LITTLE_BYTES, examine_names, examine_space
from core.domain.findings import Examined, Verdict
from core.store.embedded_place import FIRST_START_BYTES
from tests.commandline.processes import NEW, run, running
from tests.conftest import TEST_CLOCK, on_database, run_sql
from tests.doubles.discord_server import DiscordServer
from tests.doubles.model_server import Fail, ModelServer, Say
from tests.doubles.telegram_server import TelegramServer


@pytest.fixture
def home() -> Iterator[Path]:
    """A home that does not exist yet."""
    folder = Path(tempfile.mkdtemp(prefix="voidbot-doctor-"))
    folder.chmod(0o755)
    yield folder / "home"
    shutil.rmtree(folder, ignore_errors=True)


async def examined(home: Path, *words: str, **more: str) -> tuple[int, dict[str, list[dict[str, str]]]]:
    """Run the doctor for programs; return its exit code and the findings by check."""
    code, out, err = await run(home, "doctor", "--json", *words, **more)
    assert "Traceback" not in err and err == "", err
    found: dict[str, list[dict[str, str]]] = {}
    for line in out.splitlines():
        finding = json.loads(line)
        assert set(finding) == {"check", "verdict", "what", "remedy"}
        assert (finding["verdict"] == "ok") == (finding["remedy"] == ""), finding
        found.setdefault(finding["check"], []).append(finding)
    assert code == any(each["verdict"] == "wrong" for several in found.values() for each in several)
    return code, found


async def test_a_fresh_machine_is_well_and_stays_fresh(home: Path) -> None:
    code, out, err = await run(home, "doctor", interpreter=NEW)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert [line for line in lines if not line.startswith(("ok       ", "warning  "))] == []
    assert any("database: embedded; the first start makes it" in line for line in lines)
    assert any("models: none is set, answers are quotes; to do: set VOIDBOT_MODEL" in line for line in lines)
    assert not home.exists()


async def test_wrong_settings_are_told_one_by_one(home: Path) -> None:
    code, found = await examined(home, VOIDBOT_HTTP_PROT="1", VOIDBOT_TIMEZONE="Mars/North", TELEGRAM_TOKEN="x")
    assert code == 1 and set(found) == {"settings"}
    told = {each["what"].partition(":")[0]: each["remedy"] for each in found["settings"]}
    assert set(told) == {"VOIDBOT_HTTP_PROT", "VOIDBOT_TIMEZONE", "TELEGRAM_TOKEN"}
    assert "VOIDBOT_HTTP_PORT" in told["VOIDBOT_HTTP_PROT"] and "Europe/Berlin" in told["VOIDBOT_TIMEZONE"]


@pytest.mark.long
async def test_a_running_process_is_examined_with_its_platforms_and_goes_on(home: Path) -> None:
    async with DiscordServer() as discord, TelegramServer() as telegram:
        guild = discord.add_guild("Workshop")
        room, ada = guild.add_channel("general"), guild.add_member("Ada")
        group, ann = telegram.add_group("Garden", kind="supergroup"), telegram.add_user("Ann")
        addresses = {
            "DISCORD_TOKEN": discord.token,
            "DISCORD_API_URL": discord.api_url,
            "DISCORD_GATEWAY_URL": discord.gateway_url,
            "TELEGRAM_TOKEN": telegram.token,
            "TELEGRAM_API_URL": telegram.api_url,
        }
        async with running(home, "up", "--no-chat", VOIDBOT_SAMPLE="false", **addresses):
            await discord.until(lambda: discord.connected, 30)
            await telegram.until(lambda: len(telegram.called("getUpdates")) > 0, 30)
            code, found = await examined(home, **addresses)
            assert code == 0, found
            assert "Postgres" in found["database"][0]["what"] and "vector" in found["database"][0]["what"]
            for check in ("database.schema", "clock.database", "discord.token", "discord.permissions", "clock.discord"):
                assert found[check][0]["verdict"] == "ok", found[check]
            assert found["telegram.token"][0]["verdict"] == "ok"
            assert found["telegram.privacy"][0]["verdict"] == "warning"
            assert discord.identifies == 1
            await discord.say(ada, room, f"{discord.bot.mention} are you there?")
            await discord.until(lambda: len(discord.messages(room)) == 2, 30)
            await telegram.say(ann, group, f"@{telegram.bot_username} and here?")
            await telegram.until(lambda: len(telegram.messages(group)) == 2, 30)


async def test_refused_tokens_fail_and_are_not_shown(home: Path) -> None:
    async with DiscordServer() as discord, TelegramServer() as telegram:
        code, out, err = await run(
            home,
            "doctor",
            DISCORD_TOKEN="MTA.nobody.knows-this",
            DISCORD_API_URL=discord.api_url,
            TELEGRAM_TOKEN="7:nobody-knows-this",
            TELEGRAM_API_URL=telegram.api_url,
        )
    assert code == 1 and "knows-this" not in out + err
    assert "wrong    discord.token: the platform refuses it; to do: make a new token" in out
    assert "wrong    telegram.token: the platform refuses it; to do: take the token from @BotFather" in out


@pytest.fixture
async def address(server: str) -> AsyncIterator[str]:
    """The address of an empty database."""
    name = f"doctor_{os.getpid()}"
    await run_sql(server, f"create database {name}")
    yield on_database(server, name)
    await run_sql(server, f"drop database {name} with (force)")


async def test_a_schema_that_is_not_this_release_s_is_found(home: Path, address: str) -> None:
    code, found = await examined(home, DATABASE_URL=address)
    (schema,) = found["database.schema"]
    assert code == 1 and "empty" in schema["what"] and schema["remedy"] == "voidbot db migrate"
    assert found["database"][0]["verdict"] == "ok" and "no pooler" in found["database"][0]["what"]
    assert "clock.database" not in found
    assert (await run(home, "db", "migrate", DATABASE_URL=address))[0] == 0
    code, found = await examined(home, DATABASE_URL=address)
    assert code == 0 and found["database.schema"][0]["verdict"] == "ok"


@pytest.mark.long
async def test_a_database_whose_clock_is_off_is_found(home: Path, address: str) -> None:
    await run(home, "db", "migrate", DATABASE_URL=address)
    await run_sql(address, TEST_CLOCK, "update voidbot_test.clock set shift = '10 minutes'")
    code, found = await examined(home, DATABASE_URL=address)
    (clock,) = found["clock.database"]
    assert code == 1 and "600 s behind" in clock["what"] and "timedatectl" in clock["remedy"]


@pytest.mark.long
async def test_a_database_in_another_encoding_is_found(home: Path, server: str) -> None:
    name = f"doctor_latin_{os.getpid()}"
    await run_sql(server, f"create database {name} encoding 'LATIN1' locale 'C' template template0")
    try:
        code, found = await examined(home, DATABASE_URL=on_database(server, name))
    finally:
        await run_sql(server, f"drop database {name} with (force)")
    wrong = [each for each in found["database"] if "LATIN1" in each["what"]]
    assert code == 1 and wrong[0]["remedy"] == "create it with encoding UTF8"


async def test_a_database_that_is_away_or_no_address_is_found(home: Path, server: str) -> None:
    code, found = await examined(home, DATABASE_URL="postgresql://someone:s3cret@127.0.0.1:9/db")
    assert code == 1 and "DATABASE_URL" in found["database"][0]["remedy"] and "s3cret" not in str(found)
    code, found = await examined(home, DATABASE_URL="mysql://127.0.0.1/db")
    assert code == 1 and "must start with postgresql://" in found["database"][0]["what"]
    code, found = await examined(home, DATABASE_URL=on_database(server, "nobody_made_this"))
    assert code == 1 and "DATABASE_URL" in found["database"][0]["remedy"]


async def test_models_are_asked_only_when_told_to(home: Path) -> None:
    async with ModelServer(Say(["pong"])) as model:
        given = {"OPENAI_BASE_URL": model.url, "VOIDBOT_MODEL": "small"}
        _, found = await examined(home, **given)
        assert "--models" in found["models"][0]["what"] and model.calls == []
        code, found = await examined(home, "--models", **given)
        assert code == 0 and "answers" in found["model.small"][0]["what"]
        (call,) = model.calls
        assert len(str(call.body)) < 400


async def test_a_model_that_does_not_answer_is_found(home: Path) -> None:
    expected = {
        401: ("key refused", "key"),
        404: ("not known", "name"),
        400: ("refused", "provider"),
        503: ("failed", "server"),
    }
    async with AsyncExitStack() as stack:
        entries = [
            f'[[models]]\nname = "m{status}"\nkind = "openai"\nbase_url = "{server.url}"\n'
            for status in expected
            for server in [await stack.enter_async_context(ModelServer(Fail(status)))]
        ]
        home.mkdir()
        (home / "models.toml").write_text("\n".join(entries))
        code, found = await examined(home, "--models", VOIDBOT_MODELS=str(home / "models.toml"))
    assert code == 1
    for status, (word, remedy) in expected.items():
        (finding,) = found[f"model.m{status}"]
        assert word in finding["what"] and remedy in finding["remedy"]


@pytest.mark.long
async def test_a_model_s_address_that_leads_nowhere_is_found(home: Path) -> None:
    code, found = await examined(home, "--models", OPENAI_BASE_URL="http://127.0.0.1:9/v1", VOIDBOT_MODEL="small")
    assert code == 1 and "OPENAI_BASE_URL" in found["model.small"][0]["remedy"]


@pytest.mark.long
async def test_a_key_without_a_model_is_a_warning(home: Path) -> None:
    code, found = await examined(home, OPENAI_API_KEY="k")
    assert code == 0 and any(each["verdict"] == "warning" for each in found["settings"])


@pytest.mark.parametrize(
    ("free", "verdict"),
    [
        (FIRST_START_BYTES - 1, Verdict.WRONG),
        (FIRST_START_BYTES, Verdict.WARNING),
        (LITTLE_BYTES - 1, Verdict.WARNING),
        (LITTLE_BYTES, Verdict.OK),
    ],
)
def test_a_disk_that_fills_is_found(free: int, verdict: Verdict) -> None:
    finding = examine_space(Path("/srv/bot"), free)
    assert finding.verdict is verdict and "/srv/bot" in finding.what
    assert ("VOIDBOT_HOME" in finding.remedy) == (verdict is not Verdict.OK)


@pytest.mark.parametrize(
    ("names", "verdict", "word"),
    [
        (("void", "voidbot"), Verdict.OK, "void, voidbot"),
        (("Void",), Verdict.OK, "Void"),
        (("@void",), Verdict.WRONG, "never heard"),
        (("my bot",), Verdict.WRONG, "never heard"),
        (('"void"',), Verdict.WRONG, "never heard"),
        (("vo",), Verdict.WARNING, "short"),
    ],
)
def test_a_name_that_is_never_heard_is_found(names: tuple[str, ...], verdict: Verdict, word: str) -> None:
    (finding,) = examine_names(names, {})
    assert finding.verdict is verdict and word in finding.what


@pytest.mark.parametrize(
    ("shown", "fits"), [("Void", True), ("The Void Helper", True), ("VoidBot", True), ("Robin", False), ("", True)]
)
def test_an_account_that_is_called_otherwise_is_found(shown: str, fits: bool) -> None:
    (finding,) = examine_names(("void", "voidbot"), {"discord": Examined((), shown)})
    assert (finding.verdict is Verdict.OK) == fits
    assert fits or (shown in finding.what and "VOIDBOT_NAMES" in finding.remedy)
