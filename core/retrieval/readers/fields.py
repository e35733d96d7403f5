"""Single fields of a record: ids, times, texts; each taken as it is meant or refused with a code."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from zoneinfo import ZoneInfo

from core.domain.imports import NAME_CHARS, REF_CHARS, TEXT_CHARS, BadCode

_EARLIEST, _LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


class BadField(Exception):
    """A record cannot be used. `code` says why."""

    def __init__(self, code: BadCode) -> None:
        super().__init__(code)
        self.code = code


def ref_of(value: object) -> str | None:
    """Return an id as text; None if there is none.

    Raises:
        BadField: It is neither number nor text, or longer than any id.
    """
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise BadField(BadCode.BAD_TYPE)
    ref = str(value)
    if len(ref) > REF_CHARS or "\x00" in ref or not ref.isprintable():
        raise BadField(BadCode.BAD_TYPE)
    return ref


def needed_ref(value: object) -> str:
    """Return an id as text.

    Raises:
        BadField: There is none, or it is none.
    """
    ref = ref_of(value)
    if ref is None:
        raise BadField(BadCode.BAD_TYPE)
    return ref


def iso_time(value: object, zone: ZoneInfo | None = None) -> datetime:
    """Return the instant that an ISO 8601 text names; one without an offset is local time in `zone`.

    Raises:
        BadField: `no_time` for none, `bad_time` for no time, or a local one without a zone.
    """
    if value is None or value == "":
        raise BadField(BadCode.NO_TIME)
    if not isinstance(value, str):
        raise BadField(BadCode.BAD_TIME)
    try:
        at = datetime.fromisoformat(value)
        if at.tzinfo is None:
            if zone is None:
                raise BadField(BadCode.BAD_TIME)
            at = at.replace(tzinfo=zone)
        return _bounded(at.astimezone(UTC))
    except (ValueError, OverflowError):
        raise BadField(BadCode.BAD_TIME) from None


def unix_time(value: object) -> datetime:
    """Return the instant of a number of seconds, written as number or text.

    Raises:
        BadField: `bad_time`.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise BadField(BadCode.BAD_TIME)
    try:
        return _bounded(datetime.fromtimestamp(int(value), UTC))
    except (ValueError, OverflowError, OSError):
        raise BadField(BadCode.BAD_TIME) from None


def _bounded(at: datetime) -> datetime:
    if not _EARLIEST <= at < _LATEST:
        raise BadField(BadCode.BAD_TIME)
    return at


def mapping(value: object) -> Mapping[str, Any]:
    """Return an object's members; none for anything else."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """Return a list's items; none for anything else."""
    return value if isinstance(value, list) else []


def count(value: object) -> int:
    """Return a size; 0 for what is none."""
    return value if isinstance(value, int) and 0 <= value < 2**62 else 0


@dataclass(slots=True)
class Mender:
    """Makes texts storable, and remembers what it had to mend since the last `take`."""

    found: list[BadCode] = field(default_factory=list)

    def text(self, value: object, *, limit: int = TEXT_CHARS) -> str:
        """Return a text without NUL and lone surrogates; empty for null.

        Raises:
            BadField: It is no text, or too long.
        """
        if value is None:
            return ""
        if not isinstance(value, str):
            raise BadField(BadCode.BAD_TYPE)
        if len(value) > limit:
            raise BadField(BadCode.TOO_LONG)
        if value.isascii():
            return self._without_nul(value) if "\x00" in value else value
        if "\x00" in value:
            value = self._without_nul(value)
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            self._note(BadCode.LONE_SURROGATE)
            value = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return value

    def name(self, value: object) -> str:
        """Return a name on one line; empty for what is none."""
        return " ".join(self.text(value)[:NAME_CHARS].split()) if isinstance(value, str) else ""

    def _without_nul(self, value: str) -> str:
        self._note(BadCode.NUL_BYTE)
        return value.replace("\x00", "")

    def _note(self, code: BadCode) -> None:
        if code not in self.found:
            self.found.append(code)

    def take(self) -> tuple[BadCode, ...]:
        """Return what was mended, and begin anew."""
        if not self.found:
            return ()
        mended = tuple(self.found)
        self.found.clear()
        return mended


@dataclass(slots=True)
class Twins:
    """Ids for records that have none: made from author, time and text, and how often these came before.

    Equal records of one second stand together in every export, so the counts of one second are enough.
    """

    second: datetime | None = None
    seen: dict[str, int] = field(default_factory=dict)

    def ref(self, author: str, at: datetime, text: str) -> str:
        """Return the id of this record."""
        if self.second != at:
            if self.second is not None:  # None: these are counts to go on from
                self.seen.clear()
            self.second = at
        content = sha256("\x1f".join((author, at.isoformat(), text)).encode("utf-8", "replace")).hexdigest()
        self.seen[content] = number = self.seen.get(content, 0) + 1
        return sha256(f"{content}:{number}".encode()).hexdigest()[:32]
