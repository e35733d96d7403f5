"""From a model's raw output to a draft: strict JSON or plain text, and the sources it cites.

Nothing is guessed: what does not fit is a value that says where and what was expected, for one more try.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from core.chat.markup import code_ranges
from core.chat.stripping import ReachBack, strip_reasoning
from core.domain.prompt import Handle, RepairNote
from core.domain.speech import SilenceReason

MAX_OPERATIONS = 8
MAX_OUTPUT_BYTES = 256 * 1024
"""The largest structured output; no batch of operations may be larger."""


class DraftFault(StrEnum):
    """Why an output cannot be used; stored values never change."""

    BAD_JSON = "bad_json"
    SCHEMA_ECHO = "schema_echo"
    BAD_DRAFT = "bad_draft"
    TOO_LARGE = "too_large"
    UNKNOWN_HANDLE = "unknown_handle"


@dataclass(frozen=True, slots=True)
class Parsed:
    """A draft as the model meant it: text without thinking, and operations as they came, unchecked.

    `silence` with an empty text is a wish to say nothing. `dropped`: thinking was removed.
    """

    text: str
    silence: SilenceReason | None
    operations: tuple[Mapping[str, JsonValue], ...]
    dropped: bool


@dataclass(frozen=True, slots=True)
class BadDraft:
    """An output that cannot be used; `note` is all that a repair call may say about it."""

    fault: DraftFault
    note: RepairNote


class DraftOutput(BaseModel):
    """What a model may return, in this order: the text comes last, so operations are known before it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    silence: SilenceReason | None = Field(default=None, strict=False)
    operations: list[dict[str, JsonValue]] = Field(default=[], max_length=MAX_OPERATIONS)
    text: str = ""


_FENCE = re.compile(r"(?P<run>`{3,16}|~{3,16})[ \t]*(?:json)?[ \t]*\n", re.IGNORECASE)
_FIELDS = frozenset(DraftOutput.model_fields)
_SCHEMA_WORDS = frozenset({"$schema", "$defs", "definitions", "properties", "additionalProperties", "required"})
_BROKEN_DRAFT = re.compile(r"\{\s{0,64}\"(?:silence|operations|text)\"\s{0,64}:")
_SAFE_NAME = re.compile(r"[A-Za-z_]\w{0,39}")
_WHOLE_VALUE = "one JSON object and nothing around it"
_PLAIN = "plain text without JSON"


class _NotJson(ValueError):
    """The text is not one strict JSON value."""


def parse_output(
    text: str, structured: bool, turn_text: str = "", reach_back: ReachBack = ReachBack.ALWAYS
) -> Parsed | BadDraft:
    """Return the draft in a model's raw output, its thinking removed.

    `structured`: the output is one JSON value, perhaps in one code fence, perhaps with thinking before it.
    Otherwise it is the answer itself. A plain answer that is a whole draft in JSON is read as one, without
    its operations, because raw JSON of that form is never meant for people; a broken one is asked for again.
    """
    if not structured:
        return _parse_plain(text, turn_text, reach_back)
    if len(text.encode("utf-8", "surrogatepass")) > MAX_OUTPUT_BYTES:
        return _bad(DraftFault.TOO_LARGE, "$", f"at most {MAX_OUTPUT_BYTES} bytes")
    dropped = False
    try:
        value = _read_json(text)
    except _NotJson:
        stripped = strip_reasoning(text, turn_text)
        dropped = stripped.dropped
        try:
            value = _read_json(stripped.text)
        except _NotJson:
            return _bad(DraftFault.BAD_JSON, "$", _WHOLE_VALUE)
    return _validate(value, turn_text, dropped)


def _parse_plain(text: str, turn_text: str, reach_back: ReachBack) -> Parsed | BadDraft:
    stripped = strip_reasoning(text, turn_text, reach_back)
    try:
        value = _read_json(stripped.text) if len(stripped.text) <= MAX_OUTPUT_BYTES else None
    except _NotJson:
        if _BROKEN_DRAFT.match(_unfenced(stripped.text)):
            return _bad(DraftFault.BAD_JSON, "$", _PLAIN)
        value = None
    if isinstance(value, dict) and _is_our_schema(value):
        return _bad(DraftFault.SCHEMA_ECHO, "$", _PLAIN)
    if not isinstance(value, dict) or not value.keys() <= _FIELDS or not value.keys() & {"text", "silence"}:
        return Parsed(stripped.text, None, (), stripped.dropped)
    draft = _validate(value, turn_text, stripped.dropped)
    if isinstance(draft, BadDraft):
        return _bad(DraftFault.BAD_DRAFT, "$", _PLAIN)
    return Parsed(draft.text, draft.silence, (), draft.dropped)


