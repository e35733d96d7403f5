"""What may not be said, whatever a model wrote: the last look at a text before it may become public.

Law: nothing a stream shows is anything but a beginning of what the whole text gives.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

import regex

from core.chat.markup import has_visible, mend_surrogates, open_fence
from core.chat.promises import PromiseReplacer, Promises
from core.chat.secrets import holds_secret
from core.chat.sentences import Sentences, split_sentences
from core.chat.stripping import ReachBack, ReasoningFilter, strip_reasoning

TEXT_CHARS = 6000
"""The longest answer."""
CUT_CHARS = 5900
"""Where a longer one is cut at the latest; leaves room for closing a fence."""
LEAST_CUT_CHARS = 4000
"""Where it is cut at the earliest."""
ECHO_WORDS = 8
"""How many words in a row of the system part are an echo of it."""
STREAMED_CHARS = 4 * TEXT_CHARS
"""Behind this much text a stream shows no more; the final text decides."""

LOOK_BACK_CHARS = 600
"""How far before its end a stream's shown text is looked at again, for what two sentences make together."""


class Guard(StrEnum):
    """Every guard; stored values never change."""

    EMPTY = "empty"
    SENTINEL = "sentinel"
    FENCE_MARKER = "fence_marker"
    PROMPT_ECHO = "prompt_echo"
    SECRET = "secret"  # noqa: S105  # a name, not a password
    REPEAT = "repeat"
    TOO_LONG = "too_long"
    SURROGATES = "surrogates"
    MEMORY_PROMISE = "memory_promise"


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardContext:
    """What the guards compare a text with.

    `system_runs`: `word_runs` of those system sections that nobody should read out. `marker`: of this
    request's fences. `own_messages`: the last 5 of the room. `promises` None: some operation was accepted,
    so sentences may speak of it; else `memory_line` stands in for a promise.
    """

    system_runs: frozenset[str] = frozenset()
    marker: str = ""
    own_messages: tuple[str, ...] = ()
    promises: Promises | None = None
    memory_line: str = ""


@dataclass(frozen=True, slots=True)
class Guarded:
    """Text that may be said. `fired` with `too_long`: it was cut, and the caller says so."""

    text: str
    fired: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Blocked:
    """The text may not be said at all."""

    guard: Guard


