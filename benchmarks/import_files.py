"""Export files of any length in each format, made from a folder's rooms or from made-up talk."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TextIO

from benchmarks.town import sentence
from core.domain.imports import ImportFormat

BEGAN = datetime(2015, 1, 1, tzinfo=UTC)
AUTHORS = 200
CHAT = 7_000_000
REPLY_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class Line:
    """One message of the file to be. `reply_to`: how many messages before it the one stands that it answers."""

    number: int
    author: str
    text: str
    reply_to: int | None


def talk(folder: Path | None, count: int, seed: int) -> Iterator[Line]:
    """Yield so many messages: the folder's over and over, or made-up ones.

    Raises:
        ValueError: A line of the folder is no message; it names file and line.
    """
    rng = random.Random(seed)
    texts = _made_up(rng) if folder is None else _from(folder)
    for number in range(count):
        author, text = next(texts)
        answers = rng.random() < REPLY_SHARE and number > 0
        yield Line(number, author, text, rng.randint(1, min(number, 50)) if answers else None)


def _made_up(rng: random.Random) -> Iterator[tuple[str, str]]:
    while True:
        yield f"member {rng.randrange(AUTHORS)}", sentence(rng)


def _from(folder: Path) -> Iterator[tuple[str, str]]:
    files = sorted(folder.glob("rooms.jsonl")) or sorted(folder.glob("*/rooms.jsonl"))
    if not files:
        raise ValueError(f"{folder}: holds no rooms.jsonl")
    while True:
        for file in files:
            with file.open(encoding="utf-8") as lines:
                for number, line in enumerate(lines, 1):
                    try:
                        told = json.loads(line)
                        yield str(told["author"]), str(told["text"])
                    except (ValueError, KeyError, TypeError) as exc:
                        raise ValueError(f"{file}, line {number}: is no message") from exc


def write(path: Path, form: ImportFormat, lines: Iterator[Line]) -> None:
    """Write a file as the exporter of that format does."""
    with path.open("w", encoding="utf-8") as file:
        match form:
            case ImportFormat.JSONL:
                for line in lines:
                    file.write(json.dumps(_jsonl(line), ensure_ascii=False) + "\n")
            case ImportFormat.DISCORD:
                guild = {"id": "500", "name": "Bench", "iconUrl": None}
                channel = {"id": str(CHAT), "type": "GuildTextChat", "categoryId": "1", "name": "bench", "topic": None}
                _array(file, {"guild": guild, "channel": channel, "dateRange": {}}, map(_discord, lines))
            case ImportFormat.TELEGRAM:
                head = {"name": "Bench", "type": "public_supergroup", "id": CHAT}
                _array(file, head, map(_telegram, lines))


def _array(file: TextIO, head: dict[str, object], elements: Iterator[dict[str, object]]) -> None:
    file.write(json.dumps(head, indent=1)[:-2] + ',\n "messages": [\n')
    for number, element in enumerate(elements):
        file.write((",\n" if number else "") + json.dumps(element, indent=1, ensure_ascii=False))
    file.write("\n ]\n}\n")


def _at(line: Line) -> datetime:
    return BEGAN + timedelta(seconds=20 * line.number)


def _ref(line: Line, back: int = 0) -> int:
    return 100_000 + line.number - back


def _jsonl(line: Line) -> dict[str, object]:
    reply_to = None if line.reply_to is None else str(_ref(line, line.reply_to))
    return {"room": "bench", "message_id": str(_ref(line)), "author": line.author, "ts": _at(line).isoformat(),
            "text": line.text, "reply_to": reply_to, "session": f"day {_at(line):%Y%j}", "caption": None}  # fmt: skip


def _discord(line: Line) -> dict[str, object]:
    author: dict[str, object] = {"id": str(abs(hash_of(line.author))), "name": line.author, "discriminator": "0000",
              "nickname": line.author, "color": None, "isBot": False, "roles": [],
              "avatarUrl": "https://cdn.example.org/avatars/0.png?size=512"}  # fmt: skip
    told: dict[str, object] = {
        "id": str(_ref(line)), "type": "Default" if line.reply_to is None else "Reply",
        "timestamp": _at(line).isoformat(timespec="milliseconds"), "timestampEdited": None, "callEndedTimestamp": None,
        "isPinned": False, "content": line.text, "author": author, "attachments": [], "embeds": [], "stickers": [],
        "reactions": [], "mentions": [], "inlineEmojis": [],
    }  # fmt: skip
    if line.reply_to is not None:
        told["reference"] = {"messageId": str(_ref(line, line.reply_to)), "channelId": str(CHAT), "guildId": "500"}
    return told


def _telegram(line: Line) -> dict[str, object]:
    told: dict[str, object] = {
        "id": _ref(line), "type": "message", "date": f"{_at(line):%Y-%m-%dT%H:%M:%S}",
        "date_unixtime": str(int(_at(line).timestamp())), "from": line.author,
        "from_id": f"user{abs(hash_of(line.author))}",
        "text": line.text, "text_entities": [{"type": "plain", "text": line.text}],
    }  # fmt: skip
    if line.reply_to is not None:
        told["reply_to_message_id"] = _ref(line, line.reply_to)
    return told


def hash_of(name: str) -> int:
    """Return a number for a name, the same in every process."""
    return int.from_bytes(name.encode()[-6:], "big") + len(name)
