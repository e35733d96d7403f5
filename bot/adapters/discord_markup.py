"""Discord's marks in a text: put into readable words, and searched for whom they speak to. Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from bot.adapters.addressing import Names, addressed_by_text, spoken
from core.domain.messages import Address

Namer = Callable[[str], str]
"""Returns the name of what has this id; empty if it is not known."""

SEARCHED_CHARS = 3000
"""How much of the beginning and of the end of a long text is searched for an address: files can be long."""

_MARK = re.compile(
    r"(?P<code>```.*?(?:```|\Z)|(?<!`)(?P<tick>`+)(?!`).{1,2000}?(?<!`)(?P=tick)(?!`))"
    r"|<@!?(?P<person>[0-9]{1,20})>"
    r"|<@&(?P<role>[0-9]{1,20})>"
    r"|<#(?P<room>[0-9]{1,20})>"
    r"|<a?:(?P<emoji>\w{1,64}):[0-9]{1,20}>"
    r"|<t:(?P<time>-?[0-9]{1,12})(?::[tTdDfFRsS])?>"
    r"|</(?P<command>[\w -]{1,100}):[0-9]{1,20}>",
    re.DOTALL,
)
_SPOKEN_TO = re.compile(r"<@(?P<role>&)?!?(?P<id>[0-9]{1,20})>")
_ANY_MARK = re.compile(r"<[@#:/at][^<>\n]{0,200}>")


def nobody(_: str) -> str:
    """Know no names."""
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """How people, roles and rooms are called; `people` by account."""

    people: Mapping[str, str] = field(default_factory=dict)
    role: Namer = nobody
    room: Namer = nobody


def readable(content: str, labels: Labels) -> str:
    """Return a text with names in place of ids; what stands in code stays as it is."""

    def named(match: re.Match[str]) -> str:
        kind, found = match.lastgroup, match[0]
        match kind:
            case "person":
                return f"@{labels.people.get(match['person']) or 'someone'}"
            case "role":
                return f"@{labels.role(match['role']) or 'a role'}"
            case "room":
                return f"#{labels.room(match['room']) or 'a room'}"
            case "emoji":
                return f":{match['emoji']}:"
            case "time":
                return _written(int(match["time"])) or found
            case "command":
                return f"/{match['command']}"
            case _:
                return found

    return _MARK.sub(named, content)


def _written(seconds: int) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return ""


def addressed(
    content: str, names: Names, *, bot_ref: str, own_roles: frozenset[str], other_bots: frozenset[str]
) -> frozenset[Address]:
    """Return how a text speaks to the bot: by its account or a role that only it holds, or by a name.

    Where another bot is spoken to first, a mention of ours does not count. Everyone and roles with people do not.
    """
    if len(content) > 2 * SEARCHED_CHARS:
        content = f"{content[:SEARCHED_CHARS]}\n{content[-SEARCHED_CHARS:]}"
    said = spoken(content)
    found: set[Address] = set()
    for match in _SPOKEN_TO.finditer(said):
        ours = match["id"] in own_roles if match["role"] else match["id"] == bot_ref
        if ours:
            found.add(Address.MENTION)
        if ours or (not match["role"] and match["id"] in other_bots):
            break
    # A written `@void` is no mention here: it is a name. Marks become a word that is none, to keep the edges.
    if addressed_by_text(_ANY_MARK.sub(" _ ", content), names):
        found.add(Address.NAME)
    return frozenset(found)
