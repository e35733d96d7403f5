"""Which earlier line a line answers, and which earlier lines to show beside it: weighed signs, no model. Pure."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from operator import mul

from core.domain.folding import folded

WINDOW_LINES = 50
"""How many earlier lines are looked at; what is answered lies further back in about one case of fifty."""
SHOWN_LINES = 20
_RECENT_SHARE = 0.5
_CHAIN_LINES = 3
_NEAR_LINES = 20
_SHARED_AT_MOST = 8.0
_LONG_WORDS = 12
_COMMON_SHARE = 0.1
_READ_CHARS = 2000
_HEAD_CHARS = 40
# Shorter ones are words too often to be taken for names.
_NAME_CHARS = 3
_NAME_AT_MOST = 100
_LOGS = tuple(math.log1p(count) for count in range(WINDOW_LINES + 1))
_NOBODY: frozenset[str] = frozenset()
_WORD = re.compile(r"\w[\w'’.+-]*\w|\w")
_EDGES = re.compile(r"\A\W+|\W+\Z")
# A name of up to three words: where it ends, only the names that are known can tell.
_AT = re.compile(r"(?<![\w@])@([^\s@]+(?: [^\s@]+){0,2})")
_ASKS = re.compile(r"[?？؟](?!\w)")
_GREETINGS = frozenset(
    (
        *("hi", "hello", "hey", "hiya", "greetings", "hallo", "moin", "servus", "gruezi", "salut", "bonjour", "coucou"),
        *("bonsoir", "hola", "buenas", "привет", "здравствуите"),
    )
)

# How much a sign speaks for an earlier line being answered. Own: of the message's author. Named: of somebody whom the
# message addresses; hinted: whom it names elsewhere. Source: logistic fit on one half of ten stretches of a busy help
# channel; the other half came within two points of it. No sign counts minutes, so that slow rooms are judged alike.
_ANSWERED: Mapping[str, float] = {
    "lines between (log)": -0.6,
    "time between by the room's pace (log)": -1.0,
    "own": 0.9,
    "own latest": 1.3,
    "own, nothing between": 0.6,
    "named": 4.6,
    "latest of somebody named": 0.2,
    "named and spoke to me": 0.1,
    "named and asks": 0.3,
    "somebody else is named": -1.7,
    "own to the same person": 1.7,
    "hinted": 3.7,
    "speaks to me": 0.9,
    "latest that speaks to me": 0.7,
    "speaks to another": -1.3,
    "names me": 1.9,
    "we talked before (log)": 0.1,
    "whom I talk with now": 1.4,
    "rarity of shared words": 0.4,
    "asks, and I do not": 0.2,
    "answers since (log)": -0.8,
}
# How much a sign speaks for a new thread.
_BEGUN: Mapping[str, float] = {
    "always": -0.9,
    "silent so far": 2.1,
    "silent so far and asks": 0.5,
    "greets": 1.6,
    "somebody is named": -1.9,
    "asks": 0.8,
    "long": 1.4,
    "talks with somebody now": -0.7,
}
_ANSWERED_WEIGHTS = tuple(_ANSWERED.values())
_BEGUN_WEIGHTS = tuple(_BEGUN.values())


@dataclass(frozen=True, slots=True)
class _Said:
    """What a text says by its form: names are folded, and without what stands around them."""

    words: frozenset[str]
    first: str
    openings: tuple[str, ...]
    at: tuple[tuple[str, ...], ...]
    asks: bool
    greets: bool
    long: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a room; what its text says is read once, when it is made, for it stands in up to fifty windows.

    `author` is a stable key and `names` what people call its owner now. `mentions` are the keys of those whom the
    platform says it mentions. `reply_to` is the edge that the platform stored. `service`: joins, pins and the like,
    which answer nothing and are not answered.
    """

    ref: str
    author: str
    names: tuple[str, ...]
    sent_at: datetime
    text: str
    reply_to: str | None = None
    mentions: frozenset[str] = frozenset()
    service: bool = False
    called: tuple[str, ...] = field(init=False, repr=False, compare=False)
    said: _Said = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "called", tuple(filter(None, (_name(folded(name[:_NAME_AT_MOST])) for name in self.names)))
        )
        object.__setattr__(self, "said", _read(folded(self.text[:_READ_CHARS])))


@dataclass(frozen=True, slots=True)
class Link:
    """What a line answers: `ref`, or None where it begins a thread.

    `score` is the share of belief in it, 0 to 1. `inferred` is False only for an edge that the platform stored; an
    inferred one is never shown as a reply.
    """

    ref: str | None
    score: float
    inferred: bool = True


