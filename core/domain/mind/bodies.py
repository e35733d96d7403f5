"""The seven kinds of entries and the strict body of each type: what the mind can hold, and how much of it.

A body carries no field that could be derived, and no id of its own. `Scrubbed` stands where an erasure or an eviction
has taken the words.
"""

from enum import StrEnum
from typing import Annotated, Literal, get_args

from pydantic import Field, TypeAdapter

from core.domain.mind.speech import Candidate, Receipt
from core.domain.mind.values import (
    Anchors,
    Count,
    Id,
    LossNote,
    MemoryKind,
    Moment,
    Score,
    Slug,
    Strict,
    Supports,
    Tags,
    Text40,
    Text64,
    Text120,
    Text128,
    Text512,
    Text1000,
    Text2000,
    Text4000,
    Thought,
)

MOST_REVISIONS = 12


class Kind(StrEnum):
    """The kinds of documents; each holds some types of entries. Stored values never change."""

    PROFILE = "void.self_profile"
    CURSOR = "void.moderation_cursor"
    RECEIPTS = "void.speech_receipts"
    MEMORY = "void.thought_memory"
    RUNTIME = "void.scheduled_runtime"
    PRESSURE = "void.agency_pressure"
    CANDIDATES = "void.candidate_interventions"


class Profile(Strict):
    """How the mind presents itself. Its source is the settings."""

    type: Literal["profile"] = "profile"
    public_name: Text64 = "Void"
    public_description: Text1000 | None = None
    pronouns: Text40 | None = None
    style_pack: Slug = "default"
    traits: Annotated[dict[Text64, Score], Field(max_length=24)] = Field(default_factory=dict)


class Value(Strict):
    """What matters to the mind, and how much."""

    type: Literal["value"] = "value"
    label: Text120
    priority: Score = 0.5
    summary: Text1000 | None = None
    support_memory_id: Id | None = None


class Note(Strict):
    """A private note on oneself; never in a public projection."""

    type: Literal["note"] = "note"
    text: Text4000
    reason: Text1000
    support_memory_id: Id | None = None


class Consumer(StrEnum):
    """Who reads a room to its end."""

    MODERATION = "moderation"
    RUMINATION = "rumination"
    REINDEX = "reindex"


class Cursor(Strict):
    """How far a consumer has read a room, in the order of the archive. One for each consumer and room."""

    type: Literal["cursor"] = "cursor"
    consumer: Consumer
    room_id: int
    last_reviewed_message_id: int
    last_reviewed_revision: Count
    last_reviewed_timestamp: Moment
    last_seq: Count
    reviewed: Count = 0
    quarantined: Annotated[tuple[int, ...], Field(max_length=200)] = ()


class CaseStatus(StrEnum):
    """Where an obligation stands; the first two are live."""

    PENDING = "pending"
    WATCHING = "watching"
    ANSWERED = "answered"
    RESOLVED = "resolved"
    CLOSED = "closed"
    RETIRED = "retired"
    DROPPED = "dropped"

    @property
    def live(self) -> bool:
        """Whether something is still owed."""
        return self in (CaseStatus.PENDING, CaseStatus.WATCHING)


class Case(Strict):
    """An obligation: what the bot owes a room for one message. No case of a moderator."""

    type: Literal["case"] = "case"
    source_message_id: int
    status: CaseStatus
    summary: Text2000
    room_id: int
    author_id: int | None = None
    message_url: Text512 | None = None
    why_it_matters: Text2000 | None = None
    last_touched_at: Moment
    resolved_at: Moment | None = None
    resolution_summary: Text2000 | None = None
    reopened: Count = 0
    tags: Tags = ()


class RepoCursor(Strict):
    """Which commit of a repository was reviewed last, and how many have come since."""

    type: Literal["repo_cursor"] = "repo_cursor"
    repo: Text128
    last_commit_sha: Annotated[str, Field(pattern=r"^[0-9a-f]{7,64}$")] | None = None
    last_commit_at: Moment | None = None
    backlog: Count = 0


class Touch(StrEnum):
    """What one more mention did to a short-term memory."""

    DEEPENED = "deepened"
    REPEATED = "repeated"
    REPLACED = "replaced"


class Revision(Strict):
    """What a short-term memory said before it was touched, and with which proof."""

    at: Moment
    seq: Count
    summary: Text4000
    claim: Text2000 | None = None
    question: Text2000 | None = None
    tension: Text2000 | None = None
    action_implication: Text2000 | None = None
    anchor_refs: Anchors = ()
    effect: Touch


class ShortTerm(Thought):
    """A note of the day. `support_count`: how often it came up."""

    type: Literal["short_term"] = "short_term"
    kind: MemoryKind
    support_count: Annotated[int, Field(ge=1)] = 1
    needs_review: bool = False
    revisions: Annotated[tuple[Revision, ...], Field(max_length=MOST_REVISIONS)] = ()


class Durable(Thought):
    """A lasting memory. `loss_note`: what its making threw away. `needs_review`: some of its proof is gone."""

    type: Literal["durable"] = "durable"
    kind: MemoryKind
    crystallized: bool = False
    source_memory_ids: Supports = ()
    loss_note: LossNote | None = None
    needs_review: bool = False


class ProposalState(StrEnum):
    """Whether a distillation was carried out."""

    PROPOSED = "proposed"
    APPLIED = "applied"
    EXPIRED = "expired"


class Proposal(Strict):
    """A distillation that was proposed: which notes, in which versions, would become which memory under which id."""

    type: Literal["proposal"] = "proposal"
    memory_id: Id
    sources: Annotated[dict[Id, int], Field(min_length=1, max_length=64)]
    candidate: Durable
    loss_note: LossNote | None = None
    proposed_at: Moment
    expires_at: Moment
    state: ProposalState = ProposalState.PROPOSED


