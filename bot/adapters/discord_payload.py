"""Reads Discord's JSON without ever failing: what is missing or of another kind is empty."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

Payload = Mapping[str, object]

_EPOCH_MS = 1_420_070_400_000
_ID_DIGITS = 20


def payload(value: object) -> Payload:
    """Return an object as it is, anything else as an empty one."""
    return value if isinstance(value, dict) else {}


def part(data: Payload, name: str) -> Payload:
    """Return the object under a name."""
    return payload(data.get(name))


def parts(data: Payload, name: str) -> Sequence[Payload]:
    """Return the objects in the list under a name."""
    found = data.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def words(data: Payload, name: str) -> Sequence[str]:
    """Return the texts in the list under a name."""
    found = data.get(name)
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def text(data: Payload, name: str) -> str:
    """Return the text under a name."""
    found = data.get(name)
    return found if isinstance(found, str) else ""


def number(data: Payload, name: str) -> int:
    """Return the whole number under a name; numbers written as text count."""
    found = data.get(name)
    if isinstance(found, str) and found.isascii() and found.isdigit() and len(found) <= _ID_DIGITS:
        return int(found)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def ref(data: Payload, name: str) -> str:
    """Return the id under a name as text; empty if it is none."""
    found = number(data, name)
    return str(found) if found > 0 else ""


def seconds(data: Payload, name: str) -> float | None:
    """Return the length under a name in seconds."""
    found = data.get(name)
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def moment(data: Payload, name: str) -> datetime | None:
    """Return the time under a name, aware; None if it is none."""
    try:
        found = datetime.fromisoformat(text(data, name))
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def time_of(snowflake: str) -> datetime | None:
    """Return when an id was made; None for what is no id."""
    if not snowflake.isascii() or not snowflake.isdigit() or len(snowflake) > _ID_DIGITS:
        return None
    try:
        return datetime.fromtimestamp(((int(snowflake) >> 22) + _EPOCH_MS) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def id_at(at: datetime) -> int:
    """Return the smallest id that could be made at a time."""
    since_epoch = at - datetime.fromtimestamp(_EPOCH_MS / 1000, UTC)
    return max(0, since_epoch // timedelta(milliseconds=1)) << 22
