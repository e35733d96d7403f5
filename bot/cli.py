"""From the command line to the module of the command that was typed; no logic of its own."""

import argparse
import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TypeAlias

from bot.settings import Environment
from core.domain.errors import BotError

EXIT_NOT_STARTED = 1
_FIRST_WORDS = ("up", "jobs", "import", "sources", "index", "mind", "pass", "doctor")
"""One command of each module, in the order in which help names them."""

Add: TypeAlias = "Callable[[argparse._SubParsersAction[argparse.ArgumentParser]], None]"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code. What is wrong is said in plain lines, without a traceback."""
    _open_streams()
    words = sys.argv[1:] if argv is None else argv
    options = _parser(words).parse_args(words)
    try:
        if "alone" in options:  # it reads the settings for itself: what is wrong with them is its answer
            return int(options.alone(options))
        settings = Environment.read().settings()
        code: int = options.run(options, settings)
    except BotError as exc:
        print(f"voidbot: {exc.message}", file=sys.stderr)  # noqa: T201  # the command line's own voice
        return EXIT_NOT_STARTED
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 128 + signal.SIGINT
    return code


def _open_streams() -> None:
    """Put the null device where a standard stream is closed: the next file or socket would get its number."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return a parser for these words: with the command that the first one names, else with all of them."""
    parser = argparse.ArgumentParser(prog="voidbot", description="A self-hosted member of a community's chat.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    gc.disable()  # nothing that is loaded becomes garbage; looking for some takes a tenth of the time
    try:
        for add in _adders(words[0] if words else ""):
            add(commands)
    finally:
        gc.enable()
    return parser


def _adders(word: str) -> list[Add]:
    """Return what adds a command. Its module alone is loaded: the others' would cost every start a second."""
    match word:
        case "up" | "run" | "chat":
            from bot import run_command

            return [run_command.add_commands]
        case "jobs" | "db":
            from bot import operators

            return [operators.add_commands]
        case "import":
            from bot import import_command

            return [import_command.add_command]
        case "sources":
            from bot import source_command

            return [source_command.add_command]
        case "index" | "reembed":
            from bot import index_command

            return [index_command.add_commands]
        case "mind":
            from bot import mind_command

            return [mind_command.add_command]
        case "pass":
            from bot import pass_command

            return [pass_command.add_command]
        case "doctor":
            from bot import doctor

            return [doctor.add_command]
        case _:  # help and mistakes name them all
            return [add for first in _FIRST_WORDS for add in _adders(first)]


if __name__ == "__main__":
    sys.exit(main())
