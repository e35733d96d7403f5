"""The Discord double's gateway, seen through the real client library."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import aiohttp
import discord
import pytest

from tests.doubles.discord_faults import FaultKind
from tests.doubles.discord_library import Listener, Place, ShardedListener, open_place, running
from tests.doubles.discord_words import Intent, Permission


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with open_place() as opened:
        yield opened


async def test_a_message_and_its_answer_make_a_round_trip(place: Place) -> None:
    async with running(place.server, Listener()) as client:
        said = await place.server.say(place.ada, place.room, f"hello {place.server.bot.mention}")
        await place.server.until(lambda: len(client.texts()) == 1)
        heard = client.events("message")[0]
        await heard.reply("hello Ada")
        await place.server.until(lambda: len(client.texts()) == 2)
    echo = client.events("message")[1]
    assert (heard.id, heard.author.id, heard.guild.id) == (said.id, place.ada.id, place.guild.id)
    assert heard.mentions[0].id == place.server.bot.id
    assert echo.author.id == place.server.bot.id and echo.reference.message_id == said.id
    assert place.texts()[1] == "hello Ada"
    assert abs(heard.created_at - place.clock.now()) < timedelta(seconds=30)


async def test_ids_tell_when_a_message_was_written(place: Place) -> None:
    long_ago = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    async with running(place.server, Listener()) as client:
        await place.server.say(place.ada, place.room, "old news", sent_at=long_ago)
        await place.server.until(lambda: client.texts() == ["old news"])
    assert client.events("message")[0].created_at == long_ago


async def test_resume_replays_exactly_what_was_missed(place: Place) -> None:
    async with running(place.server, Listener()) as client:
        await place.server.say(place.ada, place.room, "before")
        await place.server.until(lambda: client.texts() == ["before"])
        place.server.pause_gateway()
        await place.server.drop()
        for text in ("one", "two", "three"):
            await place.server.say(place.ada, place.room, text)
        place.server.resume_gateway()
        await place.server.until(lambda: len(client.events("resumed")) == 1)
        await place.server.say(place.ada, place.room, "after")
        await place.server.until(lambda: "after" in client.texts())
    assert client.texts() == ["before", "one", "two", "three", "after"]
    assert (place.server.identifies, place.server.resumes) == (1, 1)


async def test_a_refused_resume_loses_what_was_missed(place: Place) -> None:
    async with running(place.server, Listener()) as client:
        place.server.fault(FaultKind.REFUSE_RESUME)
        place.server.pause_gateway()
        await place.server.drop()
        await place.server.say(place.ada, place.room, "missed")
        place.server.resume_gateway()
        await place.server.until(lambda: place.server.identifies == 2 and len(client.events("ready")) == 2)
        await place.server.say(place.ada, place.room, "after")
        await place.server.until(lambda: bool(client.texts()))
    assert client.texts() == ["after"]


async def test_reconnect_and_a_resumable_session_are_resumed(place: Place) -> None:
    async with running(place.server, Listener()) as client:
        await place.server.reconnect()
        await place.server.until(lambda: len(client.events("resumed")) == 1)
        await place.server.invalidate(resumable=True)
        await place.server.until(lambda: len(client.events("resumed")) == 2)
        await place.server.close(4000)
        await place.server.until(lambda: len(client.events("resumed")) == 3)
        await place.server.invalidate(resumable=False)
        await place.server.until(lambda: len(client.events("ready")) == 2)
    assert place.server.identifies == 2


async def test_a_client_that_says_goodbye_leaves_no_session(place: Place) -> None:
    identify = {"op": 2, "d": {"token": place.server.token, "intents": 1}}
    async with aiohttp.ClientSession() as http, http.ws_connect(place.server.gateway_url) as socket:
        await socket.send_json(identify)
        await place.server.until(lambda: [one.connected for one in place.server.sessions] == [True])
        await socket.close(code=1000)
    await place.server.until(lambda: place.server.sessions == [])


async def test_the_library_leaves_its_session_behind(place: Place) -> None:
    async with running(place.server, Listener()):
        pass
    await place.server.until(lambda: [one.connected for one in place.server.sessions] == [False])


async def test_frames_that_the_double_cannot_read_are_noted(place: Place) -> None:
    async with aiohttp.ClientSession() as http, http.ws_connect(place.server.gateway_url) as socket:
        await socket.send_str("no JSON")
        await place.server.until(lambda: bool(place.server.unimplemented))
    place.server.unimplemented.clear()


async def test_intents_that_were_not_granted_close_with_4014(place: Place) -> None:
    place.server.privileged_intents = Intent.GUILD_MEMBERS
    async with running(place.server, Listener()) as client:
        await place.server.until(lambda: client.ended_by is not None)
    assert isinstance(client.ended_by, discord.PrivilegedIntentsRequired)


async def test_wrong_identifications_close_with_their_codes(place: Place) -> None:
    unknown = discord.Intents._from_value(1 << 30)
    clients = {4010: Listener(shard_id=3, shard_count=2), 4013: Listener(unknown), 4004: Listener()}
    for code, client in clients.items():
        if code == 4004:
            place.server.identifies_per_day = 2
        async with running(place.server, client):
            await place.server.until(lambda client=client: client.ended_by is not None)
        assert isinstance(client.ended_by, discord.ConnectionClosed) and client.ended_by.code == code


async def test_a_wrong_token_is_a_login_failure(place: Place) -> None:
    async with running(place.server, Listener()) as client:
        other = Listener()
        await other.run_with("somebody else's")
        await other.close()
        assert isinstance(other.ended_by, discord.LoginFailure)
    assert client.ended_by is None and place.server.invalid_answers == 1


async def test_without_the_content_intent_only_what_is_meant_for_the_bot_has_text(place: Place) -> None:
    place.server.privileged_intents = Intent.GUILD_MEMBERS | Intent.GUILD_PRESENCES
    intents = discord.Intents(guilds=True, messages=True)
    async with running(place.server, Listener(intents)) as client:
        mine = await (await place.seen(client)).send("my own")
        target = place.room.messages[mine.id]
        await place.server.say(place.ada, place.room, "between us", attachments=[("a.txt", b"a")])
        await place.server.say(place.ada, place.room, "no ping", reply_to=target, ping=False)
        await place.server.say(place.ada, place.room, "with ping", reply_to=target)
        await place.server.say(place.ada, place.server.dm(place.ada), "in private")
        await place.server.until(lambda: len(client.texts()) == 5)
        read = [message.content async for message in (await place.seen(client)).history(oldest_first=True)]
    assert client.texts() == ["my own", "", "", "with ping", "in private"]
    assert client.events("message")[1].attachments == []
    assert read == ["my own", "", "", "with ping"]


async def test_events_need_their_intent(place: Place) -> None:
    async with running(place.server, Listener(discord.Intents(guilds=True, guild_messages=True))) as client:
        await place.server.join(place.guild, "Bob")
        await place.server.say(place.ada, place.server.dm(place.ada), "private")
        await place.server.react(place.ada, await place.server.say(place.ada, place.room, "public"), "👍")
        await place.server.until(lambda: len(client.events("message")) == 1)
        await place.server.say(place.ada, place.room, "last")
        await place.server.until(lambda: len(client.events("message")) == 2)
    assert not client.events("member_join") and not client.events("raw_reaction_add")


async def test_members_come_in_chunks(place: Place) -> None:
    place.server.members_per_chunk = 100
    for number in range(260):
        place.guild.add_member(f"Member {number}")
    async with running(place.server, Listener()) as client:
        guild = client.guilds[0]
        assert len(guild.members) == len(place.guild.members) == 263
        assert [one.id for one in await guild.query_members("ada")] == [place.ada.id]
        assert [one.id for one in await guild.query_members(user_ids=[place.ada.id])] == [place.ada.id]


async def test_each_shard_hears_of_its_own_guilds(place: Place) -> None:
    second = place.server.add_guild("Second")
    other = second.add_channel("other")
    bob = second.add_member("Bob")
    low = ShardedListener(shard_count=2, shard_ids=[0])
    high = ShardedListener(shard_count=2, shard_ids=[1])
    async with running(place.server, low), running(place.server, high):
        await place.server.say(place.ada, place.room, "first guild")
        await place.server.say(bob, other, "second guild")
        await place.server.say(bob, place.server.dm(bob), "direct")
        await place.server.until(lambda: len(low.texts()) == 2 and len(high.texts()) == 1)
    assert (low.texts(), high.texts()) == (["first guild", "direct"], ["second guild"])
    assert ([guild.name for guild in low.guilds], [guild.name for guild in high.guilds]) == (["Workshop"], ["Second"])


async def test_the_number_of_shards_is_asked_for(place: Place) -> None:
    place.server.shards = 2
    async with running(place.server, ShardedListener()) as client:
        assert client.shard_count == 2
        assert {session.shard for session in place.server.sessions} == {0, 1}
        limits = await client.fetch_session_start_limits()
    assert (limits.total, limits.remaining) == (1000, 998)


async def test_events_of_shards_change_places(place: Place) -> None:
    second = place.server.add_guild("Second")
    other, bob = second.add_channel("other"), second.add_member("Bob")
    async with running(place.server, ShardedListener(shard_count=2)) as client:
        place.server.fault(FaultKind.LATE_EVENT, match="MESSAGE_CREATE")
        await place.server.say(place.ada, place.room, "said first")
        await place.server.say(place.ada, place.room, "said second")
        await place.server.until(lambda: client.texts() == ["said second"])
        await place.server.say(bob, other, "on another shard")
        await place.server.until(lambda: len(client.texts()) == 3)
    assert [text for text in client.texts() if text.startswith("said")] == ["said second", "said first"]


async def test_the_echo_of_an_own_message_comes_before_or_after_its_answer(place: Place) -> None:
    async with running(place.server, Listener()) as client:
        room = await place.seen(client)
        place.server.fault(FaultKind.DELAY, match="POST *", seconds=0.2)
        await room.send("echo first")
        assert client.texts() == ["echo first"]
        place.server.fault(FaultKind.LATE_EVENT, match="MESSAGE_CREATE", seconds=0.2)
        await room.send("answer first")
        assert client.texts() == ["echo first"]
        await place.server.until(lambda: client.texts() == ["echo first", "answer first"])


async def test_an_event_can_come_twice(place: Place) -> None:
    async with running(place.server, Listener()) as client:
        place.server.fault(FaultKind.DUPLICATE_EVENT, match="MESSAGE_CREATE")
        await place.server.say(place.ada, place.room, "twice")
        await place.server.say(place.ada, place.room, "once")
        await place.server.until(lambda: "once" in client.texts())
    assert client.texts() == ["twice", "twice", "once"]


@pytest.mark.parametrize(("damage", "error"), [("null_object", TypeError), ("missing_author", AttributeError)])
async def test_a_malformed_event_ends_a_client_that_does_not_look_out(
    place: Place, damage: str, error: type[Exception]
) -> None:
    async with running(place.server, Listener()) as client:
        place.server.fault(FaultKind.MALFORMED_EVENT, match="MESSAGE_CREATE", damage=damage)
        await place.server.say(place.ada, place.room, "broken")
        await place.server.until(lambda: client.ended_by is not None)
    assert isinstance(client.ended_by, error)


async def test_events_from_tomorrow_are_passed_on(place: Place) -> None:
    async with running(place.server, Listener()) as client:
        place.server.fault(FaultKind.MALFORMED_EVENT, match="MESSAGE_CREATE", damage="unknown_type")
        await place.server.push_raw("SOMETHING_NEW", {"of": "tomorrow"})
        await place.server.say(place.ada, place.room, "of an unknown type")
        await place.server.until(lambda: bool(client.texts()))
    assert client.events("message")[0].type.value == 9_999


async def test_a_gateway_that_is_down_at_the_start_ends_a_plain_client(place: Place) -> None:
    place.server.fault(FaultKind.GATEWAY_DOWN)
    async with running(place.server, Listener()) as client:
        await place.server.until(lambda: client.ended_by is not None)
    assert isinstance(client.ended_by, AttributeError) and place.server.refused_connections == 1


async def test_unanswered_heartbeats_make_the_client_resume(place: Place) -> None:
    place.server.heartbeat_ms = 100
    async with running(place.server, Listener(heartbeat_timeout=0.3)) as client:
        place.server.fault(FaultKind.NO_HEARTBEAT_ACK, times=4)
        await place.server.until(lambda: bool(client.events("resumed")))
        beats = place.server.sessions[0].beats
        await place.server.until(lambda: place.server.sessions[0].beats > beats + 3)
    assert place.server.identifies == 1


async def test_a_refused_identify_is_tried_again(place: Place) -> None:
    place.server.fault(FaultKind.REFUSE_IDENTIFY)
    async with running(place.server, Listener()) as client:
        assert client.ended_by is None
    assert place.server.identifies == 2


async def test_an_outage_is_not_leaving(place: Place) -> None:
    async with running(place.server, Listener()) as client:
        await place.server.outage(place.guild)
        await place.server.until(lambda: bool(client.events("guild_unavailable")))
        assert not client.events("guild_remove")
        await place.server.recover(place.guild)
        await place.server.until(lambda: bool(client.events("guild_available")))
        assert not client.events("guild_join")
        place.server.add_guild("New")
        await place.server.until(lambda: bool(client.events("guild_join")))
        await place.server.remove_bot(place.guild)
        await place.server.until(lambda: bool(client.events("guild_remove")))


async def test_changes_of_members_roles_and_overwrites_are_told(place: Place) -> None:
    async with running(place.server, Listener()) as client:
        helpers = place.guild.add_role("helpers")
        bob = await place.server.join(place.guild, "Bob")
        await place.server.set_roles(bob, [helpers])
        await place.server.rename(bob, "Bobby")
        await place.server.set_overwrite(place.room, helpers, deny=Permission.VIEW_CHANNEL)
        await place.server.set_permissions(place.guild, helpers, Permission.ADMINISTRATOR)
        await place.server.rename_channel(place.room, "lounge")
        await place.server.until(lambda: len(client.events("guild_channel_update")) == 2)
        seen = client.guilds[0].get_member(bob.id)
        assert seen is not None and seen.display_name == "Bobby" and seen.guild_permissions.administrator
        assert (await place.seen(client)).overwrites_for(seen.roles[1]).view_channel is False
        await place.server.leave(bob)
        await place.server.delete_role(place.guild, helpers)
        await place.server.delete_channel(place.room)
        await place.server.until(lambda: bool(client.events("guild_channel_delete")))
    assert client.events("member_remove") and client.events("guild_role_delete")


async def test_what_happens_in_hidden_rooms_is_not_told(place: Place) -> None:
    hidden = place.guild.add_channel("hidden", private_to=[place.ada], hidden_from_bot=True)
    async with running(place.server, Listener()) as client:
        await place.server.say(place.ada, hidden, "secret")
        await place.server.say(place.ada, place.room, "public")
        await place.server.until(lambda: bool(client.texts()))
        await place.server.set_overwrite(hidden, place.guild.me, allow=Permission.VIEW_CHANNEL)
        await place.server.say(place.ada, hidden, "no secret")
        await place.server.until(lambda: len(client.texts()) == 2)
    assert client.texts() == ["public", "no secret"]


async def test_typing_is_told_and_recorded(place: Place) -> None:
    async with running(place.server, Listener()) as client:
        await place.server.type(place.ada, place.room)
        async with (await place.seen(client)).typing():
            await asyncio.sleep(0)
        await place.server.until(lambda: bool(client.events("raw_typing")))
    assert client.events("raw_typing")[0].user_id == place.ada.id
    assert len(place.server.called("POST", "/typing")) == 1
