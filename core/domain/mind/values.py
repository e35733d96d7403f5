"""What entries and operations are made of: strict strings, scores, times, targets, anchors, thoughts.

On the wire names are in camelCase, in Python in snake_case; no other spelling is read. An optional field is absent,
never null. A value that does not fit raises pydantic's errors; `form.py` gives each its code.
"""

import re
import unicodedata
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, NewType

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

EntryId = NewType("EntryId", str)
"""Of an entry: used once for each mind and kind, for ever."""
MOST_NUMBER = 2**63 - 1
"""What the database can count to."""
MOST_REFS = 24
MOST_TAGS = 16
MOST_TOPICS = 4
MOST_SUPPORT = 64

_ID = re.compile(r"[a-z0-9][a-z0-9._:-]{0,95}")
_SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,47}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")
_YEARS = range(2000, 2101)


class Strict(BaseModel):
    """A frozen value without unknown fields; `camelCase` on the wire."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        allow_inf_nan=False,
    )


def _plain(text: str) -> str:
    """Return `text` in NFC without white space around it; control characters but line breaks are refused."""
    text = unicodedata.normalize("NFC", text).strip()
    if not text.isprintable():
        for each in text:
            if each != "\n" and unicodedata.category(each) in ("Cc", "Cs"):
                raise PydanticCustomError("bad_type", "has a control character")
    return text


def _id(text: str) -> str:
    if _ID.fullmatch(text) is None:
        raise PydanticCustomError("bad_id", "is no id: small letters, digits and . _ : - up to 96")
    return text


def _slug(text: str) -> str:
    if _SLUG.fullmatch(text) is None:
        raise PydanticCustomError("bad_id", "is no slug: small letters, digits and - up to 48")
    return text


def _moment(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if not isinstance(value, str) or _TIME.fullmatch(value) is None:
        raise PydanticCustomError("bad_timestamp", "is no time in UTC such as 2026-01-31T18:00:00Z")
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as exc:
        raise PydanticCustomError("bad_timestamp", "is no day or hour of the calendar") from exc
    if moment.year not in _YEARS:
        raise PydanticCustomError("bad_timestamp", "is outside the years 2000 to 2100")
    return moment


def wire_time(moment: datetime) -> str:
    """Return a moment as it stands on the wire: RFC 3339, UTC, `Z`, microseconds where there are any."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _unsigned(value: float) -> float:
    """Return `value`; zero without a sign, which the database does not keep."""
    return value + 0.0


def _text(most: int, least: int = 1) -> AfterValidator:
    def check(text: str) -> str:
        text = _plain(text)
        if len(text) > most:
            raise PydanticCustomError("too_long", "is longer than {most} characters", {"most": most})
        if len(text) < least:
            raise PydanticCustomError("out_of_range", "has fewer than {least} characters", {"least": least})
        return text

    return AfterValidator(check)


Id = Annotated[EntryId, AfterValidator(_id)]
Slug = Annotated[str, AfterValidator(_slug)]
Moment = Annotated[datetime, BeforeValidator(_moment), PlainSerializer(wire_time, return_type=str)]
Score = Annotated[float, Field(ge=0, le=1), AfterValidator(_unsigned)]
Count = Annotated[int, Field(ge=0, le=MOST_NUMBER)]
RowId = Annotated[int, Field(ge=1, le=MOST_NUMBER)]
"""The number of a message, a room or a person here."""
Tag = Annotated[str, _text(64), AfterValidator(str.lower)]
Blank40 = Annotated[str, _text(40, least=0)]
Blank1000 = Annotated[str, _text(1000, least=0)]
Text40 = Annotated[str, _text(40)]
Text64 = Annotated[str, _text(64)]
Text120 = Annotated[str, _text(120)]
Text128 = Annotated[str, _text(128)]
Text240 = Annotated[str, _text(240)]
Text280 = Annotated[str, _text(280, least=0)]
Text500 = Annotated[str, _text(500)]
Text512 = Annotated[str, _text(512)]
Text1000 = Annotated[str, _text(1000)]
Text1800 = Annotated[str, _text(1800)]
Text2000 = Annotated[str, _text(2000)]
Text4000 = Annotated[str, _text(4000)]
LossNote = Annotated[str, _text(1000, least=20)]
Reason = Annotated[str, _text(1000, least=10)]


class TargetKind(StrEnum):
    """What a thought can be about."""

    ARCHIVE = "archive"
    LORE = "lore"
    PERSON = "person"
    REPO = "repo"
    ROOM = "room"
    SELF = "self"
    SYSTEM = "system"


class Target(Strict):
    """What a thought is about; ids are compared without regard to case."""

    kind: TargetKind
    id: Text128
    label: Text240 | None = None

    @property
    def key(self) -> tuple[str, str]:
        """The target as it is compared."""
        return (self.kind.value, self.id.casefold())


class AnchorKind(StrEnum):
    """What proves a thought."""

    MESSAGE = "message"
    SOURCE = "source"
    MEMORY = "memory"
    EVIDENCE = "evidence"
    RECEIPT = "receipt"


class Anchor(Strict):
    """One piece of proof: what kind of thing, and which.

    The ref is `message:<id>`, `source:<repo>/<path>[@<commit>][#L<a>-<b>]`, or `memory:`, `evidence:`, `receipt:` + id.
    `quote` occurs word for word in that revision of the message. `summary` is the mind's own words.
    """

    ref: Text512
    kind: AnchorKind
    revision: Count | None = None
    quote: Text500 | None = None
    summary: Text1000 | None = None

    @property
    def place(self) -> str:
        """The ref without commit and lines: two anchors in one place prove with the same thing."""
        if self.kind is not AnchorKind.SOURCE:
            return self.ref
        return self.ref.partition("#")[0].partition("@")[0]


class MemoryKind(StrEnum):
    """What sort of thing a memory keeps."""

    DISTILLED_SEAM = "distilled_seam"
    IDENTITY_SEAM = "identity_seam"
    PROJECT_SEAM = "project_seam"
    ROOM_OBSERVATION = "room_observation"
    DREAM_RESIDUE = "dream_residue"


Anchors = Annotated[tuple[Anchor, ...], Field(max_length=MOST_REFS)]
Topics = Annotated[tuple[Slug, ...], Field(max_length=MOST_TOPICS)]
Tags = Annotated[tuple[Tag, ...], Field(max_length=MOST_TAGS)]
Supports = Annotated[tuple[Id, ...], Field(max_length=MOST_SUPPORT)]


class Thought(Strict):
    """The part that carries the meaning, shared by memories, threads and pressures."""

    target: Target
    summary: Text4000
    claim: Text2000 | None = None
    question: Text2000 | None = None
    tension: Text2000 | None = None
    action_implication: Text2000 | None = None
    topics: Topics = ()
    repo: Text128 | None = None
    anchor_refs: Anchors = ()
    evidence_refs: Anchors = ()
    anchors_missing: bool = False
    tags: Tags = ()

    @property
    def point(self) -> str:
        """The summary, and below it what is claimed or asked: the text by which thoughts are compared."""
        return "\n".join([self.summary, self.claim or self.question or ""]).strip()

    @property
    def proof(self) -> tuple[Anchor, ...]:
        """All anchors and evidence."""
        return (*self.anchor_refs, *self.evidence_refs)
