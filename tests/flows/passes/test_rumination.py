"""Rumination: what it is shown, what it may propose, what becomes of an answer, and when nobody is asked at all."""

import re
from dataclasses import replace
from datetime import time, timedelta
from typing import Any

import pytest

from core.domain.errors import Refused
from core.domain.mind.bodies import Cursor, PressureItem, PressureStatus, Sleep
from core.domain.mind.entries import Entry
from core.domain.passes import (
    Origin,
    Outage,
    PassName,
    PassPolicy,
    Phase,
    RunMode,
    RunState,
    SkipReason,
    Step,
)
from core.domain.prompt import ModelRequest
from core.domain.rooms import QuietHours
from core.passes.gathering import WINDOW
from core.store import archive, passes, places, state
from core.store.engine import Database
from core.store.reading import PAGE
from tests.domain.minds import anchor, make_case, make_entry, make_pressure_item, make_receipt, make_short_term, read
from tests.fakes import ManualClock
from tests.flows.passes.thinking import Mind, handle, script, thinking

FIRST = "word 0 of the open room"
ABSOLUTE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:|\b1[6-9]\d{8}\b")


def note(request: ModelRequest, words: str = FIRST, **more: Any) -> dict[str, Any]:
    """A note of the day that rests on a message."""
    memory = {
        "memoryId": "cellar-floods",
        "kind": "room_observation",
        "target": {"kind": "room", "id": "here"},
        "summary": "The cellar floods in spring.",
        "claim": "It happens every year.",
        "tension": "Nobody has said who moves the amps.",
        "actionImplication": "Ask before April.",
        "anchorRefs": [{"ref": handle(request, words), "kind": "message"}],
    } | more
    kept = {name: value for name, value in memory.items() if value is not None}
    return {"operation": "record_short_term_memory", "memory": kept}


def reply(request: ModelRequest, words: str = FIRST, **more: Any) -> dict[str, Any]:
    """An answer that waits to be said."""
    place = {"channelId": handle_of_room(request), "replyToMessageId": handle(request, words)}
    speech = {
        "interventionId": "answer-cellar",
        "kind": "direct_reply",
        "summary": "Say who moves the amps.",
        "draft": "Bo moves the amps before April.",
        "deliveryTarget": place,
    } | more
    return {"operation": "queue_candidate_intervention", "intervention": speech}


def handle_of_room(request: ModelRequest) -> str:
    found: list[str] = re.findall(r" in (r\d+) ", request.messages[-1].text)
    return found[-1]


def pressing(mind: Mind, **more: Any) -> Entry:
    """A pressure that has to be answered."""
    fields = {
        "kind": "world_advocacy_request",
        "intensity": 0.8,
        "sources": [mind.home.room],
        "people": [mind.home.ana],
        **more,
    }
    target = {"kind": "room", "id": str(mind.home.room)}
    return make_pressure_item(target=target, anchor_refs=(anchor(f"message:{mind.home.messages[0]}"),), **fields)


async def owe(mind: Mind) -> None:
    """Let the mind owe something for the first message."""
    case = make_case(
        mind.home.messages[0], room_id=mind.home.room, author_id=mind.home.ana, last_touched_at=mind.clock.now(),
        sources=[mind.home.room], people=[mind.home.ana],
    )  # fmt: skip
    await mind.put(replace(case, created_at=mind.clock.now(), updated_at=mind.clock.now()))


def everything(request: ModelRequest) -> list[dict[str, Any]]:
    first = handle(request, FIRST)
    pressure = {"pressureId": "stairs-lamp", "kind": "active_tension"} | {
        name: value
        for name, value in note(request)["memory"].items()
        if name not in ("memoryId", "kind", "actionImplication")
    }
    return [
        {"operation": "upsert_open_case", "sourceMessageId": first, "status": "pending", "summary": "Ana asked."},
        note(request),
        {"operation": "upsert_agency_pressure", "pressure": pressure | {"actionImplication": "Ask Bo."}},
        reply(request),
        {"operation": "retire_durable_memory", "memoryId": "durable:routes", "reason": "It is not true any more."},
    ]


