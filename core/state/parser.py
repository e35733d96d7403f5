"""A model's proposals read: operations, and refused pieces with code and path. Total: it never raises.

Nothing is repaired. Handles that stood in the prompt become the refs that they stood for; tags with a meaning become
the fields that have it.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from core.domain.ids import RoomId
from core.domain.mind.codes import Rejected, RejectionCode
from core.domain.operations.batch import MOST_BYTES, MOST_OPERATIONS, MOST_PAYLOAD_BYTES, Item, Refused
from core.domain.operations.catalog import OPERATIONS, read_operation
from core.domain.prompt import Handle, SourceId, SourceKind

_FENCE = re.compile(r"```[ \t]*(?:json)?[ \t]*\n(?P<inner>.*)\n[ \t]*```", re.DOTALL | re.IGNORECASE)
_NAME = re.compile(r"[a-z_]{1,48}")
_FIELD = re.compile(r"[A-Za-z0-9_-]{1,32}")
_CODES: dict[str, RejectionCode] = {
    **dict.fromkeys(("extra_forbidden",), RejectionCode.UNKNOWN_FIELD),
    **dict.fromkeys(("missing",), RejectionCode.MISSING_FIELD),
    **dict.fromkeys(("enum", "literal_error"), RejectionCode.BAD_ENUM),
    **dict.fromkeys(("union_tag_invalid", "union_tag_not_found"), RejectionCode.UNKNOWN_OPERATION),
    **dict.fromkeys(
        ("greater_than", "greater_than_equal", "less_than", "less_than_equal", "finite_number", "too_short"),
        RejectionCode.OUT_OF_RANGE,
    ),
    **dict.fromkeys(("too_long",), RejectionCode.TOO_MANY),
    **dict.fromkeys(("string_too_long",), RejectionCode.TOO_LONG),
    **dict.fromkeys(("string_pattern_mismatch",), RejectionCode.BAD_ID),
    **dict.fromkeys(("json_invalid",), RejectionCode.BAD_JSON),
}
_OWN = {"bad_id", "bad_timestamp", "bad_type", "out_of_range"}
_HANDLED = {"person": SourceKind.PERSON, "room": SourceKind.ROOM}
_NUMBERED = {
    **dict.fromkeys(
        ("sourceMessageId", "replyToMessageId", "lastReviewedMessageId"), (SourceKind.MESSAGE, SourceKind.PASSAGE)
    ),
    "channelId": (SourceKind.ROOM,),
}
_ENTRY_IDS = ("emoryIds", "emoryId", "hreadId", "ressureId", "nterventionId", "roposalId", "valueId", "noteId")
"""How the names of fields end that hold ids of entries, with or without a word before."""
_LIFTED = ("anchor:missing", "evidence:missing", "topic:", "repo:", "source_pressure:", "safety:urgent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How one model's proposals are read. `allowed`: operations of its role; `key`: what their keys begin with.

    `handles`: what stood in its prompt. `here`: the room that it calls so.
    """

    allowed: Collection[str]
    key: str
    handles: Mapping[Handle, SourceId] = field(default_factory=dict)
    here: RoomId | None = None
    expect: Mapping[str, int] = field(default_factory=dict)


