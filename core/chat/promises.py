"""Sentences that promise to remember: found by patterns that are reviewed data, replaced by a line of code's."""

import re
from dataclasses import dataclass
from pathlib import PurePath

from core.chat.markup import is_fence
from core.prompt.templates import broken, split_front_matter

_SECTION = re.compile(r"(?m)^## ([a-z]{2})$")
_GAP = r"(?:[^.!?\n]{0,40} )?"
_NEGATIONS = {
    "en": r"not\b|never\b|n't\b",
    "de": r"nicht\b|nie\b|kein",
    "fr": r"pas\b|jamais\b",
    "es": r"no\b|nunca\b",
}
_ROOM = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Promises:
    """Compiled patterns of every language; an answer may mix languages, so all are tried."""

    pattern: re.Pattern[str]

    def occur_in(self, sentence: str) -> bool:
        """Return whether `sentence` promises to remember, or claims to have."""
        plain = _ROOM.sub(" ", sentence.replace("’", "'").casefold()).strip(" *_>\"'“”#-")
        return self.pattern.search(plain) is not None


def read_promises(path: str, text: str) -> Promises:
    """Return what the file with this `text` says.

    Raises:
        Misconfigured: A language is missing or a pattern is wrong; the message names it.
    """
    shown = PurePath(path).as_posix()
    fields, body = split_front_matter(shown, text)
    sections = _SECTION.split(body)
    found = dict(zip(sections[1::2], sections[2::2], strict=True))
    if list(found) != fields.get("languages"):
        raise broken(shown, "has other sections than languages", "give each language one section `## xx`, in order")
    patterns = [pattern for language, lines in found.items() for pattern in _patterns(shown, language, lines)]
    return Promises(re.compile("|".join(patterns)))


def _patterns(path: str, language: str, lines: str) -> list[str]:
    written = [line.removeprefix("- ") for line in lines.splitlines() if line.startswith("- ")]
    if language not in _NEGATIONS or not written:
        raise broken(path, f"has no patterns for `{language}`, or its negations are unknown", "write `- ` lines")
    sure = rf"(?:(?:(?!{_NEGATIONS[language]})[^.!?\n]){{0,40}} )?"
    patterns = [
        rf"(?<!\w)(?:{line.casefold().replace('{gap}', _GAP).replace('{sure}', sure)})(?!\w)" for line in written
    ]
    for pattern, line in zip(patterns, written, strict=True):
        try:
            re.compile(pattern)
        except re.error as exc:
            raise broken(path, f"has the pattern `{line}`, which is wrong", str(exc)) from exc
    return patterns


@dataclass(slots=True)
class PromiseReplacer:
    """Takes the sentences of one text in order: the first promise becomes `line`, further ones go."""

    promises: Promises | None
    line: str
    found: bool = False
    _line_start: bool = True

    def replace(self, sentence: str) -> str:
        """Return what stands in place of `sentence`; a code fence is never a promise."""
        fence = self._line_start and is_fence(sentence)
        self._line_start = sentence.endswith("\n")
        if self.promises is None or fence or not self.promises.occur_in(sentence):
            return sentence
        first, self.found = not self.found, True
        return self.line + sentence[len(sentence.rstrip()) :] if first else ""
