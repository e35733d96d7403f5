"""A model's proposals: whatever it writes, each piece is an operation or a refusal with its code and place."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.domain.ids import RoomId
from core.domain.mind.codes import Rejected
from core.domain.operations.batch import Item, Refused
from core.domain.operations.catalog import OPERATIONS, read_operation
from core.domain.operations.memories import RecordShortTermMemory
from core.domain.prompt import Handle, SourceId, SourceKind
from core.state.parser import Reading, read_pieces, read_text

HANDLES = {
    Handle("m3"): SourceId(SourceKind.MESSAGE, "417"),
    Handle("k1"): SourceId(SourceKind.PASSAGE, "418"),
    Handle("n1"): SourceId(SourceKind.MEMORY, "cellar"),
    Handle("p2"): SourceId(SourceKind.PERSON, "9"),
}
READING = Reading(allowed=frozenset(OPERATIONS), key="job:1", handles=HANDLES, here=RoomId(5))


def memory(**more: Any) -> dict[str, Any]:
    """A note as a model writes it; a field given as None is left out."""
    fields = {
        "memoryId": "cellar:floods",
        "kind": "room_observation",
        "target": {"kind": "room", "id": "here"},
        "summary": "The cellar floods.",
        "claim": "It happens every spring.",
        "tension": "Nobody moves the amps.",
        "actionImplication": "Ask before April.",
        "anchorRefs": [{"ref": "m3", "kind": "message"}],
    }
    return {name: value for name, value in (fields | more).items() if value is not None}


def piece(**more: Any) -> dict[str, Any]:
    """The operation that records it."""
    return {"operation": "record_short_term_memory", "memory": memory(**more)}


def one(value: object, reading: Reading = READING) -> Item | Refused:
    (found,) = read_pieces([value], reading)
    return found


def noted(value: object) -> RecordShortTermMemory:
    found = one(value)
    assert isinstance(found, Item) and isinstance(found.operation, RecordShortTermMemory), found
    return found.operation


def test_handles_become_what_they_stood_for() -> None:
    anchors = [
        {"ref": ref, "kind": kind} for ref, kind in (("m3", "message"), ("message:k1", "message"), ("n1", "memory"))
    ]
    note = noted(piece(anchorRefs=anchors)).memory
    assert [anchor.ref for anchor in note.anchor_refs] == ["message:417", "message:418", "memory:cellar"]
    assert note.target.id == "5"
    assert noted(piece(target={"kind": "person", "id": "p2"})).memory.target.id == "9"


def test_tags_with_a_meaning_become_their_fields() -> None:
    tags = ["anchor:missing", "topic:floods", "repo:Routes", "spring"]
    note = noted(piece(tags=tags, anchorRefs=None)).memory
    assert (note.anchors_missing, note.topics, note.repo, note.tags) == (True, ("floods",), "Routes", ("spring",))


@pytest.mark.parametrize(
    ("value", "code", "path"),
    [
        ("words", "bad_type", "[0]"),
        ({}, "missing_field", "[0].operation"),
        ({"operation": "dream"}, "unknown_operation", "[0].operation"),
        ({"operation": 7}, "unknown_operation", "[0].operation"),
        (piece() | {"extra": 1}, "unknown_field", "[0].extra"),
        (piece(mood="grim"), "unknown_field", "[0].memory.mood"),
        (piece(summary=None), "missing_field", "[0].memory.summary"),
        (piece() | {"memory": None}, "null_optional", "[0].memory"),
        (piece() | {"memory": memory() | {"claim": None}}, "null_optional", "[0].memory.claim"),
        (piece(kind="whim"), "bad_enum", "[0].memory.kind"),
        (piece(summary=7), "bad_type", "[0].memory.summary"),
        (piece(summary="a\u0000b"), "bad_type", "[0].memory.summary"),
        (piece(summary="a\ud800b"), "bad_json", "[0]"),
        (piece(memoryId="No Spaces"), "bad_id", "[0].memory.memoryId"),
        (piece(topics=["Not A Slug"]), "bad_id", "[0].memory.topics[0]"),
        (piece(createdAt="banana"), "bad_timestamp", "[0].memory.createdAt"),
        (piece(createdAt="2026-03-01T10:00:00"), "bad_timestamp", "[0].memory.createdAt"),
        (piece(createdAt="2026-03-01T10:00:00+02:00"), "bad_timestamp", "[0].memory.createdAt"),
        (piece(createdAt="2999-03-01T10:00:00Z"), "bad_timestamp", "[0].memory.createdAt"),
        (piece(createdAt="2026-02-30T10:00:00Z"), "bad_timestamp", "[0].memory.createdAt"),
        (piece(summary="x" * 4001), "too_long", "[0].memory.summary"),
        (piece(topics=["a", "b", "c", "d", "e"]), "too_many", "[0].memory.topics"),
        (piece(summary="é" * 17000), "too_large", "[0]"),
        (piece(tags=["anchor:missing"]), "contradiction", "[0].tags"),
        (piece(repo="audio", tags=["repo:routes"]), "contradiction", "[0].tags"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_code_and_place(value: object, code: str, path: str) -> None:
    found = one(value)
    assert isinstance(found, Refused) and (found.verdict.code.value, found.verdict.path) == (code, path)


def test_no_second_spelling_is_read() -> None:
    snake = {"action_implication" if name == "actionImplication" else name: each for name, each in memory().items()}
    found = one({"operation": "record_short_term_memory", "memory": snake})
    assert isinstance(found, Refused)


def test_a_role_has_its_own_operations_alone() -> None:
    found = one(piece(), Reading(allowed={"close_open_case"}, key="job:1"))
    assert isinstance(found, Refused) and found.verdict.code.value == "operation_not_allowed"
    assert found.name == "record_short_term_memory"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "bad_json"),
        ("here: []", "bad_json"),
        ("[] []", "bad_json"),
        ("[1,]", "bad_json"),
        ('{"a": 1, "a": 2}', "bad_json"),
        ("[NaN]", "bad_json"),
        ("7", "bad_type"),
        ("[" * 9000, "bad_json"),
        ("[" + "{}," * 64 + "{}]", "too_many"),
        ('"' + "x" * 300_000 + '"', "too_large"),
    ],
)
def test_a_text_that_is_no_list_of_operations_is_refused_whole(text: str, code: str) -> None:
    (found,) = read_text(text, READING)
    assert isinstance(found, Refused) and found.verdict.code.value == code


@pytest.mark.parametrize("around", ["{}", "[{}]", "```json\n[{}]\n```", "```\n{}\n```"])
def test_one_object_a_list_and_one_fence_are_read(around: str) -> None:
    (found,) = read_text(around.replace("{}", json.dumps(piece())), READING)
    assert isinstance(found, Item) and found.key == "job:1:0"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from([*memory(), "operation", "tags", "topics", "createdAt", "seq", "personId"])


@given(st.lists(JSON, max_size=4), st.text(max_size=40))
def test_whatever_comes_it_never_raises(pieces: list[Any], text: str) -> None:
    for found in (*read_pieces(pieces, READING), *read_text(text, READING)):
        assert isinstance(found, Item | Refused)


@given(st.sampled_from(sorted(OPERATIONS)), st.dictionaries(FIELDS, JSON, max_size=5), st.booleans())
def test_a_whole_note_with_one_part_replaced_never_raises(name: str, fields: dict[str, Any], nested: bool) -> None:
    value = piece() | ({"memory": memory() | fields} if nested else fields) | {"operation": name}
    found = one(value)
    if isinstance(found, Item):
        again = read_operation(json.dumps(found.operation.model_dump(mode="json", exclude_none=True)))
        assert again == found.operation
    else:
        assert isinstance(found.verdict, Rejected) and len(found.verdict.message) < 200
