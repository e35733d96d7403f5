"""How moderators' helpers have failed before: strikes that vanish, acts that nobody did, roads around the rules."""

from collections.abc import AsyncIterator

import pytest

from core.domain.moderation.acts import ActKind
from core.domain.moderation.rules import Level
from tests.moderation.house import PROGRAM, House, open_house


@pytest.fixture
async def house(fresh_dsn: str) -> AsyncIterator[House]:
    async with open_house(fresh_dsn) as opened:
        yield opened


async def offend(house: House, text: str) -> None:
    await house.line.say("Vex", text, attachments=(PROGRAM,))
    await house.line.quiet()


async def days_pass(house: House) -> None:
    """Let what was found so far be no part of a new outburst."""
    async with house.line.database.transaction() as tx:
        await tx.execute("update voidbot.cases set joins_until = voidbot.now()")


async def test_strikes_outlive_their_cases_and_a_batch_is_one(house: House) -> None:
    await house.set_level("scam", Level.ACT)
    for text in ("one", "two", "three"):
        await offend(house, text)
    assert await house.line.value("select count(*) from voidbot.sanctions where kind = 'strike'") == 1
    await days_pass(house)
    await offend(house, "on the second day")
    await days_pass(house)
    assert {act.kind for act in house.acts.done} == {ActKind.DELETE, ActKind.TIMEOUT}
    assert [(status, outcome) for _, _, status, outcome in await house.cases()] == [("closed", "applied")] * 2
    done = len(house.acts.done)
    await offend(house, "on the third day")
    # The third step is a person's to decide, whatever the level.
    assert len(house.acts.done) == done and (await house.cases())[-1][2] == "open"
    assert await house.line.value("select strikes from voidbot.cases order by id desc limit 1") == 3


async def test_no_level_but_act_says_that_anything_was_done(house: House) -> None:
    for level in (Level.OBSERVE, Level.SUGGEST):
        if level is not Level.OBSERVE:  # where every rule begins
            await house.set_level("scam", level)
        await offend(house, level.value)
        await days_pass(house)
    await house.command("Root", "/void rules act:dry-run set:on")
    await house.set_level("scam", Level.ACT)
    await offend(house, "dry")
    told = [await house.command("Ana", f"/void cases act:show id:{n}", moderator=True) for n in (1, 2, 3)]
    shown = [*(card.text for card in house.cards()), *told]
    assert house.acts.done == [] and not any("done: " in text.replace("not done: ", "") for text in shown)
    assert await house.line.value("select count(*) from voidbot.sanctions") == 0


async def test_no_way_of_saying_it_goes_around_the_rules(house: House) -> None:
    async with house.line.database.transaction() as tx:
        await tx.execute("update voidbot.rooms set archive = 'off' where chat_ref = 'workshop'")
    harmless = house.line.message("Ed", "good morning", "lobby")
    await house.line.app.receiver.accept(harmless)
    link = "free nitro at https://dlscord.com/gift"
    await house.line.say("Ann", link)
    await house.line.say("Ben", f"@void {link}")
    await house.line.say("Cid", f"/ask {link}")
    await house.line.say("Dot", link, reply_to="m1")
    await house.line.say("Eve", link, "workshop")
    await house.edit(harmless, link)
    await house.line.quiet()
    found = await house.line.value(
        "select array_agg(p.account_ref order by p.account_ref) from voidbot.cases c"
        " join voidbot.people p on p.id = c.subject_id where c.rule_id = 'scam'"
    )
    assert found == ["ann", "ben", "cid", "dot", "ed", "eve"]
