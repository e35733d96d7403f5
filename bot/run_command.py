"""`voidbot up`, `run` and `chat`: which roles a process has, and how its terminal begins. `bot.running` runs them."""

import argparse
import asyncio
import math

from bot.app import ALL_ROLES, Role
from bot.running import ChatOptions, run_app
from bot.settings import Settings


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `up`, `run` and `chat` to the command line."""
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


def _add_chat_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--as", dest="speaker", metavar="NAME", help="who speaks; without it you, the operator")
    parser.add_argument("--room", default="lobby", metavar="NAME", help="where to begin (default: lobby)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line, in and out")
    parser.add_argument("--wait", type=_seconds, default=30.0, metavar="S", help="seconds to wait for the last answers")
    parser.add_argument("--admin", action="store_true", help="people named by /as are administrators")


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
