"""The mind in the database: one writer, a journal without gaps, the same hash from nothing."""

import asyncio

import pytest

from core.domain.ids import OutboxId
from core.domain.mind.codes import Accepted, Rejected, RejectionCode
from core.domain.mind.facts import Emitter
from core.domain.operations.batch import Mode, Recorded, Refused
from core.state.replay import verify
from core.store import basis, journal, state
from core.store.engine import Database
from tests.fakes import ManualClock
from tests.store.minds import Home, accepted, codes, make_home, note


@pytest.fixture
async def home(database: Database, clock: ManualClock) -> Home:
    """A mind that nothing was ever proposed to."""
    return await make_home(database, clock)


async def _sound(home: Home) -> None:
    async with home.database.transaction() as tx:
        replayed = await verify(tx, home.mind_id)
        mind = await state.find_mind(tx, home.mind_id)
    assert replayed.difference is None
    assert mind is not None and replayed.state_hash == mind.state_hash and replayed.rows == mind.last_seq


async def test_what_is_accepted_stands_and_what_is_refused_is_written_down(home: Home) -> None:
    verdict = await home.apply(note(home, "one", 0), note(home, "two", 1, claim=None), note(home, "three", 2))
    assert codes(verdict) == ["no_claim_or_question"]
    async with home.database.transaction() as tx:
        entries = await state.list_entries(tx, home.mind_id)
        rows = await journal.list_range(tx, home.mind_id, 0, 10)
    assert [held.entry.id for held in entries][:1] == ["one"]
    assert entries[0].entry.sources == {home.room} and entries[0].entry.people == {home.ana, home.bo}
    assert [(row.seq, row.verdict, row.code) for row in rows] == [
        (1, "accepted", ""),
        (2, "rejected", "no_claim_or_question"),
        (3, "accepted", ""),
    ]
    await _sound(home)


async def test_the_same_proposal_again_is_not_done_again(home: Home) -> None:
    first = await home.apply(note(home, "one", 0), key="k")
    again = await home.apply(note(home, "one", 0), key="k")
    other = await home.apply(note(home, "one", 1), key="k")
    assert again.items == (Recorded(1, first.items[0].verdict, again=True),)
    assert codes(other) == ["duplicate_operation"]
    assert (await home.mind()).last_seq == 1


async def test_a_batch_that_is_all_or_nothing_leaves_the_state_as_it_was(home: Home) -> None:
    await home.apply(note(home, "one", 0))
    before = await home.mind()
    verdict = await home.apply(
        note(home, "two", 1, target={"kind": "self", "id": "void"}), note(home, "three", 2, tension=None), mode=Mode.ALL
    )
    assert codes(verdict) == ["batch_refused", "no_tension"]
    after = await home.mind()
    assert after.state_hash == before.state_hash and after.last_seq == before.last_seq + 2
    await _sound(home)


async def test_what_was_no_operation_is_a_row_too(home: Home) -> None:
    refused = Refused(Rejected(RejectionCode.BAD_JSON, ""), "garbage:0")
    assert codes(await home.apply(refused)) == ["bad_json"]
    assert (await home.mind()).last_seq == 1
    await _sound(home)


async def test_a_message_that_was_not_shown_proves_nothing(home: Home) -> None:
    unseen = await home.say("said later")
    home.messages.pop()
    piece = note(home, "one", 0)
    piece["memory"]["anchorRefs"] = [{"ref": f"message:{unseen}", "kind": "message"}]
    assert codes(await home.apply(piece)) == ["anchor_not_in_packet"]


async def test_a_quote_must_stand_there_word_for_word(home: Home) -> None:
    def quoting(id_: str, quote: str) -> dict[str, object]:
        piece = note(home, id_)
        anchor = {"ref": f"message:{home.messages[0]}", "kind": "message", "quote": quote}
        piece["memory"]["anchorRefs"] = [anchor]
        return piece

    assert codes(await home.apply(quoting("one", "word 7 of"))) == ["quote_not_found"]
    assert accepted(await home.apply(quoting("two", "word 0 of"))) == ["appended"]
    await _sound(home)


async def test_a_note_on_the_same_matter_of_a_closed_room_is_not_merged(home: Home) -> None:
    await home.accept(note(home, "one", 0, topics=["routes"]))
    closed = note(home, "two", 0, topics=["routes"])
    closed["memory"]["anchorRefs"] = [{"ref": f"message:{home.hidden[0]}", "kind": "message"}]
    assert accepted(await home.apply(closed, closed=True)) == ["appended"]
    async with home.database.transaction() as tx:
        sources = {held.entry.id: held.entry.sources for held in await state.list_entries(tx, home.mind_id)}
    assert sources == {"one": {home.room}, "two": {home.closed}}
    await _sound(home)