async def test_what_was_said_becomes_an_obligation_a_note_a_pressure_and_a_draft(
    database: Database, clock: ManualClock
) -> None:
    async with thinking(database, clock, script(everything, [])) as mind:
        run = await mind.think()
        assert await mind.verdicts(run) == [
            ("upsert_open_case", "opened"),
            ("record_short_term_memory", "appended"),
            ("upsert_agency_pressure", "added"),
            ("queue_candidate_intervention", "queued"),
            ("retire_durable_memory", "operation_not_allowed"),
        ]
        assert run.state is RunState.FINISHED
        assert await mind.cursors() == {f"cursor:rumination:{mind.home.room}": mind.home.messages[-1]}
        await mind.home.say("who has the key?")
        await mind.think()
        asked = mind.model.requests[-1].messages[-1].text
    for words in ("The cellar floods in spring.", "Ana asked.", "Draft: Bo moves the amps", "who has the key?"):
        assert words in asked
    assert "retire_durable_memory: operation_not_allowed" in asked
    assert FIRST not in asked
    assert not any(ABSOLUTE.search(each.system + each.messages[-1].text) for each in mind.model.requests)


async def test_an_owed_pressure_that_stays_unanswered_fails_the_run_and_cools_after_the_third(
    database: Database, clock: ManualClock
) -> None:
    async with thinking(database, clock, script([], note_alone)) as mind:
        await mind.put(pressing(mind))
        run = await mind.think()
        assert (run.state, run.reason, run.asks) == (RunState.FAILED, "speech_pressure_unresolved", 2)
        assert "owed: it needs an answer" in mind.model.requests[0].messages[-1].text
        assert "let the pressure go with a reason" in mind.model.requests[1].messages[-1].text
        await mind.think()
        assert (await mind.entries("pressure_item"))[0].version == 1
        await mind.think()
        ((_, body),) = [(each.id, each.body) for each in await mind.entries("pressure_item")]
        assert isinstance(body, PressureItem) and body.status is PressureStatus.COOLING
        assert await mind.entries("short_term") == []
        assert await mind.cursors() == {}


def note_alone(request: ModelRequest) -> list[dict[str, Any]]:
    return [note(request)]


async def test_an_owed_pressure_is_answered_by_speech_with_a_place(database: Database, clock: ManualClock) -> None:
    def answer(request: ModelRequest) -> list[dict[str, Any]]:
        return [reply(request, sourcePressureId=handle(request, "The route graph"))]

    async with thinking(database, clock, script(answer)) as mind:
        await mind.put(pressing(mind))
        run = await mind.think()
        assert await mind.verdicts(run) == [("queue_candidate_intervention", "queued")]


async def test_a_nap_is_not_disturbed_where_nothing_is_owed(database: Database, clock: ManualClock) -> None:
    async with thinking(database, clock) as mind:
        await mind.read_all()
        now = mind.clock.now()
        nap = read(Sleep, is_napping=True, nap_id="nap:1", nap_started_at=now, nap_ends_at=now + timedelta(hours=1))
        await mind.put(make_entry("sleep", nap), pressing(mind))
        before = await mind.cursors()
        run = await mind.think()
        assert (run.state, run.reason) == (RunState.SKIPPED, SkipReason.NAPPING)
        assert await mind.cursors() == before


async def test_every_message_is_read_once_however_it_comes(database: Database, clock: ManualClock) -> None:
    async with thinking(database, clock, script([])) as mind:
        await mind.read_all()
        home, at = mind.home, mind.clock.now()
        async with database.transaction() as tx:
            for n in range(250):
                late = timedelta(minutes=40 if n % 7 == 0 else 0)  # the others share one instant
                message = archive.NewMessage(
                    room_id=home.room, community_id=home.community, author_id=(home.ana, home.bo)[n % 2],
                    platform_ref=f"n{n}", kind="text", text=f"news {n}", sent_at=at - late,
                )  # fmt: skip
                added = await archive.add_message(tx, message)
                assert added is not None
                home.messages.append(added)
        seen: list[int] = []
        while (run := await mind.think()).state is RunState.FINISHED:
            seen += await mind.shown(run)
        assert run.reason == SkipReason.NOTHING_NEW
        assert seen == home.messages[6:]
        async with database.transaction() as tx:
            await archive.edit_message(tx, home.room, "n3", "news after all", clock.now())
        run = await mind.think()
        assert await mind.shown(run) == [home.messages[9]]
        assert (await mind.think()).reason == SkipReason.NOTHING_NEW


async def test_what_was_answered_is_not_answered_again(database: Database, clock: ManualClock) -> None:
    async with thinking(database, clock, script(lambda request: [reply(request)])) as mind:
        home = mind.home
        receipt = make_receipt(
            room_id=home.room, reply_to_message_id=home.messages[0], sent_at=clock.now(), sources=[home.room],
            people=[home.ana], preview="Bo does it.",
        )  # fmt: skip
        await mind.put(receipt)
        run = await mind.think()
        assert "Bo does it." in mind.model.requests[0].messages[-1].text
        assert await mind.verdicts(run) == [("queue_candidate_intervention", "already_answered")]


