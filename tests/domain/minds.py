"""Minds made of plain values: thoughts, entries, views, and facts around one small community."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from pydantic import TypeAdapter

from core.domain.ids import MessageId, PersonId, RoomId
from core.domain.mind.bodies import Body, Case, Durable, Note, PressureItem, ShortTerm, Thread, Value
from core.domain.mind.codes import Verdict
from core.domain.mind.entries import Entry, Retired
from core.domain.mind.facts import Actor, Emitter, Facts, MessageFact, Packet, Similarity
from core.domain.mind.speech import Candidate, Receipt
from core.domain.mind.values import Anchor, AnchorKind, EntryId, Strict, Thought
from core.domain.mind.view import View
from core.domain.operations.base import Operation
from core.domain.operations.fold import fold

NOW = datetime(2026, 3, 10, 19, 30, tzinfo=UTC)
ROOM = RoomId(7)
ELSEWHERE = RoomId(8)
"""Another room, with other readers."""
ANA, BO, VOID = PersonId(11), PersonId(12), PersonId(1)
REPOS = frozenset({"routes", "audio"})
MESSAGES: dict[MessageId, MessageFact] = {
    fact.id: fact
    for fact in (
        *(MessageFact(MessageId(n), ROOM, (ANA, BO)[n % 2], n, 0, NOW - timedelta(minutes=n)) for n in range(100, 112)),
        MessageFact(MessageId(120), ELSEWHERE, ANA, 120, 2, NOW - timedelta(hours=2)),
        MessageFact(MessageId(130), ROOM, VOID, 130, 0, NOW - timedelta(hours=1), own=True),
        MessageFact(MessageId(131), ROOM, VOID, 131, 0, NOW - timedelta(hours=1), own=True),
        MessageFact(MessageId(140), ROOM, BO, 140, 0, NOW - timedelta(hours=3), alive=False),
    )
}
"""100 to 111 by Bo and Ana in turn (even: Ana); 120 elsewhere; 130 and 131 the mind's own; 140 deleted."""
REFS: dict[str, frozenset[RoomId]] = {
    "evidence:trace-1": frozenset({ROOM}),
    "source:routes/src/graph.py": frozenset(),
    "source:routes/src/graph.py@abc1234#L3-9": frozenset(),
}
PACKET = Packet(
    rooms=frozenset({ROOM}),
    people=frozenset({ANA, BO}),
    refs=frozenset({*(f"message:{n}" for n in MESSAGES if n != 120), *REFS, "memory:seam:routes"}),
)
StrictT = TypeVar("StrictT", bound=Strict)
_JSON = TypeAdapter(dict[str, Any])
_ENTRY = ("version", "sources", "people", "age", "retired")


def anchor(ref: str, **more: Any) -> Anchor:
    """An anchor whose kind is the first word of its ref."""
    return Anchor(ref=ref, kind=AnchorKind(ref.partition(":")[0]), **more)


def said(*numbers: int) -> tuple[Anchor, ...]:
    """Anchors on messages."""
    return tuple(anchor(f"message:{n}") for n in numbers)


def read(shape: type[StrictT], **fields: Any) -> StrictT:
    """A strict value, made as one from the wire would be; names in either spelling, values plain."""
    return shape.model_validate_json(_wire(fields))


def thought(**more: Any) -> dict[str, Any]:
    """The fields of a thought that passes every wall, some replaced; a field given as None is left out."""
    fields: dict[str, Any] = {
        "target": {"kind": "repo", "id": "routes"},
        "summary": "The route graph drops the last stop of a line.",
        "claim": "Stops without a timetable are cut by the parser.",
        "tension": "Ana wants every stop shown, Bo wants only those that are served.",
        "action_implication": "Ask which of the two the map should show.",
        "anchor_refs": said(100),
    }
    fields |= more
    return {name: value for name, value in fields.items() if value is not None}


def make_thought(**more: Any) -> Thought:
    """A thought that passes every wall."""
    return read(Thought, **thought(**more))


def make_entry(
    id_: str,
    body: Body,
    *,
    version: int = 1,
    sources: Iterable[RoomId] = (ROOM,),
    people: Iterable[PersonId] = (ANA, BO),
    age: timedelta = timedelta(hours=30),
    retired: str | None = None,
) -> Entry:
    """An entry made `age` ago; `retired`: the reason, if it is a tombstone."""
    return Entry(
        id=EntryId(id_),
        version=version,
        body=body,
        sources=frozenset(sources),
        people=frozenset(people),
        created_at=NOW - age,
        updated_at=NOW - age,
        retired=None if retired is None else Retired(NOW - age, retired),
    )


def make_short_term(id_: str = "seam:routes", *, kind: str = "room_observation", **more: Any) -> Entry:
    """A note of the day; what `make_entry` takes goes to the entry, the rest into the body."""
    return _made(id_, ShortTerm, {"kind": kind}, more)


