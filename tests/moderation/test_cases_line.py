"""From a message to what becomes of it: found at intake, shown to the staff, decided once, done once."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from core.act_ports import ActResult
from core.domain.ids import RoomKey
from core.domain.messages import MessageKind, Origin, Reaction, ReactionChange
from core.domain.moderation.acts import ActKind, Standing
from core.domain.moderation.rules import Level
from core.ports import SendRefused
from tests.fakes import EVERY_ACT, RecordingFrontEnd
from tests.flows.test_audience import open_to
from tests.moderation.house import PROGRAM, House, open_house


@pytest.fixture
async def house(fresh_dsn: str) -> AsyncIterator[House]:
    async with open_house(fresh_dsn) as opened:
        yield opened


async def offend(house: House, person: str = "Vex", room: str = "lobby", **more: object) -> str:
    """Let somebody hand a program over; return the message's id."""
    message = house.line.message(person, "take this, it is free", room, attachments=(PROGRAM,), **more)
    await house.line.app.receiver.accept(message)
    await house.line.quiet()
    return message.message_id


async def test_what_is_suggested_is_shown_and_done_only_after_a_yes(house: House) -> None:
    await house.set_level("scam", Level.SUGGEST)
    ref = await offend(house)
    assert await house.cases() == [(1, "scam", "open", "")]
    (card,) = house.cards()
    assert "level" not in card.text or "suggest" in card.text
    assert "take this" in card.text and "Proposed: delete" in card.text and house.acts.done == []
    assert [each.label for each in card.part.choices] == ["Approve: delete", "Dismiss", "Context", "Take"]
    assert "moderators" in await house.press("Wren", card, "Approve")
    assert "Case 1: decided, on its way" in await house.press("Mod", card, "Approve", moderator=True)
    assert [(act.kind, act.message_ref) for act in house.acts.done] == [(ActKind.DELETE, ref)]
    assert await house.cases() == [(1, "scam", "closed", "applied")]
    (card,) = house.cards()
    assert "Now: done: delete" in card.text
    ledger = await house.line.value("select array_agg(kind order by id) from voidbot.sanctions")
    assert ledger == ["strike", "delete"]


async def test_what_is_observed_reaches_nobody(house: House) -> None:
    await offend(house)
    assert await house.cases() == [(1, "scam", "open", "")]
    assert house.cards() == [] and house.acts.done == []


async def test_two_press_at_once_and_one_decides(house: House) -> None:
    await house.set_level("scam", Level.SUGGEST)
    await offend(house)
    said = await asyncio.gather(
        house.command("Mod", "/void cases act:decide id:1 version:1", moderator=True),
        house.command("Ana", "/void cases act:dismiss id:1 version:1", moderator=True),
    )
    assert any("already decided by" in each for each in said)
    ((_, _, status, outcome),) = await house.cases()
    assert (status, outcome, len(house.acts.done)) in [("closed", "applied", 1), ("closed", "dismissed", 0)]


async def test_context_and_take_leave_the_card_to_be_pressed(house: House) -> None:
    await house.set_level("scam", Level.SUGGEST)
    await offend(house)
    (card,) = house.cards()
    assert "take this" in await house.press("Mod", card, "Context", moderator=True)
    (card,) = house.cards()
    assert len(card.part.choices) == 4
    assert "yours for a day" in await house.press("Mod", card, "Take", moderator=True)
    (card,) = house.cards()
    assert "taken" in card.text and len(card.part.choices) == 4
    assert "dismissed, nothing was done" in await house.press("Mod", card, "Dismiss", moderator=True)
    assert await house.cases() == [(1, "scam", "closed", "dismissed")] and house.acts.done == []


async def test_what_acts_by_itself_does_so_within_its_ladder_and_brake(house: House) -> None:
    await house.set_level("scam", Level.ACT)
    ref = await offend(house)
    assert [(act.kind, act.message_ref) for act in house.acts.done] == [(ActKind.DELETE, ref)]
    ledger = "select approver from voidbot.sanctions where kind = 'strike'"
    assert str(await house.line.value(ledger)).startswith("rule:scam@v2 set to act by person:")
    # One outburst is one case and one strike, and its further messages go the same way.
    more = await offend(house)
    assert await house.line.value("select count(*) from voidbot.sanctions where kind = 'strike'") == 1
    assert {act.message_ref for act in house.acts.done} == {ref, more}
    assert "0" in await house.command("Root", "/void rules act:brake set:0")
    await offend(house, "Nyx")
    assert len(house.acts.done) == 2
    assert (await house.cases())[-1][2:] == ("open", "")


async def test_a_dry_run_does_nothing_and_says_what_it_would_have_been(house: House) -> None:
    await house.set_level("scam", Level.ACT)
    assert "Nothing is done" in await house.command("Root", "/void rules act:dry-run set:on")
    await offend(house)
    assert await house.cases() == [(1, "scam", "closed", "would_have_applied")]
    assert house.acts.done == [] and house.acts.looks == 0
    (card,) = house.cards()
    assert "it would have been: delete" in card.text and "done:" not in card.text
    assert await house.line.value("select count(*) from voidbot.sanctions") == 0


