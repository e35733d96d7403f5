"""Seconds from nothing to the prompt of `voidbot up`, the same when everything is there, and what idling holds."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from benchmarks.rig import load, say, temporary_home

SETTLED_AFTER_S = 10.0
"""Idle seconds before memory is read: imports and first ticks are over."""
PATIENCE_S = 120.0
LIMIT_MB = 250.0


def start_up() -> dict[str, object]:
    """Start `voidbot up` on an empty home and again on the same one; read its memory while it idles."""
    before = load()
    with temporary_home() as home:
        say("starting on an empty home")
        cold_s, _ = _until_prompt(home, settle_s=0)
        say("starting again")
        warm_s, idle_mb = _until_prompt(home, settle_s=SETTLED_AFTER_S)
    return {
        "cold_s": round(cold_s, 2),
        "warm_s": round(warm_s, 2),
        "idle_mb": round(idle_mb, 1),
        "idle_limit_mb": LIMIT_MB,
        "load": [before, load()],
    }


def _until_prompt(home: Path, *, settle_s: float) -> tuple[float, float]:
    """Return the seconds until the prompt stands, and the resident memory of the one process in MB."""
    keep = ("PATH", "LANG", "HOME", "DATABASE_URL")
    environment = {name: value for name, value in os.environ.items() if name in keep}  # noqa: TID251  # for a child
    environment |= {"VOIDBOT_HOME": str(home), "VOIDBOT_HTTP_PORT": "0", "TERM": "xterm"}
    ours, theirs = pty.openpty()
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "bot.cli", "up"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        _read_until(ours, process, b"/help")
        taken = time.perf_counter() - began
        _drain(ours, settle_s)
        memory = _resident_mb(process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        _drain(ours, 0.2)
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
        process.kill()
        os.close(ours)
    return taken, memory


def _read_until(terminal: int, process: "subprocess.Popen[bytes]", sign: bytes) -> None:
    seen = b""
    deadline = time.perf_counter() + PATIENCE_S
    while sign not in seen:
        if time.perf_counter() > deadline or process.poll() is not None:
            raise AssertionError(f"no prompt came; last words: {seen[-500:]!r}")
        if select.select([terminal], [], [], 0.05)[0]:
            with suppress(OSError):  # the terminal is closed when the process has ended
                seen += os.read(terminal, 65536)


def _drain(terminal: int, seconds: float) -> None:
    """Read on for a while, so that the process never waits for its terminal."""
    deadline = time.perf_counter() + seconds
    while (left := deadline - time.perf_counter()) > 0:
        if select.select([terminal], [], [], left)[0]:
            try:
                if not os.read(terminal, 65536):
                    return
            except OSError:
                return


def _resident_mb(pid: int) -> float:
    """Return the memory of one process, its embedded server not counted."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("/proc has no VmRSS")


if __name__ == "__main__":
    print(json.dumps({"benchmark": "startup", **start_up()}), flush=True)
