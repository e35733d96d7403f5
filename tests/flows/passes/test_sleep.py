"""Sleep from the nap to what it leaves: notes become memory as a whole or not at all, and a nap asks thrice at most."""

import re
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from structlog.testing import capture_logs

from core.domain.mind.bodies import Sleep, Thoughtful
from core.domain.mind.entries import Entry
from core.domain.mind.facts import Similarity
from core.domain.passes import Advance, Fail, PassName, Phase, RunMode, RunState
from core.domain.prompt import ModelRequest
from core.passes.asking import PACKET, VERDICTS
from core.store import passes
from core.store.engine import Database
from tests.domain.minds import make_short_term
from tests.flows.passes.sleeper import WHY, Sleeper, distil, memory, prune, sleeper

DIRECTIVE = "Every note below has to be used: distilled, or pruned with a reason."
Script = Callable[[ModelRequest], list[dict[str, Any]]]
LOSS = "the single figures and words of each note are left to its tombstone"


def body(entry: Entry) -> Thoughtful:
    assert isinstance(entry.body, Thoughtful)
    return entry.body


async def asleep(it: Sleeper) -> Sleep:
    found = (await it.entries("sleep"))["sleep"].body
    assert isinstance(found, Sleep)
    return found


async def test_one_note_becomes_one_memory_and_points_to_it(database: Database) -> None:
    answers: list[Any] = []
    it: Sleeper = await sleeper(database, lambda _: answers)
    answers.append(distil(0, it.home.room, "n1"))
    await it.noted(0)
    run = await it.sleep()
    assert await it.phases(run) == ["gate", "ask", "apply", "ask", "record"]
    assert (run.state, run.asks) == (RunState.FINISHED, 1)
    assert DIRECTIVE in it.shown()
    assert await it.entries("short_term") == {}
    ((id_, made),) = (await it.entries("durable")).items()
    assert (id_, body(made).claim) == ("lasting-0", "Ana measured 14 cm of water beside the boiler.")
    assert [each.ref for each in body(made).anchor_refs] == [f"message:{it.home.messages[0]}"]
    assert await it.tombs() == {"note-0": ("distilled", "lasting-0")}
    assert "run:sleep" in await it.entries("last_run")


async def test_a_memory_lives_through_revision_to_a_part_of_the_identity(database: Database) -> None:
    it: Sleeper = await sleeper(
        database,
        lambda _: [distil(0, it.home.room, "n1")],
        lambda _: [revise("n1")],
        lambda _: [crystallise("n1")],
    )
    await it.noted(0, anchor_refs=[{"ref": f"message:{id_}", "kind": "message"} for id_ in it.home.messages[:2]])

    def revise(*ids: str) -> dict[str, Any]:
        made = memory(0, "lasting-1", it.home.room)
        return {"operation": "revise_durable_memory", "sourceMemoryIds": ids, "memory": made, "reason": WHY}

    def crystallise(*ids: str) -> dict[str, Any]:
        proof = [{"ref": ref, "kind": "message"} for ref in ("m1", "m2")]
        made = memory(0, "lasting-2", it.home.room, kind="identity_seam", anchorRefs=proof, anchorsMissing=False)
        value = {"valueId": "dry-feet", "label": "Dry feet for everyone", "priority": 0.6}
        name = "crystallize_memory_into_identity"
        return {"operation": name, "sourceMemoryIds": ids, "memory": made, "value": value, "reason": WHY}

    for doubted in (None, "lasting-0", "lasting-1"):
        if doubted is not None:
            await it.home.clock.advance(timedelta(hours=25).total_seconds())
            await it.doubt(doubted)
        assert (await it.sleep()).state is RunState.FINISHED
    assert (await it.entries("durable")).keys() == {"lasting-2"}
    tombs = await it.tombs()
    assert {id_: by for id_, (_, by) in tombs.items()} == {
        "note-0": "lasting-0",
        "lasting-0": "lasting-1",
        "lasting-1": "lasting-2",
    }
    assert (await it.entries("value")).keys() == {"dry-feet"}


async def test_outside_a_nap_nobody_is_asked_and_in_one_once(database: Database) -> None:
    it: Sleeper = await sleeper(database, lambda _: [distil(0, it.home.room, "n1")])
    await it.noted(0)
    assert (await it.over(await it.begin("nap:none"))).reason == "not_due"
    nap = await it.nap()
    await it.home.clock.advance(timedelta(hours=2).total_seconds())
    assert (await it.over(await it.begin(nap))).reason == "not_due"
    assert it.model.requests == []
    nap = await it.nap()
    await it.over(await it.begin(nap))
    assert (await asleep(it)).maintained_nap_id == nap
    assert (await it.sleep()).reason == "nothing_new"
    assert len(it.model.requests) == 1


