"""How much the mind is drawn to speak, number by number, and how moods drift."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from core.domain.mind.bodies import Mood, Pressure, PressureItem, Sleep, Thread
from core.domain.mind.speech import Candidate
from core.domain.mood import drift, nudge
from core.domain.pressure import Charge, Inputs, charge_of, is_asleep, relax, step
from tests.domain.minds import NOW, make_candidate, make_pressure_item, make_thread, read

STEP = timedelta(minutes=5)
DAY = timedelta(days=1)
START = Pressure(stepped_at=NOW)
NAP = read(Sleep, is_napping=True, nap_id="nap:1", nap_started_at=NOW - STEP, nap_ends_at=NOW + timedelta(hours=1))


def after(hours: float) -> datetime:
    """When it spoke, for the step's end to be `hours` later."""
    return NOW + STEP - timedelta(hours=hours)


def item(**more: Any) -> PressureItem:
    body = make_pressure_item(**more).body
    assert isinstance(body, PressureItem)
    return body


def candidate(**more: Any) -> Candidate:
    body = make_candidate(**more).body
    assert isinstance(body, Candidate)
    return body


def thread(**more: Any) -> Thread:
    body = make_thread(**more).body
    assert isinstance(body, Thread)
    return body


def start(need: float, novelty: float = 0.35, confession: float = 0.25) -> Pressure:
    return Pressure(need_to_speak=need, novelty_pressure=novelty, confession_pressure=confession, stepped_at=NOW)


WORLD = item(kind="world_advocacy_request", status="ready_to_act", intensity=0.82)
CAPPED = tuple(item(kind="world_advocacy_request", intensity=1.0) for _ in range(8))
MUST = candidate(priority=0.5, must_eventually_share=True)
MOODS = read(Mood, dimensions={"irritation": 0.8, "calm": 0.5}, baselines={"irritation": 0.2, "calm": 0.2})
GOLDEN: dict[str, tuple[Pressure, Inputs, tuple[float, float, float, float]]] = {
    "h 0": (START, Inputs(spoke_at=after(0)), (0.203, 0.210, 0.170, 1.000)),
    "h 1": (START, Inputs(spoke_at=after(1)), (0.203, 0.210, 0.190, 0.751)),
    "h 3.5": (START, Inputs(spoke_at=after(3.5)), (0.298, 0.210, 0.240, 0.368)),
    "h 6": (START, Inputs(spoke_at=after(6)), (0.384, 0.210, 0.290, 0.180)),
    "never": (START, Inputs(), (0.413, 0.210, 0.290, 0.001)),
    "napping": (START, Inputs(sleep=NAP), (0.304, 0.210, 0.390, 0.001)),
    "ready advocacy": (start(0), Inputs(items=(WORLD,)), (0.339, 0.345, 0.290, 0.001)),
    "must share": (
        start(0.4, 0.3, 0.2),
        Inputs(spoke_at=after(2), candidates=(MUST,), threads=(thread(desire_to_speak=0.7),)),
        (0.356, 0.282, 0.176, 0.565),
    ),
    "moods": (START, Inputs(mood=MOODS), (0.438, 0.210, 0.314, 0.001)),
    "many pressures": (START, Inputs(items=CAPPED), (0.623, 0.430, 0.290, 0.001)),
    "self advocacy": (
        start(0.5),
        Inputs(spoke_at=after(6), items=(item(kind="self_advocacy_request", intensity=0.6),)),
        (0.553, 0.296, 0.290, 0.180),
    ),
    "tension in sleep": (
        start(0.5),
        Inputs(spoke_at=after(6), sleep=NAP, items=(item(kind="active_tension"),)),
        (0.394, 0.243, 0.390, 0.180),
    ),
}


def numbers(pressure: Pressure) -> tuple[float, float, float, float]:
    return (
        round(pressure.need_to_speak, 3),
        round(pressure.novelty_pressure, 3),
        round(pressure.confession_pressure, 3),
        round(pressure.recent_speech_damping, 3),
    )


@pytest.mark.parametrize("case", GOLDEN)
def test_one_step_of_five_minutes(case: str) -> None:
    before, inputs, expected = GOLDEN[case]
    assert numbers(step(before, inputs, NOW + STEP)) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(60, (0.365, 0.316, 0.259)), (600, (0.449, 0.126, 0.317)), (3600, (0.499, 0.001, 0.374))],
)
def test_one_sub_step_of_another_length(seconds: float, expected: tuple[float, ...]) -> None:
    assert numbers(relax(START, Charge(), 24, False, seconds))[:3] == expected


def test_need_after_speech_over_hours() -> None:
    needs = [step(START, Inputs(spoke_at=NOW), NOW + timedelta(hours=h)).need_to_speak for h in (1, 2, 4, 6, 12)]
    assert [round(need, 3) for need in needs] == [0.001, 0.059, 0.262, 0.423, 0.487]


