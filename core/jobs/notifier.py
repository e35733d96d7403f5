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
SOON_S = 5.0
"""Work that is due within this is told when it is due; what is due later is found by the next tick."""
_DUE = "due"
"""The payload of a notification that delayed work is due."""


class Notifier:
    """Tells this process and the others that there is work.

    `heard` is called when there is some, `due` when delayed work has become due; both for either process.
    """

    def __init__(
        self,
        database: Database,
        heard: Callable[[], None] = lambda: None,
        due: Callable[[], None] = lambda: None,
    ) -> None:
        self._database = database
        self._heard, self._became_due = heard, due
        self._asked = asyncio.Event()
        self._payloads: set[str] = set()
        self._own_pid = 0

    def wake(self, in_s: float = 0.0) -> None:
        """Wake this process when the work is due, the others within 10 ms of it; called after a commit."""
        if in_s <= 0:
            self._heard()
            self._tell("")
        elif in_s <= SOON_S:
            asyncio.get_running_loop().call_later(in_s, self._tell_due)

    def _tell_due(self) -> None:
        self._became_due()
        self._tell(_DUE)

    def _tell(self, payload: str) -> None:
        self._payloads.add(payload)
        self._asked.set()

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
            connection.add_termination_listener(lambda _: self._asked.set())
            while True:
                await self._asked.wait()
                self._asked.clear()
                payloads, self._payloads = self._payloads or {""}, set()
                for payload in sorted(payloads):
                    await connection.execute(f"notify {CHANNEL}, '{payload}'")
                # What is queued meanwhile is told by the next one: at most one NOTIFY in 10 ms.
                await asyncio.sleep(DEBOUNCE_S)

    def _on_notification(self, connection: object, pid: int, channel: object, payload: object) -> None:
        if pid == self._own_pid:  # what we sent ourselves, `wake` has told already
            return
        if payload == _DUE:
            self._became_due()
        else:
            self._heard()
