"""What the index holds for one message: its own words, those near it, and when it was said. Pure."""

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from core.domain.ids import MessageId, PersonId, RoomId
from core.domain.timeexpr import day_words

NEAR_CHARS = 300
"""What is taken of the message before, the one after, and the one replied to."""
FAR_CHARS = 200
"""What is taken of those beyond."""
NEIGHBOURS = 2
"""How many messages on each side belong to a unit."""
SESSION_GAP = timedelta(minutes=60)
"""A longer silence ends a session: what was said before it is no neighbour."""
PART_CHARS = 1500
"""A longer message is split into parts, so that a hit names the passage and not the essay."""

_INVISIBLE = {*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0xAD, 0xFEFF, 0x180E}
_NOTHING = dict.fromkeys(_INVISIBLE)
# Scripts written without spaces: Thai, Lao, Myanmar, Khmer, Kana, Han, and the halfwidth forms of Kana.
_UNSPACED = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_TOKEN = re.compile(r"[^\s<>()\[\]{}\"'“”‘’,;!?|`*]{2,200}")
_JOINTS = re.compile(r"[_\-./:#@=&+~\\]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=\D)(?=\d)|(?<=\d)(?=[^\W\d])")
_MARKS = re.compile(r"[_/#\\]|::|[^\W\d]\d|\d[^\W\d]|[a-z][A-Z]|\w[.:@\-=]\w")
_BREAKS = re.compile(r"\n\s*\n|\n|(?<=[.!?])\s")
IDENT_CHARS = 120
IDENTS = 40
"""How many identifiers of one text are kept whole; a log of thousands would drown the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """A message as the index sees it. `usable` False: a tombstone, or someone who opted out; neighbours stop there.

    `beside`: names, captions and extracted text of its files. `reply_to`: the platform's id of what it answers.
    """

    id: MessageId
    room_id: RoomId
    author_id: PersonId
    speaker: str
    by_bot: bool
    sent_at: datetime
    text: str
    kind: str
    usable: bool = True
    session: str | None = None
    beside: str = ""
    sources: tuple[RoomId, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One retrieval unit: what is indexed of a message or of one part of it, field by field.

    `quote_from` and `quote_to` are the part's place in the message's text, `quote_to` None for a whole message.
    `idents`: identifiers to be found as they stand. `own_hash` is of the own words alone, which vectors are made of.
    """

    message: Spoken
    part: int
    quote_from: int
    quote_to: int | None
    own: str
    near: str
    far: str
    when: str
    idents: tuple[str, ...]
    sources: tuple[RoomId, ...] | None
    own_hash: str
    unit_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What stands around a message in its room: nearest first on both sides, and what it replies to."""

    before: Sequence[Spoken] = ()
    after: Sequence[Spoken] = ()
    parent: Spoken | None = None
    title: str = ""


def build_units(message: Spoken, around: Around) -> list[Unit]:
    """Return the units of one message, none if it is not usable or says nothing."""
    if not message.usable:
        return []
    before, after = _reach(message, around.before), _reach(message, around.after)
    parent = around.parent if around.parent is not None and around.parent.usable else None
    near = [each for each in (parent, *before[:1], *after[:1]) if each is not None and _may_stand_in(each, message)]
    far = [each for each in (*before[1:], *after[1:]) if _may_stand_in(each, message)]
    near_text = "\n".join(_line(each, NEAR_CHARS) for each in _once(near))
    far_text = "\n".join([*(_line(each, FAR_CHARS) for each in far), around.title]).strip()
    found: list[Unit] = []
    for part, (start, end) in enumerate(parts_of(message.text)):
        words = message.text[start:end]
        beside = message.beside if part == 0 else ""
        if not (words.strip() or beside):
            continue
        own = embedded_text(message.speaker, words, beside)
        fields = (own, near_text, far_text, day_words(message.sent_at, UTC))
        found.append(
            Unit(
                message=message,
                part=part,
                quote_from=start,
                quote_to=None if end == len(message.text) and part == 0 else end,
                own=fold(own),
                near=fold(near_text),
                far=fold(far_text),
                when=fold(fields[3]),
                idents=identifiers(f"{words} {beside}"),
                sources=message.sources,
                own_hash=_hash(own),
                unit_hash=_hash("\x1f".join(fields)),
            )
        )
    return found


def embedded_text(speaker: str, words: str, beside: str = "") -> str:
    """Return the own words of a unit as one text: who speaks, what, and what is beside it."""
    return f"{speaker}: {words.strip()} {beside}".strip()


def _reach(message: Spoken, side: Sequence[Spoken]) -> list[Spoken]:
    """Return the neighbours of one side up to the first break of the talk."""
    found: list[Spoken] = []
    last = message
    for each in side[:NEIGHBOURS]:
        apart = abs(each.sent_at - last.sent_at)
        if not each.usable or each.session != message.session or (each.session is None and apart > SESSION_GAP):
            break
        found.append(each)
        last = each
    return found


def _once(spoken: Sequence[Spoken]) -> list[Spoken]:
    return list({each.id: each for each in spoken}.values())


def _line(spoken: Spoken, limit: int) -> str:
    return f"{spoken.speaker}: {spoken.text} {spoken.beside}"[: limit + len(spoken.speaker) + 2].strip()


def _may_stand_in(neighbour: Spoken, message: Spoken) -> bool:
    """Return whether whoever may read the message may read the neighbour: borrowed words make no unit stricter."""
    borrowed = set(neighbour.sources or ()) - set(message.sources or ()) - {message.room_id}
    return neighbour.id != message.id and not borrowed


def parts_of(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of a text's parts, each up to `PART_CHARS` long; they cover it without overlap."""
    start = 0
    while len(text) - start > PART_CHARS:
        window = text[start : start + PART_CHARS]
        ends = [match.end() for match in _BREAKS.finditer(window, PART_CHARS // 2)]
        end = start + (ends[-1] if ends else (window.rfind(" ", PART_CHARS // 2) + 1) or PART_CHARS)
        yield start, end
        start = end
    yield start, len(text)


def fold(text: str) -> str:
    """Return `text` as units and questions are compared: compatible forms, no case, nothing invisible.

    A run of a script without spaces becomes its pairs of characters, which are then words.
    """
    if text.isascii():
        return text.replace("\x00", " ").lower()
    whole = text.encode("utf-8", "replace").decode()  # half a pair of surrogates is no character
    plain = unicodedata.normalize("NFKC", whole).translate(_NOTHING).replace("\x00", " ").casefold()
    return _UNSPACED.sub(_pairs, plain)


def _pairs(run: re.Match[str]) -> str:
    signs = run[0]
    if len(signs) == 1:
        return f" {signs} "
    return f" {' '.join(signs[n : n + 2] for n in range(len(signs) - 1))} "


def identifiers(text: str) -> tuple[str, ...]:
    """Return what is no prose in a text: names of code, error codes, numbers with marks, addresses; whole and in parts.

    All folded, in order, each once.
    """
    found: dict[str, None] = {}
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text).translate(_NOTHING)
    for match in _TOKEN.finditer(plain.encode("utf-8", "ignore").decode().replace("\x00", " ")):
        token = match[0].strip(".:-=+~&")
        if len(token) < 2 or len(token) > IDENT_CHARS or not _MARKS.search(token):
            continue
        pieces = [piece for piece in _JOINTS.split(token) if len(piece) > 1]
        for piece in (token, *pieces):
            found.setdefault(piece.casefold())
        if len(found) > IDENTS:
            break
    return tuple(found)


def is_identifier(text: str) -> bool:
    """Return whether the whole text is one such token."""
    token = text.strip()
    return bool(_TOKEN.fullmatch(token)) and bool(_MARKS.search(token))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
