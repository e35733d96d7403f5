"""A folder of texts as a source: what lies really below its root, and nothing that a link leads to."""

import asyncio
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from core.domain.errors import InputRejected, Misconfigured, TooLong
from core.domain.paths import FOLDER_TYPES, PATH_DEPTH, refuse_by_name, safe_path, shown
from core.domain.sources import MOST_FILE_BYTES, Entry, LeftOut, Named, Scan

MOST_SEEN = 500_000
"""How many names a folder may hold before it is refused."""


@dataclass(frozen=True, slots=True)
class Folder:
    """One folder. Every step down is opened without following links, so nothing can be swapped in on the way."""

    root: Path

    async def scan(self, include: Sequence[str], exclude: Sequence[str]) -> Scan:
        """Return the texts of the folder with hashes of their bytes, and by name what is left out.

        Raises:
            Misconfigured: The folder cannot be read.
            TooLong: It holds more names than a source may.
        """
        return await asyncio.to_thread(self._scan, tuple(include), tuple(exclude))

    async def read(self, entry: Entry) -> bytes:
        """Return a file's bytes; one byte more than a source may hold is still returned.

        Raises:
            InputRejected: It is gone, or changed since it was listed.
        """
        try:
            content = await asyncio.to_thread(self._read, entry.path)
        except OSError as exc:
            raise InputRejected("source: a file changed while it was read; sync again") from exc
        if hashlib.sha256(content).hexdigest() != entry.blob_hash:
            raise InputRejected("source: a file changed while it was read; sync again")
        return content

    def _scan(self, include: Sequence[str], exclude: Sequence[str]) -> Scan:
        entries: list[Entry] = []
        left_out: list[Named] = []
        waiting: list[tuple[str, ...]] = [()]
        seen = 0
        while waiting:
            parts = waiting.pop()
            try:
                with _opened(self.root, parts, os.O_DIRECTORY) as handle, os.scandir(handle) as listing:
                    below = sorted((item.name, item.stat(follow_symlinks=False)) for item in listing)
            except OSError as exc:
                if not parts:
                    raise Misconfigured(f"source: {self.root} cannot be read as a folder") from exc
                left_out.append(Named(shown(os.fsencode("/".join(parts))), LeftOut.NOT_READABLE))
                continue
            seen += len(below)
            if seen > MOST_SEEN:
                raise TooLong(f"source: the folder holds more than {MOST_SEEN} names")
            for name, facts in below:
                if name.startswith("."):
                    continue  # the settings of tools, not lore
                if stat.S_ISDIR(facts.st_mode):
                    if len(parts) + 2 > PATH_DEPTH:
                        left_out.append(Named(shown(os.fsencode("/".join([*parts, name]))), LeftOut.TOO_DEEP))
                    else:
                        waiting.append((*parts, name))
                    continue
                judged = self._judge((*parts, name), facts, include, exclude)
                if isinstance(judged, Entry):
                    entries.append(judged)
                else:
                    left_out.append(judged)
        entries.sort(key=lambda entry: entry.path)
        head = hashlib.sha256("".join(f"{each.path}\0{each.blob_hash}\n" for each in entries).encode()).hexdigest()
        return Scan(head, tuple(entries), tuple(left_out))

    def _judge(
        self, parts: tuple[str, ...], facts: os.stat_result, include: Sequence[str], exclude: Sequence[str]
    ) -> Entry | Named:
        raw = os.fsencode("/".join(parts))
        if stat.S_ISLNK(facts.st_mode):
            target = Path(os.path.realpath(self.root.joinpath(*parts)))
            inside = target.is_relative_to(os.path.realpath(self.root))
            return Named(shown(raw), LeftOut.SYMLINK if inside else LeftOut.OUTSIDE)
        if not stat.S_ISREG(facts.st_mode):
            return Named(shown(raw), LeftOut.NOT_A_FILE)
        path = safe_path(raw)
        if path is None:
            return Named(shown(raw), LeftOut.UNSAFE_PATH)
        reason = refuse_by_name(path, facts.st_size, include=include, exclude=exclude, types=FOLDER_TYPES)
        if reason is not None:
            return Named(path, reason)
        try:
            content = self._read(path)
        except OSError:
            return Named(path, LeftOut.NOT_READABLE)
        return Entry(path, len(content), hashlib.sha256(content).hexdigest())

    def _read(self, path: str) -> bytes:
        with _opened(self.root, tuple(path.split("/")), os.O_NONBLOCK) as handle:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise OSError("no regular file")
            with os.fdopen(os.dup(handle), "rb") as file:
                return file.read(MOST_FILE_BYTES + 1)


@contextmanager
def _opened(root: Path, parts: Sequence[str], flags: int) -> Iterator[int]:
    """Open what lies below the root, step by step; a link on the way is an error."""
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for at, part in enumerate(parts):
            more = flags if at == len(parts) - 1 else os.O_DIRECTORY
            below = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | more, dir_fd=handle)
            os.close(handle)
            handle = below
        yield handle
    finally:
        os.close(handle)
