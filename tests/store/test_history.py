"""A mind's history: why something is there, what was when, the way back, and a file to take along."""

import gzip
import hashlib
import io
import json
from datetime import timedelta
from typing import Any

import pytest

from core.domain.errors import InputRejected
from core.domain.ids import PersonId, RoomId
from core.domain.mind.codes import Accepted
from core.domain.mind.entries import image_of
from core.domain.mind.facts import Emitter
from core.state import history, portable
from core.state.history import Sight
from core.state.portable import Mapped
from core.state.replay import verify
from core.state.undoing import undo_facts
from core.store import journal, state
from core.store.engine import Database
from tests.fakes import ManualClock
from tests.store.minds import Home, accepted, codes, make_home, note


@pytest.fixture
async def home(database: Database, clock: ManualClock) -> Home:
    """A mind to which nothing was ever proposed."""
    return await make_home(database, clock)


def closed_note(home: Home, id_: str) -> dict[str, Any]:
    """A note of the day that rests on the closed room."""
    piece = note(home, id_)
    piece["memory"]["anchorRefs"] = [{"ref": f"message:{home.hidden[0]}", "kind": "message"}]
    return piece


def thread(id_: str, *supports: str, **more: Any) -> dict[str, Any]:
    """A thread that rests on notes."""
    memory = {"threadId": id_, "topic": "what waits", "supportMemoryIds": list(supports)}
    return {"operation": "merge_incubation_support", "thread": memory | more}


def undo(seq: int, *cascade: int) -> dict[str, Any]:
    return {"operation": "undo_operation", "seq": seq, "reason": "it was a joke", "cascade": list(cascade)}


async def live(home: Home) -> list[str]:
    async with home.database.transaction() as tx:
        return [held.entry.id for held in await state.list_entries(tx, home.mind_id) if held.entry.live]


async def sound(home: Home) -> None:
    async with home.database.transaction() as tx:
        assert (await verify(tx, home.mind_id)).difference is None


# Why something is there


async def explained(home: Home, name: str, sight: Sight = history.ALL) -> history.Explained | None:
    async with home.database.transaction() as tx:
        found = await history.find_entries(tx, home.mind_id, name, sight)
        return await history.explain(tx, home.mind_id, found[0], sight) if found else None


async def test_an_entry_is_explained_by_operations_messages_and_what_rests_on_it(home: Home) -> None:
    await home.accept(note(home, "one", 0, 1))
    whole = {name: value for name, value in note(home, "x")["memory"].items() if name not in ("memoryId", "kind")}
    await home.accept(thread("road", "one", **whole), by=Emitter.OPERATOR)
    await home.accept(
        {"operation": "prune_short_term_memories", "sourceMemoryIds": ["one"], "reason": "the poster hangs by now"},
        by=Emitter.OPERATOR, expect={"one": 1},
    )  # fmt: skip
    found = await explained(home, "short_term/one")
    assert found is not None and not found.entry.live
    assert [row.seq for row in found.rows] == [1, 2, 3]
    assert [message.id for message in found.messages] == home.messages[:2]
    assert [entry.id for entry in found.cited_by] == ["road"]
    assert sum(found.hidden.values()) == 0
    assert await explained(home, "durable/one") is None and await explained(home, "nowhere/one") is None


async def test_who_may_not_read_a_room_is_told_nothing_of_it_but_how_much_there_is(home: Home) -> None:
    await home.accept(note(home, "one", 0))
    await home.accept(closed_note(home, "two"), closed=True)
    await home.apply(note(home, "one", claim="something else"), closed=True, by=Emitter.RUMINATION)
    only_open = Sight(frozenset({home.room}))
    assert await explained(home, "two", only_open) is None
    found = await explained(home, "one", only_open)
    assert found is not None and [row.seq for row in found.rows] == [1]
    assert found.hidden["operations"] == 1
    async with home.database.transaction() as tx:
        await tx.execute("update voidbot.messages set deleted_at = voidbot.now() where id = $1", home.messages[0])
    found = await explained(home, "one", only_open)
    assert found is not None and found.messages == () and found.hidden["messages"] == 1
    assert await explained(home, "one", Sight(frozenset({home.room}), frozenset({home.ana}))) is None


