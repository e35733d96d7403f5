"""What a distilled memory no longer says of the notes that it was made from, found by rule. Pure.

Whatever is lost has to be owned up to in a note, so a slogan cannot silently take the place of what it was made of.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum

from core.domain.clustering import likeness_of
from core.domain.mind.codes import Rejected, RejectionCode
from core.domain.mind.facts import Similarity
from core.domain.mind.values import TargetKind, Thought

KEPT_TOKENS = 0.5
"""Share of the concrete tokens that a memory keeps without a note."""
KEPT_LENGTH = 0.4
"""Share of the longest source's length of claim and tension."""

# Each is blanked before the next is looked for, so that no token counts twice.
_TOKENS = (
    re.compile(r"`([^`\n]{1,200})`"),
    re.compile(r"[\"“„«]([^\"“”„«»\n]{2,200})[\"”“»]"),
    re.compile(r"(?<!\w)['‘]([^'‘’\n]{2,200})['’](?!\w)"),
    re.compile(r"(?<!\w)(@\w[\w.-]*\w)"),
    re.compile(
        r"((?:[\w.:~-]*/){2,}[\w.#-]*\w|[\w.~-]*/[\w-]*\.\w+|(?<!\S)~?/[\w.-]*\w|\b\w[\w-]+\.[A-Za-z]\w{1,4}\b)"
    ),
    re.compile(r"(?<![\w.])[#v]?(\d+(?:[.,:]\d+)*)"),
)


class Loss(StrEnum):
    """What a memory lost."""

    TARGET = "target"
    MATTER = "matter"
    TOKENS = "tokens"
    LENGTH = "length"


_SAYS = {
    Loss.TARGET: "it is about none of the things that its sources are about",
    Loss.MATTER: "nothing of the claim and tension of a source is left",
    Loss.TOKENS: "most numbers, names, paths or quoted words are gone",
    Loss.LENGTH: "claim and tension are far shorter than those of a source",
}


def compared(result: Thought) -> str:
    """Return the text of a memory with which the parts of its sources are compared."""
    return "\n".join(_fields(result))


def parts(source: Thought) -> Mapping[str, str]:
    """Return what of a source is looked for in a memory, by name: its point and its tension.

    The score of a part stands in `Similarity.scores` under the memory's id and `part_id`.
    """
    found = {"point": source.claim or source.question or source.summary, "tension": source.tension}
    return {name: text for name, text in found.items() if text is not None}


def part_id(source_id: str, part: str) -> str:
    """Return what stands for a part of a source among the scores; no entry has such an id."""
    return f"{source_id}#{part}"


def losses(id_: str, result: Thought, sources: Mapping[str, Thought], similarity: Similarity) -> tuple[Loss, ...]:
    """Return what is lost of `sources`, by id, in the memory `id_`."""
    found = {
        Loss.TARGET: result.target.key not in {source.target.key for source in sources.values()},
        Loss.MATTER: any(_gone(id_, result, each, source, similarity) for each, source in sources.items()),
        Loss.TOKENS: _tokens_gone(result, sources.values()),
        Loss.LENGTH: _length(result) < KEPT_LENGTH * max(map(_length, sources.values()), default=0),
    }
    return tuple(loss for loss, lost in found.items() if lost)


def loss_wall(
    lost: tuple[Loss, ...], result: Thought, note: str | None, reason: str | None, path: str
) -> Rejected | None:
    """Refuse a loss without a note, or with one that only says again what stands elsewhere."""
    if not lost:
        return None
    elsewhere = {_plain(text) for text in (*_fields(result), reason) if text is not None}
    if note is not None and _plain(note) not in elsewhere:
        return None
    return Rejected(
        RejectionCode.LOSS_UNEXPLAINED, path, f"say what is left out: {'; '.join(_SAYS[loss] for loss in lost)}"
    )


def concrete_tokens(thought: Thought, labels: Iterable[str] = ()) -> frozenset[str]:
    """Return what is concrete in the claim and question: numbers, quoted words, code, paths, @names, and `labels`."""
    text = "\n".join(each for each in (thought.claim, thought.question) if each is not None)
    found = {label.casefold() for label in labels if _occurs(label.casefold(), text.casefold())}
    for pattern in _TOKENS:
        found |= {match.group(1).casefold().strip() for match in pattern.finditer(text)}
        text = pattern.sub(" ", text)
    return frozenset(found - {""})


def labels_of(sources: Iterable[Thought]) -> frozenset[str]:
    """Return the names of repositories, rooms and people that thoughts are about."""
    found: set[str] = set()
    for source in sources:
        if source.repo is not None:
            found.add(source.repo)
        if source.target.kind is TargetKind.REPO:
            found.add(source.target.id)
        if source.target.kind in (TargetKind.REPO, TargetKind.ROOM, TargetKind.PERSON) and source.target.label:
            found.add(source.target.label)
    return frozenset(found)


def _gone(id_: str, result: Thought, source_id: str, source: Thought, similarity: Similarity) -> bool:
    fields = _fields(result)
    scores = (
        likeness_of(similarity, (id_, part_id(source_id, part)), text, *fields) for part, text in parts(source).items()
    )
    return not any(likeness.related for likeness in scores)


def _tokens_gone(result: Thought, sources: Iterable[Thought]) -> bool:
    every = tuple(sources)
    labels = labels_of(every)
    tokens = frozenset[str]().union(*(concrete_tokens(source, labels) for source in every))
    text = compared(result).casefold()
    return sum(_occurs(token, text) for token in tokens) < KEPT_TOKENS * len(tokens)


def _occurs(token: str, text: str) -> bool:
    digits = token.replace(".", "").replace(",", "").replace(":", "").isdecimal()
    before, after = (r"(?<!\d)(?<!\d[.,:])", r"(?!\d)(?![.,:]\d)") if digits else (r"(?<!\w)", r"(?!\w)")
    return re.search(f"{before}{re.escape(token)}{after}", text) is not None


def _fields(thought: Thought) -> tuple[str, ...]:
    every = (thought.summary, thought.claim, thought.question, thought.tension, thought.action_implication)
    return tuple(each for each in every if each is not None)


def _length(thought: Thought) -> int:
    return sum(len(each) for each in (thought.claim, thought.question, thought.tension) if each is not None)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