# The names that harnesses give to silence. In words that people use too, only capitals or brackets count.
_SENTINELS = frozenset(
    {"heartbeat_ok", "heartbeat", "no_reply", "noreply", "no_reply_needed", "silent", "silence", "stay_silent"}
    | {"silent_reply", "no_response", "no_response_needed", "no_answer", "no_action", "no_action_needed", "no_op"}
    | {"noop", "no_speech", "no_output", "nothing_to_say", "nothing_to_add", "skip", "pass", "none", "ok_silent"}
    | {"schweigen", "stille", "keine_antwort", "pas_de_réponse", "silencio", "sin_respuesta"}
)
_SENTINEL = re.compile(r"(?P<open>[\W_]{0,8})(?P<core>[^\W_][\w -]{0,30}?)(?P<close>[\W_]{0,8})")
_MENTION = re.compile(r"<[@#][!&]?[0-9]{1,20}>|(?<![\w.])@\w{1,64}")
_FENCE_SHAPE = re.compile(r"<<(?:data|end) [a-z2-7]{12}\b")
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_]+(?:['’][^\W_]+)*")
_GRAPHEME = regex.compile(r"\X")
# An answer that begins so may be a draft in JSON, whose form only its end tells.
_JSON_BEGINS = re.compile(r"(?:(?:`{3,16}|~{3,16})[^\n]*(?:\s+|\Z))?(?:\{|\Z)")
_CUTS = (
    re.compile(r"\n[ \t]*\n"),
    re.compile(r"\n"),
    re.compile(r"(?<=[.!?…。！？])(?:\s|(?<=[。！？]))"),
    re.compile(r"\s"),
)


_READINGS = 8


def word_runs(text: str, size: int = ECHO_WORDS) -> frozenset[str]:
    """Return all runs of `size` words in `text`, case-folded; of scripts without blanks, a sign is a word."""
    words = [match.group().casefold().replace("’", "'") for match in _WORD.finditer(text)]
    return frozenset(" ".join(run) for run in zip(*(islice(words, n, None) for n in range(size)), strict=False))


def guard(text: str, context: GuardContext) -> Guarded | Blocked:
    """Return `text`, which holds no thinking any more, as it may be said."""
    fired: list[Guard] = []
    mended = mend_surrogates(text).strip()
    if mended != text.strip():
        fired.append(Guard.SURROGATES)
    said, promised = _without_promises(mended, context)
    if promised:
        fired.append(Guard.MEMORY_PROMISE)
    if len(said) > TEXT_CHARS:
        said, _ = _without_promises(_cut(said), context)  # a cut may end a fence that hid one
        fired.append(Guard.TOO_LONG)
    refusal = _refusal(said, context)
    return Blocked(refusal) if refusal is not None else Guarded(said, tuple(fired))


def _without_promises(text: str, context: GuardContext) -> tuple[str, bool]:
    """Return `text` with its promises replaced, and whether there were any.

    What is taken out can move a mark of code to the beginning of a line, and with it what counts as code; so the
    text is read again until nothing more is found.
    """
    found = False
    for _ in range(_READINGS):
        replacer = PromiseReplacer(context.promises, context.memory_line, found)
        said = "".join(map(replacer.replace, split_sentences(text))).strip()
        found = replacer.found
        if said == text:
            break
        text = said
    return text, found


def _cut(text: str) -> str:
    end = 0
    for cut in _CUTS:
        found = [match.start() for match in cut.finditer(text, LEAST_CUT_CHARS, CUT_CHARS)]
        if found:
            end = found[-1]
            break
    else:
        ends = [match.end() for match in _GRAPHEME.finditer(text, LEAST_CUT_CHARS, CUT_CHARS)][:-1]
        end = ends[-1] if ends else CUT_CHARS
    kept = text[:end].rstrip()
    fence = open_fence(kept)
    return kept if fence is None else f"{kept}\n{fence.mark * fence.size}"


def _refusal(text: str, context: GuardContext) -> Guard | None:
    """Return the first guard that refuses `text` as a whole answer."""
    if _is_empty(text):
        return Guard.EMPTY
    if _is_sentinel(text):
        return Guard.SENTINEL
    if _same_words(text) in map(_same_words, context.own_messages):
        return Guard.REPEAT
    return _content_refusal(text, context)


def _content_refusal(text: str, context: GuardContext) -> Guard | None:
    """Return the guard that refuses something inside `text`; more text never takes such a refusal back."""
    folded = text.casefold()
    if (context.marker and context.marker.casefold() in folded) or _FENCE_SHAPE.search(folded):
        return Guard.FENCE_MARKER
    if holds_secret(text):
        return Guard.SECRET
    if context.system_runs and not context.system_runs.isdisjoint(word_runs(text)):
        return Guard.PROMPT_ECHO
    return None


def _is_empty(text: str) -> bool:
    return not has_visible(_MENTION.sub("", text))


def _is_sentinel(text: str) -> bool:
    match = _SENTINEL.fullmatch(text.strip())
    if match is None:
        return False
    core = match["core"].rstrip(" -")
    if re.sub(r"[ -]", "_", core.casefold()) not in _SENTINELS:
        return False
    return core.isupper() or "_" in core or bool(set(match["open"]) & set("[(<{*"))


def _same_words(text: str) -> str:
    return " ".join(text.casefold().split())


class SentenceGate:
    """Lets whole sentences of a stream through as soon as nothing that follows can take them back.

    `feed` and `shown` give a beginning of what `finish` gives, unless `finish` refuses the text: then what was
    shown holds nothing that a guard refuses. With `ReachBack.ALWAYS` nothing is shown before the end.
    """

    def __init__(self, context: GuardContext, turn_text: str = "", reach_back: ReachBack = ReachBack.ONCE) -> None:
        self.shown = ""
        self.reach_back = reach_back
        self.refused: Guard | None = None  # why nothing more is shown
        self._context = context
        self._turn_text = turn_text
        self._own = tuple(map(_same_words, context.own_messages))
        self._filter = ReasoningFilter(turn_text, reach_back)
        self._sentences = Sentences()
        self._replacer = PromiseReplacer(context.promises, context.memory_line)
        self._pieces: list[str] = []  # everything that came in
        self._half = ""  # half a character at the end of a piece
        self._said = ""  # whole sentences, promises replaced
        self._taken_chars = 0

    def feed(self, delta: str) -> list[str]:
        """Return what can be shown now, in order; white space between sentences stands before them."""
        self._pieces.append(delta)
        if self.refused is not None or self._taken_chars > STREAMED_CHARS or len(self._said) > CUT_CHARS:
            return []
        piece = self._half + delta
        self._half = piece[-1] if piece and "\ud800" <= piece[-1] <= "\udbff" else ""
        kept = self._filter.feed(mend_surrogates(piece[: len(piece) - len(self._half)]))
        self._taken_chars += len(kept)
        released: list[str] = []
        for sentence in self._sentences.feed(kept):
            self._said = (self._said + self._replacer.replace(sentence)).lstrip()
            released += self._release()
        return released

    def finish(self) -> Guarded | Blocked:
        """Return what the whole text gives, exactly as if it had come at once."""
        stripped = strip_reasoning("".join(self._pieces), self._turn_text, self.reach_back)
        return guard(stripped.text, self._context)

    def _release(self) -> list[str]:
        candidate = self._certain().rstrip()
        if self.refused is not None or len(candidate) <= len(self.shown) or self._may_be_refused(candidate):
            return []
        # What was shown was looked at; only what reaches over its end can be new.
        known = max(0, len(self.shown) - LOOK_BACK_CHARS)
        begin = max(candidate.rfind(" ", 0, known), candidate.rfind("\n", 0, known)) + 1
        self.refused = _content_refusal(candidate[begin:], self._context)
        if self.refused is not None:
            return []
        piece, self.shown = candidate[len(self.shown) :], candidate
        return [piece]

    def _may_be_refused(self, candidate: str) -> bool:
        """Return whether more text could make this an answer that is refused for what it is as a whole."""
        words = _same_words(candidate) if self._own else ""
        self._own = tuple(own for own in self._own if own.startswith(words))
        if self._own:
            return True
        if self.shown:
            return False
        if _JSON_BEGINS.match(candidate):
            return True
        return not any(map(str.isalnum, candidate)) or _is_empty(candidate) or _is_sentinel(candidate)

    def _certain(self) -> str:
        """Return the beginning of what was said that stays even if the whole is too long and cut."""
        if len(self._said) <= LEAST_CUT_CHARS:
            return self._said
        paragraphs = [match.start() for match in _CUTS[0].finditer(self._said, LEAST_CUT_CHARS, CUT_CHARS)]
        return self._said[: paragraphs[-1]] if paragraphs else ""