async def test_what_was_said_of_a_thought_is_found_from_it(home: Home) -> None:
    await home.accept(note(home, "one", 0))
    speech = {
        "interventionId": "speech:1", "kind": "ripe_thought_share", "summary": "Say it.", "draft": "It stands there.",
        "deliveryTarget": {"mode": "channel", "channelId": home.closed}, "sourceMemoryIds": [],
    }  # fmt: skip
    await home.accept({"operation": "queue_candidate_intervention", "intervention": speech}, by=Emitter.OPERATOR)
    async with home.database.transaction() as tx:
        (entry,) = await history.find_entries(tx, home.mind_id, "candidate/speech:1")
        # It was made from no room, but it would be said in one.
        assert history.rooms_of(entry) >= {home.closed}
        assert await history.find_entries(tx, home.mind_id, "speech:1", Sight(frozenset({home.room}))) == []


# What was when


async def test_the_state_at_a_time_and_what_changed_since(home: Home, clock: ManualClock) -> None:
    await home.accept(note(home, "one", 0))
    start = clock.now()
    await clock.advance(3600)
    await home.accept(note(home, "two", 1, target={"kind": "self", "id": "void"}))
    await home.accept(closed_note(home, "three"), closed=True)
    gone = {"operation": "prune_short_term_memories", "sourceMemoryIds": ["one"], "reason": "the poster hangs by now"}
    await home.accept(gone, by=Emitter.OPERATOR, expect={"one": 1})
    async with home.database.transaction() as tx:
        assert [entry.id for entry in await history.state_at(tx, home.mind_id, start)] == ["one"]
        assert await history.state_at(tx, home.mind_id, start - timedelta(days=1)) == []
        changes = await history.diff(tx, home.mind_id, start, clock.now(), Sight(frozenset({home.room})))
        assert await history.diff(tx, home.mind_id, start, start) == []
    assert [(change.key.id, change.what) for change in changes] == [("one", "retired"), ("two", "added")]
    assert changes[0].fields["retired"][0] is None and "summary" not in changes[0].fields


# The way back


async def test_an_undo_takes_back_one_operation_and_can_be_undone_itself(home: Home) -> None:
    await home.accept(note(home, "one", 0), note(home, "two", 1, target={"kind": "self", "id": "void"}))
    assert accepted(await home.apply(undo(1), by=Emitter.OPERATOR)) == ["undone"]
    assert await live(home) == ["two"]
    assert codes(await home.apply(undo(1), by=Emitter.OPERATOR)) == ["not_live"]
    assert accepted(await home.apply(undo(3), by=Emitter.OPERATOR)) == ["undone"]
    assert await live(home) == ["one", "two"]
    assert accepted(await home.apply(undo(5), by=Emitter.OPERATOR)) == ["undone"]  # the third way back
    assert await live(home) == ["two"]
    async with home.database.transaction() as tx:
        rows = await journal.list_range(tx, home.mind_id, 0, 100)
    assert [row.undone_by for row in rows if row.accepted] == [3, None, None, 6, None]
    await sound(home)


async def test_what_rests_on_it_goes_along_only_if_it_was_named(home: Home) -> None:
    await home.accept(note(home, "one", 0, topics=["routes"]))
    await home.accept(note(home, "two", 1, topics=["routes"], claim="The van is late."))  # becomes one with it
    verdict = await home.apply(undo(1), by=Emitter.OPERATOR)
    assert codes(verdict) == ["undo_has_dependents"]
    assert codes(await home.apply(undo(1, 7), by=Emitter.OPERATOR)) == ["stale_version"]
    await home.accept(note(home, "three", 2, topics=["routes"], claim="The van is late again."))
    async with home.database.transaction() as tx:
        now = (await undo_facts(tx, home.mind_id, 1)).seqs
    assert codes(await home.apply(undo(1, *now[1:-1]), by=Emitter.OPERATOR)) != []  # one is not named
    assert accepted(await home.apply(undo(1, *now[:-1]), by=Emitter.OPERATOR)) == ["undone"]
    assert "one" not in await live(home)
    await sound(home)


