"""People's rights through the whole line: see, choose, correct, erase; each answer for its asker alone."""

import re
from collections.abc import AsyncIterator

import pytest

from core.store import inbox
from core.store.engine import Database
from tests.conftest import on_database, run_sql
from tests.fakes import ManualClock, RecordingFrontEnd, Shown
from tests.flows.line import HOME, Line, running_line, until
from tests.flows.test_commands import free, tell

SECRET = "the spare key of the workshop hangs behind the blue door, under the lamp"


@pytest.fixture
async def line(fresh_dsn: str) -> AsyncIterator[Line]:
    async with running_line(fresh_dsn) as running:
        await free(running, "console", "ana", "ben", "root")
        await tell(running, "Root", "/void mode lurk archive:on")
        yield running


def plan_of(shown: Shown) -> str:
    found = re.search(r"plan:(\w{8})$", shown.text)
    assert found is not None, shown.text
    return found[1]


async def said(line: Line) -> object:
    """Return what people said and is kept, in order."""
    return await line.value(
        "select array_agg(text order by id) from voidbot.messages where text <> '' and kind <> 'bot_reply'"
    )


async def ended(line: Line) -> bool:
    return await line.value("select bool_and(state <> 'running') and count(*) > 0 from voidbot.erasures") is True


async def test_a_person_is_erased_after_a_preview_and_is_a_stranger_afterwards(line: Line) -> None:
    await line.say("Ana", SECRET)
    await line.say("Ben", "what a fine day it is, is it not?")
    preview = await tell(line, "Ana", "/forget-me")
    assert "1 messages" in preview.text and "What stays" in preview.text and preview.part.private_to == "ana"
    assert await line.value("select count(*) from voidbot.messages where text = $1", SECRET) == 1  # nothing is changed
    stolen = await tell(line, "Ben", f"/forget-me plan:{plan_of(preview)}")
    assert "preview has run out" in stolen.text
    before = len(line.front_end.shown)
    await line.say("Ana", f"/forget-me plan:{plan_of(preview)}")
    await until(lambda: len(line.front_end.shown) > before)
    dropped = await line.say("Ana", "and one more thing, said meanwhile")
    assert (dropped.outcome, dropped.room_id) == ("no_speech", 0)
    await until(lambda: ended(line))
    begun, summary = line.front_end.texts()[before:]
    assert "has begun" in begun and "signature" in summary and "messages 1" in summary
    assert await line.value("select state from voidbot.erasures") == "done"
    assert await line.value("select count(*) from voidbot.messages where text like '%workshop%'") == 0
    assert await line.value("select count(*) from voidbot.messages where text like '%meanwhile%'") == 0
    assert await line.value("select count(*) from voidbot.people where account_ref = 'ana'") == 0
    assert await said(line) == ["what a fine day it is, is it not?"]
    await line.say("Ana", "hello, who are you all?")
    late = await line.say("Ana", SECRET, live=False, sent_at=line.clock.now().replace(year=2020))
    assert late.room_id == 0
    assert await line.value("select count(*) from voidbot.messages where text like 'hello%'") == 1
    assert await line.value("select count(*) from voidbot.messages where text like '%workshop%'") == 0
    assert "erasures.log" in {path.name for path in HOME.iterdir()}


async def test_archive_me_off_keeps_nothing_from_then_on(line: Line) -> None:
    await line.say("Ana", "kept, as the room is")
    off = await tell(line, "Ana", "/privacy archive-me off")
    assert "archive-me is off" in off.text and "/forget-me" in off.text and off.part.private_to == "ana"
    await line.say("Ana", "this stays with nobody")
    await line.say("Ben", "but mine is kept")
    assert await said(line) == ["kept, as the room is", "but mine is kept"]
    assert "Telegram tells bots nothing of deletions" in (await tell(line, "Ana", "/privacy")).text
    await tell(line, "Ana", "/privacy archive-me on")
    await line.say("Ana", "and kept again")
    assert await line.value("select count(*) from voidbot.messages where text = 'and kept again'") == 1


