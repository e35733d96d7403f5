"""What operations on memories do where they stand."""

from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from core.domain.mind.bodies import CAPS, Durable, Note, Proposal, ShortTerm, Thread, Touch, Value
from core.domain.mind.codes import Accepted, Rejected
from core.domain.mind.codes import RejectionCode as Code
from core.domain.mind.entries import Entry
from core.domain.mind.facts import Emitter
from core.domain.mind.view import View
from core.domain.operations.memories import RecordShortTermMemory
from tests.domain.minds import (
    ANA,
    BO,
    ELSEWHERE,
    NOW,
    ROOM,
    alike,
    applied,
    make_durable,
    make_facts,
    make_short_term,
    make_thread,
    make_value,
    make_view,
    said,
    thought,
)
from tests.domain.proposals import (
    HERE,
    IDENTITY,
    NOTE,
    SLOGAN,
    TEXT,
    VALUE,
    WHY,
    carry_out,
    crystallize,
    full,
    more_for,
    propose,
    proposed,
    prune,
    record,
    revise,
    support,
    there,
)


def test_a_full_mind_takes_no_lasting_memory_but_one_in_the_place_of_another() -> None:
    counts = [("durable", frozenset({ROOM}), CAPS["durable"])]
    for operation in (carry_out(), crystallize("durable:routes", "seam:routes")):
        view = View((*there(), proposed()), counts)
        verdict = applied(operation, view, make_facts(Emitter.SLEEP))
        assert isinstance(verdict, Rejected) and verdict.code is Code.LIMIT_REACHED
    assert isinstance(applied(revise(), View(there(), counts), make_facts(Emitter.SLEEP)), Accepted)


def test_a_note_is_of_all_rooms_and_people_that_its_author_had_read_and_of_our_time() -> None:
    view = make_view()
    verdict = applied(record(created_at=NOW - timedelta(days=9)), view, make_facts(Emitter.RUMINATION))
    entry = view.find("short_term", "seam:new")
    assert verdict == Accepted("appended", ("seam:new",)) and entry is not None
    assert (entry.sources, entry.people, entry.created_at) == (frozenset({ROOM}), frozenset({ANA, BO}), NOW)


def test_an_operators_note_is_of_the_rooms_of_its_anchors_alone() -> None:
    view = make_view()
    applied(record(anchor_refs=said(120)), view, make_facts())
    entry = view.find("short_term", "seam:new")
    assert entry is not None and (entry.sources, entry.people) == (frozenset({ELSEWHERE}), frozenset({ANA}))


def on_routes(**more: Any) -> RecordShortTermMemory:
    """One more note on the matter of `make_short_term(topics=["stops"])`."""
    return record(**({"target": {"kind": "repo", "id": "Routes"}, "topics": ("stops",)} | more))


def merged(operation: RecordShortTermMemory, score: float, **more: Any) -> tuple[str, ShortTerm, Entry]:
    """The effect on a note on stops, its body, and the entry."""
    view = make_view(make_short_term(**({"topics": ("stops",), "tags": ("map",)} | more)))
    facts = make_facts(Emitter.RUMINATION, similarity=alike(("seam:new", "seam:routes", score)))
    verdict = applied(operation, view, facts)
    entry = view.find("short_term", "seam:routes")
    assert isinstance(verdict, Accepted) and entry is not None and isinstance(entry.body, ShortTerm)
    assert view.find("short_term", "seam:new") is None
    return verdict.effect, entry.body, entry


def test_a_merge_takes_the_new_text_and_keeps_id_age_proof_and_what_was_said_before() -> None:
    effect, body, entry = merged(on_routes(anchor_refs=said(101), tags=("kiln",), kind="project_seam"), 0.75)
    assert (effect, entry.version, entry.created_at) == ("deepened:r1", 2, NOW - timedelta(hours=30))
    assert (body.claim, body.kind.value) == ("Two bricks cracked in the last firing.", "project_seam")
    assert [each.ref for each in body.anchor_refs] == ["message:101", "message:100"]
    assert (body.tags, body.support_count) == (("kiln", "map"), 2)
    (before,) = body.revisions
    assert (before.claim, before.effect, before.seq) == (thought()["claim"], Touch.DEEPENED, 1)
    assert before.anchor_refs == said(100)


