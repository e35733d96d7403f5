"""Export files of our own making, one for each shape that a reader has to take."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

NOON = datetime(2021, 5, 4, 12, tzinfo=UTC)
GUILD, CHANNEL, GROUP = "500", "7001", 4242


def later(minutes: int) -> datetime:
    return NOON + timedelta(minutes=minutes)


def discord_message(number: int, text: str = "", **more: Any) -> dict[str, Any]:
    author = {"id": "11", "name": "ida", "discriminator": "0000", "nickname": "Ida", "isBot": False}
    at = later(number).isoformat(timespec="milliseconds")
    return {"id": str(number), "type": "Default", "timestamp": at, "timestampEdited": None, "isPinned": False,
            "content": text, "author": author, "attachments": [], "embeds": [], "reactions": []} | more  # fmt: skip


def discord_file(*messages: dict[str, Any], channel: dict[str, Any] | None = None, guild: str = GUILD) -> bytes:
    told = {"id": CHANNEL, "type": "GuildTextChat", "categoryId": "60", "name": "kiln"} | (channel or {})
    head = {"guild": {"id": guild, "name": "Potters"}, "channel": told, "dateRange": {"after": None, "before": None}}
    return json.dumps(head | {"messages": list(messages), "messageCount": len(messages)}, indent=2).encode()


def telegram_message(number: int, text: Any = "", **more: Any) -> dict[str, Any]:
    at = later(number)
    unix = str(int(at.timestamp()))
    return {"id": number, "type": "message", "date": f"{at:%Y-%m-%dT%H:%M:%S}", "date_unixtime": unix, "from": "Ida",
            "from_id": "user11", "text": text} | more  # fmt: skip


def telegram_service(number: int, action: str, **more: Any) -> dict[str, Any]:
    told = telegram_message(number, type="service", action=action, actor="Ida", actor_id="user11") | more
    return {name: value for name, value in told.items() if name not in ("from", "from_id")}


def telegram_chat(*messages: dict[str, Any], kind: str = "public_supergroup", chat: int = GROUP) -> dict[str, Any]:
    return {"name": "Potters", "type": kind, "id": chat, "messages": list(messages)}


def telegram_file(*messages: dict[str, Any], kind: str = "public_supergroup", chat: int = GROUP) -> bytes:
    return json.dumps(telegram_chat(*messages, kind=kind, chat=chat), indent=1, ensure_ascii=False).encode()


def jsonl_line(number: int, text: str = "clay", **more: Any) -> dict[str, Any]:
    return {"room": "kiln", "message_id": f"m{number}", "author": "ida", "ts": later(number).isoformat(),
            "text": text, "reply_to": None, "session": None, "caption": None} | more  # fmt: skip


def jsonl_file(*lines: dict[str, Any]) -> bytes:
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
