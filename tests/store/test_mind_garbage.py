"""What a model should never propose: it is refused like everything else, and nothing of it is kept."""

from collections.abc import Sequence

import pytest

from core.domain.mind.facts import Actor, Emitter
from core.domain.operations.batch import Batch, Item, Refused
from core.domain.operations.catalog import OPERATIONS
from core.state.parser import Reading, read_pieces
from core.state.replay import verify
from core.store.engine import Database
from tests.fakes import ManualClock
from tests.store.minds import Home, codes, make_home, note

WORDS = "Ana said she is ill " * 50


@pytest.fixture
async def home(database: Database, clock: ManualClock) -> Home:
    """A mind to which nothing was ever proposed."""
    return await make_home(database, clock)


async def _sound(home: Home) -> None:
    async with home.database.transaction() as tx:
        assert (await verify(tx, home.mind_id)).difference is None


def _read(pieces: Sequence[object]) -> tuple[Item | Refused, ...]:
    return read_pieces(pieces, Reading(allowed=frozenset(OPERATIONS), key="garbage"))


@pytest.mark.parametrize(
    ("field", "code"), [("\x00", "unknown_field"), ("\ud800", "bad_json"), (WORDS, "unknown_field")]
)
async def test_a_field_that_no_operation_has_is_refused_and_not_kept(home: Home, field: str, code: str) -> None:
    read = _read([note(home, "one", 0) | {field: 1}, note(home, "one", 0) | {field: None}])
    assert codes(await home.apply(*(each for each in read if isinstance(each, Refused)))) == [code, "null_optional"]
    async with home.database.transaction() as tx:
        assert not await tx.fetchval("select count(*) from voidbot.state_operations o where o::text like '% ill %'")


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**40, -1, 0])
async def test_no_number_is_too_big_to_be_refused(home: Home, number: int) -> None:
    owed = {
        "operation": "upsert_open_case", "sourceMessageId": number, "status": "pending", "summary": "Somebody asked.",
        "lastTouchedAt": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    closed = {"operation": "close_open_case", "sourceMessageId": number, "status": "closed"}
    anchored = note(home, "one")
    anchored["memory"]["anchorRefs"] = [{"ref": f"message:{number}", "kind": "message", "revision": 10**30}]
    about = note(home, "two", 0, target={"kind": "room", "id": str(number)})
    person = note(home, "two", 0, target={"kind": "person", "id": str(number)})
    speech = {
        "operation": "queue_candidate_intervention",
        "intervention": {
            "interventionId": "s",
            "kind": "ripe_thought_share",
            "summary": "Say so.",
            "draft": "So it is.",
            "deliveryTarget": {"mode": "channel", "channelId": number, "replyToMessageId": number},
        },
    }
    pieces = (owed, closed, anchored, about, person, speech)
    read = _read(pieces)
    async with home.database.transaction() as tx:
        actor = Actor(Emitter.OPERATOR)
        verdict = await home.service.apply(tx, Batch(mind_id=home.mind_id, actor=actor, items=read))
    assert len(codes(verdict)) == len(pieces)
    await _sound(home)


async def test_a_zero_below_zero_is_zero(home: Home) -> None:
    thought = {name: value for name, value in note(home, "one", 0)["memory"].items() if name != "memoryId"}
    pressure = thought | {"pressureId": "p", "kind": "discomfort", "intensity": -0.0}
    await home.accept({"operation": "upsert_agency_pressure", "pressure": pressure}, by=Emitter.OPERATOR)
    await _sound(home)


async def test_another_script_has_as_much_room(home: Home) -> None:
    piece = note(home, "one", 0, summary="ж" * 3900, claim="щ" * 1900)
    assert isinstance(_read([piece])[0], Item)


async def test_nothing_is_nested_too_deeply_to_be_refused() -> None:
    deep: object = None
    for _ in range(5000):
        deep = [deep]
    (piece,) = _read([{"operation": "record_short_term_memory", "memory": deep}])
    assert isinstance(piece, Refused)
