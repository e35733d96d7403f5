"""The Discord double's REST routes, seen through the real client library."""

import io
from collections.abc import AsyncIterator
from datetime import timedelta

import aiohttp
import discord
import pytest

from tests.doubles.discord_faults import FaultKind
from tests.doubles.discord_library import Listener, Place, open_place, running
from tests.doubles.discord_server import DiscordServer
from tests.doubles.discord_words import ChannelKind, MessageKind, Permission


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with open_place() as opened:
        yield opened


@pytest.fixture
async def client(place: Place) -> AsyncIterator[Listener]:
    async with running(place.server, Listener()) as running_client:
        yield running_client


async def test_a_nonce_folds_repeats_while_it_is_remembered(place: Place, client: Listener) -> None:
    room = await place.seen(client)
    first, second = await room.send("once", nonce="n1"), await room.send("once", nonce="n1")
    assert first.id == second.id and place.texts() == ["once"]
    await place.clock.advance(place.server.nonce_window + 1)
    await room.send("once", nonce="n1")
    assert place.texts() == ["once", "once"]


async def test_a_502_after_the_commit_is_one_message(place: Place, client: Listener) -> None:
    place.server.fault(FaultKind.STATUS_AFTER, match="POST /channels/*/messages", status=502)
    sent = await (await place.seen(client)).send("once", nonce="n2")
    assert [message.id for message in place.server.messages(place.room)] == [sent.id]
    assert [call.status for call in place.server.called("POST", "/messages")] == [502, 200]


async def test_a_503_is_not_repeated(place: Place, client: Listener) -> None:
    place.server.fault(FaultKind.STATUS_BEFORE, match="POST *", status=503)
    with pytest.raises(discord.DiscordServerError):
        await (await place.seen(client)).send("never")
    assert place.texts() == []


async def test_a_cut_after_the_commit_raises_and_stays_said(place: Place, client: Listener) -> None:
    place.server.fault(FaultKind.CUT_AFTER, match="POST *")
    with pytest.raises(aiohttp.ClientError):
        await (await place.seen(client)).send("said")
    assert place.texts() == place.server.said_by_bot(place.room) == ["said"]


@pytest.mark.parametrize("is_global", [False, True])
async def test_an_unannounced_429_is_waited_out(place: Place, client: Listener, is_global: bool) -> None:
    place.server.fault(FaultKind.UNANNOUNCED_429, match="POST *", retry_after=0.05, is_global=is_global)
    await (await place.seen(client)).send("patience")
    assert place.texts() == ["patience"]
    assert [call.status for call in place.server.called("POST", "/messages")] == [429, 200]


async def test_an_announced_limit_is_kept_by_the_library(place: Place, client: Listener) -> None:
    place.server.limit("POST /channels/*/messages", count=2, per_s=0.2)
    for number in range(5):
        await (await place.seen(client)).send(str(number))
    assert place.texts() == list("01234")
    assert {call.status for call in place.server.called("POST", "/messages")} == {200}


async def test_a_global_limit_hits_all_routes(place: Place, client: Listener) -> None:
    place.server.limit_globally(1)
    await client.fetch_user(place.ada.id)
    await (await place.seen(client)).send("late")
    assert 429 in {call.status for call in place.server.calls}


async def test_edits_previews_and_deletes_are_told(place: Place, client: Listener) -> None:
    server, room = place.server, place.room
    said = [await server.say(place.ada, room, text) for text in ("one", "two", "three", "four")]
    await server.edit(said[0], "uno")
    await server.preview(said[1], "https://example.org")
    await server.delete(said[1])
    await server.bulk_delete(said[2:])
    await server.until(lambda: bool(client.events("raw_bulk_message_delete")))
    edited, previewed = client.events("raw_message_edit")
    assert (edited.message.content, edited.message.edited_at is not None) == ("uno", True)
    assert (previewed.message.content, previewed.message.edited_at) == ("two", None) and previewed.message.embeds
    assert client.events("raw_message_delete")[0].message_id == said[1].id
    assert client.events("raw_bulk_message_delete")[0].message_ids == {one.id for one in said[2:]}
    assert place.texts() == ["uno"]


