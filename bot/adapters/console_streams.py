"""Bytes in and out of file descriptors without a thread: pipes, sockets, terminals and files alike."""

import asyncio
import os
import select
from collections.abc import AsyncGenerator

from bot.adapters.console_lines import LINE_LIMIT_BYTES

_CHUNK_BYTES = 65_536


async def read_lines(fd: int, limit_bytes: int = LINE_LIMIT_BYTES) -> AsyncGenerator[tuple[int, bytes | None], None]:
    """Yield each line with its number from 1, without its end; None in place of a line over `limit_bytes`.

    The last line needs no line break. Ends with the input.
    """
    number, held, skipping = 0, bytearray(), False
    while chunk := await _read(fd):
        *ended, rest = chunk.split(b"\n")
        for piece in ended:
            number += 1
            held += piece
            too_long = skipping or len(held) > limit_bytes
            yield number, None if too_long else bytes(held).removesuffix(b"\r")
            held.clear()
            skipping = False
        held += rest
        if len(held) > limit_bytes:
            held.clear()
            skipping = True
    if held or skipping:
        yield number + 1, None if skipping else bytes(held).removesuffix(b"\r")


async def _read(fd: int) -> bytes:
    while True:
        await _until_readable(fd)
        try:
            return os.read(fd, _CHUNK_BYTES)
        except BlockingIOError:
            continue
        except OSError:
            return b""  # The terminal was closed: that is the end of the input.


class FdWriter:
    """Writes whole pieces, in order, whenever the descriptor takes some.

    A slow reader holds nothing up: what it has not taken is kept. One that went away is no error: the rest is dropped.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._kept = bytearray()
        self._empty: asyncio.Future[None] | None = None

    def write(self, text: str) -> None:
        """Take `text` and return at once."""
        self._kept += text.encode("utf-8", "replace")
        if self._empty is not None:
            return
        loop = asyncio.get_running_loop()
        try:
            loop.add_writer(self._fd, self._flush)
        except PermissionError:  # A regular file is always ready, and cannot be watched.
            while self._kept:
                self._write_some()
        else:
            self._empty = loop.create_future()

    async def drain(self) -> None:
        """Wait until everything is written or the reader is gone."""
        while self._empty is not None:
            await asyncio.shield(self._empty)

    def _flush(self) -> None:
        self._write_some()
        if not self._kept and self._empty is not None:
            asyncio.get_running_loop().remove_writer(self._fd)
            self._empty.set_result(None)
            self._empty = None

    def _write_some(self) -> None:
        try:
            # A ready pipe takes this many bytes at once; more could block the whole process.
            del self._kept[: os.write(self._fd, self._kept[: select.PIPE_BUF])]
        except BlockingIOError:
            pass
        except OSError:
            self._kept.clear()


async def _until_readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(fd, _settle, ready)
    except PermissionError:  # A regular file is always ready, and cannot be watched.
        await asyncio.sleep(0)
        return
    try:
        await ready
    finally:
        loop.remove_reader(fd)


def _settle(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
