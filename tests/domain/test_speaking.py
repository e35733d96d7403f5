"""Each rule that speech unasked has to pass, and which of them an answer is asked that was owed."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from core.domain.ids import MessageId
from core.domain.mind.entries import Entry
from core.domain.rooms import RoomMode
from core.domain.speaking import (
    AwaitApproval,
    Barrier,
    Held,
    Method,
    Nearest,
    Speak,
    SpeechFacts,
    SpeechRule,
    SpeechRules,
    judge,
)
from tests.domain.minds import NOW, ROOM, make_candidate

RULES = SpeechRules()
GAP_S = 5400.0
SPOKEN = make_candidate(priority=0.9)
OWED = make_candidate(
    kind="direct_reply", delivery_target={"mode": "channel", "channelId": ROOM, "replyToMessageId": 100}
)
TO_OWNER = make_candidate(kind="self_advocacy", delivery_target={"mode": "owner_dm"})
OPEN = SpeechFacts(
    now=NOW,
    barrier=None,
    mode=RoomMode.LURK,
    unattended=True,
    obligations=frozenset({MessageId(100)}),
    need_to_speak=0.55,
    room_today=1,
    mind_today=5,
    since_last_s=GAP_S,
    since_unattended_s=GAP_S,
    human_since=True,
    here=Nearest(0.8599, Method.EMBEDDER),
    anywhere=Nearest(0.9199, Method.EMBEDDER),
    said=False,
    readable=True,
    owner_linked=True,
    owner_today=1,
    approval_asked=False,
)
"""Every rule passes, each by as little as it can."""
ASKED_OF_OWED = {"posting", "opt_in", "gap", "repetition", "audience", "approval"}


def held_by(candidate: Entry, rules: SpeechRules = RULES, **more: Any) -> list[str]:
    """The rules that hold it, with `approval` alone where only a person is waited for."""
    outcome = judge(candidate, replace(OPEN, **more), rules)
    if isinstance(outcome, AwaitApproval):
        return ["approval"]
    return [rule.value for rule in outcome.by] if isinstance(outcome, Held) else []


FAILING: list[tuple[str, dict[str, Any]]] = [
    *(("posting", {"barrier": barrier}) for barrier in Barrier),
    ("opt_in", {"unattended": False}),
    ("opt_in", {"mode": RoomMode.SILENT}),
    ("opt_in", {"dm": True}),
    ("need_to_speak", {"need_to_speak": 0.5499}),
    ("need_to_speak", {"need_to_speak": 0.5499, "mode": RoomMode.MENTION}),
    ("need_to_speak", {"need_to_speak": 0.4499, "mode": RoomMode.OPEN}),
    ("room_budget", {"room_today": 2}),
    ("mind_budget", {"mind_today": 6}),
    ("gap", {"since_unattended_s": GAP_S - 1, "since_last_s": None}),
    ("gap", {"since_last_s": GAP_S - 1}),
    ("human_since", {"human_since": False}),
    ("repetition", {"said": True}),
    ("repetition", {"here": Nearest(0.86, Method.EMBEDDER)}),
    ("repetition", {"anywhere": Nearest(0.92, Method.EMBEDDER)}),
    ("repetition", {"here": Nearest(0.60, Method.LETTERS)}),
    ("repetition", {"anywhere": Nearest(0.60, Method.LETTERS)}),
    ("audience", {"readable": False}),
    ("approval", {"approval_asked": True}),
]


@pytest.mark.parametrize(("rule", "more"), FAILING, ids=str)
def test_each_rule_holds_speech_by_itself(rule: str, more: dict[str, Any]) -> None:
    assert held_by(SPOKEN, **more) == [rule]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"dm": True, "asked": True},
        {"need_to_speak": 0.45, "mode": RoomMode.OPEN},
        {"since_last_s": None, "since_unattended_s": None},
        {"here": None, "anywhere": None},
        {"here": Nearest(0.5999, Method.LETTERS), "anywhere": Nearest(0.5999, Method.LETTERS)},
        {"owner_linked": False, "owner_today": 9},
    ],
    ids=str,
)
def test_what_stays_just_within_every_rule_is_said(more: dict[str, Any]) -> None:
    assert held_by(SPOKEN, **more) == []


def test_an_owed_answer_is_asked_fewer_rules() -> None:
    outcome = judge(OWED, OPEN, RULES)
    assert isinstance(outcome, Speak)
    assert {each.rule.value for each in outcome.results if each.asked} == ASKED_OF_OWED


@pytest.mark.parametrize(("rule", "more"), FAILING, ids=str)
def test_an_owed_answer_is_held_by_no_rule_that_it_is_not_asked(rule: str, more: dict[str, Any]) -> None:
    # Of likeness only the very same words count, and it waits for speech unasked alone.
    nearly = {"here", "anywhere", "since_last_s"} & more.keys() and "since_unattended_s" not in more
    assert held_by(OWED, **more) == ([rule] if rule in ASKED_OF_OWED and not nearly else [])


@pytest.mark.parametrize(
    "other",
    [
        make_candidate(kind="ripe_thought_share", delivery_target={"channelId": ROOM, "replyToMessageId": 100}),
        make_candidate(kind="direct_reply", delivery_target={"channelId": ROOM, "replyToMessageId": 101}),
        make_candidate(kind="direct_reply"),
    ],
    ids=["no reply", "other message", "no message"],
)
def test_only_a_reply_to_a_live_obligation_is_an_owed_answer(other: Entry) -> None:
    assert held_by(other, need_to_speak=0.0) == ["need_to_speak"]


def test_the_owner_is_written_to_twice_a_day_once_an_account_is_linked() -> None:
    closed: dict[str, Any] = {"unattended": False, "mode": RoomMode.SILENT}
    assert held_by(TO_OWNER, **closed) == []
    assert held_by(TO_OWNER, **closed, owner_today=2) == ["owner_dm"]
    assert held_by(TO_OWNER, **closed, owner_linked=False) == ["owner_dm"]


@pytest.mark.parametrize(
    ("more", "held"),
    [
        ({}, []),
        ({"priority": 0.84}, ["need_to_speak"]),
        ({"must_eventually_share": False}, ["need_to_speak"]),
        ({"age": timedelta(hours=24, seconds=-1)}, ["need_to_speak"]),
    ],
    ids=str,
)
def test_what_must_be_shared_matters_and_waited_a_day_needs_no_pressure(more: dict[str, Any], held: list[str]) -> None:
    fields: dict[str, Any] = {"must_eventually_share": True, "priority": 0.85, "age": timedelta(hours=24)}
    assert held_by(make_candidate(**(fields | more)), need_to_speak=0.0) == held


@pytest.mark.parametrize(
    ("more", "asked"),
    [({"kind": "world_advocacy"}, True), ({"kind": "moderation_note"}, True), ({"kind": "self_advocacy"}, False)],
    ids=str,
)
def test_some_kinds_wait_for_a_person_until_one_approved(more: dict[str, Any], asked: bool) -> None:
    assert held_by(make_candidate(**more)) == (["approval"] if asked else [])
    assert held_by(make_candidate(status="approved", **more), approval_asked=True) == []
    assert held_by(make_candidate(**more), replace(RULES, approval=frozenset())) == []


def test_no_person_is_asked_about_what_another_rule_holds() -> None:
    assert held_by(make_candidate(kind="world_advocacy"), room_today=2) == ["room_budget", "approval"]


def test_every_rule_is_asked_in_order_even_if_all_fail() -> None:
    worst: dict[str, Any] = {}
    for _, more in FAILING:
        worst |= more
    worst |= {"need_to_speak": 0.0}
    outcome = judge(SPOKEN, replace(OPEN, **worst), RULES)
    assert [each.rule for each in outcome.results] == list(SpeechRule)
    assert isinstance(outcome, Held)
    assert set(SpeechRule) - set(outcome.by) == {SpeechRule.OWNER_DM}
    assert all(each.detail for each in outcome.results if not each.passed)


def test_the_operators_numbers_count() -> None:
    narrow = SpeechRules(room_daily=1, mind_daily=5, gap=timedelta(hours=2), threshold=0.6)
    assert held_by(SPOKEN, narrow) == ["need_to_speak", "room_budget", "mind_budget", "gap"]


@pytest.mark.parametrize("entry", [make_candidate(delivery_target=None), make_candidate(retired="x")], ids=str)
def test_what_could_not_be_said_is_not_judged(entry: Entry) -> None:
    with pytest.raises(ValueError, match="no candidate"):
        judge(entry, OPEN, RULES)
