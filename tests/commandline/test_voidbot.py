"""The program as a person starts it: real processes, a real home, real signals.

What is about how a process begins or ends is shown with new interpreters, the rest with forks of one.
"""

import asyncio
import json
import os
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from bot.cli import main
from tests.commandline.processes import NEW, PATIENCE_S, environment, run, running
from tests.conftest import on_database, run_sql


@pytest.fixture(scope="module")
def home() -> Path:
    """A home that a server's other account may enter, kept for the file: a first start takes its time."""
    folder = Path(tempfile.mkdtemp(prefix="voidbot-cli-"))
    folder.chmod(0o755)
    return folder


def objects(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


async def test_a_script_is_answered_and_the_process_ends_cleanly(home: Path) -> None:
    code, out, err = await run(home, "up", interpreter=NEW, given="void, when are you open on saturday?\n/why\n")
    assert code == 0, err
    assert "Saturday from 10:00 to 18:00" in out and "Receipt" in out


async def test_a_bad_line_gives_an_error_and_the_rest_is_answered(home: Path) -> None:
    lines = ['{"text": "@void who keeps the key?", "id": 1}', "no json", '{"text": "just talking", "id": 3}']
    code, out, _ = await run(home, "chat", "--json", given="\n".join(lines) + "\n")
    found = objects(out)
    assert code == 2
    assert [each["line"] for each in found if each["kind"] == "error"] == [2]
    (message,) = [each for each in found if each["kind"] == "message"]
    assert message["input_id"] == 1 and message["provider"] == "quotes" and "Jonas" in str(message["text"])
    decisions = {each["input_id"]: each["outcome"] for each in found if each["kind"] == "decision"}
    assert decisions == {1: "reply", 3: "no_speech"}


async def test_a_second_terminal_joins_a_running_one(home: Path) -> None:
    async with running(home, "up", "--no-chat"):
        code, out, err = await run(home, "chat", "--json", given='{"text": "@void laser cutter materials?"}\n')
        assert code == 0, err
        assert any(each["kind"] == "message" for each in objects(out))


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
async def test_an_idle_process_ends_on_a_signal(home: Path, number: signal.Signals) -> None:
    async with running(home, "up", "--no-chat", interpreter=NEW) as process:
        process.send_signal(number)
        assert await asyncio.wait_for(process.wait(), 15) == 0


async def test_after_a_kill_the_next_start_answers(home: Path) -> None:
    async with running(home, "up", "--no-chat", interpreter=NEW) as process:
        process.kill()
        await process.wait()
    code, out, err = await run(home, "up", given="void, who keeps the spare key?\n")
    assert code == 0, err
    assert "spare key" in out


@pytest.mark.parametrize(
    "closed",
    ["<&- >&- 2>&-", *(pytest.param(one, marks=pytest.mark.long) for one in ("<&-", ">&-", "2>&-"))],
)
async def test_a_closed_stream_is_an_empty_one(home: Path, closed: str) -> None:
    line = '{"text": "just talking", "id": 1}'
    script = f'echo \'{line}\' | "$0" -m bot.cli chat --json {closed}; echo "code $?" >&1'
    process = await asyncio.create_subprocess_exec(
        "sh", "-c", script, sys.executable, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment(home)
    )
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert out.endswith(b"code 0\n") and b"Traceback" not in err, err
    assert (b"not_addressed" in out) == (closed == "2>&-")


@pytest.mark.parametrize("wait", ["nan", "inf", "-1", "soon"])
def test_a_wait_that_is_no_time_is_refused(wait: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["chat", f"--wait={wait}"])
    assert ended.value.code == 2 and "--wait" in capsys.readouterr().err


async def test_jobs_are_listed_for_people_and_programs(home: Path) -> None:
    _, out, _ = await run(home, "jobs", "list", "--json", "--limit", "5")
    (job, *_rest) = json.loads(out)
    code, shown, _ = await run(home, "jobs", "show", str(job["id"]))
    assert code == 0 and str(job["lane"]) in shown


async def test_a_job_that_is_not_there_is_said_plainly(home: Path) -> None:
    code, _, err = await run(home, "jobs", "retry", "999999")
    assert code == 1 and "999999" in err and "Traceback" not in err


async def test_an_unknown_setting_stops_the_start_with_the_nearest_name(home: Path) -> None:
    code, _, err = await run(home, "up", VOIDBOT_HTTP_PROT="1")
    assert code == 1 and "VOIDBOT_HTTP_PORT" in err and "Traceback" not in err


async def test_a_server_by_address_serves_the_same_line(home: Path, server: str) -> None:
    name = f"commandline_{os.getpid()}"
    await run_sql(server, f"create database {name}")
    address = {"DATABASE_URL": on_database(server, name)}
    try:
        code, _, err = await run(home, "up", **address)
        assert code == 1 and "voidbot db migrate" in err
        code, out, err = await run(home, "db", "migrate", **address)
        assert code == 0 and "schema" in out, err
        code, out, err = await run(home, "up", given="void, who keeps the spare key?\n", **address)
        assert code == 0 and "spare key" in out, err
    finally:
        await run_sql(server, f"drop database {name} with (force)")
