"""A process that has loaded every command and becomes `voidbot` as often as it is asked: imports are paid once.

Its argument is a socket's path. Each connection brings words, environment and folder as JSON with the three standard
streams; it is told the pid, then the exit code. Who hangs up has killed the command. It ends with its standard input.
"""

import gc
import json
import os
import random
import select
import signal
import socket
import sys
from typing import Any

import bot.adapters.discord_chat
import bot.adapters.telegram_chat  # noqa: F401  # both platforms' libraries, which most starts here use
from bot.cli import _parser, main


def become(order: dict[str, Any], streams: list[int]) -> None:
    """Be one `voidbot` process, from its words to its exit code."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115  # numbers, for a whole life
        for number, mode in ((0, "r"), (1, "w"), (2, "w"))
    )
    os.environ.clear()  # noqa: TID251  # another process's environment
    os.environ.update(order["environment"])  # noqa: TID251  # the same
    os.chdir(order["folder"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    random.seed()
    code: int | str | None = 1
    try:
        code = main(order["words"])
    except SystemExit as ended:
        code = ended.code
    finally:
        for written in (sys.stdout, sys.stderr):
            written.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


def keep(connection: socket.socket) -> None:
    """Have one command, for as long as who asked for it is there."""
    said, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    pid = os.fork()
    if pid == 0:
        connection.close()
        become(json.loads(said), streams)
    for stream in streams:
        os.close(stream)
    connection.sendall(f"{pid}\n".encode())
    ended = os.pidfd_open(pid)
    if ended not in select.select([connection.fileno(), ended], [], [])[0]:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def serve(path: str) -> None:
    _parser()
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(16)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("ready", flush=True)
    while listener.fileno() in select.select([listener.fileno(), 0], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            try:
                keep(connection)
            finally:
                os._exit(0)
        connection.close()


if __name__ == "__main__":
    serve(sys.argv[1])
