"""The ledger of erasures outside the database: a line for each, so that an older backup meets the newest ledger."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from core.domain.erasure import EraseScope, scope_of
from core.domain.errors import Misconfigured
from core.privacy.key import ErasureKey
from core.store.erasures import LedgerEntry

LOG = "erasures.log"
"""The file in the home folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """One erasure as a line tells it."""

    key_id: str
    key_hash: str
    scope: EraseScope
    until_at: datetime
    at: datetime

    @property
    def name(self) -> tuple[str, str, str]:
        """What tells it from others."""
        return self.key_hash, self.until_at.isoformat(), json.dumps(self.scope.as_json(), sort_keys=True)


def line_of(entry: LedgerEntry | Remembered, key: ErasureKey) -> str:
    """Return an entry as a signed line: hashes, ids and times, no names and no words."""
    told = {
        "key_id": entry.key_id,
        "key_hash": entry.key_hash,
        "scope": entry.scope.as_json(),
        "until": entry.until_at.isoformat(),
        "at": entry.at.isoformat(),
    }
    plain = json.dumps(told, sort_keys=True)
    return json.dumps({**told, "signature": key.sign("ledger", plain)}, sort_keys=True)


def append(path: Path, entry: LedgerEntry, key: ErasureKey) -> None:
    """Add an entry to the log unless it stands there; it is on the disk afterwards."""
    line = line_of(entry, key)
    if path.exists() and line in path.read_text(encoding="utf-8").splitlines():
        return
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "a", encoding="utf-8") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def read(path: Path, key: ErasureKey | None) -> list[Remembered]:
    """Return the entries of a log; none if there is no such file.

    `key` None: signatures are not looked at.

    Raises:
        Misconfigured: A line cannot be read, or was not signed with this key.
    """
    if not path.exists():
        return []
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            told: dict[str, Any] = json.loads(line)
            signature = told.pop("signature")
            entry = Remembered(
                key_id=told["key_id"],
                key_hash=told["key_hash"],
                scope=scope_of(told["scope"]),
                until_at=datetime.fromisoformat(told["until"]),
                at=datetime.fromisoformat(told["at"]),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            raise Misconfigured(f"{path}: line {number} is no entry of a ledger") from exc
        if key is not None and signature != key.sign("ledger", json.dumps(told, sort_keys=True)):
            raise Misconfigured(f"{path}: line {number} was not signed with this erasure key")
        found.append(entry)
    return found


def merged(*ledgers: Iterable[Remembered]) -> list[Remembered]:
    """Return the entries of all ledgers once each, the oldest erasure first."""
    once = {entry.name: entry for ledger in ledgers for entry in ledger}
    return sorted(once.values(), key=lambda entry: entry.until_at)


def remembered(entry: LedgerEntry) -> Remembered:
    """Return an entry of the database as the files know it."""
    return Remembered(
        key_id=entry.key_id, key_hash=entry.key_hash, scope=entry.scope, until_at=entry.until_at, at=entry.at
    )
