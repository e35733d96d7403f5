"""What a line of the terminal means, and what a terminal may be given to show: pure."""

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

LINE_LIMIT_BYTES = 1_000_000
"""The longest line that is read; the rest of a longer one is skipped, so that no input can fill the memory."""

InputId = str | int | None
"""The `id` of a JSON line, echoed in every object that the line causes."""


class FaultCode(StrEnum):
    """Why a line was not taken. Scripts compare these values; they never change."""

    LINE_TOO_LONG = "line_too_long"
    NOT_UTF8 = "not_utf8"
    NOT_JSON = "not_json"
    NOT_AN_OBJECT = "not_an_object"
    UNKNOWN_KEY = "unknown_key"
    WRONG_TYPE = "wrong_type"
    MISSING_TEXT = "missing_text"
    MISSING_TARGET = "missing_target"
    BAD_TEXT = "bad_text"
    TOO_LONG = "too_long"
    BAD_NAME = "bad_name"
    BAD_ROOM = "bad_room"
    UNKNOWN_MESSAGE = "unknown_message"
    NOT_YOURS = "not_yours"
    REFUSED = "refused"
    STORE_DOWN = "store_down"
    INTERNAL = "internal"
    TIMEOUT = "timeout"


EXPLAINED: Mapping[FaultCode, str] = MappingProxyType(
    {
        FaultCode.LINE_TOO_LONG: "line: longer than a megabyte",
        FaultCode.NOT_UTF8: "line: not UTF-8",
        FaultCode.NOT_JSON: "line: not JSON",
        FaultCode.NOT_AN_OBJECT: "line: not a JSON object",
        FaultCode.UNKNOWN_KEY: "line: unknown key",
        FaultCode.WRONG_TYPE: "line: wrong type or value",
        FaultCode.MISSING_TEXT: "line: neither text nor an event that needs none",
        FaultCode.MISSING_TARGET: "event: names no message that it is about",
        FaultCode.BAD_TEXT: "line: a null character or half a surrogate pair",
        FaultCode.TOO_LONG: "text: longer than 4000 characters",
        FaultCode.BAD_NAME: "name: up to 32 letters, digits, spaces or .'-",
        FaultCode.BAD_ROOM: "room: no usable name, or another person's direct room",
        FaultCode.UNKNOWN_MESSAGE: "message: not sent from this terminal",
        FaultCode.NOT_YOURS: "message: written by another person",
        FaultCode.REFUSED: "line: refused",
        FaultCode.STORE_DOWN: "store: not reachable, the line was not taken in",
        FaultCode.INTERNAL: "line: an internal error, the log has more",
        FaultCode.TIMEOUT: "line: no answer in time",
    }
)


@dataclass(frozen=True, slots=True)
class Fault:
    """A line that got no decision. `number` counts input lines from 1; `text` is for people."""

    number: int
    input_id: InputId
    code: FaultCode
    text: str


class Event(StrEnum):
    """What a person can do to a message that is there."""

    EDIT = "edit"
    DELETE = "delete"
    REACT = "react"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line, taken apart. `speaker` and `room` None: the current ones. With an event, `reply_to` is its target."""

    number: int
    text: str
    input_id: InputId = None
    speaker: str | None = None
    room: str | None = None
    reply_to: str | None = None
    event: Event | None = None


class _JsonLine(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    speaker: str | None = Field(None, alias="as")
    room: str | None = None
    text: str | None = None
    reply_to: str | int | None = None
    event: Literal["edit", "delete", "react"] | None = None
    id: str | int | None = None


def parse_plain(number: int, raw: bytes) -> Entry | None:
    """Return the entry of a plain line; None for a blank one. What is no text becomes the replacement character."""
    text = raw.decode("utf-8", "replace").replace("\x00", "\ufffd").removeprefix("\ufeff").strip()
    return Entry(number=number, text=text) if text else None


def parse_json(number: int, raw: bytes) -> Entry | Fault | None:
    """Return the entry of a JSON line, or what is wrong with it; None for a blank one."""
    try:
        decoded = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return _fault(number, None, FaultCode.NOT_UTF8)
    if not decoded.strip():
        return None
    try:
        value = json.loads(decoded)
    except (ValueError, RecursionError):
        return _fault(number, None, FaultCode.NOT_JSON)
    if not isinstance(value, dict):
        return _fault(number, None, FaultCode.NOT_AN_OBJECT)
    input_id = _readable_id(value)
    try:
        line = _JsonLine.model_validate(value)
    except ValidationError as exc:
        return _fault_of(number, input_id, exc)
    text = (line.text or "").strip()
    reply_to = None if line.reply_to is None else str(line.reply_to)
    if not all(map(is_text, (text, line.speaker or "", line.room or "", reply_to or "", str(line.id)))):
        return _fault(number, input_id, FaultCode.BAD_TEXT)
    event = None if line.event is None else Event(line.event)
    if not text and event is not Event.DELETE:
        return _fault(number, input_id, FaultCode.MISSING_TEXT)
    if event is not None and not reply_to:
        return _fault(number, input_id, FaultCode.MISSING_TARGET)
    return Entry(
        number=number,
        text=text,
        input_id=input_id,
        speaker=line.speaker,
        room=line.room,
        reply_to=reply_to or None,
        event=event,
    )


def _readable_id(value: Mapping[str, object]) -> InputId:
    """Return the line's id if it has a usable one, so that even a bad line's error can be told apart."""
    found = value.get("id")
    if isinstance(found, bool) or not isinstance(found, str | int):
        return None
    return found if isinstance(found, int) or is_text(found) else None


def _fault(number: int, input_id: InputId, code: FaultCode) -> Fault:
    return Fault(number, input_id, code, EXPLAINED[code])


def _fault_of(number: int, input_id: InputId, error: ValidationError) -> Fault:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    code = FaultCode.UNKNOWN_KEY if first["type"] == "extra_forbidden" else FaultCode.WRONG_TYPE
    key = printable(str(first["loc"][0]) if first["loc"] else "")[:40]
    return Fault(number, input_id, code, f"{EXPLAINED[code]}: {key}")


def is_text(value: str) -> bool:
    """Return whether `value` can be stored: no null character, no half of a surrogate pair."""
    return "\x00" not in value and not any("\ud800" <= sign <= "\udfff" for sign in value)


class Local(StrEnum):
    """Slash words that are not commands: they play the platform's part."""

    AS = "as"
    ROOM = "room"
    DM = "dm"
    REACT = "react"
    EDIT = "edit"
    DELETE = "delete"
    QUIT = "quit"


