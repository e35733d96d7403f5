"""Which notes of the day become one: the table of situations, any order of arrival, and pairs that people labelled."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

from core.domain.clustering import EMBEDDED, LETTERS, Append, Merge, Noted, Rule, cluster, letters, measured
from core.domain.ids import RoomId
from core.domain.mind.codes import Accepted
from core.domain.mind.facts import Emitter, Packet, Similarity
from core.domain.mind.values import Thought
from core.domain.operations.memories import RecordShortTermMemory
from core.providers.minilm import MiniLm
from tests.domain.minds import ELSEWHERE, NOW, ROOM, anchor, applied, make_facts, make_short_term, make_view, read, said

CLAIM = "Stops without a timetable are cut by the parser, so the last stop of each line is gone from the map."
NEARLY = "Stops without a timetable are cut by the parser, so the last stop of each line is gone from the map again."
REWORDED = "Stops with no timetable are cut by the parser, so the last stop of a line is gone from our map."
RELATED = "The parser cuts stops that have no timetable, and Ana misses the last stop of her line on the plan."
LOOSE = "Bo wants the map to show which stops have a roof, for the last winter was wet."
OTHER = "Our kiln needs new bricks before Friday."
BANDS: list[tuple[str, float, float]] = [
    (CLAIM, 1.0, 1.0),
    (NEARLY, LETTERS.same, 0.999),
    (REWORDED, LETTERS.near, LETTERS.same),
    (RELATED, LETTERS.related, LETTERS.near),
    (LOOSE, LETTERS.unrelated, LETTERS.joined),
    (OTHER, 0.0, LETTERS.unrelated),
]
PACKET_REFS = frozenset(f"message:{n}" for n in range(100, 121))


@dataclass(frozen=True)
class Row:
    """A live note and one that comes: how alike an embedder finds them, what each has, and the effect."""

    number: int
    claim: str
    score: float
    effect: str
    live: dict[str, Any]
    new: dict[str, Any]


SHARED, OWN, BOOKS = ("stops", "parsing"), ("stops",), ("repo:x", "anchor:missing")
ROWS = [
    Row(1, CLAIM, 1.0, "repeated:r5", {}, {}),
    Row(2, RELATED, 0.55, "appended", {"tags": ("map",)}, {"tags": ("map",)}),
    Row(3, OTHER, 0.12, "appended", {"tags": BOOKS}, {"tags": BOOKS}),
    Row(4, RELATED, 0.62, "deepened:r1", {"topics": OWN}, {"topics": OWN, "anchors": (100,)}),
    Row(5, OTHER, 0.11, "appended", {"topics": OWN}, {"topics": OWN}),
    Row(6, RELATED, 0.58, "deepened:r3", {"topics": OWN, "repo": "x"}, {"topics": OWN, "repo": "X", "about": "room"}),
    Row(7, RELATED, 0.49, "deepened:r4", {"topics": SHARED}, {"topics": SHARED, "about": "room"}),
    Row(8, LOOSE, 0.25, "deepened:r4", {"topics": SHARED, "anchors": (101,)},
        {"topics": SHARED, "anchors": (101,), "about": "room"}),
    Row(9, REWORDED, 0.70, "appended", {"topics": OWN}, {"topics": OWN, "about": "room"}),
    Row(10, RELATED, 0.35, "appended", {"topics": ("routes",), "repo": "x"}, {"topics": ("audio",), "repo": "x"}),
    Row(11, RELATED, 0.60, "appended", {"repo": "x"}, {"repo": "x", "about": "room"}),
    Row(12, RELATED, 0.47, "deepened:r2", {"tags": ("map", "parser")}, {"tags": ("parser", "map", "plan")}),
    Row(13, REWORDED, 0.88, "deepened:r6", {"anchors": (102,)}, {"anchors": (102,), "about": "room"}),
    Row(14, RELATED, 0.45, "appended", {"anchors": (103,)}, {"anchors": (103,), "about": "room"}),
    Row(15, RELATED, 0.62, "appended", {"topics": OWN, "room": ELSEWHERE}, {"topics": OWN}),
    Row(16, NEARLY, 0.99, "repeated:r1", {"topics": OWN, "anchors": (104, 105)},
        {"topics": OWN, "anchors": (104, 105)}),
    Row(17, RELATED, 0.50, "replaced", {}, {"id": "live"}),
    Row(18, CLAIM, 1.0, "appended", {"retired": "pruned", "anchors": (106, 107, 108)}, {"anchors": (106, 107, 108)}),
]  # fmt: skip


def _fields(row: Row, side: str) -> dict[str, Any]:
    """The thought of one side. Rows share neither targets nor topics nor tags, so they can meet in one mind."""
    own, tail = (row.live if side == "live" else row.new), f"-{row.number}"
    anchors = own.get("anchors", ())
    return {
        "target": {"kind": "lore" if own.get("about") is None else "archive", "id": f"matter{tail}"},
        "summary": "Map.",
        "claim": CLAIM if side == "live" else row.claim,
        "topics": tuple(each + tail for each in own.get("topics", ())),
        "tags": tuple(each if ":" in each else each + tail for each in own.get("tags", ())),
        "repo": None if own.get("repo") is None else own["repo"] + tail,
        "anchor_refs": said(*anchors),
        "anchors_missing": not anchors,
    }


def _id(row: Row, side: str) -> str:
    own = row.live if side == "live" else row.new
    return f"row-{row.number}:{own.get('id', side)}"


def _arrive(row: Row, side: str, view: Any, similarity: Similarity) -> Accepted:
    """The verdict on one side's note as it comes."""
    room: RoomId = (row.live if side == "live" else row.new).get("room", ROOM)
    more = _fields(row, side) | {"tension": "All or some?", "action_implication": "Ask Ana."}
    memory = {"memoryId": _id(row, side), "kind": "room_observation"} | {k: v for k, v in more.items() if v is not None}
    packet = Packet(rooms=frozenset({room}), refs=PACKET_REFS)
    facts = make_facts(Emitter.RUMINATION, packet=packet, similarity=similarity)
    verdict = applied(read(RecordShortTermMemory, memory=memory), view, facts)
    assert isinstance(verdict, Accepted), verdict
    return verdict


