"""The benchmarks run and print the line that their documentation describes; no figure is judged here."""

import asyncio
import importlib
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE

import pytest

from benchmarks import state
from bot.settings import PROJECT

BY_HAND = ("overhead", "intake")
KEYS = {
    *("benchmark", "quick", "messages", "answered", "silent", "rate_per_s", "rooms", "overhead_ms", "accept_ms"),
    *("cpu_ms", "fdatasync_ms", "waits_for_disk", "load", "machine", "verdict", "start", "worse"),
}


async def run(*arguments: str, **variables: str) -> str:
    environment = {**os.environ, **variables}  # noqa: TID251  # for a child
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *arguments, cwd=PROJECT, env=environment, stdout=PIPE, stderr=DEVNULL
    )
    printed, _ = await process.communicate()
    assert process.returncode == 0
    return printed.decode()


@pytest.mark.parametrize("name", [*BY_HAND, "startup", "import_speed", "state"])
def test_a_benchmark_can_be_imported(name: str) -> None:
    assert importlib.import_module(f"benchmarks.{name}").__doc__


@pytest.mark.parametrize("name", [pytest.param("overhead", marks=pytest.mark.long), "intake"])
async def test_a_benchmark_says_what_it_does(name: str) -> None:
    assert "--quick" in await run(f"benchmarks.{name}", "--help")


async def test_a_quick_run_of_overhead_prints_one_line_with_its_keys(fresh_dsn: str) -> None:
    printed = await run("benchmarks.overhead", "--quick", DATABASE_URL=fresh_dsn)
    line = json.loads(printed)
    assert set(line) == KEYS
    assert line["answered"] == line["messages"] > 0
    assert set(line["overhead_ms"]) == {"p50", "p90", "p99", "max"}


@pytest.mark.long
async def test_a_quick_run_of_state_prints_a_line_for_each_figure(fresh_dsn: str) -> None:
    printed = await run("benchmarks.state", "--quick", DATABASE_URL=fresh_dsn)
    lines = [json.loads(line) for line in printed.splitlines()]
    assert [line["figure"] for line in lines] == list(state.FIGURES)
    assert all(set(line) == {"figure", "p50_ms", "p99_ms", "per_s"} and line["per_s"] > 0 for line in lines)
