"""Discord's JSON as inbound messages: pure, and total whatever comes."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.adapters.addressing import Names
from bot.adapters.discord_commands import to_command
from bot.adapters.discord_intake import Ignored, Place, Us, Why, noted, paste_of, to_inbound
from bot.adapters.discord_markup import Labels, readable
from core.domain.messages import Address, InboundMessage, MessageKind, Origin
from core.domain.platforms import Surroundings
from core.domain.rooms import RoomKind

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
BOT, ADA, OTHER = "900", "901", "902"
US = Us(bot_ref=BOT, names=Names())
PLACE = Place(
    surroundings=Surroundings(community_ref="1", kind=RoomKind.CHANNEL, name="general"),
    owner_ref="905",
    admin_roles=frozenset({"77"}),
    own_roles=frozenset({"55"}),
    role_name=lambda key: {"66": "helpers"}.get(key, ""),
    room_name=lambda key: {"2": "general"}.get(key, ""),
)
DIRECT = Place(surroundings=Surroundings(community_ref=f"dm:{ADA}", kind=RoomKind.DM))


def message(content: str = "hello", **more: Any) -> dict[str, Any]:
    return {
        "id": "1000000000000000000",
        "channel_id": "2",
        "guild_id": "1",
        "type": 0,
        "content": content,
        "author": {"id": ADA, "username": "ada", "global_name": "Ada"},
        "timestamp": "2026-05-04T12:00:00+00:00",
        "mentions": [],
        "attachments": [],
        **more,
    }


def read(data: object, *, event: str = "MESSAGE_CREATE", us: Us = US, place: Place = PLACE) -> InboundMessage:
    found = to_inbound(event, data, us=us, place=place, now=NOW)
    assert isinstance(found, InboundMessage)
    return found


def why(data: object, event: str = "MESSAGE_CREATE") -> Why:
    found = to_inbound(event, data, us=US, place=PLACE, now=NOW)
    assert isinstance(found, Ignored)
    return found.reason


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_NAMES = sorted(
    {*message(), "flags", "edited_timestamp", "member", "referenced_message", "message_reference", "message_snapshots"}
    | {"poll", "sticker_items", "embeds", "webhook_id", "application_id", "data", "token", "user", "ids"}
)
_EVENTS = st.sampled_from(["MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE", "TYPING_START"])


@given(_EVENTS, st.dictionaries(st.sampled_from(_NAMES), _ANY, max_size=4), st.booleans())
def test_every_event_is_a_message_or_ignored_for_a_reason(event: str, broken: dict[str, Any], bare: bool) -> None:
    data = broken if bare else {**message(), "edited_timestamp": "2026-05-04T12:01:00+00:00", **broken}
    found = to_inbound(event, data, us=US, place=PLACE, now=NOW)
    assert isinstance(found, InboundMessage | Ignored)
    if isinstance(found, InboundMessage):
        assert found.told() is not None and found.sent_at.tzinfo is not None and found.revision >= 0
    paste_of(data)
    to_command(data, us=US, place=PLACE, forms=(), now=NOW)


@given(_ANY)
def test_what_is_no_object_is_malformed(data: Any) -> None:
    assert isinstance(to_inbound("MESSAGE_CREATE", data, us=US, place=PLACE, now=NOW), Ignored)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (f"<@{BOT}> hi", {Address.MENTION}),
        (f"hi <@!{BOT}>", {Address.MENTION}),
        ("<@&55> hi", {Address.MENTION}),
        ("<@&66> hi", set()),
        ("@everyone look", set()),
        ("@here look", set()),
        (f"`<@{BOT}>` is my mention", set()),
        (f"```\n<@{BOT}> hi\n```", set()),
        (f"> <@{BOT}> hi\nwhat did they mean?", set()),
        (f"[<@{BOT}>](https://example.org)", set()),
        (f"<@{OTHER}> <@{BOT}> hi", set()),
        (f"<@{BOT}> <@{OTHER}> hi", {Address.MENTION}),
        ("void, what now?", {Address.NAME}),
        ("@void what now?", {Address.NAME}),
        ("into the void", set()),
        (f"<@{BOT}> void, are you there?", {Address.MENTION, Address.NAME}),
        ("<:void:123456> nice", set()),
    ],
)
def test_only_a_real_address_speaks_to_the_bot(content: str, expected: set[Address]) -> None:
    mentions = [{"id": OTHER, "username": "other", "bot": True}, {"id": BOT, "username": "void", "bot": True}]
    assert read(message(content, mentions=mentions)).addressed_by == expected


def test_a_reply_to_the_bot_speaks_to_it_and_one_to_others_does_not() -> None:
    reference: dict[str, Any] = {"message_reference": {"message_id": "5"}, "type": 19}
    ours = read(message(**reference, referenced_message={"id": "5", "author": {"id": BOT}}))
    theirs = read(message(**reference, referenced_message={"id": "5", "author": {"id": OTHER}}))
    gone = read(message(**reference, referenced_message=None))
    assert ours.addressed_by == {Address.REPLY}
    assert not theirs.addressed_by
    assert (ours.reply_to, theirs.reply_to, gone.reply_to) == ("5", "5", "5")


def test_in_a_direct_room_everything_speaks_to_the_bot() -> None:
    assert read(message(), place=DIRECT).addressed_by == {Address.DM}
    assert read(message(), event="MESSAGE_DELETE", place=DIRECT).addressed_by == {Address.DM}


@pytest.mark.parametrize(
    ("more", "origin"),
    [
        ({}, Origin.HUMAN),
        ({"author": {"id": OTHER, "username": "b", "bot": True}}, Origin.BOT),
        ({"author": {"id": OTHER, "username": "w", "bot": True}, "webhook_id": OTHER}, Origin.WEBHOOK),
        ({"author": {"id": BOT, "username": "void", "bot": True}}, Origin.SELF),
        ({"author": {"id": OTHER, "username": "w"}, "webhook_id": OTHER, "application_id": BOT}, Origin.SELF),
        (
            {"author": {"id": OTHER, "bot": True}, "webhook_id": OTHER, "interaction_metadata": {"id": "1"}},
            Origin.BOT,
        ),
    ],
)
def test_who_wrote_is_told_apart(more: dict[str, Any], origin: Origin) -> None:
    assert read(message(f"<@{BOT}> hi", **more)).origin is origin


def test_what_a_webhook_or_the_bot_itself_says_speaks_to_nobody() -> None:
    for more in ({"webhook_id": OTHER}, {"author": {"id": BOT, "username": "void"}}):
        assert read(message(f"<@{BOT}> hi", **more)).addressed_by == frozenset()


@pytest.mark.parametrize(
    ("author", "roles", "admin"),
    [(ADA, [], False), ("905", [], True), (ADA, ["77"], True), (ADA, ["66"], False)],
)
def test_administrators_are_the_owner_and_holders_of_such_a_role(author: str, roles: list[str], admin: bool) -> None:
    assert read(message(author={"id": author, "username": "a"}, member={"roles": roles})).admin is admin


def test_moderators_are_holders_of_such_a_role_and_no_administrators() -> None:
    place = replace(PLACE, staff_roles=frozenset({"66"}))
    told = read(message(author={"id": ADA, "username": "a"}, member={"roles": ["66"]}), place=place)
    assert (told.admin, told.moderator) == (False, True)
    assert not read(message(author={"id": ADA, "username": "a"}, member={"roles": ["55"]}), place=place).moderator


def test_everyone_may_be_administrator_and_a_bot_is_never_one() -> None:
    place = replace(PLACE, admin_roles=frozenset({"1"}))
    assert read(message(member={"roles": []}), place=place).admin
    assert not read(message(author={"id": OTHER, "bot": True}), place=place).admin


@pytest.mark.field("F024")
@pytest.mark.parametrize(
    ("more", "line"),
    [
        ({"attachments": [{"id": "7", "filename": "cat.png", "content_type": "image/png", "size": 1_200_000}]},
         "[image: cat.png, 1.2 MB]"),
        ({"attachments": [{"id": "7", "filename": "v.ogg", "content_type": "audio/ogg", "duration_secs": 14.2}],
          "flags": 1 << 13}, "[voice: 14 s]"),
        ({"attachments": [{"id": "7", "filename": "x"}]}, "[file: x]"),
        ({"sticker_items": [{"id": "8", "name": "wave"}]}, "[sticker: wave]"),
        ({"poll": {"question": {"text": "Tea?"}, "answers": [{"poll_media": {"text": "yes"}}]}}, "[poll: Tea?, yes]"),
        ({"message_reference": {"type": 1, "message_id": "9"},
          "message_snapshots": [{"message": {"content": "old words"}}]}, "[forwarded]\nold words\n[end of forwarded]"),
        ({"message_reference": {"type": 1, "message_id": "9"},
          "message_snapshots": [{"message": {"attachments": [{"id": "1", "filename": "a.png",
                                                              "content_type": "image/png"}]}}]},
         "[forwarded]\n[image: a.png]\n[end of forwarded]"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", [PLACE, DIRECT])
def test_no_kind_alone_is_empty(more: dict[str, Any], line: str, place: Place) -> None:
    found = read(message("", **more), place=place)
    assert found.told() == line
    assert not found.text_hidden
    assert all("http" not in one.handle for one in found.attachments)


def test_cards_of_machines_are_read_and_previews_are_not() -> None:
    card = {"type": "rich", "title": "Build", "description": "failed"}
    bot = {"id": OTHER, "username": "ci", "bot": True}
    assert read(message("", author=bot, embeds=[card])).quotes == ("[card]\nBuild\nfailed\n[end of card]",)
    assert read(message("see", embeds=[{"type": "link", "title": "A page"}])).quotes == ()


@pytest.mark.parametrize("kind", [6, 7, 8, 18, 46, 9_999])
def test_notices_of_the_platform_are_no_messages(kind: int) -> None:
    assert why(message(type=kind)) is Why.SERVICE


def test_a_bot_that_is_still_thinking_has_said_nothing() -> None:
    assert why(message("", author={"id": OTHER, "bot": True}, flags=1 << 7)) is Why.PASSING


def test_an_update_without_a_time_of_editing_is_no_edit() -> None:
    assert why(message(embeds=[{"type": "link"}]), "MESSAGE_UPDATE") is Why.NOT_EDITED
    assert why({"id": "1", "channel_id": "2", "pinned": True}, "MESSAGE_UPDATE") is Why.NOT_EDITED


def test_two_edits_are_two_events_and_the_same_one_is_one() -> None:
    edits = [
        read(message("new", edited_timestamp=f"2026-05-04T12:00:0{second}+00:00"), event="MESSAGE_UPDATE")
        for second in (1, 1, 2)
    ]
    assert [one.kind for one in edits] == [MessageKind.EDIT] * 3
    assert edits[0].event_id == edits[1].event_id != edits[2].event_id
    assert edits[2].revision > edits[0].revision > 0


def test_hidden_words_are_said_to_be_hidden() -> None:
    blind = replace(US, sees_text=False)
    reply = {"type": 19, "message_reference": {"message_id": "5"}, "referenced_message": {"author": {"id": BOT}}}
    found = read(message("", **reply), us=blind)
    assert found.text_hidden and found.addressed_by == {Address.REPLY} and found.told()
    assert not read(message("hi", mentions=[{"id": BOT}]), us=blind).text_hidden
    assert not read(message(""), us=blind, place=DIRECT).text_hidden


def test_marks_become_names_outside_code_only() -> None:
    labels = Labels(people={ADA: "Ada"}, role=lambda _: "helpers", room=lambda _: "general")
    text = f"<@{ADA}> <@&6> <#2> <a:wave:12> <t:0:R> </void status:5> <@404> `<@{ADA}>`"
    assert readable(text, labels) == (
        f"@Ada @helpers #general :wave: 1970-01-01 00:00 UTC /void status @someone `<@{ADA}>`"
    )


def test_a_lone_paste_stands_for_its_message() -> None:
    file = {"id": "7", "filename": "message.txt", "size": 10, "url": "https://cdn.discordapp.com/x"}
    assert paste_of(message("", attachments=[file])) == file
    assert paste_of(message("look", attachments=[file])) is None
    assert paste_of(message("", attachments=[file, file])) is None
    found = noted(read(message("the text", attachments=[file])), "read as text")
    assert isinstance(found, InboundMessage) and found.told() == "the text\n[file: message.txt, read as text]"
