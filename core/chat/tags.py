"""The tags in which models think aloud: which families there are, and what one tag does."""

import re
from dataclasses import dataclass
from enum import StrEnum

TAG_CHARS = 200
"""The longest tag, attributes included; what is longer is text."""

CHANNEL = "channel"
"""The family of `<|channel|>` marks; the channel `final` is the answer, every other one is not for people."""

# Words that end the last part of a name, longest first, and the family they belong to: models close
# `<thinking>` with `</think>`, so both are one family.
_FAMILIES = (
    ("scratchpad", "scratchpad"),
    ("reflection", "reflection"),
    ("monologue", "monologue"),
    ("reasoning", "reasoning"),
    ("thinking", "think"),
    ("thoughts", "think"),
    ("analysis", "analysis"),
    ("thought", "think"),
    ("think", "think"),
)
# In square brackets only what no answer uses as a heading.
_BRACKETS = re.compile(r"(?P<slash>/?)(?P<name>THINK|THINKING|THOUGHTS?|REASONING|SCRATCHPAD|think)")
_TAG = re.compile(r"(?P<slash>[/|]*)(?P<name>[A-Za-z][\w.:-]{0,63})[/|]*(?P<attributes>\s[^<>]*)?", re.DOTALL)
# What may follow a bare name is the end, or another tag: when that one goes, the name stands at the end.
_BARE = re.compile(r"(?P<slash>[/|]*)(?P<name>[A-Za-z][\w.:-]{0,63})[/|]*(?=\s*(?:\Z|[\[◁]))")
_CONTROL = re.compile(r"\|(?P<name>channel|start|message|end|return|call|constrain)\|?|channel\|")
_LINK = "(http"
_WORDS = re.compile(r"[^\W\d_]+")
_WORD_BEHIND = re.compile(r"\s{0,8}(?P<word>\w{0,24})")
_WORD_BEHIND_CHARS = 33
_BEGINNING = re.compile(r"[/|A-Za-z]")
_ENDS = {"<": re.compile(r"[<>\n]"), "[": re.compile(r"[\[\]\n]"), "◁": re.compile(r"[◁▷\n]")}
_PROPER_END = {"<": ">", "[": "]", "◁": "▷"}
_CLOSING_WORDS = frozenset({"end", "stop", "eo", "close"})


class TagAct(StrEnum):
    """What a tag does to the text around it. `end` closes a channel and is nothing where none is open."""

    LITERAL = "literal"
    OPEN = "open"
    CLOSE = "close"
    END = "end"
    MARK = "mark"


@dataclass(frozen=True, slots=True)
class Tag:
    """What stands at a place of the text; `end` is the index behind it."""

    act: TagAct
    family: str
    end: int


def tag_end(text: str, at: int) -> int | None:
    """Return where the tag that may begin at `at` ends: the index of its last character, or of what breaks it."""
    found = _ENDS[text[at]].search(text, at + 1, at + TAG_CHARS)
    return found.start() if found else None


def may_be_tag(text: str, at: int) -> bool:
    """Return whether the unfinished tag at `at` can still become one."""
    return at + 1 == len(text) or _BEGINNING.match(text, at + 1) is not None


def read_tag(text: str, at: int, end: int | None, final: bool) -> Tag | None:
    """Return what stands at `at`, given its `tag_end`; None: what comes after it decides.

    `end` None: it does not end within `TAG_CHARS`, or `final` and the text ends first.
    """
    opener = text[at]
    stop = min(len(text), at + TAG_CHARS) if end is None else end
    token = text[at + 1 : stop]
    proper = end is not None and text[end] == _PROPER_END[opener]
    behind = stop + 1 if proper else stop
    if end is None and len(text) - at > TAG_CHARS:
        return _literal(at)
    if opener == "[":
        return _bracket(text, at, token, behind, final) if proper else _literal(at)
    if proper and opener == "<" and (control := _CONTROL.fullmatch(token)) is not None:
        return _control(text, control["name"], behind, final)
    tag = _TAG.fullmatch(token) if proper else None
    if tag is None:
        # Without its bracket a tag is believed only if it is the bare name: "a <think\n", never "a <think of b".
        tag = _BARE.match(token)
        if tag is None:
            return _literal(at)
        behind = at + 1 + tag.end()
    words = _WORDS.findall(tag["name"].rpartition(":")[2].casefold())
    family = _family(words)
    if family is None:
        return _literal(at)
    closes = "/" in tag["slash"] or words[0] in _CLOSING_WORDS or words[0].startswith("endof")
    if closes:
        return Tag(TagAct.CLOSE, family, behind)
    return Tag(TagAct.MARK if token.endswith("/") else TagAct.OPEN, family, behind)


def _literal(at: int) -> Tag:
    return Tag(TagAct.LITERAL, "", at + 1)


def _family(words: list[str]) -> str | None:
    if words == ["cot"]:
        return "cot"
    return next((family for word in words for suffix, family in _FAMILIES if word.endswith(suffix)), None)


def _bracket(text: str, at: int, token: str, behind: int, final: bool) -> Tag | None:
    tag = _BRACKETS.fullmatch(token)
    if tag is None:
        return _literal(at)
    if len(text) - behind < len(_LINK) and not final:
        return None
    if text.startswith(_LINK, behind):
        return _literal(at)
    family = _family([tag["name"].casefold()]) or ""
    return Tag(TagAct.CLOSE if tag["slash"] else TagAct.OPEN, family, behind)


def _control(text: str, name: str | None, behind: int, final: bool) -> Tag | None:
    match name:
        case None:  # `<channel|>`
            return Tag(TagAct.CLOSE, CHANNEL, behind)
        case "channel" | "start":
            word = _WORD_BEHIND.match(text, behind)
            if word is None or (len(text) - behind < _WORD_BEHIND_CHARS and word.end() == len(text) and not final):
                return None
            if name == "start":
                return Tag(TagAct.END, CHANNEL, word.end())
            act = TagAct.CLOSE if word["word"].casefold() == "final" else TagAct.OPEN
            return Tag(act, CHANNEL, word.end())
        case "end" | "return" | "call":
            return Tag(TagAct.END, CHANNEL, behind)
        case _:
            return Tag(TagAct.MARK, CHANNEL, behind)
