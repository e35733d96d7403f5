"""A process that ends anywhere around an act: it is done once, and its case says so."""

from collections.abc import AsyncIterator

import pytest

from core.domain.errors import Unavailable
from core.domain.moderation.acts import ActKind
from core.domain.moderation.rules import Level
from tests.fakes import ManualClock
from tests.flows.line import until, wait_over
from tests.moderation.house import PROGRAM, House, open_house

STEPS = {
    "delete": ActKind.DELETE,
    "timeout 1h": ActKind.TIMEOUT,
    "kick": ActKind.KICK,
    "ban": ActKind.BAN,
}


class Ends:
    """What ends work at a point, once each time that it is armed."""

    def __init__(self) -> None:
        self.at = ""

    def __call__(self, point: str) -> None:
        if point == self.at:
            self.at = ""
            raise Unavailable("the process ended here")


@pytest.fixture
def ends() -> Ends:
    return Ends()


@pytest.fixture
async def house(fresh_dsn: str, clock: ManualClock, ends: Ends) -> AsyncIterator[House]:
    async with open_house(fresh_dsn, clock=clock, fault=ends, dead_after_s=600.0) as opened:
        await opened.set_level("scam", Level.SUGGEST)
        yield opened


async def settled(house: House, clock: ManualClock) -> None:
    """Let every try come, until nothing is left to do."""

    async def idle() -> bool:
        await wait_over(house.line, clock)
        left = await house.line.value("select (select count(*) from queue.job) + (select count(*) from queue.later)")
        return left == 0

    await until(idle)


@pytest.mark.parametrize("point", ["act.begun", "act.looked", "act.done"])
async def test_an_act_is_done_once_wherever_its_process_ends(
    house: House, clock: ManualClock, ends: Ends, point: str
) -> None:
    for number, (step, kind) in enumerate(STEPS.items(), 1):
        await house.line.say(f"Vex{number}", "take it", attachments=(PROGRAM,))
        await house.line.quiet()
        ends.at = point
        await house.line.say("Mod", f'/void cases act:decide id:{number} step:"{step}"', "workshop", moderator=True)
        await settled(house, clock)
        assert ends.at == ""
        assert [act.kind for act in house.acts.done][number - 1 :] == [kind], step
        assert (await house.cases())[-1][2:] == ("closed", "applied"), step


async def test_what_is_taken_back_while_nobody_knows_whether_it_was_done_is_undone(
    house: House, clock: ManualClock, ends: Ends
) -> None:
    await house.line.say("Vex", "take it", attachments=(PROGRAM,))
    await house.line.quiet()
    ends.at = "act.done"
    await house.line.say("Mod", "/void cases act:decide id:1 step:ban", "workshop", moderator=True)
    await until(lambda: ends.at == "")
    await house.line.say("Ana", "/void cases act:undo id:1", "workshop", moderator=True)
    await settled(house, clock)
    assert not house.acts.standing["vex"].banned
    assert [act.kind for act in house.acts.done] == [ActKind.BAN, ActKind.UNBAN]
    assert await house.cases() == [(1, "scam", "closed", "reversed")]


async def test_what_was_edited_into_something_harmless_is_left_to_the_staff(
    house: House, clock: ManualClock, ends: Ends
) -> None:
    await house.set_level("scam", Level.ACT)
    ends.at = "act.begun"
    said = house.line.message("Vex", "free gifts at https://dlscord.com/gift")
    await house.line.app.receiver.accept(said)
    await until(lambda: ends.at == "")
    await house.edit(said, "never mind")
    await settled(house, clock)
    assert house.acts.done == [] and await house.cases() == [(1, "scam", "open", "")]
    assert any("says something else now" in text for text in house.line.front_end.texts())


@pytest.mark.parametrize("begun", [False, True])
async def test_what_no_try_could_do_is_said_with_what_is_known(
    house: House, clock: ManualClock, ends: Ends, begun: bool
) -> None:
    await house.line.say("Vex", "take it", attachments=(PROGRAM,))
    await house.line.quiet()
    house.acts.down = not begun
    if begun:  # it was called, nobody heard the answer, and from then on the platform is gone
        house.acts.lost, house.acts.gone_after = 1, True
    await house.line.say("Mod", '/void cases act:decide id:1 step:"timeout 1h"', "workshop", moderator=True)
    await settled(house, clock)
    assert (await house.cases())[0][2:] == ("closed", "failed") and len(house.acts.done) == int(begun)
    (card,) = house.cards()[:1]
    why = "nobody can tell whether it was done" if begun else "unreachable"
    assert f"not done: timeout 1h (timeout: {why})" in card.text
    assert "it does not answer" not in " ".join(house.line.front_end.texts())
    counted = "select count(*) from voidbot.sanctions s where not exists (select 1 from voidbot.sanction_reversals r"
    held = await house.line.value(f"{counted} where r.sanction_id = s.id)")
    assert held == (2 if begun else 0)  # what may have been done counts
