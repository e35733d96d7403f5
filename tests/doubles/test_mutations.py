"""A wrong double turns the tests of the platforms red: each mutation is run against the test that is named for it."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tests.crash.processes import ROOT
from tests.doubles.discord_faults import Mutation as Discord
from tests.doubles.mutations import VARIABLE
from tests.doubles.telegram_faults import Mutation as Telegram

PLATFORM = Path("tests/platform")
SENDING, CONNECTION = PLATFORM / "test_discord_sending.py", PLATFORM / "test_discord_connection.py"
TELEGRAM_SENDING, LISTENING = PLATFORM / "test_telegram_sending.py", PLATFORM / "test_telegram_listening.py"
# Each case is a run of its own: every day the one that a doubled answer hangs on, the others in long runs.
DAILY = {Discord.NO_NONCE_FOLD}

CASES: list[tuple[Discord | Telegram, Path, str]] = [
    (Discord.NO_NONCE_FOLD, SENDING, "test_commit_then_502_is_one_message"),
    (Discord.RESUME_REPLAYS_NOTHING, CONNECTION, "test_resume_loses_and_doubles_nothing"),
    (Discord.RESUME_ONE_TOO_MANY, CONNECTION, "test_resume_loses_and_doubles_nothing"),
    (Discord.NO_VIA, SENDING, "test_unannounced_429_is_waited_out"),
    (Discord.JSON_CHARSET, SENDING, "test_round_trip_discord"),
    (Discord.NO_CONTENT_LIMIT, SENDING, "test_parts_fit_the_platform"),
    (Telegram.COUNT_CODE_POINTS, TELEGRAM_SENDING, "test_emoji_text_fits_telegram"),
    (Telegram.CONFIRM_ON_FETCH, LISTENING, "test_kill_after_fetch_loses_nothing"),
    (Telegram.NO_409, LISTENING, "test_a_poller_of_another_house_is_told_of_once"),
    (Telegram.NO_PRIVACY, LISTENING, "test_under_privacy_mode_talk_of_others_does_not_arrive"),
]
# The same with whole bots that are really killed.
KILLS: list[tuple[Discord | Telegram, Path, str]] = [
    (
        Discord.NO_NONCE_FOLD,
        PLATFORM / "test_kill_discord.py",
        "test_a_bot_killed_anywhere_on_the_line_answers_once[send.arrived-1]",
    ),
    (Telegram.CONFIRM_ON_FETCH, PLATFORM / "test_kill_telegram.py", "test_kill_after_fetch_loses_nothing[1]"),
]


async def run(file: Path, name: str, **environment: str) -> tuple[int | None, str]:
    """Run one test in a process of its own; return its exit code and its last line."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}  # noqa: TID251
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pytest", f"{file}::{name}", "--tb=no", "-p", "no:cacheprovider", "-vv",
        cwd=ROOT, env={**inherited, **environment}, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    said, _ = await process.communicate()
    return process.returncode, said.decode().strip().splitlines()[-1]


@pytest.mark.parametrize(
    ("mutation", "file", "name"),
    [pytest.param(*case, marks=() if case[0] in DAILY else pytest.mark.long) for case in CASES],
    ids=[case[0] for case in CASES],
)
async def test_a_wrong_double_turns_the_named_test_red(mutation: Discord | Telegram, file: Path, name: str) -> None:
    code, last = await run(file, name, **{VARIABLE: mutation.value})
    assert code == pytest.ExitCode.TESTS_FAILED, last
    assert "1 failed" in last and "error" not in last


@pytest.mark.long
@pytest.mark.parametrize(("mutation", "file", "name"), KILLS, ids=[case[0] for case in KILLS])
async def test_a_wrong_double_turns_the_kill_test_red(
    server: str, mutation: Discord | Telegram, file: Path, name: str
) -> None:
    code, last = await run(file, name, DATABASE_URL=server)
    assert code == pytest.ExitCode.OK, last
    code, last = await run(file, name, DATABASE_URL=server, **{VARIABLE: mutation.value})
    assert code == pytest.ExitCode.TESTS_FAILED, last
    assert "1 failed" in last and "error" not in last


def test_every_mutation_of_discord_has_a_named_test() -> None:
    assert {case[0] for case in CASES} >= set(Discord)
