"""What others did on the platform: kept once, and a case that it has dealt with asks for nothing any more."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from core.domain.ids import RoomKey
from core.domain.moderation.acts import NativeAct, NativeKind
from core.domain.moderation.rules import Level
from core.moderation.natives import Natives
from tests.moderation.house import PROGRAM, House, open_house


@pytest.fixture
async def house(fresh_dsn: str) -> AsyncIterator[House]:
    async with open_house(fresh_dsn) as opened:
        await opened.set_level("scam", Level.SUGGEST)
        yield opened


async def act_of(house: House, kind: NativeKind, message_ref: str = "") -> NativeAct:
    ref = await house.line.value("select chat_ref from voidbot.communities order by id limit 1")
    return NativeAct(
        platform="console",
        community_ref=str(ref),
        event_ref=f"log:{kind}",
        kind=kind,
        account_ref="vex",
        at=house.line.clock.now(),
        by_ref="warden",
        by_bot=True,
        room=RoomKey("console", "lobby"),
        message_ref=message_ref,
    )


async def test_what_another_program_deleted_closes_the_case_and_its_card(house: House) -> None:
    message = house.line.message("Vex", "take it", attachments=(PROGRAM,))
    await house.line.app.receiver.accept(message)
    await house.line.quiet()
    natives = Natives(house.line.database)
    act = await act_of(house, NativeKind.DELETED, message.message_id)
    await natives.acted(act)
    await natives.acted(act)  # heard again after a gap
    await house.line.quiet()
    assert await house.cases() == [(1, "scam", "closed", "handled_natively")]
    assert await house.line.value("select count(*) from voidbot.native_acts") == 1
    (card,) = house.cards()
    assert "dealt with it already" in card.text and card.part.choices == () and house.acts.done == []


async def test_what_has_nothing_to_do_with_a_case_leaves_it_open(house: House) -> None:
    message = house.line.message("Vex", "take it", attachments=(PROGRAM,))
    await house.line.app.receiver.accept(message)
    await house.line.quiet()
    natives = Natives(house.line.database)
    await natives.acted(await act_of(house, NativeKind.DELETED, "another"))
    await natives.acted(await act_of(house, NativeKind.UNBANNED))
    await natives.acted(replace(await act_of(house, NativeKind.BANNED), community_ref="elsewhere"))
    await house.line.quiet()
    assert await house.cases() == [(1, "scam", "open", "")]


async def test_a_rule_does_not_act_on_whom_somebody_has_just_dealt_with(house: House) -> None:
    await house.set_level("scam", Level.ACT)
    await house.line.say("Vex", "good morning")
    await Natives(house.line.database).acted(await act_of(house, NativeKind.TIMED_OUT))
    await house.line.say("Vex", "take it", attachments=(PROGRAM,))
    await house.line.quiet()
    assert await house.cases() == [(1, "scam", "closed", "handled_natively")] and house.acts.done == []