async def test_what_an_undo_brings_back_goes_along_if_it_rests_on_what_goes(home: Home) -> None:
    await home.accept(note(home, "one", 0), note(home, "two", 1, target={"kind": "self", "id": "void"}, claim="B."))
    bodies = [note(home, "x", n)["memory"] for n in (0, 1)]
    lasting = bodies[0] | {"memoryId": "lasting", "kind": "project_seam"}
    lasting["anchorRefs"] = [anchor for body in bodies for anchor in body["anchorRefs"]]
    made = {"sourceMemoryIds": ["one", "two"], "proposalId": "idea", "lossNote": "What was said on the side is gone."}
    await home.accept(
        {"operation": "propose_memory_distillation", "candidate": lasting, **made},
        {"operation": "apply_memory_distillation", "memory": lasting, **made},
        by=Emitter.SLEEP, expect={"one": 1, "two": 1},
    )  # fmt: skip
    await home.accept(undo(1, 4, 3), by=Emitter.OPERATOR)
    assert await live(home) == ["two"]
    # That undo gave the second note back: it goes along, and so does the memory that would come back with it.
    async with home.database.transaction() as tx:
        assert (await undo_facts(tx, home.mind_id, 2)).seqs == (5, 4, 3, 2)
    await home.accept(undo(2, 5, 4, 3), by=Emitter.OPERATOR)
    assert await live(home) == ["one"]
    async with home.database.transaction() as tx:
        rows = await journal.list_range(tx, home.mind_id, 0, 100)
    assert [row.undone_by for row in rows] == [None, 6, 6, 6, 6, None]
    await home.accept(undo(6), by=Emitter.OPERATOR)
    assert await live(home) == ["two"]
    await sound(home)


async def test_an_undo_whose_words_were_erased_stands_in_the_way_of_nobody(home: Home) -> None:
    await home.accept(note(home, "one", 0))
    await home.accept(undo(1), by=Emitter.OPERATOR)
    await home.accept(undo(2), by=Emitter.OPERATOR)
    async with home.database.transaction() as tx:
        await tx.execute("update voidbot.messages set deleted_at = voidbot.now() where id = $1", home.messages[0])
    wish = {"operation": "void_source", "refs": [f"message:{home.messages[0]}"], "cause": "deleted"}
    await home.accept(wish, by=Emitter.UPKEEP)
    for seq in (1, 3):
        verdict = await home.apply(undo(seq), by=Emitter.OPERATOR)
        assert codes(verdict)[0] in ("not_undoable", "undo_redacted", "not_live")
    await sound(home)


# A file to take along


async def packed(home: Home) -> bytes:
    file = io.BytesIO()
    async with home.database.transaction() as tx:
        await portable.write(tx, home.mind_id, file)
    return file.getvalue()


def _lines(data: bytes) -> list[bytes]:
    return gzip.decompress(data).splitlines()


async def emptied(home: Home) -> None:
    """Take everything out of the mind, as if its database were lost."""
    async with home.database.transaction() as tx:
        await tx.execute("select set_config('voidbot.journal', 'open', true)")
        await tx.execute("delete from voidbot.state_operations")
        await tx.execute("delete from voidbot.state_entries")
        await tx.execute("delete from voidbot.minds")


async def bring(home: Home, data: bytes, mapped: Mapped | None = None) -> portable.Brought:
    held = await portable.unpack(io.BytesIO(data))
    async with home.database.transaction() as tx:
        return await portable.bring(tx, home.service, home.mind_id, held, mapped)