async def test_a_group_that_falls_silent_costs_nothing_in_the_end(database: Database, clock: ManualClock) -> None:
    async with thinking(database, clock, script([])) as mind:
        await owe(mind)
        reasons = [(await mind.think()).reason for _ in range(4)]
        assert reasons == ["empty", "empty", "empty", SkipReason.IDLE]
        await mind.home.say("is anybody there?")
        assert (await mind.think()).reason == "empty"
        calls = len(mind.model.requests)
        await clock.advance(8 * 86_400)
        assert (await mind.think()).reason == SkipReason.ROOM_ASLEEP
        assert len(mind.model.requests) == calls == 4


async def test_nobody_is_asked_where_the_pass_is_off(database: Database, clock: ManualClock) -> None:
    policy = PassPolicy(on=frozenset({PassName.MOOD}))
    async with thinking(database, clock, policy=policy) as mind:
        assert (await mind.think()).reason == SkipReason.OFF


async def test_only_a_bare_list_counts_and_a_page_that_failed_is_halved(database: Database, clock: ManualClock) -> None:
    def dressed(request: ModelRequest) -> str:
        return f"All fine, here is my list: [{note(request)}] HEARTBEAT_OK"

    def silent_word(request: ModelRequest) -> list[dict[str, Any]]:
        return [reply(request, draft="NO_REPLY"), note(request)]

    async with thinking(database, clock, script("HEARTBEAT_OK", dressed, silent_word, [])) as mind:
        run = await mind.think()
        assert (run.state, run.reason, run.asks) == (RunState.FAILED, "bad_json", 2)
        assert await mind.entries("short_term") == await mind.entries("candidate") == []
        assert await mind.cursors() == {}
        run = await mind.think()
        assert await mind.shown(run) == mind.home.messages[:3]
        assert await mind.verdicts(run) == [
            ("queue_candidate_intervention", "out_of_range"),
            ("record_short_term_memory", "appended"),
        ]
        run = await mind.think()
        assert await mind.shown(run) == mind.home.messages[3:]


async def test_a_message_that_no_provider_takes_is_set_aside_and_the_others_are_read(
    database: Database, clock: ManualClock
) -> None:
    def filtered(request: ModelRequest) -> str:
        if "word 3 of" in request.messages[-1].text:
            raise Refused("model: request withheld by the provider's filter")
        return "[]"

    async with thinking(database, clock, filtered) as mind:
        ended = []
        while await mind.cursors() != {f"cursor:rumination:{mind.home.room}": mind.home.messages[-1]}:
            ended.append(await mind.think(origin=Origin.MANUAL))
            assert len(ended) < 12
        assert {run.reason for run in ended if run.state is RunState.FAILED} == {"refused"}
        (cursor,) = await mind.entries("cursor")
        assert isinstance(cursor.body, Cursor) and cursor.body.quarantined == (mind.home.messages[3],)


@pytest.mark.parametrize("held", ["pause", "quiet"])
async def test_nobody_is_asked_who_may_not_be_by_now(database: Database, clock: ManualClock, held: str) -> None:
    async with thinking(database, clock) as mind:
        run = await mind.claim()
        async with database.transaction() as tx:
            now = await passes.take(tx, run.id, run.n)
            assert now is not None
            await passes.put(tx, run.id, WINDOW, {"heard": [[mind.home.room, mind.home.messages[0], 0, True]]})
            await passes.close(tx, now, Step(RunState.WAITING, Phase.ASK, 2, "unavailable"), Outage("unavailable"))
            if held == "pause":
                await passes.pause(tx, mind.home.mind_id, None, None, "a look first")
            else:
                await places.save_quiet_hours(tx, mind.home.room, QuietHours(time(0), time(23, 59)))
        over = await mind.go_on(run)
        assert (over.state, over.reason) == (RunState.SKIPPED, "paused" if held == "pause" else "quiet")


async def test_what_people_say_behind_many_pages_of_a_bot_is_reached_at_once(
    database: Database, clock: ManualClock
) -> None:
    async with thinking(database, clock, script([])) as mind:
        await mind.read_all()
        async with database.transaction() as tx:
            await tx.execute("update voidbot.people set is_bot = true where id = $1", mind.home.bo)
            for n in range(2 * PAGE):
                await archive.add_message(
                    tx,
                    archive.NewMessage(
                        room_id=mind.home.room, community_id=mind.home.community, author_id=mind.home.bo,
                        platform_ref=f"b{n}", kind="text", text=f"build {n} went well", sent_at=clock.now(),
                    ),
                )  # fmt: skip
        said = await mind.home.say("the cellar is dry again")
        assert await mind.shown(await mind.think()) == [said]


