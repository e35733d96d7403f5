"""Pages that cannot be used: each failure halves them, and one message that keeps failing is set aside alone."""

from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from core.domain.mind.bodies import Consumer, Cursor
from core.domain.mind.facts import Emitter
from core.domain.mind.values import EntryId
from core.domain.passes import PassName, Run
from core.passes.paging import MOST_FAILURES, Paging, Place
from core.store import mind_lists, passes, state
from core.store.engine import Database
from core.store.passes import NewRun
from core.store.reading import Heard
from tests.fakes import ManualClock
from tests.store.minds import Home, make_home, note

NUMBERS = count()
RUMINATION, LAMP = Emitter.RUMINATION, EntryId("lamp")


@pytest.fixture
async def home(database: Database, clock: ManualClock) -> Home:
    return await make_home(database, clock)


async def new_run(home: Home) -> Run:
    """A run of its own kind for each call."""
    name = f"slot{next(NUMBERS)}"
    new = NewRun(
        mind_id=home.mind_id, name=PassName.RUMINATION, group=name, slot_key=name, slot=home.clock.now(), label=name
    )  # fmt: skip
    async with home.database.transaction() as tx:
        (run,) = await passes.claim(tx, [new])
    return run


def places(page: Sequence[Heard]) -> list[Place]:
    return [(each.room_id, each.id, each.revision) for each in page]


async def test_a_message_that_cannot_be_read_is_set_aside_and_every_other_is_read(home: Home) -> None:
    paging, poison = Paging(home.service, Consumer.RUMINATION), home.messages[3]
    read: list[int] = []
    asked = alone = 0
    while True:
        run = await new_run(home)
        async with home.database.transaction() as tx:
            page = places(await paging.turn(tx, run, [home.room]))
            if not page:
                break
            asked += 1
            alone += [id_ for _, id_, _ in page] == [poison]
            if any(id_ == poison for _, id_, _ in page):
                await paging.failed(tx, run, page)
            else:
                read += [id_ for _, id_, _ in page]
                assert await paging.passed(tx, run, page, ()) is None
    assert read == [id_ for id_ in home.messages if id_ != poison]
    assert alone == MOST_FAILURES and asked <= 10
    async with home.database.transaction() as tx:
        (held,) = await state.list_live(tx, home.mind_id, ["cursor"])
    assert isinstance(held.entry.body, Cursor)
    assert held.entry.body.quarantined == (poison,)
    assert (held.entry.body.last_reviewed_message_id, held.entry.body.reviewed) == (home.messages[-1], 6)


async def test_a_cursor_passes_what_was_deleted_with_its_row(home: Home) -> None:
    paging, run = Paging(home.service, Consumer.RUMINATION), await new_run(home)
    async with home.database.transaction() as tx:
        page = places(await paging.turn(tx, run, [home.room]))
        await tx.execute("delete from voidbot.messages where id = $1", home.messages[-1])
        assert await paging.passed(tx, run, page, ()) is None
        assert await paging.turn(tx, run, [home.room]) == []


async def test_speech_put_off_is_counted_until_its_pressure_becomes_another(home: Home) -> None:
    body = {name: value for name, value in note(home, "x")["memory"].items() if name not in ("memoryId", "kind")}

    def presses(kind: str) -> dict[str, Any]:
        return {"operation": "upsert_agency_pressure", "pressure": body | {"pressureId": "lamp", "kind": kind}}

    await home.accept(presses("world_advocacy_request"), by=RUMINATION)
    for n, more in enumerate(({"sourcePressureId": "lamp"}, {"target": body["target"]}, {"priority": 0.2})):
        speech = {"interventionId": f"later-{n}", "kind": "world_advocacy", "summary": "The lamp.", "draft": f"L{n}!"}
        await home.accept({"operation": "queue_candidate_intervention", "intervention": speech | more}, by=RUMINATION)
    assert await deferrals(home) == {"lamp": 2}
    await home.accept(presses("self_advocacy_request"), by=RUMINATION, expect={"lamp": 1})
    assert await deferrals(home) == {}


async def deferrals(home: Home) -> dict[str, int]:
    async with home.database.transaction() as tx:
        found = await mind_lists.count_deferrals(tx, home.mind_id, [LAMP])
    return {str(id_): times for id_, times in found.items()}