async def test_a_paused_mind_listens_to_its_operators_alone(home: Home) -> None:
    async with home.database.transaction() as tx:
        await state.set_paused(tx, home.mind_id, True)
    assert codes(await home.apply(note(home, "one", 0))) == ["mind_paused"]
    assert accepted(await home.apply(note(home, "two", 1), by=Emitter.OPERATOR)) == ["appended"]


async def test_ten_writers(home: Home) -> None:
    async def write(writer: int) -> None:
        for n in range(10):
            target = {"kind": "person", "id": str((home.ana, home.bo)[n % 2])}
            piece = note(home, f"w{writer}:{n}", n % 6, target=target, summary=f"{writer} {n} " + "xyzw"[n % 4] * 9)
            await home.apply(piece, key=f"w{writer}-{n}")

    async with asyncio.TaskGroup() as group:
        for writer in range(10):
            group.create_task(write(writer))
    async with home.database.transaction() as tx:
        rows = await journal.list_range(tx, home.mind_id, 0, 1000)
    assert [row.seq for row in rows] == list(range(1, 101))
    await _sound(home)


async def test_the_journal_is_only_added_to(home: Home) -> None:
    await home.apply(note(home, "one", 0))
    for statement in ("update voidbot.state_operations set payload = '{}'", "delete from voidbot.state_operations"):
        with pytest.raises(Exception, match="only added to"):
            async with home.database.transaction() as tx:
                await tx.execute(statement)


@pytest.mark.parametrize(
    "damage",
    [
        "update voidbot.state_entries set body = jsonb_set(body, '{summary}', '\"other\"')",
        "delete from voidbot.state_entries",
        "update voidbot.minds set state_hash = '\\x00'",
        "select set_config('voidbot.journal', 'open', true);"
        "update voidbot.state_operations set payload = jsonb_set(payload, '{memory,claim}', '\"other\"')",
        "select set_config('voidbot.journal', 'open', true); delete from voidbot.state_operations where seq = 1",
    ],
)
async def test_a_replay_finds_what_was_changed_behind_its_back(home: Home, damage: str) -> None:
    await home.accept(note(home, "one", 0), note(home, "two", 1, target={"kind": "self", "id": "void"}))
    async with home.database.transaction() as tx:
        for statement in damage.split(";"):
            await tx.execute(statement)
    async with home.database.transaction() as tx:
        assert (await verify(tx, home.mind_id)).difference is not None


async def test_a_preview_writes_nothing(home: Home) -> None:
    async with home.database.transaction() as tx:
        verdict, changes = await home.service.preview(tx, home.batch(note(home, "one", 0)))
    assert isinstance(verdict.items[0].verdict, Accepted) and [after.id for _, after in changes] == ["one"]
    async with home.database.transaction() as tx:
        assert await state.find_mind(tx, home.mind_id) is None


async def test_an_answer_that_rests_on_a_note_rests_on_its_messages(home: Home) -> None:
    await home.accept(note(home, "one", 0))
    async with home.database.transaction() as tx:
        answer = OutboxId(
            await tx.fetchval(
                "insert into voidbot.outbox (front_end, community_id, room_id, kind, audience, dedupe)"
                " values ('console', $1, $2, 'reply', array[$2::bigint], 'x') returning id",
                home.community,
                home.room,
            )
        )
        await tx.execute("insert into voidbot.receipts (outbox_id, room_id) values ($1, $2)", answer, home.room)
        await tx.execute(
            "insert into voidbot.receipt_sources (outbox_id, n, kind, ref, audience)"
            " values ($1, 0, 'memory', 'one', array[$2::bigint])",
            answer,
            home.room,
        )
        assert await basis.look_at_basis(tx, answer) == (False, [])
        await tx.execute("update voidbot.messages set deleted_at = voidbot.now() where id = $1", home.messages[0])
        assert await basis.look_at_basis(tx, answer) == (True, [])
        wish = {"operation": "void_source", "refs": [f"message:{home.messages[0]}"], "cause": "deleted"}
        await home.service.apply(tx, home.batch(wish, by=Emitter.UPKEEP))
        assert await basis.look_at_basis(tx, answer) == (True, [])
