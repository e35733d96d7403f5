"""The private self in words, within a budget."""

import re
from collections.abc import Sequence
from datetime import timedelta

import pytest

from core.domain.ids import RoomId
from core.domain.mind.bodies import Pressure, Profile, Sleep, Touch
from core.domain.mind.deriving import coverage, novelty, saturation
from core.domain.mind.entries import Entry
from core.domain.mind.projecting import Material, Purpose, Ranked, SelfStateSection, ViewWanted, distinct, fit
from core.domain.mind.values import AnchorKind, Target, TargetKind
from core.domain.mind.wording import ANCHOR_CHARS, label_of, one_line_of, pressure_words, sleep_words, text_of
from core.prompt.tokens import estimate
from tests.domain.minds import (
    ANA,
    NOW,
    ROOM,
    anchor,
    make_candidate,
    make_case,
    make_durable,
    make_entry,
    make_pressure_item,
    make_receipt,
    make_short_term,
    make_thread,
    make_value,
    read,
    said,
)

WANTED = ViewWanted(room=ROOM, readable=frozenset({ROOM}), speaker=ANA)
CLOCKS = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:|\b1[0-9]{9}\b")


def ranked(*entries: Entry) -> list[Ranked]:
    return [Ranked(entry, 0.9 - n / 100) for n, entry in enumerate(entries)]


def memories(count: int) -> list[Ranked]:
    made = [
        make_durable(
            f"durable:{n}",
            summary=" ".join(f"word{n}x{k}" for k in range(20)),
            claim=f"claim of number {n}",
            age=timedelta(days=n),
        )
        for n in range(count)
    ]
    return ranked(*made)


def full_mind() -> Material:
    """Everything there is, each type once or more."""
    return Material(
        found={
            "profile": ranked(make_entry("profile", Profile(public_name="Void", pronouns="it"), sources=())),
            "value": ranked(*(make_value(f"value:{n}", label=f"care {n}") for n in range(6))),
            "pressure": ranked(make_entry("pressure", Pressure(need_to_speak=0.8), sources=())),
            "case": ranked(*(make_case(100 + n) for n in range(5))),
            "durable": memories(24),
            "short_term": ranked(*(make_short_term(f"seam:{n}", summary=f"today {n}") for n in range(8))),
            "thread": ranked(make_thread(desire_to_speak=0.7)),
            "pressure_item": ranked(make_pressure_item(intensity=0.2)),
            "candidate": ranked(make_candidate()),
            "receipt": ranked(make_receipt()),
        },
        sleep=Sleep(next_nap_starts_at=NOW + timedelta(hours=3)),
    )


def shown(budget: int, material: Material | None = None, wanted: ViewWanted = WANTED) -> SelfStateSection:
    return fit(full_mind() if material is None else material, wanted, NOW, budget, estimate)


def kept(section: SelfStateSection) -> dict[str, int]:
    return {each.group: each.kept for each in section.trace}


@pytest.mark.parametrize("budget", [0, 60, 300, 900, 2500])
def test_only_the_line_of_identity_may_exceed_the_budget(budget: int) -> None:
    section = shown(budget)
    assert section.self_view[0].text == "Void (it)"
    identity = shown(0).tokens
    assert section.tokens <= max(budget, identity)
    written = sum(estimate(f"{each.label}\n{each.text}\n") for each in (*section.self_view, *section.memories))
    assert written <= section.tokens


def test_what_is_told_stands_in_a_fixed_order_and_the_rest_is_counted() -> None:
    section = shown(4500)
    labels = [each.label.partition(",")[0].partition(" 5 ")[0] for each in section.self_view]
    assert labels == [
        "who this is", *["value"] * 4, "wakefulness", "urge to speak", *["owed here"] * 4, "thread", "discomfort",
        "wants to be said: ripe thought share", "said here",
    ]  # fmt: skip
    kinds = [each.label.partition(",")[0] for each in section.memories]
    full, lines, notes = (kinds.count(kind) for kind in ("memory", "memory in one line", "note of the day"))
    assert kinds == ["memory"] * full + ["memory in one line"] * lines + ["note of the day"] * notes
    assert full > 5 and lines == 8 and notes == 6
    counts = {each.group: (each.kept, each.left_out) for each in section.trace}
    assert counts["memory"] == (full + lines, 24 - full - lines)
    assert counts["value"] == (4, 2) and counts["case"] == (4, 1) and counts["short_term"] == (6, 2)


def test_memories_leave_room_for_what_comes_after_them() -> None:
    section = shown(1200)
    assert all(kept(section)[group] for group in ("memory", "short_term", "thread", "pressure_item"))


def test_the_same_input_gives_the_same_bytes() -> None:
    assert repr(shown(900)) == repr(shown(900))


def test_no_word_of_code_holds_a_clock() -> None:
    section = shown(4000, wanted=ViewWanted(room=ROOM, readable=frozenset({ROOM}), purpose=Purpose.RUN, public=False))
    assert [
        each for each in (*section.self_view, *section.memories) if CLOCKS.search(f"{each.label} {each.text}")
    ] == []


