"""Hosts of frauds: listed ones, ones that imitate a brand, and links that show another host than they lead to.

Parameters: `allow` (hosts that are welcome here), `deny` (further ones that are not).
"""

import re

from core.domain.moderation.rules import Detector
from core.domain.moderation.signals import Finding
from core.moderation.fast.fold import fold, unsign
from core.moderation.fast.hosts import Host, parents, registrable
from core.moderation.fast.look import Look
from core.moderation.fast.windows import within_one
from core.moderation.list_forms import Brand, Brands

MOST_COMPARED = 60
"""How many hosts of one message are compared with brands; all are looked up in the list."""
_PARTS = re.compile(r"[-_.]")


def find(look: Look) -> Finding | None:
    """Return the worst host that a message names."""
    allowed, denied = frozenset(look.words("allow")), frozenset(look.words("deny"))
    hosts = [host for host in look.reading.hosts.found if allowed.isdisjoint(parents(host.name))]
    for host in hosts:
        if any(each in look.lists.domains or each in denied for each in parents(host.name)):
            return _found(look, host, "listed host")
    for host in hosts[:MOST_COMPARED]:
        if host.shown and registrable(host.shown) != registrable(host.name):
            return _found(look, host, "shows another host")
        if brand := imitated(host.name, look.lists.brands):
            return _found(look, host, f"imitates {brand}")
    return None


def _found(look: Look, host: Host, what: str) -> Finding:
    return look.finding(Detector.SCAM_DOMAINS, 1, 1, span=host.span, what=what)


def imitated(host: str, brands: Brands) -> str:
    """Return the brand that a host imitates; empty if it is that of a brand, or of nobody known."""
    held = frozenset(parents(host))
    if any(not held.isdisjoint(brand.hosts) for brand in brands.brands):
        return ""
    label = registrable(host).partition(".")[0]
    plain = unsign(fold(label))
    parts = _PARTS.split(plain)
    bait = not brands.bait.isdisjoint(parts)
    for brand in brands.brands:
        if _is_near(label, plain, brand) or (bait and any(_is_near("", part, brand) for part in parts)):
            return brand.name
    return ""


def _is_near(raw: str, plain: str, brand: Brand) -> bool:
    """Return whether a label is meant to be read as a brand; the brand's own name, plainly written, is not."""
    if plain == brand.name:
        return raw != brand.name
    # Of short names too many plain words are near.
    return len(brand.name) > 4 and plain not in brand.unlike and within_one(plain, brand.name)
