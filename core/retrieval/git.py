"""The git binary as a reader: nothing of a repository is run, and nothing of the host is lent to it.

No hooks, filters, pagers, signature programs or submodules; no transport but those named; none of the account's
settings or credentials. What a repository's own configuration asks for is overruled on every command line.
"""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from core.domain.errors import InputRejected, Misconfigured, TimedOut, TooLong, Unavailable
from core.domain.paths import shown

SEARCHED = "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin"
OUTPUT_BYTES = 64 * 1024**2
WORDS_BYTES = 4_096
_ENVIRONMENT = {
    "LC_ALL": "C",
    "TZ": "UTC",
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "GIT_SSH_COMMAND": "/bin/false",
    "GIT_ASKPASS": "/bin/false",
}
_OVERRULED = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.pager=cat",
    "core.sshCommand=/bin/false",
    "core.gitProxy=/bin/false",
    "core.askPass=/bin/false",
    "credential.helper=",
    "protocol.allow=never",
    "protocol.file.allow=never",
    "protocol.ext.allow=never",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "filter.lfs.smudge=",
    "filter.lfs.process=",
    "filter.lfs.required=false",
    "diff.external=",
    "log.showSignature=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=30",
    # A repository of another account may be read: what makes that dangerous elsewhere is off on this line.
    "safe.directory=*",
)
_EXACT = b"fatal: "


@dataclass(frozen=True, slots=True)
class Git:
    """Runs git. `schemes`: transports that a fetch may use; `timeout_s`: for each command, a fetch included."""

    searched: str = SEARCHED
    timeout_s: float = 300.0
    schemes: tuple[str, ...] = ("https",)

    async def read(self, folder: Path, *words: str, given: Sequence[str] = (), may_fail: bool = False) -> bytes | None:
        """Return what a command prints about the repository in `folder`; no transport is allowed.

        Args:
            folder: The working copy or bare repository itself; folders above it are never looked at.
            words: The command.
            given: Lines for its input.
            may_fail: Return None where it ends with 1, its way to say no.

        Raises:
            Misconfigured: git is missing.
            InputRejected: It refuses: no repository, or a damaged one.
            TimedOut, TooLong: It took too long or printed too much.
        """
        code, out, err = await self._run(folder, words, given, "none")
        if code == 1 and may_fail:
            return None
        if code:
            raise InputRejected(f"git: {_reason(err)}", code=code)
        return out

    async def fetch(self, folder: Path, url: str, refspec: str) -> None:
        """Bring one ref from `url` into the bare repository in `folder`.

        Raises:
            Unavailable: The other side did not answer, or wants a password: the same words for both.
        """
        flags = ("--quiet", "--force", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
        words = ("fetch", *flags, "--", url, refspec)
        code, _, err = await self._run(folder, words, (), ":".join(self.schemes))
        if code:
            raise Unavailable(f"git: {_reason(err)}", code=code)

    @asynccontextmanager
    async def running(self, folder: Path, *words: str, schemes: str = "none") -> AsyncIterator[Process]:
        """Run a command beside us; it is ended with everything that it started when the block is left."""
        overruled = [part for setting in _OVERRULED for part in ("-c", setting)]
        allowed = [part for scheme in self.schemes for part in ("-c", f"protocol.{scheme}.allow=always")]
        try:
            process = await asyncio.create_subprocess_exec(
                "git",
                "--no-pager",
                *overruled,
                *(allowed if schemes != "none" else ()),
                "-C",
                str(folder),
                *words,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=self._environment(folder, schemes),
                start_new_session=True,
            )
        except FileNotFoundError as exc:
            raise Misconfigured("git: not found; install it, for example with `apt install git`") from exc
        try:
            yield process
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    def _environment(self, folder: Path, schemes: str) -> dict[str, str]:
        above = str(folder.parent)
        return _ENVIRONMENT | {
            "PATH": self.searched,
            "GIT_CEILING_DIRECTORIES": above,
            "GIT_ALLOW_PROTOCOL": schemes,
        }

    async def _run(
        self, folder: Path, words: Sequence[str], given: Sequence[str], schemes: str
    ) -> tuple[int, bytes, bytes]:
        async with self.running(folder, *words, schemes=schemes) as process:
            if process.stdin is None or process.stdout is None or process.stderr is None:
                raise AssertionError("all three are piped")
            try:
                async with asyncio.timeout(self.timeout_s):
                    if given:
                        process.stdin.write("".join(f"{line}\n" for line in given).encode())
                    process.stdin.close()
                    out, err = await asyncio.gather(
                        _read_up_to(process.stdout, OUTPUT_BYTES), _read_tail(process.stderr)
                    )
                    code = await process.wait()
            except TimeoutError as exc:
                raise TimedOut(f"git: {words[0]} took more than {self.timeout_s:.0f} s") from exc
        return code, out, err


async def _read_up_to(stream: asyncio.StreamReader, limit: int) -> bytes:
    kept = bytearray()
    while block := await stream.read(65_536):
        kept += block
        if len(kept) > limit:
            raise TooLong(f"git: printed more than {limit // 1024**2} MB")
    return bytes(kept)


async def _read_tail(stream: asyncio.StreamReader) -> bytes:
    kept = b""
    while block := await stream.read(65_536):
        kept = (kept + block)[-WORDS_BYTES:]
    return kept


def _reason(err: bytes) -> str:
    """Return git's own last line, printable: the other side may have had a hand in it."""
    lines = [line for line in err.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith(_EXACT)]
    return shown((own or lines or [b"no reason given"])[-1].removeprefix(_EXACT))[:200]
