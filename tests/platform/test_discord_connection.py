"""The connection to Discord: gaps are read, starts are counted, and nothing that breaks ends it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from bot.adapters.discord_catchup import TRIES, CatchUp
from bot.adapters.discord_gateway import STARTS_ALARM, STARTS_LIMIT
from bot.adapters.discord_rest import Rest
from core.domain.ids import RoomKey
from core.domain.messages import MessageKind
from core.domain.platforms import CatchUpLimits, LastHeard
from core.domain.rooms import RoomKind
from tests.doubles.discord_words import Intent, Permission
from tests.fakes import ManualClock
from tests.platform.discord_house import House, open_house, part


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with open_house() as opened:
        yield opened


async def hear_something(house: House) -> None:
    """Let one run hear one message in the room, so that there is a last one."""
    async with house.running():
        await house.server.say(house.ada, house.room, "before")
        await house.heard("before")


@pytest.mark.field("F034")
async def test_restart_reads_the_gap(house: House) -> None:
    await hear_something(house)
    for text in ("one", "two", "three"):
        await house.server.say(house.ada, house.room, text)
    async with house.running():
        await house.heard("three")
        await house.server.say(house.ada, house.room, "after")
        await house.heard("after")
    assert house.texts() == ["before", "one", "two", "three", "after"]
    assert [one.live for one in house.said()] == [True, False, False, False, True]


@pytest.mark.field("F034")
async def test_thirty_messages_in_three_rooms_are_read_oldest_first(house: House) -> None:
    rooms = [house.room, house.guild.add_channel("two"), house.guild.add_channel("three")]
    async with house.running():
        for room in rooms:
            await house.server.say(house.ada, room, "start")
        await house.count(3)
    for number in range(30):
        await house.server.say(house.ada, rooms[number % 3], f"n{number}")
    async with house.running():
        await house.count(33)
    for index, room in enumerate(rooms):
        heard = [one.text for one in house.said() if one.room.chat_ref == str(room.id)]
        assert heard == ["start", *(f"n{number}" for number in range(index, 30, 3))]


async def test_what_was_deleted_or_edited_in_a_gap_is_learned(house: House) -> None:
    said = [await house.server.say(house.ada, house.room, f"n{number}") for number in range(130)]
    await hear_something(house)
    house.memory.kept = {RoomKey("discord", str(house.room.id)): [str(one.id) for one in reversed(said)]}
    await house.server.bulk_delete([said[3], said[100]])
    await house.server.edit(said[50], "other words")
    async with house.running() as chat:
        await house.heard("other words")
        await house.server.until(lambda: bool(house.said(MessageKind.DELETE)))
        assert chat.counts["catch_up.missed_deletions"] == 2
    (missed,) = house.said(MessageKind.DELETE)
    assert {missed.message_id, *missed.more_refs} == {str(said[3].id), str(said[100].id)} and not missed.live
    assert [one.message_id for one in house.said(MessageKind.EDIT)] == [str(said[50].id)]


async def test_of_a_gap_the_newest_questions_of_each_are_answered(house: House) -> None:
    await hear_something(house)
    people = [house.ada, *(house.guild.add_member(name) for name in ("Bea", "Cem"))]
    for number in range(9):
        await house.server.say(people[min(number, 6) % 3], house.room, f"{house.server.bot.mention} q{number}")
    async with house.running():
        await house.heard("@voidbot q8")
        await house.server.until(lambda: bool(house.memory.values.get("discord:catch_up")))
    chosen = [one.text[-2:] for one in house.said() if one.addressed_by and not one.passed_over]
    assert chosen == ["q4", "q5", "q6", "q7", "q8"]
    assert "9 read" in house.memory.values["discord:catch_up"]


@pytest.mark.field("F033")
async def test_resume_loses_and_doubles_nothing(house: House) -> None:
    told: list[str] = []
    house.before_accept = lambda message: told.append(message.text)
    async with house.running():
        house.server.fault("duplicate_event", match="MESSAGE_CREATE")
        await house.server.say(house.ada, house.room, "before")
        await house.heard("before")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(house.server.drop())
            await asyncio.sleep(0)  # cut, and nobody has noticed yet
            for text in ("one", "two"):
                await house.server.say(house.ada, house.room, text)
        await house.server.until(lambda: house.server.resumes == 1)
        await house.heard("two")
    assert house.texts() == ["before", "one", "two"] and all(one.live for one in house.said())
    assert told == ["before", "before", "one", "two"]  # twice by order of the test, and not once more


@pytest.mark.field("F034")
async def test_an_outage_that_no_resume_bridges_is_read_back(house: House) -> None:
    async with house.running():
        await house.server.say(house.ada, house.room, "before")
        await house.heard("before")
        house.server.pause_gateway()
        await house.server.drop()
        for text in ("one", "two"):
            await house.server.say(house.ada, house.room, text)
        await house.server.until(lambda: house.server.refused_connections > 0)
        house.server.resume_gateway()
        await house.heard("two")
    assert house.texts() == ["before", "one", "two"]


@pytest.mark.field("F033")
async def test_invalid_session_catches_up_once(house: House) -> None:
    async with house.running():
        await house.server.say(house.ada, house.room, "before")
        await house.heard("before")
        house.server.pause_gateway()
        await house.server.invalidate(resumable=False)
        await house.server.say(house.ada, house.room, "missed")
        house.server.resume_gateway()
        await house.heard("missed")
        await house.server.say(house.ada, house.room, "after")
        await house.heard("after")
    assert house.texts() == ["before", "missed", "after"]
    assert house.server.identifies == 2


async def test_catchup_order_and_missing_permission(house: House) -> None:
    closed = house.guild.add_channel("closed")
    async with house.running():
        for room in (house.room, closed):
            await house.server.say(house.ada, room, "start")
        await house.count(2)
    await house.server.set_overwrite(closed, house.guild.me, deny=Permission.READ_MESSAGE_HISTORY)
    for room in (house.room, closed):
        for number in range(3):
            await house.server.say(house.ada, room, f"n{number} in {room.name}")
    async with house.running() as chat:
        await house.heard("n2 in general")
        await house.server.until(lambda: chat.counts["catch_up.no_permission"] == 1)
    assert house.texts()[2:] == ["n0 in general", "n1 in general", "n2 in general"]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (CatchUpLimits(room=5), 5),
        (CatchUpLimits(start=7), 7),
        (CatchUpLimits(age=timedelta(minutes=-1)), 0),
        (CatchUpLimits(room=150), 130),
    ],
)
async def test_a_gap_is_read_within_its_caps(house: House, limits: CatchUpLimits, expected: int) -> None:
    await hear_something(house)
    for number in range(130):
        await house.server.say(house.ada, house.room, f"n{number}")
    house.limits = limits
    async with house.running():
        await house.server.until(lambda: len(house.said()) == 1 + expected and not house.memory.gaps)
        await house.server.say(house.ada, house.room, "after")
        await house.heard("after")
    assert house.texts() == ["before", *(f"n{number}" for number in range(expected)), "after"]


@pytest.mark.parametrize(
    ("kind", "times", "more"),
    [
        ("status_before", 1, {"status": 503}),
        ("cut_after", 2, {}),  # the client repeats a cut on a connection that was open before by itself
        ("unannounced_429", 1, {"retry_after": 2.1}),
    ],
    ids=["5xx", "cut", "429"],
)
async def test_a_page_that_fails_is_asked_for_again(house: House, kind: str, times: int, more: dict[str, Any]) -> None:
    await hear_something(house)
    for number in range(130):
        await house.server.say(house.ada, house.room, f"n{number}")
    house.server.fault(kind, times, "GET */messages", skip=1, **more)
    async with house.running() as chat:
        await house.heard("n129")
        assert chat.counts["catch_up.again"] == 1 and not chat.counts["catch_up.failed"]
    assert house.texts() == ["before", *(f"n{number}" for number in range(130))]


async def test_a_page_that_never_comes_is_given_up_and_counted() -> None:
    clock = ManualClock()
    catch_up = CatchUp(Rest(), CatchUpLimits(), clock, again_s=0.001)  # nobody has logged in, so nothing can be read
    handed_in: list[object] = []

    async def hand_in(message: object) -> None:
        handed_in.append(message)

    async def gone() -> None:
        handed_in.append("gone")

    room = RoomKey("discord", "123456789012345678")
    await catch_up.read(LastHeard(room, "", None), hand_in, gone)
    assert catch_up.counts == {"again": TRIES - 1, "failed": 1} and not handed_in


async def test_a_refused_page_is_not_asked_for_again(house: House) -> None:
    await hear_something(house)
    await house.server.say(house.ada, house.room, "missed")
    house.server.fault("status_before", match="GET */messages", status=403)
    async with house.running() as chat:
        await house.server.until(lambda: chat.counts["catch_up.refused"] == 1)
        assert not chat.counts["catch_up.again"]


async def test_a_direct_room_that_is_gone_is_forgotten(house: House) -> None:
    key = RoomKey("discord", "123456789012345678")
    house.memory.last[key] = LastHeard(key, "123456789012345679", house.clock.now(), RoomKind.DM)
    async with house.running():
        await house.server.until(lambda: bool(house.memory.told))
    assert house.memory.told == [("room gone", key)]


async def test_direct_rooms_are_read_back_too(house: House) -> None:
    direct = house.server.dm(house.ada)
    async with house.running():
        await house.server.say(house.ada, direct, "before")
        await house.heard("before")
    await house.server.say(house.ada, direct, "missed")
    async with house.running():
        await house.heard("missed")
    assert [one.live for one in house.said()] == [True, False]


async def test_a_room_of_another_shard_is_not_taken_for_a_direct_room(house: House) -> None:
    other = house.server.add_guild("Second")
    room, bob = other.add_channel("there"), other.add_member("Bob")
    async with house.running():
        await house.server.say(bob, room, "before")
        await house.heard("before")
        await house.server.say(house.ada, house.room, "before, too")
        await house.heard("before, too")
    await house.server.say(bob, room, "elsewhere")
    await house.server.say(house.ada, house.room, "missed")
    house.shard_ids, house.shard_count = (0,), 2
    async with house.running(ready=False):
        await house.heard("missed")
        await house.server.say(house.ada, house.room, "after")
        await house.heard("after")
    assert not house.server.called("GET", f"/channels/{room.id}/messages")
    assert house.texts() == ["before", "before, too", "missed", "after"]


async def test_catchup_ignores_interactions(house: House) -> None:
    async with house.running():
        await house.server.until(lambda: None in house.server.commands)
        await house.server.say(house.ada, house.room, "before")
        await house.heard("before")
    used = await house.server.slash(house.ada, house.room, "help")
    await house.server.say(house.ada, house.room, "missed")
    async with house.running():
        await house.heard("missed")
    assert not used.acked and not house.said(MessageKind.COMMAND)


async def test_a_message_while_the_gap_is_looked_up_does_not_hide_it(house: House) -> None:
    await hear_something(house)
    await house.server.say(house.ada, house.room, "missed")
    house.memory.down = True
    async with house.running(ready=False):
        await house.server.until(lambda: house.server.refused_connections == 0 and house.server.identifies <= 2)
        house.memory.down = False
        await house.server.until(lambda: house.server.connected)
        await house.server.say(house.ada, house.room, "at once")
        await house.heard("missed")
        await house.heard("at once")


async def test_gateway_down_at_start(house: House) -> None:
    house.server.fault("gateway_down")
    async with house.running():
        await house.server.say(house.ada, house.room, "hello")
        await house.heard("hello")
    assert house.server.refused_connections == 1 and not house.alerts


@pytest.mark.parametrize("code", [1000, 4000, 4009])
async def test_closed_connections_are_made_again(house: House, code: int) -> None:
    async with house.running():
        await house.server.close(code)
        await house.server.until(lambda: house.server.resumes + house.server.identifies > 1)
        await house.server.until(lambda: house.server.connected)
        await house.server.say(house.ada, house.room, "hello")
        await house.heard("hello")


async def test_missing_intent_degrades(house: House) -> None:
    house.server.privileged_intents = Intent(0)
    async with house.running() as chat:
        await house.server.say(house.ada, house.room, f"{house.server.bot.mention} hello")
        await house.heard("@voidbot hello")
        await chat.send(part(house.room, "hi"))
        assert house.shown()[-1] == "hi"
    assert len(house.alerts) == 2 and "Message Content" in house.alerts[0] and "Server Members" in house.alerts[1]
    assert house.server.identifies == 2
    assert not house.memory.newest(str(house.guild.id)).members_known


async def test_a_refused_token_is_said_once_and_tried_no_more(house: House) -> None:
    house.server.fault("refuse_identify", close_code=4004)
    async with house.running(ready=False):
        await house.server.until(lambda: bool(house.alerts))
    assert house.server.identifies == 1 and "DISCORD_TOKEN" in house.alerts[0]


async def test_a_token_that_never_worked_is_said_once(house: House) -> None:
    house.server.token = "MTA.another.of-a-bot-token"
    async with house.running(ready=False) as chat:
        await house.server.until(lambda: bool(house.alerts))
        assert chat.silent_s() is not None
    assert house.server.identifies == 0 and house.server.token not in house.alerts[0]


async def test_crash_loop_spares_identify(house: House) -> None:
    account = f"discord:{house.server.bot.id}"
    house.memory.starts[account] = STARTS_ALARM - 1
    async with house.running():
        pass
    assert len(house.alerts) == 1 and str(STARTS_ALARM) in house.alerts[0]
    house.memory.starts[account] = STARTS_LIMIT
    house.alerts.clear()
    async with house.running(ready=False):
        await house.server.until(lambda: bool(house.alerts))
    assert house.server.identifies == 1


async def test_a_start_that_nobody_counts_is_not_made(house: House) -> None:
    async with house.running():
        pass
    house.memory.down = True
    async with house.running(ready=False):
        await house.server.until(lambda: len(house.server.called("GET", "/gateway/bot")) == 2)
        house.memory.down = False
        await house.server.until(lambda: house.server.identifies == 2)


async def test_silence_is_measured(house: House) -> None:
    async with house.running() as chat:
        await house.clock.advance(100)
        await house.server.say(house.ada, house.room, "hello")
        await house.heard("hello")
        heard = chat.silent_s()
        await house.clock.advance(300)
        later = chat.silent_s()
    assert heard is not None and later is not None
    assert heard < 100 and later >= 300
    assert house.chat().silent_s() is None


async def test_outage_is_not_leaving(house: House) -> None:
    async with house.running():
        await house.server.outage(house.guild)
        await house.server.recover(house.guild)
        await house.server.say(house.ada, house.room, "back")
        await house.heard("back")
    assert not house.memory.told


async def test_being_removed_closes_the_community(house: House) -> None:
    async with house.running():
        await house.server.remove_bot(house.guild)
        await house.server.until(lambda: bool(house.memory.told))
    assert house.memory.told == [("community gone", str(house.guild.id))]


@pytest.mark.parametrize("when", ["before the start", "while running"])
async def test_a_removal_while_nobody_listened_is_noticed(house: House, when: str) -> None:
    left = house.server.add_guild("Left behind") if when == "before the start" else None
    async with house.running():
        left = left or house.server.add_guild("Left behind")
        await house.server.until(lambda: any(str(left.id) in value for value in house.memory.values.values()))
    await house.server.remove_bot(left)
    async with house.running():
        await house.server.until(lambda: bool(house.memory.told))
    assert house.memory.told == [("community gone", str(left.id))]


async def test_two_shard_ranges_one_room_each(house: House) -> None:
    other = house.server.add_guild("Second")
    room, bob = other.add_channel("there"), other.add_member("Bob")
    house.shard_ids, house.shard_count = (1,), 2
    async with house.running(ready=False):
        await house.server.until(lambda: len(house.memory.reports) == 1)
        await house.server.say(house.ada, house.room, "not mine")
        await house.server.say(bob, room, "mine")
        await house.heard("mine")
    assert house.texts() == ["mine"]


@pytest.mark.field("F022")
async def test_reconnects_resume_instead_of_starting_anew(house: House) -> None:
    async with house.running():
        for number in range(1, 4):
            await house.server.reconnect()
            await house.server.until(lambda number=number: house.server.resumes == number)
    assert house.server.identifies == 1


async def test_readers_are_doubted_at_each_new_session_before_they_are_told_anew(house: House) -> None:
    async with house.running():
        assert house.memory.doubted == [None, [str(house.guild.id)]]
        await house.server.invalidate(resumable=False)
        await house.server.until(lambda: len(house.memory.doubted) == 3)
    assert house.memory.doubted[2] == [str(house.guild.id)]


async def test_a_gap_is_noted_until_it_is_read(house: House) -> None:
    async with house.running():
        first = await house.server.say(house.ada, house.room, "before")
        await house.heard("before")
    await house.server.say(house.ada, house.room, "missed")
    noted: list[dict[RoomKey, str]] = []
    house.before_accept = lambda message: noted.append(dict(house.memory.gaps))
    async with house.running(ready=False):
        await house.heard("missed")
        await house.server.until(lambda: not house.memory.gaps)
    assert noted[0] == {RoomKey("discord", str(house.room.id)): str(first.id)}
