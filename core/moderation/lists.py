"""Lists that the fast lane goes by: read from a folder, each checked whole, and compared when one is to be replaced.

Raises everywhere: `Misconfigured` for what is in the folder, `InputRejected` for what is to go in.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from core.domain.errors import InputRejected, Misconfigured
from core.moderation.fast.phrases import Phrases, read_phrases
from core.moderation.list_forms import (
    Attachments,
    Brand,
    Brands,
    Links,
    WordList,
    read_attachments,
    read_brands,
    read_domains,
    read_families,
    read_links,
    read_words,
)

_T = TypeVar("_T")
MOST_CHANGED = 0.2
"""How much of a list may change at once without somebody's word for it."""
DOMAINS, LINKS, BRANDS, ATTACHMENTS = "scam_domains.txt", "shorteners.yaml", "brands.yaml", "attachments.yaml"
TERMS, URGENT, BOT_ATTACK, STAFF = "terms", "urgent", "bot_attack", "staff_words.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """Everything that detectors look up. `terms`: by language; `urgent`: names are `family/strong` or `family/weak`."""

    domains: frozenset[str]
    links: Links
    brands: Brands
    attachments: Attachments
    terms: Mapping[str, WordList]
    urgent: Phrases
    bot_attack: Phrases
    staff: WordList
    families: frozenset[str] = frozenset()


def read_lists(folder: Path) -> Lists:
    """Return all lists of a folder.

    Raises:
        Misconfigured: One is not there or not right; says which and where.
    """
    urgent = _families(folder, URGENT)
    return Lists(
        domains=_read(folder, DOMAINS, read_domains),
        links=_read(folder, LINKS, read_links),
        brands=_read(folder, BRANDS, read_brands),
        attachments=_read(folder, ATTACHMENTS, read_attachments),
        terms={path.stem: _read(folder, f"{TERMS}/{path.name}", read_words) for path in _files(folder, TERMS, "txt")},
        urgent=_phrases(folder, URGENT, urgent),
        bot_attack=_phrases(folder, BOT_ATTACK, _families(folder, BOT_ATTACK)),
        staff=_read(folder, STAFF, read_words),
        families=frozenset(name.partition("/")[0] for name in urgent),
    )


def _files(folder: Path, kind: str, suffix: str) -> list[Path]:
    found = sorted((folder / kind).glob(f"*.{suffix}"))
    if not found:
        raise Misconfigured(f"{folder / kind}: holds no list; put the files of the release in their place")
    return found


def _read(folder: Path, name: str, read: Callable[[str], _T]) -> _T:
    try:
        return read((folder / name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise Misconfigured(f"{folder / name}: {exc}; put the file of the release in its place") from exc


def _phrases(folder: Path, kind: str, families: Mapping[str, list[str]]) -> Phrases:
    try:
        return read_phrases(families)
    except ValueError as exc:
        raise Misconfigured(f"{folder / kind}: {exc}; put the files of the release in their place") from exc


def _families(folder: Path, kind: str) -> dict[str, list[str]]:
    """Return the phrases of all languages together."""
    together: dict[str, list[str]] = {}
    for path in _files(folder, kind, "yaml"):
        for name, phrases in _read(folder, f"{kind}/{path.name}", read_families).items():
            together.setdefault(name, []).extend(phrases)
    return together


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFile:
    """One list as it is, or as it would be. `entries`: each line or phrase that counts."""

    name: str
    entries: frozenset[str]
    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListChange:
    """What another version of a list changes. `at`: when it was compared; `old` None: there was none."""

    old: ListFile | None
    new: ListFile
    added: tuple[str, ...]
    removed: tuple[str, ...]
    at: datetime

    @property
    def share(self) -> float:
        """Return how much of the list changes, against as many entries as it had."""
        had = len(self.old.entries) if self.old is not None else 0
        return (len(self.added) + len(self.removed)) / had if had else float(bool(self.added))

    @property
    def record(self) -> dict[str, str | int]:
        """Return what is written down of it."""
        return {
            "list": self.new.name,
            "sha256": self.new.sha256,
            "size_bytes": self.new.size_bytes,
            "at": self.at.isoformat(),
            "added": len(self.added),
            "removed": len(self.removed),
        }


def read_list(name: str, data: bytes) -> ListFile:
    """Return one list from its bytes, checked whole. `name`: as it is called in the folder.

    Raises:
        InputRejected: There is no such list, or not all of it is right.
    """
    try:
        entries = _entries(name, data.decode("utf-8"))
    except (UnicodeDecodeError, ValueError) as exc:
        what = "is not UTF-8" if isinstance(exc, UnicodeDecodeError) else str(exc)
        raise InputRejected(f"{name}: {what}; nothing was changed") from exc
    return ListFile(name=name, entries=entries, sha256=sha256(data).hexdigest(), size_bytes=len(data))


def _entries(name: str, text: str) -> frozenset[str]:
    kind, _, file = name.rpartition("/")
    if name == DOMAINS:
        return read_domains(text)
    if (kind == TERMS and file.endswith(".txt")) or name == STAFF:
        words = read_words(text)
        stems = (f"{stem}*" for stems in words.stems.values() for stem in stems)
        return frozenset((*words.words, *words.phrases, *stems, *(f"!{each}" for each in words.exceptions)))
    if kind in (URGENT, BOT_ATTACK) and file.endswith(".yaml"):
        return frozenset(f"{family}: {each}" for family, phrases in read_families(text).items() for each in phrases)
    if name in _FORMS:
        return frozenset(_flat(_FORMS[name](text)))
    raise ValueError("there is no such list")


def _flat(form: object) -> list[str]:
    """Return a form as lines, so that two can be compared."""
    if isinstance(form, Brands):
        return [*(f"bait: {each}" for each in form.bait), *(str(_plain(each)) for each in form.brands)]
    assert isinstance(form, Attachments | Links)  # noqa: S101  # for the type checker
    lines = []
    for field, value in _plain(form).items():
        held = value if isinstance(value, list) else value.items() if isinstance(value, dict) else [value]
        lines += [f"{field}: {each}" for each in held]
    return lines


def _plain(form: Attachments | Links | Brand) -> dict[str, Any]:
    """Return a form as plain data, sets in order."""
    data = form.model_dump(mode="json")
    return {name: sorted(value) if isinstance(value, list) else value for name, value in data.items()}


def compare(old: ListFile | None, new: ListFile, at: datetime) -> ListChange:
    """Return what `new` changes."""
    had = old.entries if old is not None else frozenset()
    added, removed = tuple(sorted(new.entries - had)), tuple(sorted(had - new.entries))
    return ListChange(old=old, new=new, added=added, removed=removed, at=at)


def accept(change: ListChange, *, yes: bool = False) -> ListChange:
    """Return a change that may be made.

    Raises:
        InputRejected: The list would be empty, or more of it changes than goes without somebody's word.
    """
    if not change.new.entries:
        raise InputRejected(f"{change.new.name}: is empty; nothing was changed")
    if change.old is not None and change.share > MOST_CHANGED and not yes:
        raise InputRejected(
            f"{change.new.name}: {len(change.added)} added and {len(change.removed)} removed of "
            f"{len(change.old.entries)}, more than {MOST_CHANGED:.0%}; look at them, then say --yes"
        )
    return change


_FORMS: Mapping[str, Callable[[str], Attachments | Brands | Links]] = {
    ATTACHMENTS: read_attachments,
    BRANDS: read_brands,
    LINKS: read_links,
}
