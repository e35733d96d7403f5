"""A git repository as a source: its files at one commit, and what was committed since one last looked."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from core.domain.errors import InputRejected, Misconfigured, TimedOut
from core.domain.paths import (
    MOST_PATTERNS,
    Attribute,
    is_generated,
    read_attributes,
    refuse_by_name,
    safe_path,
    shown,
)
from core.domain.sources import Activity, Commit, Entry, LeftOut, Named, Scan, Source
from core.retrieval.git import Git

HEAD = "refs/voidbot/head"
"""The one ref of a mirror: what the other side's HEAD was at the last fetch."""
ATTRIBUTE_FILES = 100
ATTRIBUTE_BYTES = 65_536
READ_S = 60.0
SUBJECT_CHARS = 200
AUTHOR_CHARS = 100
COMMIT_PATHS = 50
_FILE = re.compile(rb"(\d{6}) (\w+) ([0-9a-f]{40,64}) +(\S+)\t(.*)", re.DOTALL)
_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_MODULE_URL = re.compile(rb"(?mi)^\s*url\s*=\s*(.+?)\s*$")


@dataclass(frozen=True, slots=True)
class Repository:
    """One repository, readable. `folder`: the working copy, bare repository or mirror; `ref`: what is read of it."""

    git: Git
    folder: Path
    ref: str = "HEAD"

    async def newest(self) -> str:
        """Return the commit that is read.

        Raises:
            InputRejected: There is none yet, or this is no repository.
        """
        found = await self.git.read(
            self.folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{self.ref}^{{commit}}", may_fail=True
        )
        if found is None:
            raise InputRejected("source: the repository has no commit yet")
        return found.decode("ascii").strip()

    async def scan(self, include: Sequence[str], exclude: Sequence[str]) -> Scan:
        """Return the files of the commit that may be read, and by name what is left out."""
        commit = await self.newest()
        listing = await self.git.read(self.folder, "ls-tree", "-r", "-z", "--long", "--full-tree", commit)
        found, left_out = _sort_entries((listing or b"").split(b"\0"))
        attributes, noticed = await self._attributes(found)
        left_out += noticed + await self._hooks()
        entries = []
        for entry in found:
            reason = refuse_by_name(entry.path, entry.size, include=include, exclude=exclude)
            if reason is None and is_generated(attributes, entry.path):
                reason = LeftOut.GENERATED
            if reason is None:
                entries.append(entry)
            else:
                left_out.append(Named(entry.path, reason))
        return Scan(commit, tuple(entries), tuple(left_out))

    async def _attributes(self, found: Sequence[Entry]) -> tuple[list[Attribute], list[Named]]:
        """Read what the tree says of itself; nearer folders come later."""
        speaking = [entry for entry in found if entry.path.rpartition("/")[2] in (".gitattributes", ".gitmodules")]
        speaking = [entry for entry in speaking if entry.size <= ATTRIBUTE_BYTES]
        speaking.sort(key=lambda entry: (entry.path.count("/"), entry.path))
        attributes: list[Attribute] = []
        noticed: list[Named] = []
        if not speaking:
            return attributes, noticed
        async with self.blobs() as blobs:
            for entry in speaking[:ATTRIBUTE_FILES]:
                content = await blobs.read(entry)
                if entry.path.endswith(".gitmodules"):
                    noticed += _odd_addresses(content)
                    continue
                own, asks = read_attributes(entry.path, content)
                attributes += own
                if asks:
                    noticed.append(Named(entry.path, LeftOut.FILTER))
        return attributes[:MOST_PATTERNS], noticed

    async def _hooks(self) -> list[Named]:
        """Name the hooks that lie in the repository; none of them is run."""
        place = await self.git.read(self.folder, "rev-parse", "--absolute-git-dir")
        hooks = Path((place or b"").decode(errors="surrogateescape").rstrip("\n")) / "hooks"

        def listed() -> list[str]:
            return sorted(path.name for path in hooks.iterdir() if path.suffix != ".sample") if hooks.is_dir() else []

        return [Named(shown(f"hooks/{name}"), LeftOut.HOOK) for name in (await asyncio.to_thread(listed))[:100]]

    @asynccontextmanager
    async def blobs(self) -> "AsyncIterator[Blobs]":
        """Open a reader of files by their hashes."""
        async with self.git.running(self.folder, "cat-file", "--batch") as process:
            if process.stdin is None or process.stdout is None or process.stderr is None:
                raise AssertionError("all three are piped")
            yield Blobs(process.stdin, process.stdout)

    async def activity(self, head: str, cursor: str, limit: int = 20) -> Activity:
        """Return up to `limit` commits up to `head`, oldest first, behind the cursor.

        A burst is read to its end over several calls, each commit once: the cursor then holds where the burst
        began, where it ends, and how many were returned. Without a cursor the newest commits are returned.
        """
        base, target, done = _read_cursor(cursor)
        rewritten = False
        if target and not await self._is_ancestor(target, head):
            rewritten, target, done = True, await self._parting(base if done else target, head), 0
        if not target:
            newest = await self._hashes(head, f"--max-count={limit}")
            return Activity(await self._commits(newest), head, rewritten=rewritten)
        if not done:
            base, target = target, head
        hashes = await self._hashes(f"{base}..{target}" if base else target)
        batch, left = hashes[done : done + limit], len(hashes) - done - limit
        last = f"{base or '-'} {target} {done + limit}" if left > 0 else target
        return Activity(await self._commits(batch), last, more=max(0, left), rewritten=rewritten)

    async def _is_ancestor(self, older: str, newer: str) -> bool:
        try:
            told = await self.git.read(self.folder, "merge-base", "--is-ancestor", older, newer, may_fail=True)
        except InputRejected:  # the commit is gone altogether
            return False
        return told is not None

    async def _parting(self, older: str, newer: str) -> str:
        """Return where two histories part; empty if they share nothing."""
        try:
            found = await self.git.read(self.folder, "merge-base", older, newer, may_fail=True)
        except InputRejected:
            return ""
        return (found or b"").decode("ascii").partition("\n")[0]

    async def _hashes(self, *which: str) -> list[str]:
        listed = await self.git.read(self.folder, "rev-list", "--reverse", "--topo-order", *which, "--")
        return (listed or b"").decode("ascii").split()

    async def _commits(self, hashes: Sequence[str]) -> tuple[Commit, ...]:
        if not hashes:
            return ()
        form = "--format=%H%x00%an%x00%aI%x00%s"
        words = ("rev-list", "--no-walk=unsorted", "--no-commit-header", "--encoding=UTF-8", form, "--stdin")
        told = await self.git.read(self.folder, *words, given=hashes)
        commits = []
        for line in (told or b"").split(b"\n"):
            if len(fields := line.split(b"\0")) == 4:
                name, author, date, subject = fields
                commit = name.decode("ascii")
                commits.append(
                    Commit(
                        commit,
                        shown(subject)[:SUBJECT_CHARS],
                        shown(author)[:AUTHOR_CHARS],
                        shown(date)[:40],
                        await self._touched(commit),
                    )
                )
        return tuple(commits)

    async def _touched(self, commit: str) -> tuple[str, ...]:
        """Return the paths that a commit changed; none for a merge, whose commits name their own."""
        flags = (
            "-r",
            "-z",
            "--root",
            "--name-only",
            "--no-commit-id",
            "--no-renames",
            "--no-ext-diff",
            "--no-textconv",
        )
        told = await self.git.read(self.folder, "diff-tree", *flags, commit)
        return tuple(shown(path) for path in (told or b"").split(b"\0")[:COMMIT_PATHS] if path)


