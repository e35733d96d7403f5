"""Files beside messages, fetched at both platforms over sockets: within the limit, from their own hosts, or not."""

from collections.abc import AsyncIterator

import pytest

from core.domain.errors import BotError, OutsideRefused, Unavailable
from core.domain.ids import RoomKey
from core.domain.messages import InboundMessage
from tests.doubles.discord_faults import FaultKind as DiscordFault
from tests.doubles.telegram_faults import FaultKind
from tests.doubles.telegram_server import TelegramServer
from tests.doubles.telegram_state import Chat, User
from tests.fakes import ManualClock
from tests.platform.discord_house import House, open_house
from tests.platform.telegram_line import Line, listening, make_line

LIMIT = 100_000


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with open_house() as opened:
        yield opened


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    async with (
        TelegramServer(privacy_mode=False, clock=ManualClock()) as telegram,
        listening(make_line(telegram)) as opened,
    ):
        yield opened


async def shown_file(house: House, data: bytes = b"picture") -> tuple[InboundMessage, str]:
    """Let Ada show a file; return the message as it came in, and the file's handle."""
    await house.server.say(house.ada, house.room, "", attachments=[("cat.png", data)])
    await house.count(1)
    return house.accepted[-1], house.accepted[-1].attachments[0].handle


def why(error: "pytest.ExceptionInfo[BotError]") -> object:
    return error.value.attributes["why"]


async def test_a_file_at_discord_is_fetched_by_a_new_link(house: House) -> None:
    async with house.running() as chat:
        message, handle = await shown_file(house)
        assert await chat.fetch(message.room, handle, LIMIT) == b"picture"


async def test_an_expired_link_at_discord_is_refused(house: House) -> None:
    async with house.running() as chat:
        message, handle = await shown_file(house)
        house.server.cdn.link_life = -1.0
        with pytest.raises(OutsideRefused) as error:
            await chat.fetch(message.room, handle, LIMIT)
    assert why(error) == "status 404"


async def test_a_file_over_the_limit_is_not_read_to_its_end(house: House) -> None:
    async with house.running() as chat:
        message, handle = await shown_file(house, b"x" * (LIMIT + 1))
        with pytest.raises(OutsideRefused) as error:
            await chat.fetch(message.room, handle, LIMIT)
    assert why(error) == "over the 97 KB limit"


async def test_a_file_goes_with_its_message(house: House) -> None:
    async with house.running() as chat:
        message, handle = await shown_file(house)
        await house.server.delete(house.server.messages(house.room)[-1])
        with pytest.raises(OutsideRefused) as error:
            await chat.fetch(message.room, handle, LIMIT)
    assert why(error) == "its message is gone"


@pytest.mark.parametrize("handle", ["", "x", "1/2/3", "../../users/@me"])
async def test_a_handle_of_another_room_asks_the_platform_nothing(house: House, handle: str) -> None:
    async with house.running() as chat:
        before = len(house.server.calls)
        with pytest.raises(OutsideRefused):
            await chat.fetch(RoomKey("discord", str(house.room.id)), handle, LIMIT)
        assert len(house.server.calls) == before


@pytest.mark.long
async def test_discord_being_down_is_no_refusal(house: House) -> None:
    async with house.running() as chat:
        message, handle = await shown_file(house)
        house.server.fault(DiscordFault.STATUS_BEFORE, times=5, match="GET /channels/*/messages/*", status=500)
        with pytest.raises(Unavailable):
            await chat.fetch(message.room, handle, LIMIT)


async def test_a_file_at_telegram_is_fetched_by_its_id(line: Line) -> None:
    ann, group = people(line)
    await line.telegram.send_photo(ann, group, content=b"picture")
    (message,) = await line.heard(1)
    assert await line.chat.fetch(message.room, message.attachments[0].handle, LIMIT) == b"picture"


def people(line: Line) -> tuple[User, Chat]:
    return line.telegram.add_user("Ann", "ann"), line.telegram.add_group("Garden", "supergroup")


async def test_large_file_becomes_a_note(line: Line) -> None:
    ann, group = people(line)
    await line.telegram.send_document(ann, group, "film.mp4", b"x", size=21 * 2**20)
    (message,) = await line.heard(1)
    assert "over the 20 MB" in message.attachments[0].note
    with pytest.raises(OutsideRefused) as error:
        await line.chat.fetch(message.room, message.attachments[0].handle, 10**9)
    assert why(error) == "over the 20 MB that bots may fetch"


async def test_a_file_that_claims_too_little_is_cut_off(line: Line) -> None:
    ann, group = people(line)
    await line.telegram.send_document(ann, group, "a.png", b"x" * (LIMIT + 1), size=10)
    (message,) = await line.heard(1)
    with pytest.raises(OutsideRefused) as error:
        await line.chat.fetch(message.room, message.attachments[0].handle, LIMIT)
    assert why(error) == "over the 97 KB limit"


async def test_an_unknown_file_at_telegram_is_refused(line: Line) -> None:
    with pytest.raises(OutsideRefused) as error:
        await line.chat.fetch(RoomKey("telegram", "1"), "no-such-file", LIMIT)
    assert why(error) == "it is gone"


async def test_telegram_being_down_is_no_refusal_and_tells_no_token(line: Line) -> None:
    line.telegram.fault(FaultKind.STATUS_BEFORE, match="getFile", status=502)
    with pytest.raises(Unavailable) as error:
        await line.chat.fetch(RoomKey("telegram", "1"), "any", LIMIT)
    assert line.telegram.token not in f"{error.value} {error.value.__cause__!r}"
