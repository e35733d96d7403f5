"""Stands for one `voidbot` process of `tests.commandline.forking`: its streams, its signals, its exit code."""

import json
import os
import signal
import socket
import sys


def main() -> int:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(sys.argv[1])
    order = {"words": sys.argv[2:], "environment": dict(os.environ), "folder": os.getcwd()}  # noqa: PTH109, TID251
    socket.send_fds(connection, [json.dumps(order).encode()], [0, 1, 2])
    told = connection.makefile()
    pid = int(told.readline())
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    return int(told.readline()) & 0xFF


if __name__ == "__main__":
    sys.exit(main())