def test_a_repetition_is_counted_and_leaves_the_text() -> None:
    effect, body, _ = merged(on_routes(anchor_refs=said(100)), 0.97)
    assert (effect, body.support_count, body.claim) == ("repeated:r1", 2, thought()["claim"])
    assert body.revisions[0].effect is Touch.REPEATED


def test_a_new_anchor_deepens_even_where_the_words_are_the_same() -> None:
    effect, body, _ = merged(on_routes(anchor_refs=said(101)), 0.97)
    assert (effect, len(body.anchor_refs)) == ("deepened:r1", 2)


def test_a_merge_with_proof_ends_a_lack_of_proof() -> None:
    _, body, _ = merged(on_routes(anchor_refs=said(101)), 0.75, anchor_refs=(), anchors_missing=True, needs_review=True)
    assert (body.anchors_missing, body.needs_review) == (False, False)


def test_the_thirteenth_revision_lets_the_oldest_go() -> None:
    view = make_view(make_short_term())
    for number in range(13):
        again = record(id_="seam:routes", target={"kind": "repo", "id": "audio"}, claim=f"Claim {number}.")
        assert applied(again, view, make_facts()) == Accepted("replaced", ("seam:routes",))
    body = view.body(view.find("short_term", "seam:routes"), ShortTerm)
    assert body is not None and body.claim == "Claim 12."
    assert [each.claim for each in body.revisions] == [f"Claim {number}." for number in range(12)]


def test_a_full_room_still_deepens_and_another_room_still_takes_notes() -> None:
    view = make_view(*full("short_term", make_short_term, topics=("stops",)))
    elsewhere = record(id_="seam:far", anchor_refs=said(120), target={"kind": "room", "id": "8"})
    assert isinstance(applied(record(), view, make_facts(Emitter.CHAT)), Rejected)
    assert isinstance(applied(elsewhere, view, make_facts()), Accepted)
    deeper = on_routes(summary=thought()["summary"], claim=thought()["claim"])
    verdict = applied(deeper, view, make_facts(Emitter.CHAT))
    assert isinstance(verdict, Accepted) and verdict.effect == "repeated:r1"


def test_rooms_with_the_same_readers_share_their_notes_and_their_limit() -> None:
    groups = {ROOM: "all", ELSEWHERE: "all"}
    view = make_view(*full("short_term", make_short_term, sources=(ELSEWHERE,)))
    verdict = applied(record(), view, make_facts(Emitter.CHAT, groups=groups))
    assert isinstance(verdict, Rejected) and verdict.code is Code.LIMIT_REACHED


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(100, 111)), max_size=30))
def test_every_note_is_counted_once_and_no_proof_is_lost(notes: list[tuple[int, int]]) -> None:
    view = make_view()
    for number, (matter, message) in enumerate(notes):
        note = on_routes(id_=f"seam:{number}", topics=(f"matter-{matter}",), anchor_refs=said(message))
        assert isinstance(applied(note, view, make_facts(Emitter.RUMINATION, seq=number)), Accepted)
    bodies = [entry.body for entry in view.live("short_term") if isinstance(entry.body, ShortTerm)]
    assert sum(body.support_count for body in bodies) == len(notes)
    kept = {each.ref for body in bodies for each in body.anchor_refs}
    assert kept == {f"message:{message}" for _, message in notes}


def test_a_pruned_note_keeps_its_words_and_the_reason() -> None:
    view = make_view(make_short_term())
    applied(prune(), view, make_facts(Emitter.SLEEP))
    entry = view.find("short_term", "seam:routes")
    assert entry is not None and entry.retired is not None
    assert (entry.retired.reason, entry.body) == (WHY, make_short_term().body)