async def test_thoughts_of_its_own_workings_are_refused(database: Database, clock: ManualClock) -> None:
    def about_itself(request: ModelRequest) -> list[dict[str, Any]]:
        residue: dict[str, Any] = {
            "summary": "The readiness pass is done.",
            "claim": "The readiness fixture of the rumination pass left its cursor in the prompt.",
            "anchorRefs": None,
            "anchorsMissing": True,
        }
        return [note(request, **residue), note(request)]

    async with thinking(database, clock, script(about_itself)) as mind:
        run = await mind.think()
        assert await mind.verdicts(run) == [
            ("record_short_term_memory", "self_orbit"),
            ("record_short_term_memory", "appended"),
        ]


async def test_no_group_is_shown_the_words_of_another(database: Database, clock: ManualClock) -> None:
    async with thinking(database, clock, script([])) as mind:
        home = mind.home
        for room, id_, said in ((home.room, "open-note", home.messages), (home.closed, "closed-note", home.hidden)):
            await mind.put(
                make_short_term(
                    id_,
                    summary=f"canary {id_}",
                    sources=[room],
                    people=[home.ana],
                    anchor_refs=(anchor(f"message:{said[0]}"),),
                )
            )
        for room in (home.room, home.closed):
            await mind.think(room)
        opened, closed = (each.messages[-1].text for each in mind.model.requests)
    assert "canary open-note" in opened and "word 0" in opened
    assert "canary closed-note" not in opened and "secret" not in opened
    assert "canary closed-note" in closed and "secret 0" in closed
    assert "canary open-note" not in closed and "word 0" not in closed


async def test_nothing_is_kept_of_what_was_deleted_while_the_model_thought(
    database: Database, clock: ManualClock
) -> None:
    async with thinking(database, clock, script(lambda request: [note(request), reply(request)])) as mind:

        async def delete() -> None:
            async with database.transaction() as tx:
                await archive.bury_message(tx, mind.home.room, "o0", "by its author")

        mind.model.meanwhile = delete
        run = await mind.think()
        assert [code for _, code in await mind.verdicts(run)] == ["unknown_reference", "unknown_reference"]
        assert await mind.cursors() == {f"cursor:rumination:{mind.home.room}": mind.home.messages[-1]}


async def test_what_a_run_saved_of_a_message_is_found_also_where_a_note_told_it(
    database: Database, clock: ManualClock
) -> None:
    async with thinking(database, clock, script(lambda request: [note(request)], [])) as mind:
        await mind.think()
        said = await mind.home.say("is it dry again?")
        await mind.think()
        async with database.transaction() as tx:
            kept = await tx.fetchval(
                "select messages from voidbot.pass_artifacts where name = 'answer' order by run_id desc"
            )
    assert kept == [mind.home.messages[0], said]


async def test_a_dry_run_shows_what_it_would_do_and_writes_nothing(database: Database, clock: ManualClock) -> None:
    async with thinking(database, clock, script(note_alone)) as mind:
        run = await mind.think(mode=RunMode.DRY_RUN)
        assert await mind.verdicts(run) == [("record_short_term_memory", "appended")]
        async with database.transaction() as tx:
            found = await state.find_mind(tx, mind.home.mind_id)
        assert found is None or found.last_seq == 0


async def test_without_a_model_open_questions_become_obligations_by_rule(
    database: Database, clock: ManualClock
) -> None:
    async with thinking(database, clock, model=False) as mind:
        home = mind.home
        async with database.transaction() as tx:
            for n, text in enumerate(("who moves the amps?", "thanks", "and the key?")):
                message = archive.NewMessage(
                    room_id=home.room, community_id=home.community, author_id=home.ana, platform_ref=f"q{n}",
                    kind=archive.PROMPT_KIND, text=text, sent_at=clock.now(),
                )  # fmt: skip
                added = await archive.add_message(tx, message)
                assert added is not None
                home.messages.append(added)
            answer = archive.NewMessage(
                room_id=home.room, community_id=home.community, author_id=home.bo, platform_ref="a", kind="text",
                text="Bo has it", sent_at=clock.now(), reply_to_ref="q2",
            )  # fmt: skip
            await archive.add_message(tx, answer)
        run = await mind.think()
        assert (run.state, run.asks) == (RunState.FINISHED, 0)
        (case,) = await mind.entries("case")
        assert getattr(case.body, "source_message_id", 0) == home.messages[6]
        assert await mind.verdicts(run) == [("upsert_open_case", "opened")]
        assert await mind.cursors() == {f"cursor:rumination:{home.room}": home.messages[-1] + 1}