def _unfenced(text: str) -> str:
    """Return `text` without one code fence around all of it."""
    text = text.strip().removeprefix("\ufeff")
    opening = _FENCE.match(text)
    if opening is None or not text.endswith(opening["run"]) or len(text) < opening.end() + len(opening["run"]):
        return text
    inner = text[opening.end() : -len(opening["run"])]
    return inner.strip() if not inner.rstrip(" \t") or inner.rstrip(" \t").endswith("\n") else text


def _read_json(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(
            _unfenced(text), parse_constant=_refuse_constant, object_pairs_hook=_without_repeats
        )
    except (ValueError, RecursionError) as exc:
        raise _NotJson("output is not one JSON value") from exc
    return value


def _refuse_constant(name: str) -> JsonValue:
    raise _NotJson(f"number {name} is not JSON")


def _without_repeats(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _NotJson("object has a field twice")
    return found


def _validate(value: JsonValue, turn_text: str, dropped: bool) -> Parsed | BadDraft:
    if not isinstance(value, dict):
        return _bad(DraftFault.BAD_DRAFT, "$", _WHOLE_VALUE)
    if _is_schema(value):
        return _bad(DraftFault.SCHEMA_ECHO, "$", "an answer that follows the schema, not the schema itself")
    try:
        draft = DraftOutput.model_validate(value)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_context=False, include_input=False)[0]
        return _bad(DraftFault.BAD_DRAFT, _path(first["loc"]), _expectation(first["type"], first["loc"]))
    if "text" not in value and draft.silence is None:
        return _bad(DraftFault.BAD_DRAFT, "text", "a string, or a reason in `silence`")
    stripped = strip_reasoning(draft.text, turn_text)
    return Parsed(stripped.text, draft.silence, tuple(draft.operations), dropped or stripped.dropped)


def _is_schema(value: Mapping[str, JsonValue]) -> bool:
    return bool(value.keys() & _SCHEMA_WORDS) and not value.keys() & _FIELDS


def _is_our_schema(value: Mapping[str, JsonValue]) -> bool:
    # A person may well ask for some schema; only ours is an echo in a plain answer.
    properties = value.get("properties")
    return isinstance(properties, dict) and {"text", "operations"} <= properties.keys()


def _path(location: tuple[int | str, ...]) -> str:
    # A field's name is the model's own text: only what looks like a name is repeated to it.
    names = [str(part) if isinstance(part, int) or _SAFE_NAME.fullmatch(part) else "?" for part in location[:4]]
    return ".".join(names) or "$"


def _expectation(kind: str, location: tuple[int | str, ...]) -> str:
    if kind == "extra_forbidden":
        return "no other fields than silence, operations, text"
    match location[:1]:
        case ("silence",):
            return f"null or one of {', '.join(SilenceReason)}"
        case ("operations",):
            return f"a list of at most {MAX_OPERATIONS} objects"
        case _:
            return "a string"


def _bad(fault: DraftFault, path: str, expected: str) -> BadDraft:
    return BadDraft(fault, RepairNote(path, expected))


@dataclass(frozen=True, slots=True)
class Cited:
    """Text with `[1]`, `[2]`, ... and the handles behind the numbers, in the order of their numbers."""

    text: str
    handles: tuple[Handle, ...]


_CITATION = re.compile(
    r"\[(?P<handles>[a-z][0-9]{1,4}(?:\s{0,4}[,;]\s{0,4}[a-z][0-9]{1,4}){0,15})\](?:\([^()\s]{0,300}\))?"
)
_KINDS = frozenset("mpkdn")


def resolve_citations(text: str, handles: Collection[Handle]) -> Cited | BadDraft:
    """Return `text` with handles in square brackets turned into numbers by first use; code is left alone.

    `handles` are those that may be cited. An address that a model glued to a handle goes. Whole
    sentences from the beginning give the beginning of the result, so a stream can be resolved as it grows.
    """
    numbers: dict[Handle, int] = {}
    out: list[str] = []
    at = 0
    for start, end in [*code_ranges(text), (len(text), len(text))]:
        for match in _CITATION.finditer(text, at, start):
            names = [Handle(name) for name in re.findall(r"[a-z][0-9]+", match["handles"])]
            if not all(name[0] in _KINDS for name in names):
                continue  # not a handle of ours: `[a1]` is somebody's notation
            if not all(name in handles for name in names):
                return _bad(DraftFault.UNKNOWN_HANDLE, "text", "only handles of sources that stand in the data")
            out.append(text[at : match.start()])
            out += [f"[{numbers.setdefault(name, len(numbers) + 1)}]" for name in dict.fromkeys(names)]
            at = match.end()
        out.append(text[at:end])
        at = end
    return Cited("".join(out), tuple(numbers))