def read_text(text: str, reading: Reading) -> tuple[Item | Refused, ...]:
    """Return the operations in a model's text: one JSON list, or one object, perhaps in one code fence."""
    if len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        return (_refused(reading, 0, RejectionCode.TOO_LARGE, "", f"at most {MOST_BYTES} bytes"),)
    fenced = _FENCE.fullmatch(text.strip())
    try:
        value = json.loads(fenced["inner"] if fenced else text, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return (_refused(reading, 0, RejectionCode.BAD_JSON, "", "one JSON list of operations and nothing around it"),)
    return read_pieces([value] if isinstance(value, dict) else value, reading)


def read_pieces(pieces: object, reading: Reading) -> tuple[Item | Refused, ...]:
    """Return the operations among these JSON values, in their order, each refused one with its reason."""
    if not isinstance(pieces, Sequence) or isinstance(pieces, str):
        return (_refused(reading, 0, RejectionCode.BAD_TYPE, "", "a list of operations"),)
    if len(pieces) > MOST_OPERATIONS:
        return (_refused(reading, 0, RejectionCode.TOO_MANY, "", f"at most {MOST_OPERATIONS} operations"),)
    return tuple(_read(piece, reading, n) for n, piece in enumerate(pieces))


def _read(piece: object, reading: Reading, n: int) -> Item | Refused:
    if not isinstance(piece, Mapping):
        return _refused(reading, n, RejectionCode.BAD_TYPE, f"[{n}]", "an object with the field `operation`")
    name = piece.get("operation")
    if name is None:
        return _refused(reading, n, RejectionCode.MISSING_FIELD, f"[{n}].operation", "which operation it is")
    if not isinstance(name, str) or name not in OPERATIONS:
        return _refused(reading, n, RejectionCode.UNKNOWN_OPERATION, f"[{n}].operation", "one of those listed", name)
    if name not in reading.allowed:
        return _refused(reading, n, RejectionCode.OPERATION_NOT_ALLOWED, f"[{n}].operation", "one of the role's", name)
    try:
        nothing = next(_nulls(piece, f"[{n}]"), None)
        if nothing is not None:
            return _refused(reading, n, RejectionCode.NULL_OPTIONAL, nothing, "left out instead of null", name)
        resolved = _resolve(piece, reading)
        contradiction = _lift(resolved)
        text = json.dumps(resolved)
        size = len(json.dumps(resolved, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    except (ValueError, TypeError, RecursionError):
        return _refused(reading, n, RejectionCode.BAD_TYPE, f"[{n}]", "plain JSON values", name)
    if contradiction is not None:
        return _refused(reading, n, RejectionCode.CONTRADICTION, f"[{n}].tags", f"{contradiction} as its field", name)
    if size > MOST_PAYLOAD_BYTES:
        return _refused(reading, n, RejectionCode.TOO_LARGE, f"[{n}]", f"at most {MOST_PAYLOAD_BYTES} bytes", name)
    try:
        operation = read_operation(text)
    except ValidationError as exc:
        return Refused(refusal_of(exc, f"[{n}]"), f"{reading.key}:{n}", name)
    return Item(operation, f"{reading.key}:{n}", reading.expect)


def refusal_of(exc: ValidationError, path: str = "") -> Rejected:
    """Return the refusal that a validation error stands for: its first error, by code and path, without the input."""
    first = exc.errors(include_input=False, include_url=False, include_context=False)[0]
    code = _code(first["type"], first["msg"])
    names = [part for part in first["loc"] if not (isinstance(part, str) and part in OPERATIONS)]
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{_shown(part)}" for part in names)
    return Rejected(code, f"{path}{where}".lstrip("."), first["msg"].lower())


def _code(kind: str, message: str) -> RejectionCode:
    if kind in _OWN:
        return RejectionCode(kind)
    if kind == "too_long" and "characters" in message:  # the library calls a list of too many the same
        return RejectionCode.TOO_LONG
    return _CODES.get(kind, RejectionCode.BAD_TYPE)


def _refused(reading: Reading, n: int, code: RejectionCode, path: str, expected: str, name: object = "") -> Refused:
    shown = name if isinstance(name, str) and _NAME.fullmatch(name) else ""
    return Refused(Rejected(code, path, expected), f"{reading.key}:{n}", shown)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a field twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _shown(name: object) -> str:
    """Return the name of a field as a path may show it: one of a model's own making can hold anything."""
    return name if isinstance(name, str) and _FIELD.fullmatch(name) else "?"


def _nulls(value: object, path: str) -> Iterator[str]:
    if value is None:
        yield path
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _nulls(inner, f"{path}.{_shown(name)}")
    elif isinstance(value, list):
        for n, inner in enumerate(value):
            yield from _nulls(inner, f"{path}[{n}]")


def _resolve(piece: Mapping[str, Any], reading: Reading) -> dict[str, Any]:
    """Put what handles stood for in their place: in refs of anchors, ids of targets and messages, ids of entries."""
    return {name: _resolved(name, value, reading) for name, value in piece.items()}


def _resolved(name: str, value: Any, reading: Reading) -> Any:
    if isinstance(value, Mapping):
        inner = {key: _resolved(key, each, reading) for key, each in value.items()}
        if name == "target" and inner.get("kind") == "room" and inner.get("id") == "here" and reading.here is not None:
            inner["id"] = str(reading.here)
        if name == "target" and inner.get("kind") in _HANDLED:
            inner["id"] = _key(inner.get("id"), reading, _HANDLED[inner["kind"]]) or inner.get("id")
        return inner
    if isinstance(value, list):
        return [_resolved(name, each, reading) for each in value]
    if name == "ref":
        return _ref(value, reading)
    if name in _NUMBERED:
        key = _key(value, reading, *_NUMBERED[name])
        return int(key) if key is not None and key.isdecimal() else value
    if name.endswith(_ENTRY_IDS):
        return _key(value, reading, SourceKind.MEMORY) or value
    return value


def _key(value: object, reading: Reading, *kinds: SourceKind) -> str | None:
    source = reading.handles.get(Handle(value)) if isinstance(value, str) else None
    return source.key if source is not None and source.kind in kinds else None


def _ref(value: object, reading: Reading) -> object:
    if not isinstance(value, str):
        return value
    bare = value.rpartition(":")[2] if value.partition(":")[0] in ("message", "memory") else value
    source = reading.handles.get(Handle(bare))
    match source:
        case SourceId(SourceKind.MESSAGE | SourceKind.PASSAGE, key) if key.isdecimal():
            return f"message:{key}"
        case SourceId(SourceKind.PASSAGE, key):
            return f"source:{key}"
        case SourceId(SourceKind.MEMORY, key):
            return f"memory:{key}"
    return value


def _lift(piece: dict[str, Any]) -> str | None:
    """Turn tags that carry a meaning into their fields; return the tag that says something else than its field."""
    for value in piece.values():
        if isinstance(value, dict) and isinstance(value.get("tags"), list):
            wrong = _lift_one(value)
            if wrong is not None:
                return wrong
    return None


def _lift_one(thought: dict[str, Any]) -> str | None:
    kept: list[Any] = []
    topics = list(thought.get("topics", [])) if isinstance(thought.get("topics", []), list) else []
    for tag in thought["tags"]:
        if not isinstance(tag, str) or not tag.lower().startswith(_LIFTED):
            kept.append(tag)
            continue
        low = tag.lower()
        if low == "anchor:missing":
            if thought.get("anchorRefs") or thought.get("anchorsMissing") is False:
                return "anchor:missing"
            thought["anchorsMissing"] = True
        elif low == "evidence:missing":
            if thought.get("evidenceRefs"):
                return "evidence:missing"
        elif low.startswith("topic:"):
            if low[6:] not in topics:
                topics.append(low[6:])
        elif low.startswith("repo:"):
            if str(thought.get("repo", tag[5:])).casefold() != tag[5:].casefold():
                return "repo"
            thought["repo"] = tag[5:]
        elif low.startswith("source_pressure:"):
            if thought.get("sourcePressureId", low[16:]) != low[16:]:
                return "source_pressure"
            thought["sourcePressureId"] = low[16:]
        else:
            kept.append(low)  # urgency has no field of its own: whoever reads it asks for the tag
    thought["tags"] = kept
    if topics:
        thought["topics"] = topics
    return None
