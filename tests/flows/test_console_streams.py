"""Bytes in and out of real pipes and files."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from bot.adapters.console_streams import FdWriter, read_lines


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe's two ends, closed afterwards if they are still open."""
    ends = os.pipe()
    yield ends
    for end in ends:
        with suppress(OSError):
            os.close(end)


async def lines_of(fd: int, limit_bytes: int = 1000) -> list[tuple[int, bytes | None]]:
    return [line async for line in read_lines(fd, limit_bytes)]


async def test_lines_come_numbered_and_without_their_end(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], b"one\r\n\ntwo\nlast")
    os.close(pipe[1])
    assert await lines_of(pipe[0]) == [(1, b"one"), (2, b""), (3, b"two"), (4, b"last")]


async def test_an_empty_input_has_no_line(pipe: tuple[int, int]) -> None:
    os.close(pipe[1])
    assert await lines_of(pipe[0]) == []


async def test_a_line_arrives_before_the_input_ends(pipe: tuple[int, int]) -> None:
    lines = read_lines(pipe[0])
    os.write(pipe[1], b"one\ntw")
    assert await anext(lines) == (1, b"one")
    os.write(pipe[1], b"o\n")
    assert await anext(lines) == (2, b"two")
    await lines.aclose()


async def test_a_line_over_the_limit_is_skipped_and_counted(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], b"x" * 1000 + b"\n" + b"y" * 5000 + b"\nafter\n" + b"z" * 2000)
    os.close(pipe[1])
    assert await lines_of(pipe[0]) == [(1, b"x" * 1000), (2, None), (3, b"after"), (4, None)]


async def test_a_regular_file_is_read_like_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "input"
    path.write_bytes(b"one\n" * 40_000)
    with path.open("rb") as file:
        assert len(await lines_of(file.fileno())) == 40_000


async def test_nothing_at_all_ends_at_once() -> None:
    with Path(os.devnull).open("rb") as nothing:
        assert await lines_of(nothing.fileno()) == []


async def test_a_slow_reader_holds_nothing_up_and_gets_everything(pipe: tuple[int, int]) -> None:
    writer = FdWriter(pipe[1])
    pieces = [f"{n:07d}\n" for n in range(40_000)]
    for piece in pieces:
        writer.write(piece)

    async def read() -> bytes:
        got = bytearray()
        async for _, line in read_lines(pipe[0]):
            got += (line or b"") + b"\n"
        return bytes(got)

    async def finish() -> None:
        await writer.drain()
        os.close(pipe[1])

    async with asyncio.timeout(30):
        got, _ = await asyncio.gather(read(), finish())
    assert got == "".join(pieces).encode()


async def test_a_reader_that_went_away_is_no_error(pipe: tuple[int, int]) -> None:
    os.close(pipe[0])
    writer = FdWriter(pipe[1])
    writer.write("gone")
    async with asyncio.timeout(10):
        await writer.drain()
    writer.write("still gone")
    async with asyncio.timeout(10):
        await writer.drain()


async def test_a_file_takes_everything_at_once(tmp_path: Path) -> None:
    with (tmp_path / "output").open("wb") as file:
        writer = FdWriter(file.fileno())
        writer.write("Grüße\n" * 3000)
        await writer.drain()
    assert (tmp_path / "output").read_text() == "Grüße\n" * 3000
