"""`voidbot` processes: forks of one that has loaded everything, or new ones from the first line of Python on."""

import asyncio
import atexit
import os
import subprocess
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
HEALTHY = "health page: "
FORKED, NEW = "forked", "new"


def environment(home: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}  # noqa: TID251
    return {**kept, "VOIDBOT_HOME": str(home), "VOIDBOT_HTTP_PORT": "0", "VOIDBOT_EMBEDDINGS": "off", **more}


@cache
def _forking() -> str:
    """Start the process that is forked; return the path of its socket."""
    folder = tempfile.TemporaryDirectory(prefix="voidbot-forking-")
    path = f"{folder.name}/socket"
    words = [sys.executable, "-m", "tests.commandline.forking", path]
    process = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    atexit.register(folder.cleanup)
    atexit.register(process.wait)
    atexit.register(process.stdin.close)
    return path


async def spawn(words: tuple[str, ...], env: Mapping[str, str], *, interpreter: str, stdin: int = PIPE) -> Process:
    """Start `voidbot` with these words: as a fork, or as a person does, with a new interpreter."""
    program = (
        ["-m", "bot.cli"]
        if interpreter == NEW
        else ["-I", "-S", str(Path(__file__).with_name("asking.py")), _forking()]
    )
    return await asyncio.create_subprocess_exec(
        sys.executable, *program, *words, cwd=ROOT, stdin=stdin, stdout=PIPE, stderr=PIPE, env=env
    )


async def start(home: Path, *words: str, interpreter: str = FORKED, **more: str) -> Process:
    return await spawn(words, environment(home, **more), interpreter=interpreter)


async def run(home: Path, *words: str, given: str = "", interpreter: str = FORKED, **more: str) -> tuple[int, str, str]:
    """Run to the end; return exit code, output and errors."""
    process = await start(home, *words, interpreter=interpreter, **more)
    out, err = await asyncio.wait_for(process.communicate(given.encode()), PATIENCE_S)
    return process.returncode or 0, out.decode(), err.decode()


@asynccontextmanager
async def running(home: Path, *words: str, interpreter: str = FORKED, **more: str) -> AsyncIterator[Process]:
    """Start and wait until the health page listens; end it by SIGTERM if the test has not."""
    process = await start(home, *words, interpreter=interpreter, **more)
    if process.stderr is None:
        raise AssertionError("errors are piped")
    try:
        async with asyncio.timeout(PATIENCE_S):
            while HEALTHY.encode() not in (line := await process.stderr.readline()):
                if not line:
                    raise AssertionError("it ended instead of starting")
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            await asyncio.wait_for(process.wait(), PATIENCE_S)
