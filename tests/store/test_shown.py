"""The terminal's table: sending twice shows once, and no reader misses a row."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from core.domain.choices import Choice
from core.domain.errors import Refused
from core.domain.ids import RoomKey
from core.domain.speech import PublicText, SilenceReason
from core.ports import OutgoingPart, ShownMessage
from core.store.engine import Database
from core.store.shown import StoredShownMessages

WORKSHOP = RoomKey("console", "workshop")


@pytest.fixture
async def shown(database: Database) -> StoredShownMessages:
    """The table, in a community with one room (id 1) and one person (id 1)."""
    async with database.transaction() as tx:
        await tx.execute(
            "insert into voidbot.communities (platform, chat_ref, mind_id) values ('console', 'makers', 'makers')"
        )
        await tx.execute(
            "insert into voidbot.rooms (community_id, platform, chat_ref, kind)"
            " values (1, 'console', 'workshop', 'terminal')"
        )
        await tx.execute("insert into voidbot.people (platform, account_ref) values ('console', 'ann')")
    return StoredShownMessages(database)


def part(text: str = "At nine.", nonce: str = "n1", *, room: RoomKey = WORKSHOP, outbox_id: int = 1) -> OutgoingPart:
    return OutgoingPart(
        room=room,
        text=PublicText(text),
        nonce=nonce,
        reply_to="m1",
        private_to="ann",
        plain=False,
        outbox_id=outbox_id,
        n=0,
    )


async def test_choices_are_shown_as_what_to_type(shown: StoredShownMessages) -> None:
    asked = replace(part("May I?"), choices=(Choice("Yes", "/void candidates approve id:a"), Choice("No", "/help")))
    await shown.show(asked)
    (message,) = await shown.after(0)
    assert message.text == "May I?\nYes: /void candidates approve id:a\nNo: /help"


async def add_turn(database: Database, state: str, reason: SilenceReason | None = None) -> int:
    async with database.transaction() as tx:
        turn: int = await tx.fetchval(
            "insert into voidbot.turns"
            " (key, community_id, room_id, person_id, front_end, state, reason, reply_to, trace)"
            " select k, 1, 1, 1, 'console', $1, $2, 'm1', k from (select gen_random_uuid()::text as k) returning id",
            state,
            reason,
        )
    return turn


async def add_outbox(
    database: Database,
    dedupe: str,
    state: str,
    *,
    kind: str = "reply",
    reason: str | None = None,
    turn: int | None = None,
) -> int:
    async with database.transaction() as tx:
        outbox: int = await tx.fetchval(
            "insert into voidbot.outbox"
            " (front_end, community_id, room_id, kind, audience, dedupe, state, reason, trace)"
            " values ('console', 1, 1, $1, '{1}', $2, $3, $4,"
            " coalesce((select trace from voidbot.turns where id = $5), '')) returning id",
            kind,
            dedupe,
            state,
            reason,
            turn,
        )
    return outbox


async def test_showing_the_same_nonce_twice_shows_one_message(shown: StoredShownMessages) -> None:
    first = await shown.show(part())
    assert await shown.show(part()) == first
    assert [message.id for message in await shown.after(0)] == [first]


async def test_a_shown_message_comes_back_as_it_was_sent(shown: StoredShownMessages) -> None:
    message_id = await shown.show(part())
    [message] = await shown.after(0)
    assert message == ShownMessage(
        id=message_id,
        seq=message.seq,
        room=WORKSHOP,
        text="At nine.",
        reply_to="m1",
        private_to="ann",
        receipt_id=None,
        provider=None,
        revision=0,
        at=message.at,
    )
    assert message.at.tzinfo is not None


async def test_many_tries_at_once_show_one_message(shown: StoredShownMessages) -> None:
    ids = await asyncio.gather(*(shown.show(part()) for _ in range(6)))
    assert len(set(ids)) == 1
    assert len(await shown.after(0)) == 1


async def test_a_room_that_is_not_there_is_refused(shown: StoredShownMessages) -> None:
    with pytest.raises(Refused):
        await shown.show(part(room=RoomKey("console", "cellar")))
    assert await shown.find("n1") is None


async def test_a_message_is_found_by_its_nonce(shown: StoredShownMessages) -> None:
    message_id = await shown.show(part())
    assert await shown.find("n1") == message_id
    assert await shown.find("n2") is None


async def test_an_edit_comes_after_every_cursor_with_a_higher_revision(shown: StoredShownMessages) -> None:
    first = await shown.show(part())
    await shown.show(part(nonce="n2"))
    cursor = await shown.latest()
    await shown.edit(first, "At ten.")
    assert [(m.id, m.text, m.revision) for m in await shown.after(cursor)] == [(first, "At ten.", 1)]


async def test_an_edit_to_the_same_text_changes_nothing(shown: StoredShownMessages) -> None:
    message_id = await shown.show(part())
    cursor = await shown.latest()
    await shown.edit(message_id, "At nine.")
    assert await shown.after(cursor) == []


async def test_an_edit_of_what_was_never_shown_is_refused(shown: StoredShownMessages) -> None:
    with pytest.raises(Refused):
        await shown.edit(4711, "At ten.")


async def test_the_newest_cursor_of_an_empty_table_is_zero(shown: StoredShownMessages) -> None:
    assert await shown.latest() == 0


async def test_a_long_list_comes_in_pages(shown: StoredShownMessages) -> None:
    ids = [await shown.show(part(nonce=f"n{n}")) for n in range(5)]
    first = await shown.after(0, limit=3)
    rest = await shown.after(first[-1].seq, limit=3)
    assert [message.id for message in (*first, *rest)] == ids


async def test_a_reader_beside_many_writers_misses_nothing(shown: StoredShownMessages) -> None:
    count = 120
    seen: list[int] = []

    async def write(worker: int) -> None:
        for n in range(worker, count, 6):
            message_id = await shown.show(part(nonce=f"n{n}"))
            if n % 5 == 0:
                await shown.edit(message_id, "later")

    async def read() -> None:
        cursor = 0
        while len(set(seen)) < count:
            for message in await shown.after(cursor, limit=7):
                cursor = message.seq
                seen.append(message.id)

    async with asyncio.timeout(30):
        await asyncio.gather(read(), *(write(worker) for worker in range(6)))
    assert len(set(seen)) == count


async def test_a_receipt_names_the_provider(shown: StoredShownMessages, database: Database) -> None:
    outbox = await add_outbox(database, "reply:1", "sent")
    async with database.transaction() as tx:
        await tx.execute("insert into voidbot.receipts (outbox_id, room_id, provider) values ($1, 1, 'quotes')", outbox)
    await shown.show(part(outbox_id=outbox))
    [message] = await shown.after(0)
    assert (message.receipt_id, message.provider) == (outbox, "quotes")


async def test_what_is_no_reply_comes_from_code(shown: StoredShownMessages, database: Database) -> None:
    outbox = await add_outbox(database, "command:1", "sent", kind="command")
    await shown.show(part(outbox_id=outbox))
    [message] = await shown.after(0)
    assert (message.receipt_id, message.provider) == (None, "code")


@pytest.mark.parametrize("state", ["open", "running"])
async def test_a_turn_at_work_is_not_over(shown: StoredShownMessages, database: Database, state: str) -> None:
    assert await shown.ended([await add_turn(database, state)]) == {}


async def test_an_unknown_turn_is_not_over(shown: StoredShownMessages) -> None:
    assert await shown.ended([99]) == {}


@pytest.mark.parametrize("state", ["silent", "cancelled"])
async def test_a_silent_turn_is_over_with_its_reason(
    shown: StoredShownMessages, database: Database, state: str
) -> None:
    turn = await add_turn(database, state, SilenceReason.QUIET_HOURS)
    assert await shown.ended([turn]) == {turn: SilenceReason.QUIET_HOURS}


@pytest.mark.parametrize("dedupe", ["reply:{0}", "command:{0}", "notice:4711:limit.cooldown"])
@pytest.mark.parametrize(("state", "over"), [("ready", False), ("sending", False), ("sent", True), ("unknown", True)])
async def test_an_answered_turn_is_over_once_all_it_gave_is_closed(
    shown: StoredShownMessages, database: Database, dedupe: str, state: str, over: bool
) -> None:
    turn = await add_turn(database, "answered")
    await add_outbox(database, dedupe.format(turn), state, turn=turn)
    assert await shown.ended([turn]) == ({turn: None} if over else {})


async def test_a_silent_turn_is_over_once_its_notice_is_closed(shown: StoredShownMessages, database: Database) -> None:
    turn = await add_turn(database, "silent", SilenceReason.PROVIDER_DOWN)
    notice = await add_outbox(database, "notice:4711:error", "ready", turn=turn)
    assert await shown.ended([turn]) == {}
    async with database.transaction() as tx:
        await tx.execute("update voidbot.outbox set state = 'sent' where id = $1", notice)
    assert await shown.ended([turn]) == {turn: SilenceReason.PROVIDER_DOWN}


async def test_the_row_of_another_turn_does_not_count(shown: StoredShownMessages, database: Database) -> None:
    turn = await add_turn(database, "answered")
    await add_outbox(database, f"reply:{turn}2", "ready", turn=await add_turn(database, "answered"))
    await add_outbox(database, f"speech:{turn}", "ready", kind="speech")
    assert await shown.ended([turn]) == {turn: None}


@pytest.mark.parametrize(
    ("key", "state", "reason", "expected"),
    [
        ("reply:{0}:dropped:7", "dropped", "trigger_deleted", SilenceReason.TRIGGER_DELETED),
        ("reply:{0}", "failed", "some_code_of_delivery", SilenceReason.NO_PERMISSION),
        ("reply:{0}", "failed", None, SilenceReason.NO_PERMISSION),
    ],
)
async def test_an_answer_that_was_lost_on_its_way_says_why(
    shown: StoredShownMessages,
    database: Database,
    key: str,
    state: str,
    reason: str | None,
    expected: SilenceReason,
) -> None:
    turn = await add_turn(database, "answered")
    await add_outbox(database, key.format(turn), state, reason=reason, turn=turn)
    assert await shown.ended([turn]) == {turn: expected}


@pytest.mark.parametrize("key", ["reply:{0}", "notice:4711:error"])
async def test_a_second_answer_makes_up_for_a_lost_one(
    shown: StoredShownMessages, database: Database, key: str
) -> None:
    turn = await add_turn(database, "answered")
    await add_outbox(database, key.format(turn), "sent", turn=turn)
    await add_outbox(database, f"reply:{turn}:dropped:7", "dropped", reason="guard_blocked", turn=turn)
    assert await shown.ended([turn]) == {turn: None}


async def test_every_turn_asked_for_is_judged_for_itself(shown: StoredShownMessages, database: Database) -> None:
    turns: Sequence[int] = [await add_turn(database, state) for state in ("open", "answered", "silent")]
    assert await shown.ended(turns) == {turns[1]: None, turns[2]: SilenceReason.SUPERSEDED}