def predict_reply(window: Sequence[Line], message: Line) -> Link:
    """Return which line of `window` (oldest first) is answered by `message`; of a tie the latest.

    A stored edge decides, wherever it leads. Only the last `WINDOW_LINES` lines that are no service lines count.
    """
    if message.reply_to is not None:
        return Link(message.reply_to, 1.0, inferred=False)
    if message.service:
        return Link(None, 1.0)
    weighed = _weighed(window, message)
    line, top = max(weighed, key=lambda each: each[1])
    share = 1.0 / sum(math.exp(weight - top) for _, weight in weighed)
    return Link(line.ref if line is not None else None, share)


def context_window(window: Sequence[Line], message: Line, limit: int = SHOWN_LINES) -> list[Line]:
    """Return up to `limit` lines of `window` to show beside `message`, oldest first; no service lines.

    Half are the latest. The others are what it answers, stored or most probably, with what that answered in turn,
    then whatever else it may answer, most probable first. `window` may be longer than `predict_reply` looks back.
    """
    lines = [line for line in window if not line.service]
    if limit <= 0 or len(lines) <= limit:
        return lines[: max(0, limit)]
    at = {line.ref: place for place, line in enumerate(lines)}
    chosen = dict.fromkeys(range(len(lines) - math.ceil(limit * _RECENT_SHARE), len(lines)))
    chosen |= dict.fromkeys(_chain(lines, message, at))
    weighed = sorted(_weighed(lines, message), key=lambda each: -each[1])
    chosen |= dict.fromkeys(at[line.ref] for line, _ in weighed if line is not None)
    chosen |= dict.fromkeys(range(len(lines) - 1, -1, -1))
    return [lines[place] for place in sorted(list(chosen)[:limit])]


def _chain(lines: Sequence[Line], message: Line, at: Mapping[str, int]) -> Iterator[int]:
    link = predict_reply(lines, message)
    for _ in range(_CHAIN_LINES):
        place = at.get(link.ref) if link.ref is not None else None
        if place is None:
            return
        yield place
        link = predict_reply(lines[max(0, place - WINDOW_LINES) : place], lines[place])


def _weighed(window: Sequence[Line], message: Line) -> list[tuple[Line | None, float]]:
    """Return each line that may be answered, latest first, and at the end None for a new thread, with its weight."""
    scene = _Scene(window, message)
    weights = [sum(map(mul, _ANSWERED_WEIGHTS, signs)) for signs in scene.answered()]
    return [*zip(scene.lines, weights, strict=True), (None, sum(map(mul, _BEGUN_WEIGHTS, scene.begun())))]


