"""Checks of single settings; each refuses with what is wrong, the setting says what to set."""

import re
from dataclasses import dataclass
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


@dataclass(frozen=True, slots=True)
class Marked:
    """What is said of a setting beside its type. `says_something_empty`: an empty value is not the same as none."""

    says_something_empty: bool = False


SAYS_SOMETHING_EMPTY = Marked(says_something_empty=True)


def lower(value: object) -> object:
    """Return a word without spaces around it, in lower case; anything else as it is."""
    return value.strip().lower() if isinstance(value, str) else value


def zone(name: str) -> str:
    """Return the name of a time zone that exists."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise ValueError("no time zone has this name") from exc
    return name


def people(refs: tuple[str, ...]) -> tuple[str, ...]:
    """Return people written as platform:account."""
    if not all(re.fullmatch(r"[a-z]+:\S+", ref) for ref in refs):
        raise ValueError("a person is written platform:account")
    return refs


def base_url(url: str) -> str:
    """Return an http address without a password."""
    if not re.fullmatch(r"https?://[^\s/@]+(/\S*)?", url):
        raise ValueError("must start with http:// or https:// and hold no password")
    return url
