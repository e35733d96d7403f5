"""NOTIFY and LISTEN on one connection: sent after commits, debounced, never needed for correctness.

A worker polls once a second whatever happens here; a lost notification costs that second and nothing else.
"""

import asyncio
from collections.abc import Callable

from core.domain.errors import Unavailable
from core.store.engine import Connection, Database
from core.store.leases import CHANNEL, queue_errors

DEBOUNCE_S = 0.01
RECONNECT_S = 1.0


class Notifier:
    """Tells this process and the others that there is work. `heard` is called for both."""

    def __init__(self, database: Database, heard: Callable[[], None] = lambda: None) -> None:
        self._database = database
        self._heard = heard
        self._due = asyncio.Event()
        self._own_pid = 0

    def wake(self) -> None:
        """Wake this process now and the others within 10 ms; called after a commit that queued work."""
        self._heard()
        self._due.set()

    async def run(self) -> None:
        """Listen, and send what `wake` asked for, until cancelled; a lost connection is made anew."""
        while True:
            try:
                with queue_errors():
                    connection = await self._database.connect()
                try:
                    await self._serve(connection)
                finally:
                    connection.terminate()
            except Unavailable:
                await asyncio.sleep(RECONNECT_S)

    async def _serve(self, connection: Connection) -> None:
        self._own_pid = connection.get_server_pid()
        with queue_errors():
            await connection.add_listener(CHANNEL, self._on_notification)
            connection.add_termination_listener(lambda _: self._due.set())
            while True:
                await self._due.wait()
                self._due.clear()
                await connection.execute(f"notify {CHANNEL}")
                # What is queued meanwhile is told by the next one: at most one NOTIFY in 10 ms.
                await asyncio.sleep(DEBOUNCE_S)

    def _on_notification(self, connection: object, pid: int, *_: object) -> None:
        if pid != self._own_pid:  # what we sent ourselves, `wake` has told already
            self._heard()