# A word and then a space or the end: `/usr/bin` is text.
_SLASH = re.compile(r"/([a-z][\w-]*)(?:\s+(.*))?\Z", re.IGNORECASE | re.DOTALL)


def local_word(text: str) -> tuple[Local, str] | None:
    """Return the slash word that is the platform's part, with what follows it; None for all else."""
    found = _SLASH.match(text)
    if found is None or found[1].lower() not in set(Local):
        return None
    return Local(found[1].lower()), (found[2] or "").strip()


def is_command(text: str) -> bool:
    """Return whether `text` is a command for the bot."""
    return _SLASH.match(text) is not None and local_word(text) is None


LOCAL_REF = "local"
DIRECT = "dm:"


@dataclass(frozen=True, slots=True)
class Speaker:
    """Who types. `ref` is the account's key, `name` what is shown."""

    ref: str
    name: str
    admin: bool = False
    operator: bool = False


LOCAL_PERSON = Speaker(LOCAL_REF, LOCAL_REF, admin=True, operator=True)
"""The person at this keyboard, whom nobody has to check."""

_NAME = re.compile(r"\w[\w .'’-]{0,31}")
_ROOM = re.compile(r"\w[\w.-]{0,63}")


def speaker_of(name: str, *, admin: bool) -> Speaker | None:
    """Return the speaker of that name: no name is the local person; None if it cannot be one."""
    name = " ".join(name.split())
    ref = name.casefold().replace(" ", "-")
    if ref in ("", LOCAL_REF):
        return LOCAL_PERSON
    return Speaker(ref, name, admin=admin) if _NAME.fullmatch(name) else None


def room_of(name: str, speaker: Speaker) -> str | None:
    """Return the room's key; `dm` is the speaker's direct room. None: no room, or another person's direct room."""
    ref = name.strip().removeprefix("#").casefold()
    if ref in ("dm", direct_room(speaker)):
        return direct_room(speaker)
    return ref if _ROOM.fullmatch(ref) else None


def direct_room(speaker: Speaker) -> str:
    """Return the key of the room in which a person and the bot are alone."""
    return f"{DIRECT}{speaker.ref}"


def following(room: str, speaker: Speaker) -> str:
    """Return where a speaker stands when the current room is `room`: in nobody's direct room but their own."""
    return direct_room(speaker) if room.startswith(DIRECT) else room


_ESCAPE = re.compile(
    r"""
      \x1b[\]PX^_].*?(?:\x07|\x1b\\|\x9c|\Z)    # strings with an end: title, clipboard, device control
    | [\x90\x98\x9d-\x9f].*?(?:\x07|\x1b\\|\x9c|\Z)
    | (?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?         # cursor, colour, screen
    | \x1b[ -/]*[0-~]?                          # everything else that begins with escape
    """,
    re.VERBOSE | re.DOTALL,
)
_BREAKS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
# Marks that turn the reading order over; a text could show other words than it holds.
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def printable(text: str) -> str:
    """Return `text` without anything a terminal would obey: only line breaks and tabs are left of all controls."""
    text = _BREAKS.sub("\n", _ESCAPE.sub("", text))
    return "".join(sign for sign in text if sign in "\n\t" or _is_visible(sign))


def _is_visible(sign: str) -> bool:
    return unicodedata.category(sign) not in ("Cc", "Cs") and sign not in _TURNING