async def test_a_nap_is_made_use_of_once_all_groups_are_over_and_none_has_failed(database: Database) -> None:
    it: Sleeper = await sleeper(
        database, lambda request: [distil(0, it.home.room, "n1")] if "cellar" in text(request) else []
    )
    await it.noted(0)
    await it.noted(1, closed=True)
    nap = await it.nap()
    runs = {room: await it.begin(nap, room=room) for room in (it.home.room, it.home.closed)}
    assert (await it.over(runs[it.home.room])).state is RunState.FINISHED
    assert (await asleep(it)).maintained_nap_id is None
    assert (await it.over(runs[it.home.closed])).state is RunState.FAILED
    assert (await it.entries("short_term")).keys() == {"note-1"}
    assert not any("choir" in text(each) and "boiler" in text(each) for each in it.model.requests)
    async with it.database.transaction() as tx:
        ended = it.runner.specs[PassName.SLEEP].ended
        assert ended is not None
        await ended(tx, runs[it.home.room], RunState.FINISHED, "")
    assert (await asleep(it)).maintained_nap_id is None


def text(request: ModelRequest) -> str:
    return request.messages[-1].text


async def test_sleep_that_fails_asks_three_times_a_nap_and_keeps_every_note(database: Database) -> None:
    it: Sleeper = await sleeper(database, [])
    await it.noted(0, 1)
    with capture_logs() as logs:
        runs = [await it.sleep() for _ in range(3)]
    assert {run.state for run in runs} == {RunState.FAILED}
    assert len(it.model.requests) == 9
    code = "sleep_returned_nothing_under_pressure"
    wait = f"apply:wait:{code}"
    assert await it.phases(runs[0]) == ["gate", "ask", wait, "ask", wait, "ask", f"apply:fail:{code}"]
    assert (await it.entries("short_term")).keys() == {"note-0", "note-1"}
    sleeping = [each for each in logs if each["event"].startswith("sleep.")]
    assert [each["event"] for each in sleeping] == ["sleep.failed"] * 3 + ["sleep.keeps_failing"]
    assert (sleeping[-1]["naps"], sleeping[-1]["notes_of_mind"]) == (3, 2)


async def test_a_slogan_is_refused_with_the_reason_and_a_true_memory_stands(database: Database) -> None:
    slogan = {"summary": "Water matters.", "claim": "Care for each other.", "tension": "Here and there."}

    def empty(_: ModelRequest) -> list[dict[str, Any]]:
        proposal = distil(0, it.home.room, "n1")
        proposal["candidate"] |= slogan
        return [proposal]

    it: Sleeper = await sleeper(database, empty, lambda _: [distil(0, it.home.room, "n1")])
    await it.noted(0)
    run = await it.sleep()
    assert (run.state, run.asks) == (RunState.FINISHED, 2)
    assert "[0].lossNote" in it.shown(1)
    assert "loss_unexplained" in it.shown(1)
    assert (await it.kept(run, VERDICTS))["items"][0]["code"] == "loss_unexplained"
    assert (await it.entries("durable")).keys() == {"lasting-0"}


def everything(it: Sleeper) -> Script:
    """Distil all notes that stand in a prompt into one memory each call."""
    calls = count()

    def answer(request: ModelRequest) -> list[dict[str, Any]]:
        notes = text(request).partition("## Notes of the day")[2].partition("\n## ")[0]
        handles = re.findall(r"<<data \S+ (n\d+) [^>]*note of the day", notes)
        return [distil(next(calls), it.home.room, *handles, lossNote=LOSS)]

    return answer


@pytest.mark.parametrize(("window", "asks"), [(60_000, 2), (6_300, 3)])
async def test_more_notes_than_fit_are_slept_on_in_several_calls(database: Database, window: int, asks: int) -> None:
    it: Sleeper = await sleeper(database, lambda request: everything_here(request), window_tokens=window)
    everything_here: Script = everything(it)
    await it.note_quickly(30)
    run = await it.sleep()
    shown = (await it.kept(run, PACKET))["kept"]["notes"]
    assert (run.state, run.asks >= asks, shown <= 24) == (RunState.FINISHED, True, True)
    assert await it.entries("short_term") == {}
    tombs = await it.tombs()
    assert len(tombs) == 30
    assert {by for _, by in tombs.values()} == (await it.entries("durable")).keys()