async def lived(home: Home) -> None:
    """A mind with notes of both rooms, an obligation, a cursor, a refusal and an undo."""
    await home.accept(note(home, "one", 0), note(home, "two", 1, target={"kind": "person", "id": str(home.ana)}))
    await home.apply(note(home, "three", 2, claim=None))
    await home.accept(closed_note(home, "four"), closed=True)
    cursor = {
        "operation": "record_reviewed_messages", "consumer": "rumination", "roomId": home.room,
        "lastReviewedMessageId": home.messages[0], "lastReviewedTimestamp": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    owed = {
        "operation": "upsert_open_case", "sourceMessageId": home.messages[3], "status": "pending",
        "summary": "Somebody asked for the van.", "lastTouchedAt": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    await home.accept(cursor, by=Emitter.PARENT)
    await home.accept(owed, by=Emitter.OPERATOR)
    await home.accept(undo(1), by=Emitter.OPERATOR)


async def test_what_is_written_out_comes_in_again_as_it_was(home: Home) -> None:
    await lived(home)
    before, data = await home.mind(), await packed(home)
    with pytest.raises(InputRejected, match="is not empty"):
        await bring(home, data)
    await emptied(home)
    brought = await bring(home, data)
    after = await home.mind()
    assert (after.state_hash, after.last_seq) == (before.state_hash, before.last_seq) == (brought.state_hash, 7)
    assert _lines(await packed(home))[1:-1] == _lines(data)[1:-1]
    again = await home.apply(note(home, "one", 0), key="test1")  # the keys came along
    assert again.items[0].again and isinstance(again.items[0].verdict, Accepted)
    await sound(home)


def changed(data: bytes, old: str, new: str) -> bytes:
    """The file with a word changed and packed anew."""
    return gzip.compress(gzip.decompress(data).replace(old.encode(), new.encode()))


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data[:200] + bytes([data[200] ^ 255]) + data[201:],
        lambda data: b"",
        lambda data: b"no file of a mind",
        lambda data: gzip.compress(b""),
        lambda data: gzip.compress(b"[" * 100_000),
        lambda data: gzip.compress(b"\n".join(gzip.decompress(data).splitlines()[:-2])),
        lambda data: changed(data, "Somebody asked", "Nobody asked"),
        lambda data: changed(data, '"format":1', '"format":2'),
    ],
    ids=["cut", "flipped", "empty", "text", "nothing", "deep", "a line less", "a word", "a format"],
)
async def test_a_file_that_is_not_whole_brings_nothing_in(home: Home, damage: Any) -> None:
    await lived(home)
    data = damage(await packed(home))
    with pytest.raises(InputRejected, match="file: "):
        await portable.unpack(io.BytesIO(data))


def resealed(data: bytes, change: Any) -> bytes:
    """The file with its lines changed, and a last line that fits."""
    lines = [json.loads(line) for line in gzip.decompress(data).splitlines()[:-1]]
    change(lines)
    body = b"".join(
        json.dumps(line, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode() + b"\n" for line in lines
    )
    digest = hashlib.sha256(body).hexdigest()
    return gzip.compress(body + json.dumps({"sha256": digest}).encode() + b"\n")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: lines[1]["row"]["payload"]["memory"].update(claim="another"), "row 1 gives another entry"),
        (lambda lines: lines[1]["row"]["payload"].update(operation="dream"), "row 1 cannot be read by this release"),
        (lambda lines: lines.pop(3), "row 4 follows a gap"),
        (lambda lines: lines.pop(), "its entries are not what its journal gives"),
        (lambda lines: lines[0].pop("stateHash"), "is no"),
        (lambda lines: lines[0].update(stateHash="0"), "does not end where its header says"),
    ],
)
async def test_a_file_that_somebody_forged_is_found_out_by_folding_it(home: Home, change: Any, said: str) -> None:
    await lived(home)
    with pytest.raises(InputRejected, match=said):
        await portable.unpack(io.BytesIO(resealed(await packed(home), change)))