HELD_BACK = {
    "protected": Standing(there=True, protected=True, allowed=EVERY_ACT),
    "staff": Standing(there=True, staff=True, allowed=EVERY_ACT),
    "above_us": Standing(there=True, above_us=True, allowed=EVERY_ACT),
    "no_right": Standing(there=True),
}


async def test_what_the_present_speaks_against_goes_back_to_the_staff(house: House) -> None:
    await house.set_level("scam", Level.SUGGEST)
    for number, (why, standing) in enumerate(HELD_BACK.items(), 1):
        await offend(house, f"Vex{number}")
        house.acts.standing[f"vex{number}"] = standing
        step = f'/void cases act:decide id:{number} step:"timeout 1h"'
        assert "on its way" in await house.command("Mod", step, moderator=True)
        await house.line.quiet()
        assert house.acts.done == [] and (await house.cases())[-1][2:] == ("open", "")
        again = f"Case {number} waits for you again"
        assert any(again in text and f"({why})" in text for text in house.line.front_end.texts())


async def test_what_was_refused_is_no_strike_and_what_was_done_in_part_is_said_so(house: House) -> None:
    await house.set_level("scam", Level.SUGGEST)
    await offend(house)
    house.acts.standing["vex"] = Standing(there=True, above_us=True, allowed=EVERY_ACT)
    held = "select count(*) from voidbot.sanctions s where kind = 'strike' and not exists"
    counted = f"{held} (select 1 from voidbot.sanction_reversals r where r.sanction_id = s.id)"
    for step in ("timeout 1h", "kick"):
        await house.command("Mod", f'/void cases act:decide id:1 step:"{step}"', moderator=True)
        await house.line.quiet()
    assert await house.line.value(counted) == 0 and house.acts.done == []
    # What was said can still be deleted; who said it ranks too high for the rest.
    await house.command("Mod", '/void cases act:decide id:1 step:"delete + timeout 1h"', moderator=True)
    await house.line.quiet()
    assert [act.kind for act in house.acts.done] == [ActKind.DELETE]
    assert await house.line.value(counted) == 1
    (card,) = house.cards()[:1]
    assert "done in part, of delete + timeout 1h not: timeout: above_us" in card.text


async def test_what_was_refused_before_does_not_stand_in_the_way_of_a_warning(house: House) -> None:
    await house.set_level("scam", Level.SUGGEST)
    await offend(house)
    house.acts.standing["vex"] = Standing(there=True, staff=True, allowed=EVERY_ACT)
    await house.command("Mod", "/void cases act:decide id:1 step:kick", moderator=True)
    await house.line.quiet()
    assert "done: warn" in await house.command("Mod", "/void cases act:decide id:1 step:warn", moderator=True)
    await house.line.quiet()
    assert (await house.cases())[0][2:] == ("closed", "applied")


async def test_care_shows_somebody_and_does_nothing_to_them(house: House) -> None:
    house.acts.directs["vex"] = RoomKey("console", "dm:vex")
    await house.line.say("Vex", "i want to kill myself")
    await house.line.quiet()
    ((_, rule, status, _),) = await house.cases()
    (card,) = house.cards()
    assert (rule, status) == ("care", "open") and "no offence" in card.text
    assert [each.label for each in card.part.choices] == ["Context", "Take", "Dismiss"]
    for step in ("ban", "warn", "delete"):
        refused = await house.command("Mod", f"/void cases act:decide id:1 step:{step}", moderator=True)
        assert "asks for care" in refused
    await house.command("Mod", "/void cases act:decide id:1 step:note", moderator=True)
    await house.line.quiet()
    assert house.acts.done == [] and (await house.cases())[0][2:] == ("closed", "applied")
    assert not any(each.part.room.chat_ref == "dm:vex" for each in house.line.front_end.shown.values())


async def test_a_card_that_is_brought_up_to_date_shows_nothing_to_new_readers(house: House) -> None:
    await house.set_level("scam", Level.SUGGEST)
    await offend(house)
    (card,) = house.cards()
    assert "take this" in card.text
    await open_to(house.line, "lobby", "mara")
    await house.command("Mod", "/void cases act:dismiss id:1", moderator=True)
    await house.line.quiet()
    (card,) = house.cards()[:1]
    assert "dismissed" in card.text and "take this" not in card.text


async def test_what_only_the_bot_has_seen_is_no_breach(house: House) -> None:
    link = "https://dlscord.com/gift"
    await house.line.say("Vex", f"/search {link}", answer_token="private")
    await house.line.quiet()
    assert await house.cases() == []
    await house.line.say("Vex", f"/search {link}")  # where a command is a message that everybody reads
    await house.line.quiet()
    assert [rule for _, rule, _, _ in await house.cases()] == ["scam"]


