"""`voidbot pass` as an operator types it."""

import argparse
import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot import pass_command
from bot.pass_settings import PassSettings
from core.domain.errors import InputRejected
from core.domain.passes import Advance, Fail, Finish, Origin, PassName, Phase, PhaseResult, Run, RunMode, SkipReason
from core.domain.passes import step as step_of
from core.domain.speaking import SpeechRule
from core.jobs.executor import Kind
from core.passes import asking, telling
from core.passes.runner import Inside, PassSpec, PassWork, Runner
from core.store import passes, state
from core.store.engine import Database, Tx
from core.store.passes import NewRun, PhaseUse
from tests.fakes import ManualClock
from tests.flows.line import settings_for
from tests.queue.harness import at_work, worker
from tests.store.minds import Home, make_home

Typed = Callable[..., Any]
PHASES = (Phase.GATE, Phase.ASK, Phase.APPLY)
DECIDED = {
    "candidates": [
        {"id": "speech:1", "outcome": "held", "rules": [
            {"rule": "posting", "passed": True, "detail": ""},
            {"rule": "gap", "passed": False, "detail": "12 s of 5400 s"},
        ]},
        {"id": "speech:2", "outcome": "retired", "why": "already_said", "rules": []},
    ]
}  # fmt: skip


@pytest.fixture
async def home(database: Database, clock: ManualClock) -> Home:
    return await make_home(database, clock)