async def test_without_a_model_notes_stay_and_the_operator_is_told_before_there_is_no_room(database: Database) -> None:
    it: Sleeper = await sleeper(database, model=False)
    await it.note_quickly(43)
    with capture_logs() as logs:
        assert (await it.sleep()).reason == "no_model"
        assert logs == [] or all(each["event"] != "sleep.notes_pile_up" for each in logs)
        await it.note_quickly(1, after=43)
        assert (await it.sleep()).reason == "no_model"
    assert [each["notes"] for each in logs if each["event"] == "sleep.notes_pile_up"] == [44]
    assert len(await it.entries("short_term")) == 44


async def test_pruning_most_of_a_day_waits_for_a_person(database: Database) -> None:
    it: Sleeper = await sleeper(database, [prune("n1", "n2", "n3", "n4", "n5")])
    await it.note_quickly(5)
    run = await it.sleep()
    assert (run.state, run.reason, run.asks) == (RunState.FINISHED, "bulk_prune", 1)
    assert len(await it.entries("short_term")) == 5
    async with it.database.transaction() as tx:
        result = await it.maintenance.dreaming.approve(tx, run, Similarity())
    assert isinstance(result, Advance)
    assert await it.entries("short_term") == {}
    async with it.database.transaction() as tx:
        assert await it.maintenance.dreaming.approve(tx, run, Similarity()) == Fail("nothing_to_approve")


async def test_a_run_by_hand_may_leave_notes_and_a_dry_one_writes_nothing(database: Database) -> None:
    it: Sleeper = await sleeper(database, lambda _: [distil(0, it.home.room, "n1")])
    await it.noted(0, 1)
    before = await it.home.mind()
    run = await it.tend(mode=RunMode.DRY_RUN)
    after = await it.home.mind()
    assert (run.state, after.last_seq, after.state_hash) == (RunState.FINISHED, before.last_seq, before.state_hash)
    effects = [each["effect"] for each in (await it.kept(run, VERDICTS))["items"]]
    assert effects == ["proposed", "distilled"]
    assert (await it.tend()).state is RunState.FINISHED
    assert DIRECTIVE not in it.shown()
    assert (await it.entries("short_term")).keys() == {"note-1"}


async def test_a_note_of_two_rooms_belongs_to_the_narrower_and_is_shown_apart(database: Database) -> None:
    it: Sleeper = await sleeper(database, lambda request: everything_here(request))
    everything_here: Script = everything(it)
    await it.noted(0)
    await it.noted(1, closed=True)
    rooms = (it.home.room, it.home.closed)
    await it.put(
        make_short_term(
            "both",
            sources=rooms,
            people=(),
            summary="The key hangs by the door.",
            anchor_refs=None,
            anchors_missing=True,
        )
    )
    assert (await it.sleep(room=it.home.closed)).asks == 2
    assert ["choir" in it.shown(n) for n in range(2)] == [True, False]
    assert ["The key hangs" in it.shown(n) for n in range(2)] == [False, True]
    assert (await it.entries("short_term")).keys() == {"note-0"}
    made = [each.sources for each in (await it.entries("durable")).values()]
    assert sorted(map(sorted, made)) == sorted([sorted(rooms), [it.home.closed]])


async def test_what_is_in_doubt_is_looked_at_once_and_then_left_in_peace(database: Database) -> None:
    it: Sleeper = await sleeper(database, lambda _: [distil(0, it.home.room, "n1")], [])
    await it.noted(0)
    await it.sleep()
    await it.doubt("lasting-0")
    assert (await it.sleep()).state is RunState.FINISHED
    assert "Memories to look at again" in it.shown()
    assert (await it.sleep()).reason == "nothing_new"
    assert len(it.model.requests) == 2


async def test_what_changed_while_the_model_thought_is_asked_about_again(database: Database) -> None:
    it: Sleeper = await sleeper(database, "nonsense", lambda _: [distil(0, it.home.room, "n1")])
    await it.noted(0)
    run = await it.begin(await it.nap())
    while run.state is not RunState.WAITING:
        run = await it.step(run)
    await it.answered(run, [distil(0, it.home.room, "n1")])
    await it.noted(0, restated=1)
    result = await it.decided(run)
    assert isinstance(result, Advance)
    assert (result.to, result.counts["refused_stale_version"]) == (Phase.ASK, 1)
    assert (await it.over(run)).state is RunState.FINISHED
    assert await it.entries("short_term") == {}


async def test_sleep_is_held_by_a_pause_that_comes_between_its_calls(database: Database) -> None:
    it: Sleeper = await sleeper(database, "nonsense")
    await it.noted(0)
    run = await it.begin(await it.nap())
    while run.state is not RunState.WAITING:
        run = await it.step(run)
    async with it.database.transaction() as tx:
        await passes.pause(tx, it.home.mind_id, PassName.SLEEP, None, "a look first")
    over = await it.over(run)
    assert (over.state, over.reason, over.asks) == (RunState.SKIPPED, "paused", 1)
