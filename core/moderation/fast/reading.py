"""One message as all detectors read it: what several of them need is worked out once, and only if one asks. Pure."""

import re
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

from core.domain.moderation.signals import Watched
from core.moderation.fast.fold import CAP, Folded, fold
from core.moderation.fast.hosts import Hosts, find_hosts

_T = TypeVar("_T")
HEAD, TAIL = 600, 200
"""How many characters from the beginning and the end of a long text are read for a score or likeness."""
COMPARED_CHARS = 20
"""The shortest text that is compared with others."""
SHINGLE = 4
SKETCH = 64
KEYS = 4
_GAPS = re.compile(r"[\W_]+")


class Reading:
    """A message with its folded copy, its links, and the sketch by which near-same texts are found."""

    def __init__(self, message: Watched) -> None:
        self.message = message
        self._worked_out: dict[str, Any] = {}

    @cached_property
    def folded(self) -> Folded:
        """Return its text as words are looked for in it."""
        return Folded(self.message.text)

    @cached_property
    def hosts(self) -> Hosts:
        """Return where its links lead, written out or hidden."""
        return find_hosts(self.message.text[:CAP], self.message.marks.links)

    def once(self, name: str, work_out: Callable[[], _T]) -> _T:
        """Return what is worked out when a detector first asks for it; further rules get the same."""
        if name not in self._worked_out:
            self._worked_out[name] = work_out()
        held: _T = self._worked_out[name]
        return held

    @cached_property
    def excerpt(self) -> str:
        """Return its text, of a long one the beginning and the end."""
        text = self.message.text
        return text if len(text) <= HEAD + TAIL else f"{text[:HEAD]} {text[-TAIL:]}"

    @cached_property
    def sketch(self) -> frozenset[int]:
        """Return what its text is compared by; empty if it is too short. Equal texts have equal ones."""
        plain = _GAPS.sub(" ", fold(self.excerpt)).strip()
        if len(plain) < COMPARED_CHARS:
            return frozenset()
        shingles = {plain[n : n + SHINGLE] for n in range(len(plain) - SHINGLE + 1)}
        return frozenset(sorted(map(hash, shingles))[:SKETCH])

    @cached_property
    def keys(self) -> tuple[int, ...]:
        """Return the parts of the sketch under which it is remembered: two that are near share one of them."""
        return tuple(sorted(self.sketch)[:KEYS])


def similarity(one: frozenset[int], other: frozenset[int]) -> float:
    """Return how near two texts are, 0 to 1, from their sketches; exact for short ones, a little low for long ones."""
    both = len(one & other)
    return both / ((len(one) + len(other) - both) or 1)
