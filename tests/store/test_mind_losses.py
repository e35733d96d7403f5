"""What rested on words that went: gone from entries and journal, also from what was undone, replaced or refused."""

from typing import Any

import pytest

from core.domain.mind.facts import Emitter
from core.passes.retracting import queue_retractions
from core.privacy.minding import erase_from_mind
from core.state.replay import verify
from core.store.engine import Database
from tests.fakes import ManualClock
from tests.store.minds import Home, accepted, codes, make_home, note


@pytest.fixture
async def home(database: Database, clock: ManualClock) -> Home:
    """A mind to which nothing was ever proposed."""
    return await make_home(database, clock)


async def _sound(home: Home) -> None:
    async with home.database.transaction() as tx:
        assert (await verify(tx, home.mind_id)).difference is None


async def _delete(home: Home, n: int) -> int:
    """Delete a message; return how many jobs the index queues for it."""
    gone = home.messages[n]
    async with home.database.transaction() as tx:
        await tx.execute("update voidbot.messages set text = '', deleted_at = voidbot.now() where id = $1", gone)
        return await queue_retractions(tx, [gone])


async def _void(home: Home, n: int, cause: str = "deleted") -> None:
    wish = {"operation": "void_source", "refs": [f"message:{home.messages[n]}"], "cause": cause}
    assert accepted(await home.apply(wish, by=Emitter.UPKEEP)) == ["voided"]


async def _places(home: Home, word: str) -> list[str]:
    """Where a word still stands."""
    async with home.database.transaction() as tx:
        rows = await tx.fetch(
            "select 'entry ' || entry_id as place from voidbot.state_entries e where e::text ilike $1 union all "
            "select 'row ' || seq from voidbot.state_operations o where o::text ilike $1 order by 1",
            f"%{word}%",
        )
    return [row["place"] for row in rows]


def _pressure(home: Home, word: str, *messages: int, **more: Any) -> dict[str, Any]:
    piece = note(home, "x", *messages)["memory"] | {"summary": f"Somebody should see to the {word}."} | more
    del piece["memoryId"]
    pressure = piece | {"pressureId": "press", "kind": "discomfort", "intensity": 0.2}
    return {"operation": "upsert_agency_pressure", "pressure": pressure}


def _undo(seq: int) -> dict[str, Any]:
    return {"operation": "undo_operation", "seq": seq, "reason": "it should not have been"}


async def test_words_of_an_undone_row_go_with_their_message(home: Home) -> None:
    await home.accept(note(home, "one", 0))
    await home.accept(note(home, "one", 1, summary="The zebra is loose."), expect={"one": 1})
    assert accepted(await home.apply(_undo(2), by=Emitter.OPERATOR)) == ["undone"]
    assert await _delete(home, 1) == 1
    await _void(home, 1)
    assert await _places(home, "zebra") == []
    assert codes(await home.apply(_undo(3), by=Emitter.OPERATOR)) == ["undo_redacted"]
    await _sound(home)


async def test_words_that_were_replaced_go_with_their_message(home: Home) -> None:
    await home.accept(_pressure(home, "zebra", 1), by=Emitter.OPERATOR)
    await home.accept(_pressure(home, "kiln", 0), by=Emitter.OPERATOR, expect={"press": 1})
    await home.accept(_pressure(home, "cellar", 2), by=Emitter.OPERATOR, expect={"press": 2})
    assert await _delete(home, 1) == 1
    await _void(home, 1)
    assert await _places(home, "zebra") == []
    await _sound(home)
    assert accepted(await home.apply(_undo(3), by=Emitter.OPERATOR)) == ["undone"]
    assert codes(await home.apply(_undo(2), by=Emitter.OPERATOR)) == ["undo_redacted"]
    await _sound(home)


async def test_a_refused_proposal_goes_with_its_message(home: Home) -> None:
    assert codes(await home.apply(note(home, "one", 1, summary="The zebra is loose.", tension=None))) == ["no_tension"]
    assert await _delete(home, 1) == 1
    await _void(home, 1)
    assert await _places(home, "zebra") == []
    assert await _delete(home, 1) == 0
    await _sound(home)


