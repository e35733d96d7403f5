"""How each list is written down; untrusted until it has been read here. Pure. Raises everywhere: `ValueError`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core.moderation.fast.fold import fold, fold_word
from core.moderation.fast.phrases import read_phrases

STRONG, WEAK = "strong", "weak"
MOST_LINES = 1_000_000
_HOST = re.compile(r"^[^\W_][\w-]*(?:\.[^\W_][\w-]*)+$")
_LONGEST_HOST = 253
Word = Annotated[str, Field(min_length=1, max_length=400)]
Suffix = Annotated[str, Field(pattern=r"^[a-z0-9]{1,10}$")]
HostName = Annotated[str, Field(pattern=_HOST.pattern, max_length=_LONGEST_HOST)]


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Attachments(_Form):
    """Kinds of files by their last suffix. `mimes`: types that say so by themselves; `passwords`: words beside one."""

    executable: frozenset[Suffix]
    script: frozenset[Suffix]
    archive: frozenset[Suffix]
    harmless: frozenset[Suffix]
    mimes: frozenset[Word]
    passwords: frozenset[Word]
    max_mb: Annotated[float, Field(gt=0)]


class Brand(_Form):
    """A name that frauds borrow. `hosts`: where it truly is; `unlike`: words near it that are not meant."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]{4,40}$")]
    hosts: frozenset[HostName]
    unlike: frozenset[Word] = frozenset()


class _Brands(_Form):
    brands: Annotated[tuple[Brand, ...], Field(min_length=1)]
    bait: frozenset[Word]


@dataclass(frozen=True, slots=True)
class Brands:
    """All brands. `bait`: words that stand beside one in the hosts of frauds."""

    brands: tuple[Brand, ...]
    bait: frozenset[str]


class Links(_Form):
    """Where invitations lead. `short`: what a short host stands for; `invites`: where a path is an invitation.

    In `invites` each host has the beginnings of such paths; an empty one: any path. `shorteners`: lead anywhere.
    """

    short: Mapping[HostName, Word]
    invites: Mapping[HostName, tuple[Annotated[str, Field(max_length=40)], ...]]
    shorteners: frozenset[HostName]


@dataclass(frozen=True, slots=True, eq=False)
class WordList:
    """Words, stems and phrases of a list, folded. Two are the same only if they are one.

    `stems`: by their first three letters; `exceptions`: what is not meant, folded with its marks.
    """

    words: frozenset[str]
    stems: Mapping[str, tuple[str, ...]]
    phrases: tuple[str, ...]
    exceptions: tuple[str, ...]


def _lines(text: str) -> list[tuple[int, str]]:
    lines = [(n, line.partition("#")[0].strip()) for n, line in enumerate(text.splitlines(), 1)]
    if len(lines) > MOST_LINES:
        raise ValueError(f"a list has {MOST_LINES} lines at most")
    return [(n, line) for n, line in lines if line]


def read_domains(text: str) -> frozenset[str]:
    """Return the hosts of a list, one a line; `www.` and capitals do not matter, a block file's address neither."""
    found = set()
    for number, line in _lines(text):
        host = line.split()[-1].lower().removeprefix("www.").strip(".")
        if len(host) > _LONGEST_HOST or not _HOST.match(host):
            raise ValueError(f"line {number}: is no host; write one like example.org")
        found.add(host)
    return frozenset(found)


_STEM = 3


def make_words(written: list[str]) -> WordList:
    """Return words as they are looked up: `word`, `stem*`, `some phrase`, and `!exception`."""
    words, stems, phrases, exceptions = set(), dict[str, list[str]](), [], []
    for each in written:
        folded = fold_word(each)
        if len(folded) < 2:
            raise ValueError(f"{each[:40]!r}: a word has two letters at least")
        if each.startswith("!"):
            exceptions.append(fold(each[1:]).strip())
        elif each.endswith("*"):
            if len(folded) < _STEM or " " in folded:
                raise ValueError(f"{each[:40]!r}: a stem is one word and has {_STEM} letters at least")
            stems.setdefault(folded[:_STEM], []).append(folded)
        elif " " in folded:
            phrases.append(folded)
        else:
            words.add(folded)
    return WordList(
        frozenset(words), {k: tuple(v) for k, v in stems.items()}, tuple(phrases), tuple(sorted(exceptions))
    )


def read_words(text: str) -> WordList:
    """Return the words of a list, one a line."""
    return make_words([line for _, line in _lines(text)])


def _yaml(text: str) -> object:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as exc:
        raise ValueError("is no YAML") from exc


_FormT = TypeVar("_FormT", bound=BaseModel)


def _checked(form: type[_FormT], text: str) -> _FormT:
    try:
        return form.model_validate(_yaml(text))
    except ValidationError as exc:
        wrong = exc.errors(include_url=False, include_input=False, include_context=False)[:10]
        raise ValueError("; ".join(f"{' '.join(map(str, each['loc']))}: {each['msg']}" for each in wrong)) from exc


def read_attachments(text: str) -> Attachments:
    """Return what files are told apart by."""
    return _checked(Attachments, text)


def read_brands(text: str) -> Brands:
    """Return brands and what frauds put beside them."""
    form = _checked(_Brands, text)
    return Brands(form.brands, form.bait)


def read_links(text: str) -> Links:
    """Return where invitations and short links lead."""
    return _checked(Links, text)


class _Family(_Form):
    strong: tuple[Word, ...] = ()
    weak: tuple[Word, ...] = ()


class _Families(_Form):
    families: Annotated[dict[Annotated[str, Field(pattern=r"^[a-z][a-z-]{0,39}$")], _Family], Field(min_length=1)]


def read_families(text: str) -> dict[str, tuple[str, ...]]:
    """Return phrases by `family/strong` and `family/weak`, each as it is written."""
    form = _checked(_Families, text)
    families = {
        f"{name}/{weight}": phrases
        for name, family in form.families.items()
        for weight, phrases in ((STRONG, family.strong), (WEAK, family.weak))
        if phrases
    }
    read_phrases(families)
    return families
