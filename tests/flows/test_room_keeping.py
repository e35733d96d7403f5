"""`/void mode`: switches of the archive, said in the room; what becomes of what is there; for how long."""

import re
from collections.abc import AsyncIterator

import pytest

from tests.flows.line import Line, running_line


@pytest.fixture
async def line(fresh_dsn: str) -> AsyncIterator[Line]:
    """A line whose lobby is archived and holds one message of Ana's."""
    async with running_line(fresh_dsn) as running:
        await tell(running, "Root", "/void mode mention archive:on")
        await running.say("Ana", "the lantern is in the shed")
        yield running


async def tell(line: Line, person: str, text: str) -> tuple[str, bool]:
    """Return the newest answer and whether the whole room saw it."""
    before = len(line.front_end.shown)
    await line.say(person, text)
    await line.answers(before + 1)
    shown = list(line.front_end.shown.values())[-1]
    return shown.text, shown.part.private_to is None


async def kept(line: Line) -> int:
    return int(str(await line.value("select count(*) from voidbot.messages where text like '%lantern%'")))


async def test_switching_off_stops_at_once_and_asks_what_becomes_of_the_rest(line: Line) -> None:
    said, open_to_all = await tell(line, "Root", "/void mode archive:off")
    assert "keep nothing" in said and "kept:erase" in said and open_to_all
    await line.say("Ana", "another lantern")
    assert await kept(line) == 1
    hidden, open_to_all = await tell(line, "Root", "/void mode kept:hide")
    assert "hidden" in hidden and open_to_all
    assert "shed" not in (await tell(line, "Ana", "/search lantern"))[0]
    assert "It is hidden" in (await tell(line, "Ana", "/room-memory"))[0]
    await tell(line, "Root", "/void mode kept:keep")
    assert "shed" in (await tell(line, "Ana", "/search lantern"))[0]


async def test_erasing_what_is_there_takes_a_plan(line: Line) -> None:
    preview, open_to_all = await tell(line, "Root", "/void mode kept:erase")
    assert not open_to_all and await kept(line) == 1
    code = re.search(r"plan:(\w{8})", preview)
    assert code is not None
    assert "has begun" in (await tell(line, "Root", f"/void mode plan:{code[1]}"))[0]
    await line.quiet()
    assert await kept(line) == 0
    assert "run out" in (await tell(line, "Root", f"/void mode plan:{code[1]}"))[0]


async def test_who_switched_the_archive_on_and_for_how_long_is_told_to_members(line: Line) -> None:
    said, open_to_all = await tell(line, "Root", "/void mode retention:12w")
    assert "84 days" in said and open_to_all
    memory, _ = await tell(line, "Ana", "/room-memory")
    assert re.search(r"Archive: on, set \d{4}-\d\d-\d\d by Root", memory) and "Kept for: 84 days" in memory
    await tell(line, "Root", "/void mode retention:off")
    assert "Kept for: ever" in (await tell(line, "Ana", "/room-memory"))[0]
    assert "write 90d" in (await tell(line, "Root", "/void mode retention:soon"))[0]
    assert "administrators" in (await tell(line, "Ana", "/void mode retention:1d"))[0]


async def test_an_excluded_room_excludes_what_hangs_on_it(line: Line) -> None:
    await line.say("Ana", "hello", room="thread")
    async with line.database.transaction() as tx:
        await tx.execute(
            "update voidbot.rooms set parent_id = (select id from voidbot.rooms where chat_ref = 'lobby'),"
            " kind = 'thread_public', archive = 'on' where chat_ref = 'thread'"
        )
    await tell(line, "Root", "/void mode archive:never")
    await line.say("Ana", "a lantern in the thread", room="thread")
    assert await kept(line) == 1
    await line.say("Root", "/void mode archive:on", room="thread")
    await line.quiet()
    assert "excluded" in line.front_end.texts()[-1]
