"""Rooms, members, administrators and commands of Telegram: through the real library, from the double."""

from collections.abc import AsyncIterator

import pytest
from telegram import InlineKeyboardButton, InlineKeyboardMarkup

from bot.adapters.telegram_places import room_key
from core.domain.errors import Conflict
from core.domain.ids import RoomKey
from core.domain.messages import Address, MessageKind
from core.domain.platforms import Whoever
from core.domain.rooms import RoomKind
from core.ports import Delivered, Unsent
from tests.doubles.telegram_entities import Styled
from tests.doubles.telegram_faults import FaultKind
from tests.doubles.telegram_library import bot_of
from tests.doubles.telegram_server import TelegramServer
from tests.doubles.telegram_state import Chat, User
from tests.fakes import ManualClock, RememberingPlatform
from tests.platform.telegram_line import Line, listening, make_line, part


@pytest.fixture
async def telegram() -> AsyncIterator[TelegramServer]:
    async with TelegramServer(privacy_mode=False, clock=ManualClock()) as double:
        yield double


@pytest.fixture
async def line(telegram: TelegramServer) -> AsyncIterator[Line]:
    async with listening(make_line(telegram)) as one:
        yield one


@pytest.fixture
def ann(telegram: TelegramServer) -> User:
    return telegram.add_user("Ann", "ann_gardener")


@pytest.fixture
def group(telegram: TelegramServer, ann: User) -> Chat:
    return telegram.add_group("Garden", kind="supergroup", owner=ann)


@pytest.mark.field("F012")
async def test_bogus_thread_id_is_ignored(line: Line, ann: User, group: Chat) -> None:
    first = await line.telegram.say(ann, group, "question")
    await line.telegram.say(ann, group, "answer", reply_to=first, bogus_thread_id=first.id)
    assert [each.room for each in await line.heard(2)] == [room_key(group.id)] * 2


async def test_a_topic_is_a_room_and_general_is_the_group(line: Line, ann: User) -> None:
    forum = line.telegram.add_group("House", kind="supergroup", forum=True, owner=ann)
    topic = await line.telegram.create_topic(ann, forum, "Cellar")
    await line.telegram.say(ann, forum, "in general")
    await line.telegram.say(ann, forum, "down here", topic=topic)
    general, cellar = await line.heard(2)
    assert (general.room.topic_ref, cellar.room.topic_ref) == ("", str(topic.id))
    assert (general.reply_to, cellar.reply_to) == (None, None)
    assert cellar.surroundings is not None
    assert (cellar.surroundings.kind, cellar.surroundings.name) == (RoomKind.TOPIC, "Cellar")
    assert cellar.surroundings.parent == general.room


async def test_a_topic_keeps_its_name_and_its_group_is_known_first(line: Line, ann: User) -> None:
    forum = line.telegram.add_group("House", kind="supergroup", forum=True, owner=ann)
    topic = line.telegram.world.create_topic(forum, "Cellar", ann)
    named = await line.telegram.say(ann, forum, "down here", topic=topic)
    await line.telegram.say(ann, forum, "indeed", topic=topic, reply_to=named)
    await line.heard(2)
    await line.confirmed()
    assert [[room.surroundings.name for room in report.rooms] for report in line.memory.reports] == [
        ["House"],
        ["House", "Cellar"],
    ]


async def test_a_topic_whose_name_is_not_said_is_not_renamed(line: Line, ann: User) -> None:
    forum = line.telegram.add_group("House", kind="supergroup", forum=True, owner=ann)
    topic = line.telegram.world.create_topic(forum, "Cellar", ann)
    first = line.telegram.world.store(forum, ann, Styled("before we came"), topic=topic)
    await line.telegram.say(ann, forum, "indeed", topic=topic, reply_to=first)
    await line.heard(1)
    await line.confirmed()
    assert [[room.surroundings.name for room in report.rooms] for report in line.memory.reports] == [["House"]]


async def test_a_topic_made_by_the_bot_is_not_answered_by_what_is_said_in_it(line: Line, ann: User) -> None:
    forum = line.telegram.add_group("House", kind="supergroup", forum=True, owner=ann)
    topic = await line.telegram.create_topic(line.telegram.bot, forum, "Attic")
    await line.telegram.say(ann, forum, "up here", topic=topic)
    assert (await line.heard(1))[0].addressed_by == frozenset()


