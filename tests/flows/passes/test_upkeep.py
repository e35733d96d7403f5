"""Upkeep of a mind as it runs by itself: what is over ends, what is old goes, and a damaged journal is found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from core.domain.archiving import ROOMS_ALONE
from core.domain.ids import MessageId, OutboxId
from core.domain.mind.facts import Emitter, speech_hash
from core.domain.passes import WHOLE_MIND, PassName, PassPolicy, RunMode, RunState
from core.jobs.executor import Kind
from core.passes.catalog.upkeep import MindUpkeep
from core.passes.gate import Gate
from core.passes.retracting import Retracting, RetractWork, queue_retractions
from core.passes.runner import PassWork, Runner, start
from core.passes.scheduler import upkeep_job
from core.passes.upkeep import Upkeep, UpkeepWork
from core.privacy.upkeep import PrivacyUpkeep
from core.state.replay import Replayed, SlicedReplay, verify
from core.store import access, jobs, passes
from core.store.engine import Database
from core.store.passes import NewRun
from tests.fakes import ManualClock
from tests.queue.harness import at_work, until, worker
from tests.store.minds import Home, codes, make_home, note

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
QUEUED = "select count(*) from queue.job"
NIGHTLY = ("receipts", "memory", "runs", "verify")


@dataclass
class Keeper:
    """A mind with a worker that keeps it up. `measured`: results of folding its journal."""

    home: Home
    measured: list[str] = field(default_factory=list)
    verify_s: float = 40.0

    async def run(self, mode: RunMode = RunMode.NORMAL) -> Mapping[str, int]:
        """Let one run come and end; return what it counted."""
        home, at = self.home, self.home.clock.now()
        groups = home.service.loader.groups
        gate = Gate(policy=PassPolicy(), archive=ROOMS_ALONE, groups=groups, clock=home.clock)
        upkeep = MindUpkeep(
            gate=gate, minds=home.service, clock=home.clock, observe=self.observe, verify_s=self.verify_s
        )
        runner = Runner(specs={PassName.UPKEEP: upkeep.spec()}, clock=home.clock, observe=self.observe)
        slot = NewRun(
            mind_id=home.mind_id, name=PassName.UPKEEP, group=WHOLE_MIND, slot_key=f"test/{at}", slot=at, label=str(at),
            mode=mode,
        )  # fmt: skip
        async with home.database.transaction() as tx:
            (run,) = await passes.claim(tx, [slot])
            await start(tx, [run], {home.mind_id: home.community})

        async def over() -> bool:
            async with home.database.transaction(durable=False) as tx:
                found = await passes.find(tx, run.id)
            return found is not None and found.state is RunState.FINISHED

        kind = Kind(name="pass", pool="pass", payload=PassWork, run=runner.run)
        async with at_work(worker(home.database, kind, pools={"pass": 1}, clock=home.clock)):
            await until(over, 20)
        async with home.database.transaction() as tx:
            return (await passes.list_phases(tx, run.id))[-1].counts

    def observe(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        self.measured += [labels["result"]] if name == "mind_verified_total" else []

    async def value(self, sql: str, *args: object) -> Any:
        async with self.home.database.transaction() as tx:
            return await tx.fetchval(sql, *args)


@pytest.fixture
async def keeper(database: Database, clock: ManualClock) -> Keeper:
    """A mind that was never kept up."""
    return Keeper(await make_home(database, clock))


async def _queue(home: Home, id_: str, **more: Any) -> None:
    speech = {
        "interventionId": id_,
        "kind": "ripe_thought_share",
        "summary": "Say it.",
        "draft": f"Here is what {id_} has to say.",
        "deliveryTarget": {"mode": "channel", "channelId": home.room},
    }
    operation = {"operation": "queue_candidate_intervention", "intervention": speech | more}
    await home.accept(operation, by=Emitter.RUMINATION)


async def _said(keeper: Keeper, text: str) -> OutboxId:
    """Have something said, with the receipt that the mind keeps of it; return its row."""
    home = keeper.home
    outbox_id = await keeper.value(
        "insert into voidbot.outbox (front_end, community_id, room_id, kind, audience, dedupe, state, body)"
        " values ('console', $1, $2, 'reply', array[$2::bigint], $3, 'sent', $3) returning id",
        home.community, home.room, text,
    )  # fmt: skip
    receipt = {
        "outboxId": outbox_id, "cause": "notice", "roomId": home.room, "transport": "console", "sentMessageIds": ["s1"],
        "contentLength": len(text), "chunkCount": 1, "preview": text, "contentHash": speech_hash(text),
        "sentAt": "2026-01-01T00:00:00Z", "outcome": "sent", "deliveryRef": "notice",
    }  # fmt: skip
    await home.accept({"operation": "record_delivery_receipt", "receipt": receipt}, by=Emitter.PARENT)
    return OutboxId(outbox_id)


async def test_what_is_over_ends_and_what_is_old_goes_in_its_time(keeper: Keeper) -> None:
    home = keeper.home
    later = (home.clock.now() + 2 * DAY).isoformat().replace("+00:00", "Z")
    await _queue(home, "now")
    await _queue(home, "later", status="deferred", deferredUntil=later)
    owed = {"sourceMessageId": home.messages[0], "status": "pending", "summary": "Ana asked."}
    await home.accept({"operation": "upsert_open_case", **owed}, by=Emitter.RUMINATION)
    await _said(keeper, "the timetable is here")
    first = await keeper.run()
    assert {name for name in first if not name.endswith("_done")} == {"verified"}
    assert {name for name in first if name.endswith("_done")} == {f"{n}_done" for n in NIGHTLY}
    await home.clock.advance((2 * DAY + HOUR).total_seconds())
    second = await keeper.run()
    assert second["waking_queued"] == 1 and "expiry_retired" not in second
    await home.clock.advance((14 * DAY).total_seconds())
    third = await keeper.run()
    assert (third["expiry_retired"], third["expiry_dropped"]) == (2, 1)
    await home.clock.advance((75 * DAY).total_seconds())
    fourth = await keeper.run()
    assert fourth["receipts_retired"] == 1
    await home.clock.advance((181 * DAY).total_seconds())
    last = await keeper.run()
    assert last["memory_scrubbed"] == 4
    again = await keeper.run()
    assert dict(again) == {}
    assert keeper.measured == ["same"] * 5
    words = (
        "select count(*) from voidbot.state_operations o where o::text ilike any(array['%has to say%', '%timetab%'])"
    )
    assert await keeper.value(words) == 0


async def test_a_trial_run_changes_nothing_and_does_not_count(keeper: Keeper) -> None:
    await _queue(keeper.home, "now")
    await keeper.home.clock.advance((4 * DAY).total_seconds())
    before = await keeper.home.mind()
    assert (await keeper.run(RunMode.DRY_RUN))["expiry_retired"] == 1
    assert (await keeper.home.mind()).last_seq == before.last_seq
    real = await keeper.run()
    assert real["expiry_retired"] == 1 and real["verify_done"] == 1


async def test_room_is_made_where_a_group_grew_too_large_and_what_was_recalled_stays(keeper: Keeper) -> None:
    home = keeper.home
    for closed, known in ((False, home.messages), (True, home.hidden)):
        pressing = [_pressure(home, f"p{int(closed)}:{n:02}", known[0]) for n in range(40)]
        await home.accept(*pressing, by=Emitter.OPERATOR)
    async with home.database.transaction() as tx:
        await access.save_access(tx, home.closed, home.community, everyone=True)
    await home.clock.advance((100 * DAY).total_seconds())
    answer = await _said(keeper, "as I thought")
    await keeper.value("insert into voidbot.receipts (outbox_id, room_id) values ($1, $2)", answer, home.room)
    await keeper.value(
        "insert into voidbot.receipt_sources (outbox_id, n, kind, ref, audience)"
        " values ($1, 0, 'memory', 'p0:00', array[$2::bigint])",
        answer, home.room,
    )  # fmt: skip
    reason = "there are more than there may be"
    one = {"operation": "evict_entries", "entryType": "pressure_item", "action": "retire", "reason": reason}
    assert codes(await home.apply(one | {"entryIds": ["p0:00"]}, by=Emitter.UPKEEP)) == ["not_evictable"]
    assert (await keeper.run())["memory_evicted"] == 16
    gone = "select array_agg(entry_id order by entry_id) from voidbot.state_entries where retired_reason = 'evicted'"
    assert await keeper.value(gone) == [f"p0:{n:02}" for n in range(1, 17)]
    assert keeper.measured == ["same"]


async def test_a_damaged_journal_is_found_in_the_night_and_told_once(keeper: Keeper) -> None:
    home = keeper.home
    await home.accept(note(home, "one", 0))
    await keeper.value('update voidbot.state_entries set body = body || \'{"summary": "Other."}\'')
    with capture_logs() as logs:
        first = await keeper.run()
        second = await keeper.run()
    assert (first["verify_wrong"], second["verify_wrong"]) == (1, 1)
    assert keeper.measured == ["differs"]
    assert [each["log_level"] for each in logs if each["event"] == "mind.differs"] == ["error"]
    (digest,) = [each for each in logs if each["event"] == "upkeep.digest"]
    assert digest["verify_wrong"] == 1 and digest["failed_runs"] == 0
    assert "Other." not in str(logs)


async def test_a_journal_that_takes_too_long_is_told_as_unfinished(keeper: Keeper) -> None:
    await keeper.home.accept(note(keeper.home, "one", 0))
    keeper.verify_s = 0.0
    assert (await keeper.run())["verify_unfinished"] == 1
    assert keeper.measured == ["unfinished"]


async def test_a_mind_is_told_anew_while_others_write_and_erase(keeper: Keeper) -> None:
    home = keeper.home
    await home.accept(*(note(home, f"n{n}", n % 3, claim=f"Reason {n} stands alone.") for n in range(4)))
    sliced = SlicedReplay(home.mind_id, rows=2)

    async def go_on() -> Replayed | None:
        async with home.database.transaction(durable=False) as tx:
            return await sliced.go_on(tx)

    assert await go_on() is None and sliced.folded == 2
    gone = home.messages[0]
    await keeper.value("update voidbot.messages set text = '', deleted_at = voidbot.now() where id = $1", gone)
    await home.accept({"operation": "void_source", "refs": [f"message:{gone}"], "cause": "deleted"}, by=Emitter.UPKEEP)
    found = [await go_on() for _ in range(6)]
    (done,) = [each for each in found if each is not None][:1]
    async with home.database.transaction() as tx:
        whole = await verify(tx, home.mind_id)
    assert done == whole and whole.difference is None


async def test_runs_and_what_they_saved_go_when_their_time_is_over(keeper: Keeper, tmp_path: Path) -> None:
    made = (
        "insert into voidbot.pass_runs (mind_id, pass, group_key, slot_key, slot, origin, state, finished_at)"
        " select 'm', pass, 'g', pass || state || days, voidbot.now(), 'scheduled', state,"
        " case when state <> 'running' then voidbot.now() - make_interval(days => days) end"
        " from unnest($1::text[], $2::text[], $3::integer[])"
        " r(pass, state, days)"
    )
    rows = [("mood", "finished", 15), ("mood", "finished", 13), ("sleep", "skipped", 15), ("sleep", "finished", 89)]
    rows += [("sleep", "failed", 91), ("rumination", "running", 91)]
    await keeper.value(made, *(list(each) for each in zip(*rows, strict=True)))
    await keeper.value(
        "insert into voidbot.pass_artifacts (run_id, name, body, expires_at)"
        " select r.id, x.name, '1', voidbot.now() + d from voidbot.pass_runs r,"
        " (values ('old', interval '-1 minute'), ('new', interval '1 minute')) x(name, d) where r.slot_key like '%89'"
    )
    assert (await keeper.run())["runs_deleted"] == 3
    left = "select array_agg(slot_key order by slot_key) from voidbot.pass_runs where mind_id = 'm'"
    assert await keeper.value(left) == ["moodfinished13", "ruminationrunning91", "sleepfinished89"]
    async with keeper.home.database.transaction() as tx:
        await passes.pause(tx, keeper.home.mind_id, None, None, "keeps nothing longer")
        await jobs.enqueue(tx, [upkeep_job(keeper.home.clock.now())])
    house = Upkeep(keeper.observe, PrivacyUpkeep(tmp_path, None))
    kind = Kind(name="upkeep", pool="upkeep", payload=UpkeepWork, run=house.run)
    async with at_work(worker(keeper.home.database, kind, pools={"upkeep": 1}, clock=keeper.home.clock)):
        await until(lambda: _is(keeper, QUEUED, 0), 20)
    assert await keeper.value("select array_agg(name) from voidbot.pass_artifacts") == ["new"]


async def test_what_runs_saved_of_a_message_goes_with_it_once_they_are_over(keeper: Keeper) -> None:
    home = keeper.home
    gone, edited, kept = home.messages[:3]
    async with home.database.transaction() as tx:
        runs = [
            await tx.fetchval(
                "insert into voidbot.pass_runs (mind_id, pass, group_key, slot_key, slot, origin, state)"
                " values ($1, 'rumination', $2, $2, voidbot.now(), 'scheduled', $3) returning id",
                home.mind_id, group, state_,
            )
            for group, state_ in (("a", "finished"), ("b", "running"))
        ]  # fmt: skip
        for run in runs:
            for name, messages in (("packet", [gone, kept]), ("answer", [edited]), ("decision", [kept])):
                await passes.put(tx, run, name, {"words": "words"}, messages=messages)
        await tx.execute("update voidbot.messages set text = '', deleted_at = voidbot.now() where id = $1", gone)
        await tx.execute("update voidbot.messages set text = 'other', revision = 1 where id = $1", edited)
        assert await queue_retractions(tx, [gone, edited]) == 1  # nothing else rests on them
    held = "select array_agg(run_id || name order by run_id, name) from voidbot.pass_artifacts"

    kind = Kind(name="retract", pool="upkeep", payload=RetractWork, run=Retracting(home.service).run)
    async with at_work(worker(home.database, kind, pools={"upkeep": 1}, clock=home.clock)):
        await until(lambda: _is(keeper, QUEUED, 0), 20)
        names = ["answer", "decision", "packet"]
        assert await keeper.value(held) == [f"{runs[0]}decision", *(f"{runs[1]}{name}" for name in names)]
        await keeper.value("update voidbot.pass_runs set state = 'finished'")
        await home.clock.advance(601)
        await until(lambda: _is(keeper, held, [f"{run}decision" for run in runs]), 20)


async def _is(keeper: Keeper, sql: str, expected: object) -> bool:
    return bool(await keeper.value(sql) == expected)


def _pressure(home: Home, id_: str, message: MessageId) -> dict[str, Any]:
    anchor = {"ref": f"message:{message}", "kind": "message"}
    piece = note(home, "x", target={"kind": "self", "id": "void"}, anchor_refs=[anchor], claim=f"Of {id_}.")["memory"]
    del piece["memoryId"]
    pressure = piece | {"pressureId": id_, "kind": "discomfort", "intensity": 0.2}
    return {"operation": "upsert_agency_pressure", "pressure": pressure}
