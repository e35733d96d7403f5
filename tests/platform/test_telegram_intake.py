"""What people do at Telegram, as it comes in: through the real library, from the double."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from telegram import Update

from bot.adapters.addressing import Names
from bot.adapters.telegram_intake import Ignored, IgnoreReason, Known, translate
from bot.adapters.telegram_places import room_key
from bot.adapters.telegram_requests import bare_unless_readable
from core.domain.messages import Address, InboundMessage, MessageKind, Origin, Reaction, ReactionChange
from tests.doubles.telegram_entities import Entity, Styled
from tests.doubles.telegram_faults import FaultKind
from tests.doubles.telegram_server import TelegramServer
from tests.doubles.telegram_state import Chat, User
from tests.fakes import ManualClock
from tests.platform.telegram_line import Line, listening, make_line


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


async def test_a_message_comes_in_with_room_author_and_text(line: Line, ann: User, group: Chat) -> None:
    said = await line.telegram.say(ann, group, "the pump is fine")
    (heard,) = await line.heard(1)
    assert (heard.room, heard.message_id) == (room_key(group.id), str(said.id))
    assert (heard.person_ref, heard.display_name, heard.username) == (str(ann.id), "Ann", "ann_gardener")
    assert (heard.text, heard.kind, heard.origin, heard.addressed_by) == (
        "the pump is fine", MessageKind.TEXT, Origin.HUMAN, frozenset(),
    )  # fmt: skip
    assert heard.live
    assert int(heard.sent_at.timestamp()) == said.date


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("@void_double_bot help", {Address.MENTION}),
        ("void, how is the pump?", {Address.NAME}),
        ("@void_double_bot and @other_bot", {Address.MENTION}),
        ("@other_bot and @void_double_bot", set()),
        ("@ann_gardener and @void_double_bot", {Address.MENTION}),
        ("@void is somebody else here", set()),
        ("into the void", set()),
        ("nothing for it", set()),
    ],
)
async def test_mentions_and_names_address_the_bot(
    line: Line, ann: User, group: Chat, text: str, how: set[Address]
) -> None:
    await line.telegram.say(ann, group, text)
    (heard,) = await line.heard(1)
    assert heard.addressed_by == how


async def test_a_mention_inside_a_quotation_or_code_does_not_address(line: Line, ann: User, group: Chat) -> None:
    await line.telegram.say(ann, group, "@void_double_bot\nsaid so", entities=[Entity("blockquote", 0, 16)])
    await line.telegram.say(ann, group, "void or not", entities=[Entity("code", 0, 4)])
    heard = await line.heard(2)
    assert [each.addressed_by for each in heard] == [frozenset(), frozenset()]
    assert line.inbox.texts == ["> @void_double_bot\nsaid so", "`void` or not"]


async def test_a_mention_without_a_username_addresses(line: Line, ann: User, group: Chat) -> None:
    me = line.telegram.bot.to_json()
    await line.telegram.say(ann, group, "Void the bot, hello", entities=[Entity("text_mention", 0, 8, {"user": me})])
    assert Address.MENTION in (await line.heard(1))[0].addressed_by


async def test_an_answer_to_the_bot_addresses_it_and_one_to_others_does_not(line: Line, ann: User, group: Chat) -> None:
    own = line.telegram.world.store(group, line.telegram.bot, Styled("mine"))
    theirs = await line.telegram.say(ann, group, "theirs")
    await line.telegram.say(ann, group, "and this?", reply_to=own)
    await line.telegram.say(ann, group, "and that?", reply_to=theirs)
    heard = await line.heard(3)
    assert [(each.reply_to, each.addressed_by) for each in heard[1:]] == [
        (str(own.id), {Address.REPLY}),
        (str(theirs.id), frozenset()),
    ]


async def test_markup_of_the_platform_becomes_markdown(line: Line, ann: User, group: Chat) -> None:
    text = "🎩 bold code link\nx = 1"
    entities = [
        Entity("bold", 3, 4),
        Entity("code", 8, 4),
        Entity("text_link", 13, 4, {"url": "https://x.example"}),
        Entity("pre", 18, 5, {"language": "py"}),
    ]
    await line.telegram.say(ann, group, text, entities=entities)
    await line.heard(1)
    assert line.inbox.texts == ["🎩 **bold** `code` [link](https://x.example)\n```py\nx = 1\n```"]


@pytest.mark.field("F024")
async def test_every_kind_alone_leaves_a_line(line: Line, ann: User, group: Chat) -> None:
    double = line.telegram
    note = await double.say(ann, group, "the pump leaks")
    await double.send_photo(ann, group)
    await double.send_sticker(ann, group, "👍")
    await double.send_voice(ann, group, 14)
    await double.send_document(ann, group, "plan.txt", b"x" * 60_000)
    await double.send_poll(ann, group, "When?", "today", "never")
    await double.forward(ann, note, group)
    heard = await line.heard(7)
    assert [each.told() for each in heard[1:]] == [
        "[image]",
        "[sticker: 👍]",
        "[voice: 14 s, not transcribed]",
        "[file: plan.txt, 0.1 MB]",
        "[poll: When? — today / never]",
        "[forwarded from Ann]\n> the pump leaks",
    ]
    assert all(each.attachments[0].handle for each in heard[1:5])


async def test_every_kind_in_a_private_chat_speaks_to_the_bot(line: Line, ann: User) -> None:
    chat = await line.telegram.start_private(ann)
    await line.telegram.send_photo(ann, chat, "what is this?")
    await line.telegram.send_sticker(ann, chat)
    heard = await line.heard(2)
    assert [each.addressed_by for each in heard] == [{Address.DM}] * 2
    assert heard[0].text == "what is this?"


def update_of(**content: object) -> Update:
    """Return an update with a message that holds only what is given."""
    who = {"id": 5, "is_bot": False, "first_name": "Ann"}
    chat = {"id": -1001, "type": "supergroup", "title": "Garden"}
    message = {"message_id": 7, "date": 1_796_000_000, "chat": chat, "from": who, **content}
    return Update.de_json({"update_id": 1, "message": message}, None)


def known() -> Known:
    return Known(bot_id=9, username="void_double_bot", names=Names(), now=ManualClock().now())


def told(update: Update) -> str:
    """Return what a message tells."""
    heard = translate(update, known())
    message = getattr(heard, "message", None)
    assert isinstance(message, InboundMessage)
    return message.told()


PLACE = {"latitude": 52.5, "longitude": 13.4}
FILE = {"file_id": "f", "file_unique_id": "u", "width": 1, "height": 1, "duration": 3}
OTHERS = [
    ({"location": PLACE}, "[location: 52.5000, 13.4000]"),
    (
        {"venue": {"location": PLACE, "title": "Shed", "address": "Yard 1"}, "location": PLACE},
        "[place: Shed, Yard 1]",
    ),
    ({"contact": {"phone_number": "123", "first_name": "Bo"}}, "[contact: Bo]"),
    ({"dice": {"emoji": "🎲", "value": 4}}, "[🎲 4]"),
    ({"video": FILE | {"file_name": "a.mp4"}}, "[video: a.mp4, 3 s]"),
    ({"animation": FILE, "document": {"file_id": "f", "file_unique_id": "u"}}, "[video: 3 s]"),
    ({"video_note": FILE | {"length": 2}}, "[video: video note, 3 s]"),
    ({"audio": {"file_id": "f", "file_unique_id": "u", "duration": 61, "file_name": "song"}}, "[audio: song, 61 s]"),
    ({"something_new": {"x": 1}}, "[a message of a kind that is not known here]"),
    ({"text": "yes", "quote": {"text": "pump?", "position": 0}}, "yes\n[quoted]\n> pump?"),
]


@pytest.mark.field("F024")
@pytest.mark.parametrize(("content", "line_"), OTHERS)
def test_kinds_that_people_seldom_send_are_never_empty(content: dict[str, object], line_: str) -> None:
    assert told(update_of(**content)) == line_


async def test_large_file_becomes_a_note(line: Line, ann: User, group: Chat) -> None:
    await line.telegram.send_document(ann, group, "film.mkv", size=50_000_000)
    assert (await line.heard(1))[0].told() == "[file: film.mkv, 50.0 MB, over the 20 MB that bots may fetch]"


async def test_items_of_an_album_carry_its_id(line: Line, ann: User, group: Chat) -> None:
    await line.telegram.send_album(ann, group, 6, caption_on=2, caption="void, what are these?")
    heard = await line.heard(6)
    assert len({each.album_id for each in heard}) == 1
    assert heard[0].album_id
    assert [each.told() for each in heard] == [
        "[image]", "[image]", "void, what are these?\n[image]", "[image]", "[image]", "[image]",
    ]  # fmt: skip


async def test_what_a_forward_says_speaks_for_nobody(line: Line, ann: User, group: Chat) -> None:
    first = await line.telegram.say(ann, group, "@void_double_bot /help")
    await line.telegram.forward(ann, first, group, hidden=True)
    forwarded = (await line.heard(2))[1]
    assert (forwarded.text, forwarded.addressed_by) == ("", frozenset())
    assert forwarded.quotes == ("[forwarded from Ann]\n> @void_double_bot /help",)


async def test_a_quoted_piece_of_a_message_is_a_block_of_its_own(line: Line, ann: User, group: Chat) -> None:
    first = await line.telegram.say(ann, group, "the pump, void, is broken")
    await line.telegram.quote_reply(ann, first, "void", "which one?")
    heard = (await line.heard(2))[1]
    assert (heard.text, heard.quotes, heard.addressed_by) == ("which one?", ("[quoted]\n> void",), frozenset())


async def test_an_edit_comes_in_with_its_number(line: Line, ann: User, group: Chat) -> None:
    said = await line.telegram.say(ann, group, "the pumb")
    await line.telegram.edit(said, "the pump")
    await line.telegram.edit(said, "void, the pump?")
    heard = await line.heard(3)
    assert [(each.kind, each.text, each.revision, each.message_id) for each in heard[1:]] == [
        (MessageKind.EDIT, "the pump", 1, str(said.id)),
        (MessageKind.EDIT, "void, the pump?", 2, str(said.id)),
    ]
    assert heard[2].addressed_by == {Address.NAME}
    assert int(heard[2].sent_at.timestamp()) == said.date


async def test_same_text_edit_is_ignored(line: Line, ann: User, group: Chat) -> None:
    said = await line.telegram.say(ann, group, "see https://x.example")
    await line.heard(1)
    await line.telegram.edit(said)
    await line.confirmed()
    assert (len(line.inbox.taken), line.chat.ignored) == (1, {"same_text": 1})


async def test_shared_ids_are_not_people(line: Line, group: Chat) -> None:
    channel = line.telegram.add_channel("News", linked_group=group)
    other = line.telegram.add_channel("Elsewhere")
    await line.telegram.anonymous_admin_say(group, "be kind")
    await line.telegram.channel_post(channel, "news")
    await line.telegram.say_as_channel(other, group, "void, hello")
    heard = await line.heard(4)
    assert [(each.origin, each.person_ref, each.room.chat_ref) for each in heard] == [
        (Origin.ANONYMOUS_ADMIN, str(group.id), str(group.id)),
        (Origin.CHANNEL, str(channel.id), str(channel.id)),
        (Origin.CHANNEL, str(channel.id), str(group.id)),
        (Origin.CHANNEL, str(other.id), str(group.id)),
    ]
    assert [each.admin for each in heard] == [True, False, False, False]


async def test_bot_message_if_it_arrives(line: Line, group: Chat) -> None:
    line.telegram.bots_hear_bots = True
    other = line.telegram.add_user("Helper", "helper_bot", bot=True)
    await line.telegram.say(other, group, "@void_double_bot hello")
    (heard,) = await line.heard(1)
    assert (heard.origin, set(heard.addressed_by)) == (Origin.BOT, {Address.MENTION})


@pytest.mark.field("F039")
def test_our_own_message_is_never_input() -> None:
    me = {"id": 9, "is_bot": False, "first_name": "Void"}
    assert translate(update_of(text="void, hello", **{"from": me}), known()) == Ignored(IgnoreReason.OWN)


async def test_order_within_one_second(line: Line, ann: User, group: Chat) -> None:
    sent = [await line.telegram.say(ann, group, f"{n}") for n in range(8)]
    heard = await line.heard(8)
    assert [each.message_id for each in heard] == [str(each.id) for each in sent]


async def test_a_reaction_names_its_message(line: Line, ann: User) -> None:
    forum = line.telegram.add_group("House", kind="supergroup", forum=True, owner=ann)
    await line.telegram.promote(line.telegram.bot, forum, by=ann)
    topic = await line.telegram.create_topic(ann, forum, "Cellar")
    said = await line.telegram.say(ann, forum, "dry", topic=topic)
    await line.heard(1)
    await line.telegram.react(ann, said, "👍")
    heard = (await line.heard(2))[1]
    assert (heard.kind, heard.text, heard.reply_to) == (MessageKind.REACTION, "👍", str(said.id))
    assert heard.reaction == Reaction(ReactionChange.SET, ("👍",))
    assert heard.room == room_key(forum.id, str(topic.id))
    assert heard.addressed_by == frozenset()


@pytest.mark.parametrize("kind", ["message", "edited_message", "my_chat_member"])
async def test_a_malformed_update_is_counted_and_the_next_one_is_heard(
    line: Line, ann: User, group: Chat, kind: str
) -> None:
    said = await line.telegram.say(ann, group, "first")
    await line.heard(1)
    line.telegram.fault(FaultKind.MALFORMED_UPDATE, match=kind)
    line.telegram.fault(FaultKind.MALFORMED_UPDATE, match="message", body={})
    if kind == "edited_message":
        await line.telegram.edit(said, "other")
    elif kind == "my_chat_member":
        await line.telegram.promote(line.telegram.bot, group, by=ann)
    else:
        await line.telegram.say(ann, group, "broken")
    await line.telegram.say(ann, group, "broken to the bone")
    await line.telegram.say(ann, group, "last")
    await line.heard(2)
    assert line.inbox.texts == ["first", "last"]
    assert sum(line.chat.ignored.values()) == 2


async def test_what_waited_long_at_the_platform_came_by_catch_up(
    telegram: TelegramServer, ann: User, group: Chat
) -> None:
    await telegram.say(ann, group, "void, are you there?")
    late = make_line(telegram)
    await late.clock.advance(timedelta(minutes=3).total_seconds())
    async with listening(late):
        assert not (await late.heard(1))[0].live


KEYS = (
    "id", "type", "chat", "from", "text", "date", "message_id", "entities", "offset", "length", "user", "status",
    "poll", "photo", "sender_chat", "reply_to_message", "forward_origin", "new_chat_member", "old_chat_member",
)  # fmt: skip
KINDS = (
    "message", "edited_message", "channel_post", "callback_query", "message_reaction", "my_chat_member", "chat_member",
    "poll",
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6),
    max_leaves=12,
)


@settings(max_examples=120, deadline=None)
@example("my_chat_member", {"new_chat_member": {}}, {"id": 1, "type": "group"}, {"id": 2})
@example("chat_member", {}, {"id": 1, "type": "group"}, {"id": 2})
@given(st.sampled_from(KINDS), JSON, JSON, JSON)
def test_no_update_raises(kind: str, body: object, chat: object, sender: object) -> None:
    whole = update_of().to_dict()["message"]
    if isinstance(body, dict):
        body = {**whole, **body} if kind.endswith(("message", "post")) else body
        body |= {} if chat is None else {"chat": chat}
        body |= {} if sender is None else {"from": sender}
    update = Update.de_json(bare_unless_readable({"update_id": 1, kind: body}), None)
    translate(update, known())
