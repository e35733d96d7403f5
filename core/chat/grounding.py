"""What of a summary stands on its sources: sentences that cite a passage, and quote only what is there. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from core.domain.prompt import Handle

_LIST = re.compile(r"\s*(?:[-*•]|\d{1,3}[.)])\s+")
_CITES = re.compile(r"\[([a-z][0-9]{1,4}(?:\s{0,4}[,;]\s{0,4}[a-z][0-9]{1,4}){0,15})\]")
# A sentence may end before the handles that belong to it; "e.g. this" is no end.
_END = re.compile(r"[.!?…。！？][\"”'’)\]*_]{0,4}(?:\s{0,2}\[[a-z0-9,; ]{2,80}\]){0,4}(?=\s+[^a-z\s\[]|\s*\Z)")
_QUOTED = re.compile(r"[\"“„«]([^\"“”„«»\n]{1,500})[\"”“»]")
_WORD = re.compile(r"\w+")
_QUOTE_WORDS = 3
"""From so many words on, what stands between quotation marks must have been said so."""
_SENTENCE_WORDS = 3


@dataclass(frozen=True, slots=True)
class Grounded:
    """What is left of a text, and how many of its sentences had to go."""

    text: str
    dropped: int


def ground(text: str, passages: Mapping[Handle, str]) -> Grounded:
    """Return the sentences of `text` that cite a passage and misquote none, with the headings above them.

    Args:
        text: A summary with handles in square brackets, in lines of prose or lists.
        passages: The words behind each handle that may be cited.
    """
    words = {handle: _plain(said) for handle, said in passages.items()}
    lines: list[str] = []
    waiting: list[str] = []
    dropped = 0
    for line in text.splitlines():
        if not _WORD.search(line):
            waiting = [*waiting, line] if lines and not line.strip() else waiting
            continue
        if _is_heading(line):
            waiting.append(line)
            continue
        mark = match[0] if (match := _LIST.match(line)) else ""
        sentences = _sentences(line[len(mark) :])
        kept = [sentence for sentence in sentences if _stands(sentence, words)]
        dropped += len(sentences) - len(kept)
        if kept:
            lines += [*waiting, mark + " ".join(kept)]
            waiting = []
    return Grounded("\n".join(lines).strip(), dropped)


def _is_heading(line: str) -> bool:
    plain = line.strip()
    return not _CITES.search(plain) and (plain.startswith("#") or plain.strip("*_ ").endswith(":"))


def _sentences(line: str) -> Sequence[str]:
    found: list[str] = []
    start = 0
    for end in (*(match.end() for match in _END.finditer(line)), len(line)):
        piece = line[start:end].strip()
        if not piece or (end < len(line) and len(_WORD.findall(piece)) < _SENTENCE_WORDS):
            continue  # "Dr." alone is no sentence: it begins the next one
        found.append(piece)
        start = end
    return found


def _stands(sentence: str, words: Mapping[Handle, str]) -> bool:
    cited = [Handle(name) for match in _CITES.finditer(sentence) for name in re.findall(r"[a-z][0-9]+", match[1])]
    said = [words[handle] for handle in cited if handle in words]
    if not said:
        return False
    quotes = [_plain(match[1]) for match in _QUOTED.finditer(_CITES.sub("", sentence))]
    long = [quote for quote in quotes if len(quote.split()) >= _QUOTE_WORDS]
    return all(any(f" {quote} " in f" {each} " for each in said) for quote in long)


def _plain(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))
