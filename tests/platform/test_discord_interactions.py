"""Commands at Discord: registered once, acknowledged at once, answered in one place."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from bot.adapters.discord_commands import fingerprint, rendered
from core.domain.messages import Address, MessageKind
from core.ports import Ambiguous, CommandForm, CommandOption, Delivered, OptionKind, SendRefused
from tests.doubles.discord_words import Permission
from tests.platform.discord_house import FORMS, House, open_house, part


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with open_house() as opened:
        yield opened


async def registered(house: House, *, scope: int | None = None) -> list[dict[str, Any]]:
    await house.server.until(lambda: bool(house.server.commands.get(scope)))
    return house.server.commands[scope]


async def test_a_command_is_acknowledged_and_answered_in_place(house: House) -> None:
    async with house.running() as chat:
        await registered(house)
        used = await house.server.slash(house.ada, house.room, "ask", {"question": 'what is "void"?'})
        await house.count(1)
        (message,) = house.accepted
        assert used.deferred and used.original is not None and not used.original.ephemeral
        result = await chat.send(part(house.room, "an answer", token=message.answer_token))
        assert result == Delivered(str(used.original.id))
        await chat.edit(str(used.original.id), part(house.room, "a better answer", token=message.answer_token))
    assert used.text == "a better answer" and not used.followups
    assert message.kind is MessageKind.COMMAND and message.text == r'/ask question:"what is \"void\"?"'
    assert message.addressed_by == {Address.COMMAND}
    assert message.event_id == message.message_id == str(used.id)
    assert (message.person_ref, message.display_name) == (str(house.ada.id), "Ada")


async def test_the_token_is_in_no_log_of_a_message(house: House) -> None:
    async with house.running():
        await registered(house)
        used = await house.server.slash(house.ada, house.room, "help")
        await house.count(1)
    assert used.token in house.accepted[0].answer_token
    assert used.token not in repr(house.accepted[0]) and used.token not in repr(part(house.room, "x", token=used.token))


@pytest.mark.parametrize(
    ("name", "options", "private"),
    [
        ("help", {}, True),
        ("ask", {"question": "q", "private": "yes"}, True),
        ("ask", {"question": "q", "private": "no"}, False),
        ("void status", {}, True),
    ],
)
async def test_a_private_answer_is_promised_privately(
    house: House, name: str, options: dict[str, str], private: bool
) -> None:
    async with house.running():
        await registered(house)
        used = await house.server.slash(house.guild.owner, house.room, name, options)
        await house.server.until(lambda: used.acked)
    assert used.original is not None and used.original.ephemeral is private


@pytest.mark.field("F021")
async def test_ack_while_workers_are_saturated(house: House) -> None:
    house.store_down = True
    async with house.running():
        await registered(house)
        await house.server.say(house.ada, house.room, "stuck in the lane")
        used = [await house.server.slash(house.ada, house.room, "help") for _ in range(20)]
        await house.server.until(lambda: all(one.acked for one in used), timeout_s=2.5)
        assert not house.accepted
        house.store_down = False
        await house.count(21)


@pytest.mark.field("F021")
@pytest.mark.parametrize("private", [True, False])
async def test_result_after_token_expiry(house: House, private: bool) -> None:
    async with house.running() as chat:
        await registered(house)
        used = await house.server.slash(house.ada, house.room, "help" if private else "ask", {"question": "q"})
        await house.count(1)
        await house.server.until(lambda: used.acked)
        await house.clock.advance(20 * 60)
        late = part(
            house.room,
            "late",
            token=house.accepted[0].answer_token,
            private_to=house.ada.id if private else None,
            reply_to=house.accepted[0].message_id,
        )
        assert isinstance(await chat.send(late), Delivered)
    where = house.server.dm(house.ada) if private else house.room
    assert "late" in house.shown(where)


async def test_a_room_that_refuses_messages_still_shows_answers_to_commands(house: House) -> None:
    await house.server.set_overwrite(house.room, house.guild.me, deny=Permission.SEND_MESSAGES)
    async with house.running() as chat:
        await registered(house)
        used = await house.server.slash(house.ada, house.room, "ask", {"question": "q"})
        await house.count(1)
        await house.server.until(lambda: used.acked)
        assert await chat.send(part(house.room, "a message")) == SendRefused("no_permission")
        result = await chat.send(part(house.room, "an answer", token=house.accepted[0].answer_token))
        assert isinstance(result, Delivered)
        assert await chat.send(part(house.room, "a message")) == SendRefused("no_permission")
    assert used.text == "an answer"


@pytest.mark.parametrize("private", [True, False])
async def test_a_late_answer_whose_receipt_was_lost_is_found(house: House, private: bool) -> None:
    async with house.running() as chat:
        await registered(house)
        used = await house.server.slash(house.ada, house.room, "help" if private else "ask", {"question": "q"})
        await house.count(1)
        await house.server.until(lambda: used.acked)
        late = part(
            house.room, "late", token=house.accepted[0].answer_token, private_to=house.ada.id if private else None
        )
        began = house.clock.now()
        assert await chat.find_sent(late, began) is None
        await house.clock.advance(20 * 60)
        assert await chat.find_sent(late, began) is None
        sent = await chat.send(late)
        assert isinstance(sent, Delivered)
    async with house.running() as another:
        assert await another.find_sent(late, began) == sent.external_id


async def test_an_answer_whose_place_cannot_be_asked_for_proves_nothing(house: House) -> None:
    async with house.running() as chat:
        await registered(house)
        await house.server.slash(house.ada, house.room, "help")
        await house.count(1)
        late = part(house.room, "late", token=house.accepted[0].answer_token, private_to=house.ada.id)
        house.server.fault("status_before", match="GET /webhooks/*", status=503)
        assert isinstance(await chat.find_sent(late, house.clock.now()), Ambiguous)


async def test_double_and_late_ack(house: House) -> None:
    house.server.ack_deadline = -1.0
    async with house.running() as chat:
        await registered(house)
        await house.server.slash(house.ada, house.room, "ask", {"question": "q"})
        await house.count(1)
        assert chat.counts["events.ack_10062"] == 1
        answer = part(house.room, "all the same", token=house.accepted[0].answer_token)
        assert isinstance(await chat.send(answer), Delivered)
        house.server.ack_deadline = 3.0
        house.server.fault("duplicate_event", match="INTERACTION_CREATE")
        await house.server.slash(house.ada, house.room, "help")
        await house.server.until(lambda: chat.counts["events.ack_40060"] == 1)
        await house.server.until(lambda: len(house.said(MessageKind.COMMAND)) == 2)
    assert "all the same" in house.shown()


async def test_long_private_answer_has_no_followup(house: House) -> None:
    async with house.running() as chat:
        await registered(house)
        used = await house.server.slash(house.ada, house.room, "help")
        await house.count(1)
        token = house.accepted[0].answer_token
        for n in (1, 2, 2, 3):
            piece = part(house.room, f"part {n}", n=n, token=token, private_to=house.ada.id)
            assert isinstance(await chat.send(piece), Delivered)
            assert await chat.find_sent(piece, house.clock.now()) is None
    assert used.text == "part 1" and not used.followups and used.original is not None
    assert [(one.filename, one.data) for one in used.original.attachments] == [
        ("continued-2.md", b"part 2"),
        ("continued-3.md", b"part 3"),
    ]
    assert house.shown() == []


async def test_an_answer_that_became_private_is_not_shown_to_all(house: House) -> None:
    async with house.running() as chat:
        await registered(house)
        used = await house.server.slash(house.ada, house.room, "ask", {"question": "q"})
        await house.count(1)
        await house.server.until(lambda: used.acked)
        secret = part(house.room, "for you", token=house.accepted[0].answer_token, private_to=house.ada.id)
        assert isinstance(await chat.send(secret), Delivered)
    assert house.shown(house.server.dm(house.ada)) == ["for you"]
    assert house.shown() == [] and used.original is not None and used.original.deleted


async def test_an_answer_that_concerns_all_is_said_in_the_room(house: House) -> None:
    async with house.running() as chat:
        await registered(house)
        used = await house.server.slash(house.guild.owner, house.room, "void status")
        await house.count(1)
        await house.server.until(lambda: used.acked)
        await chat.send(part(house.room, "archive is on", token=house.accepted[0].answer_token))
    assert house.shown() == ["archive is on"] and used.original is not None and used.original.deleted


async def test_automod_refuses_a_deferred_answer(house: House) -> None:
    house.guild.blocked_words.add("forbidden")
    async with house.running() as chat:
        await registered(house)
        await house.server.slash(house.ada, house.room, "ask", {"question": "q"})
        await house.count(1)
        answer = part(house.room, "forbidden", token=house.accepted[0].answer_token)
        assert await chat.send(answer) == SendRefused("automod")


async def test_admin_command_checks_in_code(house: House) -> None:
    keeper = house.guild.add_role("keeper", Permission.MANAGE_GUILD)
    bob = house.guild.add_member("Bob", [keeper])
    async with house.running():
        await registered(house)
        for who in (house.ada, bob, house.guild.owner):
            await house.server.slash(who, house.room, "void status")
        await house.count(3)
    admins = {one.person_ref for one in house.accepted if one.admin}
    assert admins == {str(bob.id), str(house.guild.owner.id)}


async def test_a_command_in_a_direct_room_is_one(house: House) -> None:
    async with house.running():
        await registered(house)
        await house.server.slash(house.ada, house.server.dm(house.ada), "help")
        await house.count(1)
    (message,) = house.accepted
    assert message.addressed_by == {Address.COMMAND, Address.DM}
    assert message.surroundings is not None and message.surroundings.community_ref == f"dm:{house.ada.id}"


async def test_an_old_client_may_offer_what_is_gone(house: House) -> None:
    async with house.running():
        used = await house.server.slash(house.ada, house.room, "vanished", {"x": 1}, stale=True)
        await house.count(1)
    assert used.acked and house.accepted[0].text == '/vanished x:"1"'


async def test_command_payload_has_contexts(house: House) -> None:
    async with house.running():
        commands = {one["name"]: one for one in await registered(house)}
    assert set(commands) == {"ask", "help", "void"}
    assert all((one["contexts"], one["integration_types"]) == ([0, 1], [0]) for one in commands.values())
    assert commands["void"]["default_member_permissions"] == str(int(Permission.MANAGE_MESSAGES))
    assert [one["name"] for one in commands["void"]["options"]] == ["status", "rooms"]
    assert [one["name"] for one in commands["ask"]["options"]] == ["question", "private"]


async def test_no_prefix_commands(house: House) -> None:
    async with house.running():
        await house.server.say(house.ada, house.room, "!help")
        await house.server.say(house.ada, house.room, "/help")
        await house.count(2)
    assert all(one.kind is MessageKind.TEXT and not one.addressed_by for one in house.accepted)


@pytest.mark.field("F022")
async def test_reconnects_do_not_sync(house: House) -> None:
    for _ in range(3):
        async with house.running():
            await registered(house)
            await house.server.reconnect()
            await house.server.until(lambda: house.server.connected)
    assert len(house.server.called("PUT", "/commands")) == 1
    house.forms = FORMS[:2]
    async with house.running():
        await house.server.until(lambda: len(house.server.called("PUT", "/commands")) == 2)


async def test_429_in_sync_keeps_commands(house: House) -> None:
    async with house.running():
        await registered(house)
    house.forms = (*FORMS, CommandForm("extra", "something new"))
    house.server.fault("unannounced_429", match="PUT */commands", retry_after=3.0)
    async with house.running():
        await house.server.until(lambda: len(house.server.called("PUT", "/commands")) == 2)
        assert len(house.server.commands[None]) == 3
        await house.server.until(lambda: len(house.server.commands[None]) == 4)


async def test_commands_are_in_one_scope_only(house: House) -> None:
    async with house.running():
        await registered(house)
    house.guilds = (str(house.guild.id),)
    async with house.running():
        await registered(house, scope=house.guild.id)
        await house.server.until(lambda: house.server.commands[None] == [])


async def test_a_day_without_creates_left_is_said_and_not_tried_again(house: House) -> None:
    house.server.command_creates_per_day = 1
    async with house.running():
        await house.server.until(lambda: bool(house.alerts))
    assert "30034" in house.alerts[0] and len(house.server.called("PUT", "/commands")) == 1


def test_the_fingerprint_changes_with_the_commands_alone() -> None:
    prints = {fingerprint(rendered(FORMS, everywhere=True)) for _ in range(3)}
    changed = [replace(FORMS[0], summary="another"), *FORMS[1:]]
    assert len(prints | {fingerprint(rendered(changed, everywhere=True))}) == 2


def test_forms_are_rendered_within_the_platforms_limits() -> None:
    options = tuple(
        CommandOption(kind.value, kind, "s" * 300, required=kind is OptionKind.NUMBER) for kind in OptionKind
    )
    (command,) = rendered([CommandForm("long", "d" * 101, options)], everywhere=False)
    assert command["description"] == "d" * 99 + "…" and "contexts" not in command
    listed: Any = command["options"]
    assert listed[0]["name"] == "number"
    assert {one["name"]: one["type"] for one in listed} == {"number": 4, "word": 3, "text": 3, "flag": 5}