@pytest.fixture
def voidbot(home: Home, fresh_dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Typed:
    """Run the command in this process: a process each would spend its time starting."""

    async def run(*words: str, code: int = 0, passes: PassSettings | None = None) -> Any:
        parser = argparse.ArgumentParser(prog="voidbot")
        pass_command.add_command(parser.add_subparsers())
        options = parser.parse_args(["pass", *words])
        settings = settings_for(fresh_dsn, home=tmp_path, passes=passes or PassSettings())
        assert await asyncio.to_thread(options.run, options, settings) == code
        out = capsys.readouterr()
        return json.loads(out.out) if "--json" in words else out.out + out.err

    return run


async def run_of(home: Home, label: str, *, skipped: str = "", name: PassName = PassName.RUMINATION) -> int:
    """Claim a slot of the open room's group; return the run's number."""
    async with home.database.transaction() as tx:
        key = f"{home.mind_id}/{name}/{label}"
        group = f"public:{home.community}"
        now = await state.now(tx)
        await passes.claim(
            tx,
            [
                NewRun(
                    mind_id=home.mind_id, name=name, group=group, slot_key=key, slot=now, label=label, skipped=skipped
                )
            ],
        )
        return int(await tx.fetchval("select id from voidbot.pass_runs where slot_key = $1", key))


async def went(home: Home, run_id: int, *results: PhaseResult) -> None:
    """Let the phases of a run end like this, the one that asks at some cost."""
    async with home.database.transaction() as tx:
        for n, result in enumerate(results, start=1):
            run = await passes.take(tx, run_id, n)
            assert run is not None
            use = PhaseUse("small", 900, 80, 1_500) if run.phase is Phase.ASK else passes.NO_USE
            await passes.close(tx, run, step_of(run, PHASES, result), result, use=use)


async def saved(home: Home, run_id: int) -> None:
    async with home.database.transaction() as tx:
        refused = {"name": "record_short_term_memory", "verdict": "rejected", "effect": "", "code": "no_tension"}
        taken = {"name": "update_mood", "verdict": "accepted", "effect": "moved", "code": ""}
        await passes.put(tx, run_id, telling.VERDICTS, {"items": [refused, refused, taken]})
        await passes.put(tx, run_id, telling.ANSWER, {"text": "the copperfox opens it"})
        await passes.put(tx, run_id, telling.DECISION, DECIDED)


async def test_how_each_pass_stands_is_one_line_with_what_holds_it(home: Home, voidbot: Typed) -> None:
    await went(home, await run_of(home, "a"), Advance(), Finish("empty"))
    await run_of(home, "b", skipped=SkipReason.NOTHING_NEW)
    await voidbot("pause", "sleep", "--for", "2h", "--reason", "it dreams too much")
    told = await voidbot("list", passes=PassSettings(mood="off"))
    assert "rumination  on  run 1 just now, finished: empty  next in" in told
    assert "skipped just now: nothing new was said" in told
    assert "paused, goes on in 2 hours: it dreams too much" in told
    assert "mood        off  never ran\n" in told and "upkeep      on  never ran  next" in told
    assert f"group public:{home.community}: #open" in told and "group 1:ru1: #closed" in told
    assert "VOIDBOT_MOOD=off  (set)" in told and "VOIDBOT_SPEECH_ROOM_DAILY=2\n" in told
    image = await voidbot("list", "--json")
    (mind,) = image["minds"]
    by_name = {each["pass"]: each for each in mind["passes"]}
    assert by_name["rumination"]["last"]["id"] == 1 and by_name["rumination"]["skipped"]["reason"] == "nothing_new"
    assert by_name["sleep"]["pauses"][0]["reason"] == "it dreams too much"
    assert image["settings"]["VOIDBOT_QUIET_HOURS"] == {"value": "22:00-07:00", "set": False}


async def test_runs_are_listed_newest_first_and_by_what_they_are(home: Home, voidbot: Typed) -> None:
    await run_of(home, "a", skipped=SkipReason.QUIET)
    await run_of(home, "b", skipped=SkipReason.STILL_RUNNING, name=PassName.SLEEP)
    await went(home, await run_of(home, "c"), Advance(), Fail("bad_json"))
    lines = (await voidbot("list", "--runs")).splitlines()
    assert [line.split()[1] for line in lines] == ["3", "2", "1"]
    assert "failed at ask: bad_json" in lines[0] and "#open" in lines[0] and "these were quiet hours" in lines[2]
    assert [run["id"] for run in await voidbot("list", "--runs", "--pass", "sleep", "--json")] == [2]
    assert [run["id"] for run in await voidbot("list", "--runs", "--group", "open", "--limit", "1", "--json")] == [3]
    assert await voidbot("list", "--runs", "--group", "closed") == "there is nothing\n"
    with pytest.raises(InputRejected, match="--pass and --group go with --runs"):
        await voidbot("list", "--pass", "sleep")


async def test_a_run_is_shown_with_phases_cost_and_decision_and_no_words_unless_asked_for(
    home: Home, voidbot: Typed
) -> None:
    run_id = await run_of(home, "a")
    await went(home, run_id, Advance({"read": 7}), Advance({"proposed": 3}), Finish("said", {"accepted": 1}))
    await saved(home, run_id)
    told = await voidbot("show", str(run_id))
    assert "1. gate: advance · 7 read\n" in told and "3. apply: finish, said · 1 accepted" in told
    assert "small, 900 tokens read, 80 written, $0.001500" in told and "in all 900 tokens read" in told
    assert "2 × record_short_term_memory refused: no_tension" in told and "1 × update_mood: moved" in told
    assert "candidate speech:1: held, gap: I had spoken a short while before (12 s of 5400 s)" in told
    assert "candidate speech:2: retired: already said\n" in told
    assert "copperfox" not in told + json.dumps(await voidbot("show", str(run_id), "--json"))
    assert "copperfox" in await voidbot("show", str(run_id), "--answer")
    with pytest.raises(InputRejected, match="run 99: there is none"):
        await voidbot("show", "99")


async def test_a_pause_is_kept_with_its_reason_and_an_end_and_written_down(home: Home, voidbot: Typed) -> None:
    assert "all passes are paused until it is resumed" in (told := await voidbot("pause", "all"))
    assert "this release has none" in told
    await voidbot("pause", "mood", "--for", "90m")
    async with home.database.transaction() as tx:
        held = await passes.list_controls(tx, home.mind_id)
        until = await state.now(tx) + timedelta(minutes=90)
    assert [(each.name, each.paused) for each in held] == [("", True), ("mood", True)]
    assert held[1].until is not None and abs(held[1].until - until) < timedelta(minutes=1)
    resumed = await voidbot("resume", "all", "--json")
    assert (resumed["was_paused"], resumed["held_by"]) == (True, ["mood"])
    assert "mood goes on\n" in await voidbot("resume", "mood")
    assert "was not paused by itself" in await voidbot("resume", "mood")
    async with home.database.transaction() as tx:
        acts = await tx.fetch("select act, place from voidbot.audit order by id limit 3")
    assert [act["act"] for act in acts] == ["pass pause all", "pass pause mood", "pass resume all"]
    assert acts[0]["place"] == f"mind:{home.mind_id}"
    with pytest.raises(InputRejected, match="write a time such as 30m"):
        await voidbot("pause", "mood", "--for", "soon")


async def test_without_a_process_a_run_is_queued_and_said_to_wait(home: Home, voidbot: Typed) -> None:
    told = await voidbot("run", "rumination", "--group", "#open", "--no-post", code=3)
    assert "run 1: queued" in told and "no process is running" in told and "ready (no_post) at gate" in told
    async with home.database.transaction() as tx:
        run = await passes.find(tx, 1)
        jobs = await tx.fetch("select lane from queue.job union all select lane from queue.later")
    assert run is not None and (run.origin, run.mode) == (Origin.MANUAL, RunMode.NO_POST)
    assert [job["lane"] for job in jobs] == [run.lane]
    with pytest.raises(InputRejected, match="pass rumination: run 1 of this group is not over"):
        await voidbot("run", "rumination", "--group", f"public:{home.community}")
    with pytest.raises(InputRejected, match="group: name one by its key or a room of it; there are"):
        await voidbot("run", "rumination")
    with pytest.raises(InputRejected, match="group: mood concerns the whole mind"):
        await voidbot("run", "mood", "--group", "open")
    with pytest.raises(InputRejected, match="mind nobody: there is none"):
        await voidbot("run", "mood", "--mind", "nobody")


async def test_a_running_process_works_a_run_off_and_its_end_is_shown(
    home: Home, clock: ManualClock, voidbot: Typed
) -> None:
    async def gate(_: Tx, run: Run) -> PhaseResult:
        return Fail("bad_state", {"read": 2}) if run.mode is RunMode.DRY_RUN else Finish()

    specs = {PassName.MOOD: PassSpec(PassName.MOOD, {Phase.GATE: Inside(gate)})}
    runner = Runner(specs=specs, clock=clock, observe=lambda name, value, labels: None)
    kind = Kind(name="pass", pool="pass", payload=PassWork, run=runner.run, timeout_s=60)
    async with at_work(worker(home.database, kind, pools={"pass": 2})):
        told = await voidbot("run", "mood", "--dry-run", code=1)
    assert "failed (dry_run) at gate: bad_state" in told and "1. gate: fail, bad_state · 2 read" in told


def test_every_reason_and_rule_has_words_and_artifacts_one_name() -> None:
    assert set(telling.SKIPS) == set(SkipReason) and set(telling.RULES) == set(SpeechRule)
    assert (telling.PACKET, telling.ANSWER, telling.VERDICTS) == (asking.PACKET, asking.ANSWER, asking.VERDICTS)
    assert telling.skip_words("of another release") == "of another release"