def _scores(rows: Sequence[Row], embedded: bool) -> Similarity:
    if not embedded:
        return Similarity()
    pairs = {(_id(row, a), _id(row, b)): row.score for row in rows for a, b in (("live", "new"), ("new", "live"))}
    return Similarity("given", pairs)


@pytest.mark.parametrize("text", BANDS, ids=["same", "nearly", "reworded", "related", "loose", "other"])
def test_the_texts_of_the_table_are_as_alike_as_their_names_say(text: tuple[str, float, float]) -> None:
    told, least, most = text
    assert least <= letters(f"Map.\n{CLAIM}", f"Map.\n{told}") <= most


@pytest.mark.parametrize("embedded", [True, False], ids=["scores", "letters"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"row-{row.number}")
def test_a_note_becomes_what_the_table_says(row: Row, embedded: bool) -> None:
    old = make_short_term(
        _id(row, "live"),
        **_fields(row, "live"),
        sources=(row.live.get("room", ROOM),),
        retired=row.live.get("retired"),
    )
    assert _arrive(row, "new", make_view(old), _scores([row], embedded)).effect == row.effect


@pytest.mark.parametrize("embedded", [True, False], ids=["scores", "letters"])
def test_notes_come_together_in_whichever_order_they_arrive(embedded: bool) -> None:
    rows = [row for row in ROWS if "retired" not in row.live]
    similarity = _scores(rows, embedded)
    together = {row.number for row in rows if row.effect != "appended"}

    @given_settings(max_examples=6)
    @given(st.permutations([(row, side) for row in rows for side in ("live", "new")]))
    def arriving(order: list[tuple[Row, str]]) -> None:
        view = make_view()
        landed = {(row.number, side): _arrive(row, side, view, similarity).entries[0] for row, side in order}
        assert {row.number for row in rows if landed[row.number, "live"] == landed[row.number, "new"]} == together
        assert len(set(landed.values())) == 2 * len(rows) - len(together)

    arriving()


def noted(id_: str, minutes: int = 0, **more: Any) -> Noted:
    """A note as it is compared, touched `minutes` after the others."""
    fields: dict[str, Any] = {"target": {"kind": "lore", "id": "stops"}, "summary": "Map.", "claim": CLAIM}
    return Noted(id_, read(Thought, **(fields | more)), frozenset({"all"}), NOW.replace(minute=minutes))


def chosen(new: Noted, *live: Noted, **scores: float) -> tuple[str, Rule]:
    """The note into which `new` is merged, and by which rule."""
    similarity = Similarity("given", {(new.id, id_): score for id_, score in scores.items()})
    decision = cluster(new, live, measured(similarity))
    assert isinstance(decision, Merge)
    return decision.id, decision.rule


def test_the_surest_rule_wins_then_the_most_alike_then_the_newest_then_the_first_id() -> None:
    new = noted("new", topics=OWN)
    one, other, bare = noted("a", topics=OWN), noted("b", topics=OWN), noted("c")
    assert chosen(new, bare, one, a=0.7, c=0.94) == ("a", Rule.TARGET_AND_TOPIC)
    assert chosen(new, one, other, a=0.7, b=0.8) == ("b", Rule.TARGET_AND_TOPIC)
    assert chosen(new, one, noted("b", 31, topics=OWN), a=0.8, b=0.8) == ("b", Rule.TARGET_AND_TOPIC)
    assert chosen(new, other, one, a=0.8, b=0.8) == ("a", Rule.TARGET_AND_TOPIC)


def test_a_pair_that_no_embedder_scored_is_compared_by_letters() -> None:
    assert chosen(noted("new"), noted("a"), b=0.1) == ("a", Rule.TARGET_AND_WORDS)


def test_anchors_are_shared_whatever_commit_and_lines_they_name() -> None:
    places = ("source:x/a.py@abc1234#L1-9", "source:x/a.py")
    new, old = (noted(id_, anchor_refs=(anchor(ref),)) for id_, ref in zip(("new", "a"), places, strict=True))
    about = {"kind": "room", "id": "7"}
    other = noted("b", anchor_refs=(anchor("source:x/b.py"),), target=about)
    assert chosen(new, noted("a", anchor_refs=old.thought.anchor_refs, target=about), other, a=0.81, b=0.9) == (
        "a",
        Rule.ANCHOR_AND_WORDS,
    )


def test_letters_tell_two_faults_of_one_part_from_one_fault_told_twice() -> None:
    new, score = noted("new", topics=OWN, claim=RELATED), 0.6
    assert chosen(new, noted("a", topics=OWN), a=score) == ("a", Rule.TARGET_AND_TOPIC)
    apart = cluster(noted("new", topics=OWN, claim=OTHER), [noted("a", topics=OWN)],
                    measured(Similarity("given", {("new", "a"): score})))  # fmt: skip
    assert apart == Append()


PAIRS = [
    (row["label"], *(Thought.model_validate_json(json.dumps(row[side])) for side in ("live", "incoming")))
    for row in map(json.loads, (Path(__file__).parents[1] / "data/cluster_pairs.jsonl").read_text().splitlines())
]


def mistakes(similarity: Callable[[Thought, Thought], Similarity]) -> tuple[float, float]:
    """The shares of pairs that were merged wrongly, and that were missed."""
    wrong = missed = 0
    group = frozenset({"all"})
    for label, live, incoming in PAIRS:
        decision = cluster(
            Noted("new", incoming, group, NOW), [Noted("old", live, group, NOW)], measured(similarity(incoming, live))
        )
        wrong += label == "append" and isinstance(decision, Merge)
        missed += label == "merge" and not isinstance(decision, Merge)
    labels = [label for label, _, _ in PAIRS]
    return wrong / labels.count("append"), missed / labels.count("merge")


def test_there_are_enough_pairs_of_both_labels_and_no_pair_twice() -> None:
    labels = [label for label, _, _ in PAIRS]
    assert min(labels.count("merge"), labels.count("append")) >= 100
    assert len({(live.point, incoming.point) for _, live, incoming in PAIRS}) == len(PAIRS)


def test_letters_merge_at_most_one_pair_in_a_hundred_wrongly_and_miss_few() -> None:
    wrong, missed = mistakes(lambda new, old: Similarity())
    assert wrong <= 0.01 and missed <= 0.15


async def test_the_embedder_that_ships_merges_at_most_one_in_a_hundred_wrongly_and_misses_few() -> None:
    texts = sorted({each.point for _, live, incoming in PAIRS for each in (live, incoming)})
    embedder = MiniLm(guard=lambda: None)
    vectors = dict(zip(texts, await embedder.embed(texts), strict=True))
    await embedder.aclose()

    def scored(new: Thought, old: Thought) -> Similarity:
        cosine = sum(a * b for a, b in zip(vectors[new.point], vectors[old.point], strict=True))
        return Similarity("minilm", {("new", "old"): cosine})

    wrong, missed = mistakes(scored)
    assert wrong <= 0.01 and missed <= 0.15


def test_scores_of_an_embedder_and_of_letters_are_read_on_scales_of_their_own() -> None:
    measure = measured(Similarity("given", {("new", "a"): 0.3}))
    assert measure(noted("new"), noted("a")).scale is EMBEDDED
    assert measure(noted("new"), noted("b")).scale is LETTERS
