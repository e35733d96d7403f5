"""Which words are archived, by the first rule that holds; and which webhook's words are a person's."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from core.domain.archiving import ROOMS_ALONE, ArchivePolicy, Keep, Skip, SkipReason, archive_decision, kept_kind
from core.domain.ids import CommunityId, RoomId, RoomKey
from core.domain.messages import Attachment, InboundMessage, MessageKind, Origin
from core.domain.proxies import is_copy
from core.domain.rooms import ArchiveSwitch, Room, RoomKind, RoomMode, RoomState

ON, OFF, INHERIT, NEVER = ArchiveSwitch.ON, ArchiveSwitch.OFF, ArchiveSwitch.INHERIT, ArchiveSwitch.NEVER
OPEN = ArchivePolicy(store_dm=True, private_threads=True)
ROOM = Room(
    id=RoomId(1), community_id=CommunityId(1), key=RoomKey("discord", "2"), kind=RoomKind.CHANNEL, name="general",
    topic="", mode=RoomMode.MENTION, archive=ON, archive_above=None, community_active=True, unattended=False,
    state=RoomState.ACTIVE, language="en", persona="plain", quiet_hours=None, paused=False,
)  # fmt: skip
AT = datetime(2026, 5, 4, 12, tzinfo=UTC)
SAID = InboundMessage(
    front_end="discord", room=ROOM.key, message_id="1", event_id="said:1", kind=MessageKind.TEXT, person_ref="7",
    display_name="Ada", username="ada", origin=Origin.HUMAN, text="r: hello there", sent_at=AT, received_at=AT,
)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "own", "above", "policy", "expected"),
    [
        (RoomKind.CHANNEL, ON, None, ROOMS_ALONE, None),
        (RoomKind.CHANNEL, OFF, None, OPEN, SkipReason.NOT_ALLOWED),
        (RoomKind.CHANNEL, INHERIT, None, OPEN, SkipReason.NOT_ALLOWED),
        (RoomKind.CHANNEL, NEVER, None, OPEN, SkipReason.EXCLUDED),
        (RoomKind.FORUM_POST, INHERIT, ON, ROOMS_ALONE, None),
        (RoomKind.TOPIC, OFF, ON, ROOMS_ALONE, SkipReason.NOT_ALLOWED),
        (RoomKind.THREAD_PUBLIC, ON, OFF, ROOMS_ALONE, None),
        (RoomKind.THREAD_PUBLIC, ON, NEVER, OPEN, SkipReason.EXCLUDED),
        (RoomKind.THREAD_PRIVATE, INHERIT, ON, ROOMS_ALONE, SkipReason.PRIVATE_THREAD),
        (RoomKind.THREAD_PRIVATE, INHERIT, ON, OPEN, None),
        (RoomKind.THREAD_PRIVATE, ON, ON, ROOMS_ALONE, None),
        (RoomKind.DM, ON, None, ROOMS_ALONE, SkipReason.DM_OFF),
        (RoomKind.DM, OFF, None, OPEN, None),
        (RoomKind.DM, NEVER, None, OPEN, SkipReason.EXCLUDED),
    ],
)
def test_the_first_rule_that_holds_decides(
    kind: RoomKind, own: ArchiveSwitch, above: ArchiveSwitch | None, policy: ArchivePolicy, expected: SkipReason | None
) -> None:
    room = replace(ROOM, kind=kind, archive=own, archive_above=above)
    assert archive_decision(room, policy) == (Keep() if expected is None else Skip(expected))
    assert archive_decision(replace(room, community_active=False), policy) == Skip(SkipReason.LEFT)


def test_a_direct_room_is_kept_only_of_who_agrees() -> None:
    room = replace(ROOM, kind=RoomKind.DM)
    assert archive_decision(room, OPEN, agrees=False) == Skip(SkipReason.NOT_AGREED)
    assert archive_decision(ROOM, OPEN, agrees=False) == Keep()


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"reply_to": "0"}, "reply"),
        ({"forwarded_from": "3/4", "text": ""}, "forward"),
        ({"text": "", "attachments": (Attachment("sticker", "wave"),)}, "sticker"),
        ({"text": "", "attachments": (Attachment("image", "a.png"),), "reply_to": "0"}, "media"),
        ({"text": "", "quotes": ("[poll: Lunch?, A, B]",)}, "poll"),
        ({"kind": MessageKind.COMMAND}, "command"),
        ({}, "text"),
    ],
)
def test_a_message_is_called_what_it_is(changes: dict[str, object], kind: str) -> None:
    assert kept_kind(replace(SAID, **changes)) == kind  # type: ignore[arg-type]  # a test's own changes


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"text": "hello there"}, True),
        ({"text": "r: hello there", "sent_at": AT - timedelta(seconds=5)}, True),
        ({"text": "hello there", "sent_at": AT + timedelta(seconds=5.1)}, False),
        ({"text": "hello"}, True),
        ({"text": "hello there, all"}, False),
        ({"text": ""}, False),
        ({"text": "hello there", "room": RoomKey("discord", "3")}, False),
    ],
)
def test_a_copy_holds_the_words_without_their_marks(changes: dict[str, object], expected: bool) -> None:
    copy = replace(SAID, message_id="2", origin=Origin.WEBHOOK, **changes)  # type: ignore[arg-type]  # a test's own changes
    assert is_copy(copy, SAID) is expected


def test_long_words_around_a_text_are_no_marks() -> None:
    original = replace(SAID, text="a long sentence that only happens to hold: yes")
    assert not is_copy(replace(SAID, message_id="2", origin=Origin.WEBHOOK, text="yes"), original)


def test_a_copy_of_files_alone_has_the_same_files() -> None:
    files = (Attachment("image", "a.png"),)
    original = replace(SAID, text="r:", attachments=files)
    copy = replace(SAID, message_id="2", origin=Origin.WEBHOOK, text="", attachments=files)
    assert is_copy(copy, original) and not is_copy(replace(copy, attachments=()), original)
