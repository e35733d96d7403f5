"""The interactive terminal on a real pseudo-terminal: what a person types and sees."""

import asyncio
import fcntl
import os
import pty
import re
import struct
import sys
import termios
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from bot.adapters.console_screen import SlashCompleter
from core.store.engine import Database
from tests.flows.console_core import Core

WHERE = b"\x1b[6n"
"""The question where the cursor is; a terminal answers it, and only then is the toolbar drawn."""
ENTER, CTRL_D, TAB, UP = "\r", "\x04", "\t", "\x1b[A"
_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\r")


class Keyboard:
    """A person before a terminal of 100 columns; `seen` is all that was shown, without its styling."""

    def __init__(self, master: int, process: asyncio.subprocess.Process) -> None:
        self._master, self.process = master, process
        self.raw = b""
        asyncio.get_running_loop().add_reader(master, self._read)

    def _read(self) -> None:
        try:
            got = os.read(self._master, 65536)
        except OSError:  # The other side has closed.
            self.close()
            return
        self.raw += got
        for _ in range(got.count(WHERE)):
            self.press("\x1b[1;1R")

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._master)

    @property
    def seen(self) -> str:
        return _STYLE.sub("", self.raw.decode("utf-8", "replace"))

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    async def sees(self, text: str, times: int = 1) -> None:
        try:
            async with asyncio.timeout(30):
                while self.seen.count(text) < times:
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"never seen: {text!r} in {self.seen[-2000:]!r}") from None

    async def press_until_seen(self, key: str, text: str) -> None:
        """Press again and again: between two prompts the terminal's driver may take the key for itself."""
        async with asyncio.timeout(30):
            while text not in self.seen:
                self.press(key)
                await asyncio.sleep(0.2)

    async def leaves(self) -> int:
        async with asyncio.timeout(30):
            return await self.process.wait()


@pytest.fixture
async def keyboard(database: Database, fresh_dsn: str) -> AsyncIterator[Keyboard]:
    await Core(database).prepare()
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.flows.console_child",
        fresh_dsn,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        cwd=Path(__file__).parents[2],
        env={"TERM": "xterm-256color", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
    )
    os.close(slave)
    hands = Keyboard(master, process)
    yield hands
    if process.returncode is None:
        process.kill()
        await process.wait()
    hands.close()
    os.close(master)


async def test_a_person_types_and_sees_the_answer_grow(keyboard: Keyboard) -> None:
    await keyboard.sees("Ann@workshop>")
    await keyboard.sees("Ann in workshop")
    keyboard.press("void, hello" + ENTER)
    await keyboard.sees("void #1: First.")
    await keyboard.sees("  Second.")
    assert b"\x1b[2J" not in keyboard.raw
    await keyboard.sees("last message ")
    keyboard.press("be quiet" + ENTER)
    await keyboard.sees("(no answer: mode_silent)")
    keyboard.press("/as Bob" + ENTER)
    await keyboard.sees("Bob@workshop>")
    keyboard.press("/dm" + ENTER)
    await keyboard.sees("Bob@dm:bob>")
    keyboard.press("/room two words" + ENTER)
    await keyboard.sees("(bad_room: ")
    keyboard.press("/quit" + ENTER)
    await keyboard.sees("TOOK ann workshop True void, hello")
    await keyboard.sees("EXIT 0")
    assert await keyboard.leaves() == 0


async def test_a_private_answer_waits_for_its_person(keyboard: Keyboard) -> None:
    await keyboard.sees("Ann@workshop>")
    keyboard.press("/usage" + ENTER + "/as Bob" + ENTER)
    await keyboard.sees("Bob@workshop>")
    keyboard.press("for all" + ENTER)
    await keyboard.sees("void #2: First.")
    assert "void #1" not in keyboard.seen
    keyboard.press("/as Ann" + ENTER)
    await keyboard.sees("void #1: First.")
    await keyboard.press_until_seen(CTRL_D, "EXIT 0")
    assert await keyboard.leaves() == 0


async def test_tab_completes_commands_and_up_brings_the_last_line_back(keyboard: Keyboard) -> None:
    await keyboard.sees("Ann@workshop>")
    keyboard.press("/usa" + TAB)
    await keyboard.sees("ge")  # Only the rest of the word is drawn.
    keyboard.press(ENTER)
    await keyboard.sees("void #1: First.")
    await keyboard.sees("  Second.")
    keyboard.press(UP + ENTER)
    await keyboard.sees("void #2: First.")
    await keyboard.sees("  Second.", times=2)
    keyboard.press("/quit" + ENTER)
    await keyboard.sees("TOOK ann workshop True /usage", times=2)
    assert await keyboard.leaves() == 0


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("/d", ["/delete", "/dm"]),
        ("/void m", ["/void mode"]),
        ("/", ["/delete", "/dm", "/void mode"]),
        ("hello /d", []),
        ("", []),
    ],
)
def test_completion_offers_what_begins_like_the_line(typed: str, expected: list[str]) -> None:
    completer = SlashCompleter(["dm", "delete", "void mode", "/dm"])
    offered = completer.get_completions(Document(typed), CompleteEvent())
    assert [each.text for each in offered] == expected