class ThreadStatus(StrEnum):
    """How far a thread has ripened."""

    ACTIVE = "active"
    COOLING = "cooling"
    READY_TO_SHARE = "ready_to_share"
    CRYSTALLIZED = "crystallized"
    RETIRED = "retired"


class Thread(Thought):
    """A thought that ripens over days."""

    type: Literal["thread"] = "thread"
    topic: Text120
    support_memory_ids: Supports = ()
    maturation: Score = 0.0
    novelty_to_room: Score | None = None
    novelty_to_self: Score | None = None
    desire_to_speak: Score | None = None
    status: ThreadStatus = ThreadStatus.ACTIVE
    needs_review: bool = False


class Sleep(Strict):
    """Whether the mind naps, until when, and when it will again."""

    type: Literal["sleep"] = "sleep"
    is_napping: bool = False
    nap_id: Id | None = None
    nap_started_at: Moment | None = None
    nap_ends_at: Moment | None = None
    next_nap_starts_at: Moment | None = None
    awake_until: Moment | None = None
    maintained_nap_id: Id | None = None
    active_dream_themes: Annotated[tuple[Text120, ...], Field(max_length=4)] = ()


class Pressure(Strict):
    """How much the mind is drawn to speak; unrounded."""

    type: Literal["pressure"] = "pressure"
    need_to_speak: Score = 0.35
    confession_pressure: Score = 0.25
    novelty_pressure: Score = 0.35
    recent_speech_damping: Score = 0.0
    stepped_at: Moment | None = None


class Mood(Strict):
    """Named dimensions, each drawn back to its baseline within hours."""

    type: Literal["mood"] = "mood"
    dimensions: Annotated[dict[Slug, Score], Field(max_length=16)] = Field(default_factory=dict)
    baselines: Annotated[dict[Slug, Score], Field(max_length=16)] = Field(default_factory=dict)
    half_life_hours: Annotated[float, Field(ge=0.5, le=168)] = 6.0
    stepped_at: Moment | None = None


class LastRun(Strict):
    """How a pass went last."""

    type: Literal["last_run"] = "last_run"
    pass_: Annotated[Slug, Field(alias="pass")]
    run_id: int
    slot: Text128
    ran_at: Moment
    outcome: Slug
    summary: Text1000


class PressureKind(StrEnum):
    """What sort of thing presses."""

    DISCOMFORT = "discomfort"
    ACTIVE_TENSION = "active_tension"
    SELF_ADVOCACY_REQUEST = "self_advocacy_request"
    WORLD_ADVOCACY_REQUEST = "world_advocacy_request"


class PressureStatus(StrEnum):
    """Where a pressure stands."""

    ACTIVE = "active"
    COOLING = "cooling"
    READY_TO_ACT = "ready_to_act"
    RESOLVED = "resolved"
    RETIRED = "retired"


class PressureItem(Thought):
    """Something that presses the mind to act; what it would have done stands in `action_implication`."""

    type: Literal["pressure_item"] = "pressure_item"
    kind: PressureKind
    status: PressureStatus = PressureStatus.ACTIVE
    intensity: Score = 0.5
    source_memory_ids: Supports = ()
    resolved_at: Moment | None = None
    needs_review: bool = False


class Scrubbed(Strict):
    """What is left of a body whose words were taken: its type."""

    type: str
    scrubbed: Literal[True] = True


Memory = ShortTerm | Durable | Proposal | Thread
WholeBody = (
    Profile | Value | Note | Cursor | Case | RepoCursor | Receipt | ShortTerm | Proposal | Durable | Thread
    | Sleep | Pressure | Mood | LastRun | PressureItem | Candidate
)  # fmt: skip
Body = WholeBody | Scrubbed
Thoughtful = ShortTerm | Durable | Thread | PressureItem
"""Bodies that carry a thought, and with it anchors."""

_KINDS: dict[Kind, tuple[type[WholeBody], ...]] = {
    Kind.PROFILE: (Profile, Value, Note),
    Kind.CURSOR: (Cursor, Case, RepoCursor),
    Kind.RECEIPTS: (Receipt,),
    Kind.MEMORY: (ShortTerm, Proposal, Durable, Thread),
    Kind.RUNTIME: (Sleep, Pressure, Mood, LastRun),
    Kind.PRESSURE: (PressureItem,),
    Kind.CANDIDATES: (Candidate,),
}
TYPES: dict[str, type[WholeBody]] = {each.model_fields["type"].default: each for each in get_args(WholeBody)}
KIND_OF: dict[str, Kind] = {each.model_fields["type"].default: kind for kind, every in _KINDS.items() for each in every}
"""Which kind of document a type of entry belongs to."""
SINGLETONS = frozenset({"profile", "sleep", "pressure", "mood"})
"""Types with one entry, whose id is the type; read on an empty mind, it is the default."""
CAPS: dict[str, int] = {
    "value": 24,
    "note": 24,
    "case": 200,
    "short_term": 48,
    "durable": 5000,
    "thread": 64,
    "pressure_item": 64,
    "candidate": 32,
}
"""How many live entries of a type one audience group of a mind can have."""
_BODIES: TypeAdapter[WholeBody] = TypeAdapter(Annotated[WholeBody, Field(discriminator="type")])


def read_body(text: str | bytes) -> WholeBody:
    """Return the body that `text` holds as JSON.

    Raises:
        pydantic.ValidationError: It is none.
    """
    return _BODIES.validate_json(text, by_alias=True, by_name=False)