async def test_the_bot_edits_deletes_and_reacts(place: Place, client: Listener) -> None:
    room = await place.seen(client)
    mine = await room.send("first")
    await mine.edit(content="second")
    assert place.texts() == ["second"] and place.server.messages(place.room)[0].edited_at is not None
    await mine.add_reaction("👍")
    await place.server.react(place.ada, place.room.messages[mine.id], "👍")
    reaction = (await room.fetch_message(mine.id)).reactions[0]
    assert {user.id async for user in reaction.users()} == {place.server.bot.id, place.ada.id}
    await mine.remove_reaction("👍", client.user)
    await place.server.until(lambda: bool(client.events("raw_reaction_remove")))
    assert [event.user_id for event in client.events("raw_reaction_add")] == [place.server.bot.id, place.ada.id]
    await mine.delete()
    other = [await place.server.say(place.ada, place.room, text) for text in "ab"]
    await room.delete_messages([discord.Object(one.id) for one in other])
    assert place.texts() == []


async def test_threads_and_forum_posts_have_their_first_message(place: Place, client: Listener) -> None:
    starter = await place.server.say(place.ada, place.room, "let us talk")
    thread = await place.server.create_thread(place.ada, place.room, "talk", starter=starter)
    forum = place.guild.add_channel("help", kind="forum")
    post = await place.server.create_thread(place.ada, forum, "a question", text="how does it work?")
    await place.server.until(lambda: len(client.events("thread_create")) == 2)
    room, seen_post = await place.seen(client), await place.seen(client, post)
    assert (await room.fetch_message(thread.id)).content == "let us talk"
    assert (await seen_post.fetch_message(post.id)).content == "how does it work?"
    assert seen_post.parent.id == forum.id and thread.id == starter.id
    await seen_post.send("like this")
    assert [one.content for one in place.server.messages(post)] == ["how does it work?", "like this"]


async def test_a_sleeping_thread_wakes_and_a_locked_one_does_not(place: Place, client: Listener) -> None:
    thread = await (await place.seen(client)).create_thread(name="side", type=discord.ChannelType.public_thread)
    await thread.edit(archived=True)
    assert [one.id async for one in thread.parent.archived_threads()] == [thread.id]
    await thread.send("wake up")
    assert [one async for one in thread.parent.archived_threads()] == []
    stored = place.server.world.channels[thread.id]
    await place.server.set_permissions(place.guild, place.guild.me.roles[0], 0)
    await place.server.archive_thread(stored, locked=True)
    with pytest.raises(discord.HTTPException) as refused:
        await thread.send("hello?")
    assert refused.value.code == 50083


async def test_a_private_thread_is_told_once_the_bot_is_taken_in(place: Place, client: Listener) -> None:
    await place.server.set_permissions(place.guild, place.guild.me.roles[0], 0)
    thread = await place.server.create_thread(place.ada, place.room, "secret", text="hidden", private=True)
    await place.server.add_to_thread(thread, place.server.bot)
    await place.server.say(place.ada, thread, "for you")
    await place.server.until(lambda: bool(client.texts()))
    assert client.texts() == ["for you"] and not client.events("thread_create")
    assert client.events("thread_join")[0].id == thread.id


async def test_files_go_up_and_come_down(place: Place, client: Listener) -> None:
    sent = await (await place.seen(client)).send("see", file=discord.File(io.BytesIO(b"report"), "report.txt"))
    stored = place.room.messages[sent.id].attachments[0]
    assert (stored.filename, stored.data) == ("report.txt", b"report")
    assert await sent.attachments[0].read() == b"report"


async def test_links_to_files_expire_and_are_made_anew(place: Place, client: Listener) -> None:
    await place.server.say(place.ada, place.room, "x" * 2_500)
    await place.server.until(lambda: bool(client.events("message")))
    pasted = client.events("message")[0]
    assert pasted.content == "" and pasted.attachments[0].filename == "message.txt"
    await place.clock.advance(place.server.cdn.link_life + 1)
    with pytest.raises(discord.NotFound):
        await pasted.attachments[0].read()
    again = await (await place.seen(client)).fetch_message(pasted.id)
    assert await again.attachments[0].read() == b"x" * 2_500