async def test_a_refused_proposal_goes_with_the_memory_that_it_rests_on(home: Home) -> None:
    await home.accept(note(home, "one", 1))
    lasting = note(home, "two", 0, summary="The zebra is loose.", tension=None)["memory"] | {"kind": "project_seam"}
    wish = {"operation": "propose_memory_distillation", "proposalId": "p", "sourceMemoryIds": ["one"]}
    assert codes(await home.apply(wish | {"candidate": lasting}, by=Emitter.SLEEP, expect={"one": 1})) == ["no_tension"]
    await _delete(home, 1)
    await _void(home, 1)
    assert await _places(home, "zebra") == []
    await _sound(home)


async def test_what_once_rested_on_a_memory_that_went_is_replayed(home: Home) -> None:
    await home.accept(note(home, "one", 1))
    anchors = [
        {"ref": f"message:{home.messages[0]}", "kind": "message"},
        {"ref": "memory:one", "kind": "memory"},
    ]
    await home.accept(_pressure(home, "zebra", 0, anchorRefs=anchors), by=Emitter.OPERATOR)
    await home.accept(_pressure(home, "kiln", 0), by=Emitter.OPERATOR, expect={"press": 1})
    await _delete(home, 1)
    await _void(home, 1)
    await _sound(home)
    assert await _places(home, "zebra") == []


async def test_an_edit_takes_what_was_undone_too(home: Home) -> None:
    await home.accept(note(home, "one", 0))
    await home.accept(note(home, "one", 1, summary="The zebra is loose."), expect={"one": 1})
    assert accepted(await home.apply(_undo(2), by=Emitter.OPERATOR)) == ["undone"]
    async with home.database.transaction() as tx:
        await tx.execute("update voidbot.messages set text = 'all else', revision = 1 where id = $1", home.messages[1])
    await _void(home, 1, "edited")
    assert await _places(home, "zebra") == []
    await _sound(home)


async def _erase(home: Home) -> None:
    async with home.database.transaction() as tx:
        await erase_from_mind(tx, home.service, home.mind_id, home.bo, 7)


async def test_an_erasure_takes_what_was_undone_and_what_names_the_person_alone(home: Home) -> None:
    async with home.database.transaction() as tx:
        await tx.execute("update voidbot.person_names set name = 'Borogove' where person_id = $1", home.bo)
    await home.accept(note(home, "named", 0, summary="Borogove owns a zebra."), by=Emitter.OPERATOR)
    await home.accept(_pressure(home, "cellar", 0), by=Emitter.OPERATOR)
    await home.accept(_pressure(home, "walrus", 1), by=Emitter.OPERATOR, expect={"press": 1})
    assert accepted(await home.apply(_undo(3), by=Emitter.OPERATOR)) == ["undone"]
    await home.accept(_pressure(home, "of Borogove", 0), by=Emitter.OPERATOR, expect={"press": 3})
    await home.accept(_pressure(home, "rest", 0), by=Emitter.OPERATOR, expect={"press": 4})
    refused = note(home, "no", 0, summary="Borogove again.", tension=None)
    assert codes(await home.apply(refused, by=Emitter.OPERATOR)) == ["no_tension"]
    await _erase(home)
    assert {word: await _places(home, word) for word in ("zebra", "walrus", "borogove")} == {
        "zebra": [],
        "walrus": [],
        "borogove": [],
    }
    await _sound(home)


async def test_nothing_is_made_of_words_that_are_being_erased(home: Home) -> None:
    async with home.database.transaction() as tx:
        await tx.execute("update voidbot.people set erasing = true where id = $1", home.bo)
    assert codes(await home.apply(note(home, "one", 0))) == ["person_erased"]
    assert accepted(await home.apply(note(home, "two", 0), by=Emitter.OPERATOR)) == ["appended"]


async def test_what_was_said_through_a_proxy_proves_nothing_while_its_author_is_erased(home: Home) -> None:
    async with home.database.transaction() as tx:
        await tx.execute("update voidbot.messages set proxy_of = $2 where id = $1", home.messages[0], home.bo)
        await tx.execute("update voidbot.people set erasing = true where id = $1", home.bo)
    assert codes(await home.apply(note(home, "one", 0), by=Emitter.OPERATOR)) == ["unknown_reference"]
