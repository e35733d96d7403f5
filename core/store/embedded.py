"""The supervisor of the embedded Postgres: start, watch, stop, and the dump before a migration.

Its law: the process that holds the lock is the parent of the server, and no other process starts one.
"""

import asyncio
import subprocess
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

import asyncpg

from core.store.embedded_place import (
    EmbeddedSettings,
    OwnerLock,
    PgRefusal,
    Place,
    PostgresRefused,
)

__all__ = ["EmbeddedPostgres", "EmbeddedSettings", "PgRefusal", "PgState", "PostgresRefused"]

EXTENSIONS = ("vector", "pg_trgm", "unaccent", "btree_gin")
CHECK_EVERY_S = 1.0
ANSWER_WITHIN_S = 2.0
STRIKES = 3
OWNER_WAIT_S = 30.0
# Long enough to replay a full WAL on a slow disk; a child that gives up ends by itself and much earlier.
START_WITHIN_S = 300.0
FAILURE_WINDOW_S = 300.0
FAILURES = 5
LOG_FILES = 10
LOG_LINES = 20
BACKUPS = 5


class PgState(StrEnum):
    """What the supervisor knows about its server; `refused` has its code in `refusal`."""

    ABSENT = "absent"
    INITIALISING = "initialising"
    STARTING = "starting"
    READY = "ready"
    DOWN = "down"
    STOPPING = "stopping"
    STOPPED = "stopped"
    REFUSED = "refused"


def _silent(line: str) -> None:
    del line


class EmbeddedPostgres:
    """One server under `home`: ours as its parent, or attached to if another process owns it."""

    def __init__(self, home: Path, settings: EmbeddedSettings, say: Callable[[str], None] = _silent) -> None:
        self.state = PgState.ABSENT
        self.refusal: PostgresRefused | None = None
        self.place: Place | None = None
        self._home = home
        self._settings = settings
        self._say = say
        self._lock: OwnerLock | None = None
        self._owner_note = ""
        self._socket = Path()
        self._child: subprocess.Popen[bytes] | None = None
        self._monitor: asyncpg.Connection | None = None
        self._changing = asyncio.Lock()
        self._leaving = asyncio.Event()
        self._setbacks: list[float] = []
        self._failures: list[float] = []

    @property
    def owner(self) -> bool:
        """Whether the server is our child; an attached one is left running by `stop`."""
        return self._lock is not None and self._lock.held
