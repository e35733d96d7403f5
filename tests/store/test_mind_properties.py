"""Whatever a mind lives through: it replays, what is undone was never there, what lost its proof is gone."""

import random
from typing import Any

import pytest

from core.domain.mind.bodies import Scrubbed
from core.domain.mind.citing import cites_of
from core.domain.mind.codes import Accepted, Rejected
from core.domain.mind.entries import image_of
from core.domain.mind.facts import Emitter
from core.state.replay import verify
from core.store import journal, state
from core.store.engine import Database
from core.store.journal import JournalRow
from tests.fakes import ManualClock
from tests.store.mind_histories import live_through
from tests.store.minds import Home, accepted, codes, make_home


@pytest.fixture
async def home(database: Database, clock: ManualClock) -> Home:
    """A mind to which nothing was ever proposed."""
    return await make_home(database, clock)


async def _rows(home: Home) -> list[JournalRow]:
    async with home.database.transaction() as tx:
        return [row async for row in journal.walk(tx, home.mind_id, 100_000)]


async def _sound(home: Home) -> None:
    async with home.database.transaction() as tx:
        assert (await verify(tx, home.mind_id)).difference is None


async def _live(home: Home) -> dict[str, Any]:
    async with home.database.transaction() as tx:
        return {_name(image): image for image in map(_bare, await _entries(home, tx)) if image}


async def _entries(home: Home, tx: Any) -> list[dict[str, Any]]:
    return [image_of(held.entry) for held in await state.list_entries(tx, home.mind_id)]


def _bare(image: dict[str, Any]) -> dict[str, Any]:
    """A live entry's image without its version; nothing of a tombstone."""
    return {} if "retired" in image else {name: value for name, value in image.items() if name != "version"}


def _name(image: dict[str, Any]) -> str:
    return f"{image['kind']}/{image['id']}"


def _without(rows: list[JournalRow], undone: set[int]) -> dict[str, Any]:
    """The live entries of a history in which these rows never were, the other verdicts as they were given.

    No row that stands touched what an undone one had touched or made: its images are the same in both histories.
    """
    last: dict[str, Any] = {}
    for row in rows:
        if row.accepted and row.seq not in undone and row.op != "undo_operation":
            last |= {_name(touched.after): touched.after for touched in row.touched}
    return {name: bare for name, image in last.items() if (bare := _bare(image))}


def _undo(seq: int, cascade: tuple[int, ...] = ()) -> dict[str, Any]:
    wish = {"operation": "undo_operation", "seq": seq, "reason": "it should not have been"}
    return wish | ({"cascade": list(cascade)} if cascade else {})


async def _preview(home: Home, seq: int) -> tuple[int, ...]:
    """What undoing a row would undo beside it."""
    verdict = await home.apply(_undo(seq), by=Emitter.OPERATOR)
    refusal = verdict.items[0].verdict
    if isinstance(refusal, Accepted):
        return ()
    assert refusal.code.value == "undo_has_dependents"
    return tuple(int(word) for word in refusal.message.partition(": ")[2].split(", "))


async def _property(home: Home, seed: int, steps: int, tries: int) -> None:
    await live_through(home, seed, steps)
    await _sound(home)
    chance = random.Random(seed)
    done = 0
    while done < tries:
        rows = await _rows(home)
        standing = [row for row in rows if row.accepted and row.undone_by is None and row.op != "undo_operation"]
        row = chance.choice(standing)
        before = await _live(home)
        dependents = await _preview(home, row.seq)
        if dependents:
            assert await _live(home) == before
            verdict = await home.apply(_undo(row.seq, dependents), by=Emitter.OPERATOR)
            assert accepted(verdict) == ["undone"]
        rows = await _rows(home)
        undone = {each.seq for each in rows if each.undone_by is not None}
        assert await _live(home) == _without(rows, undone), (seed, row.seq)
        if done % 2 == 0:
            last = rows[-1].seq
            assert accepted(await home.apply(_undo(last), by=Emitter.OPERATOR)) == ["undone"]
            assert await _live(home) == before
        done += 1
    await _sound(home)


@pytest.mark.parametrize("seed", [1, 2])
async def test_undo_equals_never_applied(home: Home, seed: int) -> None:
    await _property(home, seed, steps=50, tries=6)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10, 30))
async def test_undo_equals_never_applied_at_length(home: Home, seed: int) -> None:
    await _property(home, seed, steps=200, tries=60)


async def test_a_cascade_is_exactly_what_was_previewed(home: Home) -> None:
    await live_through(home, 3, 40)
    rows = await _rows(home)
    for row in rows:
        if not row.accepted:
            continue
        async with home.database.transaction() as tx:
            batch = home.batch(_undo(row.seq, (9999,)), by=Emitter.OPERATOR)
            verdict, _ = await home.service.preview(tx, batch)
        refusal = verdict.items[0].verdict
        assert isinstance(refusal, Rejected) and refusal.code.value == "stale_version"


async def test_what_was_said_and_read_cannot_be_undone(home: Home) -> None:
    cursor = {
        "operation": "record_reviewed_messages", "consumer": "rumination", "roomId": home.room,
        "lastReviewedMessageId": home.messages[0], "lastReviewedTimestamp": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    assert codes(await home.apply(cursor, by=Emitter.PARENT)) == []
    assert codes(await home.apply(_undo(1), by=Emitter.OPERATOR)) == ["not_undoable"]


@pytest.mark.parametrize("seed", [5, 6])
async def test_what_lost_its_proof_is_gone(home: Home, seed: int) -> None:
    await live_through(home, seed, 50)
    gone = home.messages[seed % 3]
    async with home.database.transaction() as tx:
        await tx.execute("update voidbot.messages set text = '', deleted_at = voidbot.now() where id = $1", gone)
    wish = {"operation": "void_source", "refs": [f"message:{gone}"], "cause": "deleted"}
    assert accepted(await home.apply(wish, by=Emitter.UPKEEP)) == ["voided"]
    async with home.database.transaction() as tx:
        entries = [held.entry for held in await state.list_entries(tx, home.mind_id)]
        assert await state.list_citing(tx, home.mind_id, [f"message:{gone}"]) == []
        left = await tx.fetchval(
            "select count(*) from voidbot.state_operations where redacted_by is null and touched::text like $1",
            f'%"message:{gone}"%',
        )
    assert left == 0
    dead = {f"memory:{entry.id}" for entry in entries if isinstance(entry.body, Scrubbed)}
    assert dead and not any(dead & cites_of(entry.body) for entry in entries)
    await _sound(home)