async def test_history_comes_in_pages_newest_first(place: Place, client: Listener) -> None:
    said = [await place.server.say(place.ada, place.room, str(number)) for number in range(230)]
    room = await place.seen(client)
    assert [one.content async for one in room.history(limit=3)] == ["229", "228", "227"]
    after = [one.content async for one in room.history(limit=None, after=discord.Object(said[9].id))]
    assert after == [str(number) for number in range(10, 230)]
    before = [one.content async for one in room.history(limit=150, before=discord.Object(said[200].id))]
    assert before == [str(number) for number in range(199, 49, -1)]
    around = [one.content async for one in room.history(limit=5, around=discord.Object(said[100].id))]
    assert sorted(around) == ["100", "101", "102", "98", "99"]
    pages = [call for call in place.server.called("GET", "/messages") if call.query.get("limit") == "100"]
    assert len(pages) >= 4


async def test_history_is_empty_without_its_permission(place: Place, client: Listener) -> None:
    said = await place.server.say(place.ada, place.room, "old")
    await place.server.set_overwrite(place.room, place.guild.me, deny=Permission.READ_MESSAGE_HISTORY)
    room = await place.seen(client)
    assert [one async for one in room.history()] == []
    with pytest.raises(discord.Forbidden):
        await room.fetch_message(said.id)


async def test_refusals_carry_discords_codes(place: Place, client: Listener) -> None:
    room, server = await place.seen(client), place.server
    theirs = await server.say(place.ada, place.room, "mine")
    place.guild.blocked_words.add("forbidden")

    async def code(attempt: object) -> int:
        with pytest.raises(discord.HTTPException) as refused:
            await attempt  # type: ignore[misc]  # each is a coroutine
        return refused.value.code

    assert await code(room.send("\u200b")) == 50006
    assert await code(room.send("a forbidden word")) == 200000
    assert await code(room.send("x" * 2_001)) == 50035
    assert await code(room.send("x", nonce="n" * 26)) == 50035
    for label, custom_id in (("x" * 81, "y"), ("x", "y" * 101)):
        button: discord.ui.Button[discord.ui.View] = discord.ui.Button(label=label, custom_id=custom_id)
        assert await code(room.send("x", view=discord.ui.View().add_item(button))) == 50035
    assert await code(room.send(embed=discord.Embed(description="x" * 4_097))) == 50035
    assert await code(room.send(embeds=[discord.Embed(description="x" * 3_001)] * 2)) == 50035
    assert await code(room.get_partial_message(theirs.id).edit(content="ours")) == 50005
    assert await code(room.get_partial_message(1).reply("to nothing")) == 50035
    assert await code(room.fetch_message(1)) == 10008
    assert await code(client.fetch_channel(1)) == 10003
    await server.set_overwrite(place.room, place.guild.everyone, deny=Permission.SEND_MESSAGES)
    assert await code(room.send("x")) == 50013
    await server.set_overwrite(place.room, place.guild.everyone, deny=Permission.VIEW_CHANNEL)
    assert await code(room.send("x")) == 50001
    place.ada.user.accepts_dms = False
    assert await code(client.get_user(place.ada.id).send("x")) == 50007  # type: ignore[union-attr]  # a member
    assert server.invalid_answers == 4


async def test_a_reply_to_nothing_may_be_sent_all_the_same(place: Place, client: Listener) -> None:
    reference = discord.MessageReference(message_id=1, channel_id=place.room.id, fail_if_not_exists=False)
    await (await place.seen(client)).send("anyway", reference=reference)
    assert place.texts() == ["anyway"] and place.server.messages(place.room)[0].reply_to is None


async def test_mentions_ping_as_far_as_they_are_allowed(place: Place, client: Listener) -> None:
    room = await place.seen(client)
    text = f"@everyone {place.ada.mention}"
    await place.server.set_permissions(
        place.guild, place.guild.everyone, ~0 & place.guild.everyone.permissions | 1 << 17
    )
    await room.send(text)
    await room.send(text, allowed_mentions=discord.AllowedMentions.none())
    loud, quiet = place.server.messages(place.room)
    assert loud.mention_everyone and [user.id for user in loud.mentions] == [place.ada.id]
    assert not quiet.mention_everyone and quiet.mentions == []


