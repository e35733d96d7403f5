"""What ends by itself: bans whose term is over, cases that lie, and words of evidence that nothing rests on."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from core.domain.moderation.acts import ActKind
from core.domain.moderation.rules import Level
from core.moderation.mod_upkeep import tend
from tests.moderation.house import PROGRAM, House, open_house


@pytest.fixture
async def house(fresh_dsn: str) -> AsyncIterator[House]:
    async with open_house(fresh_dsn) as opened:
        await opened.set_level("scam", Level.SUGGEST)
        await opened.line.say("Vex", "take it", attachments=(PROGRAM,))
        await opened.line.quiet()
        yield opened


async def tended(house: House) -> dict[str, int]:
    async with house.line.database.transaction() as tx:
        done = await tend(tx)
    await house.line.quiet()
    return done


async def later(house: House, span: timedelta) -> None:
    """Let everything of moderation have happened so much earlier."""
    async with house.line.database.transaction() as tx:
        await tx.execute("alter table voidbot.sanctions disable trigger sanctions_guard")
        await tx.execute("update voidbot.acts set until = until - $1::interval", span)
        await tx.execute(
            "update voidbot.cases set created_at = created_at - $1::interval, closed_at = closed_at - $1::interval,"
            " assigned_at = assigned_at - $1::interval",
            span,
        )
        await tx.execute(
            "update voidbot.sanctions set created_at = created_at - $1::interval,"
            " expires_at = expires_at - $1::interval",
            span,
        )
        await tx.execute("alter table voidbot.sanctions enable trigger sanctions_guard")


async def test_a_ban_whose_term_was_over_while_nothing_ran_is_lifted_once(house: House) -> None:
    await house.command("Mod", '/void cases act:decide id:1 step:"ban 2d"', moderator=True)
    await house.line.quiet()
    assert (await tended(house))["lifted"] == 0
    await later(house, timedelta(days=3))
    assert (await tended(house))["lifted"] == 1
    assert [act.kind for act in house.acts.done] == [ActKind.BAN, ActKind.UNBAN]
    assert (await tended(house))["lifted"] == 0 and len(house.acts.done) == 2
    assert await house.cases() == [(1, "scam", "closed", "applied")]


async def test_a_case_that_was_taken_and_let_lie_is_open_again(house: House) -> None:
    await house.command("Mod", "/void cases act:take id:1", moderator=True)
    assert (await tended(house))["let_go"] == 0
    await later(house, timedelta(hours=25))
    assert (await tended(house))["let_go"] == 1
    assert await house.cases() == [(1, "scam", "open", "")]
    (card,) = house.cards()
    assert "waits for a decision" in card.text and "taken" not in card.text


async def test_words_of_a_dismissed_case_go_after_thirty_days_and_of_a_strike_later(house: House) -> None:
    text = "select text from voidbot.case_evidence where case_id = $1"
    await house.command("Mod", "/void cases act:dismiss id:1", moderator=True)
    await later(house, timedelta(days=29))
    assert (await tended(house))["evidence"] == 0 and await house.line.value(text, 1) is not None
    await house.line.say("Nyx", "take it", attachments=(PROGRAM,))
    await house.line.quiet()
    await house.command("Mod", "/void cases act:decide id:2 step:warn", moderator=True)
    await later(house, timedelta(days=31))
    assert (await tended(house))["evidence"] == 1
    assert await house.line.value(text, 1) is None
    assert await house.line.value(text, 2) is not None  # its strike ended a day ago and can still be appealed
    await later(house, timedelta(days=31))
    assert (await tended(house))["evidence"] == 1 and await house.line.value(text, 2) is None