async def test_a_file_of_another_database_needs_a_mapping(home: Home) -> None:
    await lived(home)
    data = await packed(home)
    await emptied(home)
    async with home.database.transaction() as tx:  # here these numbers are other messages
        await tx.execute("update voidbot.messages set sent_at = sent_at - interval '1 day'")
    with pytest.raises(InputRejected, match="are not those of this database"):
        await bring(home, data)
    with pytest.raises(InputRejected, match="map: rooms 999 are not here"):
        await bring(home, data, Mapped(rooms={home.room: RoomId(999)}))
    with pytest.raises(InputRejected, match="map: people 999 are not here"):
        await bring(home, data, Mapped(people={home.ana: PersonId(999)}))
    async with home.database.transaction() as tx:
        assert await state.find_mind(tx, home.mind_id) is None


async def test_what_a_mapping_does_not_name_is_sealed(home: Home) -> None:
    await lived(home)
    data = await packed(home)
    await emptied(home)
    # The open room has become the closed one; of the other, and of most messages, nobody knows.
    mapped = Mapped(
        rooms={home.room: home.closed},
        people={home.ana: home.bo},
        messages={home.messages[n]: home.messages[n + 1] for n in (1, 3)},
    )
    brought = await bring(home, data, mapped)
    assert brought.sealed == 1
    async with home.database.transaction() as tx:
        entries = {str(held.entry.id): held.entry for held in await state.list_entries(tx, home.mind_id)}
        rows = await journal.list_range(tx, home.mind_id, 0, 100)
        everything = await history.state_at(
            tx, home.mind_id, home.clock.now(), Sight(frozenset({home.room, home.closed}))
        )
    assert entries["two"].sources == {home.closed} and entries["two"].people == {home.bo}
    assert entries["four"].sources == {-home.closed}
    assert "four" not in {entry.id for entry in everything}  # no venue can read it
    assert f"case:{home.messages[4]}" in entries and f"cursor:rumination:sealed-{home.room}" in entries
    assert {row.key for row in rows if not row.key.startswith(("moved:", "in:"))} == set()
    assert all(row.actor.job_id is None for row in rows)
    text = json.dumps([image_of(entry) for entry in entries.values()])
    assert f'"message:{home.messages[0]}"' not in text and f'"message:{home.hidden[0]}"' not in text
    await sound(home)
    # What comes up here later is not taken for what came along.
    cursor = {
        "operation": "record_reviewed_messages", "consumer": "rumination", "roomId": home.room,
        "lastReviewedMessageId": home.messages[0], "lastReviewedTimestamp": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    await home.accept(cursor, by=Emitter.PARENT)
    await sound(home)


async def test_what_was_deleted_edited_or_erased_since_is_taken_back(home: Home) -> None:
    await home.accept(note(home, "one", 0), note(home, "two", 1, target={"kind": "self", "id": "void"}))
    quoting = note(home, "three", 2, target={"kind": "system", "id": "choir"}, claim="The choir sings.")
    quoting["memory"]["anchorRefs"][0]["quote"] = "word 2 of"
    await home.accept(quoting, note(home, "four", 3, target={"kind": "person", "id": str(home.bo)}, claim="Bo sings."))
    data = await packed(home)
    await emptied(home)
    async with home.database.transaction() as tx:
        await tx.execute("update voidbot.messages set deleted_at = voidbot.now() where id = $1", home.messages[0])
        await tx.execute(
            "update voidbot.messages set revision = revision + 1, text = 'now of trains' where id = $1",
            home.messages[2],
        )
        await tx.execute("update voidbot.people set kind = 'erased' where id = $1", home.bo)
    await bring(home, data)
    async with home.database.transaction() as tx:
        entries = {str(held.entry.id): held.entry for held in await state.list_entries(tx, home.mind_id)}
        left = str(await tx.fetchval("select string_agg(o::text, ' ') from voidbot.state_operations o"))
    assert [id_ for id_, entry in entries.items() if entry.live] == ["two"]
    assert all(home.bo not in entry.people for entry in entries.values())
    assert "word 2 of" not in left and "sings" not in left
    await sound(home)