@pytest.mark.parametrize(("minutes", "drawn"), [(84, False), (86, True)])
def test_nothing_draws_it_to_speak_for_a_while_after_it_spoke(minutes: int, drawn: bool) -> None:
    need = relax(start(0), Charge(), minutes / 60, False, 300).need_to_speak
    assert (need > 0) is drawn


def test_five_steps_of_a_minute_are_one_of_five() -> None:
    inputs, now = Inputs(items=(WORLD,), mood=MOODS), START
    for minute in range(1, 6):
        now = step(now, inputs, NOW + timedelta(minutes=minute))
    whole = step(START, inputs, NOW + STEP)
    for name in ("need_to_speak", "novelty_pressure", "confession_pressure"):
        assert getattr(now, name) == pytest.approx(getattr(whole, name), abs=1e-9)


def test_no_time_is_no_step_and_the_first_only_starts() -> None:
    assert step(START, Inputs(), NOW - STEP) == START == step(START, Inputs(), NOW)
    assert step(Pressure(), Inputs(items=(WORLD,)), NOW) == START


def test_a_nap_counts_for_the_time_that_it_lasted() -> None:
    brief = NAP.model_copy(update={"nap_started_at": NOW, "nap_ends_at": NOW + STEP})
    hour = NOW + timedelta(hours=1)
    awake, asleep, partly = (
        step(START, Inputs(sleep=sleep), hour).confession_pressure for sleep in (Sleep(), NAP, brief)
    )
    assert awake == partly < asleep


def test_who_is_woken_is_not_asleep_until_then() -> None:
    woken = NAP.model_copy(update={"awake_until": NOW + STEP})
    assert [is_asleep(woken, NOW + n * STEP) for n in (0, 1, 12)] == [False, True, False]


def test_what_is_over_or_put_off_past_its_day_does_not_draw() -> None:
    calm = (
        candidate(status="sending"),
        candidate(status="deferred", deferred_until=NOW - STEP),
    )
    inputs = Inputs(
        candidates=calm, items=(item(status="cooling"),), threads=(thread(status="cooling", desire_to_speak=1.0),)
    )
    assert charge_of(inputs, NOW) == Charge()
    waiting = candidate(status="deferred", deferred_until=NOW + STEP)
    assert charge_of(replace(inputs, candidates=(waiting,)), NOW).queued == pytest.approx(0.09)


def test_of_threads_the_four_most_eager_draw() -> None:
    threads = tuple(thread(desire_to_speak=n / 10) for n in range(1, 6))
    assert charge_of(Inputs(threads=threads), NOW).held == pytest.approx(0.12 * 1.4)


def test_a_mood_is_halfway_to_its_baseline_after_its_half_life() -> None:
    mood = MOODS.model_copy(update={"stepped_at": NOW})
    drifted = drift(mood, NOW + timedelta(hours=6))
    assert drifted.dimensions == {"irritation": pytest.approx(0.5), "calm": pytest.approx(0.35)}
    assert drift(mood, NOW - STEP) == mood and drift(MOODS, NOW) == mood
    assert drift(mood, NOW + timedelta(days=9)).dimensions == drift(mood, NOW + timedelta(days=1)).dimensions


def test_a_nudged_mood_stays_within_bounds() -> None:
    nudged = nudge(MOODS, {"irritation": 0.2, "calm": -0.2}).dimensions
    assert nudged == {"irritation": pytest.approx(1.0), "calm": pytest.approx(0.3)}
    assert nudge(MOODS, {"irritation": 0.2, "calm": 0.0}).dimensions["irritation"] <= 1.0


@pytest.mark.parametrize(
    ("sleep", "need", "confession"),
    [(Sleep(), 0.50, 0.375), (NAP.model_copy(update={"nap_ends_at": NOW + 3 * DAY}), 0.24, 0.687)],
)
def test_left_alone_it_comes_to_rest_awake_and_asleep(sleep: Sleep, need: float, confession: float) -> None:
    rest = step(START, Inputs(sleep=sleep), NOW + DAY)
    assert numbers(rest)[:3] == (need, 0.0, confession)


@pytest.mark.parametrize("minutes", [1, 15, 30, 60])
@pytest.mark.parametrize(
    ("inputs", "since"),
    [
        (Inputs(spoke_at=NOW), 1),
        # Drawn strongly, it may differ a little more on its way.
        (Inputs(spoke_at=NOW, threads=(thread(desire_to_speak=0.7),), items=(WORLD,)), 24),
    ],
    ids=["idle", "drawn"],
)
def test_ticks_of_other_lengths_come_nearly_to_where_those_of_five_minutes_do(
    minutes: int, inputs: Inputs, since: int
) -> None:
    found: dict[int, list[tuple[float, ...]]] = {5: [], minutes: []}
    for every, hours in found.items():
        now = START
        for n in range(1, 24 * 60 // every + 1):
            now = step(now, inputs, NOW + n * timedelta(minutes=every))
            if n * every % 60 == 0:
                hours.append(numbers(now))
    assert len(found[minutes]) == 24
    for hour, expected in zip(found[minutes][since - 1 :], found[5][since - 1 :], strict=True):
        assert hour == pytest.approx(expected, abs=0.004)
