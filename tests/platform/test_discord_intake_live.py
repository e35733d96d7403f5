"""What people do at Discord arrives as inbound messages, through the real library and real sockets."""

from collections.abc import AsyncIterator

import pytest

from core.domain.messages import Address, Origin
from core.domain.rooms import RoomKind
from tests.platform.discord_house import House, open_house


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with open_house() as opened:
        yield opened


async def test_a_mention_is_handed_in_with_readable_names(house: House) -> None:
    async with house.running():
        await house.server.say(house.ada, house.room, f"{house.server.bot.mention} where is {house.room.mention}?")
        message = await house.heard("@voidbot where is #general?")
    assert message.addressed_by == {Address.MENTION}
    assert (message.person_ref, message.display_name, message.origin) == (str(house.ada.id), "Ada", Origin.HUMAN)
    assert message.surroundings is not None
    about = message.surroundings
    assert (about.community_ref, about.community_name) == (str(house.guild.id), "Workshop")
    assert (about.kind, about.name) == (RoomKind.CHANNEL, "general")
    assert not message.admin and message.live and not message.text_hidden
