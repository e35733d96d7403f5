"""The supervisor of the embedded Postgres: start, attach, watch, stop.

Its law: the process that holds the lock is the parent of the server, and no other process starts one.
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote

import asyncpg

from core.domain.errors import Unavailable
from core.store.embedded_files import (
    OwnerLock,
    check_data,
    drop_old_logs,
    log_tail,
    mark_ready,
    password,
    prepare_folders,
    run_to_end,
    running_postmaster,
    server_arguments,
    start_log,
    system_identifier,
)
from core.store.embedded_place import (
    CHILD_ENVIRONMENT,
    EmbeddedSettings,
    PgRefusal,
    Place,
    PostgresRefused,
    file_errors_refused,
    leave_socket_folder,
    noted_socket_folder,
    settle,
    socket_folder,
)

__all__ = ["EmbeddedPostgres", "EmbeddedSettings", "PgRefusal", "PgState", "PostgresRefused"]

EXTENSIONS = ("vector", "pg_trgm", "unaccent", "btree_gin")
IDENTITY = "select current_setting('data_directory'), system_identifier from pg_control_system()"
CHECK_EVERY_S = 1.0
PROBE_EVERY = 5  # checks; while the server is not ready, each one
ANSWER_WITHIN_S = 2.0
STRIKES = 3
# Long enough to replay a full WAL on a slow disk; a child that gives up ends by itself, much earlier.
START_WITHIN_S = 300.0
FAILURE_WINDOW_S = 300.0
FAILURES = 5


class PgState(StrEnum):
    """What the supervisor knows about its server; `refused` has its reason in `refusal`."""

    ABSENT = "absent"
    INITIALISING = "initialising"
    STARTING = "starting"
    READY = "ready"
    DOWN = "down"
    STOPPING = "stopping"
    STOPPED = "stopped"
    REFUSED = "refused"


class EmbeddedPostgres:
    """One server under `home`: our child, or attached to if another process owns it."""

    def __init__(self, home: Path, settings: EmbeddedSettings, say: Callable[[str], None] = lambda _: None) -> None:
        self.state = PgState.ABSENT
        self.refusal: PostgresRefused | None = None
        self._home = home
        self._settings = settings
        self._say = say
        self._place: Place | None = None
        self._lock = OwnerLock()
        self._owner_note = ""
        self._socket = Path()
        self._child: subprocess.Popen[bytes] | None = None
        self._answered: tuple[str, int] | None = None
        self._changing = asyncio.Lock()
        self._leaving = asyncio.Event()
        self._setbacks: list[float] = []
        self._failures: list[float] = []

    @property
    def owner(self) -> bool:
        """Whether the server is our child; an attached one is left running by `stop`."""
        return self._lock.held

    @property
    def place(self) -> Place:
        """Where the server is; known once `ensure` has begun."""
        if self._place is None:
            raise Unavailable("postgres: not started")
        return self._place

    async def ensure(self) -> str:
        """Start the server, or attach to that of another process, and return the address of `voidbot`.

        Raises:
            PostgresRefused: It is not started; `state` is `refused` and nothing of ours runs.
        """
        async with self._changing, self._refusing():
            self._leaving.clear()
            self.refusal = None
            place = self._place = await asyncio.to_thread(settle, self._home, self._settings, self._say)
            patience_ends = _loop_time() + self._settings.owner_wait_s
            while not self._lock.take(place.root / "owner.lock"):
                if await self._attached():
                    break
                if _loop_time() > patience_ends:
                    pid = self._lock.note().partition(" ")[0]
                    wrong = f"process {pid} owns {place.root}, but its server does not answer"
                    raise PostgresRefused(PgRefusal.LOCKED, wrong, f"kill {pid}, then start again")
                await asyncio.sleep(0.1)
            if self.owner:
                await self._own()
                self._lock.announce()
            self.state = PgState.READY
        return self._address("voidbot", "voidbot")

    async def stop(self) -> None:
        """Stop our child (fast, then immediate, never SIGKILL); an attached server is only left."""
        self._leaving.set()
        async with self._changing:
            self.state = PgState.STOPPING
            await self._end_child()
            if self.owner:
                await asyncio.to_thread(leave_socket_folder, self.place, self._socket)
            self._lock.release()
            self.state = PgState.STOPPED

    async def watch(self) -> None:
        """Keep our server running, or see that its owner does, until `stop`.

        Raises:
            PostgresRefused: It failed to start five times within five minutes.
            Unavailable: Another process owned it and is gone; this process has to end.
        """
        strikes = rounds = 0
        while not await self._left_within(CHECK_EVERY_S):
            async with self._changing:
                if self._leaving.is_set():
                    return
                rounds += 1
                ended = self.owner and (self._child is None or self._child.poll() is not None)
                if ended:
                    self.state = PgState.DOWN
                elif self.state is not PgState.READY or rounds % PROBE_EVERY == 0:
                    self.state = await self._probe()
                if not self.owner:
                    await asyncio.to_thread(self._check_owner)
                    continue
                if rounds % 60 == 0:
                    await asyncio.to_thread(drop_old_logs, self.place)
                strikes = strikes + 1 if self.state is PgState.DOWN else 0
                if ended or strikes >= STRIKES:
                    strikes = 0
                    self._say("postgres: the server is gone or does not answer, it is started again")
                    async with self._refusing():
                        await self._end_child()
                        self._setbacks.append(_loop_time())
                        await self._bring_up()

    @asynccontextmanager
    async def _refusing(self) -> AsyncIterator[None]:
        """Leave nothing of ours behind when the start is refused, fails or is cancelled."""
        done = False
        try:
            with file_errors_refused(self._home):
                yield
            done = True
        except PostgresRefused as refusal:
            self.refusal = refusal
            raise
        finally:
            if not done:
                await self._end_child()
                self._lock.release()
                self.state = PgState.REFUSED if self.refusal else PgState.STOPPED

    async def _own(self) -> None:
        place = self.place
        await self._check_binaries()
        await self._end_orphan()
        fresh = await asyncio.to_thread(prepare_folders, place)
        self._socket = await asyncio.to_thread(socket_folder, place, self._settings)
        if fresh:
            self.state = PgState.INITIALISING
            await self._initialise()
        await asyncio.to_thread(drop_old_logs, place)
        await self._bring_up()
        if self._leaving.is_set():
            raise Unavailable("postgres: stopped while it was starting")
        await self._provide()
        if fresh:
            await asyncio.to_thread(mark_ready, place)

    async def _check_binaries(self) -> None:
        try:
            code, output = await self._run("postgres", "--version")
        except OSError as exc:
            code, output = 1, str(exc)
        found = re.search(r"PostgreSQL\) (\d+)", output)
        if code or found is None:
            wrong = f"{self.place.bin / 'postgres'} does not run on this machine"
            remedy = "set PG_BIN to the bin folder of a Postgres 18, or DATABASE_URL to a server"
            raise PostgresRefused(PgRefusal.NOBIN, wrong, remedy)
        await asyncio.to_thread(check_data, self.place, found[1])

    async def _end_orphan(self) -> None:
        """Stop the server that a dead owner left; one that others started is refused."""
        place = self.place
        found = await asyncio.to_thread(running_postmaster, place)
        if found is None:
            return
        pid, socket = found
        if socket not in (place.run, noted_socket_folder(place)):
            wrong = f"another server (process {pid}) runs on {place.data}"
            raise PostgresRefused(PgRefusal.FOREIGN, wrong, f"{place.bin / 'pg_ctl'} stop -D {place.data}")
        self._say(f"postgres: stops the server (process {pid}) that an earlier process left behind")
        for how in ("fast", "immediate"):
            code, _ = await self._run("pg_ctl", "stop", "-D", str(place.data), "-m", how, "-t", "20")
            if code == 0:
                return
        raise PostgresRefused(PgRefusal.LOCKED, f"server process {pid} does not stop", f"kill -QUIT {pid}")

    async def _initialise(self) -> None:
        place = self.place
        # Unlinked at once and handed over open: at no time can another service of that uid read it.
        with tempfile.TemporaryFile() as file:
            file.write(password(place, "postgres").encode())
            file.seek(0)
            if place.account.drop:
                os.fchown(file.fileno(), place.account.uid, place.account.gid)
            # Not every macOS has C.UTF-8, but each has this pair.
            mac = sys.platform == "darwin"
            locale = ["--locale=en_US.UTF-8", "--lc-collate=C"] if mac else ["--locale=C.UTF-8"]
            access = ["-U", "postgres", "-A", "scram-sha-256", f"--pwfile=/dev/fd/{file.fileno()}"]
            options = ["-D", str(place.data), "-E", "UTF8", "--data-checksums", *locale, *access]
            if self._settings.extra.get("fsync") == "off":
                options.append("--no-sync")
            # With the lock in its hands no other owner starts before it ends, even if we are killed now.
            code, output = await self._run("initdb", *options, hand_over=(file.fileno(), *self._lock.handles))
        if code:
            tail = tuple(output.splitlines()[-20:])
            raise PostgresRefused(PgRefusal.START, "initdb failed", "mend what its last lines say", tail)

    async def _provide(self) -> None:
        """Make the role, the database and the extensions that are missing."""
        extensions = "".join(f"create extension if not exists {name};" for name in EXTENSIONS)
        async with self._administrator("template1") as connection:
            await connection.execute(extensions)
        async with self._administrator("postgres") as connection:
            if not await connection.fetchval("select 1 from pg_roles where rolname = 'voidbot'"):
                secret = password(self.place, "voidbot")
                await connection.execute(f"create role voidbot login createdb password '{secret}'")
            if not await connection.fetchval("select 1 from pg_database where datname = 'voidbot'"):
                await connection.execute("create database voidbot owner voidbot")
        async with self._administrator("voidbot") as connection:
            await connection.execute(extensions)

    async def _attached(self) -> bool:
        """Return whether the server of another owner answers and is the one of our data folder."""
        place = self.place
        self._owner_note = await asyncio.to_thread(self._lock.note)
        if not self._lock.announced(self._owner_note):
            return False
        self._socket = noted_socket_folder(place)
        if await self._probe() is not PgState.READY:
            return False
        here = (str(place.data), await asyncio.to_thread(system_identifier, place))
        if self._answered != here:
            wrong = f"the server at {self._socket} is not the one of {place.data}"
            raise PostgresRefused(PgRefusal.FOREIGN, wrong, "stop it, or set VOIDBOT_HOME to another folder")
        return True

    def _check_owner(self) -> None:
        if self._lock.free() or self._lock.note() != self._owner_note:
            self.state = PgState.DOWN
            raise Unavailable("postgres: the process that owned the server is gone")

    async def _bring_up(self) -> None:
        """Start the child, again after 0.5, 1, 2 … 30 s while it fails."""
        while not self._leaving.is_set():
            horizon = _loop_time() - FAILURE_WINDOW_S
            self._setbacks = [at for at in self._setbacks if at > horizon]
            self._failures = [at for at in self._failures if at > horizon]
            if len(self._failures) >= FAILURES:
                tail = await asyncio.to_thread(log_tail, self.place)
                wrong = f"the server failed to start {FAILURES} times"
                raise PostgresRefused(PgRefusal.START, wrong, "mend what its last lines say", tail)
            pause_s = min(30.0, self._settings.pause_s * 2 ** len(self._setbacks)) if self._setbacks else 0.0
            if await self._left_within(pause_s) or await self._start_child():
                return
            self._setbacks.append(_loop_time())
            self._failures.append(_loop_time())

    async def _start_child(self) -> bool:
        self.state = PgState.STARTING
        await self._end_child()
        if self._child is not None:
            return False  # the last one does not end, and there must never be two
        child = self._child = self._spawn()
        patience_ends = _loop_time() + START_WITHIN_S
        while child.poll() is None and _loop_time() < patience_ends:
            if await self._probe() is PgState.READY:
                self.state = PgState.READY
                return True
            if await self._left_within(0.03):
                break
        await self._end_child()
        return False

    def _spawn(self) -> subprocess.Popen[bytes]:
        place = self.place
        with start_log(place).open("wb") as log:
            return subprocess.Popen(  # noqa: S603  # our own binaries
                [str(place.bin / "postgres"), *server_arguments(place, self._socket, self._settings.extra)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=place.root,
                env=CHILD_ENVIRONMENT,
                start_new_session=True,
                **place.account.identity(),
            )

    async def _end_child(self) -> None:
        child = self._child
        if child is None:
            return
        for kind, patience_s in ((signal.SIGINT, 20.0), (signal.SIGQUIT, 5.0)):
            if child.poll() is None:
                child.send_signal(kind)
            patience_ends = _loop_time() + patience_s
            while child.poll() is None and _loop_time() < patience_ends:  # noqa: ASYNC110  # no event to wait for
                await asyncio.sleep(0.02)
        if child.poll() is None:
            self._say(f"postgres: process {child.pid} does not end")
        else:
            self._child = None

    async def _probe(self) -> PgState:
        """Return `ready` if a query is answered, `starting` if the server asks for patience, else `down`.

        Always over a new connection: the old ones live on when the server itself hangs.
        """
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S), self._administrator("postgres") as connection:
                row = await connection.fetchrow(IDENTITY)
                self._answered = None if row is None else (row[0], row[1])
                return PgState.READY
        except asyncpg.CannotConnectNowError:
            return PgState.STARTING
        except asyncpg.InvalidPasswordError as exc:
            wrong = f"the server on {self.place.data} does not take the password in {self.place.secret}"
            remedy = "put back the secret that belongs to this data folder, or stop the other server"
            raise PostgresRefused(PgRefusal.FOREIGN, wrong, remedy) from exc
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return PgState.DOWN

    @asynccontextmanager
    async def _administrator(self, database: str) -> AsyncIterator[asyncpg.Connection]:
        connection = await asyncpg.connect(self._address("postgres", database), timeout=ANSWER_WITHIN_S)
        try:
            yield connection
        finally:
            connection.terminate()

    def _address(self, user: str, database: str) -> str:
        host = quote(str(self._socket), safe="")
        return f"postgresql://{user}:{password(self.place, user)}@/{database}?host={host}&port=5432"

    async def _left_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._leaving.wait()
        return self._leaving.is_set()

    async def _run(self, name: str, *arguments: str, hand_over: tuple[int, ...] = ()) -> tuple[int, str]:
        place = self.place
        command = [str(place.bin / name), *arguments]
        return await run_to_end(command, CHILD_ENVIRONMENT, place.root, place.account.identity(), hand_over)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
