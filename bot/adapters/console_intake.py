"""Lines of the terminal, translated into inbound messages; remembers what this process has sent."""

import re
import secrets
from dataclasses import replace
from datetime import datetime

from bot.adapters.addressing import Names, addressed_by_text
from bot.adapters.console_lines import (
    DIRECT,
    Entry,
    Event,
    FaultCode,
    Local,
    Speaker,
    direct_room,
    following,
    is_command,
    room_of,
    speaker_of,
)
from bot.adapters.console_screen import Asked, Place
from core.domain.ids import RoomKey
from core.domain.messages import Address, InboundMessage, MessageKind, Origin

PLATFORM = "console"
TEXT_LIMIT_CHARS = 4000
_SHOWN_ID = re.compile(r"[0-9]{1,19}")
"""Ids of shown messages are numbers; those of people's messages are not."""
REMEMBERED = 10_000
"""How many lines and messages are remembered, so that a long session does not grow for ever."""


class Intake:
    """Gives ids, finds targets of edits, and says who may change what.

    Args:
        names: What the bot is called.
        admin: Whether people named by `/as` are administrators.
        interactive: Whether lines may be fragments of one message.
    """

    def __init__(self, names: Names, *, admin: bool, interactive: bool) -> None:
        self._names, self._admin, self._interactive = names, admin, interactive
        # Ids of two processes must differ: messages of both are in one archive.
        self._prefix, self._count = secrets.token_hex(4), 0
        self._sent: dict[str, Asked] = {}
        self._revisions: dict[str, int] = {}
        self._input_ids: dict[str, str] = {}

    def place_of(self, entry: Entry, current: Place) -> Place | FaultCode:
        """Return who speaks where in this line: what it says, else the current ones."""
        speaker: Speaker | None = current.speaker
        if entry.speaker is not None:
            speaker = speaker_of(entry.speaker, admin=self._admin)
        if speaker is None:
            return FaultCode.BAD_NAME
        if entry.room is None:
            return replace(current, speaker=speaker, room=following(current.room, speaker))
        room = room_of(entry.room, speaker)
        return FaultCode.BAD_ROOM if room is None else replace(current, speaker=speaker, room=room)

    def moved(self, current: Place, word: Local, rest: str) -> Place | FaultCode:
        """Return the place after `/as`, `/room` or `/dm`. `/dm NAME` does both: a direct room has one person."""
        speaker: Speaker | None = current.speaker
        if word is Local.AS or (word is Local.DM and rest):
            speaker = speaker_of(rest, admin=self._admin)
        if speaker is None:
            return FaultCode.BAD_NAME
        room: str | None = following(current.room, speaker)
        if word is Local.DM:
            room = direct_room(speaker)
        elif word is Local.ROOM:
            room = room_of(rest, speaker)
        return FaultCode.BAD_ROOM if room is None else replace(current, speaker=speaker, room=room)

    def to_inbound(self, entry: Entry, place: Place, now: datetime) -> InboundMessage | FaultCode:
        """Return the line in the words of every platform, or why it is none."""
        if len(entry.text) > TEXT_LIMIT_CHARS:
            return FaultCode.TOO_LONG
        target = self._input_ids.get(entry.reply_to or "", entry.reply_to)
        self._count += 1
        event_id = f"{self._prefix}-{self._count}"
        command = entry.event is None and is_command(entry.text)
        message = InboundMessage(
            front_end=PLATFORM,
            room=RoomKey(PLATFORM, place.room),
            message_id=event_id,
            event_id=event_id,
            kind=MessageKind.COMMAND if command else MessageKind.TEXT,
            person_ref=place.speaker.ref,
            display_name=place.speaker.name,
            username=place.speaker.ref,
            origin=Origin.HUMAN,
            text=entry.text,
            sent_at=now,
            received_at=now,
            reply_to=target,
            addressed_by=self._addressed_by(entry.text, place.room, target, command),
            quiet_window=self._interactive,
            admin=place.speaker.admin,
            operator=place.speaker.operator,
        )
        return message if entry.event is None else self._to_event(entry.event, message)

    def _to_event(self, event: Event, message: InboundMessage) -> InboundMessage | FaultCode:
        """Return what happened to the message that `message` names as its reply target."""
        target = message.reply_to
        if not target:
            return FaultCode.MISSING_TARGET
        if not message.text and event is not Event.DELETE:
            return FaultCode.MISSING_TEXT
        known = self._sent.get(target)
        own = known is not None and known.speaker.ref == message.person_ref
        room = message.room if known is None else known.room
        # Even what asks for nothing says that a direct room is one: it may be the first that is heard of it.
        quiet = frozenset({Address.DM}) if room.chat_ref.startswith(DIRECT) else frozenset[Address]()
        match event:
            case Event.REACT:
                return replace(message, kind=MessageKind.SERVICE, room=room, addressed_by=quiet)
            case Event.EDIT if known is None:
                return FaultCode.UNKNOWN_MESSAGE
            case Event.EDIT if own:
                return replace(
                    message,
                    kind=MessageKind.EDIT,
                    room=room,
                    message_id=target,
                    reply_to=None,
                    revision=self._revisions.get(target, 0) + 1,
                    addressed_by=self._addressed_by(message.text, room.chat_ref, None, False),
                )
            case Event.DELETE if known is None and not message.admin:
                return FaultCode.UNKNOWN_MESSAGE
            case Event.DELETE if own or message.admin:
                gone = replace(message, kind=MessageKind.DELETE, room=room, message_id=target, text="")
                return replace(gone, reply_to=None, addressed_by=quiet)
            case _:
                return FaultCode.NOT_YOURS

    def _addressed_by(self, text: str, room: str, reply_to: str | None, command: bool) -> frozenset[Address]:
        found = {Address.COMMAND} if command else set(addressed_by_text(text, self._names))
        if room.startswith(DIRECT):
            found.add(Address.DM)
        if reply_to is not None and _SHOWN_ID.fullmatch(reply_to) and not command:
            found.add(Address.REPLY)
        return frozenset(found)

    def remember(self, asked: Asked, message: InboundMessage) -> None:
        """Keep what was taken in, so that answers find their line and edits their message."""
        before = self._sent.get(asked.message_id)
        if message.kind in (MessageKind.TEXT, MessageKind.COMMAND):
            self._sent[asked.message_id] = asked
            if asked.input_id is not None:
                self._input_ids[str(asked.input_id)] = asked.message_id
        elif before is not None and asked.waits and asked.turn_id != before.turn_id:
            # An edit that led to an answer of its own is what that answer belongs to from now on.
            self._sent[asked.message_id] = asked
        self._revisions[asked.message_id] = message.revision
        forget_oldest(self._sent)
        forget_oldest(self._revisions)
        forget_oldest(self._input_ids)

    def asked_by(self, message_id: str | None) -> Asked | None:
        """Return the line that sent this message, if this process did."""
        return None if message_id is None else self._sent.get(message_id)


def forget_oldest(memory: dict[str, Asked] | dict[str, int] | dict[str, str] | dict[int, int]) -> None:
    """Drop what was remembered first until no more than `REMEMBERED` are left."""
    while len(memory) > REMEMBERED:
        del memory[next(iter(memory))]  # type: ignore[arg-type]  # the key is the dictionary's own