@dataclass(frozen=True, slots=True)
class Blobs:
    """Files of a repository by hash, one after the other."""

    questions: asyncio.StreamWriter
    answers: asyncio.StreamReader

    async def read(self, entry: Entry) -> bytes:
        """Return a file's bytes as they are stored, no filter applied.

        Raises:
            InputRejected: The repository does not hold it, or is damaged.
        """
        try:
            async with asyncio.timeout(READ_S):
                self.questions.write(f"{entry.blob_hash}\n".encode())
                await self.questions.drain()
                words = (await self.answers.readline()).split()
                if len(words) != 3 or words[1] != b"blob" or int(words[2]) != entry.size:
                    raise InputRejected("git: an object is missing or damaged; run `git fsck` on the repository")
                content = await self.answers.readexactly(entry.size)
                await self.answers.readexactly(1)
        except TimeoutError as exc:
            raise TimedOut(f"git: an object was not read within {READ_S:.0f} s") from exc
        except (asyncio.IncompleteReadError, ConnectionError) as exc:
            raise InputRejected("git: an object is missing or damaged; run `git fsck` on the repository") from exc
        return content


async def open_repository(git: Git, source: Source, mirrors: Path, *, fetch: bool = True) -> Repository:
    """Return the source's repository; of an address a bare mirror under `mirrors` is kept and brought up to date.

    Raises:
        Misconfigured: The folder is not there, or the mirror cannot be written.
        Unavailable: The other side did not answer.
    """
    if "://" not in source.location:
        folder = await asyncio.to_thread(lambda: Path(source.location).resolve())
        if not folder.is_dir():
            raise Misconfigured(f"source {source.name}: {source.location} is no folder on this machine")
        return Repository(git, folder)
    check_address(source.location, git.schemes)
    mirror = mirrors / f"{source.id}.git"
    if not (mirror / "HEAD").is_file():
        try:
            await asyncio.to_thread(mirror.mkdir, mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            raise Misconfigured(f"source {source.name}: {mirrors} cannot be written") from exc
        await git.read(mirror, "init", "--quiet", "--bare", "--template=", "--initial-branch=main", ".")
        fetch = True
    if fetch:
        await git.fetch(mirror, source.location, f"+HEAD:{HEAD}")
    return Repository(git, mirror, HEAD)


def check_address(location: str, schemes: Sequence[str] = ("https",)) -> None:
    """Refuse an address that is not plain https, or that carries a name or password.

    Raises:
        InputRejected: With what to write instead.
    """
    try:
        parts = urlsplit(location)
        plain = parts.scheme in schemes and bool(parts.hostname) and location.isprintable() and " " not in location
        _ = parts.port
    except ValueError:
        plain = False
    if not plain:
        raise InputRejected("source: its address must be a folder on this machine or start with https://")
    if parts.username is not None or parts.password is not None:
        raise InputRejected("source: leave name and password out of the address; only public repositories are read")


def _sort_entries(records: Sequence[bytes]) -> tuple[list[Entry], list[Named]]:
    entries: list[Entry] = []
    left_out: list[Named] = []
    for record in records:
        if (found := _FILE.fullmatch(record)) is None:
            continue  # the empty one behind the last
        mode, kind, blob_hash, size, raw = found.groups()
        path = safe_path(raw)
        if kind == b"commit":
            left_out.append(Named(shown(raw), LeftOut.SUBMODULE))
        elif mode == b"120000":
            left_out.append(Named(shown(raw), LeftOut.SYMLINK))
        elif path is None:
            left_out.append(Named(shown(raw), LeftOut.UNSAFE_PATH))
        elif not size.isdigit():
            left_out.append(Named(path, LeftOut.NOT_READABLE))  # the repository does not hold it
        else:
            entries.append(Entry(path, int(size), blob_hash.decode("ascii")))
    return entries, left_out


def _odd_addresses(content: bytes) -> list[Named]:
    """Name addresses of submodules that ask for more than a download; no submodule is fetched in any case."""
    urls = _MODULE_URL.findall(content)[:100]
    return [Named(shown(url)[:200], LeftOut.SUBMODULE_ADDRESS) for url in urls if not url.startswith(b"https://")]


def _read_cursor(cursor: str) -> tuple[str, str, int]:
    """Return where the burst began, where it ends, and how many of it were returned; only the end outside one."""
    words = cursor.split()
    if len(words) == 3 and words[2].isdigit() and all(_HASH.fullmatch(word) or word == "-" for word in words[:2]):
        return words[0].strip("-"), words[1], int(words[2])
    return "", cursor if _HASH.fullmatch(cursor) else "", 0