def test_a_distillation_takes_the_place_of_its_notes_and_keeps_all_their_proof() -> None:
    sources = (make_short_term(), make_short_term("seam:late", anchor_refs=said(101), age=timedelta(hours=2)))
    view, facts = make_view(*sources), make_facts(Emitter.SLEEP)
    ids = ("seam:routes", "seam:late")
    assert applied(propose(*ids, anchor_refs=()), view, facts) == Accepted("proposed", ("proposal:1",))
    assert not list(view.live("durable"))
    verdict = applied(carry_out(*ids, anchor_refs=()), view, facts)
    assert verdict == Accepted("distilled", ("durable:new", *ids, "proposal:1"))
    entry = view.find("durable", "durable:new")
    assert entry is not None and isinstance(entry.body, Durable)
    assert [each.ref for each in entry.body.anchor_refs] == ["message:101", "message:100"]
    assert (entry.body.claim, entry.body.source_memory_ids, entry.sources) == (thought()["claim"], ids, HERE)
    gone = [view.find("short_term", id_) for id_ in ids]
    assert all(each is not None and each.retired and each.retired.superseded_by == "durable:new" for each in gone)
    assert not list(view.live("short_term")) and not list(view.live("proposal"))


def test_what_was_lost_is_kept_as_a_note_on_the_memory() -> None:
    view, facts = make_view(make_short_term()), make_facts(Emitter.SLEEP)
    assert isinstance(applied(propose(note=NOTE, **SLOGAN), view, facts), Accepted)
    assert isinstance(applied(carry_out(note=NOTE, **SLOGAN), view, facts), Accepted)
    body = view.body(view.find("durable", "durable:new"), Durable)
    assert body is not None and body.loss_note == NOTE


def test_a_memory_without_proof_stays_without_only_if_no_source_has_any() -> None:
    bare = make_short_term("seam:bare", anchor_refs=(), anchors_missing=True)
    for ids, missing in ((("seam:bare",), True), (("seam:bare", "seam:routes"), False)):
        view = make_view(bare, make_short_term())
        assert isinstance(
            applied(propose(*ids, anchor_refs=(), anchors_missing=True), view, make_facts(Emitter.SLEEP)), Accepted
        )
        proposal = view.body(view.find("proposal", "proposal:1"), Proposal)
        assert proposal is not None and proposal.candidate.anchors_missing is missing


def test_a_value_rests_on_what_took_the_place_of_its_memory() -> None:
    view = make_view(make_durable(), make_value(support_memory_id="durable:routes"))
    assert isinstance(applied(revise(), view, make_facts(Emitter.SLEEP)), Accepted)
    value = view.body(view.find("value", "value:care"), Value)
    assert value is not None and value.support_memory_id == "durable:new"


def test_only_an_operator_who_names_the_proof_anew_narrows_where_a_memory_comes_from() -> None:
    old = make_durable(sources=(ROOM, ELSEWHERE), anchor_refs=said(100, 120))
    both = HERE | {ELSEWHERE}
    for by, anchors, sources, proof in (
        (Emitter.OPERATOR, said(100), HERE, said(100)),
        (Emitter.OPERATOR, (), both, said(100, 120)),
        (Emitter.SLEEP, said(100), both, said(100, 120)),
    ):
        view = make_view(old)
        assert isinstance(applied(revise(anchor_refs=anchors), view, make_facts(by)), Accepted)
        entry = view.find("durable", "durable:new")
        assert entry is not None and isinstance(entry.body, Durable)
        assert (entry.sources, entry.body.anchor_refs) == (sources, proof)


def test_a_confirmed_identity_stays_one_and_other_words_have_to_cross_the_wall_again() -> None:
    fields = {name: value for name, value in IDENTITY.items() if name != "kind"}
    old = make_durable(kind="identity_seam", crystallized=True, needs_review=True, **fields)
    for more, stays in (({}, True), ({"claim": "Void asks Ana and Bo first, and then draws the map anew."}, False)):
        view = make_view(old)
        assert isinstance(applied(revise(note=NOTE, **(IDENTITY | more)), view, make_facts(Emitter.SLEEP)), Accepted)
        body = view.body(view.find("durable", "durable:new"), Durable)
        assert body is not None and (body.crystallized, body.needs_review) == (stays, False)


