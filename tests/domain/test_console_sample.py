"""The sample community holds together, and its private room has secrets worth keeping."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.adapters.console_intake import TEXT_LIMIT_CHARS
from bot.adapters.console_lines import Speaker, room_of, speaker_of

PATH = Path(__file__).parents[2] / "data" / "sample_community.yaml"
SECRETS = ("7319", "copperfox", "1,950", "old dairy", "instalment", "marigold")


@pytest.fixture(scope="module")
def sample() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(PATH.read_text())
    return loaded


def age(text: str) -> timedelta:
    found = re.fullmatch(r"(?:(\d+)d)? ?(?:(\d+)h)? ?(?:(\d+)m)?", text)
    assert found
    days, hours, minutes = (int(part or 0) for part in found.groups())
    return timedelta(days=days, hours=hours, minutes=minutes)


def test_it_is_small_but_not_empty(sample: dict[str, Any]) -> None:
    assert 6 <= len(sample["people"]) <= 8
    assert 4 <= len(sample["rooms"]) <= 5
    assert 50 <= len(sample["messages"]) <= 70


def test_every_person_and_room_can_be_named_in_the_terminal(sample: dict[str, Any]) -> None:
    for person in sample["people"]:
        assert speaker_of(person["name"], admin=False) == Speaker(person["ref"], person["name"])
    for room in sample["rooms"]:
        assert room_of(room["ref"], Speaker("mara", "Mara")) == room["ref"]


def test_every_reference_leads_somewhere(sample: dict[str, Any]) -> None:
    people = {person["ref"] for person in sample["people"]}
    rooms = {room["ref"] for room in sample["rooms"]}
    for room in sample["rooms"]:
        assert set(room.get("readers", [])) <= people
    for message in sample["messages"]:
        assert message["author"] in people
        assert message["room"] in rooms
        assert 0 < len(message["text"]) <= TEXT_LIMIT_CHARS


def test_ids_are_unique_and_no_numbers(sample: dict[str, Any]) -> None:
    ids = [message["id"] for message in sample["messages"]]
    assert len(set(ids)) == len(ids)
    assert not any(message_id.isdecimal() for message_id in ids)


def test_messages_of_a_room_come_oldest_first_and_answer_earlier_ones(sample: dict[str, Any]) -> None:
    last: dict[str, timedelta] = {}
    seen: dict[str, str] = {}
    for message in sample["messages"]:
        room, ago = message["room"], age(message["ago"])
        assert timedelta() < ago <= last.get(room, ago)
        assert "reply_to" not in message or seen[message["reply_to"]] == room
        last[room], seen[message["id"]] = ago, room


def test_only_its_readers_write_in_the_private_room(sample: dict[str, Any]) -> None:
    [private] = [room for room in sample["rooms"] if "readers" in room]
    authors = {message["author"] for message in sample["messages"] if message["room"] == private["ref"]}
    assert authors <= set(private["readers"]) < {person["ref"] for person in sample["people"]}


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_stands_in_the_private_room_alone(sample: dict[str, Any], secret: str) -> None:
    assert {message["room"] for message in sample["messages"] if secret in message["text"]} == {"staff"}