class _Scene:
    """Who speaks to whom in a window, as far as the form of the lines tells it; lines are latest first."""

    def __init__(self, window: Sequence[Line], message: Line) -> None:
        self.message = message
        self.lines = [line for line in reversed(window) if not line.service][:WINDOW_LINES]
        self.me = me = message.author
        self.names = _known_names([message, *self.lines])
        self.mine = {name for name, author in self.names.items() if author == me}
        self.named = _addressed(message, self.names) or _abbreviated(message, self.names)
        quoted = message.said.words & self.names.keys() | {message.said.first} & self.names.keys()
        self.to = self._addressees()
        self.hinted = {self.names[name] for name in quoted if self._is_name(name)} - self.named - {me}
        self.talked: Counter[str] = Counter()
        self.partner: str | None = None
        for line, to in zip(self.lines, self.to, strict=True):
            others = to if line.author == me else {line.author} if me in to else _NOBODY
            if others:
                self.talked.update(others)
                self.partner = self.partner or min(others)
        self.shared = self._shared()
        near = self.lines[:_NEAR_LINES]
        span_s = (message.sent_at - near[-1].sent_at).total_seconds() if near else 0.0
        self.pace_s = max(span_s / max(len(near), 1), 1.0)

    def _is_name(self, name: str) -> bool:
        """Return whether a word is meant as the name that it is: common words are said without speaking to anybody."""
        others = sum(
            name in line.said.words and self.names[name] not in to for line, to in zip(self.lines, self.to, strict=True)
        )
        return len(name) >= _NAME_CHARS and others <= len(self.lines) * _COMMON_SHARE

    def _addressees(self) -> list[frozenset[str]]:
        authors = {line.ref: line.author for line in self.lines}
        found = []
        for line in self.lines:
            to = _addressed(line, self.names)
            if line.reply_to is not None and line.reply_to in authors:
                to = (to | {authors[line.reply_to]}) - {line.author}
            found.append(to)
        return found

    def _shared(self) -> list[float]:
        words = {word for word in self.message.said.words if len(word) > 1 and word not in self.names}
        common = [words & line.said.words for line in self.lines]
        holders = Counter(chain.from_iterable(common))
        whole = max(len(self.lines), _NEAR_LINES) + 2
        rarity = {word: math.log(whole / (count + 0.5)) for word, count in holders.items()}
        return [min(sum(rarity[word] for word in each), _SHARED_AT_MOST) if each else 0.0 for each in common]

    def answered(self) -> Iterator[tuple[float, ...]]:
        """Yield the signs of each line in the order of `_ANSWERED`."""
        me, said, named, hinted, mine = self.me, self.message.said, self.named, self.hinted, self.mine
        shared = self.shared
        seen: set[str] = set()
        called, answers = False, Counter[str]()
        sent_at, pace_s, talked, partner = self.message.sent_at, self.pace_s, self.talked, self.partner
        anybody, quiet = bool(named), not said.asks
        for between, line in enumerate(self.lines):
            author, to = line.author, self.to[between]
            own, is_named, to_me = author == me, author in named, me in to
            latest, asks = author not in seen, line.said.asks
            since_s = max(0.0, (sent_at - line.sent_at).total_seconds())
            at_me = to_me and not called
            yield (
                _LOGS[between],
                math.log1p(since_s / pace_s),
                own,
                own and latest,
                own and between == 0,
                is_named,
                is_named and latest,
                is_named and to_me,
                is_named and asks,
                anybody and not is_named and not own,
                own and anybody and not named.isdisjoint(to),
                author in hinted,
                to_me,
                at_me,
                not (own or to_me) and bool(to),
                not (own or to_me) and not mine.isdisjoint(line.said.words),
                _LOGS[talked[author]] if author in talked else 0.0,
                not anybody and author == partner,
                shared[between],
                quiet and asks and not own,
                _LOGS[answers[author]] if author in answers else 0.0,
            )
            seen.add(author)
            called = called or to_me
            for other in to:
                answers[other] += 1

    def begun(self) -> tuple[float, ...]:
        """Return the signs of a new thread in the order of `_BEGUN`."""
        said = self.message.said
        # Silence in two lines says little, silence in fifty that a stranger comes with something of his own.
        silent = len(self.lines) / WINDOW_LINES if all(line.author != self.me for line in self.lines) else 0.0
        talks = self.partner is not None
        return (1.0, silent, silent * said.asks, said.greets, bool(self.named), said.asks, said.long, talks)


def _name(text: str) -> str:
    return text if text.isalnum() else _EDGES.sub("", text)


def _read(text: str) -> _Said:
    words = _WORD.findall(text)
    head = text[:_HEAD_CHARS].lstrip().partition("\n")[0]
    first = head.partition(" ")[0]
    # "Name of three words: …", and "name:suffix, …" where the first mark belongs to the name.
    ends = [end for end in (head.find(":"), head.find(",")) if end > 0]
    openings = [_name(head[: min(ends)])] if ends else []
    if first.endswith((":", ",")):
        openings.append(_name(first))
    at = tuple(_beginnings(match[1]) for match in _AT.finditer(text)) if "@" in text else ()
    return _Said(
        words=frozenset(words),
        first=_name(first),
        openings=tuple(dict.fromkeys(filter(None, openings))),
        at=at,
        asks=_ASKS.search(text) is not None,
        greets=not _GREETINGS.isdisjoint(words[:3]),
        long=len(words) > _LONG_WORDS,
    )


def _beginnings(words: str) -> tuple[str, ...]:
    parts = words.split(" ")
    return tuple(_name(" ".join(parts[:count])) for count in range(len(parts), 0, -1))


def _known_names(lines: Sequence[Line]) -> dict[str, str]:
    """Return whose name each is: of two people with one name, who spoke last. First words come after whole names."""
    names: dict[str, str] = {}
    for line in lines:
        for name in line.called:
            names.setdefault(name, line.author)
    for name, author in list(names.items()):
        first, space, _ = name.partition(" ")
        if space and len(first) >= _NAME_CHARS:
            names.setdefault(first, author)
    return names


def _addressed(line: Line, names: Mapping[str, str]) -> frozenset[str]:
    said = line.said
    if not (said.openings or said.at or line.mentions):
        return _NOBODY
    found = set(line.mentions)
    found.update(names[opening] for opening in said.openings if opening in names)
    for keys in said.at:
        found.update([names[key] for key in keys if key in names][:1])
    found.discard(line.author)
    return frozenset(found)


def _abbreviated(message: Line, names: Mapping[str, str]) -> frozenset[str]:
    """Return who is addressed by the beginning of a name that only one person in the window has."""
    for opening in message.said.openings:
        if len(opening) >= _NAME_CHARS and " " not in opening:
            owners = {author for name, author in names.items() if name.startswith(opening)} - {message.author}
            if len(owners) == 1:
                return frozenset(owners)
    return _NOBODY
