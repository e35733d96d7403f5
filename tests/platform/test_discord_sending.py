"""Words that go out to Discord: once each, whatever breaks, with no ping that nobody asked for."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from bot.adapters.discord_rest import BANNED_WAIT_S
from core.domain.ids import RoomKey
from core.ports import Ambiguous, Delivered, RetryAfter, SendRefused, Unsent
from tests.doubles.discord_faults import Mutation
from tests.doubles.discord_words import MessageFlag, Permission
from tests.platform.discord_house import House, open_house, part


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with open_house() as opened:
        yield opened


async def test_round_trip_discord(house: House) -> None:
    async with house.running() as chat:
        asked = await house.server.say(house.ada, house.room, "question")
        result = await chat.send(part(house.room, "answer", reply_to=asked.id))
    _, answer = house.server.messages(house.room)
    assert result == Delivered(str(answer.id))
    assert (answer.content, answer.reply_to) == ("answer", asked)
    assert not answer.mentions and answer.flags & MessageFlag.SUPPRESS_EMBEDS


async def test_only_a_late_reply_pings_and_only_its_asker(house: House) -> None:
    bob = house.guild.add_member("Bob")
    async with house.running() as chat:
        asked = await house.server.say(house.ada, house.room, "question")
        await chat.send(part(house.room, f"sorry, {bob.mention} @everyone", reply_to=asked.id, late=True))
    answer = house.server.messages(house.room)[1]
    assert answer.mentions == [house.ada.user] and not answer.mention_everyone


@pytest.mark.field("F020")
async def test_model_text_never_pings(house: House) -> None:
    role = house.guild.add_role("helpers")
    text = f"@everyone @here {role.mention} {house.ada.mention}"
    await house.server.set_permissions(house.guild, house.guild.me.roles[0], Permission.MENTION_EVERYONE)
    async with house.running() as chat:
        await chat.send(part(house.room, text))
        await chat.edit(str(house.server.messages(house.room)[0].id), part(house.room, f"{text} again"))
    (answer,) = house.server.messages(house.room)
    assert answer.content == f"{text} again"
    assert not (answer.mentions or answer.mention_roles or answer.mention_everyone)


async def test_nonce_is_stable_over_retries(house: House) -> None:
    async with house.running() as chat:
        first = await chat.send(part(house.room, "once", nonce="same"))
        second = await chat.send(part(house.room, "once", nonce="same"))
    assert first == second and house.shown() == ["once"]
    bodies = [call.body for call in house.server.called("POST", "/messages")]
    assert [(one["nonce"], one["enforce_nonce"]) for one in bodies] == [("same", True)] * 2


async def test_commit_then_502_is_one_message(house: House) -> None:
    async with house.running() as chat:
        house.server.fault("status_after", match="POST */messages", status=502)
        result = await chat.send(part(house.room, "once"))
    assert isinstance(result, Delivered) and house.shown() == ["once"]


@pytest.mark.parametrize("kind", ["status_before", "status_after"])
async def test_503_is_retried_by_us(house: House, kind: str) -> None:
    async with house.running() as chat:
        house.server.fault(kind, match="POST */messages", status=503)
        first = await chat.send(part(house.room, "once"))
        second = await chat.send(part(house.room, "once"))
    assert isinstance(first, Ambiguous) and isinstance(second, Delivered)
    assert house.shown() == ["once"]


async def test_cut_after_commit_is_one_message(house: House) -> None:
    async with house.running() as chat:
        house.server.fault("cut_after", match="POST */messages")
        first = await chat.send(part(house.room, "once"))
        second = await chat.send(part(house.room, "once"))
    assert isinstance(first, Ambiguous) and isinstance(second, Delivered)
    assert house.shown() == ["once"]


async def test_before_the_login_nothing_is_sent(house: House) -> None:
    assert isinstance(await house.chat().send(part(house.room, "too early")), Unsent)


async def test_where_nobody_listens_it_is_certain_that_nothing_was_sent(house: House) -> None:
    async with house.running() as chat:
        house.server.pause_gateway()
        await house.server.stop()
        # A connection that was kept open breaks while in use, which leaves a doubt; a new one is refused.
        results = [await chat.send(part(house.room, "hello")) for _ in range(3)]
        assert isinstance(results[-1], Unsent) and not any(isinstance(one, Delivered) for one in results)
        await house.server.start()
    assert not house.shown()


@pytest.mark.field("F038")
async def test_unannounced_429_is_waited_out(house: House) -> None:
    async with house.running() as chat:
        house.server.fault("unannounced_429", match="POST */messages", retry_after=0.1)
        assert isinstance(await chat.send(part(house.room, "short wait")), Delivered)


@pytest.mark.field("F038")
@pytest.mark.parametrize("wait_s", [33.0, 149.0, 13_938.0])
async def test_a_long_wait_is_told_and_holds_no_other_room(house: House, wait_s: float) -> None:
    other = house.guild.add_channel("other")
    async with house.running() as chat:
        house.server.fault("unannounced_429", match=f"POST */{house.room.id}/messages", retry_after=wait_s)
        assert await chat.send(part(house.room, "final")) == RetryAfter(wait_s)
        asked = len(house.server.calls)
        again = await chat.send(part(house.room, "final"))
        assert isinstance(again, RetryAfter) and wait_s - 10 < again.seconds <= wait_s
        await chat.show_typing(RoomKey("discord", str(house.room.id)))
        assert len(house.server.calls) == asked
        assert isinstance(await chat.send(part(other, "meanwhile")), Delivered)
        await house.clock.advance(wait_s)
        assert isinstance(await chat.send(part(house.room, "final")), Delivered)
    assert house.shown() == ["final"]


@pytest.mark.field("F038")
async def test_a_refusal_of_our_whole_address_silences_every_room(house: House) -> None:
    other = house.guild.add_channel("other")
    async with house.running() as chat:
        house.server.mutations.add(Mutation.NO_VIA)  # what stands before the platform has answered, not the platform
        house.server.fault("unannounced_429", match=f"POST */{house.room.id}/messages")
        assert await chat.send(part(house.room, "final")) == RetryAfter(BANNED_WAIT_S)
        house.server.mutations.discard(Mutation.NO_VIA)
        asked = len(house.server.calls)
        for elsewhere in (part(other, "meanwhile"), part(other, "for you", private_to=house.ada.id)):
            assert isinstance(await chat.send(elsewhere), RetryAfter)
        await chat.show_typing(RoomKey("discord", str(other.id)))
        assert len(house.server.calls) == asked
        await house.clock.advance(BANNED_WAIT_S)
        assert isinstance(await chat.send(part(other, "after")), Delivered)
    assert house.shown(other) == ["after"]


@pytest.mark.field("F038")
async def test_stream_slows_and_ends_with_full_text(house: House) -> None:
    async with house.running() as chat:
        house.server.limit("PATCH /channels/*", 2, 1.0)
        sent = await chat.send(part(house.room, "word"))
        assert isinstance(sent, Delivered)
        for number in range(1, 7):
            while not isinstance(await chat.edit(sent.external_id, part(house.room, "word " * number)), Delivered):
                await house.clock.advance(1)
    assert house.shown() == ["word " * 6]


async def test_a_refused_edit_of_an_old_message_is_said(house: House) -> None:
    async with house.running() as chat:
        said = await house.server.say(house.ada, house.room, "mine")
        assert await chat.edit(str(said.id), part(house.room, "stolen")) == SendRefused("not_ours")
        assert await chat.edit("5", part(house.room, "nothing")) == SendRefused("unknown_message")


async def test_trigger_deleted_while_sending(house: House) -> None:
    async with house.running() as chat:
        asked = await house.server.say(house.ada, house.room, "question")
        await house.server.delete(asked)
        first = await chat.send(part(house.room, "answer", reply_to=asked.id))
        assert first == SendRefused("unknown_reply_target", form=True)
        assert isinstance(await chat.send(part(house.room, "answer")), Delivered)


async def test_a_room_whose_history_is_closed_is_answered_without_a_reply(house: House) -> None:
    await house.server.set_overwrite(house.room, house.guild.me, deny=Permission.READ_MESSAGE_HISTORY)
    async with house.running() as chat:
        asked = await house.server.say(house.ada, house.room, "question")
        result = await chat.send(part(house.room, "answer", reply_to=asked.id))
    assert result == SendRefused("unknown_reply_target", form=True)


@pytest.mark.parametrize(
    ("text", "code"), [("\u200b", "empty"), ("that forbidden word", "automod")], ids=["empty", "automod"]
)
async def test_automod_refusal_falls_back_once(house: House, text: str, code: str) -> None:
    house.guild.blocked_words.add("forbidden")
    async with house.running() as chat:
        assert await chat.send(part(house.room, text)) == SendRefused(code)
        assert isinstance(await chat.send(part(house.room, "something else")), Delivered)


async def test_forbidden_room_is_not_hammered(house: House) -> None:
    await house.server.set_overwrite(house.room, house.guild.me, deny=Permission.SEND_MESSAGES)
    async with house.running() as chat:
        for _ in range(5):
            assert await chat.send(part(house.room, "hello")) == SendRefused("no_permission")
        await chat.show_typing(RoomKey("discord", str(house.room.id)))
        assert house.server.invalid_answers == 1
        learned = len(house.memory.reports)
        await house.server.set_overwrite(house.room, house.guild.me, allow=Permission.SEND_MESSAGES)
        await house.server.until(lambda: len(house.memory.reports) > learned)
        assert isinstance(await chat.send(part(house.room, "hello")), Delivered)


async def test_hidden_and_deleted_rooms_are_told_apart(house: House) -> None:
    hidden = house.guild.add_channel("hidden", hidden_from_bot=True)
    gone = house.guild.add_channel("gone")
    async with house.running() as chat:
        await house.server.delete_channel(gone)
        assert await chat.send(part(hidden, "hello")) == SendRefused("no_permission")
        assert await chat.send(part(gone, "hello")) == SendRefused("room_gone")


async def test_what_only_one_person_may_see_goes_to_their_direct_room(house: House) -> None:
    async with house.running() as chat:
        asked = await house.server.say(house.ada, house.room, "question")
        result = await chat.send(part(house.room, "for you", private_to=house.ada.id, reply_to=asked.id))
    assert isinstance(result, Delivered)
    assert house.shown(house.server.dm(house.ada)) == ["for you"] and house.shown() == ["question"]


async def test_a_closed_direct_room_is_a_refusal(house: House) -> None:
    house.ada.user.accepts_dms = False
    async with house.running() as chat:
        assert await chat.send(part(house.room, "for you", private_to=house.ada.id)) == SendRefused("dm_closed")


async def test_history_shows_what_was_sent(house: House) -> None:
    async with house.running() as chat:
        asked = await house.server.say(house.ada, house.room, "question")
        await house.server.say(house.ada, house.room, "answer", reply_to=asked)
        since = house.clock.now()
        mine = part(house.room, "answer", reply_to=asked.id)
        assert await chat.find_sent(mine, since) is None
        sent = await chat.send(mine)
        assert isinstance(sent, Delivered)
        for number in range(120):
            await house.server.say(house.ada, house.room, f"noise {number}")
        assert await chat.find_sent(mine, since) == sent.external_id
        assert await chat.find_sent(part(house.room, "answer"), since) is None
        assert await chat.find_sent(part(house.room, "other", reply_to=asked.id), since) is None
        assert await chat.find_sent(mine, since + timedelta(minutes=5)) is None


async def test_history_that_may_be_hidden_proves_nothing(house: House) -> None:
    await house.server.set_overwrite(house.room, house.guild.me, deny=Permission.READ_MESSAGE_HISTORY)
    async with house.running() as chat:
        assert isinstance(await chat.find_sent(part(house.room, "hello"), house.clock.now()), Ambiguous)
        house.server.fault("status_before", match="GET */messages", times=1, status=503)
        other = house.guild.add_channel("other")
        assert isinstance(await chat.find_sent(part(other, "hello"), house.clock.now()), Ambiguous)


async def test_typing_is_asked_for_once_in_eight_seconds(house: House) -> None:
    room = RoomKey("discord", str(house.room.id))
    async with house.running() as chat:
        for _ in range(5):
            await chat.show_typing(room)
        assert len(house.server.called("POST", "/typing")) == 1
        await house.clock.advance(8.5)
        await chat.show_typing(room)
        assert len(house.server.called("POST", "/typing")) == 2


async def test_typing_yields_to_text(house: House) -> None:
    room = RoomKey("discord", str(house.room.id))
    async with house.running() as chat:
        for number in range(4):
            await chat.send(part(house.room, f"n{number}"))
        await chat.show_typing(room)
        assert isinstance(await chat.send(part(house.room, "last")), Delivered)
    assert not house.server.called("POST", "/typing")


@pytest.mark.field("F003")
async def test_parts_fit_the_platform(house: House) -> None:
    text = "words without an end " * 310
    async with house.running() as chat:
        for n, piece in enumerate(chat.split(text), 1):
            while not isinstance(await chat.send(part(house.room, piece, n=n)), Delivered):
                await house.clock.advance(1)
        assert await chat.send(part(house.room, "x" * 2_001)) == SendRefused("bad_form", form=True)
    assert "".join(house.shown()) == text and len(house.shown()) > 3


@pytest.mark.field("F008")
async def test_emoji_on_the_cut_are_taken(house: House) -> None:
    text = "x" * 1_985 + "🎩👩‍🚀" * 400
    async with house.running() as chat:
        for n, piece in enumerate(chat.split(text), 1):
            assert isinstance(await chat.send(part(house.room, piece, n=n)), Delivered)
    assert "".join(house.shown()) == text


async def test_the_history_of_a_direct_room_is_always_ours_to_read(house: House) -> None:
    direct = house.server.dm(house.ada)
    async with house.running() as chat:
        since = house.clock.now()
        assert await chat.find_sent(part(direct, "hello"), since) is None
        sent = await chat.send(part(direct, "hello"))
        assert isinstance(sent, Delivered)
        assert await chat.find_sent(part(direct, "hello"), since) == sent.external_id


async def test_an_echo_from_a_room_that_nobody_wrote_in_makes_no_community(house: House) -> None:
    async with house.running() as chat:
        await chat.send(part(house.room, "for you", private_to=house.ada.id))
        await house.server.until(lambda: chat.counts["events.nowhere"] == 1)
        await house.server.say(house.ada, house.server.dm(house.ada), "thanks")
        message = await house.heard("thanks")
    assert message.surroundings is not None and message.surroundings.community_ref == f"dm:{house.ada.id}"
    assert house.texts() == ["thanks"]