async def test_a_private_chat_is_a_direct_room_of_one_reader(line: Line, ann: User) -> None:
    chat = await line.telegram.start_private(ann)
    await line.telegram.say(ann, chat, "hello")
    (heard,) = await line.heard(1)
    assert heard.addressed_by == {Address.DM}
    assert heard.surroundings is not None
    assert heard.surroundings.kind is RoomKind.DM
    await line.telegram.until(lambda: bool(line.memory.reports))
    (room,) = line.memory.reports[0].rooms
    assert room.view == room.history == Whoever(accounts=frozenset({str(ann.id)}))


async def test_whoever_is_in_a_group_reads_all_of_it(line: Line, ann: User, group: Chat) -> None:
    await line.telegram.say(ann, group, "one")
    await line.heard(1)
    await line.confirmed()
    assert [report.rooms[0].view for report in line.memory.reports] == [Whoever(everyone=True)]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("/ask is it dry?", "/ask is it dry?"),
        ("/ask@void_double_bot is\nit dry?", "/ask is\nit dry?"),
        ("/why_silent", "/why-silent"),
        ("/void_mode lurk archive:on", "/void mode lurk archive:on"),
        ("/void mode lurk", "/void mode lurk"),
        ("/void@void_double_bot mode", "/void mode"),
        ("/HELP", "/help"),
        ("/nonsense@void_double_bot x", "/nonsense x"),
        ("/void what", "/void what"),
        ("/start@void_double_bot", "/help"),
    ],
)
async def test_command_names_map_both_ways(line: Line, ann: User, group: Chat, typed: str, meant: str) -> None:
    await line.telegram.say(ann, group, typed)
    (heard,) = await line.heard(1)
    assert (heard.kind, heard.text, set(heard.addressed_by)) == (MessageKind.COMMAND, meant, {Address.COMMAND})


async def test_commands_of_other_bots_are_left_to_them(line: Line, ann: User, group: Chat) -> None:
    await line.telegram.say(ann, group, "/help@other_bot")
    await line.telegram.say(ann, group, "/weather berlin")
    await line.telegram.say(ann, group, "/start")
    await line.telegram.say(ann, group, "over")
    await line.heard(1)
    assert line.inbox.texts == ["over"]
    assert line.chat.ignored == {"other_bots_command": 3}


async def test_in_a_private_chat_every_command_is_ours(line: Line, ann: User) -> None:
    chat = await line.telegram.start_private(ann)
    await line.telegram.say(ann, chat, "/start private")
    await line.telegram.say(ann, chat, "/weather berlin")
    heard = await line.heard(2)
    assert [each.text for each in heard] == ["/help", "/weather berlin"]
    assert heard[0].addressed_by == {Address.COMMAND, Address.DM}


async def test_an_edited_command_does_nothing_more(line: Line, ann: User, group: Chat) -> None:
    said = await line.telegram.say(ann, group, "/ask wet?")
    await line.telegram.edit(said, "/ask dry?")
    await line.heard(1)
    await line.confirmed()
    assert line.inbox.texts == ["/ask wet?"]


async def test_who_may_change_the_group_is_an_administrator(line: Line, ann: User, group: Chat) -> None:
    double = line.telegram
    bo, cy, di = (double.add_user(name) for name in ("Bo", "Cy", "Di"))
    ed = double.add_user("Ed")
    await double.promote(ed, group, by=ann, can_restrict_members=True)
    await double.promote(bo, group, by=ann, can_change_info=True)
    await double.promote(cy, group, by=ann, can_pin_messages=True)
    for each in (ann, bo, cy, di, ed):
        await double.say(each, group, "/void mode lurk")
    heard = await line.heard(5)
    assert [each.admin for each in heard] == [True, True, False, False, False]
    assert [each.moderator for each in heard] == [True, False, False, False, True]


async def test_the_platform_is_asked_once_in_a_while_and_for_admin_commands_alone(
    line: Line, ann: User, group: Chat
) -> None:
    for text in ("void, hello", "/ask x", "/void mode", "/void mode"):
        await line.telegram.say(ann, group, text)
    await line.heard(4)
    assert len(line.telegram.called("getChatMember")) == 1
    await line.clock.advance(31)
    await line.telegram.say(ann, group, "/void mode")
    await line.heard(5)
    assert len(line.telegram.called("getChatMember")) == 2


async def test_who_cannot_be_looked_up_is_no_administrator(line: Line, ann: User, group: Chat) -> None:
    line.telegram.fault(FaultKind.STATUS_BEFORE, match="getChatMember", status=502)
    await line.telegram.say(ann, group, "/void mode")
    assert not (await line.heard(1))[0].admin


async def test_leaving_and_coming_are_told_to_the_memory(line: Line, ann: User, group: Chat) -> None:
    bo = line.telegram.add_user("Bo")
    await line.telegram.join(bo, group, by=ann)
    await line.telegram.leave(bo, group)
    await line.telegram.until(lambda: ("left", (str(group.id), str(bo.id))) in line.memory.told)
    assert [(each.ref, each.name) for report in line.memory.reports for each in report.members] == [(str(bo.id), "Bo")]