async def test_with_everything_off_only_a_hash_outlives_an_erasure(line: Line) -> None:
    for choice in ("archive-me", "learn-me", "dm-memory", "unprompted"):
        await tell(line, "Ana", f"/privacy {choice} off")
    preview = await tell(line, "Ana", "/forget-me")
    await line.say("Ana", f"/forget-me plan:{plan_of(preview)}")
    await until(lambda: ended(line))
    await line.quiet()
    await line.say("Ana", "talk that concerns nobody here")
    assert await line.value("select count(*) from voidbot.people where account_ref = 'ana'") == 0
    shown = await tell(line, "Ana", "/privacy")
    assert shown.text.count(": off") == 4


@pytest.mark.field("F042")
async def test_a_direct_talk_leaves_nothing_unless_it_was_switched_on(
    fresh_dsn: str, database: Database, clock: ManualClock
) -> None:
    async with running_line(fresh_dsn, clock=clock) as line:
        await free(line, "console", "ana")
        await line.say("Ana", SECRET, "dm:ana")
        await line.answers(1)
        assert await line.value("select count(*) from voidbot.messages") == 0
        assert await line.value("select count(*) from voidbot.units") == 0
        assert await line.value("select text from voidbot.inbox") == SECRET
        await clock.advance(25 * 3600)
        async with database.transaction() as tx:
            assert await inbox.blank_old(tx) > 0
        assert await line.value("select count(*) from voidbot.inbox where text <> ''") == 0
        async with database.transaction() as tx:
            await tx.execute("update voidbot.rooms set archive = 'on' where kind = 'dm'")
        await tell(line, "Ana", "/privacy dm-memory off", "dm:ana")
        await line.say("Ana", SECRET, "dm:ana")
        await line.quiet()
        assert await line.value("select count(*) from voidbot.messages where author_id = 1") == 0


@pytest.mark.field("F044")
async def test_rights_follow_the_account_and_not_the_name(line: Line) -> None:
    preview = await tell(line, "Ana", "/forget-me")
    posing = {"display_name": "Ana", "username": "ana"}
    assert "preview has run out" in (await tell(line, "Eve", f"/forget-me plan:{plan_of(preview)}", **posing)).text
    assert "is for administrators" in (await tell(line, "Eve", "/void forget room:lobby", display_name="Root")).text


async def test_a_matter_is_erased_for_everybody_by_administrators(line: Line) -> None:
    await line.say("Ana", SECRET)
    await line.say("Ben", "the Workshop is closed today")
    await line.say("Ben", "nothing else to say")
    assert "name a topic" in (await tell(line, "Root", "/void forget")).text
    preview = await tell(line, "Root", "/void forget topic:workshop")
    assert "erase 2 messages" in preview.text
    await line.say("Ana", "the workshop again")  # what would go has changed
    assert "preview has run out" in (await tell(line, "Root", f"/void forget plan:{plan_of(preview)}")).text
    again = await tell(line, "Root", "/void forget topic:workshop room:lobby")
    await tell(line, "Root", f"/void forget plan:{plan_of(again)}")
    await until(lambda: ended(line))
    assert await said(line) == ["nothing else to say"]
    assert await line.value("select count(*) from voidbot.audit where act = 'void forget'") == 1


async def test_room_memory_says_what_is_kept_here(line: Line) -> None:
    await line.say("Ana", "one message")
    shown = await tell(line, "Ben", "/room-memory")
    assert "Archive: on" in shown.text and "Messages kept: 2" in shown.text and shown.part.private_to == "ben"


async def test_commands_about_oneself_answer_alike_on_another_front_end(server: str, template: str) -> None:
    await run_sql(server, f"create database privacy_line template {template}")
    async with running_line(on_database(server, "privacy_line"), front_end=RecordingFrontEnd("pigeon")) as line:
        await free(line, "pigeon", "ana")
        for text in ("/me", "/privacy", "/link", "/room-memory", "/forget-me"):
            shown = await tell(line, "Ana", text)
            assert shown.part.private_to == "ana" and "went wrong" not in shown.text, text
    await run_sql(server, "drop database privacy_line with (force)")