def make_durable(id_: str = "durable:routes", *, kind: str = "project_seam", **more: Any) -> Entry:
    """A lasting memory."""
    return _made(id_, Durable, {"kind": kind}, more)


def make_thread(id_: str = "thread:routes", *, topic: str = "missing stops", **more: Any) -> Entry:
    """A thread."""
    return _made(id_, Thread, {"topic": topic}, more)


def make_pressure_item(id_: str = "pressure:routes", *, kind: str = "discomfort", **more: Any) -> Entry:
    """Something that presses."""
    return _made(id_, PressureItem, {"kind": kind}, more)


def make_value(id_: str = "value:care", *, label: str = "care for small things", **more: Any) -> Entry:
    """What matters."""
    return _bare(id_, Value, {"label": label}, more)


def make_note(id_: str = "note:one", *, text: str = "I count stops too often.", **more: Any) -> Entry:
    """A private note."""
    return _bare(id_, Note, {"text": text, "reason": "came up twice"}, more)


def make_case(message: int = 100, **more: Any) -> Entry:
    """An obligation for one message."""
    fields = {
        "source_message_id": message,
        "status": "pending",
        "summary": "Ana asked for the timetable.",
        "room_id": ROOM,
        "author_id": ANA,
        "last_touched_at": NOW - timedelta(hours=1),
    }
    return _bare(f"case:{message}", Case, fields, more)


def make_candidate(id_: str = "speech:stops", **more: Any) -> Entry:
    """Speech that waits."""
    fields = {
        "kind": "ripe_thought_share",
        "summary": "Say which stops are cut.",
        "draft": "Stops without a timetable are cut; shall I list them?",
        "delivery_target": {"mode": "channel", "channelId": ROOM},
        "expires_at": NOW + timedelta(hours=48),
    }
    return _bare(id_, Candidate, fields, more)


def make_receipt(outbox: int = 5, **more: Any) -> Entry:
    """Proof that something was said."""
    fields = {
        "outbox_id": outbox,
        "cause": "reply",
        "room_id": ROOM,
        "reply_to_message_id": 100,
        "transport": "discord",
        "sent_message_ids": ("9001",),
        "content_length": 20,
        "chunk_count": 1,
        "preview": "the timetable is here",
        "content_hash": "ab" * 32,
        "sent_at": NOW - timedelta(minutes=5),
        "outcome": "sent",
        "delivery_ref": "turn:5",
    }
    return _bare(f"receipt:{outbox}", Receipt, fields, more)


def make_view(*entries: Entry) -> View:
    """A view of a mind that holds these."""
    return View(entries)


def make_facts(by: Emitter = Emitter.OPERATOR, **more: Any) -> Facts:
    """What is known around the community; by a model, with the packet that it read."""
    fields: dict[str, Any] = {
        "now": NOW,
        "actor": Actor(by, "test", run_id=1),
        "packet": PACKET if by.model else None,
        "messages": MESSAGES,
        "refs": REFS,
        "people": frozenset({ANA, BO, VOID}),
        "rooms": frozenset({ROOM, ELSEWHERE}),
        "repos": REPOS,
        "runs": frozenset({1}),
        "readable": {ROOM: frozenset({ROOM}), ELSEWHERE: frozenset({ROOM, ELSEWHERE})},
        "seq": 1,
    }
    return Facts(**(fields | more))


def alike(*scores: tuple[str, str, float], model: str = "minilm") -> Similarity:
    """Scores that an embedder gave: new id, old id, score."""
    return Similarity(model, {(new, old): score for new, old, score in scores})


def applied(operation: Operation, view: View, facts: Facts, expect: Mapping[str, int] | None = None) -> Verdict:
    """The verdict on one operation; who proposes it saw the present versions, unless told otherwise."""
    seen: dict[str, int] = {
        each.id: entry.version for each in operation.rewrites() if (entry := view.at(each)) is not None
    }
    return fold(operation, view, facts, seen if expect is None else expect)[0]


def _made(
    id_: str, shape: type[ShortTerm | Durable | Thread | PressureItem], fields: dict[str, Any], more: dict[str, Any]
) -> Entry:
    outer = {name: more.pop(name) for name in _ENTRY if name in more}
    return make_entry(id_, read(shape, **thought(**fields, **more)), **outer)


def _bare(
    id_: str, shape: type[Value | Note | Case | Candidate | Receipt], fields: dict[str, Any], more: dict[str, Any]
) -> Entry:
    outer = {name: more.pop(name) for name in _ENTRY if name in more}
    return make_entry(id_, read(shape, **(fields | more)), **outer)


def _wire(fields: Mapping[str, Any]) -> str:
    return _JSON.dump_json(dict(fields), by_alias=True, exclude_none=True).decode()
