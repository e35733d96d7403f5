"""From the command line to the composition root; no logic of its own."""

import argparse
import asyncio
import math
import os
import signal
import sys
from collections.abc import Sequence

from bot import doctor, import_command, index_command, operators, source_command
from bot.app import ALL_ROLES, Role
from bot.running import ChatOptions, run_app
from bot.settings import Environment, Settings
from core.domain.errors import BotError

EXIT_NOT_STARTED = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code. What is wrong is said in plain lines, without a traceback."""
    _open_streams()
    options = _parser().parse_args(argv)
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


def _seconds(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or value < 0:
        raise ValueError("seconds: must be 0 or more")
    return value


def _up(options: argparse.Namespace, settings: Settings) -> int:
    chat = None if options.no_chat else _chat_options(options)
    return asyncio.run(run_app(settings, ALL_ROLES, chat))


def _run(options: argparse.Namespace, settings: Settings) -> int:
    return asyncio.run(run_app(settings, frozenset({Role(options.role)}), None))


def _chat(options: argparse.Namespace, settings: Settings) -> int:
    roles = frozenset({Role.GATEWAY, Role.WORKER})
    return asyncio.run(run_app(settings, roles, _chat_options(options), platforms=False))


def _chat_options(options: argparse.Namespace) -> ChatOptions:
    return ChatOptions(
        speaker=options.speaker, room=options.room, json=options.json, wait_s=options.wait, admin=options.admin
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="voidbot", description="A self-hosted member of a community's chat.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="everything in one process, with a terminal chat")
    up.add_argument("--no-chat", action="store_true", help="without the terminal chat; ends on Ctrl-C or SIGTERM")
    _add_chat_flags(up)
    up.set_defaults(run=_up)
    run = commands.add_parser("run", help="one role; as many copies as you want")
    run.add_argument("role", choices=[role.value for role in Role])
    run.set_defaults(run=_run)
    chat = commands.add_parser("chat", help="talk in the terminal, beside a running `up` or alone")
    _add_chat_flags(chat)
    chat.set_defaults(run=_chat)
    operators.add_commands(commands)
    import_command.add_command(commands)
    source_command.add_command(commands)
    index_command.add_commands(commands)
    doctor.add_command(commands)
    return parser


def _add_chat_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--as", dest="speaker", metavar="NAME", help="who speaks; without it you, the operator")
    parser.add_argument("--room", default="lobby", metavar="NAME", help="where to begin (default: lobby)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line, in and out")
    parser.add_argument("--wait", type=_seconds, default=30.0, metavar="S", help="seconds to wait for the last answers")
    parser.add_argument("--admin", action="store_true", help="people named by /as are administrators")


if __name__ == "__main__":
    sys.exit(main())
