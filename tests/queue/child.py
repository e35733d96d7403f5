"""A process that forks workers on request, so that a test can kill, pause and crash them by the dozen.

It reads one JSON object a line and answers with the pid of a fork, or with how one ended. Imports are paid once.
"""

import asyncio
import json
import os
import select
import signal
import sys
from collections.abc import Callable
from typing import Any

from core.domain.jobs import Claim, GaveUp, KeyScope
from core.jobs.worker import Worker
from core.store import jobs
from core.store.engine import Database, Tx
from tests.fakes import ManualClock
from tests.queue.history import add, recorded, recorded_kind

CRASHED = 86


def fault_of(wish: str) -> Callable[[str], None]:
    """Return a hook that ends the process at once when `<point>:<n>` is reached for the nth time."""
    point, _, nth = wish.partition(":")
    left = int(nth or 1)

    def hook(name: str) -> None:
        nonlocal left
        if name == point:
            left -= 1
            if left == 0:
                os._exit(CRASHED)

    return hook


async def last_words(tx: Tx, claim: Claim, why: GaveUp) -> None:
    await tx.execute(
        "insert into voidbot_test.effects (job_id, lane, attempt) values ($1, $2, $3)",
        claim.id,
        f"words:{claim.lane}",
        claim.attempt,
    )


async def work(order: dict[str, Any], fault: Callable[[str], None]) -> None:
    database = await Database.open(order["dsn"], size=4)
    clock = ManualClock()
    await clock.advance(order.get("skew_s", 0.0))
    worker = Worker(
        database,
        {"recorded": recorded_kind(database)},
        {"chat": order.get("slots", 4)},
        clock,
        on_give_up=last_words,
        dead_after_s=order.get("dead_after_s", 1.0),
        drain_s=5.0,
        rest_s=0.2,
        poll_s=order.get("poll_s", 0.2),
        fault=fault,
    )
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    await worker.run()
    await database.close()


async def enqueue(order: dict[str, Any], fault: Callable[[str], None]) -> None:
    """Start every slot once, however many processes try."""
    database = await Database.open(order["dsn"], size=2)
    for slot in range(order["slots"]):
        async with database.transaction() as tx:
            fault("enqueue.before")
            key = f"slot:{slot}"
            await add(tx, [recorded(f"lane:{slot % 5}", key=key, scope=KeyScope.EVER)])
            fault("enqueue.after")
        fault("enqueue.committed")
    await database.close()


async def cancel(order: dict[str, Any], fault: Callable[[str], None]) -> None:
    database = await Database.open(order["dsn"], size=2)
    for job_id in order["ids"]:
        fault("cancel.before")
        await jobs.cancel(database, job_id)
        fault("cancel.after")
    await database.close()


ROLES = {"work": work, "enqueue": enqueue, "cancel": cancel}


def fork(order: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    code = 1
    try:
        # The product never reads this; a test may set it, or name the point in its order.
        wish = order.get("fault") or os.environ.get("QUEUE_FAULT", "")  # noqa: TID251  # the test's own switch
        asyncio.run(ROLES[order["role"]](order, fault_of(wish)))
        code = 0
    finally:
        os._exit(code)


def say(**what: object) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main() -> None:
    alive: set[int] = set()
    say(ready=True)
    pending = b""
    while True:
        if select.select([0], [], [], 0.02)[0]:
            data = os.read(0, 65_536)
            if not data:
                break
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                pid = fork(json.loads(line))
                alive.add(pid)
                say(pid=pid)
        while alive:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            alive.discard(pid)
            say(ended=pid, code=os.waitstatus_to_exitcode(status))
    for pid in alive:
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