def test_what_is_shown_is_known_by_version_room_person_and_ref() -> None:
    section = shown(4000)
    assert section.versions["durable:0"] == 1 and section.versions["thread:routes"] == 1
    assert section.packet.rooms == {ROOM} and ANA in section.packet.people
    assert {"memory:durable:0", "candidate:speech:stops"} <= section.packet.refs
    assert [each.key for each in section.memories][:2] == ["durable:0", "durable:1"]
    assert all(each.provenance.audience == {ROOM} for each in section.memories)
    assert section.self_view[0].provenance.audience == frozenset()


def test_a_draft_stands_only_where_nothing_is_said_aloud() -> None:
    assert "Draft:" not in text_of(make_candidate()) and "shall I list them" in text_of(make_candidate(), drafts=True)


def test_what_only_repeats_a_memory_is_left_out_and_what_is_like_it_waits() -> None:
    words = [f"w{n}" for n in range(20)]
    one = make_durable("one", summary=" ".join(words), claim="alpha")
    same = make_durable("two", summary=" ".join(words), claim="beta")
    alike = make_durable("three", summary=" ".join(words[:12]), claim="gamma")
    other = make_durable("four", summary="something else", claim="delta")
    found = [each.entry.id for each in distinct(ranked(one, same, alike, other))]
    assert found == ["one", "four", "three"]


@pytest.mark.parametrize(
    ("touches", "share"),
    [
        ((), 0.0),
        ((Touch.REPEATED, Touch.REPEATED), 0.0),
        ((Touch.REPEATED, Touch.REPEATED, Touch.DEEPENED), 2 / 3),
        ((Touch.REPEATED, Touch.REPLACED, Touch.DEEPENED), 0.5),
        ((Touch.REPLACED,) * 3, 0.0),
        ((Touch.DEEPENED,) * 9 + (Touch.REPEATED,) * 6, 0.75),
    ],
)
def test_saturation_is_what_the_last_touches_repeated(touches: Sequence[Touch], share: float) -> None:
    assert saturation(touches) == pytest.approx(share)


def test_what_is_said_over_and_over_is_called_so() -> None:
    entry = make_short_term()
    assert label_of(entry, NOW, saturation=0.75).endswith("over-chewed")
    assert "over-chewed" not in label_of(entry, NOW, saturation=0.74)


def test_novelty_falls_with_the_most_alike() -> None:
    assert (novelty([]), novelty([-0.3])) == (1.0, 1.0)
    assert novelty([0.1, 0.6]) == pytest.approx(0.4)


def test_coverage_lists_unused_sources_first_and_counts_proof_by_age() -> None:
    routes = Target(kind=TargetKind.REPO, id="Routes")
    proof = (*said(100, 101, 102), anchor("source:routes/a.py@abc1234#L3-9"))
    entries = [
        make_durable("one", anchor_refs=proof),
        make_durable("over", anchor_refs=said(105), retired="over"),
        make_durable("other", target={"kind": "room", "id": "7"}, anchor_refs=said(106)),
    ]
    dated = {f"message:{n}": NOW - timedelta(days=days) for n, days in ((100, 7), (101, 8), (102, 91))}
    found = coverage(routes, entries, ["source:routes/a.py", "source:routes/b.py"], dated, NOW)
    assert found.unused == ("source:routes/b.py",)
    assert found.anchors == {AnchorKind.MESSAGE: (1, 1, 0, 1), AnchorKind.SOURCE: (1, 0, 0, 0)}


def test_bands_have_their_words() -> None:
    quiet = Pressure(need_to_speak=0.34, confession_pressure=0.59, novelty_pressure=0.59, recent_speech_damping=0.49)
    loud = Pressure(need_to_speak=0.7, confession_pressure=0.6, novelty_pressure=0.6, recent_speech_damping=0.5)
    assert pressure_words(quiet) == "need to speak: low" and pressure_words(Pressure()) == "need to speak: medium"
    assert pressure_words(loud).startswith("need to speak: high; ") and pressure_words(loud).count(";") == 3
    assert "wants to be said" in label_of(make_thread(desire_to_speak=0.65), NOW)
    assert "wants to be said" not in label_of(make_thread(desire_to_speak=0.64), NOW)


def test_sleep_is_told_without_dreams() -> None:
    napping = read(
        Sleep, is_napping=True, nap_ends_at=NOW + timedelta(minutes=40), active_dream_themes=("stops of a line",)
    )
    assert sleep_words(napping, NOW) == "napping; it ends in 40 minutes"
    assert sleep_words(napping, NOW + timedelta(hours=1)) == "awake"
    assert sleep_words(Sleep(), NOW) == "awake"


def test_a_memory_in_one_line_is_short() -> None:
    line = one_line_of(make_durable(summary="words\n" * 300))
    assert ANCHOR_CHARS - 1 <= len(line) <= ANCHOR_CHARS and "\n" not in line and line.endswith("…")


def test_a_memory_of_no_room_rests_on_nobody() -> None:
    section = shown(900, Material(found={"durable": ranked(make_durable(sources=()))}))
    assert section.memories[0].provenance.audience == frozenset[RoomId]()


def test_topics_are_slugs_of_the_words_asked_about() -> None:
    wanted = ViewWanted(room=ROOM, readable=frozenset(), about="Route Maps now?", repos=frozenset({"Routes"}))
    assert set(wanted.topics) == {"route", "maps", "now", "route-maps", "maps-now", "route-maps-now"}
    assert wanted.targets == (f"room:{ROOM}", "repo:routes")
    assert "note" not in wanted.types and "candidate" not in wanted.types