async def test_where_a_platform_can_do_nothing_the_staff_is_told(fresh_dsn: str) -> None:
    async with open_house(fresh_dsn, front_end=RecordingFrontEnd(acts=False)) as house:
        await house.set_level("scam", Level.SUGGEST)
        await offend(house)
        await house.command("Mod", "/void cases act:decide id:1", moderator=True)
        await house.line.quiet()
        assert (await house.cases())[0][2:] == ("open", "")
        assert any("this platform cannot do it" in text for text in house.line.front_end.texts())


async def test_an_answer_that_is_lost_is_looked_up_and_nothing_is_done_twice(house: House) -> None:
    await house.set_level("scam", Level.SUGGEST)
    await offend(house)
    house.acts.lost = 1
    await house.command("Mod", "/void cases act:decide id:1", moderator=True)
    await house.line.quiet()
    assert len(house.acts.done) == 1 and (await house.cases())[0][2:] == ("closed", "applied")


@pytest.mark.parametrize("answer", [SendRefused("no_permission")])
async def test_what_the_platform_refuses_is_said_as_not_done(house: House, answer: ActResult) -> None:
    await house.set_level("scam", Level.SUGGEST)
    await offend(house)
    house.acts.results.append(answer)
    await house.command("Mod", "/void cases act:decide id:1", moderator=True)
    await house.line.quiet()
    assert (await house.cases())[0][2:] == ("closed", "failed")
    (card,) = house.cards()
    assert "not done: delete (delete: no_permission)" in card.text
    assert house.acts.done == []


async def test_a_member_is_told_what_was_done_and_how_to_appeal(house: House) -> None:
    await house.set_level("scam", Level.SUGGEST)
    house.acts.directs["vex"] = RoomKey("console", "dm:vex")
    await offend(house)
    why = 'reason:"programs are not welcome"'
    await house.command("Mod", f'/void cases act:decide id:1 step:"timeout 1h" {why}', moderator=True)
    await house.line.quiet()
    (act,) = house.acts.done
    assert (act.kind, act.account_ref, act.reason) == (ActKind.TIMEOUT, "vex", "VoidBot case 1, rule scam v2, by Mod")
    told = [each.text for each in house.line.front_end.shown.values() if each.part.room.chat_ref == "dm:vex"]
    assert len(told) == 1 and "timeout 1h" in told[0] and "programs are not welcome" in told[0]
    assert "/appeal" in told[0] and "take this" in told[0]


async def test_nobody_sees_a_case_about_themselves_and_members_see_none(house: House) -> None:
    await offend(house, "Mod")
    assert "no case 1 that you may see" in await house.command("Mod", "/void cases act:show id:1", moderator=True)
    assert "moderators" in await house.command("Wren", "/void cases")
    shown = await house.command("Ana", "/void cases act:show id:1", moderator=True)
    assert "scam" in shown and "waits for a decision" in shown


async def test_staff_and_machines_are_not_judged_by_code(house: House) -> None:
    await house.set_level("scam", Level.ACT)
    await offend(house, "Mod", moderator=True)
    await offend(house, "Root")
    assert await house.cases() == []
    await offend(house, "Proxy", origin=Origin.WEBHOOK)  # the words of Root, said again by a proxy service
    assert await house.cases() == []
    await house.say_by_webhook("a gift for all of you")
    assert await house.cases() == [(1, "scam", "open", "")] and house.acts.done == []
    (card,) = (each for each in house.cards() if "written by a webhook" in each.text)
    assert [each.label for each in card.part.choices] == ["Dismiss", "Context", "Take"]


async def test_who_floods_with_reactions_costs_nobody_a_message(house: House) -> None:
    await house.set_level("flood", Level.SUGGEST)
    said = house.line.message("Wren", "look at this")
    await house.line.app.receiver.accept(said)
    await house.line.say("Vex", "hello")
    for n in range(16):
        change = Reaction(ReactionChange.ADD if n % 2 == 0 else ReactionChange.REMOVE, ("👍",))
        await house.line.say("Vex", "", kind=MessageKind.REACTION, reply_to=said.message_id, reaction=change)
    await house.line.quiet()
    assert await house.cases() == [(1, "flood", "open", "")]
    await house.command("Mod", '/void cases act:decide id:1 step:"delete + timeout 1h"', moderator=True)
    await house.line.quiet()
    assert [(act.kind, act.account_ref) for act in house.acts.done] == [(ActKind.TIMEOUT, "vex")]


async def test_a_hand_made_sanction_counts_like_any_other(house: House) -> None:
    await house.line.say("Vex", "hello")
    told = await house.command(
        "Mod",
        '/void cases act:sanction member:Vex step:"timeout 1h" rule:flood reason:"three rooms at once"',
        moderator=True,
    )
    assert "Case 1" in told
    await house.line.quiet()
    assert [act.kind for act in house.acts.done] == [ActKind.TIMEOUT]
    assert await house.line.value("select count(*) from voidbot.sanctions where kind = 'strike'") == 1
    assert "rule: there is no rule nope" in await house.command(
        "Mod", "/void cases act:sanction member:Vex step:warn rule:nope reason:x", moderator=True
    )