async def test_the_bot_put_out_forgets_the_community_and_comes_back(line: Line, ann: User, group: Chat) -> None:
    await line.telegram.say(ann, group, "one")
    await line.heard(1)
    await line.telegram.leave(line.telegram.bot, group, by=ann)
    await line.telegram.until(lambda: ("community gone", str(group.id)) in line.memory.told)
    before = len(line.memory.reports)
    await line.telegram.join(line.telegram.bot, group, by=ann)
    await line.telegram.until(lambda: len(line.memory.reports) > before)


async def test_a_person_who_blocks_the_bot_closes_their_room(line: Line, ann: User) -> None:
    chat = await line.telegram.start_private(ann)
    await line.telegram.block(ann)
    await line.telegram.until(lambda: ("room gone", room_key(chat.id)) in line.memory.told)
    await line.telegram.block(ann, blocked=False)
    await line.telegram.until(lambda: bool(line.memory.reports))


@pytest.mark.field("F011")
@pytest.mark.parametrize("announce", [("old", "new"), ("new", "old"), ("old",), ("new",)])
async def test_migration_from_either_message(line: Line, ann: User, announce: tuple[str, ...]) -> None:
    small = line.telegram.add_group("Shed", owner=ann)
    large = await line.telegram.migrate(small, announce=announce)
    await line.telegram.say(ann, large, "bigger now")
    await line.heard(1)
    assert line.memory.told == [("moved", (room_key(small.id), room_key(large.id)))]


@pytest.mark.parametrize("inaccessible", [False, True])
async def test_anonymous_admin_then_button(line: Line, ann: User, inaccessible: bool) -> None:
    forum = line.telegram.add_group("House", kind="supergroup", forum=True, owner=ann)
    topic = await line.telegram.create_topic(ann, forum, "Cellar")
    await line.telegram.anonymous_admin_say(forum, "/void mode", topic=topic)
    async with bot_of(line.telegram) as bot:
        sent = await bot.send_message(
            forum.id,
            "sure?",
            message_thread_id=topic.id,
            reply_markup=InlineKeyboardMarkup([[InlineKeyboardButton("Yes", callback_data="void:7:1")]]),
        )
    presser = ann if inaccessible else line.telegram.add_user("Ben")
    query = await line.telegram.click(presser, forum.messages[sent.message_id], "void:7:1", inaccessible=inaccessible)
    said, pressed = await line.heard(2)
    # Whoever presses has rights of their own: the group's are not theirs.
    assert (said.person_ref, said.admin) == (str(forum.id), True)
    assert (pressed.person_ref, pressed.admin) == (str(presser.id), presser is ann)
    assert (pressed.kind, pressed.text, pressed.reply_to) == (MessageKind.BUTTON, "void:7:1", str(sent.message_id))
    assert pressed.room == room_key(forum.id, "" if inaccessible else str(topic.id))
    await line.telegram.until(lambda: line.telegram.answer_to(query) is not None)


async def test_a_reaction_to_our_own_answer_is_heard_in_its_topic(line: Line, ann: User) -> None:
    forum = line.telegram.add_group("House", kind="supergroup", forum=True, owner=ann)
    await line.telegram.promote(line.telegram.bot, forum, by=ann)
    topic = await line.telegram.create_topic(ann, forum, "Cellar")
    await line.telegram.say(ann, forum, "void, dry?", topic=topic)
    await line.heard(1)
    sent = await line.chat.send(part("Dry.", forum, topic=topic))
    assert isinstance(sent, Delivered)
    await line.telegram.react(ann, forum.messages[int(sent.external_id)], "👍")
    reaction = (await line.heard(2))[1]
    assert (reaction.room, reaction.reply_to) == (room_key(forum.id, str(topic.id)), sent.external_id)


class Contended(RememberingPlatform):
    """A memory in which somebody else is always at the same chat."""

    async def move(self, old: RoomKey, new: RoomKey) -> None:
        raise Conflict("store: somebody else won")


async def test_a_move_that_somebody_else_makes_meanwhile_sends_nothing(telegram: TelegramServer, ann: User) -> None:
    other = make_line(telegram, memory=Contended())
    small = telegram.add_group("Shed", owner=ann)
    large = await telegram.migrate(small, announce=())
    assert isinstance(await other.chat.send(part("one", small)), Unsent)
    await other.chat.close()
    assert [each.text for each in telegram.messages(large)] == [""]
