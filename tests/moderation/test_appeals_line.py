"""What is taken back, and who decides about an appeal: platform, ledger, card and mind go back together."""

from collections.abc import AsyncIterator

import pytest

from core.domain.ids import RoomKey
from core.domain.moderation.acts import ActKind
from core.domain.moderation.rules import Level
from tests.flows.test_mind_commands import note, propose, sound
from tests.moderation.house import PROGRAM, House, open_house


@pytest.fixture
async def house(fresh_dsn: str) -> AsyncIterator[House]:
    """A member was timed out for an hour, and what they said made its way into the mind."""
    async with open_house(fresh_dsn) as opened:
        await opened.set_level("scam", Level.SUGGEST)
        opened.acts.directs["vex"] = RoomKey("console", "dm:vex")
        message = opened.line.message("Vex", "the shelf is free", "lobby", attachments=(PROGRAM,))
        await opened.line.app.receiver.accept(message)
        await opened.line.quiet()
        await propose(opened.line, "lobby", note("shelf", "Vex gives the shelf away.", "lobby"))
        await opened.command("Mod", '/void cases act:decide id:1 step:"timeout 1h" reason:spam', moderator=True)
        await opened.line.quiet()
        assert [act.kind for act in opened.acts.done] == [ActKind.TIMEOUT]
        yield opened


async def live(house: House) -> object:
    return await house.line.value(
        "select count(*) from voidbot.state_entries where entry_id = 'shelf' and retired_at is null"
    )


async def test_appeal_reverses_everything(house: House) -> None:
    assert "timeout 1h" in await house.command("Vex", "/my-record", "lobby")
    assert "reporter" not in await house.command("Vex", "/my-record", "lobby")
    assert "Appeal 1" in await house.command("Vex", "/appeal it was a joke about the shelf", "dm:vex")
    assert "appealed against" in await house.command("Vex", "/appeal sanction:2 once more", "lobby")
    assert any("Appeal 1" in text for text in house.line.front_end.texts())
    listed = await house.command("Ana", "/void cases act:appeals", moderator=True)
    assert "it was a joke" in listed and "timeout 1h" in listed
    assert "let somebody else refuse" in await house.command("Mod", "/void cases act:refuse id:1", moderator=True)
    assert "is yours" in await house.command("Vex", "/void cases act:grant id:1", moderator=True)
    assert await live(house) == 1
    assert "granted" in await house.command("Ana", "/void cases act:grant id:1 reason:right", moderator=True)
    await house.line.quiet()
    assert [act.kind for act in house.acts.done] == [ActKind.TIMEOUT, ActKind.LIFT_TIMEOUT]
    assert await house.cases() == [(1, "scam", "closed", "reversed")]
    assert await house.line.value("select count(*) from voidbot.sanction_reversals") == 2
    assert await live(house) == 0
    async with house.line.database.transaction() as tx:
        assert await sound(tx)
    (card,) = house.cards()[:1]
    assert "taken back: timeout 1h" in card.text
    told = [each.text for each in house.line.front_end.shown.values() if each.part.room.chat_ref == "dm:vex"]
    assert any("taken back" in text for text in told)
    assert "decided already" in await house.command("Ana", "/void cases act:grant id:1", moderator=True)
    assert "taken back already" in await house.command("Ana", "/void cases act:reverse id:2", moderator=True)


async def test_a_strike_that_is_taken_back_counts_no_more(house: House) -> None:
    assert "is taken back" in await house.command("Ana", "/void cases act:undo id:1", moderator=True)
    await house.line.quiet()
    async with house.line.database.transaction() as tx:  # what comes now is no longer the same burst
        await tx.execute("update voidbot.cases set joins_until = voidbot.now()")
    await house.line.say("Vex", "another one", attachments=(PROGRAM,))
    await house.line.quiet()
    assert await house.line.value("select strikes from voidbot.cases where id = 2") == 1


async def test_an_appeal_that_is_refused_changes_nothing_and_is_told(house: House) -> None:
    assert "about you" in await house.command("Wren", "/appeal sanction:2 let Vex go", "lobby")
    await house.command("Vex", "/appeal it was a joke", "lobby")
    assert "refused" in await house.command("Ana", "/void cases act:refuse id:1 reason:no", moderator=True)
    await house.line.quiet()
    assert [act.kind for act in house.acts.done] == [ActKind.TIMEOUT] and await live(house) == 1
    told = [each.text for each in house.line.front_end.shown.values() if each.part.room.chat_ref == "dm:vex"]
    assert any("this stays" in text for text in told)
    record = await house.command("Vex", "/my-record", "lobby")
    assert "your appeal: refused" in record
    history = await house.command("Ana", "/void cases act:history member:Vex", moderator=True)
    assert "timeout 1h" in history and "strike" in history


async def test_what_stands_about_others_is_nobody_s_to_see(house: House) -> None:
    assert "Nothing stands about you" in await house.command("Wren", "/my-record", "lobby")
    assert "nothing stands about you" in await house.command("Wren", "/appeal I did nothing", "lobby")
    assert "no sanction 99" in await house.command("Ana", "/void cases act:reverse id:99", moderator=True)