async def test_direct_rooms_webhooks_and_forwards(place: Place, client: Listener) -> None:
    user = client.get_user(place.ada.id)
    assert user is not None
    await user.send("privately")
    assert [one.content for one in place.server.messages(place.server.dm(place.ada))] == ["privately"]
    said = await place.server.say(place.ada, place.room, "worth knowing")
    await place.server.webhook_say(place.room, "Mask", "by proxy", application_id=7)
    await place.server.forward(place.ada, said, place.room)
    await place.server.until(lambda: len(client.events("message")) == 4)
    _, _, proxied, forwarded = client.events("message")
    assert (proxied.author.name, proxied.webhook_id is not None, proxied.application_id) == ("Mask", True, 7)
    assert forwarded.content == "" and forwarded.message_snapshots[0].content == "worth knowing"


async def test_members_are_timed_out_kicked_and_banned_with_reasons(place: Place, client: Listener) -> None:
    bob, server, guild = place.guild.add_member("Bob"), place.server, client.guilds[0]
    await server.until(lambda: guild.get_member(bob.id) is not None)
    member, ada = guild.get_member(bob.id), guild.get_member(place.ada.id)
    assert member is not None and ada is not None and guild.owner is not None
    with pytest.raises(discord.HTTPException):
        await member.timeout(timedelta(days=29))
    await member.timeout(timedelta(minutes=5), reason="too loud, again")
    assert bob.timeout_until is not None and not place.room.allows(bob.user) & Permission.SEND_MESSAGES
    await member.kick(reason="über")
    spam = await server.say(place.ada, place.room, "spam")
    await ada.ban(reason="spam", delete_message_seconds=60)
    assert spam.deleted and list(place.guild.bans) == [place.ada.id]
    await guild.unban(ada)
    assert [(one.action, one.reason) for one in server.audit[:3]] == [
        ("timeout", "too loud, again"),
        ("kick", "über"),
        ("ban", "spam"),
    ]
    with pytest.raises(discord.Forbidden):
        await guild.owner.kick()
    with pytest.raises(discord.HTTPException):
        await ada.ban(reason="x" * 513)


async def test_rooms_guilds_and_roles_are_read(place: Place, client: Listener) -> None:
    role = place.guild.add_role("helpers", Permission.MANAGE_MESSAGES)
    for kind in ("text", "forum", "voice", "news", "category"):
        place.guild.add_channel(kind, kind=kind, private_to=[role])
    guild = await client.fetch_guild(place.guild.id)
    assert {one.type.value for one in await guild.fetch_channels()} == {int(ChannelKind[n]) for n in (
        "TEXT", "FORUM", "VOICE", "NEWS", "CATEGORY")}  # fmt: skip
    assert "helpers" in {one.name for one in await guild.fetch_roles()}
    assert (await guild.fetch_member(place.ada.id)).id == place.ada.id
    assert len([one async for one in client.guilds[0].fetch_members()]) == 3
    assert (await client.fetch_channel(place.room.id)).id == place.room.id


async def test_what_the_double_does_not_do_is_answered_501_and_written_down(place: Place, client: Listener) -> None:
    with pytest.raises(discord.DiscordServerError) as refused:
        await (await place.seen(client)).webhooks()
    assert refused.value.status == 501
    assert place.server.unimplemented == [f"GET /channels/{place.room.id}/webhooks"]
    with pytest.raises(AssertionError, match="UNIMPLEMENTED"):
        place.server.check()
    place.server.unimplemented.clear()


async def test_a_route_that_breaks_is_written_down(place: Place, client: Listener) -> None:
    with pytest.raises(discord.DiscordServerError):
        await client.http.request(discord.http.Route("PUT", "/applications/1/commands"), json=[{"no": "name"}])
    assert "broke: KeyError" in place.server.unimplemented[0]
    place.server.unimplemented.clear()


async def test_a_fault_that_never_bites_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="never bit"):
        async with DiscordServer() as server:
            server.fault(FaultKind.CUT_AFTER)


async def test_a_thread_without_a_message_is_announced_in_its_room(place: Place, client: Listener) -> None:
    await (await place.seen(client)).create_thread(name="side", type=discord.ChannelType.public_thread)
    assert [one.kind for one in place.server.messages(place.room)] == [MessageKind.THREAD_CREATED]
