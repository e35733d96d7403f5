"""Invitations to other servers and groups, through short links too as far as our table knows them.

Parameters: `own` (codes or links that lead here).
"""

import re
from collections.abc import Iterator

from core.domain.moderation.rules import Detector
from core.domain.moderation.signals import Finding
from core.moderation.fast.fold import CAP
from core.moderation.fast.look import Look
from core.moderation.list_forms import Links

_ADDRESS = re.compile(
    r"(?<![\w.@-])(?:[a-z]+://)?(?:www\.)?([a-z0-9][a-z0-9-]*(?:\.[a-z0-9-]+)+)/([^\s<>()\[\]\"']{0,200})", re.I
)
_APP = re.compile(r"\btg://join\?invite=([\w-]{4,})", re.IGNORECASE)


def find(look: Look) -> Finding | None:
    """Return the first invitation that does not lead to where the message stands."""
    own = frozenset(look.words("own"))
    for where, span in look.reading.once("invites", lambda: list(_invitations(look))):
        if not _is_own(where, own):
            return look.finding(Detector.INVITES, 1, 1, span=span, what=where.partition("/")[0])
    return None


def _invitations(look: Look) -> Iterator[tuple[str, tuple[int, int] | None]]:
    text, links = look.message.text[:CAP], look.lists.links
    if "/" in text:
        for app in _APP.finditer(text):
            yield f"t.me/+{app[1]}", app.span()
        for match in _ADDRESS.finditer(text):
            if where := invitation(match[1], match[2], links):
                yield where, match.span()
    for link in look.message.marks.links:
        led = _ADDRESS.match(link.url)
        if led and (where := invitation(led[1], led[2], links)):
            yield where, None


def _is_own(where: str, own: frozenset[str]) -> bool:
    return any(where == each or where.endswith((f"/{each}", f"+{each}")) for each in own)


def invitation(host: str, path: str, links: Links) -> str:
    """Return host, path and code of an invitation, short hosts resolved; empty if it is none."""
    host, path = host.lower(), path.rstrip(".,;:!?")
    stands_for, _, before = links.short.get(host, host).partition("/")
    stands_for, _, further = links.short.get(stands_for, stands_for).partition("/")
    path = "/".join(filter(None, (further, before, path)))
    for start in links.invites.get(stands_for, ()):
        if path.startswith(start) and len(path) > len(start):
            return f"{stands_for}/{path}"
    return ""