def test_a_note_becomes_a_memory_is_revised_and_becomes_identity_and_one_is_left() -> None:
    view, sleep = make_view(make_short_term()), make_facts(Emitter.SLEEP)
    later = make_facts(Emitter.SLEEP, now=NOW + timedelta(hours=25))
    for operation, facts in (
        (propose(id_="durable:a"), sleep),
        (carry_out(id_="durable:a"), sleep),
        (revise("durable:a", id_="durable:b"), sleep),
        (crystallize("durable:b", id_="durable:c", value=VALUE, note=TEXT), later),
    ):
        assert isinstance(applied(operation, view, facts), Accepted)
    chain = [view.holder("durable", id_) for id_ in ("seam:routes", "durable:a", "durable:b")]
    assert [each.retired.superseded_by for each in chain if each is not None and each.retired is not None] == [
        "durable:a", "durable:b", "durable:c",
    ]  # fmt: skip
    (left,) = view.live("durable")
    assert isinstance(left.body, Durable) and (left.id, left.body.crystallized) == ("durable:c", True)
    value, note = view.find("value", "value:new"), view.find("note", "note:new")
    assert value is not None and isinstance(value.body, Value) and value.body.support_memory_id == "durable:c"
    assert note is not None and isinstance(note.body, Note) and (note.body.reason, note.sources) == (WHY, HERE)


def test_an_identity_can_renew_a_value_where_there_are_as_many_as_may_be() -> None:
    view = make_view(make_durable(), *full("value", make_value))
    renewed = crystallize(value=VALUE | {"valueId": "value:3"})
    assert isinstance(applied(renewed, view, make_facts(Emitter.SLEEP)), Accepted)
    body = view.body(view.find("value", "value:3"), Value)
    assert body is not None and (body.label, body.support_memory_id) == ("ask first", "durable:new")


def test_two_supports_of_one_thread_are_both_kept_whoever_was_first() -> None:
    for order in (("seam:routes", "durable:routes"), ("durable:routes", "seam:routes")):
        view = make_view(*there())
        for id_, message in zip(order, (102, 103), strict=True):
            more = more_for(support_memory_ids=(id_,), anchor_refs=said(message), topics=(id_[:4],))
            assert isinstance(applied(more, view, make_facts(Emitter.RUMINATION), {}), Accepted)
        body = view.body(view.find("thread", "thread:routes"), Thread)
        assert body is not None and set(body.support_memory_ids) == set(order)
        assert {each.ref for each in body.anchor_refs} == {"message:100", "message:102", "message:103"}
        assert (set(body.topics), body.claim) == ({id_[:4] for id_ in order}, thought()["claim"])


def test_a_thread_never_ripens_back_and_takes_the_texts_that_are_given() -> None:
    view = make_view(make_thread(maturation=0.6, desire_to_speak=0.2))
    applied(more_for(maturation=0.3, desire_to_speak=0.1, claim="It is the importer."), view, make_facts())
    body = view.body(view.find("thread", "thread:routes"), Thread)
    assert body is not None and (body.maturation, body.desire_to_speak) == (0.6, 0.1)
    assert (body.claim, body.tension) == ("It is the importer.", thought()["tension"])


def test_a_thread_that_is_retired_is_over() -> None:
    view = make_view(make_thread())
    assert applied(more_for(status="retired"), view, make_facts()) == Accepted("retired", ("thread:routes",))
    assert not list(view.live("thread"))


def test_a_thread_is_of_the_rooms_of_all_that_supports_it() -> None:
    view = make_view(*there())
    assert isinstance(applied(support(support_memory_ids=("seam:elsewhere",)), view, make_facts()), Accepted)
    entry = view.find("thread", "thread:new")
    assert entry is not None and entry.sources == {ROOM, ELSEWHERE}


def test_own_words_never_become_proof_however_often_they_are_repeated() -> None:
    view = make_view(make_short_term(anchor_refs=(), anchors_missing=True, topics=("stops",)))
    for number in (130, 131):
        verdict = applied(on_routes(anchor_refs=said(number)), view, make_facts(Emitter.CHAT))
        assert isinstance(verdict, Rejected) and verdict.code is Code.SELF_ANCHORED
    body = view.body(view.find("short_term", "seam:routes"), ShortTerm)
    assert body is not None and (body.anchors_missing, body.support_count) == (True, 1)
