"""Worker processes under a test's control, and a proxy that swallows the server's answer."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

ROOT = Path(__file__).parents[2]


class Children:
    """Forks of one child program, by pid."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._started: asyncio.Queue[int] = asyncio.Queue()
        self._ended: dict[int, asyncio.Future[int]] = {}
        self.alive: set[int] = set()

    async def listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            said = json.loads(line)
            if "pid" in said:
                self.alive.add(said["pid"])
                self._ended[said["pid"]] = asyncio.get_running_loop().create_future()
                self._started.put_nowait(said["pid"])
            elif "ended" in said:
                self.alive.discard(said["ended"])
                self._ended[said["ended"]].set_result(said["code"])

    async def spawn(self, role: str, dsn: str, **order: Any) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"role": role, "dsn": dsn, **order}).encode() + b"\n")
        await self._process.stdin.drain()
        return await asyncio.wait_for(self._started.get(), 30)

    async def ended(self, pid: int, within_s: float = 60.0) -> int:
        """Return the exit code; minus the signal that ended it."""
        return await asyncio.wait_for(asyncio.shield(self._ended[pid]), within_s)

    async def end_all(self) -> None:
        """Kill whoever lives, stopped or not."""
        for pid in sorted(self.alive):
            self.signal(pid, signal.SIGKILL)
            await self.ended(pid)

    def signal(self, pid: int, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@asynccontextmanager
async def children() -> AsyncIterator[Children]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.queue.child",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    opened = Children(process)
    async with asyncio.TaskGroup() as group:
        listening = group.create_task(opened.listen())
        try:
            yield opened
        finally:
            for pid in opened.alive:
                opened.signal(pid, signal.SIGCONT)
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()
            listening.cancel()


class Proxy:
    """A way to the server that can lose one answer: the request arrives, its reply does not, the line breaks."""

    def __init__(self, dsn: str) -> None:
        self._parts = urlsplit(dsn)
        self._host = dict(parse_qsl(self._parts.query)).get("host") or self._parts.hostname or ""
        self._server: asyncio.Server
        self._armed = False
        self.swallowed = 0

    async def start(self) -> str:
        """Listen; return the address that leads through here."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        user = self._parts.netloc.rpartition("@")[0]
        return urlunsplit(("postgresql", f"{user}@127.0.0.1:{port}", self._parts.path, "", ""))

    def lose_next_answer(self) -> None:
        """Swallow the answer to whatever is sent next, on the connection that sends it."""
        self._armed = True

    async def close(self) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = self._parts.port or 5432
        if self._host.startswith("/"):
            up = await asyncio.open_unix_connection(f"{self._host}/.s.PGSQL.{port}")
        else:
            up = await asyncio.open_connection(self._host, port)
        marked = asyncio.Event()

        async def forth() -> None:
            while data := await reader.read(65_536):
                if self._armed:
                    self._armed = False
                    marked.set()
                up[1].write(data)
            up[1].close()

        async def back() -> None:
            while data := await up[0].read(65_536):
                if marked.is_set():
                    self.swallowed += 1
                    break
                writer.write(data)
            writer.transport.abort()

        with suppress(OSError):
            async with asyncio.TaskGroup() as group:
                group.create_task(forth())
                await back()
                up[1].close()
                reader.feed_eof()
