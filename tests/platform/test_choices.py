"""Buttons on both platforms: shown, pressed, answered to the presser in time, taken off."""

from collections.abc import AsyncIterator

import pytest

from core.domain.choices import COMMAND_CHARS, LABEL_CHARS, MOST_CHOICES, Choice
from core.domain.messages import Address, MessageKind
from core.ports import Delivered, SendRefused
from tests.doubles.discord_words import Permission
from tests.doubles.telegram_server import TelegramServer
from tests.doubles.telegram_state import Chat, Message, User
from tests.platform.discord_house import House, open_house
from tests.platform.discord_house import part as discord_part
from tests.platform.telegram_line import Line, listening, make_line, part

CHOICES = (Choice("Approve", "/void candidates approve id:say-3"), Choice("Deny", "/void candidates deny id:say-3"))
YES, NO = "void:1:1", "void:1:2"
LONGEST = tuple(Choice(str(n) * LABEL_CHARS, "/" + "x" * (COMMAND_CHARS - 1)) for n in range(MOST_CHOICES))


@pytest.fixture
async def house() -> AsyncIterator[House]:
    async with open_house() as opened:
        yield opened


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    async with TelegramServer() as telegram, listening(make_line(telegram)) as running:
        running.inbox.replies = True
        yield running


async def test_a_button_on_discord_is_acknowledged_and_answered_to_its_presser_alone(house: House) -> None:
    keeper = house.guild.add_member("Bob", [house.guild.add_role("keeper", Permission.MANAGE_GUILD)])
    async with house.running() as chat:
        sent = await chat.send(discord_part(house.room, "May I?", choices=CHOICES))
        assert isinstance(sent, Delivered)
        (card,) = house.server.messages(house.room)
        pressed = [await house.server.click(who, card, YES) for who in (house.ada, keeper)]
        await house.server.until(lambda: len(house.said(MessageKind.BUTTON)) == 2)
        assert all(each.deferred and each.original is not card for each in pressed)
        by_ada, by_keeper = house.said(MessageKind.BUTTON)
        assert (by_ada.text, by_ada.reply_to, by_ada.person_ref) == (YES, str(card.id), str(house.ada.id))
        assert by_ada.addressed_by == {Address.COMMAND} and pressed[0].token not in repr(by_ada)
        assert (by_ada.admin, by_keeper.admin) == (False, True)
        answer = discord_part(house.room, "Not you.", token=by_ada.answer_token, private_to=house.ada.id)
        assert isinstance(await chat.send(answer), Delivered)
        assert pressed[0].text == "Not you." and pressed[0].original is not None and pressed[0].original.ephemeral
        assert house.shown() == ["May I?"] and len(card.components[0]["components"]) == 2
        assert await chat.close_choices(answer.room, sent.external_id) == sent
        assert (card.content, card.components) == ("May I?", [])
        assert await chat.close_choices(answer.room, "1") == SendRefused("unknown_message")


async def test_a_button_on_discord_that_is_none_of_ours_changes_nothing(house: House) -> None:
    async with house.running() as chat:
        await chat.send(discord_part(house.room, "May I?", choices=CHOICES))
        (card,) = house.server.messages(house.room)
        for custom_id in ("yes", "void:1", "void:1:1;drop"):
            pressed = await house.server.click(house.ada, card, custom_id, stale=True)
            await house.server.until(lambda pressed=pressed: pressed.acked)
            assert pressed.original is card
        await house.server.until(lambda: chat.counts["events.foreign_button"] == 3)
        assert not house.said(MessageKind.BUTTON) and house.shown() == ["May I?"]


@pytest.mark.parametrize("choices", [CHOICES, LONGEST], ids=["usual", "longest"])
async def test_buttons_fit_both_platforms(house: House, line: Line, choices: tuple[Choice, ...]) -> None:
    async with house.running() as chat:
        assert isinstance(await chat.send(discord_part(house.room, "May I?", choices=choices)), Delivered)
    group = line.telegram.add_group("House")
    assert isinstance(await line.chat.send(part("May I?", group, choices=choices)), Delivered)
    assert len(line.telegram.messages(group)[-1].buttons) == len(choices)


async def carded(line: Line) -> tuple[Chat, Message, User]:
    """A group with a card in it, and its owner."""
    ann = line.telegram.add_user("Ann")
    group = line.telegram.add_group("House", owner=ann)
    assert isinstance(await line.chat.send(part("May I?", group, choices=CHOICES)), Delivered)
    return group, line.telegram.messages(group)[-1], ann


async def test_a_button_on_telegram_is_answered_where_it_was_pressed(line: Line) -> None:
    group, card, ann = await carded(line)
    ben = line.telegram.add_user("Ben")
    queries = [await line.telegram.click(who, card, YES) for who in (ben, ann)]
    by_ben, by_ann = await line.heard(2)
    assert (by_ben.kind, by_ben.text, by_ben.reply_to) == (MessageKind.BUTTON, YES, str(card.id))
    assert (by_ben.admin, by_ann.admin) == (False, True) and by_ben.addressed_by == {Address.COMMAND}
    answer = part("**Not** you.", group, private_to=ben, token=by_ben.answer_token)
    assert await line.chat.send(answer) == Delivered(f"press:{queries[0]}")
    assert line.telegram.answer_to(queries[0]) == "Not you." and line.telegram.messages(group)[-1] is card
    assert isinstance(await line.chat.send(part("Done.", group, token=by_ann.answer_token)), Delivered)
    assert (line.telegram.answer_to(queries[1]), line.telegram.messages(group)[-1].text) == ("", "Done.")
    assert await line.chat.close_choices(answer.room, str(card.id)) == Delivered(str(card.id))
    assert await line.chat.close_choices(answer.room, str(card.id)) == Delivered(str(card.id))
    assert (card.text, card.buttons) == ("May I?", [])


@pytest.mark.parametrize("why", ["long", "forgotten", "waited"])
async def test_words_that_cannot_be_shown_where_it_was_pressed_come_as_a_message(line: Line, why: str) -> None:
    group, card, _ = await carded(line)
    ben = line.telegram.add_user("Ben")
    private = await line.telegram.start_private(ben)
    if why == "waited":
        line.chat.presses.patience_s = 0.05
    query = await line.telegram.click(ben, card, YES)
    (pressed,) = await line.heard(1)
    if why == "waited":
        await line.telegram.until(lambda: line.telegram.answer_to(query) == "")
    if why == "forgotten":
        line.telegram.message_methods.callback_life_s = -1
    words = "Not you. " * (30 if why == "long" else 1)
    assert isinstance(await line.chat.send(part(words, group, private_to=ben, token=pressed.answer_token)), Delivered)
    assert line.telegram.messages(private)[-1].text == words.strip()
    assert line.telegram.answer_to(query) == (None if why == "forgotten" else "")


async def test_a_button_on_telegram_that_is_none_of_ours_is_only_acknowledged(line: Line) -> None:
    _, card, ann = await carded(line)
    queries = [await line.telegram.click(ann, card, data, forged=True) for data in ("yes", "void:1")]
    line.inbox.replies = False  # this one has the form of ours, but nothing like it was offered
    queries.append(await line.telegram.click(ann, card, "void:9:9", forged=True))
    await line.telegram.until(lambda: all(line.telegram.answer_to(each) == "" for each in queries))
    assert [each.text for each in line.inbox.taken] == ["void:9:9"] and line.chat.ignored["foreign_button"] == 2
