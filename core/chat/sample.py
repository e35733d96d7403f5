"""The sample community: a small invented world for the first look, read from a reviewed file."""

import re
from datetime import datetime, timedelta
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core.domain.errors import Misconfigured
from core.domain.ids import CommunityId, PersonId, RoomId, RoomKey
from core.domain.rooms import ArchiveSwitch, RoomKind, RoomMode
from core.store import access, archive, people, places
from core.store.engine import Tx

_SPAN = re.compile(r"(\d+)([dhm])")
_UNITS = {"d": "days", "h": "hours", "m": "minutes"}


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Community(_Model):
    name: str
    timezone: str
    language: str


class _Person(_Model):
    ref: str
    name: str


class _Room(_Model):
    ref: str
    name: str
    topic: str = ""
    mode: RoomMode = RoomMode.MENTION
    archive: bool = False
    readers: tuple[str, ...] | None = None


class _Message(_Model):
    id: str
    room: str
    author: str
    ago: str
    text: str
    reply_to: str | None = None


class Sample(_Model):
    """The whole file. A room without `readers` is read by everyone of the community."""

    community: _Community
    people: tuple[_Person, ...] = Field(min_length=1)
    rooms: tuple[_Room, ...] = Field(min_length=1)
    messages: tuple[_Message, ...]


def read_sample(path: Path) -> Sample:
    """Return the sample community in a file.

    Raises:
        Misconfigured: The file is missing or wrong.
    """
    try:
        return Sample.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError, ValidationError) as exc:
        raise Misconfigured(f"sample: {path.name} cannot be used; restore it from the release") from exc


async def load_sample(tx: Tx, sample: Sample, platform: str, now: datetime) -> int:
    """Add the sample community unless the platform has a community already; return how many messages it has."""
    community = sample.community
    if await places.has_community(tx, platform):
        return 0
    community_id = await places.add_community(
        tx, platform, platform, community.name, timezone=community.timezone, language=community.language
    )
    persons = {
        person.ref: (
            await people.ensure_person(tx, platform, person.ref, community_id, person.name, limits="unlimited")
        ).id
        for person in sample.people
    }
    rooms = {room.ref: await _add_room(tx, community_id, platform, room, persons) for room in sample.rooms}
    messages = sorted(sample.messages, key=lambda message: -_ago(message.ago))
    for message in messages:
        await archive.add_message(
            tx,
            archive.NewMessage(
                room_id=rooms[message.room],
                community_id=community_id,
                author_id=persons[message.author],
                platform_ref=message.id,
                kind="text",
                text=message.text,
                sent_at=now - timedelta(seconds=_ago(message.ago)),
                reply_to_ref=message.reply_to,
                origin="import",
            ),
        )
    return len(messages)


async def _add_room(
    tx: Tx, community_id: CommunityId, platform: str, room: _Room, persons: dict[str, PersonId]
) -> RoomId:
    switch = ArchiveSwitch.ON if room.archive else ArchiveSwitch.OFF
    room_id = await places.add_room(
        tx, community_id, RoomKey(platform, room.ref), RoomKind.TERMINAL, room.name, topic=room.topic, archive=switch
    )
    await places.save_mode(tx, room_id, mode=room.mode)
    readers = room.readers or ()
    await access.save_access(
        tx, room_id, community_id, everyone=room.readers is None, users=[persons[ref] for ref in readers]
    )
    return room_id


def _ago(text: str) -> float:
    return timedelta(**{_UNITS[unit]: int(count) for count, unit in _SPAN.findall(text)}).total_seconds()
